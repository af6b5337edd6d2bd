"""What rules may do to the functions that an op holds: the passes hand in how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dala_defn.ir import Graph, Type
from dala_defn.ops.spec import Cut
from dala_defn.shapes import Dim
from dala_defn.trace import inline, trace_function


class Functions:
    """The ``Transformer`` that rules get; ``grad``, ``jvp``, ``batch`` and ``cut`` put their functions in."""

    active: Callable[[Graph, Sequence[bool]], list[bool]]
    jvp: Callable[[Graph, Sequence[int]], Graph]
    vjp: Callable[[Graph, Sequence[int], Sequence[int]], Graph]
    batch: Callable[[Graph, Sequence[bool], Dim, Sequence[bool]], tuple[Graph, list[bool]]]
    cut: Callable[..., Cut]

    def trace(self, f: Callable[..., Sequence[Any]], types: Sequence[Type], name: str) -> Graph:
        """The graph of a function over values, which must not use any from outside."""
        graph, captured = trace_function(f, types, name)
        assert not captured, f"@{name} is not closed"
        return graph

    def inline(self, graph: Graph, args: Sequence[Any]) -> list[Any]:
        """The outputs of a graph on values, its nodes written out."""
        return inline(graph, args)


FUNCTIONS = Functions()
