"""What holds for all passes, and derivatives where they are easily wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evaluate import evaluate
from hypothesis import given
from hypothesis import strategies as st
from strategies import concrete_inputs, graphs

from dala_defn import dtypes, ops
from dala_defn import functions as F
from dala_defn.dtypes import float32, float64, int32
from dala_defn.errors import ArgumentError, DalaError, DTypeError, GradientError, ShapeError
from dala_defn.ir import Graph, Node, Type, Value, print_graph
from dala_defn.ops import OPS
from dala_defn.passes import (
    DEFAULT,
    PASSES,
    Batch,
    Pipeline,
    Simplify,
    Step,
    batch_graph,
    cse,
    dce,
    grad_graph,
    inline_calls,
    jvp_graph,
    vjp_graph,
)
from dala_defn.trace import trace_function

SAME = tuple(name for name, p in PASSES.items() if p.keeps_meaning)


def traced(f: Callable[..., Any], *shapes: Sequence[int], dtype: Any = float64) -> Graph:
    types = [s if isinstance(s, Type) else Type(dtype, tuple(s)) for s in shapes]

    def body(*args: Any) -> Sequence[Any]:
        out = f(*args)
        return out if isinstance(out, (list, tuple)) else [out]

    graph, captures = trace_function(body, types, "f", ["x", "y", "z"])
    assert not captures
    return graph


def gradients(f: Callable[..., Any], *args: Any, wrt: Sequence[int] | None = None) -> list[Any]:
    arrays = [np.asarray(a, np.float64) if isinstance(a, (float, list)) else np.asarray(a) for a in args]
    graph = traced(f, *(Type(dtypes.as_dtype(a.dtype), a.shape) for a in arrays))
    made = DEFAULT.run(grad_graph(graph, range(len(args)) if wrt is None else wrt))
    with np.errstate(all="ignore"):
        return evaluate(made, *arrays)[1:]


# Any graph.


@given(graphs(), st.sampled_from(sorted(PASSES)))
def test_passes_make_valid_graphs_and_leave_theirs_alone(graph: Graph, name: str) -> None:
    before = print_graph(graph, locations=True)
    try:
        after = PASSES[name].run(graph)
    except DalaError:
        assert name not in SAME
        return
    finally:
        assert print_graph(graph, locations=True) == before
    ops.verify(after)
    if name in SAME:
        assert [v.type for v in after.inputs] == [v.type for v in graph.inputs]
        assert [v.type for v in after.outputs] == [v.type for v in graph.outputs]


@given(graphs())
def test_the_default_pipeline_reaches_a_fixpoint(graph: Graph) -> None:
    once = DEFAULT.run(graph)
    assert DEFAULT.run(once) is once


def assert_same(found: Sequence[Any], wanted: Sequence[Any], signs: bool) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fV"), f"{a}\n{b}"
        if signs and a.dtype.kind in "fV":
            assert np.all(np.isnan(a) | (np.signbit(a) == np.signbit(b))), f"{a}\n{b}"


@given(st.data())
def test_passes_keep_what_a_graph_computes(data: st.DataObject) -> None:
    graph = data.draw(graphs(symbolic=False, nodes=14))
    args = data.draw(concrete_inputs(graph))
    # The one rule that is not exact to the sign of zero is about this op.
    signs = not any(n.op == "mul_strong_zero" for n in inline_calls(graph).nodes)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, *args)
        for name in SAME:
            assert_same(evaluate(PASSES[name].run(graph), *args), wanted, signs)


@given(st.data())
def test_a_batched_graph_agrees_with_a_loop(data: st.DataObject) -> None:
    graph = data.draw(graphs(symbolic=False))
    rows = [data.draw(concrete_inputs(graph)) for _ in range(2)]
    axes = [data.draw(st.sampled_from((0, None))) for _ in graph.inputs]
    many = batch_graph(graph, axes, 2)
    ops.verify(many)
    whole = [np.stack([r[i] for r in rows]) if axis == 0 else rows[0][i] for i, axis in enumerate(axes)]
    each = [[r[i] if axis == 0 else rows[0][i] for i, axis in enumerate(axes)] for r in rows]
    with np.errstate(all="ignore"):
        found = evaluate(many, *whole)
        wanted = [np.stack(parts) for parts in zip(*(evaluate(graph, *e) for e in each), strict=True)]
    for a, b in zip(found, wanted, strict=True):
        if a.dtype.kind in "fV":
            bound = {2: 3e-2, 4: 1e-4, 8: 1e-10}[a.dtype.itemsize]
            np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=bound, atol=bound)
        else:
            assert a.dtype == b.dtype and np.array_equal(a, b)


@given(st.data())
def test_vjp_and_jvp_of_a_graph_agree(data: st.DataObject) -> None:
    graph = data.draw(graphs(symbolic=False, inputs=[Type(float64, (3,)), Type(float64, ())]))
    args = data.draw(concrete_inputs(graph, special=False))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    chosen = [i for i, v in enumerate(graph.outputs) if v.type.dtype is float64]
    ts = [rng.normal(size=a.shape) for a in args]
    cts = [rng.normal(size=graph.outputs[i].type.shape) for i in chosen]
    with np.errstate(all="ignore"):
        pulled = evaluate(vjp_graph(graph, (0, 1), chosen), *args, *cts)[len(graph.outputs) :]
        pushed = evaluate(jvp_graph(graph, (0, 1)), *args, *ts)[len(graph.outputs) :]
        floats = [v for v in graph.outputs if v.type.dtype.is_inexact]
        tangents = [t for t, v in zip(pushed, floats, strict=True) if v.type.dtype is float64]
        terms = [ct * t for ct, t in zip(cts, tangents, strict=True)], [g * t for g, t in zip(pulled, ts, strict=True)]
        left, right = (sum(np.sum(p) for p in part) for part in terms)
        scale = 1 + sum(np.sum(np.abs(p)) for part in terms for p in part)
    if np.isfinite(scale) and scale < 1e100:
        # Through float16 on the way, tangents and cotangents are rounded at different places.
        bound = 1e-9 if all(v.type.dtype in (float64, int32, dtypes.bool_) for v in values(graph)) else 0.5
        assert abs(left - right) <= bound * scale


def values(graph: Graph) -> list[Value]:
    inlined = inline_calls(graph)
    return [*inlined.inputs, *(v for n in inlined.nodes for v in n.outputs)]


# Size and depth.


def chain(length: int) -> Graph:
    def f(x: Any) -> Any:
        for i in range(length):
            x = F.sin(x) if i % 2 else x * x
        return x

    return traced(f, ())


RUNS: dict[str, Callable[[Graph], Graph]] = {
    **{name: PASSES[name].run for name in PASSES},
    "default of grad": lambda g: DEFAULT.run(grad_graph(g, [0])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_chain_of_20000_nodes_takes_work_in_proportion(name: str) -> None:
    def calls(length: int) -> int:
        graph = chain(length)
        count = 0

        def counted(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            RUNS[name](graph)
        finally:
            sys.setprofile(before)
        return count

    assert calls(20_000) < 10 * calls(2_500)  # 8 times as many nodes; quadratic would be 64


def test_derivatives_of_a_long_chain_are_right() -> None:
    graph = chain(60)
    x = np.float64(0.9)
    (_, g) = evaluate(grad_graph(graph, [0]), x)
    (_, t) = evaluate(jvp_graph(graph, [0]), x, np.float64(1))
    wanted = np.float64(1)
    y = x
    for i in range(60):
        wanted, y = (wanted * np.cos(y), np.sin(y)) if i % 2 else (wanted * 2 * y, y * y)
    assert g == pytest.approx(wanted, rel=1e-12)
    assert t == pytest.approx(wanted, rel=1e-12)


def called(function: Graph, times: int, name: str) -> Graph:
    """A function that calls another one several times, one after the other."""
    x = Value(function.inputs[0].type, "x")
    v, nodes = x, []
    for _ in range(times):
        node = Node("call", (v,), {"function": function, "composite": ""}, [x.type])
        nodes.append(node)
        (v,) = node.outputs
    return Graph(name, [x], nodes, [v])


def test_functions_within_functions_are_visited_once_each() -> None:
    graph = traced(lambda x: F.negative(-F.sin(x)), ())
    for level in range(60):
        graph = called(graph, 2, f"f{level}")  # 2**60 calls, if each were followed
    made = DEFAULT.run(graph)
    ops.verify(made)
    assert [n.op for n in made.functions()[0].nodes] == ["sin"]
    assert len(made.functions()) == 60


def test_deep_calls_are_inlined_without_recursion() -> None:
    graph = traced(lambda x: F.sin(x), ())
    for level in range(3_000):
        graph = called(graph, 1, f"f{level}")
    assert [n.op for n in inline_calls(graph).nodes] == ["sin"]
    assert evaluate(grad_graph(graph, [0]), np.float64(0))[1] == 1


def test_a_function_is_inlined_at_every_call_and_its_places_stay() -> None:
    inner = traced(lambda x: F.exp(x) + 1.0, ())
    made = inline_calls(called(inner, 3, "main"))
    assert [n.op for n in made.nodes] == ["exp", "constant", "add"] * 3
    assert len(set(made.nodes)) == 9
    assert [n.loc for n in made.nodes] == [n.loc for n in inner.nodes] * 3


# The pipeline.


def test_a_pipeline_records_and_verifies_every_step() -> None:
    steps: list[Step] = []
    seen: list[Graph] = []
    graph = traced(lambda x: F.negative(-x) * 1.0, (2,))
    out = replace(DEFAULT, dump=steps.append, verify=seen.append).run(graph)
    assert [s.name for s in steps[:4]] == ["simplify", "fold", "cse", "dce"]
    assert steps[-1].graph is out and steps[-1].nodes == 0 and steps[0].nodes > 0
    assert all(s.seconds >= 0 and s.text in str(s) and f"; {s.name}: " in str(s) for s in steps)
    assert seen[0] is graph and seen[-1] is out
    assert len({id(g) for g in seen}) == len(seen)


def test_a_pipeline_stops_at_a_broken_graph() -> None:
    def refuse(graph: Graph) -> None:
        if not graph.nodes:
            raise AssertionError("broken")

    with pytest.raises(AssertionError, match="broken"):
        replace(DEFAULT, verify=refuse).run(traced(lambda x: F.negative(-x), (2,)))


def test_a_pipeline_is_bounded() -> None:
    steps: list[Step] = []
    Pipeline((Simplify(),), rounds=1, dump=steps.append).run(traced(lambda x: F.negative(-x), (2,)))
    assert len(steps) == 1


def test_passes_are_found_by_name() -> None:
    assert set(PASSES) - set(SAME) == {"grad", "vjp", "jvp", "batch", "complex-pairs"}
    assert {"default", "simplify", "fold", "cse", "dce", "inline", "lower"} <= set(SAME)
    assert all(p.name == name or name == "default" for name, p in PASSES.items())
    assert Batch(in_axes=(None, 0), size=3).run(traced(F.add, (2,), (2,))).outputs[0].type.shape == (3, 2)


def test_effects_are_neither_merged_nor_dropped() -> None:
    token = Type(dtypes.token, ())
    start = Value(token, "t")
    first = Node("print", (start,), {}, [token])
    second = Node("print", (start,), {}, [token])
    graph = Graph("f", [start], [first, second], [start])
    assert cse(graph) is graph and dce(graph) is graph


# Errors and places.


def test_every_derivative_node_has_the_place_of_a_forward_node() -> None:
    graph = traced(lambda x, y: F.sum(F.tanh(x @ y) ** 2.0) / F.max(x), (3, 4), (4, 5))
    places = {n.loc for n in graph.nodes}
    for made in (grad_graph(graph, [0, 1]), jvp_graph(graph, [0, 1]), batch_graph(graph, [0, None], 2)):
        assert {n.loc for n in made.nodes} <= places
    for node in DEFAULT.run(grad_graph(graph, [0, 1])).nodes:
        assert node.loc in places


def test_errors_name_the_type_and_the_line() -> None:
    graph = traced(lambda x: F.exp(x), (4,))
    line = graph.nodes[-1].loc.resolve().line
    with pytest.raises(ShapeError, match=r"scalar result, not f64\[4\]") as caught:
        grad_graph(graph, [0])
    assert caught.value.location.line == line
    with pytest.raises(DTypeError, match=r"float result, not i32\[\]"):
        grad_graph(traced(lambda x: F.argmax(x), (4,)), [0])
    count = traced(lambda x, n: F.sum(x) * n, (4,), Type(int32, ()))
    for derive in (lambda: grad_graph(count, [1]), lambda: jvp_graph(count, [1]), lambda: vjp_graph(count, [1], [0])):
        with pytest.raises(GradientError, match=r"argument y of type i32\[\] has no derivative"):
            derive()
    with pytest.raises(GradientError, match=r"output of type i32\[\] has no derivative"):
        vjp_graph(traced(lambda x: F.argmax(x), (4,)), [0], [0])
    for bad in ((1,), (-1,)):
        with pytest.raises(ArgumentError, match="no input"):
            grad_graph(traced(lambda x: F.sum(x), (4,)), bad)
    with pytest.raises(ArgumentError, match="in_axes has 1 entries for 2 inputs"):
        batch_graph(count, [0], 2)


def test_an_op_without_a_rule_is_named_only_when_it_is_on_the_way() -> None:
    b = ops_dim()
    graph = trace_function(lambda x: [OPS["prod"](x, axes=(0,))], [Type(float32, (b,))], "f")[0]
    with pytest.raises(GradientError, match="prod has no derivative") as caught:
        grad_graph(graph, [0])
    assert caught.value.location.line == graph.nodes[0].loc.resolve().line
    beside = trace_function(lambda x, y: [OPS["prod"](x, axes=(0,)) * y], [Type(float32, (b,)), Type(float32, ())], "f")
    grad_graph(beside[0], [1])


def ops_dim() -> Any:
    from dala_defn.shapes import DimExpr

    return DimExpr.named("b")


# Derivatives at difficult places.


@pytest.mark.parametrize(("x", "wanted"), [(0.0, 3.0), (0.25, 3.0), (4.0, 0.25), (1e-9, 3.0)])
def test_a_branch_that_is_not_taken_gives_no_nan(x: float, wanted: float) -> None:
    (g,) = gradients(lambda x: F.where(x < 2, 3 * x, F.sqrt(x)), x)
    assert g == wanted


def test_power_at_base_0() -> None:
    a, b = gradients(lambda a, b: F.sum(a**b), [0.0, 3.0], [1.0, 2.0])
    np.testing.assert_allclose(b, [0.0, 9.887510598012987], rtol=1e-12)
    np.testing.assert_allclose(a, [1.0, 6.0], rtol=1e-12)
    (at_one,) = gradients(lambda x: x**0.0, 0.0)
    assert at_one == 0


def test_ties_of_maxima_share() -> None:
    (g,) = gradients(lambda x: F.max(x), [0.6, 0.6, 0.3])
    assert g.tolist() == [0.5, 0.5, 0.0]
    p, q = gradients(lambda p, q: F.maximum(p, q), 2.0, 2.0)
    assert (p, q) == (0.5, 0.5)
    p, q = gradients(lambda p, q: F.minimum(p, q), 2.0, 3.0)
    assert (p, q) == (1, 0)


def test_prod_with_zeros() -> None:
    f = lambda x: F.prod(x)  # noqa: E731
    assert gradients(f, [2.0, 0.0, 5.0])[0].tolist() == [0, 10, 0]
    assert gradients(f, [0.0, 0.0, 5.0])[0].tolist() == [0, 0, 0]
    assert gradients(f, [1.0, 2.0, 3.0, 4.0, 5.0])[0].tolist() == [120, 60, 40, 30, 24]
    hessian = vjp_graph(grad_graph(traced(f, (3,)), [0]), [0], [1])
    rows = [evaluate(hessian, np.array([2.0, 0.0, 0.0]), e)[-1].tolist() for e in np.eye(3)]
    assert rows == [[0, 0, 0], [0, 0, 2], [0, 2, 0]]


def test_scatter_set_gives_to_the_last_of_duplicates() -> None:
    def f(x: Any, u: Any) -> Any:
        at = F.array([1, 1, 3])
        y = OPS["scatter_set"](x, at, u, axis=0, batch_dims=0, mode="clip")
        return F.sum(y * F.array([1.0, 2.0, 3.0, 4.0], dtype=float64))

    x, u = gradients(f, [0.0] * 4, [5.0, 6.0, 7.0])
    assert x.tolist() == [1, 0, 3, 0]
    assert u.tolist() == [0, 2, 4]


def test_cummax_gives_to_the_first_of_a_tie() -> None:
    def f(x: Any) -> Any:
        return F.sum(OPS["cummax"](x, axis=0, reverse=False) * F.array([1.0, 10.0, 100.0], dtype=float64))

    assert gradients(f, [2.0, 2.0, 1.0])[0].tolist() == [111, 0, 0]
    assert gradients(f, [-np.inf, -np.inf, 1.0])[0].tolist() == [11, 0, 100]


ATTENTIVE: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda x: F.sqrt(x),
    "sqrt of sqrt": lambda x: F.sqrt(F.sqrt(x)),
    "log": lambda x: F.log(F.sqrt(x)),
    "product": lambda x: x * F.log(x),
    "quotient": lambda x: x / F.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: x**0.5 + x**x,
    "exp": lambda x: F.exp(1 / x),
    "bounded": lambda x: F.tanh(F.sqrt(x)) + F.sigmoid(F.log(x)) + F.arctan(1 / x) + F.erf(F.sqrt(x)) + abs(1 / x),
    "arcs": lambda x: F.arcsin(1 - x) * F.sqrt(x) + F.arccosh(1 - x) + F.arctan2(x, x),
    "prod": lambda x: F.prod(F.sqrt(F.reshape(x, (1,))) * F.array([2.0, 3.0], dtype=float64)),
    "max": lambda x: F.max(F.sqrt(F.reshape(x, (1,)))),
    "cumsum": lambda x: F.cumsum(F.sqrt(F.reshape(x, (1,))))[0],
    "norm": lambda x: F.sqrt(F.sum(F.reshape(x, (1,)) * F.reshape(x, (1,)))),
}


@pytest.mark.parametrize("name", ATTENTIVE)
def test_where_keeps_infinite_derivatives_out_to_the_third_order(name: str) -> None:
    graph = traced(lambda x: F.where(x > 0, ATTENTIVE[name](x), 0.0), ())
    x, one = np.float64(0), np.float64(1)
    first = grad_graph(graph, [0])
    second = vjp_graph(first, [0], [1])
    third = vjp_graph(DEFAULT.run(second), [0], [2])
    tangent = jvp_graph(graph, [0])
    with np.errstate(all="ignore"):
        assert evaluate(first, x)[-1] == 0
        assert evaluate(second, x, one)[-1] == 0
        assert evaluate(third, x, one, one)[-1] == 0
        assert evaluate(tangent, x, one)[-1] == 0
        assert evaluate(jvp_graph(first, [0]), x, one)[-1] == 0
        assert evaluate(jvp_graph(tangent, [0]), x, one, one)[-1] == 0


def test_derivatives_of_a_cotangent_that_is_zero_stay_right() -> None:
    # The cotangent of sin is 2 sin(x), zero at 0, and its own derivative is not.
    made = traced(lambda x: F.sin(x) * F.sin(x), ())
    for _ in range(4):
        made = DEFAULT.run(replace_first(grad_graph(made, [0])))
    assert evaluate(made, np.float64(0))[0] == pytest.approx(-8)  # the fourth derivative of (1 - cos 2x) / 2


def replace_first(graph: Graph) -> Graph:
    """The graph with its last output only: the gradient, to be differentiated again."""
    return dce(Graph(graph.name, graph.inputs, graph.nodes, graph.outputs[-1:]))


def test_a_selection_of_nothing_has_a_zero_gradient() -> None:
    (g,) = gradients(lambda v: F.sum(F.where(v > 9, v, 0.0)), [1.0, 2.0, 3.0])
    assert g.tolist() == [0, 0, 0]
    empty = traced(lambda a, b: F.sum(a + b), (3, 0), (3, 1))
    _, a, b = evaluate(grad_graph(empty, [0, 1]), np.zeros((3, 0)), np.ones((3, 1)))
    assert a.shape == (3, 0) and b.tolist() == [[0], [0], [0]]


def test_gradients_through_a_call_are_those_of_its_function() -> None:
    inner = traced(lambda x: F.sin(x) * x, ())
    outer = called(inner, 2, "main")
    x = np.float64(0.7)
    assert evaluate(grad_graph(outer, [0]), x) == evaluate(grad_graph(inline_calls(outer), [0]), x)


def test_one_output_chosen_twice_and_one_input_asked_for_twice() -> None:
    graph = traced(lambda x: (x * x, F.sin(x)), ())
    made = vjp_graph(graph, [0, 0], [0, 0])
    out = evaluate(made, np.float64(3), np.float64(1), np.float64(10))
    assert out[2:] == [66, 66]


def test_float16_and_bfloat16_have_gradients_of_their_own_dtype() -> None:
    for dtype in (dtypes.float16, dtypes.bfloat16, float32):
        graph = traced(lambda x: F.sum(F.tanh(x) * 0.5 + x**2.5 + F.erf(x)), (3,), dtype=dtype)
        made = grad_graph(grad_sum(grad_graph(graph, [0])), [0])
        assert made.outputs[-1].type == Type(dtype, (3,))
        assert np.all(np.isfinite(evaluate(made, np.array([0.5, 1, 2], dtype.dtype))[-1].astype(float)))


def grad_sum(graph: Graph) -> Graph:
    """The sum of the last output, as a function of the inputs."""

    def f(*args: Any) -> list[Any]:
        from dala_defn.trace import inline

        return [F.sum(inline(graph, args)[-1])]

    return trace_function(f, [v.type for v in graph.inputs], graph.name)[0]
