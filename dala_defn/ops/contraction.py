"""``dot_general``, and convolution with the two ops that are its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import INEXACT, NUMBERS, DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import type_of, zeros
from dala_defn.ops.movement import inverse, reshape, spread_batch, transpose
from dala_defn.ops.reduction import wide
from dala_defn.ops.samples import Array, reals, spread
from dala_defn.ops.spec import OPS, Attrs, Case, OpSpec, check_dtype, check_same_dtype, define, in_sequence
from dala_defn.shapes import Condition, Dim, Shape, floordiv, may, show, size

Ints = tuple[int, ...]


def _free(rank: int, contract: Ints, batch: Ints) -> Ints:
    return tuple(i for i in range(rank) if i not in contract and i not in batch)


def _dot_infer(
    x: Type, y: Type, *, contract_x: Ints, contract_y: Ints, batch_x: Ints, batch_y: Ints
) -> tuple[Type, ...]:
    check_dtype("dot_general", x.dtype, NUMBERS)
    check_same_dtype("dot_general", (x, y))
    for t, contract, batch in ((x, contract_x, batch_x), (y, contract_y, batch_y)):
        axes = (*contract, *batch)
        if len(set(axes)) != len(axes) or any(not 0 <= a < t.ndim for a in axes):
            raise ShapeError(f"dot_general: axes {axes} do not fit {show(t.shape)}", op="dot_general", code="E103")
    if len(contract_x) != len(contract_y) or len(batch_x) != len(batch_y):
        raise ShapeError("dot_general: the operands name different numbers of axes", op="dot_general", code="E103")
    for a, b in zip((*contract_x, *batch_x), (*contract_y, *batch_y), strict=True):
        if x.shape[a] != y.shape[b]:
            raise ShapeError(
                f"inner sizes differ: {x.shape[a]} vs {y.shape[b]}",
                op="dot_general",
                rule=f"axis {a} of {show(x.shape)} must match axis {b} of {show(y.shape)}",
                details={"unequal": [str(x.shape[a]), str(y.shape[b])]},
            )
    shape = (
        *(x.shape[i] for i in batch_x),
        *(x.shape[i] for i in _free(x.ndim, contract_x, batch_x)),
        *(y.shape[i] for i in _free(y.ndim, contract_y, batch_y)),
    )
    return (Type(x.dtype, shape),)


def _dot(x: Array, y: Array, *, contract_x: Ints, contract_y: Ints, batch_x: Ints, batch_y: Ints) -> Array:
    fx, fy = _free(x.ndim, contract_x, batch_x), _free(y.ndim, contract_y, batch_y)
    lead = [x.shape[i] for i in batch_x]
    rows, cols = [x.shape[i] for i in fx], [y.shape[i] for i in fy]
    inner = int(np.prod([x.shape[i] for i in contract_x], dtype=np.int64))
    a = np.transpose(wide(x), (*batch_x, *fx, *contract_x)).reshape(*lead, int(np.prod(rows, dtype=np.int64)), inner)
    b = np.transpose(wide(y), (*batch_y, *contract_y, *fy)).reshape(*lead, inner, int(np.prod(cols, dtype=np.int64)))
    with np.errstate(all="ignore"):
        return np.matmul(a, b).reshape((*lead, *rows, *cols)).astype(x.dtype)


def _dot_side(
    ct: Any, other: Any, mine: Any, c_mine: Ints, b_mine: Ints, c_other: Ints, b_other: Ints, first: bool
) -> Any:
    """The cotangent of one side: ct contracted with the other side over that side's free axes.

    The other side keeps its place, first or second, so that the axes of a plain product need no transposition.
    """
    free_other = _free(len(other.shape), c_other, b_other)
    free_mine = _free(len(mine.shape), c_mine, b_mine)
    nb = len(b_mine)
    start = nb + len(free_mine) if first else nb
    along = tuple(range(start, start + len(free_other)))
    # What is left of the other side are its contracted axes, in their order; they go where they meet mine.
    met = [c_mine[i] for i in sorted(range(len(c_other)), key=lambda i: c_other[i])]
    lead = tuple(range(nb))
    if first:
        out = dot_general(ct, other, contract_x=along, contract_y=free_other, batch_x=lead, batch_y=b_other)
        places = (*b_mine, *free_mine, *met)
    else:
        out = dot_general(other, ct, contract_x=free_other, contract_y=along, batch_x=b_other, batch_y=lead)
        places = (*b_mine, *met, *free_mine)
    return out if places == tuple(range(len(places))) else transpose(out, axes=inverse(places))


def _dot_vjp(
    ct: Any, x: Any, y: Any, out: Any, *, contract_x: Ints, contract_y: Ints, batch_x: Ints, batch_y: Ints
) -> tuple[Any, ...]:
    return (
        _dot_side(ct, y, x, contract_x, batch_x, contract_y, batch_y, True),
        _dot_side(ct, x, y, contract_y, batch_y, contract_x, batch_x, False),
    )


def bilinear_jvp(name: str) -> Any:
    """The tangent of an op that is linear in each of two operands."""

    def jvp(tangents: Sequence[Any], x: Any, y: Any, out: Any, **attrs: Any) -> tuple[Any, ...]:
        tx, ty = tangents
        parts = []
        if tx is not None:
            parts.append(OPS[name](tx, y, **attrs))
        if ty is not None:
            parts.append(OPS[name](x, ty, **attrs))
        return (parts[0] if len(parts) == 1 else parts[0] + parts[1],)

    return jvp


def _dot_batch(
    n: Any,
    args: Sequence[Any],
    batched: Sequence[bool],
    *,
    contract_x: Ints,
    contract_y: Ints,
    batch_x: Ints,
    batch_y: Ints,
) -> tuple[Any, ...]:
    x, y = args

    def up(axes: Ints, by: bool) -> Ints:
        return tuple(a + by for a in axes)

    bx, by = batched
    cx, cy = up(contract_x, bx), up(contract_y, by)
    ux, uy = up(batch_x, bx), up(batch_y, by)
    both = bx and by
    out = dot_general(
        x,
        y,
        contract_x=cx,
        contract_y=cy,
        batch_x=(0, *ux) if both else ux,
        batch_y=(0, *uy) if both else uy,
    )
    if both:
        return (out,)
    at = len(batch_x)
    if by:
        at += len(_free(len(x.shape), contract_x, batch_x))
    if at == 0:
        return (out,)
    return (transpose(out, axes=(at, *(i for i in range(len(out.shape)) if i != at))),)


def _dot_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    return 2 * size(outputs[0].shape) * size(inputs[0].shape[i] for i in attrs["contract_x"])


_DOTS: list[tuple[tuple[int, ...], tuple[int, ...], Ints, Ints, Ints, Ints]] = [
    ((), (), (), (), (), ()),
    ((4,), (4,), (0,), (0,), (), ()),
    ((3, 4), (4, 5), (1,), (0,), (), ()),
    ((4, 3), (5, 4), (0,), (1,), (), ()),
    ((2, 3, 4), (2, 4, 5), (2,), (1,), (0,), (0,)),
    ((3, 2, 4), (4, 5, 2), (2,), (0,), (1,), (2,)),
    ((2, 3, 4), (4, 3), (1, 2), (1, 0), (), ()),
    ((3,), (4,), (), (), (), ()),
    ((2, 3), (2, 3), (), (), (0, 1), (0, 1)),
    ((3, 0), (0, 2), (1,), (0,), (), ()),
    ((0, 3), (3, 2), (1,), (0,), (), ()),
    ((1, 1), (1, 1), (1,), (0,), (), ()),
]


def _dot_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for sx, sy, cx, cy, bx, by in _DOTS:
        attrs = {"contract_x": cx, "contract_y": cy, "batch_x": bx, "batch_y": by}
        yield Case((spread(rng, dtype, sx), spread(rng, dtype, sy)), attrs)


def _dot_magnitude(x: Array, y: Array, **attrs: Any) -> Array:
    terms = int(np.prod([x.shape[i] for i in attrs["contract_x"]]))
    return in_sequence(_dot(np.abs(wide(x)), np.abs(wide(y)), **attrs), terms)


dot_general: OpSpec = define(
    name="dot_general",
    code=0x90,
    family="contraction",
    attrs={"contract_x": "ints", "contract_y": "ints", "batch_x": "ints", "batch_y": "ints"},
    accepts=NUMBERS,
    result="own",
    infer=_dot_infer,
    reference=_dot,
    vjp=_dot_vjp,
    jvp=bilinear_jvp("dot_general"),
    batch=_dot_batch,
    fusion="opaque",
    flops=_dot_flops,
    sample=_dot_cases,
    ulp=4,
    magnitude=_dot_magnitude,
    doc="The sum of products over the contracted axes; the batch axes run together. The result has the batch axes, "
    "the first operand's other axes, then the second's. float16 and bfloat16 are summed in float32; integers wrap.",
    example="dot_general(dd.ones((2, 3)), dd.ones((3, 4)), contract_x=(1,), contract_y=(0,), batch_x=(), batch_y=())",
    since="0.1",
)

CONV_ATTRS = {"strides": "ints", "low": "ints", "high": "ints", "dilation": "ints", "groups": "int"}


def conv_size(n: Dim, k: int, stride: int, low: int, high: int, dilation: int) -> Dim:
    """The output size of one axis: ``(n + low + high - dilation*(k-1) - 1) // stride + 1``, at least 0."""
    room = n + low + high - dilation * (k - 1) - 1
    may(Condition(room + stride, ">=", 0), "a kernel")
    out = floordiv(room, stride) + 1
    return max(out, 0) if isinstance(out, int) else out


def _check_conv(name: str, spatial: int, attrs: dict[str, Any], c_in: Dim, w: Shape) -> None:
    if not 1 <= spatial <= 3:
        raise ShapeError(f"{name}: 1 to 3 spatial axes, not {spatial}", op=name)
    for key, least in (("strides", 1), ("low", 0), ("high", 0), ("dilation", 1)):
        if len(attrs[key]) != spatial or any(v < least for v in attrs[key]):
            raise ShapeError(f"{name}: {key} must be {spatial} numbers of at least {least}, not {attrs[key]}", op=name)
    groups = attrs["groups"]
    if groups < 1 or not isinstance(w[0], int) or not isinstance(w[1], int) or w[0] % groups or c_in != w[1] * groups:
        raise ShapeError(
            f"{name}: {c_in} input channels and a kernel {show(w)} do not fit {groups} groups",
            op=name,
            rule="the kernel is (out channels, in channels / groups, *size); groups divide the out channels",
        )
    if not all(isinstance(k, int) and k >= 1 for k in w[2:]):
        raise ShapeError(f"{name}: the kernel {show(w)} has an axis that is not at least 1", op=name)


def _conv_out(x: Shape, w: Shape, attrs: dict[str, Any]) -> Shape:
    return tuple(
        conv_size(n, int(k), s, lo, hi, d)
        for n, k, s, lo, hi, d in zip(
            x, w[2:], attrs["strides"], attrs["low"], attrs["high"], attrs["dilation"], strict=True
        )
    )


def _conv_infer(x: Type, w: Type, **attrs: Any) -> tuple[Type, ...]:
    check_dtype("conv", x.dtype, INEXACT)
    check_same_dtype("conv", (x, w))
    if x.ndim != w.ndim or x.ndim < 3:
        raise ShapeError(f"conv: the operands must have the same rank of 3 to 5, not {x.ndim} and {w.ndim}", op="conv")
    _check_conv("conv", x.ndim - 2, attrs, x.shape[1], w.shape)
    return (Type(x.dtype, (x.shape[0], w.shape[0], *_conv_out(x.shape[2:], w.shape, attrs))),)


def _input_grad_infer(ct: Type, w: Type, *, size: Shape, **attrs: Any) -> tuple[Type, ...]:
    check_dtype("conv_input_grad", ct.dtype, INEXACT)
    check_same_dtype("conv_input_grad", (ct, w))
    if ct.ndim != w.ndim or len(size) != ct.ndim - 2:
        raise ShapeError("conv_input_grad: ranks do not fit", op="conv_input_grad")
    _check_conv("conv_input_grad", len(size), attrs, w.shape[1] * attrs["groups"], w.shape)
    if ct.shape[1:] != (w.shape[0], *_conv_out(tuple(size), w.shape, attrs)):
        raise ShapeError(
            f"conv_input_grad: {show(ct.shape)} is no result for the input size {show(size)}", op="conv_input_grad"
        )
    return (Type(ct.dtype, (ct.shape[0], w.shape[1] * attrs["groups"], *size)),)


def _weight_grad_infer(x: Type, ct: Type, *, size: Ints, **attrs: Any) -> tuple[Type, ...]:
    check_dtype("conv_weight_grad", x.dtype, INEXACT)
    check_same_dtype("conv_weight_grad", (x, ct))
    if x.ndim != ct.ndim or len(size) != x.ndim - 2:
        raise ShapeError("conv_weight_grad: ranks do not fit", op="conv_weight_grad")
    groups = attrs["groups"]
    w: Shape = (ct.shape[1], floordiv(x.shape[1], max(groups, 1)), *size)
    _check_conv("conv_weight_grad", len(size), attrs, x.shape[1], w)
    if (x.shape[0], *_conv_out(x.shape[2:], w, attrs)) != (ct.shape[0], *ct.shape[2:]):
        raise ShapeError(f"conv_weight_grad: {show(ct.shape)} is no result for {show(x.shape)}", op="conv_weight_grad")
    return (Type(x.dtype, w),)


def _offsets(
    kernel: Sequence[int], attrs: Attrs, out: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each place in the kernel with the slices of the padded input that it meets."""
    for k in np.ndindex(*kernel):
        yield (
            k,
            tuple(
                slice(i * d, i * d + s * (o - 1) + 1 if o else i * d, s)
                for i, d, s, o in zip(k, attrs["dilation"], attrs["strides"], out, strict=True)
            ),
        )


_ALL: Any = slice(None)


def _padded(x: Array, attrs: Attrs) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *zip(attrs["low"], attrs["high"], strict=True)])


def _conv(x: Array, w: Array, **attrs: Any) -> Array:
    g, out = attrs["groups"], tuple(map(int, _conv_out(x.shape[2:], w.shape, attrs)))
    n, c, o = x.shape[0], w.shape[1], w.shape[0]
    xp = _padded(wide(x), attrs)
    y = np.zeros((n, g, o // g, *out), np.result_type(xp, wide(w)))
    ww = wide(w).reshape(g, o // g, c, *w.shape[2:])
    for k, spots in _offsets(w.shape[2:], attrs, out):
        part = xp[(_ALL, _ALL, *spots)].reshape(n, g, c, *out)
        y += np.einsum("ngc...,goc->ngo...", part, ww[(_ALL, _ALL, _ALL, *k)])
    return y.reshape(n, o, *out).astype(x.dtype)


def _input_grad(ct: Array, w: Array, *, size: Sequence[int], **attrs: Any) -> Array:
    g, out = attrs["groups"], ct.shape[2:]
    n, c, o = ct.shape[0], w.shape[1], w.shape[0]
    full = [s + lo + hi for s, lo, hi in zip(size, attrs["low"], attrs["high"], strict=True)]
    xp = np.zeros((n, g * c, *full), np.result_type(wide(ct), wide(w)))
    cc = wide(ct).reshape(n, g, o // g, *out)
    ww = wide(w).reshape(g, o // g, c, *w.shape[2:])
    for k, spots in _offsets(w.shape[2:], attrs, out):
        part = np.einsum("ngo...,goc->ngc...", cc, ww[(_ALL, _ALL, _ALL, *k)])
        xp[(_ALL, _ALL, *spots)] += part.reshape(n, g * c, *out)
    inner = tuple(slice(lo, lo + s) for lo, s in zip(attrs["low"], size, strict=True))
    return xp[(_ALL, _ALL, *inner)].astype(ct.dtype)


def _weight_grad(x: Array, ct: Array, *, size: Sequence[int], **attrs: Any) -> Array:
    g, out = attrs["groups"], ct.shape[2:]
    n, c, o = x.shape[0], x.shape[1] // g, ct.shape[1]
    xp = _padded(wide(x), attrs)
    places = int(np.prod(out, dtype=np.int64))
    cc = wide(ct).reshape(n, g, o // g, places)
    w = np.zeros((g, o // g, c, *size), np.result_type(xp, cc))
    for k, spots in _offsets(size, attrs, out):
        part = xp[(_ALL, _ALL, *spots)].reshape(n, g, c, places)
        w[(_ALL, _ALL, _ALL, *k)] = np.einsum("ngcp,ngop->goc", part, cc)
    return w.reshape(o, c, *size).astype(x.dtype)


def _conv_vjp(ct: Any, x: Any, w: Any, y: Any, **attrs: Any) -> tuple[Any, ...]:
    return (
        conv_input_grad(ct, w, size=x.shape[2:], **attrs),
        conv_weight_grad(x, ct, size=w.shape[2:], **attrs),
    )


def _input_grad_vjp(ct: Any, c: Any, w: Any, y: Any, *, size: Shape, **attrs: Any) -> tuple[Any, ...]:
    return (conv(ct, w, **attrs), conv_weight_grad(ct, c, size=w.shape[2:], **attrs))


def _weight_grad_vjp(ct: Any, x: Any, c: Any, y: Any, *, size: Ints, **attrs: Any) -> tuple[Any, ...]:
    return (conv_input_grad(c, ct, size=x.shape[2:], **attrs), conv(x, ct, **attrs))


def _fold(v: Any) -> Any:
    """Batch and images as one axis."""
    return reshape(v, shape=(v.shape[0] * v.shape[1], *v.shape[2:]))


def _channels(v: Any) -> Any:
    """(batch, images, channels, ...) -> (images, batch * channels, ...)."""
    moved = transpose(v, axes=(1, 0, *range(2, len(v.shape))))
    return reshape(moved, shape=(v.shape[1], v.shape[0] * v.shape[2], *v.shape[3:]))


def _unchannels(v: Any, n: Any) -> Any:
    split = reshape(v, shape=(v.shape[0], n, floordiv(v.shape[1], n), *v.shape[2:]))
    return transpose(split, axes=(1, 0, *range(2, len(split.shape))))


def _conv_batch(name: str) -> Any:
    def batch(n: Any, args: Sequence[Any], batched: Sequence[bool], **attrs: Any) -> tuple[Any, ...]:
        a, b = args
        if batched == (True, False) and name != "conv_weight_grad":
            y = OPS[name](_fold(a), b, **attrs)
            return (reshape(y, shape=(n, a.shape[1], *y.shape[1:])),)
        if not isinstance(n, int):
            raise ShapeError(
                f"{name}: a batch of kernels needs a known size, not {n}",
                op=name,
                rule="the kernels of a batch become groups of one convolution, and their number is part of it",
                hint="trace with a number for this size",
            )
        if n == 0:
            one = [type_of(v).shape[b:] for v, b in zip(args, batched, strict=True)]
            (out,) = OPS[name].infer(*[Type(a.dtype, s) for s in one], **attrs)
            return (zeros(Type(out.dtype, (0, *out.shape))),)
        if batched == (False, True) and name == "conv" and attrs["groups"] == 1:
            return (_unchannels(OPS[name](a, _fold(b), **attrs), n),)
        a, b = spread_batch(n, args, batched)
        grouped = {**attrs, "groups": attrs["groups"] * n}
        if name == "conv_weight_grad":
            y = OPS[name](_channels(a), _channels(b), **grouped)
            return (reshape(y, shape=(n, floordiv(y.shape[0], n), *y.shape[1:])),)
        return (_unchannels(OPS[name](_channels(a), _fold(b), **grouped), n),)

    return batch


def _conv_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    return 2 * size(outputs[0].shape) * size(inputs[1].shape[1:])


_CONVS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 1), (1, 1, 1), {"strides": (1,), "low": (0,), "high": (0,), "dilation": (1,), "groups": 1}),
    ((2, 3, 7), (4, 3, 3), {"strides": (2,), "low": (1,), "high": (0,), "dilation": (1,), "groups": 1}),
    ((2, 4, 6), (6, 2, 2), {"strides": (1,), "low": (0,), "high": (2,), "dilation": (2,), "groups": 2}),
    ((2, 2, 5, 4), (3, 2, 3, 3), {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1), "groups": 1}),
    ((1, 2, 6, 5), (2, 1, 2, 3), {"strides": (2, 3), "low": (0, 1), "high": (1, 2), "dilation": (2, 1), "groups": 2}),
    ((0, 2, 4, 4), (3, 2, 2, 2), {"strides": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "groups": 1}),
    ((1, 2, 2, 2), (3, 2, 3, 3), {"strides": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "groups": 1}),
    (
        (1, 2, 3, 4, 3),
        (2, 2, 2, 2, 2),
        {"strides": (1, 2, 1), "low": (0, 1, 0), "high": (0, 0, 1), "dilation": (1, 1, 1), "groups": 1},
    ),
]


def _conv_cases(kind: str) -> Any:
    def sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        draw = reals(-2, 2)
        for xs, ws, attrs in _CONVS:
            out = _conv_out(xs[2:], ws, attrs)
            ct = draw(rng, dtype, (xs[0], ws[0], *map(int, out)))
            x, w = draw(rng, dtype, xs), draw(rng, dtype, ws)
            if kind == "conv":
                yield Case((x, w), attrs)
            elif kind == "input":
                yield Case((ct, w), {**attrs, "size": xs[2:]})
            else:
                yield Case((x, ct), {**attrs, "size": ws[2:]})

    return sample


def _magnitude(f: Any) -> Any:
    return lambda a, b, **attrs: f(np.abs(wide(a)), np.abs(wide(b)), **attrs)


_CONV_EXAMPLE = "strides=(1,), low=(0,), high=(0,), dilation=(1,), groups=1"

conv: OpSpec = define(
    name="conv",
    code=0x91,
    family="contraction",
    attrs=CONV_ATTRS,
    accepts=INEXACT,
    result="own",
    infer=_conv_infer,
    reference=_conv,
    vjp=_conv_vjp,
    jvp=bilinear_jvp("conv"),
    batch=_conv_batch("conv"),
    fusion="opaque",
    flops=_conv_flops,
    sample=_conv_cases("conv"),
    ulp=8,
    magnitude=_magnitude(_conv),
    doc="Cross-correlation of (images, channels, *size) with a kernel (out channels, in channels / groups, *size), "
    "over 1 to 3 spatial axes, with strides, zero padding before and after, kernel dilation and groups.",
    example=f"conv(dd.ones((1, 1, 4)), dd.ones((1, 1, 2)), {_CONV_EXAMPLE})",
    since="0.1",
)
conv_input_grad: OpSpec = define(
    name="conv_input_grad",
    code=0x92,
    family="contraction",
    attrs={**CONV_ATTRS, "size": "dims"},
    accepts=INEXACT,
    result="own",
    infer=_input_grad_infer,
    reference=_input_grad,
    vjp=_input_grad_vjp,
    jvp=bilinear_jvp("conv_input_grad"),
    batch=_conv_batch("conv_input_grad"),
    fusion="opaque",
    flops=lambda i, o, a: 2 * size(i[0].shape) * size(i[1].shape[1:]),
    sample=_conv_cases("input"),
    ulp=8,
    magnitude=_magnitude(_input_grad),
    doc="The adjoint of ``conv`` in its first operand (transposed convolution): from (images, out channels, *size) and "
    "the kernel to an input of the given spatial ``size``.",
    example=f"conv_input_grad(dd.ones((1, 1, 3)), dd.ones((1, 1, 2)), {_CONV_EXAMPLE}, size=(4,))",
    since="0.1",
)
conv_weight_grad: OpSpec = define(
    name="conv_weight_grad",
    code=0x93,
    family="contraction",
    attrs={**CONV_ATTRS, "size": "ints"},
    accepts=INEXACT,
    result="own",
    infer=_weight_grad_infer,
    reference=_weight_grad,
    vjp=_weight_grad_vjp,
    jvp=bilinear_jvp("conv_weight_grad"),
    batch=_conv_batch("conv_weight_grad"),
    fusion="opaque",
    flops=lambda i, o, a: 2 * size(i[1].shape) * size(o[0].shape[1:]),
    sample=_conv_cases("weight"),
    ulp=8,
    magnitude=_magnitude(_weight_grad),
    doc="The adjoint of ``conv`` in its kernel: from the input and (images, out channels, *size) to a kernel of the "
    "given spatial ``size``.",
    example=f"conv_weight_grad(dd.ones((1, 1, 4)), dd.ones((1, 1, 3)), {_CONV_EXAMPLE}, size=(2,))",
    since="0.1",
)
