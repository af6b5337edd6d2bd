"""Gradients by other ways than the op table's rules, to check these by: Burn's own backward pass, and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.array import Array, host_array
from dala_defn.artifacts import dims_of
from dala_defn.errors import ArgumentError, EngineError, GradientError, ShapeError, TraceError
from dala_defn.executors import Executable, executor
from dala_defn.functions.base import value
from dala_defn.ir import Graph, Type
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.passes.pipeline import compile_passes
from dala_defn.shapes import show
from dala_defn.trace import trace_function

METHODS = ("rules", "burn", "numerical")
BURN = "flex-autodiff"
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)  # where rounding and curvature cost as much

# What Burn's backward pass is not asked for, and why.
REFUSED = {
    "custom_vjp": "it has a derivative of its own, which Burn would not use",
    "custom_jvp": "it has a derivative of its own, which Burn would not use",
    "cond": "Burn's backward pass goes over straight programs",
    "while_loop": "Burn's backward pass goes over straight programs",
    "scan": "Burn's backward pass goes over straight programs",
    "callback": "Burn's backward pass goes over straight programs",
}


def check_method(method: str, eps: float | None) -> None:
    """Refuses what ``grad`` does not know.

    Raises:
        ArgumentError: for another method, or a step where none is taken.
    """
    if method not in METHODS:
        raise ArgumentError(f"there is no method {method!r}", rule=" | ".join(METHODS))
    if eps is not None and (method != "numerical" or not 0 < eps < 1):
        raise ArgumentError(f"eps={eps} is a step of method='numerical', between 0 and 1")


def outside_traces(method: str) -> None:
    """Refuses traces: these ways run a program and look at its numbers.

    Raises:
        TraceError: inside one.
    """
    if ops.current_trace() is not None:
        raise TraceError(f"method={method!r} runs at once, and cannot become part of a trace", hint="method='rules'")


def check_scalar(graph: Graph, wrt: Sequence[int], result: int = 0) -> None:
    """What both ways need.

    Raises:
        GradientError: for an argument or a result that is no real float.
        ShapeError: when the result is no scalar.
    """
    for i in wrt:
        t = graph.inputs[i].type
        if not t.dtype.is_float:
            raise GradientError(f"{graph.inputs[i].name or f'argument {i}'} is {t}: gradients are by floats")
    t = graph.outputs[result].type
    if not t.dtype.is_float:
        raise GradientError(f"the result is {t}: gradients are of floats")
    if t.shape != ():
        raise ShapeError(f"the result has the shape {show(t.shape)}; gradients are of scalars")


def program_of(graph: Graph) -> Program:
    """The graph as the entry ``main``."""
    args = tuple(Arg(f"x{i}", "key" if v.type.dtype.kind == "k" else "arg") for i, v in enumerate(graph.inputs))
    entry = Entry("main", graph, args, tuple(Result(str(i)) for i in range(len(graph.outputs))))
    return Program((entry,), dims_of([entry]))


def burn_vjp(
    graph: Graph, args: Sequence[Any], wrt: Sequence[int], result: int = 0, cotangent: Any | None = None
) -> tuple[list[Array], list[Array]]:
    """The results of a graph and the gradients of one of them, by Burn.

    Raises:
        GradientError: for a graph with ops that Burn is not asked for.
        EngineError: when the library was built without it.
    """
    for g in [graph, *graph.functions()]:
        for node in g.nodes:
            if node.op in REFUSED:
                place = None if node.loc is None else node.loc.resolve()
                raise GradientError(f"{node.op}: {REFUSED[node.op]}", op=node.op, location=place)
            if any(v.type.dtype.kind == "c" for v in (*node.inputs, *node.outputs)):
                place = None if node.loc is None else node.loc.resolve()
                raise GradientError(f"{node.op}: Burn has no complex numbers", op=node.op, location=place)
    loaded = executor(BURN).load(program_of(graph))
    differentiate = getattr(loaded, "gradient", None)
    if differentiate is None:
        raise EngineError(f"the executor {BURN!r} has no backward pass")
    outs = [v.type for v in graph.outputs]
    types = [*outs, *[graph.inputs[i].type for i in wrt]]
    found = differentiate(0, args, wrt, result, types, cotangent)
    return found[: len(outs)], found[len(outs) :]


def by_burn(graph: Graph, args: Sequence[Any], wrt: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """The results and the gradients of the first, a scalar, by Burn's own backward pass."""
    check_scalar(graph, wrt)
    return burn_vjp(graph, args, wrt)


class Wide:
    """A function of flat arrays, in float64: its program, ready to be run often."""

    def __init__(self, f: Callable[..., Sequence[Any]], args: Sequence[Any]) -> None:
        self.args = [_widened(x) for x in args]
        types = [Type(dtypes.as_dtype(x.dtype) if not isinstance(x, Array) else x.dtype, x.shape) for x in self.args]
        self.graph, self.captures = trace_function(f, types, "wide")
        graph = compile_passes(self.graph)
        self.types = [v.type for v in graph.outputs]
        self.loaded: Executable = executor().load(program_of(graph))

    def __call__(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Its results, floats in float64."""
        outs = self.loaded.run(0, [*args, *self.captures], self.types)
        return [_widened(x) for x in outs]


def _widened(x: Any) -> Any:
    """Floats as float64; anything else as it is."""
    x = value(x)
    if not x.dtype.is_inexact:
        return x if x.dtype.kind == "k" else np.asarray(x)
    return np.asarray(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def by_differences(
    f: Callable[..., Sequence[Any]], args: Sequence[Any], wrt: Sequence[int], eps: float | None
) -> list[Array]:
    """The gradients of the first result of a function of flat arrays, by central differences in float64."""
    wide = Wide(f, args)
    check_scalar(wide.graph, wrt)
    step = STEP if eps is None else eps
    grads = []
    for i in wrt:
        x = wide.args[i]
        out = np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            ends = []
            for moved in _around(x, place, step):
                y = float(wide([*wide.args[:i], moved, *wide.args[i + 1 :]])[0])
                ends.append((y, float(moved[place])))
            (low, a), (high, b) = ends
            out[place] = (high - low) / (b - a)
        own = value(args[i]).dtype
        grads.append(host_array(out.astype(own.dtype), own))
    return grads


def _around(x: np.ndarray[Any, Any], place: tuple[int, ...], step: float) -> Iterator[np.ndarray[Any, Any]]:
    """The array with one element moved down, and up."""
    h = step * max(1.0, abs(float(x[place])))
    for sign in (-1, 1):
        moved = x.copy()
        moved[place] += sign * h
        yield moved
