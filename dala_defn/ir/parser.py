"""Graphs from text. The grammar stands in ``grammar.lark``; this turns what it reads into a graph, or says why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dala_defn.dtypes import BY_SHORT, DType
from dala_defn.errors import DalaError, ParseError, ShapeError, VerifyError
from dala_defn.ir import literals
from dala_defn.ir.graph import Graph, Node, Value
from dala_defn.ir.types import Type
from dala_defn.ir.verify import KIND_NAMES, Table, attr_problem, infer_types, type_problem
from dala_defn.shapes import Dim, DimExpr, parse_dim
from dala_defn.sources import Location

MAX_TEXT = 2**24  # characters; some ten seconds of parsing


@dataclass(frozen=True)
class TextLocation(Location):
    """A place in a text that is in no file: it carries its line."""

    text: str = ""

    def source_line(self) -> str:
        """The text of the line."""
        return self.text


def parse(text: str, ops: Table, file: str | None = None) -> Graph:
    """The graph that a text holds: its last one; those before it are functions, and each must be used.

    Output types that are left out are inferred; those that are given stand as they are, for the verifier to check.

    Args:
        text: one or more graphs, see ``grammar.lark``.
        ops: the op table.
        file: where the text comes from; nodes without a place of their own then get their line in it.

    Raises:
        ParseError: E602, when the text is no graph.
        VerifyError: when it breaks a rule of the IR, see ``verify``.
    """
    if len(text) > MAX_TEXT:
        raise ParseError(f"the text has {len(text)} characters, more than {MAX_TEXT}")
    builder = _Builder(text, ops, file)
    try:
        graphs: Any = _lark().parse(text + "\n")
    except UnexpectedInput as error:
        problem: UnexpectedInput = error
    else:
        return builder.program(graphs)
    builder.refuse(*_syntax(problem))


class _Attr(NamedTuple):
    name: Token
    kind: str  # what was written: expr, list, literal, string, function, functions or types
    value: Any


class _Type(NamedTuple):
    dtype: Token
    dims: Sequence[list[Token]]


class _Node(NamedTuple):
    results: Sequence[Token]
    op: Token
    inputs: Sequence[Token]
    attrs: Sequence[_Attr]
    types: Sequence[_Type]
    loc: Sequence[Token] | None = None


class _Graph(NamedTuple):
    name: Token
    params: Sequence[tuple[Token, _Type]]
    nodes: Sequence[_Node]
    end: Token
    outputs: Sequence[Token]


class _Rows(Transformer[Token, Any]):
    """The syntax as rows of tokens. Nothing here can fail: what the tokens mean is the builder's question."""

    start = params = nodes = results = values = attrs = elements = types = exprs = expr = loc = list

    def graph(self, items: list[Any]) -> _Graph:
        return _Graph(*items)

    def param(self, items: list[Any]) -> tuple[Token, _Type]:
        return (items[0], items[1])

    def node(self, items: list[Any]) -> _Node:
        return _Node(*items)

    def type(self, items: list[Any]) -> _Type:
        return _Type(items[0], items[1])

    def attr(self, items: list[Any]) -> _Attr:
        name, value = items
        return _Attr(name, "expr", value) if isinstance(value, list) else _Attr(name, *value)

    def sequence(self, items: list[Any]) -> tuple[str, Any]:
        return items[0] if isinstance(items[0], tuple) else ("list", items[0])

    def functions(self, items: list[Any]) -> tuple[str, Any]:
        return ("functions", items)

    def type_list(self, items: list[Any]) -> tuple[str, Any]:
        return ("types", items)

    def string(self, items: list[Any]) -> tuple[str, Any]:
        return ("string", items[0])

    def function(self, items: list[Any]) -> tuple[str, Any]:
        return ("function", items[0])

    def literal(self, items: list[Any]) -> tuple[str, Any]:
        return ("literal", (_Type(items[0], items[1]), items[2]))


@cache
def _lark() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=_Rows())


_TERMINALS = {
    "FUNCTION": "a name such as @f",
    "VALUE": "a value such as %x",
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    "OPERATOR": "an operator",
    "ELEMENT": "an element",
    "_NL": "the end of the line",
    "$END": "the end",
}


def _syntax(error: UnexpectedInput) -> tuple[int, int, str]:
    """Line, column and reason."""
    found = "the end of the text"
    expected: Any = getattr(error, "accepts", None) or getattr(error, "expected", None)
    if isinstance(error, UnexpectedCharacters):
        found, expected = repr(error.char), error.allowed
    elif isinstance(error, UnexpectedToken) and error.token.type != "$END":
        found = "the end of the line" if error.token.type == "_NL" else repr(str(error.token)[:40])
    named = sorted(_TERMINALS.get(t) or _keyword(t) for t in expected or () if t not in ("COMMENT", "SPACE"))
    wanted = f", where {' or '.join(named)} is expected" if 0 < len(named) < 8 else ""
    line = error.line if isinstance(error.line, int) and error.line > 0 else 1
    column = error.column if isinstance(error.column, int) and error.column > 0 else 1
    return line, column, f"unexpected {found}{wanted}"


def _keyword(terminal: str) -> str:
    pattern = next((t.pattern.value for t in _lark().terminals if t.name == terminal), terminal)
    return repr(pattern)


class _Builder:
    def __init__(self, text: str, ops: Table, file: str | None) -> None:
        self.text = text
        self.ops = ops
        self.file = file
        self.functions: dict[str, Graph] = {}
        self.used: set[str] = set()
        self.graph = ""
        self.values: dict[str, Value] = {}

    def refuse(self, line: int, column: int, reason: str, error: type[DalaError] = ParseError, **more: Any) -> NoReturn:
        lines = self.text.split("\n")
        line = min(line, len(lines))
        where = f"@{self.graph}" if self.graph else "the text"
        source = lines[line - 1].rstrip()[:500]
        place = TextLocation(self.file or "<text>", line, column, where, "", source)
        details = {**more.pop("details", {}), "line": line, "column": column}
        raise error(f"line {line}, column {column}: {reason}", location=place, details=details, **more) from None

    def at(self, token: Token, reason: str, error: type[DalaError] = ParseError, **more: Any) -> NoReturn:
        self.refuse(token.line or 1, token.column or 1, reason, error, **more)

    def broken(self, token: Token, code: str, reason: str, **more: Any) -> NoReturn:
        self.at(token, reason, VerifyError, code=code, **more)

    def program(self, rows: Sequence[_Graph]) -> Graph:
        for row in rows:
            name = row.name[1:]
            if name in self.functions:
                self.at(row.name, f"@{name} is defined twice")
            self.functions[name] = self.function(row)
        for row in rows[:-1]:
            if row.name[1:] not in self.used:
                self.at(row.name, f"nothing refers to {row.name}", hint="the last graph is the main one")
        return self.functions[rows[-1].name[1:]]

    def function(self, row: _Graph) -> Graph:
        self.graph = row.name[1:]
        self.values = {}
        inputs = []
        for token, t in row.params:
            name = token[1:]
            value = Value(self.type(t), "" if name[0].isdigit() else name)
            inputs.append(value)
            self.define(token, value)
        nodes = [self.node(n, row) for n in row.nodes]
        return Graph(self.graph, inputs, nodes, [self.value(v, row) for v in row.outputs])

    def define(self, token: Token, value: Value) -> None:
        if token in self.values:
            self.broken(token, "E605", f"{token} is defined twice")
        self.values[str(token)] = value

    def value(self, token: Token, row: _Graph) -> Value:
        value = self.values.get(token)
        if value is None:
            later = any(token == result for n in row.nodes for result in n.results)
            self.broken(token, "E604", f"{token} is used before it is defined" if later else f"there is no {token}")
        return value

    def node(self, row: _Node, graph: _Graph) -> Node:
        op = str(row.op)
        inputs = tuple([self.value(v, graph) for v in row.inputs])
        spec = self.ops.get(op)
        if spec is None:
            self.broken(row.op, "E603", f"there is no op {op!r}")
        attrs: dict[str, Any] = {}
        for a in row.attrs:
            if str(a.name) in attrs:
                self.broken(a.name, "E606", f"{op}: the attribute {a.name} is given twice", op=op)
            attrs[str(a.name)] = self.attr(a, spec.attrs.get(a.name, ""))
        problem = attr_problem(attrs, spec.attrs)
        if problem is not None:
            self.broken(row.op, "E606", f"{op}: {problem}", op=op)
        if row.types or not row.results:
            types = tuple([self.type(t) for t in row.types])
        else:
            try:
                types = infer_types(op, spec, [v.type for v in inputs], attrs)
            except VerifyError as error:
                rest = {"rule": error.rule, "hint": error.hint, "details": error.details, "op": op}
                self.broken(row.op, error.code, error.reason, **rest)
        if len(types) != len(row.results):
            self.broken(row.op, "E607", f"{op} gives {len(types)} values, not {len(row.results)}", op=op)
        node = Node(op, inputs, attrs, types, self.loc(row))
        for token, value in zip(row.results, node.outputs, strict=True):
            self.define(token, value)
        return node

    def loc(self, row: _Node) -> Location | None:
        if row.loc is None:
            return None if self.file is None else Location(self.file, row.op.line or 1, row.op.column or 1, self.graph)
        file, line, column, function, *path = row.loc
        layers = self.string(path[0]) if path else ""
        return Location(self.string(file), self.number(line), self.number(column), self.string(function), layers)

    def number(self, token: Token) -> int:
        if len(token) > 9:
            self.at(token, f"{token[:20]} is too large")
        return int(token)

    def string(self, token: Token) -> str:
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            self.at(token, f"{token[:40]} is no string", hint="escapes are those of JSON")

    def attr(self, a: _Attr, kind: str) -> Any:
        """The attribute as its kind asks, as far as what was written allows; the common check refuses the rest."""
        if a.kind == "string":
            return self.string(a.value)
        if a.kind == "function":
            return self.reference(a.value)
        if a.kind == "functions":
            return tuple([self.reference(token) for token in a.value])
        if a.kind == "types":
            return tuple([self.type(t) for t in a.value])
        if a.kind == "literal":
            t = self.type(a.value[0])
            try:
                return literals.read(t.dtype, self.known(a.value[0], t), [str(e) for e in a.value[1]])
            except ValueError as error:
                self.at(a.value[0].dtype, str(error))
        if a.kind == "list":
            return tuple([self.dim(d) for d in a.value])
        value = self.dim(a.value)
        name = value.as_name() if isinstance(value, DimExpr) else None
        if kind == "bool" and name in ("true", "false"):
            return name == "true"
        if kind == "dtype" and name is not None:
            return self.dtype(a.value[0])
        if kind and not isinstance(value, int):
            self.broken(a.name, "E606", f"the attribute {a.name} must be {KIND_NAMES[kind]}, not {value}")
        return value

    def reference(self, token: Token) -> Graph:
        function = self.functions.get(token[1:])
        if function is None:
            self.broken(
                token, "E609", f"{token} is not defined above", rule="a function stands before those that use it"
            )
        self.used.add(token[1:])
        return function

    def known(self, row: _Type, t: Type) -> tuple[int, ...]:
        if any(isinstance(d, DimExpr) for d in t.shape):
            self.at(row.dtype, f"a constant has known sizes, not {t}")
        return tuple([int(d) for d in t.shape])

    def type(self, row: _Type) -> Type:
        t = Type(self.dtype(row.dtype), tuple([self.dim(d) for d in row.dims]))
        problem = type_problem(t)
        if problem is not None:
            self.broken(row.dtype, "E607", problem)
        return t

    def dtype(self, token: Token) -> DType:
        dtype = BY_SHORT.get(token)
        if dtype is None:
            self.at(token, f"{token} is no dtype", hint="one of " + " ".join(BY_SHORT))
        return dtype

    def dim(self, tokens: list[Token]) -> Dim:
        if len(tokens) == 1 and tokens[0].type == "INT" and len(tokens[0]) < 19:
            return int(tokens[0])
        try:
            return parse_dim(" ".join(tokens))
        except ShapeError as error:
            self.at(tokens[0], error.reason)
