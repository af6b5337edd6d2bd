"""Running sums and products, differences, and what is made of neighbours along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.dtypes import accumulator
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions.base import convert, dtype_of, is_value, own, owned, real, reals
from dala_defn.functions.complexes import conj
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import broadcast_to, concatenate, cut, flip, ravel, reshape
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axis, show


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    x = own(x)
    return (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))


def _widened(x: Any, dtype: Any) -> Any:
    x = own(x)
    return convert(x, accumulator(dtype_of(x)) if dtype is None else dtypes.as_dtype(dtype))


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Any:
    """The running sum along an axis (flattened by default), with the dtypes of ``sum``; from the end with ``reverse``.

    Example:
        >>> dd.cumsum(dd.array([1, 2, 3]))
        array([1, 3, 6], dtype=int32)
    """
    x, place = _along(_widened(x, dtype), axis)
    return OPS["cumsum"](x, axis=place, reverse=reverse)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Any:
    """The running product along an axis (flattened by default), with the dtypes of ``sum``.

    From the end with ``reverse``. Derivatives are exact where factors are 0.

    Example:
        >>> dd.cumprod(dd.array([1, 2, 3]))
        array([1, 2, 6], dtype=int32)
    """
    x, place = _along(_widened(x, dtype), axis)
    return OPS["cumprod"](x, axis=place, reverse=reverse)


def cumlogsumexp(x: Any, axis: int | None = None, *, reverse: bool = False) -> Any:
    """The logarithm of the running sum of exponentials along an axis (flattened by default); nothing overflows.

    From the end with ``reverse``. Integers and bool become float32.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> dd.cumlogsumexp(dd.array([0.0, 0.0, 1000.0]))
        array([0.000000e+00, 6.931472e-01, 1.000000e+03], dtype=float32)
    """
    x, place = _along(real(x), axis)
    return OPS["cumlogsumexp"](x, axis=place, reverse=reverse)


def _running_extreme(x: Any, axis: int | None, reverse: bool) -> Any:
    x, place = _along(x, axis)
    dtype = dtype_of(x)
    numbers = convert(x, dtypes.int8) if dtype.kind == "b" else x
    return convert(OPS["cummax"](numbers, axis=place, reverse=reverse), dtype)


def cummax(x: Any, axis: int | None = None, *, reverse: bool = False) -> Any:
    """The running maximum along an axis (flattened by default); NaN goes on; from the end with ``reverse``.

    Example:
        >>> dd.cummax(dd.array([1, 3, 2]))
        array([1, 3, 3], dtype=int32)
    """
    return _running_extreme(x, axis, reverse)


def cummin(x: Any, axis: int | None = None, *, reverse: bool = False) -> Any:
    """The running minimum along an axis (flattened by default); NaN goes on; from the end with ``reverse``.

    Example:
        >>> dd.cummin(dd.array([3, 1, 2]))
        array([3, 1, 1], dtype=int32)
    """
    x = own(x)
    turned = E.negative if dtype_of(x).is_inexact else E.bitwise_not  # both turn the order round, and nothing overflows
    return turned(_running_extreme(turned(x), axis, reverse))


def _cumulative(name: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    x = own(x)
    if axis is None:
        if len(x.shape) != 1:
            raise ArgumentError(f"{name} of an array of rank {len(x.shape)} needs an axis")
        axis = 0
    out = (cumsum if name == "cumulative_sum" else cumprod)(x, axis, dtype)
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    first = broadcast_to(convert(0 if name == "cumulative_sum" else 1, dtype_of(out)), tuple(shape))
    return concatenate([first, out], axis)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The running sum along an axis, which only a vector may leave out; with ``include_initial`` a 0 comes first.

    Example:
        >>> dd.cumulative_sum(dd.array([1, 2]), include_initial=True)
        array([0, 1, 3], dtype=int32)
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The running product along an axis, which only a vector may leave out; with ``include_initial`` a 1 comes first.

    Example:
        >>> dd.cumulative_prod(dd.array([2, 3]), include_initial=True)
        array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, ``n`` times; bool gives whether they differ.

    Raises:
        ShapeError: for an array of rank 0, or along an axis that may be shorter than ``n`` for all that is known.

    Example:
        >>> dd.diff(dd.array([1, 4, 9]))
        array([3, 5], dtype=int32)
    """
    x = own(x)
    if not x.shape or n < 0:
        raise ShapeError(f"diff: order {n} of an array {show(x.shape)}")
    place = normalize_axis(axis, len(x.shape))

    def edge(v: Any) -> Any:
        v = own(v)
        if v.shape:
            return v
        shape = list(x.shape)
        shape[place] = 1
        return broadcast_to(v, tuple(shape))

    if n:
        ends = ([] if prepend is None else [edge(prepend)]), ([] if append is None else [edge(append)])
        x = concatenate([*ends[0], x, *ends[1]], place)
    for _ in range(n):
        size = x.shape[place]
        if isinstance(size, int) and size == 0:
            break
        low, high = cut(x, place, 0, size - 1), cut(x, place, 1, size)
        x = E.not_equal(high, low) if dtype_of(x).kind == "b" else high - low
    return x


def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in flattened order, with more before and after.

    Example:
        >>> dd.ediff1d(dd.array([1, 4]), to_begin=0)
        array([0, 3], dtype=int32)
    """
    x = ravel(own(x))
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, ravel(convert(own(to_begin), dtype_of(x))))
    if to_end is not None:
        parts.append(ravel(convert(own(to_end), dtype_of(x))))
    return concatenate(parts)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule, over places ``x`` or at a distance ``dx``.

    Example:
        >>> dd.trapezoid(dd.array([0.0, 1.0, 2.0]))
        array(2., dtype=float32)
    """
    y = real(y)
    place = normalize_axis(axis, len(y.shape))
    n = y.shape[place]
    if x is None:
        width = dx if not is_value(dx) else own(dx)
    else:
        x = real(x)
        if len(x.shape) == 1:
            width = reshape(diff(x), tuple(-1 if i == place else 1 for i in range(len(y.shape))))
        else:
            width = diff(x, axis=axis)
    middle = (cut(y, place, 1, n) + cut(y, place, 0, n - 1)) / 2 if n != 0 else y
    return _sum(middle * width, place)


def gradient(f: Any, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Any:
    """Central differences along axes (all by default), one-sided at the ends; a list when there are several.

    ``varargs``: the distance (a number, or a vector of places), one for all axes or one each. ``edge_order`` 1 or 2.

    Raises:
        ShapeError: for an axis with fewer than ``edge_order + 1`` elements, or of unknown size.
        ArgumentError: when the number of distances does not fit.

    Example:
        >>> dd.gradient(dd.array([1.0, 4.0, 9.0]))
        array([3., 4., 5.], dtype=float32)
    """
    f = real(f)
    rank = len(f.shape)
    axes = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(normalize_axis(a, rank) for a in axes)
    steps = list(varargs) if varargs else [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes) or edge_order not in (1, 2):
        raise ArgumentError(f"gradient: {len(varargs)} distances for {len(axes)} axes, edge_order {edge_order}")
    out = [_slope(f, a, h, edge_order) for a, h in zip(axes, steps, strict=True)]
    return out[0] if len(out) == 1 else out


def _slope(f: Any, axis: int, h: Any, order: int) -> Any:
    n = f.shape[axis]
    if not isinstance(n, int) or n <= order:
        raise ShapeError(f"gradient along an axis of size {n} with edge_order {order}")
    h = h if not is_value(h) and not isinstance(h, (list, tuple)) else real(h)
    wide = tuple(-1 if i == axis else 1 for i in range(len(f.shape)))

    def at(i: int) -> Any:
        return cut(f, axis, i, i + 1)

    if not getattr(h, "shape", ()):
        inner = (cut(f, axis, 2, n) - cut(f, axis, 0, n - 2)) / (2 * h)
        if order == 1:
            ends = (at(1) - at(0)) / h, (at(n - 1) - at(n - 2)) / h
        else:
            ends = (
                (-3 * at(0) + 4 * at(1) - at(2)) / (2 * h),
                (3 * at(n - 1) - 4 * at(n - 2) + at(n - 3)) / (2 * h),
            )
        return concatenate([ends[0], inner, ends[1]], axis)
    if tuple(h.shape) != (n,):
        raise ShapeError(f"gradient: {show(h.shape)} places for an axis of size {n}")
    d = reshape(diff(h), wide)
    a, b = cut(d, axis, 0, n - 2), cut(d, axis, 1, n - 1)
    inner = (
        -(b / (a * (a + b))) * cut(f, axis, 0, n - 2)
        + ((b - a) / (a * b)) * cut(f, axis, 1, n - 1)
        + (a / (b * (a + b))) * cut(f, axis, 2, n)
    )
    first, last = cut(d, axis, 0, 1), cut(d, axis, n - 2, n - 1)
    if order == 1:
        ends = (at(1) - at(0)) / first, (at(n - 1) - at(n - 2)) / last
    else:
        second, before = cut(d, axis, 1, 2), cut(d, axis, n - 3, n - 2)
        ends = (
            -(2 * first + second) / (first * (first + second)) * at(0)
            + (first + second) / (first * second) * at(1)
            - first / (second * (first + second)) * at(2),
            last / (before * (before + last)) * at(n - 3)
            - (last + before) / (before * last) * at(n - 2)
            + (2 * last + before) / (last * (before + last)) * at(n - 1),
        )
    return concatenate([ends[0], inner, ends[1]], axis)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Any:
    """Angles without jumps: where neighbours differ by more than half a period (or ``discont``), periods are added.

    Example:
        >>> dd.unwrap(dd.array([0.0, 350.0]), period=360)
        array([  0., -10.], dtype=float32)
    """
    p = own(p)
    if not dtype_of(p).is_inexact and not isinstance(period, int):
        p = real(p)
    place = normalize_axis(axis, len(p.shape))
    half = period / 2 if dtype_of(p).is_inexact else period // 2
    whole = dtype_of(p).is_inexact or period % 2 == 0
    step = diff(p, axis=place)
    low = -half
    turned = E.remainder(step - low, period) + low
    if whole:
        turned = E.where(E.logical_and(turned == low, step > 0), half, turned)
    shift = turned - step
    shift = E.where(E.absolute(step) < (period / 2 if discont is None else discont), 0, shift)
    n = p.shape[place]
    return concatenate([cut(p, place, 0, 1), cut(p, place, 1, n) + cumsum(shift, place)], place) if n != 0 else p


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Values at ``x`` on straight lines between the points ``(xp, fp)``, ``xp`` ascending; the ends go on level.

    ``left`` and ``right`` are the values beyond the ends. With ``period`` the points repeat (and need no order).

    Raises:
        ShapeError: when xp and fp are not vectors of one size above 0.

    Example:
        >>> dd.interp(2.5, dd.array([1.0, 2.0, 3.0]), dd.array([3.0, 2.0, 0.0]))
        array(1., dtype=float32)
    """
    x, xp, fp = reals(x, xp, fp)
    if len(xp.shape) != 1 or tuple(xp.shape) != tuple(fp.shape) or xp.shape[0] == 0:
        raise ShapeError(f"interp: points {show(xp.shape)} with values {show(fp.shape)}")
    if period is not None:
        x, xp = E.remainder(x, period), E.remainder(xp, period)
        order = OPS["argsort"](xp, axis=0)
        xp, fp = (OPS["gather"](v, order, axis=0, batch_dims=0, mode="clip") for v in (xp, fp))
        n = xp.shape[0]
        xp = concatenate([cut(xp, 0, n - 1, n) - period, xp, cut(xp, 0, 0, 1) + period])
        fp = concatenate([cut(fp, 0, n - 1, n), fp, cut(fp, 0, 0, 1)])
    n = xp.shape[0]
    if n == 1:
        out = broadcast_to(reshape(fp, ()), tuple(x.shape))
    else:
        line = reshape(x, (*x.shape, 1))
        inner = cut(xp, 0, 1, n - 1)  # the segment is the number of inner points that are not above x
        i = OPS["sum"](convert(E.less_equal(inner, line), dtypes.int32), axes=(len(x.shape),))
        x0, x1, y0, y1 = (OPS["gather"](v, j, axis=0, batch_dims=0, mode="clip") for v in (xp, fp) for j in (i, i + 1))
        width = E.where(x1 == x0, 1, x1 - x0)
        inside = E.where(x <= x0, y0, E.where(x >= x1, y1, y0 + (x - x0) * ((y1 - y0) / width)))
        out = E.where(E.isnan(x), x, inside)
    if left is not None and period is None:
        out = E.where(x < cut(xp, 0, 0, 1)[0], convert(left, dtype_of(out)), out)
    if right is not None and period is None:
        out = E.where(x > cut(xp, 0, n - 1, n)[0], convert(right, dtype_of(out)), out)
    return out


def _slide(name: str, a: Any, v: Any, mode: str, turned: bool) -> Any:
    a, v = owned(a, v)
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise ShapeError(f"{name} takes vectors, not {show(a.shape)} and {show(v.shape)}")
    n, m = a.shape[0], v.shape[0]
    if not isinstance(n, int) or not isinstance(m, int):
        raise ShapeError(f"{name} of vectors of unknown size {n} and {m}", hint="dd.conv")
    if n == 0 or m == 0:
        raise ArgumentError(f"{name}: an empty vector")
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"{name}: mode {mode!r}", hint='"full", "same" or "valid"')
    dtype = dtype_of(a)
    if dtype.kind == "b":
        a, v = (convert(x, dtypes.DEFAULT_INT) for x in (a, v))
    swapped = m > n
    if swapped:
        a, v, n, m = v, a, m, n
    kernel = v if turned else flip(v, 0)
    lead = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    tail = {"full": m - 1, "same": (m - 1) - lead, "valid": 0}[mode]
    line = OPS["pad"](a, convert(0, dtype_of(a)), low=(lead,), high=(tail,), interior=(0,))
    count = n + lead + tail - m + 1
    if dtype_of(a).is_inexact:
        out = OPS["conv"](
            reshape(line, (1, 1, -1)),
            reshape(kernel, (1, 1, m)),
            strides=(1,),
            low=(0,),
            high=(0,),
            dilation=(1,),
            groups=1,
        )
        out = reshape(out, (count,))
    else:
        rows = [cut(line, 0, i, i + count) * cut(kernel, 0, i, i + 1) for i in range(m)]
        out = rows[0]
        for row in rows[1:]:
            out = out + row
    return convert(flip(out, 0) if turned and swapped else out, dtype)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The convolution of two vectors. ``mode``: ``"full"``, ``"same"`` (the size of the longer), ``"valid"``.

    Raises:
        ShapeError: for what is no vector of known size.
        ArgumentError: for an empty vector or another mode.

    Example:
        >>> dd.convolve(dd.array([1, 2]), dd.array([1, 10]))
        array([ 1, 12, 20], dtype=int32)
    """
    return _slide("convolve", a, v, mode, False)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of products of a vector and the conjugate of another one slid along it. ``mode`` as in ``convolve``.

    Raises:
        ShapeError: for what is no vector of known size.
        ArgumentError: for an empty vector or another mode.

    Example:
        >>> dd.correlate(dd.array([1, 2, 3]), dd.array([0, 1]))
        array([2, 3], dtype=int32)
    """
    return _slide("correlate", a, conj(v), mode, True)


def polyval(p: Any, x: Any) -> Any:
    """A polynomial at ``x``, its coefficients from the highest power on, by Horner's rule.

    Raises:
        ShapeError: when p is no vector of known size.

    Example:
        >>> dd.polyval(dd.array([1.0, 0.0, 2.0]), 3.0)
        array(11., dtype=float32)
    """
    p, x = owned(p, x)
    if len(p.shape) != 1 or not isinstance(p.shape[0], int):
        raise ShapeError(f"polyval: coefficients {show(p.shape)}")
    out = broadcast_to(convert(0, dtype_of(x)), tuple(x.shape))
    for i in range(p.shape[0]):
        out = out * x + reshape(cut(p, 0, i, i + 1), ())
    return out


def polyadd(a: Any, b: Any) -> Any:
    """The sum of two polynomials, coefficients from the highest power on.

    Example:
        >>> dd.polyadd(dd.array([1, 2]), dd.array([5]))
        array([1, 7], dtype=int32)
    """
    x, y = (ravel(v) for v in owned(a, b))
    n, m = x.shape[0], y.shape[0]
    if not isinstance(n, int) or not isinstance(m, int):
        raise ShapeError(f"polyadd of {n} and {m} coefficients")
    longest = max(n, m)
    x, y = (
        OPS["pad"](v, convert(0, dtype_of(v)), low=(longest - k,), high=(0,), interior=(0,))
        for v, k in ((x, n), (y, m))
    )
    return x + y


def polymul(a: Any, b: Any) -> Any:
    """The product of two polynomials, coefficients from the highest power on.

    Example:
        >>> dd.polymul(dd.array([1, 2]), dd.array([1, 3]))
        array([1, 5, 6], dtype=int32)
    """
    return convolve(ravel(own(a)), ravel(own(b)))


def polyder(p: Any, m: int = 1) -> Any:
    """The ``m``-th derivative of a polynomial, coefficients from the highest power on.

    Example:
        >>> dd.polyder(dd.array([3, 2, 1]))
        array([6, 2], dtype=int32)
    """
    p = own(p)
    if len(p.shape) != 1 or not isinstance(p.shape[0], int) or m < 0:
        raise ShapeError(f"polyder: derivative {m} of coefficients {show(p.shape)}")
    for _ in range(m):
        n = int(p.shape[0])
        if n == 0:
            break
        p = cut(p, 0, 0, n - 1) * flip(OPS["iota"](shape=(n - 1,), axis=0, dtype=dtype_of(p)) + 1, 0)
    return p


def polyint(p: Any, m: int = 1) -> Any:
    """The ``m``-th integral of a polynomial with constant 0, coefficients from the highest power on; real.

    Example:
        >>> dd.polyint(dd.array([6.0, 2.0]))
        array([3., 2., 0.], dtype=float32)
    """
    p = real(p)
    if len(p.shape) != 1 or not isinstance(p.shape[0], int) or m < 0:
        raise ShapeError(f"polyint: integral {m} of coefficients {show(p.shape)}")
    for _ in range(m):
        n = int(p.shape[0])
        p = p / flip(OPS["iota"](shape=(n,), axis=0, dtype=dtype_of(p)) + 1, 0)
        p = OPS["pad"](p, convert(0, dtype_of(p)), low=(0,), high=(1,), interior=(0,))
    return p


__all__ = [
    "convolve",
    "correlate",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "ediff1d",
    "gradient",
    "interp",
    "polyadd",
    "polyder",
    "polyint",
    "polymul",
    "polyval",
    "trapezoid",
    "unwrap",
]
