"""A small evaluator for tests: node by node through the references of the op table, on NumPy arrays.

Keys are uint32 with a last dimension of 2, outside as inside constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn.ir import Graph
from dala_defn.ir.graph import graphs_in
from dala_defn.ops import OPS
from dala_defn.ops.random import KEY_RECORD, pack_keys, unpack_keys
from dala_defn.passes import inline_calls


def evaluate(graph: Graph, *args: Any) -> list[np.ndarray[Any, Any]]:
    """The outputs; every value is checked against its type (symbolic sizes are not looked at)."""
    assert len(args) == len(graph.inputs)
    held = [
        pack_keys(a) if v.type.dtype.kind == "k" else np.asarray(a) for v, a in zip(graph.inputs, args, strict=True)
    ]
    outs = _Function(graph)(*held)
    return [unpack_keys(a) if v.type.dtype.kind == "k" else a for v, a in zip(graph.outputs, outs, strict=True)]


class _Function:
    """A graph for the references of ops that hold one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = inline_calls(graph)
        self.types = [(v.type.shape, _dtype(v)) for v in graph.outputs]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        env = {v: _checked(np.asarray(a), v) for v, a in zip(self.graph.inputs, args, strict=True)}
        for node in self.graph.nodes:
            attrs = {k: _attr(a) for k, a in node.attrs.items()}
            out = OPS[node.op].reference(*[env[v] for v in node.inputs], **attrs)
            if node.op == "constant" and node.outputs[0].type.dtype.kind == "k":
                out = pack_keys(out)
            for v, a in zip(node.outputs, out if isinstance(out, tuple) else (out,), strict=True):
                env[v] = _checked(np.asarray(a), v)
        return tuple([env[v] for v in self.graph.outputs])


def _attr(a: Any) -> Any:
    if isinstance(a, tuple) and graphs_in(a):
        return tuple([_Function(g) for g in a])
    return _Function(a) if isinstance(a, Graph) else a


def _dtype(v: Any) -> Any:
    return KEY_RECORD if v.type.dtype.kind == "k" else v.type.dtype.dtype


def _checked(a: np.ndarray[Any, Any], v: Any) -> np.ndarray[Any, Any]:
    t = v.type
    made = v.node.op if v.node else "input"
    assert a.dtype == _dtype(v), f"{made}: {a.dtype} for {t}"
    fits = len(a.shape) == len(t.shape) and all(
        not isinstance(d, int) or n == d for n, d in zip(a.shape, t.shape, strict=True)
    )
    assert fits, f"{made}: {a.shape} for {t}"
    return a


def numpy_of(case_args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Operands of a case as arrays."""
    return [np.asarray(a) for a in case_args]
