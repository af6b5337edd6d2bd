"""Discrete Fourier transforms of any length along one axis, without a factor.

A complex number is a pair here, the last axis of 2: nothing below Python knows complex numbers, and an axis of pairs is
what the transforms read and write as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType, float32, float64, int64
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import iota, lit
from dala_defn.ops.indexing import dim_value
from dala_defn.ops.movement import reshape
from dala_defn.ops.reduction import wide
from dala_defn.ops.samples import Array, reals
from dala_defn.ops.spec import LINEAR, OPS, Case, OpSpec, check_dtype, define
from dala_defn.shapes import Condition, Dim, floordiv, may, show, size

ACCEPTS = (float32, float64)


def half_size(n: Dim) -> Dim:
    """How many frequencies a transform of ``n`` real numbers has."""
    return floordiv(n, 2) + 1


def _check(name: str, x: Type, axis: int, pairs: bool) -> None:
    check_dtype(name, x.dtype, ACCEPTS)
    if pairs and (x.ndim == 0 or x.shape[-1] != 2):
        raise ShapeError(f"{name}: the last axis of {show(x.shape)} must be one of pairs", op=name)
    if not 0 <= axis < x.ndim - pairs:
        raise ShapeError(f"{name}: axis {axis} is out of range for {show(x.shape)}", op=name, code="E103")


def _some(name: str, n: Dim) -> None:
    if not may(Condition(n, ">", 0), f"{name} of samples"):
        raise ShapeError(f"{name} of no samples is not defined", op=name, code="E104")


def _fft_infer(x: Type, *, axis: int, inverse: bool) -> tuple[Type, ...]:
    _check("fft", x, axis, True)
    _some("fft", x.shape[axis])
    return (x,)


def _rfft_infer(x: Type, *, axis: int) -> tuple[Type, ...]:
    _check("rfft", x, axis, False)
    _some("rfft", x.shape[axis])
    return (Type(x.dtype, (*x.shape[:axis], half_size(x.shape[axis]), *x.shape[axis + 1 :], 2)),)


def _irfft_infer(x: Type, *, axis: int, length: tuple[Dim, ...]) -> tuple[Type, ...]:
    _check("irfft", x, axis, True)
    if len(length) != 1:
        raise ShapeError(f"irfft: one length is needed, not {show(length)}", op="irfft")
    _some("irfft", length[0])
    if not may(Condition(x.shape[axis], "==", half_size(length[0])), "irfft"):
        raise ShapeError(
            f"irfft: {show(length)} numbers have {half_size(length[0])} frequencies, not {x.shape[axis]}", op="irfft"
        )
    return (Type(x.dtype, (*x.shape[:axis], length[0], *x.shape[axis + 1 : -1])),)


def _whole(x: Array) -> Array:
    """Pairs as complex numbers."""
    out = np.empty(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x[..., 0], x[..., 1]
    return out


def _pairs(x: Array, dtype: Any) -> Array:
    return np.stack([x.real, x.imag], -1).astype(dtype)


def _fft(x: Array, *, axis: int, inverse: bool) -> Array:
    f = np.fft.ifft if inverse else np.fft.fft
    with np.errstate(all="ignore"):
        return _pairs(f(_whole(x), axis=axis, norm="forward" if inverse else None), x.dtype)


def _rfft(x: Array, *, axis: int) -> Array:
    with np.errstate(all="ignore"):
        return _pairs(np.fft.rfft(x, axis=axis), x.dtype)


def _irfft(x: Array, *, axis: int, length: tuple[int, ...]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.fft.irfft(_whole(x), length[0], axis, "forward"), x.dtype)


def _weighed(x: Any, n: Dim, axis: int, edge: float, inner: float) -> Any:
    """Pairs by frequency: those of frequency 0 and n / 2 times ``edge``, the others times ``inner``."""
    m = x.shape[axis]
    place = iota(shape=(m,), axis=0, dtype=int64)
    # These two are their own mirror images, the last one where n is even.
    own = OPS["bitwise_or"](OPS["equal"](place, lit(0, int64)), OPS["equal"](place + place, dim_value(n)))
    weight = OPS["select"](own, lit(edge, x.dtype), lit(inner, x.dtype))
    return x * reshape(weight, shape=tuple(m if i == axis else 1 for i in range(len(x.shape))))


def _flops(n: Dim, inputs: Sequence[Type]) -> Dim:
    """The usual count of a power of two: 5 n log2(n) for n numbers."""
    levels = max(n.bit_length() - 1, 1) if isinstance(n, int) else 16
    return 5 * levels * size(inputs[0].shape)


def _magnitude(n: int, axis: int, x: Array, *, pairs: bool, shape: tuple[int, ...], factor: float = 1.0) -> Array:
    """What the error scales with: the norm of a line by the number of levels.

    Each level rounds every number once, and keeps the norm of a line up to a factor (Higham, "Accuracy and Stability
    of Numerical Algorithms", section 24.1).
    """
    squares = np.sum(np.square(np.abs(wide(x))), (axis, x.ndim - 1) if pairs else (axis,))
    norm = np.sqrt(squares) * max(1.0, np.log2(max(n, 1))) * factor
    norm = np.expand_dims(norm, axis)
    return np.broadcast_to(norm[..., None] if len(shape) > norm.ndim else norm, shape)


_SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 17, 30, 47, 64)


def _shapes() -> Iterator[tuple[tuple[int, ...], int]]:
    for n in _SIZES:
        yield (n,), 0
    yield (3, 5), 0
    yield (3, 5), 1
    yield (2, 6, 3), 1
    yield (2, 0), 0
    yield (0, 4), 1
    yield (5, 0, 2), 0


_draw = reals(-4, 4)


def _fft_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape, axis in _shapes():
        for inverse in (False, True):
            yield Case((_draw(rng, dtype, (*shape, 2)),), {"axis": axis, "inverse": inverse})


def _rfft_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape, axis in _shapes():
        yield Case((_draw(rng, dtype, shape),), {"axis": axis})


def _irfft_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape, axis in _shapes():
        n = shape[axis]
        held = (*shape[:axis], n // 2 + 1, *shape[axis + 1 :], 2)
        yield Case((_draw(rng, dtype, held),), {"axis": axis, "length": (n,)})


fft: OpSpec = define(
    name="fft",
    code=0x120,
    family="fourier",
    attrs={"axis": "int", "inverse": "bool"},
    accepts=ACCEPTS,
    result="own",
    infer=_fft_infer,
    reference=_fft,
    # The matrix of the pairs is orthogonal up to a factor: its transpose is that of the other direction.
    vjp=lambda ct, x, y, *, axis, inverse: (fft(ct, axis=axis, inverse=not inverse),),
    jvp=LINEAR,
    batch=lambda n, args, batched, *, axis, inverse: (fft(args[0], axis=axis + 1, inverse=inverse),),
    fusion="opaque",
    flops=lambda i, o, a: _flops(i[0].shape[a["axis"]], i),
    sample=_fft_cases,
    ulp=4,
    magnitude=lambda x, *, axis, inverse: _magnitude(x.shape[axis], axis, x, pairs=True, shape=x.shape),
    doc="The discrete Fourier transform of complex numbers, pairs in the last axis, along another axis: the sums of "
    "``x[j] * exp(-2 pi i j k / n)``, of ``exp(+...)`` with ``inverse``; no factor. Any length above 0.",
    example="fft(dd.array([[1.0, 0.0], [2.0, 0.0]]), axis=0, inverse=False)",
    since="0.1",
)


def _rfft_vjp(ct: Any, x: Any, y: Any, *, axis: int) -> tuple[Any, ...]:
    n = x.shape[axis]
    return (irfft(_weighed(ct, n, axis, 1.0, 0.5), axis=axis, length=(n,)),)


rfft: OpSpec = define(
    name="rfft",
    code=0x121,
    family="fourier",
    attrs={"axis": "int"},
    accepts=ACCEPTS,
    result="own",
    infer=_rfft_infer,
    reference=_rfft,
    vjp=_rfft_vjp,
    jvp=LINEAR,
    batch=lambda n, args, batched, *, axis: (rfft(args[0], axis=axis + 1),),
    fusion="opaque",
    flops=lambda i, o, a: _flops(i[0].shape[a["axis"]], i),
    sample=_rfft_cases,
    ulp=4,
    magnitude=lambda x, *, axis: _magnitude(
        x.shape[axis], axis, x, pairs=False,
        shape=(*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :], 2),
    ),
    doc="The discrete Fourier transform of real numbers along an axis: frequencies 0 to n // 2 as pairs in a new last "
    "axis; the others are their conjugates. No factor. Any length above 0.",
    example="rfft(dd.array([1.0, 2.0, 3.0]), axis=0)",
    since="0.1",
)  # fmt: skip


def _irfft_vjp(ct: Any, x: Any, y: Any, *, axis: int, length: tuple[Dim, ...]) -> tuple[Any, ...]:
    return (_weighed(rfft(ct, axis=axis), length[0], axis, 1.0, 2.0),)


irfft: OpSpec = define(
    name="irfft",
    code=0x122,
    family="fourier",
    attrs={"axis": "int", "length": "dims"},
    accepts=ACCEPTS,
    result="own",
    infer=_irfft_infer,
    reference=_irfft,
    vjp=_irfft_vjp,
    jvp=LINEAR,
    batch=lambda n, args, batched, *, axis, length: (irfft(args[0], axis=axis + 1, length=length),),
    fusion="opaque",
    flops=lambda i, o, a: _flops(a["length"][0], i),
    sample=_irfft_cases,
    ulp=4,
    magnitude=lambda x, *, axis, length: _magnitude(
        length[0], axis, x, pairs=True, shape=(*x.shape[:axis], length[0], *x.shape[axis + 1 : -1]), factor=2.0
    ),
    doc="The inverse transform of what ``rfft`` gives: ``length`` real numbers from frequencies 0 to length // 2, "
    "pairs in the last axis. The imaginary parts of frequency 0 and length / 2 count as 0. No factor.",
    example="irfft(dd.array([[6.0, 0.0], [-1.5, 0.9]]), axis=0, length=(3,))",
    since="0.1",
)
