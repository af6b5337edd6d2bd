"""Sets of elements against NumPy, eagerly and with a given size inside ``@defn``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dala_defn as dd
from dala_defn import dtypes

NAN = np.nan
TWO = ("union1d", "intersect1d", "setdiff1d", "setxor1d")
lines = st.lists(st.integers(0, 6), max_size=12)


@given(lines, lines, st.sampled_from(dtypes.ELEMENTS))
def test_two_arrays_as_in_numpy(a: list[int], b: list[int], dtype: Any) -> None:
    x, y = (np.array(v, np.int64).astype(dtype.dtype) for v in (a, b))
    if dtype.kind == "c":
        x, y = ((v // 2 + 1j * (v % 2)).astype(dtype.dtype) for v in (x.real, y.real))
    wide = [v.astype(np.float64) if dtype.is_float else v for v in (x, y)]
    for name in TWO:
        found = getattr(dd, name)(dd.array(x), dd.array(y))
        assert found.dtype is dtype
        assert np.asarray(found).astype(wide[0].dtype).tolist() == getattr(np, name)(*wide).tolist(), name
        through = getattr(np, name)(dd.array(x), dd.array(y))
        assert isinstance(through, dd.Array)
    for invert in (False, True):
        assert np.array_equal(dd.isin(x, y, invert=invert), np.isin(*wide, invert=invert))
    got = dd.intersect1d(x, y, return_indices=True)
    for u, v in zip(got, np.intersect1d(*wide, return_indices=True), strict=True):
        assert np.asarray(u).astype(complex).tolist() == v.astype(complex).tolist()
    kept = dd.setdiff1d(x, y, assume_unique=True)
    assert np.asarray(kept).astype(complex).tolist() == np.setdiff1d(*wide, assume_unique=True).tolist()
    for u, v in zip(dd.unique(x, True, True, True), np.unique(wide[0], True, True, True), strict=True):
        assert np.asarray(u).astype(complex).tolist() == v.tolist()


def test_nan_is_as_in_numpy() -> None:
    x, y = np.array([1, NAN, NAN, 2, 3]), np.array([NAN, 3, 4])
    for name in TWO:
        for a, b in ((x, y), (y, x), (x, y[1:]), (x[3:], y)):
            np.testing.assert_array_equal(np.asarray(getattr(dd, name)(a, b)), getattr(np, name)(a, b), name)
    np.testing.assert_array_equal(np.asarray(dd.isin(x, y)), np.isin(x, y))


def _sized(name: str, size: int | None, x: Any, y: Any, /) -> Any:
    return getattr(dd, name)(x, y, size=size, fill_value=-7)


@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_sizes_inside_defn(executor: str, tmp_path: Path) -> None:
    x, y = np.array([5, 1, 5, 3, 2]), np.array([3, 9, 1])
    with dd.using(executor):
        for name in TWO:
            want = getattr(np, name)(x, y).tolist()
            for size in (0, 1, len(want), len(want) + 3):
                f = dd.defn(partial(_sized, name, size))
                found = np.asarray(f(x, y)).tolist()
                assert found == (want + [-7] * size)[:size], name
            default = np.asarray(getattr(dd, name)(x, y, size=len(want) + 2)).tolist()
            assert default == [*want, want[0], want[0]]
            with pytest.raises(dd.ArgumentTypeError, match="size"):
                dd.defn(partial(_sized, name, None))(x, y)
        empty = dd.intersect1d(x, np.array([100]), size=2)
        assert np.asarray(empty).tolist() == [0, 0]
        f = dd.defn(lambda x, y: dd.union1d(x, y, size=5))
        f.export(tmp_path / "f.dala", x, y)
        assert np.asarray(dd.load(tmp_path / "f.dala")(x, y)).tolist() == np.union1d(x, y).tolist()


OPTIONS = [(i, v, c) for i in (False, True) for v in (False, True) for c in (False, True)]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique_takes_numpys_arguments(axis: int | None) -> None:
    rng = np.random.default_rng(0)
    for shape in ((6, 2), (4, 1), (1, 5), (3, 0)):
        x = rng.integers(0, 2, shape)
        if axis is not None and x.size == 0:
            continue
        for index, inverse, counts in OPTIONS:
            want = np.unique(x, index, inverse, counts, axis)
            found = dd.unique(dd.array(x), index, inverse, counts, axis)
            wanted = want if isinstance(want, tuple) else (want,)
            for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)
    cube = rng.integers(0, 2, (5, 2, 3))
    np.testing.assert_array_equal(np.asarray(dd.unique(cube, axis=0)), np.unique(cube, axis=0))
    np.testing.assert_array_equal(np.asarray(dd.unique(cube, axis=2)), np.unique(cube, axis=2))


def test_rows_with_nan_are_as_in_numpy() -> None:
    x = np.array([[1.0, NAN], [1.0, NAN], [0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_array_equal(np.asarray(dd.unique(x, axis=0)), np.unique(x, axis=0))


def test_unique_rows_of_a_given_size() -> None:
    x = np.array([[1, 2], [0, 1], [1, 2]])
    f = dd.defn(lambda x: dd.unique(x, axis=0, size=3, fill_value=-1, return_counts=True))
    values, counts = f(x)
    assert np.asarray(values).tolist() == [[0, 1], [1, 2], [-1, -1]]
    assert np.asarray(counts).tolist() == [1, 2, 0]


def test_the_names_of_the_array_api() -> None:
    x = np.array([3.0, NAN, 1.0, NAN, 3.0])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        for a, b in zip(getattr(dd, name)(x), getattr(np, name)(x), strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
    np.testing.assert_array_equal(np.asarray(dd.unique_values(x)), np.sort(np.unique_values(x)))
