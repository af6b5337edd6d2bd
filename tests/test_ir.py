"""The IR: text both ways, equality, and what the verifier accepts and refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import array, concrete_inputs, graphs, seeds

from dala_defn import dtypes, ops
from dala_defn.errors import DalaError, ParseError, VerifyError
from dala_defn.ir import Graph, Literal, Node, Type, Value, print_graph
from dala_defn.ops.spec import OPS
from dala_defn.shapes import MAX_WEIGHT, DimExpr, ShapeError, evaluate, parse_dim
from dala_defn.sources import Location

F32 = Type(dtypes.float32, (2,))


@given(graphs())
def test_text_round_trip(g: Graph) -> None:
    text = print_graph(g)
    again = ops.parse(text)
    assert again == g
    assert hash(again) == hash(g)
    assert print_graph(again) == text == str(again)


@given(graphs())
def test_text_with_places_round_trip(g: Graph) -> None:
    text = print_graph(g, locations=True)
    again = ops.parse(text)
    assert again == g
    assert print_graph(again, locations=True) == text


@given(graphs())
def test_left_out_types_are_inferred(g: Graph) -> None:
    lines = [line.split(" : ")[0] if " = " in line else line for line in print_graph(g).split("\n")]
    assert ops.parse("\n".join(lines)) == g


@given(graphs())
def test_the_verifier_accepts_what_is_traced(g: Graph) -> None:
    ops.verify(g)


@given(st.data())
def test_inputs_fit_the_graph(data: st.DataObject) -> None:
    g = data.draw(graphs())
    arrays = data.draw(concrete_inputs(g))
    for v, a in zip(g.inputs, arrays, strict=True):
        literal = Literal(a, v.type.dtype)
        assert literal.type.ndim == v.type.ndim
        known = [d for d in v.type.shape if isinstance(d, int)]
        assert known == [n for n, d in zip(literal.type.shape, v.type.shape, strict=True) if isinstance(d, int)]


@given(st.sampled_from((*dtypes.KEYED, dtypes.complex64)), st.lists(st.integers(0, 4), max_size=3), seeds())
def test_constants_keep_their_bytes(dtype: dtypes.DType, shape: list[int], seed: int) -> None:
    if dtype.kind == "c":
        value = np.array(np.random.default_rng(seed).normal(size=shape), np.complex64)
    else:
        value = array(dtype, shape, seed)
    literal = Literal(value, dtype)
    node = Node("constant", (), {"value": literal}, [literal.type])
    again = ops.parse(print_graph(Graph("main", (), (node,), node.outputs)))
    assert again.nodes[0].attrs["value"] == literal


def renamed(g: Graph) -> Graph:
    """The same graph under other names, made elsewhere."""
    env: dict[Value, Value] = {}
    inputs = [Value(v.type, f"other_{i}") for i, v in enumerate(g.inputs)]
    env.update(zip(g.inputs, inputs, strict=True))
    nodes = []
    for n in g.nodes:
        attrs = {k: renamed(a) if isinstance(a, Graph) else a for k, a in reversed(list(n.attrs.items()))}
        types = [v.type for v in n.outputs]
        nodes.append(Node(n.op, tuple(env[v] for v in n.inputs), attrs, types, Location("elsewhere.py", 1, 1, "f")))
        env.update(zip(n.outputs, nodes[-1].outputs, strict=True))
    return Graph(g.name + "_other", inputs, nodes, [env[v] for v in g.outputs])


@given(graphs())
def test_equality_ignores_names_and_places(g: Graph) -> None:
    assert renamed(g) == g
    assert hash(renamed(g)) == hash(g)


@given(graphs(), graphs())
def test_equality_is_that_of_the_text(a: Graph, b: Graph) -> None:
    def text(g: Graph) -> str:
        return print_graph(renamed(renamed(g)))

    if a.name == b.name and not a.functions() and not b.functions():
        assert (a == b) == (text(a) == text(b))


def remade(g: Graph, at: int, change: Callable[[Node], Node]) -> Graph:
    """The graph with one node changed and its outputs used in place of the old ones."""
    env: dict[Value, Value] = {}
    nodes = []
    for i, n in enumerate(g.nodes):
        moved = Node(n.op, tuple(env.get(v, v) for v in n.inputs), n.attrs, [o.type for o in n.outputs], n.loc)
        nodes.append(change(moved) if i == at else moved)
        env.update(zip(n.outputs, nodes[-1].outputs, strict=False))
    return Graph(g.name, g.inputs, nodes, [env.get(v, v) for v in g.outputs])


def types_of(n: Node) -> list[Type]:
    return [v.type for v in n.outputs]


def without_attr(n: Node) -> Node:
    return Node(n.op, n.inputs, dict(list(n.attrs.items())[1:]), types_of(n))


def with_extra_attr(n: Node) -> Node:
    return Node(n.op, n.inputs, {**n.attrs, "extra": 1}, types_of(n))


def with_attr_of_another_kind(n: Node) -> Node:
    name, value = next(iter(n.attrs.items()))
    return Node(n.op, n.inputs, {**n.attrs, name: list(value) if isinstance(value, tuple) else 1.5}, types_of(n))


def with_another_dtype(n: Node) -> Node:
    first, *rest = types_of(n)
    other = dtypes.int8 if first.dtype is not dtypes.int8 else dtypes.int16
    return Node(n.op, n.inputs, n.attrs, [Type(other, first.shape), *rest])


def with_another_shape(n: Node) -> Node:
    first, *rest = types_of(n)
    return Node(n.op, n.inputs, n.attrs, [Type(first.dtype, (*first.shape, 1)), *rest])


def with_one_more_output(n: Node) -> Node:
    return Node(n.op, n.inputs, n.attrs, [*types_of(n), F32])


def with_one_more_operand(n: Node) -> Node:
    return Node(n.op, (*n.inputs, Value(F32)), n.attrs, types_of(n))


def with_an_unknown_op(n: Node) -> Node:
    return Node(n.op + "_", n.inputs, n.attrs, types_of(n))


def using_its_own_output(n: Node) -> Node:
    made = Node(n.op, n.inputs, n.attrs, types_of(n))
    made.inputs = (*made.inputs, made.outputs[0])
    return made


MUTATIONS = [
    (without_attr, "E606"),
    (with_extra_attr, "E606"),
    (with_attr_of_another_kind, "E606"),
    (with_another_dtype, "E607"),
    (with_another_shape, "E607"),
    (with_one_more_output, "E607"),
    (with_one_more_operand, "E604"),
    (with_an_unknown_op, "E603"),
    (using_its_own_output, "E604"),
]


@pytest.mark.parametrize(("change", "code"), MUTATIONS, ids=lambda p: getattr(p, "__name__", p))
@given(data=st.data())
def test_the_verifier_refuses_a_changed_node(change: Callable[[Node], Node], code: str, data: st.DataObject) -> None:
    g = data.draw(graphs())
    needs_attrs = change in (without_attr, with_attr_of_another_kind)
    fit = [i for i, n in enumerate(g.nodes) if n.outputs and (n.attrs or not needs_attrs)]
    if not fit:
        return
    at = data.draw(st.sampled_from(fit))
    with pytest.raises(VerifyError) as caught:
        ops.verify(remade(g, at, change))
    assert caught.value.code == code
    assert caught.value.details["node"] == at


def node(op: str, *inputs: Value, types: Any = (F32,), **attrs: Any) -> Node:
    return Node(op, inputs, attrs, types)


def refused(g: Any, code: str, words: str) -> VerifyError:
    with pytest.raises(VerifyError) as caught:
        ops.verify(g)
    assert caught.value.code == code
    assert words in str(caught.value)
    return caught.value


def test_operands_of_swapped_types_are_refused() -> None:
    c, x = Value(Type(dtypes.bool_, (2,))), Value(F32)
    ops.verify(Graph("main", (c, x), (n := node("select", c, x, x),), n.outputs))
    refused(Graph("main", (c, x), (n := node("select", x, c, x),), n.outputs), "E608", "E201: select: the condition")


def test_use_before_definition_is_refused() -> None:
    x = Value(F32)
    a = node("neg", x)
    b = node("exp", a.outputs[0])
    ops.verify(Graph("main", (x,), (a, b), b.outputs))
    refused(Graph("main", (x,), (b, a), b.outputs), "E604", "node 0 (%1): exp uses a value before it is defined")


def test_values_of_another_graph_are_refused() -> None:
    x, other = Value(F32, "x"), Value(F32, "other")
    refused(Graph("main", (x,), (), (other,)), "E604", "not of this graph")
    n = node("neg", other)
    function = Graph("f", (), (n,), n.outputs)
    refused(Graph("main", (other,), (c := node("call", function=function, composite=""),), c.outputs), "E604", "@f")


def test_a_value_defined_twice_is_refused() -> None:
    x = Value(F32)
    n = node("neg", x)
    refused(Graph("main", (x, x), (), ()), "E605", "%0 is defined twice")
    refused(Graph("main", (x,), (n, n), ()), "E605", "%1 is defined twice")
    refused(Graph("main", (x, n.outputs[0]), (n,), ()), "E605", "is no input")


def test_recursion_is_refused() -> None:
    x = Value(F32)
    attrs: dict[str, Any] = {"composite": ""}
    n = Node("call", (x,), attrs, (F32,))
    g = Graph("main", (x,), (n,), n.outputs)
    attrs["function"] = g
    refused(g, "E609", "@main refers to itself")
    with pytest.raises(VerifyError, match="refers to itself"):
        print_graph(g)


@pytest.mark.parametrize("wrong", [None, 3, Value(F32), "graph"])
def test_what_is_no_graph_is_refused(wrong: Any) -> None:
    refused(wrong, "E601", "is no graph")


@pytest.mark.parametrize(
    ("shape", "words"), [((-1,), "negative"), ((True,), "no size"), ((1.0,), "no size"), (([],), "no size")]
)
def test_wrong_types_are_refused(shape: Any, words: str) -> None:
    bad = Value(Type(dtypes.float32, ()))
    bad.type.shape = shape
    refused(Graph("main", (bad,), (), ()), "E607", words)


def test_the_error_of_an_op_keeps_its_place_and_operands() -> None:
    x, y = Value(Type(dtypes.float32, (2, 3))), Value(Type(dtypes.float32, (4,)))
    n = Node("add", (x, y), {}, (F32,), Location("model.py", 3, 7, "mlp"))
    error = refused(Graph("main", (x, y), (n,), n.outputs), "E608", "E101: do not broadcast")
    assert error.location == Location("model.py", 3, 7, "mlp")
    assert (error.op, error.details["reason_code"]) == ("add", "E101")
    assert [o.type for o in error.operands] == ["f32[2, 3]", "f32[4]"]


def chain(n: int) -> Graph:
    x = at = Value(F32, "x")
    nodes = []
    for _ in range(n):
        nodes.append(node("add", at, x))
        at = nodes[-1].outputs[0]
    return Graph("main", (x,), nodes, (at,))


def nested(depth: int) -> Graph:
    """Each function calls the one before it twice."""
    g = chain(1)
    for i in range(depth):
        x = Value(F32)
        a = node("call", x, function=g, composite="")
        b = node("call", *a.outputs, function=g, composite="")
        g = Graph(f"f{i}", (x,), (a, b), b.outputs)
    return g


@pytest.mark.slow
def test_a_long_graph_is_no_problem() -> None:
    ops.verify(chain(20_000))
    g = chain(4_000)
    assert ops.parse(print_graph(g)) == g


def test_deeply_nested_functions_are_no_problem() -> None:
    start = time.monotonic()
    g, other = nested(600), nested(600)
    ops.verify(g)
    assert g == other
    assert hash(g) == hash(other)
    assert len(g.functions()) == 600
    assert g != nested(599)
    assert ops.parse(print_graph(g)) == g
    assert time.monotonic() - start < 30


HOSTILE = {
    "parentheses": "(" * 100_000,
    "sizes": "graph @m(%x: f32[" + "(" * 8_000 + "1" + ")" * 8_000 + "]) {\n return\n}",
    "minus": "graph @m(%x: f32[" + "-" * 8_000 + "1]) {\n return\n}",
    "product": "graph @m(%x: f32[" + "*".join(["(a + b + c + d)"] * 60) + "]) {\n return\n}",
    "division": "graph @m(%x: f32[" + "//".join("abcdefgh" * 30) + "]) {\n return\n}",
    "number": f"graph @m(%x: f32[{'9' * 100_000}]) {{\n return\n}}",
    "numbers": f"graph @m(%x: f32[{'*'.join(['9' * 18] * 200)}]) {{\n return\n}}",
    "element": f"graph @m() {{\n %1 = constant {{value=i32[1]<{'9' * 100_000}>}}\n return\n}}",
    "exponent": "graph @m() {\n %1 = constant {value=f32[1]<1e999999999>}\n return\n}",
    "huge constant": "graph @m() {\n %1 = constant {value=f32[9999999, 9999999, 9999999]<1>}\n return\n}",
    "empty huge constant": "graph @m() {\n %1 = constant {value=f32[0" + ", 999999999999" * 20 + "]<>}\n return\n}",
    "rank of a constant": f"graph @m() {{\n %1 = constant {{value=f32[{'1, ' * 99}1]<1>}}\n return\n}}",
    "string": 'graph @m(%x: f32[]) {\n %1 = call %x {composite="' + "\\" * 99_999,
    "place": 'graph @m(%x: f32[]) {\n %1 = neg %x loc("":99999999999999999999:1 "")\n return\n}',
    "surrogate": 'graph @m(%x: f32[]) {\n %1 = call %x {composite="\\ud800", function=@m}\n return\n}',
    "axis": f"graph @m(%x: f32[2]) {{\n %1 = sum %x {{axes=[{10**18 * 9}]}}\n return %1\n}}",
    "wide axis": f"graph @m(%x: f32[2]) {{\n %1 = sum %x {{axes=[{10**19}]}}\n return %1\n}}",
    "nul": "graph @m(%x: f32[2]) {\n \0\n}",
    "nothing": "",
    "new lines": "\n" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_soon(text: str) -> None:
    start = time.monotonic()
    with pytest.raises((ParseError, VerifyError)) as caught:
        ops.parse(text)
    assert time.monotonic() - start < 20
    assert {"line", "column"} <= caught.value.details.keys()
    assert len(str(caught.value)) < 2000


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ParseError, match="characters, more than"):
        ops.parse(" " * (2**24 + 1))


@given(st.data())
def test_damaged_text_gives_an_error_or_a_graph(data: st.DataObject) -> None:
    text = print_graph(data.draw(graphs()), locations=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 8))
    piece = data.draw(st.one_of(st.text('%@[]{}()<>,:=;"\\\n -01e9xbf*/', max_size=4), st.text(max_size=3)))
    with suppress(ParseError, VerifyError):
        ops.verify(ops.parse(text[:at] + piece + text[at + length :]))


SIZED = st.sampled_from(("b", "n", "2", "3", "0", "1"))
EXPRESSIONS = st.recursive(
    SIZED, lambda e: st.builds("({}{}{})".format, e, st.sampled_from((" + ", " - ", "*", "//")), e), max_leaves=10
)


@given(EXPRESSIONS)
def test_sizes_read_back_as_they_print(text: str) -> None:
    sizes = {"b": 3, "n": 5}
    try:
        d = parse_dim(text)
        value = eval(text, {}, sizes)
    except (ShapeError, ZeroDivisionError):
        return
    assert parse_dim(str(d)) == d
    assert evaluate(d, sizes) == value


def test_sizes_are_bounded() -> None:
    d: Any = DimExpr.named("b")
    with pytest.raises(ShapeError, match="too long an expression"):
        for i in range(MAX_WEIGHT):
            d = d * DimExpr.named(f"n{i}") + i
    with pytest.raises(ShapeError, match="too long an expression"):
        for i in range(2, 100):
            d = (DimExpr.named("b") if i == 2 else d) // i + 1


ATTRS = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 5),
    "bool": st.booleans(),
    "str": st.sampled_from(("", "clip", "fill", "error", "sum")),
    "ints": st.lists(st.integers(-2, 5) | st.just(2**62), max_size=4).map(tuple),
    "dims": st.lists(st.integers(-2, 5) | st.sampled_from((2**62, DimExpr.named("b"))), max_size=4).map(tuple),
    "dtype": st.sampled_from(dtypes.DTYPES),
    "fn": st.just(chain(1)),
    "fns": st.lists(st.just(chain(1)), min_size=1, max_size=3).map(tuple),
    "types": st.lists(st.just(Type(dtypes.float32, (2,))), max_size=2).map(tuple),
    "value": st.just(Literal(np.ones(2, np.float32), dtypes.float32)),
}


@settings(max_examples=20 * settings.default.max_examples)
@given(name=st.sampled_from(sorted(OPS)), data=st.data())
def test_type_rules_fail_only_with_our_errors(name: str, data: st.DataObject) -> None:
    spec = OPS[name]
    dtype = st.sampled_from((dtypes.float32, dtypes.int32, dtypes.bool_, dtypes.key, dtypes.uint32))
    dim = st.integers(0, 3) | st.just(DimExpr.named("b"))
    operand = st.builds(Type, dtype, st.lists(dim, max_size=4).map(tuple))
    types = data.draw(st.lists(operand, max_size=3))
    attrs = {k: data.draw(ATTRS[kind]) for k, kind in spec.attrs.items()}
    g = Graph("main", (inputs := [Value(t) for t in types]), [node(name, *inputs, types=(), **attrs)], ())
    try:
        ops.verify(g)
    except VerifyError as error:
        assert error.__cause__ is None or isinstance(error.__cause__, DalaError), error
