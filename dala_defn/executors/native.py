"""Native kernels for the runtime: programs are fused, and the kernels of their fused nodes made known to it."""

from __future__ import annotations

from dataclasses import replace

from dala_defn import bridge
from dala_defn.ir import Graph, Node
from dala_defn.ir.program import Entry
from dala_defn.passes.kernels import kernel_plan
from dala_defn.passes.pipeline import native_passes


def fused(entry: Entry) -> Entry:
    """An entry with fused nodes, whose kernels are compiled and known to the runtime."""
    graph = native_passes(entry.graph)
    register_kernels(graph)
    return replace(entry, graph=graph)


def register_kernels(graph: Graph) -> None:
    """Makes the kernels of a graph's fused nodes known to the runtime, compiled where they are new.

    Raises:
        EngineError: when a kernel cannot be made.
    """
    for g in [*graph.functions(), graph]:
        for node in g.nodes:
            if node.op == "fused":
                _KERNELS.register(node)


class _Registered:
    """The kernels that the runtime knows already, by their names there."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def register(self, node: Node) -> None:
        """Compiles the kernel of a node, unless that was done."""
        a = node.attrs
        name = kernel_name(node)
        if name in self.names:
            return
        from dala_defn import codegen  # not before the first kernel: LLVM is large

        plan = kernel_plan(a["function"], len(a["space"]), a["axes"], a["parallel"])
        bridge.register_kernel(name, codegen.kernel(plan, a["key"]), codegen.ABI_VERSION)
        self.names.add(name)


_KERNELS = _Registered()


def kernel_name(node: Node) -> str:
    """The name of a fused node's kernel: its key, and all that a kernel takes for granted about memory.

    ``KEY:f32[0,1];f32[1]->f32[0,1]/2/1`` takes two operands, the second only along axis 1, and gives one result in a
    space of two axes, of which one may be split.
    """
    a = node.attrs
    axes = iter(a["axes"])
    sides = [
        ";".join([f"{v.type.dtype.short}[{','.join([str(next(axes)) for _ in v.type.shape])}]" for v in values])
        for values in (node.inputs, node.outputs)
    ]
    return f"{a['key']}:{'->'.join(sides)}/{len(a['space'])}/{a['parallel']}"
