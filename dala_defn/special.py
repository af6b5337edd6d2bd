"""Special functions. Each is a composite, visible by name in the graph; the stated errors are measured by the tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.composites import composite
from dala_defn.functions.base import convert, dtype_of, own, real, reals

# Chebyshev interpolants, computed with 50 digits and written as powers of a variable in [-1, 1], highest first.
# erfcx(x) * (1 + 2x) over (x - 3.75) / (x + 3.75); i0e and i1e / x up to 7.5 and, times sqrt(x), beyond, over 15/x - 1;
# erfinv(x) / x over w = -log(1 - x*x) up to 5, and over its root beyond.
_ERFCX = (
    3.2052623379289157e-10,
    -2.618520156503145e-09,
    -3.798189797736207e-09,
    3.195398612057818e-08,
    2.3398534313040898e-08,
    -2.4851108650210706e-07,
    -5.741076073013916e-08,
    1.7419011945194367e-06,
    -9.733875167494142e-07,
    -1.1437980374495534e-05,
    2.2384138525656757e-05,
    5.164649341002877e-05,
    -0.00029015404203352704,
    0.000293714390578856,
    0.001755625843431864,
    -0.00974657968596217,
    0.028362277420377335,
    -0.05869339857631061,
    0.09230432116025894,
    -0.10880393014246645,
    0.08227673849014977,
    0.003585415485479575,
    -0.14024059858554702,
    1.2375126308378275,
)
_I0_NEAR = (
    -4.292776805050028e-09,
    1.6368063847413885e-08,
    -3.033277949530504e-08,
    1.0074964524789448e-07,
    -4.128389221573904e-07,
    1.3154214229765432e-06,
    -3.853492697478406e-06,
    1.1168694431357028e-05,
    -3.1099414860168254e-05,
    8.213297146595071e-05,
    -0.00020606812032751708,
    0.0004905621210529584,
    -0.0011045913449850698,
    0.0023453701793216494,
    -0.004681379162845502,
    0.008754474018295702,
    -0.015284085218817571,
    0.024821846410499098,
    -0.037369454924932696,
    0.05200624200898142,
    -0.06681196910363907,
    0.07936544220915628,
    -0.08781813615062294,
    0.09207911831982309,
    -0.094448636941254,
    0.09974307433648948,
    -0.1180823636218418,
    0.2144570512300487,
)
_I1_NEAR = (
    -3.6775485923683746e-10,
    1.460047799527841e-09,
    -3.0417497547315195e-09,
    1.0691832349867091e-08,
    -4.4054125010109095e-08,
    1.4775338148552653e-07,
    -4.621946301415912e-07,
    1.422019628917047e-06,
    -4.20836183617964e-06,
    1.1876524838924095e-05,
    -3.198639488180644e-05,
    8.21079622698865e-05,
    -0.0002004078645085751,
    0.0004640302351233268,
    -0.0010168281011776225,
    0.002103396162757996,
    -0.004096544854340366,
    0.007491275839066172,
    -0.012827667894688713,
    0.020513570286798784,
    -0.0305616902345825,
    0.0423309384128171,
    -0.054424334000064765,
    0.06486875303352337,
    -0.07153854766843876,
    0.07254363813957992,
    -0.06609452753065068,
    0.04879157891490424,
)
_I0_FAR = (
    8.68293430736088e-11,
    2.9979379910959335e-10,
    -5.93124083873707e-10,
    -2.084320912234217e-09,
    1.8165591735478972e-09,
    6.879259668006768e-09,
    -3.0736374270736005e-09,
    -1.4835755040531692e-08,
    1.7050559787910122e-09,
    2.4101967283488516e-08,
    8.027679815005835e-09,
    -2.805774142723231e-08,
    -3.328053214681198e-08,
    -1.1121002785226382e-09,
    4.029878387508176e-08,
    8.126296438355957e-08,
    1.6188094452671905e-07,
    4.65191523220532e-07,
    2.057436980359045e-06,
    1.4020452864214666e-05,
    0.00015756533636452575,
    0.003604122122060545,
    0.4024011549800442,
)
_I1_FAR = (
    -9.940201066440832e-11,
    -3.067638183622982e-10,
    6.801492418646945e-10,
    2.135522447673544e-09,
    -2.0988850618240353e-09,
    -7.067084600644008e-09,
    3.653583469431486e-09,
    1.5327181015416126e-08,
    -2.5352653686649312e-09,
    -2.5192894622632263e-08,
    -7.39970265978741e-09,
    3.0063480187265747e-08,
    3.442535190237695e-08,
    -1.2233105630732872e-10,
    -4.4181599315252044e-08,
    -8.898190533416978e-08,
    -1.8149115442089252e-07,
    -5.424210521530494e-07,
    -2.5349480887055327e-06,
    -1.8864616190675115e-05,
    -0.000252920567294845,
    -0.010430945442463315,
    0.38874750833923855,
)
_ERFINV_NEAR = (
    4.455502041853586e-06,
    -3.333668023235368e-05,
    2.4390115560760592e-05,
    0.0002840682437147928,
    -0.0008357945005424916,
    -0.00048434490177890003,
    0.00852569234233724,
    -0.01957419535690098,
    -0.02610825025337576,
    0.6166007235686378,
    1.501409351110792,
)
_ERFINV_FAR = (
    -0.0011379271507397913,
    0.0012396414223039313,
    0.002989257320139647,
    -0.004742866952410772,
    0.0009073771554915365,
    0.0003612051327907636,
    0.0016639729388264538,
    -0.0026172019158367484,
    0.003417232659624477,
    -0.004886105463959487,
    0.0030347340643293004,
    2.0016463120738512,
    4.0599391950841754,
)


def _horner(t: Any, coefficients: Sequence[float]) -> Any:
    out: Any = coefficients[0]
    for c in coefficients[1:]:
        out = out * t + c
    return out


def _apart(x: Any) -> tuple[Any, Any]:
    """x as a sum of two numbers, the first short enough that its square is exact."""
    factor = 2.0**27 + 1 if dtype_of(x) is dtypes.float64 else 2.0**12 + 1
    wide = x * factor
    high = wide - (wide - x)
    return high, x - high


def _wide(x: Any) -> Any:
    """Real numbers with at least the digits of float32."""
    x = real(x)
    return convert(x, dtypes.float32) if dtype_of(x).itemsize == 2 else x


def _narrow(y: Any, x: Any) -> Any:
    return convert(y, dtypes.to_inexact(dtype_of(own(x))))


def _scaled_erfc(a: Any) -> Any:
    """``exp(a*a) * erfc(a)`` for a >= 0."""
    large = a > 1e9
    safe = F.where(large, 1, a)
    near = _horner((safe - 3.75) / (safe + 3.75), _ERFCX) / (1 + 2 * safe)
    return F.where(large, (1 / math.sqrt(math.pi)) / F.where(large, a, 1), near)


def _exp_minus_square(a: Any) -> Any:
    """``exp(-a*a)`` for 0 <= a < 40 without the rounding error of the square."""
    high, low = _apart(F.stop_gradient(a))
    still = F.stop_gradient(a)
    exact = F.exp(-high * high) * F.exp(-low * (high + still))
    plain = F.exp(-a * a)
    return plain + F.stop_gradient(exact - plain)


@composite("erfc")
def erfc(x: Any, /) -> Any:
    """``1 - erf(x)`` without cancellation, elementwise; within 8 ulp as long as it is no subnormal number.

    Example:
        >>> dd.special.erfc(dd.array([0.0]))
        array([1.], dtype=float32)
    """
    y = _wide(x)
    slope = -F.erf(y)  # the value comes from the tail below, the derivatives of every order from here
    a = F.stop_gradient(F.absolute(y))
    bounded = F.minimum(a, 30.0)
    tail = _exp_minus_square(bounded) * _scaled_erfc(bounded)
    value = F.where(a < 0.5, 1 + F.stop_gradient(slope), F.where(F.less(y, 0), 2 - tail, tail))
    value = F.where(F.isnan(y), y, value)
    return _narrow(F.stop_gradient(value) + (slope - F.stop_gradient(slope)), x)


@composite("erfcx")
def erfcx(x: Any, /) -> Any:
    """``exp(x*x) * erfc(x)``, elementwise, without underflow for large ``x``; within 8 ulp for x >= 0.

    Example:
        >>> dd.special.erfcx(dd.array([0.0]))
        array([1.], dtype=float32)
    """
    y = _wide(x)
    positive = F.where(F.less(y, 0), 0, y)
    negative = F.where(F.less(y, 0), y, 0)
    left = 2 * F.exp(negative * negative) - _scaled_erfc(-negative)
    return _narrow(F.where(F.less(y, 0), left, _scaled_erfc(positive)), x)


@composite("erfinv")
def erfinv(x: Any, /) -> Any:
    """The inverse of ``erf``, elementwise: inf at 1, NaN beyond; within 8 ulp.

    Example:
        >>> dd.special.erfinv(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    y = _wide(x)
    inside = F.absolute(y) < 1
    y = F.where(inside, y, 0)
    w = -(F.log1p(-F.absolute(y)) + F.log1p(F.absolute(y)))
    near = w < 5
    low, high = math.sqrt(5), 6.2
    s = F.sqrt(F.where(near, 5, w))
    guess = y * F.where(
        near,
        _horner(F.where(near, w, 0) * (2 / 5) - 1, _ERFINV_NEAR),
        _horner((s - low) * (2 / (high - low)) - 1, _ERFINV_FAR),
    )
    # One step of Halley's, with the residual taken from the tail where erf is flat.
    a = F.absolute(guess)
    tail = _exp_minus_square(a) * _scaled_erfc(a)
    far = tail - (1 - F.absolute(y))
    rest = F.where(F.absolute(y) > 0.5, F.where(F.less(y, 0), -far, far), y - F.erf(guess))
    step = rest * (math.sqrt(math.pi) / 2) * F.exp(guess * guess)
    out = guess + step / (1 - guess * step)
    z = real(x)
    edge = F.where(F.absolute(z) == 1, convert(z, dtype_of(y)) * math.inf, math.nan)
    return _narrow(F.where(inside, out, edge), x)


# The terms of Stirling's series, from the last one on: B(2k) / (2k (2k - 1)).
_STIRLING = (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_SHIFT = 10


def _lgamma_right(x: Any) -> Any:
    """lgamma for x >= 0.5: Stirling's series, reached by steps to the right."""
    small = x < _SHIFT
    near = F.where(small, x, 1)
    product = near
    for i in range(1, _SHIFT):
        product = product * (near + i)
    z = F.where(small, x + _SHIFT, x)
    inverse = 1 / z
    series = _horner(inverse * inverse, _STIRLING) * inverse
    main = (z - 0.5) * (F.log(z) - 1) - 0.5 + (0.5 * math.log(2 * math.pi)) + series
    return F.where(small, main - F.log(product), main)


def _from_pole(x: Any) -> Any:
    """``sin(pi * x)`` up to its sign, exact in the distance to the nearest whole number."""
    return F.sin((x - F.rint(x)) * math.pi)


@composite("gammaln")
def gammaln(x: Any, /) -> Any:
    """The logarithm of the absolute value of the gamma function, elementwise; inf at 0, -1, -2, …

    The error is within 48 ulp of the larger of the result and 1 (of |x| where x is negative), by Stirling's series.

    Example:
        >>> dd.special.gammaln(dd.array([0.5, 5.0])).round(4)
        array([0.5724, 3.1781], dtype=float32)
    """
    y = _wide(x)
    left = y < 0.5
    whole = F.logical_and(y <= 0, y == F.floor(y))
    usual = F.logical_and(F.isfinite(y), F.logical_not(whole))
    y_left = F.where(F.logical_and(left, usual), y, 0.25)
    y_right = F.where(F.logical_or(left, F.logical_not(usual)), 1.5, y)
    reflected = math.log(math.pi) - F.log(F.absolute(_from_pole(y_left))) - _lgamma_right(1 - y_left)
    out = F.where(left, reflected, _lgamma_right(y_right))
    return _narrow(F.where(usual, out, F.where(F.isnan(y), y, math.inf)), x)


@composite("digamma")
def digamma(x: Any, /) -> Any:
    """The derivative of ``gammaln``, elementwise; NaN at 0, -1, -2, …

    The error is within 24 ulp of the larger of the result and 1 (more next to a negative pole), by the asymptotic
    series.

    Example:
        >>> dd.special.digamma(dd.array([1.0]))
        array([-0.5772157], dtype=float32)
    """
    y = _wide(x)
    left = y < 0.5
    pole = F.logical_and(y <= 0, y == F.floor(y))
    y_left = F.where(F.logical_and(left, F.logical_not(pole)), y, 0.25)
    r = F.where(left, 1 - y_left, y)
    small = r < _SHIFT
    z = F.where(small, r + _SHIFT, r)
    inverse = 1 / z
    square = inverse * inverse
    series = _horner(square, (-1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)) * square
    out = F.log(z) - 0.5 * inverse + series
    near = F.where(small, r, 1)
    total = 1 / near
    for i in range(1, _SHIFT):
        total = total + 1 / (near + i)
    out = F.where(small, out - total, out)
    turned = (y_left - F.rint(y_left)) * math.pi
    out = F.where(left, out - math.pi * F.cos(turned) / F.sin(turned), out)
    return _narrow(F.where(pole, math.nan, out), x)


@composite("gamma")
def gamma(x: Any, /) -> Any:
    """The gamma function, elementwise; NaN at 0, -1, -2, …; relative error as that of ``exp(gammaln(x))``.

    Example:
        >>> dd.special.gamma(dd.array([3.0])).round(3)
        array([2.], dtype=float32)
    """
    y = _wide(x)
    odd = F.remainder(F.floor(y), 2) == 1
    sign = F.where(F.logical_and(y < 0, odd), -1.0, 1.0)
    pole = F.logical_and(y <= 0, y == F.floor(y))
    size = F.exp(gammaln(F.where(pole, 1, y)))
    return _narrow(F.where(pole, math.nan, convert(sign, dtype_of(y)) * size), x)


@composite("betaln")
def betaln(a: Any, b: Any, /) -> Any:
    """The logarithm of the absolute value of the beta function, elementwise with broadcasting.

    Example:
        >>> dd.special.betaln(dd.array([1.0]), 1.0).round(5)
        array([0.], dtype=float32)
    """
    p, q = reals(a, b)
    return gammaln(p) + gammaln(q) - gammaln(p + q)


def _bessel(x: Any, near: Sequence[float], far: Sequence[float]) -> Any:
    """A modified Bessel function times exp(-x), for x >= 0 (that of order 1 near 0 over x)."""
    close = x <= 7.5
    a = F.where(close, x, 0)
    b = F.where(close, 8, x)
    return F.where(close, _horner(a * (2 / 7.5) - 1, near), _horner(15 / b - 1, far) / F.sqrt(b))


@composite("i0e")
def i0e(x: Any, /) -> Any:
    """``exp(-|x|) * i0(x)``, elementwise; within 12 ulp.

    Example:
        >>> dd.special.i0e(dd.array([0.0]))
        array([1.], dtype=float32)
    """
    y = _wide(x)
    return _narrow(F.where(y == 0, 1, _bessel(F.absolute(y), _I0_NEAR, _I0_FAR)), x)


@composite("i1e")
def i1e(x: Any, /) -> Any:
    """``exp(-|x|) * i1(x)``, elementwise; within 12 ulp.

    Example:
        >>> dd.special.i1e(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    y = _wide(x)
    a = F.absolute(y)
    size = _bessel(a, _I1_NEAR, _I1_FAR)
    return _narrow(F.where(a <= 7.5, size * F.where(a <= 7.5, y, 0), F.where(F.less(y, 0), -size, size)), x)


@composite("i0")
def i0(x: Any, /) -> Any:
    """The modified Bessel function of the first kind of order 0, elementwise.

    Example:
        >>> dd.special.i0(dd.array([0.0]))
        array([1.], dtype=float32)
    """
    y = _wide(x)
    return _narrow(F.exp(F.absolute(y)) * i0e(y), x)


@composite("i1")
def i1(x: Any, /) -> Any:
    """The modified Bessel function of the first kind of order 1, elementwise.

    Example:
        >>> dd.special.i1(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    y = _wide(x)
    return _narrow(F.exp(F.absolute(y)) * i1e(y), x)


@composite("xlogy")
def xlogy(x: Any, y: Any, /) -> Any:
    """``x * log(y)``, and 0 where x is 0 (unless y is NaN), elementwise with broadcasting; so are the derivatives.

    Example:
        >>> dd.special.xlogy(dd.array([0.0, 2.0]), dd.array([0.0, 1.0]))
        array([0., 0.], dtype=float32)
    """
    a, b = reals(x, y)
    zero = F.logical_and(a == 0, F.logical_not(F.isnan(b)))
    return F.where(zero, 0, a * F.log(F.where(zero, 1, b)))


@composite("xlog1py")
def xlog1py(x: Any, y: Any, /) -> Any:
    """``x * log(1 + y)``, and 0 where x is 0 (unless y is NaN), elementwise with broadcasting; so are the derivatives.

    Example:
        >>> dd.special.xlog1py(dd.array([0.0, 2.0]), dd.array([-1.0, 0.0]))
        array([0., 0.], dtype=float32)
    """
    a, b = reals(x, y)
    zero = F.logical_and(a == 0, F.logical_not(F.isnan(b)))
    return F.where(zero, 0, a * F.log1p(F.where(zero, 0, b)))


@composite("entr")
def entr(x: Any, /) -> Any:
    """``-x * log(x)``, 0 at 0 and -inf below, elementwise.

    Example:
        >>> dd.special.entr(dd.array([0.0, 1.0, -1.0]))
        array([  0.,  -0., -inf], dtype=float32)
    """
    y = real(x)
    positive = y > 0
    safe = F.where(positive, y, 1)
    return F.where(F.isnan(y), y, F.where(positive, -safe * F.log(safe), F.where(y == 0, 0, -math.inf)))


@composite("logit")
def logit(x: Any, /) -> Any:
    """``log(x / (1 - x))``, elementwise: the inverse of ``sigmoid``.

    Example:
        >>> dd.special.logit(dd.array([0.5]))
        array([0.], dtype=float32)
    """
    y = real(x)
    return F.log(y) - F.log1p(-y)


def expit(x: Any, /) -> Any:
    """``1 / (1 + exp(-x))``; see ``dd.sigmoid``.

    Example:
        >>> dd.special.expit(dd.array([0.0]))
        array([0.5], dtype=float32)
    """
    return F.sigmoid(x)


@composite("ndtr")
def ndtr(x: Any, /) -> Any:
    """The normal distribution function, elementwise, without cancellation in the lower tail.

    Example:
        >>> dd.special.ndtr(dd.array([0.0]))
        array([0.5], dtype=float32)
    """
    return 0.5 * erfc(real(x) * (-1 / math.sqrt(2)))


@composite("log_ndtr")
def log_ndtr(x: Any, /) -> Any:
    """The logarithm of the normal distribution function, elementwise, finite far into the lower tail.

    Example:
        >>> dd.special.log_ndtr(dd.array([0.0]))
        array([-0.6931472], dtype=float32)
    """
    y = real(x)
    low = y < -1
    left, right = F.where(low, y, -1), F.where(low, 0, y)
    tail = F.log(0.5 * erfcx(left * (-1 / math.sqrt(2)))) - 0.5 * left * left
    return F.where(low, tail, F.log1p(-0.5 * erfc(right * (1 / math.sqrt(2)))))


def logsumexp(x: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """``log(sum(b * exp(x)))`` over axes (all by default) without overflow; ``b`` are factors, by default 1.

    Example:
        >>> dd.special.logsumexp(dd.array([0.0, 0.0]), b=dd.array([1.0, 3.0]))
        array(1.3862944, dtype=float32)
    """
    y = real(x)
    if b is not None:
        y, factor = reals(y, b)
        high = F.stop_gradient(F.max(F.where(factor == 0, -math.inf, y), axis, keepdims=True))
    else:
        factor, high = None, F.stop_gradient(F.max(y, axis, keepdims=True, initial=-math.inf))
    high = F.where(F.isfinite(high), high, 0)
    terms = F.exp(y - high)
    total = F.log(F.sum(terms if factor is None else factor * terms, axis, keepdims=True)) + high
    return total if keepdims else F.reshape(total, tuple(F.sum(terms, axis).shape))


def softmax(x: Any, axis: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` over axes (all by default); see ``dd.nn.softmax``.

    Example:
        >>> dd.special.softmax(dd.array([0.0, 0.0]))
        array([0.5, 0.5], dtype=float32)
    """
    y = real(x)
    e = F.exp(y - F.stop_gradient(F.max(y, axis, keepdims=True)))
    return e / F.sum(e, axis, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of ``softmax`` without underflow.

    Example:
        >>> dd.special.log_softmax(dd.array([0.0, 0.0]))
        array([-0.6931472, -0.6931472], dtype=float32)
    """
    y = real(x)
    shifted = y - F.stop_gradient(F.max(y, axis, keepdims=True))
    return shifted - F.log(F.sum(F.exp(shifted), axis, keepdims=True))
