"""The graph: nodes in order, each value assigned once. Graphs are never changed after they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dala_defn.errors import VerifyError
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
    """An op applied to values; ``attrs`` hold a ``Graph`` (closed), a ``Literal``, ints, tuples, strings or dtypes."""

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
        if len(types) == 1:
            self.outputs: tuple[Value, ...] = (Value(types[0], "", self),)
        else:
            self.outputs = tuple([Value(t, "", self, i) for i, t in enumerate(types)])

    @property
    def has_effect(self) -> bool:
        """Whether it does more than compute its outputs: it passes a token along, or runs a function that does."""
        for values in (self.outputs, self.inputs):
            for v in values:
                if v.type.dtype.kind == "t":
                    return True
        return bool(self.attrs) and any(g.has_effects for a in self.attrs.values() for g in graphs_in(a))

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.inputs))})"


class Graph:
    """A function over arrays: inputs, nodes in an order that works, outputs.

    Equality is structural: names (of graphs and of values) and source places do not count.
    """

    __slots__ = ("_effects", "_hash", "_key", "inputs", "name", "nodes", "outputs")

    def __init__(self, name: str, inputs: Iterable[Value], nodes: Iterable[Node], outputs: Iterable[Value]) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self._key: tuple[Any, ...] | None = None
        self._hash: int | None = None
        self._effects: bool | None = None

    def key(self) -> tuple[Any, ...]:
        """What makes the graph what it is, as a hashable tuple: a row for each distinct function, itself last.

        It is flat, so that comparing two graphs takes time in proportion to their size however they share functions.
        """
        if self._key is None:
            self._key = table(self).rows
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
        return table(self).graphs[:-1]

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs that its own nodes refer to, those of a node in the order of the attributes' names."""
        for n in self.nodes:
            for _, a in frozen(n.attrs):
                if isinstance(a, (Graph, tuple)):
                    yield from graphs_in(a)

    @property
    def has_effects(self) -> bool:
        """Whether running it does more than compute its outputs."""
        if self._effects is None:
            for g in postorder(self, lambda sub: sub._effects is None):
                g._effects = any(n.has_effect for n in g.nodes)
        return bool(self._effects)

    def map_subgraphs(self, f: Callable[[Graph], Graph]) -> Graph:
        """The same graph with ``f`` applied to every graph that a node refers to."""
        if not any(True for _ in self.subgraphs()):
            return self
        env: dict[Value, Value] = {}
        nodes = []
        for n in self.nodes:
            attrs = dict(n.attrs)
            for k, a in attrs.items():
                subs = graphs_in(a)
                if subs:
                    attrs[k] = f(a) if isinstance(a, Graph) else tuple([f(sub) for sub in subs])
            copy = Node(n.op, tuple(env.get(v, v) for v in n.inputs), attrs, [o.type for o in n.outputs], n.loc)
            env.update(zip(n.outputs, copy.outputs, strict=True))
            nodes.append(copy)
        return Graph(self.name, self.inputs, nodes, [env.get(v, v) for v in self.outputs])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self.key() == other.key())

    def __hash__(self) -> int:
        if self._hash is None:  # of its own row, so that one inside another inside another takes no time squared
            for g in postorder(self, lambda sub: sub._hash is None):
                g._hash = hash(_row(g, {id(sub): sub._hash or 0 for sub in g.subgraphs()}))
        return self._hash or 0

    def __str__(self) -> str:
        return _printer[0](self) if _printer else repr(self)

    def __repr__(self) -> str:
        return f"<graph @{self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes>"


_printer: list[Callable[[Graph], str]] = []


def install_printer(printer: Callable[[Graph], str]) -> None:
    """Hands in what ``str(graph)`` uses: the printer knows the graph, not the other way round."""
    _printer[:] = [printer]


def postorder(graph: Graph, wanted: Callable[[Graph], bool] = lambda graph: True) -> Iterator[Graph]:
    """Every graph object that can be reached by way of those that are wanted, each once; itself last.

    Those that others refer to come first.

    Raises:
        VerifyError: when a graph refers to itself, directly or not.
    """
    state = {id(graph): False}  # whether all that it refers to has been given
    stack = [(graph, graph.subgraphs())]
    while stack:
        at, rest = stack[-1]
        for sub in rest:
            if not wanted(sub):
                continue
            if id(sub) not in state:
                state[id(sub)] = False
                stack.append((sub, sub.subgraphs()))
                break
            if not state[id(sub)]:
                raise VerifyError(f"@{sub.name} refers to itself", code="E609", rule="there is no recursion")
        else:
            stack.pop()
            state[id(at)] = True
            yield at


@dataclass(frozen=True)
class Table:
    """The distinct functions that a graph is made of, those without references first, itself last.

    Attributes:
        graphs: one graph for each function.
        rows: what makes each what it is; sub-graphs stand as numbers of rows.
        number: the number of the row of every graph object, by its ``id``.
    """

    graphs: list[Graph]
    rows: tuple[tuple[Any, ...], ...]
    number: Mapping[int, int]


def table(graph: Graph) -> Table:
    """The functions of a graph, told apart by what they do."""
    # Graphs are told apart by identity here: the hash of one would ask for its table in turn.
    graphs: list[Graph] = []
    index: dict[tuple[Any, ...], int] = {}
    number: dict[int, int] = {}
    for g in postorder(graph):
        row = _row(g, number)
        if row not in index:
            index[row] = len(graphs)
            graphs.append(g)
        number[id(g)] = index[row]
    return Table(graphs, tuple(index), number)


def _row(graph: Graph, function: Mapping[int, int]) -> tuple[Any, ...]:
    number = graph.numbering()
    return (
        tuple([v.type for v in graph.inputs]),
        tuple(
            [
                (
                    n.op,
                    tuple([number[v] for v in n.inputs]),
                    tuple([(k, _by_number(a, function)) for k, a in frozen(n.attrs)]),
                    tuple([o.type for o in n.outputs]),
                )
                for n in graph.nodes
            ]
        ),
        tuple([number[v] for v in graph.outputs]),
    )


def _by_number(a: Any, function: Mapping[int, int]) -> Any:
    return ("@", *[function[id(sub)] for sub in graphs_in(a)]) if isinstance(a, (Graph, tuple)) and graphs_in(a) else a


def graphs_in(a: Any) -> tuple[Graph, ...]:
    """The graphs that an attribute refers to."""
    if isinstance(a, Graph):
        return (a,)
    return a if isinstance(a, tuple) and a and isinstance(a[0], Graph) else ()


def frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes as a hashable tuple, in the order of their names."""
    return tuple(sorted(attrs.items())) if len(attrs) > 1 else tuple(attrs.items())
