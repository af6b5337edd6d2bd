"""``fused``: a closed graph of primitives as one node, which an engine may run as one native kernel."""

from __future__ import annotations

from dala_defn.errors import ShapeError
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops.spec import NoGrad, OpSpec
from dala_defn.ops.structure import CALLED, applied, called, called_flops, expanded, holding
from dala_defn.shapes import Dim


def _fused_infer(
    *types: Type, function: Graph, key: str, space: tuple[Dim, ...], axes: tuple[int, ...], parallel: int
) -> tuple[Type, ...]:
    results = applied("fused", function, types)
    dims = [d for t in (*types, *results) for d in t.shape]
    if len(axes) != len(dims):
        raise ShapeError(f"fused: {len(axes)} axes are named for {len(dims)} dims of operands and results", op="fused")
    for d, axis in zip(dims, axes, strict=True):
        if not -1 <= axis < len(space):
            raise ShapeError(f"fused: axis {axis} is out of range for a space of rank {len(space)}", op="fused")
        if d != (1 if axis == -1 else space[axis]):
            raise ShapeError(f"fused: a dim of size {d} cannot run over axis {axis} of {list(space)}", op="fused")
    if not 0 <= parallel <= len(space):
        raise ShapeError(f"fused: {parallel} parallel axes in a space of rank {len(space)}", op="fused")
    return results


fused: OpSpec = holding(
    name="fused",
    code=0xC6,
    attrs={"function": "fn", "key": "str", "space": "dims", "axes": "ints", "parallel": "int"},
    infer=_fused_infer,
    reference=called,
    vjp=NoGrad("its function is differentiated instead"),
    jvp=NoGrad("its function is differentiated instead"),
    batch=expanded,
    flops=called_flops,
    doc="A graph of primitives that may run as one kernel. ``key`` names its structure; ``space`` is what the kernel "
    "iterates over; ``axes`` says for every dim of the operands, then of the results, over which axis of the space it "
    "runs (-1: of size 1, repeated); the first ``parallel`` axes may be split over threads. Without a kernel of that "
    "key its function is run.",
    example="dd.defn(lambda x: dd.exp(x * 2 + 1))(dd.array([1.0, 2.0]))",
)

CALLED["fused"] = "function"
