"""Calls are replaced by the nodes of the functions that they call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.structure import CALLED
from dala_defn.passes.base import Pass, register
from dala_defn.passes.rebuild import with_inputs
from dala_defn.sources import Place

PRIMAL = {"custom_vjp": "primal", "checkpoint": "function"}


@register
@dataclass(frozen=True)
class Inline(Pass):
    """Replaces every ``call`` and ``fused``, nested ones too, by the nodes of its function with their places.

    With ``differentiated`` also ``custom_vjp`` and ``checkpoint``, which then mean nothing but their function.
    """

    name: ClassVar[str] = "inline"
    outside_in: ClassVar[bool] = True  # a thousand functions inside one another would each be copied a thousand times

    differentiated: bool = False

    def run(self, graph: Graph) -> Graph:
        """The graph without calls."""
        called = {**CALLED, **PRIMAL} if self.differentiated else CALLED
        if not any(n.op in called for n in graph.nodes):
            return graph
        nodes: list[Node] = []
        frames = [_Frame(graph, {}, None)]
        while frames:
            frame = frames[-1]
            for node in frame.todo:
                inputs = tuple([frame.env.get(v, v) for v in node.inputs])
                if node.op in called:
                    function = node.attrs[called[node.op]]
                    inner = dict(zip(function.inputs, inputs, strict=True))
                    frames.append(_Frame(function, inner, node, node.loc or frame.place))
                    break
                if len(frames) > 1 or inputs != node.inputs:  # a function may be called twice: its nodes are copied
                    copy = with_inputs(node, inputs)
                    copy.loc = node.loc or frame.place
                    frame.env.update(zip(node.outputs, copy.outputs, strict=True))
                    node = copy
                nodes.append(node)
            else:
                frames.pop()
                outputs = [frame.env.get(v, v) for v in frame.graph.outputs]
                if frame.call is not None:
                    frames[-1].env.update(zip(frame.call.outputs, outputs, strict=True))
        return Graph(graph.name, graph.inputs, nodes, outputs)


class _Frame:
    """A function being copied: what is left of it, and what its values have become."""

    def __init__(self, graph: Graph, env: dict[Value, Value], call: Node | None, place: Place | None = None) -> None:
        self.graph = graph
        self.todo: Iterator[Node] = iter(graph.nodes)
        self.env = env
        self.call = call
        self.place = place  # where nodes stand that have no place of their own: that of the call


def inline_calls(graph: Graph) -> Graph:
    """The graph without calls."""
    return Inline().run(graph)
