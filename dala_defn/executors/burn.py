"""The Burn runtime as an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dala_defn import bridge
from dala_defn.array import Array
from dala_defn.ir import Type
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Program
from dala_defn.ops.spec import OpSpec


class BurnExecutor:
    """Runs programs in the native runtime, on one engine; ``options`` are those of the engine."""

    def __init__(self, engine: str = "flex", options: Mapping[str, Any] | None = None) -> None:
        self.name = engine
        self.engine = bridge.Engine(engine, options)

    def load(self, program: Program) -> bridge.Loaded:
        """A program ready to run."""
        return self.engine.load(encode(program))

    def open(self, path: Any, trusted: Sequence[bytes] = ()) -> bridge.Loaded:
        """The program of a file, mapped; where there are trusted keys, signed by one of them."""
        return self.engine.open(path, trusted)

    def run_op(self, spec: OpSpec, args: Sequence[Any], attrs: Mapping[str, Any], types: Sequence[Type]) -> list[Array]:
        """Runs one op: one call into the runtime."""
        return self.engine.run_op(spec.name, attrs, args, types)

    def place(self, x: Any, dtype: Any) -> Array:
        """An array of this executor with a copy of ``x``."""
        return bridge.to_engine(self.engine, x, dtype)

    def share(self, x: Array) -> Array:
        """A second array over the same storage; donating one leaves the other as it is."""
        return bridge.share(x)
