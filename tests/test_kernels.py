"""Native kernels against the truth: every op that a kernel can compute, in every dtype, on every memory layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from kernels import run_function
from measure import LAYOUTS, equal, samples, truth
from rules import graph_of, types_of

from dala_defn import dtypes, ops
from dala_defn.codegen.emit import EMIT
from dala_defn.codegen.maths import FLOAT
from dala_defn.dtypes import DType
from dala_defn.ir import Graph
from dala_defn.ops import OPS
from dala_defn.ops.spec import OpSpec
from dala_defn.passes.kernels import REDUCTIONS, is_computed, is_reduced

ELEMENTWISE = [s for s in OPS.values() if s.fusion == "elementwise" and s.family in ("unary", "binary", "ternary")]
CELLS = [(spec, dtype) for spec in ELEMENTWISE for dtype in spec.accepts if dtype.kind in "biuf"]
REDUCED = [(OPS[name], d) for name in sorted(REDUCTIONS) for d in OPS[name].accepts if d.kind in "biuf"]


def cells(rows: list[tuple[OpSpec, DType]]) -> Any:
    return pytest.mark.parametrize(("spec", "dtype"), rows, ids=[f"{s.name}-{d.short}" for s, d in rows])


def aligned(graph: Graph, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """The space of a shape, without its axes of size 1, and the axes of operands and results aligned at the right."""
    space = [d for d in shape if d != 1]
    number = [-1 if d == 1 else sum(e != 1 for e in shape[:i]) for i, d in enumerate(shape)]
    axes = []
    for v in (*graph.inputs, *graph.outputs):
        shift = len(shape) - v.type.ndim
        axes += [-1 if d == 1 else number[i + shift] for i, d in enumerate(v.type.shape)]
    return space, axes


def elementwise(graph: Graph, args: Sequence[Any], parts: int = 1) -> Any:
    shape = tuple(graph.outputs[0].type.shape)
    space, axes = aligned(graph, shape)  # type: ignore[arg-type]
    return run_function(graph, space, axes, len(space), args, parts)[0]


def test_every_elementwise_op_of_the_table_has_a_row() -> None:
    assert {s.name for s in ELEMENTWISE} == set(EMIT)


@cells(CELLS)
def test_every_op_keeps_its_bound_on_every_layout(spec: OpSpec, dtype: DType) -> None:
    done = 0
    for k, case in enumerate(samples(spec, dtype)):
        types = types_of(spec, dtype, case)
        graph = graph_of(spec, types, case.attrs)
        if not is_computed(graph.nodes[0]):
            continue
        done += 1
        args = [np.asarray(a) for a in case.args]
        right = truth(spec, types, args, case.attrs)
        what = f"{spec.name} case {k}: {types} {dict(case.attrs)}"
        got = elementwise(graph, args)
        assert right.error(got) <= spec.ulp, f"{what}\n{got}\n{right.want}"
        assert equal(got, elementwise(graph, args, parts=3)), what
        for name, layout in LAYOUTS.items():
            laid = [layout(a) for a in args]
            if sum(a.size for a in args) > 5000:
                continue
            right = truth(spec, types, laid, case.attrs)
            assert right.error(elementwise(graph, laid)) <= spec.ulp, f"{what} {name}"
    assert done or (dtypes.bool_ if spec.name == "select" else dtype) not in spec.kernel


def test_most_cells_of_the_table_have_a_kernel() -> None:
    cells = [(o, d) for o in ops.OPS.values() if o.fusion == "elementwise" for d in o.accepts if d.kind in "biuf"]
    without = {o.name for o, d in cells if d not in o.kernel} - {"select", "constant", "iota"}
    assert without == {"arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh", "erf",
                       "floor_divide", "power", "remainder", "sin", "sinh", "tan"}  # fmt: skip


@cells(REDUCED)
def test_reductions_keep_their_bound(spec: OpSpec, dtype: DType) -> None:
    done = 0
    for k, case in enumerate(samples(spec, dtype)):
        types = types_of(spec, dtype, case)
        graph = graph_of(spec, types, case.attrs)
        shape: Any = types[0].shape
        if not is_reduced(graph.nodes[0]) or shape[-1] in (0, 1):
            continue
        done += 1
        space, axes = aligned(graph, shape)
        axes = axes[: len(shape)] + list(axes[: len(shape) - 1])
        for layout in (lambda x: x, *LAYOUTS.values()):
            laid = [layout(np.asarray(a)) for a in case.args]
            right = truth(spec, types, laid, case.attrs)
            (got,) = run_function(graph, space, axes, len(space) - 1, laid)
            assert right.error(got) <= spec.ulp, f"{spec.name} case {k}: {types}\n{got}\n{right.want}"
    assert done


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.short)
@pytest.mark.parametrize("n", [1, 7, 8, 100, 4097, 100_003])
def test_long_sums_keep_two_units(dtype: DType, n: int) -> None:
    rng = np.random.default_rng(n)
    graph = ops.parse(f"graph @f(%x: {dtype.short}[3, {n}]) {{\n  %s = sum %x {{axes=[1]}}\n  return %s\n}}")
    shape = graph.inputs[0].type.shape
    for x in (
        rng.normal(size=shape),
        np.full(shape, 0.1),
        rng.uniform(size=shape) * 10.0 ** rng.integers(-9, 9, shape),
    ):
        x = x.astype(dtype.dtype)
        right = truth(OPS["sum"], [graph.inputs[0].type], [x], {"axes": (1,)})
        space, axes = ([3, n], [0, 1, 0]) if n > 1 else ([3], [0, -1, 0])
        (got,) = run_function(graph, space, axes, 1, [x])
        assert right.error(got) <= 2


def test_a_sum_with_infinities_is_what_it_is() -> None:
    x = np.array([[1, np.inf, 2], [np.inf, -np.inf, 0], [np.nan, 1, 2]])
    graph = ops.parse("graph @f(%x: f64[3, 3]) {\n  %s = sum %x {axes=[1]}\n  return %s\n}")
    (got,) = run_function(graph, [3, 3], [0, 1, 0], 1, [x])
    np.testing.assert_array_equal(got, [np.inf, np.nan, np.nan])


SOFTMAX = """
graph @softmax(%x: f32[{n}, {m}]) {{
  %a = max %x {{axes=[1]}}
  %b = reshape %a {{shape=[{n}, 1]}}
  %c = sub %x, %b
  %d = exp %c
  %e = sum %d {{axes=[1]}}
  %f = reshape %e {{shape=[{n}, 1]}}
  %g = div %d, %f
  %h = log %e
  return %g, %h, %c
}}
"""


@pytest.mark.parametrize("m", [2, 3, 16, 31, 1000])
@pytest.mark.parametrize("parts", [1, 2])
def test_softmax_in_sweeps(m: int, parts: int) -> None:
    graph = ops.parse(SOFTMAX.format(n=5, m=m))
    x = np.random.default_rng(m).normal(size=(5, m)).astype(np.float32) * 5
    c = x - x.max(1, keepdims=True)
    e = np.exp(c.astype(np.float64))
    for laid in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        got = run_function(graph, [5, m], [0, 1, 0, 1, 0, 0, 1], 1, [laid], parts)
        np.testing.assert_allclose(got[0], e / e.sum(1, keepdims=True), rtol=1e-6)
        np.testing.assert_allclose(got[1], np.log(e.sum(1)), rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(got[2], c)


def test_a_long_chain_on_several_shapes() -> None:
    graph = ops.parse(
        """
graph @f(%x: f32[4, 1, 6], %y: f32[5, 1], %n: i32[4, 5, 6]) {
  %one = constant {value=f32[]<1.0>}
  %i = iota {shape=[5, 6], axis=0, dtype=i32}
  %j = iota {shape=[4, 5, 6], axis=2, dtype=i32}
  %a = mul %x, %y
  %b = add %a, %one
  %k = add %n, %i
  %l = mul %k, %j
  %m = cast %l {dtype=f32}
  %c = add %b, %m
  %t = greater %c, %one
  %d = select %t, %c, %x
  return %d, %t, %l
}"""
    )
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 1, 6)).astype(np.float32), rng.normal(size=(5, 1)).astype(np.float32)
    n = rng.integers(-9, 9, (4, 5, 6)).astype(np.int32)
    space, axes = aligned(graph, (4, 5, 6))
    level = (n + np.arange(5, dtype=np.int32)[:, None]) * np.arange(6, dtype=np.int32)
    c = x * y + np.float32(1) + level.astype(np.float32)
    for parts in (1, 4, 7):
        d, t, whole = run_function(graph, space, axes, 3, [x, y, n], parts)
        np.testing.assert_array_equal(whole, level)
        np.testing.assert_array_equal(t, c > 1)
        np.testing.assert_array_equal(d, np.where(c > 1, c, x))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted([*FLOAT, "sqrt", "rsqrt"]))
def test_functions_keep_their_bound_over_all_of_float32(name: str) -> None:
    x = np.arange(0, 2**32, 7919, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = x[~np.isnan(x)]
    spec = OPS[name]
    graph = ops.parse(f"graph @f(%x: f32[{x.size}]) {{\n  %y = {name} %x\n  return %y\n}}")
    right = truth(spec, [graph.inputs[0].type], [x], {})
    assert right.error(elementwise(graph, [x])) <= min(4, spec.ulp)
