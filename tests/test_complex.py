"""Complex numbers end to end: eager, compiled, exported and on the reference, against NumPy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluate import evaluate
from hypothesis import given
from hypothesis import strategies as st
from measure import LAYOUTS
from numeric import seeds, shapes

import dala_defn as dd
from dala_defn import dtypes, ops
from dala_defn.dtypes import DType, as_pairs, from_pairs
from dala_defn.ir import Graph, Node, Type, Value
from dala_defn.ir.codec import decode, encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops import OPS
from dala_defn.passes import PASSES, grad_graph
from dala_defn.passes.complex_pairs import has_complex
from dala_defn.trace import trace_function

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
PARTS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN])
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])
BOUND = {dtypes.complex64: 4e-6, dtypes.complex128: 1e-14}
complexes = st.sampled_from(dtypes.COMPLEX)


def draw(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=shape) * 2 + 2j * rng.normal(size=shape)).astype(dtype.dtype)


def close(found: Any, wanted: Any, dtype: DType) -> None:
    x, y = np.asarray(found), np.asarray(wanted)
    assert x.shape == y.shape and x.dtype.kind == y.dtype.kind, f"{x.dtype}{x.shape}, not {y.dtype}{y.shape}"
    scale = np.max(np.abs(y), initial=1)
    assert np.all(np.abs(x - y) <= BOUND[dtype] * scale), f"{x}\n{y}"


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arithmetic": (lambda x, y: (x + y) * x - y / (x + 3j), lambda x, y: (x + y) * x - y / (x + 3j)),
    "weak numbers": (lambda x, y: 2j * x - y / 2 + 1, lambda x, y: 2j * x - y / 2 + 1),
    "powers": (lambda x, y: x**2 + y**0.5, lambda x, y: x**2 + y**0.5),
    "parts": (
        lambda x, y: dd.complex(x.real, y.imag) + x.conj() + dd.angle(y) + abs(x),
        lambda x, y: x.real + 1j * y.imag + x.conj() + np.angle(y) + abs(x),
    ),
    "functions": (
        lambda x, y: dd.exp(x) + dd.log(y) + dd.sqrt(x) + dd.sin(y) + dd.tanh(x) + dd.arcsin(y),
        lambda x, y: np.exp(x) + np.log(y) + np.sqrt(x) + np.sin(y) + np.tanh(x) + np.arcsin(y),
    ),
    "comparison": (lambda x, y: dd.where(x == y, x, y * 2), lambda x, y: np.where(x == y, x, y * 2)),
    "sums": (lambda x, y: dd.sum(x) + dd.mean(y + 1), lambda x, y: np.sum(x) + np.sum(y + 1) / max(y.size, 1)),
    "movement": (
        lambda x, y: dd.concatenate([dd.ravel(x), dd.ravel(y)[::-1]]),
        lambda x, y: np.concatenate([x.ravel(), y.ravel()[::-1]]),
    ),
    "outer": (lambda x, y: dd.outer(x, y), lambda x, y: np.outer(x, y)),
    "sign": (lambda x, y: dd.sign(x) + dd.reciprocal(dd.sign(y) + 2), lambda x, y: np.sign(x) + 1 / (np.sign(y) + 2)),
}


def everywhere(f: Callable[..., Any], args: tuple[Any, ...], path: Path) -> list[Any]:
    """Eagerly, compiled, exported for any size, exported for this one; the same on the reference."""
    compiled = dd.defn(f)
    out = []
    for name in ("flex", "reference"):
        with dd.using(name):
            compiled.export(path, *args)
            out += [f(*map(dd.array, args)), compiled(*args), dd.load(path)(*args)]
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", dtypes.COMPLEX, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 0), (2, 3)], ids=str)
def test_eager_compiled_and_exported_agree_with_numpy(
    name: str, dtype: DType, shape: tuple[int, ...], tmp_path: Path
) -> None:
    ours, numpys = FUNCTIONS[name]
    x, y = draw(dtype, shape, 1), draw(dtype, shape, 2)
    if name == "sums" and 0 in shape:
        pytest.skip("the mean of nothing")
    with np.errstate(all="ignore"):
        want = numpys(x.astype(np.complex128), y.astype(np.complex128))
    for found in everywhere(ours, (x, y), tmp_path / "f.dala"):
        assert np.asarray(found).dtype == (dtype.dtype if np.iscomplexobj(want) else dtypes.real_of(dtype).dtype)
        close(found, want, dtype)


@given(complexes, shapes, seeds, st.sampled_from(sorted(LAYOUTS)))
def test_any_memory_layout(dtype: DType, shape: tuple[int, ...], seed: int, layout: str) -> None:
    x = LAYOUTS[layout](draw(dtype, shape, seed))
    before = x.copy()
    for found in (dd.exp(x), F_EXP(x), -dd.array(x)):
        assert np.asarray(found).shape == x.shape
    close(F_EXP(x), np.exp(x.astype(np.complex128)), dtype)
    close(-dd.array(x), -x, dtype)
    assert np.array_equal(x, before)


F_EXP = dd.defn(lambda x: dd.exp(x))
WITH_NAN_IN_C = ("tan", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")
UNARY = (
    *("exp", "log", "log1p", "sqrt", "sin", "cos", "sinh", "cosh", "isfinite", "isnan", "isinf", "absolute", "angle"),
    *("negative", "conj", "square", "sign", *WITH_NAN_IN_C),
)


def same(found: Any, wanted: Any, signs: bool) -> bool:
    """One real number like another; NaN like NaN."""
    if np.isnan(wanted) or np.isnan(found):
        return bool(np.isnan(wanted) and np.isnan(found))
    equal = found == wanted or (np.isfinite(wanted) and abs(found - wanted) <= 1e-14 * max(1, abs(wanted)))
    return bool(equal and (not signs or np.signbit(found) == np.signbit(wanted)))


# Signs that C leaves open: of what is infinite times the sine or cosine of an infinite angle, and of zeros there.
OPEN = {"exp": 1, "sin": 3, "sinh": 3, "tan": 2, "tanh": 2, "arctan": 2, "arctanh": 2}


@pytest.mark.parametrize("name", UNARY)
def test_infinities_nan_and_signed_zeros_are_those_of_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        want = np.asarray(getattr(np, name)(SPECIAL))
    got = np.asarray(getattr(dd, name)(dd.array(SPECIAL)))
    again = np.asarray(dd.defn(lambda z: getattr(dd, name)(z))(SPECIAL))
    # One op runs alone in the one, and as a kernel in the other: they may differ in the last digit.
    np.testing.assert_allclose(got, again, rtol=1e-14)
    assert got.dtype == again.dtype == want.dtype
    if want.dtype == bool:
        assert np.array_equal(got, want)
        return
    wrong, signs = [], 0
    for z, a, b in zip(SPECIAL, got, want, strict=True):
        if name == "log1p" and z == 0:
            b = complex(0, z.imag)  # NumPy adds a complex 1, which loses the sign
        if np.isnan(z) and np.isnan(a) and name in WITH_NAN_IN_C:
            continue
        pairs = [(a.real, b.real), (a.imag, b.imag)]
        if all(same(*p, signs=True) for p in pairs):
            continue
        if not np.isfinite(z) and all(same(abs(p), abs(q), signs=True) for p, q in pairs):
            signs += 1
        else:
            wrong.append(f"{z}: {a}, not {b}")
    assert not wrong, "\n".join(wrong)
    assert signs <= OPEN.get(name, 0)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_with_infinities_is_that_of_numpy(name: str) -> None:
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
    got = np.asarray(getattr(dd, name)(dd.array(x), dd.array(y)))
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        finite = np.isfinite(b)
        assert np.all(np.abs(a[finite] - b[finite]) <= 1e-15 * np.maximum(1, np.abs(b[finite])))
        assert np.array_equal(a[~finite], b[~finite], equal_nan=True)


@pytest.mark.parametrize("dtype", dtypes.COMPLEX, ids=str)
def test_nothing_overflows_or_vanishes_on_the_way(dtype: DType) -> None:
    info = np.finfo(dtypes.real_of(dtype).dtype)
    for size in (float(info.max) / 4, float(info.tiny), float(info.smallest_subnormal) * 64):
        z = np.array([3 + 4j, -4 + 3j, 4 - 3j, 5, 5j], dtype.dtype) * info.dtype.type(size / 8)
        w = np.asarray(dd.array(z) / dd.array(z))
        np.testing.assert_allclose(w, np.ones(5), rtol=0, atol=1e-6)
        np.testing.assert_allclose(np.asarray(dd.absolute(z)), np.full(5, 5 * (size / 8), info.dtype), rtol=1e-6)
        root, wide = (np.asarray(v).astype(np.clongdouble) for v in (dd.sqrt(z), z))
        np.testing.assert_allclose(root * root / np.abs(wide), wide / np.abs(wide), atol=1e-6)
    top = np.log(float(info.max))
    edge = np.array([complex(top + 0.3, np.pi / 2 - 0.1), complex(top + 0.3, 0)], dtype.dtype)
    wide = np.exp(edge.astype(np.clongdouble))
    found = np.asarray(dd.exp(edge))
    assert np.isfinite(found[0].real) and np.isclose(found[0].real, float(wide[0].real), rtol=1e-4)
    assert found[1] == complex(INF, 0)


# Boundaries.


def test_arrays_from_numbers_and_back() -> None:
    x = dd.array([1 + 2j, 3])
    assert x.dtype is dd.complex64 and x.shape == (2,)
    assert dd.array(1 + 2j).dtype is dd.complex64
    assert dd.array(np.array([1j])).dtype is dd.complex128
    assert dd.array([1.0, 2.0], dtype=dd.complex128).dtype is dd.complex128
    assert dd.array(1, dtype=complex).dtype is dd.complex64
    assert x.tolist() == [1 + 2j, 3] and x[0].item() == 1 + 2j and complex(x[1]) == 3
    assert str(x) == "[1.+2.j 3.+0.j]" and repr(x) == "array([1.+2.j, 3.+0.j], dtype=complex64)"
    assert f"{x[0]:.1f}" == "1.0+2.0j"
    assert bool(x[0]) and not bool(dd.array(0j))
    with pytest.raises(TypeError):
        float(x[0])
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x * 1j * -1j))):
        assert other.dtype is dd.complex64 and np.array_equal(np.asarray(other), np.asarray(x))
    assert np.asarray(dd.zeros((2, 0), dd.complex64)).dtype == np.complex64
    assert np.asarray(dd.eye(2, dtype=dd.complex64)).tolist() == [[1, 0], [0, 1]]


def test_results_are_read_where_they_lie_and_keep_their_memory() -> None:
    x = dd.array(np.arange(4) + 1j)
    y = x * 2
    seen = np.asarray(y)
    assert seen.dtype == np.complex128 and not seen.flags.writeable
    assert np.shares_memory(seen, y._storage.numpy())
    add = dd.defn(lambda a: a + 1, donate_argnames="a")
    z = add(y)  # someone still reads y, so its memory is not given away
    assert seen.tolist() == [2j, 2 + 2j, 4 + 2j, 6 + 2j] and np.asarray(z)[0] == 1 + 2j
    del seen
    w = add(z)
    with pytest.raises(dd.DonatedError):
        np.asarray(z)
    assert np.asarray(w)[0] == 2 + 2j


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        (dd.float32, 1j, dd.complex64),
        (dd.float64, 1j, dd.complex128),
        (dd.int64, 1j, dd.complex64),
        (dd.bool_, 1j, dd.complex64),
        (dd.complex64, 1.5, dd.complex64),
        (dd.complex64, dd.float64, dd.complex128),
        (dd.complex64, dd.int64, dd.complex64),
        (dd.complex64, dd.float16, dd.complex64),
        (dd.complex64, dd.complex128, dd.complex128),
        (dd.complex128, dd.bfloat16, dd.complex128),
    ],
    ids=str,
)
def test_promotion(x: Any, y: Any, wanted: DType) -> None:
    a = dd.array(1, dtype=x)
    b = dd.array(1, dtype=y) if isinstance(y, DType) else y
    assert dd.result_type(x, y) is wanted
    for out in (a + b, b * a, dd.defn(lambda v: v + b)(a)):
        assert out.dtype is wanted


def test_what_would_lose_the_imaginary_part_is_refused() -> None:
    x = dd.array([1j])
    with pytest.raises(dd.DTypeError, match="imaginary part would be lost") as caught:
        x.astype(dd.float32)
    assert "dd.real(x)" in str(caught.value)
    for f in (
        lambda: dd.array([1j, 2.0], dtype=dd.float32),
        lambda: dd.array(1j, dtype=dd.float64),
        lambda: dd.array(1j, dtype=dd.int32),
        lambda: dd.full(2, 1j, dd.float32),
    ):
        with pytest.raises(dd.DTypeError, match="complex"):
            f()
    assert x.astype(bool).tolist() == [True] and x.astype(dd.complex128).dtype is dd.complex128
    for op in (dd.maximum, dd.less, dd.floor_divide, dd.arctan2):
        with pytest.raises(dd.DTypeError, match="does not take complex64") as caught:
            op(x, x)
        assert "dd.real(x)" in str(caught.value)
    for one in (dd.sort, dd.argmax, dd.floor, dd.erf, dd.max, dd.cummax):
        with pytest.raises(dd.DTypeError, match="does not take complex64"):
            one(x)


def test_parts_of_real_arrays() -> None:
    for x in (dd.array([1, -2]), dd.array([1.5, -2.5])):
        assert dd.real(x) is x and dd.conj(x) is x and x.real.dtype is x.dtype
        assert x.imag.tolist() == [0, 0] and x.imag.dtype is x.dtype
        np.testing.assert_allclose(dd.angle(x), [0, np.pi], rtol=1e-6)
    assert dd.complex(1, 2).item() == 1 + 2j and dd.complex(dd.array([1.0], dtype=dd.float64)).dtype is dd.complex128
    with pytest.raises(dd.DTypeError):
        dd.complex(1j, 2)
    np.testing.assert_allclose(dd.angle(dd.array([1j, -1.0 + 0j, complex(-1, -0.0)]), deg=True), [90, 180, -180])


def test_reductions_and_products() -> None:
    x, y = draw(dtypes.complex128, (3, 4), 1), draw(dtypes.complex128, (4, 2), 2)
    one = dtypes.complex128
    close(dd.matmul(x, y), x @ y, one)
    close(dd.vdot(x, x), np.vdot(x, x), one)
    close(dd.norm(x), np.linalg.norm(x), one)
    for name in ("sum", "prod", "mean", "var", "std"):
        for axis in (None, 0, 1):
            close(getattr(dd, name)(x, axis=axis), getattr(np, name)(x, axis=axis), one)
    close(dd.cumsum(x, 1), np.cumsum(x, 1), one)
    close(dd.prod(np.zeros((2, 0), np.complex128), axis=1), np.ones(2, np.complex128), one)
    assert dd.any(dd.array([0j, 1j])) and not dd.all(dd.array([0j, 1j]))
    image, kernel = draw(one, (1, 5, 2), 3), draw(one, (2, 2, 3), 4)
    want = np.stack([np.einsum("tc,tco->o", image[0, i : i + 2], kernel) for i in range(4)])[None]
    close(dd.conv(image, kernel), want, one)


# Files.


def exported(path: Path) -> Any:
    scale = dd.array([1 + 1j, 2 - 1j])

    @dd.defn
    def f(x: Any, *, t: Any) -> Any:
        return {"y": x * scale + 1j, "size": abs(x) * t}

    f.export(path, dd.spec(("b", 2), dd.complex64), t=dd.spec((), dd.float32))
    return f


@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_a_loaded_file_takes_and_gives_complex_numbers(executor: str, tmp_path: Path) -> None:
    exported(tmp_path / "f.dala")
    m = dd.load(tmp_path / "f.dala", executor)
    assert repr(m.default) == "main(x: c64[b, 2], t: f32[]) -> f32[b, 2], c64[b, 2]"
    for n in (1, 3):
        x = draw(dtypes.complex64, (n, 2), n)
        out = m(x, t=np.float32(2))
        close(out["y"], x * np.array([1 + 1j, 2 - 1j]) + 1j, dtypes.complex64)
        close(out["size"], abs(x) * 2, dtypes.complex64)
    captured = m.state("captured/0")
    assert captured.dtype is dd.complex64 and captured.tolist() == [1 + 1j, 2 - 1j]
    with pytest.raises(dd.DTypeError, match=r"argument x is f32\[1, 2\], not c64\[b, 2\]"):
        m(np.ones((1, 2), np.float32), t=1.0)
    with pytest.raises(dd.ShapeError):
        m(np.ones((1, 3), np.complex64), t=1.0)


def test_a_file_holds_real_tensors_and_says_what_is_complex(tmp_path: Path) -> None:
    exported(tmp_path / "f.dala")
    data = (tmp_path / "f.dala").read_bytes()
    program = decode(data, ops.OPS)
    (entry,) = program.entries
    assert not has_complex(entry.graph)
    assert [str(t) for t in entry.arg_types()] == ["c64[b, 2]", "f32[]", "c64[2]"]
    assert [str(v.type) for v in entry.graph.inputs] == ["f32[b, 2, 2]", "f32[]", "f32[2, 2]"]
    assert program.tensors["captured/0"].tolist() == [[1, 1], [2, -1]]
    assert b'"dala.complex":"{\\"main\\":{\\"args\\":[0,2],\\"results\\":[1]}}"' in data
    assert encode(program) == data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"other":{"args":[],"results":[]}}', "no entry 'other'"),
        ('{"main":{"args":[7],"results":[]}}', "no position"),
        ('{"main":{"args":[0,0],"results":[]}}', "no position"),
        ('{"main":{"args":[-1],"results":[]}}', "no position"),
        ('{"main":{"args":[1],"results":[]}}', "cannot be a complex one"),
        ('{"main":{"args":[]}}', "missing"),
        ('{"main":[]}', "no object"),
        ("[]", "no object"),
    ],
)
def test_a_wrong_list_of_complex_values_is_refused(text: str, words: str, tmp_path: Path) -> None:
    from dala_defn.ir.container import Container, write

    exported(tmp_path / "f.dala")
    c = Container((tmp_path / "f.dala").read_bytes())
    tensors = {name: c.tensor(name) for name in c.names()}
    with pytest.raises(dd.FileFormatError, match=words):
        decode(write(c.program, tensors, {}, text), ops.OPS)


def test_the_command_shows_and_runs_complex_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dala_defn.__main__ import main

    exported(tmp_path / "f.dala")
    path = str(tmp_path / "f.dala")
    assert main(["info", path]) == 0
    told = capsys.readouterr().out
    assert "takes  x: complex64[b, 2]" in told and "gives  y: complex64[b, 2]" in told
    assert "captured/0: float32[2, 2]" in told
    assert main(["run", path, "x=@[[1+2j, 3]]", "t=@2"]) == 0
    told = capsys.readouterr().out
    assert "y: complex64[1, 2]\n[[-1.+4.j  6.-2.j]]" in told and "size: float32[1, 2]\n[[4.472136 6.      ]]" in told
    assert main(["verify", path]) == 0


def test_calls_that_are_repeated_take_the_fast_way() -> None:
    f = dd.defn(lambda x: x * 2j)
    x = np.array([1 + 1j, 2.0], np.complex64)
    for _ in range(3):
        assert f(x).tolist() == [-2 + 2j, 4j]
        assert f(dd.array(x) * 1).tolist() == [-2 + 2j, 4j]
    assert f(x[::-1]).tolist() == [4j, -2 + 2j]  # not laid out as the fast way needs it
    assert f.traces == 1


# Derivatives.


def gradients(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(g) for g in dd.grad(f, argnums=tuple(range(len(args))))(*map(dd.array, args)))


def test_the_gradient_of_a_real_scalar_is_dx_less_i_dy() -> None:
    z = np.array([1 + 2j, -0.5 + 1j])
    (g,) = gradients(lambda z: dd.sum(dd.absolute(z) ** 2), z)
    np.testing.assert_allclose(g, 2 * np.conj(z))
    (g,) = gradients(lambda z: dd.sum(dd.real(z * z * z)), z)
    np.testing.assert_allclose(g, 3 * z * z)
    (g,) = gradients(lambda z: dd.sum(dd.imag(dd.exp(z))), z)
    np.testing.assert_allclose(g, -1j * np.exp(z))
    a, b = gradients(lambda x, z: dd.sum(dd.real(x * z)), np.array([1.0, 2.0]), z)
    np.testing.assert_allclose(a, z.real)
    assert a.dtype == np.float64 and b.tolist() == [1, 2]


FUNCTIONS_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "abs": lambda z: dd.sum(dd.absolute(z * z + 1)),
    "sign": lambda z: dd.sum(dd.real(dd.sign(z) * (1 + 2j))),
    "angle": lambda z: dd.sum(dd.angle(z) ** 2),
    "norm": lambda z: dd.norm(dd.sin(z)),
    "var": lambda z: dd.var(z),
    "matmul": lambda z: dd.sum(dd.absolute(z @ dd.reshape(z, (2, 1)))),
    "power": lambda z: dd.sum(dd.real(z ** (0.5 + 1j))),
    "conj": lambda z: dd.real(dd.vdot(z, dd.exp(z))),
    "cast": lambda z: dd.sum(dd.real(dd.complex(dd.imag(z), dd.real(z)) * 1j * z)),
    "prod": lambda z: dd.real(dd.prod(z)),
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ONE)
def test_gradients_agree_with_differences_of_both_parts(name: str) -> None:
    f = FUNCTIONS_OF_ONE[name]
    z = np.array([0.7 + 0.4j, -0.3 + 1.1j])
    (g,) = gradients(f, z)
    h = 1e-6
    for i in range(2):
        dx, dy = (
            (float(f(dd.array(z + d))) - float(f(dd.array(z - d)))) / (2 * h)
            for d in (np.eye(2)[i] * h, np.eye(2)[i] * h * 1j)
        )
        assert abs(g[i] - (dx - 1j * dy)) < 1e-7, f"{g[i]}, not {dx - 1j * dy}"


def test_jvp_of_a_holomorphic_function_is_its_derivative() -> None:
    z = dd.array(np.array([0.7 + 0.4j, -0.3 + 1.1j]))
    _, t = dd.jvp(lambda z: dd.tan(z) * z, (z,), (z * 0 + 1,))
    w = np.asarray(z)
    np.testing.assert_allclose(t, np.tan(w) + w * (1 + np.tan(w) ** 2), rtol=1e-12)
    (h,) = gradients(lambda x: dd.real(dd.jvp(dd.exp, (dd.complex(x, x),), (dd.complex(1.0, 0.0 * x),))[1]), 0.3)
    np.testing.assert_allclose(h, np.exp(0.3) * (np.cos(0.3) - np.sin(0.3)), rtol=1e-6)


def test_jacobians_are_of_real_numbers() -> None:
    z = dd.array(np.array([0.5 + 1j, 2 - 1j]))
    g = dd.jacrev(lambda z: dd.absolute(z) ** 2)(z)
    np.testing.assert_allclose(g, np.diag(2 * np.conj(np.asarray(z))))
    j = dd.jacfwd(lambda x: dd.exp(1j * x))(dd.array(np.array([0.5, 2.0])))
    np.testing.assert_allclose(j, np.diag(1j * np.exp(1j * np.array([0.5, 2.0]))))
    for f in (dd.jacrev(lambda z: z * z), dd.jacfwd(lambda z: z * z), dd.hessian(lambda z: dd.sum(dd.absolute(z)))):
        with pytest.raises(dd.GradientError, match="is complex, and a Jacobian is of real numbers"):
            f(z)
    _, pull_back = dd.vjp(lambda z: z * z, z)
    np.testing.assert_allclose(pull_back(z * 0 + 1j)[0], 2j * np.asarray(z))
    _, push_forward = dd.linearize(lambda z: z * z, z)
    np.testing.assert_allclose(push_forward(z * 0 + 1j), 2j * np.asarray(z))


def test_every_op_that_takes_complex_numbers_has_a_rule_for_pairs() -> None:
    from dala_defn.passes.complex_rules import RULES

    takes = {s.name for s in OPS.values() if set(dtypes.COMPLEX) & set(s.accepts)}
    assert takes | {"complex"} == set(RULES)


def test_a_complex_result_has_no_gradient() -> None:
    with pytest.raises(dd.DTypeError, match="needs a float result, not c64") as caught:
        dd.grad(lambda z: z * z)(dd.array(1j))
    assert "dd.real" in str(caught.value) and "dd.jvp" in str(caught.value)


def test_steps_along_the_conjugate_descend() -> None:
    f = dd.defn(dd.value_and_grad(lambda z: dd.sum(dd.absolute(z * z - 1j) ** 2)))
    z = dd.array(np.array([0.5 + 0.2j, 1 + 1j]))
    values = []
    for _ in range(60):
        v, g = f(z)
        values.append(float(v))
        z = z - 0.05 * g.conj()
    assert values == sorted(values, reverse=True) and values[-1] < 1e-6


def test_optimizers_take_the_parts_of_complex_parameters() -> None:
    adam = dd.optimizers.Adam(0.1)
    with pytest.raises(dd.DTypeError, match="real parameters, not complex64"):
        adam.init({"w": dd.array([1j])})

    @dd.defn
    def step(w: Any, state: Any) -> Any:
        loss, g = dd.value_and_grad(lambda w: dd.sum(dd.absolute(dd.complex(*w) ** 2 - 1j) ** 2))(w)
        return loss, *adam.update(w, g, state)

    w = (dd.array([0.3, -1.0]), dd.array([0.2, 0.1]))
    state = adam.init(w)
    for _ in range(150):
        loss, w, state = step(w, state)
    assert float(loss) < 1e-3


def test_vmap_over_complex_arrays() -> None:
    x = draw(dtypes.complex64, (3, 4), 5)
    close(dd.vmap(lambda r: dd.sum(r * r) * dd.conj(r))(x), (x * x).sum(1)[:, None] * x.conj(), dtypes.complex64)
    g = dd.vmap(dd.grad(lambda r: dd.sum(dd.absolute(r) ** 2)))(x)
    close(g, 2 * x.conj(), dtypes.complex64)


# The pass.


@given(complexes, seeds)
def test_the_pass_keeps_what_a_graph_computes(dtype: DType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 3)))

    def f(x: Any, y: Any) -> list[Any]:
        held = [x, y, dd.complex(y.real, x.imag)]
        for _ in range(8):
            a, b = (held[i] for i in rng.integers(0, len(held), 2))
            made = [a + b, a * b, dd.conj(a), dd.where(dd.absolute(a) > 1, a, b), dd.exp(dd.sign(a)), dd.flip(b)]
            held.append(made[int(rng.integers(len(made)))])
        return [held[-1], held[-2], dd.absolute(held[-3]), dd.sum(held[-1])]

    graph, _ = trace_function(f, [Type(dtype, shape)] * 2, "f")
    args = [draw(dtype, shape, seed), draw(dtype, shape, seed + 1)]
    made = PASSES["complex-pairs"].run(graph)
    ops.verify(made)
    assert not has_complex(made)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, *args)
        found = evaluate(made, *map(as_pairs, args))
    for v, a, b in zip(graph.outputs, found, wanted, strict=True):
        a = from_pairs(a) if v.type.dtype.kind == "c" else a
        finite = np.isfinite(b) & (np.abs(b) < 1e30)
        assert a.shape == b.shape and np.array_equal(np.isfinite(a) | ~finite, np.ones(b.shape, bool))
        assert np.all(np.abs(np.where(finite, a - b, 0)) <= 2e4 * BOUND[dtype] * (1 + np.abs(np.where(finite, b, 0))))


def test_a_graph_without_complex_values_is_left_alone() -> None:
    graph, _ = trace_function(lambda x: [dd.exp(x) * 2], [Type(dtypes.float32, (2,))], "f")
    assert PASSES["complex-pairs"].run(graph) is graph


def test_gradients_run_compiled() -> None:
    graph, _ = trace_function(lambda z: [dd.sum(dd.absolute(z))], [Type(dtypes.complex64, (3,))], "f")
    made = PASSES["complex-pairs"].run(grad_graph(graph, [0]))
    assert [str(v.type) for v in made.outputs] == ["f32[]", "f32[3, 2]"]
    assert [n.loc for n in made.nodes if n.op == "sqrt"] == [graph.nodes[0].loc]


def test_a_program_with_complex_values_is_lowered_when_it_is_loaded() -> None:
    x = Value(Type(dtypes.complex64, (2,)), "x")
    inner = Node("mul", (x, x), {}, [x.type])
    function = Graph("square", [x], [inner], inner.outputs)
    y = Value(x.type, "y")
    call = Node("call", (y,), {"function": function, "composite": ""}, [x.type])
    graph = Graph("main", [y], [call], call.outputs)
    program = Program((Entry("main", graph, (Arg("y"),), (Result("0"),)),))
    for name in ("flex", "reference"):
        loaded = dd.executor(name).load(program)
        (out,) = loaded.run(0, [np.array([1j, 2.0], np.complex64)], [x.type])
        assert out.dtype is dd.complex64 and out.tolist() == [-1, 4]


# Control flow and other functions inside graphs.


@dd.defn
def flowing(z: Any, n: Any) -> Any:
    """Complex values, and counts, through every op that holds functions."""
    a = dd.cond(n > 0, lambda z: z * 1j, dd.conj, z)
    _, b, steps = dd.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * (1 + 1j), s[2] + 1.0), (dd.array(0), z, dd.array(1.0))
    )
    c, sums = dd.scan(lambda c, x: (c * x, c + x), z[0], z)
    return a, b, steps, c, sums, dd.checkpoint(dd.exp)(z), square(z)


@dd.custom_vjp
def square(z: Any) -> Any:
    return z * z


square.defvjp(lambda z: (z * z, z), lambda z, ct: (10 * ct * z,))


def test_control_flow_on_complex_values() -> None:
    z = np.array([1 + 1j, 2 - 1j, 0.5j])
    made = PASSES["complex-pairs"].run(flowing.lower(z, np.int32(3)))
    ops.verify(made)
    assert not has_complex(made) and {"cond", "while_loop", "scan"} <= {n.op for n in made.nodes}
    loop = next(n for n in made.nodes if n.op == "scan")
    assert (loop.attrs["consts"], loop.attrs["carries"], len(loop.inputs)) == (0, 2, 4)
    for executor in ("flex", "reference"):
        with dd.using(executor):
            check_flow(z, [np.asarray(v) for v in flowing(z, np.int32(3))])


def check_flow(z: Array, outs: list[Array]) -> None:
    a, b, steps, c, sums, e, s = outs
    np.testing.assert_allclose(a, z * 1j)
    np.testing.assert_allclose(b, z * (1 + 1j) ** 3)
    assert steps == 4
    before = np.cumprod(np.concatenate([z[:1], z]))
    np.testing.assert_allclose(c, before[-1])
    np.testing.assert_allclose(sums, before[:-1] + z)
    np.testing.assert_allclose(e, np.exp(z))
    np.testing.assert_allclose(s, z * z)


@pytest.mark.parametrize("which", [0, 1, 3, 4, 5, 6])
def test_gradients_through_control_flow(which: int) -> None:
    z = np.array([1 + 1j, 2 - 1j, 0.5j])

    def f(z: Any) -> Any:
        return dd.sum(dd.real(flowing(z, dd.array(3))[which] * (1 + 2j)))

    g = np.asarray(dd.grad(f)(z))
    if which == 6:
        np.testing.assert_allclose(g, 10 * z * (1 + 2j))  # the rule that was given
        return
    h = 1e-6
    for i, d in enumerate(np.eye(3) * h):
        dx, dy = ((float(f(z + u)) - float(f(z - u))) / (2 * h) for u in (d, 1j * d))
        assert abs(g[i] - (dx - 1j * dy)) < 1e-6
