"""Linear algebra that is made of products and sums, with NumPy's names; no decompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, own, owned, real
from dala_defn.functions.contraction import kron, matrix_transpose, vecdot
from dala_defn.functions.grids import diagonal as _diagonal
from dala_defn.functions.linear import matmul, outer, tensordot
from dala_defn.shapes import normalize_axes, normalize_axis, show


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The elements of a diagonal of the last two axes, in a new last axis.

    Example:
        >>> dd.linalg.diagonal(dd.arange(4).reshape(1, 2, 2))
        array([[0, 3]], dtype=int32)
    """
    return _diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of a diagonal of the last two axes, with the dtypes of ``sum``.

    Example:
        >>> dd.linalg.trace(dd.ones((3, 2, 2)))
        array([2., 2., 2.], dtype=float32)
    """
    return F.sum(diagonal(x, offset=offset), -1, dtype)


def cross(x: Any, y: Any, /, *, axis: int = -1) -> Any:
    """The cross products of vectors of three components along an axis; see ``dd.cross``.

    Example:
        >>> dd.linalg.cross(dd.array([1, 0, 0]), dd.array([0, 1, 0]))
        array([0, 0, 1], dtype=int32)
    """
    return F.cross(x, y, axis=axis)


def _power_sum(a: Any, p: float, axes: tuple[int, ...]) -> Any:
    """The p-norm of what is not negative, scaled so that powers do not overflow; the derivative at 0 is 0."""
    high = F.stop_gradient(F.max(a, axes, keepdims=True, initial=0))
    scale = F.where(F.logical_and(F.isfinite(high), high > 0), high, 1)
    scaled = a / scale
    total = F.sum(F.power(scaled, p) if p != 2 else scaled * scaled, axes, keepdims=True)
    safe = F.where(total > 0, total, 1)
    root = F.sqrt(safe) if p == 2 else F.power(safe, convert(1 / p, dtype_of(a)))
    return F.where(total > 0, root, total) * scale


def _vector_norm(a: Any, axes: tuple[int, ...], order: Any) -> Any:
    if order == math.inf:
        return F.max(a, axes, keepdims=True, initial=0)
    if order == -math.inf:
        return F.min(a, axes, keepdims=True, initial=math.inf)
    if order == 0:
        return F.sum(convert(a != 0, dtype_of(a)), axes, keepdims=True)
    if order == 1:
        return F.sum(a, axes, keepdims=True)
    if order > 0:
        return _power_sum(a, float(order), axes)
    return F.power(F.sum(F.power(a, float(order)), axes, keepdims=True), convert(1 / float(order), dtype_of(a)))


def _finish(out: Any, axes: Sequence[int], keepdims: bool) -> Any:
    return out if keepdims else F.reshape(out, tuple(d for i, d in enumerate(out.shape) if i not in axes))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The p-norm over axes (all by default) as one vector; ``ord`` a number, inf or -inf. The derivative at 0 is 0.

    Example:
        >>> dd.linalg.vector_norm(dd.array([3.0, 4.0]))
        array(5., dtype=float32)
    """
    x = real(x)
    axes = normalize_axes(axis, len(x.shape))
    return _finish(_vector_norm(F.absolute(x), axes, ord), axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of the matrices in the last two axes: ``"fro"``, 1, -1, inf or -inf.

    Raises:
        ArgumentError: for 2, -2 and ``"nuc"``, which need singular values, and for anything else.

    Example:
        >>> dd.linalg.matrix_norm(dd.array([[3.0, 4.0]]), ord=1)
        array(4., dtype=float32)
    """
    x = real(x)
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"matrix_norm needs two axes, not {show(x.shape)}")
    return _matrix_norm(x, (rank - 2, rank - 1), ord, keepdims)


def _matrix_norm(x: Any, axes: tuple[int, int], order: Any, keepdims: bool) -> Any:
    a = F.absolute(x)
    rows, columns = axes
    if order in ("fro", "f", None):
        return _finish(_power_sum(a, 2.0, tuple(sorted(axes))), axes, keepdims)
    if order in (2, -2, "nuc"):
        raise ArgumentError(f"norm: ord={order!r} needs singular values", hint='"fro", 1, -1, inf or -inf')
    if order not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"norm: ord={order!r} is no norm of matrices", hint='"fro", 1, -1, inf or -inf')
    inner, outer_ = (rows, columns) if order in (1, -1) else (columns, rows)
    sums = F.sum(a, inner, keepdims=True)
    out = F.max(sums, outer_, keepdims=True, initial=0) if order > 0 else F.min(sums, outer_, keepdims=True)
    return _finish(out, axes, keepdims)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors (one axis) or matrices (two axes), as NumPy has it; the Euclidean norm of all by default.

    Raises:
        ArgumentError: for a norm that needs singular values (2, -2 or ``"nuc"`` of a matrix), or is none.

    Example:
        >>> dd.linalg.norm(dd.array([[3.0, 4.0]]), 1)
        array(4., dtype=float32)
    """
    x = real(x)
    rank = len(x.shape)
    if axis is None and (ord is None or rank == 0):
        axes = tuple(range(rank))
        return _finish(_power_sum(F.absolute(x), 2.0, axes), axes, keepdims)
    given = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    places = tuple(normalize_axis(a, rank) for a in given)
    if len(places) == 1:
        if isinstance(ord, str):
            raise ArgumentError(f"norm: ord={ord!r} is no norm of vectors")
        return _finish(_vector_norm(F.absolute(x), places, 2 if ord is None else ord), places, keepdims)
    if len(places) != 2 or places[0] == places[1]:
        raise ArgumentError(f"norm over the axes {given} of {show(x.shape)}", hint="one axis or two")
    return _matrix_norm(x, (places[0], places[1]), ord, keepdims)


def _square(name: str, x: Any) -> Any:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} needs square matrices, not {show(x.shape)}")
    return x


def matrix_power(x: Any, n: int) -> Any:
    """Square matrices to a whole power that is not negative, by repeated squaring.

    Raises:
        ShapeError: when they are not square.
        ArgumentError: for a negative power, which needs an inverse.

    Example:
        >>> dd.linalg.matrix_power(dd.array([[1, 1], [0, 1]]), 3)
        array([[1, 3],
               [0, 1]], dtype=int32)
    """
    x = _square("matrix_power", own(x))
    if not isinstance(n, int) or n < 0:
        raise ArgumentError(f"matrix_power: the power {n!r}", hint="a whole number from 0 on")
    if n == 0:
        return F.broadcast_to(F.eye(x.shape[-1], dtype=dtype_of(x)), tuple(x.shape))
    out: Any = None
    while n:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    return out


def multi_dot(arrays: Sequence[Any]) -> Any:
    """The product of several matrices (the first and last may be vectors) in the order that needs the fewest products.

    Sizes that are unknown are taken as large.

    Raises:
        ArgumentError: for fewer than two.
        ShapeError: for other ranks.

    Example:
        >>> dd.linalg.multi_dot([dd.ones((2, 3)), dd.ones((3, 4)), dd.ones(4)]).shape
        (2,)
    """
    parts = owned(*arrays)
    if len(parts) < 2:
        raise ArgumentError("multi_dot needs two arrays at least")
    first, last = len(parts[0].shape) == 1, len(parts[-1].shape) == 1
    if first:
        parts[0] = F.reshape(parts[0], (1, -1))
    if last:
        parts[-1] = F.reshape(parts[-1], (-1, 1))
    if any(len(p.shape) != 2 for p in parts):
        raise ShapeError("multi_dot takes matrices")
    sizes = [d if isinstance(d, int) else 10**4 for d in (*(p.shape[0] for p in parts), parts[-1].shape[1])]
    n = len(parts)
    cost = np.zeros((n, n))
    cut = np.zeros((n, n), int)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cut[i, j] = i + int(np.argmin(options))
            cost[i, j] = min(options)

    def product(i: int, j: int) -> Any:
        return parts[i] if i == j else matmul(product(i, cut[i, j]), product(cut[i, j] + 1, j))

    out = product(0, n - 1)
    keep = [d for d, lost in zip(out.shape, (first, last), strict=True) if not lost]
    return F.reshape(out, tuple(keep))


__all__ = [
    "cross",
    "diagonal",
    "kron",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
