"""Reductions, cumulative ops and sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import ARRAYS, NUMBERS, NUMERIC, DType, int32
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import iota, lit, type_of, zeros
from dala_defn.ops.indexing import gather, scatter_add
from dala_defn.ops.movement import broadcast_to, concatenate, flip, inverse, pad, reshape, slice_, transpose
from dala_defn.ops.samples import SHAPES, Array, Draw, distinct, reals, spread
from dala_defn.ops.spec import LINEAR, OPS, ZERO_GRAD, Case, OpSpec, check_dtype, define, in_sequence, inputs_flops
from dala_defn.shapes import Condition, may, size

Axes = tuple[int, ...]


def wide(x: Array) -> Array:
    """Floats in float64: references are computed there and rounded once."""
    return x.astype(np.float64) if x.dtype.kind in "fV" else x.astype(np.complex128) if x.dtype.kind == "c" else x


def keep(x: Any, shape: tuple[Any, ...], axes: Axes) -> Any:
    """A reduced value stretched back over the axes that were summed."""
    if not axes:
        return x
    ones = tuple(1 if i in axes else d for i, d in enumerate(shape))
    return broadcast_to(reshape(x, shape=ones), shape=shape)


def _check_axes(name: str, x: Type, axes: Axes) -> None:
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"{name}: axes {axes} do not fit rank {x.ndim}", op=name, code="E103")


def _filled(name: str, x: Type, axes: Axes) -> bool:
    """Whether no axis is empty."""
    return all(may(Condition(x.shape[a], ">", 0), f"{name} along axis {a}") for a in axes)


def _reduce_infer(name: str, accepts: Sequence[DType], empty: bool) -> Callable[..., tuple[Type, ...]]:
    def infer(x: Type, *, axes: Axes) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, accepts)
        _check_axes(name, x, axes)
        shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        if not empty and x.dtype.kind != "b" and size(shape) != 0 and not _filled(name, x, axes):
            raise ShapeError(f"{name} of an axis of size 0 is not defined", op=name, code="E104")
        return (Type(x.dtype, shape),)

    return infer


def _reduce_batch(name: str) -> Any:
    return lambda n, args, batched, *, axes: (OPS[name](args[0], axes=tuple(a + 1 for a in axes)),)


def _reduce_cases(draw: Draw, empty: bool) -> Any:
    rows: list[tuple[tuple[int, ...], Axes]] = [
        ((), ()), ((1,), (0,)), ((5,), (0,)), ((5,), ()), ((3, 4), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)),
        ((2, 3, 4), (0, 2)), ((2, 3, 4), (1,)), ((2, 0), (0,)), ((0, 3), (1,)),
    ]  # fmt: skip

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for shape, axes in rows + ([((0,), (0,)), ((2, 0, 3), (1,))] if empty else []):
            yield Case((draw(rng, dtype, shape),), {"axes": axes})
        if dtype.is_float:
            x = distinct(rng, dtype, (4, 5))
            x[1, 2], x[2, 3], x[3, 0] = np.nan, np.inf, -np.inf
            yield Case((x,), {"axes": (1,)}, smooth=False)
            yield Case((x,), {"axes": (0,)}, smooth=False)
        elif dtype.is_integer:
            yield Case((spread(rng, dtype, (4, 5)),), {"axes": (0,)}, smooth=False)

    return sample


def _reduction(
    name: str, code: int, f: Any, accepts: Sequence[DType], vjp: Any, jvp: Any, draw: Draw, doc: str, **more: Any
) -> OpSpec:
    empty = more.pop("empty", True)

    def reference(x: Array, *, axes: Axes) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(f(x, axes)).astype(x.dtype)

    return define(
        name=name,
        code=code,
        family="reduction",
        attrs={"axes": "ints"},
        accepts=tuple(accepts),
        result="own",
        infer=_reduce_infer(name, accepts, empty),
        reference=reference,
        vjp=vjp,
        jvp=jvp,
        batch=_reduce_batch(name),
        fusion="reduction",
        flops=inputs_flops,
        sample=_reduce_cases(draw, empty),
        doc=doc,
        example=f"{name}(dd.array([[1.0, 2.0], [3.0, 4.0]]), axes=(0,))",
        since="0.1",
        **more,
    )


sum_ = _reduction(
    "sum", 0x70, lambda x, axes: np.sum(wide(x), axes, dtype=wide(x).dtype), NUMBERS,
    lambda ct, x, y, *, axes: (keep(ct, x.shape, axes),), LINEAR, spread,
    "The sum over some axes, which go away. float16 and bfloat16 are summed in float32; integers wrap.",
    ulp=2, magnitude=lambda x, *, axes: np.sum(np.abs(wide(x)), axes),
)  # fmt: skip


def _others(x: Any, axes: Axes) -> Any:
    """For each element the product of the others over these axes: exact beside zeros, differentiable again."""
    rank = len(x.shape)
    order = (*(i for i in range(rank) if i not in axes), *axes)
    lead = tuple(x.shape[i] for i in order[: rank - len(axes)])
    n = size(x.shape[a] for a in axes)
    if not isinstance(n, int):
        raise OPS["prod"].refuse_gradient(f"the reduced size {n} is not known while tracing")
    rows = reshape(transpose(x, axes=order), shape=(*lead, n))
    last = len(lead)

    def part(v: Any, start: int, stop: int, step: int) -> Any:
        ones = (1,) * last
        return slice_(v, start=(0,) * last + (start,), stop=(*lead, stop), step=(*ones, step))

    def padded(v: Any, length: int) -> Any:
        zero = (0,) * (last + 1)
        return pad(v, lit(1, x.dtype), low=zero, high=(0,) * last + (length - v.shape[-1],), interior=zero)

    pairs, level = [], rows
    while level.shape[-1] > 1:
        m = level.shape[-1] + level.shape[-1] % 2
        level = padded(level, m)
        left, right = part(level, 0, m, 2), part(level, 1, m, 2)
        pairs.append((left, right))
        level = left * right
    outside = broadcast_to(lit(1, x.dtype), shape=level.shape)
    for left, right in reversed(pairs):
        outside = part(outside, 0, left.shape[-1], 1)
        a = reshape(outside * right, shape=(*lead, left.shape[-1], 1))
        b = reshape(outside * left, shape=(*lead, left.shape[-1], 1))
        outside = reshape(concatenate(a, b, axis=last + 1), shape=(*lead, left.shape[-1] * 2))
    outside = part(outside, 0, n, 1)
    back = reshape(outside, shape=(*lead, *(x.shape[a] for a in axes)))
    return transpose(back, axes=inverse(order))


prod = _reduction(
    "prod", 0x71, lambda x, axes: np.prod(wide(x), axes, dtype=wide(x).dtype), NUMBERS,
    lambda ct, x, y, *, axes: (OPS["mul_strong_zero"](keep(ct, x.shape, axes), _others(x, axes)),),
    lambda tangents, x, y, *, axes: (
        OPS["sum"](OPS["mul_strong_zero"](tangents[0], _others(x, axes)), axes=axes),
    ),
    reals(0.5, 2), "The product over some axes, which go away. Integers wrap.", ulp=8,
    magnitude=lambda x, *, axes: in_sequence(
        np.abs(np.prod(wide(x), axes)), int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    ),
)  # fmt: skip


def _shares(x: Any, y: Any, axes: Axes) -> Any:
    """How much of the extreme value each element carries: equal parts at ties."""
    hit = OPS["cast"](OPS["equal"](x, keep(y, x.shape, axes)), dtype=x.dtype)
    return hit / keep(OPS["sum"](hit, axes=axes), x.shape, axes)


def _extreme_vjp(ct: Any, x: Any, y: Any, *, axes: Axes) -> tuple[Any, ...]:
    return (OPS["mul_strong_zero"](keep(ct, x.shape, axes), _shares(x, y, axes)),)


def _extreme_jvp(tangents: Sequence[Any], x: Any, y: Any, *, axes: Axes) -> tuple[Any, ...]:
    return (OPS["sum"](OPS["mul_strong_zero"](tangents[0], _shares(x, y, axes)), axes=axes),)


def _extreme(f: Any, empty: bool) -> Any:
    def reduce(x: Array, axes: Axes) -> Any:
        if x.dtype.kind == "b":
            return f(x, axes, initial=empty)
        return x if not axes else f(x, axes) if x.size else np.empty(np.sum(x, axes).shape)

    return reduce


max_ = _reduction(
    "max", 0x72, _extreme(np.max, False), ARRAYS, _extreme_vjp, _extreme_jvp, distinct,
    "The largest over some axes, which go away; NaN wins; on bool whether any is true. Ties share the derivative.",
    ulp=0, empty=False,
)  # fmt: skip
min_ = _reduction(
    "min", 0x73, _extreme(np.min, True), ARRAYS, _extreme_vjp, _extreme_jvp, distinct,
    "The smallest over some axes, which go away; NaN wins; on bool whether all are true. Ties share the derivative.",
    ulp=0, empty=False,
)  # fmt: skip


def _check_axis(name: str, x: Type, axis: int) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"{name}: axis {axis} is out of range for rank {x.ndim}", op=name, code="E103")


def _axis_cases(draw: Draw, *, empty: bool = True, extra: Sequence[dict[str, Any]] = ({},)) -> Any:
    shapes = [s for s in SHAPES if s] + [(33,), (2, 3, 4)]

    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for attrs in extra:
            for shape in shapes:
                for axis in range(len(shape)):
                    if empty or shape[axis] != 0:
                        yield Case((draw(rng, dtype, shape),), {"axis": axis, **attrs})
            tied = reals(0, 2)(rng, dtype, (7,))
            tied = (tied if dtype.kind == "c" else tied.astype(np.float32)).round().astype(dtype.dtype)
            yield Case((tied,), {"axis": 0, **attrs}, smooth=False)
            if dtype.is_float:
                x = distinct(rng, dtype, (3, 33))
                x[0, 7], x[1, 3], x[1, 30], x[2, 5] = np.nan, np.inf, -np.inf, -0.0
                yield Case((x,), {"axis": 1, **attrs}, smooth=False)

    return sample


def _arg_infer(name: str) -> Any:
    def infer(x: Type, *, axis: int) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, ARRAYS)
        _check_axis(name, x, axis)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        if not _filled(name, x, (axis,)):
            raise ShapeError(f"{name} of an axis of size 0 is not defined", op=name, code="E104")
        return (Type(int32, shape),)

    return infer


def _arg(name: str, code: int, f: Any, what: str) -> OpSpec:
    def reference(x: Array, *, axis: int) -> Any:
        if not x.size:
            return np.zeros(x.shape[:axis] + x.shape[axis + 1 :], np.int32)
        return np.asarray(f(wide(x), axis)).astype(np.int32)

    return define(
        name=name,
        code=code,
        family="reduction",
        attrs={"axis": "int"},
        accepts=ARRAYS,
        result="own",
        infer=_arg_infer(name),
        reference=reference,
        vjp=ZERO_GRAD,
        jvp=ZERO_GRAD,
        batch=lambda n, args, batched, *, axis: (OPS[name](args[0], axis=axis + 1),),
        fusion="opaque",
        flops=inputs_flops,
        sample=_axis_cases(distinct, empty=False),
        ulp=0,
        doc=f"The int32 index of the {what} along an axis, which goes away; the first of several; NaN wins.",
        example=f"{name}(dd.array([1, 3, 2]), axis=0)",
        since="0.1",
    )


argmax = _arg("argmax", 0x74, np.argmax, "largest")
argmin = _arg("argmin", 0x75, np.argmin, "smallest")


def _cumulative_infer(name: str, accepts: Sequence[DType]) -> Any:
    def infer(x: Type, *, axis: int, reverse: bool) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, accepts)
        _check_axis(name, x, axis)
        return (x,)

    return infer


def _cumulative(f: Any) -> Any:
    def reference(x: Array, *, axis: int, reverse: bool) -> Any:
        with np.errstate(all="ignore"):
            y = wide(np.flip(x, axis) if reverse else x)
            y = f(y, axis, y.dtype)
            return np.asarray(np.flip(y, axis) if reverse else y).astype(x.dtype)

    return reference


_CUMSUM = _cumulative(lambda x, axis, dtype: np.cumsum(x, axis, dtype=dtype))
_BOTH_WAYS = ({"reverse": False}, {"reverse": True})


def _along_batch(name: str) -> Any:
    return lambda n, args, batched, *, axis, **attrs: (OPS[name](args[0], axis=axis + 1, **attrs),)


cumsum: OpSpec = define(
    name="cumsum",
    code=0x76,
    family="reduction",
    attrs={"axis": "int", "reverse": "bool"},
    accepts=NUMBERS,
    result="own",
    infer=_cumulative_infer("cumsum", NUMBERS),
    reference=_CUMSUM,
    vjp=lambda ct, x, y, *, axis, reverse: (cumsum(ct, axis=axis, reverse=not reverse),),
    jvp=LINEAR,
    batch=_along_batch("cumsum"),
    fusion="opaque",
    flops=inputs_flops,
    sample=_axis_cases(spread, extra=_BOTH_WAYS),
    ulp=4,
    magnitude=lambda x, **attrs: _CUMSUM(np.abs(wide(x)), **attrs),
    doc="The running sum along an axis, from the front or (``reverse``) from the back. Integers wrap.",
    example="cumsum(dd.array([1, 2, 3]), axis=0, reverse=False)",
    since="0.1",
)


def to_last(x: Any, axis: int) -> Any:
    """The axis moved to the end."""
    rank = len(x.shape)
    return x if axis == rank - 1 else transpose(x, axes=(*(i for i in range(rank) if i != axis), axis))


def from_last(x: Any, axis: int) -> Any:
    """The last axis moved back to its place."""
    rank = len(x.shape)
    if axis == rank - 1:
        return x
    return transpose(x, axes=inverse((*(i for i in range(rank) if i != axis), axis)))


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Elements along an axis by an index array of the same rank."""
    last = len(x.shape) - 1
    out = gather(to_last(x, axis), to_last(indices, axis), axis=last, batch_dims=last, mode="clip")
    return from_last(out, axis)


def add_along(x: Any, indices: Any, updates: Any, axis: int) -> Any:
    """Adds updates along an axis at the places that an index array names."""
    last = len(x.shape) - 1
    rows, at, new = (to_last(v, axis) for v in (x, indices, updates))
    return from_last(scatter_add(rows, at, new, axis=last, batch_dims=last, mode="clip"), axis)


def _record_index(x: Any, y: Any, axis: int, reverse: bool) -> Any:
    """Where each running maximum was first reached."""
    if reverse:
        n = x.shape[axis]
        back = _record_index(flip(x, axes=(axis,)), flip(y, axes=(axis,)), axis, False)
        last = iota(shape=(n,), axis=0, dtype=int32)
        total = OPS["max"](last, axes=(0,))
        return total - flip(back, axes=(axis,))
    place = iota(shape=x.shape, axis=axis, dtype=int32)
    rank = len(x.shape)
    start, stop = [0] * rank, list(x.shape)
    stop[axis] = x.shape[axis] - 1
    before = slice_(y, start=tuple(start), stop=tuple(stop), step=(1,) * rank)
    first, rest = [0] * rank, [0] * rank
    first[axis] = 1
    shifted = pad(before, lit(-np.inf, x.dtype), low=tuple(first), high=tuple(rest), interior=tuple(rest))
    fresh = OPS["bitwise_or"](OPS["greater"](x, shifted), OPS["equal"](place, lit(0, int32)))
    return cummax(OPS["select"](fresh, place, lit(0, int32)), axis=axis, reverse=False)


def _cummax_vjp(ct: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if x.shape[axis] == 0:
        return (ct,)
    return (add_along(zeros(type_of(x)), _record_index(x, y, axis, reverse), ct, axis),)


def _cummax_jvp(tangents: Sequence[Any], x: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    if x.shape[axis] == 0:
        return (tangents[0],)
    return (take_along(tangents[0], _record_index(x, y, axis, reverse), axis),)


cummax: OpSpec = define(
    name="cummax",
    code=0x77,
    family="reduction",
    attrs={"axis": "int", "reverse": "bool"},
    accepts=NUMERIC,
    result="own",
    infer=_cumulative_infer("cummax", NUMERIC),
    reference=_cumulative(lambda x, axis, dtype: np.maximum.accumulate(x, axis)),
    vjp=_cummax_vjp,
    jvp=_cummax_jvp,
    batch=_along_batch("cummax"),
    fusion="opaque",
    flops=inputs_flops,
    sample=_axis_cases(distinct, extra=_BOTH_WAYS),
    ulp=0,
    doc="The running maximum along an axis, from the front or (``reverse``) from the back; NaN goes on. The derivative "
    "goes to the element that first reached the maximum.",
    example="cummax(dd.array([1, 3, 2]), axis=0, reverse=False)",
    since="0.1",
)


def _sort_infer(name: str, result: DType | None) -> Any:
    def infer(x: Type, *, axis: int) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, ARRAYS)
        _check_axis(name, x, axis)
        return (Type(result or x.dtype, x.shape),)

    return infer


argsort: OpSpec = define(
    name="argsort",
    code=0x79,
    family="reduction",
    attrs={"axis": "int"},
    accepts=ARRAYS,
    result="own",
    infer=_sort_infer("argsort", dtypes.int32),
    reference=lambda x, *, axis: np.argsort(wide(x), axis, kind="stable").astype(np.int32),
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=_along_batch("argsort"),
    fusion="opaque",
    flops=inputs_flops,
    sample=_axis_cases(distinct),
    ulp=0,
    doc="The int32 indices that sort along an axis, ascending and stable; NaN comes last.",
    example="argsort(dd.array([3, 1, 2]), axis=0)",
    since="0.1",
)


def _sort_vjp(ct: Any, x: Any, y: Any, *, axis: int) -> tuple[Any, ...]:
    return (add_along(zeros(type_of(x)), argsort(x, axis=axis), ct, axis),)


def _sort_jvp(tangents: Sequence[Any], x: Any, y: Any, *, axis: int) -> tuple[Any, ...]:
    return (take_along(tangents[0], argsort(x, axis=axis), axis),)


sort: OpSpec = define(
    name="sort",
    code=0x78,
    family="reduction",
    attrs={"axis": "int"},
    accepts=ARRAYS,
    result="own",
    infer=_sort_infer("sort", None),
    reference=lambda x, *, axis: np.sort(wide(x), axis, kind="stable").astype(x.dtype),
    vjp=_sort_vjp,
    jvp=_sort_jvp,
    batch=_along_batch("sort"),
    fusion="opaque",
    flops=inputs_flops,
    sample=_axis_cases(distinct),
    ulp=0,
    doc="The elements in ascending order along an axis; NaN comes last.",
    example="sort(dd.array([3, 1, 2]), axis=0)",
    since="0.1",
)
