"""A trace that continues or replaces an existing graph, so that derivative and rewrite rules are ordinary functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dala_defn.errors import DalaError
from dala_defn.ir import Graph, Node, Type, Value
from dala_defn.sources import Place
from dala_defn.trace import Trace, Tracer, tracing


class Rebuild(Trace):
    """A graph being made from another one.

    Nodes of the old graph are kept as they are where nothing about them changes (graphs are never mutated, so they
    share nodes); whatever is recorded stands for one old node and takes its source place.
    """

    def __init__(self, name: str, inputs: Sequence[Value] = ()) -> None:
        super().__init__(name)
        self.inputs = list(inputs)
        self.by_frame = False
        self._place: Place | None = None
        self._instead: dict[Value, Value] = {}

    def place(self) -> Place | None:
        """The place of the node that is being replaced or differentiated."""
        return self._place

    def add(self, node: Node) -> None:
        """Takes a node over: as it is, where nothing that it uses was replaced."""
        if self._instead and any(v in self._instead for v in node.inputs):
            copy = with_inputs(node, tuple([self._instead.get(v, v) for v in node.inputs]))
            self._instead.update(zip(node.outputs, copy.outputs, strict=True))
            node = copy
        self.nodes.append(node)
        if node.op == "constant":
            self._literals.setdefault(node.attrs["value"], Tracer(self, node.outputs[0]))

    def of(self, value: Value) -> Tracer:
        """A value of this graph, or what stands in its place, for rules."""
        return Tracer(self, self._instead.get(value, value))

    def replace(self, values: Sequence[Value], by: Sequence[Any]) -> None:
        """From here on ``by`` stands in the place of these values of the old graph."""
        for v, x in zip(values, by, strict=True):
            self._instead[v] = self.lift(x)._value

    @contextmanager
    def standing_for(self, node: Node | None) -> Iterator[None]:
        """What is recorded inside stands for ``node``; an error that a rule raises is at its place."""
        before = self._place
        self._place = None if node is None else node.loc
        try:
            yield
        except DalaError as error:
            if node is not None and node.loc is not None:
                error.location = node.loc.resolve()
            raise
        finally:
            self._place = before

    def done(self, outputs: Sequence[Any]) -> Graph:
        """The graph with these outputs."""
        assert not self.captures, "a rule captured an array"
        return self.finish(outputs)


def with_inputs(node: Node, inputs: tuple[Value, ...]) -> Node:
    """The same op on other operands of the same types."""
    return Node(node.op, inputs, node.attrs, [o.type for o in node.outputs], node.loc)


def type_of(x: Tracer) -> Type:
    """The type of a traced value."""
    return x._value.type


__all__ = ["Rebuild", "tracing", "type_of", "with_inputs"]
