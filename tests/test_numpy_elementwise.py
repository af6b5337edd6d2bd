"""Elementwise functions against NumPy (or SciPy): values, dtypes, NaN, sizes 0 and 1, strides, slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numeric import Array, check, wide

import dala_defn as dd
from dala_defn import dtypes

FLOATS = [dd.float32, dd.float64]
DTYPES = [dd.float32, dd.float64, dd.int32, dd.int64, dd.uint8, dd.bool_]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3)]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-30, 7.25, np.inf, -np.inf, np.nan])


def numbers(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small numbers; those of a float dtype with infinities and NaN when there are many."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype.dtype)
    return rng.uniform(-4, 4, shape).astype(dtype.dtype)


def strided(x: Array) -> Array:
    """The same numbers, laid out with gaps and backwards."""
    if x.ndim == 0:
        return x
    wide_ = np.repeat(x, 2, axis=-1)[..., ::-1]
    return wide_[..., ::-2] if x.shape[-1] else x


ONE: dict[str, Callable[[Array], Any]] = {
    "fabs": np.fabs, "fix": np.fix, "log2": np.log2, "log10": np.log10, "exp2": np.exp2, "cbrt": np.cbrt,
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "sinc": np.sinc, "degrees": np.degrees, "radians": np.radians,
    "reciprocal": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ONE)
def test_real_functions_of_one(name: str, dtype: Any) -> None:
    f = getattr(dd, name)
    keeps = name == "fix" and not dtype.is_float
    out = dtype if keeps else dtypes.to_inexact(dtype)
    with np.errstate(all="ignore"):
        for shape in SHAPES:
            x = numbers(dtype, shape)
            for given in (x, strided(x)):
                want = x if keeps else ONE[name](x.astype(out.dtype).astype(np.float64))
                check(f(given), want, out, scale=1.0)
        if dtype.is_float:
            x = SPECIAL.astype(dtype.dtype)
            check(f(x), ONE[name](wide(x)), out)
            check(dd.defn(f)(x), ONE[name](wide(x)), out)


TWO: dict[str, Callable[[Array, Array], Any]] = {
    "hypot": np.hypot, "logaddexp2": np.logaddexp2, "heaviside": np.heaviside, "copysign": np.copysign,
    "fmod": np.fmod, "fmax": np.fmax, "fmin": np.fmin, "logaddexp": np.logaddexp, "nextafter": np.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_on_all_pairs_of_special_numbers(name: str, dtype: Any) -> None:
    a, b = (v.astype(dtype.dtype) for v in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
    if name == "copysign":
        b = np.where(np.isnan(b), 1, b)  # the sign of NaN is not read
    with np.errstate(all="ignore"):
        want = TWO[name](a, b) if name == "nextafter" else TWO[name](wide(a), wide(b))
        for f in (getattr(dd, name), dd.defn(getattr(dd, name))):
            check(f(a, b), want, dtype)


@pytest.mark.parametrize("name", ["fmod", "fmax", "fmin", "gcd", "lcm"])
@pytest.mark.parametrize("dtype", [dd.int8, dd.uint8, dd.int32, dd.int64, dd.uint64], ids=str)
def test_functions_of_two_integers(name: str, dtype: Any) -> None:
    a, b = numbers(dtype, (40, 1)), numbers(dtype, (1, 40), 1)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)
    check(getattr(dd, name)(a, b), want, dtype)


def test_gcd_takes_all_its_steps_for_the_worst_pairs() -> None:
    for dtype in dtypes.INTS:
        pair, top = [1, 1], np.iinfo(dtype.dtype).max
        while pair[0] + pair[1] <= top:
            pair = [pair[1], pair[0] + pair[1]]
        check(dd.gcd(np.array([pair[1]], dtype.dtype), np.array([pair[0]], dtype.dtype)), [1], dtype)


@pytest.mark.parametrize("dtype", [dd.int8, dd.uint8, dd.int16, dd.int32, dd.uint32, dd.int64, dd.uint64], ids=str)
def test_bitwise_count(dtype: Any) -> None:
    info = np.iinfo(dtype.dtype)
    x = np.array([0, 1, 7, info.max, info.max // 3, info.min], dtype.dtype)
    check(dd.bitwise_count(x), np.bitwise_count(x), dd.uint8)


@pytest.mark.parametrize("dtype", [dd.float16, *FLOATS], ids=str)
def test_numbers_taken_apart(dtype: Any) -> None:
    tiny = float(np.finfo(dtype.dtype).smallest_subnormal)
    x = np.concatenate([SPECIAL, [tiny, -3 * tiny, float(np.finfo(dtype.dtype).max), 12345.0]]).astype(dtype.dtype)
    with np.errstate(all="ignore"):
        for got, want in zip(dd.frexp(x), np.frexp(x), strict=True):
            assert np.array_equal(np.asarray(got), want, equal_nan=True)
        for got, want in zip(dd.modf(x), np.modf(x), strict=True):
            assert np.array_equal(np.asarray(got), want, equal_nan=True)
            finite = ~np.isnan(want)
            assert np.array_equal(np.signbit(np.asarray(got))[finite], np.signbit(want)[finite])
        if dtype is not dd.float16:  # where NumPy's has no sign
            assert np.array_equal(np.asarray(dd.spacing(x)), np.spacing(x), equal_nan=True)
        assert np.array_equal(np.asarray(dd.signbit(x)), np.signbit(x) & ~np.isnan(x))
        for i in (-200, -20, -1, 0, 1, 30, 300):
            assert np.array_equal(np.asarray(dd.ldexp(x, i)), np.ldexp(x, i), equal_nan=True), i
        for y in (0.0, 1.0, np.inf, -np.inf, np.nan):
            want = np.nextafter(x, dtype.dtype.type(y))
            assert np.array_equal(np.asarray(dd.nextafter(x, dtype.dtype.type(y))), want, equal_nan=True)


def test_logarithms_are_whole_at_whole_powers() -> None:
    for dtype in FLOATS:
        powers = np.arange(-30, 31)
        assert np.array_equal(np.asarray(dd.log2(np.ldexp(np.ones(1, dtype.dtype), powers))), powers)
        tens = np.arange(0, 11)
        assert np.array_equal(np.asarray(dd.log10((10.0**tens).astype(dtype.dtype))), tens)
        cubes = np.arange(-20, 21)
        assert np.array_equal(np.asarray(dd.cbrt((cubes**3).astype(dtype.dtype))), cubes)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["isposinf", "isneginf"])
def test_signed_infinities(name: str, dtype: Any) -> None:
    x = SPECIAL.astype(dtype.dtype) if dtype.is_float else numbers(dtype, (5,))
    check(getattr(dd, name)(x), np.asarray(getattr(np, name)(wide(x))).astype(bool), dd.bool_)


def test_nan_to_num_and_isclose() -> None:
    for dtype in FLOATS:
        x = SPECIAL.astype(dtype.dtype)
        check(dd.nan_to_num(x), np.nan_to_num(x), dtype)
        check(
            dd.nan_to_num(x, nan=3.0, posinf=9.0, neginf=-9.0),
            np.nan_to_num(x, nan=3.0, posinf=9.0, neginf=-9.0),
            dtype,
        )
        a, b = np.meshgrid(x, x)
        for equal_nan in (False, True):
            check(dd.isclose(a, b, equal_nan=equal_nan), np.isclose(a, b, equal_nan=equal_nan), dd.bool_)
            for y in (x, x[:-1]):
                assert bool(dd.allclose(y, y, equal_nan=equal_nan)) == np.allclose(y, y, equal_nan=equal_nan)
                assert bool(dd.array_equal(y, y, equal_nan=equal_nan)) == np.array_equal(y, y, equal_nan=equal_nan)
    assert not bool(dd.array_equal(dd.ones(2), dd.ones(3)))
    assert bool(dd.array_equiv(dd.ones(2), 1)) and not bool(dd.array_equiv(dd.ones(2), dd.ones(3)))


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", [dd.int32, dd.uint8, *FLOATS], ids=str)
def test_round(decimals: int, dtype: Any) -> None:
    x = np.array([0, 5, 15, 25, 35, 149, 150, 250]).astype(dtype.dtype)
    x = x / 4 if dtype.is_float else x
    check(dd.round(x, decimals), np.round(wide(x), decimals).astype(x.dtype), dtype)


def test_select_piecewise_and_choose() -> None:
    x = np.arange(-3.0, 4.0, dtype=np.float32)
    check(dd.select([x < -1, x > 1], [x, 2 * x], 9), np.select([x < -1, x > 1], [x, 2 * x], 9), dd.float32)
    for rest in ([], [7.0]):
        pieces = [lambda v: v * v, 5.0, *rest]
        check(dd.piecewise(x, [x < 0, x > 2], pieces), np.piecewise(x, [x < 0, x > 2], pieces), dd.float32)
    at = np.array([[0, 2, 1], [1, 5, -1]])
    options = [np.arange(3), np.arange(3) * 10, np.full(3, 7)]
    for mode in ("clip", "wrap"):
        check(dd.choose(at, options, mode=mode), np.choose(at, options, mode=mode))


GRADIENTS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "log2": (dd.log2, lambda x: 1 / (x * np.log(2))),
    "log10": (dd.log10, lambda x: 1 / (x * np.log(10))),
    "exp2": (dd.exp2, lambda x: np.log(2) * 2**x),
    "cbrt": (dd.cbrt, lambda x: 1 / (3 * np.cbrt(x) ** 2)),
    "sinc": (dd.sinc, lambda x: np.cos(np.pi * x) / x - np.sinc(x) / x),
    "hypot": (lambda x: dd.hypot(x, 2.0), lambda x: x / np.hypot(x, 2)),
    "copysign": (lambda x: dd.copysign(x, -1.0), lambda x: -np.ones_like(x)),
    "fmod": (lambda x: dd.fmod(x, 0.75), np.ones_like),
    "logaddexp2": (lambda x: dd.logaddexp2(x, 0.5), lambda x: 2**x / (2**x + 2**0.5)),
    "deg2rad": (dd.deg2rad, lambda x: np.full_like(x, np.pi / 180)),
    "fmax": (lambda x: dd.fmax(x, dd.nan), np.ones_like),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    f, slope = GRADIENTS[name]
    x = np.array([0.3, 1.0, 2.0, 8.0, 1000.0 if name in ("log10", "cbrt") else 3.3])
    got = dd.grad(lambda x: dd.sum(f(x)))(dd.array(x))
    assert np.allclose(np.asarray(got), slope(x), rtol=1e-12)


def test_gradients_at_edges_are_finite() -> None:
    assert float(dd.grad(lambda x: dd.hypot(x, 0.0))(0.0)) == 0.0
    assert float(dd.grad(dd.sinc)(0.0)) == 0.0
    assert np.isclose(float(dd.grad(dd.grad(dd.sinc))(0.0)), -(np.pi**2) / 3)


def test_the_slope_of_the_cube_root_is_infinite_at_0() -> None:
    x = dd.array([0.0, -0.0, -8.0])
    for derive in (dd.grad, dd.jacfwd):
        assert np.allclose(np.asarray(derive(lambda x: dd.sum(dd.cbrt(x)))(x)), [np.inf, np.inf, 1 / 12])
    assert dd.grad(lambda x: dd.sum(dd.where(x > 0, dd.cbrt(x), 0)))(x).tolist() == [0, 0, 0]


def test_what_is_refused() -> None:
    with pytest.raises(dd.DTypeError):
        dd.positive(dd.array([True]))
    with pytest.raises(dd.ArgumentTypeError):
        dd.gcd(dd.array([1.0]), 2)
    with pytest.raises(dd.ArgumentTypeError):
        dd.ldexp(dd.array([1.0]), 2.0)
    with pytest.raises(dd.ArgumentError):
        dd.select([], [])
