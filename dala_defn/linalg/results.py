"""The tuples that decompositions give, with NumPy's names, and what several files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dala_defn import dtypes, ops
from dala_defn import functions as F
from dala_defn.custom import custom_jvp
from dala_defn.dtypes import DType
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.functions.base import dtype_of, real
from dala_defn.shapes import show


class QRResult(NamedTuple):
    """What ``qr`` gives."""

    Q: Any
    R: Any


class EighResult(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """What ``eig`` gives."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Any
    logabsdet: Any


class LUFactors(NamedTuple):
    """What ``lu_factor`` gives: both triangles in one array, and the row of the matrix that each of theirs is."""

    lu: Any
    permutation: Any


def matrix(name: str, x: Any) -> Any:
    """The operand of a decomposition; integers and bool become float32.

    Raises:
        DTypeError: for float16 and bfloat16, which are too short to decompose anything (NumPy refuses them too).
        ShapeError: for less than two axes.
    """
    x = real(x)
    if dtype_of(x) in (dtypes.float16, dtypes.bfloat16):
        raise DTypeError(
            f"{name} does not take {dtype_of(x)}: rounding would leave little of the result",
            op=name,
            hint="x.astype(dd.float32)",
        )
    if len(x.shape) < 2:
        raise ShapeError(f"{name} needs matrices in the last two axes, not {show(x.shape)}", op=name)
    return x


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return float(F.finfo(dtype).eps)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return F.conj(F.matrix_transpose(x))


def derived(f: Callable[..., Any], rule: Callable[..., tuple[Any, Any]], times: int = 2) -> Callable[..., Any]:
    """``custom_jvp``, without tracing anything where nothing is differentiated.

    The rule gets the function to call for its own value, whose derivative is by the rule again; further ones than
    ``times`` follow from what the function does.
    """
    inner = f if times == 1 else derived(f, rule, times - 1)
    inside = custom_jvp(f, lambda xs, ts: rule(inner, xs, ts))

    def apply(*args: Any) -> Any:
        return f(*args) if ops.current_trace() is None else inside(*args)

    return apply


def _same(x: Any) -> Any:
    return x


def _within_hermitian(f: Any, xs: tuple[Any], ts: tuple[Any]) -> tuple[Any, Any]:
    return xs[0], (ts[0] + adjoint(ts[0])) / 2


# The value itself, whose changes are those of Hermitian matrices. What reads one triangle would else have a gradient
# in that triangle only, and a step along it would leave the Hermitian matrices.
hermitian = derived(_same, _within_hermitian, 1)
