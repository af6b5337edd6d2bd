"""A graph with a look at what each of its ops gives, for ``debug_nans``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.ir import Graph, Node
from dala_defn.nans import Watched, shown
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import OPS
from dala_defn.passes.base import everywhere
from dala_defn.passes.rebuild import Rebuild, tracing


def watched(graph: Graph, callback: str) -> tuple[Graph, Watched]:
    """The graph with a ``callback`` after every op that gives floats: the op's number, its operands, its results."""
    nodes: list[Node] = []
    last: list[Graph] = []

    def run(g: Graph) -> Graph:
        last[:] = [g]
        new = Rebuild(g.name, g.inputs)
        token = None
        with tracing(new):
            for node in g.nodes:
                new.add(node)
                if not _looked_at(node):
                    continue
                with new.standing_for(node):
                    token = OPS["token"]() if token is None else token
                    values = [_real(new.of(v)) for v in (*shown(node), *node.outputs)]
                    token = OPS["callback"](token, lit(len(nodes), dtypes.int32), *values, name=callback, results=())
                nodes.append(node)
            return new.done([new.of(v) for v in g.outputs])

    made = everywhere(graph, run)
    return made, Watched(last[0], nodes)


def _real(x: Any) -> Any:
    """A value as callbacks take it: of complex numbers the absolute value, which is bad when they are."""
    return OPS["abs"](x) if x.dtype.kind == "c" else x


def _looked_at(node: Node) -> bool:
    if node.op == "constant":
        array = node.attrs["value"].array
        return array.dtype.kind in "fc" and not np.isfinite(array).all()
    kinds = {v.type.dtype.kind for v in node.outputs}
    return bool(kinds & set("fc")) and not kinds & set("kt")
