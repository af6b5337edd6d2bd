"""What a pass is, the table of passes by name, and running one inside functions too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from dala_defn.ir import Graph
from dala_defn.ir.graph import table


@dataclass(frozen=True)
class Pass:
    """A function from graphs to graphs.

    ``run`` never changes its argument, keeps the types of inputs and outputs unless that is its purpose, and returns
    the very same graph when there was nothing to do.
    """

    name: ClassVar[str] = ""
    keeps_meaning: ClassVar[bool] = True  # whether the new graph computes what the old one did
    outside_in: ClassVar[bool] = False  # whether it is run on a graph before it is on the functions that are left

    def run(self, graph: Graph) -> Graph:
        """The new graph."""
        raise NotImplementedError


PASSES: dict[str, Pass] = {}

P = TypeVar("P", bound=type[Pass])


def register(cls: P) -> P:
    """Enters a pass, with its default options, in ``PASSES``."""
    if not cls.name or cls.name in PASSES:
        raise TypeError(f"the pass name {cls.name!r} is missing or taken")
    PASSES[cls.name] = cls()
    return cls


def everywhere(graph: Graph, run: Callable[[Graph], Graph]) -> Graph:
    """``run`` applied to every function that the graph refers to, each once, and then to the graph itself."""
    if not any(True for _ in graph.subgraphs()):
        return run(graph)
    functions = table(graph)
    done: list[Graph] = []

    def new(g: Graph) -> Graph:
        return done[functions.number[id(g)]]

    def rebuilt(g: Graph) -> Graph:
        return g if all(new(sub) is sub for sub in g.subgraphs()) else g.map_subgraphs(new)

    for function in functions.graphs[:-1]:
        done.append(run(rebuilt(function)))
    return run(rebuilt(graph))
