"""What each op of the table is in LLVM, on vectors: a row an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.codegen.lanes import BITS, Lanes, memory, register
from dala_defn.codegen.maths import DOUBLE, FLOAT, D, F, Maths, atan2, power
from dala_defn.dtypes import DType

Emit = Callable[[Lanes, Sequence[str], DType, Mapping[str, Any]], str]
"""``(builder, operands, dtype of the first operand, attributes and the dtype ``of`` the result) -> result``."""


def rounded(b: Lanes, x: str, dtype: DType) -> str:
    """A float rounded to float16 or bfloat16, as every op on these is; other dtypes stay."""
    if dtype.short == "f16":
        # Fenced, or LLVM makes one rounding from double to half of two, which no machine has.
        return b.convert("fpext", "half", F, b.convert("fptrunc", F, "half", b.intrinsic("arithmetic.fence", F, x)))
    if dtype.short != "bf16":
        return x
    bits = b.convert("bitcast", F, "i32", x)
    lowest = b.op("and", "i32", b.op("lshr", "i32", bits, b.const("i32", 16)), b.const("i32", 1))
    up = b.op("add", "i32", bits, b.op("add", "i32", lowest, b.const("i32", 0x7FFF)))
    nan = b.compare("uno", F, x, x)
    up = b.select("i32", nan, b.op("or", "i32", bits, b.const("i32", 0x400000)), up)
    return b.convert("bitcast", "i32", F, b.op("and", "i32", up, b.const("i32", -65536)))


def load(b: Lanes, dtype: DType, pointer: str) -> str:
    """Elements from memory, one after the other."""
    m = memory(dtype)
    x = b.add(f"load {b.type(m)}, ptr {pointer}, align {dtype.itemsize}")
    return unpacked(b, dtype, x)


def unpacked(b: Lanes, dtype: DType, x: str) -> str:
    """Elements as they are in memory, as registers hold them."""
    if dtype.kind == "b":
        return b.compare("ne", "i8", x, b.const("i8", 0))
    if dtype.short == "f16":
        return b.convert("fpext", "half", F, x)
    if dtype.short == "bf16":
        wide = b.op("shl", "i32", b.convert("zext", "i16", "i32", x), b.const("i32", 16))
        return b.convert("bitcast", "i32", F, wide)
    return x


def packed(b: Lanes, dtype: DType, x: str) -> str:
    """Elements as memory holds them."""
    if dtype.kind == "b":
        return b.convert("zext", "i1", "i8", x)
    if dtype.short == "f16":
        return b.convert("fptrunc", F, "half", b.intrinsic("arithmetic.fence", F, x))
    if dtype.short == "bf16":
        bits = b.op("lshr", "i32", b.convert("bitcast", F, "i32", x), b.const("i32", 16))
        return b.convert("trunc", "i32", "i16", bits)
    return x


def _is_float(dtype: DType) -> bool:
    return dtype.is_float


def _elem(dtype: DType) -> str:
    return register(dtype)


def _instruction(ints: str, floats: str) -> Emit:
    """One instruction for integers, one for floats, which rounds."""

    def emit(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
        x = b.op(floats if dtype.is_float else ints, _elem(dtype), *args)
        return rounded(b, x, dtype)

    return emit


def _neg(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    e = _elem(dtype)
    if dtype.is_float:
        return b.add(f"fneg {b.type(e)} {args[0]}")
    return b.op("sub", e, b.const(e, 0), args[0])


def _abs(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    e = _elem(dtype)
    if dtype.is_float:
        return b.intrinsic("fabs", e, args[0])
    if dtype.kind == "u":
        return args[0]
    negative = b.compare("slt", e, args[0], b.const(e, 0))
    return b.select(e, negative, b.op("sub", e, b.const(e, 0), args[0]), args[0])


def _sign(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    (x,), e = args, _elem(dtype)
    zero, one = b.const(e, 0), b.const(e, 1)
    if dtype.is_float:
        y = b.select(e, b.compare("oeq", e, x, zero), zero, b.intrinsic("copysign", e, one, x))
        return b.select(e, b.compare("uno", e, x, x), x, y)
    y = b.select(e, b.compare("eq", e, x, zero), zero, one)
    return y if dtype.kind == "u" else b.select(e, b.compare("slt", e, x, zero), b.const(e, -1), y)


def _rounding(name: str) -> Emit:
    return lambda b, args, dtype, attrs: b.intrinsic(name, _elem(dtype), args[0])


def _sqrt(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    return rounded(b, b.intrinsic("sqrt", _elem(dtype), args[0]), dtype)


def _rsqrt(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    e = _elem(dtype)
    return rounded(b, b.op("fdiv", e, b.const(e, 1), b.intrinsic("sqrt", e, args[0])), dtype)


def _function(name: str) -> Emit:
    def emit(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
        e = _elem(dtype)
        body = (DOUBLE if e == D else FLOAT)[name]
        b.module.define(f"{name}.{e}", e, 1, lambda inner, xs: body(inner, xs[0]))
        return rounded(b, b.call(f"{name}.{e}", e, args[0]), dtype)

    return emit


def _isfinite(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    e = _elem(dtype)
    return b.compare("olt", e, b.intrinsic("fabs", e, args[0]), b.const(e, math.inf))


def _isnan(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    return b.compare("uno", _elem(dtype), args[0], args[0])


def _not(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    e = _elem(dtype)
    return b.op("xor", e, args[0], b.const(e, 1 if e == "i1" else -1))


def _same(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    return args[0]


def _cast(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    return cast(b, args[0], dtype, attrs["dtype"])


def cast(b: Lanes, x: str, source: DType, to: DType) -> str:
    """Another dtype: floats to integers truncate and saturate, NaN gives 0; integers wrap."""
    s, t = _elem(source), _elem(to)
    if to.kind == "b":
        if source.kind == "b":
            return x
        return b.compare("une" if source.is_float else "ne", s, x, b.const(s, 0))
    if source.is_float and to.is_float:
        if s != t:
            x = b.convert("fpext" if BITS[s] < BITS[t] else "fptrunc", s, t, x)
        return x if source is to else rounded(b, x, to)
    if to.is_float:
        how = "sitofp" if source.kind == "i" else "uitofp"
        if t == F and BITS[s] > 24 and to is not dtypes.float32:  # rounded once, from all the digits
            return cast(b, b.convert(how, s, D, x), dtypes.float64, to)
        return rounded(b, b.convert(how, s, t, x), to)
    if not source.is_float:
        if BITS[s] == BITS[t]:
            return x
        widen = "sext" if source.kind == "i" else "zext"
        return b.convert(widen if BITS[s] < BITS[t] else "trunc", s, t, x)
    name = "llvm.fptosi.sat" if to.kind == "i" else "llvm.fptoui.sat"
    kinds = f"v{b.width}{t}.v{b.width}{'f64' if s == D else 'f32'}"
    b.module.declared[f"declare {b.type(t)} @{name}.{kinds}({b.type(s)})"] = None
    return b.add(f"call {b.type(t)} @{name}.{kinds}({b.type(s)} {x})")


def _divisor(b: Lanes, x: str, y: str, dtype: DType) -> tuple[str, str]:
    """A divisor that the machine can take, and where the given one is 0."""
    e = _elem(dtype)
    zero = b.compare("eq", e, y, b.const(e, 0))
    safe = b.select(e, zero, b.const(e, 1), y)
    if dtype.kind == "i":
        lowest = b.compare("eq", e, x, b.const(e, -(2 ** (BITS[e] - 1))))
        overflow = b.op("and", "i1", lowest, b.compare("eq", e, y, b.const(e, -1)))
        safe = b.select(e, overflow, b.const(e, 1), safe)
    return safe, zero


def _floor_divide(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    (x, y), e = args, _elem(dtype)
    safe, zero = _divisor(b, x, y, dtype)
    if dtype.kind == "u":
        return b.select(e, zero, b.const(e, 0), b.op("udiv", e, x, safe))
    q = b.op("sdiv", e, x, safe)
    left = b.op("sub", e, x, b.op("mul", e, q, safe))
    apart = b.compare("slt", e, b.op("xor", e, left, safe), b.const(e, 0))
    down = b.op("and", "i1", apart, b.compare("ne", e, left, b.const(e, 0)))
    # INT_MIN // -1 has been divided by 1, which leaves INT_MIN: the quotient as it wraps.
    q = b.op("add", e, q, b.convert("sext", "i1", e, down))
    return b.select(e, zero, b.const(e, 0), q)


def _remainder(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    (x, y), e = args, _elem(dtype)
    safe, zero = _divisor(b, x, y, dtype)
    left = b.op("urem" if dtype.kind == "u" else "srem", e, x, safe)
    if dtype.kind == "i":
        apart = b.compare("slt", e, b.op("xor", e, left, safe), b.const(e, 0))
        up = b.op("and", "i1", apart, b.compare("ne", e, left, b.const(e, 0)))
        left = b.select(e, up, b.op("add", e, left, safe), left)
    return b.select(e, zero, b.const(e, 0), left)


def _power(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    b.module.define("power", F, 2, lambda inner, xs: power(inner, *xs))
    return rounded(b, b.call("power", F, *args), dtype)


def _arctan2(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    def body(inner: Lanes, xs: Sequence[str]) -> str:
        wide = [inner.convert("fpext", F, D, x) for x in xs]
        return inner.convert("fptrunc", D, F, atan2(Maths(inner, D), *wide))

    b.module.define("arctan2", F, 2, body)
    return rounded(b, b.call("arctan2", F, *args), dtype)


def extreme(largest: bool) -> Emit:
    """The larger or smaller of two; NaN wins."""

    def emit(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
        (x, y), e = args, _elem(dtype)
        if dtype.kind == "b":
            return b.op("or" if largest else "and", e, x, y)
        if dtype.is_float:
            # The second test fails for ordinary numbers only; a NaN on either side ends as the result.
            keep = b.compare("ogt" if largest else "olt", e, x, y)
            return b.select(e, b.op("or", "i1", keep, b.compare("uno", e, x, x)), x, y)
        sign = "s" if dtype.kind == "i" else "u"
        return b.select(e, b.compare(sign + ("gt" if largest else "lt"), e, x, y), x, y)

    return emit


def _strong_zero(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    (x, y), e = args, _elem(dtype)
    zero = b.compare("oeq", e, x, b.const(e, 0))
    return b.select(e, zero, b.const(e, 0), rounded(b, b.op("fmul", e, x, y), dtype))


def _compare(floats: str, ints: str) -> Emit:
    def emit(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
        if dtype.is_float:
            return b.compare(floats, _elem(dtype), *args)
        sign = "" if ints in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
        return b.compare(sign + ints, _elem(dtype), *args)

    return emit


def _shift(name: str) -> Emit:
    def emit(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
        (x, n), e = args, _elem(dtype)
        inside = b.compare("ult", e, n, b.const(e, BITS[e]))  # a negative count is a large unsigned one
        by = b.select(e, inside, n, b.const(e, 0))
        if name == "left":
            return b.select(e, inside, b.op("shl", e, x, by), b.const(e, 0))
        if dtype.kind == "u":
            return b.select(e, inside, b.op("lshr", e, x, by), b.const(e, 0))
        return b.op("ashr", e, x, b.select(e, inside, n, b.const(e, BITS[e] - 1)))

    return emit


def _select(b: Lanes, args: Sequence[str], dtype: DType, attrs: Mapping[str, Any]) -> str:
    return b.select(_elem(attrs["of"]), *args)


EMIT: dict[str, Emit] = {
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _rounding("roundeven"),
    **{name: _function(name) for name in FLOAT},
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "isfinite": _isfinite,
    "isnan": _isnan,
    "bitwise_not": _not,
    "popcount": lambda b, args, dtype, attrs: b.intrinsic("ctpop", _elem(dtype), args[0]),
    "clz": lambda b, args, dtype, attrs: b.leading_zeros(_elem(dtype), args[0]),
    "stop_gradient": _same,
    "cast": _cast,
    "add": _instruction("add", "fadd"),
    "sub": _instruction("sub", "fsub"),
    "mul": _instruction("mul", "fmul"),
    "div": _instruction("", "fdiv"),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "maximum": extreme(True),
    "minimum": extreme(False),
    "arctan2": _arctan2,
    "mul_strong_zero": _strong_zero,
    "equal": _compare("oeq", "eq"),
    "not_equal": _compare("une", "ne"),
    "less": _compare("olt", "lt"),
    "less_equal": _compare("ole", "le"),
    "greater": _compare("ogt", "gt"),
    "greater_equal": _compare("oge", "ge"),
    "bitwise_and": _instruction("and", ""),
    "bitwise_or": _instruction("or", ""),
    "bitwise_xor": _instruction("xor", ""),
    "left_shift": _shift("left"),
    "right_shift": _shift("right"),
    "select": _select,
}
