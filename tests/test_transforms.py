"""Transformations as functions: axes and structures, and what gradients cost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn.ops.structure import nodes_flops
from dala_defn.passes import inline_calls
from dala_defn.passes.pipeline import compile_passes


def test_the_axes_of_a_batch_are_pytrees() -> None:
    p = {"a": dd.arange(6).reshape(2, 3), "b": dd.arange(3)}
    f = lambda p, c: {"u": p["a"] * c, "v": p["b"]}  # noqa: E731
    out = dd.vmap(f, in_axes=({"a": 1, "b": 0}, None), out_axes={"u": 1, "v": 0})(p, 2)
    assert np.array_equal(np.asarray(out["u"]), 2 * np.arange(6).reshape(2, 3))
    assert out["v"].tolist() == [0, 1, 2]
    shared = dd.vmap(f, in_axes=({"a": None, "b": 0}, None))(p, 1)
    assert shared["u"].shape == (3, 2, 3)
    for bad in (({"a": 1}, None), (0.5, None), ([0, 0], None)):
        with pytest.raises(dd.ArgumentTypeError):
            dd.vmap(f, in_axes=bad)(p, 2)
    with pytest.raises(dd.ArgumentTypeError, match="structure"):
        dd.vmap(f, in_axes=({"a": 1, "b": 0}, None), out_axes={"u": 1})(p, 2)
    with pytest.raises(dd.ShapeError, match="size 2 and 3"):
        dd.vmap(f)(p, dd.arange(2))


def mlp(params: Any, x: Any, y: Any) -> Any:
    for i, (w, b) in enumerate(params):
        x = dd.matmul(x, w) + b
        x = dd.nn.relu(x) if i < len(params) - 1 else x
    return dd.mean((x - y) ** 2)


def flops(f: Any, *specs: Any) -> int:
    count = nodes_flops(compile_passes(inline_calls(dd.defn(f).lower(*specs))))
    assert isinstance(count, int)
    return count


def test_a_gradient_costs_at_most_four_times_its_function() -> None:
    sizes = (784, 256, 128, 10)
    params = [(dd.spec((a, b)), dd.spec((b,))) for a, b in pairwise(sizes)]
    given = (params, dd.spec((32, 784)), dd.spec((32, 10)))
    once = flops(mlp, *given)
    assert flops(lambda p, x, y: dd.value_and_grad(mlp)(p, x, y), *given) <= 3 * once
    assert flops(lambda p, x, y: dd.value_and_grad(mlp, (0, 1))(p, x, y), *given) <= 4 * once
    loop = lambda c, xs: dd.sum(dd.scan(lambda c, x: (dd.tanh(dd.matmul(c, x)), None), c, xs)[0])  # noqa: E731
    given = (dd.spec((8, 8)), dd.spec((5, 8, 8)))
    once = flops(loop, *given)
    assert flops(lambda c, xs: dd.value_and_grad(loop, (0, 1))(c, xs), *given) <= 4 * once
