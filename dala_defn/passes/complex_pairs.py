"""Complex values become pairs of real ones: nothing below Python knows complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dala_defn import ops
from dala_defn.dtypes import real_of
from dala_defn.errors import ArgumentError, DTypeError
from dala_defn.ir import Graph, Node, Type, Value
from dala_defn.ir.graph import postorder
from dala_defn.ops.creation import zeros
from dala_defn.ops.spec import OPS
from dala_defn.passes.base import Pass, register
from dala_defn.passes.complex_rules import RULES, Pair, is_pair
from dala_defn.passes.dce import dce
from dala_defn.passes.rebuild import Rebuild, tracing, type_of
from dala_defn.shapes import size

# Nodes of functions whose operands and results are those of the functions, one by one or in counted groups.
_GROUPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("call", "custom_vjp", "checkpoint", "cond"), ()),
    "while_loop": ("consts",),
    "scan": ("consts", "carries"),
}


def has_complex(graph: Graph) -> bool:
    """Whether any value of a graph or of its functions is complex."""
    return any(
        any(v.type.dtype.kind == "c" for v in g.inputs)
        or any(v.type.dtype.kind == "c" for n in g.nodes for v in n.outputs)
        for g in postorder(graph)
    )


def stored_type(t: Type) -> Type:
    """The type under which a value stands in files and in the runtime: complex ones are real with a last axis of 2."""
    return t if t.dtype.kind != "c" else Type(real_of(t.dtype), (*t.shape, 2))


@register
@dataclass(frozen=True)
class ComplexPairs(Pass):
    """Rewrites a graph with complex values into one on real values.

    Complex inputs and outputs of the graph become real ones with a last axis of 2; inside, and between its functions,
    a complex value is two real ones. The graph must not be differentiated afterwards by what was complex.
    """

    name: ClassVar[str] = "complex-pairs"
    keeps_meaning: ClassVar[bool] = False

    def run(self, graph: Graph) -> Graph:
        """The graph on real values; the same graph when there are no others."""
        if not has_complex(graph):
            return graph
        functions: dict[int, Graph] = {}
        for g in postorder(graph):
            if g is not graph:
                functions[id(g)] = _Lowering(g, functions).function() if has_complex(g) else g
        return dce(_Lowering(graph, functions).entry())


class _Lowering:
    """One graph being rewritten; the functions that it names have been."""

    def __init__(self, graph: Graph, functions: dict[int, Graph]) -> None:
        self.graph = graph
        self.functions = functions
        self.trace = Rebuild(graph.name)
        self.env: dict[Value, Any] = {}

    def entry(self) -> Graph:
        """With pairs in a last axis at both ends."""
        with tracing(self.trace):
            for v in self.graph.inputs:
                x = self.trace.argument(stored_type(v.type), v.name)
                self.env[v] = x if v.type.dtype.kind != "c" else _split(x, v.type)
            self.body()
            outputs = []
            for v in self.graph.outputs:
                with self.trace.standing_for(v.node):
                    x = self.env[v]
                    outputs.append(_joined(x, v.type) if is_pair(x) else x)
            return self.trace.done(outputs)

    def function(self) -> Graph:
        """With two values for each pair at both ends."""
        with tracing(self.trace):
            for v in self.graph.inputs:
                if v.type.dtype.kind != "c":
                    self.env[v] = self.trace.argument(v.type, v.name)
                    continue
                part = Type(real_of(v.type.dtype), v.type.shape)
                names = (f"{v.name}_re", f"{v.name}_im") if v.name else ("", "")
                self.env[v] = Pair(*(self.trace.argument(part, n) for n in names))
            self.body()
            return self.trace.done(_flat([self.env[v] for v in self.graph.outputs]))

    def body(self) -> None:
        for node in self.graph.nodes:
            args = [self.env[v] for v in node.inputs]
            with self.trace.standing_for(node):
                outs = self.node(node, args)
            self.env.update(zip(node.outputs, outs, strict=True))

    def node(self, node: Node, args: list[Any]) -> Sequence[Any]:
        """What takes the place of a node's outputs."""
        kinds = OPS[node.op].attrs.values()
        if "fn" in kinds or "fns" in kinds:
            return self.structured(node, args)
        if not any(v.type.dtype.kind == "c" for v in (*node.inputs, *node.outputs)):
            return ops.bind(OPS[node.op], tuple(args), node.attrs)
        rule = RULES.get(node.op)
        if rule is None:
            raise DTypeError(
                f"{node.op} does not take complex values",
                op=node.op,
                hint="dd.real(x) and dd.imag(x), one after the other",
            )
        out = rule(*args, **node.attrs)
        (v,) = node.outputs
        part = Type(real_of(v.type.dtype), v.type.shape)
        for x in out if is_pair(out) else (out,):
            assert type_of(x) == part, f"{node.op} as pairs: {type_of(x)} for a {v.type}"
        return (out,)

    def structured(self, node: Node, args: list[Any]) -> Sequence[Any]:
        """A node that holds functions: they and it take two values for each pair."""
        attrs: dict[str, Any] = dict(node.attrs)
        changed = False
        for name, a in node.attrs.items():
            if isinstance(a, Graph):
                attrs[name] = self.functions[id(a)]
                changed |= attrs[name] is not a
            elif isinstance(a, tuple) and any(isinstance(g, Graph) for g in a):
                attrs[name] = tuple([self.functions[id(g)] for g in a])
                changed |= any(g is not h for g, h in zip(attrs[name], a, strict=True))
        groups = _GROUPS.get(node.op)
        if groups is None:
            if changed:
                raise ArgumentError(f"{node.op} cannot hold a function on complex values", op=node.op)
            groups = ()
        at = 0
        for name in groups:
            count = node.attrs[name]
            attrs[name] = len(_flat(args[at : at + count]))
            at += count
        found = list(ops.bind(OPS[node.op], tuple(_flat(args)), attrs))
        outs: list[Any] = []
        for v in node.outputs:
            outs.append(Pair(found.pop(0), found.pop(0)) if v.type.dtype.kind == "c" else found.pop(0))
        assert not found, f"{node.op} as pairs gives more than before"
        return outs


def _flat(values: Sequence[Any]) -> list[Any]:
    return [x for v in values for x in (v if is_pair(v) else (v,))]


def _split(x: Any, t: Type) -> Pair:
    """The two parts of a real value whose last axis holds them."""
    if size(t.shape) == 0:
        return Pair(*(zeros(Type(real_of(t.dtype), t.shape)) for _ in range(2)))
    lead = (0,) * t.ndim
    ones = (1,) * (t.ndim + 1)
    parts = [
        OPS["reshape"](
            OPS["slice"](x, start=(*lead, i), stop=(*t.shape, i + 1), step=ones),
            shape=t.shape,
        )
        for i in (0, 1)
    ]
    return Pair(*parts)


def _joined(x: Pair, t: Type) -> Any:
    """One real value with the parts in its last axis."""
    columns = [OPS["reshape"](part, shape=(*t.shape, 1)) for part in x]
    return OPS["concatenate"](*columns, axis=t.ndim)
