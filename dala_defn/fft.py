"""Discrete Fourier transforms of any length, with NumPy's names, and what goes with them.

Everything is linear, and so are the derivatives. A cotangent of complex numbers pairs without a conjugate, as
everywhere here: that of ``fft`` is ``fft`` of the cotangent. float16 and bfloat16 are transformed as float32, integers
and bool too; complex64 and complex128 stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.composites import composite
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dim_value, dtype_of, literal, own
from dala_defn.functions.shape import cut
from dala_defn.functions.types import check_device
from dala_defn.ops.bind import current_trace
from dala_defn.ops.creation import lit
from dala_defn.ops.fourier import half_size
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, normalize_axis, show, size

_NORMS = ("backward", "ortho", "forward")
_Axes = Sequence[int] | None


def _norm(norm: str | None) -> str:
    if norm is not None and norm not in _NORMS:
        raise ArgumentError(f"norm {norm!r} is not there", hint=", ".join(map(repr, _NORMS)))
    return norm or "backward"


def _turned(norm: str | None) -> str:
    return {"backward": "forward", "forward": "backward", "ortho": "ortho"}[_norm(norm)]


def _operand(x: Any) -> Any:
    """Floats or complex numbers of 32 or 64 bits a part."""
    x = own(x)
    dtype = dtypes.to_inexact(dtype_of(x))
    return convert(x, dtype if dtype.itemsize >= 4 else dtypes.float32)


def _pairs(x: Any) -> Any:
    """Complex numbers as pairs in a last axis."""
    return F.stack([F.real(x), F.imag(x)], -1)


def _whole(p: Any) -> Any:
    """Pairs in the last axis as complex numbers."""
    shape, last = tuple(p.shape[:-1]), len(p.shape) - 1
    return OPS["complex"](*(F.reshape(cut(p, last, i, i + 1), shape) for i in (0, 1)))


def _sized(p: Any, axis: int, n: Dim, name: str) -> Any:
    """The first ``n`` elements of an axis, filled up with zeros."""
    have = p.shape[axis]
    if isinstance(n, int) and n < 1:
        raise ArgumentError(f"{name} of {n} samples")
    if have == n:
        return p
    if not isinstance(n, int) or not isinstance(have, int):
        raise ShapeError(f"{name}: {n} samples of {show(p.shape)}, whose size is not known", hint="n= left out")
    if have > n:
        return cut(p, axis, 0, n)
    more = tuple(n - have if i == axis else 0 for i in range(len(p.shape)))
    none = (0,) * len(p.shape)
    return OPS["pad"](p, lit(0, dtype_of(p)), low=none, high=more, interior=none)


def _scaled(p: Any, sizes: Sequence[Dim], norm: str, inverse: bool) -> Any:
    """What the norm asks for after a transform over axes of these sizes."""
    if norm == ("forward" if inverse else "backward"):
        return p
    n = size(sizes)
    if isinstance(n, int):
        return p * (n**-0.5 if norm == "ortho" else 1 / n)
    count = dim_value(n, dtype_of(p))
    return p * F.rsqrt(count) if norm == "ortho" else p / count


def _mirrored(half: Any, axis: int, n: int) -> Any:
    """All frequencies of ``n`` real numbers: the upper ones are conjugates of the lower ones."""
    upper = F.flip(cut(half, axis, 1, n - n // 2), axis)
    last = len(half.shape) - 1
    if upper.shape[axis] == 0:
        return half
    turned = F.concatenate([cut(upper, last, 0, 1), -cut(upper, last, 1, 2)], last)
    return F.concatenate([half, turned], axis)


def _lines(name: str, x: Any, n: Dim | None, axis: int) -> tuple[Any, int, Dim]:
    """The operand, an axis of it, and how many of its elements are transformed."""
    x = _operand(x)
    if not x.shape:
        raise ShapeError(f"{name} of an array of rank 0")
    place = normalize_axis(axis, len(x.shape))
    n = x.shape[place] if n is None else n
    if isinstance(n, int) and n < 1:
        raise ArgumentError(f"{name} of {n} samples", rule="at least one")
    return x, place, n


def _eager(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is one small program outside of traces, and its ops inside."""
    whole = composite(f.__name__.lstrip("_"))(f)
    return lambda x, **given: (f if current_trace() is not None else whole)(x, **given)


@_eager
def _transform(
    x: Any, /, *, name: str, sizes: Sequence[Dim], axes: Sequence[int], norm: str | None, inverse: bool
) -> Any:
    """A transform over several axes, the last of them first; each may stand several times."""
    norm, done = _norm(norm), False
    p = x
    for n, axis in zip(reversed(sizes), reversed(axes), strict=True):
        p = _sized(p, axis, n, name)
        if done:
            p = OPS["fft"](p, axis=axis, inverse=inverse)
        elif dtype_of(x).kind != "c" and isinstance(n, int):
            p = _mirrored(OPS["rfft"](p, axis=axis), axis, n)
            p = p * literal(np.array([1, -1]), dtype_of(p)) if inverse else p
        else:
            p = OPS["fft"](_pairs(p if dtype_of(p).kind == "c" else F.complex(p)), axis=axis, inverse=inverse)
        done = True
    return _whole(_scaled(p if done else _pairs(F.complex(p) if dtype_of(p).kind != "c" else p), sizes, norm, inverse))


@_eager
def _half(x: Any, /, *, sizes: Sequence[Dim], axes: Sequence[int], norm: str) -> Any:
    """The transform of real numbers over several axes, half of the last one."""
    p = OPS["rfft"](_sized(x, axes[-1], sizes[-1], "rfftn"), axis=axes[-1])
    for n, axis in zip(sizes[-2::-1], axes[-2::-1], strict=True):
        p = OPS["fft"](_sized(p, axis, n, "rfftn"), axis=axis, inverse=False)
    return _whole(_scaled(p, sizes, norm, False))


@_eager
def _back(x: Any, /, *, sizes: Sequence[Dim], axes: Sequence[int], norm: str) -> Any:
    """The inverse of ``_half``."""
    p = _pairs(x if dtype_of(x).kind == "c" else F.complex(x))
    for n, axis in zip(sizes[:-1], axes[:-1], strict=True):
        p = OPS["fft"](_sized(p, axis, n, "irfftn"), axis=axis, inverse=True)
    p = _sized(p, axes[-1], half_size(sizes[-1]), "irfftn")
    return _scaled(OPS["irfft"](p, axis=axes[-1], length=(sizes[-1],)), sizes, norm, True)


def _places(name: str, x: Any, s: Any, axes: _Axes, default: Sequence[int] | None = None) -> tuple[Any, Any, Any]:
    """The operand, the sizes and the axes of a transform over several axes, as NumPy reads them."""
    x = _operand(x)
    rank = len(x.shape)
    if axes is None:
        axes = default if default is not None else range(rank) if s is None else range(rank - len(s), rank)
    places = [normalize_axis(a, rank) for a in axes]
    sizes = [x.shape[a] for a in places] if s is None else list(s)
    if len(sizes) != len(places):
        raise ArgumentError(f"{name}: {len(sizes)} sizes for {len(places)} axes")
    sizes = [x.shape[a] if isinstance(n, int) and n == -1 else n for n, a in zip(sizes, places, strict=True)]
    for n in sizes:
        if isinstance(n, int) and n < 1:
            raise ArgumentError(f"{name} of {n} samples", rule="at least one")
    return x, tuple(sizes), tuple(places)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis: the sums of ``a[j] * exp(-2 pi i j k / n)``.

    ``n`` cuts the axis, or fills it with zeros; any number above 0. ``norm`` says which direction divides:
    ``"backward"`` (the default) the inverse one by n, ``"forward"`` this one, ``"ortho"`` both by its root.

    Raises:
        ArgumentError: for fewer than one sample, or another norm.
        ShapeError: for an array of rank 0, or ``n`` along an axis of unknown size.

    Example:
        >>> dd.fft.fft(dd.array([1.0, 2.0, 3.0, 4.0]))
        array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    x, place, count = _lines("fft", a, n, axis)
    return _transform(x, name="fft", sizes=(count,), axes=(place,), norm=norm, inverse=False)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``fft`` along an axis; arguments as there.

    Example:
        >>> dd.fft.ifft(dd.array([10, -2 + 2j, -2, -2 - 2j]))
        array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j], dtype=complex64)
    """
    x, place, count = _lines("ifft", a, n, axis)
    return _transform(x, name="ifft", sizes=(count,), axes=(place,), norm=norm, inverse=True)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform of real numbers: frequencies 0 to n // 2; arguments as for ``fft``.

    Raises:
        ArgumentError: for complex numbers, fewer than one sample, or another norm.

    Example:
        >>> dd.fft.rfft(dd.array([1.0, 2.0, 3.0, 4.0]))
        array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return rfftn(a, None if n is None else (n,), (axis,), norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``rfft``: ``n`` real numbers, by default ``2 * (m - 1)`` of m frequencies.

    The imaginary parts of frequency 0, and of n / 2 where n is even, count as 0.

    Raises:
        ArgumentError: for fewer than one number, or another norm.

    Example:
        >>> dd.fft.irfft(dd.array([10, -2 + 2j, -2]))
        array([1., 2., 3., 4.], dtype=float32)
    """
    return irfftn(a, None if n is None else (n,), (axis,), norm)


def fftn(a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None) -> Any:
    """The transform over several axes, all by default; ``s`` as ``n`` of ``fft`` for each (-1: all of it).

    Example:
        >>> dd.fft.fftn(dd.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    x, sizes, places = _places("fftn", a, s, axes)
    return _transform(x, name="fftn", sizes=sizes, axes=places, norm=norm, inverse=False)


def ifftn(a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None) -> Any:
    """The inverse of ``fftn``; arguments as there.

    Example:
        >>> dd.real(dd.fft.ifftn(2 * dd.eye(2)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    x, sizes, places = _places("ifftn", a, s, axes)
    return _transform(x, name="ifftn", sizes=sizes, axes=places, norm=norm, inverse=True)


def fft2(a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None) -> Any:
    """``fftn`` over two axes, the last ones by default.

    Example:
        >>> dd.fft.fft2(dd.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    x, sizes, places = _places("fft2", a, s, axes, (-2, -1))
    return _transform(x, name="fft2", sizes=sizes, axes=places, norm=norm, inverse=False)


def ifft2(a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None) -> Any:
    """``ifftn`` over two axes, the last ones by default.

    Example:
        >>> dd.real(dd.fft.ifft2(2 * dd.eye(2)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    x, sizes, places = _places("ifft2", a, s, axes, (-2, -1))
    return _transform(x, name="ifft2", sizes=sizes, axes=places, norm=norm, inverse=True)


def rfftn(a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None) -> Any:
    """The transform of real numbers over several axes, all by default: ``rfft`` over the last, ``fft`` over the others.

    Raises:
        ArgumentError: for complex numbers, no axes, fewer than one sample, or another norm.

    Example:
        >>> dd.fft.rfftn(dd.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    norm = _norm(norm)
    x, sizes, places = _places("rfftn", a, s, axes)
    if dtype_of(x).kind == "c" or not places:
        raise ArgumentError(f"rfftn of {dtype_of(x)} over {len(places)} axes", hint="dd.fft.fftn for complex numbers")
    return _half(x, sizes=sizes, axes=places, norm=norm)


def irfftn(a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None) -> Any:
    """The inverse of ``rfftn``: ``s`` real numbers along each axis, along the last ``2 * (m - 1)`` by default.

    Raises:
        ArgumentError: for no axes, fewer than one number, or another norm.

    Example:
        >>> dd.fft.irfftn(2 * dd.eye(2))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    norm = _norm(norm)
    x, sizes, places = _places("irfftn", a, s, axes)
    if not places:
        raise ArgumentError("irfftn over no axes")
    if s is None or (isinstance(s[-1], int) and s[-1] == -1):
        m = x.shape[places[-1]]
        sizes = (*sizes[:-1], 2 * (m - 1))
        if isinstance(sizes[-1], int) and sizes[-1] < 1:
            raise ArgumentError(f"irfft of {m} frequencies to {sizes[-1]} numbers", hint="n=1")
    return _back(x, sizes=sizes, axes=places, norm=norm)


def rfft2(a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None) -> Any:
    """``rfftn`` over two axes, the last ones by default.

    Example:
        >>> dd.fft.rfft2(dd.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    return rfftn(a, s, axes, norm)


def irfft2(a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None) -> Any:
    """``irfftn`` over two axes, the last ones by default.

    Example:
        >>> dd.fft.irfft2(2 * dd.eye(2))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return irfftn(a, s, axes, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The real transform of what is its own conjugate when turned round, given by its first half.

    Example:
        >>> dd.fft.hfft(dd.array([1.0, 2.0, 3.0]))
        array([ 8., -2.,  0., -2.], dtype=float32)
    """
    return irfft(F.conj(own(a)), n, axis, _turned(norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``hfft``.

    Example:
        >>> dd.real(dd.fft.ihfft(dd.array([8.0, -2.0, 0.0, -2.0])))
        array([1., 2., 3.], dtype=float32)
    """
    return F.conj(rfft(a, n, axis, _turned(norm)))


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of ``n`` samples at a distance ``d``; float32 unless ``dtype`` says otherwise.

    Raises:
        ArgumentError: for fewer than one sample.

    Example:
        >>> dd.fft.fftfreq(4)
        array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    check_device(device)
    if n < 1:
        raise ArgumentError(f"fftfreq of {n} samples")
    return literal(np.fft.fftfreq(n, d), dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of ``n`` real samples at a distance ``d``; float32 unless ``dtype`` is given.

    Raises:
        ArgumentError: for fewer than one sample.

    Example:
        >>> dd.fft.rfftfreq(4)
        array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    check_device(device)
    if n < 1:
        raise ArgumentError(f"rfftfreq of {n} samples")
    return literal(np.fft.rfftfreq(n, d), dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def _shift(x: Any, axes: int | Sequence[int] | None, back: bool) -> Any:
    x = own(x)
    places = range(len(x.shape)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    for a in places:
        n = x.shape[a]
        x = F.roll(x, -(n // 2) if back else n // 2, a)
    return x


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Frequency 0 moved to the middle of axes (all by default).

    Example:
        >>> dd.fft.fftshift(dd.arange(4))
        array([2, 3, 0, 1], dtype=int32)
    """
    return _shift(x, axes, False)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Frequency 0 moved back from the middle of axes (all by default).

    Example:
        >>> dd.fft.ifftshift(dd.arange(3))
        array([1, 2, 0], dtype=int32)
    """
    return _shift(x, axes, True)


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
