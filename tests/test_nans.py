"""``debug_nans``: the op that made the NaN is found in one run, by the line of the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dala_defn as dd


@pytest.fixture(params=["reference", "flex"])
def engine(request: Any) -> Any:
    with dd.using(request.param):
        yield request.param


def line_of(text: str) -> int:
    with open(__file__) as f:
        return next(n for n, row in enumerate(f, 1) if row.rstrip().endswith(f"# {text}"))


def caught(f: Any, *args: Any, infs: bool = False) -> dd.NotFiniteError:
    with dd.debug_nans(infs=infs), pytest.raises(dd.NotFiniteError) as found:
        f(*args)
    assert isinstance(found.value, FloatingPointError)
    assert len(str(found.value).split("\n")) <= 14
    assert found.value.location is not None
    assert found.value.location.file == __file__
    return found.value


def f(x: Any) -> Any:
    masked = dd.where(x > 0, dd.log(x), 0)
    y = dd.sqrt(x - 3)  # bad sqrt
    return dd.sum(masked) + dd.sum(y * 2)


X = np.array([1.0, -2.0, 3.0], np.float32)


def test_the_first_bad_op_is_named_with_its_operands(engine: str) -> None:
    g = dd.defn(f)
    for _ in range(3):  # the prepared call included
        error = caught(g, X)
        assert (error.op, error.location.line) == ("sqrt", line_of("bad sqrt"))
        assert "sqrt gives 2 NaN of 3 elements" in str(error)
        assert "[-2. -5.  0.]  sub(…) made at test_nans.py" in str(error)
    assert g.traces == 1
    with dd.debug_nans():
        assert np.isfinite(g(np.full(3, 4.0, np.float32)).item())  # the masked NaN is none
    assert np.isnan(g(X).item())


def test_a_nan_that_reaches_no_result_is_none(engine: str) -> None:
    with dd.debug_nans():
        y = dd.defn(lambda x: dd.where(x > 0, dd.log(x), 0))(X)
    assert np.isfinite(np.asarray(y)).all()


def test_a_nan_that_was_given_is_named(engine: str) -> None:
    text = str(caught(dd.defn(f), np.array([5, np.nan], np.float32)))
    assert "argument x has 1 NaN of 2 elements" in text
    held = dd.array([np.nan])
    assert "an array from outside the function has NaN" in str(caught(dd.defn(lambda x: x + held), 1.0))


def test_a_gradient_names_the_line_that_it_is_of(engine: str) -> None:
    def loss(x: Any) -> Any:
        return dd.sum(dd.abs(x) ** 0.5 / x)  # bad division

    for h in (dd.grad(loss), dd.defn(dd.grad(loss)), dd.vmap(dd.grad(loss)), lambda x: dd.jvp(loss, (x,), (x,))):
        error = caught(h, np.array([[0.0, 1.0]], np.float32))
        assert error.location.line == line_of("bad division")

    def clean(x: Any) -> Any:
        y = dd.exp(x) * 0.0  # bad backward
        return dd.sum(dd.where(y == 0, 1.0, 1.0) * dd.sqrt(y * x))

    error = caught(dd.grad(clean), np.array([100.0], np.float32), infs=True)
    assert error.location.line in (line_of("bad backward"), line_of("bad backward") + 1)


def test_inside_loops_and_branches(engine: str) -> None:
    def loop(x: Any) -> Any:
        return dd.scan(lambda c, r: (c + dd.log(r), c), 0.0, x)[0]  # bad in scan

    def branch(x: Any) -> Any:
        return dd.cond(x[0] > 0, lambda x: dd.sqrt(x), lambda x: x, x)  # bad in cond

    def steps(x: Any) -> Any:
        return dd.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, dd.arcsin(c[1])), (0, x))[1]  # bad in while

    for g, op, name in ((loop, "log", "scan"), (branch, "sqrt", "cond"), (steps, "asin", "while")):
        error = caught(dd.defn(g), X)
        assert error.location.line == line_of(f"bad in {name}")
        assert error.op in (op, f"arc{op[1:]}", "arcsin")
    error = caught(dd.value_and_grad(loop), np.array([1.0, -1.0], np.float32))
    assert error.location.line == line_of("bad in scan")
    with dd.debug_nans():
        dd.defn(branch)(np.array([-1.0, -1.0], np.float32))


def test_single_ops_are_watched_too(engine: str) -> None:
    error = caught(lambda: dd.log(dd.array(-1.0)))  # bad alone
    assert error.location.line == line_of("bad alone")
    assert "log gives NaN" in str(error)
    assert "-1." in str(error)
    with dd.debug_nans():
        dd.log(dd.array([np.nan]))  # it was there before
        dd.random.key(0)


def test_infinities_when_asked_for(engine: str) -> None:
    g = dd.defn(lambda x: 1 / x)
    with dd.debug_nans():
        g(0.0)
    assert "div gives inf" in str(caught(g, 0.0, infs=True))
    assert "log gives -inf" in str(caught(lambda: dd.log(dd.array(0.0)), infs=True))
    g(0.0)


def test_composites_complex_numbers_and_keys(engine: str) -> None:
    assert "2 elements" in str(caught(dd.defn(dd.nn.softmax), np.array([np.inf, 1.0], np.float32)))
    error = caught(dd.defn(lambda x: dd.log(x) * 0 + x), np.array([0 + 0j, 1], np.complex64))
    assert error.location.line
    with dd.debug_nans():
        dd.defn(lambda k: dd.random.normal(k, (3,)))(dd.random.key(1))


def test_summaries() -> None:
    from dala_defn.nans import summary

    assert summary(np.zeros((0, 2))) == "empty"
    assert summary(np.array([1.0, np.nan] * 5)) == "1 to 1, 5 NaN"
    assert summary(np.arange(10.0)) == "0 to 9"
    assert summary(np.array(-1.5)) == "-1.5"
