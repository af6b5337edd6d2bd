"""Random numbers of continuous distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dala_defn import dtypes, linalg, special
from dala_defn import functions as F
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions.base import convert, own
from dala_defn.ops.spec import OPS
from dala_defn.random.keys import checked, split
from dala_defn.shapes import Shape, as_shape, broadcast_shapes, show, size


def uniform(k: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Floats in ``[minval, maxval)``, as many random bits as the mantissa has.

    Example:
        >>> dd.random.uniform(dd.random.key(0), (2,)).shape
        (2,)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_float:
        raise ArgumentTypeError(f"uniform gives floats, not {to}", hint="dd.random.randint")
    width, digits = (dtypes.uint64, 53) if to is dtypes.float64 else (dtypes.uint32, _DIGITS[to])
    raw = OPS["random_bits"](checked(k), shape=as_shape(shape), dtype=width)
    whole = raw >> (width.itemsize * 8 - digits)
    unit = convert(whole, to) * 2.0**-digits
    if minval == 0.0 and maxval == 1.0:
        return unit
    low, high = convert(minval, to), convert(maxval, to)
    return unit * (high - low) + low


_DIGITS = {dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def normal(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Normal floats of mean 0 and variance 1, by Box and Muller's transformation (1958).

    Example:
        >>> dd.random.normal(dd.random.key(0), (2,)).shape
        (2,)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    wide = dtypes.float32 if to.itemsize == 2 else to
    sizes = as_shape(shape)
    pairs = uniform(k, (2, size(sizes)), wide)
    radius = F.sqrt(-2.0 * F.log1p(-pairs[0]))
    return convert(F.reshape(radius * F.cos((2.0 * np.pi) * pairs[1]), sizes), to)


def _float(name: str, dtype: Any) -> tuple[DType, DType]:
    """The dtype of the result, and the one to compute in."""
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_float:
        raise ArgumentTypeError(f"{name} gives floats, not {to}")
    return to, dtypes.float32 if to.itemsize == 2 else to


def _inside(k: Any, shape: Any, wide: DType) -> Any:
    """Uniform numbers between 0 and 1, both left out."""
    return F.maximum(uniform(k, shape, wide), 2.0 ** -(54 if wide is dtypes.float64 else 25))


def _parameters(shape: Any, wide: DType, *values: Any) -> tuple[Shape, list[Any]]:
    """The shape of the result (that of the parameters unless given), and the parameters stretched to it."""
    given = [convert(own(v), wide) for v in values]
    common = broadcast_shapes(*(tuple(v.shape) for v in given))
    sizes = common if shape is None else as_shape(shape)
    return sizes, [F.broadcast_to(v, sizes) for v in given]


def exponential(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Exponential floats of mean 1.

    Example:
        >>> dd.random.exponential(dd.random.key(0), (2,)).shape
        (2,)
    """
    to, wide = _float("exponential", dtype)
    return convert(-F.log1p(-uniform(k, shape, wide)), to)


def laplace(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Laplace floats of mean 0 and scale 1: differences of two exponential ones.

    Example:
        >>> dd.random.laplace(dd.random.key(0), (2,)).shape
        (2,)
    """
    to, wide = _float("laplace", dtype)
    pair = exponential(k, (2, *as_shape(shape)), wide)
    return convert(pair[0] - pair[1], to)


def logistic(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Logistic floats of mean 0 and scale 1.

    Example:
        >>> dd.random.logistic(dd.random.key(0), (2,)).shape
        (2,)
    """
    to, wide = _float("logistic", dtype)
    u = _inside(k, shape, wide)
    return convert(F.log(u) - F.log1p(-u), to)


def gumbel(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Gumbel floats of location 0 and scale 1.

    Example:
        >>> dd.random.gumbel(dd.random.key(0), (2,)).shape
        (2,)
    """
    to, wide = _float("gumbel", dtype)
    return convert(-F.log(-F.log1p(-_inside(k, shape, wide))), to)


def cauchy(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Cauchy floats of location 0 and scale 1.

    Example:
        >>> dd.random.cauchy(dd.random.key(0), (2,)).shape
        (2,)
    """
    to, wide = _float("cauchy", dtype)
    return convert(F.tan(math.pi * (_inside(k, shape, wide) - 0.5)), to)


def rayleigh(k: Any, scale: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Rayleigh floats; of the shape of ``scale`` unless given.

    Example:
        >>> dd.random.rayleigh(dd.random.key(0), 2.0, (2,)).shape
        (2,)
    """
    to, wide = _float("rayleigh", dtype)
    sizes, (s,) = _parameters(shape, wide, scale)
    return convert(s * F.sqrt(2 * exponential(k, sizes, wide)), to)


def weibull(k: Any, scale: Any, concentration: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Weibull floats; of the common shape of the parameters unless given.

    Example:
        >>> dd.random.weibull(dd.random.key(0), 1.0, 2.0, (2,)).shape
        (2,)
    """
    to, wide = _float("weibull", dtype)
    sizes, (s, c) = _parameters(shape, wide, scale, concentration)
    return convert(s * F.power(exponential(k, sizes, wide), 1 / c), to)


def pareto(k: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Pareto floats from 1 on, with the index ``b``; of its shape unless given.

    Example:
        >>> dd.random.pareto(dd.random.key(0), 3.0, (2,)).shape
        (2,)
    """
    to, wide = _float("pareto", dtype)
    sizes, (index,) = _parameters(shape, wide, b)
    return convert(F.exp(exponential(k, sizes, wide) / index), to)


def lognormal(k: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """The exponential of normal floats of mean 0 and deviation ``sigma``; of its shape unless given.

    Example:
        >>> dd.random.lognormal(dd.random.key(0), 0.5, (2,)).shape
        (2,)
    """
    to, wide = _float("lognormal", dtype)
    sizes, (s,) = _parameters(shape, wide, sigma)
    return convert(F.exp(s * normal(k, sizes, wide)), to)


def triangular(k: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Triangular floats between ``left`` and ``right``; of the common shape of the parameters unless given.

    Example:
        >>> dd.random.triangular(dd.random.key(0), 0.0, 1.0, 2.0, (2,)).shape
        (2,)
    """
    to, wide = _float("triangular", dtype)
    sizes, (low, top, high) = _parameters(shape, wide, left, mode, right)
    u = uniform(k, sizes, wide)
    rise = (top - low) / (high - low)
    up = low + F.sqrt(u * (high - low) * (top - low))
    down = high - F.sqrt((1 - u) * (high - low) * (high - top))
    return convert(F.where(u < rise, up, down), to)


def truncated_normal(k: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Normal floats of mean 0 and deviation 1, given that they are within ``[lower, upper]``.

    Of the common shape of the bounds unless given. Far in a tail (beyond 5 in float32) the numbers are coarse.

    Example:
        >>> dd.random.truncated_normal(dd.random.key(0), -1.0, 1.0, (2,)).shape
        (2,)
    """
    to, wide = _float("truncated_normal", dtype)
    sizes, (low, high) = _parameters(shape, wide, lower, upper)
    root = math.sqrt(2)
    a, b = F.erf(low / root), F.erf(high / root)
    u = a + (b - a) * _inside(k, sizes, wide)
    return convert(F.clip(root * special.erfinv(u), low, high), to)


def multivariate_normal(
    k: Any,
    mean: Any,
    cov: Any = None,
    shape: Any = None,
    dtype: Any = None,
    *,
    method: str = "cholesky",
    cholesky: Any = None,
) -> Any:
    """Normal vectors of this mean and covariance.

    Args:
        k: a key.
        mean: (…, n).
        cov: (…, n, n), of which the lower triangle is read.
        shape: that before the vectors' own axis: by default what the leading axes of mean and covariance give.
        dtype: of the result, float32 by default.
        method: how a root of the covariance is found. ``"cholesky"`` is the fastest, and needs a positive definite one;
            ``"eigh"`` and ``"svd"`` take one without an inverse too. A covariance with negative eigenvalues gives NaN,
            but for ``"svd"``, which takes their sizes.
        cholesky: in the place of ``cov``, the lower triangle ``L`` of ``cov = L @ L.T``, where it is known.

    Raises:
        ShapeError: when mean and covariance do not fit.
        ArgumentError: for another method, or without one of ``cov`` and ``cholesky``.

    Example:
        >>> dd.random.multivariate_normal(dd.random.key(0), dd.zeros(2), dd.eye(2), (3,)).shape
        (3, 2)
    """
    if (cov is None) == (cholesky is None):
        raise ArgumentError("multivariate_normal takes either cov or cholesky")
    if method not in ("cholesky", "eigh", "svd"):
        raise ArgumentError(f"multivariate_normal: method={method!r}", hint='"cholesky", "eigh" or "svd"')
    to, wide = _float("multivariate_normal", dtype)
    mu, square = convert(own(mean), wide), convert(own(cov if cholesky is None else cholesky), wide)
    if len(mu.shape) < 1 or len(square.shape) < 2 or tuple(square.shape[-2:]) != (mu.shape[-1],) * 2:
        raise ShapeError(f"multivariate_normal: a mean {show(mu.shape)} with matrices {show(square.shape)}")
    lead = broadcast_shapes(tuple(mu.shape[:-1]), tuple(square.shape[:-2]))
    sizes = lead if shape is None else as_shape(shape)
    z = normal(k, (*sizes, mu.shape[-1]), wide)
    root = square if cholesky is not None else _root(square, method)
    return convert(mu + F.einsum("...ij,...j->...i", root, z), to)


def _root(cov: Any, method: str) -> Any:
    """An R with ``R @ R.T`` the covariance."""
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "svd":
        low = F.tril(cov)
        u, s, _ = linalg.svd(low + F.matrix_transpose(F.tril(cov, -1)))
        return u * F.expand_dims(F.sqrt(s), -2)
    w, v = linalg.eigh(cov)
    # An eigenvalue of 0 may come out a little below.
    least = -10 * F.finfo(w.dtype).eps * cov.shape[-1] * F.max(F.absolute(w), -1, keepdims=True, initial=0)
    size = F.where(w < least, math.nan, F.maximum(w, 0))
    return v * F.expand_dims(F.sqrt(size), -2)


_ROUNDS = 10  # a round fails at most one time in twenty


def gamma(k: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Gamma floats of shape parameter ``a`` and scale 1, by Marsaglia and Tsang's method (2000).

    Of the shape of ``a`` unless given. A fixed number of rounds is drawn and the first that is accepted taken; that
    none is has a probability below 1e-12.
    The derivative with respect to ``a`` is 0.

    Example:
        >>> dd.random.gamma(dd.random.key(0), 3.0, (2,)).shape
        (2,)
    """
    to, wide = _float("gamma", dtype)
    sizes, (alpha,) = _parameters(shape, wide, a)
    alpha = F.stop_gradient(alpha)
    keys = split(k, 3)
    small = alpha < 1
    d = F.where(small, alpha + 1, alpha) - 1 / 3
    c = 1 / F.sqrt(9 * d)
    x = normal(keys[0], (_ROUNDS, *sizes), wide)
    u = _inside(keys[1], (_ROUNDS, *sizes), wide)
    v = 1 + c * x
    v = v * v * v
    positive = v > 0
    bound = 0.5 * x * x + d * (1 - v + F.log(F.where(positive, v, 1)))
    accepted = F.logical_and(positive, F.log(u) < bound)
    first = F.argmax(convert(accepted, dtypes.int8), 0, keepdims=True)
    out = d * F.squeeze(F.take_along_axis(v, first, 0, mode="clip"), 0)
    boost = F.power(_inside(keys[2], sizes, wide), F.where(small, 1 / alpha, 0))
    return convert(F.where(small, out * boost, out), to)


def beta(k: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Beta floats; of the common shape of the parameters unless given. The derivatives are 0.

    Example:
        >>> dd.random.beta(dd.random.key(0), 2.0, 3.0, (2,)).shape
        (2,)
    """
    to, wide = _float("beta", dtype)
    sizes, (p, q) = _parameters(shape, wide, a, b)
    keys = split(k)
    x, y = gamma(keys[0], p, sizes, wide), gamma(keys[1], q, sizes, wide)
    return convert(x / (x + y), to)


def dirichlet(k: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Dirichlet vectors along a last axis as long as that of ``alpha``; ``shape`` is that before it.

    The derivatives are 0.

    Raises:
        ShapeError: when ``alpha`` has no axis.

    Example:
        >>> dd.random.dirichlet(dd.random.key(0), dd.ones(3), (2,)).shape
        (2, 3)
    """
    to, wide = _float("dirichlet", dtype)
    a = convert(own(alpha), wide)
    if not a.shape:
        raise ShapeError("dirichlet: alpha is a vector")
    lead = tuple(a.shape[:-1]) if shape is None else as_shape(shape)
    g = gamma(k, a, (*lead, a.shape[-1]), wide)
    return convert(g / F.sum(g, -1, keepdims=True), to)


def chisquare(k: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Chi-square floats with ``df`` degrees of freedom; of its shape unless given. The derivative is 0.

    Example:
        >>> dd.random.chisquare(dd.random.key(0), 3.0, (2,)).shape
        (2,)
    """
    to, wide = _float("chisquare", dtype)
    return convert(2 * gamma(k, convert(own(df), wide) / 2, shape, wide), to)


def t(k: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Student's t floats with ``df`` degrees of freedom; of its shape unless given. The derivative is 0.

    Example:
        >>> dd.random.t(dd.random.key(0), 3.0, (2,)).shape
        (2,)
    """
    to, wide = _float("t", dtype)
    sizes, (nu,) = _parameters(shape, wide, df)
    nu = F.stop_gradient(nu)
    keys = split(k)
    return convert(normal(keys[0], sizes, wide) / F.sqrt(chisquare(keys[1], nu, sizes, wide) / nu), to)


__all__ = [
    "beta",
    "cauchy",
    "chisquare",
    "dirichlet",
    "exponential",
    "gamma",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multivariate_normal",
    "normal",
    "pareto",
    "rayleigh",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "weibull",
]
