"""Functions inside functions inside functions, and programs of many nodes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd

LEVELS = 1000


def chain(wrap: Callable[[int, Any], Any], levels: int = LEVELS) -> Any:
    """A function of a function of a function, each made one of ours."""

    def outer(f: Any) -> Any:
        return lambda x: f(x) * 1.001 + 0.5

    f = wrap(0, lambda x: dd.sin(x))
    for i in range(levels):
        f = wrap(i + 1, outer(f))
    return f


def by_hand(x: np.ndarray[Any, Any], levels: int = LEVELS) -> np.ndarray[Any, Any]:
    """The same in NumPy."""
    y = np.sin(x)
    for _ in range(levels):
        y = y * np.float32(1.001) + np.float32(0.5)
    return y


WRAPS: dict[str, Callable[[int, Any], Any]] = {
    "defn": lambda i, f: dd.defn(f),
    "composite": lambda i, f: dd.composite(f"level_{i}")(f),
    "checkpoint": lambda i, f: dd.checkpoint(f),
}


@pytest.mark.parametrize("kind", WRAPS)
def test_a_thousand_levels_are_traced_run_and_differentiated(kind: str) -> None:
    x = np.linspace(0, 1, 3, dtype=np.float32)
    limit = sys.getrecursionlimit()
    levels = LEVELS if kind != "checkpoint" else 200  # whose derivative computes each level again
    inner = chain(WRAPS[kind], levels)
    f = dd.defn(lambda x: inner(x))
    np.testing.assert_allclose(f(x), by_hand(x, levels), rtol=1e-4)
    slope = dd.grad(dd.defn(lambda x: dd.sum(inner(x))))(x)
    np.testing.assert_allclose(slope, np.cos(x) * 1.001**levels, rtol=1e-3)
    assert sys.getrecursionlimit() == limit


def test_a_thousand_levels_are_compiled_exported_loaded_and_printed(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 3, dtype=np.float32)
    f = chain(WRAPS["defn"])
    path = tmp_path / "deep.dala"
    f.export(path, x)
    np.testing.assert_allclose(dd.load(path)(x), by_hand(x), rtol=1e-4)
    graph = f.lower(x)
    assert len(graph.functions()) == LEVELS
    assert dd.ops.parse(str(graph)) == graph


def test_a_function_that_never_ends_is_a_recursion_error_and_the_limit_is_put_back() -> None:
    @dd.defn
    def f(x: Any) -> Any:
        return f(x) + 1

    limit = sys.getrecursionlimit()
    found: list[type[BaseException]] = []

    def call() -> None:
        try:
            f(np.ones(2, np.float32))
        except RecursionError as error:
            found.append(type(error))

    call()
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found == [RecursionError] * 2
    assert sys.getrecursionlimit() == limit


def test_a_limit_that_the_user_changes_while_tracing_stays() -> None:
    limit = sys.getrecursionlimit()

    @dd.defn
    def f(x: Any) -> Any:
        sys.setrecursionlimit(limit + 777)
        return x + 1

    try:
        f(np.ones(2, np.float32))
        assert sys.getrecursionlimit() == limit + 777
    finally:
        sys.setrecursionlimit(limit)


def test_a_program_of_twenty_thousand_nodes_is_traced_differentiated_and_run() -> None:
    x, y = np.linspace(0, 1, 8, dtype=np.float32), np.full(8, 0.5, np.float32)
    rounds = 6667

    def f(x: Any, y: Any) -> Any:
        for _ in range(rounds):
            x = dd.sin(x) * 0.5 + y
        return x

    assert len(dd.defn(f).lower(x, y).nodes) >= 20_000
    value, slope = x.astype(np.float64), np.ones(8)
    for _ in range(rounds):
        slope = slope * np.cos(value) * 0.5
        value = np.sin(value) * 0.5 + y
    total, found = dd.value_and_grad(lambda x, y: dd.sum(f(x, y)))(x, y)
    np.testing.assert_allclose(total, value.sum(), rtol=1e-5)
    np.testing.assert_allclose(found, slope, rtol=1e-3, atol=1e-12)
