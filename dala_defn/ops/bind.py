"""``bind``: the one door through which an op is applied to values.

Inside a trace the innermost trace records it; outside, the eager handler runs it. Both are handed in from above, so
this module knows neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dala_defn.errors import EngineError


class Bindable(Protocol):
    """What ``bind`` knows of an op."""

    @property
    def name(self) -> str:
        """The op's name."""
        ...


class Recorder(Protocol):
    """A trace: it records ops instead of running them.

    Attributes:
        read: the arrays whose numbers were read, rather than used in an op, while it was the innermost trace.
    """

    read: list[Any]

    def record(self, spec: Any, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of the op, as traced values."""
        ...

    def constant(self, literal: Any) -> Any:
        """A constant, as a traced value."""
        ...


EagerHandler = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]]


class Traces(threading.local):
    """The traces that are open in this thread, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Recorder] = []

    def note(self, x: Any) -> None:
        """An array's numbers are read: what Python makes of them is not in the graph."""
        for trace in self.stack:
            trace.read.append(x)


traces = Traces()
_eager: list[EagerHandler] = []


def install_eager(handler: EagerHandler) -> None:
    """Hands in what runs ops outside traces."""
    _eager[:] = [handler]


def current_trace() -> Recorder | None:
    """The innermost trace of this thread, if any."""
    stack = traces.stack
    return stack[-1] if stack else None


def open_traces() -> int:
    """How many traces are open in this thread."""
    return len(traces.stack)


def push_trace(trace: Recorder) -> None:
    """Enters a trace."""
    traces.stack.append(trace)


def pop_trace(trace: Recorder) -> None:
    """Leaves a trace, and any that were left open inside it."""
    stack = traces.stack
    while stack and stack.pop() is not trace:
        pass


def bind(spec: Bindable, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Applies an op to traced values or arrays; gives its outputs."""
    stack = traces.stack
    if stack:
        return stack[-1].record(spec, args, attrs)
    if not _eager:
        raise EngineError("no executor for eager ops is installed", hint="import dala_defn, not a part of it")
    return _eager[0](spec, args, attrs)
