"""What a traced function took from outside: arrays become hidden inputs, plain values are watched.

An array is looked up again where it was found (a closure cell, a global, an attribute of ``self``), so rebinding the
name is seen by the next call. A number or string that the function's own code refers to is compared at each call;
when it has changed, the function is traced again.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from dala_defn.array import Array
from dala_defn.trace import Tracer

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_MISSING = object()


class Origin:
    """A place that holds a value: read it with ``read()``."""

    __slots__ = ("holder", "key", "kind")

    def __init__(self, kind: str, holder: Any, key: Any) -> None:
        self.kind = kind
        self.holder = holder
        self.key = key

    def read(self) -> Any:
        """What the place holds now."""
        try:
            if self.kind == "cell":
                return self.holder.cell_contents
            if self.kind == "attribute":
                return getattr(self.holder, self.key)
            return self.holder[self.key]
        except (ValueError, KeyError, AttributeError):
            return _MISSING


_watched: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def watch(x: Array, holder: Any) -> None:
    """Says that ``x`` is ``holder.value``: what captures it reads it there again at each call."""
    _watched[id(x)] = holder


def origins(f: Callable[..., Any]) -> list[Origin]:
    """The places that a function's own code can read: closure cells, globals that it names, attributes of ``self``."""
    found: list[Origin] = []
    if isinstance(f, types.MethodType):
        owner = f.__self__
        named = set(f.__func__.__code__.co_names)
        found += [Origin("attribute", owner, k) for k in getattr(owner, "__dict__", {}) if k in named]
        f = f.__func__
    if not isinstance(f, types.FunctionType):
        return found
    found += [Origin("cell", cell, None) for cell in f.__closure__ or ()]
    seen: set[str] = set()

    def names(code: types.CodeType) -> None:
        seen.update(code.co_names)
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                names(const)

    names(f.__code__)
    return found + [Origin("global", f.__globals__, name) for name in sorted(seen) if name in f.__globals__]


class Captured:
    """The hidden inputs of a trace and the plain values that it relied on."""

    def __init__(self, f: Callable[..., Any], arrays: Sequence[Any]) -> None:
        places = origins(f)
        self.arrays: list[tuple[Any, Origin | None]] = []
        by_id = {id(o.read()): o for o in places}
        for x in arrays:
            holder = _watched.get(id(x))
            held = holder is not None and holder.value is x
            origin = Origin("attribute", holder, "value") if held else by_id.get(id(x))
            self.arrays.append((x, origin))
        self.plain = [(o, v) for o in places if isinstance(v := o.read(), _PLAIN)]
        self.simple = not self.plain and not self.arrays

    def current(self) -> list[Any] | None:
        """The hidden inputs as they are now, or ``None`` when the trace no longer holds."""
        for watched, was in self.plain:
            now = watched.read()
            if now is not was and (type(now) is not type(was) or now != was):
                return None
        out = []
        for x, place in self.arrays:
            now = x if place is None else place.read()
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
