"""What a trace required of sizes, as checks in the graph itself: a file has nobody else to ask."""

from __future__ import annotations

from typing import Any

from dala_defn import dtypes
from dala_defn.functions.base import dim_value
from dala_defn.ir import Graph
from dala_defn.ops.spec import OPS
from dala_defn.passes.rebuild import Rebuild, tracing
from dala_defn.shapes import Condition, Dim, Known, interval

_RELATIONS = {"==": "equal", "!=": "not_equal", ">=": "greater_equal", ">": "greater", "<=": "less_equal", "<": "less"}


def with_facts(graph: Graph, known: Known) -> Graph:
    """The graph with an ``assert`` first for each condition that neither a bound nor a type rule stands for."""
    given = Known(known.bounds)
    facts = [f for f in known.facts if f.alone and f.condition.decide(given) is not True]
    if not facts:
        return graph
    new = Rebuild(graph.name)
    with tracing(new):
        token: Any = OPS["token"]()
        for fact in facts:
            new._place = fact.place
            left, op, right = _sides(fact.condition)
            holds = OPS[_RELATIONS[op]](dim_value(left, dtypes.int64), dim_value(right, dtypes.int64))
            token = OPS["assert"](token, holds, message=f"{graph.name} needs {fact.condition}")
    return Graph(graph.name, graph.inputs, [*new.nodes, *graph.nodes], graph.outputs)


def _sides(condition: Condition) -> tuple[Dim, str, Dim]:
    """Both sides, with what may be negative on the other one, since a size is not."""
    d, op = condition.key()
    positive: Dim = 0
    negative: Dim = 0
    for part in _parts(d):
        low = interval(part, {})[0]
        if low is None or low < 0:
            negative = negative - part
        else:
            positive = positive + part
    return positive, op, negative


def _parts(d: Dim) -> list[Dim]:
    return [d] if isinstance(d, int) else d.parts()
