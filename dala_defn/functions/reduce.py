"""Reductions, cumulative functions and sorting, with NumPy's ``axis``, ``keepdims`` and ``dtype``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.dtypes import accumulator
from dala_defn.functions.base import convert, dim_value, dtype_of, inexact, value
from dala_defn.functions.complexes import complex, imag, real
from dala_defn.functions.elementwise import absolute, sqrt, where
from dala_defn.functions.shape import ravel, reshape
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axes, normalize_axis, size

Axis = int | Sequence[int] | None


def _reduce(op: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    axes = normalize_axes(axis, len(x.shape))
    out = OPS[op](x, axes=axes)
    if keepdims and axes:
        out = OPS["reshape"](out, shape=tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
    return out


def _accumulate(x: Any, dtype: Any) -> Any:
    x = value(x)
    return convert(x, accumulator(dtype_of(x)) if dtype is None else dtypes.as_dtype(dtype))


def sum(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over axes (all by default). Small integers and bool widen to int32 or uint32; floats keep their dtype.

    Raises:
        ShapeError: for an axis that is out of range or named twice.

    Example:
        >>> dd.sum(dd.array([[1, 2], [3, 4]]), axis=0)
        array([4, 6], dtype=int32)
    """
    return _reduce("sum", _accumulate(x, dtype), axis, keepdims)


def prod(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product over axes (all by default), with the dtypes of ``sum``.

    Example:
        >>> dd.prod(dd.array([2, 3]))
        array(6, dtype=int32)
    """
    return _reduce("prod", _accumulate(x, dtype), axis, keepdims)


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest over axes (all by default); NaN wins. Ties share the derivative equally.

    Raises:
        ShapeError: for an axis of size 0.

    Example:
        >>> dd.max(dd.array([1, 3, 2]))
        array(3, dtype=int32)
    """
    return _reduce("max", value(x), axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest over axes (all by default); NaN wins. Ties share the derivative equally.

    Raises:
        ShapeError: for an axis of size 0.

    Example:
        >>> dd.min(dd.array([1, 3, 2]))
        array(1, dtype=int32)
    """
    return _reduce("min", value(x), axis, keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether any element along axes is nonzero; bool.

    Example:
        >>> dd.any(dd.array([False, True]))
        array(True)
    """
    return _reduce("max", convert(value(x), dtypes.bool_), axis, keepdims)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether all elements along axes are nonzero; bool.

    Example:
        >>> dd.all(dd.array([False, True]))
        array(False)
    """
    return _reduce("min", convert(value(x), dtypes.bool_), axis, keepdims)


def mean(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The mean over axes (all by default); float32 for integers. float16 and bfloat16 are summed in float32.

    Example:
        >>> dd.mean(dd.array([1, 2]))
        array(1.5, dtype=float32)
    """
    x = value(x)
    out = dtypes.as_dtype(dtype) if dtype is not None else dtypes.to_inexact(dtype_of(x))
    wide = dtypes.float32 if out.itemsize == 2 else out
    x = convert(x, wide)
    axes = normalize_axes(axis, len(x.shape))
    count = dim_value(size(x.shape[a] for a in axes), dtypes.real_of(wide))
    total = _reduce("sum", x, axes, keepdims)
    if wide.kind == "c":
        return complex(*(OPS["div"](part, count) for part in (real(total), imag(total))))
    return convert(OPS["div"](total, count), out)


def var(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """The variance over axes: the mean square distance from the mean, divided by the count less ``ddof``; it is real.

    Example:
        >>> dd.var(dd.array([1.0, 3.0]))
        array(1., dtype=float32)
    """
    x = inexact(x)
    out = dtype_of(x)
    wide = convert(x, dtypes.float32) if out.itemsize == 2 else x
    axes = normalize_axes(axis, len(x.shape))
    center = OPS["sub"](wide, mean(wide, axes, keepdims=True))
    if out.kind == "c":
        parts, out = (real(center), imag(center)), dtypes.real_of(out)
        squares = OPS["add"](*(OPS["mul"](part, part) for part in parts))
    else:
        squares = OPS["mul"](center, center)
    total = _reduce("sum", squares, axes, keepdims)
    return convert(total / dim_value(size(x.shape[a] for a in axes) - ddof, dtype_of(total)), out)


def std(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """The standard deviation over axes: the square root of ``var``.

    Example:
        >>> dd.std(dd.array([1.0, 3.0]))
        array(1., dtype=float32)
    """
    return sqrt(var(x, axis, ddof, keepdims))


def _arg(op: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = value(x)
    rank = len(x.shape)
    if axis is None:
        out = OPS[op](ravel(x), axis=0)
        return reshape(out, (1,) * rank) if keepdims else out
    place = normalize_axis(axis, rank)
    out = OPS[op](x, axis=place)
    return reshape(out, tuple(1 if i == place else d for i, d in enumerate(x.shape))) if keepdims else out


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The int32 index of the largest along an axis (flattened by default); the first of several; NaN wins.

    Example:
        >>> dd.argmax(dd.array([1, 3, 3]))
        array(1, dtype=int32)
    """
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The int32 index of the smallest along an axis (flattened by default); the first of several; NaN wins.

    Example:
        >>> dd.argmin(dd.array([1, 0, 0]))
        array(1, dtype=int32)
    """
    return _arg("argmin", x, axis, keepdims)


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    x = value(x)
    return (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """The running sum along an axis (flattened by default), with the dtypes of ``sum``.

    Example:
        >>> dd.cumsum(dd.array([1, 2, 3]))
        array([1, 3, 6], dtype=int32)
    """
    x, place = _along(_accumulate(x, dtype), axis)
    return OPS["cumsum"](x, axis=place, reverse=False)


def cummax(x: Any, axis: int | None = None) -> Any:
    """The running maximum along an axis (flattened by default); NaN goes on.

    Example:
        >>> dd.cummax(dd.array([1, 3, 2]))
        array([1, 3, 3], dtype=int32)
    """
    x, place = _along(x, axis)
    return OPS["cummax"](x, axis=place, reverse=False)


def sort(x: Any, axis: int | None = -1) -> Any:
    """The elements in ascending order along an axis (``None``: flattened); NaN comes last.

    Example:
        >>> dd.sort(dd.array([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """
    x, place = _along(x, axis)
    return OPS["sort"](x, axis=place)


def argsort(x: Any, axis: int | None = -1) -> Any:
    """The int32 indices that sort along an axis (``None``: flattened), ascending and stable; NaN comes last.

    Example:
        >>> dd.argsort(dd.array([3, 1, 2]))
        array([1, 2, 0], dtype=int32)
    """
    x, place = _along(x, axis)
    return OPS["argsort"](x, axis=place)


def norm(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The Euclidean norm over axes (all by default), scaled so that squares do not overflow.

    The derivative at 0 is 0.

    Example:
        >>> dd.norm(dd.array([3.0, 4.0]))
        array(5., dtype=float32)
    """
    x = inexact(x)
    if dtype_of(x).kind == "c":
        x = absolute(x)
    largest = OPS["stop_gradient"](max(absolute(x), axis, keepdims=True)) if size(x.shape) != 0 else 1
    scale = where(OPS["isfinite"](largest) & (largest > 0), largest, 1) if size(x.shape) != 0 else 1
    scaled = x / scale
    total = sum(scaled * scaled, axis, keepdims=True)
    out = where(total > 0, sqrt(total), total) * scale
    return out if keepdims else reshape(out, tuple(sum(x, axis).shape))
