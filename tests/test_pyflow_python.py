"""Rewritten functions are the user's own: plain where conditions are plain, with their closures, lines and names."""

from __future__ import annotations

import functools
import gc
import re
import runpy
import sys
import threading
import traceback
import weakref
from pathlib import Path

import numpy as np
import pytest
from flow_programs import checked_in_a_branch, checked_without_a_message

import dala_defn as dd
from dala_defn.pyflow import converted, rewriting

X = dd.array(2.0)
LIMIT = 1.0


def defn(f, **options):
    return dd.defn(f, **options)


def plain(n, xs, *rest, key=None, **more):
    """Everything at once."""
    seen = []
    for i, x in enumerate(xs):
        if x < 0:
            continue
        if x > n:
            break
        while True:
            x -= 1
            if x < 2 or (i and not x % 2):
                break
        else:
            seen.append("never")
        seen.append(x if i else -x)
    else:
        seen.append("all")
    try:
        if n == 3:
            raise KeyError(n)
        elif n == 4:
            return seen, "four"
    except KeyError as error:
        seen.append(str(error))
    finally:
        seen.append("finally")
    with dd.name_scope("x"):
        if n == 5:
            return "five", seen
    match rest:
        case [first, *others] if first > 1:
            seen.append(others)
        case []:
            seen.append(locals()["more"])
    assert n != 6, f"{n} is six"
    return seen, 0 < n < 3 <= len(seen), key and more, key or rest


def test_with_plain_conditions_it_does_what_it_did():
    f = converted(plain)
    assert f is not plain and f.__code__ is not plain.__code__
    for n in range(7):
        for xs in ([], [1, 5, -1, 3, 9], [2, 2, 4], range(4)):
            for rest in ((), (1, 2), (5, 6, 7)):
                for more in ({}, {"key": 1, "a": 2}):
                    results = []
                    for g in (plain, f):
                        try:
                            results.append(g(n, xs, *rest, **more))
                        except AssertionError as error:
                            results.append(str(error).splitlines()[0])
                    assert results[0] == results[1]


def test_it_looks_like_the_function_that_it_was():
    f = converted(plain)
    assert f.__name__ == "plain" and f.__qualname__ == plain.__qualname__ and f.__doc__ == plain.__doc__
    assert f.__module__ == plain.__module__ and f.__globals__ is plain.__globals__
    assert f.__code__.co_name == "plain" and f.__code__.co_filename == __file__
    count = 5
    assert f.__code__.co_varnames[:count] == plain.__code__.co_varnames[:count] == ("n", "xs", "key", "rest", "more")


def test_a_traceback_is_that_of_the_function():
    def fails(n):
        if n > 1:
            for i in range(n):
                while i == 1:
                    raise LookupError("here")
        return n

    shown = []
    for g in (fails, converted(fails)):
        try:
            g(3)
        except LookupError as error:
            shown.append(
                [(e.filename, e.lineno, e.name, e.line) for e in traceback.extract_tb(error.__traceback__)][1:]
            )
    assert converted(fails) is not fails
    assert shown[0] == shown[1]


def test_every_line_that_runs_is_recorded_where_it_stands():
    # fmt: off
    def f(x):
        if x > 0:
            y = (
                x
                * 2
            )
        else:
            y = dd.sin(
                x
            )
        return y
    # fmt: on

    def places(graph):
        out = set()
        for g in [graph, *graph.functions()]:
            out |= {(n.loc.resolve().line, n.loc.resolve().function) for n in g.nodes if n.loc is not None}
        return out

    graph = defn(f).lower(X)
    first = f.__code__.co_firstlineno
    lines = {line - first for line, _ in places(graph)}
    assert {1, 3, 7} <= lines <= set(range(1, 11))
    assert {name for _, name in places(graph)} == {f.__qualname__}


def test_recursion_goes_as_deep_as_it_did():
    def depth(n, x):
        if n == 0:
            return x
        return depth(n - 1, x + 1)

    room = sys.getrecursionlimit() - len(traceback.extract_stack()) - 100
    assert defn(lambda x: depth(room, x))(X).item() == 2.0 + room


def test_what_has_no_control_flow_is_left_alone():
    def f(x):
        return dd.sin(x) * 2 + len([1, 2])

    def g(xs):
        total = xs
        total += 1
        return {"a": total, "b": dd.nn.relu(total)}

    assert converted(f) is f
    assert converted(g) is g
    assert converted(dd.sin) is dd.sin
    assert converted(np.sum) is np.sum
    assert converted(len) is len
    assert converted(dict) is dict


def test_a_function_is_rewritten_once(monkeypatch):
    from dala_defn.pyflow import rewrite

    def f(x):
        if x > 0:
            return x
        return -x

    made = []
    compile_function = rewrite.compile_function
    monkeypatch.setattr(rewrite, "compile_function", lambda *args: made.append(1) or compile_function(*args))
    g = defn(f)
    assert not made  # not before it is traced
    for x in (1.0, -1.0, 2.0):
        g(dd.array(x))
    g(dd.array(2))
    defn(f)(X)
    assert len(made) == 1


def test_it_goes_when_the_function_goes():
    from dala_defn.pyflow import convert

    names: dict = {}

    def make():
        def f(x):
            if x > 0:
                return x
            return -x

        # A code object of its own, so that nothing else holds it.
        f.__code__ = f.__code__.replace()
        return f

    f = make()
    key = id(f.__code__)
    assert defn(f)(X).item() == 2.0
    assert key in convert._known
    code = weakref.ref(f.__code__)
    del f, names
    gc.collect()
    assert code() is None
    assert key not in convert._known


def test_closures_are_shared_not_copied():
    scale = 2.0
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        if x > 0:
            return x * scale
        return x

    g = defn(f)
    assert g(X).item() == 4.0 and calls == 1
    scale = 3.0
    assert g(X).item() == 6.0


def test_globals_and_defaults_are_seen_again():
    global LIMIT

    def f(x, k=LIMIT):
        if x > LIMIT:
            return x * 10
        return x + k

    g = defn(f)
    assert g(X).item() == 20.0
    LIMIT = 5.0
    try:
        assert g(X).item() == 3.0
    finally:
        LIMIT = 1.0


def test_two_lambdas_of_one_line_are_told_apart():
    f, g = (lambda x: x if x > 1 else x * 2), (lambda x: x if x > 3 else x * 4)
    assert defn(f)(X).item() == 2.0
    assert defn(g)(X).item() == 8.0


def test_a_name_that_is_a_global_and_an_own_one():
    assert defn(lambda x: shadow(x))(dd.array(0.5)).item() == 8.0


def shadow(x, depth=3):
    if depth == 0:
        return x * 2 if x > 0 else x
    return shadow(x * 2, depth - 1)


class Base:
    __secret = 3.0

    def step(self, x):
        if x > 0:
            return x * self.__secret
        return x

    @classmethod
    def made(cls, x):
        return cls().step(x) if x > 1 else x

    @staticmethod
    def plain(x):
        return -x if x > 0 else x


class Child(Base):
    def step(self, x):
        for _ in range(2):
            if x > 10:
                x = super().step(x) + 1
            else:
                x = super().step(x)
        return x


def test_methods_of_all_kinds():
    child = Child()
    for f in (child.step, Child.made, Base.plain, functools.partial(Base.step, child)):
        for x in (0.5, 2.0, 50.0, -1.0):
            assert calling(f)(dd.array(x)).item() == f(x)


def calling(f):
    return defn(lambda x: f(x))


class Model:
    def __init__(self):
        self.limit = 1.0

    @dd.defn
    def __call__(self, x):
        if x > self.limit:
            return x * 2
        return x


def test_a_compiled_method_watches_its_object():
    model = Model()
    assert model(X).item() == 4.0
    model.limit = 3.0
    assert model(X).item() == 2.0


def test_layers_losses_and_schedules_of_the_user():
    class Gate(dd.layers.Layer):
        def call(self, params, state, x, *, key=None, training=False):
            if x.sum() > 0:
                return x * 2, state
            return x, state

    def capped(y_true, y_pred):
        each = dd.mean((y_true - y_pred) ** 2, axis=-1)
        return each if dd.max(each) < 100 else each * 0.5

    gate = Gate()
    assert gate(dd.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert gate(dd.array([-1.0, -2.0])).tolist() == [-1.0, -2.0]
    assert defn(dd.losses.get(capped))(dd.ones((2, 1)), dd.zeros((2, 1))).tolist() == [1.0, 1.0]


def test_eager_transformations_rewrite_what_they_trace():
    def f(x):
        if x > 1:
            return x**3
        return x * 2

    assert dd.grad(f)(2.0).item() == 12.0
    assert dd.grad(f)(0.5).item() == 2.0
    assert dd.grad(dd.grad(f))(2.0).item() == 12.0
    assert dd.vmap(f)(dd.array([0.5, 2.0])).tolist() == [1.0, 8.0]
    assert dd.cond(dd.array(True), f, lambda x: x, X).item() == 8.0
    assert dd.fori_loop(0, 3, lambda i, x: x + 1 if x < 4 else x, X).item() == 4.0
    assert dd.while_loop(lambda x: 0 < x < 10, lambda x: f(x), X).item() == 512.0


def test_conditions_on_captured_arrays_are_part_of_the_program():
    flag = dd.array(True)
    xs = dd.array([1.0, 2.0])

    def f(x):
        total = x
        for v in xs:
            total = total + v
        return total if flag else -total

    g = defn(f)
    assert g(X).item() == 5.0
    flag = dd.array(False)
    xs = dd.array([10.0, 20.0])
    assert g(X).item() == -32.0
    assert g.traces == 1


def test_numbers_stay_weak():
    def f(x):
        k = 2 if x.sum() > 0 else 3
        n = 0
        for i in range(3):
            n = n + i if x.sum() > 0 else n
        return x * k + n

    assert defn(f)(dd.ones(2, dd.float16)).dtype == dd.float16


def test_a_carry_whose_type_settles_after_several_turns():
    def f(xs):
        a, b, c = 0.0, 0.0, 0.0
        for x in xs:
            a, b, c = a + x, b + a, c + b
        return a, b, c

    got = defn(f)(dd.ones(6, dd.float16))
    assert [x.item() for x in got] == [6.0, 15.0, 20.0]
    assert {x.dtype for x in got} == {dd.float16}


def test_the_gradient_of_a_loop_with_a_condition_that_is_always_true():
    def power(x, n):
        c = 1.0
        for _ in range(n):
            c = c * x if c < 1e9 else c
        return c

    for n in (5, dd.array(5)):
        assert float(power(2.0, 5)) == 32.0
        assert dd.defn(power, static_argnames="n" if n == 5 and type(n) is int else ())(2.0, n).item() == 32.0
        assert dd.grad(lambda x, n=n: power(x, n))(2.0).item() == 80.0


def test_compiled_functions_inside_others():
    @defn
    def f(t):
        if t > 2:
            raise_it = t * 4
        else:
            raise_it = t * 4
        return raise_it

    @defn
    def g(t):
        return f(t) + 7

    assert [g(i).item() for i in range(5)] == [7, 11, 15, 19, 23]
    assert f(2).item() == 8


def test_a_loop_over_a_symbolic_axis():
    def f(xs):
        total = 0.0
        for x in xs:
            if x > 0:
                total = total + x
        return total

    compiled = defn(f).compile(dd.spec(("n",)))
    for xs in ([], [1.0], [1.0, -2.0, 3.0]):
        assert compiled(np.array(xs, np.float32)).item() == sum(x for x in xs if x > 0)


def test_loops_inside_with_may_be_left():
    def f(xs):
        total = 0.0
        with dd.name_scope("sum"):
            for x in xs:
                if x < 0:
                    break
                total = total + x
        return total

    assert defn(f)(dd.array([1.0, -2.0, 3.0])).item() == 1.0


def test_annotated_variables():
    def f(x):
        y: float
        if x > 0:
            y: float = x * 2
            z: int  # noqa: F842
        else:
            y = x
        return y

    assert defn(f)(X).item() == 4.0


def test_checks_run_in_the_branch_that_is_taken():
    g = defn(checked_in_a_branch)
    assert g(dd.array(5.0)).item() == 5.0
    assert g(dd.array(-50.0)).item() == 50.0
    with pytest.raises(dd.CheckFailed, match=r"too large for 3: 50") as caught:
        g(dd.array(50.0))
    assert caught.value.location.line == checked_in_a_branch.__code__.co_firstlineno + 3
    assert isinstance(caught.value, AssertionError)


def test_a_check_without_a_message_shows_itself():
    with pytest.raises(dd.CheckFailed, match="assert x < 1"):
        defn(checked_without_a_message)(X)


TRACED: dict[str, int] = {}


def note(name):
    TRACED[name] = TRACED.get(name, 0) + 1


def test_sides_are_traced_once():
    def f(x):
        if x > 0:
            note("a")
            if x > 1:
                note("b")
                while x > 2:
                    note("c")
                    x = x - 1
            else:
                note("d")
        elif x > -1:
            note("e")
        return x

    defn(f).lower(X)
    assert dict.fromkeys("abcde", 1) == TRACED


def test_threads_trace_the_same_function():
    def f(x):
        n = 0
        while x > 1:
            if x > 100:
                x = x / 10
            else:
                x = x / 2
            n += 1
        return x + n

    want = {x: converted(f)(x) for x in (1000.0, 64.0, 0.5)}
    results = []

    def run(x):
        results.append((x, defn(f)(dd.array(x)).item()))

    threads = [threading.Thread(target=run, args=(x,)) for x in want for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 12
    assert all(got == pytest.approx(want[x]) for x, got in results)


def test_rewriting_can_be_off():
    def f(x):
        return x if x > 0 else -x

    with rewriting(False):
        assert converted(f) is f
    assert converted(f) is not f
    with pytest.raises(dd.TraceError):
        dd.defn(f, rewrite=False)(X)


def test_the_graph_holds_the_control_flow():
    def f(x):
        while x > 1:
            x = x / 2
        return x if x > 0.6 else -x

    graph = defn(f).lower(X)
    ops = {n.op for g in [graph, *graph.functions()] for n in g.nodes}
    assert {"while_loop", "cond"} <= ops
    parsed = dd.ops.parse(str(graph))
    assert sorted(n.op for g in parsed.functions() for n in g.nodes) == sorted(
        n.op for g in graph.functions() for n in g.nodes
    )


def test_the_page_on_control_flow(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "control-flow.md").read_text()
    file = tmp_path / "page.py"
    file.write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    names = runpy.run_path(str(file))
    assert names["newton"](2.0).item() == pytest.approx(2**0.5)
    assert names["first_above"](dd.array([1.0, 5.0, 9.0]), 4.0).item() == 1
    assert names["first_above"](dd.array([1.0, 5.0, 9.0]), 40.0).item() == -1
