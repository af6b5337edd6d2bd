"""Ops without operands: constants and counting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.ir.types import Literal, Type
from dala_defn.ops.bind import traces
from dala_defn.ops.samples import Array, spread
from dala_defn.ops.spec import OPS, ZERO_GRAD, Case, OpSpec, define, no_flops, outputs_flops
from dala_defn.shapes import Dim


def _never_batched(size: Any, args: Any, batched: Any, **attrs: Any) -> tuple[Any, ...]:
    raise AssertionError("an op without operands is never batched")


def _constant_infer(*, value: Literal) -> tuple[Type, ...]:
    return (value.type,)


def _constant_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((), (0,), (3,), (20, 5)):
        yield Case((), {"value": Literal(np.asarray(spread(rng, dtype, shape)), dtype)})


constant: OpSpec = define(
    name="constant",
    code=0x58,
    family="movement",
    attrs={"value": "value"},
    accepts=dtypes.EVERY,
    result="own",
    infer=_constant_infer,
    reference=lambda *, value: value.array,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=_never_batched,
    fusion="elementwise",
    cost=0,
    flops=no_flops,
    sample=_constant_cases,
    ulp=0,
    doc="A constant array.",
    example="constant(value=dd.ir.Literal(np.ones(3, np.float32), dd.float32))",
    since="0.1",
)


_NUMBERS: dict[tuple[type, Any, DType], Literal] = {}
_MOST_NUMBERS = 4096


def number(value: Any, dtype: DType) -> Literal:
    """A Python number as a constant of this dtype; those that come again are made once."""
    # 0.0 and -0.0 are equal, and so are parts of complex numbers.
    key = (type(value), value if value else str(value), dtype)
    found = _NUMBERS.get(key)
    if found is None:
        found = Literal(dtypes.scalar_array(value, dtype), dtype)
        if type(value) in (int, float, bool):
            if len(_NUMBERS) >= _MOST_NUMBERS:
                _NUMBERS.clear()
            _NUMBERS[key] = found
    return found


def lit(value: Any, dtype: DType) -> Any:
    """A scalar constant of this dtype; it broadcasts in every elementwise op."""
    literal, stack = number(value, dtype), traces.stack
    return stack[-1].constant(literal) if stack else constant(value=literal)


def _iota_infer(*, shape: tuple[Dim, ...], axis: int, dtype: DType) -> tuple[Type, ...]:
    if dtype not in dtypes.NUMERIC:
        raise DTypeError(f"iota does not count in {dtype}", op="iota")
    if not 0 <= axis < len(shape):
        raise ShapeError(f"iota: axis {axis} is out of range for rank {len(shape)}", op="iota", code="E103")
    return (Type(dtype, tuple(shape)),)


def _iota(*, shape: tuple[int, ...], axis: int, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        line = np.arange(shape[axis], dtype=np.int64).astype(dtype.dtype)
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _iota_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape, axis in (((0,), 0), ((1,), 0), ((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 300, 2), 1), ((2, 0), 0)):
        yield Case((), {"shape": shape, "axis": axis, "dtype": dtype})


iota: OpSpec = define(
    name="iota",
    code=0x57,
    family="movement",
    attrs={"shape": "dims", "axis": "int", "dtype": "dtype"},
    accepts=dtypes.NUMERIC,
    result="own",
    infer=_iota_infer,
    reference=_iota,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=_never_batched,
    fusion="elementwise",
    cost=0,
    flops=outputs_flops,
    sample=_iota_cases,
    ulp=0,
    doc="The index along one axis: ``0, 1, 2, ...``, in a given dtype (integers wrap).",
    example="iota(shape=(2, 3), axis=1, dtype=dd.int32)",
    since="0.1",
)


def zeros(t: Type) -> Any:
    """Zeros of a type, as a value."""
    zero = lit(0, t.dtype)
    return zero if t.shape == () else OPS["broadcast_to"](zero, shape=t.shape)


def type_of(x: Any) -> Type:
    """The type of a traced value."""
    return Type(x.dtype, x.shape)
