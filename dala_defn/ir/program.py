"""A program: entry points over shared tensors, as it is shipped and as the runtime loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dala_defn.ir.graph import Graph

Bounds = tuple[int, int | None]
STATE = "state:"


@dataclass(frozen=True)
class Arg:
    """An argument of an entry. ``role`` is ``arg``, ``key`` or ``state:PATH``; ``donate`` gives its storage up."""

    name: str
    role: str = "arg"
    donate: bool = False


@dataclass(frozen=True)
class Result:
    """A result of an entry. ``role`` is ``result``, or ``state:PATH`` for the new value of a state."""

    name: str
    role: str = "result"


@dataclass(frozen=True)
class Entry:
    """One function of the program with the roles of its arguments and results.

    ``tree`` is what a caller in Python needs to put its arguments and results together; other readers ignore it.
    """

    name: str
    graph: Graph
    args: tuple[Arg, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Program:
    """Entries, bounds of named sizes, tensors by name, and further names of tensors."""

    entries: tuple[Entry, ...]
    dims: Mapping[str, Bounds] = field(default_factory=dict)
    tensors: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def entry(self, name: str) -> Entry:
        """The entry of this name; KeyError when there is none."""
        for e in self.entries:
            if e.name == name:
                return e
        raise KeyError(name)


def state_path(role: str) -> str | None:
    """The path in a state role, or ``None`` for another role."""
    return role.removeprefix(STATE) if role.startswith(STATE) else None
