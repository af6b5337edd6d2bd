"""Reductions, cumulative functions and order statistics against NumPy: axes, keepdims, where, dtypes, NaN, size 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from numeric import Array, check, wide

import dala_defn as dd
from dala_defn import dtypes

DTYPES = [dd.float32, dd.float64, dd.int32, dd.int64, dd.uint8, dd.bool_]
SHAPES = [(), (1,), (0,), (6,), (2, 0, 3), (3, 1, 4)]
NAN = "ignore::RuntimeWarning"


def draw(dtype: Any, shape: tuple[int, ...], nan: bool = False, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype.dtype)
    x = rng.uniform(-3, 3, shape)
    return np.where(rng.random(shape) < (0.3 if nan else 0.0), np.nan, x).astype(dtype.dtype)


def axes_of(shape: tuple[int, ...]) -> list[Any]:
    return [None, *range(-len(shape), len(shape)), *([(0, -1)] if len(shape) > 1 else [])]


def expected(f: Callable[..., Any], x: Array, out: Any, **options: Any) -> Array:
    """NumPy's result in float64 for floats, in the dtype of the result for integers."""
    if out.is_float:
        return np.asarray(f(wide(x).astype(np.float64), **options))
    return np.asarray(f(x, **options)).astype(out.dtype)


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "ptp", "count_nonzero"]


@pytest.mark.filterwarnings(NAN)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: Any) -> None:
    if name == "ptp" and dtype.kind == "b":
        return
    f, g = getattr(dd, name), getattr(np, name)
    out = dtype
    if name in ("sum", "prod"):
        out = dtypes.accumulator(dtype)
    elif name in ("mean", "var", "std"):
        out = dtypes.to_inexact(dtype)
    elif name in ("any", "all"):
        out = dd.bool_
    elif name == "count_nonzero":
        out = dd.int32
    for shape in SHAPES:
        for nan in (False, True):
            x = draw(dtype, shape, nan)
            for axis in axes_of(shape):
                for keepdims in (False, True):
                    try:
                        want = expected(g, x, out, axis=axis, keepdims=keepdims)
                    except ValueError:
                        with pytest.raises(dd.ShapeError):
                            f(x, axis, keepdims=keepdims)
                        continue
                    check(f(x, axis, keepdims=keepdims), want, out, scale=4.0)


@pytest.mark.filterwarnings(NAN)
@pytest.mark.parametrize("dtype", [dd.float64, dd.int32], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all"])
def test_reductions_of_a_part(name: str, dtype: Any) -> None:
    f, g = getattr(dd, name), getattr(np, name)
    x, mask = draw(dtype, (4, 5)), draw(dd.bool_, (4, 5), seed=3)
    mask[1], mask[:, 2] = False, True
    mask[1] = False
    options: dict[str, Any] = {"initial": 2} if name in ("sum", "prod", "max", "min") else {}
    for m in (mask, mask[0], np.zeros_like(mask), True):
        for axis in (None, 0, 1):
            want = g(x.astype(np.float64) if name in ("mean", "var", "std") else x, axis=axis, where=m, **options)
            for run in (f, dd.defn(lambda x, m: f(x, axis, where=m, **options))):
                got = run(x, axis, where=m, **options) if run is f else run(x, m)
                assert np.allclose(np.asarray(got).astype(np.float64), want, rtol=1e-6, equal_nan=True), (name, axis)
    if name in ("max", "min"):
        with pytest.raises(dd.ArgumentError):
            f(x, where=mask)
        check(f(np.zeros((0, 3)), 0, initial=1.5), np.full(3, 1.5), dd.float64)


def test_deviations_take_a_correction() -> None:
    x = draw(dd.float64, (3, 4))
    for less in (0, 1, 1.5):
        check(dd.var(x, 1, correction=less), np.var(x, 1, ddof=less), dd.float64)
        check(dd.std(x, 1, ddof=less), np.std(x, 1, ddof=less), dd.float64)
    assert np.isnan(float(dd.var(np.ones(1), ddof=1)))


@pytest.mark.filterwarnings(NAN)
@pytest.mark.parametrize("name", "sum prod max min mean var std median cumsum cumprod argmax argmin".split())
def test_reductions_without_nan(name: str) -> None:
    f, g = getattr(dd, f"nan{name}"), getattr(np, f"nan{name}")
    for shape in ((5,), (3, 4), (1, 1)):
        x = draw(dd.float64, shape, nan=True, seed=2)
        for axis in (None, *range(len(shape))):
            if name.startswith("arg"):
                y = np.where(np.isnan(x).all(axis=axis, keepdims=True), 0.0, x)
                check(f(y, axis), g(y, axis), dd.int32)
                continue
            check(f(x, axis), g(x, axis), dd.float64)
            check(dd.defn(lambda x: f(x, axis))(x), g(x, axis), dd.float64)
    assert name.startswith(("sum", "prod", "cum", "arg")) or np.isnan(float(f(np.full(3, np.nan))))
    if name.startswith("arg"):
        assert int(f(np.full(3, np.nan))) == -1
        assert int(f(np.array([np.nan, np.inf if name == "argmin" else -np.inf]))) == 1


CUMULATIVE = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_functions(name: str, dtype: Any) -> None:
    f = getattr(dd, name)
    out = dtypes.accumulator(dtype) if name in ("cumsum", "cumprod") else dtype
    for shape in ((0,), (1,), (7,), (3, 4), (2, 0)):
        x = draw(dtype, shape)
        for axis in range(-len(shape), len(shape)):
            want = CUMULATIVE[name](wide(x) if out.is_float else x.astype(out.dtype), axis=axis)
            check(f(x, axis), want, out, scale=4.0)
            turned = np.flip(
                CUMULATIVE[name](np.flip(wide(x) if out.is_float else x.astype(out.dtype), axis), axis=axis), axis
            )
            check(f(x, axis, reverse=True), turned, out, scale=4.0)
        check(f(x), CUMULATIVE[name]((wide(x) if out.is_float else x.astype(out.dtype)).ravel()), out, scale=4.0)
    if dtype.is_float:
        x = np.array([1, np.nan, 2], dtype.dtype)
        check(f(x), CUMULATIVE[name](x), dtype)


def test_gradients_of_running_products_are_right_at_zeros() -> None:
    x = np.array([2.0, 0.0, 3.0, -1.0])
    got = dd.grad(lambda x: dd.sum(dd.cumprod(x)))(dd.array(x))
    want = [sum(np.prod(np.delete(x[: j + 1], i)) for j in range(i, 4)) for i in range(4)]
    assert np.allclose(np.asarray(got), want)


def test_cumulative_functions_of_the_array_api() -> None:
    x = draw(dd.int32, (2, 3))
    for ours, theirs in ((dd.cumulative_sum, np.cumulative_sum), (dd.cumulative_prod, np.cumulative_prod)):
        for initial in (False, True):
            check(ours(x, axis=1, include_initial=initial), theirs(x, axis=1, include_initial=initial).astype(np.int32))
        with pytest.raises(dd.ArgumentError):
            ours(x)


def test_averages() -> None:
    x, w = draw(dd.float64, (3, 4)), np.abs(draw(dd.float64, (3, 4), seed=1))
    for axis in (None, 0, 1, (0, 1)):
        check(dd.average(x, axis, w), np.average(x, axis, w), dd.float64)
        for got, want in zip(dd.average(x, axis, w, returned=True), np.average(x, axis, w, returned=True), strict=True):
            check(got, want)
    check(dd.average(x, 1, w[0], keepdims=True), np.average(x, 1, w[0], keepdims=True))
    with pytest.raises(dd.ShapeError):
        dd.average(x, 1, w[:, 0])


METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()


@pytest.mark.filterwarnings(NAN)
@pytest.mark.parametrize("method", METHODS)
def test_quantiles(method: str) -> None:
    qs: list[Any] = [0.0, 0.25, 0.5, 1.0, [0.1, 0.9], [[0.3, 0.6], [0.05, 0.95]], 1 / 3]
    for shape in ((1,), (7,), (3, 4)):
        x = draw(dd.float64, shape, seed=5)
        for axis in axes_of(shape):
            for q in qs:
                want = np.quantile(x, q, axis=axis, method=method)
                check(dd.quantile(x, q, axis, method), want, dd.float64)
                check(dd.defn(lambda x, q: dd.quantile(x, q, axis, method))(x, np.asarray(q)), want)
        assert np.isnan(float(dd.quantile(np.append(x, np.nan), 0.3, method=method)))
        check(dd.percentile(x, 30, method=method), np.percentile(x, 30, method=method))
        y = np.where(np.random.default_rng(1).random(shape) < 0.4, np.nan, x)
        check(dd.nanquantile(y, [0.2, 0.7], -1, method), np.nanquantile(y, [0.2, 0.7], -1, method=method))
    check(
        dd.quantile(x, [0.5], (0, 1), method, keepdims=True),
        np.quantile(x, [0.5], (0, 1), method=method, keepdims=True),
    )


def test_medians() -> None:
    for n in (1, 2, 5, 6):
        x = draw(dd.float32, (n, 3))
        check(dd.median(x), np.median(x.astype(np.float64)), dd.float32)
        check(dd.median(x, 0, keepdims=True), np.median(wide(x), 0, keepdims=True), dd.float32)
    assert float(dd.median(np.array([np.inf, np.inf]))) == np.inf
    assert dd.median(dd.array([1, 2])).dtype is dd.float32 and np.isnan(float(dd.median(dd.zeros(0))))
    slope = dd.grad(dd.median)(dd.array([3.0, 1.0, 2.0, 9.0]))
    assert slope.tolist() == [0.5, 0.0, 0.5, 0.0]
    with pytest.raises(dd.ArgumentError):
        dd.quantile(x, 1.5)
    with pytest.raises(dd.ArgumentError):
        dd.quantile(x, 0.5, method="best")


def test_modes() -> None:
    for shape, axes in (((9,), (None, 0)), ((4, 7), (None, 0, 1))):
        x = np.random.default_rng(0).integers(0, 4, shape)
        for axis in axes:
            for keepdims in (False, True):
                check(dd.mode(x, axis, keepdims), scipy.stats.mode(x, axis, keepdims=keepdims).mode)


def test_covariances() -> None:
    x, y = draw(dd.float64, (3, 8)), draw(dd.float64, (2, 8), seed=1)
    f, a = np.arange(1, 9), np.linspace(0.1, 1, 8)
    for options in ({}, {"bias": True}, {"ddof": 3}, {"fweights": f}, {"aweights": a}, {"fweights": f, "aweights": a}):
        check(dd.cov(x, **options), np.cov(x, **options), dd.float64)
    check(dd.cov(x, y), np.cov(x, y))
    check(dd.cov(x.T, y.T, rowvar=False), np.cov(x.T, y.T, rowvar=False))
    check(dd.cov(x[0]), np.cov(x[0]))
    check(dd.corrcoef(x, y), np.corrcoef(x, y))
    check(dd.corrcoef(x[0]), np.corrcoef(x[0]))


def test_symbolic_sizes() -> None:
    for f in (dd.mean, dd.median, dd.var, dd.cumsum, dd.ptp, dd.cov, dd.sort, dd.average, dd.nanmean):
        compiled = dd.defn(lambda x: f(x))
        graph = compiled.lower(dd.spec(("n",), dd.float64))
        assert "n" in str(graph)
