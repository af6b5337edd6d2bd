"""Elementary functions on vectors, within the bounds that the op table states.

Each reduces its argument to a short interval and evaluates a minimax polynomial there (Remez's exchange algorithm;
Muller, "Elementary Functions", 3rd edition, chapters 3 and 11); the coefficients were computed for this file with 50
digits. Reductions of the argument are Cody and Waite's. Functions of float32 that are rarely hot are
evaluated in double and rounded once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from dala_defn.codegen.lanes import Lanes

Body = Callable[[Lanes, str], str]

F, D = "float", "double"
INF = math.inf

# e^r = 1 + r + r*r*P(r) for |r| <= ln(2)/2.
EXP_F = (0.4999999403953552, 0.166665181517601, 0.041668422520160675, 0.008369063958525658, 0.0013813937548547983)
EXPM1_F = (
    *(0.5, 0.1666666716337204, 0.04166634753346443, 0.008333271369338036, 0.0013941519428044558),
    0.0001991496392292902,
)
EXP_D = (
    *(0.5, 0.16666666666666685, 0.04166666666666607, 0.00833333333331638, 0.001388888888912306),
    *(0.00019841269898032015, 2.4801586917880106e-05, 2.755723319120118e-06, 2.755758537893056e-07),
    *(2.5112626914761213e-08, 2.0826560877742643e-09),
)
EXPM1_D = (
    *(0.5, 0.16666666666666677, 0.041666666666666706, 0.008333333333321149, 0.0013888888888866056),
    *(0.00019841269887495427, 2.4801587362173396e-05, 2.755724269873282e-06, 2.7557241334694585e-07),
    *(2.5109605074854483e-08, 2.0924892584968678e-09),
)
EXP_MEDIUM = (
    *(0.5000000000443953, 0.16666666788008833, 0.04166666433793097, 0.008333280772501618, 0.0013889203086385775),
    *(0.00019909616180743936, 2.4707471819751904e-05),
)
# log(1 + f) = f - f*f/2 + f^3 * Q(f) for sqrt(1/2) <= 1 + f <= sqrt(2).
LOG_F = (
    *(0.3333331048488617, -0.24999986588954926, 0.20002217590808868, -0.16669239103794098, 0.14218825101852417),
    *(-0.12384633719921112, 0.1187211200594902, -0.1178792342543602, 0.06914977729320526),
)
# log(1 + f) = 2s + s*z*R(z) with s = f / (2 + f), z = s*s.
LOG_D = (
    *(0.6666666666666666, 0.40000000000006286, 0.28571428569072976, 0.2222222264874787, 0.1818177550873337),
    *(0.15387097642516964, 0.13249962189993963, 0.1325275358344789),
)
# erf(x) = x * S(x*x) for |x| < 1; log(erfc(x)) for 1 <= x < 4.
ERF_SMALL = (
    *(1.128379225730896, -0.37612637877464294, 0.11283782124519348, -0.0268654003739357, 0.005220945458859205),
    *(-0.000848282768856734, 0.00011256941797910258, -9.641499673307408e-06),
)
ERF_LARGE = (
    *(0.00010254982043989003, -1.1290758848190308, -0.6345109343528748, -0.10651791840791702, 0.023441985249519348),
    *(-0.003130685305222869, 1.4378727428265847e-05, 8.531013736501336e-05, -1.533080285298638e-05),
    9.566324479237664e-07,
)
# sin(r) = r + r^3 S(r*r), cos(r) = 1 - r*r/2 + r^4 C(r*r) for |r| <= pi/4.
SIN_F = (-0.1666666716337204, 0.008333329111337662, -0.00019839256128761917, 2.7175644845556235e-06)
COS_F = (0.0416666679084301, -0.0013888883404433727, 2.479943577782251e-05, -2.720331906402862e-07)
SIN_D = (
    *(-0.16666666666666627, 0.008333333333321286, -0.00019841269828870228, 2.7557313356032234e-06),
    *(-2.505070404033661e-08, 1.589358386598585e-10),
)
COS_D = (
    *(0.04166666666666659, -0.00138888888888726, 2.4801587288492406e-05, -2.7557314056636083e-07),
    *(2.087568188446893e-09, -1.1357448791122359e-11),
)
# atan(x) = x * A(x*x) for |x| <= 1.
ATAN = (
    *(0.9999999999985065, -0.33333333272653093, 0.19999995897782968, -0.14285604433981897, 0.11109563831357121),
    *(-0.09077707774784119, 0.07618170258511006, -0.06377433860770099, 0.05068035502693192, -0.03557374091703335),
    *(0.020218849313474754, -0.008408905069857813, 0.0022205351225330215, -0.00027543653289862914),
)
# asin(x) = x + x^3 B(x*x) for |x| <= 1/2.
ASIN = (
    *(0.16666666666437036, 0.07500000043665092, 0.04464282844030218, 0.03038287589463978),
    *(0.022354872834381496, 0.017549711686690495, 0.012547739359134337, 0.01794534449765225),
    *(-0.007367046349196427, 0.03155938890273011),
)

LOG2E = 1 / math.log(2)
LN2_F = (0.693359375, -0.00021219444170128554)  # in two parts: the first times any exponent is exact
LN2_D = (0.693147180369123816490, 1.90821492927058770002e-10)
HALF_PI_D = (math.pi / 2, 6.123233995736766e-17)


def ieee(elem: str) -> tuple[str, int, int, float]:
    """The integer type of this width, bits of the fraction, bias, and the number that rounds to whole when added."""
    return ("i32", 23, 127, 1.5 * 2.0**23) if elem == F else ("i64", 52, 1023, 1.5 * 2.0**52)


class Maths:
    """The functions of one element type, on the lanes of a builder."""

    def __init__(self, b: Lanes, elem: str) -> None:
        self.b = b
        self.elem = elem
        self.int, self.fraction, self.bias, self.magic = ieee(elem)

    def c(self, value: float) -> str:
        """A float constant."""
        return self.b.const(self.elem, value)

    def i(self, value: int) -> str:
        """An integer constant of the same width."""
        return self.b.const(self.int, value)

    def op(self, name: str, *args: str) -> str:
        """A float instruction."""
        return self.b.op(name, self.elem, *args)

    def iop(self, name: str, *args: str) -> str:
        """An integer instruction."""
        return self.b.op(name, self.int, *args)

    def fma(self, x: str, y: str, z: str) -> str:
        """x * y + z."""
        return self.b.fma(self.elem, x, y, z)

    def poly(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial."""
        return self.b.poly(self.elem, x, coefficients)

    def abs(self, x: str) -> str:
        """|x|."""
        return self.b.intrinsic("fabs", self.elem, x)

    def sqrt(self, x: str) -> str:
        """The square root, correctly rounded."""
        return self.b.intrinsic("sqrt", self.elem, x)

    def copysign(self, x: str, sign: str) -> str:
        """|x| with the sign of another."""
        return self.b.intrinsic("copysign", self.elem, x, sign)

    def where(self, cond: str, x: str, y: str) -> str:
        """x where the condition holds, else y."""
        return self.b.select(self.elem, cond, x, y)

    def test(self, how: str, x: str, y: str) -> str:
        """A comparison."""
        return self.b.compare(how, self.elem, x, y)

    def bits(self, x: str) -> str:
        """The bits as an integer."""
        return self.b.convert("bitcast", self.elem, self.int, x)

    def from_bits(self, x: str) -> str:
        """The float of these bits."""
        return self.b.convert("bitcast", self.int, self.elem, x)

    def clamp(self, x: str, low: float, high: float) -> str:
        """Into a range; NaN stays."""
        x = self.where(self.test("ogt", x, self.c(high)), self.c(high), x)
        return self.where(self.test("olt", x, self.c(low)), self.c(low), x)

    def whole(self, x: str, scale: float) -> tuple[str, str]:
        """The nearest whole number of ``x * scale``, as a float and as an integer."""
        t = self.fma(x, self.c(scale), self.c(self.magic))
        n = self.op("fsub", t, self.c(self.magic))
        low = self.iop("sub", self.bits(t), self.bits_of(self.magic))
        return n, low

    def bits_of(self, value: float) -> str:
        """The bits of a constant."""
        code = "fi" if self.elem == F else "dq"
        return self.i(int(struct.unpack(code[1], struct.pack(code[0], value))[0]))

    def power_of_two(self, n: str) -> str:
        """2 to an exponent within the normal range."""
        return self.from_bits(self.iop("shl", self.iop("add", n, self.i(self.bias)), self.i(self.fraction)))

    def scaled(self, p: str, n: str) -> str:
        """p * 2^n in two steps, so that subnormal results are rounded once and overflow gives infinity."""
        half = self.iop("ashr", n, self.i(1))
        rest = self.iop("sub", n, half)
        return self.op("fmul", self.op("fmul", p, self.power_of_two(half)), self.power_of_two(rest))

    def reduced(self, x: str) -> tuple[str, str]:
        """x = n ln(2) + r: gives r and the integer n."""
        n, bits = self.whole(x, LOG2E)
        if self.elem == F:
            r = self.fma(n, self.c(-LN2_F[0]), x)
            return self.fma(n, self.c(-LN2_F[1]), r), bits
        r = self.fma(n, self.c(-LN2_D[0]), x)
        return self.fma(n, self.c(-LN2_D[1]), r), bits

    def exp(self, x: str) -> str:
        """e to the x."""
        x = self.clamp(x, -104.5, 89.0) if self.elem == F else self.clamp(x, -746.0, 710.0)
        r, n = self.reduced(x)
        p = self.poly(r, EXP_F if self.elem == F else EXP_D)
        p = self.op("fadd", self.fma(self.op("fmul", r, r), p, r), self.c(1))
        return self.scaled(p, n)

    def exp_medium(self, x: str) -> str:
        """e to the x in double, to about 2^-39, for results that are rounded to float32."""
        r, n = self.reduced(self.clamp(x, -300.0, 300.0))
        p = self.poly(r, EXP_MEDIUM)
        p = self.op("fadd", self.fma(self.op("fmul", r, r), p, r), self.c(1))
        return self.op("fmul", p, self.power_of_two(n))

    def expm1(self, x: str) -> str:
        """e to the x, less 1."""
        given = x
        x = self.clamp(x, -18.0, 89.0) if self.elem == F else self.clamp(x, -40.0, 710.0)
        r, n = self.reduced(x)
        p = self.poly(r, EXPM1_F if self.elem == F else EXPM1_D)
        m = self.fma(self.op("fmul", r, r), p, r)
        # 2^n (1 + m) - 1 = 2 (2^(n-1) m + (2^(n-1) - 1/2)), which does not overflow early.
        s = self.power_of_two(self.iop("sub", n, self.i(1)))
        y = self.op("fmul", self.fma(s, m, self.op("fsub", s, self.c(0.5))), self.c(2))
        return self.where(self.test("oeq", given, self.c(0)), given, y)

    def mantissa(self, x: str) -> tuple[str, str]:
        """x = 2^e m with sqrt(1/2) <= m < sqrt(2): gives e as a float, and m - 1."""
        small = self.test("olt", x, self.c(2.0 ** (1 - self.bias)))
        lift = 2.0 ** (self.fraction + 2)
        x = self.where(small, self.op("fmul", x, self.c(lift)), x)
        bits = self.bits(x)
        root = self.bits_of(math.sqrt(0.5))
        e = self.iop("ashr", self.iop("sub", bits, root), self.i(self.fraction))
        m = self.from_bits(self.iop("sub", bits, self.iop("shl", e, self.i(self.fraction))))
        # An integer this small becomes a float by its bits: int64 to double has no instruction before AVX-512.
        at = self.from_bits(self.iop("add", e, self.bits_of(self.magic)))
        n = self.op("fsub", at, self.c(self.magic))
        n = self.where(small, self.op("fsub", n, self.c(self.fraction + 2)), n)
        return n, self.op("fsub", m, self.c(1))

    def log(self, x: str) -> str:
        """The natural logarithm."""
        e, f = self.mantissa(x)
        half = self.op("fmul", self.op("fmul", f, f), self.c(0.5))
        if self.elem == F:
            z = self.op("fmul", f, f)
            tail = self.op("fmul", self.op("fmul", z, f), self.poly(f, LOG_F))
            tail = self.fma(e, self.c(LN2_F[1]), tail)
            tail = self.op("fsub", tail, half)
            y = self.fma(e, self.c(LN2_F[0]), self.op("fadd", f, tail))
        else:
            s = self.op("fdiv", f, self.op("fadd", f, self.c(2)))
            z = self.op("fmul", s, s)
            r = self.op("fmul", z, self.poly(z, LOG_D))
            t = self.fma(s, self.op("fadd", half, r), self.op("fmul", e, self.c(LN2_D[1])))
            y = self.fma(e, self.c(LN2_D[0]), self.op("fsub", f, self.op("fsub", half, t)))
        return self.log_edges(x, y)

    def log_edges(self, x: str, y: str) -> str:
        """NaN below 0, -inf at 0, inf at inf."""
        y = self.where(self.test("oeq", x, self.c(INF)), x, y)
        y = self.where(self.test("oeq", x, self.c(0)), self.c(-INF), y)
        return self.where(self.test("ult", x, self.c(0)), self.c(math.nan), y)

    def log1p(self, u: str) -> str:
        """log(1 + u): what rounding 1 + u loses is put back."""
        w = self.op("fadd", u, self.c(1))
        lost = self.op("fsub", u, self.op("fsub", w, self.c(1)))
        y = self.op("fadd", self.log(w), self.op("fdiv", lost, w))
        y = self.where(self.test("oeq", u, self.c(INF)), u, y)
        y = self.where(self.test("oeq", u, self.c(-1)), self.c(-INF), y)
        return self.where(self.test("oeq", w, self.c(1)), u, y)

    def tanh(self, x: str) -> str:
        """expm1(2|x|) / (expm1(2|x|) + 2), with the sign of x."""
        a = self.abs(x)
        limit = 10.0 if self.elem == F else 20.0
        a = self.where(self.test("ogt", a, self.c(limit)), self.c(limit), a)
        m = self.expm1(self.op("fadd", a, a))
        y = self.op("fdiv", m, self.op("fadd", m, self.c(2)))
        return self.copysign(y, x)

    def sigmoid(self, x: str) -> str:
        """e / (1 + e) with e = exp(-|x|), or 1 less that."""
        e = self.exp(self.op("fsub", self.c(-0.0), self.abs(x)))
        top = self.where(self.test("oge", x, self.c(0)), self.c(1), e)
        return self.op("fdiv", top, self.op("fadd", e, self.c(1)))

    def erf(self, x: str) -> str:
        """The error function of float32."""
        a = self.abs(x)
        small = self.op("fmul", x, self.poly(self.op("fmul", x, x), ERF_SMALL))
        t = self.where(self.test("ogt", a, self.c(3.95)), self.c(3.95), a)
        large = self.copysign(self.op("fsub", self.c(1), self.exp(self.poly(t, ERF_LARGE))), x)
        large = self.where(self.test("ogt", a, self.c(3.9192059)), self.copysign(self.c(1), x), large)
        y = self.where(self.test("olt", a, self.c(1)), small, large)
        return self.where(self.test("uno", x, x), x, y)


def in_double(f: Callable[[Maths, str], str]) -> Body:
    """A function of float32 through double."""

    def body(b: Lanes, x: str) -> str:
        wide = b.convert("fpext", F, D, x)
        return b.convert("fptrunc", D, F, f(Maths(b, D), wide))

    return body


def _quadrant(b: Lanes, x: str) -> tuple[Maths, str, str]:
    """x - q pi/2 in double, and q as an integer, for |x| below 2^22."""
    m = Maths(b, D)
    wide = b.convert("fpext", F, D, x)
    n, q = m.whole(wide, 2 / math.pi)
    r = m.fma(n, m.c(-HALF_PI_D[0]), wide)
    return m, m.fma(n, m.c(-HALF_PI_D[1]), r), q


def _sine(shift: int) -> Body:
    """sin, or with a shift of one quadrant cos, of float32."""

    def body(b: Lanes, x: str) -> str:
        _m, wide, q64 = _quadrant(b, x)
        r = b.convert("fptrunc", D, F, wide)
        q = b.convert("trunc", "i64", "i32", q64)
        if shift:
            q = b.op("add", "i32", q, b.const("i32", shift))
        s = Maths(b, F)
        u = s.op("fmul", r, r)
        sine = s.fma(s.op("fmul", s.op("fmul", r, u), s.c(1)), s.poly(u, SIN_F), r)
        cosine = s.op("fadd", s.fma(s.op("fmul", u, u), s.poly(u, COS_F), s.op("fmul", u, s.c(-0.5))), s.c(1))
        odd = b.compare("ne", "i32", b.op("and", "i32", q, b.const("i32", 1)), b.const("i32", 0))
        y = s.where(odd, cosine, sine)
        sign = b.op("shl", "i32", b.op("and", "i32", q, b.const("i32", 2)), b.const("i32", 30))
        return s.from_bits(b.op("xor", "i32", s.bits(y), sign))

    return body


def _tan(b: Lanes, x: str) -> str:
    m, r, q = _quadrant(b, x)
    u = m.op("fmul", r, r)
    sine = m.fma(m.op("fmul", r, u), m.poly(u, SIN_D), r)
    cosine = m.op("fadd", m.fma(m.op("fmul", u, u), m.poly(u, COS_D), m.op("fmul", u, m.c(-0.5))), m.c(1))
    odd = b.compare("ne", "i64", b.op("and", "i64", q, b.const("i64", 1)), b.const("i64", 0))
    top = m.where(odd, m.op("fsub", m.c(-0.0), cosine), sine)
    return b.convert("fptrunc", D, F, m.op("fdiv", top, m.where(odd, sine, cosine)))


def _atan(m: Maths, x: str) -> str:
    a = m.abs(x)
    large = m.test("ogt", a, m.c(1))
    t = m.where(large, m.op("fdiv", m.c(1), a), a)
    y = m.op("fmul", t, m.poly(m.op("fmul", t, t), ATAN))
    return m.copysign(m.where(large, m.op("fsub", m.c(math.pi / 2), y), y), x)


def atan2(m: Maths, y: str, x: str) -> str:
    """The angle of (x, y) in double, for operands that come from float32."""
    ay, ax = m.abs(y), m.abs(x)
    swap = m.test("ogt", ay, ax)
    top, bottom = m.where(swap, ax, ay), m.where(swap, ay, ax)
    both = m.test("oeq", top, bottom)  # 1 also for two infinities; two zeros have the angle 0 before the quadrant
    t = m.where(both, m.c(1), m.op("fdiv", top, bottom))
    t = m.where(m.test("oeq", bottom, m.c(0)), m.c(0), t)
    a = m.op("fmul", t, m.poly(m.op("fmul", t, t), ATAN))
    a = m.where(swap, m.op("fsub", m.c(math.pi / 2), a), a)
    left = m.b.compare("slt", "i64", m.bits(x), m.i(0))
    a = m.where(left, m.op("fsub", m.c(math.pi), a), a)
    a = m.copysign(a, y)
    return m.where(m.test("uno", x, y), m.op("fadd", x, y), a)


def _asin_core(m: Maths, t: str) -> str:
    u = m.op("fmul", t, t)
    return m.fma(m.op("fmul", t, u), m.poly(u, ASIN), t)


def _asin_parts(m: Maths, x: str) -> tuple[str, str]:
    """asin of t, which is |x| or, above a half, sqrt((1 - |x|) / 2)."""
    a = m.abs(x)
    large = m.test("ogt", a, m.c(0.5))
    far = m.sqrt(m.op("fmul", m.op("fsub", m.c(1), a), m.c(0.5)))
    return large, _asin_core(m, m.where(large, far, a))


def _asin(m: Maths, x: str) -> str:
    large, y = _asin_parts(m, x)
    far = m.fma(y, m.c(-2), m.c(math.pi / 2))
    return m.copysign(m.where(large, far, y), x)


def _acos(m: Maths, x: str) -> str:
    large, y = _asin_parts(m, x)
    near = m.op("fsub", m.c(math.pi / 2), m.copysign(y, x))
    twice = m.op("fadd", y, y)
    far = m.where(m.test("olt", x, m.c(0)), m.op("fsub", m.c(math.pi), twice), twice)
    return m.where(large, far, near)


def _sinh(m: Maths, x: str) -> str:
    e = m.expm1(m.abs(x))
    y = m.op("fmul", m.op("fadd", e, m.op("fdiv", e, m.op("fadd", e, m.c(1)))), m.c(0.5))
    return m.copysign(m.where(m.test("oeq", e, m.c(INF)), e, y), x)


def _cosh(m: Maths, x: str) -> str:
    e = m.exp(m.abs(x))
    return m.op("fmul", m.op("fadd", e, m.op("fdiv", m.c(1), e)), m.c(0.5))


def _asinh(m: Maths, x: str) -> str:
    a = m.abs(x)
    square = m.op("fmul", a, a)
    root = m.op("fadd", m.sqrt(m.op("fadd", square, m.c(1))), m.c(1))
    y = m.log1p(m.op("fadd", a, m.op("fdiv", square, root)))
    return m.copysign(m.where(m.test("oeq", a, m.c(INF)), a, y), x)


def _acosh(m: Maths, x: str) -> str:
    t = m.op("fsub", x, m.c(1))
    y = m.log1p(m.op("fadd", t, m.sqrt(m.op("fmul", t, m.op("fadd", t, m.c(2))))))
    y = m.where(m.test("oeq", x, m.c(1)), m.c(0), y)
    return m.where(m.test("ult", x, m.c(1)), m.c(math.nan), y)


def _atanh(m: Maths, x: str) -> str:
    a = m.abs(x)
    u = m.op("fdiv", m.op("fadd", a, a), m.op("fsub", m.c(1), a))
    return m.copysign(m.op("fmul", m.log1p(u), m.c(0.5)), x)


def power(b: Lanes, x: str, p: str) -> str:
    """x to the p of float32, through double: C's rules at the edges."""
    m = Maths(b, D)
    wide, e = b.convert("fpext", F, D, x), b.convert("fpext", F, D, p)
    a = m.abs(wide)
    y = m.exp_medium(m.op("fmul", e, m.log(a)))
    whole = m.b.intrinsic("rint", D, e)
    half = m.op("fmul", e, m.c(0.5))
    is_whole = m.test("oeq", whole, e)
    is_odd = b.op("and", "i1", is_whole, m.test("one", m.b.intrinsic("rint", D, half), half))
    negative = b.compare("slt", "i64", m.bits(wide), m.i(0))
    flipped = b.op("and", "i1", is_odd, negative)
    y = m.where(flipped, m.op("fsub", m.c(-0.0), y), y)
    ordinary = b.op("and", "i1", m.test("olt", wide, m.c(0)), m.test("one", a, m.c(INF)))
    undefined = b.op("and", "i1", ordinary, b.op("xor", "i1", is_whole, b.const("i1", 1)))
    y = m.where(undefined, m.c(math.nan), y)
    unit = b.op("or", "i1", m.test("oeq", wide, m.c(1)), m.test("oeq", e, m.c(0)))
    endless = b.op("and", "i1", m.test("oeq", a, m.c(1)), m.test("oeq", m.abs(e), m.c(INF)))
    y = m.where(b.op("or", "i1", unit, endless), m.c(1), y)
    return b.convert("fptrunc", D, F, y)


# Above this the reduction of an angle needs more digits of pi than it has: libm takes over, lane by lane.
LARGE_ANGLE = 2.0**22


def _any_angle(near: Body, far: str) -> Body:
    def body(b: Lanes, x: str) -> str:
        m = Maths(b, F)
        b.put("entry:")
        y = near(b, x)
        a = m.abs(x)
        large = b.op("and", "i1", m.test("oge", a, m.c(LARGE_ANGLE)), m.test("olt", a, m.c(INF)))
        b.put("  br label %test\ntest:")
        reduce = f"llvm.vector.reduce.or.v{b.width}i1"
        b.module.declared[f"declare i1 @{reduce}({b.type('i1')})"] = None
        found = b.add(f"call i1 @{reduce}({b.type('i1')} {large})")
        b.put(f"  br i1 {found}, label %slow, label %done, !prof !0\nslow:")
        # The others keep theirs: no lane's result may depend on its neighbours.
        z = m.where(large, b.each(far, F, x), y)
        b.put("  br label %done\ndone:")
        return b.add(f"phi {b.type(F)} [ {y}, %test ], [ {z}, %slow ]")

    return body


FLOAT: dict[str, Body] = {
    "exp": lambda b, x: Maths(b, F).exp(x),
    "expm1": lambda b, x: Maths(b, F).expm1(x),
    "log": lambda b, x: Maths(b, F).log(x),
    "log1p": in_double(Maths.log1p),
    "sin": _any_angle(_sine(0), "sinf"),
    "cos": _any_angle(_sine(1), "cosf"),
    "tan": _any_angle(_tan, "tanf"),
    "arcsin": in_double(_asin),
    "arccos": in_double(_acos),
    "arctan": in_double(_atan),
    "sinh": in_double(_sinh),
    "cosh": in_double(_cosh),
    "tanh": lambda b, x: Maths(b, F).tanh(x),
    "arcsinh": in_double(_asinh),
    "arccosh": in_double(_acosh),
    "arctanh": in_double(_atanh),
    "erf": lambda b, x: Maths(b, F).erf(x),
    "sigmoid": lambda b, x: Maths(b, F).sigmoid(x),
}
DOUBLE: dict[str, Body] = {
    "exp": lambda b, x: Maths(b, D).exp(x),
    "expm1": lambda b, x: Maths(b, D).expm1(x),
    "log": lambda b, x: Maths(b, D).log(x),
    "log1p": lambda b, x: Maths(b, D).log1p(x),
    "tanh": lambda b, x: Maths(b, D).tanh(x),
    "sigmoid": lambda b, x: Maths(b, D).sigmoid(x),
}
