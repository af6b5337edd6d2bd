"""Distributions against SciPy's by Kolmogorov and Smirnov (or chi-square); shapes and dtypes of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as T

import dala_defn as dd

N = 20000
LEAST = 1e-4  # the p-value below which a draw is not of its distribution; keys are fixed, so a pass stays one

CONTINUOUS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "uniform": (lambda k, d: dd.random.uniform(k, (N,), d, -1.0, 3.0), T.uniform(-1, 4)),
    "normal": (lambda k, d: dd.random.normal(k, (N,), d), T.norm),
    "exponential": (lambda k, d: dd.random.exponential(k, (N,), d), T.expon),
    "laplace": (lambda k, d: dd.random.laplace(k, (N,), d), T.laplace),
    "logistic": (lambda k, d: dd.random.logistic(k, (N,), d), T.logistic),
    "gumbel": (lambda k, d: dd.random.gumbel(k, (N,), d), T.gumbel_r),
    "cauchy": (lambda k, d: dd.random.cauchy(k, (N,), d), T.cauchy),
    "rayleigh": (lambda k, d: dd.random.rayleigh(k, 2.0, (N,), d), T.rayleigh(scale=2)),
    "weibull": (lambda k, d: dd.random.weibull(k, 2.0, 1.5, (N,), d), T.weibull_min(1.5, scale=2)),
    "pareto": (lambda k, d: dd.random.pareto(k, 3.0, (N,), d), T.pareto(3)),
    "lognormal": (lambda k, d: dd.random.lognormal(k, 0.5, (N,), d), T.lognorm(0.5)),
    "triangular": (lambda k, d: dd.random.triangular(k, -1.0, 0.5, 2.0, (N,), d), T.triang(0.5, -1, 3)),
    "truncated_normal": (lambda k, d: dd.random.truncated_normal(k, -0.5, 2.0, (N,), d), T.truncnorm(-0.5, 2)),
    "gamma": (lambda k, d: dd.random.gamma(k, 2.5, (N,), d), T.gamma(2.5)),
    "gamma below 1": (lambda k, d: dd.random.gamma(k, 0.4, (N,), d), T.gamma(0.4)),
    "beta": (lambda k, d: dd.random.beta(k, 2.0, 0.7, (N,), d), T.beta(2, 0.7)),
    "chisquare": (lambda k, d: dd.random.chisquare(k, 3.0, (N,), d), T.chi2(3)),
    "t": (lambda k, d: dd.random.t(k, 4.0, (N,), d), T.t(4)),
    "dirichlet": (lambda k, d: dd.random.dirichlet(k, np.array([1.0, 2.0, 3.0]), (N,), d)[:, 1], T.beta(2, 4)),
}


@pytest.mark.parametrize("dtype", [dd.float32, dd.float64], ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str, dtype: Any) -> None:
    draw, wanted = CONTINUOUS[name]
    x = draw(dd.random.key(7), dtype)
    assert x.dtype is dtype and x.shape == (N,)
    assert T.kstest(np.asarray(x).astype(np.float64), wanted.cdf).pvalue > LEAST
    assert np.isfinite(np.asarray(x)).all()
    again = dd.defn(lambda k: draw(k, dtype))(dd.random.key(7))
    assert np.allclose(np.asarray(x), np.asarray(again), rtol=1e-5, atol=2e-6)
    other = draw(dd.random.key(8), dtype)
    assert np.mean(np.asarray(x) == np.asarray(other)) < 0.01


DISCRETE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "randint": (lambda k: dd.random.randint(k, (N,), -3, 4), T.randint(-3, 4)),
    "randint of arrays": (lambda k: dd.random.randint(k, (N,), dd.array(-3), dd.array(4)), T.randint(-3, 4)),
    "bernoulli": (lambda k: dd.random.bernoulli(k, 0.3, (N,)).astype(dd.int32), T.bernoulli(0.3)),
    "rademacher": (lambda k: (dd.random.rademacher(k, (N,)) + 1) // 2, T.bernoulli(0.5)),
    "geometric": (lambda k: dd.random.geometric(k, 0.3, (N,)), T.geom(0.3)),
    "poisson 0.5": (lambda k: dd.random.poisson(k, 0.5, (N,)), T.poisson(0.5)),
    "poisson 11": (lambda k: dd.random.poisson(k, 11.0, (N,)), T.poisson(11)),
    "poisson 13": (lambda k: dd.random.poisson(k, 13.0, (N,)), T.poisson(13)),
    "poisson 400": (lambda k: dd.random.poisson(k, 400.0, (N,)), T.poisson(400)),
    "categorical": (
        lambda k: dd.random.categorical(k, np.log([0.1, 0.2, 0.7]), shape=(N,)),
        T.rv_discrete(values=(range(3), (0.1, 0.2, 0.7))),
    ),
    "choice": (lambda k: dd.random.choice(k, 5, (N,)), T.randint(0, 5)),
    "choice with p": (
        lambda k: dd.random.choice(k, 4, (N,), p=np.array([0.1, 0.0, 0.6, 0.3])),
        T.rv_discrete(values=((0, 2, 3), (0.1, 0.6, 0.3))),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    draw, wanted = DISCRETE[name]
    x = np.asarray(draw(dd.random.key(11)))
    assert x.shape == (N,) and x.dtype == np.int32
    low, high = int(wanted.ppf(0.001)), int(wanted.ppf(0.999))
    inner = np.arange(low, high + 1)
    chances = np.concatenate([[wanted.cdf(low - 1)], wanted.pmf(inner), [wanted.sf(high)]])
    counts = np.concatenate([[np.sum(x < low)], [np.sum(x == v) for v in inner], [np.sum(x > high)]])
    assert np.all(counts[chances == 0] == 0)
    thick = chances * N >= 5
    counts = np.append(counts[thick], counts[~thick & (chances > 0)].sum())
    chances = np.append(chances[thick], chances[~thick].sum())
    if chances[-1] * N < 1:
        counts, chances = counts[:-1], chances[:-1]
    assert T.chisquare(counts, chances / chances.sum() * counts.sum()).pvalue > LEAST
    assert np.array_equal(x, np.asarray(dd.defn(draw)(dd.random.key(11))))


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal_has_its_mean_and_covariance(method: str) -> None:
    cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    mean = np.array([1.0, -2.0])
    x = np.asarray(dd.random.multivariate_normal(dd.random.key(0), mean, cov, (N,), dd.float64, method=method))
    assert x.shape == (N, 2)
    assert np.allclose(x.mean(0), mean, atol=0.04) and np.allclose(np.cov(x.T), cov, atol=0.05)
    if method == "cholesky":
        root = np.array([[1.0, 0.0], [0.8, 0.6]])
        y = dd.random.multivariate_normal(dd.random.key(0), mean, shape=(N,), dtype=dd.float64, cholesky=root)
        assert np.allclose(x, np.asarray(y))
    batch = dd.random.multivariate_normal(
        dd.random.key(0), np.zeros((3, 2)), np.broadcast_to(cov, (3, 2, 2)), method=method
    )
    assert batch.shape == (3, 2)


def test_multivariate_normal_with_a_covariance_that_has_no_inverse() -> None:
    flat, wrong = np.ones((2, 2)), np.array([[1.0, 2], [2, 1]])
    for method in ("eigh", "svd"):
        x = np.asarray(dd.random.multivariate_normal(dd.random.key(0), np.zeros(2), flat, (9,), method=method))
        assert np.allclose(x[:, 0], x[:, 1], atol=1e-3) and x.std() > 0.1
    for method in ("cholesky", "eigh"):
        x = np.asarray(dd.random.multivariate_normal(dd.random.key(0), np.zeros(2), wrong, (9,), method=method))
        assert np.isnan(x).any()
    with pytest.raises(dd.ShapeError):
        dd.random.multivariate_normal(dd.random.key(0), dd.zeros(3), dd.eye(2))
    for options in ({}, {"cov": dd.eye(2), "cholesky": dd.eye(2)}, {"cov": dd.eye(2), "method": "lu"}):
        with pytest.raises(dd.ArgumentError):
            dd.random.multivariate_normal(dd.random.key(0), dd.zeros(2), **options)


def test_choices_without_putting_back_are_all_different() -> None:
    for p in (None, np.full(50, 0.02)):
        x = np.asarray(dd.random.choice(dd.random.key(0), 50, (40,), replace=False, p=p))
        assert len(set(x.tolist())) == 40
    heavy = np.array([1e-6, 0.5, 0.5 - 1e-6])
    picked = [
        set(np.asarray(dd.random.choice(dd.random.key(i), 3, (2,), replace=False, p=heavy)).tolist()) for i in range(20)
    ]
    assert all(s == {1, 2} for s in picked)
    rows = np.arange(12).reshape(3, 4)
    assert dd.random.choice(dd.random.key(0), rows, (2, 5), axis=1).shape == (3, 2, 5)
    with pytest.raises(dd.ArgumentError):
        dd.random.choice(dd.random.key(0), 3, (4,), replace=False)
    with pytest.raises(dd.ShapeError):
        dd.random.choice(dd.random.key(0), 3, (4,), p=dd.ones(2))


def test_permutations_keep_what_they_permute() -> None:
    x = np.arange(60).reshape(3, 4, 5)
    for axis in (0, 1, -1):
        for independent in (False, True):
            got = np.asarray(dd.random.permutation(dd.random.key(3), x, axis, independent=independent))
            assert np.array_equal(np.sort(got, axis), x)
    together = np.asarray(dd.random.permutation(dd.random.key(3), np.tile(np.arange(50), (4, 1)), 1))
    assert (together == together[0]).all()
    apart = dd.random.permutation(dd.random.key(3), np.tile(np.arange(50), (4, 1)), 1, independent=True)
    assert not (np.asarray(apart) == np.asarray(apart)[0]).all()


def test_parameters_broadcast_and_give_the_shape() -> None:
    k = dd.random.key(0)
    assert dd.random.beta(k, dd.ones((3, 1)), dd.ones(2)).shape == (3, 2)
    assert dd.random.gamma(k, dd.ones((2, 0))).shape == (2, 0)
    assert dd.random.poisson(k, dd.ones(4)).shape == (4,)
    assert dd.random.categorical(k, dd.zeros((5, 3)), axis=0).shape == (3,)
    assert dd.random.exponential(k, (2,), dd.float16).dtype is dd.float16
    assert np.array_equal(np.asarray(dd.random.poisson(k, np.array([-1.0, np.nan]))), [-1, -1])
    with pytest.raises(dd.ArgumentTypeError):
        dd.random.exponential(k, (2,), dd.int32)
    with pytest.raises(dd.ArgumentTypeError):
        dd.random.randint(k, (2,), 0, 3, dd.float32)


def test_what_is_drawn_has_the_derivatives_that_the_docstrings_say() -> None:
    k = dd.random.key(0)
    assert float(dd.grad(lambda a: dd.random.gamma(k, a))(2.0)) == 0.0
    assert float(dd.grad(lambda s: dd.random.rayleigh(k, s))(2.0)) == float(dd.random.rayleigh(k, 1.0))
