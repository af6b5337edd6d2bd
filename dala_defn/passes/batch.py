"""Batching: a graph for one example becomes one for many, from the batch rules of the op table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dala_defn.errors import ArgumentError
from dala_defn.ir import Graph, Type, Value
from dala_defn.ops.spec import OPS, Batched
from dala_defn.passes.base import Pass, register
from dala_defn.passes.dce import dce
from dala_defn.passes.functions import FUNCTIONS
from dala_defn.passes.inline import inline_calls
from dala_defn.passes.rebuild import Rebuild, tracing, type_of
from dala_defn.shapes import Dim, DimExpr, normalize_axis
from dala_defn.trace import Tracer


def batch_graph(graph: Graph, in_axes: Sequence[int | None], size: Dim) -> Graph:
    """The graph applied to ``size`` examples at once.

    Inputs get one more axis at the place that ``in_axes`` names; those with ``None`` are the same for all examples.
    All outputs have the batch first.

    Raises:
        ArgumentError: when there is not one entry for each input.
        ShapeError: for an axis that is out of range, or an op that cannot be batched over sizes that are not known.
    """
    return _batched(graph, in_axes, size, [True] * len(graph.outputs))[0]


def batch_function(graph: Graph, batched: Sequence[bool], size: Dim, every: Sequence[bool]) -> tuple[Graph, list[bool]]:
    """The graph over a batch that comes first in the inputs that are set; which outputs have it, first too.

    Args:
        every: the outputs that shall have it anyway.
    """
    return _batched(graph, [0 if b else None for b in batched], size, every)


def _batched(graph: Graph, in_axes: Sequence[int | None], size: Dim, every: Sequence[bool]) -> tuple[Graph, list[bool]]:
    graph = inline_calls(graph)
    if len(in_axes) != len(graph.inputs):
        raise ArgumentError(f"in_axes has {len(in_axes)} entries for {len(graph.inputs)} inputs of @{graph.name}")
    trace = Rebuild(f"{graph.name}_batch")
    many: dict[Value, Tracer] = {}
    with tracing(trace):
        for v, axis in zip(graph.inputs, in_axes, strict=True):
            if axis is None:
                trace.inputs.append(v)
                continue
            at = normalize_axis(axis, v.type.ndim + 1)
            shape = (*v.type.shape[:at], size, *v.type.shape[at:])
            x = trace.argument(Type(v.type.dtype, shape), v.name)
            many[v] = x if at == 0 else OPS["transpose"](x, axes=(at, *(i for i in range(len(shape)) if i != at)))
        for node in graph.nodes:
            batched = tuple([v in many for v in node.inputs])
            if not any(batched):
                trace.add(node)
                continue
            args = [many[v] if b else trace.of(v) for v, b in zip(node.inputs, batched, strict=True)]
            rule = OPS[node.op].batch
            flags: Sequence[bool] = [True] * len(node.outputs)
            with trace.standing_for(node):
                if isinstance(rule, Batched):
                    outs, flags = rule.rule(FUNCTIONS, size, args, batched, node.attrs)
                else:
                    outs = rule(size, args, batched, **node.attrs)
            for v, out, flag in zip(node.outputs, outs, flags, strict=True):
                wanted = Type(v.type.dtype, (size, *v.type.shape) if flag else v.type.shape)
                assert type_of(out) == wanted, f"batch of {node.op}: {type_of(out)}, not {wanted}"
                if flag:
                    many[v] = out
                else:
                    trace.replace([v], [out])
        outputs: list[Any] = []
        for v, wanted_batch in zip(graph.outputs, every, strict=True):
            with trace.standing_for(v.node):
                if v in many:
                    outputs.append(many[v])
                elif wanted_batch:
                    outputs.append(OPS["broadcast_to"](trace.of(v), shape=(size, *v.type.shape)))
                else:
                    outputs.append(trace.of(v))
        return dce(trace.done(outputs)), [v in many or w for v, w in zip(graph.outputs, every, strict=True)]


FUNCTIONS.batch = batch_function


@register
@dataclass(frozen=True)
class Batch(Pass):
    """Batches over the axes ``in_axes`` (the first of every input by default) with a given size (``n`` by default)."""

    name: ClassVar[str] = "batch"
    keeps_meaning: ClassVar[bool] = False

    in_axes: tuple[int | None, ...] | None = None
    size: Dim = field(default_factory=lambda: DimExpr.named("n"))

    def run(self, graph: Graph) -> Graph:
        """The graph for a batch."""
        return batch_graph(graph, (0,) * len(graph.inputs) if self.in_axes is None else self.in_axes, self.size)
