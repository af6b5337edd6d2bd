"""Ops that stand for a function: ``call`` and its kin, which say what may be done with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.errors import ShapeError
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops import nested
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import OPS, Attrs, Batched, Case, Forward, NoGrad, OpSpec, Reverse, define
from dala_defn.shapes import Dim

# The ops that stand for a function, and the attribute that holds it: executors and passes write it out.
CALLED: dict[str, str] = {"call": "function"}


def applied(op: str, function: Graph, types: Sequence[Type]) -> tuple[Type, ...]:
    """The types of a function's results.

    Raises:
        ShapeError: when its inputs are of other types.
    """
    wanted = [v.type for v in function.inputs]
    if list(types) != wanted:
        raise ShapeError(f"{op}: @{function.name} takes {wanted}, not {list(types)}", op=op)
    return tuple([v.type for v in function.outputs])


def expanded(*args: Any, **attrs: Any) -> Any:
    """The batching of such an op: never used."""
    raise AssertionError("calls are inlined before they are differentiated or batched")


def no_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    """Samples of an op that holds functions: its tests make these."""
    return iter(())


def holding(**given: Any) -> OpSpec:
    """Enters an op that holds functions in the table; see ``define``."""
    shared: dict[str, Any] = {
        "family": "structure",
        "accepts": (),
        "result": "own",
        "fusion": "opaque",
        "sample": no_cases,
        "ulp": 0,
        "since": "0.1",
    }
    return define(**shared, **given)


def nodes_flops(graph: Graph) -> Dim:
    """What the nodes of a graph count together."""
    total: Dim = 0
    for n in graph.nodes:
        total = total + OPS[n.op].flops([v.type for v in n.inputs], [v.type for v in n.outputs], n.attrs)
    return total


def called_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    """Those of the function."""
    return nodes_flops(attrs["function"])


def called(*args: Array, function: Any, **attrs: Any) -> tuple[Array, ...]:
    """The reference: the function's results."""
    out: tuple[Array, ...] = function(*args)
    return out


call: OpSpec = holding(
    name="call",
    code=0xC0,
    attrs={"function": "fn", "composite": "str"},
    infer=lambda *types, function, composite: applied("call", function, types),
    reference=called,
    vjp=NoGrad("its function is differentiated instead"),
    jvp=NoGrad("its function is differentiated instead"),
    batch=expanded,
    flops=called_flops,
    doc="A graph applied to operands. ``composite`` names what it computes (``softmax``), or is empty.",
    example="dd.nn.softmax(dd.array([1.0, 2.0]))",
)


def inexact(types: Sequence[Type]) -> list[Type]:
    """Those that have derivatives."""
    return [t for t in types if t.dtype.is_inexact]


def _custom_vjp_infer(*types: Type, primal: Graph, forward: Graph, backward: Graph) -> tuple[Type, ...]:
    outs = applied("custom_vjp", primal, types)
    made = applied("custom_vjp", forward, types)
    if made[: len(outs)] != outs:
        raise ShapeError(f"custom_vjp: forward gives {list(made)}, which does not begin with {list(outs)}")
    back = applied("custom_vjp", backward, [*made[len(outs) :], *inexact(outs)])
    if list(back) != inexact(types):
        raise ShapeError(f"custom_vjp: backward gives {list(back)}, not {inexact(types)}")
    return outs


custom_vjp: OpSpec = holding(
    name="custom_vjp",
    code=0xC1,
    attrs={"primal": "fn", "forward": "fn", "backward": "fn"},
    infer=_custom_vjp_infer,
    reference=lambda *args, primal, forward, backward: primal(*args),
    vjp=Reverse(nested.custom_vjp_forward, nested.custom_vjp_backward),
    jvp=Forward(nested.custom_vjp_jvp),
    batch=Batched(nested.custom_vjp_batch),
    flops=lambda inputs, outputs, attrs: nodes_flops(attrs["primal"]),
    doc="``primal`` applied to the operands, with a derivative of its own: ``forward`` gives outputs and residuals, "
    "``backward`` takes residuals and the cotangents of the inexact outputs to those of the inexact operands.",
    example="dd.grad(dd.custom_vjp(lambda x: x, lambda x: (x, ()), lambda saved, ct: (2 * ct,)))(1.0)",
)


def _custom_jvp_infer(*types: Type, primal: Graph, tangent: Graph) -> tuple[Type, ...]:
    outs = applied("custom_jvp", primal, types)
    made = applied("custom_jvp", tangent, [*types, *inexact(types)])
    if list(made) != [*outs, *inexact(outs)]:
        raise ShapeError(f"custom_jvp: the rule gives {list(made)}, not {[*outs, *inexact(outs)]}")
    return outs


custom_jvp: OpSpec = holding(
    name="custom_jvp",
    code=0xC7,
    attrs={"primal": "fn", "tangent": "fn"},
    infer=_custom_jvp_infer,
    reference=lambda *args, primal, tangent: primal(*args),
    vjp=Reverse(nested.custom_jvp_forward, nested.custom_jvp_backward),
    jvp=Forward(nested.custom_jvp_jvp),
    batch=Batched(nested.custom_jvp_batch),
    flops=lambda inputs, outputs, attrs: nodes_flops(attrs["primal"]),
    doc="``primal`` applied to the operands, with a derivative of its own: ``tangent`` takes the operands and the "
    "tangents of the inexact ones to the outputs and the tangents of the inexact ones, in which it must be linear.",
    example="dd.jvp(dd.custom_jvp(lambda x: x, lambda xs, ts: (xs[0], 2 * ts[0])), (1.0,), (1.0,))",
)


def _checkpoint_infer(*types: Type, function: Graph, policy: str) -> tuple[Type, ...]:
    if policy not in nested.POLICIES:
        raise ShapeError(f"checkpoint: no policy {policy!r}", rule="one of " + ", ".join(nested.POLICIES))
    return applied("checkpoint", function, types)


checkpoint: OpSpec = holding(
    name="checkpoint",
    code=0xC2,
    attrs={"function": "fn", "policy": "str"},
    infer=_checkpoint_infer,
    reference=called,
    vjp=Reverse(nested.checkpoint_forward, nested.checkpoint_backward),
    jvp=Forward(nested.checkpoint_jvp),
    batch=Batched(nested.checkpoint_batch),
    flops=called_flops,
    doc="A graph applied to operands whose intermediate values are not kept for reverse mode, but computed again. "
    "``policy`` says what is kept all the same: ``nothing``, or ``dots``, the results of products and convolutions.",
    example="dd.grad(dd.checkpoint(lambda x: dd.sin(dd.sin(x))))(1.0)",
)
