"""More functions that work element by element, composed of the ones in ``elementwise``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes

from dala_defn import dtypes, ops
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError, DTypeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, own, owned, real, reals, same, value
from dala_defn.functions.shape import broadcast_to
from dala_defn.ops.spec import OPS, check_dtype


def positive(x: Any, /) -> Any:
    """``x`` itself; the same shape and dtype.

    Raises:
        DTypeError: for bool.

    Example:
        >>> dd.positive(dd.array([-1, 2]))
        array([-1,  2], dtype=int32)
    """
    x = value(x)
    if dtype_of(x).kind == "b":
        raise DTypeError("bool arrays have no sign", op="positive", hint="x.astype(dd.int32)")
    return same(x)


def fabs(x: Any, /) -> Any:
    """The absolute value as a float: integers are taken as float32.

    Example:
        >>> dd.fabs(dd.array([-1, 2]))
        array([1., 2.], dtype=float32)
    """
    return E.absolute(real(x))


def fix(x: Any, /) -> Any:
    """Rounds towards zero; the same shape and dtype.

    Example:
        >>> dd.fix(dd.array([-1.7, 1.7]))
        array([-1.,  1.], dtype=float32)
    """
    return E.trunc(x)


def float_power(x: Any, y: Any, /) -> Any:
    """``x`` to the power of ``y`` in float64 (complex128), elementwise with broadcasting.

    Example:
        >>> dd.float_power(dd.array([2]), -1)
        array([0.5])
    """
    a, b = (convert(v, dtypes.promote_types(dtype_of(v), dtypes.float64)) for v in owned(x, y))
    return E.power(a, b)


def _exactly(rough: Any, x: Any, base: float) -> Any:
    """A logarithm, made a whole number where x is a whole power of the base; the derivative stays."""
    normal = E.logical_and(E.isfinite(x), x >= float(_FACTS[dtype_of(x)].smallest_normal))
    near = E.where(normal, E.stop_gradient(rough), 0)
    whole = E.rint(near)
    exact = E.power(convert(base, dtype_of(x)), whole) == x
    return rough + E.where(E.logical_and(normal, exact), whole - near, 0)


def log2(x: Any, /) -> Any:
    """The logarithm to base 2, elementwise, exact at powers of 2 (else within 3 ulp); integers are taken as float32.

    Example:
        >>> dd.log2(dd.array([1.0, 8.0]))
        array([0., 3.], dtype=float32)
    """
    x = real(x)
    rough = E.log(x) / math.log(2)
    return rough if dtype_of(x).kind == "c" else _exactly(rough, x, 2.0)


def log10(x: Any, /) -> Any:
    """The logarithm to base 10, elementwise, exact at powers of 10 (else within 3 ulp); integers are taken as float32.

    Example:
        >>> dd.log10(dd.array([1.0, 1000.0]))
        array([0., 3.], dtype=float32)
    """
    x = real(x)
    rough = E.log(x) / math.log(10)
    return rough if dtype_of(x).kind == "c" else _exactly(rough, x, 10.0)


def exp2(x: Any, /) -> Any:
    """2 to the power of ``x``, elementwise; integers are taken as float32.

    Example:
        >>> dd.exp2(dd.array([3.0, -1.0]))
        array([8. , 0.5], dtype=float32)
    """
    x = real(x)
    return E.power(convert(2, dtype_of(x)), x)


def cbrt(x: Any, /) -> Any:
    """The cube root, elementwise, also of negative numbers, within 2 ulp; integers are taken as float32.

    The derivative at 0 is infinite.

    Example:
        >>> dd.cbrt(dd.array([27.0, -8.0]))
        array([ 3., -2.], dtype=float32)
    """
    x = real(x)
    a = E.where(x < 0, -x, x)  # not absolute: its derivative at 0 is 0, and that of the root infinite
    root = E.power(a, convert(1 / 3, dtype_of(x)))
    still, size = E.stop_gradient(root), E.stop_gradient(a)
    usable = E.logical_and(E.isfinite(still), still > 0)
    safe = E.where(usable, still, 1)
    step = (safe - E.where(usable, size, 1) / safe / safe) / 3  # one step of Newton's: the exponent is not quite 1/3
    return E.where(x < 0, -1, 1) * (root - E.where(usable, step, 0))


def hypot(x: Any, y: Any, /) -> Any:
    """``sqrt(x*x + y*y)`` without overflow, elementwise with broadcasting; the derivative at (0, 0) is 0.

    Example:
        >>> dd.hypot(dd.array([3.0]), dd.array([4.0]))
        array([5.], dtype=float32)
    """
    a, b = reals(x, y)
    largest = E.stop_gradient(E.maximum(E.absolute(a), E.absolute(b)))
    scale = E.where(E.logical_and(E.isfinite(largest), largest > 0), largest, 1)
    total = E.square(a / scale) + E.square(b / scale)
    out = E.where(total > 0, E.sqrt(total), total) * scale
    return E.where(E.logical_or(E.isinf(a), E.isinf(b)), math.inf, out)


def logaddexp2(x: Any, y: Any, /) -> Any:
    """``log2(2**x + 2**y)``, elementwise with broadcasting, without overflow.

    Example:
        >>> dd.logaddexp2(dd.array([1.0]), dd.array([1.0]))
        array([2.], dtype=float32)
    """
    a, b = reals(x, y)
    high = E.stop_gradient(E.maximum(a, b))
    high = E.where(E.isfinite(high), high, 0)
    return log2(exp2(a - high) + exp2(b - high)) + high


def deg2rad(x: Any, /) -> Any:
    """Degrees as radians, elementwise; integers are taken as float32.

    Example:
        >>> dd.deg2rad(dd.array([180.0]))
        array([3.1415927], dtype=float32)
    """
    return real(x) * (math.pi / 180)


def rad2deg(x: Any, /) -> Any:
    """Radians as degrees, elementwise; integers are taken as float32.

    Example:
        >>> dd.rad2deg(dd.array([0.0, dd.pi]))
        array([  0., 180.], dtype=float32)
    """
    return real(x) * (180 / math.pi)


def sinc(x: Any, /) -> Any:
    """``sin(pi*x) / (pi*x)``, and 1 at 0, elementwise; integers are taken as float32.

    Example:
        >>> dd.sinc(dd.array([0.0, 0.5]))
        array([1.        , 0.63661975], dtype=float32)
    """
    turned = real(x) * math.pi
    zero = turned == 0
    safe = E.where(zero, 1, turned)
    return E.where(zero, 1 - E.square(turned) / 6, E.sin(safe) / safe)


def heaviside(x: Any, y: Any, /) -> Any:
    """0 below zero, 1 above, ``y`` at zero, NaN for NaN; elementwise with broadcasting.

    Example:
        >>> dd.heaviside(dd.array([-1.0, 0.0, 2.0]), 0.5)
        array([0. , 0.5, 1. ], dtype=float32)
    """
    a, b = reals(x, y)
    step = E.where(E.isnan(a), a, convert(a > 0, dtype_of(a)))
    return E.where(a == 0, b, step)


def signbit(x: Any, /) -> Any:
    """Whether each number is negative; true for -0.0 too, false for NaN of either sign.

    Example:
        >>> dd.signbit(dd.array([-0.0, 1.0]))
        array([ True, False])
    """
    x = own(x)
    if not dtype_of(x).is_inexact:
        return x < 0 if dtype_of(x).kind == "i" else broadcast_to(ops.lit(False, dtypes.bool_), tuple(x.shape))
    return E.logical_or(x < 0, E.logical_and(x == 0, E.reciprocal(x) < 0))


def copysign(x: Any, y: Any, /) -> Any:
    """The magnitude of ``x`` with the sign of ``y`` (that of -0.0 counts), elementwise with broadcasting.

    Example:
        >>> dd.copysign(dd.array([1.0, 2.0]), dd.array([-0.0, 3.0]))
        array([-1.,  2.], dtype=float32)
    """
    a, b = reals(x, y)
    return E.where(E.not_equal(signbit(a), signbit(b)), -a, a)


def fmod(x: Any, y: Any, /) -> Any:
    """The remainder with the sign of the dividend, as C has it; elementwise with broadcasting; 0 for an integer over 0.

    Example:
        >>> dd.fmod(dd.array([-7, 7]), 3)
        array([-1,  1], dtype=int32)
    """
    a, b = owned(x, y)
    if dtype_of(a).is_inexact:
        rest = E.remainder(E.absolute(a), E.absolute(b))
        return E.where(signbit(a), -rest, rest)
    rest = E.remainder(a, b)
    a, b, rest = owned(a, b, rest)
    return E.where(E.logical_and(rest != 0, E.not_equal(a < 0, rest < 0)), rest - b, rest)


def fmax(x: Any, y: Any, /) -> Any:
    """The larger, elementwise with broadcasting; a number wins over NaN.

    Example:
        >>> dd.fmax(dd.array([dd.nan, 1.0]), 0.0)
        array([0., 1.], dtype=float32)
    """
    a, b = owned(x, y)
    return E.where(E.isnan(a), b, E.where(E.isnan(b), a, E.maximum(a, b)))


def fmin(x: Any, y: Any, /) -> Any:
    """The smaller, elementwise with broadcasting; a number wins over NaN.

    Example:
        >>> dd.fmin(dd.array([dd.nan, 1.0]), 0.0)
        array([0., 0.], dtype=float32)
    """
    a, b = owned(x, y)
    return E.where(E.isnan(a), b, E.where(E.isnan(b), a, E.minimum(a, b)))


def modf(x: Any, /) -> tuple[Any, Any]:
    """The fractional and the whole part, both with the sign of ``x``.

    Example:
        >>> dd.modf(dd.array([-1.5]))
        (array([-0.5], dtype=float32), array([-1.], dtype=float32))
    """
    x = real(x)
    whole = E.trunc(x)
    rest = E.where(E.isinf(x), 0, x - E.where(E.isinf(x), 0, whole))
    return copysign(rest, x), whole


_FACTS = {d: ml_dtypes.finfo(d.dtype) for d in dtypes.FLOATS}


def _exponent(a: Any) -> Any:
    """The p with ``2**p <= a < 2**(p + 1)``, for finite a > 0, as a float."""
    dtype = dtype_of(a)
    wide = convert(a, dtypes.float32) if dtype.itemsize == 2 else a
    guess = E.floor(E.log(wide) / math.log(2))
    two = E.power(convert(2, dtype_of(wide)), guess)
    p = guess - convert(two > wide, dtype_of(wide)) + convert(2 * two <= wide, dtype_of(wide))
    return E.stop_gradient(convert(p, dtype))


def _usable(x: Any) -> tuple[Any, Any]:
    """Where x is finite and not 0, and its magnitude there (1 elsewhere)."""
    usable = E.logical_and(E.isfinite(x), x != 0)
    return usable, E.where(usable, E.absolute(x), 1)


def frexp(x: Any, /) -> tuple[Any, Any]:
    """The mantissa in ±[0.5, 1) and the int32 exponent with ``x == mantissa * 2**exponent``; 0 for what has none.

    Example:
        >>> dd.frexp(dd.array([6.0]))
        (array([0.75], dtype=float32), array([3], dtype=int32))
    """
    x = real(x)
    usable, a = _usable(x)
    p = _exponent(a)
    half = _times_power(a, -p) * 0.5
    mantissa = E.where(usable, E.where(x < 0, -half, half), x)
    return mantissa, convert(E.where(usable, p + 1, 0), dtypes.int32)


def _times_power(x: Any, p: Any) -> Any:
    """``x * 2**p`` for a whole p of x's dtype, in steps so that no power overflows before the product does."""
    limit = _FACTS[dtype_of(x)]
    most = 3 * (limit.maxexp - 1)
    p = E.clip(p, -most, most)
    third = E.trunc(p / 3)
    two = convert(2, dtype_of(x))
    step = E.power(two, third)
    return x * step * step * E.power(two, p - 2 * third)


def ldexp(x: Any, i: Any, /) -> Any:
    """``x * 2**i`` for integers ``i``, elementwise with broadcasting.

    Raises:
        ArgumentTypeError: when ``i`` is no integer.

    Example:
        >>> dd.ldexp(dd.array([0.75]), 3)
        array([6.], dtype=float32)
    """
    i = value(i)
    if not dtype_of(i).is_integer:
        raise ArgumentTypeError(f"ldexp: the exponent is an integer, not {dtype_of(i)}")
    x = real(x)
    wide = convert(x, dtypes.float32) if dtype_of(x).itemsize == 2 else x
    i = E.clip(convert(i, dtypes.int64), -8192, 8192)
    return convert(_times_power(wide, convert(i, dtype_of(wide))), dtype_of(x))


def spacing(x: Any, /) -> Any:
    """The distance to the next number away from zero, with the sign of ``x``; NaN for inf.

    Example:
        >>> dd.spacing(dd.array([1.0]))
        array([1.1920929e-07], dtype=float32)
    """
    x = real(x)
    check_dtype("spacing", dtype_of(x), dtypes.FLOATS)
    usable, a = _usable(x)
    unit = (a + _unit(_exponent(a), dtype_of(x))) - a  # inf at the largest number
    facts = _FACTS[dtype_of(x)]
    tiny = float(facts.smallest_subnormal)
    out = E.where(usable, E.where(x < 0, -unit, unit), convert(tiny, dtype_of(x)))
    return E.where(E.isfinite(x), out, math.nan)


def _unit(p: Any, dtype: DType) -> Any:
    """The distance of neighbours at ``2**p``."""
    facts = _FACTS[dtype]
    wide = dtypes.float32 if dtype.itemsize == 2 else dtype
    lowest = E.maximum(convert(p, wide), float(facts.minexp)) - float(facts.nmant)
    return convert(E.power(convert(2, wide), lowest), dtype)


def nextafter(x: Any, y: Any, /) -> Any:
    """The next number after ``x`` in the direction of ``y``, elementwise with broadcasting; derivative 0.

    Example:
        >>> dd.nextafter(dd.array([1.0]), 2.0)
        array([1.0000001], dtype=float32)
    """
    a, b = (E.stop_gradient(v) for v in reals(x, y))
    dtype = dtype_of(a)
    check_dtype("nextafter", dtype, dtypes.FLOATS)
    facts = _FACTS[dtype]
    usable, size = _usable(a)
    p = _exponent(size)
    unit = _unit(p, dtype)
    grows = E.equal(b < a, a < 0)
    power = E.power(convert(2, dtypes.float64), convert(p, dtypes.float64))
    edge = E.logical_and(convert(size, dtypes.float64) == power, p > float(facts.minexp))
    below = size - E.where(edge, unit / 2, unit)
    moved = E.where(grows, size + unit, below)
    tiny = convert(float(facts.smallest_subnormal), dtype)
    out = E.where(usable, E.where(a < 0, -moved, moved), E.where(b < 0, -tiny, tiny))
    largest = convert(float(facts.max), dtype)
    out = E.where(E.isinf(a), E.where(a < 0, -largest, largest), out)
    return E.where(E.logical_or(E.isnan(a), E.isnan(b)), math.nan, E.where(a == b, b, out))


# The most steps of Euclid's algorithm, by the number of value bits (Lamé 1844).
_STEPS = {7: 11, 8: 13, 15: 23, 16: 25, 31: 46, 32: 48, 63: 92, 64: 94}


def gcd(x: Any, y: Any, /) -> Any:
    """The greatest common divisor of integers, elementwise with broadcasting; 0 for two zeros.

    Raises:
        ArgumentTypeError: for what is no integer.

    Example:
        >>> dd.gcd(dd.array([12, 0]), dd.array([18, 5]))
        array([6, 5], dtype=int32)
    """
    a, b = _integers("gcd", x, y)
    shape = tuple((a + b).shape)
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    dtype = dtype_of(a)
    for _ in range(_STEPS[dtype.itemsize * 8 - (dtype.kind == "i")]):
        a, b = E.where(b == 0, a, b), OPS["remainder"](a, b)  # a remainder by 0 is 0
    return a


def lcm(x: Any, y: Any, /) -> Any:
    """The least common multiple of integers, elementwise with broadcasting; wraps when it does not fit.

    Raises:
        ArgumentTypeError: for what is no integer.

    Example:
        >>> dd.lcm(dd.array([4, 0]), dd.array([6, 5]))
        array([12,  0], dtype=int32)
    """
    a, b = _integers("lcm", x, y)
    return E.floor_divide(a, gcd(a, b)) * b


def _integers(name: str, x: Any, y: Any) -> list[Any]:
    pair = owned(x, y)
    if not dtype_of(pair[0]).is_integer:
        raise ArgumentTypeError(f"{name} takes integers, not {dtype_of(pair[0])}")
    return [E.absolute(v) for v in pair]


def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and the infinities replaced (by default with 0 and the largest numbers); the same shape and dtype.

    Example:
        >>> dd.nan_to_num(dd.array([dd.nan, 1.0, dd.inf]), posinf=9.0)
        array([0., 1., 9.], dtype=float32)
    """
    x = own(x)
    dtype = dtype_of(x)
    if not dtype.is_float:
        return same(x)
    largest = float(_FACTS[dtype].max)
    high = convert(largest if posinf is None else posinf, dtype)
    low = convert(-largest if neginf is None else neginf, dtype)
    x = E.where(x == math.inf, high, E.where(x == -math.inf, low, x))
    return E.where(E.isnan(x), convert(nan, dtype), x)


def isposinf(x: Any, /) -> Any:
    """Whether each element is inf; a bool array of the same shape.

    Example:
        >>> dd.isposinf(dd.array([dd.inf, -dd.inf]))
        array([ True, False])
    """
    x = own(x)
    return E.logical_and(E.isinf(x), x > 0)


def isneginf(x: Any, /) -> Any:
    """Whether each element is -inf; a bool array of the same shape.

    Example:
        >>> dd.isneginf(dd.array([dd.inf, -dd.inf]))
        array([False,  True])
    """
    x = own(x)
    return E.logical_and(E.isinf(x), x < 0)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether ``|a - b| <= atol + rtol * |b|``, elementwise with broadcasting; equal infinities are close.

    Example:
        >>> dd.isclose(dd.array([1.0, 2.0]), dd.array([1.0000001, 3.0]))
        array([ True, False])
    """
    x, y = reals(a, b)
    near = E.absolute(x - y) <= atol + rtol * E.absolute(y)
    out = E.logical_or(E.logical_and(near, E.isfinite(y)), x == y)
    return E.logical_or(out, E.logical_and(E.isnan(x), E.isnan(y))) if equal_nan else out


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The choice of the first condition that holds, element by element; all broadcast.

    Raises:
        ArgumentError: when the lists differ in length, or are empty.

    Example:
        >>> x = dd.arange(4)
        >>> dd.select([x < 1, x < 3], [x, 10 * x], -1)
        array([ 0, 10, 20, -1], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    *choices, out = owned(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        out = E.where(condition, choice, out)
    return out


def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any]) -> Any:
    """A function in pieces: each of ``funclist`` (a function or a number) where its condition holds, the last one wins.

    With one function more than conditions the last one is for the rest; else the rest is 0. Every function is applied
    to all of ``x``; where it is not chosen its derivative is 0. The dtype of ``x``.

    Raises:
        ArgumentError: when the lists do not fit.

    Example:
        >>> x = dd.array([-2.0, 3.0])
        >>> dd.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 1.0])
        array([2., 1.], dtype=float32)
    """
    x = own(x)
    conditions, functions = list(condlist), list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(f"piecewise: {len(functions)} functions for {len(conditions)} conditions")
    rest = functions.pop() if len(functions) > len(conditions) else 0
    out = broadcast_to(convert(rest(x) if callable(rest) else rest, dtype_of(x)), tuple(x.shape))
    for condition, f in zip(conditions, functions, strict=True):
        out = E.where(condition, convert(f(x) if callable(f) else f, dtype_of(x)), out)
    return out


__all__ = [
    "cbrt",
    "copysign",
    "deg2rad",
    "exp2",
    "fabs",
    "fix",
    "float_power",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gcd",
    "heaviside",
    "hypot",
    "isclose",
    "isneginf",
    "isposinf",
    "lcm",
    "ldexp",
    "log2",
    "log10",
    "logaddexp2",
    "modf",
    "nan_to_num",
    "nextafter",
    "piecewise",
    "positive",
    "rad2deg",
    "select",
    "signbit",
    "sinc",
    "spacing",
]
