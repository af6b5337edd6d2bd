"""Native kernels: the plan of a fused node becomes machine code of this processor, once a structure.

``kernel(plan)`` gives the address of a function with the signature of the C interface's ``dala_kernel``. Nothing
here is imported before a program with fused nodes is loaded: LLVM is large.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from dala_defn.codegen.cache import DiskCache, default_directory
from dala_defn.codegen.jit import identity, link, object_code, vector_bytes
from dala_defn.codegen.loops import kernel_module
from dala_defn.passes.kernels import VERSION, KernelPlan

ABI_VERSION = 1


@functools.cache
def sources() -> str:
    """A digest of the code that makes kernels: what an older one left on disk is not used."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), here.parent / "passes" / "kernels.py"]
    return hashlib.sha256(b"\0".join([f.read_bytes() for f in files if f.exists()])).hexdigest()[:16]


@dataclass
class Counts:
    """What happened in this process: kernels compiled, found on disk, and the seconds that compiling took."""

    compiled: int = 0
    found: int = 0
    seconds: float = 0.0


class Kernels:
    """Compiled kernels by key; ``disk`` keeps their code for other processes."""

    def __init__(self, disk: DiskCache | None = None) -> None:
        self.disk = DiskCache(default_directory()) if disk is None else disk
        self.counts = Counts()
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()

    def address(self, plan: KernelPlan, key: str | None = None) -> int:
        """The function of a plan, compiled at its first use.

        Raises:
            EngineError: when LLVM refuses it.
        """
        key = key or plan.key()
        found = self._known.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._make(plan, key)
            return found

    def _make(self, plan: KernelPlan, key: str) -> int:
        start = time.perf_counter()
        name = f"{key} {sources()} {VERSION}.{ABI_VERSION} {identity()}"
        symbol = f"dala_kernel_{key}"
        code = self.disk.get(name)
        if code is None:
            code = object_code(kernel_module(plan, symbol, vector_bytes()))
            self.disk.put(name, code)
            self.counts.compiled += 1
        else:
            self.counts.found += 1
        address = link(code, symbol)
        self.counts.seconds += time.perf_counter() - start
        return address


KERNELS = Kernels()


def kernel(plan: KernelPlan, key: str | None = None) -> int:
    """The address of a plan's kernel, compiled at its first use."""
    return KERNELS.address(plan, key)


__all__ = ["ABI_VERSION", "KERNELS", "Kernels", "kernel"]
