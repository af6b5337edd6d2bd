"""A program: entry points over shared tensors, as it is shipped and as the runtime loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.ir.graph import Graph, Value
from dala_defn.ir.types import Type

Bounds = tuple[int, int | None]
STATE = "state:"


@dataclass(frozen=True)
class Arg:
    """An argument of an entry. ``role`` is ``arg``, ``key`` or ``state:PATH``; ``donate`` gives its storage up.

    ``dtype`` is that of a complex argument: the graph holds a real one with a last axis of 2 in its place.
    """

    name: str
    role: str = "arg"
    donate: bool = False
    dtype: DType | None = None


@dataclass(frozen=True)
class Result:
    """A result of an entry. ``role`` is ``result``, or ``state:PATH`` for the new value of a state; ``dtype`` as in
    ``Arg``."""

    name: str
    role: str = "result"
    dtype: DType | None = None


@dataclass(frozen=True)
class Entry:
    """One function of the program with the roles of its arguments and results.

    ``tree`` is what a caller in Python needs to put its arguments and results together; other readers ignore it.
    """

    name: str
    graph: Graph
    args: tuple[Arg, ...]
    results: tuple[Result, ...]

    def arg_types(self) -> list[Type]:
        """The types of the arguments as a caller gives them."""
        return [shown_type(v.type, a.dtype) for a, v in zip(self.args, self.graph.inputs, strict=True)]

    def result_types(self) -> list[Type]:
        """The types of the results as a caller gets them."""
        return [shown_type(v.type, r.dtype) for r, v in zip(self.results, self.graph.outputs, strict=True)]

    def shown_as(self, graph: Graph) -> Entry:
        """The entry whose arguments and results are complex where those of a graph are, from which its own was made."""

        def dtype(v: Value) -> DType | None:
            return v.type.dtype if v.type.dtype.kind == "c" else None

        args = tuple([replace(a, dtype=dtype(v)) for a, v in zip(self.args, graph.inputs, strict=True)])
        results = tuple([replace(r, dtype=dtype(v)) for r, v in zip(self.results, graph.outputs, strict=True)])
        return replace(self, args=args, results=results)


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


def shown_type(t: Type, dtype: DType | None) -> Type:
    """The type of an argument or result whose graph holds it as ``t``."""
    return t if dtype is None or dtype is t.dtype else Type(dtype, t.shape[:-1])


def state_path(role: str) -> str | None:
    """The path in a state role, or ``None`` for another role."""
    return role.removeprefix(STATE) if role.startswith(STATE) else None
