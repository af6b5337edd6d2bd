"""What fusion and native kernels give: Dala beside NumPy, and JAX where it is installed.

    python tests/bench/kernels.py [--rounds N] [--json FILE] [--only WORDS]

Every case runs on the same inputs, its results are checked against float64 first, and the competitors take turns
(A B A B). Printed are medians and the least times, each with its ratio to the best peer's; no time is ever asserted.
``dala, unfused`` is the same program without kernels.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dala_defn as dd

sys.path.insert(0, str(Path(__file__).parent))
import models

Work = Callable[[], Any]
THREADS = os.cpu_count() or 1


@dataclass
class Case:
    """A workload: works by competitor, and how often each is repeated within a round."""

    title: str
    works: dict[str, Work]
    repeats: int = 1
    checks: list[Callable[[], None]] = field(default_factory=list)


def peer(name: str) -> Any:
    """A module when it is installed."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


class Unfused:
    """A function that is compiled, at its first call, while the executor makes no kernels."""

    def __init__(self, f: Callable[..., Any], **options: Any) -> None:
        self.f = dd.defn(f, **options)
        self.made = False

    def __call__(self, *args: Any) -> Any:
        runner = dd.executor("flex")
        runner.fuse = self.made
        try:
            return self.f(*args)
        finally:
            runner.fuse = self.made = True


def elementwise(
    title: str, f: Callable[[Any, Any], Any], args: list[Any], repeats: int, tolerance: float, resident: bool = True
) -> Case:
    """A function of arrays, written once over a module with NumPy's names."""
    wide = f(np, *[a.astype(np.float64) for a in args])
    held = [dd.array(a) + 0 for a in args] if resident else args
    fused, plain = dd.defn(lambda *a: f(dd, *a)), Unfused(lambda *a: f(dd, *a))
    case = Case(title, {}, repeats)
    competitors: dict[str, tuple[Any, list[Any]]] = {
        "dala": (fused, held),
        "dala, unfused": (plain, held),
        "numpy": (lambda *a: f(np, *a), args),
    }
    jax = peer("jax")
    if jax is not None:
        jitted = jax.jit(lambda *a: f(jax.numpy, *a))
        given = [jax.device_put(a) for a in args] if resident else args
        competitors["jax"] = (lambda *a: jax.block_until_ready(jitted(*a)), given)
    for name, (g, given) in competitors.items():
        for x, w in zip(_leaves(g(*given)), _leaves(wide), strict=True):
            scale = np.max(np.abs(w))
            error = float(np.max(np.abs(np.asarray(x, np.float64) - w)) / scale)
            assert error < tolerance, f"{title}, {name}: off by {error} of the largest"
        case.works[name] = lambda g=g, given=given: g(*given)
    return case


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list)):
        for y in x:
            yield from _leaves(y)
    else:
        yield np.asarray(x)


def gelu(m: Any, x: Any) -> Any:
    """Ten elementwise ops."""
    return 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softmax_norm(m: Any, x: Any, gain: Any, bias: Any) -> Any:
    """Softmax of rows, then their layer normalisation."""
    e = m.exp(x - m.max(x, axis=-1, keepdims=True))
    y = e / m.sum(e, axis=-1, keepdims=True)
    mean = m.mean(y, axis=-1, keepdims=True)
    centred = y - mean
    variance = m.mean(centred * centred, axis=-1, keepdims=True)
    return centred / m.sqrt(variance + 1e-12) * gain + bias


def product(m: Any, x: Any, y: Any) -> Any:
    """A matrix product."""
    return x @ y


def chain(m: Any, x: Any) -> Any:
    """200 ops."""
    for _ in range(100):
        x = x * 1.01 + 0.01
    return x


def affine(m: Any, x: Any) -> Any:
    """Two ops."""
    return x * 2 + 1


def reductions(m: Any, x: Any) -> Any:
    """Sums over both axes, the variance, and rows that are normalised."""
    mean = m.mean(x, axis=1, keepdims=True)
    centred = x - mean
    variance = m.mean(centred * centred, axis=1, keepdims=True)
    return m.sum(x, axis=0), m.sum(x, axis=1), variance, centred / m.sqrt(variance + 1e-5)


SIZES = (784, 256, 128, 10)


def loss_of(m: Any, params: Any, x: Any, onehot: Any) -> Any:
    """Cross-entropy of a small classifier."""
    a = x
    for i, (w, b) in enumerate(params):
        a = a @ w + b
        if i < len(params) - 1:
            a = m.maximum(a, 0)
    shifted = a - m.max(a, axis=1, keepdims=True)
    logs = shifted - m.log(m.sum(m.exp(shifted), axis=1, keepdims=True))
    return -m.mean(m.sum(logs * onehot, axis=1))


def updated(m: Any, adam: bool, state: Any, grads: Any) -> Any:
    """Parameters, moments and the step after one more."""
    params, firsts, seconds, t = state
    new: list[list[Any]] = [[], [], []]
    for p, f, s, g in zip(params, firsts, seconds, grads, strict=True):
        row = []
        for w, a, b, d in zip(p, f, s, g, strict=True):
            if adam:
                a = 0.9 * a + 0.1 * d
                b = 0.999 * b + 0.001 * d * d
                w = w - 0.001 * (a / (1 - 0.9**t)) / (m.sqrt(b / (1 - 0.999**t)) + 1e-8)
            else:
                w = w - 0.01 * d
            row.append((w, a, b))
        for at, values in enumerate(zip(*row, strict=True)):
            new[at].append(tuple(values))
    return *new, t + 1


def start(batch: int) -> Any:
    """A state as nested NumPy arrays, and a batch."""
    rng = np.random.default_rng(0)
    params = [
        (rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(SIZES)
    ]
    zeros = [tuple(np.zeros_like(p) for p in pair) for pair in params]
    x = rng.normal(size=(batch, SIZES[0])).astype(np.float32)
    onehot = np.eye(SIZES[-1], dtype=np.float32)[rng.integers(0, SIZES[-1], batch)]
    return (params, zeros, zeros, np.float32(1)), x, onehot


def mapped(f: Callable[[Any], Any], x: Any) -> Any:
    """A tree of arrays, each changed."""
    return type(x)(mapped(f, y) for y in x) if isinstance(x, (tuple, list)) else f(x)


def mlp(batch: int, adam: bool) -> Case:
    """One training step, the state given up to it."""

    def dala_step(state: Any, x: Any, onehot: Any) -> Any:
        loss, grads = dd.value_and_grad(lambda p: loss_of(dd, p, x, onehot))(state[0])
        return updated(dd, adam, state, grads), loss

    state, x, onehot = start(batch)
    title = f"MLP step, {'Adam' if adam else 'SGD'}, batch {batch}"
    case = Case(title, {}, 20 if batch < 100 else 8)
    held: dict[str, Any] = {}
    steps: dict[str, Callable[[Any], Any]] = {}
    for name, made in (
        ("dala", dd.defn(dala_step, donate_argnames="state")),
        ("dala, unfused", Unfused(dala_step, donate_argnames="state")),
    ):
        held[name] = mapped(lambda a: dd.array(a) + 0, state)
        steps[name] = lambda s, made=made: made(s, x, onehot)
    jax = peer("jax")
    if jax is not None:

        def jax_step(state: Any, x: Any, onehot: Any) -> Any:
            loss, grads = jax.value_and_grad(lambda p: loss_of(jax.numpy, p, x, onehot))(state[0])
            return updated(jax.numpy, adam, state, grads), loss

        jitted = jax.jit(jax_step, donate_argnums=0)
        held["jax"] = mapped(lambda a: jax.device_put(np.array(a)), state)
        steps["jax"] = lambda s: jax.block_until_ready(jitted(s, x, onehot))
    want = loss_of(np, mapped(lambda a: a.astype(np.float64), state[0]), x.astype(np.float64), onehot)
    for name, step in steps.items():
        held[name], loss = step(held[name])
        assert abs(float(np.asarray(loss)) - want) < 1e-5 * abs(want), f"{title}, {name}: {loss}, not {want}"

        def work(name: str = name, step: Callable[[Any], Any] = step) -> None:
            held[name] = step(held[name])[0]

        case.works[name] = work
    return case


def imports() -> Case:
    """A process that does nothing but import."""

    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / f"dala-bench-{os.getuid()}")

    def run(what: str) -> Work:
        work = lambda: subprocess.run([sys.executable, "-c", f"import {what}"], check=True, env=env)  # noqa: E731
        work()  # leaves the bytecode
        return work

    names = ["dala_defn", "numpy", *(n for n in ("jax",) if peer(n) is not None)]
    return Case("import, a process each", {("dala" if n == "dala_defn" else n): run(n) for n in names}, 1)


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Titles to choose from, and what makes each case."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    yield "gelu", lambda: elementwise("gelu, 10M floats", gelu, [normal(10_000_000)], 1, 1e-6)
    yield (
        "softmax",
        lambda: elementwise(
            "softmax + layer norm, 4096x1024",
            softmax_norm,
            [normal(4096, 1024), normal(1024), normal(1024)],
            1,
            1e-5,
        ),
    )
    yield "chain", lambda: elementwise("200 ops on 16 floats", chain, [normal(16)], 200, 1e-5, resident=False)
    yield "affine", lambda: elementwise("x * 2 + 1 on 8 floats", affine, [normal(8)], 500, 1e-6, resident=False)
    yield (
        "reductions",
        lambda: elementwise("sums, var, normalise, 2048x2048", reductions, [normal(2048, 2048)], 1, 1e-5),
    )
    for adam, batch in itertools.product((False, True), (32, 256)):
        yield f"mlp {batch} {'adam' if adam else 'sgd'}", lambda b=batch, a=adam: mlp(b, a)
    yield "matmul", lambda: elementwise("matmul 1024", product, [normal(1024, 1024), normal(1024, 1024)], 3, 1e-5)
    jax = peer("jax")

    def model(title: str, make: Callable[..., dict[str, Work]], *args: Any, repeats: int = 1) -> Callable[[], Case]:
        return lambda: Case(title, make(*args), repeats)

    yield "transformer forward", model("transformer block, forward", models.transformer, jax, False, repeats=3)
    yield "transformer gradient", model("transformer block, forward + backward", models.transformer, jax, True)
    yield "lstm", model("LSTM, forward + backward", models.recurrent, jax)
    yield "cnn", model("CNN step, Adam, batch 64", models.convolutional, jax)
    yield "residual", model("residual conv block", models.residual_block, jax, repeats=3)
    yield "decode", model("GPT decode step", models.decoding, jax, repeats=5)
    yield "cold", model("12 layers, a process each", models.cold)
    yield "warm", model("12 layers, warm step", models.warm, jax)
    yield "digits", model("digits to 97 %, a process each", models.digits)
    yield "import", imports


def measured(case: Case, rounds: int) -> dict[str, dict[str, float]]:
    """Median and least seconds of one execution of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in case.works}
    for _ in range(rounds):
        for name, work in case.works.items():
            begin = time.perf_counter()
            for _ in range(case.repeats):
                work()
            times[name].append((time.perf_counter() - begin) / case.repeats)
    return {name: {"median": statistics.median(t), "least": min(t)} for name, t in times.items()}


def main() -> None:
    """Runs the cases and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    table: dict[str, dict[str, dict[str, float]]] = {}
    print(f"{THREADS} threads, load {os.getloadavg()[0]:.1f}; median and least, each with its ratio to the best peer's")
    for name, make in cases():
        if not all(word in name for word in options.only.split()):
            continue
        case = make()
        if not case.works:
            continue
        found = table[case.title] = measured(case, options.rounds)
        print(case.title)
        peers = [t for who, t in found.items() if not who.startswith("dala")] or [found["dala"]]
        best = {kind: min(t[kind] for t in peers) for kind in ("median", "least")}
        for who, t in found.items():
            cells = "".join(f"{t[kind] * 1e6:14.2f} us {t[kind] / best[kind]:6.2f}" for kind in best)
            print(f"  {who:<16}{cells}", flush=True)
    held = models.temporaries(peer("jax")) if not options.only or "temporaries" in options.only else {}
    for title, sizes in held.items():
        print(f"temporaries at the peak: {title}")
        for who, size in sizes.items():
            print(f"  {who:<16}{size:14,} bytes {size / max(1, sizes.get('jax', size)):6.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"threads": THREADS, "load": os.getloadavg(), "cases": table, "temporaries": held}, out, indent=1)


if __name__ == "__main__":
    main()
