"""Functions that move elements, make arrays or multiply them, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import Array, any_dtype, check, draw_array, floats, reals, seeds, shapes, wide

import dala_defn as dd
from dala_defn.dtypes import DType


@given(any_dtype, shapes, seeds, st.data())
def test_reordering_axes(dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    rank = len(shape)
    check(dd.transpose(x), x.T, dtype)
    check(dd.array(x).T, x.T, dtype)
    check(dd.ravel(x), x.ravel(), dtype)
    check(dd.reshape(x, (-1,)) if x.size else dd.reshape(x, (0,)), x.ravel(), dtype)
    if rank:
        axes = tuple(a - rank if data.draw(st.booleans()) else a for a in data.draw(st.permutations(range(rank))))
        check(dd.transpose(x, axes), np.transpose(x, axes), dtype)
        a, b = (data.draw(st.integers(-rank, rank - 1)) for _ in range(2))
        check(dd.swapaxes(x, a, b), np.swapaxes(x, a, b), dtype)
        check(dd.moveaxis(x, a, b), np.moveaxis(x, a, b), dtype)
        check(dd.flip(x, a), np.flip(x, a), dtype)
        shift = data.draw(st.integers(-7, 7))
        check(dd.roll(x, shift, a), np.roll(x, shift, a), dtype)
        check(dd.roll(x, shift), np.roll(x, shift), dtype)
    check(dd.flip(x), np.flip(x), dtype)
    check(dd.squeeze(x), np.squeeze(x), dtype)
    ones = [i for i, n in enumerate(shape) if n == 1]
    if ones:
        check(dd.squeeze(x, ones[-1] - rank), np.squeeze(x, ones[-1] - rank), dtype)
    at = data.draw(st.integers(-rank - 1, rank))
    check(dd.expand_dims(x, at), np.expand_dims(x, at), dtype)


@given(any_dtype, any_dtype, shapes.filter(len), seeds, st.data())
def test_joining_and_splitting(a: DType, b: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    other = list(shape)
    other[axis] = data.draw(st.integers(0, 3))
    x, y = draw_array(a, shape, seed), draw_array(b, tuple(other), seed + 1)
    common = dd.promote_types(a, b)
    want = np.concatenate([x.astype(common.dtype), y.astype(common.dtype)], axis)
    check(dd.concatenate([x, y], axis), want, common)
    check(
        dd.concatenate([x, y], None),
        np.concatenate([x.ravel().astype(common.dtype), y.ravel().astype(common.dtype)]),
        common,
    )
    place = data.draw(st.integers(-len(shape) - 1, len(shape)))
    check(dd.stack([x, x, x], place), np.stack([x, x, x], place), a)
    cuts = sorted(data.draw(st.lists(st.integers(0, 6), max_size=3)))
    for got, part in zip(dd.split(x, cuts, axis), np.split(x, cuts, axis), strict=True):
        check(got, part, a)
    if shape[axis]:
        for got, part in zip(dd.split(x, shape[axis], axis), np.split(x, shape[axis], axis), strict=True):
            check(got, part, a)


@given(any_dtype, shapes, seeds, st.data())
def test_repeating_and_padding(dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x = draw_array(dtype, shape, seed)
    reps = data.draw(st.one_of(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=3).map(tuple)))
    check(dd.tile(x, reps), np.tile(x, reps), dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1)) if shape else None
    n = data.draw(st.integers(0, 3))
    check(dd.repeat(x, n, axis), np.repeat(x, n, axis), dtype)
    widths = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in shape]
    check(dd.pad(x, widths), np.pad(x, widths) if shape else x, dtype)
    wanted = (data.draw(st.integers(0, 2)), *(3 if m == 1 else m for m in shape))
    check(dd.broadcast_to(x, wanted), np.broadcast_to(x, wanted), dtype)
    if len(shape) >= 2:
        k = data.draw(st.integers(-3, 3))
        check(dd.tril(x, k), np.tril(x, k), dtype)
        check(dd.triu(x, k), np.triu(x, k), dtype)


@given(any_dtype, shapes, st.integers(0, 1))
def test_making_arrays(dtype: DType, shape: tuple[int, ...], fill: int) -> None:
    check(dd.zeros(shape, dtype), np.zeros(shape, dtype.dtype), dtype)
    check(dd.ones(shape, dtype), np.ones(shape, dtype.dtype), dtype)
    check(dd.full(shape, fill, dtype), np.full(shape, fill, dtype.dtype), dtype)
    x = draw_array(dtype, shape, 0)
    check(dd.zeros_like(x), np.zeros_like(x), dtype)
    check(dd.ones_like(x), np.ones_like(x), dtype)
    check(dd.full_like(x, fill), np.full_like(x, fill), dtype)
    check(dd.array(x), x, dtype)
    check(dd.asarray(x), x, dtype)
    if dtype.name != "bfloat16":
        check(dd.array(x.tolist(), dtype) if x.size else dd.array(x), x, dtype)


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from((-3, -2, -1, 1, 2, 3, 0.5, -0.25, 0.3)), reals)
def test_counting(start: int, stop: int, step: float, dtype: DType) -> None:
    want = np.arange(start, stop, step)
    out = dd.int32 if isinstance(step, int) else dd.float32
    check(dd.arange(start, stop, step), want, out)
    if dtype.is_float or (isinstance(step, int) and (dtype.kind == "i" or want.min(initial=0) >= 0)):
        check(dd.arange(start, stop, step, dtype), want.astype(dtype.dtype), dtype)
    check(dd.linspace(start, stop, 7), np.linspace(start, stop, 7), dd.float32)
    check(dd.linspace(start, stop, 4, endpoint=False), np.linspace(start, stop, 4, endpoint=False), dd.float32)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(-6, 6), any_dtype)
def test_eye_and_one_hot(n: int, m: int, k: int, dtype: DType) -> None:
    check(dd.eye(n, m, k, dtype), np.eye(n, m, k).astype(dtype.dtype), dtype)
    labels = np.random.default_rng(n).integers(-2, 7, (2, m))
    check(dd.one_hot(labels, 5), (labels[..., None] == np.arange(5)).astype(np.float32), dd.float32)


def scale_of(x: Array, y: Array) -> float:
    """What the error of a product of arrays grows with."""
    n = max(x.shape[-1] if x.ndim else 1, 1)
    return n * max(float(np.max(np.abs(wide(x)), initial=0)) * float(np.max(np.abs(wide(y)), initial=0)), 1.0)


_MATMULS = [
    ((6,), (6,)), ((6,), (6, 2)), ((4, 6), (6,)), ((2, 4, 6), (6,)), ((2, 1, 4, 6), (3, 6, 5)), ((4, 6), (6, 5)),
    ((6,), (3, 6, 2)), ((3, 4, 6), (6, 5)), ((4, 6), (3, 6, 5)), ((0, 6), (6, 2)), ((4, 0), (0, 2)), ((1, 1), (1, 1)),
    ((3, 0, 6), (3, 6, 2)), ((1, 4, 6), (3, 6, 1)), ((0,), (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), _MATMULS, ids=str)
@given(any_dtype, any_dtype, seeds)
def test_matmul_and_dot(a: tuple[int, ...], b: tuple[int, ...], first: DType, second: DType, seed: int) -> None:
    x, y = draw_array(first, a, seed), draw_array(second, b, seed + 1)
    common = dd.promote_types(first, second)
    xs, ys = wide(x.astype(common.dtype)), wide(y.astype(common.dtype))
    check(dd.matmul(x, y), np.matmul(xs, ys), common, scale_of(xs, ys))
    check(dd.array(x) @ y, np.matmul(xs, ys), common, scale_of(xs, ys))
    if common.kind != "b":
        check(dd.dot(x, y), np.dot(xs, ys), common, scale_of(xs, ys))


@given(reals, shapes, seeds, st.data())
def test_other_products(dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x, y = draw_array(dtype, shape, seed), draw_array(dtype, shape, seed + 1)
    scale = scale_of(x.ravel(), y.ravel())
    check(dd.vdot(x, y), np.asarray(np.sum(wide(x) * wide(y), dtype=wide(x).dtype)), dtype, scale)
    check(dd.outer(x, y), np.outer(wide(x), wide(y)), dtype)
    n = data.draw(st.integers(0, len(shape)))
    back = draw_array(dtype, (*shape[len(shape) - n :], 2), seed)
    check(dd.tensordot(x, back, n), np.tensordot(wide(x), wide(back), n), dtype, scale)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    axes = (order, tuple(range(len(shape))))
    turned = np.transpose(y, order)
    check(dd.tensordot(x, turned, axes), np.tensordot(wide(x), wide(turned), axes), dtype, scale)


def windows(
    x: Array, window: tuple[int, ...], strides: tuple[int, ...], pads: list[tuple[int, int]], fill: float
) -> Array:
    """(images, *out, channels, *window) of an array with channels last."""
    padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
    axes = tuple(range(1, x.ndim - 1))
    views = np.lib.stride_tricks.sliding_window_view(padded, window, axes)
    return views[(slice(None), *(slice(None, None, s) for s in strides))]


def padding_of(
    kind: str, size: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...]
) -> list[tuple[int, int]]:
    """What ``same`` means, as in TensorFlow."""
    if kind == "valid":
        return [(0, 0)] * len(size)
    totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(size, window, strides, strict=True)]
    return [(t // 2, t - t // 2) for t in totals]


_POOLS = list(itertools.product(((5,), (4, 6), (3, 4, 3)), (1, 2, 3), (1, 2), ("valid", "same")))


@pytest.mark.parametrize(("size", "window", "stride", "padding"), _POOLS, ids=str)
@pytest.mark.parametrize("dtype", [dd.float32, dd.float64, dd.float16], ids=str)
def test_conv_and_pooling(size: tuple[int, ...], window: int, stride: int, padding: str, dtype: DType) -> None:
    rank = len(size)
    x = draw_array(dtype, (2, *size, 3), 1)
    k = draw_array(dtype, (*(window,) * rank, 3, 4), 2)
    w, s = (window,) * rank, (stride,) * rank
    pads = padding_of(padding, size, w, s)
    views = windows(wide(x), w, s, pads, 0.0)
    inner = tuple(range(rank + 2, 2 * rank + 2))
    order = (rank + 1, *inner)
    want = np.tensordot(views, wide(k), (order, (rank, *range(rank))))
    check(dd.conv(x, k, stride, padding), want, dtype, 16.0 * k[..., 0].size)
    low = windows(wide(x), w, s, pads, -np.inf)
    check(dd.max_pool(x, window, stride, padding), np.max(low, inner), dtype)
    count = windows(np.ones_like(wide(x)), w, s, pads, 0.0)
    check(dd.avg_pool(x, window, stride, padding), np.sum(views, inner) / np.sum(count, inner), dtype, 4.0)


def test_grouped_and_dilated_conv() -> None:
    x, k = draw_array(dd.float64, (2, 9, 4), 1), draw_array(dd.float64, (3, 2, 6), 2)
    got = dd.conv(x, k, padding=[(2, 1)], dilation=2, groups=2)
    padded = np.pad(x, [(0, 0), (2, 1), (0, 0)])
    want = np.zeros((2, 8, 6))
    for g, o, i in itertools.product(range(2), range(8), range(3)):
        part = padded[:, o + 2 * i, 2 * g : 2 * g + 2]
        want[:, o, 3 * g : 3 * g + 3] += part @ k[i, :, 3 * g : 3 * g + 3]
    check(got, want, dd.float64, 50.0)


@given(floats, shapes, seeds)
def test_dynamic_slices(dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed)
    rng = np.random.default_rng(seed)
    sizes = tuple(int(rng.integers(0, n + 1)) for n in shape)
    starts = tuple(int(rng.integers(-2, 6)) for _ in shape)
    spot = tuple(slice(a := min(max(s, 0), n - k), a + k) for s, n, k in zip(starts, shape, sizes, strict=True))
    check(dd.dynamic_slice(x, starts, sizes), x[spot], dtype)
    new = draw_array(dtype, sizes, seed + 1)
    want = x.copy()
    want[spot] = new
    check(dd.dynamic_update_slice(x, new, starts), want, dtype)


def test_bad_axes_and_shapes_are_refused() -> None:
    x = dd.zeros((2, 3))
    for f in (
        lambda: dd.sum(x, 2), lambda: dd.sum(x, (0, 0)), lambda: dd.sum(x, -3), lambda: dd.transpose(x, (0, 0)),
        lambda: dd.transpose(x, (0,)), lambda: dd.reshape(x, (4,)), lambda: dd.reshape(x, (-1, 4)),
        lambda: dd.reshape(x, (-1, -1)), lambda: dd.concatenate([x, dd.zeros((3, 2))]), lambda: dd.stack([x, x.T]),
        lambda: dd.squeeze(x, 0), lambda: dd.expand_dims(x, 5), lambda: dd.broadcast_to(x, (2, 4)),
        lambda: dd.split(x, 2, 1), lambda: x + dd.zeros((4,)), lambda: x @ x, lambda: dd.matmul(x, 1.0),
        lambda: dd.cumsum(x, 2), lambda: dd.argmax(x, 2), lambda: dd.sort(x, -3), lambda: dd.moveaxis(x, 0, 2),
        lambda: dd.tensordot(x, x, 1), lambda: dd.tril(dd.zeros(3)), lambda: dd.max(dd.zeros((0, 2)), 0),
        lambda: dd.flip(x, 2), lambda: dd.swapaxes(x, 0, 2), lambda: dd.take_along_axis(x, dd.zeros(2, dd.int32), 0),
        lambda: dd.reshape(dd.zeros((2, 0, 6)), (2, 0, -1)),
    ):  # fmt: skip
        with pytest.raises(dd.ShapeError):
            f()
