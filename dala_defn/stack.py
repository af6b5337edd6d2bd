"""Room on Python's stack for functions that are traced inside others.

A function called in a traced function is traced there, and between the two stand frames of ours. Python counts these
against its limit, which is meant for the user's own; so the limit is raised by as many for each trace that is open, as
far as the machine's stack is known to reach, and put back with the last.
"""

from __future__ import annotations

import sys
import threading

FRAMES = 32  # of ours for one function inside another, at most
_BYTES = 640  # of the machine's stack for one frame, when each is called by way of C
_UNKNOWN = 512 * 1024


def _stack_size() -> int:
    size = threading.stack_size()
    if size:
        return size
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    except (ImportError, OSError, ValueError):
        return _UNKNOWN
    return 8 * 2**20 if soft < 0 else min(soft, 64 * 2**20)


class _Room:
    """The limit of recursion while traces are open, in all threads together: it is one for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, int] = {}  # how many in each thread: by name, as an error may keep one from being left
        self._before = 0  # the limit without us
        self._set = 0  # what we made of it

    def make(self, traces: int) -> None:
        """So many traces are open in this thread."""
        with self._lock:
            now = sys.getrecursionlimit()
            if now != self._set:  # we have not changed it, or the user has
                self._before = now
            if traces:
                self._open[threading.get_ident()] = traces
            else:
                self._open.pop(threading.get_ident(), None)
            wanted = self._before + min(sum(self._open.values()) * FRAMES, _stack_size() // _BYTES)
            try:
                if wanted != now:
                    sys.setrecursionlimit(wanted)
            except RecursionError:  # we are deeper than that still: an outer trace puts it back
                return
            self._set = wanted if self._open else 0


room = _Room()
