"""Functions that change shape and order without computing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from dala_defn import ops
from dala_defn.dtypes import as_dtype, int32
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, offset, operands, same, value
from dala_defn.ops.spec import OPS
from dala_defn.shapes import (
    Condition,
    Dim,
    DimExpr,
    as_shape,
    divide,
    floordiv,
    may,
    normalize_axes,
    normalize_axis,
    show,
    size,
)


def reshape(x: Any, shape: Any, *more: Any, copy: bool | None = None) -> Any:
    """The same elements in row-major order under another shape; one size may be -1.

    ``copy`` changes nothing: arrays are immutable.

    Raises:
        ShapeError: when the number of elements differs, or -1 cannot be determined.

    Example:
        >>> dd.reshape(dd.arange(4), (2, -1))
        array([[0, 1],
               [2, 3]], dtype=int32)
    """
    x = value(x)
    given = shape if isinstance(shape, (tuple, list)) and not more else (shape, *more)
    wanted = list(given)
    unknown = [i for i, d in enumerate(wanted) if not isinstance(d, (DimExpr, str)) and d == -1]
    if len(unknown) > 1:
        raise ShapeError("reshape: only one size can be -1", op="reshape", code="E102")
    sizes = list(as_shape([1 if i in unknown else d for i, d in enumerate(wanted)]))
    if unknown:
        rest = size(sizes)
        total = size(x.shape)
        fill = None if rest == 0 else divide(total, rest)
        if fill is None and rest != 0 and not isinstance(total, int):
            fill = floordiv(total, rest)
            even = Condition(fill * rest, "==", total, f"{total} % {rest} == 0")
            if not may(even, f"reshape of {show(x.shape)} into {show(wanted)}"):
                fill = None
        if fill is None:
            raise ShapeError(
                f"reshape: the -1 in {tuple(wanted)} cannot be determined for {show(x.shape)}",
                op="reshape",
                code="E102",
                rule=f"{size(x.shape)} elements must divide evenly by {rest}",
            )
        sizes[unknown[0]] = fill
    return same(x) if tuple(sizes) == tuple(x.shape) else OPS["reshape"](x, shape=tuple(sizes))


def ravel(x: Any) -> Any:
    """All elements along one axis.

    Example:
        >>> dd.ravel(dd.array([[1, 2]]))
        array([1, 2], dtype=int32)
    """
    x = value(x)
    return reshape(x, (size(x.shape),))


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order; reversed when none is given.

    Example:
        >>> dd.transpose(dd.zeros((2, 3))).shape
        (3, 2)
    """
    x = value(x)
    rank = len(x.shape)
    order = tuple(range(rank))[::-1] if axes is None else tuple(normalize_axis(a, rank) for a in axes)
    return same(x) if order == tuple(range(rank)) else OPS["transpose"](x, axes=order)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    Example:
        >>> dd.swapaxes(dd.zeros((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    x = value(x)
    order = list(range(len(x.shape)))
    a, b = normalize_axis(axis1, len(order)), normalize_axis(axis2, len(order))
    order[a], order[b] = order[b], order[a]
    return transpose(x, order)


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other places, the rest in their order.

    Example:
        >>> dd.moveaxis(dd.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    x = value(x)
    rank = len(x.shape)
    src = [normalize_axis(a, rank) for a in ([source] if isinstance(source, int) else source)]
    dst = [normalize_axis(a, rank) for a in ([destination] if isinstance(destination, int) else destination)]
    if len(src) != len(dst):
        raise ShapeError("moveaxis: source and destination differ in length", code="E103")
    order = [i for i in range(rank) if i not in src]
    for to, axis in sorted(zip(dst, src, strict=True)):
        order.insert(to, axis)
    return transpose(x, order)


def expand_dims(x: Any, axis: int | Sequence[int] = 0) -> Any:
    """New axes of size 1.

    Example:
        >>> dd.expand_dims(dd.zeros(3), 0).shape
        (1, 3)
    """
    x = value(x)
    listed = [axis] if isinstance(axis, int) else list(axis)
    rank = len(x.shape) + len(listed)
    places = normalize_axes(listed, rank)
    rest = iter(x.shape)
    return OPS["reshape"](x, shape=tuple(1 if i in places else next(rest) for i in range(rank)))


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Axes of size 1 removed: the given ones, or all whose size is known to be 1.

    Raises:
        ShapeError: when a given axis has another size.

    Example:
        >>> dd.squeeze(dd.zeros((1, 3))).shape
        (3,)
    """
    x = value(x)
    if axis is None:
        places = tuple(i for i, d in enumerate(x.shape) if d == 1)
    else:
        places = normalize_axes(axis, len(x.shape))
        for i in places:
            if x.shape[i] != 1:
                raise ShapeError(f"squeeze: axis {i} has size {x.shape[i]}, not 1")
    return reshape(x, tuple(d for i, d in enumerate(x.shape) if i not in places))


def broadcast_to(x: Any, shape: Any) -> Any:
    """Stretched to a larger shape by NumPy's broadcasting.

    Example:
        >>> dd.broadcast_to(dd.array([1, 2]), (2, 2))
        array([[1, 2],
               [1, 2]], dtype=int32)
    """
    x = value(x)
    sizes = as_shape(shape)
    return same(x) if sizes == tuple(x.shape) else OPS["broadcast_to"](x, shape=sizes)


def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None) -> Any:
    """Arrays joined along an axis (``None``: flattened first), promoted to one dtype, or converted to ``dtype``.

    Example:
        >>> dd.concatenate([dd.array([1]), dd.array([2, 3])])
        array([1, 2, 3], dtype=int32)
    """
    if not len(arrays):
        raise ArgumentError("concatenate: nothing to join")
    parts = [value(a) for a in arrays]
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    parts = operands(*parts) if dtype is None else [convert(p, as_dtype(dtype)) for p in parts]
    return OPS["concatenate"](*parts, axis=normalize_axis(axis, len(parts[0].shape)))


def stack(arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis; dtypes as in ``concatenate``.

    Example:
        >>> dd.stack([dd.array([1, 2]), dd.array([3, 4])])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    if not len(arrays):
        raise ArgumentError("stack: nothing to join")
    parts = [value(a) for a in arrays]
    for p in parts:
        if tuple(p.shape) != tuple(parts[0].shape):
            raise ShapeError(f"stack: shapes {show(parts[0].shape)} and {show(p.shape)} differ")
    place = normalize_axis(axis, len(parts[0].shape) + 1)
    return concatenate([expand_dims(p, place) for p in parts], place, dtype=dtype)


def split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Cut along an axis into equal parts, or before each given index.

    Raises:
        ShapeError: when parts would not be equal.

    Example:
        >>> dd.split(dd.arange(4), 2)
        [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    """
    x = value(x)
    place = normalize_axis(axis, len(x.shape))
    n = x.shape[place]
    if isinstance(indices_or_sections, int):
        part = divide(n, indices_or_sections) if indices_or_sections > 0 else None
        if part is None and indices_or_sections > 0 and not isinstance(n, int):
            part = floordiv(n, indices_or_sections)
            even = Condition(part * indices_or_sections, "==", n, f"{n} % {indices_or_sections} == 0")
            part = part if may(even, f"split into {indices_or_sections} parts", alone=True) else None
        if part is None:
            raise ShapeError(f"split: an axis of size {n} does not divide into {indices_or_sections} equal parts")
        cuts: list[Dim] = [*(part * i for i in range(indices_or_sections)), n]
    else:
        if not isinstance(n, int):
            raise ShapeError(f"split: cutting an axis of unknown size {n} at given places")
        cuts = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in indices_or_sections), n]
    return [cut(x, place, a, b if _ordered(a, b) else a) for a, b in itertools.pairwise(cuts)]


def _ordered(a: Dim, b: Dim) -> bool:
    return not (isinstance(a, int) and isinstance(b, int)) or a <= b


def cut(x: Any, axis: int, start: Dim, stop: Dim) -> Any:
    """The part of an axis from ``start`` to ``stop``."""
    rank = len(x.shape)
    first: list[Dim] = [0] * rank
    last = list(x.shape)
    first[axis], last[axis] = start, stop
    return OPS["slice"](x, start=tuple(first), stop=tuple(last), step=(1,) * rank)


def flip(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements along some axes (all by default) in reverse order.

    Example:
        >>> dd.flip(dd.arange(3))
        array([2, 1, 0], dtype=int32)
    """
    x = value(x)
    return OPS["flip"](x, axes=normalize_axes(axis, len(x.shape)))


def tile(x: Any, reps: int | Sequence[int]) -> Any:
    """Repeated whole along each axis.

    Example:
        >>> dd.tile(dd.array([1, 2]), 2)
        array([1, 2, 1, 2], dtype=int32)
    """
    x = value(x)
    counts = [reps] if isinstance(reps, int) else list(reps)
    rank = max(len(counts), len(x.shape))
    counts = [1] * (rank - len(counts)) + counts
    sizes: tuple[Dim, ...] = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    pairs = [d for c, s in zip(counts, sizes, strict=True) for d in (c, s)]
    ones = [d for s in sizes for d in (1, s)]
    wide = broadcast_to(reshape(x, tuple(ones)), tuple(pairs))
    return reshape(wide, tuple(c * s for c, s in zip(counts, sizes, strict=True)))


def tril(x: Any, k: int = 0) -> Any:
    """Zeros above the k-th diagonal of the last two axes.

    Example:
        >>> dd.tril(dd.ones((2, 2)))
        array([[1., 0.],
               [1., 1.]], dtype=float32)
    """
    return _triangle(x, k, True)


def triu(x: Any, k: int = 0) -> Any:
    """Zeros below the k-th diagonal of the last two axes.

    Example:
        >>> dd.triu(dd.ones((2, 2)))
        array([[1., 1.],
               [0., 1.]], dtype=float32)
    """
    return _triangle(x, k, False)


def _triangle(x: Any, k: int, lower: bool) -> Any:
    x = value(x)
    if len(x.shape) < 2:
        raise ShapeError("a triangle needs two axes")
    shape = tuple(x.shape[-2:])
    i = OPS["add"](OPS["iota"](shape=shape, axis=0, dtype=int32), ops.lit(offset(k, *shape), int32))
    j = OPS["iota"](shape=shape, axis=1, dtype=int32)
    inside = OPS["greater_equal" if lower else "less_equal"](i, j)
    return OPS["select"](inside, x, convert(0, dtype_of(x)))


__all__ = [
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "flip",
    "moveaxis",
    "ravel",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "tril",
    "triu",
]
