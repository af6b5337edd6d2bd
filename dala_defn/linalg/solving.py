"""Triangular factors, linear equations, inverses and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dala_defn import control, dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, inexact, own, owned
from dala_defn.linalg.results import LUFactors, QRResult, SlogdetResult, adjoint, derived, hermitian, matrix
from dala_defn.linalg.spectra import completed
from dala_defn.ops.factors import permutation, take_rows
from dala_defn.ops.matrices import identity
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, broadcast_shapes, normalize_axis, show, size


def _square(name: str, x: Any) -> Any:
    x = matrix(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} needs square matrices, not {show(x.shape)}", op=name)
    return x


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The triangle L with a positive diagonal and ``L @ L.H`` a positive definite matrix; its ``L.H`` with ``upper``.

    One triangle is read, the upper one with ``upper``; the other is taken to be its mirror image, and the gradient is
    that within Hermitian matrices.

    A matrix that is not positive definite gives NaN: what NumPy raises as LinAlgError cannot be raised by a graph.

    Raises:
        ShapeError: when the matrices are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.cholesky(dd.array([[4.0, 2.0], [2.0, 2.0]]))
        array([[2., 0.],
               [1., 1.]], dtype=float32)
    """
    x = hermitian(_square("cholesky", x))
    out = OPS["cholesky"](adjoint(x) if upper else x, pairs=False)
    return adjoint(out) if upper else out


def lu_factor(x: Any, /) -> LUFactors:
    """The LU factors of matrices (…, m, n) with partial pivoting, for ``lu_solve``.

    Returns:
        lu: U on and above the diagonal, L without its ones below it.
        permutation: (…, m) int32, ``x[permutation] = L @ U``. SciPy and LAPACK number the swaps one after the other.

    Raises:
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.lu_factor(dd.array([[1.0, 2.0], [4.0, 2.0]])).permutation
        array([1, 0], dtype=int32)
    """
    packed = OPS["lu"](matrix("lu", x), pairs=False)
    return LUFactors(packed[..., :-1], permutation(packed))


def lu(x: Any, /, permute_l: bool = False) -> tuple[Any, ...]:
    """``(P, L, U)`` with ``x = P @ L @ U``, as SciPy has it; with ``permute_l``, ``(P @ L, U)``.

    P (…, m, m) holds one 1 in each row and column, L (…, m, k) has ones on its diagonal, U is (…, k, n), and k the
    smaller of m and n. The pivot is the largest element left in its column; of complex ones, that with the largest sum
    of its parts' sizes, as LAPACK has it.

    Raises:
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.lu(dd.array([[1.0, 2.0], [4.0, 2.0]]))[2]
        array([[4. , 2. ],
               [0. , 1.5]], dtype=float32)
    """
    packed, order = lu_factor(x)
    m, n = packed.shape[-2:]
    k = n if isinstance(m, int) and isinstance(n, int) and m > n else m
    low = F.tril(packed[..., :, :k], -1) + identity(packed, m)[..., :, :k]
    high = F.triu(packed[..., :k, :])
    back = F.argsort(order, -1)
    if permute_l:
        return take_rows(low, back), high
    return take_rows(identity(packed, m), back), low, high


def qr(x: Any, /, mode: str = "reduced") -> Any:
    """Orthonormal columns Q and an upper triangle R with ``x = Q @ R``, of matrices (…, m, n).

    Args:
        x: the matrices.
        mode: ``"reduced"``, Q (…, m, k) and R (…, k, n) with k the smaller of m and n; ``"complete"``, Q (…, m, m) and
            R (…, m, n); ``"r"``, R alone. NumPy's ``"raw"`` is refused: Householder vectors are never seen.

    The diagonal of R is real and not negative. A derivative needs leading columns that are linearly independent, and is
    infinite or NaN otherwise; it is refused for ``"complete"`` with m above n, as what completes Q is not unique.

    Raises:
        ArgumentError: for another mode.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.round(dd.linalg.qr(dd.array([[3.0, 1.0], [4.0, 2.0]])).R, 3)
        array([[5. , 2.2],
               [0. , 0.4]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "r"):
        why = ": Householder vectors are never seen here" if mode == "raw" else ""
        raise ArgumentError(f"qr: mode={mode!r}{why}", hint='"reduced", "complete" or "r"')
    x = matrix("qr", x)
    m = x.shape[-2]
    packed = OPS["qr"](x, pairs=False)
    q, r = packed[..., :m, :], F.matrix_transpose(packed[..., m:, :])
    if mode == "r":
        return r
    if mode == "complete" and q.shape[-1] != m:
        below = F.zeros((*r.shape[:-2], m - r.shape[-2], r.shape[-1]), dtype_of(r))
        q, r = completed(q), F.concatenate([r, below], -2)
    return QRResult(q, r)


def _sides(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Matrices and right sides with the same leading axes, and whether the right side was one vector."""
    a, b = owned(a, b)
    a, b = _square(name, a), inexact(b)
    vector = len(b.shape) == 1
    if vector:
        b = F.expand_dims(b, 1)
    b = matrix(name, b)
    if b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{name}: matrices {show(a.shape)} do not go with right sides {show(b.shape)}",
            op=name,
            rule="(…, n, n) with (n) or (…, n, k)",
        )
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (x if x.shape[:-2] == lead else F.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return a, b, vector


def _column(x: Any, vector: bool) -> Any:
    return x[..., 0] if vector else x


def solve(a: Any, b: Any, /) -> Any:
    """The solution of ``a @ x = b`` for matrices a (…, n, n), and b (n) or (…, n, k); leading axes broadcast.

    As in NumPy 2, only a b of one axis is a vector. A matrix without an inverse gives NaN: what NumPy raises as
    LinAlgError cannot be raised by a graph. So does one that holds NaN or an infinity.

    Raises:
        ShapeError: when the matrices are not square or b does not fit.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.solve(dd.array([[2.0, 0.0], [0.0, 4.0]]), dd.array([2.0, 2.0]))
        array([1. , 0.5], dtype=float32)
    """
    a, b, vector = _sides("solve", a, b)
    return _column(OPS["solve"](a, b, pairs=False), vector)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _kind(name: str, trans: Any) -> int:
    if isinstance(trans, bool) or trans not in _TRANS:
        raise ArgumentError(f"{name}: trans={trans!r}", hint='0 or "N", 1 or "T", 2 or "C"')
    return _TRANS[trans]


def solve_triangular(
    a: Any,
    b: Any,
    /,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    left_side: bool = True,
) -> Any:
    """The solution of ``t @ x = b`` for a triangle t of a (…, n, n), whose other elements are not read.

    Args:
        a: the matrices.
        b: (n) or (…, n, k); leading axes broadcast.
        trans: 0 or ``"N"``; 1 or ``"T"``, for ``t.T @ x = b``; 2 or ``"C"``, for ``t.H @ x = b``.
        lower: whether t is the lower triangle.
        unit_diagonal: take the diagonal as ones and do not read it.
        left_side: False for ``x @ t = b`` (or with its transpose), and b (n) or (…, k, n).

    A 0 on the diagonal divides: the result holds infinities or NaN.

    Raises:
        ShapeError: when the matrices are not square or b does not fit.
        DTypeError: for float16 and bfloat16.
        ArgumentError: for another ``trans``.

    Example:
        >>> dd.linalg.solve_triangular(dd.array([[2.0, 0.0], [1.0, 1.0]]), dd.array([2.0, 3.0]), lower=True)
        array([1., 2.], dtype=float32)
    """
    kind = _kind("solve_triangular", trans)
    if not left_side:
        b = own(b)
        turn = F.matrix_transpose if len(b.shape) > 1 else own
        # x t = b is t.T x.T = b.T, and x t.H = b is conj(t) x.T = b.T.
        if kind == 2:
            return turn(solve_triangular(F.conj(own(a)), turn(b), 0, lower, unit_diagonal))
        return turn(solve_triangular(a, turn(b), 1 - kind, lower, unit_diagonal))
    a, b, vector = _sides("solve_triangular", a, b)
    a = F.conj(a) if kind == 2 else a
    out = OPS["triangular_solve"](a, b, lower=bool(lower), transpose=kind > 0, unit=bool(unit_diagonal), pairs=False)
    return _column(out, vector)


def lu_solve(factors: Any, b: Any, /, trans: Any = 0) -> Any:
    """The solution of ``a @ x = b`` from what ``lu_factor`` gives for a; of ``a.T`` or ``a.H`` with ``trans`` 1 or 2.

    Raises:
        ShapeError: when the matrices are not square or b does not fit.
        ArgumentError: for another ``trans``.

    Example:
        >>> dd.linalg.lu_solve(dd.linalg.lu_factor(dd.array([[2.0, 0.0], [0.0, 4.0]])), dd.array([2.0, 2.0]))
        array([1. , 0.5], dtype=float32)
    """
    kind = _kind("lu_solve", trans)
    packed, order = factors
    packed, b, vector = _sides("lu_solve", packed, b)
    order = F.broadcast_to(own(order), packed.shape[:-1])
    if kind == 0:
        out = solve_triangular(packed, take_rows(b, order), 0, True, True)
        return _column(solve_triangular(packed, out), vector)
    out = solve_triangular(packed, solve_triangular(packed, b, kind), kind, True, True)
    return _column(take_rows(out, F.argsort(order, -1)), vector)


def inv(x: Any, /) -> Any:
    """The inverse of square matrices; NaN where there is none (NumPy raises LinAlgError, which a graph cannot).

    Raises:
        ShapeError: when they are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.inv(dd.array([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    x = _square("inv", x)
    return OPS["solve"](x, identity(x, x.shape[-1]), pairs=False)


def _parity(order: Any, dtype: Any) -> Any:
    """1 for an even permutation, -1 for an odd one, by its inversions."""
    swapped = F.triu(F.expand_dims(order, -1) > F.expand_dims(order, -2), 1)
    return convert(1 - 2 * (F.count_nonzero(swapped, (-2, -1)) % 2), dtype)


def _pivots(x: Any) -> tuple[Any, Any]:
    """The diagonal of U, and the parity of the rows' order."""
    packed, order = lu_factor(x)
    return F.diagonal(packed, 0, -2, -1), _parity(order, dtype_of(packed))


def _det(x: Any) -> Any:
    diagonal, parity = _pivots(x)
    return F.prod(diagonal, -1) * parity


def _cofactors(x: Any, det: Any) -> Any:
    """The derivative of the determinant by each element, for matrices with an inverse or without."""

    def regular(x: Any) -> Any:
        # Of one and the same factors: a last pivot that is only rounding cancels.
        factors = lu_factor(x)
        pivots = F.diagonal(factors.lu, 0, -2, -1)
        size = F.prod(pivots, -1) * _parity(factors.permutation, dtype_of(pivots))
        return size[..., None, None] * lu_solve(factors, identity(x, x.shape[-1]), 1)

    def singular(x: Any) -> Any:
        # x = U S V.H has the cofactors conj(U) C V.T, times det(U V.H), with those of S on the diagonal of C.
        packed = OPS["svd"](x, vectors=True, pairs=False)
        n = x.shape[-1]
        s, u, v = packed[..., :1, :], packed[..., 1 : n + 1, :], packed[..., n + 1 :, :]
        others = F.where(F.eye(n, dtype=dtypes.bool_), 1, s)
        c = F.prod(others, -1)
        turn = _det(u) * _det(adjoint(v))
        return turn[..., None, None] * F.matmul(F.conj(u) * c[..., None, :], F.matrix_transpose(v))

    return control.cond(F.any(det == 0), singular, regular, x)


def _det_rule(f: Any, xs: tuple[Any], ts: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = xs, ts
    out = f(x)
    return out, F.sum(t * _cofactors(x, out), (-2, -1))


_determinant = derived(_det, _det_rule)


def det(x: Any, /) -> Any:
    """The determinants of square matrices, by LU factorization.

    The gradient holds the cofactors, where the determinant is 0 too.

    Raises:
        ShapeError: when they are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.det(dd.array([[1.0, 2.0], [4.0, 2.0]]))
        array(-6., dtype=float32)
    """
    return _determinant(_square("det", x))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign (a number of magnitude 1 for complex matrices) and the logarithm of the size of determinants.

    0 and -inf for a matrix without an inverse, whose gradient holds infinities or NaN.

    Raises:
        ShapeError: when they are not square.
        DTypeError: for float16 and bfloat16.

    Example:
        >>> dd.linalg.slogdet(dd.array([[0.0, 1.0], [1.0, 0.0]]))
        SlogdetResult(sign=array(-1., dtype=float32), logabsdet=array(0., dtype=float32))
    """
    diagonal, parity = _pivots(_square("slogdet", x))
    length = F.absolute(diagonal)
    if dtype_of(diagonal).kind == "c":
        signs = F.where(length == 0, 0, diagonal / F.where(length == 0, 1, length))
    else:
        signs = F.sign(diagonal)
    return SlogdetResult(F.prod(signs, -1) * parity, F.sum(F.log(length), -1))


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of the map that ``tensordot(a, x, ind)`` is: the first ``ind`` axes are rows, the others columns.

    Raises:
        ArgumentError: for an ``ind`` below 1.
        ShapeError: when both kinds of axes hold different numbers of elements.

    Example:
        >>> dd.linalg.tensorinv(dd.eye(4).reshape(2, 2, 4)).shape
        (4, 2, 2)
    """
    x = own(a)
    if not isinstance(ind, int) or ind < 1:
        raise ArgumentError(f"tensorinv: ind={ind!r}", hint="a whole number from 1 on")
    left, right = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    n: Dim = size(left)
    if n != size(right):
        raise ShapeError(f"tensorinv of {show(x.shape)}: {show(left)} and {show(right)} differ in size", op="tensorinv")
    return F.reshape(inv(F.reshape(x, (n, n))), (*right, *left))


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """The x of ``tensordot(a, x, x.ndim) = b``; ``axes`` of a are moved to its end before.

    Raises:
        ShapeError: when a and b do not fit.

    Example:
        >>> dd.linalg.tensorsolve(dd.eye(4).reshape(2, 2, 4), dd.ones((2, 2)))
        array([1., 1., 1., 1.], dtype=float32)
    """
    a, b = own(a), own(b)
    if axes is not None:
        moved = [normalize_axis(i, len(a.shape)) for i in axes]
        a = F.permute_dims(a, tuple([i for i in range(len(a.shape)) if i not in moved] + moved))
    right = tuple(a.shape[len(b.shape) :])
    n: Dim = size(right)
    if size(b.shape) != n or size(a.shape) != n * n:
        raise ShapeError(f"tensorsolve: {show(a.shape)} does not go with {show(b.shape)}", op="tensorsolve")
    return F.reshape(solve(F.reshape(a, (n, n)), F.reshape(b, (-1,))), right)
