"""Ops and composites outside traces: each runs at once, on the executor that is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dala_defn import composites, ops
from dala_defn.arguments import escaped, type_of
from dala_defn.array import Array, host_array
from dala_defn.defn import Defn
from dala_defn.errors import ArgumentTypeError, DalaError, ShapeError
from dala_defn.executors import executor
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops.spec import OpSpec
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
    if op.name == "call":
        graph = attrs["function"]
        program = Program(
            (
                Entry(
                    "main",
                    graph,
                    tuple(Arg(str(i)) for i in range(len(args))),
                    tuple(Result(str(i)) for i in range(len(types))),
                ),
            )
        )
        loaded = executor().load(program)
        return tuple(loaded.run(loaded.entry("main"), args, types))
    for t in types:
        if any(isinstance(d, DimExpr) for d in t.shape):
            raise ShapeError(f"{op.name}: a symbolic size outside a trace", hint="a number")
    return tuple(executor().run_op(op, args, attrs, types))


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
