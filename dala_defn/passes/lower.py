"""What only derivatives need goes away, once there will be no more of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dala_defn.ir import Graph, Node, Value
from dala_defn.passes.base import Pass, everywhere, register
from dala_defn.passes.rewrite import Patterns, Var, rewrite, rule

P = Patterns()
x = Var("x")

RULES = [rule("stop-gradient", P.stop_gradient(x), x)]


@register
@dataclass(frozen=True)
class Lower(Pass):
    """Removes ``stop_gradient`` and the rules of calls; the graph must not be differentiated afterwards."""

    name: ClassVar[str] = "lower"

    def run(self, graph: Graph) -> Graph:
        """The graph as it will run."""
        return everywhere(graph, lambda g: rewrite(_plain_calls(g), RULES))


def _plain_calls(graph: Graph) -> Graph:
    if not any(n.op in ("custom_vjp", "custom_jvp") for n in graph.nodes):
        return graph
    env: dict[Value, Value] = {}
    nodes = []
    for n in graph.nodes:
        op, attrs = n.op, n.attrs
        if op in ("custom_vjp", "custom_jvp"):
            op, attrs = "call", {"function": attrs["primal"], "composite": ""}
        copy = Node(op, tuple([env.get(v, v) for v in n.inputs]), attrs, [v.type for v in n.outputs], n.loc)
        env.update(zip(n.outputs, copy.outputs, strict=True))
        nodes.append(copy)
    return Graph(graph.name, graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])
