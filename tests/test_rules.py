"""Every derivative and batch rule of the op table, against finite differences and against loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from evaluate import evaluate
from rules import SEED, Array, cases, floats, graph_of, moved, normal, types_of

from dala_defn import dtypes
from dala_defn.dtypes import DType, complex128, float64
from dala_defn.errors import DalaError
from dala_defn.ir import Graph
from dala_defn.ops import OPS
from dala_defn.ops.spec import Case, NoGrad, OpSpec
from dala_defn.passes import batch_graph, jvp_graph, vjp_graph
from dala_defn.shapes import DimExpr

STEP = 1e-5
WIDE = (float64, complex128)
DERIVED = [s for s in OPS.values() if not isinstance(s.vjp, NoGrad)]
NUMERIC_OPS = [(s, d) for s in DERIVED for d in WIDE if d in s.accepts and s.name != "stop_gradient"]
FLOAT_OPS = [s for s in DERIVED if set(dtypes.INEXACT) & set(s.accepts)]
ALL_OPS = [s for s in OPS.values() if s.accepts and s.family != "creation" and s.name not in ("constant", "iota")]


def named(specs: list[OpSpec]) -> Any:
    return pytest.mark.parametrize("spec", specs, ids=lambda s: s.name)


def numeric(rows: list[tuple[OpSpec, DType]]) -> Any:
    return pytest.mark.parametrize(("spec", "dtype"), rows, ids=[f"{s.name}-{d.short}" for s, d in rows])


def smooth_cases(spec: OpSpec, dtype: DType) -> Iterator[tuple[str, Case, list[Any], Graph, list[int]]]:
    """Cases in float64 or complex128 at which derivatives exist and can be measured."""
    for k, case in enumerate(cases(spec, dtype)):
        types = types_of(spec, dtype, case)
        wrt = floats(types)
        if not case.smooth or not wrt:
            continue
        graph = graph_of(spec, types, case.attrs)
        if all(v.type.dtype in WIDE for v in graph.outputs):
            what = f"{spec.name} case {k}: {types} {dict(case.attrs)}"
            yield what, case, [np.asarray(a) for a in case.args], graph, wrt


def assert_near(found: Array, wanted: Array, bound: float, what: str) -> None:
    error = np.abs(found - wanted)
    assert np.all(error <= bound * np.maximum(1, np.abs(wanted))), f"{what}: off by {error.max()}\n{found}\n{wanted}"


def without_fill(spec: OpSpec, y: Array) -> Array:
    """A gather fills with NaN, which is a constant."""
    return np.where(np.isnan(y), 0, y) if spec.name == "gather" else y


def numeric_vjp(spec: OpSpec, case: Case, args: list[Array], at: int, ct: Array) -> Array:
    """The gradient of <ct, op(x)> by one operand, element by element: of complex ones dx - i dy."""
    x = args[at]
    out = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        h = STEP * max(1.0, abs(x[place]))
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            ends = []
            for sign in (1, -1):
                near = x.copy()
                near[place] += sign * h * unit
                y = spec.reference(*args[:at], near, *args[at + 1 :], **case.attrs)
                ends.append((paired(ct, without_fill(spec, y)), near[place]))
            out[place] += (ends[0][0] - ends[1][0]) / ((ends[0][1] - ends[1][1]) / unit).real * np.conj(unit)
    return out


def paired(ct: Array, t: Array) -> Any:
    """What a cotangent makes of a tangent: a real number, for complex ones too."""
    return np.sum(np.real(ct * t))


@numeric(NUMERIC_OPS)
def test_vjp_agrees_with_finite_differences(spec: OpSpec, dtype: DType) -> None:
    rng = np.random.default_rng(SEED)
    for what, case, args, graph, wrt in smooth_cases(spec, dtype):
        y = evaluate(graph, *args)[0]
        ct = normal(rng, y)
        full = evaluate(vjp_graph(graph, wrt, [0]), *args, ct)
        assert np.array_equal(full[0], y, equal_nan=True), what
        for i, g in zip(wrt, full[1:], strict=True):
            assert_near(g, numeric_vjp(spec, case, args, i, ct), 1e-6, f"{what} operand {i}")
            (alone,) = evaluate(vjp_graph(graph, [i], [0]), *args, ct)[1:]
            assert np.array_equal(alone, g), f"{what} operand {i} alone"


@numeric(NUMERIC_OPS)
def test_jvp_agrees_with_finite_differences_and_with_vjp(spec: OpSpec, dtype: DType) -> None:
    rng = np.random.default_rng(SEED)
    for what, _, args, graph, wrt in smooth_cases(spec, dtype):
        for subset in {tuple(wrt), *((i,) for i in wrt)}:
            ts = [normal(rng, args[i]) for i in subset]
            y, t = evaluate(jvp_graph(graph, subset), *args, *ts)
            ends = [without_fill(spec, evaluate(graph, *moved(args, subset, ts, s * STEP))[0]) for s in (1, -1)]
            assert_near(t, (ends[0] - ends[1]) / (2 * STEP), 1e-6, f"{what} operands {subset}")
            ct = normal(rng, y)
            gs = evaluate(vjp_graph(graph, subset, [0]), *args, ct)[1:]
            left, right = paired(ct, t), sum(paired(g, u) for g, u in zip(gs, ts, strict=True))
            scale = np.sum(np.abs(ct * t)) + sum(np.sum(np.abs(g * u)) for g, u in zip(gs, ts, strict=True))
            assert abs(left - right) <= 1e-12 * max(1, scale), f"{what} operands {subset}: {left} and {right}"


@numeric(NUMERIC_OPS)
def test_second_derivatives_agree_with_finite_differences(spec: OpSpec, dtype: DType) -> None:
    rng = np.random.default_rng(SEED)
    for what, _, args, graph, wrt in smooth_cases(spec, dtype):
        first = vjp_graph(graph, wrt, [0])
        n = len(args)
        ct = normal(rng, evaluate(graph, *args)[0])
        ts = [normal(rng, args[i]) for i in wrt]
        us = [normal(rng, args[i]) for i in wrt]
        ends = [evaluate(first, *moved(args, wrt, ts, s * STEP), ct)[1:] for s in (1, -1)]
        wanted = sum(paired(u, a - b) for u, a, b in zip(us, *ends, strict=True)) / (2 * STEP)
        chosen = list(range(1, 1 + len(wrt)))
        back = evaluate(vjp_graph(first, wrt, chosen), *args, ct, *us)[1 + len(wrt) :]
        by_reverse = sum(paired(g, t) for g, t in zip(back, ts, strict=True))
        assert_near(by_reverse, wanted, 1e-5, f"vjp of vjp of {what}")
        forward = evaluate(jvp_graph(first, wrt), *args, ct, *ts)[1 + len(wrt) + 1 :]
        by_forward = sum(paired(g, u) for g, u in zip(forward, us, strict=True))
        assert_near(by_forward, wanted, 1e-5, f"jvp of vjp of {what}")
        # The cotangent is an operand too: the first derivative is linear in it.
        (again,) = evaluate(vjp_graph(first, [n], chosen), *args, ct, *us)[1 + len(wrt) :]
        (y_t,) = evaluate(jvp_graph(graph, wrt), *args, *us)[1:]
        assert_near(again, y_t, 1e-9, f"vjp by the cotangent of {what}")


@named(FLOAT_OPS)
@pytest.mark.parametrize("dtype", dtypes.INEXACT, ids=lambda d: d.short)
def test_derivatives_keep_the_dtype(spec: OpSpec, dtype: Any) -> None:
    if dtype not in spec.accepts:
        pytest.skip(f"{spec.name} does not take {dtype}")
    rng = np.random.default_rng(SEED)
    for case in cases(spec, dtype):
        types = types_of(spec, dtype, case)
        wrt = floats(types)
        graph = graph_of(spec, types, case.attrs)
        if not wrt or not graph.outputs[0].type.dtype.is_inexact:
            continue
        first = vjp_graph(graph, wrt, [0])
        assert [v.type for v in first.outputs[1:]] == [types[i] for i in wrt]
        tangent = jvp_graph(graph, wrt)
        assert tangent.outputs[1].type == graph.outputs[0].type
        vjp_graph(first, wrt, range(1, 1 + len(wrt)))
        jvp_graph(first, wrt)
        args = [np.asarray(a) for a in case.args]
        with np.errstate(all="ignore"):
            ct = normal(rng, evaluate(graph, *args)[0])
            evaluate(first, *args, ct)  # every value is checked against its type
            evaluate(tangent, *args, *(normal(rng, args[i]) for i in wrt))


@named([s for s in FLOAT_OPS if s.family in ("unary", "binary", "ternary", "reduction")])
@pytest.mark.parametrize("dtype", WIDE, ids=lambda d: d.short)
def test_a_zero_cotangent_gives_a_zero_gradient(spec: OpSpec, dtype: DType) -> None:
    for case in cases(spec, dtype) if dtype in spec.accepts else ():
        types = types_of(spec, dtype, case)
        graph = graph_of(spec, types, case.attrs)
        if not graph.outputs[0].type.dtype.is_inexact:
            continue
        args = [np.asarray(a) for a in case.args]
        with np.errstate(all="ignore"):
            (y,) = evaluate(graph, *args)
            for g in evaluate(vjp_graph(graph, floats(types), [0]), *args, np.zeros_like(y))[1:]:
                assert not g.any(), f"{types} {dict(case.attrs)}: {g}"


def close(found: Array, wanted: Array, what: str) -> None:
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, f"{what}: {found.dtype}{found.shape}"
    if found.dtype.kind == "c":
        bound = 1e-5 if found.dtype.itemsize == 8 else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound, err_msg=what)
    elif found.dtype.kind in "fV":
        bound = {2: 2e-2, 4: 1e-5, 8: 1e-12}[found.dtype.itemsize]
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound, err_msg=what
        )
    else:
        assert np.array_equal(found, wanted), f"{what}\n{found}\n{wanted}"


def all_dtypes(specs: list[OpSpec]) -> list[Any]:
    def marks(d: Any) -> Any:
        return (
            () if d in (dtypes.float32, dtypes.complex64, dtypes.int32, dtypes.bool_, dtypes.key) else pytest.mark.slow
        )

    return [pytest.param(s, d, id=f"{s.name}-{d.short}", marks=marks(d)) for s in specs for d in s.accepts]


def combinations(count: int) -> Iterator[tuple[bool, ...]]:
    return (c for c in itertools.product((True, False), repeat=count) if any(c))


@pytest.mark.parametrize(("spec", "dtype"), all_dtypes(ALL_OPS))
def test_batch_agrees_with_a_loop(spec: OpSpec, dtype: Any) -> None:
    count = 3
    runs = [cases(spec, dtype, SEED + k) for k in range(count)]
    assert len({len(r) for r in runs}) == 1
    for k, group in enumerate(zip(*runs, strict=True)):
        types = types_of(spec, dtype, group[0])
        attrs = group[0].attrs
        assert all(c.attrs == attrs for c in group)
        graph = graph_of(spec, types, attrs)
        for batched in combinations(len(types)):
            what = f"{spec.name} case {k}: {types} {dict(attrs)} batched {batched}"
            rows = [[np.asarray(group[r if b else 0].args[i]) for i, b in enumerate(batched)] for r in range(count)]
            with np.errstate(all="ignore"):
                wanted = [evaluate(graph, *row)[0] for row in rows]
                for size in (count, 1, 0) if dtype in (dtypes.float32, dtypes.key) else (count,):
                    whole = [
                        np.stack([row[i] for row in rows])[:size] if b else rows[0][i] for i, b in enumerate(batched)
                    ]
                    many = batch_graph(graph, [0 if b else None for b in batched], size)
                    close(evaluate(many, *whole)[0], np.stack(wanted)[:size], f"{what}, {size} examples")


@named(ALL_OPS)
def test_batch_over_a_size_that_is_not_known(spec: OpSpec) -> None:
    n = DimExpr.named("n")
    dtype = dtypes.float32 if dtypes.float32 in spec.accepts else spec.accepts[-1]
    for case in cases(spec, dtype):
        types = types_of(spec, dtype, case)
        graph = graph_of(spec, types, case.attrs)
        for batched in combinations(len(types)):
            try:
                many = batch_graph(graph, [0 if b else None for b in batched], n)
            except DalaError as error:
                assert spec.family == "contraction" and "n" in str(error), error
                continue
            assert [v.type.shape for v in many.outputs] == [(n, *v.type.shape) for v in graph.outputs]


def test_batch_takes_any_axis_and_repeats_what_is_not_batched() -> None:
    types = types_of(OPS["sub"], dtypes.float32, Case((np.zeros((2, 3), "f"), np.zeros((), "f")), {}))
    graph = graph_of(OPS["sub"], types, {})
    x, y = np.arange(24, dtype="f").reshape(2, 3, 4), np.float32(1)
    (out,) = evaluate(batch_graph(graph, [-1, None], 4), x, y)
    assert np.array_equal(out, np.moveaxis(x, -1, 0) - 1)
    (same,) = evaluate(batch_graph(graph, [None, None], 4), x[:, :, 0], y)
    assert np.array_equal(same, np.broadcast_to(x[:, :, 0] - 1, (4, 2, 3)))
