"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dala_defn.ir import Graph, Node, Value, frozen
from dala_defn.passes.base import Pass, register
from dala_defn.passes.rebuild import with_inputs


@register
@dataclass(frozen=True)
class Cse(Pass):
    """Merges nodes of one op, attributes and operands (constants too); the first one stays. Effects never merge."""

    name: ClassVar[str] = "cse"

    def run(self, graph: Graph) -> Graph:
        """The graph with each value computed once."""
        known: dict[tuple[Any, ...], Node] = {}
        env: dict[Value, Value] = {}
        nodes = []
        for node in graph.nodes:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            if node.has_effect:
                first = node
            else:
                # Values compare by identity, so a merged operand makes its users meet in turn.
                first = known.setdefault((node.op, inputs, frozen(node.attrs)), node)
            if first is not node:
                env.update(zip(node.outputs, first.outputs, strict=True))
                continue
            if inputs != node.inputs:
                copy = with_inputs(node, inputs)
                known[node.op, inputs, frozen(node.attrs)] = copy
                env.update(zip(node.outputs, copy.outputs, strict=True))
                node = copy
            nodes.append(node)
        if len(nodes) == len(graph.nodes):
            return graph
        return Graph(graph.name, graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])


def cse(graph: Graph) -> Graph:
    """The graph with each value computed once."""
    return Cse().run(graph)
