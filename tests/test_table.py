"""Every op of the table in every dtype that it takes: the NumPy reference, Burn eagerly and Burn compiled against
the truth, within the ulp that the table states; and every op on every memory layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from measure import LAYOUTS, Compiled, all_halves, eager, equal, measure, samples, truth
from rules import types_of

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import DalaError, DTypeError
from dala_defn.executors import executor
from dala_defn.ir import Type
from dala_defn.ops import OPS
from dala_defn.ops.spec import OpSpec

CELLS = [(spec, dtype) for spec in OPS.values() for dtype in spec.accepts]
WITH_OPERANDS = [(spec, dtype) for spec, dtype in CELLS if spec.name not in ("constant", "iota")]


def cells(rows: list[tuple[OpSpec, DType]]) -> Any:
    return pytest.mark.parametrize(("spec", "dtype"), rows, ids=[f"{s.name}-{d.short}" for s, d in rows])


def test_every_op_has_cases_in_every_dtype() -> None:
    for spec, dtype in CELLS:
        assert samples(spec, dtype), f"{spec.name} has no cases in {dtype}"
    # Those that hold functions and those that have effects have tests of their own.
    assert {spec.family for spec in OPS.values() if not spec.accepts} == {"structure", "effect"}


@cells(CELLS)
def test_reference_and_burn_are_within_the_stated_ulp(spec: OpSpec, dtype: DType) -> None:
    for what, found in measure(spec, dtype):
        assert max(found.values()) <= spec.bound(dtype), f"{what}\n{found}, stated {spec.bound(dtype)}"


@cells(WITH_OPERANDS)
def test_every_memory_layout_gives_the_same(spec: OpSpec, dtype: DType) -> None:
    for k, case in enumerate(samples(spec, dtype)):
        args = [np.asarray(a) for a in case.args]
        if sum(a.size for a in args) > 10_000:
            continue
        types = types_of(spec, dtype, case)
        compiled = Compiled(spec, types, case.attrs)
        for name, layout in LAYOUTS.items():
            laid = [layout(a) for a in args]
            if spec.determined is not None and not spec.determined(*laid, **case.attrs):
                continue
            before = [a.copy() for a in laid]
            right = truth(spec, types, laid, case.attrs)
            found = eager(spec, types, laid, case.attrs), compiled(laid, donate=False)
            what = f"{spec.name} case {k} {name}: {types} {dict(case.attrs)}"
            for got in found:
                assert right.error(got) <= spec.bound(dtype), f"{what}\n{got}\n{right.want}"
            assert equal(*found), what
            assert all(map(equal, laid, before)), f"{what}: an operand was written to"


def _like(t: Type, dtype: DType) -> Any:
    from dala_defn.array import host_array

    return host_array(np.zeros((*t.shape, 2) if dtype.kind == "k" else t.shape, dtype.dtype), dtype)


@pytest.mark.parametrize("spec", [s for s in OPS.values() if s.accepts and s.name != "constant"], ids=lambda s: s.name)
def test_dtypes_that_are_not_taken_are_refused_before_and_in_the_runtime(spec: OpSpec) -> None:
    first = next(d for d in reversed(spec.accepts) if d.kind != "c" or spec.family == "complex")
    case = samples(spec, first)[-1]
    types = types_of(spec, first, case)
    (out,) = spec.infer(*types, **case.attrs)
    for dtype in dtypes.EVERY:
        if dtype in spec.accepts:
            continue
        changed = [Type(dtype, t.shape) if t.dtype is first else t for t in types]
        attrs = {**case.attrs, "dtype": dtype} if spec.name == "iota" else case.attrs
        with pytest.raises(DTypeError):
            spec.infer(*changed, **attrs)
        with pytest.raises(DalaError):
            executor("flex").run_op(spec, [_like(t, t.dtype) for t in changed], attrs, [out])


@pytest.mark.parametrize("name", [s.name for s in OPS.values() if s.family == "binary" and dtypes.int8 in s.accepts])
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=lambda d: d.short)
def test_integer_ops_agree_with_python_on_every_pair(name: str, dtype: DType) -> None:
    info = np.iinfo(dtype.dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype.dtype)
    pairs = np.meshgrid(every, every, indexing="ij")
    rule = PYTHON[name]
    flat = [rule(int(a), int(b)) for a, b in zip(*(p.ravel() for p in pairs), strict=True)]
    spec = OPS[name]
    types = [Type(dtype, p.shape) for p in pairs]
    (out,) = spec.infer(*types)
    want = np.array(flat).astype(np.int64).astype(out.dtype.dtype).reshape(pairs[0].shape)
    got = eager(spec, types, pairs, {})
    bad = np.argwhere(got != want)
    assert not len(bad), f"{name}{[int(p[tuple(bad[0])]) for p in pairs]}: {got[tuple(bad[0])]}"
    with np.errstate(all="ignore"):
        assert np.array_equal(spec.reference(*pairs), want)


def _power(x: int, n: int) -> int:
    if n < 0:
        return {1: 1, -1: 1 if n % 2 == 0 else -1}.get(x, 0)
    return pow(x, n, 256)


def _right_shift(x: int, n: int) -> int:
    return x >> n if 0 <= n < 8 else -1 if x < 0 else 0


PYTHON: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "power": _power,
    "maximum": max,
    "minimum": min,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "left_shift": lambda x, n: x << n if 0 <= n < 8 else 0,
    "right_shift": _right_shift,
}


@pytest.mark.parametrize("source", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.short)
@pytest.mark.parametrize("to", dtypes.ARRAYS, ids=lambda d: d.short)
def test_casts_of_every_16_bit_float_are_exact(source: DType, to: DType) -> None:
    x = all_halves(source)
    spec, attrs = OPS["cast"], {"dtype": to}
    types = [Type(source, x.shape)]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        if to.is_integer:
            info = np.iinfo(to.dtype)
            whole = np.nan_to_num(wide, nan=0, posinf=1e30, neginf=-1e30).tolist()
            want = np.array([min(max(int(v), int(info.min)), int(info.max)) for v in whole], to.dtype)
        else:
            want = wide != 0 if to.kind == "b" else wide.astype(to.dtype)
        assert equal(eager(spec, types, [x], attrs), want)
        assert equal(np.asarray(spec.reference(x, **attrs)), want)
