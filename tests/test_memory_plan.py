"""Plans of memory: what is predicted is what is held; budgets; and that memory is used again."""

from __future__ import annotations

import gc
import itertools
import json
import resource

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import native_memory

F = np.float32


def given(*shape, seed=0):
    """An array that stays in the runtime."""
    x = np.random.default_rng(seed).normal(size=shape).astype(F)
    return dd.array(x) + F(0)


def held(f, *args):
    """Bytes that a call holds at the most beyond what is there before it.

    The least of a few calls: a thread takes a workspace for products, once, in the first run in which it has part.
    """
    f(*args)
    f(*args)
    return min(_held_once(f, *args) for _ in range(3))


def _held_once(f, *args):
    gc.collect()
    native_memory.memory_stats(restart=True)
    dd.zeros(()) + F(1)  # lets go of what was freed
    before, _ = native_memory.memory_stats(restart=True)
    out = f(*args)
    _, most = native_memory.memory_stats()
    del out
    return most - before


def agrees(f, *args):
    """Holds a prediction against what is counted, and gives both."""
    plan = f.memory_plan(*args)
    beyond = plan.peak - plan.arguments - plan.constants
    counted = held(f, *args)
    assert abs(beyond - counted) <= 0.05 * counted + 256, f"{counted} bytes were held\n{plan}"
    assert plan.temporaries + plan.results >= beyond
    return plan, counted


def chain(x, y):
    z = dd.exp(x * y) + x
    return dd.tanh(z) * dd.sum(z, axis=0) + y


def mlp(params, x, y):
    h = x
    for w, b in params[:-1]:
        h = dd.nn.relu(h @ w + b)
    w, b = params[-1]
    return dd.mean((h @ w + b - y) ** 2)


def train(params, x, y):
    loss, grads = dd.value_and_grad(mlp)(params, x, y)
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, grads, strict=True)], loss


def parameters():
    sizes = [100, 200, 150, 10]
    return [(given(a, b), given(b)) for a, b in itertools.pairwise(sizes)]


def deep(x):
    for _ in range(6):
        x = dd.sin(x) * x + dd.cos(x)
        x = x @ dd.ones((64, 64)) / 64
    return dd.sum(x)


def block(x):
    for _ in range(3):
        x = dd.sin(x) * x
    return x


def checkpointed(x):
    for _ in range(4):
        x = dd.checkpoint(block)(x)
    return dd.sum(x)


def straight(x):
    for _ in range(4):
        x = block(x)
    return dd.sum(x)


def looped(x, w):
    def step(h, row):
        h = dd.tanh(h @ w + row)
        return h, h * 2

    return dd.scan(step, dd.zeros((64, 64)), x)


def turned(x):
    y = dd.transpose(x, (1, 0))
    return dd.reshape(y, (-1,)) + 1, dd.flip(y, 0)[::2] * 2


def sorted_parts(x):
    return dd.sort(x, axis=0), dd.take(x, dd.argsort(x[:, 0]), axis=0), dd.concatenate([x, x * 2], axis=1)


CASES = {
    "chain": (chain, lambda: (given(300, 200), given(300, 200, seed=1))),
    "mlp": (train, lambda: (parameters(), given(64, 100), given(64, 10))),
    "deep gradient": (dd.grad(deep), lambda: (given(256, 64),)),
    "gradient": (dd.grad(straight), lambda: (given(200, 300),)),
    "gradient with checkpoints": (dd.grad(checkpointed), lambda: (given(200, 300),)),
    "scan": (looped, lambda: (given(20, 64, 64), given(64, 64, seed=1))),
    "gradient of a scan": (
        dd.grad(lambda x, w: dd.sum(looped(x, w)[1])),
        lambda: (given(20, 64, 64), given(64, 64, seed=1)),
    ),
    "movement": (turned, lambda: (given(300, 400),)),
    "sorting": (sorted_parts, lambda: (given(400, 50),)),
    "half floats": (lambda x: dd.sum(dd.exp(x), axis=0), lambda: (given(300, 400).astype(dd.float16),)),
    "matrices": (
        lambda x, y: dd.einsum("bij,bkj->bik", x, y) * 2,
        lambda: (given(8, 128, 16), given(8, 128, 16, seed=1)),
    ),
}


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_predicted_is_held(name, fuse, monkeypatch):
    f, make = CASES[name]
    monkeypatch.setattr(dd.executor("flex"), "fuse", fuse)
    agrees(dd.defn(f), *make())


def test_checkpoints_and_fusion_show_in_it(monkeypatch):
    x = given(200, 300)
    monkeypatch.setattr(dd.executor("flex"), "fuse", False)
    plain, saving = (dd.defn(dd.grad(f)).memory_plan(x).peak for f in (straight, checkpointed))
    assert saving < 0.8 * plain
    wide = lambda x: dd.exp(x) + dd.sin(x) + dd.cos(x)  # noqa: E731
    loose = dd.defn(wide).memory_plan(x).peak
    monkeypatch.setattr(dd.executor("flex"), "fuse", True)
    assert dd.defn(wide).memory_plan(x).peak < loose


def test_donation_shows_in_it():
    x = given(1000, 100)
    keeps = dd.defn(lambda x: x * 2 + 1)
    gives = dd.defn(lambda x: x * 2 + 1, donate_argnames="x")
    assert keeps.memory_plan(x).peak == 2 * x.nbytes
    assert gives.memory_plan(x).peak == x.nbytes
    gc.collect()
    gives(given(1000, 100))
    native_memory.memory_stats(restart=True)
    before, _ = native_memory.memory_stats(restart=True)
    out = gives(x)
    assert native_memory.memory_stats()[1] - before < x.nbytes // 100
    del out


def test_it_names_the_largest_buffers_by_their_lines():
    @dd.defn
    def f(x, y):
        wide = dd.exp(x) @ y
        return dd.sum(wide, axis=1)

    plan = f.memory_plan(dd.spec((500, 20)), dd.spec((20, 700)))
    assert plan.buffers[0].bytes == 500 * 700 * 4
    assert (plan.buffers[0].role, plan.buffers[0].name) == ("value", "dot_general")
    assert plan.buffers[0].type == "f32[500, 700]"
    assert plan.buffers[0].place.source_line().strip().startswith("wide = ")
    assert plan.buffers[0].place.file == __file__
    assert plan.arguments == (500 * 20 + 20 * 700) * 4
    assert plan.results == 500 * 4
    assert plan.peak >= plan.arguments + plan.results
    text = str(plan)
    assert text.splitlines()[0].startswith("f: ")
    assert "test_memory_plan.py" in text
    assert "1,400,000" in text
    data = json.loads(plan.to_json())
    assert data["peak"] == plan.peak
    assert data["buffers"][0]["place"]["line"] == plan.buffers[0].place.line
    assert f.traces == 1


def test_sizes_must_be_known():
    f = dd.defn(lambda x: x * 2)
    with pytest.raises(dd.ArgumentError, match="depends on its size"):
        f.memory_plan(dd.spec(("b", 3)))
    compiled = f.compile(dd.spec(("b", 1000)))
    plan = compiled.memory_plan(dd.spec((5, 1000)))
    assert plan.peak - plan.constants == 2 * 5 * 4000
    with pytest.raises(dd.ArgumentError, match="depends on its size"):
        compiled.memory_plan()


def test_files_have_one_too(tmp_path):
    f = dd.defn(lambda x: dd.exp(x) + x)
    f.export(tmp_path / "f.dala", dd.spec(("b", 1000)))
    entry = dd.load(tmp_path / "f.dala").default
    assert entry.memory_plan(given(7, 1000)).peak == 2 * 7 * 4000
    assert entry.memory_plan(dd.spec((7, 1000))).results == 7 * 4000


def test_a_run_beyond_the_budget_is_refused_before_it_starts():
    @dd.defn(memory_limit=100_000)
    def f(x):
        big = dd.exp(x)[:, None] * x
        return dd.sum(dd.sort(big, axis=0))

    assert np.isfinite(np.asarray(f(np.ones(10, F))))
    with pytest.raises(dd.OutOfMemory, match="the limit is 100000") as caught:
        f(np.ones(1000, F))
    assert caught.value.details["limit"] == 100_000
    assert caught.value.details["needed"] > 4_000_000
    assert any("test_memory_plan.py" in line and "4000000 bytes" in line for line in caught.value.details["largest"])
    assert np.isfinite(np.asarray(f(np.ones(20, F))))


def test_a_budget_for_what_a_thread_runs():
    f = dd.defn(lambda x: x + 1)
    x = given(1000)
    f(x)
    with dd.memory_limit(10**6):
        f(x)
        with dd.memory_limit(5000), pytest.raises(dd.OutOfMemory):
            f(x)
        with dd.memory_limit(10**9), pytest.raises(dd.OutOfMemory):
            dd.zeros((1000, 1000)) + 1
        f(x)
    f(x)
    for wrong in (-1, 1.5, True, "1 MB"):
        with pytest.raises((dd.ArgumentError, dd.ArgumentTypeError), match="memory limit"):  # noqa: SIM117
            with dd.memory_limit(wrong):
                pass
    with dd.using("reference"), dd.memory_limit(2000), pytest.raises(dd.OutOfMemory):
        f(np.ones(1000, F))


def test_a_donated_state_fits_where_a_kept_one_does_not():
    step = dd.defn(lambda s: s * 2 + 1, donate_argnames="s")
    s = step(given(1000, 10))
    with dd.memory_limit(int(1.5 * s.nbytes)):
        s = step(s)
        with pytest.raises(dd.OutOfMemory):
            dd.defn(lambda s: s * 2 + 1)(s)


def faults(f, *args, calls=20):
    """Page faults of some calls, after others have warmed up."""
    for _ in range(5):
        f(*args)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        f(*args)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_memory_is_used_again_without_page_faults(monkeypatch):
    monkeypatch.setattr(dd.executor("flex"), "fuse", False)
    f = dd.defn(lambda x: dd.sum(dd.tanh(dd.exp(x) * x) @ dd.ones((500, 500))))
    x = given(2000, 500)  # 4 MB, which is 1000 pages, for each value
    assert faults(f, x) < 100
    gc.collect()
    native_memory.trim_memory()
    assert faults(f, x) < 100


def resident():
    """Bytes of the process that are in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def grows(calls):
    f = dd.defn(lambda x, s: (dd.tanh(x) * s, dd.sum(x)))
    x = given(2000)
    values = [np.float32(i) for i in range(10)]
    for i in range(2000):
        f(x, values[i % 10])
    gc.collect()
    before = resident()
    for i in range(calls):
        f(x, values[i % 10])
    gc.collect()
    return resident() - before


def test_memory_does_not_grow():
    assert grows(5000) < 1 << 20


@pytest.mark.long
def test_memory_does_not_grow_over_many_calls():
    assert grows(100_000) < 1 << 20
