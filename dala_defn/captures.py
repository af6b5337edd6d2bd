"""What a traced function took from outside: arrays become hidden inputs, everything else is watched.

An array is looked up again where it was found (a closure cell, a global, an attribute, an item of a container), so
rebinding or replacing it is seen by the next call. Everything else in the places that the function's code can reach is
compared at each call, and when it has changed, the function is traced again: numbers, strings, enums and what else has
no parts; which function, class or kind of object stands there; the keys and the number of items of containers; NumPy
arrays that are no inputs (by their bytes). Attributes count when some code that can run names them.

Not seen is what lies outside of Python's objects or inside those of other packages (files, the environment, iterators),
and what Python reads of the numbers of a NumPy array that is an input as well (``x * w`` and ``float(w[0])``): with an
array of Dala that is seen, too.
"""

from __future__ import annotations

import array
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import keyword
import operator
import re
import struct
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from dala_defn.array import Array
from dala_defn.errors import EscapedTracerError, TraceError
from dala_defn.sources import FOREIGN, PACKAGE, write_function
from dala_defn.trace import Trace, Tracer, describe

MOST_PLACES = 100_000
MOST_BYTES = 16 << 20  # of a NumPy array that is compared at each call
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_BY_NAME = {"getattr", "vars", "__dict__", "attrgetter", "asdict", "fields", "__getattribute__"}
# Special methods that no operator of an array program runs.
_NO_CODE = {"__new__", "__init__", "__del__", "__repr__", "__str__", "__init_subclass__", "__class__", "__reduce__"}
_CODE = (types.FunctionType, types.MethodType, functools.partial)
_MISSING = object()
T = TypeVar("T")


def exact(x: Any) -> Any:
    """A hashable, equal for the same value of the same type only: 1, True and 1.0 differ, and so do 0.0 and -0.0."""
    kind = type(x)
    if kind is float:
        return kind, struct.pack("<d", x)
    if kind is complex:
        return kind, struct.pack("<dd", x.real, x.imag)
    if isinstance(x, tuple):
        return kind, tuple([exact(item) for item in x])
    return kind, x


def weak(x: Any) -> Callable[[], Any]:
    """Gives ``x`` while it lives, without keeping it alive; where that cannot be, it is kept."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def _wrapped(x: Any) -> str | None:
    """The attribute that holds the function of what wraps one; only its own are looked at, as asking may run code."""
    own = x.__dict__ if hasattr(type(x), "__dict__") and isinstance(getattr(x, "__dict__", None), dict) else {}
    if isinstance(own.get("f"), _CODE) and "__wrapped__" in own:
        return "f"
    for name in ("_apply", "__wrapped__"):
        if isinstance(own.get(name), _CODE):
            return name
    return None


class ByInstance(Generic[T]):
    """One thing for each object, told apart by identity, for as long as the object lives."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Callable[[], Any], T]] = {}

    def get(self, x: Any, make: Callable[[Any], T]) -> T:
        """What is held for ``x``, made at the first time."""
        found = self._held.get(id(x))
        if found is not None and found[0]() is x:
            return found[1]
        held, key = self._held, id(x)
        made = make(x)
        try:
            ref: Callable[[], Any] = weakref.ref(x, lambda _: held.pop(key, None))
        except TypeError:
            ref = weak(x)
        held[key] = (ref, made)
        return made


@dataclasses.dataclass(frozen=True)
class Place:
    """A place that holds a value: ``kind`` says how to read ``key`` from what the place ``parent`` (-1: none) holds."""

    kind: str  # root, item, attribute, cell, class
    parent: int
    key: Any


_watched: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def watch(x: Array, holder: Any) -> None:
    """Says that ``x`` is ``holder.value``: what captures it reads it there again at each call."""
    _watched[id(x)] = holder


def _held(holder: Callable[[], Any]) -> Any:
    return getattr(holder(), "value", _MISSING)


class _Walk:
    """All places that a function can reach, each parent before its children, and what is to be watched there."""

    def __init__(self, roots: Sequence[tuple[Callable[[], Any], Any, str]]) -> None:
        self.places: list[Place] = []
        self.values: list[Any] = []
        self.labels: list[str] = []
        self.names: set[str] = set()
        self.watched: list[tuple[int, str, Any]] = []  # place, how, what it was
        self.tracers: list[int] = []
        self.arrays: list[int] = []
        self._every = False  # whether some code reads attributes by computed names
        self._kept: list[Any] = []  # ids are told apart while what they belong to is alive
        self._seen: dict[int, int] = {}
        self._todo: list[int] = []
        self._objects: list[tuple[int, Any]] = []
        self._read: dict[int, set[tuple[str, str]]] = {}
        for read, x, label in roots:
            self.add("root", -1, read, x, label)
        # Attributes count when any code that can run names them, so objects are visited again while names are found.
        while True:
            while self._todo:
                self._visit(self._todo.pop())
            known = len(self.names), self._every
            for index, x in list(self._objects):
                self._attributes(index, x)
            if not self._todo and known == (len(self.names), self._every):
                break
        for index, x in self._objects:
            if isinstance(x, (type, types.ModuleType)) or not hasattr(x, "__dict__"):
                continue
            wanted = None if self._every else frozenset(self.names)
            self.watched.append((index, "names", (wanted, _own(x, wanted))))

    def add(self, kind: str, parent: int, key: Any, x: Any, label: str) -> int:
        """A new place, to be visited."""
        if len(self.places) >= MOST_PLACES:
            raise TraceError(
                f"the function reaches more than {MOST_PLACES} values outside itself, such as {self.label(parent)}",
                rule="each is compared at every call",
                hint="an argument, or one array (dd.array) in the place of many numbers",
            )
        self.places.append(Place(kind, parent, key))
        self.values.append(x)
        self.labels.append(label)
        self._todo.append(len(self.places) - 1)
        return len(self.places) - 1

    def label(self, index: int) -> str:
        """A place as a person would write it."""
        parts: list[str] = []
        while index >= 0:
            parts.append(self.labels[index])
            if not self.labels[index].startswith((".", "[")) and self.labels[index]:
                break
            index = self.places[index].parent
        return "".join(reversed(parts))

    def _watch(self, index: int, how: str, was: Any) -> None:
        self.watched.append((index, how, was))

    def _first(self, index: int, x: Any) -> bool:
        """Whether an object is met for the first time; other places must go on to hold the same object."""
        first = self._seen.setdefault(id(x), index)
        if first == index:
            self._kept.append(x)
            return True
        self._watch(max(index, first), "alias", min(index, first))
        return False

    def _child(self, index: int, name: str) -> None:
        self.add("attribute", index, name, getattr(self.values[index], name), f".{name}")

    def _visit(self, index: int) -> None:
        """Goes on from a place into what it holds."""
        x = self.values[index]
        if isinstance(x, Tracer):
            self.tracers.append(index)
        elif isinstance(x, (Array, np.ndarray, np.generic)):
            self.arrays.append(index)
        elif isinstance(x, (enum.Enum, types.BuiltinFunctionType, types.BuiltinMethodType)):
            self._watch(index, "equal", x)
        elif isinstance(x, _PLAIN):
            self._watch(index, "exact", x)
        elif isinstance(x, types.FunctionType):
            self._function(index, x)
        elif isinstance(x, types.MethodType):
            self._child(index, "__self__")
            self._child(index, "__func__")
        elif isinstance(x, (functools.partial, functools.partialmethod)):
            for name in ("func", "args", "keywords"):
                self._child(index, name)
        elif isinstance(x, property):
            self._child(index, "fget")
        elif isinstance(x, functools.cached_property):
            self._child(index, "func")
        elif isinstance(x, (staticmethod, classmethod)):
            self._child(index, "__func__")
        elif (wrapped := _wrapped(x)) is not None:
            self._child(index, wrapped)
        elif isinstance(x, (dict, list, tuple, collections.deque)):
            self._container(index, x)
        elif isinstance(x, (set, frozenset, bytearray, array.array)):
            self._watch(index, "copy", copy.copy(x))
        elif isinstance(x, types.ModuleType):
            if x.__name__.partition(".")[0] not in FOREIGN and self._first(index, x):
                self._objects.append((index, x))
        elif isinstance(x, type):
            self._watch(index, "same", weak(x))
            if not _foreign(x) and self._first(index, x):
                self._objects.append((index, x))
        elif _ours(type(x)):
            self._watch(index, "same", weak(x))  # a layer's arrays are watched by it
            if self._first(index, x):
                self._relied_on(index, x)
        elif _foreign(type(x)) and not hasattr(x, "__dict__"):
            self._watch(index, "equal", x)
        elif self._first(index, x):
            self.add("class", index, None, type(x), ".__class__")
            self._objects.append((index, x))
            self._relied_on(index, x)

    def _relied_on(self, index: int, x: Any) -> None:
        """What the code of this package reads of an object, as its class says: that code is not looked at."""
        for name in x.relied_on() if hasattr(type(x), "relied_on") else ():
            self._child(index, name)

    def _function(self, index: int, f: types.FunctionType) -> None:
        """Closure cells, defaults and named globals; our own functions have nothing in their globals that changes."""
        ours = f.__code__.co_filename.startswith(PACKAGE) or (f.__module__ or "").partition(".")[0] in FOREIGN
        if ours and isinstance(getattr(f, "__wrapped__", None), types.FunctionType):
            return self._child(index, "__wrapped__")  # a boundary: all of them share one code
        root = self.places[index].parent < 0
        if not root:
            self._watch(self._quiet("attribute", index, "__code__", f.__code__), "equal", f.__code__)
        if not self._first(index, f):
            return None
        if f.__closure__:
            at = self._quiet("attribute", index, "__closure__", f.__closure__)
            for i, (cell, name) in enumerate(zip(f.__closure__, f.__code__.co_freevars, strict=True)):
                with contextlib.suppress(ValueError):  # an empty cell
                    x = cell.cell_contents
                    self.add("cell", self._quiet("item", at, i, cell), None, x, f"closure variable {name}")
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(f, name) and not root:  # where they are arguments
                self._child(index, name)
        if ours:
            return None
        named, texts = _names(f.__code__)
        self.names |= named
        if named & _BY_NAME:
            self._every = True
            self.names |= texts
        found = sorted(named & f.__globals__.keys())
        if found:
            table = self._quiet("attribute", index, "__globals__", f.__globals__)
            for name in found:
                self.add("item", table, name, f.__globals__[name], f"global {name}")
        return None

    def _quiet(self, kind: str, parent: int, key: Any, x: Any) -> int:
        """A place on the way to others."""
        index = self.add(kind, parent, key, x, "")
        self._todo.pop()
        return index

    def _container(self, index: int, x: Any) -> None:
        """The items, and how many there are."""
        self._watch(self._quiet("class", index, None, type(x)), "same", weak(type(x)))
        if not self._first(index, x):
            return
        items = x.values() if isinstance(x, dict) else x
        self._watch(index, "keys" if isinstance(x, dict) else "length", tuple(x) if isinstance(x, dict) else len(x))
        if len(x) > 1 and all(type(item) in _PLAIN for item in items):
            self._watch(index, "values" if isinstance(x, dict) else "items", tuple(items))
            return
        for key, item in x.items() if isinstance(x, dict) else enumerate(x):
            self.add("item", index, key, item, f"[{key!r}]")

    def _attributes(self, index: int, x: Any) -> None:
        """The attributes that some code names; methods that it names, or that operators call, are code too."""
        read = self._read.setdefault(index, set())
        if isinstance(x, type):
            for k in x.__mro__:
                for name, held in vars(k).items() if not _foreign(k) else ():
                    special = name.startswith("__")
                    if ("class", name) in read or not (
                        _runs(name, held) if special else self._every or name in self.names
                    ):
                        continue
                    read.add(("class", name))
                    if not isinstance(held, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                        self.add("static", index, name, held, f".{name}")
            return
        own = set(getattr(x, "__dict__", ())).union(*(getattr(k, "__slots__", ()) for k in type(x).__mro__))
        named = own if self._every and not isinstance(x, types.ModuleType) else own & self.names
        for name in sorted(named):
            if ("own", name) not in read and hasattr(x, name):
                read.add(("own", name))
                self.add("attribute", index, name, getattr(x, name), f".{name}")


def _root(f: Callable[..., Any]) -> Callable[[], Any]:
    """Gives ``f``; of a method, the object is not kept alive."""
    if not isinstance(f, types.MethodType):
        return lambda: f
    function, owner = f.__func__, weak(f.__self__)
    return lambda: types.MethodType(function, owner())


def _runs(name: str, held: Any) -> bool:
    """Whether an operator may run this special method; those that dataclasses write read nothing but fields."""
    return isinstance(held, types.FunctionType) and name not in _NO_CODE and held.__code__.co_filename != "<string>"


def _foreign(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in FOREIGN


def _ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "dala_defn"


def _own(x: Any, wanted: frozenset[str] | None) -> tuple[str, ...]:
    """The names, of those wanted (or all), that an object has for itself: a new one may hide that of its class."""
    return tuple([n for n in x.__dict__ if wanted is None or n in wanted])


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """The names in a function and in those inside it, and the identifiers among its strings."""
    names, texts = set(code.co_names), set()
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            more, others = _names(const)
            names |= more
            texts |= others
        elif isinstance(const, str) and const.isidentifier():
            texts.add(const)
    return names, texts


def static(kind: type, name: str) -> Any:
    """An attribute of a class as it is written there."""
    for k in kind.__mro__:
        if name in vars(k):
            return vars(k)[name]
    raise AttributeError(name)


class Captured:
    """The hidden inputs of a trace, and everything else outside it that it relied on.

    Raises:
        EscapedTracerError: when a value of the trace stays behind in a place outside.
        TraceError: when more can be reached than can be compared at each call.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        arrays: Sequence[Any],
        statics: Mapping[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> None:
        roots = [(_root(f), f, "")]
        for name, x in (statics or {}).items():
            if not isinstance(x, _PLAIN):
                roots.append((functools.partial(_itself, x), x, f"argument {name}"))
        walk = _Walk(roots)
        for index in walk.tracers:
            _report(walk, index, trace)
        watched = list(walk.watched)
        by_id: dict[int, list[int]] = {}
        for i in walk.arrays:
            by_id.setdefault(id(walk.values[i]), []).append(i)
        sources = [by_id.get(id(x), []) for x in arrays]
        # An array with no place may have been computed, by NumPy, from others.
        computed = any(not at and not isinstance(x, Array) for x, at in zip(arrays, sources, strict=True))
        inputs = {id(x) for x in arrays}
        read = {id(x) for x in (trace.read if trace is not None else ())}
        for i in walk.arrays:
            x = walk.values[i]
            if isinstance(x, Array):
                if id(x) in read:
                    watched.append((i, "same", weak(x)))
            elif id(x) not in inputs or computed:
                if x.nbytes > MOST_BYTES and id(x) not in inputs:
                    raise TraceError(
                        f"{walk.label(i)} is a NumPy array of {x.nbytes >> 20} MiB that is no operand of an op",
                        rule="what NumPy computes from it while tracing would have to be compared at every call",
                        hint="dd.array of it, which does not change, or an argument",
                    )
                watched.append((i, "bytes", (x.dtype, x.shape, x.tobytes())))
        self._write(walk, watched, arrays, sources)

    def _write(
        self,
        walk: _Walk,
        watched: Sequence[tuple[int, str, Any]],
        arrays: Sequence[Any],
        sources: Sequence[Sequence[int]],
    ) -> None:
        """Writes ``current``: the places on the way to what is watched are read, and no others."""
        used: set[int] = set()
        twins = [was for _, how, was in watched if how == "alias"]
        for i in [*(i for i, _, _ in watched), *twins, *(i for at in sources for i in at)]:
            while i >= 0 and i not in used:
                used.add(i)
                i = walk.places[i].parent
        known: dict[str, Any] = {"exact": exact, "own": _own, "static": static, "fits": _fits, "is_": operator.is_}

        def constant(x: Any) -> str:
            known[f"k{len(known)}"] = x
            return f"k{len(known) - 1}"

        checks: dict[int, list[str]] = {}
        told: dict[int, list[str]] = {}
        for i, how, was in watched:
            checks.setdefault(i, []).append(_CHECKS[how](f"p{i}", constant, was))
            told.setdefault(i, []).append(how)
        lines = ["try:", "    pass"]
        for i in sorted(used):
            place = walk.places[i]
            holder, key = f"p{place.parent}", place.key
            read = {
                "root": lambda: f"{constant(key)}()",  # noqa: B023
                "item": lambda: f"{holder}[{constant(key)}]",  # noqa: B023
                "attribute": lambda: f"{holder}.{key}" if _plain_name(key) else f"getattr({holder}, {key!r})",  # noqa: B023
                "cell": lambda: f"{holder}.cell_contents",  # noqa: B023
                "class": lambda: f"{holder}.__class__",  # noqa: B023
                "static": lambda: f"static({holder}, {key!r})",  # noqa: B023
            }[place.kind]()
            lines.append(f"    p{i} = {read}")
            lines += [f"    if {check}: return None  #{i}" for check in checks.get(i, ())]
        lines.append("except Exception: return None  #-1")
        given = []
        for n, (x, found) in enumerate(zip(arrays, sources, strict=True)):
            owner = _watched.get(id(x))
            if owner is not None and owner.value is x:
                lines.append(f"a{n} = {constant(functools.partial(_held, weakref.ref(owner)))}()")
            elif found:
                lines.append(f"a{n} = p{found[0]}")
                # Two names of one array may have become two arrays.
                lines += [f"if p{i} is not a{n}: return None  #{i}" for i in found[1:]]
            else:
                given.append(constant(x))
                continue
            k = constant(x)
            at = found[0] if found else -1
            lines.append(f"if a{n} is not {k} and not fits(a{n}, {k}): return None  #{at}")
            given.append(f"a{n}")
        lines.append(f"return [{', '.join(given)}]")
        self.simple = not used and not arrays
        self.current: Callable[[], list[Any] | None] = write_function("current", "", lines, known)
        """The hidden inputs as they are now, or ``None`` when the trace no longer holds."""
        self._lines, self._known = lines, known
        self._labels = {i: walk.label(i) for i in used}
        self._was = {i: _shown(walk.values[i]) for i in {*checks, *(i for at in sources for i in at)}}

    def difference(self) -> tuple[str, str, str] | None:
        """What has changed since: the place, what it held, and what it holds now; ``None`` when nothing has."""
        lines = [re.sub(r"return None  #(.*)", r"return (\1, locals())", line) for line in self._lines]
        lines[-1] = "return None"
        found = write_function("difference", "", lines, self._known)()
        if found is None:
            return None
        i, seen = found
        if i < 0:  # a place could not be read
            i = next((n for n in sorted(self._labels) if f"p{n}" not in seen), -1)
        now = _shown(seen[f"p{i}"]) if f"p{i}" in seen else "nothing"
        was = self._was.get(i, "")
        label = self._labels.get(i, "what it captured")
        return label, was, now if now != was else f"{now}, changed"


def _shown(x: Any) -> str:
    """A value in a few words."""
    if isinstance(x, (Array, Tracer, np.ndarray, np.generic)):
        return f"{x.dtype}{list(x.shape)}"
    name = getattr(x, "__qualname__", None)
    if isinstance(name, str):
        return name
    text = repr(x) if isinstance(x, (*_PLAIN, enum.Enum, list, tuple, dict, set, frozenset)) else type(x).__qualname__
    return text if len(text) <= 60 else text[:57] + "..."


def _plain_name(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key)


def _itself(x: Any) -> Any:
    return x


def _fits(now: Any, was: Any) -> bool:
    """Whether another array can take the place of a hidden input."""
    return (
        hasattr(now, "dtype")
        and not isinstance(now, Tracer)
        and tuple(now.shape) == tuple(was.shape)
        and now.dtype == was.dtype
        and isinstance(now, Array) == isinstance(was, Array)
    )


# When a place has changed, as an expression over its variable, by how it is watched.
_CHECKS: dict[str, Callable[[str, Callable[[Any], str], Any], str]] = {
    "exact": lambda p, k, was: f"{p} is not {k(was)} and exact({p}) != {k(exact(was))}",
    "equal": lambda p, k, was: f"{p} is not {k(was)} and (type({p}) is not {k(type(was))} or {p} != {k(was)})",
    "same": lambda p, k, was: f"{p} is not {k(was)}()",
    "alias": lambda p, k, was: f"{p} is not p{was}",
    "copy": lambda p, k, was: f"type({p}) is not {k(type(was))} or {p} != {k(was)}",
    "keys": lambda p, k, was: f"tuple({p}) != {k(was)}",
    "length": lambda p, k, was: f"len({p}) != {len(was) if isinstance(was, tuple) else was}",
    "items": lambda p, k, was: f"not all(map(is_, {p}, {k(was)})) and exact(tuple({p})) != {k(exact(was))}",
    "values": lambda p, k, was: (
        f"not all(map(is_, {p}.values(), {k(was)})) and exact(tuple({p}.values())) != {k(exact(was))}"
    ),
    "names": lambda p, k, was: f"own({p}, {k(was[0])}) != {k(was[1])}",
    "bytes": lambda p, k, was: f"({p}.dtype, {p}.shape, {p}.tobytes()) != {k(was)}",
}


def _report(walk: _Walk, index: int, trace: Trace | None) -> None:
    """Raises when a place outside holds a value of this trace, or of one inside it."""
    x = walk.values[index]
    at: Any = x._trace
    while at is not None and at is not trace:
        at = at.parent
    if trace is None or at is None:
        return
    node = x._value.node
    raise EscapedTracerError(
        f"a traced value stays behind in {walk.label(index)}",
        operands=[describe(x, 0)],
        rule=f"values of the trace of {trace.name} live until it returns",
        hint="return the value instead of storing it",
        location=None if node is None or node.loc is None else node.loc.resolve(),
    )
