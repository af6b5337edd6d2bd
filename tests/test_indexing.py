"""``x[...]`` and ``x.at[...]`` against NumPy on random indices, eagerly and under ``@defn``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import Array, any_dtype, check, draw_array, seeds

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.dtypes import DType

shapes = st.lists(st.sampled_from((0, 1, 2, 3, 5)), max_size=4).map(tuple)


def _slice(data: Any, n: int) -> slice:
    bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    return slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from((None, 1, 2, 3, -1, -2, -3))))


def basic_index(data: Any, shape: tuple[int, ...]) -> Any:
    """Integers, slices, ``None`` and at most one ``...``."""
    items: list[Any] = []
    for n in shape[: data.draw(st.integers(0, len(shape)))]:
        way = data.draw(st.sampled_from(("int", "slice", "slice")))
        items.append(data.draw(st.integers(-n, n - 1)) if way == "int" and n else _slice(data, n))
    for _ in range(data.draw(st.integers(0, 2))):
        items.insert(data.draw(st.integers(0, len(items))), None)
    if data.draw(st.booleans()):
        # What follows ... counts from the end, so only what fits any axis may.
        at = data.draw(st.integers(0, len(items)))
        items = [*items[:at], Ellipsis, *(i for i in items[at:] if i is None)]
    return items[0] if len(items) == 1 and data.draw(st.booleans()) else tuple(items)


def array_index(data: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integer arrays that broadcast together, beside basic items."""
    common = data.draw(st.sampled_from(((), (1,), (3,), (2, 3), (2, 1), (0,))))
    items: list[Any] = []
    for n in shape[: data.draw(st.integers(1, len(shape)))]:
        way = data.draw(st.sampled_from(("array", "array", "int", "slice")))
        if way == "array" and n:
            cut = common[data.draw(st.integers(0, len(common))) :]
            dtype = data.draw(st.sampled_from(dtypes.INTS))
            low = 0 if dtype.kind == "u" else -n
            rng = np.random.default_rng(data.draw(seeds))
            size = tuple(c if data.draw(st.booleans()) or c == 0 else 1 for c in cut)
            items.append(np.asarray(rng.integers(low, max(n, low + 1), size)).astype(dtype.dtype))
        else:
            items.append(data.draw(st.integers(-n, n - 1)) if way == "int" and n else _slice(data, n))
    if data.draw(st.booleans()):
        items.insert(data.draw(st.integers(0, len(items))), None)
    return tuple(items)


def both(x: Array, f: Any) -> list[Any]:
    """Eagerly and under ``@defn``."""
    return [f(dd.array(x)), dd.defn(f)(x)]


@given(any_dtype, shapes, seeds, st.data())
def test_basic_indices(dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    index = basic_index(data, shape)
    for got in both(x, lambda v: v[index]):
        check(got, x[index], dtype)


def as_ours(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Index arrays as arrays of Dala."""
    return tuple(dd.array(i) if isinstance(i, np.ndarray) else i for i in index)


@given(any_dtype, shapes.filter(len), seeds, st.data())
def test_integer_arrays(dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    index = array_index(data, shape)
    for got in [*both(x, lambda v: v[index]), dd.array(x)[as_ours(index)]]:
        check(got, x[index], dtype)


@given(any_dtype, shapes, seeds, st.integers(0, 4))
def test_masks(dtype: DType, shape: tuple[int, ...], seed: int, rank: int) -> None:
    x = draw_array(dtype, shape, seed)
    mask = draw_array(dd.bool_, shape[:rank], seed + 1)
    if mask.ndim:
        check(dd.array(x)[mask], x[mask], dtype)
        check(dd.array(x)[dd.array(mask)], x[mask], dtype)


@given(st.sampled_from(dtypes.NUMERIC), shapes, seeds, st.booleans(), st.data())
def test_at_set_and_add(dtype: DType, shape: tuple[int, ...], seed: int, arrays: bool, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    index = array_index(data, shape) if arrays and shape else basic_index(data, shape)
    target = x[index]
    values = draw_array(dtype, target.shape[data.draw(st.integers(0, target.ndim)) :], seed + 1)
    # NumPy keeps the last of several writes to a place when values are written in order, as it does here.
    places = np.arange(x.size).reshape(shape)[index].ravel()
    new = np.broadcast_to(values, target.shape).ravel()
    was_set, added = x.ravel().copy(), x.astype(np.float64 if dtype.is_float else x.dtype).ravel()
    for place, v in zip(places, new, strict=True):
        was_set[place] = v
    with np.errstate(all="ignore"):
        np.add.at(added, places, new.astype(added.dtype))
    for got in both(x, lambda v: v.at[index].set(values)):
        check(got, was_set.reshape(shape), dtype)
    for got in both(x, lambda v: v.at[index].add(values)):
        check(got, added.reshape(shape), dtype, 4.0 * (1 + len(places)))
    assert np.array_equal(x, draw_array(dtype, shape, seed))


@given(any_dtype, shapes.filter(len), seeds, st.sampled_from(("error", "clip", "fill")), st.data())
def test_take_and_take_along_axis(dtype: DType, shape: tuple[int, ...], seed: int, mode: str, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    n = x.size if axis is None else shape[axis]
    if n == 0:
        return
    rng = np.random.default_rng(seed)
    out = 0 if mode == "error" else 3
    i = rng.integers(-n - out, n + out, data.draw(st.sampled_from(((), (4,), (2, 3)))))
    wrapped = np.where(i < 0, i + n, i)
    want = np.take(x, np.clip(wrapped, 0, n - 1), axis)
    if mode == "fill":
        at = 0 if axis is None else axis % len(shape)
        inside = ((wrapped >= 0) & (wrapped < n)).reshape(
            (*np.shape(i), *(1,) * (0 if axis is None else x.ndim - 1 - at))
        )
        want = np.where(inside, want, np.nan if dtype.is_float else 0).astype(x.dtype)
    check(dd.take(x, i, axis, mode=mode), want, dtype)
    if axis is not None and mode == "error":
        order = rng.integers(0, n, x.shape)
        check(dd.take_along_axis(x, order, axis), np.take_along_axis(x, order, axis), dtype)


def test_an_index_out_of_range_is_an_error_in_every_way() -> None:
    x = dd.arange(5)
    for bad in (5, -6):
        with pytest.raises(dd.IndexOutOfRange):
            x[bad]
        with pytest.raises(dd.IndexOutOfRange, match=r"out of range"):
            x[dd.array([0, bad])]
        with pytest.raises(dd.IndexOutOfRange):
            dd.defn(lambda v, i: v[i])(x, np.array([bad]))
        with pytest.raises(dd.IndexOutOfRange):
            x.at[np.array([bad])].set(1)
        with pytest.raises(dd.IndexOutOfRange):
            dd.ones((5, 5))[np.array([0, 1]), np.array([0, bad])]
    with pytest.raises(dd.IndexOutOfRange):
        x[0, 0]


def test_indices_that_are_none_are_refused() -> None:
    x = dd.arange(5)
    for bad in (1.5, "a", True, dd.array([0.5])):
        with pytest.raises(dd.ArgumentTypeError):
            x[bad]
    with pytest.raises(dd.ArgumentError):
        x[::0]
    with pytest.raises(dd.ArgumentError):
        x[..., ...]
    with pytest.raises(dd.IndexOutOfRange):
        x[np.array([True, False])]
    with pytest.raises(dd.ArgumentTypeError, match="mask"):
        dd.defn(lambda v: v[v > 2])(x)
    with pytest.raises(dd.ArgumentTypeError):
        x[0] = 1  # type: ignore[index]


def test_iteration_length_and_unpacking() -> None:
    x = dd.array([[1, 2], [3, 4]])
    a, b = x
    assert len(x) == 2 and a.tolist() == [1, 2] and b.tolist() == [3, 4]
    assert [int(v) for v in dd.arange(3)] == [0, 1, 2]
    assert [10, 20, 30][dd.array(1)] == 20
    with pytest.raises(dd.ArgumentTypeError):
        len(dd.array(1))
