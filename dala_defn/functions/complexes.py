"""The parts of complex numbers, and numbers from their parts."""

from __future__ import annotations

import math
from typing import Any

from dala_defn import dtypes
from dala_defn.functions.base import convert, dtype_of, inexact, operands, same, value
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import OPS


def real(x: Any, /) -> Any:
    """The real part, elementwise: float32 of complex64, float64 of complex128; real arrays are their own.

    Example:
        >>> dd.real(dd.array([1 + 2j]))
        array([1.], dtype=float32)
    """
    x = value(x)
    return OPS["real"](x) if dtype_of(x).kind == "c" else same(x)


def imag(x: Any, /) -> Any:
    """The imaginary part, elementwise: float32 of complex64, float64 of complex128; zeros for real arrays.

    Example:
        >>> dd.imag(dd.array([1 + 2j]))
        array([2.], dtype=float32)
    """
    x = value(x)
    if dtype_of(x).kind == "c":
        return OPS["imag"](x)
    zero = lit(0, dtype_of(x))
    return zero if x.shape == () else OPS["broadcast_to"](zero, shape=tuple(x.shape))


def conj(x: Any, /) -> Any:
    """The complex conjugate, elementwise; real arrays are their own.

    Example:
        >>> dd.conj(dd.array([1 + 2j]))
        array([1.-2.j], dtype=complex64)
    """
    x = value(x)
    return OPS["conj"](x) if dtype_of(x).kind == "c" else same(x)


conjugate = conj


def complex(real: Any, imag: Any = 0.0, /) -> Any:
    """Complex numbers from real and imaginary parts, which broadcast: complex128 of float64, else complex64.

    Raises:
        DTypeError: for parts that are complex themselves.

    Example:
        >>> dd.complex(dd.array([1.0, 2.0]), -1)
        array([1.-1.j, 2.-1.j], dtype=complex64)
    """
    a, b = operands(value(real), value(imag))
    to = dtype_of(a) if dtype_of(a).kind == "c" else dtypes.real_of(dtypes.complex_of(dtype_of(a)))
    return OPS["complex"](convert(a, to), convert(b, to))


def angle(x: Any, deg: bool = False) -> Any:
    """The angle to the positive real axis, elementwise, in (-pi, pi], or in degrees.

    Of real numbers it is 0, or pi for negative ones.

    Example:
        >>> dd.angle(dd.array([1j, -1.0]), deg=True)
        array([ 90., 180.], dtype=float32)
    """
    x = inexact(x)
    out = OPS["arctan2"](imag(x), real(x))
    return OPS["mul"](out, lit(180 / math.pi, dtype_of(out))) if deg else out


def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = dtype_of(y if isinstance(x, float) else x)
    return OPS["select"](condition, convert(x, dtype), convert(y, dtype))


def parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary parts of complex numbers."""
    return OPS["real"](x), OPS["imag"](x)


def isinf(x: Any) -> Any:
    """Whether either part of complex numbers is infinite."""
    parts = (OPS["abs"](OPS[part](x)) for part in ("real", "imag"))
    return OPS["bitwise_or"](*(OPS["equal"](p, lit(math.inf, dtype_of(p))) for p in parts))


def direction(x: Any) -> Any:
    """``x / abs(x)`` of complex numbers, 0 at 0: their sign. Along an infinite axis it is a unit of that axis."""
    a, b = OPS["real"](x), OPS["imag"](x)
    most = OPS["stop_gradient"](OPS["maximum"](OPS["abs"](a), OPS["abs"](b)))
    nothing = OPS["equal"](most, lit(0, a.dtype))
    scale = _where(nothing, 1.0, most)
    u, v = OPS["div"](a, scale), OPS["div"](b, scale)
    size = _where(nothing, 1.0, OPS["abs"](OPS["complex"](u, v)))

    def part(near: Any, x: Any, other: Any) -> Any:
        here, there = (OPS["equal"](OPS["abs"](p), lit(math.inf, p.dtype)) for p in (x, other))
        unit = _where(there, math.nan, OPS["sign"](x))
        return _where(here, unit, _where(OPS["bitwise_or"](there, nothing), 0.0, OPS["div"](near, size)))

    return OPS["complex"](part(u, a, b), part(v, b, a))


__all__ = ["angle", "complex", "conj", "conjugate", "imag", "real"]
