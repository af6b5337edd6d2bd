"""``x.at[...]`` and other changed copies of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, DTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, is_value, own, same
from dala_defn.functions.indexing import check_mode, getitem, take_along_axis
from dala_defn.functions.joining import resize
from dala_defn.functions.shape import broadcast_to, concatenate, cut, ravel, reshape
from dala_defn.ops.spec import OPS
from dala_defn.shapes import show, size


def _segments(k: Any, v: Any) -> tuple[Any, Any]:
    """Writes sorted by place, each with the product of those to the same place up to it."""
    order = OPS["argsort"](k, axis=0)
    k, v = (OPS["gather"](a, order, axis=0, batch_dims=0, mode="clip") for a in (k, v))
    n, step = int(k.shape[0]), 1
    while step < n:
        together = cut(k, 0, 0, n - step) == cut(k, 0, step, n)
        new = cut(v, 0, step, n)
        v = concatenate([cut(v, 0, 0, step), E.where(together, cut(v, 0, 0, n - step) * new, new)])
        step *= 2
    return k, v


def _scatter(op: str, x: Any, k: Any, v: Any) -> Any:
    return OPS[op](x, k, v, axis=0, batch_dims=0, mode="fill")


def _set(x: Any, k: Any, v: Any) -> Any:
    return _scatter("scatter_set", x, k, v)


def _add(x: Any, k: Any, v: Any) -> Any:
    return _scatter("scatter_add", x, k, v)


def _by_product(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def update(x: Any, k: Any, v: Any) -> Any:
        ones = broadcast_to(convert(1, dtype_of(x)), tuple(x.shape))
        if dtype_of(x).kind != "c":
            return f(x, _mul(ones, k, v))
        return f(x, _scatter("scatter_set", ones, *_segments(k, v)))

    return update


def _primitive(op: str) -> Callable[[Any, Any, Any], Any]:
    return lambda x, k, v: _scatter(op, x, k, v)


_max, _min, _mul = _primitive("scatter_max"), _primitive("scatter_min"), _primitive("scatter_mul")


class At:
    """``x.at[index]``: a changed copy of an array, element by element.

    An index out of range is an error (``mode="error"``), is clamped (``"clip"``), or left out (``"fill"``). A bool mask
    as the index works inside ``@defn`` too, as long as the values do not depend on how many elements it chooses.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any = None) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> At:
        return At(self._x, index)

    def set(self, values: Any, *, mode: str = "error") -> Any:
        """The array with ``values`` (broadcast) at the index; of several writes to a place the last one stays.

        Example:
            >>> dd.zeros(3).at[1].set(5.0)
            array([0., 5., 0.], dtype=float32)
        """
        return self._update(_set, lambda x, v: v, values, mode)

    def add(self, values: Any, *, mode: str = "error") -> Any:
        """The array with ``values`` (broadcast) added at the index; every duplicate counts.

        Example:
            >>> dd.zeros(3).at[dd.array([0, 0])].add(1.0)
            array([2., 0., 0.], dtype=float32)
        """
        return self._update(_add, E.add, values, mode)

    def subtract(self, values: Any, *, mode: str = "error") -> Any:
        """The array with ``values`` (broadcast) subtracted at the index; every duplicate counts.

        Example:
            >>> dd.zeros(3).at[dd.array([0, 0])].subtract(1.0)
            array([-2.,  0.,  0.], dtype=float32)
        """
        return self._update(lambda x, k, v: _add(x, k, E.negative(v)), E.subtract, values, mode)

    def multiply(self, values: Any, *, mode: str = "error") -> Any:
        """The array multiplied by ``values`` (broadcast) at the index; every duplicate counts.

        Example:
            >>> dd.ones(3).at[dd.array([0, 0])].multiply(3.0)
            array([9., 1., 1.], dtype=float32)
        """
        by_one = _by_product(E.multiply) if dtype_of(own(self._x)).kind == "c" else _mul
        return self._update(by_one, E.multiply, values, mode)

    def divide(self, values: Any, *, mode: str = "error") -> Any:
        """The array divided by ``values`` (broadcast) at the index, by their product for duplicates.

        Raises:
            DTypeError: for integers.

        Example:
            >>> dd.ones(3).at[0].divide(2.0)
            array([0.5, 1. , 1. ], dtype=float32)
        """
        dtype = dtype_of(own(self._x))
        if not dtype.is_inexact:
            raise DTypeError(f"x.at[...].divide on {dtype}: a quotient is no integer", hint="x.astype(dd.float32)")
        return self._update(_by_product(E.divide), E.divide, values, mode)

    def power(self, values: Any, *, mode: str = "error") -> Any:
        """The array to the power of ``values`` (broadcast) at the index; of their product for duplicates.

        Example:
            >>> dd.array([2.0, 3.0]).at[1].power(2.0)
            array([2., 9.], dtype=float32)
        """
        return self._update(_by_product(E.power), E.power, values, mode)

    def max(self, values: Any, *, mode: str = "error") -> Any:
        """The larger of the array and ``values`` (broadcast) at the index; NaN wins, ties share the derivative.

        Example:
            >>> dd.zeros(2).at[dd.array([0, 0])].max(dd.array([3.0, 2.0]))
            array([3., 0.], dtype=float32)
        """
        return self._update(_max, E.maximum, values, mode)

    def min(self, values: Any, *, mode: str = "error") -> Any:
        """The smaller of the array and ``values`` (broadcast) at the index; NaN wins, ties share the derivative.

        Example:
            >>> dd.zeros(2).at[dd.array([0, 0])].min(dd.array([-3.0, 2.0]))
            array([-3.,  0.], dtype=float32)
        """
        return self._update(_min, E.minimum, values, mode)

    def apply(self, f: Callable[[Any], Any], *, mode: str = "error") -> Any:
        """The array with ``f`` of it at the index. ``f`` sees the whole array; elsewhere its derivative is 0.

        Example:
            >>> dd.array([1.0, 4.0]).at[1].apply(dd.sqrt)
            array([1., 2.], dtype=float32)
        """
        x = own(self._x)
        chosen = At(broadcast_to(ops.lit(False, dtypes.bool_), tuple(x.shape)), self._index).set(True, mode=mode)
        return E.where(chosen, convert(f(x), dtype_of(x)), x)

    def get(self, *, mode: str = "error", fill_value: Any = None) -> Any:
        """``x[index]`` with a choice of what an index out of range gives: an error, the nearest, or ``fill_value``.

        Without a ``fill_value`` the fill is NaN for floats and 0 otherwise.

        Example:
            >>> dd.arange(3).at[dd.array([1, 7])].get(mode="fill", fill_value=-1)
            array([ 1, -1], dtype=int32)
        """
        x = own(self._x)
        if mode != "fill" or fill_value is None:
            return getitem(x, self._index, mode)
        places = self._places(x, mode)
        return E.where(places < 0, convert(fill_value, dtype_of(x)), getitem(x, self._index, mode))

    def _places(self, x: Any, mode: str) -> Any:
        """The flat positions of the elements that the index names, by indexing the array of all; -1 for none."""
        total = size(x.shape)
        if not isinstance(total, int):
            raise ShapeError(f"x.at[...] on an array of unknown size {show(x.shape)}", hint="dd.dynamic_update_slice")
        numbers = reshape(OPS["iota"](shape=(total,), axis=0, dtype=dtypes.int64) + 1, tuple(x.shape))
        return getitem(numbers, self._index, mode) - 1

    def _update(
        self, scatter: Callable[[Any, Any, Any], Any], whole: Callable[[Any, Any], Any], values: Any, mode: str
    ) -> Any:
        check_mode(mode)
        x = own(self._x)
        dtype = dtype_of(x)
        values = convert(values if not isinstance(values, (list, tuple)) else own(values), dtype)
        mask = self._index
        if is_value(mask) and dtype_of(mask).kind == "b" and mask.shape != ():
            rest = len(x.shape) - len(mask.shape)
            if rest < 0 or tuple(mask.shape) != tuple(x.shape[: len(mask.shape)]):
                raise ShapeError(f"a mask {show(mask.shape)} does not fit {show(x.shape)}")
            if len(values.shape) <= rest:
                wide = reshape(own(mask), (*mask.shape, *(1 for _ in range(rest))))
                return E.where(wide, convert(whole(x, values), dtype), x)
        places = self._places(x, mode)
        new = broadcast_to(values, tuple(places.shape))
        count = size(places.shape)
        if count == 0:
            return same(x)
        logical = dtype.kind == "b" and scatter is not _set
        flat, new = ravel(x), reshape(new, (count,))
        if logical:
            flat, new = convert(flat, dtypes.int32), convert(new, dtypes.int32)
        out = scatter(flat, reshape(places, (count,)), own(new))
        return reshape(convert(out, dtype), tuple(x.shape))


def put_along_axis(x: Any, indices: Any, values: Any, axis: int | None) -> Any:
    """A copy of the array with ``values`` at the places that ``take_along_axis`` takes from.

    In NumPy this changes its argument; arrays here do not change. Of several writes to a place the last one stays.

    Example:
        >>> dd.put_along_axis(dd.zeros((1, 3)), dd.array([[2]]), 5.0, axis=1)
        array([[0., 0., 5.]], dtype=float32)
    """
    x = own(x)
    total = size(x.shape)
    if not isinstance(total, int):
        raise ShapeError(f"put_along_axis on an array of unknown size {show(x.shape)}")
    shape = tuple(x.shape) if axis is not None else (total,)
    numbers = reshape(OPS["iota"](shape=(total,), axis=0, dtype=dtypes.int64), shape)
    places = take_along_axis(numbers, indices, 0 if axis is None else axis)
    new = broadcast_to(convert(values if not isinstance(values, list) else own(values), dtype_of(x)), places.shape)
    if size(places.shape) == 0:
        return x
    return reshape(_set(ravel(x), ravel(places), ravel(new)), tuple(x.shape))


def put(x: Any, ind: Any, v: Any, mode: str = "error") -> Any:
    """A copy of the array with values at flat indices; values are repeated when there are too few.

    In NumPy this changes its argument; arrays here do not change.

    Example:
        >>> dd.put(dd.zeros(3), dd.array([0, 2]), 1.0)
        array([1., 0., 1.], dtype=float32)
    """
    x, at = own(x), ravel(own(ind))
    if at.shape[0] == 0:
        return x
    v = ravel(convert(v if not isinstance(v, list) else own(v), dtype_of(x)))
    return reshape(At(ravel(x))[at].set(resize(v, (at.shape[0],)), mode=mode), tuple(x.shape))


def putmask(x: Any, mask: Any, values: Any) -> Any:
    """A copy of the array with ``values`` (repeated to its size) where the mask holds; the shape and dtype stay.

    In NumPy this changes its argument; arrays here do not change.

    Example:
        >>> dd.putmask(dd.arange(3), dd.array([True, False, True]), dd.array([7, 8]))
        array([7, 1, 7], dtype=int32)
    """
    x = own(x)
    v = convert(values if not isinstance(values, list) else own(values), dtype_of(x))
    return E.where(mask, v if not v.shape else resize(v, tuple(x.shape)), x)


def place(x: Any, mask: Any, vals: Any) -> Any:
    """A copy of the array with the first, second, … of ``vals`` (repeated) where the mask holds.

    In NumPy this changes its argument; arrays here do not change.

    Raises:
        ArgumentError: without values.

    Example:
        >>> dd.place(dd.arange(3), dd.array([True, False, True]), dd.array([7, 8]))
        array([7, 1, 8], dtype=int32)
    """
    x = own(x)
    vals = ravel(convert(own(vals), dtype_of(x)))
    n = vals.shape[0]
    if not isinstance(n, int) or n == 0:
        raise ArgumentError(f"place: {n} values")
    chosen = convert(own(mask), dtypes.bool_)
    rank = OPS["cumsum"](convert(ravel(chosen), dtypes.int32), axis=0, reverse=False) - 1
    new = OPS["gather"](vals, E.remainder(rank, n), axis=0, batch_dims=0, mode="clip")
    return E.where(chosen, reshape(new, tuple(x.shape)), x)


__all__ = ["place", "put", "put_along_axis", "putmask"]
