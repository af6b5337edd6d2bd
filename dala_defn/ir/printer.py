"""Graphs as text that reads back to an equal graph."""

from __future__ import annotations

import json
import re
from typing import Any

from dala_defn.dtypes import DType
from dala_defn.ir import literals
from dala_defn.ir.graph import Graph, Node, Value, table
from dala_defn.ir.types import Literal
from dala_defn.sources import Place

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def print_graph(graph: Graph, locations: bool = False) -> str:
    """The text of a graph: first the functions it refers to, each once, then itself.

    Args:
        graph: the graph; every value it uses must be defined in it.
        locations: whether nodes carry their place in the user's program.
    """
    functions = table(graph)
    names = _function_names(functions.graphs)
    of = {key: names[number] for key, number in functions.number.items()}
    return "\n".join([_Printer(g, of, locations).text() for g in functions.graphs]) + "\n"


def _function_names(order: list[Graph]) -> list[str]:
    """A unique name for each graph that keeps its own where it can; the main one, which is last, comes first."""
    plain = [re.sub(r"[^A-Za-z0-9_.]", "_", g.name) for g in order]
    plain = [p if _PLAIN.fullmatch(p) else f"f{p}" if p else "" for p in plain]
    main = plain[-1] or "main"
    taken = {main}
    next_suffix: dict[str, int] = {}
    out = []
    for i, base in enumerate(plain[:-1]):
        base = name = base or f"f{i}"
        while name in taken:
            next_suffix[base] = next_suffix.get(base, 0) + 1
            name = f"{base}_{next_suffix[base]}"
        taken.add(name)
        out.append(name)
    return [*out, main]


class _Printer:
    def __init__(self, graph: Graph, functions: dict[int, str], locations: bool) -> None:
        self.graph = graph
        self.functions = functions
        self.locations = locations
        self.names = {v: f"%{i}" for v, i in graph.numbering().items()}
        taken = set()
        for v in graph.inputs:
            if _PLAIN.fullmatch(v.name) and v.name not in taken:
                self.names[v] = f"%{v.name}"
                taken.add(v.name)

    def text(self) -> str:
        g = self.graph
        inputs = ", ".join([f"{self.names[v]}: {v.type}" for v in g.inputs])
        lines = [f"graph @{self.functions[id(g)]}({inputs}) {{"]
        lines += ["  " + self.node(n) for n in g.nodes]
        lines += [f"  return {self.values(g.outputs)}".rstrip(), "}"]
        return "\n".join(lines)

    def values(self, values: tuple[Value, ...]) -> str:
        return ", ".join([self.names[v] for v in values])

    def node(self, n: Node) -> str:
        text = f"{self.values(n.outputs)} = {n.op}" if n.outputs else n.op
        if n.inputs:
            text += " " + self.values(n.inputs)
        if n.attrs:
            text += " {" + ", ".join([f"{k}={self.attr(a)}" for k, a in sorted(n.attrs.items())]) + "}"
        if n.outputs:
            text += " : " + ", ".join([str(v.type) for v in n.outputs])
        return text + (_loc(n.loc) if self.locations and n.loc is not None else "")

    def attr(self, a: Any) -> str:
        if isinstance(a, bool):
            return "true" if a else "false"
        if isinstance(a, str):
            return json.dumps(a)
        if isinstance(a, (tuple, list)):
            return "[" + ", ".join([self.attr(x) if isinstance(x, Graph) else str(x) for x in a]) + "]"
        if isinstance(a, Graph):
            return "@" + self.functions[id(a)]
        if isinstance(a, DType):
            return a.short
        if isinstance(a, Literal):
            return f"{a.type}<{literals.elements(a)}>"
        return str(a)


def _loc(place: Place) -> str:
    at = place.resolve()
    path = f" {json.dumps(at.path)}" if at.path else ""
    return f" loc({json.dumps(at.file)}:{at.line}:{at.column} {json.dumps(at.function)}{path})"
