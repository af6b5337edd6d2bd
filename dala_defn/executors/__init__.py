"""What runs a graph: the NumPy reference, which is the oracle, and the Burn runtime; and the choice among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from dala_defn.array import Array
from dala_defn.errors import ArgumentError
from dala_defn.ir import Graph, Type
from dala_defn.ir.program import Entry, Program
from dala_defn.ops.spec import OpSpec


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

    def once(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """``run`` for a caller that prepares its calls by itself."""
        ...

    def prepare(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> Callable[[Sequence[Any]], list[Array] | None] | None:
        """``run`` for arguments of the types of these; it gives ``None`` when others need the general way."""
        ...

    def memory(self, entry: int, given: Sequence[tuple[Type, str]]) -> Mapping[str, Any]:
        """What memory a run holds, on arguments of these types that come so: kept, donated or lent."""
        ...

    def limit_memory(self, limit: int) -> None:
        """Refuses, from now on, runs that would hold more bytes at a time."""
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

    def executed(self, entry: Entry) -> Graph:
        """The graph of an entry as it is run: with what was fused."""
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


class Chosen(threading.local):
    """The name that ``using`` chose in this thread, if any."""

    name: str | None = None


chosen = Chosen()


def executor(name: str | None = None) -> Executor:
    """The executor of this name: ``"flex"`` (Burn on the CPU), ``"reference"`` (NumPy), or ``"flex-autodiff"``: Burn
    with a record of what was done, for gradients by Burn's own rules.

    Without a name, the one chosen by ``using``, else by the variable ``DALA_EXECUTOR``, else ``"flex"``.
    """
    name = name or chosen.name or os.environ.get("DALA_EXECUTOR") or "flex"
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
    if name in ("flex", "flex-autodiff"):
        from dala_defn.executors.burn import BurnExecutor

        return BurnExecutor(name)
    raise ArgumentError(f"there is no executor {name!r}", hint='"flex", "reference" or "flex-autodiff"')


@contextmanager
def using(name: str) -> Iterator[None]:
    """Runs everything inside, in this thread, on another executor.

    Example:
        >>> with dd.using("reference"):
        ...     y = dd.exp(dd.array([0.0]))
    """
    before = chosen.name
    executor(name)
    chosen.name = name
    try:
        yield
    finally:
        chosen.name = before
