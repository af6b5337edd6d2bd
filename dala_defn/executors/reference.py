"""The NumPy reference: each op by its entry in the table. Slow, exact, and independent of the native library."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from dala_defn.array import Array, host_array
from dala_defn.dtypes import as_dtype, as_pairs, from_pairs
from dala_defn.errors import DalaError, OutOfMemory, ShapeError
from dala_defn.executors import limits
from dala_defn.ir import Graph, Node, Type, Value
from dala_defn.ir.graph import graphs_in
from dala_defn.ir.program import Bounds, Entry, Program, state_path
from dala_defn.ops.random import KEY_RECORD, pack_keys
from dala_defn.ops.spec import OPS, OpSpec
from dala_defn.shapes import DimExpr, evaluate, show


def to_numpy(x: Any, t: Type) -> np.ndarray[Any, Any]:
    """An operand as the reference holds it: keys are records."""
    out = x.numpy() if isinstance(x, Array) else np.asarray(x)
    if out.dtype.kind == "c" and t.dtype.kind == "f":
        return as_pairs(out)
    return pack_keys(out) if t.dtype.kind == "k" and out.dtype != KEY_RECORD else out


def bind_dims(
    types: Sequence[Type], shapes: Sequence[Sequence[int]], bounds: Mapping[str, Bounds] | None = None
) -> dict[str, int]:
    """The sizes of named dims, from actual shapes.

    Raises:
        ShapeError: when an argument does not fit its type, or a size its bounds.
    """
    sizes: dict[str, int] = {}
    for t, shape in zip(types, shapes, strict=True):
        if len(t.shape) == len(shape):
            for d, n in zip(t.shape, shape, strict=True):
                name = d.as_name() if isinstance(d, DimExpr) else None
                if name is not None:
                    sizes.setdefault(name, n)
    for t, shape in zip(types, shapes, strict=True):
        fits = len(t.shape) == len(shape) and all(
            evaluate_dim(d, sizes) == n for d, n in zip(t.shape, shape, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"an argument has the shape {show(tuple(shape))}, not {show(t.shape)}", details=dict(sizes)
            )
    for name, (low, high) in (bounds or {}).items():
        if name in sizes and not low <= sizes[name] <= (sizes[name] if high is None else high):
            top = "" if high is None else high
            raise ShapeError(f"dim {name} is {sizes[name]}, outside {low}..{top}", details={name: sizes[name]})
    return sizes


def run_graph(
    graph: Graph, args: Sequence[Any], memory_limit: int | None = None, bounds: Mapping[str, Bounds] | None = None
) -> list[np.ndarray[Any, Any]]:
    """Runs a graph on NumPy arrays (keys as records); gives its outputs as such.

    Raises:
        OutOfMemory: when it would hold more than ``memory_limit`` bytes (four fifths of the machine's by default).
    """
    held = [to_numpy(x, v.type) for x, v in zip(args, graph.inputs, strict=True)]
    sizes = bind_dims([v.type for v in graph.inputs], [x.shape for x in held], bounds)
    limit = min(_physical_memory() * 4 // 5 if memory_limit is None else memory_limit, limits.of_thread())
    needed = _bytes(graph, sizes, {})
    if needed > limit:
        raise OutOfMemory(f"the run would hold {needed} bytes, the limit is {limit}", details={"needed": needed})
    if sizes:
        _retype(graph, sizes)
    return _run(graph, held, sizes)


def _retype(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Infers all types again with the sizes of a run: what holds for some sizes only is decided here.

    Raises:
        ShapeError: at the place of the first op that does not take its operands.
    """
    for g in [*graph.functions(), graph]:
        for node in g.nodes:
            if any(graphs_in(a) for a in node.attrs.values()):
                continue
            try:
                OPS[node.op].infer(
                    *[_concrete(v.type, sizes) for v in node.inputs],
                    **{k: _concrete(a, sizes) for k, a in node.attrs.items()},
                )
            except DalaError as error:
                if node.loc is not None:
                    error.place(node.loc.resolve())
                raise


@cache
def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize


def _bytes(graph: Graph, sizes: Mapping[str, int], known: dict[int, int]) -> int:
    """The bytes of all values of a graph, which are held until it ends."""
    if id(graph) not in known:
        total = 0
        for node in graph.nodes:
            for v in node.outputs:
                extents = [_size(d, sizes, node) for d in v.type.shape]
                total += math.prod(extents) * v.type.dtype.itemsize
                # NumPy and the runtime refuse such a shape even where an axis is empty.
                if math.prod([n or 1 for n in extents]) * v.type.dtype.itemsize >= 2**62:
                    raise OutOfMemory(f"{node.op}: an array of shape {show(tuple(extents))}", op=node.op)
            if "low" in node.attrs:
                total += _padded(node, sizes)
            total += sum(_bytes(g, sizes, known) for a in node.attrs.values() for g in graphs_in(a))
        known[id(graph)] = total
    return known[id(graph)]


def _padded(node: Node, sizes: Mapping[str, int]) -> int:
    """The bytes of the first operand once it is padded; the edges are those of its last axes but perhaps one."""
    t = node.inputs[0].type
    edges = [
        _size(a, sizes, node) + _size(b, sizes, node)
        for a, b in zip(node.attrs["low"], node.attrs["high"], strict=True)
    ]
    extents = [_size(d, sizes, node) for d in t.shape]
    at = 0 if len(edges) == len(extents) else 1
    for i, edge in enumerate(edges[: len(extents) - at]):
        extents[at + i] += edge
    return math.prod(extents) * t.dtype.itemsize


def _size(d: Any, sizes: Mapping[str, int], node: Node) -> int:
    n = evaluate_dim(d, sizes)
    if n < 0:
        raise ShapeError(
            f"{node.op}: the size {d} is {n}",
            op=node.op,
            details=dict(sizes),
            location=None if node.loc is None else node.loc.resolve(),
        )
    return n


def evaluate_dim(d: Any, sizes: Mapping[str, int]) -> int:
    """The number that a dim stands for.

    Raises:
        ShapeError: when it has none.
    """
    try:
        return evaluate(d, sizes)
    except KeyError as error:
        raise ShapeError(f"the size {d} is not known: no argument has an axis of size {error.args[0]}") from None
    except ZeroDivisionError:
        raise ShapeError(f"the size {d} divides by 0", details=dict(sizes)) from None


def _run(graph: Graph, args: Sequence[np.ndarray[Any, Any]], sizes: Mapping[str, int]) -> list[np.ndarray[Any, Any]]:
    env: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        operands = [env[v] for v in node.inputs]
        attrs = {k: _concrete(a, sizes) for k, a in node.attrs.items()}
        try:
            outs: Any = OPS[node.op].reference(*operands, **attrs)
        except DalaError as error:
            if node.loc is not None:
                error.place(node.loc.resolve())
            raise
        outs = outs if isinstance(outs, tuple) else (outs,)
        for v, x in zip(node.outputs, outs, strict=True):
            env[v] = to_numpy(x, v.type)
    return [env[v] for v in graph.outputs]


class Function:
    """A graph as the references of ops that hold one see it: on arrays, with the types of its results."""

    def __init__(self, graph: Graph, sizes: Mapping[str, int]) -> None:
        self.graph = graph
        self.sizes = sizes

    @property
    def types(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """The shape and the dtype of each result."""
        return [
            (tuple([evaluate_dim(d, self.sizes) for d in v.type.shape]), _held_dtype(v.type))
            for v in self.graph.outputs
        ]

    def __call__(self, *args: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        """Runs it."""
        return tuple(_run(self.graph, args, self.sizes))


def _held_dtype(t: Type) -> np.dtype[Any]:
    return KEY_RECORD if t.dtype.kind == "k" else t.dtype.dtype


def _concrete(a: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(a, Graph):
        return Function(a, sizes)
    if isinstance(a, Type):
        return Type(a.dtype, tuple([evaluate_dim(d, sizes) for d in a.shape]))
    if isinstance(a, tuple):
        return tuple([_concrete(x, sizes) if isinstance(x, (Graph, Type)) else evaluate_dim(x, sizes) for x in a])
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
    return host_array(from_pairs(x).copy() if t.dtype.kind == "c" and x.dtype.kind == "f" else np.array(x), t.dtype)


def _place_of(node: Node) -> dict[str, Any] | None:
    return None if node.loc is None else node.loc.resolve().to_dict()


class ReferenceExecutable:
    """A program that runs on NumPy."""

    def __init__(self, program: Program, memory_limit: int | None = None) -> None:
        self.program = program
        self.memory_limit = memory_limit
        self.state: dict[str, Any] = {
            path: program.tensors[path]
            for e in program.entries
            for a in e.args
            if (path := self.path(a.role)) is not None
        }

    def path(self, role: str) -> str | None:
        """The name under which the tensor of a state role stands: one tensor may have several."""
        path = state_path(role)
        return None if path is None else self.program.aliases.get(path, path)

    def entry(self, name: str) -> int:
        """The index of an entry."""
        return [e.name for e in self.program.entries].index(name)

    def run(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """Runs an entry; arguments and results of the program's state are kept here."""
        e = self.program.entries[entry]
        given = iter(args)
        whole = [self.state[p] if (p := self.path(a.role)) is not None else next(given) for a in e.args]
        outs = run_graph(e.graph, whole, self.memory_limit, self.program.dims)
        results = []
        shown = iter(types)
        news = {}
        for x, r, v in zip(outs, e.results, e.graph.outputs, strict=True):
            path = self.path(r.role)
            if path is None:
                results.append(_result(x, next(shown)))
            else:
                news[path] = _result(x, v.type)
        self.state.update(news)
        return results

    once = run

    def prepare(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> Callable[[Sequence[Any]], list[Array] | None] | None:
        """``run`` with the entry given: there is nothing to prepare."""
        return lambda args: self.run(entry, args, types, donate)

    def memory(self, entry: int, given: Sequence[tuple[Type, str]]) -> Mapping[str, Any]:
        """What memory a run holds: all values, until it ends."""
        e = self.program.entries[entry]
        callers = iter([t for t, _ in given])
        types = [
            t if self.path(a.role) is not None else next(callers) for a, t in zip(e.args, e.arg_types(), strict=True)
        ]
        sizes = bind_dims(e.arg_types(), [[evaluate_dim(d, {}) for d in t.shape] for t in types], self.program.dims)
        size_of = lambda t: math.prod(evaluate_dim(d, sizes) for d in t.shape) * t.dtype.itemsize  # noqa: E731
        arguments = sum(map(size_of, types))
        made = [(size_of(v.type), n, _concrete(v.type, sizes)) for n in e.graph.nodes for v in n.outputs]
        made.sort(key=lambda b: -b[0])
        buffers = [
            {"bytes": size, "role": "value", "name": n.op, "type": str(t), "location": _place_of(n)}
            for size, n, t in made
        ]
        return {
            "peak": arguments + _bytes(e.graph, sizes, {}),
            "arguments": arguments,
            "constants": 0,
            "results": sum(size_of(v.type) for v in e.graph.outputs if v.node is not None),
            "at": None,
            "buffers": buffers[:16],
            "others": {"count": len(buffers[16:]), "bytes": sum(b[0] for b in made[16:])},
        }

    def limit_memory(self, limit: int) -> None:
        """Refuses, from now on, runs that would hold more bytes at a time."""
        self.memory_limit = limit if self.memory_limit is None else min(limit, self.memory_limit)

    def get_state(self, path: str, type: Type) -> Array:
        """A tensor of the program's state."""
        x = self.state[self.program.aliases.get(path, path)]
        return _result(x.numpy() if isinstance(x, Array) else x, type)

    def set_state(self, path: str, value: Any) -> None:
        """Replaces a tensor of the program's state."""
        self.state[self.program.aliases.get(path, path)] = value


class ReferenceExecutor:
    """Runs programs on NumPy; a run that would hold more than ``memory_limit`` bytes is refused."""

    name = "reference"

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit

    def load(self, program: Program) -> ReferenceExecutable:
        """A program ready to run."""
        return ReferenceExecutable(program, self.memory_limit)

    def executed(self, entry: Entry) -> Graph:
        """The graph of an entry as it is run."""
        return entry.graph

    def run_op(self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
        """Runs one op."""
        return run_op(spec, args, attrs, types)

    def place(self, x: Any, dtype: Any) -> Array:
        """An array of this executor with a copy of ``x``."""
        return host_array(np.array(x.numpy() if isinstance(x, Array) else x), dtype)

    def share(self, x: Array) -> Array:
        """A second array over the same numbers."""
        return x
