"""Ops of one operand, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import FLOATS, INEXACT, INTS, NUMBERS, NUMERIC, SINGLE, DType
from dala_defn.errors import DTypeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.elementwise import elementwise_batch, unary
from dala_defn.ops.samples import (
    SHAPES,
    Array,
    away_from_integers,
    away_from_zero,
    edges,
    reals,
    spread,
    unary_cases,
)
from dala_defn.ops.spec import OPS, ZERO_GRAD, Case, OpSpec, check_dtype, define, no_flops, outputs_flops


def _msz(ct: Any, d: Any) -> Any:
    """A product in which a zero cotangent wins over whatever the derivative is.

    Bounded derivatives take it too: in second derivatives they meet infinite cotangents.
    """
    return OPS["mul_strong_zero"](ct, d)


def _via_float64(f: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """A reference that is computed in float64 (or wider) and rounded to the operand's dtype."""

    def reference(x: Array) -> Any:
        return np.asarray(f(x.astype(np.float64) if x.dtype.itemsize < 8 else x)).astype(x.dtype)

    return reference


def _sigmoid(x: Array) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def _log1p(x: Array) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    # NumPy's own is log(1 + x), which loses what is small beside 1.
    near = np.where(np.maximum(np.abs(x.real), np.abs(x.imag)) < 0.5, x, 0)
    a, b = near.real, near.imag
    small = x.copy()
    small.real, small.imag = np.log1p(a * (2 + a) + b * b) / 2, np.arctan2(b, 1 + a)
    moved = x.copy()
    moved.real += 1  # adding a complex 1 would lose the sign of a zero
    return np.where(near == x, small, np.log(moved))


def _erf(x: Array) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _abs_infer(x: Type) -> tuple[Type, ...]:
    check_dtype("abs", x.dtype, NUMBERS)
    return (Type(dtypes.real_of(x.dtype), x.shape),)


def _direction(x: Any, y: Any) -> Any:
    """The derivative of a complex absolute value: the conjugate of ``x / abs(x)``, 0 at 0."""
    size = OPS["select"](OPS["equal"](y, lit(0, y.dtype)), lit(1, y.dtype), y)
    return OPS["complex"](OPS["real"](x) / size, -(OPS["imag"](x) / size))


def _abs_vjp(ct: Any, x: Any, y: Any) -> tuple[Any, ...]:
    if x.dtype.kind != "c":
        return (_msz(ct, OPS["sign"](x)),)
    return (_msz(OPS["complex"](ct, lit(0, ct.dtype)), _direction(x, y)),)


def _abs_jvp(tangents: Sequence[Any], x: Any, y: Any) -> tuple[Any, ...]:
    if x.dtype.kind != "c":
        return _abs_vjp(tangents[0], x, y)
    return (OPS["real"](_msz(tangents[0], _direction(x, y))),)


neg = unary(
    "neg", 0x01, np.negative, dtypes=NUMBERS, vjp=lambda ct, x, y: (-ct,), linear=True, sample=spread, ulp=0,
    doc="The negative, elementwise; integers wrap.",
)  # fmt: skip
abs_ = unary(
    "abs", 0x02, np.abs, dtypes=NUMBERS, infer=_abs_infer, vjp=_abs_vjp, jvp=_abs_jvp,
    sample=away_from_zero(0.1, 9), ulp=0, ulp_complex=3,
    doc="The absolute value, elementwise; real for complex operands. The derivative at 0 is 0; the most negative "
    "integer wraps.",
)  # fmt: skip
sign = unary(
    "sign", 0x03, np.sign, dtypes=NUMERIC, vjp=ZERO_GRAD, sample=away_from_zero(0.1, 9), ulp=0,
    doc="-1, 0 or 1 by sign, elementwise; NaN stays NaN.",
)  # fmt: skip


def _rounding(name: str, code: int, f: Any, doc: str) -> OpSpec:
    return unary(name, code, f, dtypes=FLOATS, vjp=ZERO_GRAD, sample=away_from_integers, ulp=0, doc=doc)


floor = _rounding("floor", 0x04, np.floor, "The largest whole number not above, elementwise.")
ceil = _rounding("ceil", 0x05, np.ceil, "The smallest whole number not below, elementwise.")
trunc = _rounding("trunc", 0x06, np.trunc, "The whole part, elementwise: rounds towards zero.")
round_ = _rounding("round", 0x07, np.rint, "The nearest whole number, elementwise; halves go to the even one.")

# NumPy's own exp and log of float32 are off by up to 2.6 and 3.9 units.
exp = unary(
    "exp", 0x08, _via_float64(np.exp), dtypes=INEXACT, cost=12, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, y),), sample=reals(-4, 4),
    doc="e to the power of x, elementwise.",
)  # fmt: skip
expm1 = unary(
    "expm1", 0x09, np.expm1, dtypes=INEXACT, cost=12, ulp_complex=6,
    vjp=lambda ct, x, y: (_msz(ct, y + 1),), sample=reals(-4, 4), ulp=3,
    doc="``exp(x) - 1``, elementwise, accurate near 0.",
)  # fmt: skip
log = unary(
    "log", 0x0A, _via_float64(np.log), dtypes=INEXACT, cost=12, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, 1 / x),), sample=reals(0.1, 9),
    doc="The natural logarithm, elementwise; -inf at 0, NaN below.",
)  # fmt: skip
log1p = unary(
    "log1p", 0x0B, _log1p, dtypes=INEXACT, cost=12, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, 1 / (1 + x)),), sample=reals(-0.9, 9),
    ulp=3, doc="``log(1 + x)``, elementwise, accurate near 0.",
)  # fmt: skip
sqrt = unary(
    "sqrt", 0x0C, np.sqrt, dtypes=INEXACT, cost=4, ulp_complex=3,
    vjp=lambda ct, x, y: (_msz(ct, 0.5 / y),), sample=reals(0.1, 9), ulp=1,
    doc="The square root, elementwise; NaN below 0. The derivative at 0 is inf.",
)  # fmt: skip
rsqrt = unary(
    "rsqrt", 0x0D, _via_float64(lambda x: 1 / np.sqrt(x)), dtypes=INEXACT, cost=4, ulp_complex=5,
    vjp=lambda ct, x, y: (_msz(ct, -0.5 * (y * y * y)),), sample=reals(0.2, 9),
    doc="``1 / sqrt(x)``, elementwise.",
)  # fmt: skip
sin = unary(
    "sin", 0x0E, np.sin, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, OPS["cos"](x)),), sample=reals(-8, 8),
    doc="The sine of an angle in radians, elementwise.",
)  # fmt: skip
cos = unary(
    "cos", 0x0F, np.cos, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, -OPS["sin"](x)),), sample=reals(-8, 8),
    doc="The cosine of an angle in radians, elementwise.",
)  # fmt: skip
tan = unary(
    "tan", 0x10, np.tan, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=8,
    vjp=lambda ct, x, y: (_msz(ct, 1 + y * y),), sample=reals(-1.2, 1.2), ulp=4,
    doc="The tangent of an angle in radians, elementwise.",
)  # fmt: skip
arcsin = unary(
    "arcsin", 0x11, np.arcsin, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, OPS["rsqrt"]((1 - x) * (1 + x))),),
    sample=reals(-0.9, 0.9), ulp=4, doc="The angle in radians whose sine is x, elementwise; NaN outside [-1, 1].",
)  # fmt: skip
arccos = unary(
    "arccos", 0x12, np.arccos, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, -OPS["rsqrt"]((1 - x) * (1 + x))),),
    sample=reals(-0.9, 0.9), ulp=4, doc="The angle in radians whose cosine is x, elementwise; NaN outside [-1, 1].",
)  # fmt: skip
arctan = unary(
    "arctan", 0x13, np.arctan, dtypes=INEXACT, cost=12, kernel=SINGLE,
    ulp_complex=4, vjp=lambda ct, x, y: (_msz(ct, 1 / (1 + x * x)),),
    sample=reals(-4, 4), ulp=3, doc="The angle in radians whose tangent is x, elementwise.",
)  # fmt: skip
sinh = unary(
    "sinh", 0x14, np.sinh, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, OPS["cosh"](x)),), sample=reals(-4, 4),
    ulp=4, doc="The hyperbolic sine, elementwise.",
)  # fmt: skip
cosh = unary(
    "cosh", 0x15, np.cosh, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, OPS["sinh"](x)),), sample=reals(-4, 4),
    ulp=4, doc="The hyperbolic cosine, elementwise.",
)  # fmt: skip
tanh = unary(
    "tanh", 0x16, np.tanh, dtypes=INEXACT, cost=12, ulp_complex=8,
    vjp=lambda ct, x, y: (_msz(ct, 1 - y * y),), sample=reals(-4, 4), ulp=3,
    doc="The hyperbolic tangent, elementwise.",
)  # fmt: skip
arcsinh = unary(
    "arcsinh", 0x17, np.arcsinh, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, OPS["rsqrt"](1 + x * x)),),
    sample=reals(-4, 4), ulp=4, doc="The inverse hyperbolic sine, elementwise.",
)  # fmt: skip


def _arccosh_slope(x: Any) -> Any:
    if x.dtype.kind == "c":  # left of the imaginary axis the root of the product is another branch
        return OPS["rsqrt"](x - 1) * OPS["rsqrt"](x + 1)
    return OPS["rsqrt"]((x - 1) * (x + 1))


arccosh = unary(
    "arccosh", 0x18, np.arccosh, dtypes=INEXACT, cost=12, kernel=SINGLE,
    ulp_complex=4, vjp=lambda ct, x, y: (_msz(ct, _arccosh_slope(x)),),
    sample=reals(1.2, 9), ulp=4, doc="The inverse hyperbolic cosine, elementwise; NaN below 1.",
)  # fmt: skip
arctanh = unary(
    "arctanh", 0x19, np.arctanh, dtypes=INEXACT, cost=12, kernel=SINGLE, ulp_complex=4,
    vjp=lambda ct, x, y: (_msz(ct, 1 / ((1 - x) * (1 + x))),),
    sample=reals(-0.9, 0.9), ulp=4, doc="The inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].",
)  # fmt: skip
erf = unary(
    "erf", 0x1A, _via_float64(_erf), dtypes=FLOATS, cost=12, kernel=SINGLE,
    vjp=lambda ct, x, y: (_msz(ct, 2 / math.sqrt(math.pi) * OPS["exp"](-(x * x))),), sample=reals(-3, 3), ulp=4,
    doc="The error function, elementwise: 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x (DLMF 7.2.1).",
)  # fmt: skip
sigmoid = unary(
    "sigmoid", 0x1B, _sigmoid, dtypes=FLOATS, cost=12,
    vjp=lambda ct, x, y: (_msz(ct, y * (1 - y)),), sample=reals(-6, 6), ulp=4,
    doc="``1 / (1 + exp(-x))``, elementwise.",
)  # fmt: skip
isfinite = unary(
    "isfinite", 0x1C, np.isfinite, dtypes=INEXACT, vjp=ZERO_GRAD, sample=reals(-4, 4), result=dtypes.bool_, ulp=0,
    doc="Whether each element is neither inf nor NaN.",
)  # fmt: skip
isnan = unary(
    "isnan", 0x1D, np.isnan, dtypes=INEXACT, vjp=ZERO_GRAD, sample=reals(-4, 4), result=dtypes.bool_, ulp=0,
    doc="Whether each element is NaN.",
)  # fmt: skip
bitwise_not = unary(
    "bitwise_not", 0x1E, np.invert, dtypes=(dtypes.bool_, *INTS), vjp=ZERO_GRAD, sample=spread, ulp=0,
    example="bitwise_not(dd.array([1, 2]))", doc="Every bit inverted, elementwise; on bool the logical not.",
)  # fmt: skip


def _stop_infer(x: Type) -> tuple[Type, ...]:
    check_dtype("stop_gradient", x.dtype, dtypes.EVERY)
    return (x,)


stop_gradient: OpSpec = define(
    name="stop_gradient",
    code=0x1F,
    family="unary",
    attrs={},
    accepts=dtypes.EVERY,
    result="same",
    infer=_stop_infer,
    reference=lambda x: x,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=elementwise_batch("stop_gradient"),
    fusion="elementwise",
    kernel=dtypes.ARRAYS,
    flops=no_flops,
    sample=unary_cases(spread),
    ulp=0,
    doc="The operand itself; no derivative passes through it.",
    example="stop_gradient(dd.array([1.0]))",
    since="0.1",
)


def _cast_infer(x: Type, *, dtype: DType) -> tuple[Type, ...]:
    check_dtype("cast", x.dtype, dtypes.ELEMENTS)
    check_dtype("cast", dtype, dtypes.ELEMENTS)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(
            f"cast does not make {dtype} of {x.dtype}: the imaginary part would be lost",
            op="cast",
            hint="dd.real(x), dd.imag(x) or dd.absolute(x)",
        )
    return (Type(dtype, x.shape),)


def cast_array(x: Array, dtype: DType) -> Array:
    """The reference of ``cast``: float to integer truncates, saturates out of range, and NaN gives 0."""
    source = x.dtype
    with np.errstate(all="ignore"):
        if not dtype.is_integer or source.kind in "biu":
            return x.astype(np.float32).astype(dtype.dtype) if source.kind == "V" else x.astype(dtype.dtype)
        info = np.iinfo(dtype.dtype)
        wide = np.trunc(x.astype(np.float64))
        nan, high, low = np.isnan(wide), wide >= float(info.max), wide <= float(info.min)
        out = np.where(nan | high | low, 0, wide).astype(dtype.dtype)
        out = np.where(high, dtype.dtype.type(info.max), out)
        return np.where(low, dtype.dtype.type(info.min), out).astype(dtype.dtype)


def _cast_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for to in dtypes.ELEMENTS:
        if dtype.kind == "c" and to.kind not in "cb":
            continue
        smooth = to.is_inexact
        for shape in SHAPES[:5]:
            yield Case((spread(rng, dtype, shape),), {"dtype": to}, smooth=smooth)
        yield Case((edges(dtype),), {"dtype": to}, smooth=False)
        if dtype.is_float:
            large = np.array([300.0, -300.0, 4e4, -4e4, 3e9, -3e9, 2e19, -2e19, 255.7, -128.9])
            with np.errstate(over="ignore"):
                yield Case((large.astype(dtype.dtype),), {"dtype": to}, smooth=False)


def _cast_vjp(ct: Any, x: Any, y: Any, *, dtype: DType) -> tuple[Any, ...]:
    if not (x.dtype.is_inexact and dtype.is_inexact):
        return (None,)
    if x.dtype.is_float and ct.dtype.kind == "c":
        ct = OPS["real"](ct)
    return (cast(ct, dtype=x.dtype),)


def _cast_jvp(tangents: Sequence[Any], x: Any, y: Any, *, dtype: DType) -> tuple[Any, ...]:
    return (cast(tangents[0], dtype=dtype),) if x.dtype.is_inexact and dtype.is_inexact else (None,)


cast: OpSpec = define(
    name="cast",
    code=0x20,
    family="unary",
    attrs={"dtype": "dtype"},
    accepts=dtypes.ELEMENTS,
    result="own",
    infer=_cast_infer,
    reference=cast_array,
    vjp=_cast_vjp,
    jvp=_cast_jvp,
    batch=elementwise_batch("cast"),
    fusion="elementwise",
    kernel=dtypes.ARRAYS,
    flops=outputs_flops,
    sample=_cast_cases,
    ulp=0,
    doc="Another dtype. Float to integer truncates, saturates out of range, and NaN gives 0; integers wrap. Complex "
    "numbers become complex numbers or bool only.",
    example="cast(dd.array([1.7, -1.7]), dtype=dd.int32)",
    since="0.1",
)
