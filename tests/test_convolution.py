"""Convolution and its two gradients in the runtime: any geometry against the reference, sums in a fixed order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dala_defn as dd
from dala_defn.ops import OPS
from dala_defn.ops.contraction import conv_size


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@st.composite
def geometries(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of an input and a kernel, and attributes."""
    rank = draw(st.integers(1, 3))
    most = {1: 70, 2: 20, 3: 6}[rank]

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, filters = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    size, kernel = each(0, most), each(1, 5 if rank < 3 else 3)
    attrs = {"strides": each(1, 4), "low": each(0, 6), "high": each(0, 6), "dilation": each(1, 4), "groups": groups}
    x = (draw(st.integers(0, 4)), groups * channels, *size)
    return x, (groups * filters, channels, *kernel), attrs


def check(op: str, a: Any, b: Any, attrs: dict[str, Any]) -> None:
    spec = OPS[op]
    want = spec.reference(a.astype(np.float64), b.astype(np.float64), **attrs)
    scale = spec.reference(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)), **attrs)
    for dtype in (np.float32, np.float64):
        got = np.asarray(dd.defn(lambda a, b: spec(a, b, **attrs))(a.astype(dtype), b.astype(dtype)))
        assert got.shape == want.shape and got.dtype == dtype
        assert (np.abs(got - want) <= 8 * np.finfo(dtype).eps * scale).all()


@settings(deadline=None, max_examples=120)
@given(geometries(), st.integers(0, 2**32 - 1))
def test_any_geometry_is_the_reference(geometry: Any, seed: int) -> None:
    xs, ws, attrs = geometry
    rng = np.random.default_rng(seed)
    names = zip(xs[2:], ws[2:], attrs["strides"], attrs["low"], attrs["high"], attrs["dilation"], strict=True)
    out = tuple(int(conv_size(*row)) for row in names)
    # float32 values, so that both dtypes get the same.
    x, w, ct = (rng.normal(size=s).astype(np.float32) for s in (xs, ws, (xs[0], ws[0], *out)))
    check("conv", x, w, attrs)
    check("conv_input_grad", ct, w, {**attrs, "size": xs[2:]})
    check("conv_weight_grad", x, ct, {**attrs, "size": ws[2:]})


@pytest.mark.parametrize(
    ("xs", "ws", "stride"),
    [
        ((3, 20, 19, 23), (34, 20, 3, 3), 1),  # several images in a panel, tiles that are not full
        ((1, 70, 7, 7), (70, 70, 3, 3), 1),  # sums in several parts
        ((2, 12, 40, 40), (12, 1, 3, 3), 1),  # a kernel for each channel
        ((2, 12, 40, 40), (12, 1, 3, 3), 2),
        ((2, 3, 61, 61), (16, 3, 7, 7), 2),
        ((2, 64, 30, 30), (32, 64, 1, 1), 1),
        ((2, 64, 30, 30), (32, 64, 1, 1), 2),
    ],
)
def test_larger_sizes_are_the_reference(rng: np.random.Generator, xs: Any, ws: Any, stride: int) -> None:
    pad = ws[2] // 2
    attrs = {
        "strides": (stride,) * 2,
        "low": (pad,) * 2,
        "high": (pad,) * 2,
        "dilation": (1, 1),
        "groups": xs[1] // ws[1],
    }
    out = tuple((n + 2 * pad - ws[2]) // stride + 1 for n in xs[2:])
    x, w, ct = (rng.normal(size=s).astype(np.float32) for s in (xs, ws, (xs[0], ws[0], *out)))
    check("conv", x, w, attrs)
    check("conv_input_grad", ct, w, {**attrs, "size": xs[2:]})
    check("conv_weight_grad", x, ct, {**attrs, "size": ws[2:]})


def test_what_is_not_a_number_stays_where_it_is_seen(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 21, 19)).astype(np.float32)
    w = rng.normal(size=(5, 3, 3, 3)).astype(np.float32)
    x[0, 1, 4, 18], x[1, 2, 0, 0] = np.nan, np.inf
    attrs = {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1), "groups": 1}
    got = np.asarray(OPS["conv"](dd.array(x), dd.array(w), **attrs))
    with np.errstate(all="ignore"):
        want = OPS["conv"].reference(x, w, **attrs)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    ct = rng.normal(size=(2, 5, 21, 19)).astype(np.float32)
    x[0, 1, 4, 18], x[1, 2, 0, 0] = 1, np.inf
    size = {**attrs, "size": (3, 3)}
    got = np.asarray(OPS["conv_weight_grad"](dd.array(x), dd.array(ct), **size))
    with np.errstate(all="ignore"):
        want = OPS["conv_weight_grad"].reference(x, ct, **size)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def test_padding_that_meets_nothing_takes_no_memory() -> None:
    far = 1 << 40
    attrs = {"strides": (1,), "low": (far,), "high": (0,), "dilation": (far,), "groups": 1}
    x, w = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5), np.array([[[7, 2]]], np.float32)
    np.testing.assert_array_equal(np.asarray(OPS["conv"](dd.array(x), dd.array(w), **attrs)), 2 * x)
    back = OPS["conv_input_grad"](dd.array(x), dd.array(w), size=(5,), **attrs)
    np.testing.assert_array_equal(np.asarray(back), 2 * x)
    grad = OPS["conv_weight_grad"](dd.array(x), dd.array(x), size=(2,), **attrs)
    np.testing.assert_array_equal(np.asarray(grad), [[[0, 55]]])
