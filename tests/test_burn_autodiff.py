"""Burn's own backward pass against the rules of the op table: two ways to a gradient that share only the graph."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import assume, given
from rules import SEED, cases, floats, graph_of, normal, types_of

import dala_defn as dd
from dala_defn import bridge, dtypes
from dala_defn.executors import executor
from dala_defn.gradients import burn_vjp, program_of
from dala_defn.ir import Type
from dala_defn.ops.spec import OPS, NoGrad, OpSpec
from dala_defn.passes.grad import vjp_graph

# What two chains of float operations may differ by, relative to numbers larger than 1.
BOUND = {dtypes.float32: 1e-5, dtypes.float64: 1e-12}

# Ops whose gradients by Burn are others, with its reason. Kinks and ties are another matter: see EDGES.
EXCEPTIONS: dict[str, str] = {}


def differentiable() -> list[OpSpec]:
    """Every op of the table from floats to floats, but those with functions or effects or that are the host's."""
    return [
        s
        for s in OPS.values()
        if dtypes.float32 in s.accepts
        and s.family not in ("structure", "effect", "complex", "random", "matrix")
        and not isinstance(s.vjp, NoGrad)
    ]


def run(engine: str, graph: Any, args: Any) -> list[np.ndarray[Any, Any]]:
    loaded = executor(engine).load(program_of(graph))
    return [np.asarray(x) for x in loaded.run(0, args, [v.type for v in graph.outputs])]


def off(found: Any, wanted: Any) -> float:
    """The largest difference, relative to numbers larger than 1."""
    a, b = np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64)
    assert a.shape == b.shape
    with np.errstate(all="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b) / np.maximum(1, np.abs(b)))
    return float(np.max(error, initial=0))


def differentiated(graph: Any, args: Any, wrt: Any, output: int, ct: Any) -> tuple[list[Any], list[Any]]:
    """The result and its gradients by the rules, and by Burn."""
    ours = run("flex", vjp_graph(graph, wrt, [output]), [*args, ct])
    results, gradients = burn_vjp(graph, args, wrt, output, ct)
    return [ours[output], *ours[len(graph.outputs) :]], [results[output], *gradients]


@pytest.mark.parametrize("dtype", BOUND, ids=lambda d: d.short)
@pytest.mark.parametrize("spec", differentiable(), ids=lambda s: s.name)
def test_an_op_has_the_same_gradient(spec: OpSpec, dtype: Any) -> None:
    rng = np.random.default_rng(SEED)
    compared = 0
    for k, case in enumerate(cases(spec, dtype)):
        types = types_of(spec, dtype, case)
        wrt, graph = floats(types), graph_of(spec, types, case.attrs)
        if not case.smooth or not wrt or not graph.outputs[0].type.dtype.is_float:
            continue
        args = [np.asarray(a) for a in case.args]
        ct = normal(rng, run("reference", graph, args)[0])
        ours, burn = differentiated(graph, args, wrt, 0, ct)
        for i, (a, b) in enumerate(zip(ours, burn, strict=True)):
            what = f"{spec.name} case {k} {dict(case.attrs)} {types}: " + (f"gradient {i - 1}" if i else "the result")
            assert off(b, a) <= BOUND[dtype], what
        compared += 1
    if not compared:
        pytest.skip(f"{spec.name} gives no float from floats")


def test_the_goal_is_kept() -> None:
    assert len(EXCEPTIONS) <= 15
    assert set(EXCEPTIONS) <= {s.name for s in differentiable()}
    assert len(differentiable()) >= 60


SHAPES = [(3,), (2, 3), (4,), (), (3, 1)]


@given(strategies.graphs(False, 12, [Type(dtypes.float64, s) for s in SHAPES]), strategies.seeds())
def test_random_graphs_have_the_same_gradient(graph: Any, seed: int) -> None:
    outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype is dtypes.float64]
    wrt = [i for i, v in enumerate(graph.inputs) if v.type.dtype is dtypes.float64]
    assume(outputs and wrt and is_straight(graph))
    args = [strategies.array(v.type.dtype, v.type.shape, seed + i, special=False) for i, v in enumerate(graph.inputs)]
    held = everything(graph)
    with np.errstate(all="ignore"):
        try:
            values = run("reference", held, args)
        except dd.DalaError:
            assume(False)  # an index that is out of range
    assume(all(np.all(np.isfinite(x)) and np.all(np.abs(x) < 1e6) for x in values if x.dtype.kind == "f"))
    rng = np.random.default_rng(seed)
    for output in outputs[:2]:
        y = np.zeros(graph.outputs[output].type.shape)
        ct = normal(rng, y)
        ours, burn = differentiated(graph, args, wrt, output, ct)
        if not all(np.all(np.isfinite(x)) and np.all(np.abs(x) < 1e8) for x in ours):
            continue  # on an edge: an infinite slope
        for a, b in zip(ours, burn, strict=True):
            assert off(b, a) <= 1e-9, graph


def everything(graph: Any) -> Any:
    """The graph with every value as a result."""
    from dala_defn.ir import Graph

    return Graph(graph.name, graph.inputs, graph.nodes, [v for n in graph.nodes for v in n.outputs] or graph.inputs)


def is_straight(graph: Any) -> bool:
    """Whether calls are the only ops in it that hold functions."""
    nodes = [n for g in [graph, *graph.functions()] for n in g.nodes]
    return all(n.op == "call" or OPS[n.op].family not in ("structure", "effect", "complex") for n in nodes)


def both(f: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    return dd.grad(f, **options)(*args), dd.grad(f, method="burn", **options)(*args)


def numbers(x: Any) -> Any:
    return [np.asarray(v).tolist() for v in dd.trees.flatten(x)[0]]


X = dd.array([[1.0, 2.0, 2.0], [0.0, -1.0, 3.0]])


NAN = float("nan")
PAIR = dd.array([2.0, 2.0])
WEIGHTS = dd.array([1.0, 2.0])

# Where Burn's gradient is another one than ours: function, place, our gradient, Burn's. docs/burn-autodiff.md has the
# same table with what Burn does there.
EDGES: dict[str, tuple[Any, Any, list[float], list[float]]] = {
    "max": (dd.max, PAIR, [0.5, 0.5], [1, 0]),
    "min": (dd.min, PAIR, [0.5, 0.5], [1, 0]),
    "cummax": (lambda x: dd.sum(OPS["cummax"](x, axis=0, reverse=False) * WEIGHTS), PAIR, [3, 0], [1, 2]),
    "window_max": (
        lambda x: dd.sum(OPS["window_max"](x, window=(2,), strides=(1,), low=(0,), high=(0,))),
        PAIR,
        [0.5, 0.5],
        [1, 0],
    ),
    "maximum": (lambda x: dd.sum(dd.maximum(x, 1.0)), dd.array([NAN, 2.0]), [0, 1], [1, 1]),
    "sqrt": (lambda x: dd.sum(dd.where(x > 0, dd.sqrt(x), 0.0)), dd.array([0.0, 4.0]), [0, 0.25], [NAN, 0.25]),
    "log": (lambda x: dd.sum(dd.where(x > 0, dd.log(x), 0.0)), dd.array([0.0, 2.0]), [0, 0.5], [NAN, 0.5]),
    "div": (lambda x: dd.sum(dd.where(x > 0, 1 / x, 0.0)), dd.array([0.0, 1.0]), [0, -1], [NAN, -1]),
    "power": (lambda x: dd.sum(dd.power(x, dd.array([0.0, 1.0]))), dd.array([0.0, 0.0]), [0, 1], [NAN, 1]),
    "power by y": (lambda y: dd.sum(dd.power(dd.array([0.0, 1.0]), y)), dd.array([2.0, 2.0]), [0, 0], [NAN, 0]),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_as_they_are_written_down(name: str) -> None:
    f, x, ours, burn = EDGES[name]
    for found, wanted in zip(both(f, x), (ours, burn), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_the_page_lists_the_edges_and_the_exceptions() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "burn-autodiff.md").read_text()
    edges, exceptions = page.split("## Exceptions")
    assert set(re.findall(r"^\| `([\w ]+)`", edges, re.MULTILINE)) == set(EDGES)
    assert set(re.findall(r"^\| `([\w ]+)`", exceptions, re.MULTILINE)) == set(EXCEPTIONS)


def test_trees_several_arguments_and_results_beside() -> None:
    rng = np.random.default_rng(0)
    params = {"w": dd.array(rng.normal(size=(3, 4))), "b": [dd.array(rng.normal(size=(4,)))]}
    scale = dd.array(2.0)

    def f(p: Any, x: Any) -> Any:
        h = dd.tanh(x @ p["w"] + p["b"][0]) * scale
        return dd.sum(h * h), {"h": h, "n": dd.argmax(h)}

    for method in ("burn", "numerical"):
        kept = dd.value_and_grad(f, (0, 1), has_aux=True)(params, X)
        found = dd.value_and_grad(f, (0, 1), has_aux=True, method=method)(params, X)
        assert dd.trees.flatten(kept)[1] == dd.trees.flatten(found)[1]
        for a, b in zip(dd.trees.flatten(kept)[0], dd.trees.flatten(found)[0], strict=True):
            assert a.dtype is b.dtype
            assert off(b, a) <= 1e-5, method
    (g, aux) = dd.grad(f, has_aux=True, method="burn")(params, X)
    assert aux["h"].shape == (2, 4)
    assert g["w"].shape == (3, 4)


def test_a_network_with_convolution_pooling_and_softmax() -> None:
    rng = np.random.default_rng(1)
    x = dd.array(rng.normal(size=(2, 1, 8, 8)))
    w = dd.array(rng.normal(size=(4, 1, 3, 3)))
    v = dd.array(rng.normal(size=(36, 5)) * 0.3)
    labels = dd.array([1, 3])

    def loss(w: Any, v: Any) -> Any:
        h = dd.nn.relu(OPS["conv"](x, w, strides=(1, 1), low=(0, 0), high=(0, 0), dilation=(1, 1), groups=1))
        pooled = {"window": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "low": (0,) * 4, "high": (0,) * 4}
        h = dd.reshape(OPS["window_max"](h, **pooled), (2, 36))
        logits = dd.nn.log_softmax(h @ v, axis=-1)
        return -dd.mean(dd.take_along_axis(logits, labels[:, None], axis=1))

    kept, found = both(loss, w, v, argnums=(0, 1))
    for a, b in zip(kept, found, strict=True):
        assert off(b, a) <= 1e-5


def test_stop_gradient_stops_burn_too() -> None:
    kept, found = both(lambda x: dd.sum(dd.stop_gradient(x * x) * x), X)
    assert numbers(kept) == numbers(found) == numbers(X * X)


def test_what_nothing_depends_on_has_a_gradient_of_zero() -> None:
    assert numbers(dd.grad(lambda x, y: dd.sum(x), 1, method="burn")(X, X)) == numbers(X * 0)
    assert numbers(dd.grad(lambda x: dd.array(1.0) * 2, method="burn")(X)) == numbers(X * 0)
    assert dd.grad(lambda x: x, method="burn")(3.0) == 1.0


def test_other_ways_refuse_what_they_cannot() -> None:
    @dd.custom_vjp
    def own(x: Any) -> Any:
        return x * x

    own.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x,))
    for method in ("burn", "numerical"):
        with pytest.raises(dd.GradientError, match="float"):
            dd.grad(lambda x: dd.sum(x), method=method)(dd.array([1, 2]))
        with pytest.raises(dd.GradientError, match="float"):
            dd.grad(lambda x: dd.sum(dd.array([1, 2])), method=method)(X)
        with pytest.raises(dd.ShapeError, match="scalar"):
            dd.grad(lambda x: x, method=method)(X)
        with pytest.raises(dd.TraceError, match="at once"):
            dd.defn(dd.grad(lambda x: dd.sum(x), method=method))(X)
    for what, f in {
        "custom_vjp": lambda x: dd.sum(own(x)),
        "cond": lambda x: dd.cond(x[0, 0] > 0, lambda x: dd.sum(x), lambda x: dd.sum(x * x), x),
        "scan": lambda x: dd.scan(lambda c, r: (c + dd.sum(r), r), dd.array(0.0), x)[0],
        "while_loop": lambda x: dd.while_loop(lambda c: c < 9, lambda c: c + 1, dd.sum(x)),
    }.items():
        with pytest.raises(dd.GradientError, match=f"{what}: .*Burn"):
            dd.grad(f, method="burn")(X)
    with pytest.raises(dd.ArgumentError, match="no method 'torch'"):
        dd.grad(dd.sum, method="torch")
    for options in ({"eps": 1e-3}, {"eps": 1e-3, "method": "burn"}, {"eps": 0.0, "method": "numerical"}):
        with pytest.raises(dd.ArgumentError, match="eps"):
            dd.grad(dd.sum, **options)


def test_the_engine_says_what_it_does_not_do() -> None:
    graph = dd.defn(lambda x: (dd.sum(x), x)).lower(X)
    types = [v.type for v in graph.outputs]
    x = np.asarray(X)
    flex = executor("flex").load(program_of(graph))
    assert isinstance(flex, bridge.Loaded)
    with pytest.raises(dd.EngineError, match="flex-autodiff"):
        flex.gradient(0, [x], [0], 0, [*types, graph.inputs[0].type])
    loaded = executor("flex-autodiff").load(program_of(graph))
    assert isinstance(loaded, bridge.Loaded)
    assert np.asarray(loaded.run(0, [x], types)[0]) == x.sum()
    whole = [*types, graph.inputs[0].type]
    for wrt, output, ct, said in (
        ([3], 0, None, "no argument 3"),
        ([-1], 0, None, "no argument -1"),
        ([0], 2, None, "no result 2"),
        ([0], 1, None, "cotangent is needed"),
        ([0], 0, x, "the cotangent is"),
    ):
        with pytest.raises(dd.DalaError, match=said):
            loaded.gradient(0, [x], wrt, output, whole, ct)
    with pytest.raises(dd.DalaError, match="named twice"):
        loaded.gradient(0, [x], [0, 0], 0, [*whole, whole[-1]])
    with pytest.raises(dd.ArgumentError, match="results"):
        loaded.gradient(0, [x], [0], 0, types)


def test_a_cotangent_picks_the_result_and_its_weights() -> None:
    graph = dd.defn(lambda x: (dd.sum(x), x * x)).lower(X)
    ct = np.arange(6, dtype=np.float32).reshape(2, 3)
    _, (g,) = burn_vjp(graph, [np.asarray(X)], [0], 1, ct)
    assert numbers(g) == numbers(2 * X * dd.array(ct))


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=lambda d: d.short)
def test_every_float_dtype(dtype: Any) -> None:
    x = dd.array([0.5, 1.5], dtype)
    kept, found = both(lambda x: dd.sum(dd.exp(x) * x), x)
    assert found.dtype is dtype
    assert off(found, kept) <= {2: 2e-2, 4: 1e-6, 8: 1e-14}[dtype.itemsize]


def test_numerical_takes_its_step_and_the_executor_that_is_chosen() -> None:
    cube = dd.grad(lambda x: x**3, method="numerical")
    assert abs(float(cube(2.0)) - 12) < 1e-5
    coarse = float(dd.grad(lambda x: x**3, method="numerical", eps=0.5)(dd.array(2.0, dd.float64)))
    assert coarse == pytest.approx(12 + 1.0)  # (2 eps)**2 beside it
    with dd.using("reference"):
        scanned = dd.grad(lambda x: dd.scan(lambda c, r: (c * r, c), x[0] / x[0], x)[0], method="numerical")
        assert np.allclose(np.asarray(scanned(dd.array([2.0, 3.0, 4.0]))), [12, 8, 6])


def test_check_grads_passes_what_is_right_and_finds_what_is_wrong() -> None:
    dd.testing.check_grads(lambda x, y: {"a": dd.sin(x) * y, "n": dd.argmax(x)}, (X, 2.0), order=2)
    dd.testing.check_grads(lambda p: dd.sum(dd.exp(p["w"])), ({"w": X},), modes=("rev",))
    wide = dd.array([0.3, 0.7], dd.float64)
    dd.testing.check_grads(lambda x: dd.tanh(x) * x, (wide,), order=3)

    @dd.custom_vjp
    def wrong(x: Any, y: Any) -> Any:
        return x * y

    wrong.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, ct: (ct * saved[1], ct * saved[0] * 1.01))
    dd.testing.check_grads(lambda x: wrong(x, X * 0), (X,), modes=("rev",))
    with pytest.raises(AssertionError, match="vjp"):
        dd.testing.check_grads(wrong, (dd.array(2.0), dd.array(3.0)), modes=("rev",))
    dd.testing.check_grads(wrong, (dd.array(2.0), dd.array(3.0)), modes=("rev",), rtol=0.1)

    @dd.custom_jvp
    def off_by_sign(x: Any) -> Any:
        return dd.cos(x)

    off_by_sign.defjvp(lambda primals, tangents: (dd.cos(primals[0]), dd.sin(primals[0]) * tangents[0]))
    with pytest.raises(AssertionError, match="jvp"):
        dd.testing.check_grads(off_by_sign, (dd.array(1.0),), modes=("fwd",))
    for bad in ({"modes": ("sideways",)}, {"modes": ()}, {"order": 0}):
        with pytest.raises(dd.ArgumentError):
            dd.testing.check_grads(dd.sin, (1.0,), **bad)
    with pytest.raises(dd.GradientError, match="no argument is a float"):
        dd.testing.check_grads(dd.sum, (dd.array([1]),))
