"""Passes by name, and running several in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from dala_defn.ir import Graph


@dataclass(frozen=True)
class Pass:
    """A function from graphs to graphs.

    ``run`` never changes its argument, keeps the types of inputs and outputs unless that is its purpose, and returns
    the very same graph when there was nothing to do.
    """

    name: ClassVar[str] = ""

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
    done: dict[Graph, Graph] = {}

    def rebuilt(g: Graph) -> Graph:
        if all(done[sub] is sub for sub in g.subgraphs()):
            return g
        return g.map_subgraphs(done.__getitem__)

    for function in graph.functions():
        done[function] = run(rebuilt(function))
    return run(rebuilt(graph))


@dataclass(frozen=True)
class Step:
    """What one pass made of a graph, for ``dump``."""

    name: str
    graph: Graph
    seconds: float

    @property
    def text(self) -> str:
        """The graph after the pass, as text."""
        return str(self.graph)

    @property
    def nodes(self) -> int:
        """The number of nodes after the pass, those of functions included."""
        return len(self.graph.nodes) + sum(len(f.nodes) for f in self.graph.functions())

    def __str__(self) -> str:
        return f"; {self.name}: {self.nodes} nodes, {self.seconds * 1e3:.2f} ms\n{self.text}"


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes in order, inside functions too, repeated until nothing changes or ``rounds`` is reached.

    Attributes:
        passes: what to run.
        verify: called on the input and after every pass that changed something; raises when a graph is broken.
        dump: called with every step; ``print`` shows them, ``list.append`` records them.
        rounds: how often to go through the passes at most.
    """

    name: ClassVar[str] = "pipeline"

    passes: Sequence[Pass] = ()
    verify: Callable[[Graph], None] | None = None
    dump: Callable[[Step], object] | None = None
    rounds: int = 1

    def run(self, graph: Graph) -> Graph:
        """The graph after all passes."""
        if self.verify is not None:
            self.verify(graph)
        for _ in range(self.rounds):
            before = graph
            for p in self.passes:
                graph = self._step(p, graph)
            if graph is before:
                break
        return graph

    def _step(self, p: Pass, graph: Graph) -> Graph:
        start = time.perf_counter()
        after = everywhere(graph, p.run)
        if self.dump is not None:
            self.dump(Step(p.name, after, time.perf_counter() - start))
        if self.verify is not None and after is not graph:
            self.verify(after)
        return after
