"""The op table: every primitive, defined once. ``ops.tanh(x)`` applies one; ``ops.OPS`` is the table."""

from dala_defn.ops import binary, contraction, creation, indexing, movement, random, reduction, structure, unary, window
from dala_defn.ops.bind import bind, current_trace, install_eager, pop_trace, push_trace
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import OPS, OpSpec

FAMILIES = (binary, contraction, creation, indexing, movement, random, reduction, structure, unary, window)


def __getattr__(name: str) -> OpSpec:
    try:
        return OPS[name]
    except KeyError:
        raise AttributeError(f"no op is called {name}") from None


__all__ = [
    "FAMILIES",
    "OPS",
    "OpSpec",
    "bind",
    "current_trace",
    "install_eager",
    "lit",
    "pop_trace",
    "push_trace",
]
