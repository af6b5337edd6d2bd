"""Control flow against the same loops written out in Python, with derivatives of every kind and over batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dala_defn as dd

EXECUTORS = ("reference", "flex")
F64 = dd.float64


@pytest.fixture(params=EXECUTORS, autouse=True)
def engine(request: pytest.FixtureRequest) -> Any:
    with dd.using(request.param):
        yield request.param


@dataclass
class Twice:
    """A program with control flow, the same one written out, and points to try it at."""

    staged: Callable[..., Any]
    plain: Callable[..., Any]
    points: list[tuple[Any, ...]]


def array(*x: float) -> Any:
    return dd.array(list(x), dtype=F64)


def number(x: float) -> Any:
    return dd.array(x, dtype=F64)


def rnn(w: Any, xs: Any) -> Any:
    carry, ys = dd.scan(lambda c, x: (dd.tanh(c * w + x), c * c), number(0.5), xs)
    return carry + dd.sum(ys)


def rnn_plain(w: Any, xs: Any) -> Any:
    c, total = number(0.5), number(0.0)
    for i in range(xs.shape[0]):
        total, c = total + c * c, dd.tanh(c * w + xs[i])
    return c + total


def backwards(w: Any, xs: Any) -> Any:
    carry, ys = dd.scan(lambda c, x: ({"a": c["a"] * w + x}, c["a"] * x), {"a": w}, xs, reverse=True)
    return carry["a"] + dd.sum(ys * xs)


def backwards_plain(w: Any, xs: Any) -> Any:
    a, total = w, number(0.0)
    for i in reversed(range(xs.shape[0])):
        total = total + a * xs[i] * xs[i]
        a = a * w + xs[i]
    return a + total


def halving(x: Any, w: Any) -> Any:
    return dd.while_loop(lambda s: s[1] < 4.5, lambda s: (dd.sin(s[0]) * w, s[1] + 1), (x, number(0.0)))[0]


def halving_plain(x: Any, w: Any) -> Any:
    for _ in range(5):
        x = dd.sin(x) * w
    return x


def growing(x: Any, w: Any) -> Any:
    return dd.while_loop(lambda s: s < 10, lambda s: s * s + w * w + 1, x)


def growing_plain(x: Any, w: Any) -> Any:
    while float(x) < 10:
        x = x * x + w * w + 1
    return x


def sides(x: Any, w: Any) -> Any:
    return dd.cond(x > 0.5, lambda x: dd.sin(x) * w, lambda x: x**3 + w * w, x)


def sides_plain(x: Any, w: Any) -> Any:
    return dd.sin(x) * w if float(x) > 0.5 else x**3 + w * w


def switched(x: Any, w: Any) -> Any:
    at = dd.floor(x).astype(dd.int32)
    return dd.switch(at, [lambda x: x * w, lambda x: x * x, lambda x: dd.exp(x) + w], x)


def switched_plain(x: Any, w: Any) -> Any:
    at = min(max(int(np.floor(float(x))), 0), 2)
    return [x * w, x * x, dd.exp(x) + w][at]


def inside(w: Any, xs: Any) -> Any:
    """A cond and a while_loop in a scan."""

    def step(c: Any, x: Any) -> Any:
        c = dd.cond(x > 0, lambda c: c * w, lambda c: c - x, c)
        c = dd.while_loop(lambda c: dd.abs(c) > 1, lambda c: c * 0.5 + 0.1 * w, c)
        return c, dd.fori_loop(0, 2, lambda i, y: y * c + i.astype(F64), c)

    carry, ys = dd.scan(step, number(0.7), xs)
    return carry * dd.sum(ys)


def inside_plain(w: Any, xs: Any) -> Any:
    c, total = number(0.7), number(0.0)
    for i in range(xs.shape[0]):
        c = c * w if float(xs[i]) > 0 else c - xs[i]
        while abs(float(c)) > 1:
            c = c * 0.5 + 0.1 * w
        y = c
        for k in range(2):
            y = y * c + float(k)
        total = total + y
    return c * total


def power(x: Any, w: Any) -> Any:
    return dd.fori_loop(0, 5, lambda i, c: dd.cond(dd.array(True), lambda c: c * x, lambda c: c, c), w)


def counted(x: Any, w: Any) -> Any:
    n = (dd.abs(w) * 3).astype(dd.int32)
    return dd.fori_loop(0, n, lambda i, c: c * x + i.astype(F64), w)


def counted_plain(x: Any, w: Any) -> Any:
    c = w
    for i in range(int(abs(float(w)) * 3)):
        c = c * x + float(i)
    return c


def nested(w: Any, xs: Any) -> Any:
    """A scan of scans, whose inner body takes a value from the outer one."""

    def row(c: Any, x: Any) -> Any:
        d, ys = dd.scan(lambda d, k: (d * c + k * x, d), w, dd.arange(3).astype(F64))
        return dd.tanh(c + d), dd.sum(ys)

    carry, ys = dd.scan(row, number(0.3), xs)
    return carry + dd.sum(ys)


def nested_plain(w: Any, xs: Any) -> Any:
    c, total = number(0.3), number(0.0)
    for i in range(xs.shape[0]):
        d = w
        for k in range(3):
            total = total + d
            d = d * c + float(k) * xs[i]
        c = dd.tanh(c + d)
    return c + total


XS = [array(0.3, -0.2, 0.9), array(-1.5), array(0.1, 0.2, -2.5, 3.0, 0.4)]
PROGRAMS = {
    "rnn": Twice(rnn, rnn_plain, [(number(1.5), xs) for xs in XS]),
    "backwards": Twice(backwards, backwards_plain, [(number(0.6), xs) for xs in XS]),
    "while": Twice(halving, halving_plain, [(number(0.7), number(1.3)), (number(-2.0), number(0.4))]),
    "while_data": Twice(growing, growing_plain, [(number(1.5), number(0.3)), (number(20.0), number(1.0))]),
    "cond": Twice(sides, sides_plain, [(number(0.7), number(2.0)), (number(0.2), number(2.0))]),
    "switch": Twice(switched, switched_plain, [(number(v), number(1.7)) for v in (-3.5, 0.5, 1.5, 2.5, 9.5)]),
    "inside": Twice(inside, inside_plain, [(number(1.8), xs) for xs in XS]),
    "power": Twice(power, lambda x, w: w * x**5, [(number(2.0), number(1.0))]),
    "counted": Twice(counted, counted_plain, [(number(1.1), number(2.1)), (number(1.1), number(0.1))]),
    "nested": Twice(nested, nested_plain, [(number(0.4), xs) for xs in XS]),
}
CASES = [pytest.param(p, args, id=f"{name}-{i}") for name, p in PROGRAMS.items() for i, args in enumerate(p.points)]


def near(a: Any, b: Any, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


def differences(f: Callable[..., Any], args: Any, n: int, h: float = 1e-6) -> Any:
    """Central differences of a function of one argument among several, in a last axis for each of its elements."""
    x = np.asarray(args[n], np.float64)
    columns = []
    for i in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * h
            ends.append(np.asarray(f(*args[:n], dd.array(moved), *args[n + 1 :]), np.float64))
        columns.append((ends[0] - ends[1]) / (2 * h))
    return np.stack(columns, -1).reshape((*columns[0].shape, *x.shape))


@pytest.mark.parametrize(("program", "args"), CASES)
def test_value_and_derivatives(program: Twice, args: Any) -> None:
    f = program.staged
    wanted = program.plain(*args)
    near(f(*args), wanted)
    near(dd.defn(f)(*args), wanted)
    for n in (0, 1):
        gradient = differences(program.plain, args, n)
        near(dd.grad(f, n)(*args), gradient, 1e-6)
        near(dd.jacfwd(f, n)(*args), gradient, 1e-6)
        tangents = [dd.ones_like(a) if i == n else dd.zeros_like(a) for i, a in enumerate(args)]
        near(dd.jvp(f, args, tangents)[1], np.sum(gradient), 1e-6)


@pytest.mark.parametrize(("program", "args"), CASES)
def test_second_derivatives(program: Twice, args: Any) -> None:
    f = program.staged
    wanted = differences(dd.grad(f), args, 0, 1e-5)
    for second in (dd.jacfwd(dd.grad(f)), dd.jacrev(dd.grad(f))):
        near(second(*args), wanted, 1e-5)
    near(dd.grad(lambda *a: dd.sum(dd.grad(f)(*a)))(*args), np.sum(wanted, 0) if wanted.ndim else wanted, 1e-5)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_is_a_stack(name: str, axes: tuple[int | None, int | None]) -> None:
    """Over one argument or both; the examples take different sides and different numbers of steps."""
    f, points = PROGRAMS[name].staged, PROGRAMS[name].points
    first = points[0]
    rows = [(args[0], args[1] if args[1].shape == first[1].shape else first[1] * 1.1) for args in points]
    rows += [(first[0] * 0.3, first[1] * -0.4), (first[0] * 2.5, first[1] * 0.8)]
    batch = [dd.stack([r[i] for r in rows]) if axis == 0 else first[i] for i, axis in enumerate(axes)]
    singles = [tuple(r[i] if axis == 0 else first[i] for i, axis in enumerate(axes)) for r in rows]
    near(dd.vmap(f, in_axes=axes)(*batch), np.stack([np.asarray(f(*s)) for s in singles]))
    for n in (0, 1):
        g = dd.grad(f, n)
        near(dd.vmap(g, in_axes=axes)(*batch), np.stack([np.asarray(g(*s)) for s in singles]), 1e-9)
    if axes == (0, 0):
        total = dd.grad(lambda *b: dd.sum(dd.vmap(f)(*b)))(*batch)
        near(total, np.stack([np.asarray(dd.grad(f)(*s)) for s in singles]), 1e-9)
        twice = [dd.stack([b, b * 0.9]) for b in batch]
        wanted = np.stack([np.asarray(dd.vmap(f)(*(t[i] for t in twice))) for i in range(2)])
        near(dd.vmap(dd.vmap(f))(*twice), wanted)


@given(steps=st.integers(0, 40), tape=st.sampled_from([2, 4, 8]))
def test_a_tape_shorter_than_the_loop(steps: int, tape: int) -> None:
    """Reverse mode through a loop keeps only so many carries, and is right for every number of steps."""
    from dala_defn.ops import loops

    before = loops.TAPE
    loops.TAPE = tape
    try:
        with dd.using("reference"):

            def f(x: Any, n: Any) -> Any:
                return dd.while_loop(lambda s: s[1] < n, lambda s: (dd.sin(s[0]) + x, s[1] + 1), (x, dd.array(0)))[0]

            x = number(0.3)
            gradient = dd.grad(f)(x, dd.array(steps))
    finally:
        loops.TAPE = before
    value, slope = 0.3, 1.0
    for _ in range(steps):
        value, slope = np.sin(value) + 0.3, np.cos(value) * slope + 1
    near(gradient, slope)


def test_no_step_at_all(engine: str) -> None:
    empty = dd.zeros((0, 2), dtype=F64)
    f = lambda w, xs: dd.scan(lambda c, x: (c * w + dd.sum(x), x * c), w, xs)  # noqa: E731
    carry, ys = f(number(2.0), empty)
    assert float(carry) == 2 and ys.shape == (0, 2)
    near(dd.grad(lambda w, xs: f(w, xs)[0])(number(2.0), empty), 1)
    assert dd.grad(lambda w, xs: f(w, xs)[0], 1)(number(2.0), empty).shape == (0, 2)
    assert dd.while_loop(lambda x: x < 0, lambda x: x - 1, dd.array(3)).item() == 3
    assert dd.fori_loop(5, 2, lambda i, x: x + 1, dd.array(3)).item() == 3


@pytest.mark.parametrize("unroll", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolling_changes_nothing(unroll: int, reverse: bool) -> None:
    xs = {"a": array(*np.linspace(-1, 1, 7)), "b": dd.arange(7)}

    def step(c: Any, x: Any) -> Any:
        return dd.tanh(c + x["a"]), {"y": c * x["b"].astype(F64), "b": x["b"]}

    carry, ys = dd.scan(step, number(0.1), xs, reverse=reverse, unroll=unroll)
    wanted, rows = dd.scan(step, number(0.1), xs, reverse=reverse)
    near(carry, wanted)
    near(ys["y"], rows["y"])
    assert ys["b"].tolist() == list(range(7))


def test_a_symbolic_number_of_steps(engine: str) -> None:
    f = dd.defn(lambda w, xs: dd.grad(lambda w, xs: dd.sum(dd.scan(lambda c, x: (c * w + x, c), w, xs)[1]))(w, xs))
    program = f.compile(dd.spec((), F64), dd.spec(("n",), F64))
    for n in (0, 1, 2, 7):
        xs = dd.array(np.linspace(0, 1, n))
        near(program(number(0.5), xs), f(number(0.5), xs))


def test_the_numbers_of_the_carry_settle() -> None:
    carry, _ = dd.scan(lambda c, x: ([c[0] + x, c[1] + c[0], c[2] + c[1]], None), [0.0] * 3, dd.ones(6, dd.float16))
    assert [c.dtype for c in carry] == [dd.float16] * 3
    assert [c.item() for c in carry] == [6, 15, 20]


def refused(code: str, *words: str) -> Any:
    return pytest.raises(dd.DalaError, match=r"(?s)\[" + code + r"\].*" + ".*".join(words))


def test_a_carry_that_changes_shows_every_place() -> None:
    start = {"a": dd.array(0), "b": [dd.zeros(2), dd.array(1.0)]}
    with refused("E101", "at a: .* i32\\[\\], comes back as f32\\[\\]", "at b/0: .* f32\\[2\\], .* f32\\[3\\]"):
        dd.while_loop(lambda c: c["a"] < 2, lambda c: {"a": c["a"] + 0.5, "b": [dd.zeros(3), c["b"][1]]}, start)
    with refused("E101", "structure"):
        dd.scan(lambda c, x: ((c, c), x), dd.array(1.0), dd.zeros(3))


def test_branches_that_differ_show_every_place() -> None:
    with refused("E101", "at 1: true_fn f32\\[\\]|at 1: false_fn gives", "all branches"):
        dd.cond(dd.array(True), lambda: (1, dd.array(1.0)), lambda: (1, dd.array([1.0])))
    with refused("E101", "different structures"):
        dd.cond(dd.array(True), lambda: (1, 2), lambda: [1, 2])


def test_what_is_no_condition_is_refused() -> None:
    with refused("E302", "bool scalar", "dd.all"):
        dd.cond(dd.array([True, False]), lambda: 1, lambda: 2)
    with refused("E302", "integer scalar"):
        dd.switch(dd.array(1.5), [lambda: 1, lambda: 2])
    with refused("E302", "bool scalar"):
        dd.while_loop(lambda x: x, lambda x: x, dd.array(1.0))
    with refused("E301", "no branches"):
        dd.switch(dd.array(0), [])
    with refused("E301", "how many steps"):
        dd.scan(lambda c, x: (c, x), 0.0)
    with refused("E101", "steps"):
        dd.scan(lambda c, x: (c, None), 0.0, (dd.zeros(2), dd.zeros(3)))


def test_an_index_out_of_range_takes_the_nearest() -> None:
    for dtype in (dd.int8, dd.uint8, dd.int64, dd.uint64):
        f = dd.defn(lambda i: dd.switch(i, [lambda: 0, lambda: 1, lambda: 2]))
        tries = (0, 1, 2, 3, 127) if dtype in (dd.uint8, dd.uint64) else (-128, -1, 0, 1, 2, 3, 127)
        for i in tries:
            assert f(dd.array(i, dtype=dtype)).item() == min(max(i, 0), 2)
    assert dd.switch(dd.array(2**40, dtype=dd.int64), [lambda: 0, lambda: 1]).item() == 1
    assert dd.switch(dd.array(-(2**40), dtype=dd.int64), [lambda: 0, lambda: 1]).item() == 0


def test_keys_and_whole_numbers_are_carried() -> None:
    def step(carry: Any, _: Any) -> Any:
        key, n = carry
        key, now = dd.random.split(key)
        return (key, n + 1), dd.random.uniform(now)

    (_, n), xs = dd.scan(step, (dd.random.key(3), 0), length=4)
    singles = []
    k = dd.random.key(3)
    for _ in range(4):
        k, now = dd.random.split(k)
        singles.append(dd.random.uniform(now).item())
    assert xs.tolist() == singles and n.item() == 4
    batch = dd.vmap(lambda k: dd.scan(step, (k, 0), length=4)[1])(dd.random.split(dd.random.key(1), 3))
    assert batch.shape == (3, 4)


def test_a_side_runs_only_if_some_example_takes_it() -> None:
    def f(x: Any) -> Any:
        def side(x: Any) -> Any:
            dd.debug.tap("side", x)
            return -x

        return dd.cond(x > 0, lambda x: x, side, x)

    with dd.debug.taps() as found:
        dd.vmap(f)(dd.array([1.0, 2.0]))
    assert not found
    with dd.debug.taps() as found:
        assert dd.vmap(f)(dd.array([1.0, -2.0])).tolist() == [1, 2]
    assert len(found["side"]) == 1


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=17), st.booleans())
def test_partial_results(xs: list[int], reverse: bool) -> None:
    """Of an associative function that does not commute: matrix products, here of [[1, x], [0, 2]]."""
    pairs = (dd.array(xs), dd.full((len(xs),), 2))
    with dd.using("reference"):
        found = dd.associative_scan(lambda a, b: (b[0] + a[0] * b[1], a[1] * b[1]), pairs, reverse=reverse)
    order = xs[::-1] if reverse else xs
    wanted, total = [], (0, 1)
    for x in order:
        total = (total[0] * 2 + x, total[1] * 2)
        wanted.append(total)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == (wanted[::-1] if reverse else wanted)


def test_equal_bodies_are_one_function() -> None:
    step = lambda c, x: (dd.tanh(c + x), c)  # noqa: E731
    graph = dd.defn(lambda c, xs: dd.scan(step, dd.scan(step, c, xs)[0], xs)).lower(number(0.0), array(1, 2))
    assert len(graph.functions()) == 1


def staged_and_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: (f(x, w), dd.grad(f)(x, w))


def test_exported_control_flow(tmp_path: Any, engine: str) -> None:
    for name, program in PROGRAMS.items():
        f = dd.defn(staged_and_gradient(program.staged))
        path = tmp_path / f"{name}.dala"
        f.export(path, *program.points[0])
        loaded = dd.load(path)
        for got, wanted in zip(loaded(*program.points[0]).values(), f(*program.points[0]), strict=True):
            near(got, wanted)
