"""Random orders and random elements."""

from __future__ import annotations

from typing import Any

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, is_value, own, value
from dala_defn.ops.spec import OPS
from dala_defn.random.continuous import gumbel, uniform
from dala_defn.random.discrete import randint
from dala_defn.random.keys import bits
from dala_defn.shapes import as_shape, normalize_axis, show, size


def permutation(k: Any, x: Any, axis: int = 0, *, independent: bool = False) -> Any:
    """The integers below ``x``, or the parts of an array along an axis, in random order.

    With ``independent`` every line along the axis gets an order of its own.

    Example:
        >>> dd.sort(dd.random.permutation(dd.random.key(0), 3))
        array([0, 1, 2], dtype=int32)
    """
    rows = own(x) if is_value(x) or isinstance(x, (list, tuple)) else F.arange(x)
    place = normalize_axis(axis, len(rows.shape))
    if independent:
        order = F.argsort(bits(k, tuple(rows.shape), dtypes.uint64), place)
        return F.take_along_axis(rows, order, place, mode="clip")
    order = F.argsort(bits(k, (rows.shape[place],), dtypes.uint64))
    return F.take(rows, order, axis=place, mode="clip")


def choice(k: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Random elements along an axis of an array, or of the integers below ``a``, with or without putting them back.

    ``p`` are the probabilities along the axis (their sum is taken as 1); by default all are equal.

    Raises:
        ArgumentError: when there are fewer than are to be chosen without putting back, or none at all.
        ShapeError: when ``p`` does not fit.

    Example:
        >>> dd.sort(dd.random.choice(dd.random.key(0), 3, (3,), replace=False))
        array([0, 1, 2], dtype=int32)
    """
    rows = own(a) if is_value(a) or isinstance(a, (list, tuple)) else F.arange(a)
    place = normalize_axis(axis, len(rows.shape))
    sizes = as_shape(shape)
    n, wanted = rows.shape[place], size(sizes)
    if isinstance(n, int) and isinstance(wanted, int) and wanted and (n == 0 or (not replace and wanted > n)):
        raise ArgumentError(f"choice: {wanted} of {n}" + ("" if replace else " without putting them back"))
    if p is not None:
        p = own(value(p))
        p = convert(p, dtypes.to_inexact(dtype_of(p)))
        if tuple(p.shape) != (n,):
            raise ShapeError(f"choice: probabilities {show(p.shape)} for an axis of size {n}")
    if replace and p is None:
        at = randint(k, sizes, 0, n) if isinstance(n, int) else _below(k, sizes, n)
    elif replace:
        ends = F.cumsum(p, 0)
        at = F.searchsorted(ends, uniform(k, sizes, dtype_of(p)) * ends[-1], "right")
        at = F.minimum(at, _last(p))
    else:
        order = F.argsort(bits(k, (n,), dtypes.uint64)) if p is None else _by_weight(k, p)
        at = F.reshape(F.dynamic_slice(order, (0,), (wanted,)), sizes)
    out = OPS["gather"](rows, at, axis=place, batch_dims=0, mode="clip" if n != 0 else "fill")
    return out


def _below(k: Any, sizes: Any, n: Any) -> Any:
    return randint(k, sizes, 0, F.sum(F.broadcast_to(F.array(1), (n,))))


def _last(p: Any) -> Any:
    """The last place whose probability is not 0: where rounding may not go beyond."""
    at = OPS["iota"](shape=tuple(p.shape), axis=0, dtype=dtypes.int32)
    return F.max(F.where(p > 0, at, 0))


def _by_weight(k: Any, p: Any) -> Any:
    return F.argsort(F.log(p) + gumbel(k, tuple(p.shape), dtype_of(p)), descending=True)


__all__ = ["choice", "permutation"]
