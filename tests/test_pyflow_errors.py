"""Control flow that cannot follow a traced condition: refused at the user's line, with what to write instead."""

from __future__ import annotations

import importlib
import inspect
import itertools
import linecache
import sys
import textwrap

import pytest

import dala_defn as dd

X = dd.array(2.0)
V = dd.array([1.0, 2.0, 3.0])
COUNT = dd.array(3)
TOTAL = 0


class Holder:
    def __init__(self):
        self.n = 0
        self.items = []


def variable_of_one_side(x):
    if x > 0:
        t = x * 2
    return t  # here


def variable_of_a_loop_that_may_not_run(x):
    while x > 1:
        t = x
        x = x - 1
    return t  # here


def variable_of_a_range_that_may_not_run(n):
    for i in range(n):  # noqa: B007
        pass
    return i  # here


def augmented_without_a_value(x):
    if x > 0:
        t = x
    t += 1  # here
    return t


def deleted_on_one_side(x):
    y = x
    if x > 0:
        del y
    return y  # here


def two_types(x):
    if x > 0:  # here
        y = x * 2
        z = dd.stack([x, x])
    else:
        y = x.astype(dd.int32)
        z = x
    return y + z.sum()


def other_plain_values(x):
    if x > 0:  # here
        mode = "up"
    else:
        mode = "down"
    return x * len(mode)


def other_structures(x):
    if x > 0:  # here
        y = {"a": x}
    else:
        y = [x]
    return y


def two_returns(x):
    if x > 0:  # here
        return x
    return x, x


def no_return_on_one_side(x):
    if x > 0:  # here
        return x


def two_types_in_a_ternary(x):
    return x if x > 0 else dd.stack([x, x])  # here


def a_chain_of_types(x):
    if x > 3:
        y = x
    elif x > 2:  # here
        y = dd.stack([x, x])
    else:
        y = x
    return y


def shape_from_turn_to_turn(x):
    y = dd.zeros(2)
    while x > 0:  # here
        y = dd.concatenate([y, y])
        x = x - 1
    return y


def dtype_from_turn_to_turn(x):
    n = dd.array(0)
    while x > 0:  # here
        n = n + 0.5
        x = x - 1
    return n


def structure_from_turn_to_turn(xs):
    last = None
    for x in xs:  # here
        last = x
    return last


def return_types_of_a_loop(xs):
    for x in xs:
        if x > 2:  # here
            return x
        if x > 1:
            return xs
    return xs[0]


def an_attribute(x):
    holder = Holder()
    if x > 0:
        holder.n = x  # here
    return x


def an_attribute_in_a_loop(xs):
    holder = Holder()
    for x in xs:
        holder.n += x  # here
    return holder.n


def an_item_of_a_dict(x):
    d = {"a": 1}
    if x > 0:
        d["a"] = x  # here
    return d["a"]


def an_item_of_an_array(xs):
    if xs.sum() > 0:
        xs[0] = 1.0  # here
    return xs


def a_list_that_grows(xs):
    out = []
    for x in xs:
        out.append(x * 2)  # here
    return out


def a_dict_that_changes(x):
    d = {}
    if x > 0:
        d.update(a=x)  # here
    return x


def a_global(x):
    global TOTAL
    if x > 0:
        TOTAL = x  # here
    return x


def a_raise(x):
    if x < 0:
        raise ValueError("negative")  # here
    return x


def a_try(x):
    try:
        if x > 0:  # here
            x = x * 2
    except ValueError:
        x = x * 3
    return x


def a_return_in_a_with(x):
    with dd.name_scope("inside"):
        if x > 0:  # here
            return x
    return -x


def an_array_as_a_condition(xs):
    if xs > 0:  # here
        return xs
    return -xs


def an_array_in_and(xs):
    if xs > 0 and xs < 5:  # here
        return xs
    return -xs


def an_array_in_a_chain(xs):
    return xs if 0 < xs < 1 else -xs  # here


def values_of_and(x):
    y = x > 0 and "yes"  # here
    return y


def a_loop_over_a_scalar(x):
    for y in x:  # here
        x = y
    return x


def recursion_without_a_plain_end(n):
    if n <= 1:  # here
        return 1
    return n * recursion_without_a_plain_end(n - 1)


def an_iterator_without_end(x):
    for i in itertools.count():  # here
        if i > x:
            break
    return x


def a_generator(x):
    def parts():
        if x > 0:  # here
            yield x

    return next(parts())


def a_comprehension(xs):
    return [x for x in xs if x > 1]  # here


def a_mistake_in_a_branch_in_a_loop(x):
    y = dd.ones(3)
    if x > 0:
        while x > 1:
            y = y + dd.ones(2)  # here
            x = x - 1
    return y


CASES = [
    (
        variable_of_one_side,
        X,
        dd.TraceError,
        ["t may have no value", "line {line-2}", "test_pyflow_errors.py:{line-1}:9"],
    ),
    (variable_of_a_loop_that_may_not_run, X, dd.TraceError, ["t may have no value", "the loop", "t = ... before"]),
    (variable_of_a_range_that_may_not_run, COUNT, dd.TraceError, ["i may have no value", "may not run"]),
    (augmented_without_a_value, X, dd.TraceError, ["t may have no value"]),
    (deleted_on_one_side, X, dd.TraceError, ["y may have no value"]),
    (
        two_types,
        X,
        dd.ShapeError,
        ["y, z", "y  f32[] when true, i32[] when false", "z  f32[2] when true, f32[] when false", "astype"],
    ),
    (other_plain_values, X, dd.ShapeError, ["mode  'up' when true, 'down' when false"]),
    (other_structures, X, dd.ShapeError, ["y  {'a': f32[]} when true, [f32[]] when false"]),
    (
        two_returns,
        X,
        dd.ShapeError,
        ["returned value  f32[] when true, (f32[], f32[]) when false", "line {line+1}, {line+2}"],
    ),
    (no_return_on_one_side, X, dd.ShapeError, ["f32[] when true, None when false"]),
    (two_types_in_a_ternary, X, dd.ShapeError, ["its value  f32[] when true, f32[2] when false"]),
    (a_chain_of_types, X, dd.ShapeError, ["y  f32[2] when true, f32[] when false"]),
    (shape_from_turn_to_turn, X, dd.ShapeError, ["y  f32[2] before it, f32[4] after a turn", "turn to turn"]),
    (dtype_from_turn_to_turn, X, dd.ShapeError, ["n  i32[] before it, f32[] after a turn"]),
    (structure_from_turn_to_turn, V, dd.ShapeError, ["last  None before it, f32[] after a turn"]),
    (return_types_of_a_loop, V, dd.ShapeError, ["the returned value", "f32[3]"]),
    (an_attribute, X, dd.TraceError, ["holder.n", "value = holder.n before"]),
    (an_attribute_in_a_loop, V, dd.TraceError, ["holder.n"]),
    (an_item_of_a_dict, X, dd.TraceError, ["d['a']", "{**d, key: value}"]),
    (an_item_of_an_array, V, dd.ArgumentTypeError, ["do not change in place", "x.at[index].set"]),
    (a_list_that_grows, V, dd.TraceError, ["out is changed in place", "[*out, x]", "dd.scan or dd.map"]),
    (a_dict_that_changes, X, dd.TraceError, ["d is changed in place"]),
    (a_global, X, dd.TraceError, ["the global TOTAL"]),
    (a_raise, X, dd.TraceError, ["ValueError would be raised", "assert"]),
    (a_try, X, dd.TraceError, ["try statement", "x = dd.where(x > 0, x * 2, x)"]),
    (a_return_in_a_with, X, dd.TraceError, ["return under a traced condition inside a with"]),
    (an_array_as_a_condition, V, dd.TraceError, ["bool[3]", "dd.all(...) or dd.any(...)", "dd.where"]),
    (an_array_in_and, V, dd.TraceError, ["bool[3]"]),
    (an_array_in_a_chain, V, dd.TraceError, ["bool[3]"]),
    (values_of_and, X, dd.TraceError, ["`x and y`", "'yes'"]),
    (a_loop_over_a_scalar, X, dd.ArgumentTypeError, ["f32[]", "no axis"]),
    (recursion_without_a_plain_end, COUNT, dd.TraceError, ["calls itself without end", "while loop"]),
    (an_iterator_without_end, X, dd.TraceError, ["more than 1000 turns"]),
    (a_generator, X, dd.TraceError, ["is a generator", "dd.cond(x > 0"]),
    (a_comprehension, V, dd.TraceError, ["how long a list is", "dd.where(x > 1, x, 0)"]),
    (a_mistake_in_a_branch_in_a_loop, X, dd.ShapeError, ["do not broadcast", "f32[3]", "f32[2]"]),
]


@pytest.mark.parametrize(("f", "x", "kind", "says"), CASES, ids=[c[0].__name__ for c in CASES])
def test_what_cannot_be_followed_is_refused_at_the_line(f, x, kind, says):
    lines, first = inspect.getsourcelines(f)
    line = next(i for i, text in enumerate(lines, first) if text.endswith("# here\n"))
    with pytest.raises(kind) as caught:
        dd.defn(f)(x)
    error = caught.value
    text = str(error)
    assert error.location.file == __file__
    assert error.location.line == line, text
    for said in says:
        for by in (-2, -1, 1, 2):
            said = said.replace(f"{{line{by:+}}}", str(line + by))
        assert said in text
    assert len(text.splitlines()) <= 14
    assert "_dala" not in text
    # The traceback has the user's frames alone.
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    assert not [file for file, _ in frames if "dala_defn/" in file]
    assert [at for file, at in frames if file == __file__ and first <= at < first + len(lines)]


def test_a_refused_trace_leaves_nothing_behind():
    held = []

    def f(x, out):
        y = 1.0
        if x > 0:
            out.append(x)
            y = 2.0
        return y

    with pytest.raises(dd.TraceError, match="out is changed in place"):
        dd.defn(lambda x: f(x, held))(X)
    assert held == []
    assert dd.defn(lambda x: x * 2)(X).item() == 4.0


def test_a_variable_of_the_outside_is_put_back_when_a_trace_fails():
    count = 0

    def f(x):
        nonlocal count
        count = 5
        if x > 0:
            count = count + x
            x = x + dd.ones((2, 2)) @ dd.ones(3)
        return x

    with pytest.raises(dd.ShapeError):
        dd.defn(f)(X)
    assert count == 5


def test_without_source_a_condition_is_refused_with_the_reason():
    names: dict = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x\n", names)
    with pytest.raises(dd.TraceError, match="source of f is not there") as caught:
        dd.defn(names["f"])(X)
    assert caught.value.location.line == 2
    assert names["f"](2.0) == 2.0


def test_without_rewriting_a_condition_is_refused_with_the_reason():
    def f(x):
        if x > 0:
            y = x * 2
        else:
            y = x * 3
        return y

    with pytest.raises(dd.TraceError, match="rewrite=False") as caught:
        dd.defn(f, rewrite=False)(X)
    assert "y = dd.where(x > 0, x * 2, x * 3)" in str(caught.value)
    assert dd.defn(f)(X).item() == 4.0


def test_source_that_has_changed_since_is_not_taken_for_that_of_the_function(tmp_path, monkeypatch):
    file = tmp_path / "changing_flow.py"
    file.write_text(textwrap.dedent("def f(x):\n    if x > 0:\n        return x * 2\n    return x\n"))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("changing_flow")
    file.write_text(textwrap.dedent("def f(x):\n    if x > 0:\n        return x * 5\n    return x * 7\n"))
    linecache.checkcache(str(file))
    with pytest.raises(dd.TraceError, match="changed since it was imported"):
        dd.defn(module.f)(X)
    del sys.modules["changing_flow"]
