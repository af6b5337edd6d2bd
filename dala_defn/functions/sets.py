"""Sets of elements: what is different, what is in both, in one, in neither; sorted, and of a given size where needed.

Complex numbers are sorted by their real parts, then by the imaginary ones.

Inside ``@defn`` the size of a result cannot depend on values: ``size`` says how many there are to be. What is beyond is
left out, and ``fill_value`` (by default the first of what was found, 0 where nothing was) stands where there are fewer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dala_defn import dtypes, ops
from dala_defn.errors import ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, own, owned
from dala_defn.functions.complexes import imag, real
from dala_defn.functions.creation import arange, full
from dala_defn.functions.reduce import any as _any
from dala_defn.functions.shape import broadcast_to, concatenate, cut, moveaxis, ravel, reshape
from dala_defn.functions.sorting import gather, lexsort, places, searchsorted, sized
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axis, show
from dala_defn.shapes import size as _size


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Any
    inverse_indices: Any


def _both_nan(x: Any, y: Any) -> Any:
    return E.logical_and(E.isnan(x), E.isnan(y))


def _fresh(line: Any, nan_once: bool) -> Any:
    """Which rows of what is sorted differ from the one before; the first one does."""
    n = line.shape[0]
    high, low = cut(line, 0, 1, n), cut(line, 0, 0, n - 1)
    new = E.not_equal(high, low)
    if nan_once and dtype_of(line).is_inexact:
        new = E.logical_and(new, E.logical_not(_both_nan(high, low)))
    if len(new.shape) > 1:
        new = _any(new, tuple(range(1, len(new.shape))))
    return concatenate([broadcast_to(ops.lit(True, dtypes.bool_), (1,)), new])


def _unique(name: str, x: Any, size: int | None, fill_value: Any, nan_once: bool, rows: bool = False) -> UniqueAll:
    x = own(x)
    flat = x if rows else ravel(x)
    n = flat.shape[0]
    shape = (n,) if rows else tuple(x.shape)
    if isinstance(n, int) and n == 0:
        found = sized(name, 0, size)
        zeros = full((found,), 0, dtypes.int32)
        fill = convert(0 if fill_value is None else fill_value, dtype_of(x))
        return UniqueAll(full((found, *flat.shape[1:]), fill), zeros, full(shape, 0, dtypes.int32), zeros)
    if rows:
        order = _row_order(name, flat)
    else:
        order = _order(flat)
    line = gather(flat, order)
    first = _fresh(line, nan_once)
    group = OPS["cumsum"](convert(first, dtypes.int32), axis=0, reverse=False) - 1
    found = sized(name, group[-1] + 1 if size is None else None, size)
    blank = full((found,), -1, dtypes.int32)
    target = E.where(first, group, found)
    starts = OPS["scatter_set"](blank, target, arange(n), axis=0, batch_dims=0, mode="fill") if found else blank
    empty = starts < 0
    at = gather(order, starts) if found else blank
    values = gather(line, starts, 0, "clip" if found else "fill")
    lost = reshape(empty, (found, *(1 for _ in flat.shape[1:])))
    if fill_value is not None:
        values = E.where(lost, convert(fill_value, dtype_of(x)), values)
    elif found:
        values = E.where(lost, line[0], values)  # the smallest, as there is always one
    nothing = full((found,), 0, dtypes.int32)
    ones = full((n,), 1, dtypes.int32)
    counts = OPS["scatter_add"](nothing, group, ones, axis=0, batch_dims=0, mode="fill") if found else nothing
    inverse = OPS["scatter_set"](full((n,), 0, dtypes.int32), order, group, axis=0, batch_dims=0, mode="clip")
    return UniqueAll(values, E.where(empty, 0, at), reshape(inverse, shape), counts)


def _order(x: Any) -> Any:
    """The places that sort a vector; complex numbers by their real part, then the imaginary one."""
    return lexsort([imag(x), real(x)]) if dtype_of(x).kind == "c" else OPS["argsort"](x, axis=0)


def _find(line: Any, x: Any) -> Any:
    """For each element the place of the first in a sorted vector that equals it, if one does."""
    if dtype_of(line).kind == "c":
        return OPS["argmax"](reshape(x, (-1, 1)) == reshape(line, (1, -1)), axis=1)
    return E.minimum(searchsorted(line, x), line.shape[0] - 1)


def _row_order(name: str, rows: Any) -> Any:
    """The order of rows by their first element, then their second, and so on."""
    n, width = rows.shape[0], _size(rows.shape[1:])
    if not isinstance(width, int):
        raise ShapeError(f"{name} of rows {show(rows.shape)}, whose size is not known")
    flat = reshape(rows, (n, width))
    columns = [reshape(cut(flat, 1, k, k + 1), (n,)) for k in range(width)]
    return lexsort(columns[::-1]) if columns else arange(n)


def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements in ascending order; also the first place of each, where each went, and how often.

    With ``axis`` it is the different parts along that axis, ordered by their first element, then their second, and so
    on; a part with a NaN is like no other then. Inside ``@defn`` ``size`` is needed: that many, the largest left out,
    and ``fill_value`` (by default the smallest element) where there are fewer. The result is always sorted.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.unique(dd.array([3, 1, 3]), return_counts=True)
        (array([1, 3], dtype=int32), array([1, 2], dtype=int32))
        >>> dd.unique(dd.array([[1, 2], [0, 1], [1, 2]]), axis=0)
        array([[0, 1],
               [1, 2]], dtype=int32)
    """
    if axis is None:
        out = _unique("unique", x, size, fill_value, equal_nan)
    else:
        x = own(x)
        place = normalize_axis(axis, len(x.shape))
        out = _unique("unique", moveaxis(x, place, 0), size, fill_value, False, rows=True)
        out = out._replace(values=moveaxis(out.values, 0, place))
    wanted = (return_index, return_inverse, return_counts)
    parts = [part for part, want in zip(out[1:], wanted, strict=True) if want]
    return (out.values, *parts) if parts else out.values


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The different elements, the first place of each, where each went, and how often; every NaN is different.

    Example:
        >>> dd.unique_all(dd.array([3, 1, 3])).inverse_indices
        array([1, 0, 1], dtype=int32)
    """
    return _unique("unique_all", x, size, fill_value, False)


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The different elements in ascending order, and how often each occurs; every NaN is different.

    Example:
        >>> dd.unique_counts(dd.array([3, 1, 3])).counts
        array([1, 2], dtype=int32)
    """
    out = _unique("unique_counts", x, size, fill_value, False)
    return UniqueCounts(out.values, out.counts)


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The different elements in ascending order, and where each element went; every NaN is different.

    Example:
        >>> dd.unique_inverse(dd.array([3, 1, 3])).values
        array([1, 3], dtype=int32)
    """
    out = _unique("unique_inverse", x, size, fill_value, False)
    return UniqueInverse(out.values, out.inverse_indices)


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements in ascending order; every NaN is different.

    Example:
        >>> dd.unique_values(dd.array([3, 1, 3]))
        array([1, 3], dtype=int32)
    """
    return _unique("unique_values", x, size, fill_value, False).values


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Any:
    """Whether each element is one of the others; a bool array of its shape. ``invert``: whether it is none of them.

    ``assume_unique`` and ``kind`` change nothing.

    Example:
        >>> dd.isin(dd.array([1, 2, 3]), dd.array([2, 5]))
        array([False,  True, False])
    """
    a, b = owned(element, test_elements)
    b = ravel(b)
    n = b.shape[0]
    if isinstance(n, int) and n == 0:
        out = broadcast_to(ops.lit(False, dtypes.bool_), tuple(a.shape))
    elif isinstance(n, int) and n > 8 and dtype_of(b).kind != "c":
        line = OPS["sort"](b, axis=0)
        out = gather(line, E.minimum(searchsorted(line, a), n - 1)) == a
    else:
        out = _any(reshape(a, (*a.shape, 1)) == b, -1)
    return E.logical_not(out) if invert else out


def _lines(x: Any, y: Any) -> list[Any]:
    return [ravel(v) for v in owned(x, y)]


def _sorted(x: Any) -> Any:
    return gather(x, _order(x))


def _kept(name: str, line: Any, keep: Any, size: int | None, fill_value: Any, *beside: Any) -> list[Any]:
    """The elements that are kept, and those beside them."""
    n = line.shape[0]
    at = places(name, keep, size, -1)
    out = []
    for k, v in enumerate((line, *beside)):
        if n == 0 or at.shape[0] == 0:
            fill = convert(0 if fill_value is None or k else fill_value, dtype_of(v))
            out.append(full(tuple(at.shape), fill))
            continue
        picked = gather(v, E.maximum(at, 0))
        fill = 0 if k else fill_value
        if fill is None:
            fill = E.where(at[0] < 0, convert(0, dtype_of(v)), picked[0])
        out.append(E.where(at < 0, convert(fill, dtype_of(v)), picked))
    return out


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements of two arrays together, in ascending order; ``size`` is needed inside ``@defn``.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.union1d(dd.array([3, 1]), dd.array([2, 3]))
        array([1, 2, 3], dtype=int32)
    """
    return _unique("union1d", concatenate(_lines(ar1, ar2)), size, fill_value, True).values


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements that are in both arrays, in ascending order; NaN is in none.

    With ``return_indices`` also the first place of each in either array (0 where there is none). ``size`` is needed
    inside ``@defn``. ``assume_unique`` changes nothing.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.intersect1d(dd.array([3, 1, 3]), dd.array([2, 3]), return_indices=True)
        (array([3], dtype=int32), array([0], dtype=int32), array([1], dtype=int32))
    """
    x, y = _lines(ar1, ar2)
    blank = full((0,), 0, dtypes.int32)
    if x.shape[0] == 0 or y.shape[0] == 0:
        nothing = full((0,), convert(0, dtype_of(x)))
        out = _kept("intersect1d", nothing, full((0,), False), size, fill_value, blank, blank)
    else:
        order, other = _order(x), _order(y)
        line, match = gather(x, order), gather(y, other)
        at = _find(match, line)
        keep = E.logical_and(_fresh(line, True), gather(match, at) == line)
        out = _kept("intersect1d", line, keep, size, fill_value, order, gather(other, at))
    return tuple(out) if return_indices else out[0]


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The different elements of the first array that are not in the second, in ascending order.

    ``size`` is needed inside ``@defn``. With ``assume_unique`` the elements stay as they are, in their order.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.setdiff1d(dd.array([3, 1, 3, 2]), dd.array([2]))
        array([1, 3], dtype=int32)
    """
    x, y = _lines(ar1, ar2)
    keep = isin(x, y, invert=True)
    if not assume_unique and x.shape[0] != 0:
        x = _sorted(x)
        keep = E.logical_and(_fresh(x, True), isin(x, y, invert=True))
    return _kept("setdiff1d", x, keep, size, fill_value)[0]


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The different elements that are in one of two arrays only, in ascending order; a NaN of either stays.

    ``size`` is needed inside ``@defn``. ``assume_unique`` changes nothing.

    Raises:
        ArgumentTypeError: without ``size`` while tracing.

    Example:
        >>> dd.setxor1d(dd.array([3, 1]), dd.array([2, 3]))
        array([1, 2], dtype=int32)
    """
    x, y = _lines(ar1, ar2)
    both = concatenate([x, y])
    n = both.shape[0]
    if n == 0:
        return _kept("setxor1d", both, full((0,), False), size, fill_value)[0]
    order = _order(both)
    line, second = gather(both, order), order >= x.shape[0]
    fresh = _fresh(line, True)
    keep = E.logical_and(fresh, E.logical_xor(isin(line, x), isin(line, y)))
    if dtype_of(line).is_inexact:
        turn = E.not_equal(second, concatenate([cut(second, 0, 0, 1), cut(second, 0, 0, n - 1)]))
        keep = E.where(E.isnan(line), E.logical_or(fresh, turn), keep)
    return _kept("setxor1d", line, keep, size, fill_value)[0]


__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
