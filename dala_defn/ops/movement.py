"""Ops that move elements without computing: reshape, transpose, broadcast, slice, pad, concatenate, flip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import ARRAYS, ELEMENTS, EVERY, DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit, type_of, zeros
from dala_defn.ops.elementwise import unbroadcast
from dala_defn.ops.samples import Array, attr_cases, spread
from dala_defn.ops.spec import LINEAR, OPS, Case, OpSpec, check_dtype, check_same_dtype, define, no_flops
from dala_defn.shapes import Condition, Dim, Shape, broadcast_shapes, floordiv, may, same_size, show, size


def _refuse_below(a: Dim, b: Dim, op: str, message: str) -> None:
    if not may(Condition(a, ">=", b), op):
        raise ShapeError(f"{op}: {message}", op=op)


def _reshape_infer(x: Type, *, shape: Shape) -> tuple[Type, ...]:
    check_dtype("reshape", x.dtype, EVERY)
    before, after = size(x.shape), size(shape)
    if before != after and not same_size(after, before, f"reshape of {show(x.shape)} into {show(shape)}"):
        raise ShapeError(
            f"cannot reshape {show(x.shape)} into {show(shape)}",
            op="reshape",
            code="E102",
            rule=f"the number of elements must stay {before}, not become {after}",
        )
    return (Type(x.dtype, tuple(shape)),)


def _batched_shape(name: str) -> Any:
    def batch(n: Any, args: Sequence[Any], batched: Sequence[bool], *, shape: Shape) -> tuple[Any, ...]:
        x = args[0]
        if name == "broadcast_to" and len(x.shape) - 1 < len(shape):
            x = reshape(x, shape=(n, *(1,) * (len(shape) - len(x.shape) + 1), *x.shape[1:]))
        return (OPS[name](x, shape=(n, *shape)),)

    return batch


_RESHAPES: Any = [
    ((), {"shape": (1, 1)}),
    ((0,), {"shape": (3, 0, 2)}),
    ((1,), {"shape": ()}),
    ((6,), {"shape": (2, 3)}),
    ((2, 3, 4), {"shape": (4, 6)}),
]

reshape: OpSpec = define(
    name="reshape",
    code=0x50,
    family="movement",
    attrs={"shape": "dims"},
    accepts=EVERY,
    result="own",
    infer=_reshape_infer,
    reference=lambda x, *, shape: np.reshape(x, shape),
    vjp=lambda ct, x, y, *, shape: (reshape(ct, shape=x.shape),),
    jvp=LINEAR,
    batch=_batched_shape("reshape"),
    fusion="movement",
    cost=0,
    flops=no_flops,
    sample=attr_cases(spread, _RESHAPES),
    ulp=0,
    doc="The same elements in row-major order under another shape.",
    example="reshape(dd.array([1, 2, 3, 4]), shape=(2, 2))",
    since="0.1",
)


def _transpose_infer(x: Type, *, axes: tuple[int, ...]) -> tuple[Type, ...]:
    check_dtype("transpose", x.dtype, EVERY)
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(f"transpose: {axes} is no permutation of {x.ndim} axes", op="transpose", code="E103")
    return (Type(x.dtype, tuple(x.shape[a] for a in axes)),)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


transpose: OpSpec = define(
    name="transpose",
    code=0x51,
    family="movement",
    attrs={"axes": "ints"},
    accepts=EVERY,
    result="own",
    infer=_transpose_infer,
    reference=lambda x, *, axes: np.transpose(x, axes),
    vjp=lambda ct, x, y, *, axes: (transpose(ct, axes=inverse(axes)),),
    jvp=LINEAR,
    batch=lambda n, args, batched, *, axes: (transpose(args[0], axes=(0, *(a + 1 for a in axes))),),
    fusion="movement",
    cost=0,
    flops=no_flops,
    sample=attr_cases(
        spread,
        [
            ((), {"axes": ()}),
            ((3,), {"axes": (0,)}),
            ((2, 3), {"axes": (1, 0)}),
            ((2, 0, 3), {"axes": (2, 0, 1)}),
            ((2, 3, 4), {"axes": (1, 2, 0)}),
        ],
    ),
    ulp=0,
    doc="The axes in another order: axis ``i`` of the result is axis ``axes[i]`` of the operand.",
    example="transpose(dd.zeros((2, 3)), axes=(1, 0))",
    since="0.1",
)


def _broadcast_infer(x: Type, *, shape: Shape) -> tuple[Type, ...]:
    check_dtype("broadcast_to", x.dtype, EVERY)
    if broadcast_shapes(x.shape, shape) != tuple(shape):
        raise ShapeError(f"cannot broadcast {show(x.shape)} to {show(shape)}", op="broadcast_to")
    return (Type(x.dtype, tuple(shape)),)


broadcast_to: OpSpec = define(
    name="broadcast_to",
    code=0x52,
    family="movement",
    attrs={"shape": "dims"},
    accepts=EVERY,
    result="own",
    infer=_broadcast_infer,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    vjp=lambda ct, x, y, *, shape: (unbroadcast(ct, x.shape),),
    jvp=LINEAR,
    batch=_batched_shape("broadcast_to"),
    fusion="movement",
    cost=0,
    flops=no_flops,
    sample=attr_cases(
        spread,
        [
            ((), {"shape": (2, 3)}),
            ((1,), {"shape": (0,)}),
            ((3,), {"shape": (2, 3)}),
            ((2, 1), {"shape": (2, 4)}),
            ((1, 3), {"shape": (4, 1, 3)}),
        ],
    ),
    ulp=0,
    doc="Stretched to a larger shape by NumPy's broadcasting.",
    example="broadcast_to(dd.array([1, 2]), shape=(3, 2))",
    since="0.1",
)


def slice_size(start: Dim, stop: Dim, step: int) -> Dim:
    """How many elements a slice takes."""
    return stop - start if step == 1 else floordiv(stop - start + (step - 1), step)


def _slice_infer(x: Type, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> tuple[Type, ...]:
    check_dtype("slice", x.dtype, EVERY)
    if not len(start) == len(stop) == len(step) == x.ndim:
        raise ShapeError(f"slice: start, stop and step must each have {x.ndim} entries", op="slice")
    out = []
    for n, lo, hi, by in zip(x.shape, start, stop, step, strict=True):
        if by < 1:
            raise ShapeError(f"slice: the step {by} must be at least 1", op="slice")
        if not (type(n) is type(lo) is type(hi) is int and 0 <= lo <= hi <= n):
            _refuse_below(lo, 0, "slice", f"the start {lo} is negative")
            _refuse_below(hi, lo, "slice", f"the stop {hi} is before the start {lo}")
            _refuse_below(n, hi, "slice", f"the stop {hi} is past the end of an axis of size {n}")
        out.append(slice_size(lo, hi, by))
    return (Type(x.dtype, tuple(out)),)


def _slice(x: Array, *, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Array:
    return x[tuple(slice(a, b, c) for a, b, c in zip(start, stop, step, strict=True))]


def _slice_vjp(ct: Any, x: Any, y: Any, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> tuple[Any, ...]:
    rank = len(step)
    for axis, by in enumerate(step):
        if by == 1:
            continue
        # Spread each element over `by` places, the rest zero; right for every size, known or not.
        n = ct.shape[axis]
        before, after = ct.shape[:axis], ct.shape[axis + 1 :]
        ct = reshape(ct, shape=(*before, n, 1, *after))
        high = [0] * (rank + 1)
        high[axis + 1] = by - 1
        ct = pad(ct, lit(0, ct.dtype), low=(0,) * (rank + 1), high=tuple(high), interior=(0,) * (rank + 1))
        ct = reshape(ct, shape=(*before, n * by, *after))
        whole = list(ct.shape)
        whole[axis] = stop[axis] - start[axis]
        ct = slice_(ct, start=(0,) * rank, stop=tuple(whole), step=(1,) * rank)
    high_pad = tuple(n - hi for n, hi in zip(x.shape, stop, strict=True))
    return (pad(ct, lit(0, ct.dtype), low=tuple(start), high=high_pad, interior=(0,) * rank),)


def _slice_batch(
    n: Any, args: Sequence[Any], batched: Sequence[bool], *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> tuple[Any, ...]:
    return (slice_(args[0], start=(0, *start), stop=(n, *stop), step=(1, *step)),)


slice_: OpSpec = define(
    name="slice",
    code=0x53,
    family="movement",
    attrs={"start": "dims", "stop": "dims", "step": "ints"},
    accepts=EVERY,
    result="own",
    infer=_slice_infer,
    reference=_slice,
    vjp=_slice_vjp,
    jvp=LINEAR,
    batch=_slice_batch,
    fusion="movement",
    flops=no_flops,
    sample=attr_cases(
        spread,
        [
            ((), {"start": (), "stop": (), "step": ()}),
            ((5,), {"start": (1,), "stop": (4,), "step": (1,)}),
            ((5,), {"start": (0,), "stop": (5,), "step": (2,)}),
            ((7,), {"start": (1,), "stop": (6,), "step": (3,)}),
            ((5,), {"start": (5,), "stop": (5,), "step": (2,)}),
            ((3, 4), {"start": (1, 0), "stop": (2, 4), "step": (1, 3)}),
            ((0, 2), {"start": (0, 1), "stop": (0, 2), "step": (1, 1)}),
        ],
    ),
    ulp=0,
    doc="From ``start`` to ``stop`` by ``step`` along every axis; out of range is an error.",
    example="slice(dd.array([0, 1, 2, 3]), start=(1,), stop=(4,), step=(2,))",
    since="0.1",
)


def _pad_infer(x: Type, fill: Type, *, low: Shape, high: Shape, interior: tuple[int, ...]) -> tuple[Type, ...]:
    check_dtype("pad", x.dtype, ELEMENTS)
    check_same_dtype("pad", (x, fill))
    if fill.shape != ():
        raise ShapeError("pad: the fill value must have rank 0", op="pad")
    if not len(low) == len(high) == len(interior) == x.ndim:
        raise ShapeError(f"pad: low, high and interior must each have {x.ndim} entries", op="pad")
    out = []
    for n, lo, hi, gap in zip(x.shape, low, high, interior, strict=True):
        _refuse_below(lo, 0, "pad", f"the padding {lo} is negative")
        _refuse_below(hi, 0, "pad", f"the padding {hi} is negative")
        if gap < 0:
            raise ShapeError(f"pad: the interior padding {gap} is negative", op="pad")
        gaps: Dim = 0
        if gap:
            if not isinstance(n, int):
                raise ShapeError(f"pad: interior padding of an axis of unknown size {n}", op="pad")
            gaps = gap * max(n - 1, 0)
        out.append(lo + n + gaps + hi)
    return (Type(x.dtype, tuple(out)),)


def _pad(x: Array, fill: Array, *, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    sizes = [a + n + g * max(n - 1, 0) + b for n, a, b, g in zip(x.shape, low, high, interior, strict=True)]
    out = np.full(sizes, fill, x.dtype)
    spots = tuple(slice(a, a + n + g * max(n - 1, 0), g + 1) for n, a, g in zip(x.shape, low, interior, strict=True))
    out[spots] = x
    return out


def _pad_vjp(
    ct: Any, x: Any, fill: Any, y: Any, *, low: Shape, high: Shape, interior: tuple[int, ...]
) -> tuple[Any, ...]:
    stop = tuple(n - hi for n, hi in zip(ct.shape, high, strict=True))
    inner = slice_(ct, start=tuple(low), stop=stop, step=tuple(g + 1 for g in interior))
    every = tuple(range(len(low)))
    return (inner, OPS["sum"](ct, axes=every) - OPS["sum"](inner, axes=every))


def _pad_jvp(
    tangents: Sequence[Any], x: Any, fill: Any, y: Any, *, low: Shape, high: Shape, interior: tuple[int, ...]
) -> tuple[Any, ...]:
    tx, tf = tangents
    tx = zeros(type_of(x)) if tx is None else tx
    tf = lit(0, x.dtype) if tf is None else tf
    return (pad(tx, tf, low=low, high=high, interior=interior),)


def _pad_batch(
    n: Any, args: Sequence[Any], batched: Sequence[bool], *, low: Shape, high: Shape, interior: tuple[int, ...]
) -> tuple[Any, ...]:
    x, fill = args
    attrs = {"low": (0, *low), "high": (0, *high), "interior": (0, *interior)}
    if not batched[1]:
        return (pad(x, fill, **attrs),)
    if not batched[0]:
        x = broadcast_to(x, shape=(n, *x.shape))
    zero = lit(0, fill.dtype) if fill.dtype.kind != "b" else lit(False, fill.dtype)
    one = OPS["cast"](zeros(type_of(x)), dtype=_BOOL)
    outside = pad(one, lit(True, _BOOL), **attrs)
    wide = reshape(fill, shape=(n, *(1,) * len(low)))
    return (OPS["select"](outside, wide, pad(x, zero, **attrs)),)


_BOOL = ARRAYS[0]


def _pad_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    rows: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
        ((), (), (), ()),
        ((3,), (1,), (2,), (0,)),
        ((0,), (1,), (1,), (2,)),
        ((3,), (0,), (1,), (2,)),
        ((2, 3), (1, 0), (0, 2), (1, 0)),
        ((1, 1), (0, 1), (1, 1), (3, 3)),
    ]
    for shape, low, high, interior in rows:
        attrs = {"low": low, "high": high, "interior": interior}
        yield Case((spread(rng, dtype, shape), spread(rng, dtype, ())), attrs)


pad: OpSpec = define(
    name="pad",
    code=0x54,
    family="movement",
    attrs={"low": "dims", "high": "dims", "interior": "ints"},
    accepts=ELEMENTS,
    result="own",
    infer=_pad_infer,
    reference=_pad,
    vjp=_pad_vjp,
    jvp=_pad_jvp,
    batch=_pad_batch,
    fusion="movement",
    flops=no_flops,
    sample=_pad_cases,
    ulp=0,
    doc="The fill value (second operand) before, after and between the elements along every axis.",
    example="pad(dd.array([1, 2]), dd.array(0), low=(1,), high=(1,), interior=(1,))",
    since="0.1",
)


def _concatenate_infer(*types: Type, axis: int) -> tuple[Type, ...]:
    if not types:
        raise ShapeError("concatenate: nothing to join", op="concatenate")
    first = types[0]
    check_dtype("concatenate", first.dtype, EVERY)
    check_same_dtype("concatenate", types)
    if not 0 <= axis < first.ndim:
        raise ShapeError(
            f"concatenate: axis {axis} is out of range for rank {first.ndim}", op="concatenate", code="E103"
        )
    total: Dim = 0
    for t in types:
        pairs = [(a, b) for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=False)) if i != axis and a != b]
        if t.ndim != first.ndim or pairs:
            raise ShapeError(
                "concatenate: shapes differ off the axis: " + " and ".join(show(t.shape) for t in types),
                op="concatenate",
                rule=f"all sizes but that of axis {axis} must be equal",
                details={"unequal": list(map(str, pairs[0]))} if t.ndim == first.ndim else {},
            )
        total = total + t.shape[axis]
    return (Type(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _concatenate_vjp(ct: Any, *args: Any, axis: int) -> tuple[Any, ...]:
    out = []
    at: Dim = 0
    for x in args[:-1]:
        start: list[Dim] = [0] * len(ct.shape)
        stop = list(ct.shape)
        start[axis] = at
        at = at + x.shape[axis]
        stop[axis] = at
        out.append(slice_(ct, start=tuple(start), stop=tuple(stop), step=(1,) * len(stop)))
    return tuple(out)


def _concatenate_jvp(tangents: Sequence[Any], *args: Any, axis: int) -> tuple[Any, ...]:
    full = [zeros(type_of(x)) if t is None else t for t, x in zip(tangents, args[:-1], strict=True)]
    return (concatenate(*full, axis=axis),)


def spread_batch(n: Any, args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """All operands with the batch first; those without one are repeated."""
    return [
        a if b else broadcast_to(reshape(a, shape=(1, *a.shape)), shape=(n, *a.shape))
        for a, b in zip(args, batched, strict=True)
    ]


def _concatenate_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shapes, axis in (
        (((3,),), 0),
        (((2,), (0,), (3,)), 0),
        (((2, 3), (1, 3)), 0),
        (((2, 3), (2, 1), (2, 2)), 1),
        (((0, 2), (0, 2)), 0),
    ):
        yield Case(tuple(spread(rng, dtype, s) for s in shapes), {"axis": axis})


concatenate: OpSpec = define(
    name="concatenate",
    code=0x55,
    family="movement",
    attrs={"axis": "int"},
    accepts=EVERY,
    result="own",
    infer=_concatenate_infer,
    reference=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concatenate_vjp,
    jvp=_concatenate_jvp,
    batch=lambda n, args, batched, *, axis: (concatenate(*spread_batch(n, args, batched), axis=axis + 1),),
    fusion="movement",
    flops=no_flops,
    sample=_concatenate_cases,
    ulp=0,
    doc="Arrays joined along an axis.",
    example="concatenate(dd.array([1, 2]), dd.array([3]), axis=0)",
    since="0.1",
)


def _flip_infer(x: Type, *, axes: tuple[int, ...]) -> tuple[Type, ...]:
    check_dtype("flip", x.dtype, EVERY)
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"flip: axes {axes} do not fit rank {x.ndim}", op="flip", code="E103")
    return (x,)


flip: OpSpec = define(
    name="flip",
    code=0x56,
    family="movement",
    attrs={"axes": "ints"},
    accepts=EVERY,
    result="own",
    infer=_flip_infer,
    reference=lambda x, *, axes: np.flip(x, axes),
    vjp=lambda ct, x, y, *, axes: (flip(ct, axes=axes),),
    jvp=LINEAR,
    batch=lambda n, args, batched, *, axes: (flip(args[0], axes=tuple(a + 1 for a in axes)),),
    fusion="movement",
    flops=no_flops,
    sample=attr_cases(
        spread,
        [
            ((), {"axes": ()}),
            ((4,), {"axes": (0,)}),
            ((2, 3), {"axes": (1,)}),
            ((2, 3), {"axes": (0, 1)}),
            ((0, 3), {"axes": (0,)}),
        ],
    ),
    ulp=0,
    doc="The elements along some axes in reverse order.",
    example="flip(dd.array([1, 2, 3]), axes=(0,))",
    since="0.1",
)
