"""The memory that the native runtime holds, as it counts it itself."""

from __future__ import annotations

from dala_defn import bridge


def limit_memory(limit: int) -> None:
    """Sets the most bytes that runs of this thread may hold at a time."""
    bridge.library()[1].dala_memory_limit(min(limit, bridge.NO_LIMIT))


def memory_stats(restart: bool = False) -> tuple[int, int]:
    """Bytes that the runtime holds in blocks of 1 KiB and more, and the most of them since the last ``restart``."""
    ffi, lib = bridge.library()
    out = ffi.new("uint64_t[2]")
    lib.dala_memory_stats(out, out + 1, restart)
    return int(out[0]), int(out[1])


def trim_memory() -> None:
    """Lets go of the memory that the runtime keeps for runs to come."""
    bridge.library()[1].dala_memory_trim()
