"""Functions that work element by element, with NumPy's names, promotion and broadcasting."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, ops
from dala_defn.errors import DTypeError
from dala_defn.functions import complexes
from dala_defn.functions.base import convert, dtype_of, inexact, operands, own, pair, same, value
from dala_defn.functions.types import check_device
from dala_defn.ops.spec import OPS, OpSpec


def _document(f: Callable[..., Any], name: str, spec: OpSpec, note: str) -> None:
    f.__name__ = f.__qualname__ = name
    f.__module__ = "dala_defn"
    dtypes_text = ", ".join(d.name for d in spec.accepts)
    f.__doc__ = (
        f"{spec.doc}\n\n{note}\n\nElement types of the operation: {dtypes_text}.\n\n"
        "Raises:\n    ShapeError: when operands do not broadcast.\n    DTypeError: for a dtype it does not take.\n\n"
        f"Example:\n    >>> {_example(name, spec)}\n"
    )


def _example(name: str, spec: OpSpec) -> str:
    return "dd." + spec.example.replace(spec.name, name, 1)


def _real(name: str, op: str | None = None) -> Callable[[Any], Any]:
    spec = OPS[op or name]

    def f(x: Any, /) -> Any:
        return spec(inexact(x))

    _document(f, name, spec, "An array of the same shape; integers and bool are taken as float32.")
    return f


exp = _real("exp")
expm1 = _real("expm1")
log = _real("log")
log1p = _real("log1p")
sqrt = _real("sqrt")
rsqrt = _real("rsqrt")
sin = _real("sin")
cos = _real("cos")
tan = _real("tan")
arcsin = _real("arcsin")
arccos = _real("arccos")
arctan = _real("arctan")
sinh = _real("sinh")
cosh = _real("cosh")
tanh = _real("tanh")
arcsinh = _real("arcsinh")
arccosh = _real("arccosh")
arctanh = _real("arctanh")
erf = _real("erf")
sigmoid = _real("sigmoid")


def _numeric(name: str, op: str, *, rounding: bool = False, unsigned: bool = False) -> Callable[[Any], Any]:
    spec = OPS[op]

    def f(x: Any, /) -> Any:
        x = value(x)
        if (rounding and not dtype_of(x).is_inexact) or (unsigned and dtype_of(x).kind in "bu"):
            return same(x)
        return spec(x)

    _document(f, name, spec, "An array of the same shape and dtype.")
    return f


negative = _numeric("negative", "neg")
absolute = _numeric("absolute", "abs", unsigned=True)
_sign = _numeric("sign", "sign")
floor = _numeric("floor", "floor", rounding=True)
ceil = _numeric("ceil", "ceil", rounding=True)
trunc = _numeric("trunc", "trunc", rounding=True)
rint = _numeric("rint", "round", rounding=True)
bitwise_not = _numeric("bitwise_not", "bitwise_not")
stop_gradient = _numeric("stop_gradient", "stop_gradient")


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by sign, elementwise; NaN stays NaN. Of a complex number ``x / abs(x)``, 0 at 0.

    Example:
        >>> dd.sign(dd.array([-2.0, 0.0]))
        array([-1.,  0.], dtype=float32)
    """
    x = value(x)
    return complexes.direction(x) if dtype_of(x).kind == "c" else _sign(x)


def round(x: Any, decimals: int = 0) -> Any:
    """Rounds to a number of decimals, halves to even; an array of the same shape and dtype.

    Example:
        >>> dd.round(dd.array([0.5, 1.5]))
        array([0., 2.], dtype=float32)
    """
    x = own(x)
    if dtype_of(x).kind == "c":
        return complexes.complex(*(round(part, decimals) for part in complexes.parts(x)))
    if decimals == 0 or (decimals > 0 and not dtype_of(x).is_inexact):
        return rint(x)
    if not dtype_of(x).is_inexact:
        unit = 10**-decimals
        whole, rest = floor_divide(x, unit), remainder(x, unit)
        up = logical_or(rest > unit // 2, logical_and(rest == unit // 2, whole % 2 == 1))
        return (whole + convert(up, dtype_of(whole))) * unit
    scale = 10.0 ** builtins.abs(decimals)
    return rint(x * scale) / scale if decimals > 0 else rint(x / scale) * scale


def _predicate(name: str, constant: bool) -> Callable[[Any], Any]:
    spec = OPS[name]

    def f(x: Any, /) -> Any:
        x = value(x)
        if dtype_of(x).is_inexact:
            return spec(x)
        return ops.OPS["broadcast_to"](ops.lit(constant, dtypes.bool_), shape=tuple(x.shape))

    _document(f, name, spec, "A bool array of the same shape.")
    return f


isfinite = _predicate("isfinite", True)
isnan = _predicate("isnan", False)


def _pair(name: str, op: str, *, on_bool: str | None = None, real: bool = False) -> Callable[[Any, Any], Any]:
    spec = OPS[op]
    plain = frozenset(dtypes.INEXACT if real else spec.accepts if on_bool is None else dtypes.NUMBERS)

    def f(x: Any, y: Any, /) -> Any:
        a, b = pair(x, y)
        dtype = a.dtype
        if dtype not in plain:
            dtype = dtype_of(a)
            if dtype.kind == "b" and on_bool is not None:
                if on_bool in OPS:
                    return OPS[on_bool](a, b)
                a, b = convert(a, dtypes.DEFAULT_INT), convert(b, dtypes.DEFAULT_INT)
            elif real and not dtype.is_inexact:
                to = dtypes.to_inexact(dtype)
                a, b = convert(a, to), convert(b, to)
        return spec(a, b)

    _document(f, name, spec, "The operands broadcast and are promoted to one dtype; Python numbers are weak.")
    return f


add = _pair("add", "add", on_bool="bitwise_or")
multiply = _pair("multiply", "mul", on_bool="bitwise_and")
divide = _pair("divide", "div", real=True)
floor_divide = _pair("floor_divide", "floor_divide", on_bool="int")
remainder = _pair("remainder", "remainder", on_bool="int")
_power = _pair("power", "power", on_bool="int")
maximum = _pair("maximum", "maximum")
minimum = _pair("minimum", "minimum")
arctan2 = _pair("arctan2", "arctan2", real=True)
equal = _pair("equal", "equal")
not_equal = _pair("not_equal", "not_equal")
less = _pair("less", "less")
less_equal = _pair("less_equal", "less_equal")
greater = _pair("greater", "greater")
greater_equal = _pair("greater_equal", "greater_equal")
bitwise_and = _pair("bitwise_and", "bitwise_and")
bitwise_or = _pair("bitwise_or", "bitwise_or")
bitwise_xor = _pair("bitwise_xor", "bitwise_xor")
left_shift = _pair("left_shift", "left_shift", on_bool="int")
right_shift = _pair("right_shift", "right_shift", on_bool="int")


def power(x: Any, y: Any, /) -> Any:
    """x to the power of y, elementwise. Integers wrap; a negative integer exponent gives 0 beyond ±1.

    A small whole Python number as exponent is a product: ``x ** 2`` is ``x * x``.

    Raises:
        ShapeError: when operands do not broadcast.
        DTypeError: for a dtype it does not take.

    Example:
        >>> dd.power(dd.array([1.0, 3.0]), 2)
        array([1., 9.], dtype=float32)
    """
    if type(y) is int and 1 <= y <= 4 and dtypes.weak_kind(x) is None:
        x = value(x)
        if dtype_of(x).kind != "b":
            square = same(x) if y == 1 else OPS["mul"](x, x)
            return square if y < 3 else OPS["mul"](square, x if y == 3 else square)
    return _power(x, y)


def subtract(x: Any, y: Any, /) -> Any:
    """The difference, elementwise; the operands broadcast and are promoted to one dtype; integers wrap.

    Raises:
        ShapeError: when operands do not broadcast.
        DTypeError: for bool operands: use ``logical_xor``.

    Example:
        >>> dd.subtract(dd.array([3, 1]), 1)
        array([2, 0], dtype=int32)
    """
    a, b = pair(x, y)
    if dtype_of(a).kind == "b":
        raise DTypeError("bool arrays do not subtract", op="sub", hint="dd.logical_xor(x, y), or x.astype(dd.int32)")
    return OPS["sub"](a, b)


def divmod(x: Any, y: Any, /) -> tuple[Any, Any]:
    """``(x // y, x % y)``, elementwise, with the signs of floor division.

    Example:
        >>> dd.divmod(dd.array([-9]), 4)
        (array([-3], dtype=int32), array([3], dtype=int32))
    """
    return floor_divide(x, y), remainder(x, y)


def _truth(x: Any) -> Any:
    if getattr(x, "dtype", None) is dtypes.bool_:
        return x
    return convert(value(x), dtypes.bool_)


def logical_not(x: Any, /) -> Any:
    """Whether each element is zero or false; a bool array of the same shape.

    Example:
        >>> dd.logical_not(dd.array([0, 2]))
        array([ True, False])
    """
    return OPS["bitwise_not"](_truth(x))


def logical_and(x: Any, y: Any, /) -> Any:
    """Whether both are nonzero, elementwise with broadcasting; bool.

    Example:
        >>> dd.logical_and(dd.array([0, 2]), True)
        array([False,  True])
    """
    return OPS["bitwise_and"](_truth(x), _truth(y))


def logical_or(x: Any, y: Any, /) -> Any:
    """Whether either is nonzero, elementwise with broadcasting; bool.

    Example:
        >>> dd.logical_or(dd.array([0, 2]), False)
        array([False,  True])
    """
    return OPS["bitwise_or"](_truth(x), _truth(y))


def logical_xor(x: Any, y: Any, /) -> Any:
    """Whether exactly one is nonzero, elementwise with broadcasting; bool.

    Example:
        >>> dd.logical_xor(dd.array([0, 2]), True)
        array([ True, False])
    """
    return OPS["bitwise_xor"](_truth(x), _truth(y))


def isinf(x: Any, /) -> Any:
    """Whether each element is inf or -inf; a bool array of the same shape.

    Example:
        >>> dd.isinf(dd.array([1.0, float("inf")]))
        array([False,  True])
    """
    x = value(x)
    return complexes.isinf(x) if dtype_of(x).kind == "c" else logical_not(logical_or(isfinite(x), isnan(x)))


def square(x: Any, /) -> Any:
    """``x * x``, elementwise; the same shape and dtype.

    Example:
        >>> dd.square(dd.array([3]))
        array([9], dtype=int32)
    """
    x = value(x)
    return multiply(x, x)


def reciprocal(x: Any, /) -> Any:
    """``1 / x``, elementwise; integers are taken as float32.

    Example:
        >>> dd.reciprocal(dd.array([2.0]))
        array([0.5], dtype=float32)
    """
    return divide(1, inexact(x))


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Limits each element to ``[min, max]`` (arrays broadcast); NaN stays NaN.

    Example:
        >>> dd.clip(dd.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
        array([0. , 0.5, 1. ], dtype=float32)
    """
    x = value(x)
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return same(x)


def where(condition: Any, x: Any, y: Any, /) -> Any:
    """``x`` where the condition holds, else ``y``; all three broadcast, x and y are promoted to one dtype.

    A side that is not chosen gets a zero derivative, even where its own derivative is inf or NaN.

    Example:
        >>> dd.where(dd.array([True, False]), 1.0, 2.0)
        array([1., 2.], dtype=float32)
    """
    a, b = pair(x, y)
    return OPS["select"](_truth(condition), a, b)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Another dtype. Float to integer truncates, saturates out of range, and NaN gives 0; integers wrap.

    Example:
        >>> dd.astype(dd.array([1.7, -1.7]), dd.int32)
        array([ 1, -1], dtype=int32)
    """
    check_device(device)
    return same(convert(value(x), dtypes.as_dtype(dtype)))


def logaddexp(x: Any, y: Any, /) -> Any:
    """``log(exp(x) + exp(y))``, elementwise, without overflow.

    Example:
        >>> dd.logaddexp(dd.array([0.0]), dd.array([0.0]))
        array([0.6931472], dtype=float32)
    """
    a, b = (inexact(v) for v in operands(x, y))
    high = stop_gradient(maximum(a, b))
    high = where(isfinite(high), high, 0)
    return log(exp(a - high) + exp(b - high)) + high


mod = remainder

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "astype",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "divide",
    "divmod",
    "equal",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "stop_gradient",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]
