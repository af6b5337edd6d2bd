"""What is left of NumPy's small functions: questions about arrays, lines one by one, bytes, bits in bytes, batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, is_value, literal, own, owned
from dala_defn.functions.complexes import imag, real
from dala_defn.functions.counting import bincount
from dala_defn.functions.creation import array, full
from dala_defn.functions.grids import linspace
from dala_defn.functions.joining import broadcast_arrays
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import broadcast_to, concatenate, cut, moveaxis, ravel, reshape, stack
from dala_defn.functions.sorting import searchsorted
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axis, show
from dala_defn.shapes import size as _size


def ndim(x: Any) -> int:
    """The number of axes.

    Example:
        >>> dd.ndim(dd.ones((2, 3)))
        2
    """
    return len(own(x).shape)


def size(x: Any, axis: int | None = None) -> Any:
    """The number of elements, or the size of an axis.

    Example:
        >>> dd.size(dd.ones((2, 3)))
        6
    """
    sizes = own(x).shape
    return _size(sizes) if axis is None else sizes[normalize_axis(axis, len(sizes))]


def isscalar(x: Any) -> bool:
    """Whether it is a number of Python's or a NumPy scalar: no array, not even one of rank 0.

    Example:
        >>> dd.isscalar(3.0), dd.isscalar(dd.array(3.0))
        (True, False)
    """
    return dtypes.weak_kind(x) is not None or isinstance(x, np.generic)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is a complex one.

    Example:
        >>> dd.iscomplexobj(dd.array([1.0]))
        False
    """
    return dtype_of(own(x)).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the dtype is no complex one.

    Example:
        >>> dd.isrealobj(dd.array([1.0]))
        True
    """
    return not iscomplexobj(x)


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part differs from 0, elementwise.

    Example:
        >>> dd.iscomplex(dd.array([1 + 1j, 2.0]))
        array([ True, False])
    """
    return imag(own(x)) != 0


def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0, elementwise.

    Example:
        >>> dd.isreal(dd.array([1 + 1j, 2.0]))
        array([False,  True])
    """
    return imag(own(x)) == 0


def trunc_divide(x: Any, y: Any, /) -> Any:
    """The quotient without its fraction, elementwise: towards 0, where ``floor_divide`` goes down.

    Integers stay integers; division by 0 gives 0 for them. No derivative passes.

    Example:
        >>> dd.trunc_divide(dd.array([-7, 7]), 2), dd.floor_divide(dd.array([-7, 7]), 2)
        (array([-3,  3], dtype=int32), array([-4,  3], dtype=int32))
    """
    a, b = owned(x, y)
    if dtype_of(a).is_inexact:
        return E.trunc(a / b)
    q = E.floor_divide(a, b)
    if dtype_of(q).kind != "i":
        return q
    a, b = convert(a, dtype_of(q)), convert(b, dtype_of(q))
    up = E.logical_and(E.not_equal(E.remainder(a, b), 0), E.not_equal(a < 0, b < 0))
    return q + convert(up, dtype_of(q))


def frombuffer(buffer: Any, dtype: Any = None, count: int = -1, offset: int = 0) -> Any:
    """A vector from bytes, little end first; a copy. float32 unless ``dtype`` says otherwise.

    Raises:
        ArgumentError: when the bytes are not as many as asked for, or no whole number of elements.

    Example:
        >>> dd.frombuffer(bytes([1, 0, 2, 0]), dd.int16)
        array([1, 2], dtype=int16)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    try:
        found = np.frombuffer(buffer, to.dtype.newbyteorder("<") if to.dtype.kind != "V" else to.dtype, count, offset)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"frombuffer: {error}") from None
    return literal(found, to)


def batches(x: Any, n: int, remainder: str = "keep") -> Iterator[Any]:
    """The parts of an array along its first axis, ``n`` rows each, one after the other.

    What is left at the end comes as it is (``remainder="keep"``), is left out (``"drop"``), or is filled up from the
    front (``"wrap"``).

    Raises:
        ArgumentError: for less than one row, or another word.
        ShapeError: for rank 0, or an axis of unknown size.

    Example:
        >>> [b.tolist() for b in dd.batches(dd.arange(5), 2, "wrap")]
        [[0, 1], [2, 3], [4, 0]]
    """
    x = own(x)
    if n < 1 or remainder not in ("keep", "drop", "wrap"):
        raise ArgumentError(f"batches of {n} with remainder={remainder!r}", hint='"keep", "drop" or "wrap"')
    total = x.shape[0] if x.shape else None
    if not isinstance(total, int):
        raise ShapeError(f"batches of {show(x.shape)}")

    def parts() -> Iterator[Any]:
        for start in range(0, total, n):
            stop = start + n
            if stop <= total:
                yield cut(x, 0, start, stop)
            elif remainder == "keep":
                yield cut(x, 0, start, total)
            elif remainder == "wrap":
                places = literal(np.arange(start, stop) % total, dtypes.int32)
                yield OPS["gather"](x, places, axis=0, batch_dims=0, mode="clip")

    return parts()


def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """A vector without the zeros at its front (``"f"``), its back (``"b"``), or both; outside ``@defn`` only.

    Raises:
        ArgumentTypeError: while tracing: the size of the result depends on values.

    Example:
        >>> dd.trim_zeros(dd.array([0, 0, 1, 0, 2, 0]))
        array([1, 0, 2], dtype=int32)
    """
    x = own(filt)
    if len(x.shape) != 1:
        raise ShapeError(f"trim_zeros of {show(x.shape)}", rule="a vector")
    if ops.current_trace() is not None:
        raise ArgumentTypeError("trim_zeros: the size of the result depends on values, which a graph cannot have")
    (places,) = np.nonzero(np.asarray(x))
    if not len(places):
        return cut(x, 0, 0, 0)
    start = int(places[0]) if "f" in trim.lower() else 0
    stop = int(places[-1]) + 1 if "b" in trim.lower() else x.shape[0]
    return cut(x, 0, start, stop)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors on every line along an axis, one after the other; the results stand in its place.

    ``dd.vmap`` does all lines at once, where the function can be traced.

    Raises:
        ShapeError: for an array of unknown size, or without lines.

    Example:
        >>> dd.apply_along_axis(dd.sum, 1, dd.array([[1, 2], [3, 4]]))
        array([3, 7], dtype=int32)
    """
    x = own(arr)
    place = normalize_axis(axis, len(x.shape))
    lead = tuple(n for i, n in enumerate(x.shape) if i != place)
    count, n = _size(lead), x.shape[place]
    if not isinstance(count, int) or not isinstance(n, int) or count == 0:
        raise ShapeError(f"apply_along_axis over {show(x.shape)}", rule="known sizes and at least one line")
    rows = reshape(moveaxis(x, place, -1), (count, n))
    out = stack([own(func1d(rows[i], *args, **kwargs)) for i in range(count)])
    rest = tuple(out.shape[1:])
    out = reshape(out, (*lead, *rest))
    rank = len(lead)
    return moveaxis(out, range(rank, rank + len(rest)), range(place, place + len(rest))) if rest else out


def packbits(x: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements, 0 or not, as the bits of one uint8, along an axis (flattened by default); zeros fill up the last.

    Raises:
        ArgumentTypeError: for what is neither integer nor bool.

    Example:
        >>> dd.packbits(dd.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
        array([131, 128], dtype=uint8)
    """
    x = own(x)
    if dtype_of(x).kind not in "biu":
        raise ArgumentTypeError(f"packbits of {dtype_of(x)}")
    x, place = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))
    bits = moveaxis(convert(E.not_equal(x, 0), dtypes.uint8), place, -1)
    n = bits.shape[-1]
    if not isinstance(n, int):
        raise ShapeError(f"packbits along an axis of unknown size {n}")
    more = broadcast_to(convert(0, dtypes.uint8), (*bits.shape[:-1], -n % 8))
    eights = reshape(concatenate([bits, more], -1), (*bits.shape[:-1], (n + 7) // 8, 8))
    out = _sum(eights * _weights(bitorder), -1, dtype=dtypes.uint8)
    return moveaxis(out, -1, place)


def _weights(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"bitorder {bitorder!r}", hint='"big" or "little"')
    line = 1 << np.arange(8)
    return literal(line[::-1] if bitorder == "big" else line, dtypes.uint8)


def unpackbits(x: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits of uint8 as eight uint8 each, along an axis (flattened by default); ``count`` of them, if given.

    Raises:
        ArgumentTypeError: for another dtype.

    Example:
        >>> dd.unpackbits(dd.array([131], dd.uint8))
        array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    x = own(x)
    if dtype_of(x) is not dtypes.uint8:
        raise ArgumentTypeError(f"unpackbits of {dtype_of(x)}", rule="uint8")
    x, place = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))
    rows = moveaxis(x, place, -1)
    bits = convert(E.not_equal(E.bitwise_and(reshape(rows, (*rows.shape, 1)), _weights(bitorder)), 0), dtypes.uint8)
    total = rows.shape[-1] * 8
    out = reshape(bits, (*rows.shape[:-1], total))
    last = len(out.shape) - 1
    if count is not None:
        end = count if count >= 0 else total + count
        if isinstance(total, int) and end > total:
            more = broadcast_to(convert(0, dtypes.uint8), (*out.shape[:-1], end - total))
            out = concatenate([out, more], -1)
        else:
            out = cut(out, last, 0, max(end, 0))
    return moveaxis(out, -1, place)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Any, list[Any]]:
    """How many points lie in each cell of a grid (the last cell of an axis has both edges), and the edges.

    ``sample`` has a point a row, or is a sequence of coordinates; ``bins`` a number, or one (or edges) an axis;
    ``range`` a pair an axis. float32 (float64 where the sample is), as NumPy gives floats.

    Example:
        >>> dd.histogramdd(dd.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]]), bins=2)[0]
        array([[1., 0.],
               [0., 2.]], dtype=float32)
    """
    points = own(sample) if is_value(sample) else stack([own(c) for c in sample], 1)
    points = reshape(points, (-1, 1)) if len(points.shape) == 1 else points
    width = points.shape[1] if len(points.shape) == 2 else None
    if not isinstance(width, int):
        raise ShapeError(f"histogramdd of {show(points.shape)}", rule="(points, axes)")
    points = convert(points, dtypes.to_inexact(dtype_of(points)))
    per = [bins] * width if isinstance(bins, int) else list(bins)
    ends = [None] * width if range is None else list(range)
    if len(per) != width or len(ends) != width:
        raise ArgumentError(f"histogramdd: {len(per)} numbers of bins and {len(ends)} ranges for {width} axes")
    edges, inside, place = [], None, None
    for k, (b, r) in enumerate(zip(per, ends, strict=True)):
        line = reshape(cut(points, 1, k, k + 1), (points.shape[0],))
        e = _edges(line, b, r)
        n = e.shape[0] - 1
        at = searchsorted(e, line, "right") - 1
        at = E.where(line == e[-1], n - 1, at)
        good = E.logical_and(E.logical_and(at >= 0, at < n), E.logical_not(E.isnan(line)))
        inside = good if inside is None else E.logical_and(inside, good)
        place = at if place is None else place * n + at
        edges.append(e)
    sizes = tuple(e.shape[0] - 1 for e in edges)
    total = math.prod(sizes)
    ones = full((points.shape[0],), 1, dtype_of(points)) if weights is None else own(weights)
    counts = reshape(bincount(E.where(inside, place, total), ones, length=total), sizes)
    if density:
        for k, e in enumerate(edges):
            step = cut(e, 0, 1, e.shape[0]) - cut(e, 0, 0, e.shape[0] - 1)
            counts = counts / reshape(step, tuple(-1 if i == k else 1 for i in _places(width)))
        counts = counts / _sum(bincount(E.where(inside, place, total), ones, length=total))
    return counts, edges


_places = range


def _edges(line: Any, bins: Any, ends: Any) -> Any:
    if not isinstance(bins, int):
        e = convert(own(bins), dtype_of(line))
        if len(e.shape) != 1 or not isinstance(e.shape[0], int) or e.shape[0] < 2:
            raise ShapeError(f"histogramdd: edges {show(e.shape)}")
        return e
    if bins < 1:
        raise ArgumentError(f"histogramdd: {bins} bins")
    if ends is not None:
        low, high = (convert(own(v), dtype_of(line)) for v in ends)
    elif line.shape[0] == 0:
        low, high = (convert(v, dtype_of(line)) for v in (0.0, 1.0))
    else:
        low, high = OPS["min"](line, axes=(0,)), OPS["max"](line, axes=(0,))
    flat = low == high
    return linspace(E.where(flat, low - 0.5, low), E.where(flat, high + 0.5, high), bins + 1)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Any, Any, Any]:
    """``histogramdd`` of two coordinates: the counts, and the edges of both.

    Example:
        >>> dd.histogram2d(dd.array([0.0, 1.0]), dd.array([0.0, 1.0]), 2)[0]
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    if is_value(bins):
        bins = [bins, bins]
    counts, (a, b) = histogramdd([own(x), own(y)], bins, range, density, weights)
    return counts, a, b


def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part, where all imaginary parts are within ``tol`` units in the last place of 0; outside ``@defn`` only.

    Raises:
        ArgumentTypeError: while tracing complex numbers: the dtype of the result depends on values.

    Example:
        >>> dd.real_if_close(dd.array([1 + 0j]))
        array([1.], dtype=float32)
    """
    x = own(a)
    if dtype_of(x).kind != "c":
        return x
    if ops.current_trace() is not None:
        raise ArgumentTypeError("real_if_close: the dtype of the result depends on values", hint="dd.real(x)")
    bound = tol * float(np.finfo(dtypes.real_of(dtype_of(x)).dtype).eps) if tol > 1 else tol
    return real(x) if bool(np.all(np.abs(np.asarray(imag(x))) < bound)) else x


def vectorize(pyfunc: Callable[..., Any], otypes: Any = None) -> Callable[..., Any]:
    """A function of numbers as one of arrays that broadcast, called once for each element; slow, as NumPy's.

    A function that takes arrays needs none of this, and ``dd.vmap`` is the fast way.

    Example:
        >>> dd.vectorize(lambda x, y: x if x > y else y)(dd.array([1, 5]), 3)
        array([3, 5], dtype=int32)
    """

    def call(*args: Any) -> Any:
        lines = broadcast_arrays(*(own(a) for a in args))
        sizes = tuple(lines[0].shape)
        if any(not isinstance(n, int) for n in sizes) or _size(sizes) == 0:
            raise ShapeError(f"vectorize over {show(sizes)}", rule="known sizes and at least one element")
        flat = [ravel(v) for v in lines]
        out = [pyfunc(*(v[i] for v in flat)) for i in range(_size(sizes))]
        return reshape(array([own(v) for v in out], otypes), sizes)

    return call


__all__ = [
    "apply_along_axis",
    "batches",
    "frombuffer",
    "histogram2d",
    "histogramdd",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "isscalar",
    "ndim",
    "packbits",
    "real_if_close",
    "size",
    "trim_zeros",
    "trunc_divide",
    "unpackbits",
    "vectorize",
]
