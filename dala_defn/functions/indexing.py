"""``x[...]``, ``x.at[...]`` and taking by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange, ShapeError
from dala_defn.functions.base import convert, dim_value, dtype_of, is_value, literal, own, value
from dala_defn.functions.shape import broadcast_to, moveaxis, ravel, reshape, stack, transpose
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Condition, Dim, DimExpr, Shape, broadcast_shapes, may, normalize_axis, show, size


def wrap_index(i: Any, n: Dim) -> Any:
    """Negative indices counted from the end."""
    if not dtype_of(i).is_integer:
        raise ArgumentTypeError(f"an index must be an integer, not {dtype_of(i)}")
    if dtype_of(i).kind == "u":
        return i
    wide = convert(i, dtypes.int64) if dtype_of(i).itemsize < 4 else i
    count = dim_value(n, dtype_of(wide))
    return OPS["select"](OPS["less"](wide, ops.lit(0, dtype_of(wide))), OPS["add"](wide, count), wide)


_MODES = {"error": "error", "raise": "error", "clip": "clip", "fill": "fill"}


def check_mode(mode: str) -> str:
    """The mode of an index op, by its name or NumPy's."""
    if mode not in _MODES:
        raise ArgumentError(f"mode {mode!r} is not there", hint='"error", "clip" or "fill"')
    return _MODES[mode]


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "error", *, fill_value: Any = None) -> Any:
    """Elements along an axis (``None``: flattened) by index; negative ones count from the end.

    An index out of range is an error while running (``mode="error"`` or ``"raise"``), is clamped (``"clip"``), starts
    again from the front (``"wrap"``), or gives ``fill_value``, by default NaN for floats and 0 otherwise (``"fill"``).

    Raises:
        IndexOutOfRange: with ``mode="error"``, for an index outside the axis.

    Example:
        >>> dd.take(dd.array([10, 20, 30]), dd.array([-1, 0]))
        array([30, 10], dtype=int32)
    """
    x, i = value(x), value(indices)
    if axis is None:
        x, axis = ravel(x), 0
    place = normalize_axis(axis, len(x.shape))
    n = x.shape[place]
    if mode == "wrap":
        if n == 0 and size(i.shape) != 0:
            raise IndexOutOfRange("take: nothing to take from an axis of size 0", op="take")
        wide = convert(i, dtypes.int64) if not isinstance(n, int) or dtype_of(i).itemsize < 4 else i
        at = OPS["remainder"](wide, dim_value(n, dtype_of(wide)))
        return OPS["gather"](x, at, axis=place, batch_dims=0, mode="clip" if n != 0 else "fill")
    at = wrap_index(i, n)
    out = OPS["gather"](x, at, axis=place, batch_dims=0, mode=check_mode(mode))
    if mode != "fill" or fill_value is None:
        return out
    count = dim_value(n, dtype_of(at))
    outside = OPS["bitwise_or"](OPS["less"](at, ops.lit(0, dtype_of(at))), OPS["greater_equal"](at, count))
    outside = reshape(outside, (*outside.shape, *(1 for _ in x.shape[place + 1 :])))
    return OPS["select"](outside, convert(fill_value, dtype_of(x)), out)


def take_along_axis(x: Any, indices: Any, axis: int, mode: str = "error") -> Any:
    """Elements along an axis by an index array of the same rank; other axes run together.

    Example:
        >>> dd.take_along_axis(dd.array([[1, 2]]), dd.array([[1]]), axis=1)
        array([[2]], dtype=int32)
    """
    x, i = value(x), value(indices)
    rank = len(x.shape)
    place = normalize_axis(axis, rank)
    if len(i.shape) != rank:
        raise ShapeError(f"take_along_axis: ranks of {show(x.shape)} and {show(i.shape)} differ")
    i = wrap_index(i, x.shape[place])
    rows, at = moveaxis(x, place, -1), moveaxis(i, place, -1)
    lead = broadcast_shapes(rows.shape[:-1], at.shape[:-1])
    rows, at = broadcast_to(rows, (*lead, rows.shape[-1])), broadcast_to(at, (*lead, at.shape[-1]))
    out = OPS["gather"](rows, at, axis=rank - 1, batch_dims=rank - 1, mode=mode)
    return moveaxis(out, -1, place)


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[Dim]) -> Any:
    """A block of known size at a position that may be traced; the position is clamped to fit.

    Example:
        >>> dd.dynamic_slice(dd.arange(5), (2,), (2,))
        array([2, 3], dtype=int32)
    """
    x = value(x)
    return OPS["dynamic_slice"](x, _starts(starts), sizes=tuple(sizes))


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """``x`` with a block written at a position that may be traced; the position is clamped to fit.

    Example:
        >>> dd.dynamic_update_slice(dd.arange(3), dd.array([9]), (1,))
        array([0, 9, 2], dtype=int32)
    """
    x = value(x)
    return OPS["dynamic_update_slice"](x, convert(update, dtype_of(x)), _starts(starts))


def _starts(starts: Sequence[Any]) -> Any:
    if is_value(starts):
        return starts
    if not len(starts):
        return literal(np.zeros(0, np.int32), dtypes.int32)
    return stack([convert(s, dtypes.int32) for s in starts])


NUMBER = "number"


class _Plan:
    """An index expression, taken apart: basic slicing first, then at most one group of index arrays."""

    def __init__(self, shape: Shape, index: Any, mode: str = "error") -> None:
        self.mode = mode
        items = list(index) if isinstance(index, tuple) else [index]
        if any(item is Ellipsis for item in items):
            at = next(i for i, item in enumerate(items) if item is Ellipsis)
            if any(item is Ellipsis for item in items[at + 1 :]):
                raise ArgumentError("an index can have only one ...")
            used = sum(1 for item in items if item is not None and item is not Ellipsis)
            items[at : at + 1] = [slice(None)] * (len(shape) - used)
        used = sum(1 for item in items if item is not None)
        if used > len(shape):
            raise IndexOutOfRange(f"{used} indices for an array of rank {len(shape)}", rule=f"shape {show(shape)}")
        items += [slice(None)] * (len(shape) - used)
        self.start: list[Dim] = []
        self.stop: list[Dim] = []
        self.step: list[int] = []
        self.flipped: list[int] = []
        self.dropped: list[int] = []  # axes of the sliced array that an integer removes
        self.layout: list[Any] = []  # for each item: the axis it keeps, None, (axis, index array), or "number"
        axis = 0
        for item in items:
            if item is None:
                self.layout.append(None)
                continue
            self._axis(shape[axis], axis, item)
            axis += 1

    def _axis(self, n: Dim, axis: int, item: Any) -> None:
        if isinstance(item, slice):
            self._slice(n, axis, item)
            return
        if isinstance(item, (bool, np.bool_)):
            raise ArgumentTypeError("a bool is no index", hint="x[0] or x[1], or dd.where")
        if is_value(item) and (item.shape != () or not isinstance(item, np.generic)):
            self._whole(n)
            self.layout.append((axis, item))
            return
        if isinstance(item, (list, tuple)):
            self._whole(n)
            self.layout.append((axis, value(list(item))))
            return
        if isinstance(item, DimExpr):
            raise ShapeError(f"the size {item} as an index", hint="x[-1] for the last element")
        try:
            i = item.__index__()
        except (AttributeError, TypeError):
            raise ArgumentTypeError(
                f"{type(item).__name__} is no index", hint="an integer, a slice or an array"
            ) from None
        if isinstance(n, int):
            if not -n <= i < n and self.mode != "error":
                self._whole(n)
                self.layout.append((axis, ops.lit(i, dtypes.int64)))
                return
            if not -n <= i < n:
                raise IndexOutOfRange(f"index {i} is out of range for axis {axis} of size {n}")
            at: Dim = i % n
        else:
            at = i if i >= 0 else n + i
            why = f"index {i} of an axis of size {n}"
            if not may(Condition(at, ">=", 0), why) or not may(Condition(n, ">", at), why):
                raise IndexOutOfRange(f"index {i} is out of range for axis {axis} of size {n}")
        self.start.append(at)
        self.stop.append(at + 1)
        self.step.append(1)
        self.dropped.append(axis)
        self.layout.append(NUMBER)

    def _whole(self, n: Dim) -> None:
        self.start.append(0)
        self.stop.append(n)
        self.step.append(1)

    def _slice(self, n: Dim, axis: int, item: slice) -> None:
        for part in (item.start, item.stop, item.step):
            if is_value(part) and not isinstance(part, np.generic) and ops.current_trace() is not None:
                raise ArgumentTypeError("a slice needs known bounds", hint="dd.dynamic_slice(x, starts, sizes)")
        item = slice(*(p.__index__() if is_value(p) else p for p in (item.start, item.stop, item.step)))
        step = 1 if item.step is None else item.step.__index__()
        if step == 0:
            raise ArgumentError("a slice step cannot be 0")
        self.layout.append(axis)
        if isinstance(n, int) and not any(isinstance(p, DimExpr) for p in (item.start, item.stop)):
            start, stop, step = item.indices(n)
            if step < 0:
                count = max(0, -(-(start - stop) // -step))
                start, stop = (start + (count - 1) * step, start + 1) if count else (0, 0)
                step = -step
                self.flipped.append(axis)
            self.start.append(start)
            self.stop.append(max(start, stop))
            self.step.append(step)
            return
        if step < 0:
            raise ShapeError(f"a negative step over an axis of unknown size {n}", hint="dd.flip, then a slice")
        self.start.append(self._bound(item.start, 0, n))
        self.stop.append(self._bound(item.stop, n, n))
        self.step.append(step)

    def _bound(self, bound: Any, default: Dim, n: Dim) -> Dim:
        if bound is None:
            return default
        if isinstance(bound, DimExpr) or bound >= 0:
            return bound
        return n + bound.__index__()


def getitem(x: Any, index: Any, mode: str = "error") -> Any:
    """``x[index]``: integers, slices, ``...``, ``None``, integer arrays, and (outside traces) bool masks."""
    x = value(x)
    mode = check_mode(mode)
    if isinstance(index, list):
        index = value(index)
    if _is_mask(index):
        return _by_mask(x, index)
    if isinstance(index, tuple) and len(index) == 1 and _is_mask(index[0]):
        return _by_mask(x, index[0])
    if isinstance(index, tuple) and ops.current_trace() is None:
        index = tuple(at for item in index for at in (_where(item) if _is_mask(item) and item.shape else (item,)))
    plan = _Plan(tuple(x.shape), index, mode)
    rank = len(x.shape)
    if plan.start != [0] * rank or plan.stop != list(x.shape) or plan.step != [1] * rank:
        x = OPS["slice"](x, start=tuple(plan.start), stop=tuple(plan.stop), step=tuple(plan.step))
    if plan.flipped:
        x = OPS["flip"](x, axes=tuple(plan.flipped))
    arrays = [item for item in plan.layout if isinstance(item, tuple)]
    if any(dtype_of(a).kind == "b" for _, a in arrays):
        raise ArgumentTypeError("a bool mask for one axis of several", hint="a mask for the whole array, or dd.where")
    kept = [d for i, d in enumerate(x.shape) if i not in plan.dropped]
    x = reshape(x, tuple(kept))
    place = {old: new for new, old in enumerate(i for i in range(rank) if i not in plan.dropped)}
    if arrays:
        x, axes = _by_arrays(x, [(place[axis], a) for axis, a in arrays], plan, place, mode)
        return reshape(x, axes)
    return reshape(x, tuple(1 if item is None else x.shape[place[item]] for item in plan.layout if item != NUMBER))


def _is_mask(item: Any) -> bool:
    return is_value(item) and dtype_of(item).kind == "b" and (item.shape != () or ops.current_trace() is None)


def _where(mask: Any) -> tuple[np.ndarray[Any, Any], ...]:
    return np.nonzero(np.asarray(mask))


def _by_arrays(
    x: Any, arrays: list[tuple[int, Any]], plan: _Plan, place: dict[int, int], mode: str
) -> tuple[Any, Shape]:
    """Gathers with one index array an axis; gives the result and its shape with new axes put in."""
    common = broadcast_shapes(*(tuple(a.shape) for _, a in arrays), sure=False)
    axes = [axis for axis, _ in arrays]
    rest = [i for i in range(len(x.shape)) if i not in axes]
    if len(arrays) == 1:
        axis, i = arrays[0]
        y = OPS["gather"](x, wrap_index(i, x.shape[axis]), axis=axis, batch_dims=0, mode=mode)
        lead = [i for i in rest if i < axis]
        y = moveaxis(y, list(range(len(lead), len(lead) + len(common))), list(range(len(common))))
    else:
        flat = reshape(transpose(x, (*axes, *rest)), (size(x.shape[a] for a in axes), *(x.shape[i] for i in rest)))
        y = OPS["gather"](flat, linear_index(x, arrays, common, mode), axis=0, batch_dims=0, mode=mode)
    # y is (common, rest); NumPy puts the common axes where the arrays stood when they stand together, else in front;
    # a number beside an array counts as one.
    spots = [i for i, item in enumerate(plan.layout) if isinstance(item, tuple) or item == NUMBER]
    together = spots == list(range(spots[0], spots[-1] + 1))
    before = sum(1 for item in plan.layout[: spots[0]] if isinstance(item, int)) if together else 0
    y = moveaxis(y, list(range(len(common))), list(range(before, before + len(common)))) if before else y
    out: list[Dim] = [] if together else list(common)
    for i, item in enumerate(plan.layout):
        if item is None:
            out.append(1)
        elif isinstance(item, int):
            out.append(x.shape[place[item]])
        elif together and i == spots[0]:
            out.extend(common)
    return y, tuple(out)


def linear_index(x: Any, arrays: Sequence[tuple[int, Any]], common: Shape, mode: str = "error") -> Any:
    """Several index arrays as one index into their axes flattened; an index out of range stays out of range."""
    total: Any = None
    outside: Any = None
    for axis, i in arrays:
        n = x.shape[axis]
        if not isinstance(n, int):
            raise ShapeError(f"several index arrays over an axis of unknown size {n}", hint="dd.take along one axis")
        at = convert(wrap_index(value(i), n), dtypes.int64)
        if mode == "clip":
            at = OPS["minimum"](OPS["maximum"](at, ops.lit(0, dtypes.int64)), ops.lit(n - 1, dtypes.int64))
        at = own(at)
        bad = OPS["bitwise_or"](at < 0, at >= n)
        outside = bad if outside is None else OPS["bitwise_or"](outside, bad)
        total = at if total is None else total * n + at
    return broadcast_to(OPS["select"](outside, ops.lit(-1, dtypes.int64), total), common)


def _by_mask(x: Any, mask: Any) -> Any:
    if ops.current_trace() is not None:
        raise ArgumentTypeError(
            "a bool mask gives a result whose size depends on values, which a graph cannot have",
            hint="dd.where(mask, x, 0) keeps the shape; outside @defn the mask works",
        )
    if tuple(mask.shape) != tuple(x.shape[: len(mask.shape)]):
        raise IndexOutOfRange(f"a mask {show(mask.shape)} does not fit {show(x.shape)}")
    where = np.flatnonzero(np.asarray(mask))  # for rank 0: x once, or not at all, along a new axis
    flat = reshape(x, (size(mask.shape), *x.shape[len(mask.shape) :]))
    return OPS["gather"](flat, where.astype(np.int64), axis=0, batch_dims=0, mode="error" if len(where) else "fill")


__all__ = [
    "dynamic_slice",
    "dynamic_update_slice",
    "take",
    "take_along_axis",
]
