"""The general forms of padding, windows, convolution, products and indexing: every option at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, operands, own, owned
from dala_defn.functions.indexing import check_mode, dynamic_slice, dynamic_update_slice, getitem, wrap_index
from dala_defn.functions.linear import spatial_padding
from dala_defn.functions.shape import broadcast_to, moveaxis, reshape, transpose
from dala_defn.functions.types import iinfo
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, as_shape, normalize_axis, show, size

Pairs = Sequence[tuple[int, int]]


def pad_interior(x: Any, padding: Sequence[tuple[Dim, Dim, int]], value: Any = 0) -> Any:
    """Elements put before, after and between those of each axis: one ``(before, after, between)`` an axis.

    A negative number before or after cuts as many off, after the elements between are put in.

    Raises:
        ArgumentError: when there is not one triple an axis, or a number between is negative.

    Example:
        >>> dd.pad_interior(dd.array([1, 2, 3]), [(1, -1, 1)])
        array([0, 1, 0, 2, 0], dtype=int32)
    """
    x = own(x)
    rank = len(x.shape)
    rows = [tuple(p) for p in padding]
    if len(rows) != rank or any(len(r) != 3 or r[2] < 0 for r in rows):
        raise ArgumentError(f"pad_interior: {padding!r} for {show(x.shape)}", rule="(before, after, between) an axis")

    def only(d: Dim, sign: int) -> Dim:
        return d if not isinstance(d, int) else max(sign * d, 0)

    out = OPS["pad"](
        x,
        convert(value, dtype_of(x)),
        low=tuple(only(r[0], 1) for r in rows),
        high=tuple(only(r[1], 1) for r in rows),
        interior=tuple(r[2] for r in rows),
    )
    cuts = [[max(-d, 0) if isinstance(d, int) else 0 for d in r[:2]] for r in rows]
    if not any(map(any, cuts)):
        return out
    for (a, b), n in zip(cuts, out.shape, strict=True):
        if isinstance(n, int) and a + b > n:
            raise ArgumentError(f"pad_interior: {a} and {b} cut off an axis of {n}")
    stop = tuple(n - b for (_, b), n in zip(cuts, out.shape, strict=True))
    return OPS["slice"](out, start=tuple(a for a, _ in cuts), stop=stop, step=(1,) * rank)


def _numbers(name: str, given: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    out = (1,) * rank if given is None else (given,) * rank if isinstance(given, int) else tuple(given)
    if len(out) != rank or any(n < 1 for n in out):
        raise ArgumentError(f"{name} {given!r}", rule=f"{rank} numbers of at least 1")
    return out


def _rows(padding: Pairs, between: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(p[0], p[1], b - 1) for p, b in zip(padding, between, strict=True)]


def _cropped(x: Any, padding: Pairs, between: Sequence[int], fill: Any) -> tuple[Any, list[tuple[int, int]]]:
    """The operand with what a window op cannot pad by itself done before it, and the rest."""
    if all(p[0] >= 0 and p[1] >= 0 for p in padding) and all(b == 1 for b in between):
        return x, [(int(p[0]), int(p[1])) for p in padding]
    rows = _rows(padding, between)
    lead = [(0, 0, 0)] * (len(x.shape) - len(rows))
    return pad_interior(x, [*lead, *rows], fill), [(0, 0)] * len(rows)


def _dilated(n: Dim, between: int) -> Dim:
    return n if between == 1 else max((n - 1) * between + 1, 0) if isinstance(n, int) else (n - 1) * between + 1


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int] = 1,
    padding: str | Pairs = "valid",
    lhs_dilation: int | Sequence[int] | None = None,
    rhs_dilation: int | Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> Any:
    """Cross-correlation over 1 to 3 spatial axes with every option.

    Args:
        lhs: the input, by default (images, channels, *size).
        rhs: the kernel, by default (out channels, in channels / groups, *kernel size).
        window_strides: one number, or one a spatial axis.
        padding: ``"valid"``, ``"same"``, or (before, after) an axis; negative numbers cut off.
        lhs_dilation: the distance of input elements, zeros between them: a transposed convolution.
        rhs_dilation: the distance of kernel elements.
        dimension_numbers: the axes of input, kernel and result as letters: ``N`` images, ``C`` channels, ``O`` and
            ``I`` those of the kernel, any others for the spatial axes, as ``("NHWC", "HWIO", "NHWC")``.
        feature_group_count: channels are cut into this many groups that do not mix.
        batch_group_count: images are cut into this many groups, each of which gets a part of the out channels.

    Raises:
        ShapeError: when ranks, channels or groups do not fit.
        ArgumentError: for letters that do not go together.

    Example:
        >>> x, w = dd.ones((1, 1, 4)), dd.ones((1, 1, 2))
        >>> dd.conv_general_dilated(x, w, padding=[(1, 1)], lhs_dilation=2)
        array([[[1., 1., 1., 1., 1., 1., 1., 1.]]], dtype=float32)
    """
    x, w = (own(v) for v in operands(lhs, rhs))
    if not dtype_of(x).is_inexact:
        x, w = convert(x, dtypes.DEFAULT_FLOAT), convert(w, dtypes.DEFAULT_FLOAT)
    rank = len(x.shape) - 2
    if len(w.shape) != rank + 2 or not 1 <= rank <= 3:
        raise ShapeError(f"conv_general_dilated: {show(x.shape)} and {show(w.shape)} do not go together")
    back: tuple[int, ...] | None = None
    if dimension_numbers is not None:
        orders = _orders(dimension_numbers, rank)
        x, w = transpose(x, orders[0]), transpose(w, orders[1])
        back = tuple(sorted(range(rank + 2), key=lambda i: orders[2][i]))
    steps = _numbers("window_strides", window_strides, rank)
    between, gaps = _numbers("lhs_dilation", lhs_dilation, rank), _numbers("rhs_dilation", rhs_dilation, rank)
    sizes = [_dilated(n, b) for n, b in zip(x.shape[2:], between, strict=True)]
    pads: Pairs = spatial_padding(padding, sizes, w.shape[2:], steps, gaps)
    x, pads = _cropped(x, pads, between, 0)
    groups, parts = feature_group_count, batch_group_count
    if parts != 1:
        n = x.shape[0]
        if groups != 1 or parts < 1 or not isinstance(n, int) or n % parts:
            raise ShapeError(
                f"conv_general_dilated: {n} images in {parts} groups, {groups} groups of channels",
                rule="batch_group_count divides the images, and feature_group_count is 1 then",
            )
        # Images of one group beside channels of another: groups of channels do the same.
        split = reshape(x, (parts, n // parts, *x.shape[1:]))
        x = reshape(moveaxis(split, 0, 1), (n // parts, parts * x.shape[1], *x.shape[2:]))
        groups = parts
    out = OPS["conv"](
        x,
        w,
        strides=steps,
        low=tuple(p[0] for p in pads),
        high=tuple(p[1] for p in pads),
        dilation=gaps,
        groups=groups,
    )
    return out if back is None else transpose(out, back)


def _orders(letters: tuple[str, str, str], rank: int) -> list[tuple[int, ...]]:
    """For input, kernel and result the axes in the order images, channels, size (out, in, size)."""
    if len(letters) != 3 or any(len(set(t)) != rank + 2 or len(t) != rank + 2 for t in letters):
        raise ArgumentError(f"dimension_numbers {letters!r}", rule=f"three texts of {rank + 2} different letters")
    space = [c for c in letters[1] if c not in "OI"]
    out = []
    for text, lead in zip(letters, ("NC", "OI", "NC"), strict=True):
        if sorted(text) != sorted([*lead, *space]):
            raise ArgumentError(f"dimension_numbers {letters!r}: {text} is not made of {lead} and {''.join(space)}")
        out.append(tuple(text.index(c) for c in [*lead, *space]))
    return out


def _lowest(dtype: Any) -> Any:
    return iinfo(dtype).min if dtype.is_integer else -math.inf


_JOINS: dict[str, Callable[[Any, Any], Any]] = {"sum": E.add, "prod": E.multiply, "max": E.maximum}


def reduce_window(
    x: Any,
    op: str,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str | Pairs = "valid",
    base_dilation: int | Sequence[int] | None = None,
    window_dilation: int | Sequence[int] | None = None,
) -> Any:
    """The sum, product, maximum, minimum or mean of every window over all axes of an array.

    Args:
        x: an array of numbers.
        op: ``"sum"``, ``"prod"``, ``"max"``, ``"min"`` or ``"mean"`` (of what lies inside).
        window: the size of a window: a number, or one an axis.
        strides: the distance of windows, by default 1.
        padding: ``"valid"``, ``"same"``, or (before, after) an axis; negative numbers cut off. It changes no result.
        base_dilation: the distance of elements, nothing between them.
        window_dilation: the distance of the elements of a window.

    Raises:
        ArgumentError: for another op, or numbers that do not go together.
        DTypeError: for the extremes of complex numbers.

    Example:
        >>> dd.reduce_window(dd.array([1, 5, 2, 4]), "max", 2)
        array([5, 5, 4], dtype=int32)
    """
    x = own(x)
    rank = len(x.shape)
    sizes = _numbers("window", window, rank)
    steps = _numbers("strides", strides, rank)
    gaps, between = _numbers("window_dilation", window_dilation, rank), _numbers("base_dilation", base_dilation, rank)
    wide = [_dilated(n, b) for n, b in zip(x.shape, between, strict=True)]
    pads = spatial_padding(padding, wide, sizes, steps, gaps)
    if op == "mean":
        x = convert(x, dtypes.to_inexact(dtype_of(x)))
        given = (sizes, steps, pads, between, gaps)
        ones = broadcast_to(convert(1, dtype_of(x)), tuple(x.shape))
        return reduce_window(x, "sum", *given) / reduce_window(ones, "sum", *given)
    if op == "min":
        turned = E.negative if dtype_of(x).is_inexact else E.bitwise_not
        return turned(reduce_window(turned(x), "max", sizes, steps, pads, between, gaps))
    if op not in _JOINS:
        raise ArgumentError(f"reduce_window: {op!r}", hint='"sum", "prod", "max", "min" or "mean"')
    logical = dtype_of(x).kind == "b"
    if logical:
        x = convert(x, dtypes.DEFAULT_INT if op != "max" else dtypes.int8)
    fill = 0 if op == "sum" else 1 if op == "prod" else _lowest(dtype_of(x))
    if rank == 0:
        out = x
    elif op == "prod" or any(g != 1 for g in gaps):
        out = _by_taps(_JOINS[op], pad_interior(x, _rows(pads, between), fill), sizes, steps, gaps)
    else:
        x, pads = _cropped(x, pads, between, fill)
        if any(max(p) >= w for p, w in zip(pads, sizes, strict=True)):
            x, pads = pad_interior(x, [(*p, 0) for p in pads], fill), [(0, 0)] * rank
        low, high = tuple(p[0] for p in pads), tuple(p[1] for p in pads)
        out = OPS[f"window_{op}"](x, window=sizes, strides=steps, low=low, high=high)
    return convert(out, dtypes.bool_) if logical and op == "max" else out


def _by_taps(
    join: Callable[[Any, Any], Any], x: Any, window: Sequence[int], strides: Sequence[int], gaps: Sequence[int]
) -> Any:
    """One strided slice for each element of a window."""
    counts = []
    for n, w, s, g in zip(x.shape, window, strides, gaps, strict=True):
        if not isinstance(n, int):
            raise ShapeError(f"reduce_window of {show(x.shape)}, whose size is not known, one element after the other")
        counts.append(max((n - (w - 1) * g - 1) // s + 1, 0) if n > (w - 1) * g else 0)
    if size(counts) == 0:
        return broadcast_to(convert(0, dtype_of(x)), tuple(counts))
    out: Any = None
    total = size(window)
    assert isinstance(total, int)
    for tap in range(total):
        place, rest = [], tap
        for w, g in zip(reversed(window), reversed(gaps), strict=True):
            place.append(rest % w * g)
            rest //= w
        start = tuple(place[::-1])
        stop = tuple(a + (c - 1) * s + 1 for a, c, s in zip(start, counts, strides, strict=True))
        part = OPS["slice"](x, start=start, stop=stop, step=tuple(strides))
        out = part if out is None else join(out, part)
    return out


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
) -> Any:
    """The product over any axes: ``((contracted of lhs, of rhs), (batch of lhs, of rhs))``.

    The result has the batch axes first, then the other axes of lhs, then those of rhs.

    Raises:
        ShapeError: when axes do not fit.

    Example:
        >>> dd.dot_general(dd.ones((2, 3)), dd.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
        (2, 4)
    """
    x, y = owned(lhs, rhs)
    (contract_x, contract_y), (batch_x, batch_y) = dimension_numbers

    def axes(given: Sequence[int], v: Any) -> tuple[int, ...]:
        return tuple(normalize_axis(a, len(v.shape)) for a in given)

    logical = dtype_of(x).kind == "b"
    if logical:
        x, y = convert(x, dtypes.DEFAULT_INT), convert(y, dtypes.DEFAULT_INT)
    out = OPS["dot_general"](
        x,
        y,
        contract_x=axes(contract_x, x),
        contract_y=axes(contract_y, y),
        batch_x=axes(batch_x, x),
        batch_y=axes(batch_y, y),
    )
    return convert(out, dtypes.bool_) if logical else out


def broadcast_in_dim(x: Any, shape: Sequence[Dim], broadcast_dimensions: Sequence[int]) -> Any:
    """An array in a larger shape: axis ``i`` of the operand is axis ``broadcast_dimensions[i]`` of the result.

    Raises:
        ArgumentError: when the axes are not ascending, or not one an axis.
        ShapeError: when a size is neither 1 nor that of the result.

    Example:
        >>> dd.broadcast_in_dim(dd.array([1, 2]), (2, 3), (0,))
        array([[1, 1, 1],
               [2, 2, 2]], dtype=int32)
    """
    x, to = own(x), as_shape(shape)
    places = [normalize_axis(a, len(to)) for a in broadcast_dimensions]
    if len(places) != len(x.shape) or places != sorted(set(places)):
        raise ArgumentError(f"broadcast_in_dim: axes {broadcast_dimensions!r} for {show(x.shape)}")
    ones = tuple(x.shape[places.index(i)] if i in places else 1 for i in range(len(to)))
    return broadcast_to(reshape(x, ones), to)


def broadcasted_iota(dtype: Any, shape: Sequence[Dim], dimension: int) -> Any:
    """An array whose elements are their place along one axis.

    Example:
        >>> dd.broadcasted_iota(dd.int32, (2, 3), 1)
        array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """
    to = as_shape(shape)
    return OPS["iota"](shape=to, axis=normalize_axis(dimension, len(to)), dtype=dtypes.as_dtype(dtype))


def slice_in_dim(x: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """A slice of one axis, as ``x[..., start:limit:stride, ...]``.

    Example:
        >>> dd.slice_in_dim(dd.arange(5), 1, 4, 2)
        array([1, 3], dtype=int32)
    """
    x = own(x)
    place = normalize_axis(axis, len(x.shape))
    index = tuple(slice(start_index, limit_index, stride) if i == place else slice(None) for i in range(len(x.shape)))
    return x[index]


def _starts(x: Any, start: Any, axis: int) -> tuple[list[Any], int]:
    place = normalize_axis(axis, len(x.shape))
    start = own(start)
    if not dtype_of(start).is_integer:
        raise ArgumentTypeError(f"an index must be an integer, not {dtype_of(start)}")
    return [wrap_index(start, x.shape[place]) if i == place else 0 for i in range(len(x.shape))], place


def dynamic_slice_in_dim(x: Any, start_index: Any, slice_size: Dim, axis: int = 0) -> Any:
    """``slice_size`` elements of an axis from a place that may depend on values; it is clamped to fit.

    A negative place counts from the end.

    Example:
        >>> dd.dynamic_slice_in_dim(dd.arange(5), dd.array(4), 2)
        array([3, 4], dtype=int32)
    """
    x = own(x)
    starts, place = _starts(x, start_index, axis)
    return dynamic_slice(x, starts, [slice_size if i == place else n for i, n in enumerate(x.shape)])


def dynamic_update_slice_in_dim(x: Any, update: Any, start_index: Any, axis: int = 0) -> Any:
    """The array with a block written along an axis from a place that may depend on values; it is clamped to fit.

    Example:
        >>> dd.dynamic_update_slice_in_dim(dd.zeros(4), dd.ones(2), dd.array(1))
        array([0., 1., 1., 0.], dtype=float32)
    """
    x = own(x)
    return dynamic_update_slice(x, convert(update, dtype_of(x)), _starts(x, start_index, axis)[0])


def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0, mode: str = "error") -> Any:
    """Parts of an array by coordinates, which the last axis of ``indices`` holds; negative ones count from the end.

    The first ``batch_dims`` axes of both run together. An index out of range is an error while running, is clamped
    (``mode="clip"``), or gives NaN or 0 (``"fill"``).

    Raises:
        ShapeError: when the coordinates or the first axes do not fit.

    Example:
        >>> dd.gather_nd(dd.array([[1, 2], [3, 4]]), dd.array([[0, 1], [1, 0]]))
        array([2, 3], dtype=int32)
    """
    x, at = own(x), own(indices)
    if not dtype_of(at).is_integer:
        raise ArgumentTypeError(f"an index must be an integer, not {dtype_of(at)}")
    width = at.shape[-1] if at.shape else 0
    lead = tuple(x.shape[:batch_dims])
    if not isinstance(width, int) or batch_dims + width > len(x.shape) or tuple(at.shape[:batch_dims]) != lead:
        raise ShapeError(f"gather_nd: {show(at.shape)} are no coordinates into {show(x.shape)}")
    if batch_dims >= len(at.shape):
        raise ShapeError(f"gather_nd: {batch_dims} axes of {show(at.shape)} run together, none is left")
    which: list[Any] = [reshape(at[..., k], tuple(at.shape[:-1])) for k in range(width)]
    rank = len(at.shape) - 1
    for k, n in enumerate(lead):
        places = OPS["iota"](shape=(n,), axis=0, dtype=dtypes.int32)
        which.insert(k, reshape(places, tuple(n if i == k else 1 for i in range(rank))))
    if not which:
        return broadcast_to(x, (*at.shape[:-1], *x.shape))
    return getitem(x, tuple(which), check_mode(mode))


__all__ = [
    "broadcast_in_dim",
    "broadcasted_iota",
    "conv_general_dilated",
    "dot_general",
    "dynamic_slice_in_dim",
    "dynamic_update_slice_in_dim",
    "gather_nd",
    "pad_interior",
    "reduce_window",
    "slice_in_dim",
]
