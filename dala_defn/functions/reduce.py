"""Reductions, with NumPy's ``axis``, ``keepdims``, ``dtype``, ``initial`` and ``where``."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType, accumulator
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions import complexes
from dala_defn.functions.base import convert, dim_value, dtype_of, operands, own, real
from dala_defn.functions.elementwise import absolute, maximum, minimum, sqrt, where
from dala_defn.functions.shape import ravel, reshape
from dala_defn.ops.spec import OPS, check_dtype
from dala_defn.shapes import Dim, Shape, normalize_axes, normalize_axis, show, size

Axis = int | Sequence[int] | None


def _reduce(op: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    axes = normalize_axes(axis, len(x.shape))
    out = OPS[op](x, axes=axes)
    if keepdims and axes:
        out = OPS["reshape"](out, shape=kept_shape(x.shape, axes))
    return out


def kept_shape(shape: Sequence[Dim], axes: Sequence[int]) -> Shape:
    """A shape with some sizes made 1."""
    return tuple(1 if i in axes else d for i, d in enumerate(shape))


def masked(x: Any, mask: Any, instead: Any) -> Any:
    """``x`` where the mask holds (all of it without one), else the other; the mask may also stretch ``x``."""
    return x if mask is None else where(mask, x, convert(instead, dtype_of(x)))


def _accumulate(x: Any, dtype: Any) -> Any:
    x = own(x)
    return convert(x, accumulator(dtype_of(x)) if dtype is None else dtypes.as_dtype(dtype))


def sum(
    x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """The sum over axes (all by default). Small integers and bool widen to int32 or uint32; floats keep their dtype.

    ``initial`` is added; only elements where ``where`` holds count.

    Raises:
        ShapeError: for an axis that is out of range or named twice.

    Example:
        >>> dd.sum(dd.array([[1, 2], [3, 4]]), axis=0)
        array([4, 6], dtype=int32)
    """
    out = _reduce("sum", masked(_accumulate(x, dtype), where, 0), axis, keepdims)
    return out if initial is None else out + convert(initial, dtype_of(out))


def prod(
    x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """The product over axes (all by default), with the dtypes of ``sum``.

    The product is multiplied by ``initial``; only elements where ``where`` holds count.

    Example:
        >>> dd.prod(dd.array([2, 3]))
        array(6, dtype=int32)
    """
    out = _reduce("prod", masked(_accumulate(x, dtype), where, 1), axis, keepdims)
    return out if initial is None else out * convert(initial, dtype_of(out))


def extreme(dtype: DType, high: bool) -> Any:
    """The largest (or smallest) element of a dtype."""
    if dtype.kind == "b":
        return high
    if dtype.is_float:
        return math.inf if high else -math.inf
    info = np.iinfo(dtype.dtype)
    return int(info.max if high else info.min)


def _outermost(op: str, x: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Any:
    x = own(x)
    if where is not None and initial is None:
        raise ArgumentError(f"{op} over a part of an array needs initial=, for when the part is empty")
    check_dtype(op, dtype_of(x), dtypes.ARRAYS)
    least = extreme(dtype_of(x), op == "min")
    x = masked(x, where, least)
    axes = normalize_axes(axis, len(x.shape))
    empty = builtins.any(x.shape[a] == 0 for a in axes)
    if initial is None:
        if empty and dtype_of(x).kind == "b":  # where the op itself has a result, for any and all
            raise ShapeError(f"{op} over an axis of size 0", op=op, hint="initial=")
        return _reduce(op, x, axis, keepdims)
    if empty:
        out = OPS["broadcast_to"](
            convert(least, dtype_of(x)), shape=tuple(d for i, d in enumerate(x.shape) if i not in axes)
        )
        out = reshape(out, kept_shape(x.shape, axes)) if keepdims else out
    else:
        out = _reduce(op, x, axis, keepdims)
    return (maximum if op == "max" else minimum)(out, convert(initial, dtype_of(x)))


def max(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The largest over axes (all by default); NaN wins. Ties share the derivative equally.

    The result is at least ``initial``; only elements where ``where`` holds count (which needs ``initial``).

    Raises:
        ShapeError: for an axis of size 0, without ``initial``.

    Example:
        >>> dd.max(dd.array([1, 3, 2]))
        array(3, dtype=int32)
    """
    return _outermost("max", x, axis, keepdims, initial, where)


def min(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The smallest over axes (all by default); NaN wins. Ties share the derivative equally.

    The result is at most ``initial``; only elements where ``where`` holds count (which needs ``initial``).

    Raises:
        ShapeError: for an axis of size 0, without ``initial``.

    Example:
        >>> dd.min(dd.array([1, 3, 2]))
        array(1, dtype=int32)
    """
    return _outermost("min", x, axis, keepdims, initial, where)


def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest less the smallest over axes (all by default).

    Example:
        >>> dd.ptp(dd.array([1, 5, 2]))
        array(4, dtype=int32)
    """
    x = own(x)
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether any element along axes is nonzero; bool. Only elements where ``where`` holds count.

    Example:
        >>> dd.any(dd.array([False, True]))
        array(True)
    """
    return _outermost("max", convert(own(x), dtypes.bool_), axis, keepdims, False, where)


def all(x: Any, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """Whether all elements along axes are nonzero; bool. Only elements where ``where`` holds count.

    Example:
        >>> dd.all(dd.array([False, True]))
        array(False)
    """
    return _outermost("min", convert(own(x), dtypes.bool_), axis, keepdims, True, where)


def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements along axes are not zero; int32.

    Example:
        >>> dd.count_nonzero(dd.array([0, 7, 2]))
        array(2, dtype=int32)
    """
    return sum(convert(own(x), dtypes.bool_), axis, dtypes.DEFAULT_INT, keepdims)


def _count(x: Any, axes: Sequence[int], dtype: DType, mask: Any, keepdims: bool) -> Any:
    """How many elements go into each result."""
    if mask is None:
        return dim_value(size(x.shape[a] for a in axes), dtype)
    ones = where(mask, OPS["broadcast_to"](convert(1, dtype), shape=tuple(x.shape)), 0)
    return _reduce("sum", ones, axes, keepdims)


def mean(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """The mean over axes (all by default); float32 for integers. float16 and bfloat16 are summed in float32.

    Only elements where ``where`` holds count; the mean of nothing is NaN.

    Example:
        >>> dd.mean(dd.array([1, 2]))
        array(1.5, dtype=float32)
    """
    x = own(x)
    out = dtypes.as_dtype(dtype) if dtype is not None else dtypes.to_inexact(dtype_of(x))
    wide = dtypes.float32 if out.itemsize == 2 else out
    x = masked(convert(x, wide), where, 0)
    axes = normalize_axes(axis, len(x.shape))
    total, count = _reduce("sum", x, axes, keepdims), _count(x, axes, dtypes.real_of(wide), where, keepdims)
    if wide.kind == "c":
        return complexes.complex(*(OPS["div"](*operands(part, count)) for part in complexes.parts(total)))
    return convert(OPS["div"](*operands(total, count)), out)


def var(
    x: Any,
    axis: Axis = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The variance over axes: the mean square distance from the mean, divided by the count less ``ddof``; it is real.

    ``correction`` is another name for ``ddof``. Only elements where ``where`` holds count.

    Example:
        >>> dd.var(dd.array([1.0, 3.0]))
        array(1., dtype=float32)
    """
    x = real(x) if dtype is None else convert(own(x), dtypes.as_dtype(dtype))
    out = dtype_of(x)
    wide = convert(x, dtypes.float32) if out.itemsize == 2 else x
    axes = normalize_axes(axis, len(x.shape))
    center = masked(OPS["sub"](*operands(wide, mean(wide, axes, keepdims=True, where=where))), where, 0)
    if out.kind == "c":
        squares = OPS["add"](*(OPS["mul"](part, part) for part in complexes.parts(center)))
        out = dtypes.real_of(out)
    else:
        squares = OPS["mul"](center, center)
    total = _reduce("sum", squares, axes, keepdims)
    less = ddof if correction is None else correction
    if where is None and isinstance(less, int):
        count = size(x.shape[a] for a in axes) - less
        return convert(
            total / dim_value(builtins.max(count, 0) if isinstance(count, int) else count, dtype_of(total)), out
        )
    return convert(total / maximum(_count(center, axes, dtype_of(total), where, keepdims) - less, 0), out)


def std(
    x: Any,
    axis: Axis = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation over axes: the square root of ``var``.

    Example:
        >>> dd.std(dd.array([1.0, 3.0]))
        array(1., dtype=float32)
    """
    return sqrt(var(x, axis, ddof, keepdims, dtype=dtype, where=where, correction=correction))


def average(x: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The weighted mean over axes (all by default). ``weights`` have the shape of ``x``, or that of the axes.

    With ``returned`` a pair: the mean and the sum of the weights.

    Raises:
        ShapeError: when the weights fit neither.

    Example:
        >>> dd.average(dd.array([1.0, 3.0]), weights=dd.array([3.0, 1.0]))
        array(1.5, dtype=float32)
    """
    x = real(x)
    axes = normalize_axes(axis, len(x.shape))
    if weights is None:
        out = mean(x, axes, keepdims=keepdims)
        count = convert(_count(x, axes, dtype_of(x), None, keepdims), dtype_of(out))
        return (out, OPS["broadcast_to"](count, shape=tuple(out.shape))) if returned else out
    w = own(weights)
    if tuple(w.shape) != tuple(x.shape):
        if tuple(w.shape) != tuple(x.shape[a] for a in axes):
            raise ShapeError(f"average: weights {show(w.shape)} for {show(x.shape)} over the axes {axes}")
        w = reshape(w, tuple(d if i in axes else 1 for i, d in enumerate(x.shape)))
        w = OPS["broadcast_to"](w, shape=tuple(x.shape))
    x, w = (real(v) for v in operands(x, w))
    total = _reduce("sum", w, axes, keepdims)
    out = _reduce("sum", x * w, axes, keepdims) / total
    return (out, total) if returned else out


def _arg(op: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = own(x)
    rank = len(x.shape)
    if axis is None:
        out = OPS[op](ravel(x), axis=0)
        return reshape(out, (1,) * rank) if keepdims else out
    place = normalize_axis(axis, rank)
    out = OPS[op](x, axis=place)
    return reshape(out, kept_shape(x.shape, (place,))) if keepdims else out


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


def norm(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The Euclidean norm over axes (all by default), scaled so that squares do not overflow.

    The derivative at 0 is 0.

    Example:
        >>> dd.norm(dd.array([3.0, 4.0]))
        array(5., dtype=float32)
    """
    x = real(x)
    if dtype_of(x).kind == "c":
        x = absolute(x)
    largest = OPS["stop_gradient"](max(absolute(x), axis, keepdims=True)) if size(x.shape) != 0 else 1
    scale = where(OPS["isfinite"](largest) & (largest > 0), largest, 1) if size(x.shape) != 0 else 1
    scaled = x / scale
    total = sum(scaled * scaled, axis, keepdims=True)
    out = where(total > 0, sqrt(total), total) * scale
    return out if keepdims else reshape(out, tuple(sum(x, axis).shape))


__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]
