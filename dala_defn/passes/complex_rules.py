"""What each op is on pairs of real values.

The formulas neither overflow nor lose what the result needs on the way: quotients are scaled (Smith, with the scaling
of Baudin and Smith, "A Robust Complex Division in Scilab"), absolute values too; square roots and the arc functions
are those of Kahan, "Branch Cuts for Complex Elementary Functions", with the signed zeros of C (Annex G).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dala_defn.dtypes import DType, float32, real_of
from dala_defn.errors import ShapeError
from dala_defn.ir import Literal, Type
from dala_defn.ops.creation import lit, zeros
from dala_defn.ops.spec import OPS
from dala_defn.shapes import broadcast_shapes, size


class Pair(NamedTuple):
    """A complex value: its real and its imaginary part."""

    re: Any
    im: Any


def is_pair(x: Any) -> bool:
    """Whether a value is complex."""
    return type(x) is Pair


class _Limits(NamedTuple):
    """Of a real dtype: its largest number, its least normal one, its precision, and bounds that follow from them."""

    most: float
    least: float
    eps: float
    exp: float  # exp of this is finite
    flat: float  # tanh of this is 1
    up: float  # a square that brings subnormal numbers among the normal ones
    square: float  # a quarter of the root of the largest number


_FLOAT32 = _Limits((2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-23, 88.0, 11.0, 2.0**64, 2.0**62)
_FLOAT64 = _Limits((2 - 2.0**-52) * 2.0**1023, 2.0**-1022, 2.0**-52, 709.0, 22.0, 2.0**128, 2.0**510)


def _limits(x: Any) -> _Limits:
    return _FLOAT32 if x.dtype is float32 else _FLOAT64


def _op(name: str) -> Callable[..., Any]:
    return lambda *args: OPS[name](*args)


_abs, _sqrt, _exp, _log, _log1p, _isfinite = map(_op, ("abs", "sqrt", "exp", "log", "log1p", "isfinite"))
_max, _min, _atan2, _asinh, _sin, _cos = map(_op, ("maximum", "minimum", "arctan2", "arcsinh", "sin", "cos"))
_expm1, _tan, _sinh, _cosh, _or, _and, _not = map(
    _op, ("expm1", "tan", "sinh", "cosh", "bitwise_or", "bitwise_and", "bitwise_not")
)


def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = next(v.dtype for v in (x, y) if not isinstance(v, float))
    a, b = (lit(v, dtype) if isinstance(v, float) else v for v in (x, y))
    return OPS["select"](condition, a, b)


def _choose(condition: Any, like: Any, x: float, y: float) -> Any:
    return OPS["select"](condition, lit(x, like.dtype), lit(y, like.dtype))


def _negative(x: Any) -> Any:
    """Whether the sign is set, that of a zero too."""
    return OPS["select"](x == 0, 1.0 / x < 0, x < 0)


def _signed(size: Any, sign: Any) -> Any:
    """A magnitude with the sign of another number."""
    return _where(_negative(sign), -size, size)


# Arithmetic.


def add(x: Pair, y: Pair) -> Pair:
    """The sum."""
    return Pair(x.re + y.re, x.im + y.im)


def sub(x: Pair, y: Pair) -> Pair:
    """The difference."""
    return Pair(x.re - y.re, x.im - y.im)


def neg(x: Pair) -> Pair:
    """The negative."""
    return Pair(-x.re, -x.im)


def mul(x: Pair, y: Pair) -> Pair:
    """The product."""
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _is_zero(x: Pair) -> Any:
    return _and(x.re == 0, x.im == 0)


def mul_strong_zero(x: Pair, y: Pair) -> Pair:
    """The product, 0 where x is."""
    zero, product = _is_zero(x), mul(x, y)
    return Pair(_where(zero, 0.0, product.re), _where(zero, 0.0, product.im))


def _smith(x: Pair, y: Pair) -> Pair:
    """The quotient of numbers whose sizes are not extreme; by 0 each part is divided by 0."""
    swap = _abs(y.re) < _abs(y.im)
    a, b = _where(swap, x.im, x.re), _where(swap, -x.re, x.im)
    c, d = _where(swap, y.im, y.re), _where(swap, -y.re, y.im)
    zero = _and(c == 0, d == 0)
    r = _where(zero, 0.0, d / c)
    down = _where(zero, 0.0, c + d * r)
    u, v = _where(zero, a, a + b * r), _where(zero, b, b - a * r)
    return Pair(u / down, v / down)


def div(x: Pair, y: Pair) -> Pair:
    """The quotient."""
    limits = _limits(x.re)
    grow = 2 / limits.eps**2

    def scale(v: Pair) -> Any:
        most = _max(_abs(v.re), _abs(v.im))
        small = _choose(most <= limits.least * 2 / limits.eps, most, grow, 1.0)
        return _where(most >= limits.most / 2, 0.5, small)

    sx, sy = scale(x), scale(y)
    q = _smith(Pair(x.re * sx, x.im * sx), Pair(y.re * sy, y.im * sy))
    back = sy / sx
    return Pair(q.re * back, q.im * back)


def abs_(x: Pair) -> Any:
    """The absolute value."""
    a, b = _abs(x.re), _abs(x.im)
    most, least = _max(a, b), _min(a, b)
    ratio = least / _where(most == 0, 1.0, most)
    return _where(_or(a == math.inf, b == math.inf), math.inf, most * _sqrt(1.0 + ratio * ratio))


def conj(x: Pair) -> Pair:
    """The conjugate."""
    return Pair(x.re, -x.im)


def equal(x: Pair, y: Pair) -> Any:
    """Whether both parts are equal."""
    return _and(x.re == y.re, x.im == y.im)


def not_equal(x: Pair, y: Pair) -> Any:
    """Whether either part differs."""
    return _or(x.re != y.re, x.im != y.im)


def isfinite(x: Pair) -> Any:
    """Whether both parts are finite."""
    return _and(_isfinite(x.re), _isfinite(x.im))


def isnan(x: Pair) -> Any:
    """Whether either part is NaN."""
    return _or(OPS["isnan"](x.re), OPS["isnan"](x.im))


# Roots, exponentials and logarithms.


def sqrt(x: Pair) -> Pair:
    """The root with a real part that is not negative."""
    limits = _limits(x.re)
    a, b = _abs(x.re), _abs(x.im)
    most = _max(a, b)
    big, small = most > limits.most / 8, most < limits.least / limits.eps
    up = _where(big, 1 / 16, _choose(small, most, limits.up, 1.0))
    down = _where(big, 4.0, _choose(small, most, limits.up**-0.5, 1.0))
    a, b = a * up, b * up
    root = _sqrt((a + abs_(Pair(a, b))) * 0.5)
    other = _where(root == 0, 0.0, b / (root * 2.0))
    right = x.re >= 0
    endless = b == math.inf
    re = _where(endless, math.inf, _where(right, root, other) * down)
    im = _where(endless, math.inf, _where(right, other, root) * down)
    nan = OPS["isnan"](x.re)
    return Pair(_where(_and(nan, _not(endless)), x.re, re), _signed(im, x.im))


def rsqrt(x: Pair) -> Pair:
    """1 over the root."""
    one = zeros(Type(x.re.dtype, x.re.shape))
    return _smith(Pair(one + 1.0, one), sqrt(x))


def _log_abs(x: Any, y: Any) -> Any:
    """The logarithm of the absolute value."""
    a, b = _abs(x), _abs(y)
    most, least = _max(a, b), _min(a, b)
    near = _and(most > 0.5, most < 2.0)
    m, n = _where(near, most, 1.0), _where(near, least, 0.0)
    ratio = least / _where(_or(most == 0, most == math.inf), 1.0, most)
    far = _log(most) + 0.5 * _log1p(ratio * ratio)
    out = _where(near, 0.5 * _log1p((m - 1.0) * (m + 1.0) + n * n), far)
    return _where(_or(a == math.inf, b == math.inf), math.inf, out)


def log(x: Pair) -> Pair:
    """The logarithm with an imaginary part in [-pi, pi]."""
    return Pair(_log_abs(x.re, x.im), _atan2(x.im, x.re))


def log1p(x: Pair) -> Pair:
    """``log(1 + x)``."""
    near = _max(_abs(x.re), _abs(x.im)) < 0.5
    a, b = _where(near, x.re, 0.0), _where(near, x.im, 0.0)
    one = x.re + 1.0
    re = _where(near, 0.5 * _log1p(a * (2.0 + a) + b * b), _log_abs(one, x.im))
    return Pair(re, _atan2(x.im, one))


def exp(x: Pair) -> Pair:
    """The exponential."""
    limits = _limits(x.re)
    big = x.re > limits.exp
    size = _exp(x.re - _choose(big, x.re, limits.exp, 0.0))
    back = _choose(big, x.re, math.exp(limits.exp), 1.0)
    re = size * _cos(x.im) * back
    im = _where(x.im == 0, x.im, size * _sin(x.im) * back)
    wild = _not(_isfinite(x.im))
    nothing = _and(x.re == -math.inf, wild)
    re = _where(_and(x.re == math.inf, wild), math.inf, _where(nothing, 0.0, re))
    return Pair(re, _where(nothing, 0.0, im))


def expm1(x: Pair) -> Pair:
    """``exp(x) - 1``."""
    half, whole = _sin(x.im * 0.5), exp(x)
    near = _abs(x.re) < 2.0
    re = _where(near, x.re, 0.0)
    return Pair(_where(near, _expm1(re) * _cos(x.im) - 2.0 * (half * half), whole.re - 1.0), whole.im)


def power(x: Pair, p: Pair) -> Pair:
    """``exp(p * log(x))``; 1 where p is 0; of x = 0 it is 0 where real(p) > 0, else NaN."""
    exponent = mul(p, log(x))
    out = exp(exponent)
    # An exponent that far down makes any angle a zero, also one that is too large for the dtype.
    zero, tiny = _is_zero(x), exponent.re < -1.3 * _limits(x.re).exp
    at_zero = _choose(p.re > 0, out.re, 0.0, math.nan)
    re, im = (_where(zero, at_zero, _where(tiny, 0.0, part)) for part in out)
    one = _is_zero(p)
    return Pair(_where(one, 1.0, re), _where(one, 0.0, im))


# Trigonometric and hyperbolic functions. A circular function of z is a hyperbolic one of iz.


def _times_i(x: Pair) -> Pair:
    return Pair(-x.im, x.re)


def _by_i(x: Pair) -> Pair:
    return Pair(x.im, -x.re)


def _hyperbolic(x: Any) -> tuple[Any, Any, Any]:
    """sinh and cosh of a real number, and what both are still to be multiplied by."""
    limits = _limits(x)
    a = _abs(x)
    big = a > limits.exp
    half = 0.5 * _exp(a - limits.exp)
    inner = _where(big, 0.0, x)
    back = _choose(big, x, math.exp(limits.exp), 1.0)
    return _where(big, _signed(half, x), _sinh(inner)), _where(big, half, _cosh(inner)), back


def sinh(x: Pair) -> Pair:
    """The hyperbolic sine."""
    s, c, back = _hyperbolic(x.re)
    re = s * _cos(x.im) * back
    im = _where(x.im == 0, x.im, c * _sin(x.im) * back)
    fixed = _or(x.re == 0, _abs(x.re) == math.inf)
    return Pair(_where(_and(fixed, _not(_isfinite(x.im))), x.re, re), im)


def cosh(x: Pair) -> Pair:
    """The hyperbolic cosine."""
    s, c, back = _hyperbolic(x.re)
    re = c * _cos(x.im) * back
    im = _where(x.im == 0, x.im * _choose(_negative(x.re), x.re, -1.0, 1.0), s * _sin(x.im) * back)
    wild = _not(_isfinite(x.im))
    im = _where(_and(x.re == 0, wild), 0.0, im)
    return Pair(_where(_and(_abs(x.re) == math.inf, wild), math.inf, re), im)


def tanh(x: Pair) -> Pair:
    """The hyperbolic tangent."""
    flat = _abs(x.re) > _limits(x.re).flat
    t = _tan(x.im)
    s = _sinh(_where(flat, 0.0, x.re))
    beta, rho = 1.0 + t * t, _sqrt(1.0 + s * s)
    down = 1.0 + beta * (s * s)
    tail = _exp(-2.0 * _abs(x.re))
    limit = 4.0 * (_sin(x.im) * _cos(x.im)) * tail
    limit = _where(_and(_abs(x.re) == math.inf, _not(_isfinite(x.im))), 0.0, limit)
    one = _signed(lit(1.0, s.dtype), x.re)
    re = _where(x.re == 0, x.re, beta * rho * s / down)
    return Pair(_where(flat, one, re), _where(flat, limit, t / down))


def sin(x: Pair) -> Pair:
    """The sine."""
    return _by_i(sinh(_times_i(x)))


def cos(x: Pair) -> Pair:
    """The cosine."""
    return cosh(_times_i(x))


def tan(x: Pair) -> Pair:
    """The tangent."""
    return _by_i(tanh(_times_i(x)))


def _held(x: Pair) -> tuple[Pair, Any]:
    """x, or a quarter of it where its size is extreme; and what the real logarithm of its size lacks then.

    Of an infinite number it is one of the same direction.
    """
    most = _limits(x.re).most
    huge = _max(_abs(x.re), _abs(x.im)) > most / 8
    scale = _choose(huge, x.re, 0.25, 1.0)
    ends = [_abs(part) == math.inf for part in x]
    endless = _or(*ends)

    def part(v: Any, end: Any) -> Any:
        near = _where(end, _signed(_choose(end, v, most / 16, 0.0), v), v * 0.0)
        return _where(endless, near, v * scale)

    more = _where(endless, math.inf, _choose(huge, x.re, math.log(4), 0.0))
    return Pair(*(part(v, end) for v, end in zip(x, ends, strict=True))), more


def _roots(x: Pair) -> tuple[Pair, Pair]:
    return sqrt(Pair(1.0 - x.re, -x.im)), sqrt(Pair(1.0 + x.re, x.im))


def arcsin(x: Pair) -> Pair:
    """The inverse sine."""
    x, more = _held(x)
    a, b = _roots(x)
    im = _asinh(a.re * b.im - a.im * b.re)
    return Pair(_atan2(x.re, a.re * b.re - a.im * b.im), im + _signed(more, im))


def arccos(x: Pair) -> Pair:
    """The inverse cosine."""
    x, more = _held(x)
    a, b = _roots(x)
    im = _asinh(b.re * a.im - b.im * a.re)
    return Pair(2.0 * _atan2(a.re, b.re), im + _signed(more, im))


def arccosh(x: Pair) -> Pair:
    """The inverse hyperbolic cosine."""
    x, more = _held(x)
    a, b = sqrt(Pair(x.re - 1.0, x.im)), sqrt(Pair(x.re + 1.0, x.im))
    return Pair(_asinh(a.re * b.re + a.im * b.im) + more, 2.0 * _atan2(a.im, b.re))


def arcsinh(x: Pair) -> Pair:
    """The inverse hyperbolic sine."""
    return _by_i(arcsin(_times_i(x)))


def arctanh(x: Pair) -> Pair:
    """The inverse hyperbolic tangent."""
    limits = _limits(x.re)
    a, b = _abs(x.re), _abs(x.im)
    endless = _or(a == math.inf, b == math.inf)
    huge = _or(_max(a, b) > limits.square, endless)
    p, q = _where(huge, 0.0, a), _where(huge, 0.0, b)
    gap = 1.0 - p
    below = gap * gap + q * q
    re = 0.25 * _log1p(4.0 * p / below)
    on = _and(p == 1.0, q < 0.5)  # the square of a small imaginary part would be lost
    re = _where(on, 0.5 * (_log(abs_(Pair(lit(2.0, q.dtype), q))) - _log(q)), re)
    im = 0.5 * _atan2(2.0 * q, gap * (1.0 + p) - q * q)
    most = _where(huge, _max(a, b), 1.0)
    u, v = a / most, b / most
    far = _where(endless, 0.0, u / (u * u + v * v) / most)
    re = _where(huge, far, re)
    im = _signed(_where(huge, math.pi / 2, im), x.im)
    return Pair(_signed(re, x.re), _where(OPS["isnan"](x.im), x.im, im))


def arctan(x: Pair) -> Pair:
    """The inverse tangent."""
    return _by_i(arctanh(_times_i(x)))


# Everything else.


def _each(name: str) -> Callable[..., Pair]:
    """An op that does the same to either part."""

    def rule(*args: Any, **attrs: Any) -> Pair:
        return Pair(*(OPS[name](*[a[i] if is_pair(a) else a for a in args], **attrs) for i in (0, 1)))

    return rule


def _bilinear(name: str) -> Callable[..., Pair]:
    """An op that is linear in each of two operands."""

    def rule(x: Pair, y: Pair, **attrs: Any) -> Pair:
        def part(a: Any, b: Any) -> Any:
            return OPS[name](a, b, **attrs)

        return Pair(part(x.re, y.re) - part(x.im, y.im), part(x.re, y.im) + part(x.im, y.re))

    return rule


def _constant(*, value: Literal) -> Pair:
    dtype = real_of(value.dtype)
    return Pair(*(OPS["constant"](value=Literal(part, dtype)) for part in (value.array.real, value.array.imag)))


def _cast(x: Any, *, dtype: DType) -> Any:
    if dtype.kind == "b":
        return _or(x.re != 0, x.im != 0)
    to = real_of(dtype)
    if is_pair(x):
        return Pair(*(part if part.dtype is to else OPS["cast"](part, dtype=to) for part in x))
    part = x if x.dtype is to else OPS["cast"](x, dtype=to)
    return Pair(part, zeros(Type(to, x.shape)))


def _complex(x: Any, y: Any) -> Pair:
    shape = broadcast_shapes(x.shape, y.shape)
    return Pair(*(v if v.shape == shape else OPS["broadcast_to"](v, shape=shape) for v in (x, y)))


def _prod(x: Pair, *, axes: tuple[int, ...]) -> Pair:
    rank = len(x.re.shape)
    lead = tuple(d for i, d in enumerate(x.re.shape) if i not in axes)
    n = size(x.re.shape[a] for a in axes)
    if not isinstance(n, int):
        raise ShapeError(
            f"a product of complex numbers over a size {n} that is not known",
            op="prod",
            hint="trace with a number for this size",
        )
    order = (*(i for i in range(rank) if i not in axes), *axes)
    moved = x if order == tuple(range(rank)) else _each("transpose")(x, axes=order)
    rows: Pair = _each("reshape")(moved, shape=(*lead, n))
    if n == 0:
        one, zero = (lit(v, x.re.dtype) for v in (1, 0))
        return Pair(*(v if lead == () else OPS["broadcast_to"](v, shape=lead) for v in (one, zero)))
    start, step = (0,) * len(lead), (1,) * (len(lead) + 1)

    def part(low: int, high: int) -> Pair:
        out: Pair = _each("slice")(rows, start=(*start, low), stop=(*lead, high), step=step)
        return out

    while n > 1:
        half = n // 2
        product, last = mul(part(0, half), part(half, 2 * half)), part(2 * half, n)
        rows = product if n % 2 == 0 else _joined(product, last, len(lead))
        n = half + n % 2
    return Pair(*(OPS["reshape"](v, shape=lead) for v in rows))


def _cut(x: Pair, axis: int, start: int, stop: int) -> Pair:
    shape = list(x.re.shape)
    low = [0] * len(shape)
    low[axis], shape[axis] = start, stop
    out: Pair = _each("slice")(x, start=tuple(low), stop=tuple(shape), step=(1,) * len(shape))
    return out


def _doubling(combine: Callable[..., tuple[Pair, ...]], state: tuple[Pair, ...], axis: int, reverse: bool) -> Any:
    """Running results of what combines two stretches, by one step for each doubling of their length."""
    n = state[0].re.shape[axis]
    if not isinstance(n, int):
        raise ShapeError(f"a recurrence of complex numbers along a size {n} that is not known", hint="a known size")
    turn = _each("flip")
    state = tuple([turn(v, axes=(axis,)) for v in state]) if reverse else state
    step = 1
    while step < n:
        new = combine([_cut(v, axis, 0, n - step) for v in state], [_cut(v, axis, step, n) for v in state])
        state = tuple([_joined(_cut(v, axis, 0, step), w, axis) for v, w in zip(state, new, strict=True)])
        step *= 2
    return turn(state[-1], axes=(axis,)) if reverse else state[-1]


def _cumprod(x: Pair, *, axis: int, reverse: bool) -> Any:
    return _doubling(lambda a, b: (mul(a[0], b[0]),), (x,), axis, reverse)


def _sound(x: Pair, y: Pair) -> Pair:
    """The product, 0 where either is."""
    zero, product = _or(_is_zero(x), _is_zero(y)), mul(x, y)
    return Pair(_where(zero, 0.0, product.re), _where(zero, 0.0, product.im))


def _linear_scan(factors: Pair, terms: Pair, *, axis: int, reverse: bool) -> Any:
    def combine(before: Any, after: Any) -> tuple[Pair, ...]:
        return _sound(before[0], after[0]), add(after[1], _sound(after[0], before[1]))

    return _doubling(combine, (factors, terms), axis, reverse)


def _joined(x: Pair, y: Pair, axis: int) -> Pair:
    return Pair(*(OPS["concatenate"](a, b, axis=axis) for a, b in zip(x, y, strict=True)))


def _matrix(name: str) -> Callable[..., Pair]:
    """The op itself, on one real array with the parts in its last axis."""

    def rule(*xs: Pair, pairs: bool, **attrs: Any) -> Pair:
        shapes = [(*x.re.shape, 1) for x in xs]
        whole = [
            OPS["concatenate"](*(OPS["reshape"](v, shape=shape) for v in x), axis=len(shape) - 1)
            for x, shape in zip(xs, shapes, strict=True)
        ]
        out = OPS[name](*whole, pairs=True, **attrs)
        shape = out.shape[:-1]
        start, step = (0,) * len(shape), (1,) * (len(shape) + 1)
        return Pair(
            *(
                OPS["reshape"](OPS["slice"](out, start=(*start, i), stop=(*shape, i + 1), step=step), shape=shape)
                for i in (0, 1)
            )
        )

    return rule


_PARTWISE = (
    *("select", "stop_gradient", "reshape", "transpose", "broadcast_to", "slice", "pad", "concatenate", "flip"),
    *("gather", "scatter_add", "scatter_set", "dynamic_slice", "dynamic_update_slice", "sum", "cumsum", "window_sum"),
)

RULES: dict[str, Callable[..., Any]] = {
    **{name: _each(name) for name in _PARTWISE},
    **{name: _bilinear(name) for name in ("dot_general", "conv", "conv_input_grad", "conv_weight_grad")},
    **{f.__name__: f for f in (add, sub, neg, mul, mul_strong_zero, div, conj, equal, not_equal, isfinite, isnan)},
    **{f.__name__: f for f in (sqrt, rsqrt, log, log1p, exp, expm1, power, sin, cos, tan, sinh, cosh, tanh)},
    **{f.__name__: f for f in (arcsin, arccos, arctan, arcsinh, arccosh, arctanh)},
    **{s.name: _matrix(s.name) for s in OPS.values() if s.family == "matrix"},
    "abs": abs_,
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "complex": _complex,
    "constant": _constant,
    "cast": _cast,
    "prod": _prod,
    "cumprod": _cumprod,
    "linear_scan": _linear_scan,
}
