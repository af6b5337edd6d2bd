"""The runtime asks this process: effects of compiled programs, errors of callbacks, interrupts."""

from __future__ import annotations

import signal
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dala_defn as dd
from dala_defn import hooks
from dala_defn.ops import effects

pytestmark = pytest.mark.skipif(dd.executor().name != "flex", reason="asks what the runtime does")


def test_effects_run_in_order_with_the_values_of_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    @dd.defn
    def f(xs: Any) -> Any:
        def step(total: Any, x: Any) -> tuple[Any, Any]:
            total = total + x
            dd.debug.print("{} then {{{}}}", x, total)
            dd.debug.tap("total", total)
            return total, total * 2

        return dd.scan(step, dd.array(0.0), xs)

    with dd.debug.taps() as found:
        total, ys = f(dd.array([1.0, 2.5, 3.0]))
    assert capsys.readouterr().out == "1. then {1.}\n2.5 then {3.5}\n3. then {6.5}\n"
    assert [float(x) for x in found["total"]] == [1.0, 3.5, 6.5]
    assert total.item() == 6.5
    assert ys.tolist() == [2.0, 7.0, 13.0]


def test_callbacks_see_every_dtype_and_strides_and_give_arrays_of_their_types() -> None:
    seen: list[Any] = []

    def outside(*values: Any) -> Any:
        seen[:] = values
        return np.array([[1, 2, 3]], np.int8), np.array([True, False])

    result = (dd.spec((1, 3), dd.int8), dd.spec((2,), dd.bool_))

    @dd.defn
    def f(x: Any, k: Any) -> Any:
        return dd.pure_callback(
            outside, result, x.T, x.astype(dd.bfloat16), x > 1, k, dd.zeros((0, 2)), x[0].astype(dd.float16)
        )

    x = dd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    a, b = f(x, dd.random.key(3))
    assert (a.dtype, a.tolist(), b.dtype, b.tolist()) == (dd.int8, [[1, 2, 3]], dd.bool_, [True, False])
    wide = np.asarray(x)
    assert seen[0].tolist() == wide.T.tolist()
    assert seen[1].dtype == ml_dtypes.bfloat16
    assert seen[1].tolist() == wide.tolist()
    assert seen[2].tolist() == (wide > 1).tolist()
    assert seen[3].shape == (2,)
    assert seen[4].shape == (0, 2)
    assert seen[5].dtype == np.float16


def test_what_a_callback_raises_comes_out_of_the_call() -> None:
    class Mine(Exception):
        pass

    def fails(x: Any) -> None:
        raise Mine("no")

    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.callback(fails, x)
        return x + 1

    with pytest.raises(Mine, match="no"):
        f(dd.array(1.0))
    wrong = dd.defn(lambda x: dd.pure_callback(lambda x: np.zeros(3, np.float32), dd.spec((2,), dd.float32), x))
    with pytest.raises(dd.ShapeError, match=r"shape \[3\]"):
        wrong(dd.array(1.0))


def test_a_failed_check_has_its_message_and_line() -> None:
    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.check(dd.all(x > 0), "{} is not positive", x)
        return x * 2

    assert f(dd.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    with pytest.raises(dd.CheckFailed, match=r"\[ 1\.  -2\.5\] is not positive") as caught:
        f(dd.array([1.0, -2.5]))
    assert "test_hooks.py" in str(caught.value)


def test_a_loop_without_end_stops_at_a_signal() -> None:
    forever = dd.defn(lambda x: dd.while_loop(lambda x: x > 0, lambda x: x * 1, x))
    signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        forever(dd.array(1.0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert forever(dd.array(-1.0)).item() == -1.0


def test_programs_with_effects_run_in_threads() -> None:
    @dd.defn
    def f(x: Any) -> Any:
        return dd.pure_callback(lambda x: x * 2, dd.spec((), dd.float32), x)

    results: dict[int, float] = {}

    def work(n: int) -> None:
        for i in range(20):
            results[100 * n + i] = f(dd.array(float(100 * n + i))).item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {100 * n + i: 2.0 * (100 * n + i) for n in range(3) for i in range(20)}


def test_a_handler_that_is_set_again_is_set_once() -> None:
    before = len(hooks._handlers)
    hooks.set_handler(effects.handle)
    assert len(hooks._handlers) == before


@pytest.mark.parametrize("value", [-1.5, 0.1, 1e-7, 123456789.0, float("nan")])
def test_messages_are_the_same_from_every_executor(value: float) -> None:
    @dd.defn
    def f(x: Any) -> Any:
        dd.debug.check(dd.sum(x) > 1e30, "{}, {}, {}", x, x[0], x > 0)
        return x

    x = np.array([value, 2.0, 30.25], np.float32)
    with pytest.raises(dd.CheckFailed) as caught:
        f(x)
    assert effects.fill("{0}, {1}, {2}", [x, x[0], x > 0]) in str(caught.value)
