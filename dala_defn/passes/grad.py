"""Reverse-mode derivatives, from the vjp rules of the op table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dala_defn import ops
from dala_defn.errors import ArgumentError, DalaError, DTypeError, GradientError, ShapeError
from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.creation import lit, zeros
from dala_defn.ops.spec import OPS, NoGrad, OpSpec, Reverse, ZeroGrad
from dala_defn.passes.base import Pass, register
from dala_defn.passes.dce import dce
from dala_defn.passes.functions import FUNCTIONS
from dala_defn.passes.inline import inline_calls
from dala_defn.passes.rebuild import Rebuild, tracing, type_of
from dala_defn.trace import Tracer


def vjp_graph(graph: Graph, wrt: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph with the products of cotangents and its Jacobian.

    Inputs: those of ``graph``, then one cotangent for each of the chosen ``outputs`` (by position, of its type).
    Outputs: those of ``graph``, then one gradient for each of the inputs ``wrt``, zeros where nothing reaches it.

    Raises:
        GradientError: for an input or output that has no derivative, or an op without a rule on the way.
    """
    graph = inline_calls(graph)
    chosen = [graph.outputs[i] for i in _positions(outputs, len(graph.outputs), "output")]
    for v in chosen:
        if not v.type.dtype.is_inexact:
            raise _at(GradientError(f"an output of type {v.type} has no derivative: it is no float"), v)
    trace = Rebuild(f"{graph.name}_vjp", graph.inputs)
    with tracing(trace):
        seeds = [trace.argument(v.type, f"ct{i}") for i, v in enumerate(chosen)]
        return _reverse(trace, graph, wrt, list(zip(chosen, seeds, strict=True)))


def grad_graph(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph with the gradient of its first output, a real scalar.

    Outputs: those of ``graph``, then one gradient for each of the inputs ``wrt``.

    Raises:
        GradientError: for an input that has no derivative, or an op without a rule on the way.
        ShapeError: when the first output is not a scalar; DTypeError: when it is not a float.
    """
    graph = inline_calls(graph)
    if not graph.outputs:
        raise GradientError(f"@{graph.name} has no output to differentiate")
    first = graph.outputs[0]
    if not first.type.dtype.is_float:
        raise _at(
            DTypeError(
                f"a gradient needs a float result, not {first.type}",
                hint="dd.real(...), dd.imag(...) or dd.absolute(...) of it; dd.jvp for a holomorphic derivative"
                if first.type.dtype.kind == "c"
                else "x.astype(dd.float32) inside the function, or a float result",
            ),
            first,
        )
    if first.type.shape != ():
        raise _at(
            ShapeError(
                f"a gradient needs a scalar result, not {first.type}",
                hint="dd.sum(...) of it, or dd.vjp for a cotangent of this shape",
            ),
            first,
        )
    trace = Rebuild(f"{graph.name}_grad", graph.inputs)
    with tracing(trace):
        with trace.standing_for(first.node):
            seed = lit(1, first.type.dtype)
        return _reverse(trace, graph, wrt, [(first, seed)])


def differentiable_inputs(graph: Graph, wrt: Sequence[int]) -> list[Value]:
    """The inputs at these positions.

    Raises:
        GradientError: for one that is no float.
    """
    found = [graph.inputs[i] for i in _positions(wrt, len(graph.inputs), "input")]
    for i, v in zip(wrt, found, strict=True):
        if not v.type.dtype.is_inexact:
            called = f"argument {v.name}" if v.name else f"input {i}"
            raise GradientError(
                f"{called} of type {v.type} has no derivative: it is no float",
                rule="derivatives are taken with respect to floats",
                hint=f"another wrt, or {v.name or 'x'}.astype(dd.float32) before the call",
            )
    return found


def active_values(graph: Graph, wrt: Sequence[Value]) -> set[Value]:
    """The values that change, to first order, with those of ``wrt``."""
    active = set(wrt)
    for node in graph.nodes:
        if not active.isdisjoint(node.inputs) and not isinstance(OPS[node.op].vjp, ZeroGrad):
            active.update(v for v in node.outputs if v.type.dtype.is_inexact)
    return active


def active_outputs(graph: Graph, inputs: Sequence[bool]) -> list[bool]:
    """Which outputs change, to first order, with the inputs that are set."""
    graph = inline_calls(graph)
    active = active_values(graph, [v for v, flag in zip(graph.inputs, inputs, strict=True) if flag])
    return [v in active for v in graph.outputs]


def _reverse(trace: Rebuild, graph: Graph, wrt: Sequence[int], seeds: Sequence[tuple[Value, Tracer]]) -> Graph:
    """Adds the reverse sweep to the nodes of ``graph``; gives outputs, then gradients."""
    inputs = differentiable_inputs(graph, wrt)
    active = active_values(graph, inputs)
    # The seeds may have recorded constants already; they need nothing, so they go first.
    recorded, trace.nodes = trace.nodes, []
    for node in recorded:
        trace.add(node)
    halves: dict[Node, Any] = {}  # what the forward halves of two-sided rules kept
    for node in graph.nodes:
        rule = OPS[node.op].vjp
        if isinstance(rule, Reverse) and not active.isdisjoint(node.inputs):
            with trace.standing_for(node):
                values = [trace.of(v) for v in node.inputs]
                outs, halves[node] = rule.forward(FUNCTIONS, [v in active for v in node.inputs], values, node.attrs)
                trace.replace(node.outputs, outs)
        else:
            trace.add(node)
    cts: dict[Value, Tracer] = {}
    for v, seed in seeds:
        if v in active:
            with trace.standing_for(v.node):
                _accumulate(cts, v, seed)
    for node in reversed(graph.nodes):
        if cts.keys().isdisjoint(node.outputs) or active.isdisjoint(node.inputs):
            continue
        with trace.standing_for(node):
            given = [cts.pop(v, None) for v in node.outputs]
            rule = OPS[node.op].vjp
            if isinstance(rule, Reverse):
                found = rule.backward(FUNCTIONS, halves.pop(node), given)
            else:
                found = _pull_back(trace, OPS[node.op], node, given)
            for v, ct in zip(node.inputs, found, strict=True):
                if ct is not None and v in active:
                    assert type_of(ct) == v.type, f"vjp of {node.op}: {type_of(ct)} for an operand {v.type}"
                    _accumulate(cts, v, ct)
    assert not halves or all(v not in cts for n in halves for v in n.outputs)
    gradients: list[Any] = [cts[v] if v in cts else zeros(v.type) for v in inputs]
    return dce(trace.done([*(trace.of(v) for v in graph.outputs), *gradients]))


def _pull_back(trace: Rebuild, spec: OpSpec, node: Node, cts: Sequence[Tracer | None]) -> Sequence[Tracer | None]:
    """One cotangent, or None, for each operand of a node."""
    if isinstance(spec.vjp, NoGrad):
        raise spec.refuse_gradient(spec.vjp.reason)
    assert not isinstance(spec.vjp, (ZeroGrad, Reverse)), "its outputs are never active, or its rule has two halves"
    full = [zeros(v.type) if ct is None else ct for v, ct in zip(node.outputs, cts, strict=True)]
    values = [trace.of(v) for v in (*node.inputs, *node.outputs)]
    found: Sequence[Tracer | None] = spec.vjp(*full, *values, **node.attrs)
    return found


def _accumulate(cts: dict[Value, Tracer], v: Value, ct: Tracer) -> None:
    cts[v] = ops.OPS["add"](cts[v], ct) if v in cts else ct


def _positions(given: Sequence[int], count: int, what: str) -> Sequence[int]:
    for i in given:
        if not 0 <= i < count:
            raise ArgumentError(f"there is no {what} {i}: the graph has {count}")
    return given


def _at(error: DalaError, v: Value) -> DalaError:
    """The error at the place where a value is made."""
    if v.node is not None and v.node.loc is not None:
        error.location = v.node.loc.resolve()
    return error


@register
@dataclass(frozen=True)
class Grad(Pass):
    """The gradient of the first output by the inputs ``wrt`` (all floats by default)."""

    name: ClassVar[str] = "grad"
    keeps_meaning: ClassVar[bool] = False

    wrt: tuple[int, ...] | None = None

    def run(self, graph: Graph) -> Graph:
        """The graph with gradients after its outputs."""
        return grad_graph(graph, float_inputs(graph) if self.wrt is None else self.wrt)


@register
@dataclass(frozen=True)
class Vjp(Pass):
    """Cotangents of all float outputs pulled back to the inputs ``wrt`` (all floats by default)."""

    name: ClassVar[str] = "vjp"
    keeps_meaning: ClassVar[bool] = False

    wrt: tuple[int, ...] | None = None

    def run(self, graph: Graph) -> Graph:
        """The graph with cotangents after its inputs and gradients after its outputs."""
        outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_inexact]
        return vjp_graph(graph, float_inputs(graph) if self.wrt is None else self.wrt, outputs)


FUNCTIONS.vjp = vjp_graph
FUNCTIONS.active = active_outputs


def float_inputs(graph: Graph) -> list[int]:
    """The positions of the inputs that have derivatives."""
    return [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_inexact]
