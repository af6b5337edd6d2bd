"""The exponential of matrices."""

from __future__ import annotations

import math
from typing import Any

from dala_defn import control, dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of
from dala_defn.linalg.results import matrix
from dala_defn.ops.matrices import identity
from dala_defn.ops.spec import OPS
from dala_defn.shapes import show

# The orders of Pade's approximation, and the norms up to which they are as exact as the dtype: Higham, "The scaling and
# squaring method for the matrix exponential revisited" (2005), table 2.3, and the same for single precision.
_ORDER = {dtypes.float32: (7, 3.925724783138660), dtypes.float64: (13, 5.371920351148152)}


def _coefficients(order: int) -> list[float]:
    """Those of the numerator; the first is 1, and in the denominator the odd ones are negative."""
    n = math.factorial
    return [n(2 * order - k) * n(order) / (n(2 * order) * n(k) * n(order - k)) for k in range(order + 1)]


def expm(x: Any, /, *, max_squarings: int = 16) -> Any:
    """The exponential of square matrices, by scaling and squaring with Pade's approximation (Higham, 2005).

    Args:
        x: the matrices.
        max_squarings: how often the result may be squared. A matrix with a 1-norm above 2 to this power times 5.37
            (float64; 3.92 for float32) gives NaN.

    Raises:
        ShapeError: when they are not square.
        DTypeError: for float16 and bfloat16.
        ArgumentError: for a number of squarings that is not a whole number from 0 on.

    Example:
        >>> dd.linalg.expm(dd.zeros((2, 2)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    x = matrix("expm", x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"expm needs square matrices, not {show(x.shape)}", op="expm")
    if not isinstance(max_squarings, int) or max_squarings < 0:
        raise ArgumentError(f"expm: max_squarings={max_squarings!r}", hint="a whole number from 0 on")
    order, most = _ORDER[dtypes.real_of(dtype_of(x))]
    size = F.stop_gradient(F.max(F.sum(F.absolute(x), -2), -1, initial=0))
    # NaN is of no size: it goes through the products.
    squarings = F.where(size > most, F.ceil(F.log2(F.where(size > most, size, most) / most)), 0)
    squarings = F.clip(squarings, 0, max_squarings + 1)[..., None, None]
    scaled = x * convert(F.exp2(-squarings), dtype_of(x))
    out = _pade(scaled, order)

    def step(out: Any, i: Any) -> tuple[Any, None]:
        wanted = i < squarings
        square = control.cond(F.any(wanted), lambda y: F.matmul(y, y), lambda y: y, out)
        return F.where(wanted, square, out), None

    if max_squarings:
        out, _ = control.scan(step, out, F.arange(max_squarings, dtype=dtype_of(squarings)))
    return F.where(squarings > max_squarings, math.nan, out)


def _pade(x: Any, order: int) -> Any:
    """The quotient of two polynomials of this order that is nearest to the exponential at 0."""
    c = _coefficients(order)
    one = identity(x, x.shape[-1])
    square = F.matmul(x, x)
    powers = [one, square]
    while 2 * len(powers) <= order:
        powers.append(F.matmul(powers[-1], square))
    even = sum((p * c[2 * k] for k, p in enumerate(powers[1:], 1)), one * c[0])
    odd = F.matmul(x, sum((p * c[2 * k + 1] for k, p in enumerate(powers[1:], 1)), one * c[1]))
    return OPS["solve"](even - odd, even + odd, pairs=False)
