"""What ``@defn`` sees of its surroundings: methods and their objects, closures, globals, containers."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np

import dala_defn as dd

X = np.array([1, 2, 3], np.float32)


def same(x, want):
    np.testing.assert_allclose(np.asarray(x), want, rtol=1e-6)


def test_methods_see_their_own_object():
    class Scale:
        def __init__(self, by):
            self.by = by
            self.offset = dd.array(1.0)

        @dd.defn
        def __call__(self, x):
            return self.shifted(x * self.by)

        @dd.defn
        def shifted(self, x):
            return x + self.offset

    two, three = Scale(2.0), Scale(3.0)
    for _ in range(3):
        same(two(X), X * 2 + 1)
        same(three(X), X * 3 + 1)
    two.by = 5.0
    same(two(X), X * 5 + 1)
    two.offset = dd.array(7.0)
    same(two(X), X * 5 + 7)
    same(three(X), X * 3 + 1)


def test_an_object_with_a_traced_method_can_go():
    class Scale:
        def __init__(self, by):
            self.by = by

        @dd.defn
        def apply(self, x):
            return x * self.by

    gone = []
    for k in range(3):
        s = Scale(float(k))
        same(s.apply(X), X * k)
        gone.append(weakref.ref(s))
        del s
    same(Scale(7.0).apply(X), X * 7)
    gc.collect()
    assert [g() for g in gone] == [None] * 3
    assert len(vars(Scale)["apply"]._methods._held) == 0


def test_objects_are_told_apart_by_identity():
    @dataclasses.dataclass
    class Open:
        k: float

        @dd.defn
        def apply(self, x):
            return x * self.k

    @dataclasses.dataclass(frozen=True)
    class Equal:
        k: float
        w: Any = dataclasses.field(compare=False)

        @dd.defn
        def apply(self, x):
            return x * self.k + self.w

    @dataclasses.dataclass
    class Slots:
        __slots__ = ("k",)
        k: float

        @dd.defn
        def apply(self, x):
            return x * self.k

    for _ in range(2):
        same(Open(2.0).apply(X), X * 2)
        same(Slots(3.0).apply(X), X * 3)
    a, b = Equal(2.0, np.float32(1)), Equal(2.0, np.float32(5))
    for _ in range(2):
        same(a.apply(X), X * 2 + 1)
        same(b.apply(X), X * 2 + 5)
    assert a.apply.traces == 1


def test_methods_are_transformed_lowered_and_exported(tmp_path):
    class Model:
        def __init__(self):
            self.w = dd.array([1.0, 2.0, 3.0])

        @dd.defn
        def loss(self, x):
            return dd.sum(self.w * x**2)

    m = Model()
    same(dd.grad(m.loss)(X), 2 * np.array([1, 2, 3]) * X)
    assert "graph @loss(%x: f32[3]" in str(m.loss.lower(X))
    m.loss.export(tmp_path / "m.dala", dd.spec((3,)))
    same(dd.load(tmp_path / "m.dala")(X), m.loss(X))
    m.w = dd.array([0.0, 0.0, 1.0])
    same(dd.grad(m.loss)(X), [0, 0, 6])


def test_static_and_class_methods():
    class Box:
        k = 3.0

        @staticmethod
        @dd.defn
        def double(x):
            return x * 2

    same(Box.double(X), X * 2)
    same(Box().double(X), X * 2)


# Closures

SCALE = 2.0
TABLE = np.array([1, 2, 3], np.float32)


@dd.defn
def scaled(x):
    return x * SCALE


@dd.defn
def plus_table(x):
    return x + TABLE


def test_a_global_number_that_changes_is_seen(monkeypatch):
    same(scaled(X), X * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    same(scaled(X), X * 3)
    monkeypatch.setitem(globals(), "SCALE", 3)
    same(scaled(X), X * 3)


def test_a_global_array_that_changes_or_is_replaced_is_seen(monkeypatch):
    before = plus_table.traces
    same(plus_table(X), X + [1, 2, 3])
    TABLE[0] = 50
    try:
        same(plus_table(X), X + [50, 2, 3])
    finally:
        TABLE[0] = 1
    monkeypatch.setitem(globals(), "TABLE", np.array([7, 7, 7], np.float32))
    same(plus_table(X), X + 7)
    assert plus_table.traces - before <= 1
    monkeypatch.setitem(globals(), "TABLE", np.array([7], np.float64))
    same(plus_table(X), X + 7)
    assert plus_table.traces - before <= 2


def test_closed_over_arrays_are_hidden_inputs():
    w = dd.array([1.0, 2.0, 3.0])
    k = 10.0

    @dd.defn
    def f(x):
        return x * w + k

    same(f(X), X * [1, 2, 3] + 10)
    w = dd.array([5.0, 5.0, 5.0])
    same(f(X), X * 5 + 10)
    assert f.traces == 1
    k = 20.0
    same(f(X), X * 5 + 20)
    assert f.traces == 2
    graph = f.lower(X)
    assert len(graph.inputs) == 2
    assert not any(n.op == "constant" and n.outputs[0].type.shape for n in graph.nodes)


def test_arrays_inside_containers_are_read_again():
    params = {"w": np.array([1, 1, 1], np.float32), "layers": [np.array([2, 2, 2], np.float32)]}
    f = dd.defn(lambda x: x * params["w"] + params["layers"][0])
    same(f(X), X + 2)
    params["w"][:] = 3
    same(f(X), X * 3 + 2)
    params["w"] = np.array([4, 4, 4], np.float32)
    same(f(X), X * 4 + 2)
    params["layers"][0] = np.array([5, 5, 5], np.float32)
    same(f(X), X * 4 + 5)


def test_numbers_inside_containers_are_seen():
    config = {"k": 2.0}
    f = dd.defn(lambda x: x * config["k"])
    same(f(X), X * 2)
    config["k"] = 3.0
    same(f(X), X * 3)


def test_two_names_of_one_array_can_part():
    a = b = np.ones(3, np.float32)
    f = dd.defn(lambda x: x * a + b * 10)
    same(f(X), X + 10)
    b = np.full(3, 2, np.float32)
    same(f(X), X + 20)
    a = np.full(3, 3, np.float32)
    same(f(X), X * 3 + 20)


def test_what_helpers_and_transformed_functions_capture_is_seen():
    k = [2.0]
    w = np.ones(3, np.float32)

    def helper(x):
        return x * k[0] * w

    f = dd.defn(lambda x: helper(x))
    g = dd.grad(lambda x: dd.sum(helper(x)))
    h = dd.vmap(lambda x, w=w: helper(x)[0])
    for _ in range(2):
        same(f(X), X * 2)
        same(g(X), [2, 2, 2])
        same(h(X), X * 2)
    k[0] = 3.0
    same(f(X), X * 3)
    same(g(X), [3, 3, 3])
    same(h(X), X * 3)
    w = np.full(3, 2, np.float32)
    same(f(X), X * 6)
    same(g(X), [6, 6, 6])


def test_a_counter_in_the_function_does_not_trace_for_ever():
    calls = {"n": 0}
    log: list[Any] = []

    @dd.defn
    def f(x):
        calls["n"] += 1
        log.append(x.shape)
        return x * 2

    for _ in range(5):
        f(X)
    assert (f.traces, calls["n"], len(log)) == (1, 1, 1)


def test_objects_that_hold_each_other_are_walked_once():
    class Node:
        def __init__(self):
            self.k, self.other, self.items = 2.0, None, {}

    a, b = Node(), Node()
    a.other, b.other, a.items["b"], b.items["a"] = b, a, b, a
    f = dd.defn(lambda x: x * a.other.k + a.items["b"].k)
    same(f(X), X * 2 + 2)
    b.k = 5.0
    same(f(X), X * 5 + 5)


def test_a_numpy_array_of_another_shape_under_the_name_traces_again():
    w = np.ones(3, np.float32)
    f = dd.defn(lambda x: x + w.sum() * 0 + w)
    same(f(X), X + 1)
    w = np.ones((2, 3), np.float32)
    assert f(X).shape == (2, 3)
