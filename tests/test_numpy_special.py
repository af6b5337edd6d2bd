"""Special functions against SciPy and libm: errors within what the docstrings say, edges, and derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as S
from numeric import Array

import dala_defn as dd

DTYPES = [np.float32, np.float64]
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def points(dtype: Any, low: float, high: float, n: int = 4001) -> Array:
    return np.linspace(low, high, n).astype(dtype)


def ulps(got: Any, want: Array, dtype: Any, least: Any = 0.0) -> float:
    """The largest error in units of the last place, of at least those of ``least``."""
    found = np.asarray(got)
    assert found.dtype == dtype
    size = np.maximum(np.abs(want), least).astype(dtype)
    return float(np.max(np.abs(found.astype(np.float64) - want) / np.spacing(size).astype(np.float64)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_errors_are_within_what_is_stated(dtype: Any, executor: str) -> None:
    wide = np.float64
    with dd.using(executor):
        x = points(dtype, -5, 9 if dtype == np.float32 else 26)
        assert ulps(dd.special.erfc(x), _erfc(x.astype(wide)), dtype) <= 8
        x = np.concatenate([points(dtype, 0, 20), np.logspace(1, 20, 99).astype(dtype)])
        assert ulps(dd.special.erfcx(x), S.erfcx(x.astype(wide)), dtype) <= 8
        edge = 1 - np.logspace(-6 if dtype == np.float32 else -15, -2, 99).astype(dtype)
        x = np.concatenate([points(dtype, -0.9999, 0.9999), edge, -edge, np.array([1e-30, -1e-9], dtype)])
        assert ulps(dd.special.erfinv(x), S.erfinv(x.astype(wide)), dtype) <= 8
        x = np.concatenate([points(dtype, 0.01, 30), np.logspace(-20, 20, 99).astype(dtype)])
        assert ulps(dd.special.gammaln(x), S.gammaln(x.astype(wide)), dtype, 1.0) <= 48
        assert ulps(dd.special.digamma(x), S.digamma(x.astype(wide)), dtype, 1.0) <= 24
        x = points(dtype, -20.3, -0.01)
        assert ulps(dd.special.gammaln(x), S.gammaln(x.astype(wide)), dtype, np.abs(x)) <= 48
        if dtype == np.float32:  # SciPy's own error next to the poles is larger in float64
            assert ulps(dd.special.digamma(x), S.digamma(x.astype(wide)), dtype, 1.0) <= 24
        x = np.concatenate([points(dtype, -40, 40), np.logspace(-20, 20, 99).astype(dtype)])
        assert ulps(dd.special.i0e(x), S.i0e(x.astype(wide)), dtype) <= 12
        assert ulps(dd.special.i1e(x), S.i1e(x.astype(wide)), dtype) <= 12


CLOSE: dict[str, tuple[Callable[..., Any], float, float]] = {
    "gamma": (S.gamma, -5.5, 12), "i0": (S.i0, -20, 20), "i1": (S.i1, -20, 20), "ndtr": (S.ndtr, -8, 8),
    "log_ndtr": (S.log_ndtr, -30, 8), "entr": (S.entr, -1, 4), "logit": (S.logit, 0.01, 0.99),
    "expit": (S.expit, -20, 20),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_are_close_to_scipys(name: str, dtype: Any) -> None:
    f, low, high = CLOSE[name]
    x = points(dtype, low, high, 501)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for g in (getattr(dd.special, name), dd.defn(getattr(dd.special, name))):
        got = np.asarray(g(x))
        assert got.dtype == dtype
        assert np.allclose(got, f(x.astype(np.float64)), rtol=tolerance, atol=tolerance, equal_nan=True)


def test_edges() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0.0, inf, -inf, nan, 1.0, -1.0, 2.0, -2.0])
    for name in ("erfc", "erfinv", "gammaln", "i0e", "i1e", "ndtr", "expit", "entr"):
        got = np.asarray(getattr(dd.special, name)(x))
        want = getattr(S, name)(x)
        if name == "gammaln":
            want[2] = inf
        assert np.allclose(got, want, rtol=1e-14, atol=1e-14, equal_nan=True), (name, got, want)
    assert np.isnan(np.asarray(dd.special.digamma(np.array([-1.0, -2.0, nan])))).all()
    assert float(dd.special.erfcx(np.float64(inf))) == 0.0
    for f, g in ((dd.special.xlogy, S.xlogy), (dd.special.xlog1py, S.xlog1py)):
        a, b = np.meshgrid(np.array([0.0, 1.0, 2.0, nan]), np.array([0.0, 1.0, 3.0, inf, nan]))
        assert np.allclose(np.asarray(f(a, b)), g(a, b), equal_nan=True)
    assert dd.special.erfc(dd.array([1, 2])).dtype is dd.float32
    assert dd.special.gammaln(dd.array([1.0], dtype=dd.float16)).dtype is dd.float16
    assert dd.special.erfc(dd.zeros((0, 3))).shape == (0, 3)


SLOPES: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "erfc": (lambda x: -2 / np.sqrt(np.pi) * np.exp(-x * x), -3, 6),
    "erfinv": (lambda x: np.sqrt(np.pi) / 2 * np.exp(S.erfinv(x) ** 2), -0.95, 0.95),
    "erfcx": (lambda x: 2 * x * S.erfcx(x) - 2 / np.sqrt(np.pi), 0.0, 3),
    "gammaln": (S.digamma, 0.1, 20),
    "digamma": (lambda x: S.polygamma(1, x), 0.1, 20),
    "i0": (S.i1, -10, 10),
    "i0e": (lambda x: S.i1e(x) - np.sign(x) * S.i0e(x), 0.5, 20),
    "ndtr": (lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), -6, 6),
    "log_ndtr": (lambda x: np.exp(-x * x / 2 - S.log_ndtr(x)) / np.sqrt(2 * np.pi), -20, 6),
    "entr": (lambda x: -np.log(x) - 1, 0.1, 4),
}


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives(name: str) -> None:
    slope, low, high = SLOPES[name]
    x = points(np.float64, low, high, 101)
    f = getattr(dd.special, name)
    got = np.asarray(dd.grad(lambda x: dd.sum(f(x)))(dd.array(x)))
    assert np.allclose(got, slope(x), rtol=2e-9, atol=1e-13)


def test_second_derivatives() -> None:
    x = dd.array(np.array([0.3, 0.9]))

    def second(f: Any) -> Any:
        return dd.grad(lambda x: dd.sum(dd.grad(lambda x: dd.sum(f(x)))(x)))(x)

    y = np.asarray(x)
    assert np.allclose(np.asarray(second(dd.special.erfc)), 4 * y / np.sqrt(np.pi) * np.exp(-y * y), rtol=1e-12)
    inverse = S.erfinv(y)
    assert np.allclose(np.asarray(second(dd.special.erfinv)), np.pi / 2 * inverse * np.exp(2 * inverse**2), rtol=1e-6)
    assert np.allclose(np.asarray(second(dd.special.gammaln)), S.polygamma(1, y), rtol=1e-9)


def test_gradients_at_edges() -> None:
    assert np.asarray(dd.grad(lambda x: dd.special.xlogy(x, 0.0))(0.0)) == 0.0
    assert np.asarray(dd.grad(lambda y: dd.special.xlogy(0.0, y))(0.0)) == 0.0


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_and_softmax(axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)) * 100
    b = np.abs(np.random.default_rng(1).normal(size=(3, 4)))
    b[0] = 0
    with np.errstate(all="ignore"):
        for given in (x, np.where(x > 50, -np.inf, x)):
            for factors in (None, b):
                got = dd.special.logsumexp(given, axis, factors, keepdims)
                assert np.allclose(np.asarray(got), S.logsumexp(given, axis, factors, keepdims))
    assert np.allclose(np.asarray(dd.special.softmax(x, axis)), S.softmax(x, axis))
    assert np.allclose(np.asarray(dd.special.log_softmax(x, axis)), S.log_softmax(x, axis))
    assert float(dd.special.logsumexp(dd.zeros((0,)))) == -np.inf
