"""Ops of two operands that broadcast, and ``select``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import ARRAYS, ELEMENTS, FLOATS, INEXACT, INTS, NUMBERS, NUMERIC, SINGLE, DType
from dala_defn.errors import DTypeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit, type_of, zeros
from dala_defn.ops.elementwise import binary, broadcast_tangent, elementwise_batch, strong, unbroadcast
from dala_defn.ops.samples import Array, away_from_zero, distinct, reals, spread
from dala_defn.ops.spec import OPS, ZERO_GRAD, Case, OpSpec, check_dtype, check_same_dtype, define, outputs_flops
from dala_defn.shapes import broadcast_shapes

_BITS = (dtypes.bool_, *INTS)
_INT_EXAMPLE = "(dd.array([4, 5]), dd.array([2, 3]))"
_FLOAT_EXAMPLE = "(dd.array([4.0, 5.0]), dd.array([2.0, 3.0]))"


add = binary(
    "add", 0x30, np.add, dtypes=NUMBERS, ulp_complex=1, vjp=lambda ct, x, y, out: (ct, ct), sample=spread, ulp=1,
    doc="The sum, elementwise; integers wrap.",
)  # fmt: skip
sub = binary(
    "sub", 0x31, np.subtract, dtypes=NUMBERS, ulp_complex=1, vjp=lambda ct, x, y, out: (ct, -ct), sample=spread, ulp=1,
    doc="The difference, elementwise; integers wrap.",
)  # fmt: skip
mul = binary(
    "mul", 0x32, np.multiply, dtypes=NUMBERS, ulp_complex=2,
    vjp=lambda ct, x, y, out: (strong(ct, y), strong(ct, x)),
    sample=spread, ulp=1, doc="The product, elementwise; integers wrap.",
)  # fmt: skip
div = binary(
    "div", 0x33, np.true_divide, dtypes=INEXACT, cost=4, ulp_complex=4,
    vjp=lambda ct, x, y, out: (strong(ct, 1 / y), strong(ct, -(out / y))), sample=reals(-4, 4),
    sample_right=away_from_zero(0.3, 4), ulp=1, example="div" + _FLOAT_EXAMPLE,
    doc="The quotient, elementwise; by zero gives inf or NaN.",
)  # fmt: skip


def _floor_divide(x: Array, y: Array) -> Any:
    return np.floor_divide(x, y)


def _off_boundary(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Numerators whose quotient by 2 is away from whole numbers."""
    if dtype.is_integer:
        return spread(rng, dtype, shape)
    return np.asarray(rng.integers(-4, 4, shape) * 2 + rng.uniform(0.4, 1.6, shape)).astype(dtype.dtype)


def _twos(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Denominators: any integer, or floats close to 2."""
    if dtype.is_integer:
        return spread(rng, dtype, shape)
    return np.asarray(rng.choice([2.0, 2.0, -2.0], shape)).astype(dtype.dtype)


floor_divide = binary(
    "floor_divide", 0x34, _floor_divide, dtypes=NUMERIC, cost=4, kernel=INTS,
    vjp=ZERO_GRAD, sample=_off_boundary, sample_right=_twos,
    ulp=2, doc="The quotient rounded down, elementwise. An integer divided by zero gives 0; overflow wraps.",
)  # fmt: skip
remainder = binary(
    "remainder", 0x35, np.remainder, dtypes=NUMERIC, cost=4, kernel=INTS,
    vjp=lambda ct, x, y, out: (ct, strong(ct, -floor_divide(x, y))), sample=_off_boundary, sample_right=_twos, ulp=1,
    doc="What floor division leaves, elementwise, with the sign of the divisor. An integer modulo zero gives 0.",
)  # fmt: skip


def _power(x: Array, p: Array) -> Any:
    if x.dtype.kind in "fc":
        return np.power(x, p)
    x, p = np.broadcast_arrays(x, p)
    out, base, left = np.ones_like(x), x.copy(), np.where(p > 0, p, 0).astype(p.dtype)
    while np.any(left):
        out = np.where(left & 1, out * base, out).astype(x.dtype)
        base = (base * base).astype(x.dtype)
        left = left >> 1
    if x.dtype.kind == "i":
        negative = np.where(x == 1, 1, np.where(x == -1, np.where(p & 1, -1, 1), 0))
        out = np.where(p < 0, negative, out).astype(x.dtype)
    return out


def _power_magnitude(x: Array, p: Array) -> Any:
    """Of complex operands: an error of the exponent, which is ``p * log(x)``, is one of the result."""
    if x.dtype.kind != "c":
        return np.zeros((), x.dtype)
    y = np.abs(np.power(x, p))
    return np.where(np.isfinite(y) & (x != 0), y * (1 + np.abs(p * np.log(np.where(x == 0, 1, x)))), 0)


def _real_parts(p: Any) -> tuple[Any, Any]:
    """The real part of an exponent, and 0."""
    real = OPS["real"](p) if p.dtype.kind == "c" else p
    return real, lit(0, real.dtype)


def _power_vjp(ct: Any, x: Any, p: Any, y: Any) -> tuple[Any, ...]:
    zero = lit(0, x.dtype)
    by_base = OPS["select"](OPS["equal"](p, zero), zero, p * OPS["power"](x, p - 1))
    at_zero = OPS["bitwise_and"](OPS["equal"](x, zero), OPS["greater_equal"](*_real_parts(p)))
    by_exponent = OPS["select"](at_zero, zero, y * OPS["log"](x))
    return (strong(ct, by_base), strong(ct, by_exponent))


power = binary(
    "power", 0x36, _power, dtypes=NUMBERS, cost=12, kernel=SINGLE,
    vjp=_power_vjp, sample=reals(0.3, 3), sample_right=reals(-2, 3), ulp=4,
    ulp_complex=8, magnitude=_power_magnitude,
    doc="x to the power of y, elementwise. Integers wrap; a negative exponent of an integer rounds to zero. The "
    "derivative by the exponent at base 0 is 0 (its limit); by the base at exponent 0 it is 0.",
)  # fmt: skip


def _share(first: str) -> Any:
    def vjp(ct: Any, x: Any, y: Any, out: Any) -> tuple[Any, ...]:
        zero = lit(0, ct.dtype)
        tie = OPS["select"](OPS["equal"](x, y), ct * 0.5, zero)
        other = "less" if first == "greater" else "greater"
        return (OPS["select"](OPS[first](x, y), ct, tie), OPS["select"](OPS[other](x, y), ct, tie))

    return vjp


maximum = binary(
    "maximum", 0x37, np.maximum, dtypes=ARRAYS, vjp=_share("greater"), sample=distinct,
    sample_right=reals(-3, 3), ulp=0,
    doc="The larger, elementwise; NaN wins. At a tie each side gets half the derivative.",
)  # fmt: skip
minimum = binary(
    "minimum", 0x38, np.minimum, dtypes=ARRAYS, vjp=_share("less"), sample=distinct, sample_right=reals(-3, 3), ulp=0,
    doc="The smaller, elementwise; NaN wins. At a tie each side gets half the derivative.",
)  # fmt: skip


def _arctan2_vjp(ct: Any, y: Any, x: Any, out: Any) -> tuple[Any, ...]:
    square = x * x + y * y
    return (strong(ct, x / square), strong(ct, -(y / square)))


arctan2 = binary(
    "arctan2", 0x39, np.arctan2, dtypes=FLOATS, cost=12, kernel=SINGLE, vjp=_arctan2_vjp, sample=away_from_zero(0.3, 4),
    sample_right=away_from_zero(0.3, 4), ulp=4, example="arctan2" + _FLOAT_EXAMPLE,
    doc="The angle in radians of the point (second, first operand), elementwise, in (-pi, pi].",
)  # fmt: skip


def _strong_zero(ct: Array, d: Array) -> Any:
    return np.where(ct == 0, ct.dtype.type(0), ct * d)


def _strong_zero_vjp(ct: Any, a: Any, b: Any, out: Any) -> tuple[Any, ...]:
    # Where a is zero, b has no say, so what b receives must not be 0 * inf. Leaving a finite ct alone keeps the
    # derivative of ct * a by a, which higher derivatives need at a = 0 too.
    lost = OPS["bitwise_and"](OPS["equal"](a, lit(0, a.dtype)), OPS["bitwise_not"](OPS["isfinite"](ct)))
    return (strong(ct, b), strong(OPS["select"](lost, lit(0, ct.dtype), ct), a))


mul_strong_zero = binary(
    "mul_strong_zero", 0x3A, _strong_zero, dtypes=INEXACT, ulp_complex=2,
    vjp=_strong_zero_vjp, sample=away_from_zero(0.3, 4), ulp=1,
    example="mul_strong_zero(dd.array([0.0, 2.0]), dd.array([float('inf'), 3.0]))",
    doc="0 where the first operand is 0, else the product: a zero cotangent stays zero beside an infinite derivative. "
    "Its own derivatives are those of a product.",
)  # fmt: skip


def _compare(name: str, code: int, f: Any, what: str) -> Any:
    accepts = ELEMENTS if name in ("equal", "not_equal") else ARRAYS  # complex numbers have no order
    return binary(
        name, code, f, dtypes=accepts, vjp=ZERO_GRAD, sample=reals(-3, 3), result=dtypes.bool_, ulp=0,
        doc=f"Whether the first operand is {what} the second, elementwise; false beside NaN"
        + (" (true for not_equal)." if name == "not_equal" else "."),
    )  # fmt: skip


equal = _compare("equal", 0x3B, np.equal, "equal to")
not_equal = _compare("not_equal", 0x3C, np.not_equal, "different from")
less = _compare("less", 0x3D, np.less, "less than")
less_equal = _compare("less_equal", 0x3E, np.less_equal, "at most")
greater = _compare("greater", 0x3F, np.greater, "greater than")
greater_equal = _compare("greater_equal", 0x40, np.greater_equal, "at least")


def _bits(name: str, code: int, f: Any, what: str) -> Any:
    return binary(
        name, code, f, dtypes=_BITS, vjp=ZERO_GRAD, sample=spread, ulp=0, example=name + _INT_EXAMPLE,
        doc=f"The {what} of the bits, elementwise; on bool the logical {what}.",
    )  # fmt: skip


bitwise_and = _bits("bitwise_and", 0x41, np.bitwise_and, "and")
bitwise_or = _bits("bitwise_or", 0x42, np.bitwise_or, "or")
bitwise_xor = _bits("bitwise_xor", 0x43, np.bitwise_xor, "exclusive or")


def _shift(left: bool) -> Any:
    def reference(x: Array, n: Array) -> Any:
        width = x.dtype.itemsize * 8
        inside = (n >= 0) & (n < width)
        safe = np.where(inside, n, 0).astype(x.dtype)
        if left:
            return np.where(inside, np.left_shift(x, safe), 0).astype(x.dtype)
        outside = np.where(x < 0, -1, 0) if x.dtype.kind == "i" else 0
        return np.where(inside, np.right_shift(x, safe), outside).astype(x.dtype)

    return reference


left_shift = binary(
    "left_shift", 0x44, _shift(True), dtypes=INTS, vjp=ZERO_GRAD, sample=spread, sample_right=reals(-2, 70), ulp=0,
    example="left_shift" + _INT_EXAMPLE,
    doc="The bits moved left, elementwise; a negative shift, or one of the width or more, gives 0.",
)  # fmt: skip
right_shift = binary(
    "right_shift", 0x45, _shift(False), dtypes=INTS, vjp=ZERO_GRAD, sample=spread, sample_right=reals(-2, 70), ulp=0,
    example="right_shift" + _INT_EXAMPLE,
    doc="The bits moved right, elementwise, keeping the sign; a negative shift, or one of the width or more, gives 0 "
    "(-1 for a negative number).",
)  # fmt: skip


def _select_infer(c: Type, x: Type, y: Type) -> tuple[Type, ...]:
    if c.dtype is not dtypes.bool_:
        raise DTypeError(f"select: the condition must be bool, not {c.dtype}", op="select")
    check_dtype("select", x.dtype, ELEMENTS)
    check_same_dtype("select", (x, y))
    if x.shape == y.shape and (c.shape == x.shape or not c.shape):
        return (x,)
    return (Type(x.dtype, broadcast_shapes(c.shape, x.shape, y.shape)),)


def _select(c: Array, x: Array, y: Array) -> Array:
    return np.where(c, x, y).astype(x.dtype)


def _select_vjp(ct: Any, c: Any, x: Any, y: Any, out: Any) -> tuple[Any, ...]:
    zero = zeros(type_of(out)) if out.shape == () else lit(0, out.dtype)
    return (
        None,
        unbroadcast(OPS["select"](c, ct, zero), x.shape),
        unbroadcast(OPS["select"](c, zero, ct), y.shape),
    )


def _select_jvp(tangents: Sequence[Any], c: Any, x: Any, y: Any, out: Any) -> tuple[Any, ...]:
    zero = lit(0, out.dtype)
    _, tx, ty = tangents
    t = OPS["select"](c, zero if tx is None else tx, zero if ty is None else ty)
    return (broadcast_tangent(t, out.shape),)


def _select_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for c, x, y in (
        ((), (), ()),
        ((4,), (4,), (4,)),
        ((3, 4), (), (4,)),
        ((), (3, 4), (3, 1)),
        ((3, 1), (1, 4), (3, 4)),
        ((0,), (1,), (0,)),
        ((2, 1, 1), (3, 1), (4,)),
    ):
        yield Case((reals(0, 1)(rng, dtypes.bool_, c), spread(rng, dtype, x), spread(rng, dtype, y)), {})


select: OpSpec = define(
    name="select",
    code=0x46,
    family="ternary",
    attrs={},
    accepts=ELEMENTS,
    result="own",
    infer=_select_infer,
    reference=_select,
    vjp=_select_vjp,
    jvp=_select_jvp,
    batch=elementwise_batch("select"),
    fusion="elementwise",
    kernel=(dtypes.bool_,),
    flops=outputs_flops,
    sample=_select_cases,
    ulp=0,
    doc="The second operand where the first (bool) is true, else the third; all three broadcast.",
    example="select(dd.array([True, False]), dd.array([1.0, 2.0]), dd.array([3.0, 4.0]))",
    since="0.1",
)
