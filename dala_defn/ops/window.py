"""Sums and maxima over sliding windows, and the two ops that are the derivatives of the maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import FLOATS, NUMBERS, NUMERIC, DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.movement import pad, reshape
from dala_defn.ops.reduction import wide
from dala_defn.ops.samples import Array, Draw, distinct, reals
from dala_defn.ops.spec import LINEAR, OPS, Attrs, Case, OpSpec, check_dtype, check_same_dtype, define
from dala_defn.shapes import Condition, Dim, Shape, floordiv, may, show, size

Ints = tuple[int, ...]
ATTRS = {"window": "ints", "strides": "ints", "low": "ints", "high": "ints"}


def window_size(n: Dim, window: int, stride: int, low: int, high: int) -> Dim:
    """How many windows fit: ``(n + low + high - window) // stride + 1``, at least 0."""
    room = n + low + high - window
    may(Condition(room + stride, ">=", 0), "a window")
    out = floordiv(room, stride) + 1
    return max(out, 0) if isinstance(out, int) else out


def _out_shape(name: str, shape: Shape, *, window: Ints, strides: Ints, low: Ints, high: Ints) -> Shape:
    if not len(window) == len(strides) == len(low) == len(high) == len(shape):
        raise ShapeError(f"{name}: window, strides, low and high must each have {len(shape)} entries", op=name)
    for w, s, lo, hi in zip(window, strides, low, high, strict=True):
        if w < 1 or s < 1 or lo < 0 or hi < 0 or lo >= w or hi >= w:
            raise ShapeError(
                f"{name}: window {w}, stride {s}, padding {lo} and {hi} do not go together",
                op=name,
                rule="window and stride are at least 1, padding is at least 0 and less than the window",
            )
    rows = zip(shape, window, strides, low, high, strict=True)
    return tuple(n if (w, s) == (1, 1) else window_size(n, w, s, lo, hi) for n, w, s, lo, hi in rows)


def _window_infer(name: str, accepts: Sequence[DType]) -> Callable[..., tuple[Type, ...]]:
    def infer(x: Type, **attrs: Any) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, accepts)
        return (Type(x.dtype, _out_shape(name, x.shape, **attrs)),)

    return infer


def _spread_infer(x: Type, ct: Type, **attrs: Any) -> tuple[Type, ...]:
    check_dtype("window_max_spread", x.dtype, FLOATS)
    check_same_dtype("window_max_spread", (x, ct))
    shape = _out_shape("window_max_spread", x.shape, **attrs)
    if ct.shape != shape:
        raise ShapeError(f"window_max_spread: the second operand must be {show(shape)}", op="window_max_spread")
    return (x,)


def _pick_infer(x: Type, t: Type, **attrs: Any) -> tuple[Type, ...]:
    check_dtype("window_max_pick", x.dtype, FLOATS)
    check_same_dtype("window_max_pick", (x, t))
    if x.shape != t.shape:
        raise ShapeError("window_max_pick: the operands must have the same shape", op="window_max_pick")
    return (Type(x.dtype, _out_shape("window_max_pick", x.shape, **attrs)),)


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min


def _windows(x: Array, fill: Any, attrs: Attrs) -> Array:
    """Every window: the output shape, then the window's."""
    out = _out_shape("window", x.shape, **attrs)
    if x.ndim == 0:
        return x
    padded = np.pad(x, list(zip(attrs["low"], attrs["high"], strict=True)), constant_values=fill)
    if any(n < w for n, w in zip(padded.shape, attrs["window"], strict=True)):
        return np.zeros((*map(int, out), *attrs["window"]), x.dtype)
    views = np.lib.stride_tricks.sliding_window_view(padded, attrs["window"])
    return views[tuple(slice(None, None, s) for s in attrs["strides"])]


def _inner(rank: int) -> tuple[int, ...]:
    return tuple(range(rank, 2 * rank))


def _window_sum(x: Array, **attrs: Any) -> Array:
    with np.errstate(all="ignore"):
        w = _windows(wide(x), 0, attrs)
        return np.sum(w, _inner(x.ndim), dtype=w.dtype).astype(x.dtype)


def _window_max(x: Array, **attrs: Any) -> Array:
    y = wide(x)
    return np.asarray(np.max(_windows(y, _lowest(x.dtype), attrs), _inner(x.ndim), initial=_lowest(x.dtype))).astype(
        x.dtype
    )


def _shares(x: Array, attrs: Attrs) -> Array:
    """For each window, the equal parts of the positions that hold its maximum; none for padding."""
    values = _windows(wide(x), -np.inf, attrs)
    real = _windows(np.ones(x.shape, bool), False, attrs)
    top = np.max(values, _inner(x.ndim), keepdims=True, initial=-np.inf)
    hit = ((values == top) | (np.isnan(values) & np.isnan(top))) & real
    with np.errstate(all="ignore"):
        return np.where(hit, 1.0 / np.sum(hit, _inner(x.ndim), keepdims=True), 0.0)


def _spread(x: Array, ct: Array, **attrs: Any) -> Array:
    parts = _shares(x, attrs) * wide(ct).reshape((*ct.shape, *(1,) * x.ndim))
    full = [n + lo + hi for n, lo, hi in zip(x.shape, attrs["low"], attrs["high"], strict=True)]
    out = np.zeros(full)
    for at in np.ndindex(*ct.shape):
        spot = tuple(slice(i * s, i * s + w) for i, s, w in zip(at, attrs["strides"], attrs["window"], strict=True))
        out[spot] += parts[at]
    inner = tuple(slice(lo, lo + n) for lo, n in zip(attrs["low"], x.shape, strict=True))
    return out[inner].astype(x.dtype)


def _pick(x: Array, t: Array, **attrs: Any) -> Array:
    shares = _shares(x, attrs)
    with np.errstate(all="ignore"):
        values = np.where(shares > 0, shares * _windows(wide(t), 0, attrs), 0)
    return np.sum(values, _inner(x.ndim)).astype(x.dtype)


def _batch(name: str) -> Any:
    def batch(n: Any, args: Sequence[Any], batched: Sequence[bool], **attrs: Any) -> tuple[Any, ...]:
        from dala_defn.ops.movement import spread_batch

        first = {"window": 1, "strides": 1, "low": 0, "high": 0}
        return (OPS[name](*spread_batch(n, args, batched), **{k: (first[k], *attrs[k]) for k in ATTRS}),)

    return batch


def _sum_vjp(ct: Any, x: Any, y: Any, *, window: Ints, strides: Ints, low: Ints, high: Ints) -> tuple[Any, ...]:
    ones = (1,) * len(window)
    zero = (0,) * len(window)
    before, after, gaps, stop = [], [], [], []
    for axis, (n, w, s, lo) in enumerate(zip(x.shape, window, strides, low, strict=True)):
        o = ct.shape[axis]
        known = isinstance(o, int)
        if not known and s > 1:  # `pad` puts gaps between as many elements as it knows of; here one follows each
            lead, rest = ct.shape[:axis], ct.shape[axis + 1 :]
            edge = tuple([s - 1 if i == axis + 1 else 0 for i in range(len(window) + 1)])
            ct = reshape(ct, shape=(*lead, o, 1, *rest))
            ct = pad(ct, lit(0, ct.dtype), low=(0,) * len(edge), high=edge, interior=(0,) * len(edge))
            ct = reshape(ct, shape=(*lead, o * s, *rest))
        before.append(w - 1 - lo)
        after.append(n + lo - (o + (s - 1) * max(o - 1, 0) if known else o * s - (s - 1)))
        gaps.append(s - 1 if known else 0)
        stop.append(n + w - 1)
    spread = pad(ct, lit(0, ct.dtype), low=tuple(before), high=tuple(after), interior=tuple(gaps))
    if spread.shape != tuple(stop):
        spread = OPS["slice"](spread, start=zero, stop=tuple(stop), step=ones)
    return (window_sum(spread, window=window, strides=ones, low=zero, high=zero),)


_ROWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((), {"window": (), "strides": (), "low": (), "high": ()}),
    ((5,), {"window": (1,), "strides": (1,), "low": (0,), "high": (0,)}),
    ((5,), {"window": (2,), "strides": (1,), "low": (0,), "high": (0,)}),
    ((6,), {"window": (3,), "strides": (2,), "low": (1,), "high": (2,)}),
    ((0,), {"window": (2,), "strides": (1,), "low": (0,), "high": (0,)}),
    ((1,), {"window": (3,), "strides": (1,), "low": (0,), "high": (0,)}),
    ((4, 5), {"window": (2, 2), "strides": (2, 2), "low": (0, 0), "high": (0, 0)}),
    (
        (2, 5, 4, 1),
        {"window": (1, 3, 2, 1), "strides": (1, 1, 3, 1), "low": (0, 1, 0, 0), "high": (0, 0, 1, 0)},
    ),
]


def _cases(kind: str, draw: Draw) -> Any:
    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        for shape, attrs in _ROWS:
            x = draw(rng, dtype, shape)
            out = tuple(map(int, _out_shape("window", shape, **attrs)))
            second = {"one": None, "spread": out, "pick": shape}[kind]
            yield Case((x,) if second is None else (x, reals(-2, 2)(rng, dtype, second)), attrs)
        if dtype.is_float:
            shape, attrs = _ROWS[6]
            x = np.round(draw(rng, dtype, shape).astype(np.float32)).astype(dtype.dtype)
            x[1, 1] = np.nan
            second = {"one": None, "spread": (2, 2), "pick": shape}[kind]
            extra = () if second is None else (reals(-2, 2)(rng, dtype, second),)
            yield Case((x, *extra), attrs, smooth=False)

    return sample


def _flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    windows = _out_shape("window", inputs[0].shape, **{k: attrs[k] for k in ATTRS})
    return size(windows) * size(attrs["window"])


_EXAMPLE = "(dd.array([[1.0, 3.0, 2.0]]), window=(1, 2), strides=(1, 1), low=(0, 0), high=(0, 0))"

window_sum: OpSpec = define(
    name="window_sum",
    code=0xA0,
    family="window",
    attrs=ATTRS,
    accepts=NUMBERS,
    result="own",
    infer=_window_infer("window_sum", NUMBERS),
    reference=_window_sum,
    vjp=_sum_vjp,
    jvp=LINEAR,
    batch=_batch("window_sum"),
    fusion="opaque",
    flops=_flops,
    sample=_cases("one", reals(-4, 4)),
    ulp=4,
    magnitude=lambda x, **attrs: _window_sum(np.abs(wide(x)), **attrs),
    doc="The sum of every window; padding counts as 0. Windows have one entry per axis.",
    example="window_sum" + _EXAMPLE,
    since="0.1",
)
window_max: OpSpec = define(
    name="window_max",
    code=0xA1,
    family="window",
    attrs=ATTRS,
    accepts=NUMERIC,
    result="own",
    infer=_window_infer("window_max", NUMERIC),
    reference=_window_max,
    vjp=lambda ct, x, y, **attrs: (window_max_spread(x, ct, **attrs),),
    jvp=lambda tangents, x, y, **attrs: (window_max_pick(x, tangents[0], **attrs),),
    batch=_batch("window_max"),
    fusion="opaque",
    flops=_flops,
    sample=_cases("one", distinct),
    ulp=0,
    doc="The maximum of every window; padding is below everything, NaN wins. Ties share the derivative equally.",
    example="window_max" + _EXAMPLE,
    since="0.1",
)
window_max_spread: OpSpec = define(
    name="window_max_spread",
    code=0xA2,
    family="window",
    attrs=ATTRS,
    accepts=FLOATS,
    result="own",
    infer=_spread_infer,
    reference=_spread,
    vjp=lambda ct, x, c, y, **attrs: (None, window_max_pick(x, ct, **attrs)),
    jvp=lambda tangents, x, c, y, **attrs: (
        None if tangents[1] is None else window_max_spread(x, tangents[1], **attrs),
    ),
    batch=_batch("window_max_spread"),
    fusion="opaque",
    flops=_flops,
    sample=_cases("spread", distinct),
    ulp=4,
    magnitude=lambda x, ct, **attrs: _spread(x, np.abs(wide(ct)), **attrs),
    doc="The derivative of ``window_max``: each window's value (second operand) in equal parts to the positions of its "
    "maximum in the first, summed over windows.",
    example="window_max_spread(dd.array([1.0, 3.0, 2.0]), dd.array([1.0, 1.0]), "
    "window=(2,), strides=(1,), low=(0,), high=(0,))",
    since="0.1",
)
window_max_pick: OpSpec = define(
    name="window_max_pick",
    code=0xA3,
    family="window",
    attrs=ATTRS,
    accepts=FLOATS,
    result="own",
    infer=_pick_infer,
    reference=_pick,
    vjp=lambda ct, x, t, y, **attrs: (None, window_max_spread(x, ct, **attrs)),
    jvp=lambda tangents, x, t, y, **attrs: (None if tangents[1] is None else window_max_pick(x, tangents[1], **attrs),),
    batch=_batch("window_max_pick"),
    fusion="opaque",
    flops=_flops,
    sample=_cases("pick", distinct),
    ulp=4,
    magnitude=lambda x, t, **attrs: _pick(x, np.abs(wide(t)), **attrs),
    doc="For every window the mean of the second operand over the positions of the maximum of the first.",
    example="window_max_pick(dd.array([1.0, 3.0, 2.0]), dd.array([1.0, 5.0, 7.0]), "
    "window=(2,), strides=(1,), low=(0,), high=(0,))",
    since="0.1",
)
