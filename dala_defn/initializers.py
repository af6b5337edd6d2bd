"""First values of parameters, with Keras's names: each is ``f(key, shape, dtype) -> array``.

The fans of a shape are those of a dense kernel ``(in, out)`` or a convolution kernel ``(*size, in, out)``: the sizes
of the window multiply both. A vector of ``n`` has the fans ``n`` and ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, random
from dala_defn import functions as F
from dala_defn.errors import ArgumentError
from dala_defn.shapes import as_shape

Initializer = Callable[..., Any]

# The standard deviation of a normal distribution that is cut at two standard deviations.
_CUT = 0.87962566103423978


def zeros(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """All 0; the key is not used.

    Example:
        >>> dd.initializers.zeros(dd.random.key(0), (2,))
        array([0., 0.], dtype=float32)
    """
    return F.zeros(shape, dtype)


def ones(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """All 1; the key is not used.

    Example:
        >>> dd.initializers.ones(dd.random.key(0), (2,))
        array([1., 1.], dtype=float32)
    """
    return F.ones(shape, dtype)


def constant(value: Any = 0.0) -> Initializer:
    """An initializer that gives this value everywhere.

    Example:
        >>> dd.initializers.constant(3.0)(dd.random.key(0), (2,))
        array([3., 3.], dtype=float32)
    """

    def initialize(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
        return F.full(shape, value, dtype)

    return initialize


def fans(shape: Any) -> tuple[int, int]:
    """How many values go into an output, and how many outputs a value goes to.

    Raises:
        ArgumentError: when a size is not known.

    Example:
        >>> dd.initializers.fans((3, 3, 8, 16))
        (72, 144)
    """
    sizes = as_shape(shape)
    known = [d for d in sizes if isinstance(d, int)]
    if len(known) != len(sizes):
        raise ArgumentError(f"a parameter needs sizes that are known, not {sizes}")
    if len(known) < 2:
        n = known[0] if known else 1
        return n, n
    window = math.prod(known[:-2])
    return window * known[-2], window * known[-1]


def truncated_normal(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Normal numbers of variance 1 before they are cut to [-2, 2]: the normal quantiles of uniform numbers.

    The quantile is found by Newton's steps from 0, which rise to it without overshooting as the distribution function
    is concave on the side of the root; six give float32's accuracy.

    Example:
        >>> dd.initializers.truncated_normal(dd.random.key(0), (2,)).shape
        (2,)
    """
    to = dtypes.as_dtype(dtype)
    wide = dtypes.float32 if to.itemsize == 2 else to
    edge = math.erf(math.sqrt(2))
    target = random.uniform(key, shape, wide, -edge, edge)
    z = F.zeros_like(target)
    for _ in range(6 if wide is dtypes.float32 else 8):
        slope = math.sqrt(2 / math.pi) * F.exp(-0.5 * z * z)
        z = z - (F.erf(z * math.sqrt(0.5)) - target) / slope
    return F.astype(F.clip(z, -2.0, 2.0), to)


def _uniform(scale: Callable[[int, int], float]) -> Initializer:
    def initialize(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
        limit = math.sqrt(3 * scale(*fans(shape)))
        return random.uniform(key, shape, dtype, -limit, limit)

    return initialize


def _normal(scale: Callable[[int, int], float]) -> Initializer:
    def initialize(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
        return truncated_normal(key, shape, dtype) * (math.sqrt(scale(*fans(shape))) / _CUT)

    return initialize


def glorot_uniform(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Uniform of variance ``2 / (in + out)``: within ``sqrt(6 / (in + out))`` of 0 (Glorot and Bengio 2010).

    Example:
        >>> dd.initializers.glorot_uniform(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _uniform(lambda i, o: 2 / max(i + o, 1))(key, shape, dtype)


def glorot_normal(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Normal of variance ``2 / (in + out)``, cut at two standard deviations (Glorot and Bengio 2010).

    As in Keras the variance is that of the numbers after the cut.

    Example:
        >>> dd.initializers.glorot_normal(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _normal(lambda i, o: 2 / max(i + o, 1))(key, shape, dtype)


def he_uniform(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Uniform of variance ``2 / in`` (He et al. 2015), for layers that are followed by relu.

    Example:
        >>> dd.initializers.he_uniform(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _uniform(lambda i, o: 2 / max(i, 1))(key, shape, dtype)


def he_normal(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Normal of variance ``2 / in``, cut at two standard deviations (He et al. 2015).

    Example:
        >>> dd.initializers.he_normal(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _normal(lambda i, o: 2 / max(i, 1))(key, shape, dtype)


def lecun_uniform(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Uniform of variance ``1 / in`` (LeCun et al. 1998).

    Example:
        >>> dd.initializers.lecun_uniform(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _uniform(lambda i, o: 1 / max(i, 1))(key, shape, dtype)


def lecun_normal(key: Any, shape: Any, dtype: Any = dtypes.float32) -> Any:
    """Normal of variance ``1 / in``, cut at two standard deviations (LeCun et al. 1998).

    Example:
        >>> dd.initializers.lecun_normal(dd.random.key(0), (4, 2)).shape
        (4, 2)
    """
    return _normal(lambda i, o: 1 / max(i, 1))(key, shape, dtype)


_NAMED: dict[str, Initializer] = {
    f.__name__: f
    for f in (
        zeros,
        ones,
        glorot_uniform,
        glorot_normal,
        he_uniform,
        he_normal,
        lecun_uniform,
        lecun_normal,
        truncated_normal,
    )
}


def get(initializer: str | Initializer) -> Initializer:
    """An initializer by its name, or the function itself.

    Raises:
        ArgumentError: for an unknown name.

    Example:
        >>> dd.initializers.get("zeros") is dd.initializers.zeros
        True
    """
    if callable(initializer):
        return initializer
    found = _NAMED.get(initializer)
    if found is None:
        raise ArgumentError(f"there is no initializer {initializer!r}", rule=f"one of {', '.join(_NAMED)}")
    return found
