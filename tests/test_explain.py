"""Why a function was traced: ``f.explain()``, ``max_traces`` and ``dd.cache_info()``."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import dala_defn as dd

X = np.array([1, 2, 3], np.float32)
FACTOR = [2.0]


def calls(f):
    f({"a": X}, k=1)
    f({"a": X[:2]}, k=1)
    f({"a": X.astype(np.float64)}, k=1)
    f({"a": X}, k=2)
    f({"a": X, "b": 1.0}, k=2)
    f({"a": X, "b": np.float32(1)}, k=2)
    FACTOR[0] = 3.0
    try:
        f({"a": X}, k=2)
    finally:
        FACTOR[0] = 2.0


def made():
    return dd.defn(lambda t, k: t["a"] * k * FACTOR[0] + t.get("b", 0.0), static_argnames="k")


def test_every_trace_is_listed_with_what_differed_from_the_closest():
    f = made()
    calls(f)
    found = f.explain()
    assert [r.number for r in found.traces] == [1, 2, 3, 4, 5, 6, 7]
    assert [r.closest for r in found.traces] == [None, 1, 1, 1, 4, 5, 4]
    assert [[(d.kind, d.path, d.old, d.new) for d in r.differences] for r in found.traces] == [
        [],
        [("shape", "t/a", "f32[3]", "f32[2]")],
        [("dtype", "t/a", "f32[3]", "f64[3]")],
        [("static", "k", "1", "2")],
        [("structure", "t/b", "nothing", "f32[]")],
        [("number", "t/b", "a Python number", "an array")],
        [("captured", "global FACTOR[0]", "2.0", "3.0")],
    ]
    assert all(r.advice for r in found.traces[1:])
    for r in found.traces:
        assert r.trace_ms > 0
        assert r.passes_ms > 0
        assert r.load_ms > 0
        assert r.nodes >= r.compiled_nodes > 0


def test_it_prints_as_a_table_and_is_data():
    f = made()
    calls(f)
    text = str(f.explain())
    assert text.splitlines()[0] == "lambda: 7 traces"
    assert "t/a: f32[3], k=1" in text
    assert "shape of t/a: f32[3] -> f32[2] (than trace 1)" in text
    assert "global FACTOR[0]: 2.0 -> 3.0 (than trace 4)" in text
    assert "try  f.compile(dd.spec" in text
    data = json.loads(json.dumps(f.explain().to_dict()))
    assert data["total"] == 7
    assert data["traces"][1]["differences"] == [{"kind": "shape", "path": "t/a", "old": "f32[3]", "new": "f32[2]"}]


def test_it_tells_what_a_call_would_do():
    f = dd.defn(lambda x: x * FACTOR[0])
    assert f.explain(X).call == "is traced: the first"
    f(X)
    assert f.explain(X).call == "runs the program of trace 1"
    assert f.explain(X[:2]).call == "is traced: shape of x: f32[3] -> f32[2]"
    assert f.explain(dd.spec((3,), dd.int8)).call == "is traced: dtype of x: f32[3] -> i8[3]"
    with dd.using("reference"):
        assert f.explain(X).call == "is traced: executor of the call: flex -> reference"
    FACTOR[0] = 5.0
    assert f.explain(X).call == "is traced: global FACTOR[0]: 2.0 -> 5.0"
    FACTOR[0] = 2.0
    assert f.traces == 1


def test_max_traces_raises_with_the_difference():
    f = dd.defn(lambda x: x + 1, max_traces=2)
    f(X)
    f(X[:2])
    for _ in range(2):
        with pytest.raises(dd.RetraceError, match=r"third|3\. time: shape of x: f32\[2\] -> f32\[1\]") as caught:
            f(X[:1])
    assert caught.value.details["differences"][0]["kind"] == "shape"
    assert "dd.spec" in caught.value.hint
    np.testing.assert_array_equal(np.asarray(f(X)), X + 1)
    f.compile(dd.spec(("b",)))  # what is asked for by name does not count

    class Holder:
        @dd.defn(max_traces=1)
        def g(self, x):
            return x + 1

    h = Holder()
    h.g(X)
    with pytest.raises(dd.RetraceError):
        h.g(X[:2])


def test_what_was_used_longest_ago_goes_first():
    f = dd.defn(lambda x: x + 1)
    first = np.zeros(1000, np.float32)
    f(first)
    for n in range(200):
        f(np.zeros(n, np.float32))
        f(first)  # by its prepared call
    assert f.traces == 201
    assert len(f._compiled) == 128
    assert sum(map(len, f._plans.values())) <= 128
    f(np.zeros(0, np.float32))
    assert f.traces == 202
    assert f.explain().total == 202
    assert len(f.explain().traces) <= 64


def test_caches_are_counted_and_go_with_the_function():
    gc.collect()
    before = dd.cache_info()
    f = dd.defn(lambda x: x + 1)
    for _ in range(3):
        f(X)
        f(X[:2])
    now = dd.cache_info()
    assert now.functions == before.functions + 1
    assert now.programs == before.programs + 2
    assert now.prepared == before.prepared + 2
    assert now.traces == before.traces + 2
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None
    assert dd.cache_info() == before


def test_it_shows_what_a_program_executes():
    def f(x, w):
        h = dd.tanh(x @ w) * 2 + 1
        y = dd.exp(h - dd.max(h, axis=1, keepdims=True))
        total, _ = dd.scan(lambda c, row: (c + dd.sort(row), row), dd.zeros((100,)), y)
        return total

    g = dd.defn(f)
    x, w = np.ones((64, 80), np.float32), np.ones((80, 100), np.float32)
    assert g.explain(x, w).execution is None
    g(x, w)
    explained = g.explain(x, w)
    rows = explained.execution.rows
    (dot,) = [r for r in rows if r.op == "dot_general"]
    assert dot.runs == "matrix product"
    assert dot.flops == 2 * 64 * 80 * 100
    assert dot.bytes == 4 * (64 * 80 + 80 * 100 + 64 * 100)
    assert dot.results == ("f32[64, 100]",)
    assert dot.line.startswith("test_explain.py:")
    fused = [r for r in rows if r.op == "fused" and r.depth == 0]
    assert [line.split()[0] for line in fused[0].fused] == ["tanh", "mul", "add", "max", "reshape", "sub", "exp"]
    assert all("test_explain.py:" in line for line in fused[0].fused)
    (loop,) = [r for r in rows if r.runs == "loop or branch"]
    assert loop.op == "scan"
    (sort,) = [r for r in rows if r.op == "sort"]
    assert (sort.runs, sort.depth) == ("host kernel", 1)
    assert explained.execution.flops >= dot.flops
    assert "matrix product" in str(explained)
    assert f"fused kernel {fused[0].key[:8]} (7 ops)" in str(explained)
    data = json.loads(json.dumps(explained.to_dict()))
    assert data["execution"]["kernels"] == explained.execution.kernels >= 1
    with dd.using("reference"):
        g(x, w)
        assert {r.runs for r in g.explain(x, w).execution.rows} == {"NumPy"}


def test_sizes_by_name_are_numbers_for_arguments_and_convolutions_are_burns():
    @dd.defn
    def f(x: dd.Float32["b 8 8 3"], w):  # noqa: F722
        return dd.conv(x, w)

    x, w = np.ones((2, 8, 8, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)
    f(x, w)
    (conv,) = [r for r in f.explain(x, w).execution.rows if r.op == "conv"]
    assert conv.runs == "Burn"
    assert conv.results == ("f32[2, 4, 6, 6]",)
    assert isinstance(conv.flops, int)
