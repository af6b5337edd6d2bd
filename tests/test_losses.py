"""Losses, metrics and initializers against formulas in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dala_defn as dd

L, M = dd.losses, dd.metrics


def everywhere(f: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    """The result eagerly and under ``@defn``, on Burn and on the reference."""
    out = []
    for name in ("flex", "reference"):
        with dd.using(name):
            out += [np.asarray(f(*args)), np.asarray(dd.defn(lambda *xs: f(*xs))(*args))]
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary_crossentropy_clips_once(dtype: Any) -> None:
    y = np.array([1, 0, 1], dtype)
    p = np.array([2e-7, 0.9999998, 0.5], dtype)
    want = {
        np.float64: [15.424948470398375, 15.42494847036962, 0.6931471805599453],
        np.float32: [15.424948458712278, 15.536920044770577, 0.6931471805599453],
    }[dtype]
    for got in everywhere(L.binary_crossentropy, y, p):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_binary_crossentropy_at_the_edges() -> None:
    y, p = np.array([1, 0, 1, 0], np.float32), np.array([0, 1, 1, 0], np.float32)
    for got in everywhere(L.binary_crossentropy, y, p):
        np.testing.assert_allclose(got[:2], 16.11809565095832, rtol=1e-6)
        assert (got[2:] == 0).all() and not np.signbit(got[2:]).any()


def test_binary_crossentropy_from_logits_is_exact() -> None:
    y, z = np.array([1.0, 0.0], np.float32), np.array([-800.0, 800.0], np.float32)
    f = lambda y, z: L.binary_crossentropy(y, z, from_logits=True)  # noqa: E731
    for got in everywhere(f, y, z):
        assert got.tolist() == [800.0, 800.0]
    slope = dd.grad(lambda z: dd.sum(f(y, z)))(np.array([0.0, 3.0], np.float32))
    np.testing.assert_allclose(slope, [-0.5, 1 / (1 + math.exp(-3))], rtol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_crossentropy_of_large_logits_is_not_clipped(shift: float) -> None:
    z, y = np.array([10.0, 45.5, 2.0], np.float32) + np.float32(shift), np.array([1.0, 0.0, 0.0], np.float32)
    label = np.array(0, np.int32)
    for f, target in (
        (lambda y, z: L.categorical_crossentropy(y, z, from_logits=True), y),
        (lambda y, z: L.categorical_crossentropy(y, dd.nn.softmax(z)), y),
        (lambda y, z: L.sparse_categorical_crossentropy(y, z, from_logits=True), label),
        (lambda y, z: L.sparse_categorical_crossentropy(y, dd.nn.softmax(z)), label),
    ):
        for got in everywhere(f, target, z):
            np.testing.assert_allclose(got, 35.5, rtol=1e-6)
    for f in (
        lambda z: L.categorical_crossentropy(y, z, from_logits=True),
        lambda z: L.sparse_categorical_crossentropy(label, z, from_logits=True),
    ):
        want = [-0.9999999999999997, 0.9999999999999996, 1.2828918236087844e-19]
        np.testing.assert_allclose(dd.grad(f)(z), want, rtol=1e-6, atol=1e-25)


def test_composites_run_eagerly_with_their_defaults() -> None:
    np.testing.assert_allclose(dd.nn.softmax(dd.zeros((1, 2))), [[0.5, 0.5]])
    np.testing.assert_allclose(dd.nn.leaky_relu(dd.array([-1.0])), [-0.2], rtol=1e-6)
    np.testing.assert_allclose(dd.nn.logsumexp(dd.zeros(2), keepdims=True), [math.log(2)], rtol=1e-6)


def test_losses_are_means_over_all_axes_but_the_first(rng: np.random.Generator) -> None:
    y, p = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4, 2))
    np.testing.assert_allclose(L.mean_squared_error(y, p), ((y - p) ** 2).mean((1, 2)), rtol=1e-14)
    np.testing.assert_allclose(L.mean_absolute_error(y, p), np.abs(y - p).mean((1, 2)), rtol=1e-14)
    labels = rng.integers(0, 2, (3, 4))
    logs = p - np.log(np.exp(p).sum(-1, keepdims=True))
    want = -np.take_along_axis(logs, labels[..., None], -1)[..., 0].mean(1)
    got = L.sparse_categorical_crossentropy(labels, p, from_logits=True)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    one_hot = np.eye(2)[labels]
    np.testing.assert_allclose(L.categorical_crossentropy(one_hot, p, from_logits=True), want, rtol=1e-13)


def test_a_column_meets_a_vector_without_broadcasting() -> None:
    y, p = np.array([1.0, 2.0, 3.0], np.float32), np.array([[1.0], [0.0], [3.0]], np.float32)
    assert np.asarray(L.mean_squared_error(y, p)).tolist() == [0.0, 4.0, 0.0]
    assert np.asarray(L.mean_squared_error(p, y)).tolist() == [0.0, 4.0, 0.0]


@pytest.mark.parametrize("label", [-1, 3, 2**31 - 1])
def test_a_label_out_of_range_is_an_error(label: int) -> None:
    with pytest.raises(dd.IndexOutOfRange):
        np.asarray(L.sparse_categorical_crossentropy(np.array([label], np.int32), dd.zeros((1, 3))))


def test_wrong_targets_are_refused() -> None:
    with pytest.raises(dd.ShapeError, match="sparse_categorical_crossentropy for integer labels"):
        L.categorical_crossentropy(dd.array([1, 2]), dd.zeros((2, 3)))
    with pytest.raises(dd.ShapeError, match="categorical_crossentropy for one-hot"):
        L.sparse_categorical_crossentropy(dd.array([[1, 0, 0]]), dd.zeros((1, 3)))
    with pytest.raises(dd.DTypeError, match="labels are integers"):
        L.sparse_categorical_crossentropy(dd.array([1.0]), dd.zeros((1, 3)))
    with pytest.raises(dd.ShapeError):
        L.mean_squared_error(dd.zeros((4, 1)), dd.zeros((4, 2)))
    with pytest.raises(dd.ArgumentError, match="no loss 'nope'"):
        L.get("nope")


def test_accuracies() -> None:
    p = np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], np.float32)
    for got in everywhere(M.sparse_categorical_accuracy, np.array([1, 1, 0], np.uint8), p):
        assert got.tolist() == [1.0, 0.0, 1.0]
    for got in everywhere(M.categorical_accuracy, np.array([[0, 1], [0, 1], [1, 0]], np.float32), p):
        assert got.tolist() == [1.0, 0.0, 1.0]
    assert np.asarray(M.binary_accuracy(np.array([1, 0]), np.array([0.7, 0.6], np.float32))).tolist() == [1.0, 0.0]


def test_accuracy_goes_with_the_loss() -> None:
    logits = L.BinaryCrossentropy(from_logits=True)
    assert np.asarray(M.get("accuracy", logits)([[1]], [[0.2]])).tolist() == [1.0]
    assert np.asarray(M.get("accuracy", L.get("binary_crossentropy"))([[1]], [[0.2]])).tolist() == [0.0]
    assert M.get("accuracy", L.get("sparse_categorical_crossentropy")).function is M.sparse_categorical_accuracy


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("glorot_uniform", 2 / 500),
        ("glorot_normal", 2 / 500),
        ("he_uniform", 2 / 200),
        ("he_normal", 2 / 200),
        ("lecun_uniform", 1 / 200),
        ("lecun_normal", 1 / 200),
    ],
)
def test_initializers_have_their_variance(name: str, variance: float) -> None:
    x = np.asarray(dd.initializers.get(name)(dd.random.key(1), (200, 300)), np.float64)
    assert abs(x.mean()) < 5 * math.sqrt(variance / x.size)
    assert abs(x.var() / variance - 1) < 0.02
    limit = math.sqrt(3 * variance) if "uniform" in name else 2 * math.sqrt(variance) / 0.87962566103423978
    assert np.abs(x).max() <= limit * (1 + 1e-6)
    assert np.abs(x).max() > 0.97 * limit


def test_truncated_normal_is_the_quantile() -> None:
    from scipy.special import ndtr

    x = np.sort(np.asarray(dd.initializers.truncated_normal(dd.random.key(2), (20000,), dd.float64)))
    uniform = (ndtr(x) - ndtr(-2)) / (ndtr(2) - ndtr(-2))
    assert np.abs(uniform - (np.arange(20000) + 0.5) / 20000).max() < 0.015  # Kolmogorov's distance at about 1e-3


def test_fans() -> None:
    assert dd.initializers.fans((5,)) == (5, 5)
    assert dd.initializers.fans((3, 3, 8, 16)) == (72, 144)
    assert np.asarray(dd.initializers.constant(2)(None, (2,))).tolist() == [2.0, 2.0]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)
