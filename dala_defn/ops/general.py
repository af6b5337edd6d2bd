"""Eigenvalues of matrices that need not be Hermitian. See ``spectral.py`` for how vectors are made unique."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import COMPLEX, DType
from dala_defn.errors import DTypeError
from dala_defn.ir.types import Type
from dala_defn.ops.factors import solve
from dala_defn.ops.matrices import (
    adjoint,
    angles,
    below,
    check_square,
    column_sums,
    conj,
    cube,
    diagonal,
    each,
    in_wide,
    inverse_gaps,
    matrix_op,
    on_diagonal,
    phases,
    real_part,
    rows,
    strong,
    times,
    turning,
    unturned,
)
from dala_defn.ops.samples import Array, reals
from dala_defn.ops.spec import Case, OpSpec
from dala_defn.ops.spectral import steady_phases

# Eigenvalues come in the order of this much of their imaginary part, added to the real one: those of a conjugate pair,
# whose real parts differ by rounding only, are kept apart.
SLANT = 0.6180339887498949


def _eig_infer(x: Type, *, vectors: bool) -> Type:
    n = check_square("eig", x)
    if x.dtype not in COMPLEX:
        raise DTypeError(f"eig does not take {x.dtype}: eigenvalues may be complex", op="eig", hint="complex numbers")
    return Type(x.dtype, (*x.shape[:-2], n + 1 if vectors else 1, n))


def _order(w: Array) -> Array:
    return np.argsort(w.real + SLANT * w.imag, kind="stable")


def _one_eig(a: Array) -> tuple[Array, Array]:
    w, v = np.linalg.eig(a)
    at = _order(w)
    v = v[:, at] / np.linalg.norm(v[:, at], axis=0)
    return w[at], v * phases(v)


def _eig(x: Array, *, vectors: bool) -> Array:
    n = x.shape[-1]

    def one(a: Array) -> Array:
        if not vectors:
            w = np.linalg.eigvals(a)
            return np.asarray(w[_order(w)])[None]
        w, v = _one_eig(a)
        return np.concatenate([w[None], v])

    return np.asarray(in_wide(lambda a: each(one, [a], (*x.shape[:-2], n + 1 if vectors else 1, n)), x))


def _eig_jvp(tangents: Sequence[Any], x: Any, y: Any, *, vectors: bool) -> Any:
    n = x.shape[-1]
    if not vectors:
        y = eig(x, vectors=True, pairs=False)
    w, v = rows(y, 0, 1), rows(y, 1, n + 1)
    inner = solve(v, times(tangents[0], v), pairs=False)
    values = diagonal(inner)
    if not vectors:
        return values
    tv = times(v, strong(inner, inverse_gaps(w, False)))
    tv = tv - v * real_part(column_sums(conj(v) * tv))
    return below(values, tv - v * angles(v, tv))


def _eig_vjp(ct: Any, x: Any, y: Any, *, vectors: bool) -> tuple[Any, ...]:
    n = x.shape[-1]
    ct = conj(ct)
    if not vectors:
        y = eig(x, vectors=True, pairs=False)
    w, v = rows(y, 0, 1), rows(y, 1, n + 1)
    inner = on_diagonal(rows(ct, 0, 1), v)
    if vectors:
        gv = rows(ct, 1, n + 1)
        gv = unturned(v, gv, turning(v, gv))
        gv = gv - v * real_part(column_sums(conj(v) * gv))
        inner = inner + strong(times(adjoint(v), gv), conj(inverse_gaps(w, False)))
    return (conj(solve(adjoint(v), times(inner, adjoint(v)), pairs=False)),)


def _apart(w: Array) -> bool:
    keys = w.real + SLANT * w.imag
    return bool(np.all(np.diff(keys, axis=-1) > 0.05 * np.max(np.abs(w), initial=0)))


def _determined(x: Array, *, vectors: bool) -> bool:
    if 0 in x.shape:
        return True
    wide = x.astype(np.complex128)
    if not np.isfinite(wide).all():
        return False
    for a in wide.reshape(-1, *wide.shape[-2:]):
        w, v = _one_eig(a)
        if not _apart(w) or np.linalg.cond(v) > 10 or (vectors and not steady_phases(v)):
            return False
    return True


def _cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((3, 3), (0, 0), (1, 1), (2, 4, 4), (0, 2, 2), (2, 2)):
        for vectors in (True, False):
            x = reals(-1, 1)(rng, dtype, shape)
            while not _determined(x, vectors=True):
                x = reals(-1, 1)(rng, dtype, shape) + np.diag(2 * np.arange(shape[-1])).astype(dtype.dtype)
            yield Case((x.astype(dtype.dtype),), {"vectors": vectors})


eig: OpSpec = matrix_op(
    name="eig",
    code=0x108,
    attrs={"vectors": "bool"},
    infer=_eig_infer,
    reference=_eig,
    vjp=_eig_vjp,
    jvp=_eig_jvp,
    accepts=COMPLEX,
    cases=_cases,
    flops=lambda i, o: 25 * cube(i, o),
    ulp=64,
    determined=_determined,
    doc="The eigenvalues of complex matrices in a row, ascending by the real part and 0.618 times the imaginary part; "
    "with ``vectors``, below it the eigenvectors as columns of length 1. Derivatives: Giles, "
    '"Collected matrix derivative results" (2008).',
    example="eig(dd.array([[2.0 + 0j, 1.0], [0.0, 1j]]), vectors=True, pairs=False)",
)
