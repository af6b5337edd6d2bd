"""``debug_nans``: which op first gave a NaN, where it was written, and what went into it.

Inside the context functions are compiled once more, with a look at every float that an op gives (``passes/watch.py``).
What was seen is kept for the length of a run; when a result is bad, it is followed back to where it came from.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dala_defn.errors import NotFiniteError, Operand
from dala_defn.ir import Graph, Node, Type
from dala_defn.ir.graph import graphs_in
from dala_defn.trace import origin

NANS, INFS = "nan", "inf"


@dataclass(frozen=True)
class Watched:
    """A graph whose ops are looked at: itself, and the nodes that are, by number, those of its functions included."""

    graph: Graph
    nodes: Sequence[Node]


@dataclass
class Event:
    """A bad result of a node: its number, what it was, and the operands."""

    number: int
    result: str
    operands: list[str]
    bad: list[bool]


@dataclass
class Record:
    """What was seen in one run."""

    watched: Watched
    mode: str
    events: list[Event] = field(default_factory=list)


class _Watch(threading.local):
    mode: str | None = None

    def __init__(self) -> None:
        self.records: list[Record] = []


watch = _Watch()


@contextmanager
def debug_nans(*, infs: bool = False) -> Iterator[None]:
    """Inside it, in this thread, a run whose result holds a NaN raises an error that names the op that made it.

    It is for ``@defn``, transformations and single ops; gradients name the line that they are the gradient of. A NaN
    that does not reach a result, as in ``where(x > 0, log(x), 0)``, is none. Runs are much slower.

    Args:
        infs: whether infinities are errors too.

    Raises:
        NotFiniteError: (a ``FloatingPointError`` too) at the line of the op, with what its operands were.

    Example:
        >>> with dd.debug_nans():
        ...     y = dd.log(dd.array([1.0, 2.0]))
    """
    before = watch.mode
    watch.mode = INFS if infs else NANS
    try:
        yield
    finally:
        watch.mode = before


@contextmanager
def recording(watched: Watched, mode: str) -> Iterator[Record]:
    """Keeps what is seen while it is open."""
    record = Record(watched, mode)
    watch.records.append(record)
    try:
        yield record
    finally:
        watch.records.pop()


def see(number: Any, *values: np.ndarray[Any, Any]) -> None:
    """What watched programs call: the number of a node, its operands, its results."""
    if not watch.records:
        return
    record = watch.records[-1]
    node = record.watched.nodes[int(number)]
    operands, results = values[: -len(node.outputs)], values[-len(node.outputs) :]
    worst = next((x for x in results if is_bad(x, record.mode)), None)
    if worst is not None:
        bad = [is_bad(x, record.mode) for x in operands]
        record.events.append(Event(int(number), told(worst), [summary(x) for x in operands], bad))


def is_bad(x: Any, mode: str) -> bool:
    """Whether there is a NaN in it, or for ``infs`` anything that is not finite."""
    a = np.asarray(x)
    if a.dtype.kind not in "fc" and a.dtype.name != "bfloat16":
        return False
    return bool(np.isnan(a).any() if mode == NANS else not np.isfinite(a).all())


def told(x: Any) -> str:
    """How much of an array is bad."""
    a = np.asarray(x)
    nans, infs = int(np.isnan(a).sum()), int(np.isinf(a).sum())
    if a.size == 1:
        return "NaN" if nans else str(a.reshape(-1)[0])
    parts = [f"{n} {what}" for n, what in ((nans, "NaN"), (infs, "infinite")) if n]
    return f"{' and '.join(parts)} of {a.size} elements"


def summary(x: Any) -> str:
    """An array in a few words: its value, or its range and what of it is not finite."""
    a = np.asarray(x)
    if a.size == 0:
        return "empty"
    if a.size <= 4 or a.dtype.kind not in "fiu":
        return np.array2string(a, precision=4, threshold=6, edgeitems=2, max_line_width=10_000).replace("\n", "")
    finite = a[np.isfinite(a)]
    parts = [f"{finite.min():.4g} to {finite.max():.4g}"] if finite.size else []
    parts += [f"{n} {what}" for n, what in ((np.isnan(a).sum(), "NaN"), (np.isinf(a).sum(), "infinite")) if n]
    return ", ".join(parts)


def judge(record: Record, outs: Sequence[Any], args: Sequence[Any]) -> None:
    """Finds where the first bad result came from.

    Raises:
        NotFiniteError: when there is one.
    """
    graph = record.watched.graph
    bad = [(v, x) for v, x in zip(graph.outputs, outs, strict=True) if x.dtype.kind != "k" and is_bad(x, record.mode)]
    if not bad:
        return
    events = {id(record.watched.nodes[e.number]): e for e in record.events}
    value = bad[0][0]
    while value.node is not None:
        event = events.get(id(value.node))
        if event is None:
            raise NotFiniteError(f"a result has {told(bad[0][1])}", op=value.node.op, location=_place(value.node))
        after = next((v for v, wrong in zip(shown(value.node), event.bad, strict=True) if wrong), None)
        if after is None:
            raise _error(*_innermost(record, value.node, event))
        value = after
    x = args[graph.inputs.index(value)]
    raise NotFiniteError(
        f"{origin(value)} has {told(x)}",
        operands=[Operand(value.name or "value", str(value.type), summary(x))],
        rule="under debug_nans a NaN that reaches a result is an error",
        hint="look at where it is made",
    )


def shown(node: Node) -> list[Any]:
    """The operands of a node that are looked at: not keys and tokens."""
    return [v for v in node.inputs if v.type.dtype.kind not in "kt"]


def _innermost(record: Record, node: Node, event: Event) -> tuple[Node, Event]:
    """For a node that runs functions, the first op inside it that made something bad out of what was not."""
    held = [g for a in node.attrs.values() for g in graphs_in(a)]
    inside = {id(n) for g in held for h in (g, *g.functions()) for n in h.nodes}
    for e in record.events:
        found = record.watched.nodes[e.number]
        if id(found) in inside and not any(e.bad) and not any(graphs_in(a) for a in found.attrs.values()):
            return found, e
    return node, event


def _place(node: Node) -> Any:
    return None if node.loc is None else node.loc.resolve()


def _error(node: Node, event: Event) -> NotFiniteError:
    values = shown(node)
    names = ["left", "right"] if len(values) == 2 else [f"operand {i}" for i in range(len(values))]
    if len(values) == 1:
        names = ["value"]
    told = ["what goes into each step" if v.node is None and not v.name else origin(v) for v in values]
    rows = zip(names, values, event.operands, told, strict=True)
    return NotFiniteError(
        f"{node.op} gives {event.result}",
        op=node.op,
        operands=[Operand(n, str(v.type), f"{text}  {made}") for n, v, text, made in rows][:5],
        location=_place(node),
        rule="under debug_nans a NaN that reaches a result is an error, at the op that made it of other values",
        hint="dd.where on the operand, before the op",
        details={"result": event.result, "operands": event.operands},
    )


def judge_op(op: str, args: Sequence[Any], outs: Sequence[Any], types: Sequence[Type]) -> None:
    """The same for a single op outside traces.

    Raises:
        NotFiniteError: when a result is bad and no operand was.
    """
    mode = watch.mode
    given = [(x, t) for x, t in zip(args, types, strict=True) if t.dtype.kind not in "kt"]
    if mode is None or any(is_bad(x, mode) for x, _ in given):
        return
    for y in outs:
        if y.dtype.kind != "k" and is_bad(y, mode):
            names = ["value"] if len(given) == 1 else [f"operand {i}" for i in range(len(given))]
            operands = [Operand(n, str(t), summary(x)) for n, (x, t) in zip(names, given, strict=True)]
            raise NotFiniteError(f"{op} gives {told(y)}", op=op, operands=operands[:5])
