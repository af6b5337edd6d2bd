"""Running products, running log-sum-exps, and the linear recurrence that is the derivative of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import FLOATS, INEXACT, NUMBERS, DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit, zeros
from dala_defn.ops.movement import pad, slice_, spread_batch
from dala_defn.ops.reduction import wide
from dala_defn.ops.samples import SHAPES, Array, Draw, reals
from dala_defn.ops.spec import (
    OPS,
    Case,
    OpSpec,
    check_dtype,
    check_same_dtype,
    define,
    in_sequence,
    inputs_flops,
)
from dala_defn.shapes import show

ATTRS = {"axis": "int", "reverse": "bool"}


def _infer(name: str, accepts: Sequence[DType], operands: int) -> Callable[..., tuple[Type, ...]]:
    def infer(*types: Type, axis: int, reverse: bool) -> tuple[Type, ...]:
        x = types[0]
        check_dtype(name, x.dtype, accepts)
        check_same_dtype(name, types)
        if len(types) != operands or any(t.shape != x.shape for t in types):
            raise ShapeError(
                f"{name} takes operands of one shape, not " + ", ".join(show(t.shape) for t in types), op=name
            )
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"{name}: axis {axis} is out of range for rank {x.ndim}", op=name, code="E103")
        return (x,)

    return infer


def _batch(name: str) -> Any:
    def batch(n: Any, args: Sequence[Any], batched: Sequence[bool], *, axis: int, reverse: bool) -> tuple[Any, ...]:
        return (OPS[name](*spread_batch(n, args, batched), axis=axis + 1, reverse=reverse),)

    return batch


def _part(x: Any, axis: int, start: Any, stop: Any) -> Any:
    first, last = [0] * len(x.shape), list(x.shape)
    first[axis], last[axis] = start, stop
    return slice_(x, start=tuple(first), stop=tuple(last), step=(1,) * len(x.shape))


def _shifted(x: Any, axis: int, back: bool, fill: float) -> Any:
    """Each element where its follower along an axis (its forerunner with ``back``) is; ``fill`` comes in at the end."""
    n, rank = x.shape[axis], len(x.shape)
    kept = _part(x, axis, 1, n) if back else _part(x, axis, 0, n - 1)
    edge = tuple(int(i == axis) for i in range(rank))
    none = (0,) * rank
    return pad(kept, lit(fill, x.dtype), low=none if back else edge, high=edge if back else none, interior=none)


def _before(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """What stood before each element in the order of the recurrence."""
    return _shifted(x, axis, reverse, fill)


def _after(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """What comes after each element in the order of the recurrence."""
    return _shifted(x, axis, not reverse, fill)


def _empty(x: Any, axis: int) -> bool:
    return isinstance(x.shape[axis], int) and x.shape[axis] == 0


def _strong(a: Array, b: Array) -> Array:
    """A product that is 0 where a factor is."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | (b == 0), np.zeros((), a.dtype), a * b)


def _linear(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    factors, terms = (np.moveaxis(wide(np.flip(v, axis) if reverse else v), axis, 0) for v in (a, b))
    out = np.empty(terms.shape, np.result_type(factors.dtype, terms.dtype))
    state = np.zeros(terms.shape[1:], out.dtype)
    with np.errstate(all="ignore"):
        for i in range(len(out)):
            state = out[i] = terms[i] + _strong(factors[i], state)
        out = np.moveaxis(out, 0, axis)
        return np.asarray(np.flip(out, axis) if reverse else out).astype(a.dtype)


def _linear_vjp(ct: Any, a: Any, b: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if _empty(a, axis):
        return zeros(Type(a.dtype, a.shape)), ct
    back = linear_scan(_after(a, axis, reverse, 0), ct, axis=axis, reverse=not reverse)
    return OPS["mul_strong_zero"](back, _before(y, axis, reverse, 0)), back


def _linear_jvp(tangents: Sequence[Any], a: Any, b: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    ta, tb = tangents
    if _empty(a, axis):
        return (zeros(Type(a.dtype, a.shape)),)
    if ta is not None:
        moved = OPS["mul_strong_zero"](ta, _before(y, axis, reverse, 0))
        tb = moved if tb is None else tb + moved
    return (linear_scan(a, tb, axis=axis, reverse=reverse),)


def _rows(draws: Sequence[Draw], more: Callable[[DType], Iterator[Sequence[Array]]]) -> Any:
    shapes = [s for s in SHAPES if s] + [(33,), (2, 3, 4)]

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for reverse in (False, True):
            for shape in shapes:
                for axis in range(len(shape)):
                    args = tuple(draw(rng, dtype, shape) for draw in draws)
                    yield Case(args, {"axis": axis, "reverse": reverse})
            for given in more(dtype):
                yield Case(tuple(given), {"axis": 0, "reverse": reverse}, smooth=False)

    return sample


def _linear_edges(dtype: DType) -> Iterator[Sequence[Array]]:
    if dtype.kind == "c":
        return
    special = np.array([2, 0, np.inf, 0, -1, np.nan, 0, 3]).astype(dtype.dtype)
    yield special, np.arange(8).astype(dtype.dtype)
    yield np.arange(8)[::-1].astype(dtype.dtype), special


def _linear_magnitude(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    return in_sequence(_linear(np.abs(wide(a)), np.abs(wide(b)), axis=axis, reverse=reverse), a.shape[axis])


linear_scan: OpSpec = define(
    name="linear_scan",
    code=0x127,
    family="reduction",
    attrs=ATTRS,
    accepts=INEXACT,
    result="own",
    infer=_infer("linear_scan", INEXACT, 2),
    reference=_linear,
    vjp=_linear_vjp,
    jvp=_linear_jvp,
    batch=_batch("linear_scan"),
    fusion="opaque",
    flops=lambda i, o, a: inputs_flops(i, o, a) * 2,
    sample=_rows((reals(-1, 1), reals(-4, 4)), _linear_edges),
    ulp=4,
    ulp_complex=8,
    magnitude=_linear_magnitude,
    doc="The linear recurrence ``y[i] = b[i] + a[i] * y[i - 1]`` along an axis, from the front or (``reverse``) from "
    "the back; before the first there is 0. A product with a zero is 0, even where the other factor is infinite.",
    example="linear_scan(dd.array([0.5, 0.5]), dd.array([1.0, 1.0]), axis=0, reverse=False)",
    since="0.1",
)  # fmt: skip


def _products(x: Array, *, axis: int, reverse: bool) -> Array:
    with np.errstate(all="ignore"):
        y = wide(np.flip(x, axis) if reverse else x)
        y = np.cumprod(y, axis, dtype=y.dtype)
        return np.asarray(np.flip(y, axis) if reverse else y).astype(x.dtype)


def _cumprod_vjp(ct: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if _empty(x, axis):
        return (ct,)
    # y[j] holds x[i] beside the product of those before i, and of those between i and j: no quotient, so zeros are
    # as any other number.
    later = linear_scan(_after(x, axis, reverse, 0), ct, axis=axis, reverse=not reverse)
    return (OPS["mul_strong_zero"](later, _before(y, axis, reverse, 1)),)


def _cumprod_jvp(tangents: Sequence[Any], x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if _empty(x, axis):
        return (tangents[0],)
    moved = OPS["mul_strong_zero"](tangents[0], _before(y, axis, reverse, 1))
    return (linear_scan(x, moved, axis=axis, reverse=reverse),)


def _product_edges(dtype: DType) -> Iterator[Sequence[Array]]:
    if dtype.is_float:
        yield (np.array([2, 3, 0, -1, np.inf, 4, np.nan]).astype(dtype.dtype),)
        yield (np.array([2, np.inf, -3, 4]).astype(dtype.dtype),)
    elif dtype.is_integer:
        yield (np.full((9,), np.iinfo(dtype.dtype).max, dtype.dtype),)
        yield (np.array([3, 5, 7, 100, 100, 100]).astype(dtype.dtype),)


cumprod: OpSpec = define(
    name="cumprod",
    code=0x126,
    family="reduction",
    attrs=ATTRS,
    accepts=NUMBERS,
    result="own",
    infer=_infer("cumprod", NUMBERS, 1),
    reference=_products,
    vjp=_cumprod_vjp,
    jvp=_cumprod_jvp,
    batch=_batch("cumprod"),
    fusion="opaque",
    flops=inputs_flops,
    sample=_rows((reals(0.5, 1.5),), _product_edges),
    ulp=4,
    ulp_complex=8,
    magnitude=lambda x, *, axis, reverse: in_sequence(
        np.abs(_products(wide(x), axis=axis, reverse=reverse)), x.shape[axis]
    ),
    doc="The running product along an axis, from the front or (``reverse``) from the back. Integers wrap.",
    example="cumprod(dd.array([1, 2, 3]), axis=0, reverse=False)",
    since="0.1",
)


def _logs(x: Array, *, axis: int, reverse: bool) -> Array:
    with np.errstate(all="ignore"):
        y = wide(np.flip(x, axis) if reverse else x)
        y = np.logaddexp.accumulate(y, axis)
        return np.asarray(np.flip(y, axis) if reverse else y).astype(x.dtype)


def _ratio(x: Any, y: Any) -> Any:
    """``exp(x - y)`` for x up to y; 1 where both are the same infinity."""
    return OPS["exp"](OPS["select"](OPS["equal"](x, y), lit(0, x.dtype), x - y))


def _log_vjp(ct: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if _empty(x, axis):
        return (ct,)
    # exp(x[i] - y[j]) by steps: y never falls, so that every factor is at most 1.
    step = _ratio(_before(y, axis, reverse, -np.inf), y)
    later = linear_scan(_after(step, axis, reverse, 0), ct, axis=axis, reverse=not reverse)
    return (OPS["mul_strong_zero"](later, _ratio(x, y)),)


def _log_jvp(tangents: Sequence[Any], x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if _empty(x, axis):
        return (tangents[0],)
    step = _ratio(_before(y, axis, reverse, -np.inf), y)
    moved = OPS["mul_strong_zero"](tangents[0], _ratio(x, y))
    return (linear_scan(step, moved, axis=axis, reverse=reverse),)


def _log_edges(dtype: DType) -> Iterator[Sequence[Array]]:
    inf = np.inf
    yield (np.array([-inf, -inf, 1, 300, -300, 301]).astype(dtype.dtype),)
    yield (np.array([1, inf, 2, -inf, np.nan, 1]).astype(dtype.dtype),)


cumlogsumexp: OpSpec = define(
    name="cumlogsumexp",
    code=0x128,
    family="reduction",
    attrs=ATTRS,
    accepts=FLOATS,
    result="own",
    infer=_infer("cumlogsumexp", FLOATS, 1),
    reference=_logs,
    vjp=_log_vjp,
    jvp=_log_jvp,
    batch=_batch("cumlogsumexp"),
    fusion="opaque",
    flops=lambda i, o, a: inputs_flops(i, o, a) * 3,
    sample=_rows((reals(-4, 4),), _log_edges),
    ulp=4,
    magnitude=lambda x, *, axis, reverse: in_sequence(
        np.maximum(np.abs(_logs(wide(x), axis=axis, reverse=reverse)), 1), x.shape[axis]
    ),
    doc="The logarithm of the running sum of exponentials along an axis, from the front or (``reverse``) from the "
    "back; nothing overflows on the way.",
    example="cumlogsumexp(dd.array([1.0, 2.0, 3.0]), axis=0, reverse=False)",
    since="0.1",
)
