"""Constant folding: small nodes whose operands are all constants become constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dala_defn.ir import Graph, Literal, Node, Value
from dala_defn.ops.spec import OPS
from dala_defn.passes.base import Pass, register


@register
@dataclass(frozen=True)
class Fold(Pass):
    """Computes nodes of constants by the op's reference, up to ``limit`` elements. Keys stay: they are no numbers.

    What is counted, or moved to a larger place (repeated, padded), is cheaper to make than to store, and stays as well.

    A node whose reference fails is left to fail where it runs.
    """

    name: ClassVar[str] = "fold"

    limit: int = 4096

    def run(self, graph: Graph) -> Graph:
        """The graph with constants folded."""
        known: dict[Value, Literal] = {}
        env: dict[Value, Value] = {}
        nodes = []
        changed = False
        for node in graph.nodes:
            if node.op == "constant":
                known[node.outputs[0]] = node.attrs["value"]
            folded = self._compute(node, [known.get(v) for v in node.inputs])
            if folded is not None:
                changed = True
                for v, literal in zip(node.outputs, folded, strict=True):
                    node = Node("constant", (), {"value": literal}, [v.type], node.loc)
                    env[v] = node.outputs[0]
                    known[v] = literal
                    nodes.append(node)
                continue
            inputs = tuple([env.get(v, v) for v in node.inputs])
            if inputs != node.inputs:
                copy = Node(node.op, inputs, node.attrs, [o.type for o in node.outputs], node.loc)
                env.update(zip(node.outputs, copy.outputs, strict=True))
                node = copy
            nodes.append(node)
        if not changed:
            return graph
        return Graph(graph.name, graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])

    def _compute(self, node: Node, operands: list[Literal | None]) -> list[Literal] | None:
        """The outputs of a node, or None when it stays."""
        spec = OPS[node.op]
        if not node.inputs or spec.family == "structure" or node.has_effect:
            return None
        total = 0
        for v in node.outputs:
            count = 1
            for d in v.type.shape:
                if not isinstance(d, int):
                    return None
                count *= d
            total += count
        if total > self.limit or any(v.type.dtype.kind == "k" for v in (*node.inputs, *node.outputs)):
            return None
        arrays = [x.array for x in operands if x is not None]
        if len(arrays) < len(operands) or (spec.fusion == "movement" and total > sum(x.size for x in arrays)):
            return None
        try:
            with np.errstate(all="ignore"):
                out: Any = spec.reference(*arrays, **node.attrs)
        except Exception:  # whatever it is, it belongs to the run, with the node's place
            return None
        results = [np.asarray(a) for a in (out if isinstance(out, tuple) else (out,))]
        for a, v in zip(results, node.outputs, strict=True):
            if a.dtype != v.type.dtype.dtype or a.shape != v.type.shape:
                return None
        return [Literal(a, v.type.dtype) for a, v in zip(results, node.outputs, strict=True)]
