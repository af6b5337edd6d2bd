"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, real
from dala_defn.linalg.spectra import svdvals
from dala_defn.shapes import normalize_axes, normalize_axis, show


def _power_sum(a: Any, p: float, axes: tuple[int, ...]) -> Any:
    """The p-norm of what is not negative, scaled so that powers do not overflow; the derivative at 0 is 0."""
    high = F.stop_gradient(F.max(a, axes, keepdims=True, initial=0))
    scale = F.where(F.logical_and(F.isfinite(high), high > 0), high, 1)
    scaled = a / scale
    total = F.sum(F.power(scaled, p) if p != 2 else scaled * scaled, axes, keepdims=True)
    safe = F.where(total > 0, total, 1)
    root = F.sqrt(safe) if p == 2 else F.power(safe, convert(1 / p, dtype_of(a)))
    return F.where(total > 0, root, total) * scale


def _vector_norm(a: Any, axes: tuple[int, ...], order: Any) -> Any:
    if order == math.inf:
        return F.max(a, axes, keepdims=True, initial=0)
    if order == -math.inf:
        return F.min(a, axes, keepdims=True, initial=math.inf)
    if order == 0:
        return F.sum(convert(a != 0, dtype_of(a)), axes, keepdims=True)
    if order == 1:
        return F.sum(a, axes, keepdims=True)
    if order > 0:
        return _power_sum(a, float(order), axes)
    return F.power(F.sum(F.power(a, float(order)), axes, keepdims=True), convert(1 / float(order), dtype_of(a)))


def _finish(out: Any, axes: Sequence[int], keepdims: bool) -> Any:
    return out if keepdims else F.reshape(out, tuple(d for i, d in enumerate(out.shape) if i not in axes))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The p-norm over axes (all by default) as one vector; ``ord`` a number, inf or -inf. The derivative at 0 is 0.

    Example:
        >>> dd.linalg.vector_norm(dd.array([3.0, 4.0]))
        array(5., dtype=float32)
    """
    x = real(x)
    axes = normalize_axes(axis, len(x.shape))
    return _finish(_vector_norm(F.absolute(x), axes, ord), axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of the matrices in the last two axes: ``"fro"``, ``"nuc"``, 2, -2, 1, -1, inf or -inf.

    2 and -2 are the largest and the smallest singular value, ``"nuc"`` is the sum of all.

    Raises:
        ArgumentError: for anything else.

    Example:
        >>> dd.linalg.matrix_norm(dd.array([[3.0, 4.0]]), ord=1)
        array(4., dtype=float32)
    """
    x = real(x)
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"matrix_norm needs two axes, not {show(x.shape)}")
    return _matrix_norm(x, (rank - 2, rank - 1), ord, keepdims)


def _matrix_norm(x: Any, axes: tuple[int, int], order: Any, keepdims: bool) -> Any:
    a = F.absolute(x)
    rows, columns = axes
    if order in ("fro", "f", None):
        return _finish(_power_sum(a, 2.0, tuple(sorted(axes))), axes, keepdims)
    if order in (2, -2, "nuc"):
        s = svdvals(F.moveaxis(x, axes, (-2, -1)))
        out = F.sum(s, -1) if order == "nuc" else F.max(s, -1, initial=0) if order == 2 else F.min(s, -1)
        return F.expand_dims(out, tuple(sorted(axes))) if keepdims else out
    if order not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"norm: ord={order!r} is no norm of matrices", hint='"fro", "nuc", 2, -2, 1, -1, inf, -inf')
    inner, outer_ = (rows, columns) if order in (1, -1) else (columns, rows)
    sums = F.sum(a, inner, keepdims=True)
    out = F.max(sums, outer_, keepdims=True, initial=0) if order > 0 else F.min(sums, outer_, keepdims=True)
    return _finish(out, axes, keepdims)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors (one axis) or matrices (two axes), as NumPy has it; the Euclidean norm of all by default.

    Raises:
        ArgumentError: for what is no norm.

    Example:
        >>> dd.linalg.norm(dd.array([[3.0, 4.0]]), 1)
        array(4., dtype=float32)
    """
    x = real(x)
    rank = len(x.shape)
    if axis is None and (ord is None or rank == 0):
        axes = tuple(range(rank))
        return _finish(_power_sum(F.absolute(x), 2.0, axes), axes, keepdims)
    given = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    places = tuple(normalize_axis(a, rank) for a in given)
    if len(places) == 1:
        if isinstance(ord, str):
            raise ArgumentError(f"norm: ord={ord!r} is no norm of vectors")
        return _finish(_vector_norm(F.absolute(x), places, 2 if ord is None else ord), places, keepdims)
    if len(places) != 2 or places[0] == places[1]:
        raise ArgumentError(f"norm over the axes {given} of {show(x.shape)}", hint="one axis or two")
    return _matrix_norm(x, (places[0], places[1]), ord, keepdims)
