"""Ops and composites outside traces: each runs at once, on the executor that is chosen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn import composites, ops
from dala_defn.arguments import escaped, type_of
from dala_defn.array import Array, host_array
from dala_defn.defn import Defn
from dala_defn.errors import ArgumentTypeError, DalaError, ShapeError
from dala_defn.executors import executor
from dala_defn.ir import Graph, Node, Type, Value, frozen
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.nans import judge_op, watch
from dala_defn.ops.spec import OpSpec
from dala_defn.passes.pipeline import compile_passes
from dala_defn.shapes import DimExpr
from dala_defn.trace import Tracer, explain


def run_eager(op: OpSpec, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Runs one op on concrete arrays: the handler of ``bind`` outside traces."""
    if op.name == "constant":
        literal = attrs["value"]
        return (host_array(literal.array, literal.dtype),)
    for i, x in enumerate(args):
        if isinstance(x, Tracer):
            raise escaped(x)
        if not isinstance(x, (Array, np.ndarray, np.generic)):
            raise ArgumentTypeError(f"{op.name}: operand {i} is a {type(x).__name__}, which is no array")
    try:
        types = op.infer(*[type_of(x, "")[0] for x in args], **attrs)
    except DalaError as error:
        raise explain(error, args) from None
    if op.family == "structure":
        loaded = _program(op, args, attrs, types)
        outs = loaded.run(loaded.entry("main"), args, types)
        if watch.mode is not None:
            judge_op(op.name, args, outs, [type_of(x, "")[0] for x in args])
        return tuple(outs)
    for t in types:
        if any(isinstance(d, DimExpr) for d in t.shape):
            raise ShapeError(f"{op.name}: a symbolic size outside a trace", hint="a number")
    outs = executor().run_op(op, args, attrs, types)
    if watch.mode is not None:
        judge_op(op.name, args, outs, [type_of(x, "")[0] for x in args])
    return tuple(outs)


PROGRAMS = 256
_programs: OrderedDict[Any, Any] = OrderedDict()


def _program(op: OpSpec, args: tuple[Any, ...], attrs: Mapping[str, Any], types: Sequence[Type]) -> Any:
    """An op that holds functions as a loaded program of its own; the last ones are kept."""
    inputs = [Value(type_of(x, "")[0]) for x in args]
    where = executor()
    key = (where.name, id(where), op.name, tuple([v.type for v in inputs]), frozen(attrs))
    found = _programs.get(key)
    if found is None:
        node = Node(op.name, tuple(inputs), attrs, types)
        graph = compile_passes(Graph(op.name, inputs, (node,), node.outputs))
        names = [str(i) for i in range(max(len(args), len(types)))]
        given = [
            Arg(name, "key" if v.type.dtype.kind == "k" else "arg") for name, v in zip(names, inputs, strict=False)
        ]
        results = [Result(name) for name in names[: len(types)]]
        found = _programs[key] = where.load(Program((Entry("main", graph, tuple(given), tuple(results)),)))
        while len(_programs) > PROGRAMS:
            _programs.popitem(last=False)
    else:
        _programs.move_to_end(key)
    return found


_composites: dict[composites.Composite, Defn] = {}


def run_composite(c: composites.Composite, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Runs a composite on concrete arrays, as a small cached ``@defn``."""
    found = _composites.get(c)
    if found is None:
        found = _composites[c] = Defn(c.f, static_argnames=c.keywords)
    return found(*args, **attrs)


def install() -> None:
    """Makes this what runs ops and composites outside traces."""
    ops.install_eager(run_eager)
    composites.install_runner(run_composite)
