"""What a traced function took from outside: arrays become hidden inputs, plain values are watched.

An array is looked up again where it was found (a closure cell, a global, an attribute, an item of a container), so
rebinding or replacing it is seen by the next call. Numbers and strings in these places are compared at each call; when
one has changed, the function is traced again. Seen are the places that the function's code and the functions it names
can reach, ``MOST_PLACES`` at most; not seen is what Python computed from them while tracing.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from dala_defn.array import Array
from dala_defn.sources import PACKAGE
from dala_defn.trace import Tracer

MOST_PLACES = 10_000
MOST_DEPTH = 8
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_FOREIGN = {*sys.stdlib_module_names, "numpy", "ml_dtypes", "dala_defn"}
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

    kind: str
    parent: int
    key: Any

    def read(self, holder: Any) -> Any:
        """What the place holds now."""
        try:
            if self.kind == "item":
                return holder[self.key]
            if self.kind == "attribute":
                return getattr(holder, self.key)
            if self.kind == "cell":
                return self.key.cell_contents
            if self.kind == "keys":
                return tuple(holder) if isinstance(holder, dict) else len(holder)
            return self.key()
        except (ValueError, LookupError, AttributeError, TypeError):
            return _MISSING


_watched: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def watch(x: Array, holder: Any) -> None:
    """Says that ``x`` is ``holder.value``: what captures it reads it there again at each call."""
    _watched[id(x)] = holder


def _held(holder: Callable[[], Any]) -> Any:
    return getattr(holder(), "value", _MISSING)


class _Walk:
    """All places that a function can reach, each parent before its children."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.places: list[Place] = []
        self.values: list[Any] = []
        self.names: set[str] = set()
        self.kept: list[Any] = []  # ids are told apart while what they belong to is alive
        self.functions: set[int] = set()
        self.holders: set[int] = set()
        self.objects: list[tuple[int, Any]] = []
        # A method is cached with its object: what is kept here must not keep that alive.
        self.value(self.add("root", -1, _root(f), f), f, 0)
        # Attributes count when any code that can run names them, so the codes are collected first.
        done = 0
        while done < len(self.objects):
            index, x = self.objects[done]
            done += 1
            self.object(index, x)

    def add(self, kind: str, parent: int, key: Any, value: Any) -> int:
        """A new place."""
        self.places.append(Place(kind, parent, key))
        self.values.append(value)
        return len(self.places) - 1

    def value(self, index: int, x: Any, depth: int) -> None:
        """Goes on from a place into what it holds."""
        if isinstance(x, (*_PLAIN, Array, Tracer)) or hasattr(x, "dtype") or depth > MOST_DEPTH:
            return
        if len(self.places) >= MOST_PLACES:
            return
        if isinstance(x, types.FunctionType):
            self.function(index, x, depth)
        elif isinstance(x, types.MethodType):
            self.child("attribute", index, "__self__", x.__self__, depth)
            self.child("attribute", index, "__func__", x.__func__, depth)
        elif isinstance(x, functools.partial):
            for name in ("func", "args", "keywords"):
                self.child("attribute", index, name, getattr(x, name), depth)
        elif isinstance(found := getattr(x, "f", None), _CODE) and hasattr(x, "__wrapped__"):
            self.child("attribute", index, "f", found, depth)
        elif isinstance(found := getattr(x, "_apply", None), _CODE):
            self.child("attribute", index, "_apply", found, depth)
        elif isinstance(found := getattr(x, "__wrapped__", None), _CODE):
            self.child("attribute", index, "__wrapped__", found, depth)
        elif isinstance(x, (dict, list, tuple)):
            self.container(index, x, depth)
        elif isinstance(x, types.ModuleType):
            if x.__name__.partition(".")[0] not in _FOREIGN:
                self.objects.append((index, x))
        elif not isinstance(x, type) and not _foreign(type(x)):
            self.objects.append((index, x))

    def child(self, kind: str, parent: int, key: Any, x: Any, depth: int) -> None:
        """A place inside another one."""
        self.value(self.add(kind, parent, key, x), x, depth + 1)

    def function(self, index: int, f: types.FunctionType, depth: int) -> None:
        """Closure cells and named globals; our own functions have nothing in their globals that changes."""
        if id(f) in self.functions:
            return
        self.functions.add(id(f))
        self.kept.append(f)
        for cell in f.__closure__ or ():
            place = Place("cell", index, cell)
            x = place.read(None)
            if x is not _MISSING:
                self.child("cell", index, cell, x, depth)
        for i, x in enumerate(f.__defaults__ or ()):
            if isinstance(x, types.FunctionType):
                self.child("item", self.add("attribute", index, "__defaults__", f.__defaults__), i, x, depth)
        if f.__code__.co_filename.startswith(PACKAGE) or (f.__module__ or "").partition(".")[0] in _FOREIGN:
            return
        named = set(_names(f.__code__))
        self.names |= named
        found = sorted(named & f.__globals__.keys())
        if found:
            table = self.add("attribute", index, "__globals__", f.__globals__)
            for name in found:
                self.child("item", table, name, f.__globals__[name], depth)

    def container(self, index: int, x: Any, depth: int) -> None:
        """The items, and how many there are."""
        if id(x) in self.holders:
            return
        self.holders.add(id(x))
        self.kept.append(x)
        self.add("keys", index, None, tuple(x) if isinstance(x, dict) else len(x))
        for key, item in x.items() if isinstance(x, dict) else enumerate(x):
            self.child("item", index, key, item, depth)

    def object(self, index: int, x: Any) -> None:
        """The attributes that some code names; methods that it names are code too."""
        seen: set[str] = set()
        while fresh := (self.names - seen):
            seen |= fresh
            for name in sorted(fresh):
                method = getattr(type(x), name, None)
                wrapped = getattr(method, "__wrapped__", method)
                if isinstance(wrapped, types.FunctionType) and not isinstance(x, types.ModuleType):
                    at = self.add("attribute", self.add("attribute", index, "__class__", type(x)), name, method)
                    if wrapped is not method:
                        at = self.add("attribute", at, "__wrapped__", wrapped)
                    self.function(at, wrapped, 1)
        if id(x) in self.holders:
            return
        self.holders.add(id(x))
        self.kept.append(x)
        own = set(getattr(x, "__dict__", ())).union(*(getattr(k, "__slots__", ()) for k in type(x).__mro__))
        for name in sorted(own & self.names):
            if hasattr(x, name):
                self.child("attribute", index, name, getattr(x, name), 1)


def _root(f: Callable[..., Any]) -> Callable[[], Any]:
    """Gives ``f``; of a method, the object is not kept alive."""
    if not isinstance(f, types.MethodType):
        return lambda: f
    function, owner = f.__func__, weak(f.__self__)
    return lambda: types.MethodType(function, owner())


def _foreign(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _FOREIGN


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


class Captured:
    """The hidden inputs of a trace and the plain values that it relied on."""

    def __init__(self, f: Callable[..., Any], arrays: Sequence[Any]) -> None:
        walk = _Walk(f)
        by_id: dict[int, list[int]] = {}
        for i, x in enumerate(walk.values):
            by_id.setdefault(id(x), []).append(i)
        sources = [by_id.get(id(x), []) for x in arrays]
        plain = [i for i, x in enumerate(walk.values) if walk.places[i].kind == "keys" or isinstance(x, _PLAIN)]
        # Only the places on the way to these are read at each call.
        used: set[int] = set()
        for i in [*plain, *(i for at in sources for i in at)]:
            while i >= 0 and i not in used:
                used.add(i)
                i = walk.places[i].parent
        order = sorted(used)
        at = {old: new for new, old in enumerate(order)}
        self._places = [dataclasses.replace(p, parent=at.get(p.parent, -1)) for p in (walk.places[i] for i in order)]
        self._plain = [(at[i], walk.values[i], exact(walk.values[i])) for i in plain]
        self._arrays = []
        for x, found in zip(arrays, sources, strict=True):
            indices = [at[i] for i in found]
            holder = _watched.get(id(x))
            if holder is not None and holder.value is x:
                indices = [len(self._places)]
                self._places.append(Place("root", -1, functools.partial(_held, weakref.ref(holder))))
            self._arrays.append((x, indices))
        self.simple = not self._plain and not self._arrays
        self.now = self.current

    def current(self) -> list[Any] | None:
        """The hidden inputs as they are now, or ``None`` when the trace no longer holds."""
        held: list[Any] = []
        for place in self._places:
            held.append(place.read(held[place.parent] if place.parent >= 0 else None))
        for i, was, wanted in self._plain:
            now = held[i]
            if now is not was and exact(now) != wanted:
                return None
        out = []
        for x, places in self._arrays:
            now = held[places[0]] if places else x
            if any(held[i] is not now for i in places):
                return None  # two names of one array have become two arrays
            if now is not x and (
                not hasattr(now, "dtype")
                or isinstance(now, Tracer)
                or tuple(now.shape) != tuple(x.shape)
                or now.dtype != x.dtype
                or isinstance(now, Array) != isinstance(x, Array)
            ):
                return None
            out.append(now)
        return out
