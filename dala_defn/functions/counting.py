"""Comparing whole arrays, and counting into bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.arithmetic import isclose
from dala_defn.functions.base import convert, dtype_of, literal, own, owned
from dala_defn.functions.creation import full
from dala_defn.functions.grids import linspace
from dala_defn.functions.reduce import all as _all
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import cut, ravel
from dala_defn.functions.sorting import searchsorted
from dala_defn.ops.spec import OPS
from dala_defn.shapes import show


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements are close, see ``isclose``; a bool array of rank 0.

    Example:
        >>> dd.allclose(dd.array([1.0]), dd.array([1.0000001]))
        array(True)
    """
    return _all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and the same elements; a bool array of rank 0.

    Example:
        >>> dd.array_equal(dd.array([1, 2]), dd.array([1, 2]))
        array(True)
    """
    x, y = owned(a1, a2)
    if tuple(x.shape) != tuple(y.shape):
        return literal(np.asarray(False), dtypes.bool_)
    same = x == y
    if equal_nan:
        same = E.logical_or(same, E.logical_and(E.isnan(x), E.isnan(y)))
    return _all(same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays are equal once stretched to one shape; a bool array of rank 0.

    Example:
        >>> dd.array_equiv(dd.array([1, 1]), 1)
        array(True)
    """
    x, y = owned(a1, a2)
    try:
        return _all(x == y)
    except ShapeError:
        return literal(np.asarray(False), dtypes.bool_)


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """How often each integer from 0 on occurs (int32), or the sums of their weights.

    Inside ``@defn`` ``length`` is needed; integers beyond it do not count. Outside it follows from the largest.

    Raises:
        ArgumentTypeError: for what is no integer, or without ``length`` while tracing.
        ArgumentError: for a negative integer, where its value is known.

    Example:
        >>> dd.bincount(dd.array([1, 1, 3]))
        array([0, 2, 0, 1], dtype=int32)
    """
    x = own(x)
    if not dtype_of(x).is_integer or len(x.shape) != 1:
        raise ArgumentTypeError(f"bincount takes a vector of integers, not {dtype_of(x)}{show(x.shape)}")
    if length is None:
        if ops.current_trace() is not None:
            raise ArgumentTypeError("bincount: the size of the result depends on values", hint="length=")
        numbers = np.asarray(x)
        if numbers.size and numbers.min() < 0:
            raise ArgumentError(f"bincount of the negative number {numbers.min()}")
        length = max(int(numbers.max()) + 1 if numbers.size else 0, minlength)
    length = max(length, minlength)
    if weights is None:
        new = full(tuple(x.shape), 1, dtypes.int32)
    else:
        new = own(weights)
        new = convert(new, dtypes.to_inexact(dtype_of(new)))
    blank = full((length,), 0, dtype_of(new))
    if length == 0:
        return blank
    return OPS["scatter_add"](blank, x, new, axis=0, batch_dims=0, mode="fill")


def histogram_bin_edges(x: Any, bins: Any = 10, range: Sequence[Any] | None = None) -> Any:
    """The edges of ``bins`` equal bins over a range (by default from the smallest to the largest), or ``bins`` itself.

    Example:
        >>> dd.histogram_bin_edges(dd.array([0.0, 4.0]), 2)
        array([0., 2., 4.], dtype=float32)
    """
    if not isinstance(bins, int):
        return own(bins)
    if bins < 1:
        raise ArgumentError(f"histogram: {bins} bins")
    x = ravel(own(x))
    x = convert(x, dtypes.to_inexact(dtype_of(x)))
    if range is not None:
        low, high = (convert(own(r), dtype_of(x)) for r in range)
    elif x.shape[0] == 0:
        low, high = (convert(v, dtype_of(x)) for v in (0.0, 1.0))
    else:
        low, high = OPS["min"](x, axes=(0,)), OPS["max"](x, axes=(0,))
    flat = low == high
    return linspace(E.where(flat, low - 0.5, low), E.where(flat, high + 0.5, high), bins + 1)


def histogram(
    x: Any, bins: Any = 10, range: Sequence[Any] | None = None, density: bool = False, weights: Any = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin (the last bin has both edges), and the edges.

    ``bins`` is a number of equal bins over ``range``, or the ascending edges. int32 counts, or sums of ``weights``;
    with ``density`` divided so that the integral is 1.

    Example:
        >>> dd.histogram(dd.array([0.0, 1.0, 1.5, 4.0]), 2)
        (array([3, 1], dtype=int32), array([0., 2., 4.], dtype=float32))
    """
    edges = histogram_bin_edges(x, bins, range)
    x = ravel(own(x))
    x, edges = owned(x, edges)
    n = edges.shape[0]
    if len(edges.shape) != 1 or not isinstance(n, int) or n < 2:
        raise ShapeError(f"histogram: edges {show(edges.shape)}")
    place = searchsorted(edges, x, "right") - 1
    place = E.where(x == edges[-1], n - 2, place)
    place = E.where(E.logical_or(place < 0, E.isnan(x)), n - 1, place)
    counts = bincount(place, None if weights is None else ravel(own(weights)), length=n - 1)
    if not density:
        return counts, edges
    width = cut(edges, 0, 1, n) - cut(edges, 0, 0, n - 1)
    real = convert(counts, dtypes.to_inexact(dtype_of(edges)))
    return real / width / _sum(real), edges


__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "bincount",
    "histogram",
    "histogram_bin_edges",
]
