"""Running products, log-sum-exps and linear recurrences: values, and derivatives where quotients would fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.ops import OPS

F64 = dd.float64


def test_cumprod_is_numpys() -> None:
    rng = np.random.default_rng(0)
    for dtype in dtypes.ARRAYS:
        x = rng.integers(0, 3, (4, 5)).astype(dtype.dtype)
        for axis in (None, 0, -1):
            found = dd.cumprod(dd.array(x), axis)
            want = np.cumprod(x.astype(np.float64), axis)
            np.testing.assert_array_equal(np.asarray(found).astype(np.float64), want)
    x = rng.normal(size=(3, 40))
    np.testing.assert_allclose(np.asarray(dd.cumprod(dd.array(x), 1)), np.cumprod(x, 1), rtol=1e-12)
    turned = np.flip(np.cumprod(np.flip(x, 1), 1), 1)
    np.testing.assert_allclose(np.asarray(dd.cumprod(dd.array(x), 1, reverse=True)), turned, rtol=1e-12)
    z = rng.normal(size=(7,)) + 1j * rng.normal(size=(7,))
    np.testing.assert_allclose(np.asarray(dd.cumprod(dd.array(z))), np.cumprod(z), rtol=1e-12)
    assert dd.cumprod(dd.zeros((0, 3)), 0).shape == (0, 3)
    f = dd.defn(lambda x: dd.cumprod(x, 0)).lower(dd.spec("n", dd.float32))
    assert "cumprod" in str(f)


def test_cumlogsumexp_neither_overflows_nor_loses() -> None:
    x = np.array([1000.0, 1000.0, -1000.0, 1001.0])
    np.testing.assert_allclose(np.asarray(dd.cumlogsumexp(dd.array(x))), np.logaddexp.accumulate(x), rtol=1e-14)
    np.testing.assert_allclose(np.asarray(np.logaddexp.accumulate(dd.array(x))), np.logaddexp.accumulate(x))
    inf = np.inf
    for line in ([-inf, -inf, 0.0], [0.0, inf, 1.0], [np.nan, 1.0], [inf, inf], [-inf, inf]):
        with np.errstate(invalid="ignore"):
            want = np.logaddexp.accumulate(np.array(line))
        np.testing.assert_array_equal(np.asarray(dd.cumlogsumexp(dd.array(line, F64))), want)
    assert dd.cumlogsumexp(dd.array([1, 2])).dtype is dtypes.float32
    back = np.flip(np.logaddexp.accumulate(np.flip(x)))
    np.testing.assert_allclose(np.asarray(dd.cumlogsumexp(dd.array(x), reverse=True)), back)
    with pytest.raises(dd.DTypeError):
        dd.cumlogsumexp(dd.array([1j]))


def test_a_linear_scan_is_its_loop() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3, 200, 150)) * 0.9
    want, state = np.empty_like(b), np.zeros((3, 150))
    for i in range(200):
        state = want[:, i] = a[:, i] * state + b[:, i]
    for executor in ("flex", "reference"):
        with dd.using(executor):
            found = OPS["linear_scan"](dd.array(a), dd.array(b), axis=1, reverse=False)
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-10, atol=1e-10)


LINES: dict[str, list[float]] = {
    "no zero": [0.5, -2.0, 3.0, 1.5],
    "one zero": [0.5, 0.0, 3.0, 1.5],
    "two zeros": [0.0, 2.0, 0.0, 1.5],
    "zeros only": [0.0, 0.0, 0.0],
    "one element": [2.0],
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cumprod": dd.cumprod,
    "cumprod from the end": lambda x: dd.cumprod(x, reverse=True),
    "cumlogsumexp": dd.cumlogsumexp,
    "cumlogsumexp from the end": lambda x: dd.cumlogsumexp(x, reverse=True),
    "linear scan": lambda x: OPS["linear_scan"](x, dd.sin(x), axis=0, reverse=False),
    "linear scan from the end": lambda x: OPS["linear_scan"](dd.cos(x), x, axis=0, reverse=True),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_central_differences(name: str, line: str) -> None:
    f = FUNCTIONS[name]

    def loss(x: Any) -> Any:
        return dd.sum(f(x) ** 2 * dd.arange(1, x.shape[0] + 1, dtype=F64))

    dd.testing.check_grads(loss, (dd.array(LINES[line], F64),), order=3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_a_stack_of_rows(name: str) -> None:
    f = FUNCTIONS[name]
    x = dd.array(np.random.default_rng(0).normal(size=(3, 5)))
    for g in (f, dd.grad(lambda x: dd.sum(f(x) ** 2))):
        rows = np.stack([np.asarray(g(row)) for row in x])
        np.testing.assert_allclose(np.asarray(dd.vmap(g)(x)), rows, rtol=1e-9)


def test_the_gradient_of_a_product_of_complex_numbers() -> None:
    x = dd.array([0.5, 0.0, 2.0, -1.0], F64)
    y = dd.array([1.0, 0.0, -2.0, 0.5], F64)

    def loss(x: Any, y: Any) -> Any:
        z = dd.cumprod(dd.complex(x, y))
        return dd.sum(dd.real(z) ** 2 + 3 * dd.imag(z))

    dd.testing.check_grads(loss, (x, y), order=2)


def test_gradients_where_numbers_are_not_finite() -> None:
    g = dd.grad(lambda x: dd.cumprod(x)[0])(dd.array([2.0, np.inf, 0.0]))
    assert np.asarray(g).tolist() == [1, 0, 0]
    x = dd.array([-np.inf, 0.0, 800.0, -np.inf])
    g = np.asarray(dd.grad(lambda x: dd.sum(dd.cumlogsumexp(x)))(x))
    assert np.isfinite(g).all()
    assert g[2] == 2
    g = np.asarray(dd.grad(lambda x: dd.cumlogsumexp(x)[1])(dd.array([-900.0, 900.0])))
    assert g.tolist() == [0, 1]


def test_exported(tmp_path: Path) -> None:
    f = dd.defn(lambda x: dd.cumprod(x, 1) + dd.cumlogsumexp(x, 0))
    x = np.random.default_rng(0).normal(size=(3, 4))
    f.export(tmp_path / "f.dala", x)
    want = np.cumprod(x, 1) + np.logaddexp.accumulate(x, 0)
    np.testing.assert_allclose(np.asarray(dd.load(tmp_path / "f.dala")(x)), want, rtol=1e-12)
