"""Constructors for the elementwise families: type rule, derivatives with broadcasting, batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops import samples
from dala_defn.ops.spec import (
    LINEAR,
    OPS,
    ZERO_GRAD,
    Linear,
    NoGrad,
    OpSpec,
    Rule,
    ZeroGrad,
    check_dtype,
    check_same_dtype,
    define,
    outputs_flops,
)
from dala_defn.shapes import DimExpr, broadcast_shapes

_LOW_PRECISION = (dtypes.float16.dtype, dtypes.bfloat16.dtype)


def in_complex128(f: Callable[..., Any], *args: Any) -> Any:
    """The reference for complex operands: complex64 is computed in complex128 and rounded once; parts are real."""
    dtype = args[0].dtype
    out = np.asarray(f(*[a.astype(np.complex128) if a.dtype == np.complex64 else a for a in args]))
    if out.dtype.kind == "b":
        return out
    return out.astype(dtype if out.dtype.kind == "c" else dtype.type(0).real.dtype)


def in_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """The reference for float16 and bfloat16: computed in float32 and rounded once."""

    def reference(*args: Any, **attrs: Any) -> Any:
        with np.errstate(all="ignore"):
            dtype = args[0].dtype
            if dtype.kind == "c":
                return in_complex128(f, *args)
            if dtype in _LOW_PRECISION:
                out = np.asarray(f(*[a.astype(np.float32) for a in args], **attrs))
                return out if out.dtype == np.bool_ else out.astype(dtype)
            out = np.asarray(f(*args, **attrs))
            return out if out.dtype in (dtype, np.bool_) else out.astype(dtype)

    return reference


def elementwise_infer(
    name: str, arity: int, accepts: Sequence[DType], result: DType | None
) -> Callable[..., tuple[Type, ...]]:
    """The type rule: operands of one accepted dtype, broadcast; the result has that dtype or a given one."""

    known = frozenset(accepts)

    def infer(*types: Type) -> tuple[Type, ...]:
        if len(types) != arity:
            raise ShapeError(f"{name} takes {arity} operands, not {len(types)}", op=name)
        first = types[0]
        dtype, shape = first.dtype, first.shape
        if dtype not in known:
            check_dtype(name, dtype, accepts)
        for t in types:
            if t is first:
                continue
            if t.dtype is not dtype:
                check_same_dtype(name, types)
            if t.shape != shape and t.shape:
                shape = broadcast_shapes(shape, t.shape) if shape else t.shape
        # Types are immutable, and often the operand's own will do.
        if shape is first.shape and (result is None or result is dtype):
            return (first,)
        return (Type(result or dtype, shape),)

    return infer


def unbroadcast(ct: Any, shape: tuple[Any, ...]) -> Any:
    """Sums a cotangent back to the shape of an operand that was broadcast."""
    have = ct.shape
    if have == shape:
        return ct
    extra = len(have) - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, d in enumerate(shape) if not isinstance(d, DimExpr) and d == 1 and have[i + extra] != 1
    )
    if axes:
        ct = OPS["sum"](ct, axes=axes)
    return ct if ct.shape == shape else OPS["reshape"](ct, shape=shape)


def broadcast_tangent(t: Any, shape: tuple[Any, ...]) -> Any:
    """A tangent of an operand stretched to the shape of the result."""
    return t if t.shape == shape else OPS["broadcast_to"](t, shape=shape)


def align_batched(args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Batched operands of different rank get axes of size 1 after the batch, so that broadcasting still aligns."""
    rank = max(len(a.shape) - b for a, b in zip(args, batched, strict=True))
    out = []
    for a, b in zip(args, batched, strict=True):
        missing = rank - (len(a.shape) - 1)
        if b and missing:
            a = OPS["reshape"](a, shape=(a.shape[0], *(1,) * missing, *a.shape[1:]))
        out.append(a)
    return out


def elementwise_batch(op: str) -> Rule:
    """Batching: align ranks and apply the op once."""

    def batch(size: Any, args: Sequence[Any], batched: Sequence[bool], **attrs: Any) -> tuple[Any, ...]:
        return (OPS[op](*(align_batched(args, batched) if len(args) > 1 else args), **attrs),)

    return batch


def real_of_these(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    """The dtypes that registers of a kernel hold."""
    return tuple([d for d in dtypes if d.kind in "biuf"])


def unary(
    name: str,
    code: int,
    reference: Callable[..., Any],
    *,
    dtypes: Sequence[DType],
    vjp: Rule | ZeroGrad | NoGrad,
    sample: samples.Draw,
    doc: str,
    ulp: float = 2,
    ulp_complex: float | None = None,
    result: DType | None = None,
    infer: Callable[..., tuple[Type, ...]] | None = None,
    linear: bool = False,
    jvp: Any = None,
    example: str | None = None,
    smooth_only: bool = False,
    cost: int = 1,
    kernel: Sequence[DType] | None = None,
) -> OpSpec:
    """An op of one operand, element by element. ``vjp(ct, x, y)`` gives a 1-tuple; the jvp follows from it."""
    if linear:
        jvp = LINEAR
    elif not callable(vjp):
        jvp = vjp
    elif jvp is None:
        rule = vjp

        def jvp(tangents: Sequence[Any], x: Any, y: Any) -> tuple[Any, ...]:
            return tuple(rule(tangents[0], x, y))

    return define(
        name=name,
        code=code,
        family="unary",
        attrs={},
        accepts=tuple(dtypes),
        result="same" if result is None else result.name,
        infer=infer or elementwise_infer(name, 1, dtypes, result),
        reference=in_float32(reference),
        vjp=vjp,
        jvp=jvp,
        batch=elementwise_batch(name),
        fusion="elementwise",
        cost=cost,
        kernel=real_of_these(dtypes) if kernel is None else tuple(kernel),
        flops=outputs_flops,
        sample=samples.unary_cases(sample, edge=not smooth_only),
        ulp=ulp,
        ulp_complex=ulp if ulp_complex is None else ulp_complex,
        doc=doc,
        example=example or f"{name}(dd.array([0.5, 1.0]))",
        since="0.1",
    )


def binary(
    name: str,
    code: int,
    reference: Callable[..., Any],
    *,
    dtypes: Sequence[DType],
    vjp: Rule | ZeroGrad | NoGrad,
    sample: samples.Draw,
    doc: str,
    sample_right: samples.Draw | None = None,
    ulp: float = 2,
    ulp_complex: float | None = None,
    magnitude: Callable[..., Any] | None = None,
    result: DType | None = None,
    jvp: Rule | Linear | None = None,
    example: str | None = None,
    cost: int = 1,
    kernel: Sequence[DType] | None = None,
) -> OpSpec:
    """An op of two operands that broadcast. ``vjp(ct, x, y, out)`` gives both cotangents in the shape of the result;
    summing back to the operands' shapes, and the jvp, follow from it."""
    wrapped: Any = vjp
    tangent: Any = jvp or vjp
    if callable(vjp):
        rule = vjp

        def wrapped(ct: Any, x: Any, y: Any, out: Any) -> tuple[Any, ...]:
            cx, cy = rule(ct, x, y, out)
            return (
                None if cx is None else unbroadcast(cx, x.shape),
                None if cy is None else unbroadcast(cy, y.shape),
            )

        def tangent(tangents: Sequence[Any], x: Any, y: Any, out: Any) -> tuple[Any, ...]:
            total = None
            for i, t in enumerate(tangents):
                if t is not None:
                    part = rule(broadcast_tangent(t, out.shape), x, y, out)[i]
                    total = part if total is None else total + part
            return (total,)

        if jvp is not None:
            tangent = jvp

    return define(
        name=name,
        code=code,
        family="binary",
        attrs={},
        accepts=tuple(dtypes),
        result="same" if result is None else result.name,
        infer=elementwise_infer(name, 2, dtypes, result),
        reference=in_float32(reference),
        vjp=wrapped,
        jvp=tangent,
        batch=elementwise_batch(name),
        fusion="elementwise",
        cost=cost,
        kernel=real_of_these(dtypes) if kernel is None else tuple(kernel),
        flops=outputs_flops,
        sample=samples.binary_cases(sample, sample_right),
        ulp=ulp,
        ulp_complex=ulp if ulp_complex is None else ulp_complex,
        magnitude=magnitude,
        doc=doc,
        example=example or f"{name}(dd.array([4, 5]), dd.array([2, 3]))",
        since="0.1",
    )


__all__ = ["ZERO_GRAD", "NoGrad", "binary", "unary"]
