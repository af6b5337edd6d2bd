"""Forward-mode derivatives, from the jvp rules of the op table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.creation import zeros
from dala_defn.ops.spec import OPS, Forward, Linear, NoGrad, ZeroGrad
from dala_defn.passes.base import Pass, register
from dala_defn.passes.dce import dce
from dala_defn.passes.functions import FUNCTIONS
from dala_defn.passes.grad import differentiable_inputs, float_inputs
from dala_defn.passes.inline import inline_calls
from dala_defn.passes.rebuild import Rebuild, tracing, type_of
from dala_defn.trace import Tracer

Tangent = Tracer | None  # None is zero, for certain


def jvp_graph(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph with the product of its Jacobian and tangents.

    Inputs: those of ``graph``, then one tangent for each of the inputs ``wrt``. Outputs: those of ``graph``, then one
    tangent for each that is a float, zeros where nothing reaches it.

    Raises:
        GradientError: for an input that has no derivative, or an op without a rule on the way.
    """
    graph = inline_calls(graph)
    inputs = differentiable_inputs(graph, wrt)
    trace = Rebuild(f"{graph.name}_jvp", graph.inputs)
    tangents: dict[Value, Tracer] = {}
    with tracing(trace):
        for i, v in enumerate(inputs):
            t = trace.argument(v.type, f"t_{v.name}" if v.name else f"t{i}")
            tangents[v] = tangents[v] + t if v in tangents else t
        for node in graph.nodes:
            if not any(v in tangents for v in node.inputs):
                trace.add(node)
                continue
            given = [tangents.get(v) for v in node.inputs]
            rule = OPS[node.op].jvp
            found: Sequence[Tangent]
            if isinstance(rule, Forward):
                with trace.standing_for(node):
                    outs, found = rule.rule(FUNCTIONS, given, [trace.of(v) for v in node.inputs], node.attrs)
                    trace.replace(node.outputs, outs)
            else:
                trace.add(node)
                with trace.standing_for(node):
                    found = _push_forward(trace, node, given)
            for v, tangent in zip(node.outputs, found, strict=True):
                if tangent is not None and v.type.dtype.is_inexact:
                    assert type_of(tangent) == v.type, f"jvp of {node.op}: {type_of(tangent)} for a result {v.type}"
                    tangents[v] = tangent
        floats = [v for v in graph.outputs if v.type.dtype.is_inexact]
        out: list[Any] = [tangents[v] if v in tangents else zeros(v.type) for v in floats]
        return dce(trace.done([*(trace.of(v) for v in graph.outputs), *out]))


FUNCTIONS.jvp = jvp_graph


def _push_forward(trace: Rebuild, node: Node, tangents: Sequence[Tangent]) -> Sequence[Tangent]:
    """One tangent, or None, for each output of a node."""
    spec = OPS[node.op]
    if isinstance(spec.jvp, ZeroGrad):
        return [None] * len(node.outputs)
    if isinstance(spec.jvp, NoGrad):
        raise spec.refuse_gradient(spec.jvp.reason)
    if isinstance(spec.jvp, Linear):
        linear = range(len(tangents)) if spec.jvp.operands is None else spec.jvp.operands
        operands: list[Any] = [trace.of(v) for v in node.inputs]
        for i in linear:
            t = tangents[i]
            operands[i] = zeros(node.inputs[i].type) if t is None else t
        out = spec(*operands, **node.attrs)
        return out if isinstance(out, tuple) else (out,)
    assert not isinstance(spec.jvp, Forward)
    values = [trace.of(v) for v in (*node.inputs, *node.outputs)]
    found: Sequence[Tangent] = spec.jvp(tuple(tangents), *values, **node.attrs)
    return found


@register
@dataclass(frozen=True)
class Jvp(Pass):
    """Tangents of the inputs ``wrt`` (all floats by default) pushed forward to all float outputs."""

    name: ClassVar[str] = "jvp"
    keeps_meaning: ClassVar[bool] = False

    wrt: tuple[int, ...] | None = None

    def run(self, graph: Graph) -> Graph:
        """The graph with tangents after its inputs and after its outputs."""
        return jvp_graph(graph, float_inputs(graph) if self.wrt is None else self.wrt)
