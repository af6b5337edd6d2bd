"""The front end: what ``@defn`` takes, gives, traces again for, and refuses."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import dala_defn as dd

X = np.array([1, 2, 3], np.float32)
Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any


def same(x, want):
    np.testing.assert_allclose(np.asarray(x), want, rtol=1e-6)


# Ways to make one


def test_bare_and_with_options():
    @dd.defn
    def bare(x):
        """Doubles."""
        return x * 2

    @dd.defn()
    def empty(x):
        return x * 2

    @dd.defn(static_argnames="n")
    def power(x, n):
        return x**n

    same(bare(X), X * 2)
    same(empty(X), X * 2)
    same(power(X, 2), X**2)
    same(dd.defn(lambda x: x + 1)(X), X + 1)
    same(dd.defn(functools.partial(lambda a, x: x + a, 1))(X), X + 1)
    assert bare.__name__ == "bare"
    assert bare.__doc__ == "Doubles."
    assert "bare(x)" in repr(bare)


def test_options_must_name_arguments():
    with pytest.raises(dd.ArgumentError, match="no argument 'm'"):
        dd.defn(lambda x: x, static_argnames="m")
    with pytest.raises(dd.ArgumentError, match="no argument 'y'"):
        dd.defn(lambda x: x, donate_argnames=("x", "y"))


# Arguments


@dd.defn
def weigh(z, y, x=1.0, *, a=0.0):
    """Names that are not in the order of the alphabet."""
    return z * 100 + y * 10 + x + a * 1000


def test_arguments_keep_their_order():
    one, two, three = (np.array([n], np.float32) for n in (1, 2, 3))
    for _ in range(3):  # the second call takes the short way
        same(weigh(one, two, three), [123])
        same(weigh(y=two, z=one, x=three), [123])
        same(weigh(one, x=three, y=two), [123])
        same(weigh(one, two), [121])
        same(weigh(one, two, a=three), [3121])
    same(weigh.compile(one, two, three)(three, two, one), [321])
    same(weigh.compile(one, two, three)(x=one, y=two, z=three), [321])
    same(weigh.compile(one, two, three, a=0.0)(three, two, one, a=2.0), [2321])


def test_what_is_left_to_its_default_is_part_of_a_compiled_program():
    def f(x, *, scale=2.0, n=1):
        return x * scale + n

    program = dd.defn(f, static_argnames="n").compile(dd.spec(("b",)), n=3)
    for size in (0, 2, 2, 1):
        x = np.arange(size, dtype=np.float32)
        same(program(x), x * 2 + 3)
        same(program(x, scale=2.0, n=3), x * 2 + 3)
    with pytest.raises(dd.ArgumentError, match=r"compiled for scale=2.0, not 3.0"):
        program(X, scale=3.0)
    with pytest.raises(dd.ArgumentError, match=r"compiled for n=3, not 1"):
        program(X, n=1)
    with pytest.raises(dd.ArgumentTypeError, match="missing a required argument: 'x'"):
        program()
    with pytest.raises(dd.ArgumentTypeError, match="too many positional"):
        program(X, X)
    with pytest.raises(dd.ArgumentTypeError, match="compiled for x, not x/0, x/1"):
        program([X, X])
    f.__kwdefaults__["scale"] = 5.0
    with pytest.raises(dd.ArgumentError, match="a default argument has changed"):
        program(X)


def test_an_exported_function_keeps_the_order_of_its_arguments(tmp_path):
    one, two, three = (np.array([n], np.float32) for n in (1, 2, 3))
    weigh.export(tmp_path / "w.dala", *[dd.spec((1,))] * 3)
    loaded = dd.load(tmp_path / "w.dala")
    same(loaded(one, two, three), [123])
    same(loaded(x=three, y=two, z=one), [123])
    assert [a.name for a, _ in loaded.default.args] == ["z", "y", "x"]
    weigh.export(tmp_path / "w.dala", *[dd.spec((1,))] * 3, a=dd.spec(()))
    same(dd.load(tmp_path / "w.dala")(one, two, three, 4.0), [4123])


def test_any_number_of_arguments():
    @dd.defn
    def total(*xs, **named):
        out = xs[0]
        for x in xs[1:]:
            out = out * 10 + x
        return out + named.get("more", 0.0)

    for _ in range(2):
        same(total(X), X)
        same(total(X, X), X * 11)
        same(total(X, 1.0, 2.0), X * 100 + 12)
        same(total(X, more=X), X * 2)


def test_static_arguments_are_told_apart_by_type_and_bits():
    # tracing-01
    seen = []
    for order in ([1, True, 1.0, 0.0, -0.0], [-0.0, 0.0, 1.0, True, 1]):
        f = dd.defn(lambda x, k: seen.append(k) or x * 0 + (1.0 if k else 0.0), static_argnames="k")
        for k in order:
            f(X, k)
        assert f.traces == 5
        assert [(type(k), str(k)) for k in seen[-5:]] == [(type(k), str(k)) for k in order]
    g = dd.defn(lambda x, k: x / dd.array(k, dd.float64), static_argnames="k")
    assert np.asarray(g(np.float64(1), 0.0)).tolist() == np.inf
    assert np.asarray(g(np.float64(1), -0.0)).tolist() == -np.inf
    h = dd.defn(lambda x, k: x * k[0], static_argnames="k")
    assert h(X, (1,)).dtype is dd.float32
    assert h(X.astype(np.int32), (1,)).dtype is dd.int32
    assert h(X.astype(np.int32), (1.0,)).dtype is dd.float32


def test_a_static_nan_is_one_trace():
    f = dd.defn(lambda x, k: x * k, static_argnames="k")
    for _ in range(3):
        f(X, float("nan"))
    assert f.traces == 1


def test_static_arguments_can_be_anything_hashable():
    f = dd.defn(lambda x, kind, act: getattr(dd, kind)(act(x)), static_argnames=("kind", "act"))
    same(f(X, "sum", dd.exp), np.exp(X).sum())
    same(f(X, "max", dd.negative), -1)
    with pytest.raises(dd.ArgumentTypeError, match="static argument kind is not hashable: list"):
        f(X, ["sum"], dd.exp)


# Pytrees


@pytest.mark.parametrize(
    "tree",
    [
        {"w": X, "b": X + 1},
        [X, X + 1],
        (X, (X, [X])),
        Pair(X, {"k": X}),
        Layer(X, X + 1),
        Layer(X),
        Frozen([X, None]),
        {"layers": [Layer(X), Layer(X + 1, X)], "none": None, "empty": [], "step": X[0]},
        [],
    ],
)
def test_trees_go_in_and_come_out(tree):
    f = dd.defn(lambda t: dd.trees.map_tree(lambda x: x * 2, t))
    want = dd.trees.flatten(tree)
    for _ in range(2):
        got = dd.trees.flatten(f(tree))
        assert got[1] == want[1]
        for a, b in zip(got[0], want[0], strict=True):
            same(a, b * 2)
    assert f.traces == 1
    assert type(f(tree)) is type(tree)


def test_another_structure_is_another_trace():
    f = dd.defn(lambda t: t["x"] + 1)
    f({"x": X})
    f({"x": X, "y": X})
    f({"x": X})
    assert f.traces == 2


def test_results_may_be_arguments_constants_and_numbers():
    f = dd.defn(lambda x: (x, x, 3, 2.5, True, None, np.float64(1), dd.array([1, 2])))
    a, b, three, half, true, none, one, both = f(X)
    same(a, X)
    same(b, X)
    assert (three.item(), half.item(), true.item(), none, one.item()) == (3, 2.5, True, None, 1.0)
    assert one.dtype is dd.float64
    assert both.tolist() == [1, 2]


# Nesting


def test_a_defn_in_a_defn():
    # tracing-02
    f = dd.defn(lambda t: t * 4)

    @dd.defn
    def g(t):
        return f(t) + 7

    assert [g(i).item() for i in range(5)] == [7, 11, 15, 19, 23]
    assert f(3).item() == 12
    same(g(X), X * 4 + 7)
    same(f(X), X * 4)


def test_an_exception_in_a_trace_leaves_nothing_behind():
    bad = [True]

    @dd.defn
    def f(t):
        if bad:
            raise KeyError("mine")
        return t * 4

    g = dd.defn(lambda t: f(t) + 7)
    with pytest.raises(KeyError, match="mine"):
        g(X)
    same(dd.array(X) + 1, X + 1)
    bad.clear()
    same(g(X), X * 4 + 7)
    same(f(X), X * 4)


def test_equal_calls_are_one_function():
    f = dd.defn(lambda x: dd.tanh(x) * 2)
    graph = dd.defn(lambda x: f(f(f(x)))).lower(X)
    assert len(graph.functions()) == 1


def test_grad_inside_and_outside():
    f = dd.defn(lambda x: dd.sum(x**3))
    same(dd.grad(f)(X), 3 * X**2)
    same(dd.defn(lambda x: dd.grad(f)(x) + 1)(X), 3 * X**2 + 1)
    same(dd.defn(lambda x: dd.sum(dd.grad(f)(x)))(X), (3 * X**2).sum())


# Lowering, compiling, symbolic sizes


def test_lower_gives_the_graph_as_text_that_reads_back():
    graph = weigh.lower(*[dd.spec(("b", 3))] * 2)
    text = str(graph)
    assert "graph @weigh(%z: f32[b, 3], %y: f32[b, 3]" in text
    assert dd.ops.parse(text) == graph


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_one_program_for_every_batch(n, tmp_path):
    w = dd.array(np.arange(12, dtype=np.float32).reshape(4, 3) / 12)

    @dd.defn
    def f(x):
        h = dd.nn.softmax(x @ w)
        return h, dd.sum(h, axis=0), dd.concatenate([x, x]), dd.reshape(x, (-1,)), x[:, 1:]

    f.export(tmp_path / "f.dala", dd.spec(("b", 4)))
    x = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
    e = np.exp(x @ np.asarray(w))
    h = e / e.sum(1, keepdims=True)
    want = h, h.sum(0), np.concatenate([x, x]), x.reshape(-1), x[:, 1:]
    loaded, reference = (dd.load(tmp_path / "f.dala", name) for name in ("flex", "reference"))
    for got in (f(x), f.compile(dd.spec(("b", 4)))(x), loaded(x).values(), reference(x).values()):
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5)


def test_what_holds_for_some_sizes_only_is_refused():
    with pytest.raises(dd.ShapeError, match="b is 0: lambda needs b >= 1"):
        dd.defn(lambda x: x[1:]).compile(dd.spec(("b", 4)))(np.ones((0, 4), np.float32))
    with pytest.raises(dd.ShapeError, match="b is 0: lambda needs b > 0"):
        dd.defn(lambda x: x[0]).compile(dd.spec(("b", 4)))(np.ones((0, 4), np.float32))
    with pytest.raises(dd.ShapeError, match="b is 2 and c is 3: lambda needs b == c"):
        f = dd.defn(lambda x, y: x + y).compile(dd.spec(("b",)), dd.spec(("c",)))
        f(np.ones(2, np.float32), np.ones(3, np.float32))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_one_program_for_every_batch_with_two_arguments(n):
    compiled = dd.defn(lambda x, y: (dd.mean(x) + dd.sum(y, 0), x * y, dd.max(y, axis=1))).compile(
        dd.spec(("b", 2)), dd.spec(("b", 2))
    )
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    _, product, most = compiled(x, x + 1)
    same(product, x * (x + 1))
    same(most, (x + 1).max(1))


def test_compiled_functions_check_what_they_are_given():
    compiled = dd.defn(lambda x, y: x + y).compile(dd.spec(("b", 2)), dd.spec(("b", 2)))
    with pytest.raises(dd.ShapeError, match="y is f32"):
        compiled(np.ones((2, 2), np.float32), np.ones((2, 3), np.float32))
    with pytest.raises(dd.ShapeError, match="b is 2 elsewhere"):
        compiled(np.ones((2, 2), np.float32), np.ones((3, 2), np.float32))
    with pytest.raises(dd.ArgumentTypeError, match="x is f64"):
        compiled(np.ones((2, 2)), np.ones((2, 2), np.float32))
    with pytest.raises(dd.ArgumentTypeError, match=r"missing a required argument: .y."):
        compiled(np.ones((2, 2), np.float32))


def test_specs():
    assert str(dd.spec(("b", 784))) == "spec(f32[b, 784])"
    assert str(dd.spec((2, "2*b + 1"), "int8")) == "spec(i8[2, 2*b + 1])"
    assert dd.spec(3).shape == (3,)
    with pytest.raises(dd.ShapeError, match="negative"):
        dd.spec((-1,))
    with pytest.raises(dd.ShapeError, match="no size"):
        dd.spec(("b b",))
    with pytest.raises(dd.DTypeError, match="no dtype"):
        dd.spec((1,), "float8")


def test_captured_arrays_are_exported(tmp_path):
    w, k = dd.array([1.0, 2.0, 3.0]), np.array([5], np.float32)
    f = dd.defn(lambda x: x * w + k)
    f.export(tmp_path / "f.dala", dd.spec((3,)))
    same(dd.load(tmp_path / "f.dala")(X), X * [1, 2, 3] + 5)
    same(dd.load(tmp_path / "f.dala", "reference")(X), X * [1, 2, 3] + 5)


def test_executors_by_name_and_by_context():
    f = dd.defn(lambda x: dd.exp(x), executor="reference")
    same(f(X), np.exp(X))
    with dd.using("reference"):
        same(dd.exp(dd.array(X)), np.exp(X))
    with pytest.raises(dd.ArgumentError, match="no executor 'cpu'"), dd.using("cpu"):
        pass
    same(weigh(X, X), X * 110 + 1)


def test_many_signatures_do_not_fill_memory():
    f = dd.defn(lambda x: x + 1)
    for n in range(200):
        assert f(np.zeros(n, np.float32)).shape == (n,)
    assert len(f._compiled) <= 128
    assert sum(map(len, f._plans.values())) <= 256


# Misuse


def keep(box):
    def f(x):
        box.append(x * 2)
        return x

    return f


@pytest.mark.parametrize(
    ("f", "kind", "said"),
    [
        (lambda x: x if x > 0 else -x, dd.TraceError, "truth value"),
        (lambda x: x * int(x[0]), dd.TraceError, r"int\(\)"),
        (lambda x: x * float(x[0]), dd.TraceError, r"float\(\)"),
        (lambda x: np.asarray(x), dd.TraceError, "NumPy array"),
        (lambda x: np.apply_over_axes(np.sum, x, 0), dd.ArgumentTypeError, "no counterpart"),
        (lambda x: [0, 1, 2][x[0].astype(dd.int32)], dd.TraceError, "an index"),
        (lambda x: list(range(x[0].astype(dd.int32))), dd.TraceError, "an index"),
        (lambda x: x[0].item(), dd.TraceError, "item"),
        (lambda x: x.tolist(), dd.TraceError, "tolist"),
        (lambda x: "text", dd.ArgumentTypeError, "returns a str"),
        (lambda x: {"a": [x, object()]}, dd.ArgumentTypeError, "returns a object at a/1"),
        (lambda x: {x}, TypeError, "unhashable|returns a set"),
        (lambda x: dd.array([[1, 2], [3]]), dd.ArgumentTypeError, "ragged"),
        (lambda x: x + "1", dd.ArgumentTypeError, "str"),
        (lambda x: x + None, dd.ArgumentTypeError, "NoneType"),
        (lambda x: x[x > 1], dd.ArgumentTypeError, "mask"),
        (lambda x: x.__setitem__(0, 1.0), dd.ArgumentTypeError, "in place"),
        (lambda x: x.nothing, AttributeError, "nothing"),
        (lambda x: x[7], dd.IndexOutOfRange, "index 7 is out of range"),
        (lambda x: x @ dd.ones((4, 2)), dd.ShapeError, "sizes differ|must be equal|4"),
    ],
)
def test_misuse_in_a_trace_is_refused(f, kind, said):
    g = dd.defn(f)
    for _ in range(2):
        with pytest.raises(kind, match=said):
            g(X)
    same(dd.array(X) + 1, X + 1)


def test_a_traced_value_cannot_escape():
    box: list[Any] = []
    with pytest.raises(dd.EscapedTracerError, match=r"stays behind in closure variable box\[0\]"):
        dd.defn(keep(box))(X)
    for use in (lambda x: x + 1, dd.exp, dd.defn(lambda y: y + box[0]), lambda x: dd.defn(lambda y: y)(x)):
        with pytest.raises(dd.EscapedTracerError, match="after its trace has ended") as caught:
            use(box[0])
        assert isinstance(caught.value, RuntimeError)
    with pytest.raises(dd.TraceError):
        np.asarray(box[0])


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'z'"),
        ((X,), {}, "missing a required argument: 'y'"),
        ((X, X, X, X), {}, "too many positional arguments"),
        ((X, X), {"q": 1.0}, "unexpected keyword argument 'q'"),
        ((X, X), {"y": X}, "multiple values for argument 'y'"),
        ((X, "text"), {}, "argument y is a str"),
        ((X, {1, 2}), {}, "argument y is a set"),
        ((X, object()), {}, "argument y is a object"),
        ((X, np.array(["a"])), {}, "no dtype"),
        ((X, np.array([{}], object)), {}, "no dtype"),
    ],
)
def test_wrong_arguments_are_refused(args, kwargs, said):
    with pytest.raises(dd.DalaError, match=said) as caught:
        weigh(*args, **kwargs)
    assert isinstance(caught.value, TypeError)


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(dd.DTypeError, match="does not fit"):
        dd.defn(lambda x: x + 300)(np.array([1], np.uint8))
    with pytest.raises(dd.DTypeError, match="does not fit"):
        weigh(X, 2**40)


# Large functions


def python_calls(f):
    """How many Python functions are called."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


def repeated(n):
    def f(x):
        for _ in range(n):
            x = dd.tanh(x * 1.01) + x
        return x

    return f


@pytest.mark.parametrize("make", [repeated, lambda n: dd.grad(lambda x: dd.sum(repeated(n)(x)))])
def test_the_work_per_node_does_not_grow_with_the_graph(make):
    small, large = (dd.defn(make(n)) for n in (50, 500))
    small.lower(X)
    assert python_calls(lambda: large.lower(X)) <= 10 * python_calls(lambda: small.lower(X))


def test_recording_takes_few_calls():
    f, n = repeated(500), 1500
    dd.defn(f).lower(X)
    assert python_calls(lambda: dd.defn(f).lower(X)) <= 26 * n


@pytest.mark.slow
def test_a_thousand_layers_are_traced_differentiated_and_run():
    layers = [dd.defn(lambda x, k=float(i % 3): x * 0.999 + k) for i in range(1000)]

    def through(x):
        for layer in layers:
            x = layer(x)
        return dd.sum(x)

    same(dd.grad(through)(X), np.full(3, np.prod(np.full(1000, 0.999, np.float32))))
    nested = lambda x: x  # noqa: E731
    for _ in range(300):
        nested = (lambda f: lambda x: f(x) + 1)(nested)
    same(dd.defn(nested)(X), X + 300)


def test_what_was_traced_for_ever_ends_in_an_error():
    @dd.defn
    def f(x):
        return f(x) + 1

    with pytest.raises(RecursionError):
        f(X)
    same(dd.array(X) + 1, X + 1)
