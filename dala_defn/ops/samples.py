"""Inputs for testing ops: values of every dtype, with the edges that matter, in shapes of size 0, 1 and n."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.ops.spec import Case

Array = np.ndarray[Any, Any]
Draw = Callable[["np.random.Generator", DType, tuple[int, ...]], Array]  # a string: the module takes 10 ms to import

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 1, 3))
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((4,), (4,)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((3, 1), (1, 4)),
    ((4,), (3, 4)),
    ((2, 3, 4), (3, 1)),
    ((0, 3), (1, 3)),
    ((3, 1), (3, 0)),
    ((1,), (1, 1)),
)


def reals(low: float, high: float) -> Draw:
    """Uniform between two bounds (integers: between those that the dtype has; bool: either; complex: both parts)."""

    def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.is_integer:
            info = np.iinfo(dtype.dtype)
            lo, hi = max(int(low), int(info.min)), min(int(high), int(info.max))
            return np.asarray(rng.integers(lo, max(hi, lo) + 1, shape)).astype(dtype.dtype)
        if dtype.kind == "k":
            return np.asarray(rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32))
        if dtype.kind == "c":
            parts = rng.uniform(low, high, (2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype.dtype)
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype.dtype)

    return draw


def spread(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The whole range of the dtype for integers; a wide range with signs for floats."""
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype=dtype.dtype, endpoint=True))
    return reals(-8, 8)(rng, dtype, shape)


def away_from_integers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Floats at least 0.1 from every integer: where rounding functions are flat."""
    whole = rng.integers(-5, 5, shape)
    return np.asarray(whole + rng.uniform(0.1, 0.4, shape) + 0.5 * rng.integers(0, 2, shape)).astype(dtype.dtype)


def away_from_zero(low: float, high: float) -> Draw:
    """Uniform magnitudes with either sign (unsigned: positive)."""

    def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
        x = reals(low, high)(rng, dtype, shape)
        if dtype.kind == "u" or dtype.kind == "b":
            return x
        return np.where(rng.random(shape) < 0.5, x, -x).astype(dtype.dtype)

    return draw


def distinct(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """No two equal elements (as far as the dtype allows) and gaps wide enough for finite differences."""
    n = int(np.prod(shape))
    if dtype.kind == "b":
        return reals(0, 1)(rng, dtype, shape)
    order = rng.permutation(n).reshape(shape)
    if dtype.is_integer:
        return np.asarray(order % 120).astype(dtype.dtype)
    return np.asarray((order - n / 2) * 0.25 + 0.0625).astype(dtype.dtype)


def edges(dtype: DType) -> Array:
    """The values at which functions go wrong."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        listed = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max]
        if dtype.kind == "i":
            listed += [-1, -2, -3, -7]
        return np.array(listed, dtype.dtype)
    if dtype.kind == "c":
        parts = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 40.0, 1e-3])
        return np.array([complex(x, y) for x in parts for y in parts]).astype(dtype.dtype)
    listed_floats = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan, 100.0, -100.0, 1e-3]
    return np.array(listed_floats).astype(dtype.dtype)


def unary_cases(draw: Draw, *, edge: bool = True) -> Callable[[np.random.Generator, DType], Iterator[Case]]:
    """Cases for an op of one operand: every shape, and the edge values."""

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for shape in SHAPES:
            yield Case((draw(rng, dtype, shape),), {})
        if edge and dtype.kind != "k":
            yield Case((edges(dtype),), {}, smooth=False)

    return sample


def binary_cases(
    left: Draw, right: Draw | None = None, *, edge: bool = True
) -> Callable[[np.random.Generator, DType], Iterator[Case]]:
    """Cases for an op of two operands: broadcasting both ways, and every pair of edge values."""

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for a, b in PAIRS:
            yield Case((left(rng, dtype, a), (right or left)(rng, dtype, b)), {})
        if edge:
            e = edges(dtype)
            yield Case((e[:, None], e[None, :]), {}, smooth=False)

    return sample


def attr_cases(
    draw: Draw, rows: Sequence[tuple[tuple[int, ...], dict[str, Any]]]
) -> Callable[[np.random.Generator, DType], Iterator[Case]]:
    """Cases for an op of one operand with attributes: one per (shape, attributes)."""

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for shape, attrs in rows:
            yield Case((draw(rng, dtype, shape),), attrs)

    return sample
