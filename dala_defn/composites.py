"""Composites: functions over primitives that stay visible in the graph as one named ``call``."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dala_defn import ops, trees
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Graph, Type
from dala_defn.trace import prepared, trace_function

F = TypeVar("F", bound=Callable[..., Any])
Runner = Callable[["Composite", tuple[Any, ...], Mapping[str, Any]], Any]
CACHE = 256

_runner: list[Runner] = []


def install_runner(runner: Runner) -> None:
    """Hands in what runs composites outside traces."""
    _runner[:] = [runner]


class Composite:
    """A named function; array operands are positional, everything else is a keyword and hashable."""

    def __init__(self, name: str, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f)
        self.name = name
        self.f = f
        self.keywords = tuple(p.name for p in inspect.signature(f).parameters.values() if p.kind is p.KEYWORD_ONLY)
        self._graphs: OrderedDict[Any, tuple[Graph, list[Any], trees.Tree]] = OrderedDict()

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Applies it: one ``call`` node inside a trace, one small program outside."""
        if ops.current_trace() is None:
            return _runner[0](self, args, attrs) if _runner else self.f(*args, **attrs)
        args = tuple(x if x is None else value(x) for x in args)
        given = [x for x in args if x is not None]
        types = tuple(Type(dtype_of(x), tuple(x.shape)) for x in given)
        key = (types, tuple(x is None for x in args), tuple(sorted(attrs.items())))
        known = self._graphs.get(key)
        if known is None:
            known = self._trace(args, types, attrs)
            # Those of others may rely on what can change.
            if not known[1] and (self.f.__module__ or "").partition(".")[0] == "dala_defn":
                self._graphs[key] = known
                while len(self._graphs) > CACHE:
                    self._graphs.popitem(last=False)
        graph, captures, tree = known
        outs = ops.bind(ops.OPS["call"], (*given, *captures), {"function": graph, "composite": self.name})
        return trees.unflatten(tree, outs)

    def _trace(
        self, args: Sequence[Any], types: Sequence[Type], attrs: Mapping[str, Any]
    ) -> tuple[Graph, list[Any], trees.Tree]:
        shape: list[trees.Tree] = []

        def body(*inner: Any) -> list[Any]:
            rest = iter(inner)
            leaves, tree = trees.flatten(prepared(self.f)(*[x if x is None else next(rest) for x in args], **attrs))
            shape.append(tree)
            return leaves

        graph, captures = trace_function(body, types, self.name)
        return graph, captures, shape[0]


def composite(name: str) -> Callable[[F], F]:
    """Keeps a function in graphs as one named region.

    Array operands must be positional; keyword arguments must be hashable and are part of the region.

    Example:
        >>> @dd.composite("double")
        ... def double(x):
        ...     return x + x
    """

    def wrap(f: F) -> F:
        return Composite(name, f)  # type: ignore[return-value]

    return wrap
