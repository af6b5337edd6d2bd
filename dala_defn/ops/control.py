"""Control flow: ops that hold the functions they run. The rules that transform these are in ``nested.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops import loops, nested
from dala_defn.ops.effects import look_at_the_clock
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import Attrs, Batched, Forward, OpSpec, Reverse
from dala_defn.ops.structure import holding, nodes_flops
from dala_defn.shapes import Dim

INDEX = Type(dtypes.int32, ())
TRUTH = Type(dtypes.bool_, ())


def types_in(graph: Graph) -> tuple[Type, ...]:
    """The types of a function's inputs."""
    return tuple([v.type for v in graph.inputs])


def types_out(graph: Graph) -> tuple[Type, ...]:
    """The types of a function's outputs."""
    return tuple([v.type for v in graph.outputs])


def expect(op: str, what: str, have: Sequence[Type], wanted: Sequence[Type]) -> None:
    """Refuses other types than those wanted.

    Raises:
        ShapeError: naming both.
    """
    if tuple(have) != tuple(wanted):
        raise ShapeError(f"{op}: {what} {list(have)}, not {list(wanted)}", op=op)


def _cond_infer(index: Type, *types: Type, branches: tuple[Graph, ...]) -> tuple[Type, ...]:
    expect("cond", "the index is", (index,), (INDEX,))
    for g in branches:
        expect("cond", f"the operands of @{g.name} are", types, types_in(g))
        expect("cond", f"@{g.name} gives", types_out(g), types_out(branches[0]))
    return types_out(branches[0])


def _cond(index: Array, *args: Array, branches: Sequence[Any]) -> tuple[Array, ...]:
    out: tuple[Array, ...] = branches[min(max(int(index), 0), len(branches) - 1)](*args)
    return out


def _cond_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    counts = [nodes_flops(g) for g in attrs["branches"]]
    known = [c for c in counts if isinstance(c, int)]
    return max(known) if len(known) == len(counts) else sum(counts[1:], counts[0])


cond: OpSpec = holding(
    name="cond",
    code=0xC3,
    attrs={"branches": "fns"},
    infer=_cond_infer,
    reference=_cond,
    vjp=Reverse(nested.cond_forward, nested.cond_backward),
    jvp=Forward(nested.cond_jvp),
    batch=Batched(nested.cond_batch),
    flops=_cond_flops,
    doc="One of ``branches``, graphs of the same types, applied to the operands after the first: that numbered by the "
    "first, an int32, taken to the nearest there is. Of two branches the first is for false.",
    example="dd.cond(True, lambda x: x, lambda x: -x, dd.array(1.0))",
)


def _while_infer(*types: Type, cond: Graph, body: Graph, consts: int) -> tuple[Type, ...]:
    if not 0 <= consts <= len(types):
        raise ShapeError(f"while_loop: {consts} constants of {len(types)} operands", op="while_loop")
    expect("while_loop", "the operands are", types, types_in(body))
    expect("while_loop", "the operands of the condition are", types, types_in(cond))
    expect("while_loop", "the condition gives", types_out(cond), (TRUTH,))
    expect("while_loop", "the body gives", types_out(body), types[consts:])
    return types[consts:]


def _while(*args: Array, cond: Any, body: Any, consts: int) -> tuple[Array, ...]:
    fixed, carry = args[:consts], args[consts:]
    while bool(cond(*fixed, *carry)[0]):
        look_at_the_clock()
        carry = body(*fixed, *carry)
    return carry


def _while_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    # One step: how many there are is not known.
    return nodes_flops(attrs["cond"]) + nodes_flops(attrs["body"])


while_loop: OpSpec = holding(
    name="while_loop",
    code=0xC4,
    attrs={"cond": "fn", "body": "fn", "consts": "int"},
    infer=_while_infer,
    reference=_while,
    vjp=Reverse(loops.while_forward, loops.while_backward),
    jvp=Forward(loops.while_jvp),
    batch=Batched(loops.while_batch),
    flops=_while_flops,
    doc="Replaces the carry, the operands after the first ``consts``, by ``body`` of all operands as long as ``cond`` "
    "of them is true.",
    example="dd.while_loop(lambda x: x < 100, lambda x: x * 2, dd.array(3))",
)


def _scan_infer(
    *types: Type, body: Graph, consts: int, carries: int, length: tuple[Dim, ...], reverse: bool
) -> tuple[Type, ...]:
    first = consts + carries
    if consts < 0 or carries < 0 or first > len(types) or len(length) != 1:
        raise ShapeError(f"scan: {consts} constants and {carries} carries of {len(types)} operands", op="scan")
    for t in types[first:]:
        if not t.shape or t.shape[0] != length[0]:
            raise ShapeError(f"scan: an operand {t} for {length[0]} steps", op="scan")
    inner = (*types[:first], *(Type(t.dtype, t.shape[1:]) for t in types[first:]))
    expect("scan", "the body takes", types_in(body), inner)
    out = types_out(body)
    expect("scan", "the body carries on", out[:carries], types[consts:first])
    if any(t.dtype.kind == "t" for t in out[carries:]):
        raise DTypeError("scan: a token cannot be stacked", op="scan")
    return (*out[:carries], *(Type(t.dtype, (*length, *t.shape)) for t in out[carries:]))


def _scan(
    *args: Array, body: Any, consts: int, carries: int, length: tuple[int, ...], reverse: bool
) -> tuple[Array, ...]:
    fixed, carry, xs = args[:consts], args[consts : consts + carries], args[consts + carries :]
    ys: list[Array] = [np.empty((*length, *shape), dtype) for shape, dtype in body.types[carries:]]
    steps = range(length[0])
    for i in reversed(steps) if reverse else steps:
        look_at_the_clock()
        out = body(*fixed, *carry, *[x[i] for x in xs])
        carry = out[:carries]
        for y, row in zip(ys, out[carries:], strict=True):
            y[i] = row
    return (*carry, *ys)


def _scan_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    return attrs["length"][0] * nodes_flops(attrs["body"])


scan: OpSpec = holding(
    name="scan",
    code=0xC5,
    attrs={"body": "fn", "consts": "int", "carries": "int", "length": "dims", "reverse": "bool"},
    infer=_scan_infer,
    reference=_scan,
    vjp=Reverse(loops.scan_forward, loops.scan_backward),
    jvp=Forward(loops.scan_jvp),
    batch=Batched(loops.scan_batch),
    flops=_scan_flops,
    doc="Runs ``body`` ``length`` times: on the first ``consts`` operands, the carry (the next ``carries``), and one "
    "slice along the first axis of each of the rest. It gives the next carry and one slice of each further result, "
    "which are stacked. With ``reverse`` the last slices come first.",
    example="dd.scan(lambda total, x: (total + x, total), 0.0, dd.array([1.0, 2.0]))[1]",
)
