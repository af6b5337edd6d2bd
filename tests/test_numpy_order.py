"""Sorting, searching, counting, unique and indexing against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numeric import Array, check

import dala_defn as dd

DTYPES = [dd.float32, dd.float64, dd.int32, dd.int64, dd.uint8, dd.bool_]
SHAPES = [(0,), (1,), (9,), (3, 4), (2, 0, 3)]


def draw(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    x = rng.integers(0 if dtype.kind == "u" else -3, 4, shape)
    x = np.where(rng.random(shape) < 0.2, np.nan, x) if dtype.is_float else x
    return x.astype(dtype.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sorting_both_ways_is_stable(dtype: Any) -> None:
    for shape in SHAPES:
        x = draw(dtype, shape)
        for axis in (None, *range(-len(shape), len(shape))):
            check(dd.sort(x, axis), np.sort(x, axis), dtype)
            check(dd.argsort(x, axis), np.argsort(x, axis, kind="stable").astype(np.int32), dd.int32)
            line, place = (x.ravel(), 0) if axis is None else (x, axis)
            check(dd.sort(x, axis, descending=True), np.flip(np.sort(line, place), place), dtype)
            backwards = np.flip(np.argsort(np.flip(line, place), place, kind="stable"), place)
            check(dd.argsort(x, axis, descending=True), (line.shape[place] - 1 - backwards).astype(np.int32), dd.int32)


def test_lexsort_partition_and_top_k() -> None:
    a, b = draw(dd.int32, (4, 9)), draw(dd.int32, (4, 9), seed=1)
    check(dd.lexsort((a, b)), np.lexsort((a, b)).astype(np.int32))
    check(dd.lexsort((a, b), axis=0), np.lexsort((a, b), axis=0).astype(np.int32))
    x = draw(dd.float64, (3, 8))
    assert np.array_equal(np.asarray(dd.partition(x, 3))[:, 3], np.partition(x, 3)[:, 3], equal_nan=True)
    at = np.asarray(dd.argpartition(x, 3))
    assert np.array_equal(np.take_along_axis(x, at, 1)[:, 3], np.partition(x, 3)[:, 3], equal_nan=True)
    for axis in (0, 1, -1):
        for k in (0, 1, 3):
            values, places = dd.top_k(x, k, axis=axis)
            check(places, np.take(np.asarray(dd.argsort(x, axis, descending=True)), np.arange(k), axis), dd.int32)
            check(values, np.take_along_axis(x, np.asarray(places), axis))
    slope = dd.grad(lambda x: dd.sum(dd.top_k(x, 2)[0]))(dd.array([1.0, 3.0, 2.0]))
    assert slope.tolist() == [0, 1, 1]
    with pytest.raises(dd.ArgumentError):
        dd.top_k(x, 9)
    with pytest.raises(dd.ArgumentError):
        dd.partition(x, 8)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_searchsorted_and_digitize(side: Any, dtype: Any) -> None:
    for n in (0, 1, 2, 5, 17):
        a, v = np.sort(draw(dtype, (n,))), draw(dtype, (3, 5), seed=4)
        check(dd.searchsorted(a, v, side), np.searchsorted(a, v, side).astype(np.int32), dd.int32)
        check(dd.defn(lambda a, v: dd.searchsorted(a, v, side))(a, v), np.searchsorted(a, v, side).astype(np.int32))
        check(dd.searchsorted(draw(dtype, (n,)), v, side, np.argsort(draw(dtype, (n,)), kind="stable")),
              np.searchsorted(a, v, side).astype(np.int32))  # fmt: skip
        if n and dtype is dd.float64:
            edges = np.unique(a[~np.isnan(a)])
            for bins in (edges, edges[::-1]):
                for right in (False, True):
                    check(dd.digitize(v, bins, right), np.digitize(v, bins, right).astype(np.int32), dd.int32)
    symbolic = dd.defn(lambda a, v: dd.searchsorted(a, v, side))
    assert "n" in str(symbolic.lower(dd.spec(("n",), dd.float32), dd.spec((3,), dd.float32)))
    with pytest.raises(dd.ShapeError):
        dd.searchsorted(dd.zeros((2, 2)), 1.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_places_of_what_is_not_zero(dtype: Any) -> None:
    for shape in SHAPES:
        x = draw(dtype, shape)
        for got, want in zip(dd.nonzero(x), np.nonzero(x), strict=True):
            check(got, want.astype(np.int32), dd.int32)
        check(dd.argwhere(x), np.argwhere(x).astype(np.int32))
        check(dd.flatnonzero(x), np.flatnonzero(x).astype(np.int32))
        check(dd.where(x)[0], np.nonzero(x)[0].astype(np.int32))
        for size in (0, 2, 50):
            found = np.flatnonzero(x)[:size]
            want = np.concatenate([found, np.full(size - len(found), -7)]).astype(np.int32)
            for f in (dd.flatnonzero, dd.defn(lambda x: dd.flatnonzero(x, size=size, fill_value=-7))):
                check(f(x, size=size, fill_value=-7) if f is dd.flatnonzero else f(x), want)
            rows = dd.defn(lambda x: dd.nonzero(x, size=size, fill_value=-7))(x)
            for got, at in zip(rows, np.unravel_index(found, shape) if x.size else [found] * len(shape), strict=True):
                check(got, np.concatenate([at, np.full(size - len(at), -7)]).astype(np.int32))
    with pytest.raises(dd.ArgumentTypeError, match="size="):
        dd.defn(lambda x: dd.flatnonzero(x))(dd.ones(3))
    with pytest.raises(dd.ShapeError):
        dd.nonzero(dd.array(1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unique(dtype: Any) -> None:
    for shape in SHAPES:
        x = draw(dtype, shape)
        for equal_nan in (True, False):
            want = np.unique(x, True, True, True, equal_nan=equal_nan)
            got = dd.unique(x, True, True, True, equal_nan=equal_nan)
            check(got[0], want[0], dtype)
            for g, w in zip(got[1:], want[1:], strict=True):
                check(g, np.asarray(w).astype(np.int32), dd.int32)
        everything = dd.unique_all(x)
        check(everything.values, np.unique(x, equal_nan=False), dtype)
        check(dd.unique_counts(x).counts, np.unique_counts(x).counts.astype(np.int32))
        check(dd.unique_inverse(x).inverse_indices, np.unique_inverse(x).inverse_indices.astype(np.int32))
        check(dd.unique_values(x), np.unique(x, equal_nan=False), dtype)
    x = draw(dd.int32, (20,))
    some = np.unique(x)
    for size in (0, 3, 30):
        want = np.concatenate([some[:size], np.full(max(size - len(some), 0), 99)]).astype(np.int32)
        check(dd.defn(lambda x: dd.unique(x, size=size, fill_value=99))(x), want)
    check(dd.unique(x, size=len(some) + 1)[-1], some[0])
    with pytest.raises(dd.ArgumentTypeError, match="size="):
        dd.defn(lambda x: dd.unique(x))(x)


def test_membership_and_parts() -> None:
    for dtype in DTYPES:
        for n in (0, 3, 20):
            x, y = draw(dtype, (4, 5)), draw(dtype, (n,), seed=8)
            for invert in (False, True):
                check(dd.isin(x, y, invert=invert), np.isin(x, y, invert=invert), dd.bool_)
    x, keep = draw(dd.int32, (3, 4)), np.array([True, False, True])
    check(dd.compress(keep, x, 0), np.compress(keep, x, 0))
    check(
        dd.compress(keep, x, 0, size=3, fill_value=-1), np.concatenate([np.compress(keep, x, 0), np.full((1, 4), -1)])
    )
    check(dd.extract(x > 0, x), np.extract(x > 0, x))


def test_counting() -> None:
    x = np.random.default_rng(0).integers(0, 7, 50)
    w = np.random.default_rng(1).random(50)
    check(dd.bincount(x), np.bincount(x).astype(np.int32), dd.int32)
    check(dd.bincount(x, minlength=12), np.bincount(x, minlength=12).astype(np.int32))
    check(dd.bincount(x, w), np.bincount(x, w), dd.float64)
    check(dd.defn(lambda x: dd.bincount(x, length=4))(x), np.bincount(x)[:4].astype(np.int32))
    assert dd.bincount(np.zeros(0, np.int32)).shape == (0,)
    with pytest.raises(dd.ArgumentTypeError):
        dd.defn(lambda x: dd.bincount(x))(x)
    with pytest.raises(dd.ArgumentError):
        dd.bincount(np.array([-1]))
    y = np.random.default_rng(2).normal(size=200)
    for bins in (7, np.linspace(-2, 2, 6), np.array([-1.0, 0.5, 3.0])):
        for options in ({}, {"density": True}, {"weights": np.abs(y)}, {"range": (-1.0, 2.0)}):
            got, want = dd.histogram(y, bins, **options), np.histogram(y, bins, **options)
            assert np.allclose(np.asarray(got[0]), want[0]) and np.allclose(np.asarray(got[1]), want[1])
            assert np.allclose(np.asarray(dd.defn(lambda y: dd.histogram(y, bins, **options)[0])(y)), want[0])
    got, want = dd.histogram(np.ones(3), 2), np.histogram(np.ones(3), 2)
    assert np.array_equal(np.asarray(got[0]), want[0]) and np.allclose(np.asarray(got[1]), want[1])


INDICES: list[Any] = [
    (slice(1, None), np.array([0, 2])), (np.array([[0, 1], [2, 0]]), 1), (..., None, np.array([0])),
    (np.array([0, 2]), slice(None), np.array([1, 3])), (None, 1, ..., np.array([0, 0])), (1, None, np.array([0, 1])),
    (np.array([2, 0])[:, None], slice(0, 4, 2), np.array([1, 0, 3])), (slice(None), [0, 1], [2, 3]),
    (0, slice(None), np.array([1])), (np.array(1), np.array([0, 3])),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_index_arrays_beside_everything_else(number: int) -> None:
    x = np.arange(60).reshape(3, 4, 5)
    index = INDICES[number]
    check(dd.array(x)[index], x[index])
    check(dd.defn(lambda x: x[index])(x), x[index])
    for ours, theirs in (("set", None), ("add", np.add.at), ("multiply", np.multiply.at), ("max", np.maximum.at)):
        values = np.random.default_rng(0).integers(-3, 100, x[index].shape)
        want = x.copy()
        if theirs is None:
            want[index] = values
        else:
            theirs(want, index, values)
        check(getattr(dd.array(x).at[index], ours)(values), want)
        check(dd.defn(lambda x, v: getattr(x.at[index], ours)(v))(x, values), want)


def test_masks_as_indices() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    mask, rows = x % 3 == 0, np.array([True, False, True])
    for index in (mask, (slice(None), rows), (1, rows), (0, mask[0]), (..., np.array([True, False, False, True]))):
        check(dd.array(x)[index], x[index])
        want = x.copy()
        want[index] = -1
        check(dd.array(x).at[index].set(-1), want)
    for m in (mask, mask[:, :, 0], mask[:, 0, 0]):
        for name, f in (
            ("set", lambda a, b: b + 0 * a),
            ("add", np.add),
            ("multiply", np.multiply),
            ("min", np.minimum),
        ):
            want = x.copy()
            want[m] = f(want[m], 7)
            check(dd.defn(lambda x, m: getattr(x.at[m], name)(7))(x, m), want)
    want = x.copy()
    want[mask] = np.arange(mask.sum())
    check(dd.array(x).at[mask].set(np.arange(mask.sum())), want)
    with pytest.raises(dd.ArgumentTypeError):
        dd.defn(lambda x, m: x[m])(x, mask)
    with pytest.raises(dd.ShapeError):
        dd.array(x).at[mask[:1]].set(0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_updates_with_duplicates(dtype: Any) -> None:
    x = np.arange(6).astype(dtype.dtype)
    at = np.array([5, 1, 1, 3, 1, 5])
    values = np.array([2, 3, 1, 0, 2, 1]).astype(dtype.dtype)
    ufuncs = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}
    if dtype.kind != "b":
        ufuncs["subtract"] = np.subtract
    if dtype.is_float:
        ufuncs |= {"divide": np.divide, "power": np.power}
        values = np.where(values == 0, 0.5, values).astype(dtype.dtype)
    for name, f in ufuncs.items():
        want = x.copy()
        f.at(want, at, values)
        check(getattr(dd.array(x).at[at], name)(values), want, dtype)
    if dtype.is_float:
        for name in ("max", "min"):
            got = np.asarray(getattr(dd.array(x).at[at], name)(np.where(values == 2, np.nan, values)))
            assert np.isnan(got[[1, 5]]).all() and not np.isnan(got[[0, 2, 3, 4]]).any()
    elif dtype.kind != "b":
        with pytest.raises(dd.DTypeError):
            dd.array(x).at[0].divide(2)


def test_modes_of_indices() -> None:
    x = dd.array(np.arange(4.0))
    at = np.array([1, 9, -1, -9])
    assert x.at[at].get(mode="clip").tolist() == [1, 3, 3, 0]
    assert np.array_equal(np.asarray(x.at[at].get(mode="fill")), [1, np.nan, 3, np.nan], equal_nan=True)
    assert x.at[at].get(mode="fill", fill_value=-5.0).tolist() == [1, -5, 3, -5]
    assert x.at[at].set(7.0, mode="fill").tolist() == [0, 7, 2, 7]
    assert x.at[at].add(1.0, mode="clip").tolist() == [1, 2, 2, 5]
    assert x.at[7].get(mode="clip").tolist() == 3 and x.at[7].set(0.0, mode="fill").tolist() == [0, 1, 2, 3]
    assert x.at[1:3].apply(lambda v: v * 10).tolist() == [0, 10, 20, 3]
    with pytest.raises(dd.IndexOutOfRange):
        x.at[at].get()
    with pytest.raises(dd.IndexOutOfRange):
        x.at[7].set(0.0)
    with pytest.raises(dd.ArgumentError):
        x.at[0].set(0.0, mode="bounce")
    rows = np.arange(12).reshape(3, 4)
    check(dd.take(rows, at, 1, "wrap"), np.take(rows, at, 1, mode="wrap"))
    check(dd.take(rows, [0, 7], 1, "fill", fill_value=-1), [[0, -1], [4, -1], [8, -1]])
    y = dd.array(rows).at[np.array([2, 8]), np.array([1, 0])].set(99, mode="fill")
    check(y, np.where(rows == 9, 99, rows))


def test_gradients_of_updates() -> None:
    x, v = dd.array(np.array([2.0, 3.0, 4.0])), dd.array(np.array([5.0, 7.0]))
    at = np.array([1, 1])
    gx, gv = dd.grad(lambda x, v: dd.sum(x.at[at].multiply(v)), argnums=(0, 1))(x, v)
    assert gx.tolist() == [1, 35, 1] and gv.tolist() == [21, 15]
    gx, gv = dd.grad(lambda x, v: dd.sum(x.at[at].max(v)), argnums=(0, 1))(x, v)
    assert gx.tolist() == [1, 0, 1] and gv.tolist() == [0, 1]


def test_copies_with_other_elements() -> None:
    x = np.arange(12.0).reshape(3, 4)
    at = np.array([[0, 2], [1, 1], [3, 0]])
    want = x.copy()
    np.put_along_axis(want, at[:, :1], -1, 1)
    check(dd.put_along_axis(x, at[:, :1], -1, 1), want)
    want = x.copy()
    np.put(want, [1, 5, -1], [7, 8])
    check(dd.put(x, np.array([1, 5, -1]), np.array([7.0, 8.0])), want)
    want = x.copy()
    np.putmask(want, x > 4, [10.0, 20.0, 30.0])
    check(dd.putmask(x, x > 4, np.array([10.0, 20.0, 30.0])), want)
    want = x.copy()
    np.place(want, x > 4, [10.0, 20.0, 30.0])
    check(dd.place(x, x > 4, np.array([10.0, 20.0, 30.0])), want)
