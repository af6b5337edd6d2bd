"""Effects: what programs print, tap, check and call back, in order, in every transformation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_control import near

import dala_defn as dd


@pytest.fixture(params=("reference", "flex"), autouse=True)
def engine(request: pytest.FixtureRequest) -> Any:
    with dd.using(request.param):
        yield request.param


def lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().out.splitlines()


def test_prints_come_in_order_and_at_every_run(capfd: pytest.CaptureFixture[str]) -> None:
    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.print("first {} {{}}", x)
        y = dd.cond(x[0] > 0, lambda x: (dd.debug.print("positive"), x * 2)[1], lambda x: x, x)
        dd.debug.print("{1} {name} {0}", 1, 2, name=y)
        dd.scan(lambda c, i: (dd.debug.print("step {}", i), (c, None))[1], 0, dd.arange(3))
        return y * 3

    f(dd.array([1.0, 2.0]))
    assert lines(capfd) == ["first [1. 2.] {}", "positive", "2 [2. 4.] 1", "step 0", "step 1", "step 2"]
    f(dd.array([-1.0, 2.0]))
    assert lines(capfd)[:2] == ["first [-1.  2.] {}", "2 [-1.  2.] 1"]
    assert f.traces == 1
    dd.debug.print("{}", dd.array([1, 2]))
    assert lines(capfd) == ["[1 2]"]


def test_prints_survive_derivatives_and_batching(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        dd.debug.print("x {}", x)
        return dd.sin(x)

    dd.grad(f)(dd.array(1.0))
    assert lines(capfd) == ["x 1."]
    dd.vmap(f)(dd.array([1.0, 2.0]))
    assert lines(capfd) == ["x [1. 2.]"]
    dd.grad(lambda x: dd.scan(lambda c, _: (f(c), None), x, length=2)[0])(dd.array(0.0))
    assert lines(capfd) == ["x 0.", "x 0."]


def test_templates() -> None:
    for bad in ("{} {}", "{name}", "{", "{:.3f}"):
        with pytest.raises(dd.ArgumentError):
            dd.debug.print(bad, 1)


def test_taps_are_collected() -> None:
    @dd.defn
    def f(p: Any) -> Any:
        p = dd.debug.tap("p", p)
        return dd.scan(lambda c, x: (dd.debug.tap("c", c + x), None), 0.0, p["a"])[0]

    p = {"a": dd.array([1.0, 2.0]), "b": dd.array(3)}
    f(p)
    with dd.debug.taps() as found:
        f(p)
    assert [x.tolist() for x in found["c"]] == [1, 3]
    near(found["p/a"][0], [1, 2])
    assert found["p/b"][0].dtype == np.int32


def test_a_check_fails_with_its_line_and_values() -> None:
    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.check(dd.all(x > 0), "not positive: {}", x)
        return dd.sqrt(x)

    near(f(dd.array([4.0])), [2])
    with pytest.raises(dd.CheckFailed, match=r"not positive: \[ 4. -1.\]") as caught:
        f(dd.array([4.0, -1.0]))
    assert isinstance(caught.value, AssertionError)
    place = caught.value.location
    assert place is not None
    assert place.source_line().strip().startswith("dd.debug.check")
    near(f(dd.array([9.0])), [3])
    with pytest.raises(dd.CheckFailed):
        dd.vmap(lambda x: f(x[None]))(dd.array([1.0, -1.0]))
    with pytest.raises(dd.CheckFailed):
        dd.grad(lambda x: dd.sum(f(x)))(dd.array([-1.0]))
    with pytest.raises(dd.CheckFailed, match="wrong 3"):
        dd.debug.error_if(dd.array(True), "wrong {}", 3)
    with pytest.raises(dd.ArgumentTypeError, match="bool scalar"):
        dd.debug.check(dd.array([True]), "no")


def test_checks_are_exported(tmp_path: Path) -> None:
    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.check(x > 0, "x is {}", x)
        return x

    f.export(tmp_path / "f.dala", dd.spec((), dd.float32))
    loaded = dd.load(tmp_path / "f.dala")
    assert np.asarray(loaded(dd.array(2.0))) == 2
    with pytest.raises(dd.CheckFailed, match="x is -2"):
        loaded(dd.array(-2.0))


def test_callbacks() -> None:
    seen: list[Any] = []

    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.callback(lambda a, b: seen.append((a.tolist(), int(b))), x, 7)
        return dd.pure_callback(lambda a: a * 2 + 1, dd.spec((2,), dd.float32), x)

    near(f(dd.array([1.0, 2.0])), [3, 5])
    near(f(dd.array([0.0, 2.0])), [1, 5])
    assert seen == [([1, 2], 7), ([0, 2], 7)]
    near(dd.pure_callback(np.sin, dd.spec((), dd.float32), dd.array(1.0)), np.sin(np.float32(1)))
    two = dd.defn(lambda x: dd.pure_callback(lambda a: {"b": a, "a": a.sum()}, {"a": x[0], "b": x}, x))
    near(two(dd.array([1.0, 2.0]))["a"], 3)


def test_a_callback_that_fails_raises_what_it_raised() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("lost")

    f = dd.defn(lambda x: dd.pure_callback(broken, x, x))
    with pytest.raises(KeyError, match="lost"):
        f(dd.array(1.0))
    wrong = dd.defn(lambda x: dd.pure_callback(lambda a: np.zeros(3, np.float32), x, x))
    with pytest.raises(dd.DalaError, match="shape"):
        wrong(dd.array(1.0))
    assert dd.defn(lambda x: x + 1)(dd.array(1.0)).item() == 2


def test_callbacks_are_not_exported(tmp_path: Path) -> None:
    f = dd.defn(lambda x: dd.pure_callback(np.sin, x, x))
    with pytest.raises(dd.DalaError, match="sin"):
        f.export(tmp_path / "f.dala", dd.spec((), dd.float32))
    assert not (tmp_path / "f.dala").exists()
    with pytest.raises(dd.DalaError, match="cannot be batched"):
        dd.vmap(f)(dd.array([1.0]))


def test_a_run_that_takes_too_long_is_stopped() -> None:
    forever = dd.defn(lambda x: dd.while_loop(lambda x: x >= 0, lambda x: (x + 1) % 7, x))
    with pytest.raises(dd.TimeLimitExceeded, match=r"0\.2 seconds"), dd.time_limit(0.2):
        forever(dd.array(3))
    with pytest.raises(TimeoutError), dd.time_limit(0.3), dd.time_limit(5):
        dd.scan(lambda c, x: (c + 1, None), 0, length=2**40)
    with dd.time_limit(20):
        assert dd.fori_loop(0, 10, lambda i, x: x + i, dd.array(0)).item() == 45
