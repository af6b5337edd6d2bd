"""The graph: nodes in order, each value assigned once. Graphs are never changed after they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dala_defn.ir.types import Type
from dala_defn.sources import Place


class Value:
    """Something computed once: an input of a graph, or an output of a node."""

    __slots__ = ("index", "name", "node", "type")

    def __init__(self, type: Type, name: str = "", node: Node | None = None, index: int = 0) -> None:
        self.type = type
        self.name = name
        self.node = node
        self.index = index

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Node:
    """An op applied to values. ``attrs`` may hold a ``Graph`` (closed), a ``Literal``, ints, tuples, strings, dtypes."""

    __slots__ = ("attrs", "inputs", "loc", "op", "outputs")

    def __init__(
        self,
        op: str,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, Any],
        types: Sequence[Type],
        loc: Place | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.loc = loc
        self.outputs = tuple([Value(t, "", self, i) for i, t in enumerate(types)])

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.inputs))})"


class Graph:
    """A function over arrays: inputs, nodes in an order that works, outputs.

    Equality is structural: names of values and source places do not count.
    """

    __slots__ = ("_key", "inputs", "name", "nodes", "outputs")

    def __init__(self, name: str, inputs: Iterable[Value], nodes: Iterable[Node], outputs: Iterable[Value]) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self._key: tuple[Any, ...] | None = None

    def key(self) -> tuple[Any, ...]:
        """What makes the graph what it is, as a hashable tuple."""
        if self._key is None:
            number = self.numbering()
            self._key = (
                self.name,
                tuple(v.type for v in self.inputs),
                tuple(
                    (n.op, tuple(number[v] for v in n.inputs), frozen(n.attrs), tuple(o.type for o in n.outputs))
                    for n in self.nodes
                ),
                tuple(number[v] for v in self.outputs),
            )
        return self._key

    def numbering(self) -> dict[Value, int]:
        """The number of each value: inputs first, then the nodes' outputs in order."""
        number: dict[Value, int] = {}
        for v in self.inputs:
            number[v] = len(number)
        for n in self.nodes:
            for v in n.outputs:
                number[v] = len(number)
        return number

    def functions(self) -> list[Graph]:
        """Every graph that nodes refer to, each once, those without references first; not this one."""
        seen: dict[Graph, None] = {}

        def visit(graph: Graph) -> None:
            for sub in graph.subgraphs():
                if sub not in seen:
                    visit(sub)
                    seen[sub] = None

        visit(self)
        return list(seen)

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs that its own nodes refer to."""
        for n in self.nodes:
            for a in n.attrs.values():
                if isinstance(a, Graph):
                    yield a

    def map_subgraphs(self, f: Callable[[Graph], Graph]) -> Graph:
        """The same graph with ``f`` applied to every graph that a node refers to (each distinct one once)."""
        if not any(True for _ in self.subgraphs()):
            return self
        done: dict[Graph, Graph] = {}
        env: dict[Value, Value] = {}
        nodes = []
        for n in self.nodes:
            attrs = dict(n.attrs)
            for k, a in attrs.items():
                if isinstance(a, Graph):
                    if a not in done:
                        done[a] = f(a)
                    attrs[k] = done[a]
            copy = Node(n.op, tuple(env.get(v, v) for v in n.inputs), attrs, [o.type for o in n.outputs], n.loc)
            env.update(zip(n.outputs, copy.outputs, strict=True))
            nodes.append(copy)
        return Graph(self.name, self.inputs, nodes, [env.get(v, v) for v in self.outputs])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self.key() == other.key())

    def __hash__(self) -> int:
        return hash(self.key())

    def __str__(self) -> str:
        from dala_defn.ir.printer import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        return f"<graph @{self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes>"


def frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes as a hashable tuple, in the order of their names."""
    return tuple(sorted(attrs.items())) if len(attrs) > 1 else tuple(attrs.items())
