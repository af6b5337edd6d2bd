"""Dead code: nodes whose outputs nobody needs go away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dala_defn.ir import Graph, Value
from dala_defn.passes.base import Pass, register


@register
@dataclass(frozen=True)
class Dce(Pass):
    """Keeps the nodes that the outputs or an effect need. Inputs stay: they are the signature."""

    name: ClassVar[str] = "dce"

    def run(self, graph: Graph) -> Graph:
        """The graph without dead nodes."""
        needed: set[Value] = set(graph.outputs)
        kept = []
        for node in reversed(graph.nodes):
            if not needed.isdisjoint(node.outputs) or node.has_effect:
                needed.update(node.inputs)
                kept.append(node)
        if len(kept) == len(graph.nodes):
            return graph
        return Graph(graph.name, graph.inputs, reversed(kept), graph.outputs)


def dce(graph: Graph) -> Graph:
    """The graph without dead nodes."""
    return Dce().run(graph)
