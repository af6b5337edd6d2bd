"""Singular values and eigenvalues."""

from __future__ import annotations

from typing import Any

from dala_defn import functions as F
from dala_defn.dtypes import complex_of
from dala_defn.errors import ArgumentError
from dala_defn.functions.base import convert, dtype_of
from dala_defn.linalg.results import EighResult, EigResult, SVDResult, adjoint, hermitian, matrix
from dala_defn.ops.spec import OPS


def _triangle(name: str, x: Any, uplo: str) -> Any:
    """The matrix whose lower triangle is to be read."""
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise ArgumentError(f"{name}: UPLO={uplo!r}", hint='"L" or "U"')
    x = hermitian(matrix(name, x))
    return x if uplo.upper() == "L" else adjoint(x)


def _row(packed: Any) -> Any:
    return F.real(packed[..., 0, :])


def eigh(x: Any, /, UPLO: str = "L") -> EighResult:
    """The eigenvalues of Hermitian matrices (…, n, n), ascending and real, and their eigenvectors (…, n, n) as columns.

    One triangle is read (``UPLO``), as in NumPy; the other is taken to be its mirror image, and the gradient is that
    within Hermitian matrices. Vectors have length 1; the first element of each that is at least half as large as its
    largest is real and positive. Those of equal eigenvalues are some basis of their space: a derivative that asks for
    them is infinite or NaN. That of the eigenvalues alone is right there too. A matrix that holds NaN or an infinity
    gives NaN.

    Raises:
        ShapeError: when the matrices are not square.
        DTypeError: for float16 and bfloat16.
        ArgumentError: for another ``UPLO``.

    Example:
        >>> dd.linalg.eigh(dd.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        array([1., 2.], dtype=float32)
    """
    packed = OPS["eigh"](_triangle("eigh", x, UPLO), vectors=True, pairs=False)
    return EighResult(_row(packed), packed[..., 1:, :])


def eigvalsh(x: Any, /, UPLO: str = "L") -> Any:
    """The eigenvalues of ``eigh``, without the vectors.

    Raises:
        ShapeError, DTypeError, ArgumentError: as ``eigh``.

    Example:
        >>> dd.linalg.eigvalsh(dd.array([[2.0, 0.0], [0.0, 1.0]]))
        array([1., 2.], dtype=float32)
    """
    return _row(OPS["eigh"](_triangle("eigvalsh", x, UPLO), vectors=False, pairs=False))


def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular values (…, k), the largest first, with singular vectors: ``x = (U[:, :k] * S) @ Vh[:k]``.

    Args:
        x: (…, m, n), and k is the smaller of m and n.
        full_matrices: U (…, m, m) and Vh (…, n, n), or only k columns and rows.
        compute_uv: False for the values alone, as ``svdvals``.
        hermitian: says that x is Hermitian; as x is decomposed in the same way, nothing changes.

    In each column of U, the first element at least half as large as the largest is real and positive. Vectors of equal
    values are some basis of their space, and so is what completes U or Vh: a derivative that asks for the former is
    infinite or NaN, one that needs the latter is refused. A matrix that holds NaN or an infinity gives NaN.

    Raises:
        DTypeError: for float16 and bfloat16.
        GradientError: for a derivative of full matrices where m and n differ.

    Example:
        >>> dd.linalg.svd(dd.array([[3.0, 0.0], [0.0, 4.0]])).S
        array([4., 3.], dtype=float32)
    """
    if not compute_uv:
        return svdvals(x)
    x = matrix("svd", x)
    m = x.shape[-2]
    packed = OPS["svd"](x, vectors=True, pairs=False)
    u, v = packed[..., 1 : m + 1, :], packed[..., m + 1 :, :]
    if full_matrices:
        u, v = completed(u), completed(v)
    return SVDResult(u, _row(packed), adjoint(v))


def completed(q: Any) -> Any:
    """Orthonormal columns, with others that make them a unitary matrix."""
    if q.shape[-1] == q.shape[-2]:
        return q
    return F.concatenate([q, OPS["complement"](q, pairs=False)], -1)


def svdvals(x: Any, /) -> Any:
    """The singular values (…, k) of matrices (…, m, n), the largest first.

    Raises:
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.svdvals(dd.array([[3.0, 0.0], [0.0, 4.0]]))
        array([4., 3.], dtype=float32)
    """
    return _row(OPS["svd"](matrix("svdvals", x), vectors=False, pairs=False))


def real_dtype(x: Any) -> Any:
    """The dtype of absolute values of an array."""
    return F.real(x).dtype if dtype_of(x).kind == "c" else dtype_of(x)


def _complex(name: str, x: Any) -> Any:
    x = matrix(name, x)
    return convert(x, complex_of(dtype_of(x)))


def eig(x: Any, /) -> EigResult:
    """The eigenvalues (…, n) of square matrices and their eigenvectors (…, n, n) as columns; always complex.

    (NumPy gives real ones where all happen to be real, but a dtype cannot depend on values here.) The values ascend by
    their real part and 0.618 times their imaginary part. Vectors have length 1; the first element of each that is at
    least half as large as its largest is real and positive. A matrix without n independent eigenvectors has some that
    are nearly equal, and no derivative there: it is infinite, NaN or very large. A matrix that holds NaN or an infinity
    gives NaN.

    Raises:
        ShapeError: when the matrices are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.round(dd.linalg.eig(dd.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag, 3)
        array([-1.,  1.], dtype=float32)
    """
    packed = OPS["eig"](_complex("eig", x), vectors=True, pairs=False)
    return EigResult(packed[..., 0, :], packed[..., 1:, :])


def eigvals(x: Any, /) -> Any:
    """The eigenvalues of ``eig``, without the vectors.

    Raises:
        ShapeError, DTypeError: as ``eig``.

    Example:
        >>> dd.linalg.eigvals(dd.array([[2.0, 1.0], [0.0, 1.0]])).real
        array([1., 2.], dtype=float32)
    """
    return OPS["eig"](_complex("eigvals", x), vectors=False, pairs=False)[..., 0, :]
