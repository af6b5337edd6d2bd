"""``x.at[...]`` and the scatters under it: against NumPy's ``ufunc.at``; derivatives against central differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.ops import OPS

Array = np.ndarray[Any, Any]
UFUNCS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
REAL = (*dtypes.INTS, *dtypes.FLOATS)


def draw(dtype: Any, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype.dtype)
    return (rng.integers(-8, 9, shape) / 4).astype(dtype.dtype)


def wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_duplicates_count_as_in_numpy(name: str, dtype: Any) -> None:
    x, u = draw(dtype, (5, 3), 0), draw(dtype, (7, 3), 1)
    at = np.array([0, 3, 3, -1, 0, 0, 2])
    want = wide(x).copy()
    with np.errstate(all="ignore"):
        UFUNCS[name].at(want, at, wide(u))
    f = dd.defn(lambda x, u, at: getattr(x.at[at], name)(u))
    for executor in ("flex", "reference"):
        with dd.using(executor):
            for found in (getattr(dd.array(x).at[dd.array(at)], name)(dd.array(u)), f(x, u, at)):
                assert found.dtype is dtype
                np.testing.assert_allclose(
                    wide(np.asarray(found)),
                    want.astype(dtype.dtype).astype(want.dtype),
                    rtol=2e-2 if dtype.itemsize == 2 else 1e-6,
                )


@pytest.mark.parametrize("name", UFUNCS)
def test_every_kind_of_index(name: str) -> None:
    x = draw(dtypes.float64, (4, 5), 0)
    rows, columns = np.array([[0], [2]]), np.array([1, 1, 3])
    for index in (2, (1, slice(None, None, 2)), (slice(None), -1), (rows, columns), (Ellipsis, [0, 0]), x > 0):
        want = x.copy()
        UFUNCS[name].at(want, index, 1.5)
        found = getattr(dd.array(x).at[index], name)(1.5)
        np.testing.assert_allclose(np.asarray(found), want)


@pytest.mark.parametrize("name", ["scatter_mul", "scatter_max", "scatter_min"])
def test_modes(name: str) -> None:
    x, u, at = dd.array([1.0, 2.0, 3.0]), dd.array([5.0, 0.5]), dd.array([7, -2])
    kept = OPS[name](x, at, u, axis=0, batch_dims=0, mode="fill")
    assert np.array_equal(kept, x)
    clipped = np.asarray(OPS[name](x, at, u, axis=0, batch_dims=0, mode="clip"))
    join = {"scatter_mul": np.multiply, "scatter_max": np.maximum, "scatter_min": np.minimum}[name]
    assert clipped.tolist() == [join(1.0, 0.5), 2.0, join(3.0, 5.0)]
    with pytest.raises(dd.IndexOutOfRange):
        OPS[name](x, at, u, axis=0, batch_dims=0, mode="error")
    with pytest.raises(dd.ArgumentError):
        OPS[name](x, at, u, axis=0, batch_dims=0, mode="other")


def test_at_takes_modes_too() -> None:
    x = dd.array([1.0, 2.0, 3.0])
    for name, want in (("multiply", 6.0), ("max", 3.0), ("min", 2.0), ("divide", 1.5), ("power", 9.0)):
        method = getattr(x.at[dd.array([9])], name)
        assert np.asarray(method(2.0, mode="fill")).tolist() == [1, 2, 3]
        assert np.asarray(method(2.0, mode="clip")).tolist() == [1, 2, want]
        with pytest.raises(dd.IndexOutOfRange):
            method(2.0)
    assert np.asarray(x.at[dd.array([0, 9])].get(mode="fill", fill_value=-1.0)).tolist() == [1, -1]
    assert np.asarray(x.at[dd.array([0, 9])].get(mode="clip")).tolist() == [1, 3]
    assert np.asarray(x.at[dd.array([0, 1])].apply(dd.square)).tolist() == [1, 4, 3]


def test_nan_wins_and_sizes_of_zero() -> None:
    nan = float("nan")
    x = dd.array([1.0, nan, 2.0])
    at = dd.array([0, 1, 2])
    u = dd.array([nan, 5.0, 5.0])
    np.testing.assert_array_equal(x.at[at].max(u), [nan, nan, 5])
    np.testing.assert_array_equal(x.at[at].min(u), [nan, nan, 2])
    for name in UFUNCS:
        same = getattr(x.at[dd.zeros((0,), dd.int32)], name)(1.0)
        np.testing.assert_array_equal(same, x)
        empty = getattr(dd.zeros((0, 3)).at[:, 0], name)(1.0)
        assert empty.shape == (0, 3)
        one = getattr(dd.array([3.0]).at[0], name)(2.0)
        assert float(one[0]) == UFUNCS[name](3.0, 2.0)


def test_bool_and_complex() -> None:
    b = dd.array([True, False])
    assert np.asarray(b.at[dd.array([0, 1])].min(dd.array([False, True]))).tolist() == [False, False]
    assert np.asarray(b.at[dd.array([1])].max(True)).tolist() == [True, True]
    z = dd.array([1 + 1j, 2.0])
    found = z.at[dd.array([0, 0])].multiply(dd.array([1j, 2.0]))
    np.testing.assert_allclose(np.asarray(found), [(1 + 1j) * 2j, 2])
    with pytest.raises(dd.DTypeError):
        z.at[0].max(1.0)


GRADIENTS: list[tuple[str, list[int], list[float], list[float]]] = [
    ("multiply", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 1.5, 2.5, -1.0, 3.0]),
    ("multiply", [0, 0, 0, 1, 1], [2.0, 0.0, 4.0, 5.0], [0.5, 0.0, 2.5, 0.0, 0.0]),
    ("max", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 7.0, 4.5, -1.0, 3.0]),
    ("min", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 7.0, 3.5, -1.0, 3.0]),
    ("set", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 7.0, 3.5, -1.0, 3.0]),
    ("add", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 7.0, 3.5, -1.0, 3.0]),
    ("divide", [0, 0, 2, -1, 0], [2.0, 3.0, 4.0, 5.0], [0.5, 1.5, 2.5, -1.0, 3.0]),
    ("power", [0, 0, 2, -1, 1], [2.0, 3.0, 4.0, 5.0], [0.5, 1.5, 2.5, -1.0, 3.0]),
]


@pytest.mark.parametrize(("name", "at", "x", "u"), GRADIENTS)
def test_derivatives_are_central_differences(name: str, at: list[int], x: Any, u: Any) -> None:
    weights = dd.array([1.0, -2.0, 3.0, 0.5], dd.float64)

    def f(x: Any, u: Any) -> Any:
        return dd.sum(getattr(x.at[dd.array(at)], name)(u) ** 2 * weights)

    dd.testing.check_grads(f, (dd.array(x, dd.float64), dd.array(u, dd.float64)), order=2)


@pytest.mark.parametrize(("name", "at", "x", "u"), GRADIENTS)
def test_vmap_is_a_stack_of_rows(name: str, at: list[int], x: Any, u: Any) -> None:
    rng = np.random.default_rng(0)
    xs = dd.array(np.abs(rng.normal(size=(3, 4))) + 0.5)
    us = dd.array(np.abs(rng.normal(size=(3, 5))) + 0.5)
    places = dd.array(rng.integers(0, 4, (3, 5)))

    def f(x: Any, u: Any, at: Any) -> Any:
        return getattr(x.at[at], name)(u)

    def loss(x: Any, u: Any, at: Any) -> Any:
        return dd.sum(f(x, u, at) ** 2)

    for g in (f, dd.grad(loss), dd.grad(loss, 1)):
        rows = np.stack([np.asarray(g(xs[i], us[i], places[i])) for i in range(3)])
        np.testing.assert_allclose(np.asarray(dd.vmap(g)(xs, us, places)), rows, rtol=1e-6)
        shared = np.stack([np.asarray(g(xs[i], us[0], places[0])) for i in range(3)])
        found = dd.vmap(g, in_axes=(0, None, None))
        np.testing.assert_allclose(np.asarray(found(xs, us[0], places[0])), shared, rtol=1e-6)


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_derivative(name: str) -> None:
    x, u = dd.array([2.0, 1.0, 5.0]), dd.array([2.0, 2.0, 1.0])
    at = dd.array([0, 0, 1])
    f = dd.grad(lambda x, u: dd.sum(getattr(x.at[at], name)(u) * dd.array([6.0, 1.0, 1.0])), (0, 1))
    gx, gu = (np.asarray(g).tolist() for g in f(x, u))
    np.testing.assert_allclose(gx, [2, 0.5, 1], rtol=1e-6)
    np.testing.assert_allclose(gu, [2, 2, 0.5], rtol=1e-6)
    t = dd.jvp(lambda x, u: getattr(x.at[at], name)(u), (x, u), (dd.array([3.0, 2.0, 1.0]), dd.array([6.0, 0.0, 4.0])))[
        1
    ]
    np.testing.assert_allclose(np.asarray(t), [3, 3, 1], rtol=1e-6)


def test_a_zero_cotangent_gives_zero_beside_what_is_not_finite() -> None:
    x, u, at = dd.array([np.inf, 2.0]), dd.array([0.0, np.nan, 3.0]), dd.array([0, 0, 1])
    gx, gu = dd.grad(lambda x, u: x.at[at].multiply(u)[1], (0, 1))(x, u)
    assert np.asarray(gx).tolist() == [0, 3]
    assert np.asarray(gu).tolist() == [0, 0, 2]


def test_dropped_updates_get_no_derivative() -> None:
    x, u, at = dd.array([1.0, 2.0]), dd.array([3.0, 4.0]), dd.array([5, 0])
    for name in ("multiply", "max", "min", "add", "set"):
        g = dd.grad(Dropped(x, at, name))(u)
        assert np.asarray(g)[0] == 0
        assert np.isfinite(np.asarray(g)).all()


class Dropped:
    def __init__(self, x: Any, at: Any, name: str) -> None:
        self.given = x, at, name

    def __call__(self, u: Any) -> Any:
        x, at, name = self.given
        return dd.sum(getattr(x.at[at], name)(u, mode="fill"))


def test_exported(tmp_path: Path) -> None:
    f = dd.defn(lambda x, u, at: x.at[at].multiply(u).at[at].max(0.5).at[at].min(u))
    x, u = draw(dtypes.float32, (6,), 0), draw(dtypes.float32, (4,), 1)
    at = np.array([1, 1, 5, 0], np.int32)
    want = x.astype(np.float64)
    np.multiply.at(want, at, u)
    np.maximum.at(want, at, 0.5)
    np.minimum.at(want, at, u)
    f.export(tmp_path / "f.dala", x, u, at)
    for executor in ("flex", "reference"):
        with dd.using(executor):
            np.testing.assert_allclose(np.asarray(dd.load(tmp_path / "f.dala")(x, u, at)), want, rtol=1e-6)
