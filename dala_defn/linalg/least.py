"""Pseudoinverses, least squares, and what singular values say of a matrix."""

from __future__ import annotations

import math
from typing import Any

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dim_value, dtype_of, owned, real
from dala_defn.linalg.norms import norm
from dala_defn.linalg.results import adjoint, derived, epsilon, matrix
from dala_defn.linalg.solving import inv
from dala_defn.linalg.spectra import eigvalsh, real_dtype, svdvals
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, show


def _relative(name: str, x: Any, one: Any, other: Any) -> Any:
    """Below which part of the largest a singular value counts as 0."""
    if one is not None and other is not None:
        raise ArgumentError(f"{name}: two tolerances", hint="rtol")
    given = other if one is None else one
    if given is not None:
        return convert(given, real_dtype(x))
    most = F.maximum(*(dim_value(d, real_dtype(x)) for d in x.shape[-2:]))
    return most * epsilon(dtype_of(x))


def _pinv(x: Any, rtol: Any) -> Any:
    m = x.shape[-2]
    packed = OPS["svd"](x, vectors=True, pairs=False)
    s, u, v = F.real(packed[..., 0, :]), packed[..., 1 : m + 1, :], packed[..., m + 1 :, :]
    cut = F.expand_dims(rtol, -1) * F.max(s, -1, keepdims=True, initial=0)
    large = F.logical_not(s <= cut)  # NaN stays
    inverse = F.where(large, 1 / F.where(large, s, 1), 0)
    return F.matmul(v * F.expand_dims(convert(inverse, dtype_of(x)), -2), adjoint(u))


def _pinv_rule(f: Any, xs: tuple[Any, Any], ts: tuple[Any, Any]) -> tuple[Any, Any]:
    """Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems" (1973)."""
    (x, rtol), (t, _) = xs, ts
    p = f(x, rtol)
    th, ph = adjoint(t), adjoint(p)
    first = F.matmul(F.matmul(p, t), p)
    rows = F.matmul(F.matmul(p, ph), th - F.matmul(F.matmul(th, x), p))
    columns = F.matmul(F.matmul(th - F.matmul(p, F.matmul(x, th)), ph), p)
    return p, rows + columns - first


_pseudo = derived(_pinv, _pinv_rule)


def pinv(x: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The pseudoinverse (…, n, m) of matrices (…, m, n), by singular values.

    Args:
        x: the matrices.
        rcond: what ``rtol`` is called in older code.
        hermitian: says that x is Hermitian; as x is decomposed in the same way, nothing changes.
        rtol: singular values not above this part of the largest count as 0; by default the larger of m and n times the
            distance from 1 to the next number, as the Array API says.

    The derivative is that among matrices of the same rank.

    Raises:
        DTypeError: for float16 and bfloat16.
        ArgumentError: for both tolerances.

    Example:
        >>> dd.linalg.pinv(dd.array([[2.0, 0.0], [0.0, 0.0]]))
        array([[0.5, 0. ],
               [0. , 0. ]], dtype=float32)
    """
    x = matrix("pinv", x)
    return _pseudo(x, _relative("pinv", x, rcond, rtol))


def matrix_rank(x: Any, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """How many singular values of each matrix are larger than ``tol``, or than ``rtol`` times the largest; int32.

    By default ``rtol`` is that of ``pinv``. With ``hermitian``, they are the sizes of the eigenvalues. An array of less
    than two axes has the rank 0 when it holds zeros only, else 1.

    Raises:
        DTypeError: for float16 and bfloat16.
        ArgumentError: for both tolerances.

    Example:
        >>> dd.linalg.matrix_rank(dd.array([[2.0, 0.0], [0.0, 0.0]]))
        array(1, dtype=int32)
    """
    x = real(x)
    if len(x.shape) < 2:
        return convert(F.any(x != 0), dtypes.int32)
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank: two tolerances", hint="tol or rtol")
    s = F.absolute(eigvalsh(x)) if hermitian else svdvals(x)
    if tol is None:
        cut = F.expand_dims(_relative("matrix_rank", x, None, rtol), -1) * F.max(s, -1, keepdims=True, initial=0)
    else:
        cut = F.expand_dims(convert(tol, dtype_of(s)), -1)
    return F.sum(s > cut, -1, dtypes.int32)


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """The x of the least length for which ``a @ x`` is nearest to b.

    Args:
        a: (m, n).
        b: (m) or (m, k).
        rcond: see ``rtol`` of ``pinv``.

    Returns:
        x: (n) or (n, k).
        residuals: the squared lengths of ``b - a @ x``, (1) or (k); none, (0), unless m is above n. NumPy gives none
            either where the rank of a is below n, but a size cannot depend on values here.
        rank: the rank of a, int32.
        s: the singular values of a.

    Raises:
        ShapeError: when a and b do not fit.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.lstsq(dd.array([[1.0], [1.0]]), dd.array([1.0, 3.0]))[0]
        array([2.], dtype=float32)
    """
    a, b = owned(a, b)
    a, b = matrix("lstsq", a), real(b)
    if len(a.shape) != 2 or len(b.shape) not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ShapeError(
            f"lstsq: {show(a.shape)} does not go with {show(b.shape)}", op="lstsq", rule="(m, n) with (m) or (m, k)"
        )
    m, n = a.shape
    rtol = _relative("lstsq", a, rcond, None)
    right = F.expand_dims(b, 1) if len(b.shape) == 1 else b
    x = F.matmul(_pseudo(a, rtol), right)
    s = svdvals(a)
    rank = F.sum(s > rtol * F.max(s, initial=0), -1, dtypes.int32)
    if _above(m, n):
        rest = F.absolute(right - F.matmul(a, x))
        residuals = F.sum(rest * rest, 0)
    else:
        residuals = F.zeros((0,), dtype_of(s))
    return (x[:, 0] if len(b.shape) == 1 else x), residuals, rank, s


def _above(m: Dim, n: Dim) -> bool:
    if isinstance(m, int) and isinstance(n, int):
        return m > n
    raise ShapeError(
        f"lstsq: whether the size {m} is above {n} decides the shape of the residuals, and is not known",
        op="lstsq",
        hint="dd.linalg.pinv(a) @ b, or numbers for these sizes",
    )


def cond(x: Any, /, p: Any = None) -> Any:
    """The condition numbers of matrices: ``norm(x, p) * norm(inv(x), p)``, infinite where there is no inverse.

    By default, and for a ``p`` of 2, the largest singular value over the smallest, of matrices of any shape; for -2 the
    smallest over the largest.

    Raises:
        ShapeError: when another norm is asked for of matrices that are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.cond(dd.array([[2.0, 0.0], [0.0, 4.0]]))
        array(2., dtype=float32)
    """
    x = matrix("cond", x)
    if p in (None, 2, -2):
        s = svdvals(x)
        out = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        out = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    given = F.any(F.isnan(x), (-2, -1))
    return F.where(F.logical_and(F.isnan(out), F.logical_not(given)), math.inf, out)
