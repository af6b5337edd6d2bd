"""What a kernel computes, apart from any sizes: the primitives of a ``fused`` node over the axes of its space.

Movement is gone here: every value is a number at a point of the space, and says over which axes it varies. Reductions
run over the last axis, the one that is not parallel. Two nodes with the same plan share a kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import EngineError
from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim

VERSION = 2  # of plans and of the code made from them: a part of every key
REDUCTIONS = frozenset(["sum", "prod", "max", "min"])
_SHORT = (dtypes.float16, dtypes.bfloat16)
_INTO_SHORT = (dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.float32, *_SHORT)


def reshapes_ones(node: Node) -> bool:
    """Whether a reshape only adds or removes axes of size 1."""
    if node.op != "reshape":
        return False
    given = [d for d in node.inputs[0].type.shape if not is_one(d)]
    return given == [d for d in node.outputs[0].type.shape if not is_one(d)]


def is_free(node: Node) -> bool:
    """Whether a kernel has a node for nothing: it may be repeated in each."""
    if node.op == "constant":
        t = node.outputs[0].type
        return all(map(is_one, t.shape)) and t.dtype.kind in "biuf"
    return node.op in ("broadcast_to", "iota") or reshapes_ones(node)


def is_computed(node: Node) -> bool:
    """Whether a kernel can compute an elementwise node."""
    spec = OPS.get(node.op)
    if spec is None or not node.inputs or node.inputs[0].type.dtype not in spec.kernel:
        return False
    if any(v.type.dtype.kind not in "biuf" for v in (*node.inputs, *node.outputs)):
        return False
    # A float64 would be rounded twice.
    return node.op != "cast" or node.attrs["dtype"] not in _SHORT or node.inputs[0].type.dtype in _INTO_SHORT


def is_reduced(node: Node) -> bool:
    """Whether a kernel can compute a reduction: one over the last axis."""
    if node.op not in REDUCTIONS or node.inputs[0].type.dtype.kind not in "biuf":
        return False
    return node.attrs["axes"] == (node.inputs[0].type.ndim - 1,)


def is_one(d: Dim) -> bool:
    """Whether a size is 1 for certain."""
    return isinstance(d, int) and d == 1


@dataclass(frozen=True)
class Instr:
    """One number at each point: an op on earlier instructions, by position.

    Attributes:
        op: an op of the table, or ``input`` (``attrs`` is its index).
        args: positions of its operands.
        dtype: of the first operand (of the result where there is none).
        out: of the result.
        axes: over which axes of the space it varies.
        attrs: what else it needs.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    out: DType
    axes: frozenset[int]
    attrs: Any = None


@dataclass(frozen=True)
class KernelPlan:
    """A kernel without sizes.

    Attributes:
        rank, parallel: of the space; they are equal, or the last axis is swept by each row on its own.
        inputs, outputs: dtype and axes of the operands and results, in order.
        instrs: what is computed; ``results`` says which of them are the outputs.
    """

    rank: int
    parallel: int
    inputs: tuple[tuple[DType, frozenset[int]], ...]
    instrs: tuple[Instr, ...]
    results: tuple[int, ...]
    outputs: tuple[tuple[DType, frozenset[int]], ...]

    def key(self) -> str:
        """A digest of all of it."""
        return hashlib.sha256("\n".join(self._lines()).encode()).hexdigest()[:32]

    def _lines(self) -> Iterator[str]:
        yield f"{VERSION} {self.rank} {self.parallel} {self.results}"
        for dtype, axes in (*self.inputs, *self.outputs):
            yield f"{dtype.short} {sorted(axes)}"
        for i in self.instrs:
            yield f"{i.op} {i.args} {i.dtype.short} {i.out.short} {sorted(i.axes)} {i.attrs!r}"


class _Classes:
    """Which dims of a function's values run together: union-find over (value, dim)."""

    def __init__(self) -> None:
        self.parent: dict[tuple[int, int], tuple[int, int]] = {}
        self.axis: dict[tuple[int, int], int] = {}

    def find(self, at: tuple[int, int]) -> tuple[int, int]:
        root = at
        while (up := self.parent.get(root, root)) != root:
            root = up
        while (up := self.parent.get(at, at)) != root:
            self.parent[at], at = root, up
        return root

    def join(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        self.parent[a] = b
        if a in self.axis:
            self.name(b, self.axis.pop(a))

    def name(self, at: tuple[int, int], axis: int) -> None:
        if self.axis.setdefault(self.find(at), axis) != axis:
            raise EngineError("a fused function runs one dim over two axes of its space")

    def of(self, at: tuple[int, int]) -> int | None:
        return self.axis.get(self.find(at))


def _dims(v: Value) -> Iterator[tuple[int, Dim]]:
    return ((i, d) for i, d in enumerate(v.type.shape) if not is_one(d))


def _aligned(out: Value, v: Value) -> Iterator[tuple[int, int]]:
    """The dims of an operand that is broadcast, each with its dim of the result."""
    shift = out.type.ndim - v.type.ndim
    return ((i, i + shift) for i, _ in _dims(v))


def _joined(node: Node, v: Value) -> Iterator[tuple[int, int]]:
    """The dims of an operand with those of the result that they become."""
    (out,) = node.outputs
    if node.op == "reshape":
        yield from zip([i for i, _ in _dims(v)], [i for i, _ in _dims(out)], strict=True)
    elif node.op in REDUCTIONS:
        yield from ((i, i) for i, _ in _dims(v) if i < v.type.ndim - 1)
    else:
        yield from _aligned(out, v)


def _classes(function: Graph, rank: int, axes: Sequence[int]) -> _Classes:
    classes = _Classes()
    for node in function.nodes:
        for v in node.inputs:
            for i, o in _joined(node, v):
                classes.join((id(v), i), (id(node.outputs[0]), o))
        if node.op in REDUCTIONS and not is_one(node.inputs[0].type.shape[-1]):
            classes.name((id(node.inputs[0]), node.inputs[0].type.ndim - 1), rank - 1)
    at = iter(axes)
    for v in (*function.inputs, *function.outputs):
        for i, d in enumerate(v.type.shape):
            axis = next(at)
            if axis >= 0 and not is_one(d):
                classes.name((id(v), i), axis)
    return classes


def kernel_plan(function: Graph, rank: int, axes: Sequence[int], parallel: int) -> KernelPlan:
    """The plan of a ``fused`` node.

    Raises:
        EngineError: when there is no kernel for such a function.
    """
    if parallel not in (rank, rank - 1):
        raise EngineError("a kernel sweeps at most one axis by itself")
    classes = _classes(function, rank, axes)

    def varies(v: Value) -> frozenset[int]:
        found = [classes.of((id(v), i)) for i, _ in _dims(v)]
        named = [a for a in found if a is not None]
        if len(set(named)) != len(named):
            raise EngineError("a fused function runs two dims of a value over one axis of its space")
        return frozenset(named)

    instrs: list[Instr] = []
    place: dict[Value, int] = {}

    def put(v: Value, instr: Instr) -> None:
        place[v] = len(instrs)
        instrs.append(instr)

    for k, v in enumerate(function.inputs):
        put(v, Instr("input", (), v.type.dtype, v.type.dtype, varies(v), k))
    for node in function.nodes:
        (out,) = node.outputs
        dtype = out.type.dtype
        if node.op == "constant":
            literal = node.attrs["value"].array
            put(out, Instr("constant", (), dtype, dtype, frozenset(), literal.tobytes().hex()))
        elif node.op == "iota":
            axis = classes.of((id(out), node.attrs["axis"]))
            put(out, Instr("iota", (), dtype, dtype, frozenset([] if axis is None else [axis]), axis))
        elif is_free(node):
            place[out] = place[node.inputs[0]]
        elif is_computed(node) or is_reduced(node):
            put(out, _instr(node, [place[v] for v in node.inputs], instrs, rank))
        else:
            raise EngineError(f"no kernel computes {node.op}", op=node.op)
    return KernelPlan(
        rank,
        parallel,
        tuple((v.type.dtype, varies(v)) for v in function.inputs),
        tuple(instrs),
        tuple(place[v] for v in function.outputs),
        tuple((v.type.dtype, varies(v)) for v in function.outputs),
    )


def _instr(node: Node, args: list[int], instrs: Sequence[Instr], rank: int) -> Instr:
    (out,) = node.outputs
    axes = frozenset[int]().union(*(instrs[a].axes for a in args))
    attrs: Any = tuple(sorted(node.attrs.items()))
    if node.op in REDUCTIONS:
        # An axis of size 1 has nothing to sweep.
        attrs = not is_one(node.inputs[0].type.shape[-1])
        axes -= {rank - 1} if attrs else set()
    return Instr(node.op, tuple(args), node.inputs[0].type.dtype, out.type.dtype, axes, attrs)
