"""Scatters that multiply, or that keep the larger or the smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import NUMERIC, DType
from dala_defn.ops.creation import lit, type_of, zeros
from dala_defn.ops.indexing import (
    dim_value,
    gather,
    resolve,
    scatter_add,
    scatter_batch,
    scatter_cases,
    scatter_infer,
    split,
    taken,
)
from dala_defn.ops.movement import broadcast_to, concatenate, reshape, slice_
from dala_defn.ops.recurrence import linear_scan
from dala_defn.ops.reduction import wide
from dala_defn.ops.samples import Array, distinct, reals
from dala_defn.ops.spec import OPS, Case, OpSpec, define, in_sequence
from dala_defn.shapes import size


def _reference(join: Any) -> Any:
    def reference(x: Array, indices: Array, updates: Array, *, axis: int, batch_dims: int, mode: str) -> Array:
        rows, at, _ = split(x, indices, axis, batch_dims)
        safe, inside = resolve(at, rows.shape[2], mode)
        out = wide(rows).copy()
        news = wide(updates.reshape(rows.shape[0], rows.shape[1], at.shape[1], rows.shape[3]))
        with np.errstate(all="ignore"):
            for b in range(len(out)):
                for k in range(at.shape[1]):
                    if inside[b, k]:
                        old = out[b][:, safe[b, k], :]
                        out[b][:, safe[b, k], :] = join(old, news[b][:, k, :])
        return out.reshape(x.shape).astype(x.dtype)

    return reference


def _tangents(tangents: Sequence[Any], x: Any, u: Any) -> tuple[Any, Any]:
    tx, _, tu = tangents
    return (zeros(type_of(x)) if tx is None else tx), (zeros(type_of(u)) if tu is None else tu)


def _along(x: Any, axis: int, start: Any, stop: Any) -> Any:
    first, last = [0] * len(x.shape), list(x.shape)
    first[axis], last[axis] = start, stop
    return slice_(x, start=tuple(first), stop=tuple(last), step=(1,) * len(x.shape))


def _others(x: Any, i: Any, u: Any, *, axis: int, batch_dims: int, mode: str) -> Any:
    """For each update the product of the other updates of its place: exact beside zeros.

    Updates are sorted by place; those before and those after in one place are two running products.
    """
    lead = batch_dims
    k = size(i.shape[lead:])
    if isinstance(k, int) and k <= 1:
        return broadcast_to(lit(1, u.dtype), shape=u.shape)
    place = OPS["cast"](reshape(i, shape=(*i.shape[:lead], k)), dtype=_INT64)
    if mode == "clip":
        last = dim_value(x.shape[axis]) - lit(1, _INT64)
        place = OPS["minimum"](OPS["maximum"](place, lit(0, _INT64)), last)
    flat = reshape(u, shape=(*x.shape[:axis], k, *x.shape[axis + 1 :]))
    order = OPS["argsort"](place, axis=lead)
    place = gather(place, order, axis=lead, batch_dims=lead, mode="clip")
    flat = gather(flat, order, axis=axis, batch_dims=lead, mode="clip")
    same = OPS["equal"](_along(place, lead, 0, k - 1), _along(place, lead, 1, k))
    ones = (*(1 for _ in range(axis - lead)), k - 1, *(1 for _ in x.shape[axis + 1 :]))
    same = reshape(same, shape=(*same.shape[:lead], *ones))
    zero, one = lit(0, u.dtype), lit(1, u.dtype)
    edge = (*x.shape[:axis], 1, *x.shape[axis + 1 :])

    def running(near: Any, reverse: bool) -> Any:
        """The product of those that come before in the same place, or after it with ``reverse``."""
        factor, start = OPS["select"](same, near, zero), OPS["select"](same, zero, one)
        start = broadcast_to(start, shape=near.shape)
        blank, first = broadcast_to(zero, shape=edge), broadcast_to(one, shape=edge)
        parts = ((factor, blank), (start, first)) if reverse else ((blank, factor), (first, start))
        return linear_scan(*(concatenate(*p, axis=axis) for p in parts), axis=axis, reverse=reverse)

    out = running(_along(flat, axis, 0, k - 1), False) * running(_along(flat, axis, 1, k), True)
    back = OPS["argsort"](order, axis=lead)
    return reshape(gather(out, back, axis=axis, batch_dims=lead, mode="clip"), shape=u.shape)


_INT64 = NUMERIC[3]


def _factor(x: Any, i: Any, u: Any, attrs: Any) -> Any:
    """What each update is multiplied by: what it lands on, and the others of its place."""
    return gather(x, i, **attrs) * _others(x, i, u, **attrs)


def _mul_vjp(ct: Any, x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    product = scatter_mul(broadcast_to(lit(1, x.dtype), shape=x.shape), i, u, **attrs)
    strong = OPS["mul_strong_zero"]
    return strong(ct, product), None, strong(taken(ct, i, attrs), _factor(x, i, u, attrs))


def _mul_jvp(tangents: Sequence[Any], x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    tx, tu = _tangents(tangents, x, u)
    moved = OPS["mul_strong_zero"](tu, _factor(x, i, u, attrs))
    product = scatter_mul(broadcast_to(lit(1, x.dtype), shape=x.shape), i, u, **attrs)
    return (scatter_add(OPS["mul_strong_zero"](tx, product), i, moved, **attrs),)


def _shares(x: Any, i: Any, u: Any, y: Any, attrs: Any) -> tuple[Any, Any]:
    """How much of each extreme value the operand and each update carry: equal parts at ties."""
    mine = OPS["cast"](OPS["equal"](x, y), dtype=x.dtype)
    theirs = OPS["cast"](OPS["equal"](u, gather(y, i, **attrs)), dtype=x.dtype)
    count = scatter_add(mine, i, theirs, **attrs)
    return mine / count, theirs / gather(count, i, **attrs)


def _extreme_vjp(ct: Any, x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    mine, theirs = _shares(x, i, u, y, attrs)
    strong = OPS["mul_strong_zero"]
    return strong(ct, mine), None, strong(taken(ct, i, attrs), theirs)


def _extreme_jvp(tangents: Sequence[Any], x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    tx, tu = _tangents(tangents, x, u)
    mine, theirs = _shares(x, i, u, y, attrs)
    strong = OPS["mul_strong_zero"]
    return (scatter_add(strong(tx, mine), i, strong(tu, theirs), **attrs),)


def _extreme_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for case in scatter_cases(rng, dtype):
        x, i, u = case.args
        both = distinct(rng, dtype, (x.size + u.size,))
        yield Case((both[: x.size].reshape(x.shape), i, both[x.size :].reshape(u.shape)), case.attrs)
    if dtype.is_float:
        x = np.array([1, np.nan, -np.inf, 2, -0.0]).astype(dtype.dtype)
        u = np.array([np.nan, 5, np.inf, 2, 2, 0.0]).astype(dtype.dtype)
        i = np.array([0, 1, 2, 3, 3, 4])
        yield Case((x, i, u), {"axis": 0, "batch_dims": 0, "mode": "clip"}, smooth=False)


def _mul_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for case in scatter_cases(rng, dtype):
        x, i, u = case.args
        draw = reals(0.5, 2) if dtype.is_float else reals(-3, 3)
        yield Case((draw(rng, dtype, x.shape), i, draw(rng, dtype, u.shape)), case.attrs)
    if dtype.is_float:
        i = np.array([1, 1, 1, 3, 0, 0])
        u = np.array([2, 0, 3, np.inf, np.nan, 2]).astype(dtype.dtype)
        yield Case((np.arange(4).astype(dtype.dtype), i, u), {"axis": 0, "batch_dims": 0, "mode": "fill"}, smooth=False)


def _scatter(name: str, code: int, join: Any, vjp: Any, jvp: Any, sample: Any, doc: str, **more: Any) -> OpSpec:
    return define(
        name=name,
        code=code,
        family="movement",
        attrs={"axis": "int", "batch_dims": "int", "mode": "str"},
        accepts=NUMERIC,
        result="own",
        infer=scatter_infer(name, NUMERIC),
        reference=_reference(join),
        vjp=vjp,
        jvp=jvp,
        batch=scatter_batch(name),
        fusion="opaque",
        flops=lambda i, o, a: size(i[2].shape),
        sample=sample,
        doc=f"The first operand {doc} An index out of range is clamped (``clip``), dropped (``fill``) or an error "
        "while running (``error``).",
        example=f"{name}(dd.ones(3), dd.array([0, 0]), dd.array([2.0, 3.0]), axis=0, batch_dims=0, mode='clip')",
        since="0.1",
        **more,
    )


scatter_mul = _scatter(
    "scatter_mul", 0x123, np.multiply, _mul_vjp, _mul_jvp, _mul_cases,
    "multiplied by updates (third) at indices (second) along an axis; every duplicate counts. Integers wrap.",
    ulp=4,
    magnitude=lambda x, i, u, **attrs: in_sequence(
        np.abs(_reference(np.multiply)(wide(x), i, wide(u), **attrs)), i.size
    ),
)  # fmt: skip
scatter_max = _scatter(
    "scatter_max", 0x124, np.maximum, _extreme_vjp, _extreme_jvp, _extreme_cases,
    "or, where they are larger, updates (third) at indices (second) along an axis; NaN wins. Ties share the "
    "derivative.",
    ulp=0,
)  # fmt: skip
scatter_min = _scatter(
    "scatter_min", 0x125, np.minimum, _extreme_vjp, _extreme_jvp, _extreme_cases,
    "or, where they are smaller, updates (third) at indices (second) along an axis; NaN wins. Ties share the "
    "derivative.",
    ulp=0,
)  # fmt: skip
