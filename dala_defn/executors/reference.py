"""The NumPy reference: each op by its entry in the table. Slow, exact, and independent of the native library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn.array import Array, host_array
from dala_defn.dtypes import as_dtype
from dala_defn.errors import DalaError, ShapeError
from dala_defn.ir import Graph, Type, Value
from dala_defn.ir.program import Program, state_path
from dala_defn.ops.random import KEY_RECORD, pack_keys
from dala_defn.ops.spec import OPS, OpSpec
from dala_defn.shapes import DimExpr, evaluate, show


def to_numpy(x: Any, t: Type) -> np.ndarray[Any, Any]:
    """An operand as the reference holds it: keys are records."""
    out = x.numpy() if isinstance(x, Array) else np.asarray(x)
    return pack_keys(out) if t.dtype.kind == "k" and out.dtype != KEY_RECORD else out


def bind_dims(types: Sequence[Type], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The sizes of named dims, from actual shapes.

    Raises:
        ShapeError: when an argument does not fit its type.
    """
    sizes: dict[str, int] = {}
    for t, shape in zip(types, shapes, strict=True):
        if len(t.shape) == len(shape):
            for d, n in zip(t.shape, shape, strict=True):
                name = d.as_name() if isinstance(d, DimExpr) else None
                if name is not None:
                    sizes.setdefault(name, n)
    for t, shape in zip(types, shapes, strict=True):
        fits = len(t.shape) == len(shape) and all(evaluate(d, sizes) == n for d, n in zip(t.shape, shape, strict=True))
        if not fits:
            raise ShapeError(
                f"an argument has the shape {show(tuple(shape))}, not {show(t.shape)}", details=dict(sizes)
            )
    return sizes


def run_graph(graph: Graph, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Runs a graph on NumPy arrays (keys as records); gives its outputs as such."""
    held = [to_numpy(x, v.type) for x, v in zip(args, graph.inputs, strict=True)]
    sizes = bind_dims([v.type for v in graph.inputs], [x.shape for x in held])
    return _run(graph, held, sizes)


def _run(graph: Graph, args: Sequence[np.ndarray[Any, Any]], sizes: Mapping[str, int]) -> list[np.ndarray[Any, Any]]:
    env: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        operands = [env[v] for v in node.inputs]
        if node.op == "call":
            outs: Any = tuple(_run(node.attrs["function"], operands, sizes))
        else:
            attrs = {k: _concrete(a, sizes) for k, a in node.attrs.items()}
            try:
                outs = OPS[node.op].reference(*operands, **attrs)
            except DalaError as error:
                if node.loc is not None:
                    error.location = node.loc.resolve()
                raise
            outs = outs if isinstance(outs, tuple) else (outs,)
        for v, x in zip(node.outputs, outs, strict=True):
            env[v] = to_numpy(x, v.type)
    return [env[v] for v in graph.outputs]


def _concrete(a: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(a, tuple):
        return tuple(evaluate(d, sizes) for d in a)
    return a


def run_op(spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
    """Runs one op on concrete arrays."""
    held = [to_numpy(x, _type_of(x)) for x in args]
    outs = spec.reference(*held, **attrs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    return [_result(x, t) for x, t in zip(outs, types, strict=True)]


def _type_of(x: Any) -> Type:
    return x._type if isinstance(x, Array) else Type(as_dtype(np.asarray(x).dtype), np.shape(x))


def _result(x: np.ndarray[Any, Any], t: Type) -> Array:
    return host_array(np.array(x), t.dtype)


class ReferenceExecutable:
    """A program that runs on NumPy."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state: dict[str, Any] = {
            path: program.tensors[path]
            for e in program.entries
            for a in e.args
            if (path := state_path(a.role)) is not None
        }

    def entry(self, name: str) -> int:
        """The index of an entry."""
        return [e.name for e in self.program.entries].index(name)

    def run(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """Runs an entry; arguments and results of the program's state are kept here."""
        e = self.program.entries[entry]
        given = iter(args)
        whole = [self.state[p] if (p := state_path(a.role)) is not None else next(given) for a in e.args]
        outs = run_graph(e.graph, whole)
        results = []
        news = {}
        for x, r, v in zip(outs, e.results, e.graph.outputs, strict=True):
            path = state_path(r.role)
            made = _result(x, v.type)
            if path is None:
                results.append(made)
            else:
                news[path] = made
        self.state.update(news)
        return results

    def get_state(self, path: str, type: Type) -> Array:
        """A tensor of the program's state."""
        x = self.state[path]
        return x if isinstance(x, Array) else host_array(np.array(x), type.dtype)

    def set_state(self, path: str, value: Any) -> None:
        """Replaces a tensor of the program's state."""
        self.state[path] = value


class ReferenceExecutor:
    """Runs programs on NumPy."""

    name = "reference"

    def load(self, program: Program) -> ReferenceExecutable:
        """A program ready to run."""
        return ReferenceExecutable(program)

    def run_op(self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
        """Runs one op."""
        return run_op(spec, args, attrs, types)

    def place(self, x: Any, dtype: Any) -> Array:
        """An array of this executor with a copy of ``x``."""
        return host_array(np.array(x.numpy() if isinstance(x, Array) else x), dtype)

    def share(self, x: Array) -> Array:
        """A second array over the same numbers."""
        return x
