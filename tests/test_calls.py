"""What crosses into the runtime: how many calls, whose memory, from which thread, and what happens when it fails."""

from __future__ import annotations

import dataclasses
import gc
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from resident import affine, device

import dala_defn as dd
from dala_defn import bridge


def calls(f, *args):
    """How many calls into the runtime ``f`` makes, and what it gives."""
    before = bridge.call_count()
    out = f(*args)
    return bridge.call_count() - before, out


@dd.defn
def many_ops(x):
    for i in range(100):
        x = dd.sin(x) * (1.5 + i / 7)
    return x


def test_a_call_of_200_ops_is_one_call():
    x = dd.ones(8)
    many_ops(x)
    assert many_ops.compile(x).graph.nodes[-1].op == "mul"
    assert len([n for n in many_ops.compile(x).graph.nodes if n.op in ("sin", "mul")]) == 200
    assert calls(many_ops, x)[0] == 1


def test_a_thousand_calls_trace_once_and_frees_ride_along():
    x = np.ones(16, np.float32)

    @dd.defn
    def f(x):
        return {"y": x * 2, "z": (x + 1, x - 1)}

    f(x)
    gc.collect()

    def repeat():
        for _ in range(1000):
            f(x)  # three results, dropped at once
        gc.collect()

    assert calls(repeat)[0] == 1000
    assert f.traces == 1


def test_dropped_results_in_cycles_are_freed_by_later_calls():
    affine(np.ones(4, np.float32))
    gc.collect()
    affine(np.ones(4, np.float32))

    def repeat():
        for _ in range(100):
            box = [affine(np.ones(4, np.float32))]
            box.append(box)
        del box
        gc.collect()
        affine(np.ones(4, np.float32))

    assert calls(repeat)[0] == 101


def test_an_eager_op_is_one_call():
    x, y = dd.array([1.0, 2.0]), dd.array([3.0, 4.0])
    assert np.asarray(x + y).tolist() == [4, 6]
    assert calls(lambda: x + y)[0] == 1
    dd.exp(x)  # the first of its kind makes a handle for the op
    assert calls(lambda: dd.exp(x))[0] == 1
    assert calls(lambda: x.shape)[0] == 0
    z = x + y
    assert calls(lambda: (np.asarray(z), z.tolist(), repr(z)))[0] == 0


def test_numpy_scalars_and_numbers_go_along():
    assert calls(affine, 3.0)[1].item() == 7
    assert affine(np.float32(3)).item() == 7
    assert calls(affine, 4.0)[0] == 1


# Prepared calls: what a function was called with once takes the short way from then on


@dataclasses.dataclass
class Weights:
    w: Any
    b: Any = None


class Held:
    """A registered pytree node."""

    def __init__(self, x, name):
        self.x, self.name = x, name


dd.trees.register(Held, lambda h: ([h.x], h.name), lambda name, children: Held(children[0], name))
Two = namedtuple("Two", "a b")
V = np.arange(4, dtype=np.float32)
WEIGHTS = dd.array(V) + 0


def total(tree):
    return sum((np.asarray(x, np.float64).sum() for x in dd.trees.flatten(tree)[0]), 0.0)


@dd.defn(static_argnames=("k", "act"), donate_argnames="state")
def step(state, x=2.0, *more, k=1, act=dd.negative, **named):
    """Everything that a call can have."""
    every = dd.trees.flatten((x, more, named))[0]
    y = dd.sum(act(WEIGHTS)) * 0
    for leaf in every:
        y = y + dd.sum(leaf) * k
    return dd.trees.map_tree(lambda s: s + y, state), {"y": y, "none": None, "two": Two(y, [y])}


@pytest.mark.parametrize(
    "make",
    [
        lambda: (([device(3)],), {}),
        lambda: (([device(3)], V), {}),
        lambda: (({"b": device(3), "a": V}, 3.5, 2, True), {"q": V, "p": {"z": V, "y": (V,)}}),
        lambda: ((Weights(device(2), None), Weights(V, V)), {"k": 2, "act": dd.exp}),
        lambda: ((Two(device(2), V), Held(V, "h")), {"k": 2.5}),
        lambda: ((device(2), np.float32(3), np.asarray(WEIGHTS).astype(dd.bfloat16.dtype)), {}),
        lambda: (((), V.reshape(2, 2).T, V[::2], V[::-1], np.zeros((0, 3), np.float32)), {}),
        lambda: ((device(2), V.astype(">f4"), V > 1, V.astype(np.int8), np.float64(2)), {}),
        lambda: ((device(2), np.ones(4096, np.float32)), {}),
    ],
)
def test_the_second_call_takes_the_short_way_and_gives_the_same(make, monkeypatch):
    args, kwargs = make()
    first = step(*args, **kwargs)
    want = np.asarray(first[1]["y"])
    traces = step.traces

    def never(*_):
        raise AssertionError("the long way")

    monkeypatch.setattr(type(step), "_slow", never)
    for _ in range(3):
        args, kwargs = make()
        had = total(args[0])
        size = sum(np.size(np.asarray(x)) for x in dd.trees.flatten(args[0])[0])
        new, out = calls(lambda: step(*args, **kwargs))[1]  # noqa: B023
        assert dd.trees.flatten(new)[1] == dd.trees.flatten(args[0])[1]
        assert dd.trees.flatten(out)[1] == dd.trees.flatten(first[1])[1]
        np.testing.assert_allclose(np.asarray(out["two"].b[0]), want)
        np.testing.assert_allclose(total(new), had + size * float(want), rtol=1e-5)
    assert step.traces == traces


def test_a_prepared_call_is_one_call():
    state = {"w": device(3), "b": (device(2),)}
    step(state, V)
    state = {"w": device(3), "b": (device(2),)}
    np.asarray(state["w"])
    assert calls(lambda: step(state, V))[0] == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((V,), (V[:3],)),
        ((V,), (V.astype(np.float64),)),
        ((V,), (V.astype(">f4"),)),
        ((V,), (V.astype(np.int32),)),
        ((V,), (V[::2].copy()[::-1],)),
        ((1,), (True,)),
        ((1,), (1.0,)),
        ((V,), (dd.array(V),)),
        ((dd.array(V),), (dd.array(V) + 1,)),
        (({"a": V},), ({"b": V},)),
        (({"a": V},), ({"a": V, "b": V},)),
        (((V, V),), ([V, V],)),
        ((Held(V, "one"),), (Held(V, "two"),)),
        ((Weights(V),), (Weights(V, V),)),
        ((None,), (V,)),
    ],
)
def test_what_differs_is_seen(first, then):
    f = dd.defn(lambda x: dd.trees.map_tree(lambda v: v * 2, x))
    for given in (first, then, first, then, then):
        got = f(*given)
        assert dd.trees.flatten(got)[1] == dd.trees.flatten(given[0])[1]
        for a, b in zip(dd.trees.flatten(got)[0], dd.trees.flatten(given[0])[0], strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b) * 2)


def test_a_compiled_program_with_open_sizes_prepares_each_size():
    f = dd.defn(lambda x, n: {"x": x * n, "sum": dd.sum(x, axis=0)}).compile(dd.spec(("b", 3)), 2.0)
    for _ in range(3):
        for b in (0, 1, 5, 1):
            x = np.full((b, 3), 2, np.float32)
            out = f(x, 1.5)
            assert out["x"].shape == (b, 3)
            np.testing.assert_array_equal(np.asarray(out["x"]), x * 1.5)
            np.testing.assert_array_equal(np.asarray(out["sum"]), x.sum(0))


def test_keys_go_the_short_way(monkeypatch):
    draw = dd.defn(lambda key, n: dd.random.uniform(key, (3,)) + n)
    keys = [dd.random.key(i) for i in range(3)]
    want = [np.asarray(draw(k, 0.0)) for k in keys]
    monkeypatch.setattr(type(draw), "_slow", None)
    for k, w in zip(keys, want, strict=True):
        np.testing.assert_array_equal(np.asarray(draw(k, 0.0)), w)
    assert len({w.tobytes() for w in want}) == 3
