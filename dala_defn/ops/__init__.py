"""The op table: every primitive, defined once. ``ops.tanh(x)`` applies one; ``ops.OPS`` is the table."""

from dala_defn import ir
from dala_defn.ops import (
    binary,
    bits,
    contraction,
    control,
    creation,
    effects,
    factors,
    fourier,
    fused,
    general,
    indexing,
    movement,
    orthogonal,
    parts,
    random,
    recurrence,
    reduction,
    spectral,
    structure,
    unary,
    updates,
    window,
)
from dala_defn.ops.bind import bind, current_trace, install_eager, pop_trace, push_trace
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import OPS, OpSpec

FAMILIES = (
    binary,
    bits,
    contraction,
    control,
    creation,
    effects,
    factors,
    fourier,
    fused,
    general,
    indexing,
    movement,
    orthogonal,
    parts,
    random,
    recurrence,
    reduction,
    spectral,
    structure,
    unary,
    updates,
    window,
)


def parse(text: str, file: str | None = None) -> ir.Graph:
    """The graph that a text holds, see ``ir.parse``."""
    return ir.parse(text, OPS, file)


def verify(graph: ir.Graph) -> None:
    """Checks a graph against the op table, see ``ir.verify``."""
    ir.verify(graph, OPS)


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
    "parse",
    "pop_trace",
    "push_trace",
    "verify",
]
