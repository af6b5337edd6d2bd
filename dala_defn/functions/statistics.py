"""Order statistics, covariances, and reductions that leave NaN out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions import elementwise as E
from dala_defn.functions import reduce as R
from dala_defn.functions.base import convert, dim_value, dtype_of, is_value, own, real
from dala_defn.functions.cumulative import cumprod, cumsum
from dala_defn.functions.joining import atleast_2d
from dala_defn.functions.linear import matmul
from dala_defn.functions.reduce import Axis
from dala_defn.functions.shape import broadcast_to, concatenate, cut, moveaxis, reshape, swapaxes
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axes, show, size

# Continuous methods after Hyndman and Fan (1996): the place of q in n is n*q + alpha + q*(1 - alpha - beta).
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
METHODS = (
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", *_CONTINUOUS),
    *("lower", "higher", "midpoint", "nearest"),
)


def _between(xp: Any, n: Any, q: Any, method: str) -> tuple[Any, Any, Any]:
    """The two places among n sorted elements, and how far from the first to the second; numbers or values alike."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        at = (n - 1) * q if method == "linear" else n * q + (alpha + q * (1 - alpha - beta)) - 1
        low = xp.floor(at)
        return low, low + 1, at - low
    if method in ("lower", "higher", "nearest"):
        at = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.rint}[method]((n - 1) * q)
        return at, at, at * 0
    if method == "midpoint":
        low, high = xp.floor((n - 1) * q), xp.ceil((n - 1) * q)
        return low, high, (high - low) * 0.5
    at = n * q - (1.5 if method == "closest_observation" else 1.0)
    low = xp.floor(at)
    gap = at - low
    if method == "averaged_inverted_cdf":
        return low, low + 1, xp.where(gap == 0, 0.5, 1.0)
    stay = gap == 0
    if method == "closest_observation":
        stay = stay & (low % 2 == 1)
    at = xp.where(stay, low, low + 1)
    return at, at, at * 0


def _quantile(name: str, x: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip: bool) -> Any:
    if method not in METHODS:
        raise ArgumentError(f"{name}: method {method!r} is not there", hint=", ".join(METHODS))
    x = real(x)
    dtype = dtype_of(x)
    axes = normalize_axes(axis, len(x.shape))
    rest = tuple(d for i, d in enumerate(x.shape) if i not in axes)
    x = moveaxis(x, axes, tuple(range(len(rest), len(x.shape))))
    n = size(x.shape[len(rest) :])
    x = reshape(x, (*rest, n))
    place = len(rest)
    known = not is_value(q) or isinstance(q, (np.ndarray, np.generic))
    if isinstance(q, (list, tuple)) and any(is_value(v) for v in q):
        known = False
    qs: Any = np.asarray(q, np.float64) if known else convert(own(q), dtypes.float64)
    if known and (np.any(qs < 0) or np.any(qs > 1)):
        raise ArgumentError(f"{name}: {q} is not in the range from 0 to 1 (percentiles: to 100)")
    shape_q = tuple(qs.shape)
    flat_q = qs.reshape(-1) if known else reshape(qs, (-1,))
    if n == 0:
        out = broadcast_to(convert(math.nan, dtype), (*shape_q, *rest))
    else:
        line = OPS["sort"](x, axis=place)
        if skip or not known or not isinstance(n, int):
            count: Any = dim_value(n, dtypes.float64)
            if skip:
                count = R.sum(convert(E.logical_not(E.isnan(line)), dtypes.float64), place, keepdims=True)
            i, j, t = _between(E, count, own(flat_q), method)
            wide = (*rest, size(shape_q))
            places = [E.maximum(E.minimum(broadcast_to(own(p), wide), count - 1), 0) for p in (i, j)]
            a, b = (
                OPS["gather"](line, convert(p, dtypes.int64), axis=place, batch_dims=place, mode="clip") for p in places
            )
            t = convert(t, dtype)
        else:
            i, j, t = _between(np, n, flat_q, method)
            a, b = (
                OPS["gather"](line, np.clip(p, 0, n - 1).astype(np.int32), axis=place, batch_dims=0, mode="clip")
                for p in (i, j)
            )
            t = convert(own(np.asarray(t)), dtype)
        gap = E.where(a == b, 0, b - a)
        out = E.where(t < 0.5, a + gap * t, b - gap * (1 - t))
        if not skip:
            out = E.where(R.any(E.isnan(x), place, keepdims=True), math.nan, out)
        out = reshape(moveaxis(out, place, 0), (*shape_q, *rest))
    if keepdims:
        full = [1] * (len(rest) + len(axes))
        for i, d in zip([i for i in range(len(full)) if i not in axes], rest, strict=True):
            full[i] = d
        out = reshape(out, (*shape_q, *full))
    return out


def quantile(x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Quantiles along axes (all by default): for each q in [0, 1], which NumPy's ``method`` places between elements.

    NaN among the elements gives NaN; integers are taken as float32. The result has the shape of ``q``, then the rest.

    Raises:
        ArgumentError: for another method, or a known q outside of [0, 1].

    Example:
        >>> dd.quantile(dd.array([1.0, 2.0, 4.0]), 0.25)
        array(1.5, dtype=float32)
    """
    return _quantile("quantile", x, q, axis, method, keepdims, False)


def _hundredth(q: Any) -> Any:
    if isinstance(q, (list, tuple)) and not any(is_value(v) for v in q):
        q = np.asarray(q, np.float64)
    return np.asarray(q, np.float64) / 100 if isinstance(q, (np.ndarray, int, float)) else own(q) / 100


def percentile(x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """``quantile`` for q in [0, 100].

    Example:
        >>> dd.percentile(dd.array([1.0, 2.0, 4.0]), 25)
        array(1.5, dtype=float32)
    """
    return _quantile("percentile", x, _hundredth(q), axis, method, keepdims, False)


def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The middle element over axes (all by default), or the mean of the two in the middle; NaN gives NaN.

    Example:
        >>> dd.median(dd.array([3.0, 1.0, 8.0]))
        array(3., dtype=float32)
    """
    return _quantile("median", x, 0.5, axis, "midpoint", keepdims, False)


def nanquantile(x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """``quantile`` of what is not NaN; NaN where nothing else is there.

    Example:
        >>> dd.nanquantile(dd.array([1.0, dd.nan, 3.0]), 0.5)
        array(2., dtype=float32)
    """
    return _quantile("nanquantile", x, q, axis, method, keepdims, True)


def nanpercentile(x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """``percentile`` of what is not NaN; NaN where nothing else is there.

    Example:
        >>> dd.nanpercentile(dd.array([1.0, dd.nan, 3.0]), 50)
        array(2., dtype=float32)
    """
    return _quantile("nanpercentile", x, _hundredth(q), axis, method, keepdims, True)


def nanmedian(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """``median`` of what is not NaN; NaN where nothing else is there.

    Example:
        >>> dd.nanmedian(dd.array([1.0, dd.nan, 3.0]))
        array(2., dtype=float32)
    """
    return _quantile("nanmedian", x, 0.5, axis, "midpoint", keepdims, True)


def _known(x: Any, mask: Any = None) -> tuple[Any, Any]:
    """The array, and where it is no NaN (and the mask holds)."""
    x = own(x)
    there = E.logical_not(E.isnan(x))
    return x, there if mask is None else E.logical_and(there, mask)


def nansum(
    x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """``sum`` with NaN taken as 0.

    Example:
        >>> dd.nansum(dd.array([1.0, dd.nan]))
        array(1., dtype=float32)
    """
    x, there = _known(x, where)
    return R.sum(x, axis, dtype, keepdims, initial=initial, where=there)


def nanprod(
    x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """``prod`` with NaN taken as 1.

    Example:
        >>> dd.nanprod(dd.array([2.0, dd.nan]))
        array(2., dtype=float32)
    """
    x, there = _known(x, where)
    return R.prod(x, axis, dtype, keepdims, initial=initial, where=there)


def _nan_extreme(
    f: Callable[..., Any], x: Any, axis: Axis, keepdims: bool, high: bool, initial: Any, where: Any
) -> Any:
    x, there = _known(x, where)
    if not dtype_of(x).is_float:
        return f(x, axis, keepdims, initial=initial, where=where)
    filled = E.where(there, x, -math.inf if high else math.inf)
    out = f(filled, axis, keepdims, initial=initial)
    return E.where(R.any(there, axis, keepdims), out, math.nan) if initial is None else out


def nanmax(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The largest of what is not NaN over axes; NaN where nothing else is there and ``initial`` is not given.

    Example:
        >>> dd.nanmax(dd.array([1.0, dd.nan]))
        array(1., dtype=float32)
    """
    return _nan_extreme(R.max, x, axis, keepdims, True, initial, where)


def nanmin(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The smallest of what is not NaN over axes; NaN where nothing else is there and ``initial`` is not given.

    Example:
        >>> dd.nanmin(dd.array([1.0, dd.nan]))
        array(1., dtype=float32)
    """
    return _nan_extreme(R.min, x, axis, keepdims, False, initial, where)


def _nan_arg(f: Callable[..., Any], x: Any, axis: int | None, keepdims: bool, high: bool) -> Any:
    x, there = _known(x)
    if not dtype_of(x).is_float:
        return f(x, axis, keepdims)
    # Among infinities of the losing sign a NaN must not win: those that are there come first by a second key.
    least = -math.inf if high else math.inf
    filled = E.where(there, x, least)
    best = (R.max if high else R.min)(filled, axis, True)
    chosen = E.logical_and(there, filled == best)
    out = R.argmax(convert(chosen, dtypes.int8), axis, keepdims)
    return E.where(R.any(there, axis, keepdims), out, -1)


def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The int32 index of the largest that is not NaN along an axis; -1 where nothing else is there.

    Example:
        >>> dd.nanargmax(dd.array([dd.nan, 1.0, 3.0]))
        array(2, dtype=int32)
    """
    return _nan_arg(R.argmax, x, axis, keepdims, True)


def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The int32 index of the smallest that is not NaN along an axis; -1 where nothing else is there.

    Example:
        >>> dd.nanargmin(dd.array([dd.nan, 1.0, 3.0]))
        array(1, dtype=int32)
    """
    return _nan_arg(R.argmin, x, axis, keepdims, False)


def nanmean(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """The mean of what is not NaN over axes; NaN where nothing else is there.

    Example:
        >>> dd.nanmean(dd.array([1.0, dd.nan, 3.0]))
        array(2., dtype=float32)
    """
    x, there = _known(x, where)
    return R.mean(x, axis, dtype, keepdims, where=there)


def nanvar(
    x: Any,
    axis: Axis = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The variance of what is not NaN over axes; NaN where too little is there.

    Example:
        >>> dd.nanvar(dd.array([1.0, dd.nan, 3.0]))
        array(1., dtype=float32)
    """
    x, there = _known(x, where)
    ddof = ddof if correction is None else correction
    out = R.var(x, axis, ddof, keepdims, dtype=dtype, where=there)
    return E.where(R.count_nonzero(there, axis, keepdims) > ddof, out, math.nan)


def nanstd(
    x: Any,
    axis: Axis = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation of what is not NaN over axes; NaN where too little is there.

    Example:
        >>> dd.nanstd(dd.array([1.0, dd.nan, 3.0]))
        array(1., dtype=float32)
    """
    return E.sqrt(nanvar(x, axis, ddof, keepdims, dtype=dtype, where=where, correction=correction))


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``cumsum`` with NaN taken as 0.

    Example:
        >>> dd.nancumsum(dd.array([1.0, dd.nan, 2.0]))
        array([1., 1., 3.], dtype=float32)
    """
    x, there = _known(x)
    return cumsum(E.where(there, x, convert(0, dtype_of(x))), axis, dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``cumprod`` with NaN taken as 1.

    Example:
        >>> dd.nancumprod(dd.array([2.0, dd.nan, 3.0]))
        array([2., 2., 6.], dtype=float32)
    """
    x, there = _known(x)
    return cumprod(E.where(there, x, convert(1, dtype_of(x))), axis, dtype)


def mode(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The most frequent element along an axis (flattened by default), the smallest of several.

    Raises:
        ShapeError: along an empty axis.

    Example:
        >>> dd.mode(dd.array([3, 1, 3, 2, 1]))
        array(1, dtype=int32)
    """
    x = own(x)
    rank = len(x.shape)
    if axis is None:
        out = mode(reshape(x, (-1,)), 0)
        return reshape(out, (1,) * rank) if keepdims else out
    (place,) = normalize_axes((axis,), rank)
    n = x.shape[place]
    if n == 0:
        raise ShapeError("mode of nothing")
    line = OPS["sort"](moveaxis(x, place, -1), axis=rank - 1)
    new = E.not_equal(cut(line, rank - 1, 1, n), cut(line, rank - 1, 0, n - 1))
    first = broadcast_to(convert(True, dtypes.bool_), (*line.shape[:-1], 1))
    at = OPS["iota"](shape=tuple(line.shape), axis=rank - 1, dtype=dtypes.int32)
    start = OPS["cummax"](E.where(concatenate([first, new], -1), at, 0), axis=rank - 1, reverse=False)
    best = R.argmax(at - start, -1, True)  # the first place where the longest run ends
    out = OPS["gather"](line, best, axis=rank - 1, batch_dims=rank - 1, mode="clip")
    out = moveaxis(out, -1, place)
    return out if keepdims else reshape(out, tuple(d for i, d in enumerate(x.shape) if i != place))


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    """The covariance matrix of variables in rows (in columns with ``rowvar=False``), observations along the other axis.

    ``bias`` divides by the count instead of the count less 1, ``ddof`` by the count less it. ``fweights`` are how often
    each observation counts, ``aweights`` how much.

    Raises:
        ShapeError: for more than two axes.

    Example:
        >>> dd.cov(dd.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    x = real(m)
    if len(x.shape) > 2:
        raise ShapeError(f"cov takes a vector or a matrix, not {show(x.shape)}")
    rows = atleast_2d(x)
    if not rowvar and len(x.shape) == 2:
        rows = swapaxes(rows, 0, 1)
    if y is not None:
        other = real(y)
        if len(other.shape) > 2:
            raise ShapeError(f"cov takes a vector or a matrix, not {show(other.shape)}")
        more = atleast_2d(other)
        rows = concatenate([rows, swapaxes(more, 0, 1) if not rowvar and len(other.shape) == 2 else more], 0)
    less = (0 if bias else 1) if ddof is None else ddof
    dtype = dtype_of(rows)
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            weights = convert(own(w), dtype) if weights is None else weights * convert(own(w), dtype)
    if weights is None:
        count = dim_value(rows.shape[1], dtype)
        centre, factor = R.mean(rows, 1, keepdims=True), count - less
    else:
        total = R.sum(weights)
        centre = R.sum(rows * weights, 1, keepdims=True) / total
        factor = total - less
        if less != 0 and aweights is not None:
            factor = total - less * R.sum(weights * convert(own(aweights), dtype)) / total
    centred = rows - centre
    out = matmul(centred, swapaxes(centred if weights is None else centred * weights, 0, 1)) / E.maximum(factor, 0)
    return reshape(out, ()) if out.shape == (1, 1) else out


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The matrix of correlation coefficients of variables in rows (in columns with ``rowvar=False``), within [-1, 1].

    Example:
        >>> dd.corrcoef(dd.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar)
    if not c.shape:
        return c / c
    deviation = E.sqrt(OPS["sum"](E.where(_eye(c), c, 0), axes=(1,)))
    return E.clip(c / reshape(deviation, (-1, 1)) / deviation, -1, 1)


def _eye(c: Any) -> Any:
    i, j = (OPS["iota"](shape=tuple(c.shape), axis=a, dtype=dtypes.int32) for a in (0, 1))
    return i == j


__all__ = [
    "corrcoef",
    "cov",
    "median",
    "mode",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "percentile",
    "quantile",
]
