"""``@defn``: trace once per signature, compile, and run with one call into the runtime."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np

from dala_defn import composites, ops, trees
from dala_defn.arguments import Arguments, Bound, as_operand
from dala_defn.artifacts import dims_of, write_program
from dala_defn.captures import ByInstance, weak
from dala_defn.compiled import Compiled, Traced
from dala_defn.errors import DalaError, leave
from dala_defn.executors import executor
from dala_defn.ir import Graph
from dala_defn.ir.program import Arg, Entry, Program
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
    ) -> None:
        # Without the function's __dict__, which for a wrapper of ours would be all that it knows.
        functools.update_wrapper(self, f, updated=())
        self.__name__: str = getattr(f, "__name__", type(f).__name__).replace("<lambda>", "lambda")
        self._f = f
        self.rewrite = rewrite
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
        options = {"static_argnames": tuple(self.arguments.static), "donate_argnames": tuple(self.arguments.donate)}
        found = Defn(self._f.__get__(instance), executor=self.executor, rewrite=self.rewrite, **options)
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
                return out
        return self._slow(args, kwargs)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self.arguments.bind(args, kwargs)
        runner = executor(self.executor)
        key = (bound.key, runner.name, watch.mode)
        with self._lock:
            compiled = self._compiled.get(key)
            captures = None if compiled is None else compiled.traced.captured.current()
            if compiled is None or captures is None:
                compiled = Compiled(self.trace(bound), bound.donate, runner)
                captures = list(compiled.traced.captures)
                self._compiled[key] = compiled
                while len(self._compiled) > CACHE:
                    self._compiled.popitem(last=False)
                    self._plans.clear()
        compiled.traced.check(bound.sizes)
        leaves = [as_operand(x, t) for x, t in zip(bound.leaves, compiled.traced.types, strict=True)]
        outs = compiled.run(leaves, captures)
        writer = Writer(args, kwargs, compiled.traced.types)
        self.arguments.take(writer, args, kwargs)
        self._add(_alike(args), compiled.plan(writer, captures, outs))
        return compiled.result(outs)

    def _add(self, key: Any, plan: Plan) -> None:
        with self._lock:
            if sum(map(len, self._plans.values())) >= PLANS:
                self._plans.clear()
            self._plans[key] = (plan, *self._plans.get(key, ())[: ALIKE - 1])
            self._last = plan

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
        return self.arguments.bind(args, {**{n: specs[n] for n in missing if n in specs}, **kwargs})

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The program for these arguments or specs, ready to be called with arrays that fit."""
        bound = self._given(args, kwargs)
        return Compiled(self.trace(bound), bound.donate, executor(self.executor))

    def export(self, path: str | os.PathLike[str], *specs: Any, **kwargs: Any) -> None:
        """Writes the function for these specs (or arrays) to a ``.dala`` file with the entry ``main``.

        Arrays that the function captured are stored in it.

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
) -> Any:
    """Compiles a function over arrays.

    Arguments may be arrays, Python numbers, and nested dicts, lists, tuples, namedtuples and dataclasses of them.
    Arrays that the function finds outside itself become hidden inputs and are read again at each call.

    Args:
        static_argnames: arguments that are part of the program: hashable values, one trace for each.
        donate_argnames: arguments whose arrays give their storage to the call and cannot be used afterwards.
        rewrite: whether Python's own control flow in it may depend on traced values; see docs/control-flow.md.
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
    options: dict[str, Any] = {"static_argnames": static_argnames, "donate_argnames": donate_argnames}
    options.update(executor=executor, rewrite=rewrite)
    return (lambda g: Defn(g, **options)) if f is None else Defn(f, **options)
