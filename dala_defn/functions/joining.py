"""Joining, splitting, repeating and padding arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, IndexOutOfRange, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dim_value, dtype_of, is_value, own, owned, same, value
from dala_defn.functions.creation import arange, full
from dala_defn.functions.reduce import max as _max
from dala_defn.functions.reduce import mean as _mean
from dala_defn.functions.reduce import min as _min
from dala_defn.functions.shape import (
    broadcast_to,
    concatenate,
    cut,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    reshape,
    transpose,
)
from dala_defn.functions.shape import split as _split
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, DimExpr, as_shape, broadcast_shapes, normalize_axis, show, size


def _each(f: Callable[[Any], Any], arrays: Sequence[Any]) -> Any:
    out = tuple(f(own(a)) for a in arrays)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arrays: Any) -> Any:
    """Arrays with one axis at least; several give a tuple.

    Example:
        >>> dd.atleast_1d(5)
        array([5], dtype=int32)
    """
    return _each(lambda x: x if x.shape else reshape(x, (1,)), arrays)


def atleast_2d(*arrays: Any) -> Any:
    """Arrays with two axes at least, new ones in front; several give a tuple.

    Example:
        >>> dd.atleast_2d(dd.array([1, 2]))
        array([[1, 2]], dtype=int32)
    """
    return _each(lambda x: x if len(x.shape) > 1 else reshape(x, (1, *x.shape) if x.shape else (1, 1)), arrays)


def atleast_3d(*arrays: Any) -> Any:
    """Arrays with three axes at least: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1); several give a tuple.

    Example:
        >>> dd.atleast_3d(dd.zeros((2, 3))).shape
        (2, 3, 1)
    """

    def three(x: Any) -> Any:
        rank = len(x.shape)
        return x if rank > 2 else reshape(x, [(1, 1, 1), (1, *x.shape, 1), (*x.shape, 1)][rank])

    return _each(three, arrays)


def _parts(arrays: Any) -> list[Any]:
    if is_value(arrays):
        arrays = list(own(arrays))
    return [own(a) for a in arrays]


def vstack(arrays: Sequence[Any], *, dtype: Any = None) -> Any:
    """Arrays joined as rows, along the first axis; vectors are rows.

    Example:
        >>> dd.vstack([dd.array([1, 2]), dd.array([3, 4])])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(a) for a in _parts(arrays)], 0, dtype=dtype)


def hstack(arrays: Sequence[Any], *, dtype: Any = None) -> Any:
    """Arrays joined along the second axis, vectors along their only one.

    Example:
        >>> dd.hstack([dd.array([1]), dd.array([2, 3])])
        array([1, 2, 3], dtype=int32)
    """
    parts = [atleast_1d(a) for a in _parts(arrays)]
    return concatenate(parts, 0 if parts and len(parts[0].shape) == 1 else 1, dtype=dtype)


def dstack(arrays: Sequence[Any]) -> Any:
    """Arrays joined along the third axis.

    Example:
        >>> dd.dstack([dd.array([1, 2]), dd.array([3, 4])]).shape
        (1, 2, 2)
    """
    return concatenate([atleast_3d(a) for a in _parts(arrays)], 2)


def column_stack(arrays: Sequence[Any]) -> Any:
    """Vectors as the columns of a matrix; matrices keep their columns.

    Example:
        >>> dd.column_stack([dd.array([1, 2]), dd.array([3, 4])])
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return concatenate([a if len(a.shape) > 1 else reshape(a, (-1, 1)) for a in _parts(arrays)], 1)


def block(arrays: Any) -> Any:
    """An array from nested lists of blocks: the innermost lists join along the last axis, and so on outwards.

    Raises:
        ArgumentError: for lists of different depths, or an empty one.

    Example:
        >>> dd.block([[dd.array([1]), 2], [3, 4]])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """

    def depth(x: Any) -> int:
        if not isinstance(x, list):
            return 0
        if not x:
            raise ArgumentError("block: an empty list")
        found = {depth(item) for item in x}
        if len(found) > 1:
            raise ArgumentError("block: lists of different depths")
        return found.pop() + 1

    def leaves(x: Any) -> list[Any]:
        return [leaf for item in x for leaf in leaves(item)] if isinstance(x, list) else [own(x)]

    levels = depth(arrays)
    rank = max([levels, *(len(leaf.shape) for leaf in leaves(arrays))])

    def join(x: Any, level: int) -> Any:
        if isinstance(x, list):
            return concatenate([join(item, level - 1) for item in x], rank - level)
        x = own(x)
        return reshape(x, (*(1 for _ in range(rank - len(x.shape))), *x.shape))

    return join(arrays, levels)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """``values`` joined to the end along an axis (``None``: both flattened).

    Example:
        >>> dd.append(dd.array([1, 2]), dd.array([3]))
        array([1, 2, 3], dtype=int32)
    """
    return concatenate([value(arr), value(values)], axis)


def _positions(obj: Any, n: Dim, last: int, what: str) -> tuple[np.ndarray[Any, Any], bool]:
    """Static indices into an axis, counted from the front; and whether it was one number."""
    if not isinstance(n, int):
        raise ShapeError(f"{what} along an axis of unknown size {n}")
    if isinstance(obj, slice):
        return np.arange(n)[obj], False
    if is_value(obj) and not isinstance(obj, (np.ndarray, np.generic)) and ops.current_trace() is not None:
        raise ArgumentError(f"{what} takes known indices", hint="a Python number, a slice or a list")
    at = np.asarray(obj)
    if at.dtype == bool:
        if at.shape != (n,):
            raise ShapeError(f"{what}: a mask {show(at.shape)} for an axis of size {n}")
        return np.flatnonzero(at), False
    single = at.ndim == 0
    at = np.atleast_1d(at).astype(np.int64)
    for i in at:
        if not -n <= i < n + last:
            raise IndexOutOfRange(f"index {i} is out of range for an axis of size {n}", op=what)
    return np.where(at < 0, at + n, at), single


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without some places of an axis (``None``: flattened): a number, a slice, a list or a mask of them.

    Raises:
        IndexOutOfRange: for a place outside the axis.
        ArgumentError: for traced indices: the size must be known.

    Example:
        >>> dd.delete(dd.arange(4), 1)
        array([0, 2, 3], dtype=int32)
    """
    x = own(arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = normalize_axis(axis, len(x.shape))
    gone, _ = _positions(obj, x.shape[place], 0, "delete")
    kept = np.setdiff1d(np.arange(x.shape[place]), gone)
    return _pick(x, kept, place)


def _pick(x: Any, at: np.ndarray[Any, Any], axis: int) -> Any:
    """Known places of an axis."""
    return OPS["gather"](x, at.astype(np.int32), axis=axis, batch_dims=0, mode="fill" if not len(at) else "clip")


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with ``values`` put in before some places of an axis (``None``: flattened); the dtype stays.

    Raises:
        IndexOutOfRange: for a place outside the axis.
        ArgumentError: for traced indices: the size must be known.

    Example:
        >>> dd.insert(dd.array([1, 2]), 1, 9)
        array([1, 9, 2], dtype=int32)
    """
    x = own(arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = normalize_axis(axis, len(x.shape))
    at, single = _positions(obj, x.shape[place], 1, "insert")
    new = convert(own(values), dtype_of(x))
    if single:  # as in NumPy: the values for one place may themselves be several rows
        new = reshape(new, (*(1 for _ in range(len(x.shape) - len(new.shape))), *new.shape))
        new = moveaxis(new, 0, place)
        count = new.shape[place]
        if not isinstance(count, int):
            raise ShapeError("insert: an unknown number of rows")
        at = np.repeat(at, count)
    shape = list(x.shape)
    shape[place] = len(at)
    new = broadcast_to(new, tuple(shape))
    order = np.argsort(at, kind="stable")
    n = int(x.shape[place])
    targets = np.empty(len(at), np.int64)
    targets[order] = at[order] + np.arange(len(at))
    source = np.full(n + len(at), -1)
    source[targets] = n + np.arange(len(at))
    source[source < 0] = np.arange(n)
    return _pick(concatenate([x, new], place), source, place)


def array_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Cut along an axis into parts whose sizes differ by at most one (the first ones longer), or before given places.

    Example:
        >>> [p.shape for p in dd.array_split(dd.arange(5), 2)]
        [(3,), (2,)]
    """
    x = own(x)
    if not isinstance(indices_or_sections, int):
        return _split(x, indices_or_sections, axis)
    n = x.shape[normalize_axis(axis, len(x.shape))]
    if indices_or_sections < 1 or not isinstance(n, int):
        raise ShapeError(f"array_split: an axis of size {n} into {indices_or_sections} parts")
    part, more = divmod(n, indices_or_sections)
    ends = [(i + 1) * part + min(i + 1, more) for i in range(indices_or_sections - 1)]
    return _split(x, ends, axis)


def hsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """``split`` along the second axis, of a vector along its only one.

    Example:
        >>> [p.shape for p in dd.hsplit(dd.zeros((2, 4)), 2)]
        [(2, 2), (2, 2)]
    """
    x = own(x)
    return _split(x, indices_or_sections, 1 if len(x.shape) > 1 else 0)


def vsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """``split`` along the first axis of an array with two at least.

    Example:
        >>> [p.shape for p in dd.vsplit(dd.zeros((2, 4)), 2)]
        [(1, 4), (1, 4)]
    """
    x = own(x)
    if len(x.shape) < 2:
        raise ShapeError(f"vsplit needs two axes, not {show(x.shape)}")
    return _split(x, indices_or_sections, 0)


def dsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """``split`` along the third axis.

    Example:
        >>> [p.shape for p in dd.dsplit(dd.zeros((1, 1, 4)), 2)]
        [(1, 1, 2), (1, 1, 2)]
    """
    x = own(x)
    if len(x.shape) < 3:
        raise ShapeError(f"dsplit needs three axes, not {show(x.shape)}")
    return _split(x, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, which they lose.

    Raises:
        ShapeError: for an axis of unknown size.

    Example:
        >>> dd.unstack(dd.array([[1, 2], [3, 4]]), axis=1)
        (array([1, 3], dtype=int32), array([2, 4], dtype=int32))
    """
    x = own(x)
    if not x.shape:
        raise ShapeError("unstack: an array of rank 0 has no axes")
    x = moveaxis(x, axis, 0)
    if not isinstance(x.shape[0], int):
        raise ShapeError(f"unstack along an axis of unknown size {x.shape[0]}")
    return tuple(x[i] for i in range(x.shape[0]))


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """All arrays stretched to their common shape.

    Raises:
        ShapeError: when they do not broadcast.

    Example:
        >>> [x.shape for x in dd.broadcast_arrays(dd.zeros((2, 1)), dd.zeros(3))]
        [(2, 3), (2, 3)]
    """
    xs = [own(a) for a in arrays]
    shape = broadcast_shapes(*(tuple(x.shape) for x in xs), sure=False)
    return [broadcast_to(x, shape) for x in xs]


def fliplr(x: Any) -> Any:
    """The columns (second axis) in reverse order.

    Example:
        >>> dd.fliplr(dd.array([[1, 2]]))
        array([[2, 1]], dtype=int32)
    """
    return flip(x, 1)


def flipud(x: Any) -> Any:
    """The rows (first axis) in reverse order.

    Example:
        >>> dd.flipud(dd.array([1, 2]))
        array([2, 1], dtype=int32)
    """
    return flip(x, 0)


def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """Turned ``k`` times by 90 degrees, from the first of two axes towards the second.

    Example:
        >>> dd.rot90(dd.array([[1, 2], [3, 4]]))
        array([[2, 4],
               [1, 3]], dtype=int32)
    """
    x = own(x)
    a, b = (normalize_axis(i, len(x.shape)) for i in axes)
    if a == b:
        raise ShapeError(f"rot90: the axes {tuple(axes)} are the same", code="E103")
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (a, b))
    order = list(range(len(x.shape)))
    order[a], order[b] = b, a
    return transpose(flip(x, b), order) if k == 1 else flip(transpose(x, order), b)


def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """An axis moved before the one at ``start``; ``moveaxis`` says it more plainly.

    Example:
        >>> dd.rollaxis(dd.zeros((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    x = own(x)
    rank = len(x.shape)
    place = normalize_axis(axis, rank)
    target = start + rank if start < 0 else start
    if not 0 <= target <= rank:
        raise ShapeError(f"rollaxis: start {start} is out of range for rank {rank}", code="E103")
    return moveaxis(x, place, target - (place < target))


def roll(x: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Elements moved along axes (``None``: in flattened order), the last ones coming in at the front.

    ``shift`` may be traced, or several numbers, one an axis; the sizes may be unknown.

    Example:
        >>> dd.roll(dd.arange(3), 1)
        array([2, 0, 1], dtype=int32)
    """
    x = own(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), tuple(x.shape))
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for by, a in zip(shifts, axes, strict=True):
        place = normalize_axis(a, len(x.shape))
        n = x.shape[place]
        if n == 0 or (isinstance(n, int) and isinstance(by, int) and by % n == 0):
            continue
        if isinstance(n, int) and isinstance(by, int):
            x = concatenate([cut(x, place, n - by % n, n), cut(x, place, 0, n - by % n)], place)
            continue
        by = convert(by if isinstance(by, int) else own(by), dtypes.int64)
        at = E.remainder(arange(n, dtype=dtypes.int64) - by, dim_value(n, dtypes.int64))
        x = OPS["gather"](x, at, axis=place, batch_dims=0, mode="clip")
    return same(x)


def repeat(x: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
    """Each element ``repeats`` times along an axis (``None``: flattened).

    ``repeats`` is a number, or a number for each element; traced numbers need ``total_repeat_length``: what is too
    much is left out, and the last element fills what is missing.

    Raises:
        ArgumentError: for traced numbers without a total, or negative ones.

    Example:
        >>> dd.repeat(dd.array([1, 2]), 2)
        array([1, 1, 2, 2], dtype=int32)
    """
    x = own(x)
    if axis is None:
        x, axis = ravel(x), 0
    place = normalize_axis(axis, len(x.shape))
    n = x.shape[place]
    if isinstance(repeats, (int, DimExpr)) and total_repeat_length is None:
        wide = expand_dims(x, place + 1)
        stretched, out = list(wide.shape), list(x.shape)
        stretched[place + 1] = as_shape((repeats,))[0]
        out[place] = out[place] * stretched[place + 1]
        return reshape(broadcast_to(wide, tuple(stretched)), tuple(out))
    if total_repeat_length is None:
        traced = ops.current_trace() is not None and not isinstance(repeats, (np.ndarray, np.generic))
        if (is_value(repeats) and traced) or not isinstance(n, int):
            raise ArgumentError("repeat: traced numbers", hint="total_repeat_length=")
        counts = np.asarray(repeats).astype(np.int64)
        if (counts < 0).any():
            raise ArgumentError("repeat: a negative number of times")
        return _pick(x, np.repeat(np.arange(n), counts), place)
    ends = OPS["cumsum"](broadcast_to(convert(own(repeats), dtypes.int64), (n,)), axis=0, reverse=False)
    line = reshape(arange(total_repeat_length, dtype=dtypes.int64), (-1, 1))
    at = OPS["sum"](convert(line >= ends, dtypes.int64), axes=(1,))
    return OPS["gather"](x, at, axis=place, batch_dims=0, mode="clip")


def resize(x: Any, new_shape: Any) -> Any:
    """The elements in order, repeated or cut off to fill another shape.

    Raises:
        ShapeError: for unknown sizes.

    Example:
        >>> dd.resize(dd.array([1, 2, 3]), (2, 2))
        array([[1, 2],
               [3, 1]], dtype=int32)
    """
    x = ravel(own(x))
    shape = as_shape(new_shape)
    n, total = x.shape[0], size(shape)
    if not isinstance(n, int) or not isinstance(total, int):
        raise ShapeError(f"resize from {show(x.shape)} to {show(shape)}: sizes must be known")
    if n == 0:
        return full(shape, convert(0, dtype_of(x)))
    return reshape(_pick(x, np.arange(total) % n, 0), shape)


def _widths(name: str, given: Any, rank: int) -> list[tuple[Any, Any]]:
    """A number, a pair, or a pair an axis as a pair an axis."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, (list, tuple)):
        return [(given, given)] * rank
    rows = list(given)
    if len(rows) in (1, 2) and not any(isinstance(w, (list, tuple)) for w in rows):
        return [(rows[0], rows[-1])] * rank
    if len(rows) == 1:
        rows = rows * rank
    if len(rows) != rank or any(not isinstance(w, (list, tuple)) or len(w) not in (1, 2) for w in rows):
        raise ArgumentError(f"pad: {name}={given!r} does not give a pair for each of {rank} axes")
    return [(w[0], w[-1]) for w in rows]


PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "empty")


def pad(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """Elements added before and after along every axis.

    ``pad_width`` is a number, a pair, or one pair an axis. Modes: ``constant`` (with ``constant_values``, given in the
    same ways), ``edge``, ``reflect`` (without the edge), ``symmetric`` (with it), ``wrap``, ``maximum``, ``minimum``,
    ``mean`` (of the whole line), ``empty`` (zeros).

    Raises:
        ArgumentError: for another mode or shape of ``pad_width``, or a negative width.
        ShapeError: for a mode other than ``constant`` over an empty axis, or one that repeats over an unknown size.

    Example:
        >>> dd.pad(dd.array([1, 2, 3]), (0, 2), mode="reflect")
        array([1, 2, 3, 2, 1], dtype=int32)
    """
    x = own(x)
    rank = len(x.shape)
    if mode not in PAD_MODES:
        raise ArgumentError(f"pad: mode {mode!r} is not there", hint=", ".join(PAD_MODES))
    widths = _widths("pad_width", pad_width, rank)
    for w in (w for pair in widths for w in pair):
        if not isinstance(w, DimExpr) and (not hasattr(w, "__index__") or w < 0):
            raise ArgumentError(f"pad: a width is a whole number that is not negative, not {w!r}")
    if mode in ("constant", "empty"):
        fills = _widths("constant_values", 0 if mode == "empty" else constant_values, rank)
        if len({id(f) for pair in fills for f in pair}) <= 1:
            fill = convert(fills[0][0] if fills else 0, dtype_of(x))
            low, high = tuple(w[0] for w in widths), tuple(w[1] for w in widths)
            return OPS["pad"](x, fill, low=low, high=high, interior=(0,) * rank)
        for axis, ((a, b), (before, after)) in enumerate(zip(widths, fills, strict=True)):
            sides = [_slab(x, axis, a, before), x, _slab(x, axis, b, after)]
            x = concatenate(sides, axis)
        return x
    for axis, (a, b) in enumerate(widths):
        x = x if (a, b) == (0, 0) else _pad_axis(x, axis, a, b, mode)
    return same(x)


def _slab(x: Any, axis: int, width: Dim, fill: Any) -> Any:
    shape = list(x.shape)
    shape[axis] = width
    return broadcast_to(convert(fill, dtype_of(x)), tuple(shape))


def _pad_axis(x: Any, axis: int, a: Dim, b: Dim, mode: str) -> Any:
    n = x.shape[axis]
    if n == 0:
        raise ShapeError(f"pad: mode {mode!r} over an axis of size 0")
    if mode in ("maximum", "minimum", "mean"):
        reduce = _max if mode == "maximum" else _min if mode == "minimum" else _mean
        reduced = reduce(x, axis, keepdims=True)
        line = E.rint(reduced) if mode == "mean" and not dtype_of(x).is_inexact else reduced
        line = convert(line, dtype_of(x))
        first = last = line
    elif mode == "edge":
        first, last = cut(x, axis, 0, 1), cut(x, axis, n - 1, n)
    else:
        if not isinstance(n, int) or isinstance(a, DimExpr) or isinstance(b, DimExpr):
            raise ShapeError(f"pad: mode {mode!r} along an axis of unknown size {n}", hint='mode="edge" or "constant"')
        return _pick(x, np.pad(np.arange(n), (int(a), int(b)), mode=mode), axis)  # type: ignore[call-overload]
    before, after = list(x.shape), list(x.shape)
    before[axis], after[axis] = a, b
    return concatenate([broadcast_to(first, tuple(before)), x, broadcast_to(last, tuple(after))], axis)


def choose(a: Any, choices: Sequence[Any], mode: str = "clip") -> Any:
    """Element by element, the choice that the integer names; all broadcast. ``mode``: ``"clip"`` or ``"wrap"``.

    Raises:
        ArgumentError: for another mode, or no choices.

    Example:
        >>> dd.choose(dd.array([1, 0]), [dd.array([1, 2]), dd.array([3, 4])])
        array([3, 2], dtype=int32)
    """
    options = owned(*(list(choices) if is_value(choices) else choices))
    if mode not in ("clip", "wrap") or not options:
        raise ArgumentError(f"choose: mode {mode!r} with {len(options)} choices", hint='"clip" or "wrap"')
    at = own(a)
    at = E.remainder(at, len(options)) if mode == "wrap" else E.clip(at, 0, len(options) - 1)
    out = options[0]
    for i, option in enumerate(options[1:], 1):
        out = E.where(at == i, option, out)
    return broadcast_to(out, broadcast_shapes(tuple(at.shape), *(tuple(o.shape) for o in options)))


__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "choose",
    "column_stack",
    "delete",
    "dsplit",
    "dstack",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "insert",
    "pad",
    "repeat",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "unstack",
    "vsplit",
    "vstack",
]
