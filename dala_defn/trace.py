"""Traces: values that record what is done to them.

A ``Trace`` makes one closed graph. Arrays from outside it (eager arrays, NumPy arrays, values of an enclosing trace)
become inputs of the graph, kept in ``captures``; nothing from outside is baked in.
"""

from __future__ import annotations

import gc
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.array import Array
from dala_defn.dtypes import DType
from dala_defn.errors import (
    ArgumentError,
    DalaError,
    EscapedTracerError,
    Operand,
    ShapeError,
    TraceError,
    install_describer,
)
from dala_defn.ir import Graph, Literal, Node, Type, Value
from dala_defn.ir.graph import frozen
from dala_defn.operators import Operators
from dala_defn.ops.random import SPLIT
from dala_defn.ops.spec import OPS, OpSpec
from dala_defn.shapes import Condition, Known, Shape, install_known, may, parse_dim, same_size
from dala_defn.sources import PACKAGE, Mark, Place, here


class Tracer(Operators):
    """A value inside a trace: it has a shape and a dtype, but no numbers yet."""

    __slots__ = ("_trace", "_value", "weak")

    def __init__(self, trace: Trace, value: Value, weak: str | None = None) -> None:
        self._trace = trace
        self._value = value
        self.weak = weak  # the kind of the Python number that it stands for, when it does

    @property
    def shape(self) -> Shape:
        """The sizes; ints or symbolic dims."""
        return self._value.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._value.type.dtype

    def __repr__(self) -> str:
        return f"<traced {self._value.type}>"

    def _refuse(self, what: str, hint: str) -> TraceError:
        return TraceError(
            f"{what} needs the numbers of an array, and while tracing there are none",
            operands=[describe(self, 0)],
            hint=hint,
        )

    def __bool__(self) -> bool:
        reason, instead = _explainers[0]() if _explainers else ("", "")
        error = self._refuse("a truth value", instead or "dd.where(condition, x, y) to choose between values")
        error.rule = reason
        raise error

    def __int__(self) -> int:
        raise self._refuse("int()", "x.astype(dd.int32) for a conversion, a static argument for a Python number")

    def __float__(self) -> float:
        raise self._refuse("float()", "x.astype(dd.float32) for a conversion, a static argument for a Python number")

    def __index__(self) -> int:
        raise self._refuse("use as an index or a size", "dd.take(x, i), or a static argument")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refuse("conversion to a NumPy array", "the function of this name in dala_defn")

    def item(self) -> Any:
        """Refused while tracing."""
        raise self._refuse("item()", "return the value from the function and read it there")

    def tolist(self) -> Any:
        """Refused while tracing."""
        raise self._refuse("tolist()", "return the value from the function and read it there")


class Trace:
    """One graph being made."""

    def __init__(self, name: str, parent: Trace | None = None) -> None:
        self.name = name
        self.parent = parent
        self.inputs: list[Value] = []
        self.captures: list[Any] = []
        self.nodes: list[Node] = []
        self.open = True
        self.located = True
        self.read: list[Any] = []  # arrays whose numbers were read outside the graph
        self.token: Tracer | None = None  # that of the last effect
        self.known: Known = Known() if parent is None else parent.known  # what holds of the sizes
        self._captured: dict[int, Tracer] = {}
        self._used: dict[Any, Node] = {}  # what drew from each key
        self._literals: dict[Literal, Tracer] = {}

    def argument(self, type: Type, name: str, weak: str | None = None) -> Tracer:
        """A new input."""
        value = Value(type, name)
        self.inputs.append(value)
        return Tracer(self, value, weak)

    def place(self) -> Place | None:
        """The source place of what is being recorded; none in a function that is shared, whose calls have theirs."""
        return here(_layers.path) if self.located else None

    def record(self, spec: OpSpec, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Tracer, ...]:
        """Adds a node; gives its outputs."""
        if spec.name == "constant":
            known = self._literals.get(attrs["value"])
            if known is not None:
                return (known,)
        values, given = [], []  # filled by a loop: a comprehension is a call
        for a in args:
            v = a._value if type(a) is Tracer and a._trace is self else self.lift(a)._value
            values.append(v)
            given.append(v.type)
        try:
            types = spec.infer(*given, **attrs)
        except DalaError as error:
            alike = self._alike(error, values, spec.name)
            if alike is not None:
                return self.record(spec, alike, attrs)
            raise explain(error, args) from None
        node = Node(spec.name, tuple(values), attrs, types, self.place())
        if spec.name == "random_bits" and type(self) is Trace:
            self._use(values[0], node)
        self.nodes.append(node)
        made = node.outputs
        outs = (Tracer(self, made[0]),) if len(made) == 1 else tuple([Tracer(self, v) for v in made])
        if spec.name == "constant":
            self._literals[attrs["value"]] = outs[0]
        return outs

    def _alike(self, error: DalaError, values: Sequence[Value], op: str) -> tuple[Tracer, ...] | None:
        """The operands with one size in the place of another, when an op needs them equal and they may be."""
        pair = error.details.get("unequal")
        if not isinstance(error, ShapeError) or pair is None:
            return None
        kept, other = sorted(map(parse_dim, pair), key=lambda d: not isinstance(d, int))
        if not same_size(kept, other, f"{op} of {' and '.join([str(v.type) for v in values])}"):
            return None
        out = []
        for v in values:
            shape = tuple([kept if d == other else d for d in v.type.shape])
            x = Tracer(self, v)
            out.append(x if shape == v.type.shape else self.record(OPS["reshape"], (x,), {"shape": shape})[0])
        return tuple(out)

    def copy(self, graph: Graph, inputs: Sequence[Value]) -> list[Tracer]:
        """Adds the nodes of a graph for inputs of its own types; gives its outputs. Types are not inferred again."""
        env = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            constant = node.op == "constant"
            if constant and (known := self._literals.get(node.attrs["value"])) is not None:
                env[node.outputs[0]] = known._value
                continue
            values = tuple([env[v] for v in node.inputs])
            types = [v.type for v in node.outputs]
            made = Node(node.op, values, node.attrs, types, self.place() if node.loc is None else node.loc)
            self.nodes.append(made)
            env.update(zip(node.outputs, made.outputs, strict=True))
            if constant:
                self._literals[node.attrs["value"]] = Tracer(self, made.outputs[0])
        return [Tracer(self, env[v]) for v in graph.outputs]

    def _use(self, key: Value, node: Node) -> None:
        """Notes that bits are drawn from a key.

        Raises:
            ArgumentError: when some were drawn from it before.
        """
        made = key.node
        if made is not None and made.op == "random_fold_in" and _identity(made.inputs[1]) == ("constant", SPLIT):
            key = made.inputs[0]  # to split a key is to use it
        before = self._used.setdefault(_identity(key), node)
        if before is not node and not reuse.allowed:
            at = None if before.loc is None else before.loc.resolve()
            raise ArgumentError(
                "a random key is used twice: both would give the same bits",
                code="E304",
                op="random_bits",
                operands=[
                    Operand("key", str(key.type), origin(key)),
                    Operand("used", "first", "" if at is None else f"at {at}: {at.source_line().strip()}"),
                ],
                rule="a key is used once, by a function that draws from it or by split",
                hint="a, b = dd.random.split(key), one for each; dd.random.allow_reuse() for equal numbers",
            )

    def lift(self, x: Any) -> Tracer:
        """Any operand as a value of this trace.

        Raises:
            EscapedTracerError: for a value of a trace that has ended.
            TraceError: for what is no array.
        """
        if type(x) is Tracer:
            if x._trace is self:
                return x
            if not x._trace.open:
                raise EscapedTracerError(
                    "a traced value is used after its trace has ended",
                    operands=[describe(x, 0)],
                    rule=f"values of the trace of {x._trace.name} live until it returns",
                    hint="return the value instead of storing it",
                )
        elif not isinstance(x, (Array, np.ndarray, np.generic)):
            if dtypes.weak_kind(x) is not None:
                dtype = dtypes.promote_weak(None, dtypes.weak_kind(x) or "")
                return self.lift(
                    self.record(OPS["constant"], (), {"value": Literal(dtypes.scalar_array(x, dtype), dtype)})[0]
                )
            raise TraceError(f"{type(x).__name__} is no array", code="E403")
        known = self._captured.get(id(x))
        if known is None:
            type_ = Type(dtypes.of_numpy(x) if not isinstance(x, (Array, Tracer)) else x.dtype, tuple(x.shape))
            known = self.argument(type_, "")
            self.captures.append(x)
            self._captured[id(x)] = known
        return known

    def finish(self, outputs: Sequence[Any]) -> Graph:
        """The graph with these outputs: arguments first, then captures."""
        values = [self.lift(x)._value for x in outputs]
        captured = {t._value for t in self._captured.values()}
        first = [v for v in self.inputs if v not in captured]
        last = [self._captured[id(c)]._value for c in self.captures]
        return Graph(self.name, first + last, self.nodes, values)


def _known() -> tuple[Known, Place | None] | None:
    trace = ops.current_trace()
    return (trace.known, trace.place()) if isinstance(trace, Trace) else None


install_known(_known)


def require(condition: Any) -> None:
    """Takes a condition on sizes for true from here on; calls of the function with other sizes are refused.

    Args:
        condition: a comparison of sizes, such as ``x.shape[0] % 4 == 0``.

    Raises:
        ShapeError: when it is false; for sizes that are not known while tracing, at the call, naming this line.
        TraceError: for a condition on values.

    Example:
        >>> @dd.defn
        ... def first(x: dd.Float32["n"]):
        ...     dd.require(x.shape[0] > 2)
        ...     return x[2]
        >>> first(dd.array([1.0, 2.0, 3.0]))
        array(3., dtype=float32)
    """
    if isinstance(condition, Tracer):
        raise TraceError(
            "dd.require is about sizes, and this is a traced value",
            operands=[describe(condition, 0)],
            hint="dd.debug.check(condition, message) for values",
        )
    if not (may(condition, "dd.require", alone=True) if isinstance(condition, Condition) else condition):
        raise ShapeError(f"{condition} does not hold" if isinstance(condition, Condition) else "it does not hold")


def _identity(value: Value) -> tuple[Any, ...]:
    """What a value is, as far as it tells keys apart: equal for those that are made alike."""
    node = value.node
    if node is None:
        return ("input", value)
    if node.op == "constant":
        literal = node.attrs["value"]
        return ("constant", literal.array.item() if literal.array.size == 1 else literal)
    if value.type.dtype.kind != "k" and node.op != "broadcast_to":
        return ("value", value)
    return (node.op, frozen(node.attrs), value.index, *[_identity(v) for v in node.inputs])


class _Reuse(threading.local):
    allowed = False


reuse = _Reuse()


class _Layers(threading.local):
    path = ""


_layers = _Layers()


def layer_path() -> str:
    """The names of the layers that are being called, joined by ``/``."""
    return _layers.path


@contextmanager
def name_scope(name: str) -> Iterator[None]:
    """Marks everything recorded inside with a layer's name."""
    before = _layers.path
    _layers.path = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        _layers.path = before


class _Growing:
    """While a graph grows, the collector of cycles would look at all of it again and again, and find nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[int] = set()
        self._enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._enabled = gc.isenabled()
            # By thread, not counted: what an interrupt leaves here, the next trace of the thread puts right.
            self._threads.add(threading.get_ident())
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if ops.current_trace() is not None:
            return
        with self._lock:
            self._threads.discard(threading.get_ident())
            if not self._threads and self._enabled:
                gc.enable()


growing = _Growing()


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Makes ``trace`` the innermost one; whatever happens, it is left and closed."""
    with growing:
        ops.push_trace(trace)
        try:
            yield trace
        finally:
            trace.open = False
            ops.pop_trace(trace)


_preparers: list[Callable[[Any], Any]] = []
_explainers: list[Callable[[], tuple[str, str]]] = []


def install_preparer(preparer: Callable[[Any], Any], explainer: Callable[[], tuple[str, str]]) -> None:
    """Hands in what makes a function of the user ready to be traced, and what tells why a condition was not."""
    _preparers[:] = [preparer]
    _explainers[:] = [explainer]


def prepared(f: Any) -> Any:
    """A function in the form in which it is traced."""
    return _preparers[0](f) if _preparers else f


def trace_function(
    f: Callable[..., Sequence[Any]],
    types: Sequence[Type],
    name: str,
    names: Sequence[str] = (),
    weak: Sequence[str | None] = (),
    located: bool = True,
    known: Known | None = None,
) -> tuple[Graph, list[Any]]:
    """The graph of ``f`` applied to values of these types, and what it captured.

    ``f`` takes one traced value per type and returns a sequence of values. The graph's inputs are the arguments, then
    the captures. Its nodes have source places unless it is not ``located``, or made inside one that is not.
    """
    parent = ops.current_trace()
    trace = Trace(name, parent if isinstance(parent, Trace) else None)
    trace.located = located and (trace.parent is None or trace.parent.located)
    if known is not None:
        trace.known = known
    with tracing(trace):
        args = [
            trace.argument(t, names[i] if i < len(names) else "", weak[i] if i < len(weak) else None)
            for i, t in enumerate(types)
        ]
        outputs = f(*args)
        graph = trace.finish(outputs)
    return graph, trace.captures


def inline(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Applies the nodes of a graph to values; gives its outputs. In a trace they are copied where the types agree."""
    trace = ops.current_trace()
    if isinstance(trace, Trace):
        lifted = [trace.lift(x) for x in args]
        if [x._value.type for x in lifted] == [v.type for v in graph.inputs]:
            return list(trace.copy(graph, [x._value for x in lifted]))
        args = lifted
    env: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        outs = ops.bind(OPS[node.op], tuple([env[v] for v in node.inputs]), node.attrs)
        if isinstance(trace, Trace) and node.loc is not None and trace.nodes and node.op != "constant":
            trace.nodes[-1].loc = node.loc
        env.update(zip(node.outputs, outs, strict=True))
    return [env[v] for v in graph.outputs]


_POSITIONS = ("left", "right")


def origin(value: Value) -> str:
    """Where a value was made."""
    if value.node is None:
        return f"argument {value.name}" if value.name else "an array from outside the function"
    place = "" if value.node.loc is None else f" made at {value.node.loc.resolve().short()}"
    return f"{value.node.attrs.get('composite') or value.node.op}(…){place}"


def describe(x: Any, position: int, of: int = 1) -> Operand:
    """An operand for an error message."""
    name = _POSITIONS[position] if of == 2 else f"operand {position}" if of > 1 else "value"
    if isinstance(x, Tracer):
        return Operand(name, str(x._value.type), origin(x._value))
    if dtypes.weak_kind(x) is not None:
        return Operand(name, type(x).__name__, repr(x))
    shape = getattr(x, "shape", None)
    if shape is None:
        return Operand(name, type(x).__name__)
    dtype = dtypes.as_dtype(x.dtype)
    return Operand(name, str(Type(dtype, tuple(shape))), "a concrete array")


_PUBLIC_FILES = tuple(f"{n}.py" for n in "operators nn special fft control custom debug".split())
_PUBLIC = tuple(PACKAGE + name for name in ("functions" + os.sep, "linalg" + os.sep, "random" + os.sep, *_PUBLIC_FILES))
_MOST_OPERANDS = 5


def given_operands(frame: FrameType) -> tuple[Operand, ...]:
    """The arrays that the user gave to a public function, by its frame."""
    code = frame.f_code
    if not code.co_filename.startswith(_PUBLIC):
        return ()
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    given = [(n, frame.f_locals[n]) for n in code.co_varnames[:count] if n in frame.f_locals]
    if code.co_name.startswith("__"):
        sides = {"other": "left" if code.co_name.startswith("__r") and code.co_name != "__rshift__" else "right"}
        pair = any(n == "other" for n, _ in given)
        sides["self"] = ("right" if sides["other"] == "left" else "left") if pair else "value"
        given = sorted([(sides[n], x) for n, x in given if n in sides and (n != "self" or _is_array(x))])
        return tuple([_named(describe(x, 0), n) for n, x in given])
    found: list[tuple[str, Any]] = []
    for name, x in given:
        if isinstance(x, (list, tuple)):
            found += [(f"{name}[{i}]", item) for i, item in enumerate(x[:_MOST_OPERANDS]) if _is_array(item)]
        elif _is_array(x):
            found.append(("value" if name == "self" else name, x))
    return tuple([_named(describe(x, 0), n) for n, x in found[:_MOST_OPERANDS]])


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tracer, Array, np.ndarray, np.generic))


def _named(operand: Operand, name: str) -> Operand:
    return replace(operand, name=name)


install_describer(given_operands)


def explain(error: DalaError, args: Sequence[Any]) -> DalaError:
    """Adds the operands to an error that has none."""
    if not error.operands:
        error.operands = tuple(describe(a, i, len(args)) for i, a in enumerate(args))
    return error


__all__ = [
    "Mark",
    "Trace",
    "Tracer",
    "describe",
    "explain",
    "inline",
    "name_scope",
    "origin",
    "require",
    "trace_function",
    "tracing",
]
