"""The bits of numbers: as another dtype, and counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dala_defn.dtypes import ARRAYS, INTS, NUMERIC, DType
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.elementwise import unary
from dala_defn.ops.samples import Array, edges, spread
from dala_defn.ops.spec import OPS, ZERO_GRAD, Case, OpSpec, check_dtype, define, no_flops
from dala_defn.shapes import floordiv, same_size, show


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def _ones(x: Array) -> Array:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _leading(x: Array) -> Array:
    """Zeros before the first one."""
    rest, bits = _unsigned(x).copy(), x.dtype.itemsize * 8
    out = np.full(x.shape, bits, np.int64)
    for place in range(bits):
        set_ = (rest >> _unsigned(np.array(place, x.dtype))) & _unsigned(np.array(1, x.dtype)) != 0
        out = np.where(set_, bits - 1 - place, out)
    return out.astype(x.dtype)


popcount = unary(
    "popcount", 0x12A, _ones, dtypes=INTS, vjp=ZERO_GRAD, sample=spread, ulp=0,
    example="popcount(dd.array([1, -1]))", doc="How many bits are set in the two's complement, elementwise.",
)  # fmt: skip
clz = unary(
    "clz", 0x12B, _leading, dtypes=INTS, vjp=ZERO_GRAD, sample=spread, ulp=0,
    example="clz(dd.array([1, 0]))", doc="How many bits before the first that is set are not, elementwise.",
)  # fmt: skip


def _bitcast_infer(x: Type, *, dtype: DType) -> tuple[Type, ...]:
    check_dtype("bitcast", x.dtype, ARRAYS)
    if dtype not in NUMERIC:
        raise DTypeError(f"bitcast: bits are not read as {dtype}", op="bitcast", hint="x != 0 for bool")
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return (Type(dtype, x.shape),)
    if x.ndim == 0:
        raise ShapeError(f"bitcast: {x.dtype} and {dtype} have different sizes, which takes an axis", op="bitcast")
    last = floordiv(x.shape[-1] * old, new)
    if not same_size(last * new, x.shape[-1] * old, "bitcast"):
        raise ShapeError(
            f"bitcast: the last axis of {x.dtype}{show(x.shape)} does not hold whole numbers of {dtype}", op="bitcast"
        )
    return (Type(dtype, (*x.shape[:-1], last)),)


def _bitcast(x: Array, *, dtype: DType) -> Array:
    return np.ascontiguousarray(x).reshape(x.shape).view(dtype.dtype)


def _bitcast_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for to in NUMERIC:
        for shape in ((8,), (2, 0, 8), (3, 16)):
            yield Case((spread(rng, dtype, shape),), {"dtype": to}, smooth=False)
        if to.itemsize == dtype.itemsize:
            yield Case((spread(rng, dtype, ()),), {"dtype": to}, smooth=False)
            yield Case((edges(dtype),), {"dtype": to}, smooth=False)


bitcast: OpSpec = define(
    name="bitcast",
    code=0x129,
    family="movement",
    attrs={"dtype": "dtype"},
    accepts=ARRAYS,
    result="own",
    infer=_bitcast_infer,
    reference=_bitcast,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=lambda n, args, batched, *, dtype: (OPS["bitcast"](args[0], dtype=dtype),),
    fusion="opaque",
    flops=no_flops,
    sample=_bitcast_cases,
    ulp=0,
    doc="The same bits as numbers of another dtype; where the sizes differ the last axis holds more or fewer of them, "
    "the lowest bits first. Derivatives do not pass.",
    example="bitcast(dd.array([1.0]), dtype=dd.uint32)",
    since="0.1",
)
