"""What a compiled program does: which kernel or library runs each node, what was fused, and what each costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from dala_defn.dtypes import token
from dala_defn.ir import Graph, Node, Type
from dala_defn.ir.graph import graphs_in
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, evaluate, size

_RUNS = {
    "elementwise": "host kernel",
    "reduction": "host kernel",
    "movement": "moved",
    "opaque": "host kernel",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A node as it is executed.

    Attributes:
        runs: ``fused kernel``; ``host kernel`` (the runtime's own); ``matrix product``; ``Burn``; ``moved`` (a view of
            its operand where strides can express it, else a copy); ``loop or branch``; ``effect``; or ``NumPy``.
        key: of a fused kernel; kernels of one key are compiled once.
        fused: what is in it, op by op, each with its line.
        bytes: of its operands and results; of a loop or branch, these alone.
        flops: operations as the op table counts them; of a loop, those of all turns.
        depth: how many loops and branches it is in.
    """

    op: str
    runs: str
    results: tuple[str, ...]
    bytes: Dim
    flops: Dim
    line: str
    key: str = ""
    fused: tuple[str, ...] = ()
    depth: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain data; sizes that are not known as text."""
        plain = lambda d: d if isinstance(d, int) else str(d)  # noqa: E731
        return {**dataclasses.asdict(self), "bytes": plain(self.bytes), "flops": plain(self.flops)}


@dataclasses.dataclass(frozen=True)
class Execution:
    """The nodes of a program in their order; prints as a table."""

    rows: tuple[Row, ...]

    @property
    def kernels(self) -> int:
        """How many fused kernels there are to compile."""
        return len({r.key for r in self.rows if r.key})

    @property
    def flops(self) -> Dim:
        """Operations in all."""
        return _sum(r.flops for r in self.rows if r.depth == 0)

    @property
    def bytes(self) -> Dim:
        """Bytes that the nodes read and write, in all."""
        return _sum(r.bytes for r in self.rows if r.depth == 0)

    def __str__(self) -> str:
        head = ("op", "runs as", "bytes", "flops", "gives", "line")
        table = [head]
        for r in self.rows:
            runs = f"{r.runs} {r.key[:8]} ({len(r.fused)} ops)" if r.key else r.runs
            cells = (runs, _number(r.bytes), _number(r.flops), ", ".join(r.results), r.line)
            table.append(("  " * r.depth + r.op, *cells))
        widths = [max(len(row[i]) for row in table) for i in range(5)]
        lines = []
        for k, texts in enumerate(table):
            sides = (str.ljust, str.ljust, str.rjust, str.rjust, str.ljust)
            padded = [side(c, w) for side, c, w in zip(sides, texts, widths, strict=False)]
            lines.append("  ".join([*padded, texts[5]]).rstrip())
            row = self.rows[k - 1] if k else None
            lines += [f"{'  ' * row.depth}    {text}" for text in row.fused] if row is not None else []
        total = f"{_number(self.flops)} operations, {_number(self.bytes)} bytes, {self.kernels} fused kernels"
        return "\n".join([*lines, total])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """As plain data, fit for JSON."""
        return {"rows": [r.to_dict() for r in self.rows], "kernels": self.kernels}


def execution_of(graph: Graph, native: bool, sizes: Mapping[str, int]) -> Execution:
    """What a graph does that runs as it is; by NumPy unless ``native``. Sizes that are known become numbers."""
    return Execution(tuple(_rows(graph, native, sizes, 0)))


def _rows(graph: Graph, native: bool, sizes: Mapping[str, int], depth: int) -> Iterator[Row]:
    for node in graph.nodes:
        if node.op in ("constant", "token"):
            continue
        yield _row(node, native, sizes, depth)
        if node.op != "fused":
            for a in node.attrs.values():
                for g in graphs_in(a):
                    yield from _rows(g, native, sizes, depth + 1)


def _row(node: Node, native: bool, sizes: Mapping[str, int], depth: int) -> Row:
    spec = OPS[node.op]
    inputs, outputs = [v.type for v in node.inputs], [v.type for v in node.outputs]
    known = lambda d: _known(d, sizes)  # noqa: E731
    moved = _sum(_bytes(t) for t in (*inputs, *outputs))
    return Row(
        node.op,
        _runs(node) if native else "NumPy",
        tuple([str(Type(t.dtype, tuple(map(known, t.shape)))) for t in outputs]),
        known(moved),
        known(spec.flops(inputs, outputs, node.attrs)),
        _line(node),
        node.attrs["key"] if node.op == "fused" else "",
        tuple(_inside(node.attrs["function"])) if node.op == "fused" else (),
        depth,
    )


def _runs(node: Node) -> str:
    spec = OPS[node.op]
    if node.op == "fused":
        return "fused kernel"
    if any(list(graphs_in(a)) for a in node.attrs.values()):
        return "loop or branch"
    if node.has_effect:
        return "effect"
    if spec.family == "contraction":
        floats = node.outputs[0].type.dtype.is_float
        return "Burn" if node.op.startswith("conv") else "matrix product" if floats else "host kernel"
    return _RUNS[spec.fusion]


def _inside(function: Graph) -> Iterator[str]:
    for n in function.nodes:
        if n.op != "constant":
            line = _line(n)
            yield f"{n.op} {n.outputs[0].type}{f'  {line}' if line else ''}"


def _line(node: Node) -> str:
    return "" if node.loc is None else node.loc.resolve().short()


def _bytes(t: Type) -> Dim:
    return 0 if t.dtype is token else size(t.shape) * t.dtype.itemsize


def _sum(dims: Any) -> Dim:
    total: Dim = 0
    for d in dims:
        total = total + d
    return total


def _known(d: Dim, sizes: Mapping[str, int]) -> Dim:
    try:
        return evaluate(d, sizes)
    except KeyError:
        return d


def _number(d: Dim) -> str:
    return f"{d:,}" if isinstance(d, int) else str(d)
