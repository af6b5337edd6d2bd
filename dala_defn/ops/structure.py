"""``call``: a function over primitives as one node, so that what it means stays visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.errors import ShapeError
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops.spec import OPS, Attrs, Case, NoGrad, OpSpec, define
from dala_defn.shapes import Dim

# The ops that stand for a function, and the attribute that holds it: executors and passes write it out.
CALLED: dict[str, str] = {"call": "function"}


def _call_infer(*types: Type, function: Graph, composite: str) -> tuple[Type, ...]:
    wanted = tuple(v.type for v in function.inputs)
    if types != wanted:
        raise ShapeError(f"call: @{function.name} takes {list(wanted)}, not {list(types)}", op="call")
    return tuple(v.type for v in function.outputs)


def expanded(*args: Any, **attrs: Any) -> Any:
    """The reference and the batching of such an op: never used."""
    raise AssertionError("calls are inlined before they are executed, differentiated or batched")


def no_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    """No cases: what its function does is tested by the ops in it."""
    return iter(())


def called_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    """Those of the function."""
    total: Dim = 0
    for n in attrs["function"].nodes:
        spec = OPS[n.op]
        total = total + spec.flops([v.type for v in n.inputs], [v.type for v in n.outputs], n.attrs)
    return total


call: OpSpec = define(
    name="call",
    code=0xC0,
    family="structure",
    attrs={"function": "fn", "composite": "str"},
    accepts=(),
    result="own",
    infer=_call_infer,
    reference=expanded,
    vjp=NoGrad("its function is differentiated instead"),
    jvp=NoGrad("its function is differentiated instead"),
    batch=expanded,
    fusion="opaque",
    flops=called_flops,
    sample=no_cases,
    ulp=0,
    doc="A graph applied to operands. ``composite`` names what it computes (``softmax``), or is empty.",
    example="dd.nn.softmax(dd.array([1.0, 2.0]))",
    since="0.1",
)
