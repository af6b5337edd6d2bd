"""Values on the two sides of a branch, or from turn to turn of a loop: what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dala_defn import dtypes, ops, trees
from dala_defn.array import Array
from dala_defn.dtypes import DType
from dala_defn.functions.base import convert, dtype_of, is_value
from dala_defn.ir import Graph, Type, Value
from dala_defn.ops.spec import OPS
from dala_defn.sources import Location
from dala_defn.trace import Trace, Tracer


class _Absent:
    """What a variable without a value holds."""

    def __repr__(self) -> str:
        return "no value"


ABSENT = _Absent()


class Unassigned:
    """What a variable holds when a branch or loop that may not run gives it its value.

    Attributes:
        dead: whether nothing reads it before it gets another one, so that it may as well hold anything.
    """

    def __init__(self, name: str, reason: str, place: Location, dead: bool = False) -> None:
        self.name = name
        self.reason = reason
        self.place = place
        self.dead = dead


def has_value(x: Any) -> bool:
    """Whether a variable that holds this can be read."""
    return x is not ABSENT and type(x) is not Unassigned


def is_dead(x: Any) -> bool:
    """Whether a variable that holds this is not read as it is."""
    return type(x) is Unassigned and x.dead


def traced(x: Any) -> bool:
    """Whether a condition is only known when the program runs: an array inside a trace."""
    return type(x) is Tracer or (type(x) is Array and ops.current_trace() is not None)


def number_kind(x: Any) -> str | None:
    """The kind of the Python number that a value is, or that it stands for."""
    return x.weak if type(x) is Tracer else dtypes.weak_kind(x)


def is_dynamic(x: Any) -> bool:
    """Whether a leaf can be a value of a graph."""
    return is_value(x) or dtypes.weak_kind(x) is not None


def type_of(x: Any) -> Type:
    """The type of a dynamic leaf."""
    if is_value(x):
        return Type(dtype_of(x), tuple(x.shape))
    return Type(dtypes.promote_weak(None, dtypes.weak_kind(x) or ""), ())


class _Text:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def describe(x: Any) -> str:
    """A value as an error shows it: the types of its arrays in their places."""
    if not has_value(x):
        return "no value"
    leaves, tree = trees.flatten(x)
    return repr(trees.unflatten(tree, [_Text(_leaf(leaf)) for leaf in leaves]))


def _leaf(x: Any) -> str:
    if is_value(x):
        return str(type_of(x))
    if dtypes.weak_kind(x) is not None:
        return f"{type(x).__name__} {x!r}"
    text = repr(x)
    return text if len(text) <= 30 else f"a {type(x).__name__}"


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are one value in all that a program can tell."""
    if a is b:
        return True
    if type(a) is not type(b) or is_value(a):
        return False
    if dtypes.weak_kind(a) is not None:
        return repr(a) == repr(b)
    try:
        return bool(a == b)
    except Exception:
        return False


@dataclass(frozen=True)
class Slot:
    """A leaf that becomes an output of a graph."""

    type: Type
    weak: str | None


@dataclass(frozen=True)
class Kept:
    """A leaf that is the same on all sides."""

    value: Any


@dataclass(frozen=True)
class Joined:
    """What values of several sides have in common: one structure, and for each leaf a slot or the value itself."""

    tree: trees.Tree
    slots: tuple[Slot | Kept, ...]

    def outputs(self, x: Any) -> list[Any]:
        """The leaves of one side that become outputs, in the types of the slots; zeros for a side without a value."""
        wanted = [s for s in self.slots if isinstance(s, Slot)]
        if not has_value(x):
            return [zeros(s.type) for s in wanted]
        leaves = trees.flatten(x)[0]
        return [convert(leaf, s.type.dtype) for leaf, s in zip(leaves, self.slots, strict=True) if isinstance(s, Slot)]

    def build(self, outputs: Any) -> Any:
        """The value, with these outputs (an iterator) in the slots."""
        return trees.unflatten(
            self.tree, [s.value if isinstance(s, Kept) else marked(next(outputs), s) for s in self.slots]
        )


def marked(x: Any, slot: Slot) -> Any:
    """A new traced value; one that stands for a Python number says so."""
    if type(x) is Tracer and slot.weak is not None:
        x.weak = slot.weak
    return x


def join(values: Sequence[Any]) -> Joined | None:
    """What the values have in common, those that are absent left out; ``None`` when their types differ."""
    present = [x for x in values if has_value(x)]
    flat = [trees.flatten(x) for x in present]
    tree = flat[0][1]
    if any(t != tree for _, t in flat):
        return None
    slots: list[Slot | Kept] = []
    for leaves in zip(*[x for x, _ in flat], strict=True):
        if all(same(leaves[0], x) for x in leaves[1:]) and (len(leaves) > 1 or not is_dynamic(leaves[0])):
            slots.append(Kept(leaves[0]))
            continue
        slot = _slot(leaves)
        if slot is None:
            return None
        slots.append(slot)
    return Joined(tree, tuple(slots))


def _slot(leaves: Sequence[Any]) -> Slot | None:
    if not all(is_dynamic(x) for x in leaves):
        return None
    types = [type_of(x) for x in leaves]
    kinds = [number_kind(x) for x in leaves]
    if any(t.shape != types[0].shape for t in types):
        return None
    strong = {t.dtype for t, kind in zip(types, kinds, strict=True) if kind is None}
    if len(strong) > 1:
        return None
    dtype: DType | None = next(iter(strong), None)
    for kind in kinds:
        if kind is None:
            continue
        if dtype is not None and dtype.kind in "kt":
            return None
        dtype = dtypes.promote_weak(dtype, kind)
        if strong and dtype not in strong:
            return None
    assert dtype is not None
    kind = None if strong else max((k for k in kinds if k is not None), key="bifc".index)
    return Slot(Type(dtype, types[0].shape), kind)


def zeros(t: Type) -> Any:
    """Something of a type for a place that nobody reads."""
    if t.dtype is dtypes.key:
        words = OPS["broadcast_to"](ops.lit(0, dtypes.uint32), shape=(*t.shape, 2))
        return OPS["random_wrap"](words)
    return OPS["broadcast_to"](ops.lit(0, t.dtype), shape=t.shape) if t.shape else ops.lit(0, t.dtype)


class Part:
    """A graph being made in pieces: a branch or the body of a loop. It is a trace that can be entered again."""

    def __init__(self, name: str) -> None:
        parent = ops.current_trace()
        self.trace = Trace(name, parent if isinstance(parent, Trace) else None)
        self.graph: Graph | None = None
        self.own: list[Value] = []

    def argument(self, t: Type, weak: str | None = None) -> Tracer:
        """A new input."""
        made = self.trace.argument(t, "", weak)
        self.own.append(made._value)
        return made

    @contextmanager
    def entered(self) -> Any:
        """What is done inside is recorded here."""
        ops.push_trace(self.trace)
        try:
            yield self
        finally:
            ops.pop_trace(self.trace)

    def close(self, outputs: Sequence[Any]) -> None:
        """Ends it with these outputs."""
        with self.entered():
            self.graph = self.trace.finish(outputs)
        self.trace.open = False

    @property
    def captures(self) -> list[Any]:
        """What it took from outside."""
        return self.trace.captures

    def has_effects(self) -> bool:
        """Whether something in it has to run although no value comes from it."""
        return any(node.has_effect for node in self.trace.nodes)


def together(parts: Sequence[Part]) -> list[Any]:
    """All that the parts took from outside, each once."""
    found: list[Any] = []
    for part in parts:
        found += [x for x in part.captures if not any(x is y for y in found)]
    return found


def closed(part: Part, shared: Sequence[Any], args: Sequence[Value], first: bool) -> Graph:
    """The graph of a part with the inputs ``args``, before or after them all that it shares with other parts."""
    assert part.graph is not None
    graph, own = part.graph, set(part.own)
    taken = [v for v in graph.inputs if v not in own]
    extra = [Value(type_of(x)) for x in shared]
    for x, v in zip(part.captures, taken, strict=True):
        extra[next(i for i, y in enumerate(shared) if y is x)] = v
    inputs = [*extra, *args] if first else [*args, *extra]
    return Graph(graph.name, inputs, graph.nodes, graph.outputs)


__all__ = ["ABSENT", "Joined", "Kept", "Part", "Slot", "Unassigned"]
