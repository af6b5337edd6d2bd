"""Inputs from public bug reports about gradients, shapes, dtypes, random numbers: eagerly, compiled, exported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numeric import everywhere

import dala_defn as dd


def results(f: Callable[..., Any], *args: Any, tmp_path: Path) -> list[Any]:
    """What ``f`` gives eagerly, under ``@defn``, exported and reloaded, on both executors; NumPy arrays."""
    out = everywhere(f, args, tmp_path)
    return [tuple(np.asarray(v) for v in (o if isinstance(o, tuple) else (o,))) for o in out]


def test_a_branch_that_is_not_taken_gives_no_nan(tmp_path: Path) -> None:
    g = dd.grad(lambda x: dd.where(x < 2, 3 * x, dd.sqrt(x)))
    for x, want in ((0.0, 3.0), (0.25, 3.0), (4.0, 0.25), (1e-9, 3.0)):
        for (got,) in results(g, np.float64(x), tmp_path=tmp_path):
            assert np.isclose(got, want, rtol=1e-12)


def test_the_derivative_of_a_power_of_zero_by_its_exponent(tmp_path: Path) -> None:
    g = dd.grad(lambda a, b: dd.sum(a**b), argnums=(0, 1))
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-6)):
        a, b = np.array([0.0, 3.0], dtype), np.array([1.0, 2.0], dtype)
        for by_a, by_b in results(g, a, b, tmp_path=tmp_path):
            assert np.allclose(by_a, [1, 6], rtol=tolerance) and np.allclose(by_b, [0, 9 * np.log(3)], rtol=tolerance)


def test_ties_of_a_maximum_share_its_derivative(tmp_path: Path) -> None:
    for (got,) in results(dd.grad(lambda x: dd.max(x)), np.array([0.6, 0.6, 0.3]), tmp_path=tmp_path):
        assert got.tolist() == [0.5, 0.5, 0]
    pair = dd.grad(lambda p, q: dd.maximum(p, q), argnums=(0, 1))
    for p, q in results(pair, np.float64(2), np.float64(2), tmp_path=tmp_path):
        assert p + q == 1
    for (got,) in results(dd.grad(lambda x: dd.nn.relu(x)), np.float64(0), tmp_path=tmp_path):
        assert got == 0


def test_sizes_of_zero(tmp_path: Path) -> None:
    for (got,) in results(lambda a, b: a + b, np.zeros((3, 0)), np.ones((3, 1)), tmp_path=tmp_path):
        assert got.shape == (3, 0)
    for (got,) in results(lambda a: dd.sum(a), np.zeros(0), tmp_path=tmp_path):
        assert got == 0
    for (got,) in results(lambda a, b: a * b, np.ones((3, 1)), np.zeros((1, 0)), tmp_path=tmp_path):
        assert got.shape == (3, 0)
    for (got,) in results(lambda a: dd.reshape(a, (-1, 3)), np.zeros((0, 3)), tmp_path=tmp_path):
        assert got.shape == (0, 3)
    with pytest.raises(dd.ShapeError):
        dd.reshape(dd.zeros((2, 0, 6)), (2, 0, -1))
    x = np.array([1.0, 2.0, 3.0])
    selected = dd.grad(lambda v: dd.sum(dd.compress(v > 9, v, size=3)))
    for (got,) in results(selected, x, tmp_path=tmp_path):
        assert got.tolist() == [0, 0, 0]
    assert dd.array(x)[x > 9].shape == (0,)


def test_the_shapes_of_products_with_vectors(tmp_path: Path) -> None:
    pairs = [((6,), (6,)), ((6,), (6, 2)), ((4, 6), (6,)), ((2, 4, 6), (6,)), ((2, 1, 4, 6), (3, 6, 5))]
    for (p, q), want in zip(pairs, [(), (2,), (4,), (2, 4), (2, 3, 4, 5)], strict=True):
        graph = dd.defn(lambda x, y: x @ y).lower(dd.spec(p), dd.spec(q))
        found = [t.split(", ") for t in re.findall(r"\[([^]]*)\]", str(graph))]
        assert want == () or list(map(str, want)) in found
        for (got,) in results(lambda x, y: x @ y, np.ones(p), np.ones(q), tmp_path=tmp_path):
            assert got.shape == want


def test_argmax_keeps_dimensions(tmp_path: Path) -> None:
    x = np.arange(42).reshape(2, 3, 7)
    for axis, want in ((None, (1, 1, 1)), (0, (1, 3, 7)), (-1, (2, 3, 1)), (-2, (2, 1, 7))):
        for (got,) in results(lambda x: dd.argmax(x, axis, keepdims=True), x, tmp_path=tmp_path):
            assert got.shape == want and (axis is not None or got.item() == 41)
    for axis in (-4, 3):
        with pytest.raises(dd.ShapeError):
            dd.defn(lambda x: dd.argmax(x, axis)).lower(dd.spec((2, 3, 7)))


def test_floor_division_and_remainder_of_negative_integers(tmp_path: Path) -> None:
    a = np.array([-9, 9, -9, 9, -2, 2, -8, 8], np.int32)
    b = np.array([4, 4, -4, -4, 5, -5, 2, -2], np.int32)
    for quotient, rest in results(lambda a, b: (a // b, a % b), a, b, tmp_path=tmp_path):
        assert quotient.tolist() == [-3, 2, 2, -3, -1, -1, -4, -4] and rest.tolist() == [3, 1, -1, -3, 3, -3, 0, 0]
        assert np.array_equal(quotient * b + rest, a)
    c, d = np.array([-5, 9, -128, 100, -1, 118], np.int8), np.array([3, -4, 7, -7, 2, -25], np.int8)
    for quotient, rest in results(lambda a, b: (a // b, a % b), c, d, tmp_path=tmp_path):
        assert quotient.tolist() == [-2, -3, -19, -15, -1, -5] and rest.tolist() == [1, -3, 5, -5, 1, -7]
    for rest, whole in results(lambda x, y: (x % y, y // x), np.float64(-1.5), np.float64(4), tmp_path=tmp_path):
        assert rest == 2.5 and whole == -3
    assert tuple(float(v) for v in dd.divmod(-9.0, 4.0)) == (-3.0, 3.0)


def test_a_wide_unsigned_integer_with_a_small_signed_one(tmp_path: Path) -> None:
    a, b = np.array([2**32 - 1], np.uint32), np.array([2], np.int8)
    for (got,) in results(lambda a, b: a + b, a, b, tmp_path=tmp_path):
        assert got.dtype == np.int64 and got.tolist() == [4294967297]
    assert dd.promote_types("uint64", "int8") is dd.float64 and dd.promote_types("uint8", "int8") is dd.int16
    assert dd.promote_types("bool", "int8") is dd.int8


def masks(seed: int, steps: int = 20) -> np.ndarray[Any, Any]:
    """The masks of two dropout layers over some steps."""
    layer = dd.layers.Dropout(0.5)
    out = []
    for key in dd.random.split(dd.random.key(seed), steps):
        pair = [layer.call({}, {}, dd.ones(256), key=k, training=True)[0] for k in dd.random.split(key)]
        out.append([np.asarray(y) != 0 for y in pair])
    return np.array(out)


def test_dropout_masks_change_between_steps_and_layers() -> None:
    found = masks(0)
    assert np.array_equal(found, masks(0)) and not np.array_equal(found, masks(1))
    agreement = [(found[i, 0] == found[i + 1, 0]).mean() for i in range(19)] + [(m[0] == m[1]).mean() for m in found]
    assert min(agreement) > 0.375 and max(agreement) < 0.625
    assert 0.472 < found[:, 0].mean() < 0.528


def test_dropout_scales_what_it_keeps_and_does_nothing_in_evaluation() -> None:
    x = dd.array([1.0, 2.0, 3.0, 4.0])
    k = dd.random.key(0)

    def run(rate: float, training: bool = True) -> Any:
        return dd.layers.Dropout(rate).call({}, {}, x, key=k, training=training)[0]

    assert run(0.3, training=False).tolist() == run(0.0).tolist() == x.tolist()
    y = np.asarray(run(0.3))
    assert np.all((y == 0) | np.isclose(y, np.asarray(x) / 0.7, rtol=1e-6))
    assert run(1.0).tolist() == [0, 0, 0, 0]
    drop_all = dd.layers.Dropout(1.0)
    slope = dd.grad(lambda x: dd.sum(drop_all.call({}, {}, x, key=k, training=True)[0]))(x)
    assert slope.tolist() == [0, 0, 0, 0]
    for rate in (-0.1, 1.1):
        with pytest.raises(dd.DalaError):
            run(rate)
