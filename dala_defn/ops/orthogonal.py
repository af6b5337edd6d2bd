"""Orthonormal columns: QR, and what completes them. See ``factors.py`` for how results are packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.factors import after, well
from dala_defn.ops.matrices import (
    adjoint,
    below,
    beside,
    check_matrix,
    columns,
    conditioned,
    conj,
    cube,
    drawn,
    each,
    in_wide,
    lower,
    matrix_op,
    real_part,
    rows,
    smaller,
    strictly_lower,
    times,
    turned,
    upper,
)
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import Case, NoGrad, OpSpec
from dala_defn.shapes import Dim


def _qr_infer(x: Type) -> Type:
    m, n = check_matrix("qr", x)
    return Type(x.dtype, (*x.shape[:-2], m + n, smaller("qr", m, n)))


def _one_qr(x: Array) -> Array:
    q, r = np.linalg.qr(x)
    d = np.diagonal(r)
    size = np.abs(d)
    unit = np.where(size > 0, d / np.where(size > 0, size, 1), 1)
    return np.concatenate([q * unit, (r * np.conj(unit)[:, None]).T])


def _qr(x: Array) -> Array:
    shape = (*x.shape[:-2], x.shape[-2] + x.shape[-1], min(x.shape[-2:]))
    return np.asarray(in_wide(lambda a: each(_one_qr, [a], shape), x))


def _apart(y: Any, m: Dim) -> tuple[Any, Any]:
    """Q and R of what ``qr`` gives."""
    return rows(y, 0, m), turned(rows(y, m, y.shape[-2]))


def _wide(x: Any) -> bool:
    m, n = x.shape[-2:]
    return m != n and smaller("qr", m, n) == m


def _qr_tangents(t: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """Of a matrix with not more columns than rows."""
    moved = after(t, r, False)
    inner = times(adjoint(q), moved)
    low = strictly_lower(inner)
    kept = upper(inner) - _imaginary_diagonal(inner) + adjoint(low)
    return moved - times(q, kept), times(kept, r)


def _imaginary_diagonal(x: Any) -> Any:
    low = upper(lower(x))
    return low - real_part(low)


def _qr_jvp(tangents: Sequence[Any], x: Any, y: Any) -> Any:
    (t,) = tangents
    m, n = x.shape[-2:]
    q, r = _apart(y, m)
    if not _wide(x):
        tq, tr = _qr_tangents(t, q, r)
        return below(tq, turned(tr))
    tq, tr = _qr_tangents(columns(t, 0, m), q, columns(r, 0, m))
    rest = times(adjoint(tq), columns(x, m, n)) + times(adjoint(q), columns(t, m, n))
    return below(tq, turned(beside(tr, rest)))


def _qr_cotangent(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """Of a matrix with not more columns than rows; cotangents are the conjugate ones."""
    w = times(gr, adjoint(r)) - times(adjoint(q), gq)
    strict = turned(strictly_lower(turned(w)))
    inner = strict + adjoint(strict) + real_part(upper(lower(w)))
    return after(gq + times(q, inner), conj(r), True)


def _qr_vjp(ct: Any, x: Any, y: Any) -> tuple[Any, ...]:
    m, n = x.shape[-2:]
    q, r = _apart(y, m)
    gq, gr = _apart(conj(ct), m)
    if not _wide(x):
        return (conj(_qr_cotangent(gq, gr, q, r)),)
    rest = columns(gr, m, n)
    gq = gq + times(columns(x, m, n), adjoint(rest))
    left = _qr_cotangent(gq, columns(gr, 0, m), q, columns(r, 0, m))
    return (conj(beside(left, times(q, rest))),)


def _qr_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((4, 2), (0, 0), (1, 1), (3, 3), (2, 4), (2, 3, 2), (0, 2), (2, 0), (0, 2, 2), (3, 3)):
        yield Case((conditioned(rng, dtype, shape),), {})


def _leading(x: Array) -> bool:
    return well(x[..., : x.shape[-2]])


qr: OpSpec = matrix_op(
    name="qr",
    code=0x104,
    attrs={},
    infer=_qr_infer,
    reference=_qr,
    vjp=_qr_vjp,
    jvp=_qr_jvp,
    cases=_qr_cases,
    flops=lambda i, o: 2 * cube(i, o),
    ulp=32,
    determined=_leading,
    doc="Orthonormal columns Q and a triangle R with a diagonal that is real and not negative, ``x = Q @ R``, packed: "
    'Q, and below it the transpose of R. Derivatives: Walter and Lehmann, "Algorithmic differentiation of linear '
    'algebra functions" (2018); infinite or NaN where the leading columns are linearly dependent.',
    example="qr(dd.array([[3.0, 1.0], [4.0, 2.0]]), pairs=False)",
)


def _complement_infer(q: Type) -> Type:
    m, k = check_matrix("complement", q)
    if m != k and smaller("complement", m, k) == m:
        raise ShapeError(f"complement: {k} columns of {m} rows are not orthonormal", op="complement")
    return Type(q.dtype, (*q.shape[:-2], m, m - k))


def _one_complement(q: Array) -> Array:
    m, k = q.shape
    work, reflections = q.copy(), []
    for j in range(k):
        v = work[j:, j].copy()
        size = np.sqrt(np.sum(np.abs(v) ** 2))
        # The sign that adds up: nothing cancels.
        v[0] += size * (v[0] / abs(v[0]) if v[0] else 1)
        square = np.sum(np.abs(v) ** 2)
        if square > 0:
            v *= np.sqrt(2 / square)
            work[j:] -= np.outer(v, np.conj(v) @ work[j:])
            reflections.append((j, v))
    out = np.eye(m, dtype=q.dtype)[:, k:]
    for j, v in reversed(reflections):
        out[j:] -= np.outer(v, np.conj(v) @ out[j:])
    return out


def _complement(q: Array) -> Array:
    shape = (*q.shape[:-1], q.shape[-2] - q.shape[-1])
    return np.asarray(in_wide(lambda a: each(_one_complement, [a], shape), q))


def _complement_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((4, 2), (0, 0), (1, 1), (3, 3), (3, 0), (2, 3, 2), (0, 2, 2), (3, 1)):
        x = drawn(rng, dtype, shape)
        wide = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
        yield Case((np.linalg.qr(wide)[0].astype(dtype.dtype) if x.size else x,), {})


def _orthonormal(q: Array) -> bool:
    wide = q.astype(np.complex128 if q.dtype.kind == "c" else np.float64)
    return bool(np.allclose(np.conj(np.swapaxes(wide, -1, -2)) @ wide, np.eye(q.shape[-1]), atol=1e-4))


_NOT_UNIQUE = NoGrad("other orthonormal columns would do as well (the reduced factors have derivatives)")

complement: OpSpec = matrix_op(
    name="complement",
    code=0x105,
    attrs={},
    infer=_complement_infer,
    reference=_complement,
    vjp=_NOT_UNIQUE,
    jvp=_NOT_UNIQUE,
    cases=_complement_cases,
    flops=lambda i, o: 2 * cube(i, o),
    ulp=32,
    determined=_orthonormal,
    doc="Orthonormal columns that complete orthonormal columns to a unitary matrix, by Householder reflections.",
    example="complement(dd.array([[1.0], [0.0]]), pairs=False)",
)
