"""Rewriting by rules: a rule is a row of pattern, replacement and condition.

``P.add(x, P.neg(y))`` is the pattern of a node with its operands; ``x`` and ``y`` (``Var``) stand for any value, the
same one wherever the same name is; a Python number stands for a constant whose elements all equal it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dala_defn.ir import Graph, Node, Value
from dala_defn.passes.rebuild import Rebuild, tracing, type_of, with_inputs
from dala_defn.trace import Tracer

_STEPS = 16  # rules applied one after another to one node


@dataclass(frozen=True)
class Var:
    """Any value."""

    name: str


@dataclass(frozen=True)
class Pattern:
    """A node of one output with these operands (any number of operands where there are none)."""

    op: str
    args: tuple[Any, ...]


class Patterns:
    """``P.neg(x)`` makes a pattern."""

    def __getattr__(self, op: str) -> Callable[..., Pattern]:
        return lambda *args: Pattern(op, args)


class Match:
    """What a pattern met: ``m.node``, and ``m.x`` for each ``Var`` as a value for rules."""

    def __init__(self, trace: Rebuild, node: Node, found: dict[str, Value]) -> None:
        self.trace = trace
        self.node = node
        self.found = found

    def __getattr__(self, name: str) -> Tracer:
        return self.trace.of(self.found[name])

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the node."""
        return dict(self.node.attrs)

    @property
    def inner(self) -> dict[str, Any]:
        """The attributes of the node that made the first operand."""
        made = self.node.inputs[0].node
        assert made is not None
        return dict(made.attrs)


@dataclass(frozen=True)
class Rule:
    """A row: where ``pattern`` is met and ``when`` holds, ``replacement`` takes its place."""

    name: str
    pattern: Pattern
    replacement: Var | Callable[[Match], Any]
    when: Callable[[Match], bool] | None = None


def rule(
    name: str, pattern: Pattern, replacement: Var | Callable[[Match], Any], when: Callable[[Match], bool] | None = None
) -> Rule:
    """A row of a table of rules."""
    return Rule(name, pattern, replacement, when)


def constant_of(v: Value) -> np.ndarray[Any, Any] | None:
    """The elements of a value that is a constant, perhaps repeated or reshaped; None for others."""
    while v.node is not None and v.node.op in ("broadcast_to", "reshape"):
        v = v.node.inputs[0]
    if v.node is None or v.node.op != "constant" or v.type.dtype.kind == "k":
        return None
    array: np.ndarray[Any, Any] = v.node.attrs["value"].array
    return array


def is_number(v: Value, number: float) -> bool:
    """Whether all elements equal a number, the sign of a float zero included; a complex 1 is not neutral: inf * 1 is
    NaN in one part."""
    array = constant_of(v)
    if array is None or array.size == 0 or array.dtype.kind == "c" or not bool(np.all(array == number)):
        return False
    if number != 0 or not v.type.dtype.is_float:
        return True
    return bool(np.all(np.signbit(array.astype(np.float64)) == np.signbit(number)))


def _match(pattern: Any, v: Value, found: dict[str, Value]) -> bool:
    """Whether a value fits; patterns are a few levels deep, whatever the graph."""
    if isinstance(pattern, Var):
        return found.setdefault(pattern.name, v) is v
    if isinstance(pattern, Pattern):
        return v.node is not None and _match_node(pattern, v.node, found)
    return is_number(v, pattern)


def _match_node(pattern: Pattern, node: Node, found: dict[str, Value]) -> bool:
    if node.op != pattern.op or len(node.outputs) != 1:
        return False
    if not pattern.args:
        return True
    return len(pattern.args) == len(node.inputs) and all(
        _match(p, v, found) for p, v in zip(pattern.args, node.inputs, strict=True)
    )


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """The graph with the rules applied from the inputs on, at each node until none fits.

    A replacement of another type than the node's is not made: no rule changes a type. Nodes that are no longer needed
    stay, for ``dce``.
    """
    table: dict[str, list[Rule]] = {}
    for r in rules:
        table.setdefault(r.pattern.op, []).append(r)
    trace = Rebuild(graph.name, graph.inputs)
    env: dict[Value, Value] = {}
    changed = False
    with tracing(trace):
        for node in graph.nodes:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            fresh = node if inputs == node.inputs else with_inputs(node, inputs)
            out = _apply(trace, fresh, table) if fresh.op in table else None
            if out is None:
                trace.add(fresh)
                if fresh is not node:
                    env.update(zip(node.outputs, fresh.outputs, strict=True))
            else:
                changed = True
                env[node.outputs[0]] = out
        if not changed:
            return graph
        return trace.done([trace.of(env.get(v, v)) for v in graph.outputs])


def _apply(trace: Rebuild, node: Node, table: dict[str, list[Rule]]) -> Value | None:
    """The value that takes the place of a node's output, or None when no rule fits."""
    out: Value | None = None
    for _ in range(_STEPS):
        before = len(trace.nodes)
        next_out = _apply_once(trace, node, table.get(node.op, ()))
        if next_out is None:
            return out
        out = next_out
        # Only a node that was just made may be replaced once more: others have been looked at.
        if out.node is None or before == len(trace.nodes) or out.node is not trace.nodes[-1]:
            return out
        node = out.node
    return out


def _apply_once(trace: Rebuild, node: Node, rules: Sequence[Rule]) -> Value | None:
    for r in rules:
        found: dict[str, Value] = {}
        if not _match_node(r.pattern, node, found):
            continue
        m = Match(trace, node, found)
        if r.when is not None and not r.when(m):
            continue
        if isinstance(r.replacement, Var):
            out = found[r.replacement.name]
        else:
            with trace.standing_for(node):
                out = r.replacement(m)._value
        if out.type == node.outputs[0].type:
            return out
    return None


__all__ = ["Match", "Patterns", "Rule", "Var", "constant_of", "is_number", "rewrite", "rule", "type_of"]
