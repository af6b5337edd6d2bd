"""Every op on random shapes, values and attributes: the reference and Burn against the truth. Long: run with
``HYPOTHESIS_PROFILE=long pytest -m long tests/test_table_long.py``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measure import LAYOUTS, Compiled, any_bits, any_complex, by_reference, eager, equal, truth
from rules import normal

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import ShapeError
from dala_defn.ir import Type
from dala_defn.ops import OPS
from dala_defn.ops.indexing import _gather_shape
from dala_defn.ops.spec import OpSpec

pytestmark = pytest.mark.long

Array = np.ndarray[Any, Any]
Draw = Callable[..., Any]
Rng = np.random.Generator
CELLS = [(spec, dtype) for spec in OPS.values() for dtype in spec.accepts if spec.name != "constant"]


def values(rng: Rng, dtype: DType, shape: tuple[int, ...], *, wild: bool = False) -> Array:
    """Ordinary numbers with a few special ones; with ``wild`` floats of random bits."""
    n = int(np.prod(shape))
    if dtype.kind == "k":
        return rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        whole = rng.integers(info.min, info.max, shape, dtype=dtype.dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, whole, rng.integers(0, 9, shape).astype(dtype.dtype)).astype(
            dtype.dtype
        )
    if dtype.kind == "c":
        if wild:
            return rng.choice(any_complex(rng, dtype, n + 8), shape)
        out = np.empty(shape, dtype.dtype)
        out.real, out.imag = (values(rng, dtypes.real_of(dtype), shape) for _ in range(2))
        return out
    if wild:
        return rng.permutation(any_bits(rng, dtype, n))[:n].reshape(shape)
    x = rng.normal(size=shape) * rng.choice([0.1, 1.0, 3.0])
    if rng.random() < 0.3:
        x = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), x)
    return np.asarray(x).astype(dtype.dtype)


def shape_of(rng: Rng, most: int = 4, least: int = 0, biggest: int = 7) -> tuple[int, ...]:
    """Up to ``most`` axes; now and then one is large."""
    shape = [int(n) for n in rng.choice([0, 1, 1, 2, 3, 4, biggest], rng.integers(least, most + 1))]
    if shape and rng.random() < 0.2:
        shape = [min(n, 3) for n in shape]
        shape[int(rng.integers(len(shape)))] = int(rng.integers(30, 300))
    return tuple(shape)


def broadcastable(rng: Rng, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast together."""
    whole = shape_of(rng)
    out = []
    for _ in range(count):
        cut = whole[int(rng.integers(len(whole) + 1)) if rng.random() < 0.4 else 0 :]
        out.append(tuple(1 if rng.random() < 0.3 else n for n in cut))
    return out


def axes_of(rng: Rng, rank: int) -> tuple[int, ...]:
    """Some of the axes."""
    return tuple(i for i in range(rank) if rng.random() < 0.5)


def elementwise(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    if spec.name == "select":
        c, x, y = broadcastable(rng, 3)
        return [values(rng, dtypes.bool_, c), values(rng, dtype, x), values(rng, dtype, y)], {}
    shapes = broadcastable(rng, 2 if spec.family == "binary" or spec.name == "complex" else 1)
    kinds = (dtypes.bool_, *dtypes.COMPLEX) if dtype.kind == "c" else dtypes.ELEMENTS
    attrs = {"dtype": kinds[int(rng.integers(len(kinds)))]} if spec.name == "cast" else {}
    if dtype.kind == "c" and spec.magnitude is not None:  # the error of a power grows with its exponent
        return [normal(rng, np.empty(s, dtype.dtype)) for s in shapes], attrs
    return [values(rng, dtype, s, wild=rng.random() < 0.5) for s in shapes], attrs


def movement(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    name = spec.name
    shape = shape_of(rng, least=1 if name in ("concatenate", "iota", "gather", "scatter_add", "scatter_set") else 0)
    rank = len(shape)
    x = values(rng, dtype, shape)
    if name == "reshape":
        n, at = int(np.prod(shape)), int(rng.integers(rank + 1))
        options = [
            (n,),
            (1, *shape),
            (*shape[:at], 1, *shape[at:]),
            (int(np.prod(shape[:at])), int(np.prod(shape[at:]))),
        ]
        return [x], {"shape": options[int(rng.integers(4))]}
    if name == "transpose":
        return [x], {"axes": tuple(int(a) for a in rng.permutation(rank))}
    if name == "broadcast_to":
        return [x], {
            "shape": (*shape_of(rng, 2, biggest=3), *(3 if n == 1 and rng.random() < 0.5 else n for n in shape))
        }
    if name == "slice":
        start = [int(rng.integers(n + 1)) for n in shape]
        stop = [int(rng.integers(a, n + 1)) for a, n in zip(start, shape, strict=True)]
        return [x], {
            "start": tuple(start),
            "stop": tuple(stop),
            "step": tuple(int(s) for s in rng.integers(1, 4, rank)),
        }
    if name == "pad":
        low, high, gap = (tuple(int(v) for v in rng.integers(0, 3, rank)) for _ in range(3))
        return [x, values(rng, dtype, ())], {"low": low, "high": high, "interior": gap}
    if name == "concatenate":
        axis = int(rng.integers(rank))
        parts = [(*shape[:axis], int(rng.integers(4)), *shape[axis + 1 :]) for _ in range(int(rng.integers(4)))]
        return [x, *(values(rng, dtype, p) for p in parts)], {"axis": axis}
    if name == "flip":
        return [x], {"axes": axes_of(rng, rank)}
    if name == "iota":
        return [], {"shape": shape, "axis": int(rng.integers(rank)), "dtype": dtype}
    return indexing(name, dtype, rng, x, shape)


def indexing(name: str, dtype: DType, rng: Rng, x: Array, shape: tuple[int, ...]) -> tuple[list[Array], dict[str, Any]]:
    kind = dtypes.INTS[int(rng.integers(len(dtypes.INTS)))]
    rank = len(shape)

    def numbers(low: int, high: int, size: tuple[int, ...]) -> Array:
        info = np.iinfo(kind.dtype)
        return rng.integers(max(low, int(info.min)), min(max(high, 1), int(info.max)), size).astype(kind.dtype)

    if name.startswith("dynamic"):
        sizes = tuple(int(rng.integers(n + 1)) for n in shape)
        starts = numbers(-3, 9, (rank,))
        if name == "dynamic_slice":
            return [x, starts], {"sizes": sizes}
        return [x, values(rng, dtype, sizes), starts], {}
    axis = int(rng.integers(rank))
    batch = int(rng.integers(axis + 1))
    n = shape[axis]
    mode = str(rng.choice(["clip", "fill", "error"])) if n else "fill"
    low, high = (0, n) if mode == "error" else (-3, n + 3)
    i = numbers(low, high, (*shape[:batch], *shape_of(rng, 2, biggest=5)))
    attrs = {"axis": axis, "batch_dims": batch, "mode": mode}
    if name == "gather":
        return [x, i], attrs
    update = _gather_shape(name, Type(dtype, shape), Type(kind, i.shape), **attrs)
    return [x, i, values(rng, dtype, tuple(map(int, update)))], attrs


def reduction(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    shape = shape_of(rng, least=0 if "axes" in spec.attrs else 1)
    x = values(rng, dtype, shape)
    if spec.name == "prod" and dtype.kind == "c":
        x = np.exp(0.2 * np.where(np.isfinite(x), x, 1)).astype(dtype.dtype)[tuple(slice(0, 5) for _ in shape)]
    if spec.name == "prod" and dtype.is_float:
        x = (np.sign(x) * np.clip(np.abs(x.astype(np.float64)), 0.8, 1.25)).astype(dtype.dtype)
        x = x[tuple(slice(0, 5) for _ in shape)]
    if "axes" in spec.attrs:
        return [x], {"axes": axes_of(rng, len(shape))}
    attrs: dict[str, Any] = {"axis": int(rng.integers(len(shape)))}
    return [x], {**attrs, "reverse": bool(rng.random() < 0.5)} if "reverse" in spec.attrs else attrs


def contraction(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    if spec.name == "dot_general":
        count = [int(n) for n in rng.integers(0, 3, 4)]
        batch, inner, left, right = (
            tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5], c, p=[0.05, 0.2, 0.25, 0.25, 0.25])) for c in count
        )
        if inner and rng.random() < 0.3:
            inner = (int(rng.integers(30, 200)),)
        attrs: dict[str, Any] = {}
        args = []
        for side, free in (("x", left), ("y", right)):
            dims = (*batch, *inner, *free)
            order = [int(i) for i in rng.permutation(len(dims))]
            args.append(values(rng, dtype, tuple(dims[i] for i in order)))
            attrs[f"batch_{side}"] = tuple(order.index(i) for i in range(len(batch)))
            attrs[f"contract_{side}"] = tuple(order.index(len(batch) + i) for i in range(len(inner)))
        return args, attrs
    rank = int(rng.integers(1, 4))
    groups = int(rng.integers(1, 3))
    kernel = tuple(int(k) for k in rng.integers(1, 4, rank))
    size = tuple(int(n) for n in rng.integers(1, 9 if rank < 3 else 5, rank))
    x_shape = (int(rng.integers(0, 3)), groups * int(rng.integers(1, 4)), *size)
    w_shape = (groups * int(rng.integers(1, 4)), x_shape[1] // groups, *kernel)
    attrs = {
        "strides": tuple(int(s) for s in rng.integers(1, 4, rank)),
        "low": tuple(int(s) for s in rng.integers(0, 3, rank)),
        "high": tuple(int(s) for s in rng.integers(0, 3, rank)),
        "dilation": tuple(int(s) for s in rng.integers(1, 3, rank)),
        "groups": groups,
    }
    (out,) = OPS["conv"].infer(Type(dtype, x_shape), Type(dtype, w_shape), **attrs)
    x, w, ct = (normal(rng, np.empty(s, dtype.dtype)) for s in (x_shape, w_shape, out.shape))
    if spec.name == "conv":
        return [x, w], attrs
    if spec.name == "conv_input_grad":
        return [ct, w], {**attrs, "size": size}
    return [x, ct], {**attrs, "size": kernel}


def window(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    shape = shape_of(rng)
    rank = len(shape)
    windows = tuple(int(w) for w in rng.integers(1, 4, rank))
    attrs = {
        "window": windows,
        "strides": tuple(int(s) for s in rng.integers(1, 4, rank)),
        "low": tuple(int(rng.integers(w)) for w in windows),
        "high": tuple(int(rng.integers(w)) for w in windows),
    }
    x = values(rng, dtype, shape)
    if spec.name in ("window_sum", "window_max"):
        return [x], attrs
    x = np.round(x.astype(np.float64)).astype(dtype.dtype)  # ties
    (out,) = OPS["window_max"].infer(Type(dtype, shape), **attrs)
    second = out.shape if spec.name == "window_max_spread" else shape
    return [x, rng.normal(size=second).astype(dtype.dtype)], attrs


def random(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    shape = shape_of(rng, 2)
    if spec.name == "random_wrap":
        return [rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32)], {}
    key = values(rng, dtypes.key, shape)
    if spec.name == "random_fold_in":
        return [key, rng.integers(0, 2**32, shape, dtype=np.uint32)], {}
    if spec.name == "random_unwrap":
        return [key], {}
    return [key], {"shape": shape_of(rng, 2), "dtype": dtypes.UNSIGNED[int(rng.integers(4))]}


def matrix(spec: OpSpec, dtype: DType, rng: Rng) -> tuple[list[Array], dict[str, Any]]:
    """The cases of the table with other numbers, those whose results rounding leaves as they are."""
    while True:
        cases = list(spec.sample(rng, dtype))
        case = cases[int(rng.integers(len(cases)))]
        if spec.determined is None or spec.determined(*case.args, **case.attrs):
            return [np.asarray(a) for a in case.args], dict(case.attrs)


MAKERS: dict[str, Any] = {
    "unary": elementwise, "binary": elementwise, "ternary": elementwise, "movement": movement, "reduction": reduction,
    "contraction": contraction, "window": window, "random": random, "complex": elementwise,
    "matrix": matrix,
}  # fmt: skip


def types_of(spec: OpSpec, dtype: DType, args: list[Array]) -> list[Type]:
    """Operand types; keys are words with a last axis of 2."""
    out = []
    for i, a in enumerate(args):
        is_key = dtype.kind == "k" and a.dtype == np.uint32 and (i == 0 or spec.family != "random")
        first = spec.name not in ("gather", "dynamic_slice") or i == 0
        out.append(Type(dtypes.key, a.shape[:-1]) if is_key and first else Type(dtypes.as_dtype(a.dtype), a.shape))
    return out


@pytest.mark.parametrize(("spec", "dtype"), CELLS, ids=[f"{s.name}-{d.short}" for s, d in CELLS])
@settings(suppress_health_check=list(HealthCheck), max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("as it is", *LAYOUTS)))
def test_random_cases(spec: OpSpec, dtype: DType, seed: int, layout: str) -> None:
    rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    args, attrs = MAKERS[spec.family](spec, dtype, rng)
    args = [np.asarray(a) if layout == "as it is" else LAYOUTS[layout](np.asarray(a)) for a in args]
    types = types_of(spec, dtype, args)
    try:
        spec.infer(*types, **attrs)
    except ShapeError as error:
        assert "size 0" in error.reason, error
        return
    if spec.determined is not None and not spec.determined(*args, **attrs):
        return
    right = truth(spec, types, args, attrs)
    compiled = Compiled(spec, types, attrs)
    # Donated operands are copies in row-major order: sums may then be taken in another order.
    one, whole, donated = eager(spec, types, args, attrs), compiled(args, donate=False), compiled(args)
    assert equal(one, whole), f"{types} {attrs}\n{one}\n{whole}"
    reference = by_reference(spec, types, args, attrs)
    for name, got in (("reference", reference), ("eager", one), ("donated", donated)):
        error = right.error(got)
        assert error <= spec.bound(dtype), f"{name}: {error} for {types} {attrs}\n{args}\n{got}\n{right.want}"
