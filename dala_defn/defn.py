"""``@defn``: trace once per signature, compile, and run with one call into the runtime."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType
from typing import Any, Protocol

import numpy as np

from dala_defn import composites, dtypes, ops, trees
from dala_defn.array import Array, host_array
from dala_defn.artifacts import dims_of, write_program
from dala_defn.captures import ByInstance, Captured, exact, weak
from dala_defn.errors import ArgumentError, ArgumentTypeError, DalaError, EscapedTracerError, ShapeError, leave
from dala_defn.ir import Graph, Type
from dala_defn.ir.codec import relative_file
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops.spec import OpSpec
from dala_defn.passes.pipeline import compile_passes
from dala_defn.shapes import DimExpr, as_shape
from dala_defn.sources import Location
from dala_defn.trace import Tracer, explain, trace_function

CACHE = 128


class Executable(Protocol):
    """A loaded program."""

    def entry(self, name: str) -> int:
        """The index of an entry."""
        ...

    def run(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """One run."""
        ...

    def get_state(self, path: str, type: Type) -> Array:
        """A tensor of the program's state."""
        ...

    def set_state(self, path: str, value: Any) -> None:
        """Replaces a tensor of the program's state."""
        ...


class Executor(Protocol):
    """What runs programs and single ops."""

    name: str

    def load(self, program: Program) -> Executable:
        """A program ready to run."""
        ...

    def run_op(self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
        """Runs one op on concrete arrays."""
        ...

    def place(self, x: Any, dtype: Any) -> Array:
        """A copy of an array where this executor keeps its own."""
        ...

    def share(self, x: Array) -> Array:
        """A second array over the same numbers."""
        ...


_executors: dict[str, Executor] = {}
_lock = threading.Lock()


class _Current(threading.local):
    name: str | None = None


_current = _Current()


def executor(name: str | None = None) -> Executor:
    """The executor of this name: ``"flex"`` (Burn on the CPU) or ``"reference"`` (NumPy).

    Without a name, the one chosen by ``using``, else by the variable ``DALA_EXECUTOR``, else ``"flex"``.
    """
    name = name or _current.name or os.environ.get("DALA_EXECUTOR") or "flex"
    found = _executors.get(name)
    if found is None:
        with _lock:
            found = _executors.get(name)
            if found is None:
                found = _executors[name] = _make_executor(name)
    return found


def _make_executor(name: str) -> Executor:
    if name == "reference":
        from dala_defn.executors.reference import ReferenceExecutor

        return ReferenceExecutor()
    if name == "flex":
        from dala_defn.executors.burn import BurnExecutor

        return BurnExecutor(name)
    raise ArgumentError(f"there is no executor {name!r}", hint='"flex" or "reference"')


@contextmanager
def using(name: str) -> Iterator[None]:
    """Runs everything inside, in this thread, on another executor.

    Example:
        >>> with dd.using("reference"):
        ...     y = dd.exp(dd.array([0.0]))
    """
    before = _current.name
    executor(name)
    _current.name = name
    try:
        yield
    finally:
        _current.name = before


class TensorSpec:
    """The shape and dtype of an array that is not there; sizes may be names or expressions such as ``"2*b"``."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str = "") -> None:
        self.shape = as_shape(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @property
    def type(self) -> Type:
        """As a type of the IR."""
        return Type(self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"spec({self.type})"


def spec(shape: Any, dtype: Any = dtypes.float32, name: str = "") -> TensorSpec:
    """Stands for an array of this shape and dtype in ``lower``, ``compile`` and ``export``.

    Example:
        >>> dd.spec(("b", 784), dd.float32)
        spec(f32[b, 784])
    """
    return TensorSpec(shape, dtype, name)


def type_of(x: Any, path: str) -> tuple[Type, str | None]:
    """The type of an argument's leaf, and its kind when it is a Python number (weak).

    Raises:
        ArgumentTypeError: when it is no array.
    """
    if isinstance(x, Tracer) and ops.current_trace() is None:
        raise explain(_escaped(x), (x,))
    if isinstance(x, (Array, Tracer)):
        return Type(x.dtype, tuple(x.shape)), x.weak if isinstance(x, Tracer) else None
    if isinstance(x, (np.ndarray, np.generic)):
        return Type(dtypes.as_dtype(x.dtype), np.shape(x)), None
    if isinstance(x, TensorSpec):
        return x.type, None
    kind = dtypes.weak_kind(x)
    if kind is not None:
        return Type(dtypes.promote_weak(None, kind), ()), kind
    raise ArgumentTypeError(
        f"argument {path} is a {type(x).__name__}, which is no array",
        hint=f"@defn(static_argnames=({path.split('/')[0]!r},)) for a value that is part of the program",
    )


class Traced:
    """One trace of a function: its graph, its captures, and how results are put together."""

    def __init__(self, defn: Defn, bound: _Bound) -> None:
        self.names = bound.names
        self.types = [type_of(x, n)[0] for x, n in zip(bound.leaves, bound.names, strict=True)]
        weak = [type_of(x, n)[1] for x, n in zip(bound.leaves, bound.names, strict=True)]
        shape: list[trees.Tree] = []
        paths: list[str] = []

        def body(*leaves: Any) -> list[Any]:
            out = defn.call_with(bound, leaves)
            flat = trees.flatten_with_paths(out)
            for path, leaf in flat:
                if not isinstance(leaf, (Tracer, Array, np.ndarray, np.generic)) and dtypes.weak_kind(leaf) is None:
                    raise ArgumentTypeError(
                        f"{defn.__name__} returns a {type(leaf).__name__} at {trees.show_path(path) or 'its top'}, "
                        "which is no array",
                        rule="results are arrays, numbers, or dicts, lists, tuples and dataclasses of them",
                    )
            shape.append(trees.flatten(out)[1])
            paths.extend(trees.show_path(p) or "0" for p, _ in flat)
            return [leaf for _, leaf in flat]

        self.graph, self.captures = trace_function(body, self.types, defn.__name__, bound.names, weak)
        self.tree = shape[0]
        self.result_names = paths
        self.captured = Captured(defn.f, self.captures)

    def entry(self, name: str, donate: Sequence[bool], graph: Graph | None = None) -> Entry:
        """The trace as an entry of a program; captures come last, as arguments."""
        g = graph or self.graph
        given = [*donate, *(False for _ in self.captures)]
        names = [*self.names, *(f"captured_{i}" for i in range(len(self.captures)))]
        args = tuple(
            Arg(n, "key" if v.type.dtype.kind == "k" else "arg", d)
            for n, d, v in zip(names, given, g.inputs, strict=True)
        )
        return Entry(name, g, args, tuple(Result(n) for n in self.result_names)).shown_as(self.graph)


class Compiled:
    """A trace, compiled: call it with leaves in order, or through the ``Defn`` that made it."""

    def __init__(self, traced: Traced, donate: Sequence[bool], runner: Executor) -> None:
        self.traced = traced
        self.graph = compile_passes(traced.graph)
        entry = traced.entry("main", donate, self.graph)
        self.program = Program((entry,), dims_of([entry]))
        self.executable = runner.load(self.program)
        self.index = self.executable.entry("main")
        self.results = [v.type for v in traced.graph.outputs]
        self.donate = [*donate, *(False for _ in traced.captures)] if any(donate) else None
        self.single = self.traced.tree == trees.flatten(0)[1]
        self.simple = traced.captured.simple

    def run(self, leaves: list[Any], captures: list[Any]) -> Any:
        """One run; one call into the runtime."""
        args = leaves if not captures else leaves + captures
        try:
            outs = self.executable.run(self.index, args, self.results, self.donate)
        except DalaError as error:
            error.location = self._place(error.location)
            raise
        return outs[0] if self.single else trees.unflatten(self.traced.tree, outs)

    def fast_call(self, args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], tuple[Any] | None] | None:
        """A call with everything prepared, for positional arrays like these; it gives ``None`` when it does not fit."""
        make = getattr(self.executable, "caller", None)
        if make is None or self.donate is not None or len(self.traced.types) != len(args):
            return None
        host = [not isinstance(x, Array) for x in (*args, *self.traced.captures)]
        caller = make(self.index, [v.type for v in self.graph.inputs], host, self.results)
        if caller is None:
            return None
        captured, simple, tree = self.traced.captured, self.simple, None if self.single else self.traced.tree

        def call(args: tuple[Any, ...]) -> tuple[Any] | None:
            if not simple:
                captures = captured.current()
                if captures is None:
                    return None
                args = (*args, *captures)
            try:
                outs = caller(args)
            except DalaError as error:
                error.location = self._place(error.location)
                raise
            if outs is None or tree is None:
                return outs
            return (trees.unflatten(tree, outs),)

        return call

    def _place(self, told: Location | None) -> Location | None:
        """The place that the runtime tells, with the whole path of its file: programs hold the end of it only."""
        if told is None:
            return None
        for graph in [self.graph, *self.graph.functions()]:
            for node in graph.nodes:
                at = None if node.loc is None else node.loc.resolve()
                if (
                    at is not None
                    and told is not None
                    and told == replace(at, file=told.file)
                    and relative_file(at.file) == told.file
                ):
                    return at
        return told

    def __call__(self, *args: Any) -> Any:
        """Runs on arrays that fit the compiled types.

        Raises:
            ShapeError: when an argument does not fit.
        """
        leaves = trees.flatten(args)[0]
        if len(leaves) != len(self.traced.types):
            raise ArgumentTypeError(f"{len(self.traced.types)} arrays are taken, not {len(leaves)}")
        for name, want, x in zip(self.traced.names, self.traced.types, leaves, strict=True):
            have = type_of(x, name)[0]
            if have.dtype is not want.dtype and dtypes.weak_kind(x) is None:
                raise ArgumentTypeError(f"argument {name} is {have}, compiled for {want}")
            if have.ndim != want.ndim or any(
                isinstance(d, int) and d != n for d, n in zip(want.shape, have.shape, strict=True)
            ):
                raise ShapeError(f"argument {name} is {have}, compiled for {want}")
        captures = self.traced.captured.current()
        if captures is None:
            raise ArgumentError("what the function captured has changed since it was compiled", hint="compile again")
        return self.run([as_operand(x, t) for x, t in zip(leaves, self.traced.types, strict=True)], captures)


def as_operand(x: Any, t: Type) -> Any:
    """A leaf as the executor takes it: Python numbers become arrays of rank 0."""
    return dtypes.scalar_array(x, t.dtype) if dtypes.weak_kind(x) is not None else x


class _Bound:
    """The arguments of a call, sorted into traced leaves and static values."""

    __slots__ = ("donate", "dynamic", "key", "leaves", "names", "statics", "tree")

    def __init__(self, defn: Defn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            given = defn.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(f"{defn.__name__}{defn.signature}: {error}") from None
        given.apply_defaults()
        dynamic: dict[str, Any] = {}
        self.statics: dict[str, Any] = {}
        for name, x in given.arguments.items():
            (self.statics if name in defn.static else dynamic)[name] = x
        # In the order of the signature: a dict would be sorted by name, and leaves would not be in the call's order.
        self.dynamic = tuple(dynamic)
        values = tuple(dynamic.values())
        paths = [(self.dynamic[path[0]], *path[1:]) for path, _ in trees.flatten_with_paths(values)]
        self.names = [trees.show_path(path) for path in paths]
        self.leaves, self.tree = trees.flatten(values)
        self.donate = [path[0] in defn.donate for path in paths]
        for name, x in self.statics.items():
            try:
                hash(x)
            except TypeError:
                raise ArgumentTypeError(
                    f"static argument {name} is not hashable: {type(x).__name__}", hint="a tuple for a list"
                ) from None
        types = tuple([type_of(x, n) for x, n in zip(self.leaves, self.names, strict=True)])
        statics = tuple((k, exact(v)) for k, v in self.statics.items())
        self.key = (self.dynamic, self.tree, types, statics)


class Defn:
    """A function that is traced, compiled per signature, and run by an executor. Made by ``@defn``.

    Attributes:
        traces: how often it was traced so far.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        static_argnames: str | Sequence[str] = (),
        donate_argnames: str | Sequence[str] = (),
        executor: str | None = None,
    ) -> None:
        # Without the function's __dict__, which for a wrapper of ours would be all that it knows.
        functools.update_wrapper(self, f, updated=())
        self.__name__: str = getattr(f, "__name__", type(f).__name__).replace("<lambda>", "lambda")
        self._f = f
        self._owner: Callable[[], Any] | None = None
        self.signature = inspect.signature(f)
        self.static = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)
        if isinstance(f, composites.Composite):
            self.static |= frozenset(f.keywords)
        self.donate = frozenset([donate_argnames] if isinstance(donate_argnames, str) else donate_argnames)
        for name in self.static | self.donate:
            if name not in self.signature.parameters:
                raise ArgumentError(f"{self.__name__} has no argument {name!r}")
        self.executor = executor
        self.traces = 0
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()
        self._fast: dict[Any, Callable[[tuple[Any, ...]], tuple[Any] | None]] = {}
        self._lock = threading.RLock()
        self._methods: ByInstance[Defn] = ByInstance()
        parameters = self.signature.parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        plain = all(p.kind in kinds for p in parameters)
        self._arity = len(self.signature.parameters) if plain and not self.static else -1

    @property
    def f(self) -> Callable[..., Any]:
        """The function itself; for a method, bound to its object."""
        return self._f if self._owner is None else MethodType(self._f, self._owner())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self._f, "__get__"):
            return self
        return Method(self._methods.get(instance, self._bound), instance)

    def _bound(self, instance: Any) -> Defn:
        """The function as a method of one object, which it does not keep alive."""
        options = {"static_argnames": tuple(self.static), "donate_argnames": tuple(self.donate)}
        found = Defn(self._f.__get__(instance), executor=self.executor, **options)
        found._f = found.__wrapped__ = self._f  # type: ignore[attr-defined]
        found._owner = weak(instance)
        return found

    def __repr__(self) -> str:
        return f"<defn {self.__name__}{self.signature}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function; the first call with a new signature traces and compiles it."""
        try:
            return self._call(args, kwargs)
        except DalaError as error:
            leave(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if ops.current_trace() is not None:
            return self._in_trace(args, kwargs)
        if not kwargs and len(args) == self._arity:
            key = self._fast_key(args)
            if key is not None:
                call = self._fast.get(key)
                if call is not None:
                    out = call(args)
                    if out is not None:
                        return out[0]
        return self._slow(args, kwargs)

    def _fast_key(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        key: list[Any] = [_current.name]
        for x in args:
            kind = type(x)
            if kind is Array:
                key.append(x._type)
            elif kind is np.ndarray:
                key.append(x.dtype)
                key.append(x.shape)
            else:
                return None
        return tuple(key)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = _Bound(self, args, kwargs)
        runner = executor(self.executor)
        key = (bound.key, runner.name)
        with self._lock:
            compiled = self._compiled.get(key)
            captures = None if compiled is None else compiled.traced.captured.current()
            if compiled is None or captures is None:
                compiled = Compiled(self.trace(bound), bound.donate, runner)
                captures = list(compiled.traced.captures)
                self._compiled[key] = compiled
                while len(self._compiled) > CACHE:
                    self._compiled.popitem(last=False)
                    self._fast.clear()
            if not kwargs and len(args) == self._arity:
                fast = self._fast_key(args)
                if fast is not None and (call := compiled.fast_call(args)) is not None:
                    self._fast[fast] = call
        leaves = [as_operand(x, t) for x, t in zip(bound.leaves, compiled.traced.types, strict=True)]
        return compiled.run(leaves, captures)

    def call_with(self, bound: _Bound, leaves: Sequence[Any]) -> Any:
        """The function itself, applied to these leaves in the place of the call's."""
        dynamic = zip(bound.dynamic, trees.unflatten(bound.tree, leaves), strict=True)
        arguments = {**dict(dynamic), **bound.statics}
        ordered = inspect.BoundArguments(
            self.signature, OrderedDict((k, arguments[k]) for k in self.signature.parameters if k in arguments)
        )
        return self.f(*ordered.args, **ordered.kwargs)

    def trace(self, bound: _Bound) -> Traced:
        """Traces the function once."""
        self.traces += 1
        return Traced(self, bound)

    def _in_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = _Bound(self, args, kwargs)
        traced = self.trace(bound)
        attrs = {"function": traced.graph, "composite": ""}
        operands = [as_operand(x, t) for x, t in zip(bound.leaves, traced.types, strict=True)]
        outs = ops.bind(ops.OPS["call"], (*operands, *traced.captures), attrs)
        return trees.unflatten(traced.tree, outs)

    def lower(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments, as traced; arrays or ``spec``s. Its ``str`` is the text form."""
        return self.trace(_Bound(self, args, kwargs)).graph

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for these arguments or specs, ready to be called with arrays that fit."""
        bound = _Bound(self, args, kwargs)
        return Compiled(self.trace(bound), bound.donate, executor(self.executor))

    def export(self, path: str | os.PathLike[str], *specs: Any, **kwargs: Any) -> None:
        """Writes the function for these specs (or arrays) to a ``.dala`` file with the entry ``main``.

        Arrays that the function captured are stored in it.

        Example:
            >>> f.export("f.dala", dd.spec(("b", 8)))
        """
        bound = _Bound(self, specs, kwargs)
        traced = self.trace(bound)
        entry = traced.entry("main", [False] * len(bound.leaves), compile_passes(traced.graph))
        args, tensors = list(entry.args), {}
        for i, x in enumerate(traced.captures):
            name = f"captured/{i}"
            tensors[name] = np.asarray(x)
            at = len(bound.leaves) + i
            args[at] = replace(args[at], role=f"state:{name}")
        entry = Entry("main", entry.graph, tuple(args), entry.results)
        write_program(path, Program((entry,), dims_of([entry]), tensors))


class Method:
    """A ``Defn`` together with the object that it is a method of."""

    __slots__ = ("_defn", "_instance")

    def __init__(self, defn: Defn, instance: Any) -> None:
        self._defn = defn
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method."""
        return self._defn(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._defn, name)

    def __repr__(self) -> str:
        return repr(self._defn)


def defn(
    f: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    donate_argnames: str | Sequence[str] = (),
    executor: str | None = None,
) -> Any:
    """Compiles a function over arrays.

    Arguments may be arrays, Python numbers, and nested dicts, lists, tuples, namedtuples and dataclasses of them.
    Arrays that the function finds outside itself become hidden inputs and are read again at each call.

    Args:
        static_argnames: arguments that are part of the program: hashable values, one trace for each.
        donate_argnames: arguments whose arrays give their storage to the call and cannot be used afterwards.
        executor: ``"flex"`` or ``"reference"`` for this function; otherwise as ``dd.using`` says.

    Raises:
        ShapeError, DTypeError, ArgumentTypeError: while tracing, with the line of the function that is wrong.

    Example:
        >>> @dd.defn
        ... def f(x):
        ...     return x * 2 + 1
        >>> f(dd.array([1.0, 2.0]))
        array([3., 5.], dtype=float32)
    """
    options = {"static_argnames": static_argnames, "donate_argnames": donate_argnames, "executor": executor}
    if f is None:
        return lambda g: Defn(g, **options)  # type: ignore[arg-type]
    return Defn(f, **options)  # type: ignore[arg-type]


def run_eager(op: OpSpec, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Runs one op on concrete arrays: the handler of ``bind`` outside traces."""
    if op.name == "constant":
        literal = attrs["value"]
        return (host_array(literal.array, literal.dtype),)
    for i, x in enumerate(args):
        if isinstance(x, Tracer):
            raise explain(_escaped(x), (x,)) from None
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


def _escaped(x: Tracer) -> DalaError:
    return EscapedTracerError(
        "a traced value is used after its trace has ended", hint="return the value instead of storing it"
    )


_composites: dict[composites.Composite, Defn] = {}


def run_composite(c: composites.Composite, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Runs a composite on concrete arrays, as a small cached ``@defn``."""
    found = _composites.get(c)
    if found is None:
        found = _composites[c] = Defn(c.f, static_argnames=c.keywords)
    return found(*args, **attrs)


ops.install_eager(run_eager)
composites.install_runner(run_composite)
