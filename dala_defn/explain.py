"""Why a function was traced, and what that cost: ``f.explain()``, ``max_traces`` and ``dd.cache_info()``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from dala_defn.arguments import Bound
from dala_defn.execution import Execution

MOST = 64  # traces of a function that are remembered

_ADVICE = {
    "shape": 'f.compile(dd.spec(("b", ...))): one program for all sizes',
    "dtype": "x.astype(...) before the call, if one dtype will do",
    "number": "an array (np.float32(...)) in the place of Python numbers of several kinds",
    "static": "an argument that is not static, if the value is a number",
    "captured": "an argument, or an array (dd.array) that is captured in its place",
    "structure": "containers with the same keys and lengths at every call",
    "executor": "one executor for all calls",
}


@dataclasses.dataclass(frozen=True)
class Difference:
    """What differs between two calls: ``kind`` is shape, dtype, number, static, captured, structure or executor."""

    kind: str
    path: str
    old: str
    new: str

    def __str__(self) -> str:
        where = self.path if self.kind == "captured" else f"{self.kind} of {self.path}"
        return f"{where}: {self.old} -> {self.new}"


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a trace was made for."""

    leaves: dict[str, tuple[Any, str | None]]
    statics: dict[str, str]
    executor: str

    def __str__(self) -> str:
        parts = [f"{n}: {t}" + (" (Python number)" if weak else "") for n, (t, weak) in self.leaves.items()]
        return ", ".join([*parts, *(f"{n}={x}" for n, x in self.statics.items())])

    def differences(self, new: Signature) -> list[Difference]:
        """What another call has that this one had not."""
        out = []
        for name in [*self.leaves, *(n for n in new.leaves if n not in self.leaves)]:
            a, b = self.leaves.get(name), new.leaves.get(name)
            if a is None or b is None:
                out.append(
                    Difference("structure", name, "nothing" if a is None else str(a[0]), str(b[0]) if b else "nothing")
                )
                continue
            if a[0].shape != b[0].shape:
                out.append(Difference("shape", name, str(a[0]), str(b[0])))
            if a[0].dtype is not b[0].dtype:
                out.append(Difference("dtype", name, str(a[0]), str(b[0])))
            if a[1] != b[1]:
                said = ["an array" if kind is None else "a Python number" for kind in (a[1], b[1])]
                out.append(Difference("number", name, *said))
        for name in {**self.statics, **new.statics}:
            x, y = self.statics.get(name, "nothing"), new.statics.get(name, "nothing")
            if x != y:
                out.append(Difference("static", name, x, y))
        if self.executor != new.executor:
            out.append(Difference("executor", "the call", self.executor, new.executor))
        return out


def signature_of(bound: Bound, executor: str) -> Signature:
    """The signature of a call."""
    leaves = dict(zip(bound.names, bound.key[2], strict=True))
    return Signature(leaves, {n: _short(repr(x)) for n, x in bound.statics.items()}, executor)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


@dataclasses.dataclass
class TraceRecord:
    """One trace: what for, what differed from the closest earlier one, and what it cost.

    Attributes:
        nodes: nodes of the graph as traced; ``compiled_nodes``: after the passes.
        closest: the number of the earlier trace that differs least, from 1; ``None`` for the first.
    """

    number: int
    signature: Signature
    closest: int | None = None
    differences: list[Difference] = dataclasses.field(default_factory=list)
    trace_ms: float = 0.0
    passes_ms: float = 0.0
    load_ms: float = 0.0
    nodes: int = 0
    compiled_nodes: int = 0

    @property
    def why(self) -> str:
        """The differences in words."""
        if self.closest is None:
            return "the first"
        return "; ".join(map(str, self.differences)) or "it was no longer kept"

    @property
    def advice(self) -> list[str]:
        """What to do, for each kind of difference."""
        return list(dict.fromkeys(_ADVICE[d.kind] for d in self.differences))

    def to_dict(self) -> dict[str, Any]:
        """As plain data, fit for JSON."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        changed = [dataclasses.asdict(d) for d in self.differences]
        return {**own, "signature": str(self.signature), "differences": changed, "advice": self.advice}


def closest(records: Sequence[TraceRecord], new: Signature) -> tuple[TraceRecord | None, list[Difference]]:
    """The earlier trace that differs least from a call (of several, the latest), and what differs."""
    best: tuple[TraceRecord | None, list[Difference]] = (None, [])
    for record in reversed(records):
        found = record.signature.differences(new)
        if best[0] is None or len(found) < len(best[1]):
            best = record, found
    return best


class Explanation:
    """The traces of a function; prints as a table.

    Attributes:
        traces: a ``TraceRecord`` each, oldest first; the last ones when there are many.
        total: how many there were.
        call: for the arguments that were given, what a call would do: ``""`` without arguments.
        execution: the nodes of the program that it would run, as they are executed; ``None`` where there is none yet.
    """

    def __init__(
        self,
        name: str,
        traces: Sequence[TraceRecord],
        total: int,
        call: str = "",
        execution: Execution | None = None,
    ) -> None:
        self.name = name
        self.traces = list(traces)
        self.total = total
        self.call = call
        self.execution = execution

    def __str__(self) -> str:
        head = ("trace", "for", "nodes", "trace ms", "passes ms", "load ms", "what differed")
        rows: list[tuple[str, ...]] = [head]
        for r in self.traces:
            nodes = f"{r.nodes} -> {r.compiled_nodes}"
            times = [f"{ms:.2f}" for ms in (r.trace_ms, r.passes_ms, r.load_ms)]
            why = r.why if r.closest is None else f"{r.why} (than trace {r.closest})"
            rows.append((str(r.number), str(r.signature), nodes, *times, why))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
        lines = [f"{self.name}: {self.total} traces"]
        for row in rows:
            lines.append("  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[-1]]))
        advice = dict.fromkeys(a for r in self.traces for a in r.advice)
        lines += [f"try  {a}" for a in advice]
        lines += [f"call  {self.call}"] if self.call else []
        return "\n".join([*lines, *([str(self.execution)] if self.execution is not None else [])])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """As plain data, fit for JSON."""
        traces = [r.to_dict() for r in self.traces]
        execution = None if self.execution is None else self.execution.to_dict()
        own = {"function": self.name, "total": self.total, "call": self.call}
        return {**own, "traces": traces, "execution": execution}


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """What is kept for the functions that live: each function's part goes with it.

    Attributes:
        functions: how many traced functions there are.
        programs: compiled programs; at most ``most_programs`` a function, those used longest ago go first.
        prepared: prepared calls; at most ``most_prepared`` a function.
        traces: how often functions were traced.
    """

    functions: int
    programs: int
    prepared: int
    traces: int
    most_programs: int
    most_prepared: int
