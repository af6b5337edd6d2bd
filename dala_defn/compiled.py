"""A trace of a function, and the program that it becomes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dala_defn import debug, dtypes, ops, trees
from dala_defn.annotations import bind_sizes
from dala_defn.arguments import Arguments, Bound, as_operand, type_of
from dala_defn.array import Array
from dala_defn.artifacts import dims_of
from dala_defn.captures import Captured, exact
from dala_defn.errors import ArgumentError, ArgumentTypeError, DalaError, ShapeError
from dala_defn.execution import Execution, execution_of
from dala_defn.executors import Executor
from dala_defn.ir import Graph
from dala_defn.ir.codec import relative_file
from dala_defn.ir.program import Arg, Bounds, Entry, Program, Result
from dala_defn.memory import MemoryPlan, given, plan_of
from dala_defn.nans import Watched, judge, recording, watch
from dala_defn.passes.pipeline import compile_passes
from dala_defn.passes.watch import watched
from dala_defn.plans import MISS, Plan, Writer
from dala_defn.shapes import Known, names_of
from dala_defn.sources import Location
from dala_defn.trace import Trace, Tracer, growing, prepared, trace_function


class Traced:
    """One trace of a function: its graph, its captures, and how results are put together."""

    def __init__(self, f: Callable[..., Any], arguments: Arguments, bound: Bound) -> None:
        self.names = bound.names
        self.types = bound.types
        self.inputs = bound.tree
        self.bounds = bound.bounds  # those that were given, without what the trace found
        self.settled = {**bound.statics, **bound.defaults}  # part of the program
        self.arguments = arguments.without(self.settled)
        self.version = self.arguments.refresh()
        outer = ops.current_trace()
        self.known = outer.known if isinstance(outer, Trace) else Known(bound.bounds)
        shape: list[trees.Tree] = []
        paths: list[str] = []
        traces: list[Any] = []

        def body(*leaves: Any) -> list[Any]:
            traces.append(ops.current_trace())
            out = arguments.apply(prepared(f), bound, leaves)
            flat = trees.flatten_with_paths(out)
            for path, leaf in flat:
                if not isinstance(leaf, (Tracer, Array, np.ndarray, np.generic)) and dtypes.weak_kind(leaf) is None:
                    where = trees.show_path(path) or "its top"
                    raise ArgumentTypeError(
                        f"{arguments.function} returns a {type(leaf).__name__} at {where}, which is no array",
                        rule="results are arrays, numbers, or dicts, lists, tuples and dataclasses of them",
                    )
            shape.append(trees.flatten(out)[1])
            paths.extend(trees.show_path(p) or "0" for p, _ in flat)
            return [leaf for _, leaf in flat]

        self.graph, self.captures = trace_function(
            body, self.types, arguments.function, bound.names, bound.weak, known=self.known
        )
        self.tree = shape[0]
        self.result_names = paths
        # Inside another trace, what this function reaches is reached, and watched, from there.
        if ops.current_trace() is None:
            self.captured = Captured(f, self.captures, bound.statics, traces[0])

    def check(self, sizes: Mapping[str, int]) -> None:
        """Holds the sizes of a call against what the trace relies on.

        Raises:
            ShapeError: for the first condition that does not hold, naming the sizes and the line that needs it.
        """
        for fact in self.known.facts:
            if not fact.condition.evaluate(sizes):
                names = sorted(names_of([fact.condition.left, fact.condition.right]))
                at = "" if fact.place is None else f" at {fact.place.resolve()}"
                why = fact.why and f" for {fact.why}"
                raise ShapeError(
                    f"{' and '.join(f'{n} is {sizes[n]}' for n in names)}: {self.graph.name} needs {fact.condition}",
                    rule=f"{fact.condition} is needed{at}{why}",
                    details={"sizes": {n: sizes[n] for n in names}, "condition": str(fact.condition)},
                )

    def dims(self) -> dict[str, Bounds]:
        """The bounds of the sizes, as programs have them."""
        return {n: (low or 0, high) for n, (low, high) in self.known.bounds.items()}

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
    """A trace, compiled: call it like the function, without the arguments that are part of the program."""

    def __init__(
        self, traced: Traced, donate: Sequence[bool], runner: Executor, memory_limit: int | None = None
    ) -> None:
        self.traced = traced
        start = time.perf_counter()
        self.mode = watch.mode
        self.watched: Watched | None = None
        graph = traced.graph
        if self.mode is not None:
            graph, self.watched = watched(graph, debug.SEE)
        with growing:
            self.graph = compile_passes(graph)
        self.passes_seconds = time.perf_counter() - start
        entry = traced.entry("main", donate, self.graph)
        self.program = Program((entry,), dims_of([entry], traced.dims()))
        self.executable = runner.load(self.program)
        self.load_seconds = time.perf_counter() - start - self.passes_seconds
        self.index = self.executable.entry("main")
        if memory_limit is not None:
            self.executable.limit_memory(memory_limit)
        self.results = [v.type for v in traced.graph.outputs]
        self.donate = [*donate, *(False for _ in traced.captures)] if any(donate) else None
        self._plan: Plan | None = None

    def run(self, leaves: list[Any], captures: list[Any]) -> list[Array]:
        """The results, flat, of one run; one call into the runtime."""
        try:
            if self.watched is None or self.mode is None:
                return self.executable.once(self.index, leaves + captures, self.results, self.donate)
            given = [*leaves, *captures]
            with recording(self.watched, self.mode) as record:
                outs = self.executable.once(self.index, given, self.results, self.donate)
            judge(record, outs, given)
            return outs
        except DalaError as error:
            error.location = self.place(error.location)
            raise

    def memory_plan(self, *args: Any, **kwargs: Any) -> MemoryPlan:
        """What memory a run on these arguments (or specs) holds, and where; without arguments, on the compiled types.

        Raises:
            ArgumentError: when a size is not known.

        Example:
            >>> c = dd.defn(lambda x: dd.exp(x) + 1).compile(dd.spec((1000,)))
            >>> c.memory_plan().peak
            8000
        """
        if not args and not kwargs:
            return self.memory_of(self.traced.types)
        bound = self.traced.arguments.bind(args, self._unsettled(kwargs))
        return self.memory_of(bound.leaves)

    def memory_of(self, leaves: Sequence[Any]) -> MemoryPlan:
        """The same for arguments, or their types, as a flat list."""
        t = self.traced
        names = [*t.names, *(f"captured_{i}" for i in range(len(t.captures)))]
        types = [v.type for v in self.program.entries[0].graph.inputs]
        come = given(names, types, [*leaves, *t.captures], self.donate)
        return plan_of(t.graph.name, self.executable.memory(self.index, come), self.place)

    def execution(self, runner: Executor, leaves: Sequence[Any]) -> Execution:
        """What it does on arguments like these: which kernel or library runs each node."""
        entry = self.program.entries[0]
        shapes = [tuple(getattr(x, "shape", ())) for x in leaves]
        named = list(zip(self.traced.names, self.traced.types, strict=True))
        sizes = {n: d for n, d in bind_sizes(named, shapes, self.traced.bounds).items() if isinstance(d, int)}
        return execution_of(runner.executed(entry), runner.name != "reference", sizes)

    def result(self, outs: list[Array]) -> Any:
        """Results as the function returns them."""
        return trees.unflatten(self.traced.tree, outs)

    def plan(self, writer: Writer, captures: list[Any], outs: list[Array]) -> Plan:
        """A prepared call for arguments like those that the writer took; ``outs`` are what they gave."""
        if self.watched is not None:
            return writer.write(self._slowly, self.traced.captured, self.traced.tree, self.place)
        args = [*writer.values, *captures]
        call = self.executable.prepare(self.index, args, [y._type for y in outs], self.donate)
        if call is None:
            call = functools.partial(self.executable.run, self.index, types=self.results, donate=self.donate)
        return writer.write(call, self.traced.captured, self.traced.tree, self.place)

    def _slowly(self, args: Sequence[Any]) -> list[Array]:
        return self.run(list(args), [])

    def place(self, told: Location | None) -> Location | None:
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs on arrays that fit the compiled types.

        Static arguments, and those that were left to their defaults, are not given again: they are part of the
        program. By name they may be, as what they were.

        Raises:
            ShapeError: when an argument does not fit.
            ArgumentError: when what is part of the program has changed since it was compiled.
            ArgumentTypeError: when arguments are missing or too many.
        """
        if self._plan is not None:
            out = self._plan(args, kwargs)
            if out is not MISS:
                return out
        kwargs = self._unsettled(kwargs)
        arguments = self.traced.arguments
        bound = arguments.bind(args, kwargs)
        if bound.tree != self.traced.inputs:
            raise ArgumentTypeError(
                f"{arguments.function} was compiled for {', '.join(self.traced.names)}, not {', '.join(bound.names)}"
            )
        for name, want, x in zip(self.traced.names, self.traced.types, bound.leaves, strict=True):
            have = type_of(x, name)[0]
            if have.dtype is not want.dtype and dtypes.weak_kind(x) is None:
                raise ArgumentTypeError(f"argument {name} is {have}, compiled for {want}")
            if have.ndim != want.ndim or any(
                isinstance(d, int) and d != n for d, n in zip(want.shape, have.shape, strict=True)
            ):
                raise ShapeError(f"argument {name} is {have}, compiled for {want}")
        if self.traced.known.facts or self.traced.known.bounds:
            wanted = list(zip(self.traced.names, self.traced.types, strict=True))
            shapes = [tuple(getattr(x, "shape", ())) for x in bound.leaves]
            self.traced.check(bind_sizes(wanted, shapes, self.traced.bounds))  # type: ignore[arg-type]
        captures = self.traced.captured.current()
        if captures is None or arguments.refresh() != self.traced.version:
            changed = "what the function captured" if captures is None else "a default argument"
            raise ArgumentError(f"{changed} has changed since it was compiled", hint="compile again")
        outs = self.run([as_operand(x, t) for x, t in zip(bound.leaves, self.traced.types, strict=True)], captures)
        writer = Writer(args, kwargs, self.traced.types)
        writer.require(f"{writer.name(arguments.refresh)}() == {self.traced.version}")
        arguments.take(writer, args, kwargs)
        self._plan = self.plan(writer, captures, outs)
        return self.result(outs)

    def _unsettled(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name without those that are part of the program, and say the same."""
        settled = self.traced.settled
        for name in kwargs.keys() & settled.keys():
            if exact(kwargs[name]) != exact(settled[name]):
                raise ArgumentError(
                    f"{self.traced.arguments.function} was compiled for {name}={settled[name]!r}, not {kwargs[name]!r}",
                    hint=f"compile(..., {name}=dd.spec(())) for one that is given at each call",
                )
        return {n: x for n, x in kwargs.items() if n not in settled}
