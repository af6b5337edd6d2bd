"""How much memory runs may hold, besides what an executor allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dala_defn import bridge, native_memory
from dala_defn.errors import EngineError


class _Limit(threading.local):
    bytes: int = bridge.NO_LIMIT


_limit = _Limit()


def of_thread() -> int:
    """The most bytes that runs of this thread may hold at a time."""
    return _limit.bytes


@contextmanager
def limited(bytes: int) -> Iterator[None]:
    """Holds the runs of this thread to so many bytes, and to those of the limits around it."""
    before, _limit.bytes = _limit.bytes, min(bytes, _limit.bytes)
    try:
        _tell(_limit.bytes)
        yield
    finally:
        _limit.bytes = before
        _tell(before)


def _tell(bytes: int) -> None:
    try:
        bridge.library()
    except EngineError:
        return  # nothing runs there
    native_memory.limit_memory(bytes)
