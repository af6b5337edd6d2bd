"""What crosses into the runtime: how many calls, whose memory, from which thread, and what happens when it fails."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import bridge
from dala_defn.executors.burn import BurnExecutor

ROOT = Path(__file__).resolve().parents[1]


def calls(f, *args):
    """How many calls into the runtime ``f`` makes, and what it gives."""
    before = bridge.call_count()
    out = f(*args)
    return bridge.call_count() - before, out


@dd.defn
def affine(x):
    return x * 2.0 + 1.0


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


# Donation


@dd.defn(donate_argnames="state")
def advance(state, x):
    return state + x


def device(*shape):
    """An array whose numbers are the runtime's."""
    return dd.zeros(shape) + np.float32(1)


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def test_a_donated_array_is_gone_and_says_so():
    state = device(4)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    for use in (
        np.asarray,
        lambda s: s + 1,
        lambda s: s.tolist(),
        repr,
        lambda s: affine(s),
        lambda s: advance(s, 1.0),
    ):
        with pytest.raises(dd.DonatedError, match="donated"):
            use(state)
    assert state.shape == (4,)


def test_donated_storage_is_used_again():
    state = device(1000)
    where = address(state)
    gc.collect()
    out = advance(state, np.float32(1))
    assert address(out) == where


def test_a_shared_handle_is_copied():
    state = device(4)
    other = bridge.share(state)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert np.asarray(other).tolist() == [1] * 4


def test_a_live_view_keeps_the_array():
    state = device(4)
    view = np.asarray(state)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert view.tolist() == [1] * 4
    assert np.asarray(state).tolist() == [1] * 4  # it was copied, so it was not given away


def test_a_view_of_a_view_keeps_the_array():
    state = device(4)
    part = np.asarray(state)[1:3]
    gc.collect()
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert part.tolist() == [1, 1]


def test_one_array_given_twice_is_no_reason_for_a_wrong_result():
    state = device(4)
    out = advance(state, state)
    assert np.asarray(out).tolist() == [2] * 4


@dd.defn(donate_argnames="state")
def look(state, i):
    return state * 2, dd.take(state, i)


def test_a_failed_run_leaves_donated_arrays():
    state = device(4)
    look(device(4), np.int32(1))
    with pytest.raises(dd.IndexOutOfRange):
        look(state, np.int32(9))
    assert np.asarray(state).tolist() == [1] * 4
    doubled, _ = look(state, np.int32(3))
    assert np.asarray(doubled).tolist() == [2] * 4


def test_numpy_arrays_are_never_written_to():
    state = np.ones(1000, np.float32)
    assert np.asarray(advance(state, np.float32(1)))[0] == 2
    assert (state == 1).all()


# Aliasing (ffi-01, ffi-02)


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_an_array_does_not_share_the_memory_of_its_source(n):
    x = np.arange(n, dtype=np.float32)
    t = dd.array(x)
    x[3] = -7
    assert np.asarray(t)[3] == 3


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_results_never_share_the_memory_of_what_was_borrowed(n):
    x = np.arange(n, dtype=np.float32).reshape(2, -1)
    same = dd.defn(
        lambda x: (x, x.reshape(-1), x.T, x[:, 1:], dd.flip(x, 0), x.astype(dd.float32), dd.stop_gradient(x))
    )
    for _ in range(2):
        outs = same(x)
        before = [np.array(np.asarray(y)) for y in outs]
        for y in outs:
            assert not np.shares_memory(np.asarray(y), x)
        x[0, 1] -= 100
        for y, was in zip(outs, before, strict=True):
            assert (np.asarray(y) == was).all()


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_a_result_as_numpy_is_read_only_and_outlives_its_array(n):
    y = affine(np.arange(n, dtype=np.float32))
    view = np.asarray(y)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    for _ in range(5):
        affine(np.full(n, 9, np.float32))
    assert view[0] == 1
    assert view[n - 1] == 2 * (n - 1) + 1


STRIDED = {
    "transposed": np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2).transpose(0, 2, 3, 1),
    "every second": np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2],
    "backwards": np.arange(12, dtype=np.float32)[::-1],
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "broadcast": np.broadcast_to(np.float32(3), (2, 3)),
    "rank 0": np.array(5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "swapped": np.arange(6, dtype=">f4"),
    "unaligned": np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.float32, offset=1),
}


@pytest.mark.parametrize("name", STRIDED)
def test_whatever_the_strides_the_numbers_are_right(name):
    x = STRIDED[name]
    x.flags.writeable = False
    want = np.array(x, np.float32)
    for y in (dd.array(x), dd.defn(lambda x: x)(x), dd.defn(lambda x: x)(dd.array(x))):
        assert y.shape == x.shape
        np.testing.assert_array_equal(np.asarray(y), want)
    np.testing.assert_array_equal(np.asarray(affine(x)), want * 2 + 1)
    np.testing.assert_array_equal(np.asarray(x), want)


# Threads and processes (ffi-04)


def test_four_threads_get_their_own_results():
    other = dd.defn(lambda x, y: (x @ y, x.sum()))
    wrong: list[object] = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for i in range(60):
            x = rng.normal(size=(3 + i % 4, 3 + i % 4)).astype(np.float32)
            y, (z, s) = affine(x), other(x, x)
            if not (np.allclose(np.asarray(y), x * 2 + 1) and np.allclose(np.asarray(z), x @ x, atol=1e-4)):
                wrong.append((seed, i))
            if abs(s.item() - x.sum()) > 1e-3:
                wrong.append((seed, i, "sum"))

    run_threads([lambda s=s: work(s) for s in range(4)], wrong)
    assert wrong == []


def test_four_threads_trace_one_function_once():
    f = dd.defn(lambda x: dd.tanh(x) + 1)
    barrier = threading.Barrier(4)
    wrong: list[object] = []

    def work():
        barrier.wait()
        for _ in range(50):
            f(np.ones(5, np.float32))

    run_threads([work] * 4, wrong)
    assert wrong == []
    assert f.traces == 1


def run_threads(jobs, wrong):
    def guarded(job):
        try:
            job()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def test_another_thread_runs_during_a_long_call():
    @dd.defn
    def slow(x):
        for _ in range(12):
            x = dd.sin(x @ x)
        return x

    x = dd.ones((600, 600)) * np.float32(0.01)
    slow(x)
    ticks = []
    done = threading.Event()

    def count():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    slow(x)
    end = time.perf_counter()
    done.set()
    thread.join()
    inside = [t for t in ticks if start + 0.2 * (end - start) < t < start + 0.8 * (end - start)]
    assert end - start > 0.005, "the call was too short to tell"
    assert len(inside) > 10


def _in_child(queue):
    try:
        queue.put(np.asarray(affine(np.ones(3, np.float32))).tolist())
    except dd.DalaError as error:
        queue.put(str(error.reason))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_gets_the_value_or_an_error_at_once():
    affine(np.ones(3, np.float32))
    big = dd.defn(lambda x: x @ x)
    big(np.ones((300, 300), np.float32))  # the pool of threads is up
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(20)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive, "the child hangs"
    found = queue.get()
    assert found == [3, 3, 3] or "fork" in found
    assert np.asarray(affine(np.ones(3, np.float32))).tolist() == [3, 3, 3]


def test_the_end_of_the_process_does_not_wait_for_a_thread():
    code = (
        "import threading, time, numpy as np, dala_defn as dd\n"
        "f = dd.defn(lambda x: dd.sin(x @ x))\n"
        "x = np.ones((200, 200), np.float32)\n"
        "f(x)\n"
        "def go():\n"
        "    while True: f(x)\n"
        "threading.Thread(target=go, daemon=True).start()\n"
        "time.sleep(0.2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Failure


@pytest.fixture
def faulty(monkeypatch):
    """An executor in which every ``tanh`` panics."""
    executors = sys.modules["dala_defn.executors"]._executors
    monkeypatch.setitem(executors, "flex", BurnExecutor("flex", {"fault": "panic:tanh"}))


def test_a_panic_is_an_exception_and_the_process_goes_on(faulty, capfd):
    f = dd.defn(lambda x: dd.tanh(x) + 1)
    for _ in range(3):
        with pytest.raises(dd.EnginePanic, match="injected fault in tanh") as caught:
            f(np.ones(3, np.float32))
        assert caught.value.op == "tanh"
        assert caught.value.location.file == __file__
    with pytest.raises(dd.EnginePanic):
        dd.tanh(dd.ones(3))
    assert np.asarray(dd.defn(lambda x: x + 1)(np.ones(3, np.float32))).tolist() == [2, 2, 2]
    assert capfd.readouterr() == ("", "")


def test_a_panic_leaves_donated_arrays(faulty):
    f = dd.defn(lambda s: (s * 2, dd.tanh(s)), donate_argnames="s")
    state = device(4)
    with pytest.raises(dd.EnginePanic):
        f(state)
    assert np.asarray(state).tolist() == [1] * 4


def test_a_panic_in_another_thread_reaches_that_thread_only(faulty):
    f, g = dd.defn(lambda x: dd.tanh(x)), dd.defn(lambda x: x * 3)
    wrong: list[object] = []

    def panics():
        for _ in range(50):
            with pytest.raises(dd.EnginePanic):
                f(np.ones(2, np.float32))

    def works():
        for _ in range(50):
            if np.asarray(g(np.ones(2, np.float32))).tolist() != [3, 3]:
                wrong.append("value")

    run_threads([panics, works, panics, works], wrong)
    assert wrong == []


def test_errors_do_not_leak_or_poison():
    f = dd.defn(lambda x, i: dd.take(x, i))
    x = np.arange(4, dtype=np.float32)
    for i in range(200):
        if i % 2:
            assert f(x, np.int32(2)).item() == 2
        else:
            with pytest.raises(IndexError):
                f(x, np.int32(7))


def rss() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_memory_does_not_grow_over_many_calls():
    f = dd.defn(lambda x, y: (x + y, {"a": x * y}))
    x, y = np.ones(256, np.float32), dd.ones(256)

    def some(n):
        for _ in range(n):
            out = f(x, y)
            np.asarray(out[0])
            x + out[1]["a"]
        gc.collect()

    some(2000)
    before = rss()
    some(20_000)
    assert rss() - before < 8 << 20


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


def test_a_bfloat16_view_keeps_the_array():
    state = device(4).astype(dd.bfloat16)
    part = np.asarray(state)[1:3]
    gc.collect()
    dd.defn(lambda s: s + 1, donate_argnames="s")(state)
    assert part.tolist() == [1, 1]
    assert np.asarray(state).tolist() == [1] * 4


# Interrupts and failures while tracing


def clean():
    """Whether nothing of a trace is left in this thread, and functions work."""
    from dala_defn.ops import current_trace

    assert current_trace() is None
    assert np.asarray(dd.defn(lambda x: dd.grad(lambda z: dd.sum(z * z))(x) + 1)(V)).tolist() == (2 * V + 1).tolist()
    assert (dd.array(V) + 1).tolist() == (V + 1).tolist()
    assert gc.isenabled()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RecursionError, SystemExit])
@pytest.mark.parametrize("where", ["function", "grad", "vmap", "defn", "composite", "scope"])
def test_a_trace_that_fails_leaves_nothing_behind(error, where):
    state = {"fails": True}

    def inner(x):
        y = x * 2
        if state["fails"]:
            raise error
        return y

    with_scope = dd.name_scope("layer")
    forms = {
        "function": inner,
        "grad": dd.grad(lambda x: dd.sum(inner(x))),
        "vmap": dd.vmap(inner),
        "defn": dd.defn(inner),
        "composite": dd.composite("inner")(inner),
        "scope": with_scope(inner),
    }
    f = dd.defn(lambda x: forms[where](x))
    for _ in range(2):
        with pytest.raises(error):
            f(V)
        clean()
    state["fails"] = False
    want = np.full(4, 2.0) if where == "grad" else V * 2
    np.testing.assert_array_equal(np.asarray(f(V)), want)


@pytest.fixture
def interruptible():
    """SIGINT raises, as in a terminal: a process in the background is started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Python drops an interrupt that comes while it runs a __del__.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_leaves_the_process_usable(interruptible):
    f = dd.defn(lambda s, x: (s + x, dd.tanh(s) * x), donate_argnames="s")

    def fresh():
        return dd.defn(lambda x: dd.sum(dd.tanh(x * 2) + x))

    main = threading.get_ident()
    caught = 0
    for i in range(60):
        timer = threading.Timer(0.0005 * (i % 12), lambda: signal.pthread_kill(main, signal.SIGINT))
        try:
            timer.start()
            for _ in range(40):
                f(device(4), np.float32(1))
            g = fresh()
            for _ in range(5):
                g(V)
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            caught += 1
            timer.join()
    assert caught > 10
    clean()
    assert np.asarray(f(device(4), np.float32(1))[0]).tolist() == [2] * 4


def test_threads_trace_and_run_different_functions():
    wrong: list[object] = []
    shared = dd.defn(lambda x, k: dd.sum(x * k), static_argnames="k")

    def work(seed):
        for i in range(15):
            own = dd.defn(lambda x, i=float(i): dd.vmap(dd.grad(lambda z: dd.sin(z) * seed))(x) + i)
            x = np.linspace(0, 1, 3 + i % 3, dtype=np.float32)
            if not np.allclose(np.asarray(own(x)), np.cos(x) * seed + i, atol=1e-5):
                wrong.append((seed, i))
            if abs(shared(x, i % 4).item() - x.sum() * (i % 4)) > 1e-4:
                wrong.append((seed, i, "shared"))
            if (dd.array(x) + 1).tolist() != (x + 1).tolist():
                wrong.append((seed, i, "eager"))

    run_threads([lambda s=s: work(s) for s in range(1, 5)], wrong)
    assert wrong == []
    assert shared.traces == 12
