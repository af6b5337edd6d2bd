"""What a call costs, and a training step: Dala beside NumPy by hand, in one interleaved run.

    python tests/bench/calls.py [--rounds N] [--json FILE]

Prints medians and ratios; it never asserts a time. Results are checked before anything is timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dala_defn as dd

Work = Callable[[], Any]


def interleaved(works: dict[str, Work], rounds: int, repeats: int) -> dict[str, float]:
    """Median seconds of one execution of each, taken in turns A B A B."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            for _ in range(repeats):
                work()
            times[name].append((time.perf_counter() - start) / repeats)
    return {name: statistics.median(t) for name, t in times.items()}


def small_call() -> dict[str, Work]:
    """``x * 2 + 1`` on 8 floats: NumPy in, an array out."""
    x = np.arange(8, dtype=np.float32)

    @dd.defn
    def f(x: Any) -> Any:
        return x * 2 + 1

    resident = dd.array(x) + 0
    np.testing.assert_array_equal(f(x), x * 2 + 1)
    return {
        "numpy x*2+1": lambda: x * 2 + 1,
        "dala, NumPy in": lambda: f(x),
        "dala, NumPy in and out": lambda: np.asarray(f(x)),
        "dala, resident": lambda: f(resident),
    }


def chain(nodes: int = 200) -> dict[str, Work]:
    """A chain of ops on 16 floats."""
    x = np.linspace(0, 1, 16, dtype=np.float32)

    def by_hand() -> Any:
        y = x
        for _ in range(nodes // 2):
            y = y * np.float32(1.01) + np.float32(0.01)
        return y

    @dd.defn
    def f(x: Any) -> Any:
        for _ in range(nodes // 2):
            x = x * 1.01 + 0.01
        return x

    np.testing.assert_allclose(f(x), by_hand(), rtol=1e-5)
    return {f"numpy, {nodes} ops": by_hand, f"dala, {nodes} ops": lambda: f(x)}


def mlp_step(batch: int) -> dict[str, Work]:
    """One SGD step of a 784-256-128-10 classifier; in Dala one graph run with donated parameters."""
    rng = np.random.default_rng(0)
    sizes = [784, 256, 128, 10]
    init = [
        (rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(sizes)
    ]
    x = rng.normal(size=(batch, 784)).astype(np.float32)
    y = rng.integers(0, 10, batch).astype(np.int32)
    rate = np.float32(0.01)

    def numpy_step(params: list[Any]) -> tuple[list[Any], Any]:
        hidden, a = [x], x
        for i, (w, b) in enumerate(params):
            a = a @ w + b
            if i < len(params) - 1:
                a = np.maximum(a, 0)
                hidden.append(a)
        shifted = a - a.max(1, keepdims=True)
        e = np.exp(shifted)
        total = e.sum(1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) - shifted[np.arange(batch), y])
        g = e / total
        g[np.arange(batch), y] -= 1
        g /= batch
        new = []
        for i in reversed(range(len(params))):
            w, b = params[i]
            back = g @ w.T * (hidden[i] > 0) if i else None
            new.append((w - rate * (hidden[i].T @ g), b - rate * g.sum(0)))
            g = back
        return new[::-1], loss

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        a = x
        for i, (w, b) in enumerate(params):
            a = a @ w + b
            if i < len(params) - 1:
                a = dd.nn.relu(a)
        return -dd.mean(dd.sum(dd.nn.log_softmax(a) * dd.nn.one_hot(y, 10), axis=1))

    @dd.defn(donate_argnames="params")
    def step(params: Any, x: Any, y: Any) -> Any:
        loss, grads = dd.value_and_grad(loss_of)(params, x, y)
        return [(w - rate * gw, b - rate * gb) for (w, b), (gw, gb) in zip(params, grads, strict=True)], loss

    ours = step([(dd.array(w) + 0, dd.array(b) + 0) for w, b in init], x, y)
    theirs = numpy_step(init)
    np.testing.assert_allclose(np.asarray(ours[1]), theirs[1], rtol=1e-5)
    np.testing.assert_allclose(np.array(ours[0][0][0]), theirs[0][0][0], rtol=1e-3, atol=1e-6)
    state = {"numpy": init, "dala": ours[0]}

    def run_numpy() -> None:
        state["numpy"], _ = numpy_step(state["numpy"])

    def run_dala() -> None:
        state["dala"], _ = step(state["dala"], x, y)

    return {f"numpy by hand, batch {batch}": run_numpy, f"dala, batch {batch}": run_dala}


def main() -> None:
    """Runs the cases and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    options = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    cases: list[tuple[str, dict[str, Work], int]] = [
        ("x*2+1 on 8 floats", small_call(), 2000),
        ("200 ops on 16 floats", chain(), 100),
        ("MLP step, batch 32", mlp_step(32), 20),
        ("MLP step, batch 256", mlp_step(256), 5),
    ]
    for title, works, repeats in cases:
        found = interleaved(works, options.rounds, repeats)
        table[title] = found
        first = next(iter(found.values()))
        print(title)
        for name, seconds in found.items():
            print(f"  {name:<28} {seconds * 1e6:10.2f} us   {seconds / first:6.2f}")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(table, out, indent=1)


if __name__ == "__main__":
    main()
