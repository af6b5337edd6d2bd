"""What only derivatives need goes away, once there will be no more of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dala_defn.ir import Graph
from dala_defn.passes.base import Pass, register
from dala_defn.passes.rewrite import Patterns, Var, rewrite, rule

P = Patterns()
x = Var("x")

RULES = [rule("stop-gradient", P.stop_gradient(x), x)]


@register
@dataclass(frozen=True)
class Lower(Pass):
    """Removes ``stop_gradient``; the graph must not be differentiated afterwards."""

    name: ClassVar[str] = "lower"

    def run(self, graph: Graph) -> Graph:
        """The graph as it will run."""
        return rewrite(graph, RULES)
