"""``@defn``: trace once per signature, compile, and run with one call into the runtime."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np

from dala_defn import composites, ops, trees
from dala_defn.arguments import Arguments, Bound, as_operand
from dala_defn.artifacts import dims_of, write_program
from dala_defn.captures import ByInstance, weak
from dala_defn.compiled import Compiled, Traced
from dala_defn.errors import DalaError, RetraceError, leave
from dala_defn.executors import Executor, executor
from dala_defn.explain import MOST, CacheInfo, Difference, Explanation, TraceRecord, closest, signature_of
from dala_defn.ir import Graph
from dala_defn.ir.program import Arg, Entry, Program
from dala_defn.memory import MemoryPlan, bytes_of
from dala_defn.nans import watch
from dala_defn.passes.facts import with_facts
from dala_defn.passes.pipeline import compile_passes
from dala_defn.plans import MISS, Plan, Writer
from dala_defn.pyflow import rewriting

CACHE = 128  # programs of a function
PLANS = 256  # prepared calls of a function
ALIKE = 8  # prepared calls for arguments that look alike at first sight


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
        rewrite: bool = True,
        max_traces: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        # Without the function's __dict__, which for a wrapper of ours would be all that it knows.
        functools.update_wrapper(self, f, updated=())
        self.__name__: str = getattr(f, "__name__", type(f).__name__).replace("<lambda>", "lambda")
        self._f = f
        self.rewrite = rewrite
        self.max_traces = max_traces
        self.memory_limit = None if memory_limit is None else bytes_of(memory_limit)
        self._owner: Callable[[], Any] | None = None
        static = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
        if isinstance(f, composites.Composite):
            static.update(f.keywords)
        donate = {donate_argnames} if isinstance(donate_argnames, str) else set(donate_argnames)
        self.arguments = Arguments(f, self.__name__, static, donate)
        self.executor = executor
        self.traces = 0
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()
        self._plans: dict[Any, tuple[Plan, ...]] = {}
        self._last: Plan = _no_plan
        self._lock = threading.RLock()
        self._methods: ByInstance[Defn] = ByInstance()
        self._records: deque[TraceRecord] = deque(maxlen=MOST)
        self._calls_traced = 0
        _living.add(self)

    @property
    def signature(self) -> inspect.Signature:
        """The arguments that it takes."""
        return self.arguments.signature

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
        options: dict[str, Any] = {"executor": self.executor, "rewrite": self.rewrite, "max_traces": self.max_traces}
        options["memory_limit"] = self.memory_limit
        options["static_argnames"] = tuple(self.arguments.static)
        options["donate_argnames"] = tuple(self.arguments.donate)
        found = Defn(self._f.__get__(instance), **options)
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
        out = self._last(args, kwargs)
        if out is not MISS:
            return out
        for plan in self._plans.get(_alike(args), ()):
            out = plan(args, kwargs)
            if out is not MISS:
                self._last = plan
                with self._lock:
                    if plan.key in self._compiled:  # type: ignore[attr-defined]
                        self._compiled.move_to_end(plan.key)  # type: ignore[attr-defined]
                return out
        return self._slow(args, kwargs)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self.arguments.bind(args, kwargs)
        key, compiled, captures = self._program(bound)
        compiled.traced.check(bound.sizes)
        leaves = [as_operand(x, t) for x, t in zip(bound.leaves, compiled.traced.types, strict=True)]
        outs = compiled.run(leaves, captures)
        writer = Writer(args, kwargs, compiled.traced.types)
        self.arguments.take(writer, args, kwargs)
        self._prepare(_alike(args), key, compiled.plan(writer, captures, outs))
        return compiled.result(outs)

    def _program(self, bound: Bound) -> tuple[Any, Compiled, list[Any]]:
        """The key of a call, its program, kept or new, and what that captured."""
        runner = executor(self.executor)
        key = (bound.key, runner.name, watch.mode)
        with self._lock:
            compiled = self._compiled.get(key)
            captures = None if compiled is None else compiled.traced.captured.current()
            if compiled is None or captures is None:
                changed = None if compiled is None else compiled.traced.captured.difference()
                compiled = self._compile(bound, runner, changed)
                captures = list(compiled.traced.captures)
                self._keep(key, compiled)
            self._compiled.move_to_end(key)
        return key, compiled, captures

    def memory_plan(self, *args: Any, **kwargs: Any) -> MemoryPlan:
        """What memory a call with these arguments (or ``spec``s) holds, as it will be executed, and where.

        Nothing is run; what is traced and compiled for it is kept for calls.

        Raises:
            ArgumentError: when the size of an argument is not known.

        Example:
            >>> f = dd.defn(lambda x: dd.sum(dd.exp(x) * 2))
            >>> f.memory_plan(dd.spec((1000, 1000))).arguments
            4000000
        """
        bound = self.arguments.bind(args, kwargs)
        return self._program(bound)[1].memory_of(bound.leaves)

    def _keep(self, key: Any, compiled: Compiled) -> None:
        self._compiled[key] = compiled
        while len(self._compiled) > CACHE:
            last = getattr(self._last, "key", None)
            if last in self._compiled:
                self._compiled.move_to_end(last)
            gone, _ = self._compiled.popitem(last=False)
            for alike, plans in list(self._plans.items()):
                rest = tuple([p for p in plans if p.key != gone])  # type: ignore[attr-defined]
                if len(rest) < len(plans):
                    self._plans.pop(alike)
                    self._plans.update({alike: rest} if rest else {})

    def _prepare(self, alike: Any, key: Any, plan: Plan) -> None:
        plan.key = key  # type: ignore[attr-defined]
        with self._lock:
            if sum(map(len, self._plans.values())) >= PLANS:
                self._plans.clear()
            self._plans[alike] = (plan, *self._plans.get(alike, ())[: ALIKE - 1])
            self._last = plan

    def _compile(self, bound: Bound, runner: Executor, changed: tuple[str, str, str] | None) -> Compiled:
        """Traces and compiles for a call, and notes why and at what cost.

        Raises:
            RetraceError: when ``max_traces`` is reached.
        """
        signature = signature_of(bound, runner.name)
        earlier, found = closest(self._records, signature)
        if changed is not None:
            found = [Difference("captured", *changed)]
        record = TraceRecord(self._calls_traced + 1, signature, None if earlier is None else earlier.number, found)
        if self.max_traces is not None and self._calls_traced >= self.max_traces:
            raise RetraceError(
                f"{self.__name__} would be traced for the {record.number}. time: {record.why}",
                rule=f"max_traces={self.max_traces}",
                hint="; ".join(record.advice) or "a larger max_traces",
                details=record.to_dict(),
            )
        start = time.perf_counter()
        traced = self.trace(bound)
        record.trace_ms = (time.perf_counter() - start) * 1e3
        compiled = Compiled(traced, bound.donate, runner, self.memory_limit)
        record.passes_ms, record.load_ms = compiled.passes_seconds * 1e3, compiled.load_seconds * 1e3
        record.nodes, record.compiled_nodes = _count(traced.graph), _count(compiled.graph)
        self._calls_traced += 1
        self._records.append(record)
        return compiled

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The traces that calls have made: what for, what differed, what each cost, and what to do.

        With arguments (or ``spec``s) it also tells what a call with them would do; nothing is run or traced. Where
        there is a program for them, ``execution`` has its nodes as they are executed: what was fused into which kernel,
        what is called in Burn or is a kernel of the runtime, bytes and operations of each.

        Example:
            >>> f = dd.defn(lambda x: x * 2)
            >>> y = f(dd.array([1.0]))
            >>> f.explain().traces[0].why
            'the first'
        """
        call, execution = "", None
        if args or kwargs:
            bound = self.arguments.bind(args, kwargs)
            runner = executor(self.executor)
            compiled = self._compiled.get((bound.key, runner.name, watch.mode))
            earlier, found = closest(self._records, signature_of(bound, runner.name))
            if compiled is not None and (changed := compiled.traced.captured.difference()) is not None:
                found = [Difference("captured", *changed)]
            if compiled is not None and not found and earlier is not None:
                call = f"runs the program of trace {earlier.number}"
                execution = compiled.execution(runner, bound.leaves)
            else:
                call = f"is traced: {'; '.join(map(str, found)) or 'the first'}"
        return Explanation(self.__name__, self._records, self._calls_traced, call, execution)

    def trace(self, bound: Bound) -> Traced:
        """Traces the function once."""
        self.traces += 1
        with rewriting(self.rewrite):
            return Traced(self.f, self.arguments, bound)

    def _in_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self.arguments.bind(args, kwargs)
        traced = self.trace(bound)
        attrs = {"function": traced.graph, "composite": ""}
        operands = [as_operand(x, t) for x, t in zip(bound.leaves, traced.types, strict=True)]
        outs = ops.bind(ops.OPS["call"], (*operands, *traced.captures), attrs)
        return trees.unflatten(traced.tree, outs)

    def lower(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments, as traced; arrays or ``spec``s. Its ``str`` is the text form."""
        return self.trace(self._given(args, kwargs)).graph

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
        """The arguments; specs from annotations for those that are not given and have no default."""
        specs = self.arguments.specs()
        missing = [n for n, p in list(self.signature.parameters.items())[len(args) :] if p.default is p.empty]
        return self.arguments.bind(args, {**{n: specs[n] for n in missing if n in specs}, **kwargs}, settled=True)

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for these arguments or specs, ready to be called with arrays that fit.

        Arguments that are left to their defaults are part of the program, as static ones are.
        """
        bound = self._given(args, kwargs)
        return Compiled(self.trace(bound), bound.donate, executor(self.executor), self.memory_limit)

    def export(self, path: str | os.PathLike[str], *specs: Any, **kwargs: Any) -> None:
        """Writes the function for these specs (or arrays) to a ``.dala`` file with the entry ``main``.

        Arrays that the function captured are stored in it; arguments that are left to their defaults are part of it.

        Example:
            >>> f.export("f.dala", dd.spec(("b", 8)))
        """
        bound = self._given(specs, kwargs)
        traced = self.trace(bound)
        entry = traced.entry(
            "main", [False] * len(bound.leaves), compile_passes(with_facts(traced.graph, traced.known))
        )
        args, tensors = list(entry.args), {}
        for i, x in enumerate(traced.captures):
            name = f"captured/{i}"
            tensors[name] = np.asarray(x)
            at = len(bound.leaves) + i
            args[at] = Arg(args[at].name, f"state:{name}", dtype=args[at].dtype)
        entry = Entry("main", entry.graph, tuple(args), entry.results)
        write_program(path, Program((entry,), dims_of([entry], traced.dims()), tensors))


_living: weakref.WeakSet[Defn] = weakref.WeakSet()


def cache_info() -> CacheInfo:
    """How many programs and prepared calls are kept for traced functions.

    A function keeps 128 programs and 256 prepared calls at most; what was used longest ago goes first. They live as
    long as the function does.

    Example:
        >>> dd.cache_info().most_programs
        128
    """
    living = list(_living)
    return CacheInfo(
        len(living),
        sum(len(f._compiled) for f in living),
        sum(len(plans) for f in living for plans in list(f._plans.values())),
        sum(f.traces for f in living),
        CACHE,
        PLANS,
    )


def _count(graph: Graph) -> int:
    return len(graph.nodes) + sum(len(g.nodes) for g in graph.functions())


def _no_plan(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return MISS


def _alike(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What tells most calls apart, and is quick to find."""
    return tuple([getattr(x, "shape", None) or type(x) for x in args])


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
    rewrite: bool = True,
    max_traces: int | None = None,
    memory_limit: int | None = None,
) -> Any:
    """Compiles a function over arrays.

    Arguments may be arrays, Python numbers, and nested dicts, lists, tuples, namedtuples and dataclasses of them.
    Arrays that the function finds outside itself become hidden inputs and are read again at each call.

    Args:
        static_argnames: arguments that are part of the program: hashable values, one trace for each.
        donate_argnames: arguments whose arrays give their storage to the call and cannot be used afterwards.
        rewrite: whether Python's own control flow in it may depend on traced values; see docs/control-flow.md.
        executor: ``"flex"`` or ``"reference"`` for this function; otherwise as ``dd.using`` says.
        memory_limit: the most bytes that a call may hold at a time, what it is given counted in; see ``memory_plan``.
        max_traces: how often calls may trace it; ``f.explain()`` lists the traces and what differed.

    Raises:
        OutOfMemory: when a call would hold more than ``memory_limit``, before it starts, naming the largest buffers.
        RetraceError: when a call would trace it more often than ``max_traces``, with what differs.
        ShapeError, DTypeError, ArgumentTypeError: while tracing, with the line of the function that is wrong.

    Example:
        >>> @dd.defn
        ... def f(x):
        ...     return x * 2 + 1
        >>> f(dd.array([1.0, 2.0]))
        array([3., 5.], dtype=float32)
    """
    options: dict[str, Any] = {"static_argnames": static_argnames, "donate_argnames": donate_argnames}
    options.update(executor=executor, rewrite=rewrite, max_traces=max_traces, memory_limit=memory_limit)
    return (lambda g: Defn(g, **options)) if f is None else Defn(f, **options)
