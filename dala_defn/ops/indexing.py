"""Gather, scatter, and slices at positions that are known only while running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import ARRAYS, ELEMENTS, EVERY, INTS, NUMBERS, DType, int32
from dala_defn.errors import ArgumentError, IndexOutOfRange, ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import iota, lit, type_of, zeros
from dala_defn.ops.movement import broadcast_to, concatenate, reshape, spread_batch, transpose
from dala_defn.ops.samples import Array, reals, spread
from dala_defn.ops.spec import (
    OPS,
    Case,
    OpSpec,
    check_dtype,
    check_same_dtype,
    define,
    in_sequence,
    no_flops,
    outputs_flops,
)
from dala_defn.shapes import Condition, Dim, Shape, may, show, size

MODES = ("clip", "fill", "error")


def _gather_shape(name: str, x: Type, indices: Type, axis: int, batch_dims: int, mode: str) -> Shape:
    check_dtype(name, indices.dtype, INTS)
    if mode not in MODES:
        raise ArgumentError(f"{name}: mode {mode!r} is none of {', '.join(MODES)}", op=name)
    if not 0 <= batch_dims <= axis < x.ndim or batch_dims > indices.ndim:
        raise ShapeError(
            f"{name}: axis {axis} with {batch_dims} batch dims does not fit {show(x.shape)} and {show(indices.shape)}",
            op=name,
            code="E103",
        )
    if x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ShapeError(f"{name}: batch dims of {show(x.shape)} and {show(indices.shape)} differ", op=name)
    return (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :])


def _gather_infer(x: Type, indices: Type, *, axis: int, batch_dims: int, mode: str) -> tuple[Type, ...]:
    check_dtype("gather", x.dtype, EVERY)
    shape = _gather_shape("gather", x, indices, axis, batch_dims, mode)
    if x.shape[axis] == 0 and mode != "fill" and size(shape) != 0:
        raise ShapeError("gather: nothing to take from an axis of size 0", op="gather")
    return (Type(x.dtype, shape),)


def resolve(indices: Array, n: int, mode: str) -> tuple[Array, Array]:
    """Indices that are safe to use, and which of them count."""
    at = indices.astype(object) if indices.dtype == np.uint64 else indices.astype(np.int64)
    inside = np.asarray((at >= 0) & (at < n), bool)
    if mode == "error" and not inside.all():
        where = tuple(int(i) for i in np.argwhere(~inside)[0])
        raise IndexOutOfRange(f"index {at[where]} at {where} is out of range for an axis of size {n}", op="gather")
    if mode == "clip" and n == 0 and at.size:
        raise IndexOutOfRange("there is nothing to clip an index to in an axis of size 0", op="gather")
    safe = np.asarray(np.clip(at, 0, max(n - 1, 0)), np.int64)
    return safe, np.ones_like(inside) if mode == "clip" else inside


def split(x: Array, indices: Array, axis: int, batch_dims: int) -> tuple[Array, Array, tuple[int, ...]]:
    """x as (batch, pre, n, post), indices as (batch, k), and the shape of the batch, pre, k, post result."""
    lead, pre, post = x.shape[:batch_dims], x.shape[batch_dims:axis], x.shape[axis + 1 :]
    b, p, q = (int(np.prod(s, dtype=np.int64)) for s in (lead, pre, post))
    k = indices.shape[batch_dims:]
    return (
        x.reshape(b, p, x.shape[axis], q),
        indices.reshape(b, int(np.prod(k, dtype=np.int64))),
        (*lead, *pre, *k, *post),
    )


def _gather(x: Array, indices: Array, *, axis: int, batch_dims: int, mode: str) -> Array:
    rows, at, shape = split(x, indices, axis, batch_dims)
    safe, inside = resolve(at, rows.shape[2], mode)
    if rows.shape[2] == 0:
        rows = np.zeros((rows.shape[0], rows.shape[1], 1, rows.shape[3]), x.dtype)
    out = np.stack([rows[b][:, safe[b], :] for b in range(len(rows))]) if len(rows) else rows[:, :, :0, :]
    if not inside.all():
        floating = x.dtype.kind in "fc" or x.dtype.name == "bfloat16"
        outside = np.broadcast_to(~inside[:, None, :, None], out.shape)
        whole = complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan
        out[outside] = whole if floating else np.zeros((), x.dtype)
    return out.reshape(shape).astype(x.dtype)


def _gather_batch(
    n: Any, args: Sequence[Any], batched: Sequence[bool], *, axis: int, batch_dims: int, mode: str
) -> tuple[Any, ...]:
    x, indices = args
    if batched == (True, False) and batch_dims == 0:
        return (gather(x, indices, axis=axis + 1, batch_dims=0, mode=mode),)
    if batched == (False, True) and batch_dims == 0:
        y = gather(x, indices, axis=axis, batch_dims=0, mode=mode)
        order = [axis, *(i for i in range(len(y.shape)) if i != axis)]
        return (transpose(y, axes=tuple(order)),)
    x, indices = spread_batch(n, args, batched)
    return (gather(x, indices, axis=axis + 1, batch_dims=batch_dims + 1, mode=mode),)


_GATHERS: list[tuple[tuple[int, ...], tuple[int, ...], int, int]] = [
    ((5,), (), 0, 0),
    ((5,), (3,), 0, 0),
    ((5,), (0,), 0, 0),
    ((4, 3), (2, 2), 0, 0),
    ((4, 3), (5,), 1, 0),
    ((2, 4, 3), (2, 5), 1, 1),
    ((2, 3, 4), (2, 2), 2, 1),
    ((2, 0, 3), (4,), 2, 0),
    ((1, 1), (1,), 0, 0),
]


def _index_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for mode in MODES:
        for shape, at, axis, batch_dims in _GATHERS:
            n = shape[axis]
            low, high = (0, n) if mode == "error" else (-2, n + 2)
            indices = rng.integers(low, max(high, low + 1), at).astype(np.int64 if axis else np.int32)
            yield Case((spread(rng, dtype, shape), indices), {"axis": axis, "batch_dims": batch_dims, "mode": mode})


def _gather_vjp(ct: Any, x: Any, i: Any, y: Any, *, axis: int, batch_dims: int, mode: str) -> tuple[Any, ...]:
    return (scatter_add(zeros(type_of(x)), i, ct, axis=axis, batch_dims=batch_dims, mode=mode), None)


def _gather_jvp(
    tangents: Sequence[Any], x: Any, i: Any, y: Any, *, axis: int, batch_dims: int, mode: str
) -> tuple[Any, ...]:
    t = gather(tangents[0], i, axis=axis, batch_dims=batch_dims, mode=mode)
    if mode == "fill":
        inside = gather(
            broadcast_to(lit(True, ARRAYS[0]), shape=x.shape), i, axis=axis, batch_dims=batch_dims, mode=mode
        )
        t = OPS["select"](inside, t, lit(0, t.dtype))
    return (t,)


gather: OpSpec = define(
    name="gather",
    code=0x59,
    family="movement",
    attrs={"axis": "int", "batch_dims": "int", "mode": "str"},
    accepts=EVERY,
    result="own",
    infer=_gather_infer,
    reference=_gather,
    vjp=_gather_vjp,
    jvp=_gather_jvp,
    batch=_gather_batch,
    fusion="opaque",
    flops=no_flops,
    sample=_index_cases,
    ulp=0,
    doc="Rows of an axis by index; the first ``batch_dims`` axes of both operands run together. An index out of range "
    "is clamped (``clip``), gives NaN or 0 (``fill``), or is an error while running (``error``).",
    example="gather(dd.array([10, 20, 30]), dd.array([2, 0]), axis=0, batch_dims=0, mode='clip')",
    since="0.1",
)


def scatter_infer(name: str, accepts: Sequence[DType]) -> Any:
    """The type rule of a scatter."""

    def infer(x: Type, i: Type, u: Type, *, axis: int, batch_dims: int, mode: str) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, accepts)
        check_same_dtype(name, (x, u))
        shape = _gather_shape(name, x, i, axis, batch_dims, mode)
        if u.shape != shape:
            raise ShapeError(f"{name}: the updates must have the shape {show(shape)}, not {show(u.shape)}", op=name)
        if x.shape[axis] == 0 and mode == "clip" and size(shape) != 0:
            raise ShapeError(f"{name}: nothing to write to in an axis of size 0", op=name)
        return (x,)

    return infer


def _scatter(name: str) -> Any:
    def reference(x: Array, indices: Array, updates: Array, *, axis: int, batch_dims: int, mode: str) -> Array:
        rows, at, _ = split(x, indices, axis, batch_dims)
        safe, inside = resolve(at, rows.shape[2], mode)
        low = x.dtype in (np.float16, ARRAYS[10].dtype)
        out = rows.astype(np.float32) if low and name == "scatter_add" else rows.copy()
        news = updates.reshape(rows.shape[0], rows.shape[1], at.shape[1], rows.shape[3])
        for b in range(len(out)):
            for k in range(at.shape[1]):
                if inside[b, k]:
                    if name == "scatter_add":
                        out[b][:, safe[b, k], :] += news[b][:, k, :].astype(out.dtype)
                    else:
                        out[b][:, safe[b, k], :] = news[b][:, k, :]
        return out.reshape(x.shape).astype(x.dtype)

    return reference


def scatter_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    """Cases of a scatter: every mode, duplicates, indices out of range."""
    for case in _index_cases(rng, dtype):
        x, i = case.args
        shape = _gather_shape("scatter", Type(dtype, x.shape), Type(int32, i.shape), mode="clip", **_axes(case.attrs))
        if dtype.is_integer:
            yield Case((x, i, spread(rng, dtype, shape)), case.attrs)  # type: ignore[arg-type]
        else:
            yield Case((x, i, reals(-4, 4)(rng, dtype, shape)), case.attrs)  # type: ignore[arg-type]


def _axes(attrs: Any) -> dict[str, int]:
    return {"axis": attrs["axis"], "batch_dims": attrs["batch_dims"]}


def scatter_batch(name: str) -> Any:
    """The batching rule of a scatter."""

    def batch(
        n: Any, args: Sequence[Any], batched: Sequence[bool], *, axis: int, batch_dims: int, mode: str
    ) -> tuple[Any, ...]:
        x, i, u = spread_batch(n, args, batched)
        return (OPS[name](x, i, u, axis=axis + 1, batch_dims=batch_dims + 1, mode=mode),)

    return batch


def _scatter_add_vjp(ct: Any, x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    return (ct, None, taken(ct, i, attrs))


def taken(ct: Any, i: Any, attrs: Any) -> Any:
    """What a scatter's updates receive: nothing for those that were dropped."""
    return _gather_jvp((ct, None), ct, i, None, **attrs)[0]


def _scatter_jvp(name: str) -> Any:
    def jvp(tangents: Sequence[Any], x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
        tx, _, tu = tangents
        tx = zeros(type_of(x)) if tx is None else tx
        tu = zeros(type_of(u)) if tu is None else tu
        return (OPS[name](tx, i, tu, **attrs),)

    return jvp


def _scatter_magnitude(x: Array, indices: Array, updates: Array, **attrs: Any) -> Array:
    rows, news = (np.abs(a if a.dtype.kind not in "fV" else a.astype(np.float64)) for a in (x, updates))
    return in_sequence(_scatter("scatter_add")(rows, indices, news, **attrs), indices.size)


scatter_add: OpSpec = define(
    name="scatter_add",
    code=0x5A,
    family="movement",
    attrs={"axis": "int", "batch_dims": "int", "mode": "str"},
    accepts=NUMBERS,
    result="own",
    infer=scatter_infer("scatter_add", NUMBERS),
    reference=_scatter("scatter_add"),
    vjp=_scatter_add_vjp,
    jvp=_scatter_jvp("scatter_add"),
    batch=scatter_batch("scatter_add"),
    fusion="opaque",
    flops=lambda i, o, a: size(i[2].shape),
    sample=scatter_cases,
    ulp=4,
    magnitude=_scatter_magnitude,
    doc="The first operand with updates (third) added at indices (second) along an axis; every duplicate counts. "
    "An index out of range is clamped (``clip``), dropped (``fill``) or an error while running (``error``).",
    example="scatter_add(dd.zeros(3), dd.array([0, 0]), dd.array([1.0, 2.0]), axis=0, batch_dims=0, mode='clip')",
    since="0.1",
)


def _scatter_set_vjp(ct: Any, x: Any, i: Any, u: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    # The last of several updates wins: number the updates, scatter the numbers, and see whose number stayed.
    count = iota(shape=(size(u.shape),), axis=0, dtype=int32)
    number = reshape(count, shape=u.shape)
    stayed = scatter_set(broadcast_to(lit(-1, int32), shape=x.shape), i, number, **attrs)
    untouched = OPS["less"](stayed, lit(0, int32))
    won = OPS["equal"](gather(stayed, i, **attrs), number)
    zero = lit(0, ct.dtype)
    return (OPS["select"](untouched, ct, zero), None, OPS["select"](won, taken(ct, i, attrs), zero))


scatter_set: OpSpec = define(
    name="scatter_set",
    code=0x5B,
    family="movement",
    attrs={"axis": "int", "batch_dims": "int", "mode": "str"},
    accepts=ELEMENTS,
    result="own",
    infer=scatter_infer("scatter_set", ELEMENTS),
    reference=_scatter("scatter_set"),
    vjp=_scatter_set_vjp,
    jvp=_scatter_jvp("scatter_set"),
    batch=scatter_batch("scatter_set"),
    fusion="opaque",
    flops=no_flops,
    sample=scatter_cases,
    ulp=0,
    doc="The first operand with updates (third) written at indices (second) along an axis; of several the last in "
    "row-major order stays. An index out of range is clamped (``clip``), dropped (``fill``) or an error (``error``).",
    example="scatter_set(dd.zeros(3), dd.array([0, 0]), dd.array([1.0, 2.0]), axis=0, batch_dims=0, mode='clip')",
    since="0.1",
)


def _check_starts(name: str, x: Type, starts: Type, sizes: Shape) -> None:
    check_dtype(name, x.dtype, EVERY)
    check_dtype(name, starts.dtype, INTS)
    if starts.shape != (x.ndim,):
        raise ShapeError(f"{name}: the starts must have the shape ({x.ndim},), not {show(starts.shape)}", op=name)
    if len(sizes) != x.ndim or not all(
        may(Condition(n, ">=", s), "dynamic_slice") for n, s in zip(x.shape, sizes, strict=True)
    ):
        raise ShapeError(f"{name}: a block {show(sizes)} does not fit {show(x.shape)}", op=name)


def _dynamic_slice_infer(x: Type, starts: Type, *, sizes: Shape) -> tuple[Type, ...]:
    _check_starts("dynamic_slice", x, starts, sizes)
    return (Type(x.dtype, tuple(sizes)),)


def _block(x: Array, starts: Array, sizes: Sequence[int]) -> tuple[slice, ...]:
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))


def _linear_index(x: Any, starts: Any, sizes: Shape) -> Any:
    """The row-major positions (n, count) of a block in each x of a batch."""
    full = x.shape[1:]
    rank = len(full)
    total: Any = None
    for axis in range(rank):
        start = OPS["slice"](starts, start=(0, axis), stop=(starts.shape[0], axis + 1), step=(1, 1))
        start = reshape(OPS["cast"](start, dtype=_INT64), shape=(starts.shape[0], *(1,) * rank))
        room = dim_value(full[axis] - sizes[axis])
        start = OPS["minimum"](OPS["maximum"](start, lit(0, _INT64)), room)
        step = lit(1, _INT64)
        for d in full[axis + 1 :]:
            step = step * dim_value(d)
        part = (start + reshape(iota(shape=(sizes[axis],), axis=0, dtype=_INT64), shape=_column(sizes, axis))) * step
        total = part if total is None else total + part
    if total is None:
        total = broadcast_to(lit(0, _INT64), shape=(starts.shape[0],))
    return reshape(broadcast_to(total, shape=(starts.shape[0], *sizes)), shape=(starts.shape[0], size(sizes)))


_INT64 = INTS[3]


def _column(sizes: Shape, axis: int) -> Shape:
    return (1, *(sizes[i] if i == axis else 1 for i in range(len(sizes))))


def dim_value(d: Dim) -> Any:
    """A size as an int64 scalar."""
    if isinstance(d, int):
        return lit(d, _INT64)
    return OPS["sum"](broadcast_to(lit(1, _INT64), shape=(d,)), axes=(0,))


def _dynamic_slice_batch(n: Any, args: Sequence[Any], batched: Sequence[bool], *, sizes: Shape) -> tuple[Any, ...]:
    x, starts = args
    if not batched[1]:
        zero = broadcast_to(lit(0, starts.dtype), shape=(1,))
        return (dynamic_slice(x, concatenate(zero, starts, axis=0), sizes=(n, *sizes)),)
    x, starts = spread_batch(n, args, batched)
    flat = reshape(x, shape=(n, size(x.shape[1:])))
    out = gather(flat, _linear_index(x, starts, sizes), axis=1, batch_dims=1, mode="clip")
    return (reshape(out, shape=(n, *sizes)),)


def _start_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape, sizes in (((), ()), ((5,), (2,)), ((5,), (5,)), ((4, 3), (2, 1)), ((3, 0), (1, 0)), ((1,), (0,))):
        starts = rng.integers(-1, 5, len(shape)).astype(np.int32)
        yield Case((spread(rng, dtype, shape), starts), {"sizes": sizes})


dynamic_slice: OpSpec = define(
    name="dynamic_slice",
    code=0x5C,
    family="movement",
    attrs={"sizes": "dims"},
    accepts=EVERY,
    result="own",
    infer=_dynamic_slice_infer,
    reference=lambda x, starts, *, sizes: x[_block(x, starts, sizes)],
    vjp=lambda ct, x, starts, y, *, sizes: (dynamic_update_slice(zeros(type_of(x)), ct, starts), None),
    jvp=lambda tangents, x, starts, y, *, sizes: (dynamic_slice(tangents[0], starts, sizes=sizes),),
    batch=_dynamic_slice_batch,
    fusion="opaque",
    flops=no_flops,
    sample=_start_cases,
    ulp=0,
    doc="A block of given size at a position (second operand, one integer an axis) that is clamped to fit.",
    example="dynamic_slice(dd.array([1, 2, 3, 4]), dd.array([1]), sizes=(2,))",
    since="0.1",
)


def _dynamic_update_infer(x: Type, u: Type, starts: Type) -> tuple[Type, ...]:
    check_dtype("dynamic_update_slice", x.dtype, ELEMENTS)
    check_same_dtype("dynamic_update_slice", (x, u))
    _check_starts("dynamic_update_slice", x, starts, u.shape)
    return (x,)


def _dynamic_update(x: Array, u: Array, starts: Array) -> Array:
    out = x.copy()
    out[_block(x, starts, u.shape)] = u
    return out


def _dynamic_update_batch(n: Any, args: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
    x, u, starts = args
    if not batched[2]:
        x, u = spread_batch(n, (x, u), batched[:2])
        zero = broadcast_to(lit(0, starts.dtype), shape=(1,))
        return (dynamic_update_slice(x, u, concatenate(zero, starts, axis=0)),)
    x, u, starts = spread_batch(n, args, batched)
    flat, news = reshape(x, shape=(n, size(x.shape[1:]))), reshape(u, shape=(n, size(u.shape[1:])))
    at = _linear_index(x, starts, u.shape[1:])
    return (reshape(scatter_set(flat, at, news, axis=1, batch_dims=1, mode="clip"), shape=x.shape),)


def _dynamic_update_vjp(ct: Any, x: Any, u: Any, starts: Any, y: Any) -> tuple[Any, ...]:
    kept = dynamic_update_slice(ct, zeros(type_of(u)), starts)
    return (kept, dynamic_slice(ct, starts, sizes=u.shape), None)


def _dynamic_update_jvp(tangents: Sequence[Any], x: Any, u: Any, starts: Any, y: Any) -> tuple[Any, ...]:
    tx, tu, _ = tangents
    tx = zeros(type_of(x)) if tx is None else tx
    tu = zeros(type_of(u)) if tu is None else tu
    return (dynamic_update_slice(tx, tu, starts),)


def _update_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for case in _start_cases(rng, dtype):
        x, starts = case.args
        yield Case((x, spread(rng, dtype, case.attrs["sizes"]), starts), {})


dynamic_update_slice: OpSpec = define(
    name="dynamic_update_slice",
    code=0x5D,
    family="movement",
    attrs={},
    accepts=ELEMENTS,
    result="own",
    infer=_dynamic_update_infer,
    reference=_dynamic_update,
    vjp=_dynamic_update_vjp,
    jvp=_dynamic_update_jvp,
    batch=_dynamic_update_batch,
    fusion="opaque",
    flops=outputs_flops,
    sample=_update_cases,
    ulp=0,
    doc="The first operand with a block (second) written at a position (third) that is clamped to fit.",
    example="dynamic_update_slice(dd.array([1, 2, 3]), dd.array([9]), dd.array([1]))",
    since="0.1",
)
