"""Running several passes in order."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dala_defn import ops
from dala_defn.ir import Graph
from dala_defn.ir.codec import MAX_CALL_DEPTH
from dala_defn.ir.graph import postorder
from dala_defn.passes.base import PASSES, Pass, everywhere, register
from dala_defn.passes.complex_pairs import ComplexPairs
from dala_defn.passes.cse import Cse
from dala_defn.passes.dce import Dce
from dala_defn.passes.fold import Fold
from dala_defn.passes.fuse import Fuse
from dala_defn.passes.inline import Inline
from dala_defn.passes.lower import Lower
from dala_defn.passes.simplify import Simplify


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
        after = everywhere(p.run(graph) if p.outside_in else graph, p.run)
        if self.dump is not None:
            self.dump(Step(p.name, after, time.perf_counter() - start))
        if self.verify is not None and after is not graph:
            self.verify(after)
        return after


DEFAULT = Pipeline((Simplify(), Fold(), Cse(), Dce()), rounds=8)
PASSES["default"] = DEFAULT


def compile_passes(graph: Graph) -> Graph:
    """The graph as it is compiled and exported: lowered (complex values are pairs of real ones) and simplified.

    Calls are kept, unless they stand further inside one another than a file may have them.
    With ``DALA_VERIFY=1`` in the environment the graph is verified after every pass.
    """
    verify = ops.verify if os.environ.get("DALA_VERIFY") == "1" else None
    if _depth(graph) > MAX_CALL_DEPTH:
        graph = Pipeline((Inline(differentiated=True),), verify=verify).run(graph)
    return dataclasses.replace(DEFAULT, verify=verify).run(ComplexPairs().run(Lower().run(graph)))


def _depth(graph: Graph) -> int:
    """How many functions stand inside one another at most."""
    depth: dict[int, int] = {}
    for g in postorder(graph):
        depth[id(g)] = max((depth[id(sub)] + 1 for sub in g.subgraphs()), default=0)
    return depth[id(graph)]


# What the native executor does to a compiled graph: all that is left of functions is written out, and fused anew.
NATIVE = Pipeline((Inline(differentiated=True), Cse(), Dce()))


def native_passes(graph: Graph) -> Graph:
    """A compiled graph as the native executor loads it: with fused nodes."""
    verify = ops.verify if os.environ.get("DALA_VERIFY") == "1" else None
    graph = dataclasses.replace(NATIVE, verify=verify).run(graph)
    return Pipeline((Fuse(),), verify=verify).run(graph)


__all__ = [
    "DEFAULT",
    "NATIVE",
    "PASSES",
    "Pass",
    "Pipeline",
    "Step",
    "compile_passes",
    "everywhere",
    "native_passes",
    "register",
]
