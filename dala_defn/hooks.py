"""What the runtime asks of this process while a program runs: its effects, and whether to go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import bridge
from dala_defn.dtypes import DTYPES, bfloat16, key
from dala_defn.errors import ShapeError
from dala_defn.ir import Type
from dala_defn.ops import effects

Array = np.ndarray[Any, Any]
Handler = Callable[[str, str, Sequence[Array], Sequence[Type]], Sequence[Any]]

_DTYPES = {d.code: d for d in DTYPES}
_lock = threading.Lock()
_handlers: list[tuple[Handler, Any]] = []  # cffi's callback has to stay as long as the runtime may call it


def set_handler(handler: Handler) -> None:
    """Has ``handler(kind, name, values, result types) -> results`` do what programs in the runtime ask for.

    ``kind`` is ``print``, ``tap`` or ``callback``; ``values`` are copies. It runs on the thread that runs the program;
    what it raises stops the program, and is raised there. A signal does too: a loop lets Python look for them.
    """
    ffi, lib = bridge.library()
    if _handlers and _handlers[-1][0] is handler:
        return

    def handle(user: Any, kind: Any, name: Any, values: Any, n: int, results: Any, n_results: int) -> int:
        asked = ffi.string(kind).decode()
        if asked == "poll":
            effects.look_at_the_clock()
            return 0  # that Python runs is enough for its signals
        given = [_array(ffi, values[i]).copy() for i in range(n)]
        rooms = [_array(ffi, results[i].array) for i in range(n_results)]
        types = [Type(_DTYPES[results[i].array.dtype], room.shape) for i, room in enumerate(rooms)]
        called = ffi.string(name).decode()
        found = handler(asked, called, given, types)
        for room, x, t in zip(rooms, found if rooms else (), types, strict=True):
            a = np.asarray(x, t.dtype.dtype)
            if a.shape != t.shape:
                raise ShapeError(
                    f"callback {called}: it gave an array of shape {list(a.shape)}, not {t}", op="callback"
                )
            room[...] = a
        return 0

    def raised(kind: Any, error: BaseException, traceback: Any) -> int:
        bridge.raised.error = error
        return 1

    with _lock:
        callback = ffi.callback("dala_handler", handle, error=1, onerror=raised)
        lib.dala_set_handler(callback, ffi.NULL)
        _handlers.append((handler, callback))


def _array(ffi: Any, a: Any) -> Array:
    """An array of the runtime, where it lies; a key is two words in the last axis."""
    dtype = _DTYPES[a.dtype]
    plain = np.dtype(np.uint32) if dtype is key else np.dtype(np.uint16) if dtype is bfloat16 else dtype.dtype
    shape = tuple(a.shape[0 : a.ndim])
    if a.data == ffi.NULL:
        return np.empty(shape, dtype.dtype if dtype is not key else plain)
    interface = {
        "version": 3,
        "typestr": plain.str,
        "shape": shape,
        "strides": tuple(a.strides[0 : a.ndim]),
        "data": (int(ffi.cast("intptr_t", a.data)), False),
    }
    x = np.asarray(_Memory(interface))
    return x.view(dtype.dtype) if dtype is bfloat16 else x


class _Memory:
    """Memory in the form that NumPy takes."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface
