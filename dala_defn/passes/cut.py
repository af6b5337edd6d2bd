"""A graph in two halves: what can be computed early, and what must wait for its last inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.spec import OPS, Cut
from dala_defn.passes.dce import dce
from dala_defn.passes.functions import FUNCTIONS
from dala_defn.passes.inline import inline_calls
from dala_defn.passes.rebuild import with_inputs


def cut(graph: Graph, known: int, outputs: int, again: Sequence[int] = (), policy: str = "all") -> Cut:
    """Splits a graph by what depends on its inputs from ``known`` on.

    Args:
        known: how many inputs the early half has; the late half has the rest.
        outputs: how many outputs the early half has, which must not depend on the rest.
        again: the early inputs that the late half may be given again instead of having them kept.
        policy: what is kept for the late half. ``all``: every value that it needs; ``invariants``: those that depend
            on more than the inputs ``again``; ``dots``: the results of products and convolutions; ``nothing``: no
            value. What is not kept is computed again, from the inputs ``again`` at the end.
    """
    graph = inline_calls(graph)
    late = _depending(graph, graph.inputs[known:])
    assert not any(v in late for v in graph.outputs[:outputs]), "an early output depends on late inputs"
    keeps = _keeper(graph, known, again, policy)
    given = {graph.inputs[i] for i in again}
    saved: dict[Value, None] = {}
    used: set[Value] = set()
    nodes: list[Node] = []
    wanted = set(graph.outputs[outputs:])
    for node in reversed(graph.nodes):
        here = [v for v in node.outputs if v in wanted]
        if not here and not (node.has_effect and any(v in late for v in node.outputs)):
            continue
        if not any(v in late for v in node.outputs) and keeps(node):
            saved.update(dict.fromkeys(here))
            continue
        nodes.append(node)
        wanted.update(node.inputs)
    for v in graph.inputs[:known]:
        if v in wanted and v in given:
            used.add(v)
        elif v in wanted:
            saved[v] = None
    kept = list(saved)
    first = Graph(
        graph.name,
        graph.inputs[:known],
        [n for n in graph.nodes if not _is_late(n, late)],
        (*graph.outputs[:outputs], *kept),
    )
    repeated = tuple([i for i in again if graph.inputs[i] in used])
    second = _late(graph, kept, [graph.inputs[i] for i in repeated], known, outputs, reversed(nodes))
    return Cut(dce(first), second, repeated)


def _is_late(node: Node, late: set[Value]) -> bool:
    return any(v in late for v in (*node.inputs, *node.outputs))


def _depending(graph: Graph, inputs: Sequence[Value]) -> set[Value]:
    found = set(inputs)
    for node in graph.nodes:
        if any(v in found for v in node.inputs):
            found.update(node.outputs)
    return found


def _keeper(graph: Graph, known: int, again: Sequence[int], policy: str) -> Callable[[Node], bool]:
    """Whether the results of an early node are kept, rather than made again from its operands."""
    if policy == "nothing":
        return lambda node: node.has_effect
    if policy == "dots":
        return lambda node: OPS[node.op].family == "contraction" or node.has_effect
    if policy == "all":
        return lambda node: OPS[node.op].cost > 0
    varying = _depending(graph, [v for i, v in enumerate(graph.inputs[:known]) if i not in set(again)])
    return lambda node: node.has_effect or (OPS[node.op].cost > 0 and any(v in varying for v in node.inputs))


def _late(
    graph: Graph,
    kept: Sequence[Value],
    again: Sequence[Value],
    known: int,
    outputs: int,
    nodes: Iterable[Node],
) -> Graph:
    env: dict[Value, Value] = {}
    inputs = []
    for v in (*kept, *again, *graph.inputs[known:]):
        env[v] = Value(v.type, v.name)
        inputs.append(env[v])
    copies = []
    for node in nodes:
        copy = with_inputs(node, tuple([env[v] for v in node.inputs]))
        env.update({old: new for old, new in zip(node.outputs, copy.outputs, strict=True) if old not in env})
        copies.append(copy)
    return Graph(f"{graph.name}_late", inputs, copies, [env[v] for v in graph.outputs[outputs:]])


FUNCTIONS.cut = cut
