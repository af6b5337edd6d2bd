"""Sorting, searching, and what follows from order; results of unknown size take their size from ``size=``."""

from __future__ import annotations

from typing import Any

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dim_value, dtype_of, own, owned
from dala_defn.functions.creation import arange, full
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import broadcast_to, cut, flip, moveaxis, ravel, reshape, stack
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, normalize_axis, show


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    x = own(x)
    return (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))


def gather(x: Any, at: Any, axis: int = 0, mode: str = "clip") -> Any:
    """Places of an axis, without checks."""
    return OPS["gather"](x, at, axis=axis, batch_dims=0, mode=mode)


def sort(x: Any, axis: int | None = -1, *, descending: bool = False, stable: bool = True, kind: Any = None) -> Any:
    """The elements in order along an axis (``None``: flattened). NaN counts as the largest.

    The order is always stable; ``kind`` is taken as NumPy has it and changes nothing.

    Example:
        >>> dd.sort(dd.array([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """
    x, place = _along(x, axis)
    out = OPS["sort"](x, axis=place)
    return flip(out, place) if descending else out


def argsort(x: Any, axis: int | None = -1, *, descending: bool = False, stable: bool = True, kind: Any = None) -> Any:
    """The int32 indices that sort along an axis (``None``: flattened), stable both ways. NaN counts as the largest.

    Example:
        >>> dd.argsort(dd.array([3, 1, 2]))
        array([1, 2, 0], dtype=int32)
    """
    x, place = _along(x, axis)
    if not descending:
        return OPS["argsort"](x, axis=place)
    backwards = flip(OPS["argsort"](flip(x, place), axis=place), place)
    return dim_value(x.shape[place] - 1, dtypes.int32) - backwards


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The int32 indices that sort by several keys along an axis, the last key first.

    Raises:
        ArgumentError: without keys.

    Example:
        >>> dd.lexsort((dd.array([2, 1, 0]), dd.array([0, 1, 0])))
        array([2, 0, 1], dtype=int32)
    """
    lines = [own(k) for k in keys]
    if not lines:
        raise ArgumentError("lexsort: no keys")
    place = normalize_axis(axis, len(lines[0].shape))
    order: Any = None
    for line in lines:
        line = moveaxis(line, place, -1)
        if order is None:
            order = OPS["argsort"](line, axis=len(line.shape) - 1)
            continue
        rank = len(line.shape) - 1
        then = OPS["argsort"](OPS["gather"](line, order, axis=rank, batch_dims=rank, mode="clip"), axis=rank)
        order = OPS["gather"](order, then, axis=rank, batch_dims=rank, mode="clip")
    return moveaxis(order, -1, place)


def partition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    """The elements such that those at ``kth`` are where sorting would put them: here all are sorted.

    Example:
        >>> dd.partition(dd.array([3, 1, 2]), 1)[1]
        array(2, dtype=int32)
    """
    x, place = _along(x, axis)
    _check_kth(kth, x.shape[place])
    return OPS["sort"](x, axis=place)


def argpartition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    """The int32 indices of ``partition``: here those of a stable sort.

    Example:
        >>> dd.argpartition(dd.array([3, 1, 2]), 1)[1]
        array(2, dtype=int32)
    """
    x, place = _along(x, axis)
    _check_kth(kth, x.shape[place])
    return OPS["argsort"](x, axis=place)


def _check_kth(kth: Any, n: Dim) -> None:
    for k in [kth] if isinstance(kth, int) else list(kth):
        if isinstance(n, int) and not -n <= k < n:
            raise ArgumentError(f"partition: place {k} is out of range for an axis of size {n}")


def top_k(x: Any, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The ``k`` largest along an axis in descending order, and their int32 indices; NaN counts as the largest.

    Of equal elements the first come first. Differentiable.

    Raises:
        ArgumentError: when k is negative or larger than the axis.

    Example:
        >>> dd.top_k(dd.array([3, 1, 2]), 2)
        (array([3, 2], dtype=int32), array([0, 2], dtype=int32))
    """
    x = own(x)
    rank = len(x.shape)
    place = normalize_axis(axis, rank)
    n = x.shape[place]
    if k < 0 or (isinstance(n, int) and k > n):
        raise ArgumentError(f"top_k: {k} of {n}")
    order = cut(argsort(x, place, descending=True), place, 0, k)
    rows, at = moveaxis(x, place, -1), moveaxis(order, place, -1)
    values = OPS["gather"](rows, at, axis=rank - 1, batch_dims=rank - 1, mode="clip")
    return moveaxis(values, -1, place), order


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The int32 places in an ascending vector before which elements keep it sorted (``side="right"``: after equals).

    Works by binary search; NaN counts as the largest.

    Raises:
        ShapeError: when ``a`` is no vector.
        ArgumentError: for another side.

    Example:
        >>> dd.searchsorted(dd.array([1, 3, 5]), dd.array([3, 6]))
        array([1, 3], dtype=int32)
    """
    a, v = owned(a, v)
    if len(a.shape) != 1:
        raise ShapeError(f"searchsorted: {show(a.shape)} is no vector")
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side {side!r}", hint='"left" or "right"')
    if sorter is not None:
        a = gather(a, own(sorter))
    n = a.shape[0]
    at: Any = broadcast_to(ops.lit(0, dtypes.int32), tuple(v.shape))
    if isinstance(n, int) and n == 0:
        return at

    def before(x: Any) -> Any:
        if side == "right":
            known = E.less_equal(x, v)
            return E.logical_or(known, E.isnan(v)) if dtype_of(v).is_float else known
        known = E.less(x, v)
        return (
            E.logical_or(known, E.logical_and(E.isnan(v), E.logical_not(E.isnan(x)))) if dtype_of(v).is_float else known
        )

    if not isinstance(n, int):
        return _sum(before_rows(a, v, before), -1, dtypes.int32)
    step = 1 << (n.bit_length() - 1)
    while step:  # at is the number of elements known to come before
        reach = at + step
        inside = E.logical_and(reach <= n, before(gather(a, E.minimum(reach, n) - 1)))
        at = E.where(inside, reach, at)
        step //= 2
    return at


def before_rows(a: Any, v: Any, before: Any) -> Any:
    """Which elements come before, for each of ``v``, in a new last axis."""
    n = a.shape[0]
    rows = broadcast_to(reshape(a, (*(1 for _ in v.shape), n)), (*v.shape, n))
    lines = moveaxis(rows, -1, 0)
    return moveaxis(before(lines), 0, -1)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The int32 number of the bin of each element, for edges that ascend or descend.

    A bin has its lower edge (with ``right``: its upper one); 0 is below the first, ``len(bins)`` beyond the last.

    Raises:
        ShapeError: when ``bins`` is no vector of known size.

    Example:
        >>> dd.digitize(dd.array([0.5, 2.0]), dd.array([0.0, 1.0, 2.0]))
        array([1, 3], dtype=int32)
    """
    bins, x = owned(bins, x)
    if len(bins.shape) != 1 or not isinstance(bins.shape[0], int):
        raise ShapeError(f"digitize: bins {show(bins.shape)}")
    up = searchsorted(bins, x, "left" if right else "right")
    n = bins.shape[0]
    if n < 2:
        return up
    down = n - searchsorted(flip(bins, 0), x, "left" if right else "right")
    return E.where(bins[0] <= bins[-1], up, down)


def sized(name: str, count: Any, given: int | None) -> int:
    """The number of results: what is given, else what is counted, which only eager arrays allow."""
    if given is not None:
        if given < 0:
            raise ArgumentError(f"{name}: size {given}")
        return given
    if ops.current_trace() is not None:
        raise ArgumentTypeError(
            f"{name}: the size of the result depends on values, which a graph cannot have",
            hint=f"dd.{name}(..., size=n)",
        )
    return int(count)


def flatnonzero(x: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The int32 flat indices of the elements that are not zero.

    Inside ``@defn`` ``size`` is needed: that many, the rest left out, and ``fill_value`` where there are fewer.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.flatnonzero(dd.array([0, 7, 2]), size=3, fill_value=-1)
        array([ 1,  2, -1], dtype=int32)
    """
    mask = convert(ravel(own(x)), dtypes.bool_)
    return places("flatnonzero", mask, size, fill_value)


def places(name: str, mask: Any, size: int | None, fill_value: Any) -> Any:
    """The places of what is set in a vector of bools, and ``fill_value`` where there are fewer than ``size``."""
    n = mask.shape[0]
    rank = OPS["cumsum"](convert(mask, dtypes.int32), axis=0, reverse=False)
    found = sized(name, 0 if n == 0 else rank[-1] if size is None else None, size)
    target = E.where(mask, rank - 1, found)
    blank = full((found,), convert(fill_value, dtypes.int32))
    if found == 0 or n == 0:
        return blank
    return OPS["scatter_set"](blank, target, arange(n), axis=0, batch_dims=0, mode="fill")


def nonzero(x: Any, *, size: int | None = None, fill_value: Any = 0) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, one int32 array an axis.

    Inside ``@defn`` ``size`` is needed: that many, the rest left out, and ``fill_value`` (one for all axes, or one
    each) where there are fewer.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.
        ShapeError: for rank 0, or unknown sizes behind the first axis.

    Example:
        >>> dd.nonzero(dd.array([[0, 7], [2, 0]]))
        (array([0, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    x = own(x)
    if not x.shape:
        raise ShapeError("nonzero of an array of rank 0", hint="dd.atleast_1d(x)")
    fills = list(fill_value) if isinstance(fill_value, (tuple, list)) else [fill_value] * len(x.shape)
    flat = places("nonzero", convert(ravel(x), dtypes.bool_), size, -1)
    empty = flat < 0
    out: list[Any] = []
    rest = E.where(empty, 0, flat)
    for n, fill in zip(reversed(x.shape[1:]), reversed(fills[1:]), strict=True):
        if not isinstance(n, int):
            raise ShapeError(f"nonzero of an array {show(x.shape)} of unknown size")
        out.append(E.where(empty, convert(fill, dtypes.int32), E.remainder(rest, n)))
        rest = E.floor_divide(rest, n)
    out.append(E.where(empty, convert(fills[0], dtypes.int32), rest))
    return tuple(out[::-1])


def argwhere(x: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The indices of the elements that are not zero, as int32 rows; ``size`` as in ``nonzero``.

    Example:
        >>> dd.argwhere(dd.array([[0, 7], [2, 0]]))
        array([[0, 1],
               [1, 0]], dtype=int32)
    """
    return stack(list(nonzero(x, size=size, fill_value=fill_value)), 1)


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """``x`` where the condition holds, else ``y``; all three broadcast, x and y are promoted to one dtype.

    A side that is not chosen gets a zero derivative, even where its own derivative is inf or NaN. Without x and y:
    ``nonzero(condition)``.

    Raises:
        ArgumentError: with one of x and y.

    Example:
        >>> dd.where(dd.array([True, False]), 1.0, 2.0)
        array([1., 2.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where takes both x and y, or neither")
    return E.where(condition, x, y)


def compress(condition: Any, x: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The parts of an axis (``None``: flattened) for which a vector of conditions holds; ``size`` as in ``nonzero``.

    Example:
        >>> dd.compress(dd.array([True, False, True]), dd.array([1, 2, 3]))
        array([1, 3], dtype=int32)
    """
    x, place = _along(x, axis)
    mask = convert(own(condition), dtypes.bool_)
    if len(mask.shape) != 1:
        raise ShapeError(f"compress: the condition {show(mask.shape)} is no vector")
    at = places("compress", mask, size, -1)
    picked = gather(x, at, place, "fill" if at.shape[0] == 0 else "clip")
    lost = reshape(at < 0, tuple(-1 if i == place else 1 for i in range(len(x.shape))))
    return E.where(lost, convert(fill_value, dtype_of(x)), picked)


def extract(condition: Any, x: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements for which the condition holds, in flattened order; ``size`` as in ``nonzero``.

    Example:
        >>> x = dd.arange(4)
        >>> dd.extract(x % 2 == 1, x)
        array([1, 3], dtype=int32)
    """
    return compress(ravel(own(condition)), ravel(own(x)), 0, size=size, fill_value=fill_value)


__all__ = [
    "argpartition",
    "argsort",
    "argwhere",
    "compress",
    "digitize",
    "extract",
    "flatnonzero",
    "lexsort",
    "nonzero",
    "partition",
    "searchsorted",
    "sort",
    "top_k",
    "where",
]
