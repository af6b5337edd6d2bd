"""Singular values, and eigenvalues of Hermitian matrices. See ``factors.py`` for how results are packed.

Vectors are made unique by a phase: in each column, the first element at least half as large as the largest is real
and positive. What belongs to equal (singular) values is a basis of a space, and any basis would do: derivatives of
such vectors are infinite or NaN, unless the cotangents that ask for them are exactly 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.matrices import (
    adjoint,
    angles,
    below,
    check_matrix,
    check_square,
    conditioned,
    conj,
    cube,
    definite,
    diagonal,
    each,
    half,
    imaginary_part,
    in_wide,
    inverse_gaps,
    is_complex,
    matrix_op,
    on_diagonal,
    phases,
    real_part,
    rows,
    smaller,
    strong,
    times,
    turned,
    turning,
    unturned,
)
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import Case, OpSpec
from dala_defn.shapes import Dim

# Eigenvalues of Hermitian matrices.


def _eigh_infer(x: Type, *, vectors: bool) -> Type:
    n = check_square("eigh", x)
    return Type(x.dtype, (*x.shape[:-2], n + 1 if vectors else 1, n))


def _eigh(x: Array, *, vectors: bool) -> Array:
    n = x.shape[-1]

    def one(a: Array) -> Array:
        if not vectors:
            return np.asarray(np.linalg.eigvalsh(a))[None]
        w, v = np.linalg.eigh(a)
        return np.concatenate([w[None], v * phases(v)])

    shape = (*x.shape[:-2], n + 1 if vectors else 1, n)
    return np.asarray(in_wide(lambda a: each(one, [np.tril(a)], shape), x))


def _hermitian(t: Any) -> Any:
    """What a change of the lower triangle changes."""
    low = half(t)
    return low + adjoint(low)


def _eigh_jvp(tangents: Sequence[Any], x: Any, y: Any, *, vectors: bool) -> Any:
    n = x.shape[-1]
    if not vectors:
        y = eigh(x, vectors=True, pairs=False)
    w, v = rows(y, 0, 1), rows(y, 1, n + 1)
    inner = times(adjoint(v), times(_hermitian(tangents[0]), v))
    values = real_part(diagonal(inner))
    if not vectors:
        return values
    tv = times(v, strong(inner, inverse_gaps(w, False)))
    if is_complex(x):
        tv = tv - v * angles(v, tv)
    return below(values, tv)


def _eigh_vjp(ct: Any, x: Any, y: Any, *, vectors: bool) -> tuple[Any, ...]:
    n = x.shape[-1]
    ct = conj(ct)
    if not vectors:
        y = eigh(x, vectors=True, pairs=False)
    w, v = rows(y, 0, 1), rows(y, 1, n + 1)
    inner = on_diagonal(real_part(rows(ct, 0, 1)), rows(y, 1, n + 1))
    if vectors:
        gv = rows(ct, 1, n + 1)
        if is_complex(x):
            gv = unturned(v, gv, turning(v, gv))
        inner = inner + strong(times(adjoint(v), gv), inverse_gaps(w, False))
    whole = times(v, times(inner, adjoint(v)))
    return (conj(half(whole + adjoint(whole))),)


def _eigh_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((3, 3), (0, 0), (1, 1), (2, 4, 4), (0, 2, 2), (2, 2)):
        for vectors in (True, False):
            yield Case((definite(rng, dtype, shape, -1.0),), {"vectors": vectors})


def _apart(s: Array) -> bool:
    """Whether values, in order, are far from each other."""
    gaps = np.abs(np.diff(s, axis=-1))
    return bool(np.all(gaps > 0.02 * np.max(np.abs(s), initial=0)))


def steady_phases(v: Array) -> bool:
    """Whether rounding leaves the choice of the pivots."""
    size = np.abs(v)
    return bool(np.all(np.abs(size - 0.5 * np.max(size, axis=-2, keepdims=True, initial=0)) > 1e-3))


def _eigh_determined(x: Array, *, vectors: bool) -> bool:
    wide = np.tril(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if 0 in x.shape:
        return True
    w, v = np.linalg.eigh(wide)
    return bool(np.isfinite(w).all()) and (not vectors or (_apart(w) and steady_phases(v)))


eigh: OpSpec = matrix_op(
    name="eigh",
    code=0x106,
    attrs={"vectors": "bool"},
    infer=_eigh_infer,
    reference=_eigh,
    vjp=_eigh_vjp,
    jvp=_eigh_jvp,
    cases=_eigh_cases,
    flops=lambda i, o: 9 * cube(i, o),
    ulp=64,
    determined=_eigh_determined,
    doc="The eigenvalues of Hermitian matrices, of which the lower triangle is read, in a row and ascending; with "
    '``vectors``, below it the eigenvectors as columns of length 1. Derivatives: Giles, "Collected matrix derivative '
    'results" (2008).',
    example="eigh(dd.array([[2.0, 1.0], [1.0, 2.0]]), vectors=True, pairs=False)",
)


# Singular values.


def _svd_infer(x: Type, *, vectors: bool) -> Type:
    m, n = check_matrix("svd", x)
    return Type(x.dtype, (*x.shape[:-2], m + n + 1 if vectors else 1, smaller("svd", m, n)))


def _svd(x: Array, *, vectors: bool) -> Array:
    m, n = x.shape[-2:]

    def one(a: Array) -> Array:
        if not vectors:
            return np.asarray(np.linalg.svd(a, compute_uv=False))[None]
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        turn = phases(u)
        return np.concatenate([s[None], u * turn, np.conj(vh.T) * turn])

    shape = (*x.shape[:-2], m + n + 1 if vectors else 1, min(m, n))
    return np.asarray(in_wide(lambda a: each(one, [a], shape), x))


def _parted(y: Any, m: Dim) -> tuple[Any, Any, Any]:
    return rows(y, 0, 1), rows(y, 1, m + 1), rows(y, m + 1, y.shape[-2])


def _inverse(s: Any) -> Any:
    return lit(1, s.dtype) / s


def _outside(t: Any, u: Any) -> Any:
    """What of some columns is orthogonal to those of u."""
    return t - times(u, times(adjoint(u), t))


def _svd_jvp(tangents: Sequence[Any], x: Any, y: Any, *, vectors: bool) -> Any:
    (t,) = tangents
    m, n = x.shape[-2:]
    if not vectors:
        y = svd(x, vectors=True, pairs=False)
    s, u, v = _parted(y, m)
    inner = times(adjoint(u), times(t, v))
    values = real_part(diagonal(inner))
    if not vectors:
        return values
    gaps, column = inverse_gaps(s, True), turned(s)
    turned_inner = adjoint(inner)
    tu = times(u, strong(inner * s + column * turned_inner, gaps))
    tv = times(v, strong(column * inner + turned_inner * s, gaps))
    k = y.shape[-1]
    if m != k:
        tu = tu + strong(_outside(times(t, v), u), _inverse(s))
    if n != k:
        tv = tv + strong(_outside(times(adjoint(t), u), v), _inverse(s))
    if is_complex(x):
        i = lit(1j, x.dtype)
        tu = tu + u * strong(imaginary_part(diagonal(inner)), _inverse(s)) * i
        turn = angles(u, tu)
        tu, tv = tu - u * turn, tv - v * turn
    return below(values, tu, tv)


def _svd_vjp(ct: Any, x: Any, y: Any, *, vectors: bool) -> tuple[Any, ...]:
    m, n = x.shape[-2:]
    ct = conj(ct)
    if not vectors:
        _, u, v = _parted(svd(x, vectors=True, pairs=False), m)
        return (conj(times(u * real_part(ct), adjoint(v))),)
    s, u, v = _parted(y, m)
    gs, gu, gv = _parted(ct, m)
    gaps, column, k = inverse_gaps(s, True), turned(s), y.shape[-1]
    inner = real_part(gs)
    if is_complex(x):
        gu = unturned(u, gu, turning(u, gu) + turning(v, gv))
        inner = inner - strong(turning(u, gu), _inverse(s)) * lit(1j, x.dtype)
    left = strong(times(adjoint(u), gu), gaps)
    right = strong(times(adjoint(v), gv), gaps)
    inner = on_diagonal(inner, left) + (left + adjoint(left)) * s + column * (right + adjoint(right))
    out = times(u, times(inner, adjoint(v)))
    if m != k:
        out = out + times(strong(_outside(gu, u), _inverse(s)), adjoint(v))
    if n != k:
        out = out + times(u, adjoint(strong(_outside(gv, v), _inverse(s))))
    return (conj(out),)


def _svd_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((3, 3), (0, 0), (1, 1), (4, 2), (2, 4), (2, 3, 2), (0, 2), (2, 0), (0, 2, 2), (3, 2)):
        for vectors in (True, False):
            yield Case((conditioned(rng, dtype, shape),), {"vectors": vectors})


def _svd_determined(x: Array, *, vectors: bool) -> bool:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if 0 in x.shape:
        return True
    u, s, _ = np.linalg.svd(wide, full_matrices=False)
    if not np.isfinite(s).all():
        return False
    return not vectors or bool(_apart(s) and steady_phases(u) and np.all(s[..., -1] * 50 > s[..., 0]))


svd: OpSpec = matrix_op(
    name="svd",
    code=0x107,
    attrs={"vectors": "bool"},
    infer=_svd_infer,
    reference=_svd,
    vjp=_svd_vjp,
    jvp=_svd_jvp,
    cases=_svd_cases,
    flops=lambda i, o: 20 * cube(i, o),
    ulp=64,
    determined=_svd_determined,
    doc="The singular values in a row, the largest first; with ``vectors``, below it the left singular vectors and "
    'then the right ones, as columns of length 1: ``x = (U * s) @ V.H``. Derivatives: Townsend, "Differentiating the '
    'singular value decomposition" (2016).',
    example="svd(dd.array([[3.0, 0.0], [0.0, 4.0]]), vectors=True, pairs=False)",
)
