"""The rules of the IR, checked. What the verifier accepts, passes and executors may rely on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NoReturn, Protocol

from dala_defn.dtypes import DType
from dala_defn.errors import DalaError, Operand, VerifyError
from dala_defn.ir.graph import Graph, Node, Value, postorder
from dala_defn.ir.types import Literal, Type
from dala_defn.shapes import MAX_NUMBER, DimExpr, at_least


class OpRow(Protocol):
    """What the IR needs to know of an op; the table itself is handed in."""

    @property
    def attrs(self) -> Mapping[str, str]:
        """Attribute name -> kind."""
        ...

    @property
    def infer(self) -> Callable[..., tuple[Type, ...]]:
        """``(*types, **attrs) -> types`` of the outputs."""
        ...


Table = Mapping[str, OpRow]


def verify(graph: Graph, ops: Table) -> None:
    """Checks a graph and every graph it refers to, each once.

    Raises:
        VerifyError: naming the node, its op and its place. E601: the graph is not made of what graphs are made of;
            E603: unknown op; E604: a value that is not defined before its use; E605: a value defined twice;
            E606: attributes; E607: types; E608: operands that the op refuses; E609: recursion.
    """
    if not isinstance(graph, Graph):
        raise VerifyError(f"{type(graph).__name__} is no graph")
    for node in (n for g in _reached(graph) for n in g.nodes):
        if not isinstance(node, Node) or not isinstance(node.attrs, Mapping):
            raise VerifyError(f"{node!r:.80} is no node")
    for g in postorder(graph):
        _Verifier(g, ops).run()


def _reached(graph: Graph) -> Iterable[Graph]:
    """Every graph that can be reached, without relying on anything but that nodes have attributes."""
    seen = {id(graph)}
    todo = [graph]
    while todo:
        at = todo.pop()
        yield at
        for sub in at.subgraphs():
            if id(sub) not in seen:
                seen.add(id(sub))
                todo.append(sub)


def attr_problem(attrs: Mapping[str, Any], kinds: Mapping[str, str]) -> str | None:
    """What is wrong with the attributes of a node, or ``None``."""
    for name in kinds:
        if name not in attrs:
            return f"the attribute {name} is missing"
    for name, value in attrs.items():
        kind = kinds.get(name)
        if kind is None:
            known = ", ".join(kinds)
            return f"there is no attribute {name}" + (f", only {known}" if known else "; it has none")
        if not _KINDS[kind](value):
            return f"the attribute {name} must be {KIND_NAMES[kind]}, not {value!r:.80}"
    return None


def _is_int(value: Any) -> bool:
    return type(value) is int and -MAX_NUMBER <= value < MAX_NUMBER


def _is_dim(value: Any) -> bool:
    return _is_int(value) or isinstance(value, DimExpr)


def _is_literal(value: Any) -> bool:
    if not isinstance(value, Literal) or value.array.dtype != value.dtype.dtype:
        return False
    return value.dtype.kind != "k" or value.array.shape[-1:] == (2,)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "bool": lambda v: type(v) is bool,
    "str": lambda v: type(v) is str,
    "ints": lambda v: type(v) is tuple and all(map(_is_int, v)),
    "dims": lambda v: type(v) is tuple and all(map(_is_dim, v)),
    "dtype": lambda v: isinstance(v, DType),
    "fn": lambda v: isinstance(v, Graph),
    "fns": lambda v: type(v) is tuple and bool(v) and all(isinstance(g, Graph) for g in v),
    "types": lambda v: type(v) is tuple and all(type_problem(t) is None for t in v),
    "value": _is_literal,
}

KIND_NAMES: Mapping[str, str] = {
    "int": "a whole number of at most 64 bits",
    "bool": "true or false",
    "str": "a string",
    "ints": "a list of whole numbers",
    "dims": "a list of sizes",
    "dtype": "a dtype",
    "fn": "a graph",
    "fns": "a list of graphs",
    "types": "a list of types",
    "value": "a constant of its dtype",
}


def type_problem(value: Any) -> str | None:
    """What is wrong with a type, or ``None``."""
    if not isinstance(value, Type) or not isinstance(value.dtype, DType) or type(value.shape) is not tuple:
        return f"{value!r:.80} is no type"
    for d in value.shape:
        if not _is_dim(d):
            return f"{d!r:.80} is no size"
        if at_least(d, 0) is False:
            return f"the size {d} is negative"
    return None


def infer_types(op: str, row: OpRow, types: Iterable[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """The output types by the op's own rule; the attributes must be right already.

    Raises:
        VerifyError: E608, with the code and words of the rule that was broken.
    """
    types = tuple(types)
    try:
        _signature(row.infer).bind(*types, **attrs)
    except TypeError:
        raise VerifyError(f"{op} does not take {len(types)} operands", code="E608", op=op) from None
    try:
        outs = tuple(row.infer(*types, **attrs))
    except DalaError as error:
        raise VerifyError(
            f"{error.code}: {error.reason:.400}",  # it may show an attribute of any length
            code="E608",
            op=op,
            rule=error.rule,
            hint=error.hint,
            details={**error.details, "reason_code": error.code},
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VerifyError(f"{op} refuses this: {type(error).__name__}: {error}", code="E608", op=op) from error
    for t in outs:
        problem = type_problem(t)
        if problem is not None:
            raise VerifyError(f"{op} would give {t}: {problem}", code="E608", op=op)
    return outs


@cache
def _signature(f: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(f)


class _Verifier:
    """One graph; the graphs that it refers to have been checked."""

    def __init__(self, graph: Graph, ops: Table) -> None:
        self.graph = graph
        self.ops = ops
        self.number: dict[Value, int] = {}
        self.node: Node | None = None

    def run(self) -> None:
        g = self.graph
        for v in g.inputs:
            if not isinstance(v, Value) or v.node is not None:
                self.fail(f"{v!r:.80} is no input: a node computes it", "E605" if isinstance(v, Value) else "E601")
            self.check_type(v.type, "an input")
            self.define(v)
        for n in g.nodes:
            self.node = n
            self.check_node(n)
        self.node = None
        for v in g.outputs:
            self.check_use(v, "the graph returns")

    def check_node(self, n: Node) -> None:
        for v in n.inputs:
            self.check_use(v, f"{n.op} uses")
        row = self.ops.get(n.op) if isinstance(n.op, str) else None
        if row is None:
            self.fail(f"there is no op {n.op!r:.80}", "E603")
        problem = attr_problem(n.attrs, row.attrs)
        if problem is not None:
            self.fail(f"{n.op}: {problem}", "E606")
        try:
            wanted = infer_types(n.op, row, [v.type for v in n.inputs], n.attrs)
        except VerifyError as error:
            self.fail(error.reason, error.code, rule=error.rule, hint=error.hint, details=error.details)
        for i, v in enumerate(n.outputs):
            if not isinstance(v, Value) or v.node is not n or v.index != i:
                self.fail(f"output {i} of {n.op} is not its own", "E601")
            self.check_type(v.type, f"output {i} of {n.op}")
        have = tuple(v.type for v in n.outputs)
        if have != wanted:
            self.fail(f"{n.op} gives {_listed(wanted)}, not {_listed(have)}", "E607")
        for v in n.outputs:
            self.define(v)

    def define(self, v: Value) -> None:
        if v in self.number:
            self.fail(f"%{self.number[v]} is defined twice", "E605")
        self.number[v] = len(self.number)

    def check_type(self, t: Any, what: str) -> None:
        problem = type_problem(t)
        if problem is not None:
            self.fail(f"{what}: {problem}", "E607")

    def check_use(self, v: Any, what: str) -> None:
        if not isinstance(v, Value):
            self.fail(f"{what} {v!r:.80}, which is no value", "E601")
        if v in self.number:
            return
        if any(v is o for n in self.graph.nodes for o in n.outputs):
            self.fail(f"{what} a value before it is defined: {v!r:.80}", "E604")
        self.fail(
            f"{what} a value that is not of this graph: {v!r:.80}",
            "E604",
            rule="a graph is closed: what it needs from outside is an input",
        )

    def fail(self, reason: str, code: str, **more: Any) -> NoReturn:
        n = self.node
        if n is None:
            raise VerifyError(f"@{self.graph.name}: {reason}", code=code, **more)
        at = next(i for i, other in enumerate(self.graph.nodes) if other is n)
        details = {**more.pop("details", {}), "graph": self.graph.name, "node": at}
        raise VerifyError(
            f"@{self.graph.name}, node {at} (%{len(self.number)}): {reason}",
            code=code,
            op=str(n.op),
            operands=[
                Operand(f"operand {i}", str(v.type), f"%{self.number[v]}" if v in self.number else "")
                for i, v in enumerate(n.inputs)
                if isinstance(v, Value)
            ],
            location=None if n.loc is None else n.loc.resolve(),
            details=details,
            **more,
        )


def _listed(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"
