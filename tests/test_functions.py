"""The public functions against NumPy in float64, on shapes with sizes 0, 1 and n, over dtypes and promotions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import Array, any_dtype, check, draw_array, floats, reals, seeds, shapes, wide

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.operators import Operators

PI = math.pi
_erf = np.vectorize(math.erf, otypes=[np.float64])
LOW: dict[str, float] = {"log": 0.1, "sqrt": 0.0, "rsqrt": 0.1, "arccosh": 1.0, "log1p": -0.9}

REAL: dict[str, Callable[[Array], Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin,
    "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "erf": _erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "reciprocal": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REAL))
@given(any_dtype, shapes, seeds)
def test_real_functions(name: str, dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed, special=True)
    out = dtypes.to_inexact(dtype)
    with np.errstate(all="ignore"):
        check(getattr(dd, name)(x), REAL[name](x.astype(out.dtype).astype(np.float64)), out)


SAME: dict[str, Callable[[Array], Any]] = {
    "negative": np.negative, "absolute": np.abs, "abs": np.abs, "sign": np.sign, "square": lambda x: x * x,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "round": np.rint,
    "stop_gradient": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SAME))
@given(reals, shapes, seeds)
def test_functions_that_keep_the_dtype(name: str, dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed, special=True)
    with np.errstate(all="ignore"):
        want = np.asarray(SAME[name](wide(x)))
        check(getattr(dd, name)(x), want if dtype.is_float else want.astype(dtype.dtype), dtype)


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan", "logical_not"])
@given(any_dtype, shapes, seeds)
def test_predicates(name: str, dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed, special=True)
    check(getattr(dd, name)(x), getattr(np, name)(wide(x)), dd.bool_)


def pairs(seed: int, a: DType, b: DType, shape: tuple[int, ...], **options: Any) -> tuple[Array, Array]:
    """Two operands that broadcast: each loses some axes."""
    rng = np.random.default_rng(seed)
    cut = [tuple(1 if rng.random() < 0.3 else n for n in shape) for _ in range(2)]
    cut[int(rng.integers(2))] = shape
    lost = int(rng.integers(0, len(shape) + 1)) if shape else 0
    second = cut[1][lost:]
    return draw_array(a, cut[0], seed, **options), draw_array(b, second, seed + 1, **options)


BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "mod": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "arctan2": np.arctan2, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "logaddexp": np.logaddexp,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BINARY))
@given(any_dtype, any_dtype, shapes, seeds)
def test_functions_of_two_promote_and_broadcast(
    name: str, a: DType, b: DType, shape: tuple[int, ...], seed: int
) -> None:
    x, y = pairs(seed, a, b, shape, special=name not in ("floor_divide", "power"), least=0.0 if name == "power" else -4)
    common = dd.promote_types(a, b)
    if common.kind == "b":
        if name == "subtract":
            with pytest.raises(dd.DTypeError):
                dd.subtract(x, y)
            return
        if name in ("floor_divide", "remainder", "mod", "power"):
            common = dd.int32  # arithmetic on bool without a logical meaning
    if name in ("divide", "arctan2", "logaddexp"):
        common = dtypes.to_inexact(common)
    out = (
        dd.bool_
        if BINARY[name] in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
        else common
    )
    with np.errstate(all="ignore"):
        want = np.asarray(BINARY[name](wide(x.astype(common.dtype)), wide(y.astype(common.dtype))))
        if not out.is_float:
            want = want.astype(out.dtype)
        check(getattr(dd, name)(x, y), want, out)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
@given(st.sampled_from(dtypes.INTS), st.sampled_from(dtypes.INTS), shapes, seeds)
def test_bit_functions(name: str, a: DType, b: DType, shape: tuple[int, ...], seed: int) -> None:
    x, y = pairs(seed, a, b, shape)
    common = dd.promote_types(a, b)
    if common.is_float:
        with pytest.raises(dd.DTypeError):
            getattr(dd, name)(x, y)
        return
    if "shift" in name:
        y = np.clip(y, 0, 7)
    check(getattr(dd, name)(x, y), getattr(np, name)(x.astype(common.dtype), y.astype(common.dtype)), common)
    check(dd.bitwise_not(x), np.invert(x), a)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@given(any_dtype, any_dtype, shapes, seeds)
def test_logical_functions(name: str, a: DType, b: DType, shape: tuple[int, ...], seed: int) -> None:
    x, y = pairs(seed, a, b, shape, special=True)
    check(getattr(dd, name)(x, y), getattr(np, name)(wide(x), wide(y)), dd.bool_)


@given(any_dtype, any_dtype, shapes, seeds)
def test_where_and_clip(a: DType, b: DType, shape: tuple[int, ...], seed: int) -> None:
    x, y = pairs(seed, a, b, shape, special=True)
    common = dd.promote_types(a, b)
    c = draw_array(dd.bool_, shape, seed + 2)
    check(dd.where(c, x, y), np.where(c, x.astype(common.dtype), y.astype(common.dtype)), common)
    if a.kind != "b":
        check(dd.clip(x, 1, 3), np.minimum(np.maximum(x, x.dtype.type(1)), x.dtype.type(3)), a)


@given(any_dtype, any_dtype, shapes, seeds)
def test_astype(a: DType, b: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(a, shape, seed, least=0.0 if b.kind == "u" else -4.0)
    check(dd.astype(x, b), wide(x).astype(b.dtype), b)


def axes_of(data: Any, rank: int) -> Any:
    """None, one axis or several, some of them negative."""
    if rank == 0 or data.draw(st.booleans()):
        return data.draw(st.sampled_from((None, ()))) if rank == 0 else None
    chosen = data.draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    signed = tuple(a - rank if data.draw(st.booleans()) else a for a in chosen)
    return signed[0] if len(signed) == 1 and data.draw(st.booleans()) else signed


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"])
@given(any_dtype, shapes, seeds, st.booleans(), st.data())
def test_reductions(name: str, dtype: DType, shape: tuple[int, ...], seed: int, keepdims: bool, data: Any) -> None:
    x = draw_array(dtype, shape, seed, special=name in ("max", "min", "any", "all"))
    axis = axes_of(data, len(shape))
    names = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    over = [a % len(shape) for a in names]
    f = getattr(dd, name)
    if name in ("max", "min") and dtype.kind != "b" and any(shape[a] == 0 for a in over):
        rest = [n for i, n in enumerate(shape) if i not in over]
        if 0 not in rest:
            with pytest.raises(dd.ShapeError):
                f(x, axis, keepdims=keepdims)
        return
    if name in ("max", "min") and dtype.kind == "b":
        check(
            f(x, axis, keepdims=keepdims), getattr(np, {"max": "any", "min": "all"}[name])(x, axis, keepdims=keepdims)
        )
        return
    out = {"sum": dtypes.accumulator(dtype), "prod": dtypes.accumulator(dtype), "any": dd.bool_, "all": dd.bool_}.get(
        name, dtypes.to_inexact(dtype) if name in ("mean", "var", "std") else dtype
    )
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context():
        import warnings

        warnings.simplefilter("ignore", RuntimeWarning)
        options = {"dtype": out.dtype} if name in ("sum", "prod") and not out.is_float else {}
        want = np.asarray(getattr(np, name)(wide(x), axis, keepdims=keepdims, **options))
        scale = 1 + float(np.sum(np.abs(wide(x)))) if x.size else 1.0
        scale = np.maximum(scale * (scale if name == "var" else 1), np.abs(wide(want))) if dtype.is_float else 1.0
    check(f(x, axis, keepdims=keepdims), want.astype(out.dtype) if not out.is_float else want, out, scale)


@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cummax", "sort", "argsort"])
@given(any_dtype, shapes, seeds, st.data())
def test_functions_along_an_axis(name: str, dtype: DType, shape: tuple[int, ...], seed: int, data: Any) -> None:
    x = draw_array(dtype, shape, seed, special=name != "cumsum")
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1))) if shape else None
    f = getattr(dd, name)
    n = x.size if axis is None else shape[axis]
    if name in ("argmax", "argmin"):
        keepdims = data.draw(st.booleans())
        if n == 0:
            with pytest.raises(dd.ShapeError):
                f(x, axis, keepdims)
            return
        check(f(x, axis, keepdims), getattr(np, name)(wide(x), axis, keepdims=keepdims), dd.int32)
        return
    if name == "cummax":
        if dtype.kind == "b":
            return
        flat = x.ravel() if axis is None else x
        check(f(x, axis), np.maximum.accumulate(flat, 0 if axis is None else axis), dtype)
    elif name == "cumsum":
        out = dtypes.accumulator(dtype)
        check(f(x, axis), np.cumsum(wide(x), axis, dtype=None if out.is_float else out.dtype), out, 4 + 4 * x.size)
    elif name == "sort":
        check(f(x, axis), np.sort(wide(x), axis), dtype)
    else:
        check(f(x, axis), np.argsort(wide(x), axis, kind="stable"), dd.int32)


@given(floats, shapes, seeds)
def test_norm(dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed)
    check(dd.norm(x), np.sqrt(np.sum(wide(x) ** 2)), dtype)
    if shape and 0 not in shape:
        check(dd.norm(x, -1, keepdims=True), np.sqrt(np.sum(wide(x) ** 2, -1, keepdims=True)), dtype)


def test_norm_does_not_overflow() -> None:
    for dtype in (dd.float16, dd.float32, dd.float64):
        big = float(np.finfo(dtype.dtype).max) / 4
        check(dd.norm(dd.array([big, big], dtype)), np.asarray(big * math.sqrt(2)), dtype)
        tiny = float(np.finfo(dtype.dtype).tiny)
        check(dd.norm(dd.array([3 * tiny, 4 * tiny], dtype)), np.asarray(5 * tiny), dtype, 5 * tiny)


def _softmax(x: Array) -> Array:
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


NN: dict[str, Callable[[Array], Any]] = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "softmax": _softmax,
    "log_softmax": lambda x: np.log(_softmax(x)),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "linear": lambda x: x,
}


@pytest.mark.parametrize("name", sorted(NN))
@given(floats, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), seeds)
def test_functions_of_networks(name: str, dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    x = draw_array(dtype, shape, seed)
    wanted = NN[name](wide(x))
    check(getattr(dd.nn, name)(x), wanted, dtype, 4.0)
    check(dd.defn(getattr(dd.nn, name))(x), wanted, dtype, 4.0)


def test_activations_at_the_edges() -> None:
    x = np.array([-np.inf, -1e30, -100, -0.0, 0.0, 100, 1e30, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        check(dd.nn.relu(x), np.where(np.isnan(x), x, np.maximum(x, 0)), dd.float32)
        check(dd.nn.softplus(x), np.logaddexp(x.astype(np.float64), 0), dd.float32)
        check(dd.nn.elu(x), np.where(x > 0, x, np.expm1(np.minimum(x, 0))), dd.float32)
        check(dd.sigmoid(x), 1 / (1 + np.exp(-x.astype(np.float64))), dd.float32)
        check(dd.nn.gelu(x[1:-2]), NN["gelu"](x[1:-2].astype(np.float64)), dd.float32)
    check(dd.nn.softmax(np.array([1e30, 0, -1e30], np.float32)), np.array([1.0, 0, 0]), dd.float32)
    check(dd.nn.logsumexp(np.array([-np.inf, -np.inf], np.float32)), np.asarray(-np.inf), dd.float32)
    check(dd.nn.logsumexp(np.array([np.inf, 0], np.float32)), np.asarray(np.inf), dd.float32)


_OWN_SPELLING = {"astype", "compress", "dot", "reshape", "transpose"}  # by position and name, or the array comes second


def test_methods_take_what_functions_take():
    seen = 0
    for name, method in vars(Operators).items():
        function = getattr(dd, name, None)
        if name.startswith("_") or name in _OWN_SPELLING or not callable(method) or function is None:
            continue
        taken, wanted = (
            [(p.name, p.kind, p.default) for p in list(inspect.signature(f).parameters.values())[1:]]
            for f in (method, function)
        )
        assert taken == wanted, name
        seen += 1
    assert seen > 20


def test_methods_pass_on_what_they_take():
    x = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    a, keep = dd.array(x), x > 1.5
    for got, want in (
        (a.sum(1, where=keep, initial=10), x.sum(1, where=keep, initial=10)),
        (a.prod(where=keep, initial=2), x.prod(where=keep, initial=2)),
        (a.max(0, where=keep, initial=0), x.max(0, where=keep, initial=0)),
        (a.min(0, where=keep, initial=9), x.min(0, where=keep, initial=9)),
        (a.mean(0, where=keep), x.mean(0, where=keep)),
        (a.var(1, correction=1, where=keep), x.var(1, ddof=1, where=keep)),
        (a.std(dtype="float64"), x.std()),
        ((a > 2).any(0, where=keep), (x > 2).any(0, where=keep)),
        ((a > 2).all(0, where=keep), (x > 2).all(0, where=keep)),
        (a.cumsum(1, "float64", reverse=True), x[:, ::-1].cumsum(1)[:, ::-1]),
        (a.trace(dtype="float64"), x.trace()),
        (a.take(dd.array([9]), mode="fill", fill_value=7.0), [7.0]),
    ):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
