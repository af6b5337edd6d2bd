"""What memory a run takes: ``f.memory_plan(*args)``, and budgets that runs are held to."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.array import Array
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.executors.limits import limited
from dala_defn.ir import Type
from dala_defn.shapes import DimExpr
from dala_defn.sources import Location

LENT_FROM = 4096  # bytes: NumPy arrays below it are copied (COPY_BELOW in runtime/src/tensor.rs)


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Memory that is held when most is.

    Attributes:
        role: ``argument`` (also what the function captured), ``constant``, ``value`` (what an op gave) or ``scratch``
            (what an op needs besides operands and results).
        name: the argument, or the op.
        type: dtype and shape; empty for scratch memory.
        place: the line that made it, where it is known.
    """

    bytes: int
    role: str
    name: str
    type: str = ""
    place: Location | None = None


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """What a run holds, as it will be executed; prints as a table.

    Attributes:
        peak: the most bytes at a time: arguments, results and all between.
        arguments, constants, results: bytes of each.
        at: the op during which the peak is reached, with its place; ``None`` where it is none.
        buffers: the largest that are held then, largest first; ``others`` counts those left out, and their bytes.
    """

    function: str
    peak: int
    arguments: int
    constants: int
    results: int
    at: tuple[str, Location | None] | None
    buffers: tuple[Buffer, ...]
    others: tuple[int, int]

    @property
    def temporaries(self) -> int:
        """Bytes beyond arguments, constants and results."""
        return max(0, self.peak - self.arguments - self.constants - self.results)

    def __str__(self) -> str:
        at = ""
        if self.at is not None:
            at = f" in {self.at[0]}{'' if self.at[1] is None else f' at {self.at[1].short()}'}"
        parts = [f"{n} {_size(getattr(self, n))}" for n in ("arguments", "constants", "results", "temporaries")]
        lines = [f"{self.function}: {_size(self.peak)} at the most{at}", f"  {', '.join(parts)}"]
        rows = [("bytes", "role", "name", "type", "line")]
        for b in self.buffers:
            rows.append((f"{b.bytes:,}", b.role, b.name, b.type, "" if b.place is None else b.place.short()))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            cells = [row[0].rjust(widths[0]), *(t.ljust(w) for t, w in zip(row[1:4], widths[1:], strict=True)), row[4]]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        if self.others[0]:
            lines.append(f"  {self.others[1]:>{widths[0]},}  {self.others[0]} others")
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """As plain data, fit for JSON."""
        place = lambda p: None if p is None else p.to_dict()  # noqa: E731
        own = {n: getattr(self, n) for n in ("function", "peak", "arguments", "constants", "results", "temporaries")}
        return {
            **own,
            "at": None if self.at is None else {"op": self.at[0], "location": place(self.at[1])},
            "buffers": [{**dataclasses.asdict(b), "place": place(b.place)} for b in self.buffers],
            "others": {"count": self.others[0], "bytes": self.others[1]},
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict())


def _size(n: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024  # type: ignore[assignment]
    return f"{n:.4g} GiB"


def given(
    names: Sequence[str], types: Sequence[Type], leaves: Sequence[Any], donate: Sequence[bool] | None
) -> list[tuple[Type, str]]:
    """For each argument its type, with the sizes that it has, and how it comes: kept, donated or lent.

    Raises:
        ArgumentError: where a size is not known.
    """
    out = []
    for i, (name, t, x) in enumerate(zip(names, types, leaves, strict=True)):
        shape = tuple(getattr(x, "shape", ()))
        if any(isinstance(d, (str, DimExpr)) for d in shape):
            raise ArgumentError(
                f"argument {name} is {Type(t.dtype, shape)}: how much memory it takes depends on its size",
                hint="an array, or a spec with numbers",
            )
        kind = "kept"
        if isinstance(x, np.ndarray) and x.nbytes >= LENT_FROM and x.dtype != np.bool_:
            kind = "lent"
        elif isinstance(x, Array) and donate is not None and donate[i]:
            kind = "donated"
        elif not isinstance(x, (Array, np.ndarray, np.generic)) and dtypes.weak_kind(x) is None:
            kind = "donated" if donate is not None and donate[i] else "kept"  # a spec
        out.append((Type(t.dtype, shape), kind))
    return out


def plan_of(function: str, found: Mapping[str, Any], place: Callable[[Location | None], Location | None]) -> MemoryPlan:
    """From what the runtime says; ``place`` knows whole paths."""

    def located(at: Any) -> Location | None:
        if not at:
            return None
        return place(Location(at["file"], at["line"], at["column"], at["function"], at.get("path") or ""))

    at = found["at"]
    return MemoryPlan(
        function,
        found["peak"],
        found["arguments"],
        found["constants"],
        found["results"],
        None if at is None else (at["op"], located(at["location"])),
        tuple(
            Buffer(b["bytes"], b["role"], b["name"], b["type"] or "", located(b["location"])) for b in found["buffers"]
        ),
        (found["others"]["count"], found["others"]["bytes"]),
    )


def bytes_of(limit: Any) -> int:
    """A limit in bytes.

    Raises:
        ArgumentTypeError, ArgumentError: for one that is none.
    """
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)):
        raise ArgumentTypeError(f"a memory limit is a number of bytes, not {limit!r}")
    if limit < 0:
        raise ArgumentError(f"a memory limit is at least 0, not {limit}")
    return int(limit)


@contextmanager
def memory_limit(bytes: int) -> Iterator[None]:
    """Refuses, in this thread, what would hold more than so many bytes at a time: before it starts, naming the largest.

    What a run is given counts, what it does not use does not. Within another one, the smaller limit holds.

    Raises:
        ArgumentTypeError, ArgumentError: for what is no number of bytes.
        OutOfMemory: from a call inside that would hold more.

    Example:
        >>> with dd.memory_limit(10**6):
        ...     y = dd.ones((100, 100)) + 1
    """
    with limited(bytes_of(bytes)):
        yield
