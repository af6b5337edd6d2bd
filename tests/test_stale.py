"""Whatever changes outside a traced function is seen by its next call, or refused: nothing is stale."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types

import numpy as np
import pytest

import dala_defn as dd

X = np.array([1, 2, 3], np.float32)
SCALE = 2.0
ACT = dd.negative


class Mode(enum.Enum):
    TWICE = 2
    THRICE = 3


class Config:
    scale = 2.0
    names = ("a", "b")

    def __init__(self, k=2.0):
        self.k = k

    @property
    def doubled(self):
        return self.k * 2

    def __call__(self, x):
        return x * self.k


class Other(Config):
    scale = 3.0


@dataclasses.dataclass
class Settings:
    k: float = 2.0
    mode: Mode = Mode.TWICE
    table: dict = dataclasses.field(default_factory=dict)


def by_default(x, k=2.0):
    return x * k


def module():
    made = types.ModuleType("made_up")
    made.k = 2.0
    return made


def cell():
    k = 2.0

    def change():
        nonlocal k
        k = 3.0

    return (lambda x: x * k), change


def a_global():
    return (lambda x: x * SCALE), lambda: globals().update(SCALE=3.0)


def a_global_function():
    return (lambda x: ACT(x) * -2), lambda: globals().update(ACT=lambda x: x * -1.5)


def attribute():
    c = Config()
    return (lambda x: x * c.k), lambda: setattr(c, "k", 3.0)


def class_attribute():
    c = Config()
    return (lambda x: x * c.scale), lambda: setattr(Config, "scale", 3.0)


def attribute_of_a_class():
    return (lambda x: x * Config.scale), lambda: setattr(Config, "scale", 3.0)


def attribute_that_hides_that_of_the_class():
    c = Config()
    return (lambda x: x * c.scale), lambda: setattr(c, "scale", 3.0)


def a_property():
    c = Config(1.0)
    return (lambda x: x * c.doubled), lambda: setattr(c, "k", 1.5)


def a_special_method():
    c = Config()
    return (lambda x: c(x)), lambda: setattr(c, "k", 3.0)


def kind_of_an_object():
    c = [Config()]
    return (lambda x: x * (3.0 if isinstance(c[0], Other) else 2.0)), lambda: c.__setitem__(0, Other())


def name_of_an_attribute():
    c = Config()
    return (lambda x: x * getattr(c, "".join(["k"]))), lambda: setattr(c, "k", 3.0)


def a_default():
    def helper(x, k=2.0):
        return x * k

    return (lambda x: helper(x)), lambda: setattr(helper, "__defaults__", (3.0,))


def own_default():
    def f(x, k=2.0):
        return x * k

    return f, lambda: setattr(f, "__defaults__", (3.0,))


def own_keyword_default():
    def f(x, *, k=2.0):
        return x * k

    return f, lambda: f.__kwdefaults__.update(k=3.0)


def list_element():
    ks = [1.0, 2.0]
    return (lambda x: x * ks[1]), lambda: ks.__setitem__(1, 3.0)


def list_length():
    ks = [1.0, 1.0]
    return (lambda x: x * len(ks)), lambda: ks.append(1.0)


def dict_value():
    ks = {"a": {"k": 2.0}}
    return (lambda x: x * ks["a"]["k"]), lambda: ks["a"].update(k=3.0)


def dict_key():
    ks = {"a": 2.0}
    return (lambda x: x * ks.get("b", 2.0)), lambda: ks.update(b=3.0)


def set_of_options():
    on = {"a"}
    return (lambda x: x * (3.0 if "b" in on else 2.0)), lambda: on.add("b")


def a_queue():
    ks = collections.deque([2.0])
    return (lambda x: x * ks[-1]), lambda: ks.append(3.0)


def module_attribute():
    m = module()
    return (lambda x: x * m.k), lambda: setattr(m, "k", 3.0)


def namespace():
    m = types.SimpleNamespace(k=2.0)
    return (lambda x: x * m.k), lambda: setattr(m, "k", 3.0)


def nested_function():
    k = [2.0]

    def inner(x):
        def most_inner():
            return k[0]

        return x * most_inner()

    return (lambda x: inner(x)), lambda: k.__setitem__(0, 3.0)


def a_partial():
    k = [2.0]
    p = functools.partial(lambda ks, x: x * ks[0], k)
    return (lambda x: p(x)), lambda: k.__setitem__(0, 3.0)


def another_closure_of_one_code():
    def make(k):
        return lambda x: x * k

    fs = [make(2.0)]
    return (lambda x: fs[0](x)), lambda: fs.__setitem__(0, make(3.0))


def two_names_that_part():
    a = b = Config()

    def change():
        nonlocal b
        b = Config(3.0)

    return (lambda x: x * (a.k * 0 + b.k)), change


def array_in_place():
    w = np.full(3, 2, np.float32)
    return (lambda x: x * w), lambda: w.__setitem__(slice(None), 3)


def what_numpy_computed():
    w = np.full(3, 2, np.float32)
    return (lambda x: x * w.mean()), lambda: w.__setitem__(slice(None), 3)


def what_numpy_computed_of_an_input():
    w = np.full(3, 2, np.float32)
    return (lambda x: x * w.mean() + w * 0), lambda: w.__setitem__(slice(None), 3)


def a_branch_on_a_numpy_array():
    w = np.full(3, 2, np.float32)
    return (lambda x: x * (2.0 if w[0] < 3 else 3.0)), lambda: w.__setitem__(0, 3)


def number_read_of_an_array():
    w = dd.array(2.0)

    def change():
        nonlocal w
        w = dd.array(3.0)

    return (lambda x: x * float(w) + w * 0), change


def numpy_scalar():
    c = Config(np.float32(2))
    return (lambda x: x * (2.0 if c.k < 3 else 3.0)), lambda: setattr(c, "k", np.float32(3))


def string_option():
    s = {"kind": "twice"}
    return (lambda x: x * {"twice": 2.0, "thrice": 3.0}[s["kind"]]), lambda: s.update(kind="thrice")


def dataclass_field():
    s = Settings()
    return (lambda x: x * s.k), lambda: setattr(s, "k", 3.0)


def an_enum():
    s = Settings()
    return (lambda x: x * float(s.mode.value)), lambda: setattr(s, "mode", Mode.THRICE)


def deep_in_containers():
    k = [2.0]
    deep = k
    for _ in range(200):
        deep = [deep]

    def dig(x):
        at = deep
        while isinstance(at, list):
            at = at[0]
        return x * at

    return dig, lambda: k.__setitem__(0, 3.0)


def in_a_transformed_function():
    k = [2.0]
    f = dd.grad(lambda x: dd.sum(x * k[0]))
    return (lambda x: f(x) * x), lambda: k.__setitem__(0, 3.0)


def in_a_composite():
    k = [2.0]
    f = dd.composite("scaled")(lambda x: x * k[0])
    return (lambda x: f(x)), lambda: k.__setitem__(0, 3.0)


def in_an_inner_defn():
    k = [2.0]
    f = dd.defn(lambda x: x * k[0])
    return (lambda x: f(x)), lambda: k.__setitem__(0, 3.0)


CASES = [
    *(cell, a_global, a_global_function, attribute, class_attribute, attribute_of_a_class),
    *(attribute_that_hides_that_of_the_class, a_property, a_special_method, kind_of_an_object, name_of_an_attribute),
    *(a_default, own_default, own_keyword_default, list_element, list_length, dict_value, dict_key, set_of_options),
    *(a_queue, module_attribute, namespace, nested_function, a_partial, another_closure_of_one_code),
    *(two_names_that_part, array_in_place, what_numpy_computed, what_numpy_computed_of_an_input),
    *(a_branch_on_a_numpy_array, number_read_of_an_array, numpy_scalar, string_option, dataclass_field, an_enum),
    *(deep_in_containers, in_a_transformed_function, in_a_composite, in_an_inner_defn),
]


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    monkeypatch.setitem(globals(), "ACT", dd.negative)
    monkeypatch.setattr(Config, "scale", 2.0)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_a_change_is_seen(case):
    f, change = case()
    traced = dd.defn(f)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(traced(X)), X * 2)
    assert traced.traces == 1
    change()
    wanted = 1.5 * 2 if case is a_global_function else 3
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(traced(X)), X * wanted)
    assert traced.traces <= 2


def test_a_static_argument_that_changes_inside_is_seen():
    c = Config()
    f = dd.defn(lambda x, c: x * c.k, static_argnames="c")
    np.testing.assert_array_equal(np.asarray(f(X, c)), X * 2)
    c.k = 3.0
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(f(X, c)), X * 3)


def test_more_than_can_be_compared_is_refused(monkeypatch):
    monkeypatch.setattr("dala_defn.captures.MOST_PLACES", 50)
    many = [[float(i)] * 1 for i in range(100)]
    with pytest.raises(dd.TraceError, match=r"more than 50 values outside itself, such as closure variable many"):
        dd.defn(lambda x: x * many[3][0])(X)
    monkeypatch.setattr("dala_defn.captures.MOST_BYTES", 1 << 20)
    big = np.zeros(1 << 19, np.float32)
    with pytest.raises(dd.TraceError, match="closure variable big is a NumPy array of 2 MiB"):
        dd.defn(lambda x: x * big.max())(X)
    np.testing.assert_array_equal(np.asarray(dd.defn(lambda x: x + dd.sum(big))(X)), X)


# Values that escape from their trace

KEPT: list = []


class Keeper:
    def __init__(self):
        self.last, self.all = None, {}


def escapes():
    k, box, nothing = Keeper(), [[]], None

    def to_a_cell(x):
        nonlocal nothing
        nothing = x * 2
        return x

    def to_a_global(x):
        global LEFT
        LEFT = x * 2
        return x

    return {
        "closure variable k.last": lambda x: setattr(k, "last", x * 2) or x + k.last,
        "closure variable k.all['y']": lambda x: k.all.__setitem__("y", (x * 2)) or x,
        "closure variable box[0][0]": lambda x: box[0].append(x * 2) or x,
        "global KEPT[0]": lambda x: KEPT.append(x * 2) or x,
        "closure variable nothing": to_a_cell,
        "global LEFT": to_a_global,
        "closure variable box[0][0][0]": lambda x: dd.grad(lambda z: dd.sum(box[0].append([z * 2]) or z))(x),
    }


@pytest.mark.parametrize("holder", list(escapes()))
def test_a_value_that_escapes_is_reported_with_its_holder_and_line(holder):
    KEPT.clear()
    f = dd.defn(escapes()[holder])
    with pytest.raises(dd.EscapedTracerError) as caught:
        f(X)
    assert f"stays behind in {holder}" in caught.value.reason
    assert "2" in caught.value.location.source_line()
    assert caught.value.location.file == __file__
    KEPT.clear()
    globals().pop("LEFT", None)
    assert np.asarray(dd.array(X) + 1).tolist() == [2, 3, 4]


def test_an_inner_function_may_hold_values_of_the_outer_trace():
    @dd.defn
    def outer(x):
        y = x * 2
        inner = dd.defn(lambda z: z + y)
        return inner(x)

    np.testing.assert_array_equal(np.asarray(outer(X)), X * 3)


class Twice(dd.layers.Dense):
    """A user's layer over one of ours, whose fields our code reads."""

    def call(self, params, state, x, *, key=None, training=False):
        y, state = super().call(params, state, x, key=key, training=training)
        return y * 2, state


@pytest.mark.parametrize("kind", [dd.layers.Dense, Twice])
def test_an_option_of_a_layer_that_changes_is_seen(kind):
    dense = kind(3, activation="relu", use_bias=False)
    inner = dd.Sequential([dd.Input((3,)), dense])
    model = dd.Sequential([dd.Input((3,)), dd.layers.Rescaling(-1.0), inner])
    f, g = dd.defn(lambda x: dense(x)), dd.defn(lambda x: model(x) + 0)
    for activation in ("relu", "linear", "linear", "tanh", "relu"):
        dense.activation = activation
        for x in (X[None], -X[None]):
            eager = np.asarray(dense(x))
            np.testing.assert_allclose(np.asarray(f(x)), eager, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(g(-x)), eager, rtol=1e-6)
            np.testing.assert_allclose(model.predict(-x), eager, rtol=1e-6)


def test_an_option_of_a_loss_or_an_optimizer_that_changes_is_seen():
    model = dd.Sequential([dd.Input((3,)), dd.layers.Dense(2, kernel_initializer="zeros")])
    loss = dd.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = dd.optimizers.SGD(1.0)
    model.compile(optimizer, loss)
    x, y = X[None], np.array([0])
    first = model.fit(x, y, verbose=0).history["loss"][0]
    np.testing.assert_allclose(first, np.log(2), rtol=1e-6)
    model.set_weights([np.zeros((3, 2), np.float32), np.zeros(2, np.float32)])
    optimizer.weight_decay = 1.0
    optimizer.global_clipnorm = 1e-6
    model.fit(x, y, verbose=0)
    assert np.abs(model.get_weights()[0]).max() <= 1e-6
    loss.options["from_logits"] = False
    model.set_weights([np.zeros((3, 2), np.float32), np.array([0.25, 0.75], np.float32)])
    np.testing.assert_allclose(model.evaluate(x, y), -np.log(0.25), rtol=1e-6)
    optimizer.momentum = 0.9
    with pytest.raises(dd.ArgumentError, match="needs velocity, which its state does not have"):
        model.fit(x, y, verbose=0)
    model.compile(optimizer, loss)
    model.fit(x, y, verbose=0)
