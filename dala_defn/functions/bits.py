"""The bits of numbers."""

from __future__ import annotations

from typing import Any

from dala_defn import dtypes
from dala_defn.errors import ArgumentTypeError, DTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, own, same
from dala_defn.functions.complexes import complex as _complex
from dala_defn.functions.complexes import imag, real
from dala_defn.functions.shape import cut, reshape, stack
from dala_defn.ops.spec import OPS
from dala_defn.shapes import floordiv, same_size, show


def view(x: Any, dtype: Any) -> Any:
    """The same bits as another dtype, as ``ndarray.view``: where the sizes differ the last axis grows or shrinks.

    Complex numbers are pairs of real ones. Derivatives do not pass.

    Raises:
        DTypeError: for bool, whose bits say nothing else than 0 and 1.
        ShapeError: for dtypes of different sizes, on rank 0 or where the last axis does not hold whole numbers.

    Example:
        >>> dd.view(dd.array([1.0]), dd.uint32)
        array([1065353216], dtype=uint32)
    """
    x, to = own(x), dtypes.as_dtype(dtype)
    source = dtype_of(x)
    if source is to:
        return same(x)
    if to.kind == "b":
        raise DTypeError(f"view of {source} as bool", hint="x != 0")
    if (source.kind == "c" or to.kind == "c") and not x.shape:
        if (source.kind == "c" and to.kind == "c") or source.itemsize != to.itemsize:
            raise ShapeError(f"view of {source} as {to} on rank 0: the sizes differ")
        return reshape(view(reshape(x, (1,)), to), ())
    if source.kind == "c":
        parts = stack([real(x), imag(x)], -1)
        return view(reshape(parts, (*x.shape[:-1], x.shape[-1] * 2)), to)
    if to.kind != "c":
        return OPS["bitcast"](x, dtype=to)
    parts = view(x, dtypes.real_of(to))
    n = parts.shape[-1]
    half = floordiv(n, 2)
    if not same_size(half * 2, n, "view"):
        raise ShapeError(f"view as {to}: the last axis of {show(parts.shape)} does not hold whole pairs")
    pairs, last = reshape(parts, (*parts.shape[:-1], half, 2)), len(parts.shape)
    shape = tuple(pairs.shape[:-1])
    return _complex(*(reshape(cut(pairs, last, i, i + 1), shape) for i in (0, 1)))


bitcast = view


def _integer(name: str, x: Any) -> Any:
    x = own(x)
    if not dtype_of(x).is_integer:
        raise ArgumentTypeError(f"{name} takes integers, not {dtype_of(x)}")
    return x


def bitwise_count(x: Any, /) -> Any:
    """The number of ones in the binary form of the magnitude of each integer; uint8.

    Raises:
        ArgumentTypeError: for what is no integer.

    Example:
        >>> dd.bitwise_count(dd.array([7, -8]))
        array([3, 1], dtype=uint8)
    """
    return convert(OPS["popcount"](E.absolute(_integer("bitwise_count", x))), dtypes.uint8)


def clz(x: Any, /) -> Any:
    """How many zeros stand before the first one in the bits of each integer; the dtype stays.

    Raises:
        ArgumentTypeError: for what is no integer.

    Example:
        >>> dd.clz(dd.array([1, 255, -1, 0]))
        array([31, 24,  0, 32], dtype=int32)
    """
    return OPS["clz"](_integer("clz", x))


__all__ = ["bitcast", "bitwise_count", "clz", "view"]
