"""Triangular factors and what is solved with them.

Each factorization gives one array, with the factors packed as they lie in LAPACK's; ``dd.linalg`` takes them apart.
A matrix that holds an infinity or NaN, or has no such factors, gives NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType, float32, int32, real_of
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.indexing import gather
from dala_defn.ops.matrices import (
    adjoint,
    below,
    beside,
    check_matrix,
    check_square,
    columns,
    conditioned,
    conj,
    cube,
    definite,
    drawn,
    each,
    half,
    identity,
    in_wide,
    lower,
    matrix_op,
    rows,
    smaller,
    strictly_lower,
    times,
    turned,
    upper,
)
from dala_defn.ops.movement import reshape
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import OPS, Case, OpSpec
from dala_defn.shapes import Dim, same_size, show, size

# The most rows whose numbers a float32 holds exactly.
MOST_ROWS = 2**24


def well(x: Array) -> bool:
    """Whether matrices are far from singular."""
    if 0 in x.shape:
        return True
    s = np.linalg.svd(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64), compute_uv=False)
    return bool(np.all(s[..., -1] * 50 > s[..., 0]))


# Cholesky.


def _cholesky_infer(x: Type) -> Type:
    check_square("cholesky", x)
    return x


def _one_cholesky(x: Array) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.full_like(x, np.nan)


def _cholesky(x: Array) -> Array:
    return np.asarray(in_wide(lambda a: each(_one_cholesky, [np.tril(a)], a.shape), x))


def _cholesky_jvp(tangents: Sequence[Any], x: Any, y: Any) -> Any:
    low = half(tangents[0])
    inner = triangular_solve(y, low + adjoint(low), lower=True, transpose=False, unit=False, pairs=False)
    middle = triangular_solve(y, adjoint(inner), lower=True, transpose=False, unit=False, pairs=False)
    return times(y, half(middle))


def _cholesky_vjp(ct: Any, x: Any, y: Any) -> tuple[Any, ...]:
    inner = half(times(adjoint(y), conj(ct)))
    left = triangular_solve(conj(y), inner, lower=True, transpose=True, unit=False, pairs=False)
    whole = turned(triangular_solve(y, turned(left), lower=True, transpose=True, unit=False, pairs=False))
    return (conj(half(whole + adjoint(whole))),)


def _cholesky_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((3, 3), (0, 0), (1, 1), (2, 4, 4), (0, 2, 2), (2, 2)):
        yield Case((definite(rng, dtype, shape),), {})


def _positive(x: Array) -> bool:
    wide = np.tril(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    whole = wide + np.conj(np.swapaxes(np.tril(wide, -1), -1, -2))
    return 0 in x.shape or bool(well(whole) and np.all(np.linalg.eigvalsh(whole) > 0))


cholesky: OpSpec = matrix_op(
    name="cholesky",
    code=0x100,
    attrs={},
    infer=_cholesky_infer,
    reference=_cholesky,
    vjp=_cholesky_vjp,
    jvp=_cholesky_jvp,
    cases=_cholesky_cases,
    flops=cube,
    ulp=16,
    determined=_positive,
    doc="The lower triangle L of positive definite matrices ``L @ L.H``, of which the lower triangle is read; NaN for "
    'others. Derivatives: Murray, "Differentiation of the Cholesky decomposition" (2016).',
    example="cholesky(dd.array([[4.0, 2.0], [2.0, 2.0]]), pairs=False)",
)


# LU.


def _lu_infer(x: Type) -> Type:
    m, n = check_matrix("lu", x)
    if real_of(x.dtype) is float32 and isinstance(m, int) and m > MOST_ROWS:
        raise ShapeError(f"lu: {m} rows are more than a float32 can number", op="lu", hint="float64")
    return Type(x.dtype, (*x.shape[:-1], n + 1))


def _one_lu(x: Array) -> Array:
    m, n = x.shape
    a, order = x.copy(), np.arange(m)
    for k in range(min(m, n)):
        # Complex magnitudes as LAPACK takes them.
        at = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))
        if a[at, k] == 0:
            continue
        if at != k:
            a[[k, at]], order[[k, at]] = a[[at, k]], order[[at, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.concatenate([a, order[:, None]], axis=1)


def _lu(x: Array) -> Array:
    return np.asarray(in_wide(lambda a: each(_one_lu, [a], (*a.shape[:-1], a.shape[-1] + 1)), x))


def permutation(packed: Any) -> Any:
    """The row of the operand that each row of the factors is, int32, from what ``lu`` gives."""
    n = packed.shape[-1]
    last = reshape(columns(packed, n - 1, n), shape=packed.shape[:-1])
    return OPS["cast"](OPS["real"](last) if last.dtype.kind == "c" else last, dtype=int32)


def take_rows(x: Any, order: Any) -> Any:
    """The rows of matrices in an order, one for each matrix."""
    lead = len(order.shape) - 1
    return gather(x, order, axis=lead, batch_dims=lead, mode="clip")


def _back(x: Any, order: Any) -> Any:
    """The inverse of ``take_rows``."""
    return take_rows(x, OPS["argsort"](order, axis=len(order.shape) - 1))


def _square_factors(packed: Any) -> tuple[Any, Any]:
    """L and U of what ``lu`` gives, made square with rows and columns of the identity."""
    m, n = packed.shape[-2], packed.shape[-1] - 1
    x = columns(packed, 0, n)
    if m == n:
        return strictly_lower(x) + identity(x, m), upper(x)
    if smaller("lu", m, n) == n:
        one = identity(x, m)
        low = beside(strictly_lower(x), columns(one, n, m) * lit(0, x.dtype)) + one
        return low, upper(rows(x, 0, n))
    return strictly_lower(columns(x, 0, m)) + identity(x, m), below(upper(x), rows(identity(x, n), m, n))


def after(x: Any, right: Any, transpose: bool) -> Any:
    """``x @ inv(U)``, or ``x @ inv(U.T)``, for an upper triangle."""
    return turned(triangular_solve(right, turned(x), lower=False, transpose=not transpose, unit=False, pairs=False))


def _lu_jvp(tangents: Sequence[Any], x: Any, y: Any) -> Any:
    left, right = _square_factors(y)
    t = take_rows(tangents[0], permutation(y))
    inner = after(triangular_solve(left, t, lower=True, transpose=False, unit=True, pairs=False), right, False)
    moved = times(left, strictly_lower(inner)) + times(upper(inner), right)
    return beside(moved, columns(y, x.shape[-1], x.shape[-1] + 1) * lit(0, y.dtype))


def _lu_vjp(ct: Any, x: Any, y: Any) -> tuple[Any, ...]:
    left, right = _square_factors(y)
    ct = columns(ct, 0, x.shape[-1])
    inner = strictly_lower(times(turned(left), ct)) + upper(times(ct, turned(right)))
    out = triangular_solve(left, after(inner, right, True), lower=True, transpose=True, unit=True, pairs=False)
    return (_back(out, permutation(y)),)


def _lu_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((3, 3), (0, 0), (1, 1), (4, 2), (2, 4), (2, 3, 3), (0, 2), (2, 0), (0, 2, 2), (3, 3)):
        yield Case((conditioned(rng, dtype, shape),), {})


def _steady(x: Array) -> bool:
    """Whether rounding leaves the choice of each pivot, and pivots are not near 0."""
    if 0 in x.shape:
        return True
    wide = np.asarray(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if not np.isfinite(wide).all():
        return False
    for a in wide.reshape(-1, *wide.shape[-2:]):
        a = a.copy()
        for k in range(min(a.shape)):
            sizes = np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)
            order = np.argsort(sizes)[::-1]
            if sizes[order[0]] < 0.02 * np.abs(wide).max() or (
                len(order) > 1 and sizes[order[1]] > 0.999 * sizes[order[0]]
            ):
                return False
            a[[k, k + order[0]]] = a[[k + order[0], k]]
            a[k + 1 :, k:] -= np.outer(a[k + 1 :, k] / a[k, k], a[k, k:])
    return True


lu: OpSpec = matrix_op(
    name="lu",
    code=0x101,
    attrs={},
    infer=_lu_infer,
    reference=_lu,
    vjp=_lu_vjp,
    jvp=_lu_jvp,
    cases=_lu_cases,
    flops=cube,
    ulp=32,
    determined=_steady,
    doc="The factors of ``x[p] = L @ U`` with partial pivoting, packed: U on and above the diagonal, L without its "
    "ones below it, and in a last column of its own the row of x that each row is (p). A pivot of 0 is left as it is.",
    example="lu(dd.array([[1.0, 2.0], [4.0, 2.0]]), pairs=False)",
)


# Solving.


def _solve_shapes(name: str, a: Type, b: Type) -> None:
    n = check_square(name, a)
    check_matrix(name, b)
    fits = a.ndim == b.ndim and all(same_size(p, q, name) for p, q in zip(a.shape[:-2], b.shape[:-2], strict=True))
    if not fits or not same_size(n, b.shape[-2], name):
        raise ShapeError(f"{name}: matrices {show(a.shape)} do not go with right sides {show(b.shape)}", op=name)


def _substitution_flops(inputs: Sequence[Type], output: Type) -> Dim:
    return size(output.shape) * inputs[0].shape[-1]


def _triangular_infer(a: Type, b: Type, *, lower: bool, transpose: bool, unit: bool) -> Type:
    _solve_shapes("triangular_solve", a, b)
    return b


def _triangular(a: Array, b: Array, *, lower: bool, transpose: bool, unit: bool) -> Array:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    t, x = a.astype(wide), b.astype(wide)
    if transpose:
        t = np.swapaxes(t, -1, -2)
    n = a.shape[-1]
    downwards = lower != transpose
    with np.errstate(all="ignore"):
        for i in range(n) if downwards else range(n - 1, -1, -1):
            done = slice(0, i) if downwards else slice(i + 1, n)
            x[..., i, :] -= np.sum(t[..., i, done, None] * x[..., done, :], axis=-2)
            if not unit:
                x[..., i, :] = x[..., i, :] / t[..., i, i, None]
    return x.astype(a.dtype)


def _triangle(x: Any, lower_one: bool, unit: bool) -> Any:
    if unit:
        return strictly_lower(x) if lower_one else turned(strictly_lower(turned(x)))
    return lower(x) if lower_one else upper(x)


def _triangular_jvp(
    tangents: Sequence[Any], a: Any, b: Any, y: Any, *, lower: bool, transpose: bool, unit: bool
) -> Any:
    ta, tb = tangents
    right = tb
    if ta is not None:
        moved = _triangle(ta, lower, unit)
        less = times(turned(moved) if transpose else moved, y)
        right = -less if right is None else right - less
    return triangular_solve(a, right, lower=lower, transpose=transpose, unit=unit, pairs=False)


def _triangular_vjp(ct: Any, a: Any, b: Any, y: Any, *, lower: bool, transpose: bool, unit: bool) -> tuple[Any, ...]:
    gb = triangular_solve(a, ct, lower=lower, transpose=not transpose, unit=unit, pairs=False)
    ga = times(y, turned(gb)) if transpose else times(gb, turned(y))
    return (-_triangle(ga, lower, unit), gb)


_SIDES = (((3, 3), (3, 2)), ((0, 0), (0, 2)), ((2, 2), (2, 0)), ((1, 1), (1, 1)), ((2, 3, 3), (2, 3, 1)))


def _triangular_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for k, (left, right) in enumerate((*_SIDES, *_SIDES[:1] * 6, ((2, 2), (2, 2)))):
        a = drawn(rng, dtype, left) * np.asarray(0.5).astype(dtype.dtype) + np.asarray(3 * np.eye(left[-1])).astype(
            dtype.dtype
        )
        attrs = {"lower": bool(k & 1), "transpose": bool(k & 2), "unit": bool(k & 4)}
        yield Case((a.astype(dtype.dtype), drawn(rng, dtype, right)), attrs)


def _far_from_zero(a: Array, b: Array, *, lower: bool, transpose: bool, unit: bool) -> bool:
    if 0 in a.shape:
        return True
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t - t * np.eye(t.shape[-1], dtype=t.dtype) + np.eye(t.shape[-1], dtype=t.dtype)
    return well(t)


triangular_solve: OpSpec = matrix_op(
    name="triangular_solve",
    code=0x102,
    attrs={"lower": "bool", "transpose": "bool", "unit": "bool"},
    infer=_triangular_infer,
    reference=_triangular,
    vjp=_triangular_vjp,
    jvp=_triangular_jvp,
    cases=_triangular_cases,
    flops=lambda i, o: (
        cube(i[1:], o) * 0 + cube([Type(i[1].dtype, (*i[1].shape[:-2], i[1].shape[-1], i[1].shape[-2]))], o)
    ),
    ulp=16,
    determined=_far_from_zero,
    doc="The X of ``T @ X = B`` for a lower or upper triangle T of the first operand, whose other elements are not "
    "read, or of ``T.T @ X = B``; with ``unit``, the diagonal is taken as ones and not read either. A 0 on it divides.",
    example="triangular_solve(dd.array([[2.0, 0.0], [1.0, 1.0]]), dd.ones((2, 1)), "
    "lower=True, transpose=False, unit=False, pairs=False)",
)


def _solve_infer(a: Type, b: Type) -> Type:
    _solve_shapes("solve", a, b)
    return b


def _one_solve(a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)


def _solve(a: Array, b: Array) -> Array:
    return np.asarray(in_wide(lambda x, y: each(_one_solve, [x, y], y.shape), a, b))


def _solve_jvp(tangents: Sequence[Any], a: Any, b: Any, y: Any) -> Any:
    ta, tb = tangents
    right = tb
    if ta is not None:
        less = times(ta, y)
        right = -less if right is None else right - less
    return solve(a, right, pairs=False)


def _solve_vjp(ct: Any, a: Any, b: Any, y: Any) -> tuple[Any, ...]:
    gb = solve(turned(a), ct, pairs=False)
    return (-times(gb, turned(y)), gb)


def _solve_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for left, right in (*_SIDES, ((2, 2), (2, 2))):
        yield Case((conditioned(rng, dtype, left), drawn(rng, dtype, right)), {})


solve: OpSpec = matrix_op(
    name="solve",
    code=0x103,
    attrs={},
    infer=_solve_infer,
    reference=_solve,
    vjp=_solve_vjp,
    jvp=_solve_jvp,
    cases=_solve_cases,
    flops=lambda i, o: cube(i, o) + 2 * _substitution_flops(i, o),
    ulp=64,
    determined=lambda a, b: well(a),
    doc="The X of ``A @ X = B``, by an LU factorization; NaN where A has no inverse (a pivot is 0). The derivative is "
    'that of the equation (Giles, "Collected matrix derivative results", 2008), not of the factors.',
    example="solve(dd.array([[2.0, 0.0], [0.0, 4.0]]), dd.ones((2, 1)), pairs=False)",
)
