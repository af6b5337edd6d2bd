"""Linear algebra that is made of products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import dtype_of, own, owned
from dala_defn.functions.grids import diagonal as _diagonal
from dala_defn.functions.linear import matmul
from dala_defn.linalg.solving import inv
from dala_defn.shapes import show


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


def _square(name: str, x: Any) -> Any:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} needs square matrices, not {show(x.shape)}")
    return x


def matrix_power(x: Any, n: int) -> Any:
    """Square matrices to a whole power, by repeated squaring; the inverse to a positive power for a negative one.

    Raises:
        ShapeError: when they are not square.
        ArgumentError: for a power that is no whole number.

    Example:
        >>> dd.linalg.matrix_power(dd.array([[1, 1], [0, 1]]), 3)
        array([[1, 3],
               [0, 1]], dtype=int32)
    """
    x = _square("matrix_power", own(x))
    if not isinstance(n, (int, np.integer)):
        raise ArgumentError(f"matrix_power: the power {n!r}", hint="a whole number")
    if n < 0:
        x, n = inv(x), -n
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
