"""The Burn runtime as an executor."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dala_defn import bridge, hooks
from dala_defn.array import Array
from dala_defn.dtypes import as_dtype
from dala_defn.executors.native import fused
from dala_defn.ir import Graph, Node, Type, Value, frozen
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops import effects
from dala_defn.ops.spec import OpSpec
from dala_defn.passes.complex_pairs import has_complex
from dala_defn.passes.pipeline import compile_passes, native_passes

COMPLEX_CACHE = 1024
COPIED = 64 << 20  # bytes


class BurnExecutor:
    """Runs programs in the native runtime, on one engine; ``options`` are those of the engine."""

    def __init__(self, engine: str = "flex", options: Mapping[str, Any] | None = None) -> None:
        self.name = engine
        self.engine = bridge.Engine(engine, options)
        # Kernels work on host memory. DALA_FUSE=0 is there to compare with.
        self.fuse = engine == "flex" and os.environ.get("DALA_FUSE") != "0"
        hooks.set_handler(effects.handle)
        self._complex: OrderedDict[Any, bridge.Loaded] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, program: Program, fuse: bool = True) -> bridge.Loaded:
        """A program ready to run, with kernels of its own where they pay unless ``fuse`` is False."""
        entries = tuple([self.lowered(e) for e in program.entries])
        if self.fuse and fuse:
            entries = tuple([fused(e) for e in entries])
        return self.engine.load(encode(replace(program, entries=entries)))

    def executed(self, entry: Entry) -> Graph:
        """The graph of an entry as it is loaded."""
        graph = self.lowered(entry).graph
        return native_passes(graph) if self.fuse else graph

    def lowered(self, entry: Entry) -> Entry:
        """An entry as the runtime takes it: without complex values."""
        if not has_complex(entry.graph):
            return entry
        return replace(entry.shown_as(entry.graph), graph=compile_passes(entry.graph))

    def open(self, path: Any, trusted: Sequence[bytes] = (), program: Program | None = None) -> bridge.Loaded:
        """The program of a file; where there are trusted keys, signed by one of them.

        Its tensors are mapped, and it runs as the file has it. When ``program`` is what the file holds, and its tensors
        are so small that a copy is no matter, it is fused like one that was made here.
        """
        if program is not None and self.fuse and sum(t.nbytes for t in program.tensors.values()) <= COPIED:
            return self.load(program)
        return self.engine.open(path, trusted)

    def run_op(self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
        """Runs one op: one call into the runtime."""
        for x in (*args, *types):
            if x.dtype.kind == "c":
                return self.run_complex(spec, args, attrs, types)
        return self.engine.run_op(spec.name, attrs, args, types)

    def run_complex(
        self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]
    ) -> list[Array]:
        """Runs one op on complex values, as a small cached program."""
        given = tuple([Type(as_dtype(x.dtype), tuple(x.shape)) for x in args])
        key = (spec.name, frozen(attrs), given)
        loaded = self._complex.get(key)
        if loaded is None:
            spec.infer(*given, **attrs)
            inputs = [Value(t) for t in given]
            node = Node(spec.name, tuple(inputs), attrs, types)
            names = [str(i) for i in range(len(inputs))]
            graph = Graph(spec.name, inputs, [node], node.outputs)
            entry = Entry("main", graph, tuple(map(Arg, names)), tuple([Result(str(i)) for i in range(len(types))]))
            loaded = self.load(Program((entry,)), fuse=False)
            with self._lock:
                self._complex[key] = loaded
                while len(self._complex) > COMPLEX_CACHE:
                    self._complex.popitem(last=False)
        return loaded.run(0, args, types)

    def place(self, x: Any, dtype: Any) -> Array:
        """An array of this executor with a copy of ``x``."""
        return bridge.to_engine(self.engine, x, dtype)

    def share(self, x: Array) -> Array:
        """A second array over the same storage; donating one leaves the other as it is."""
        return bridge.share(x)
