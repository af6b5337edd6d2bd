"""Derivatives given by hand, checkpoints, and derivatives that are functions or matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_control import array, differences, near, number

import dala_defn as dd

X = array(0.7, -1.2)
CONSTANT = np.array([2.0, 3.0])


@pytest.fixture(params=("reference", "flex"), autouse=True)
def engine(request: pytest.FixtureRequest) -> Any:
    with dd.using(request.param):
        yield request.param


def by_vjp() -> Callable[..., Any]:
    """x -> 3 x^2 c, with a derivative that is twice the right one, and arrays from outside in every part."""
    c = dd.array(CONSTANT)
    f = dd.custom_vjp(lambda x, n: x * x * c * 3)
    f.defvjp(lambda x, n: (x * x * c * 3, {"x": x, "c": c}), lambda saved, ct: (2 * 6 * saved["x"] * c * ct, None))
    return lambda x: f(x, 4)


def by_jvp() -> Callable[..., Any]:
    c = dd.array(CONSTANT)

    @dd.custom_jvp
    def f(x: Any, n: Any) -> Any:
        return x * x * c * 3

    f.defjvp(lambda xs, ts: (xs[0] * xs[0] * c * 3, 2 * 6 * xs[0] * c * ts[0]))
    return lambda x: f(x, 4)


@pytest.mark.parametrize("made", [by_vjp, by_jvp])
def test_a_rule_by_hand_is_used_in_every_mode(made: Callable[..., Any]) -> None:
    f = made()
    slope = 12 * np.asarray(X) * CONSTANT
    near(f(X), 3 * np.asarray(X) ** 2 * CONSTANT)
    near(dd.defn(f)(X), 3 * np.asarray(X) ** 2 * CONSTANT)
    near(dd.grad(lambda x: dd.sum(f(x)))(X), slope)
    near(dd.jvp(f, (X,), (dd.ones_like(X),))[1], slope)
    near(dd.jacrev(f)(X), np.diag(slope))
    near(dd.jacfwd(f)(X), np.diag(slope))
    near(dd.linearize(f, X)[1](dd.ones_like(X)), slope)
    near(dd.grad(lambda x: dd.sum(dd.grad(lambda x: dd.sum(f(x)))(x)))(X), 12 * CONSTANT)
    batch = dd.stack([X, 2 * X, -X])
    near(dd.vmap(f)(batch), np.stack([np.asarray(f(x)) for x in (X, 2 * X, -X)]))
    near(dd.vmap(dd.grad(lambda x: dd.sum(f(x))))(batch), np.stack([slope, 2 * slope, -slope]))
    near(dd.grad(lambda b: dd.sum(dd.vmap(f)(b)))(batch), np.stack([slope, 2 * slope, -slope]))
    near(dd.grad(lambda x: dd.sum(dd.scan(lambda c, _: (c, f(x)), 0.0, length=3)[1]))(X), 3 * slope)


def test_a_shared_operand_adds_up_over_a_batch() -> None:
    f = dd.custom_vjp(lambda x, w: x * w, lambda x, w: (x * w, (x, w)), lambda s, ct: (ct * s[1], 5 * ct * s[0]))
    xs = array(1, 2, 3)
    near(dd.grad(lambda w: dd.sum(dd.vmap(f, in_axes=(0, None))(xs, w)))(number(2.0)), 5 * 6)


def test_pytrees_and_several_results() -> None:
    @dd.custom_vjp
    def f(p: Any) -> Any:
        return {"sum": p["a"] + p["b"][0], "n": dd.array(3)}

    f.defvjp(lambda p: (f.f(p), p["a"]), lambda a, ct: ({"a": ct["sum"] * 10, "b": (ct["sum"] * a,)},))
    gradient = dd.grad(lambda p: f(p)["sum"] * 2)({"a": number(4.0), "b": (number(5.0),)})
    assert gradient["a"].item() == 20 and gradient["b"][0].item() == 8


def test_rules_that_do_not_fit_are_refused() -> None:
    with pytest.raises(dd.ArgumentError, match="no rule"):
        dd.custom_vjp(lambda x: x)(X)
    with pytest.raises(dd.ArgumentError, match="no rule"):
        dd.custom_jvp(lambda x: x)(X)
    with pytest.raises(dd.ArgumentTypeError, match="pair"):
        dd.custom_vjp(lambda x: x, lambda x: x, lambda s, ct: (ct,))(X)
    with pytest.raises(dd.ArgumentTypeError, match="not 1 cotangents"):
        dd.custom_vjp(lambda x: x, lambda x: (x, ()), lambda s, ct: ct)(X)
    with pytest.raises(dd.ShapeError, match="cotangent of shape"):
        dd.custom_vjp(lambda x: x, lambda x: (x, ()), lambda s, ct: (ct[0],))(X)
    with pytest.raises(dd.ShapeError, match="forward rule"):
        dd.custom_vjp(lambda x: x, lambda x: (x[0], ()), lambda s, ct: (ct,))(X)
    with pytest.raises(dd.GradientError, match="from outside"):
        dd.grad(lambda w: dd.sum(dd.custom_vjp(lambda x: x * w, lambda x: (x * w, ()), lambda s, ct: (ct,))(X)))(X)
    with pytest.raises(dd.ArgumentError, match="policy"):
        dd.checkpoint(lambda x: x, policy="some")


def deep(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = dd.tanh(dd.matmul(x, w))
    return dd.sum(dd.sin(x))


@pytest.mark.parametrize("policy", ["nothing", "dots"])
def test_a_checkpoint_changes_no_derivative(policy: str) -> None:
    rng = np.random.default_rng(5)
    x, w = dd.array(rng.standard_normal((2, 3))), dd.array(rng.standard_normal((3, 3)))
    f = dd.checkpoint(deep, policy=policy)
    near(f(x, w), deep(x, w))
    for n in (0, 1):
        near(dd.grad(f, n)(x, w), dd.grad(deep, n)(x, w))
        near(dd.grad(f, n)(x, w), differences(deep, (x, w), n), 1e-6)
    near(dd.jvp(f, (x, w), (x, w))[1], dd.jvp(deep, (x, w), (x, w))[1])
    near(dd.jacfwd(dd.grad(f))(x, w), dd.jacfwd(dd.grad(deep))(x, w))
    near(dd.jacrev(dd.grad(f))(x, w), dd.jacrev(dd.grad(deep))(x, w))
    batch = dd.stack([x, 2 * x])
    near(dd.vmap(dd.grad(f), in_axes=(0, None))(batch, w), dd.vmap(dd.grad(deep), in_axes=(0, None))(batch, w))


def test_a_checkpoint_keeps_what_its_policy_says() -> None:
    x, w = dd.zeros((2, 3)), dd.zeros((3, 3))

    def products(policy: str) -> int:
        graph = dd.defn(lambda x, w: dd.grad(dd.checkpoint(deep, policy=policy), 1)(x, w)).lower(x, w)
        return sum(n.op == "dot_general" for g in [*graph.functions(), graph] for n in g.nodes)

    plain = dd.defn(lambda x, w: dd.grad(deep, 1)(x, w)).lower(x, w)
    once = sum(n.op == "dot_general" for n in plain.nodes)
    assert products("dots") == once
    assert products("nothing") == once + 3


def test_vjp_and_linearize() -> None:
    f = lambda x, n: {"y": dd.sin(x) * n, "n": n}  # noqa: E731
    out, pull_back = dd.vjp(f, X, 3)
    near(out["y"], 3 * np.sin(np.asarray(X)))
    for scale in (1.0, 2.0):
        cts = pull_back({"y": scale * dd.ones_like(X), "n": None})
        near(cts[0], scale * 3 * np.cos(np.asarray(X)))
        assert cts[1] is None
    _, _, aux = dd.vjp(lambda x: (x * 2, "kept" and x), X, has_aux=True)
    near(aux, X)
    with pytest.raises(dd.ShapeError, match=r"f64\[1\] where f64\[2\]"):
        pull_back({"y": array(1.0), "n": None})
    with pytest.raises(dd.ArgumentTypeError, match="structure"):
        pull_back({"y": X})
    out, push_forward = dd.linearize(f, X, 3)
    near(push_forward(X, None)["y"], 3 * np.cos(np.asarray(X)) * np.asarray(X))
    with pytest.raises(dd.ArgumentError, match="1 tangents for 2"):
        push_forward(X)

    @dd.defn
    def inside(x: Any, ct: Any) -> Any:
        y, pull = dd.vjp(lambda x: dd.tanh(x), x)
        return y, pull(ct)[0], dd.linearize(dd.tanh, x)[1](ct)

    _, a, b = inside(X, X)
    near(a, b)


def test_the_push_forward_of_linearize_computes_nothing_of_the_value_again() -> None:
    w = dd.ones((2, 2), dtype=dd.float64)
    f = lambda x: dd.tanh(dd.exp(dd.sin(x) @ w) * 0.01)  # noqa: E731
    value, push_forward = dd.linearize(f, X)
    tangent = dd.ones_like(X)
    near(value, f(X))
    near(push_forward(tangent), dd.jvp(f, (X,), (tangent,))[1])
    ops = {n.op for n in dd.defn(push_forward).lower(tangent).nodes}
    assert ops <= {"constant", "mul", "mul_strong_zero", "dot_general"}


def test_linearize_runs_loops_and_branches_again_with_their_tangents() -> None:
    def f(x: Any) -> Any:
        y, rows = dd.scan(lambda c, _: (dd.sin(c) * 1.1, c), x, None, length=4)
        z = dd.while_loop(lambda c: dd.sum(c) < 10.0, lambda c: c * 2.0, dd.exp(y))
        return dd.cond(dd.sum(z) > 0.0, dd.cos, dd.sin, z) + dd.sum(rows)

    value, push_forward = dd.linearize(f, X)
    near(value, f(X))
    for scale in (1.0, 2.0):
        tangent = scale * dd.ones_like(X)
        near(push_forward(tangent), dd.jvp(f, (X,), (tangent,))[1])


def test_jacobians_of_pytrees() -> None:
    rng = np.random.default_rng(2)
    a, b = dd.array(rng.standard_normal((2, 3))), dd.array(rng.standard_normal(4))

    def f(p: Any, b: Any) -> Any:
        return {"outer": dd.outer(p["a"][0], b), "sum": dd.sum(p["a"]) * b[1]}

    for jacobian in (dd.jacrev, dd.jacfwd):
        found = jacobian(f, (0, 1))({"a": a}, b)
        by_a, by_b = found["outer"]
        assert by_a["a"].shape == (3, 4, 2, 3) and by_b.shape == (3, 4, 4)
        near(by_a["a"], differences(lambda a, b: f({"a": a}, b)["outer"], (a, b), 0), 1e-6)
        near(by_b, differences(lambda a, b: f({"a": a}, b)["outer"], (a, b), 1), 1e-6)
        near(found["sum"][1], differences(lambda a, b: f({"a": a}, b)["sum"], (a, b), 1), 1e-6)
    assert dd.jacrev(lambda x: x)(dd.zeros((0,))).shape == (0, 0)
    with pytest.raises(dd.GradientError):
        dd.jacrev(lambda x: x > 0)(X)


def test_hessian_and_its_products() -> None:
    f = lambda x: dd.sum(dd.sin(x) * x[0])  # noqa: E731
    whole = differences(dd.grad(f), (X,), 0)
    near(dd.hessian(f)(X), whole, 1e-6)
    near(dd.hvp(f, (X,), (array(1.0, 2.0),)), whole @ np.array([1.0, 2.0]), 1e-6)
