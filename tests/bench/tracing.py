"""What it costs to record a node, and what follows: Dala beside ``jax.make_jaxpr``, in one interleaved run.

    python tests/bench/tracing.py [--nodes N ...] [--rounds N] [--json FILE]

Prints the best time for one recorded node, with its type and its source line, and for one equation of JAX; it never
asserts a time. Each program is checked to have the nodes that it is counted by.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dala_defn as dd

X, Y = np.linspace(0, 1, 8, dtype=np.float32), np.full(8, 0.5, np.float32)


def chain(m: Any, nodes: int) -> Callable[..., Any]:
    """``sin(x) * 2 + y`` again and again."""

    def f(x: Any, y: Any) -> Any:
        for _ in range(nodes // 3):
            x = m.sin(x) * 2 + y
        return x

    return f


def mixed(m: Any, nodes: int) -> Callable[..., Any]:
    """Ten ops of several families again and again."""

    def f(x: Any, y: Any) -> Any:
        for _ in range(nodes // 10):
            a = m.exp(x) - y
            b = m.maximum(m.where(a > 0, a, x), y)
            x = m.reshape(m.reshape(m.tanh(-b / 3.0), (4, 2)), (8,))
        return x

    return f


PROGRAMS = {"chain": chain, "mixed": mixed}


def best(works: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """The least seconds a node of each, taken in turns; each gives the number of its nodes."""
    out = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            start = time.perf_counter()
            nodes = work()
            out[name] = min(out[name], (time.perf_counter() - start) / nodes)
    return out


def recorders(program: Callable[..., Any], nodes: int) -> dict[str, Callable[[], int]]:
    """What records a program: Dala, and JAX where it is installed."""

    def dala() -> int:
        graph = dd.defn(program(dd, nodes)).lower(X, Y)
        assert 0.9 * nodes < len(graph.nodes) < 1.1 * nodes
        assert all(n.loc is not None for n in graph.nodes)
        return len(graph.nodes)

    works = {"dala": dala}
    try:
        import jax
    except ImportError:
        return works

    def make_jaxpr() -> int:
        equations = len(jax.make_jaxpr(program(jax.numpy, nodes))(X, Y).eqns)
        assert 0.9 * nodes < equations < 1.1 * nodes
        return equations

    return {**works, "jax.make_jaxpr": make_jaxpr}


def whole(nodes: int) -> dict[str, Callable[[], int]]:
    """Everything up to a program that can be called, by nodes of the function as it is written."""

    def loss(m: Any) -> Any:
        return lambda x, y: m.sum(chain(m, nodes)(x, y))

    def traced() -> int:
        dd.defn(dd.grad(loss(dd))).lower(X, Y)
        return nodes

    def compiled() -> int:
        dd.defn(dd.grad(loss(dd))).compile(X, Y)
        return nodes

    return {"dala, trace and grad": traced, "dala, trace, grad and compile": compiled}


def main() -> None:
    """Runs everything and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5_000, 20_000, 50_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    results: dict[str, float] = {}
    for name, program in PROGRAMS.items():
        for nodes in options.nodes:
            found = best(recorders(program, nodes), options.rounds)
            results.update({f"{name}, {nodes} nodes, {who}": seconds for who, seconds in found.items()})
    for name, seconds in best(whole(2_000), min(options.rounds, 2)).items():
        results[f"chain, 2000 nodes, {name}"] = seconds
    for name, seconds in results.items():
        print(f"{name:50s} {seconds * 1e6:8.2f} us a node")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
