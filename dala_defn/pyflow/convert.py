"""Functions of the user in their rewritten form: made at the first trace, once for each code object."""

from __future__ import annotations

import functools
import os
import sysconfig
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from dala_defn.pyflow import source
from dala_defn.pyflow.source import FLOW
from dala_defn.sources import FOREIGN, PACKAGE
from dala_defn.trace import install_preparer

if TYPE_CHECKING:
    from dala_defn.pyflow.loops import Flow
    from dala_defn.pyflow.sites import Site

_GENERATED = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators
_OTHERS = tuple(
    {os.path.join(p, "") for k in ("stdlib", "platstdlib", "purelib", "platlib") if (p := sysconfig.get_path(k))}
)
_INSTALLED = {"site-packages", "dist-packages"}
Rewritten = tuple[CodeType, "Flow"]

_lock = threading.RLock()
_known: dict[int, tuple[weakref.ref[CodeType], Rewritten | None]] = {}


class _Switch(threading.local):
    on = True


_switch = _Switch()


@contextmanager
def rewriting(on: bool) -> Iterator[None]:
    """Whether functions are rewritten inside."""
    before = _switch.on
    _switch.on = on
    try:
        yield
    finally:
        _switch.on = before


def is_users(code: CodeType) -> bool:
    """Whether a function was written by the user: not by us, and not installed."""
    file = code.co_filename
    return not file.startswith((PACKAGE, "<frozen", *_OTHERS)) and not _INSTALLED.intersection(file.split(os.sep))


def converted(f: Any) -> Any:
    """A function in the form in which its control flow can be traced; anything else as it is."""
    if not _switch.on:
        return f
    kind = type(f)
    if kind is FunctionType:
        found = _rewritten(f)
        return f if found is None else _instance(f, *found)
    if kind is MethodType:
        inner = converted(f.__func__)
        return f if inner is f.__func__ else MethodType(inner, f.__self__)
    if kind is functools.partial:
        inner = converted(f.func)
        return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
    if isinstance(f, type) or getattr(kind, "__module__", "").partition(".")[0] in FOREIGN:
        return f
    call = next((vars(k)["__call__"] for k in kind.__mro__ if "__call__" in vars(k)), None)
    if type(call) is FunctionType and (inner := converted(call)) is not call:
        return MethodType(inner, f)
    return f


def _instance(f: FunctionType, code: CodeType, flow: Flow) -> FunctionType:
    """The rewritten code with the variables, defaults and attributes of a function."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    cells[FLOW] = CellType(flow)
    made = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, tuple([cells[n] for n in code.co_freevars]))
    made.__kwdefaults__ = f.__kwdefaults__
    made.__qualname__ = f.__qualname__
    made.__annotations__ = f.__annotations__
    made.__doc__ = f.__doc__
    made.__module__ = f.__module__
    made.__dict__.update(f.__dict__)
    return made


def _rewritten(f: FunctionType) -> Rewritten | None:
    code = f.__code__
    known = _known.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    with _lock:
        made = _make(code, f.__globals__)
        _known[id(code)] = (weakref.ref(code, functools.partial(_forget, id(code))), made)
    return made


def _forget(key: int, _: Any) -> None:
    if _known is not None:  # it is, while Python is shutting down
        _known.pop(key, None)


def _make(code: CodeType, globals: Mapping[str, Any]) -> Rewritten | None:
    # Here, as a program that traces no function of the user's never needs them.
    from dala_defn.pyflow.loops import Flow
    from dala_defn.pyflow.rewrite import compile_function, compile_unit
    from dala_defn.pyflow.sites import Scope

    if code.co_flags & _GENERATED or FLOW in code.co_freevars or not is_users(code):
        return None
    node = source.find(code)
    if node is None:
        return None
    scope = Scope(node, code.co_qualname, code.co_filename, source.flags_of(code), None, code.co_freevars)
    sites: list[Site] = []

    def unit(site: Site, name: str, free: tuple[str, ...], names: Mapping[str, Any]) -> CodeType:
        with _lock:  # sites are numbered as they are found
            return compile_unit(site, name, free, sites, names)

    made = compile_function(scope, code.co_freevars, sites, globals)
    return None if made is None else (made, Flow(sites, unit, converted))


def _condition() -> tuple[str, str]:
    from dala_defn.pyflow import explain

    return explain.condition(_switch.on, is_users)


install_preparer(converted, _condition)

__all__ = ["converted", "rewriting"]
