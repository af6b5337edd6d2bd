"""The general forms of padding, windows, convolution, products and indexing, against NumPy loops and each other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import dtypes

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def padded(x: Array, rows: Any, fill: Any) -> Array:
    """Interior, then the ends, one axis after the other."""
    for axis, (low, high, between) in enumerate(rows):
        n = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = n + max(n - 1, 0) * between
        out = np.full(shape, fill, x.dtype)
        out[tuple(slice(None, None, between + 1) if i == axis else slice(None) for i in range(x.ndim))] = x
        widths = [(max(low, 0), max(high, 0)) if i == axis else (0, 0) for i in range(x.ndim)]
        out = np.pad(out, widths, constant_values=fill)
        stop = out.shape[axis] - max(-high, 0)
        x = np.take(out, np.arange(max(-low, 0), stop), axis)
    return x


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int8, dtypes.bool_, dtypes.complex64], ids=str)
def test_padding_between_and_negative(dtype: Any) -> None:
    for shape in ((4,), (0,), (1,), (3, 4)):
        x = RNG.integers(0, 2, shape).astype(dtype.dtype)
        for rows in itertools.product([(1, 2, 0), (0, 0, 2), (-1, 1, 1), (1, 0, 3)], repeat=len(shape)):
            if min(shape) < 2 and any(r[0] < 0 for r in rows):
                continue
            np.testing.assert_array_equal(np.asarray(dd.pad_interior(x, rows, 1)), padded(x, rows, 1))
    x = dd.array([1.0, 2.0, 3.0], dd.float64)
    dd.testing.check_grads(lambda x, v: dd.pad_interior(x, [(-1, 2, 2)], v) ** 2, (x, dd.array(3.0, dd.float64)))
    for rows in ([(0, 0)], [(0, 0, -1)], [], [(-3, -1, 0)]):
        with pytest.raises(dd.ArgumentError):
            dd.pad_interior(x, rows)


REDUCE: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def windows(x: Array, op: str, window: Any, strides: Any, pads: Any, base: Any, gaps: Any) -> Array:
    """Every window, one element after the other; padding does not count."""
    inside = padded(np.ones(x.shape, bool), [(*p, b - 1) for p, b in zip(pads, base, strict=True)], False)
    values = padded(x, [(*p, b - 1) for p, b in zip(pads, base, strict=True)], 0)
    counts = [
        max((n - (w - 1) * g - 1) // s + 1, 0) for n, w, s, g in zip(values.shape, window, strides, gaps, strict=True)
    ]
    out = np.zeros(counts, np.float64)
    neutral = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf, "mean": np.nan}[op]
    for at in np.ndindex(*counts):
        spot = tuple(
            slice(i * s, i * s + (w - 1) * g + 1, g) for i, s, w, g in zip(at, strides, window, gaps, strict=True)
        )
        chosen = values[spot][inside[spot]].astype(np.float64)
        f = np.mean if op == "mean" else REDUCE[op]
        out[at] = f(chosen) if chosen.size else neutral
    return out


CASES: list[tuple[tuple[int, ...], Any, Any, Any, Any, Any]] = [
    ((9,), (3,), (1,), [(0, 0)], (1,), (1,)),
    ((9,), (3,), (2,), [(1, 2)], (1,), (1,)),
    ((9,), (2,), (1,), [(3, 2)], (1,), (1,)),
    ((9,), (3,), (1,), [(1, 1)], (1,), (2,)),
    ((9,), (3,), (2,), [(-1, 1)], (1,), (1,)),
    ((5,), (3,), (1,), [(1, 1)], (2,), (1,)),
    ((5, 6), (2, 3), (1, 2), [(1, 0), (0, 2)], (1, 1), (1, 1)),
    ((5, 6), (2, 2), (2, 1), [(0, 0), (1, 1)], (1, 2), (2, 1)),
    ((2, 3, 4), (1, 2, 2), (1, 1, 2), [(0, 0)] * 3, (1, 1, 1), (1, 1, 1)),
    ((3,), (4,), (1,), [(0, 0)], (1,), (1,)),
    ((0, 3), (1, 2), (1, 1), [(0, 0)] * 2, (1, 1), (1, 1)),
    ((), (), (), [], (), ()),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("op", [*REDUCE, "mean"])
def test_windows(op: str, case: Any) -> None:
    shape, window, strides, pads, base, gaps = case
    x = RNG.normal(size=shape)
    with np.errstate(all="ignore"):
        want = windows(x, op, window, strides, pads, base, gaps)
    for f in (lambda x: dd.reduce_window(x, op, window, strides, pads, base, gaps),):
        for g in (f, dd.defn(f)):
            np.testing.assert_allclose(np.asarray(g(x)), want, rtol=1e-12, atol=1e-12)
    whole = RNG.integers(1, 4, shape).astype(np.uint8)
    if op != "mean":
        with np.errstate(all="ignore"):
            want = windows(whole, op, window, strides, pads, base, gaps)
        neutral = {"max": 0.0, "min": 255.0}.get(op, 0.0)
        want = np.where(np.isinf(want), neutral, want)
        found = dd.reduce_window(whole, op, window, strides, pads, base, gaps)
        assert found.dtype is dtypes.uint8
        np.testing.assert_array_equal(np.asarray(found), want.astype(np.int64).astype(np.uint8))


@pytest.mark.parametrize("op", [*REDUCE, "mean"])
def test_window_derivatives_and_batches(op: str) -> None:
    x = dd.array(RNG.permutation(12).reshape(3, 4) * 0.3 + 0.1)

    def f(x: Any) -> Any:
        return dd.reduce_window(x, op, (2, 2), (1, 1), [(1, 0), (0, 1)], None, (1, 2))

    dd.testing.check_grads(lambda x: dd.sum(f(x) ** 2 * 0.5), (x,), order=2, modes=("rev",))
    rows = dd.stack([x, x * 2, -x])
    np.testing.assert_allclose(np.asarray(dd.vmap(f)(rows)), np.stack([np.asarray(f(r)) for r in rows]))


def test_windows_by_name_and_what_is_refused() -> None:
    x = dd.arange(10, dtype=dd.float32)
    assert dd.reduce_window(x, "sum", 3, 2, "same").shape == (5,)
    assert np.asarray(dd.reduce_window(dd.array([True, False, False]), "max", 2)).tolist() == [True, False]
    assert np.asarray(dd.reduce_window(dd.array([True, True, False]), "min", 2)).tolist() == [True, False]
    for given in (("median", 2), ("sum", 0), ("sum", (1, 1)), ("sum", 2, 0), ("sum", 2, 1, "other")):
        with pytest.raises(dd.ArgumentError):
            dd.reduce_window(x, *given)


def conv(x: Array, w: Array, strides: Any, pads: Any, base: Any, gaps: Any, groups: int) -> Array:
    """(N, C, *size) with (O, I, *kernel), one output after the other."""
    x = padded(x, [(0, 0, 0), (0, 0, 0), *((*p, b - 1) for p, b in zip(pads, base, strict=True))], 0)
    counts = [
        (n - (k - 1) * g - 1) // s + 1 for n, k, s, g in zip(x.shape[2:], w.shape[2:], strides, gaps, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
    part = w.shape[0] // groups
    for o in range(w.shape[0]):
        channels = slice(o // part * w.shape[1], (o // part + 1) * w.shape[1])
        for at in np.ndindex(*counts):
            spot = tuple(
                slice(i * s, i * s + (k - 1) * g + 1, g)
                for i, s, k, g in zip(at, strides, w.shape[2:], gaps, strict=True)
            )
            patch = x[(slice(None), channels, *spot)]
            out[(slice(None), o, *at)] = np.sum(patch * w[o], tuple(range(1, patch.ndim)))
    return out


CONVS: list[tuple[tuple[int, ...], tuple[int, ...], Any, Any, Any, Any, int]] = [
    ((2, 3, 8), (4, 3, 3), (1,), [(0, 0)], (1,), (1,), 1),
    ((2, 3, 8), (4, 3, 3), (2,), [(1, 2)], (1,), (2,), 1),
    ((2, 3, 5), (4, 3, 3), (1,), [(2, 1)], (2,), (1,), 1),
    ((2, 3, 5), (4, 3, 2), (2,), [(0, -1)], (3,), (1,), 1),
    ((1, 4, 6, 5), (6, 2, 2, 3), (1, 2), [(1, 0), (-1, 2)], (1, 2), (1, 1), 2),
    ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), (1, 1, 1), [(0, 0), (1, 0), (0, 0)], (1, 1, 1), (1, 2, 1), 2),
]


@pytest.mark.parametrize("case", CONVS, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.complex128], ids=str)
def test_convolutions(case: Any, dtype: Any) -> None:
    a, b, strides, pads, base, gaps, groups = case
    x, w = (RNG.normal(size=s).astype(dtype.dtype) for s in (a, b))
    if dtype.kind == "c":
        x, w = x * (1 + 2j), w * (0.5 - 1j)
    want = conv(x, w, strides, pads, base, gaps, groups)
    found = dd.conv_general_dilated(x, w, strides, pads, base, gaps, None, groups)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-10, atol=1e-10)
    last = len(a) - 1
    letters = (
        "N" + "DHW"[3 - (len(a) - 2) :] + "C",
        "DHW"[3 - (len(a) - 2) :] + "IO",
        "C" + "DHW"[3 - (len(a) - 2) :] + "N",
    )
    moved = dd.conv_general_dilated(
        np.moveaxis(x, 1, last), np.moveaxis(w, (0, 1), (last, last - 1)), strides, pads, base, gaps, letters, groups
    )
    np.testing.assert_allclose(np.asarray(moved), np.swapaxes(np.moveaxis(want, (0, 1), (last, 0)), 0, 0), atol=1e-10)


def test_groups_of_images_and_names_of_padding() -> None:
    x, w = RNG.normal(size=(6, 2, 7)), RNG.normal(size=(9, 2, 3))
    found = np.asarray(dd.conv_general_dilated(x, w, batch_group_count=3, padding="same"))
    for g in range(3):
        part = conv(x[2 * g : 2 * g + 2], w[3 * g : 3 * g + 3], (1,), [(1, 1)], (1,), (1,), 1)
        np.testing.assert_allclose(found[:, 3 * g : 3 * g + 3], part, atol=1e-12)
    dilated = dd.conv_general_dilated(x, w, 2, "SAME", lhs_dilation=2)
    assert dilated.shape == (6, 9, 7)
    for given in ({"batch_group_count": 4}, {"batch_group_count": 3, "feature_group_count": 2}):
        with pytest.raises(dd.ShapeError):
            dd.conv_general_dilated(x, w, **given)
    for letters in (("NCW", "OIW"), ("NCW", "OIW", "NHC"), ("NCC", "OIW", "NCW")):
        with pytest.raises(dd.ArgumentError):
            dd.conv_general_dilated(x, w, dimension_numbers=letters)


def test_a_transposed_convolution_is_the_gradient_of_one() -> None:
    x, w = dd.array(RNG.normal(size=(1, 2, 9))), dd.array(RNG.normal(size=(3, 2, 3)))
    y, back = dd.vjp(lambda x: dd.conv_general_dilated(x, w, 2), x)
    ct = dd.array(RNG.normal(size=y.shape))
    turned = dd.swapaxes(dd.flip(w, 2), 0, 1)
    found = dd.conv_general_dilated(ct, turned, 1, [(2, 2)], lhs_dilation=2)
    np.testing.assert_allclose(np.asarray(found), np.asarray(back(ct)[0]), atol=1e-12)
    dd.testing.check_grads(
        lambda x, w: dd.sum(dd.conv_general_dilated(x, w, 1, [(1, -1)], 2) ** 2), (x[:, :, :4], w), order=2
    )


def test_products_over_any_axes() -> None:
    x, y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 2, 5))
    found = dd.dot_general(x, y, (((2,), (0,)), ((0,), (1,))))
    np.testing.assert_allclose(np.asarray(found), np.einsum("bik,kbj->bij", x, y), atol=1e-12)
    found = dd.dot_general(x, y, (((-1,), (0,)), ((), ())))
    np.testing.assert_allclose(np.asarray(found), np.tensordot(x, y, ((2,), (0,))), atol=1e-12)
    assert (
        dd.dot_general(dd.ones((2, 3), dd.bool_), dd.ones((3,), dd.bool_), (((1,), (0,)), ((), ()))).dtype
        is dtypes.bool_
    )


def test_axes_by_number() -> None:
    x = RNG.normal(size=(4, 5))
    np.testing.assert_array_equal(
        np.asarray(dd.broadcast_in_dim(x, (2, 4, 3, 5), (1, 3))), np.broadcast_to(x[:, None], (2, 4, 3, 5))
    )
    np.testing.assert_array_equal(np.asarray(dd.broadcasted_iota(dd.int16, (2, 3), -1)), [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(np.asarray(dd.slice_in_dim(x, 1, -1, 2, axis=1)), x[:, 1:-1:2])
    for at in (-1, 0, 2, 9):
        start = min(max(at + 5 if at < 0 else at, 0), 3)
        found = dd.defn(lambda x, i: dd.dynamic_slice_in_dim(x, i, 2, 1))(x, at)
        np.testing.assert_array_equal(np.asarray(found), x[:, start : start + 2])
        want = x.copy()
        want[:, start : start + 2] = 7
        found = dd.dynamic_update_slice_in_dim(x, dd.full((4, 2), 7.0), dd.array(at), 1)
        np.testing.assert_array_equal(np.asarray(found), want)
    for bad in ((1, 0), (0, 0), (0,)):
        with pytest.raises(dd.ArgumentError):
            dd.broadcast_in_dim(x, (4, 5), bad)


def test_coordinates() -> None:
    x = RNG.normal(size=(3, 4, 5))
    at = RNG.integers(0, 3, (2, 6, 2))
    np.testing.assert_array_equal(np.asarray(dd.gather_nd(x, at)), x[at[..., 0], at[..., 1]])
    np.testing.assert_array_equal(np.asarray(dd.gather_nd(x, at[..., :0])), np.broadcast_to(x, (2, 6, 3, 4, 5)))
    rows = RNG.integers(0, 4, (3, 6, 2))
    want = np.stack([x[i][rows[i, :, 0], rows[i, :, 1]] for i in range(3)])
    np.testing.assert_array_equal(np.asarray(dd.gather_nd(x, rows, batch_dims=1)), want)
    flat = dd.array([1.0, 2.0])
    assert np.isnan(np.asarray(dd.gather_nd(flat, dd.array([[9]]), mode="fill"))).all()
    assert np.asarray(dd.gather_nd(flat, dd.array([[9], [-1]]), mode="clip")).tolist() == [2, 2]
    with pytest.raises(dd.IndexOutOfRange):
        dd.gather_nd(flat, dd.array([[9]]))
    g = dd.grad(lambda x: dd.sum(dd.gather_nd(x, at) ** 2))(dd.array(x))
    want = np.zeros_like(x)
    np.add.at(want, (at[..., 0], at[..., 1]), 2 * x[at[..., 0], at[..., 1]])
    np.testing.assert_allclose(np.asarray(g), want)
    with pytest.raises(dd.ShapeError):
        dd.gather_nd(flat, dd.array([[0, 0]]))
