"""Fused programs in the runtime: the same bits as the kernels by themselves, in place, split, and beside primitives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import run_function
from strategies import array
from test_fuse import EAGER, fusible, same

import dala_defn as dd
from dala_defn import codegen
from dala_defn.executors.native import register_kernels
from dala_defn.ir import Graph, Value
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops.spec import OPS

Array = np.ndarray[Any, Any]


def loaded(graph: Graph) -> Any:
    """A graph with fused nodes in the runtime, its kernels registered."""
    register_kernels(graph)
    args = tuple([Arg(f"x{i}") for i in range(len(graph.inputs))])
    results = tuple([Result(str(i)) for i in range(len(graph.outputs))])
    return dd.executor("flex").engine.load(encode(Program((Entry("main", graph, args, results),))))


def by_hand(graph: Graph, args: list[Array]) -> list[Array]:
    """The outputs, each fused node by its kernel, all others by one call into the runtime."""
    env: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        operands = [env[v] for v in node.inputs]
        if node.op == "fused":
            a = node.attrs
            outs: Any = run_function(a["function"], a["space"], a["axes"], a["parallel"], operands)
        else:
            outs = OPS[node.op](*operands, **node.attrs)
            outs = [np.array(x) for x in (outs if isinstance(outs, tuple) else (outs,))]
        env.update(zip(node.outputs, outs, strict=True))
    return [env[v] for v in graph.outputs]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 25))
def test_programs_give_the_bits_of_their_kernels(seed: int, steps: int) -> None:
    graph = EAGER.run(fusible(seed, steps))
    args = [array(v.type.dtype, v.type.shape, seed + i) for i, v in enumerate(graph.inputs)]  # type: ignore[arg-type]
    want = by_hand(graph, args)
    program = loaded(graph)
    types = [v.type for v in graph.outputs]
    for donate in (False, True):
        held = [dd.executor("flex").place(a, v.type.dtype) for a, v in zip(args, graph.inputs, strict=True)]
        got = program.run(0, held, types, [donate] * len(args))
        for v, a, b in zip(graph.outputs, want, got, strict=True):
            assert same(a, np.asarray(b), v.type.dtype), f"donate {donate}: {v}\n{a}\n{np.asarray(b)}\n{graph}"


def test_several_results_take_over_donated_memory() -> None:
    @dd.defn(donate_argnames=("w", "m", "v"))
    def update(w: Any, m: Any, v: Any, g: Any) -> Any:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return w - 0.01 * m / (dd.sqrt(v) + 1e-8), m, v

    rng = np.random.default_rng(0)
    w, m, v, g = (rng.uniform(size=(300, 70)).astype(np.float32) for _ in range(4))
    state = [dd.array(a) + 0 for a in (w, m, v)]
    for _ in range(3):
        state = list(update(*state, g))
        m = np.float32(0.9) * m + np.float32(0.1) * g
        v = np.float32(0.999) * v + np.float32(0.001) * g * g
        w = w - np.float32(0.01) * m / (np.sqrt(v) + np.float32(1e-8))
    for got, want in zip(state, (w, m, v), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_large_arrays_are_split_and_stay_right() -> None:
    x = np.random.default_rng(1).normal(size=(1000, 333)).astype(np.float32)
    f = dd.defn(lambda x: dd.nn.softmax(x, axis=-1) * 2 + dd.tanh(x))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True) * 2 + np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(np.asarray(f(x)), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(f(x[::3, ::2])).shape, (334, 167))


def test_one_kernel_serves_every_size_and_is_compiled_once() -> None:
    f = dd.defn(lambda x: dd.exp(x) * x + dd.sqrt(dd.abs(x)) - x)
    f(np.ones(1000, np.float32))
    before = codegen.KERNELS.counts.compiled + codegen.KERNELS.counts.found
    for n in (1001, 5000, 70_000):
        x = np.linspace(-2, 2, n, dtype=np.float32)
        np.testing.assert_allclose(np.asarray(f(x)), np.exp(x) * x + np.sqrt(np.abs(x)) - x, rtol=1e-5, atol=1e-6)
    assert codegen.KERNELS.counts.compiled + codegen.KERNELS.counts.found == before


def test_fusion_inside_loops() -> None:
    @dd.defn
    def f(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            carry = dd.tanh(carry) * 0.9 + dd.exp(-carry) * 0.1 - carry * 0.01
            return carry, dd.sum(carry * carry)

        return dd.scan(step, x, None, length=5)

    x = np.linspace(-1, 1, 600, dtype=np.float32)
    c, sums = x.astype(np.float64), []
    for _ in range(5):
        c = np.tanh(c) * 0.9 + np.exp(-c) * 0.1 - c * 0.01
        sums.append((c * c).sum())
    got, total = f(x)
    np.testing.assert_allclose(np.asarray(got), c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.asarray(total), sums, rtol=1e-4)


TWICE = """
import hashlib, numpy as np, dala_defn as dd
x = np.random.default_rng(0).normal(size=(700, 300)).astype(np.float32)
f = dd.defn(lambda x: (dd.nn.softmax(x, axis=-1) * dd.tanh(x) + 1, dd.sum(x * x, axis=1), dd.exp(x) - x))
print(hashlib.sha256(b"".join(np.asarray(y).tobytes() for y in f(x))).hexdigest())
"""


def test_one_thread_and_two_give_the_same_bits() -> None:
    root = str(Path(codegen.__file__).parents[2])
    found = set()
    for threads in ("1", "2"):
        env = {**os.environ, "PYTHONPATH": root, "RAYON_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", TWICE], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1
