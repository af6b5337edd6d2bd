"""Arrays made by a rule: spaced numbers, grids of coordinates, diagonals and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, is_value, literal, offset, own, owned, real
from dala_defn.functions.creation import arange, eye, zeros
from dala_defn.functions.joining import pad
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import broadcast_to, moveaxis, ravel, reshape, stack
from dala_defn.functions.types import check_device
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, as_shape, broadcast_shapes, normalize_axis, show


def _default(*numbers: Any) -> DType:
    """The dtype of numbers between these."""
    return dtypes.complex64 if any(isinstance(x, complex) for x in numbers) else dtypes.DEFAULT_FLOAT


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, along a new axis; float32 unless given.

    ``start`` and ``stop`` may be arrays, which broadcast. An integer dtype rounds down. With ``retstep`` a pair: the
    numbers and the step.

    Raises:
        ShapeError: for a negative ``num``.

    Example:
        >>> dd.linspace(0.0, 1.0, 3)
        array([0. , 0.5, 1. ], dtype=float32)
    """
    check_device(device)
    if num < 0:
        raise ShapeError(f"linspace: {num} numbers")
    if not is_value(start) and not is_value(stop) and not isinstance(start, list) and not isinstance(stop, list):
        to = _default(start, stop) if dtype is None else dtypes.as_dtype(dtype)
        line, step = np.linspace(start, stop, num, endpoint, retstep=True)
        out = literal(np.floor(line) if to.is_integer else line, to)
        return (out, literal(np.asarray(step), dtypes.to_inexact(to))) if retstep else out
    a, b = (real(x) for x in owned(start, stop))
    to = dtype_of(a) if dtype is None else dtypes.as_dtype(dtype)
    parts = num - 1 if endpoint else num
    shape = broadcast_shapes(a.shape, b.shape, sure=False)
    step = broadcast_to((b - a) / parts if parts > 0 else (b - a) * math.nan, shape)
    count = reshape(arange(num, dtype=dtypes.real_of(dtype_of(a))), (num, *(1 for _ in shape)))
    line = count * (step if parts > 0 else 0) + a
    if endpoint and num > 1:
        line = E.where(reshape(arange(num), (num, *(1 for _ in shape))) == num - 1, b, line)
    line = moveaxis(E.floor(line) if to.is_integer else line, 0, axis)
    return (convert(line, to), step) if retstep else convert(line, to)


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """``base`` to the power of ``num`` evenly spaced exponents; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.logspace(0, 2, 3)
        array([  1.,  10., 100.], dtype=float32)
    """
    if not any(is_value(x) for x in (start, stop, base)):
        to = _default(start, stop, base) if dtype is None else dtypes.as_dtype(dtype)
        return literal(np.logspace(start, stop, num, endpoint, base), to)
    out = E.power(base, linspace(own(start), stop, num, endpoint, axis=axis))
    return out if dtype is None else convert(out, dtypes.as_dtype(dtype))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """``num`` numbers from ``start`` to ``stop`` with one ratio; float32 unless ``dtype`` says otherwise.

    Both ends have the same sign and are not 0 (for numbers that is checked; for arrays the result is NaN otherwise).

    Example:
        >>> dd.geomspace(1, 8, 4)
        array([1., 2., 4., 8.], dtype=float32)
    """
    if not is_value(start) and not is_value(stop):
        to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
        if start * stop <= 0:
            raise ArgumentError(f"geomspace from {start} to {stop}: both must have the same sign, and not be 0")
        return literal(np.geomspace(start, stop, num, endpoint), to)
    a, b = (real(x) for x in owned(start, stop))
    line = a * E.exp(linspace(E.log(a / a), E.log(b / a), num, endpoint, axis=axis)) if num else linspace(a, b, 0)
    return line if dtype is None else convert(line, dtypes.as_dtype(dtype))


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of zeros: every array has known numbers. float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.empty((2, 0)).shape
        (2, 0)
    """
    return zeros(shape, dtype, device=device)


def empty_like(x: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Zeros with the dtype and shape of ``x``, unless they are given.

    Example:
        >>> dd.empty_like(dd.array([1, 2])).dtype
        int32
    """
    sizes = tuple(own(x).shape) if shape is None else shape
    return zeros(sizes, dtype_of(own(x)) if dtype is None else dtype, device=device)


def identity(n: Any, dtype: Any = None) -> Any:
    """The identity matrix; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.identity(2)
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones on and below the k-th diagonal of an (N, M) array; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.tri(2, 3)
        array([[1., 0., 0.],
               [1., 1., 0.]], dtype=float32)
    """
    shape = as_shape((N, N if M is None else M))
    i = OPS["iota"](shape=shape, axis=0, dtype=dtypes.int32)
    j = OPS["iota"](shape=shape, axis=1, dtype=dtypes.int32)
    return convert(i + offset(k, *shape) >= j, dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> list[Any]:
    """Coordinate arrays from vectors: a list with one array for each of them.

    ``indexing="xy"`` exchanges the first two axes, as for pictures; ``"ij"`` does not. With ``sparse`` the arrays have
    size 1 in all axes but their own. ``copy`` changes nothing: arrays are immutable.

    Raises:
        ArgumentError: for another ``indexing``.

    Example:
        >>> dd.meshgrid(dd.array([1, 2]), dd.array([3]))
        [array([[1, 2]], dtype=int32), array([[3, 3]], dtype=int32)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing {indexing!r}", hint='"xy" or "ij"')
    lines = [ravel(x) for x in xi]
    rank = len(lines)
    place = list(range(rank))
    if indexing == "xy" and rank > 1:
        place[:2] = [1, 0]
    shape: list[Dim] = [0] * rank
    for line, axis in zip(lines, place, strict=True):
        shape[axis] = line.shape[0]
    grids = [
        reshape(line, tuple(-1 if i == axis else 1 for i in range(rank)))
        for line, axis in zip(lines, place, strict=True)
    ]
    return grids if sparse else [broadcast_to(g, tuple(shape)) for g in grids]


def indices(dimensions: Sequence[Any], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of every place of an array of this shape: one array an axis, stacked (or, sparse, in a tuple); int32.

    Example:
        >>> dd.indices((2, 2))[0]
        array([[0, 0],
               [1, 1]], dtype=int32)
    """
    shape = as_shape(tuple(dimensions))
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    if sparse:
        return tuple(meshgrid(*(arange(n, dtype=to) for n in shape), indexing="ij", sparse=True))
    if not shape:
        return zeros((0,), to)
    return stack([OPS["iota"](shape=shape, axis=i, dtype=to) for i in range(len(shape))])


def fromfunction(function: Callable[..., Any], shape: Sequence[Any], dtype: Any = None) -> Any:
    """A function of the index arrays (float32 unless ``dtype`` says otherwise) of an array of this shape.

    Example:
        >>> dd.fromfunction(lambda i, j: i + 10 * j, (1, 3), dtype=dd.int32)
        array([[ 0, 10, 20]], dtype=int32)
    """
    grids = indices(shape, dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    return function(*(grids[i] for i in range(len(tuple(shape)))))


def ix_(*args: Any) -> tuple[Any, ...]:
    """Index vectors shaped so that ``x[dd.ix_(rows, columns)]`` takes the block they span.

    Raises:
        ShapeError: for what is no vector.

    Example:
        >>> dd.arange(6).reshape(2, 3)[dd.ix_(dd.array([1]), dd.array([0, 2]))]
        array([[3, 5]], dtype=int32)
    """
    lines = [own(a) for a in args]
    for line in lines:
        if len(line.shape) != 1:
            raise ShapeError(f"ix_ takes vectors, not {show(line.shape)}")
    rank = len(lines)
    return tuple(reshape(x, tuple(-1 if j == i else 1 for j in range(rank))) for i, x in enumerate(lines))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector as columns, from the highest (or, increasing, the lowest) on.

    Example:
        >>> dd.vander(dd.array([2, 3]), 3)
        array([[4, 2, 1],
               [9, 3, 1]], dtype=int32)
    """
    x = own(x)
    if len(x.shape) != 1:
        raise ShapeError(f"vander takes a vector, not {show(x.shape)}")
    x = convert(x, dtypes.accumulator(dtype_of(x)))
    count = x.shape[0] if N is None else N
    if not isinstance(count, int):
        raise ShapeError("vander of a vector of unknown size needs N")
    if count == 0:
        return zeros((x.shape[0], 0), dtype_of(x))
    columns = [broadcast_to(convert(1, dtype_of(x)), tuple(x.shape))]
    while len(columns) < count:
        columns.append(columns[-1] * x)
    return stack(columns if increasing else columns[::-1], 1)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements of a diagonal of two axes, in a new last axis.

    Raises:
        ShapeError: when there are not two axes, or for a diagonal of an array of unknown size that is not square.

    Example:
        >>> dd.diagonal(dd.arange(4).reshape(2, 2))
        array([0, 3], dtype=int32)
    """
    x = own(x)
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"a diagonal needs two axes, not {show(x.shape)}")
    places = normalize_axis(axis1, rank), normalize_axis(axis2, rank)
    if places[0] == places[1]:
        raise ShapeError(f"diagonal: axis1 and axis2 are both {places[0]}", code="E103")
    x = moveaxis(x, places, (-2, -1))
    *lead, rows, columns = x.shape
    if not isinstance(rows, int) or not isinstance(columns, int):
        if rows != columns or offset != 0:
            raise ShapeError(f"a diagonal of unknown sizes {show((rows, columns))}", hint="a square matrix, offset 0")
        picked = E.where(eye(rows, dtype=dtypes.bool_), x, convert(0, dtype_of(x)))
        return convert(_sum(picked, -1), dtype_of(x))
    first = offset if offset >= 0 else -offset * columns
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = reshape(x, (*lead, rows * columns))
    start = (*(0 for _ in lead), first if count else 0)
    stop = (*lead, first + (count - 1) * (columns + 1) + 1 if count else 0)
    return OPS["slice"](flat, start=start, stop=stop, step=(*(1 for _ in lead), columns + 1))


def diag(v: Any, k: int = 0) -> Any:
    """A matrix with a vector on its k-th diagonal, or the k-th diagonal of a matrix.

    Raises:
        ShapeError: for another rank.

    Example:
        >>> dd.diag(dd.array([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    v = own(v)
    if len(v.shape) == 2:
        return diagonal(v, k)
    if len(v.shape) != 1:
        raise ShapeError(f"diag takes a vector or a matrix, not {show(v.shape)}")
    rows = pad(v, ((0, k) if k >= 0 else (-k, 0),))
    n = rows.shape[0]
    return E.where(eye(n, n, k, dtypes.bool_), reshape(rows, (n, 1)), convert(0, dtype_of(v)))


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the elements of any array on its k-th diagonal.

    Example:
        >>> dd.diagflat(dd.array([[1, 2]]), -1).shape
        (3, 3)
    """
    return diag(ravel(own(v)), k)


def fill_diagonal(x: Any, val: Any, wrap: bool = False) -> Any:
    """A copy of a matrix (or of an array whose sizes are all equal) with other elements on its main diagonal.

    ``val`` is a number or a vector, which is repeated. With ``wrap`` the diagonal of a tall matrix starts again below
    each square. In NumPy this changes its argument; arrays here do not change.

    Raises:
        ShapeError: for a rank below 2, unknown sizes, or unequal sizes above rank 2.

    Example:
        >>> dd.fill_diagonal(dd.zeros((2, 2)), 5)
        array([[5., 0.],
               [0., 5.]], dtype=float32)
    """
    x = own(x)
    shape = tuple(x.shape)
    if len(shape) < 2 or any(not isinstance(n, int) for n in shape) or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(f"fill_diagonal: {show(shape)} has no diagonal, or none of known size")
    sizes = [int(n) for n in shape]
    target = np.zeros(sizes, np.int64)
    np.fill_diagonal(target, 1, wrap)
    where = np.flatnonzero(target)
    val = ravel(convert(own(val), dtype_of(x)))
    if not len(where) or val.shape[0] == 0:
        return x
    rank_in_line = np.zeros(target.size, np.int32)
    rank_in_line[where] = np.arange(len(where)) % int(val.shape[0])
    values = OPS["gather"](val, rank_in_line, axis=0, batch_dims=0, mode="clip")
    return E.where(target != 0, reshape(values, shape), x)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The int32 row and column indices of the elements on and below the k-th diagonal of an (n, m) array.

    Example:
        >>> dd.tril_indices(2)
        (array([0, 1, 1], dtype=int32), array([0, 0, 1], dtype=int32))
    """
    rows, columns = np.tril_indices(n, k, m)
    return literal(rows, dtypes.DEFAULT_INT), literal(columns, dtypes.DEFAULT_INT)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The int32 row and column indices of the elements on and above the k-th diagonal of an (n, m) array.

    Example:
        >>> dd.triu_indices(2)
        (array([0, 0, 1], dtype=int32), array([0, 1, 1], dtype=int32))
    """
    rows, columns = np.triu_indices(n, k, m)
    return literal(rows, dtypes.DEFAULT_INT), literal(columns, dtypes.DEFAULT_INT)


def diag_indices(n: Any, ndim: int = 2) -> tuple[Any, ...]:
    """The int32 indices of the main diagonal of an array with ``ndim`` axes of size ``n``.

    Example:
        >>> dd.zeros((2, 2)).at[dd.diag_indices(2)].set(1.0)
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return (arange(n),) * ndim


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Flat indices as one index array an axis, in row-major order; what is out of range is clipped.

    Example:
        >>> dd.unravel_index(dd.array([5]), (2, 3))
        (array([1], dtype=int32), array([2], dtype=int32))
    """
    i = own(indices)
    sizes = as_shape(shape)
    total = 1
    for n in sizes:
        if not isinstance(n, int):
            raise ShapeError(f"unravel_index over unknown sizes {show(sizes)}")
        total *= n
    i = E.clip(E.where(i < 0, i + total, i), 0, max(total - 1, 0))
    out = []
    for n in reversed(sizes):
        out.append(E.remainder(i, n))
        i = E.floor_divide(i, n)
    return tuple(out[::-1])


def ravel_multi_index(multi_index: Sequence[Any], dims: Any, mode: str = "clip") -> Any:
    """Index arrays, one an axis, as flat indices in row-major order. ``mode``: ``"clip"`` or ``"wrap"``.

    Raises:
        ArgumentError: for another mode, or when the numbers of arrays and sizes differ.

    Example:
        >>> dd.ravel_multi_index((dd.array([1]), dd.array([2])), (2, 3))
        array([5], dtype=int32)
    """
    sizes = as_shape(dims)
    if len(multi_index) != len(sizes) or mode not in ("clip", "wrap"):
        raise ArgumentError(f"ravel_multi_index: {len(multi_index)} arrays for {len(sizes)} sizes, mode {mode!r}")
    out: Any = convert(0, dtypes.DEFAULT_INT)
    for i, n in zip(multi_index, sizes, strict=True):
        if not isinstance(n, int):
            raise ShapeError(f"ravel_multi_index over unknown sizes {show(sizes)}")
        at = own(i)
        at = E.clip(at, 0, n - 1) if mode == "clip" else E.remainder(at, n)
        out = out * n + at
    return out


def _symmetric(M: int, terms: Sequence[float], dtype: Any) -> Any:
    if M < 1:
        return zeros((0,), dtype)
    turn = 2 * math.pi * np.arange(M) / max(M - 1, 1)
    line = np.zeros(M)
    for i, weight in enumerate(terms):
        line = line + weight * np.cos(i * turn)
    return literal(np.ones(1) if M == 1 else line, dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def hanning(M: int, dtype: Any = None) -> Any:
    """The Hann window of ``M`` points; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.hanning(3)
        array([0., 1., 0.], dtype=float32)
    """
    return _symmetric(M, (0.5, -0.5), dtype)


def hamming(M: int, dtype: Any = None) -> Any:
    """The Hamming window of ``M`` points; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.hamming(3)
        array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _symmetric(M, (0.54, -0.46), dtype)


def blackman(M: int, dtype: Any = None) -> Any:
    """The Blackman window of ``M`` points; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.blackman(1)
        array([1.], dtype=float32)
    """
    return _symmetric(M, (0.42, -0.5, 0.08), dtype)


def bartlett(M: int, dtype: Any = None) -> Any:
    """The triangular window of ``M`` points that ends at 0; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.bartlett(3)
        array([0., 1., 0.], dtype=float32)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    return literal(np.bartlett(M), to)


def kaiser(M: int, beta: float, dtype: Any = None) -> Any:
    """The Kaiser window of ``M`` points; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.kaiser(3, 0.0)
        array([1., 1., 1.], dtype=float32)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    return literal(np.kaiser(M, beta), to)


__all__ = [
    "bartlett",
    "blackman",
    "diag",
    "diag_indices",
    "diagflat",
    "diagonal",
    "empty",
    "empty_like",
    "fill_diagonal",
    "fromfunction",
    "geomspace",
    "hamming",
    "hanning",
    "identity",
    "indices",
    "ix_",
    "kaiser",
    "linspace",
    "logspace",
    "meshgrid",
    "ravel_multi_index",
    "tri",
    "tril_indices",
    "triu_indices",
    "unravel_index",
    "vander",
]
