"""Eager arrays: the given cases of the kinds shape, dtype and ffi in every way there is to run, weak numbers, repr,
and errors that name the user's line."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numeric import Array, everywhere, wide

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.dtypes import DType

A = np.array([-9, 9, -9, 9, -2, 2, -8, 8], np.int32)
B = np.array([4, 4, -4, -4, 5, -5, 2, -2], np.int32)


def agree(f: Any, args: tuple[Any, ...], wanted: list[Any], tmp_path: Path) -> None:
    """Every way to run ``f`` gives these numbers, exactly."""
    for out in everywhere(f, args, tmp_path):
        flat = out if isinstance(out, tuple) else (out,)
        assert len(flat) == len(wanted)
        for got, want in zip(flat, wanted, strict=True):
            assert np.array_equal(wide(got), np.asarray(want), equal_nan=got.dtype.is_float), f"{got}, not {want}"


def test_dtype_01_floor_division_and_modulo_follow_the_divisor(tmp_path: Path) -> None:
    agree(
        lambda a, b: (a // b, a % b, (a // b) * b + a % b, *dd.divmod(a, b)),
        (dd.array(A), dd.array(B)),
        [[-3, 2, 2, -3, -1, -1, -4, -4], [3, 1, -1, -3, 3, -3, 0, 0], A, A // B, A % B],
        tmp_path,
    )
    small = np.array([-5, 9, -128, 100, -1, 118], np.int8), np.array([3, -4, 7, -7, 2, -25], np.int8)
    wanted = [[-2, -3, -19, -15, -1, -5], [1, -3, 5, -5, 1, -7]]
    agree(lambda a, b: (a // b, a % b), tuple(map(dd.array, small)), wanted, tmp_path)
    agree(
        lambda x, y: (x % 4.0, *dd.divmod(y, 4.0)),
        (dd.array([-1.5]), dd.array([-9.0])),
        [[2.5], [-3.0], [3.0]],
        tmp_path,
    )


def test_dtype_01_division_by_zero_and_overflow_of_integers(tmp_path: Path) -> None:
    low = np.array([-(2**31), -(2**31), 5, -5], np.int32)
    by = np.array([-1, 0, 0, 0], np.int32)
    agree(lambda a, b: (a // b, a % b), (dd.array(low), dd.array(by)), [[-(2**31), 0, 0, 0], [0, 0, 0, 0]], tmp_path)


def test_dtype_02_promotion_holds_every_value(tmp_path: Path) -> None:
    a, b = np.array([4294967295], np.uint32), np.array([2], np.int8)
    assert (dd.array(a) + dd.array(b)).dtype is dd.int64
    agree(lambda x, y: x + y, (dd.array(a), dd.array(b)), [[4294967297]], tmp_path)
    for pair, wanted in {
        ("uint32", "int8"): dd.int64,
        ("uint64", "int8"): dd.float64,
        ("uint8", "int8"): dd.int16,
        ("bool", "int8"): dd.int8,
        ("float16", "bfloat16"): dd.float32,
        ("int64", "float32"): dd.float32,
    }.items():
        assert dd.promote_types(*pair) is dd.promote_types(*pair[::-1]) is wanted


@pytest.mark.parametrize("a", dtypes.ARRAYS, ids=str)
@pytest.mark.parametrize("b", dtypes.ARRAYS, ids=str)
def test_promotion_is_that_of_numpy_where_integers_do_not_meet_floats(a: DType, b: DType) -> None:
    got = dd.promote_types(a, b)
    assert got is dd.promote_types(b, a)
    if (a.is_integer and b.is_float) or (a.is_float and b.is_integer):
        assert got is (a if a.is_float else b)
    elif {a, b} == {dd.float16, dd.bfloat16}:
        assert got is dd.float32
    elif dd.bfloat16 not in (a, b):
        assert got == np.promote_types(a.dtype, b.dtype)


@pytest.mark.parametrize("dtype", dtypes.ARRAYS, ids=str)
def test_python_numbers_are_weak(dtype: DType) -> None:
    x = dd.ones(2, dtype)
    f = dd.defn(lambda x: (x * 2, 2 * x, x * 0.5, x * True, x / 2, dd.maximum(x, 1)))
    eagerly = (x * 2, 2 * x, x * 0.5, x * True, x / 2, dd.maximum(x, 1))
    whole = dd.int32 if dtype is dd.bool_ else dtype
    real = dtype if dtype.is_float else dd.float32
    wanted = [whole, whole, real, dtype, real, whole]
    assert [v.dtype for v in eagerly] == [v.dtype for v in f(x)] == wanted
    for v, w in zip(eagerly, (2, 2, 0.5, 1, 0.5, 1), strict=True):
        assert wide(v).tolist() == [w, w]


def test_weak_numbers_that_do_not_fit_are_refused() -> None:
    for f in (
        lambda: dd.ones(2, dd.uint8) + 300, lambda: dd.ones(2, dd.uint8) * -1, lambda: dd.array(2**40),
        lambda: dd.array([2**31]), lambda: dd.full(2, -1, dd.uint8), lambda: dd.arange(300, dtype=dd.int8),
    ):  # fmt: skip
        with pytest.raises(dd.DTypeError, match="does not fit"):
            f()
    with pytest.raises(dd.DTypeError, match="does not fit"):
        dd.defn(lambda x: x + 300)(np.ones(2, np.uint8))


def sources() -> dict[str, Array]:
    """Arrays in every memory layout that NumPy has."""
    base = np.arange(12, dtype=np.float32)
    read_only = base.reshape(3, 4).copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + base.tobytes(), np.float32, offset=1)
    record = np.zeros(12, [("a", np.int8), ("x", np.float32)])
    record["x"] = base
    return {
        "transposed": np.transpose(base.reshape(1, 2, 3, 2), (0, 2, 3, 1)),
        "every second": base[:6].reshape(3, 2).T.reshape(2, 3)[:, ::2],
        "Fortran": np.asfortranarray(base.reshape(3, 4)),
        "stride 0": np.broadcast_to(base[:3, None], (3, 4)),
        "reversed": base[::-1].reshape(3, 4)[:, ::-1],
        "rank 0": np.array(3.5, np.float32),
        "empty": np.zeros((0,), np.float32),
        "empty of rank 3": np.zeros((2, 0, 3), np.float32)[::-1],
        "read-only": read_only,
        "big-endian": base.reshape(3, 4).astype(">f4"),
        "unaligned": unaligned,
        "part of records": record["x"],
        "a window": np.lib.stride_tricks.sliding_window_view(base, 5),
    }


@pytest.mark.parametrize("name", list(sources()))
def test_ffi_01_every_memory_layout_is_read_in_logical_order(name: str, tmp_path: Path) -> None:
    x = sources()[name]
    before = x.copy()
    assert np.array_equal(np.asarray(dd.array(x)), before)
    agree(lambda v: (dd.add(v, 0), dd.array(v), dd.ravel(v)), (x,), [x, x, x.ravel()], tmp_path)
    assert np.array_equal(x, before)
    for sort in (np.int8, np.int64, np.float64, np.uint16, np.float16, np.bool_):
        y = x.astype(sort)
        y = np.lib.stride_tricks.as_strided(y, y.shape, y.strides) if y.size else y
        assert np.array_equal(np.asarray(dd.array(y)), y) and dd.array(y).dtype == sort


def test_ffi_01_given_values() -> None:
    x = np.transpose(np.arange(12.0).reshape(1, 2, 3, 2), (0, 2, 3, 1))
    flat = [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]
    assert (
        np.asarray(dd.array(x) + 0).ravel().tolist() == np.asarray(dd.defn(lambda v: v + 0)(x)).ravel().tolist() == flat
    )
    y = np.arange(12.0).reshape(3, 4)[:, ::2]
    assert (dd.array(y) * 1).tolist() == dd.defn(lambda v: v * 1)(y).tolist() == [[0, 2], [4, 6], [8, 10]]


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_ffi_02_nothing_is_shared_with_the_caller(n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    t = dd.array(x)
    placed = dd.executor().place(x, dd.float32)
    kept = dd.defn(lambda v: v)(x)
    same = [
        dd.astype(x, dd.float32),
        dd.reshape(x, (n,)),
        dd.transpose(x),
        dd.clip(x),
        dd.stop_gradient(x),
        x.T[:] + dd.zeros(()),
    ]
    same += [dd.broadcast_to(x, (n,)), dd.roll(x, 0), dd.power(x, 1), dd.floor(x.astype(np.int32)), dd.concatenate([x])]
    x[3] = -7
    assert [float(v[3]) for v in (t, placed, kept, *same)] == [3.0] * (3 + len(same))
    f = dd.defn(lambda v: v * 2)
    out = np.asarray(f(t))
    if out.flags.writeable:
        out[0] = 5
    else:
        with pytest.raises(ValueError, match="read-only"):
            out[0] = 5
    assert float(f(t)[0]) == 0.0
    view = np.asarray(dd.defn(lambda v: v + 1)(t))
    identity = np.asarray(t)
    del t
    gc.collect()
    assert view[3] == 4.0 and view[-1] == n and identity[3] == 3.0
    mine = np.array(dd.array([1.0]), copy=True)
    mine[0] = 9


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_ffi_03_nan_is_treated_alike(dtype: DType, tmp_path: Path) -> None:
    nan = float("nan")
    a = dd.array([2, nan, 0, 9], dtype)
    agree(
        lambda a: (dd.max(a), dd.min(a), dd.argmax(a), dd.argmin(a), a[dd.argmax(a)], dd.sort(a), dd.maximum(a, 1)),
        (a,),
        [nan, nan, 1, 1, nan, [0, 2, 9, nan], [2, nan, 1, 9]],
        tmp_path,
    )
    agree(
        lambda a: (dd.cummax(a), dd.nn.relu(a[2]), dd.clip(a, 0, 1)),
        (dd.array([2, 6, nan, 7, 1], dtype),),
        [[2, 6, nan, nan, nan], nan, [1, 1, nan, 1, 1]],
        tmp_path,
    )


@pytest.mark.parametrize("n", [1, 3, 8, 33, 1000, 5000])
@pytest.mark.parametrize("axis", [0, 1])
def test_ffi_03_nan_in_rows_of_every_length(n: int, axis: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 7) if axis == 0 else (7, n)).astype(np.float32)
    at = n // 2
    x[(at, 3) if axis == 0 else (3, at)] = np.nan
    wanted = [
        np.max(x, axis), np.min(x, axis), np.argmax(x, axis), np.argmin(x, axis), np.sort(x, axis),
        np.argsort(x, axis, kind="stable"), np.maximum.accumulate(x, axis), np.where(x <= 0, 0, x),
        np.isnan(x).any(axis),
    ]  # fmt: skip
    agree(
        lambda v: (
            dd.max(v, axis), dd.min(v, axis), dd.argmax(v, axis), dd.argmin(v, axis), dd.sort(v, axis),
            dd.argsort(v, axis), dd.cummax(v, axis), dd.nn.relu(v), dd.any(dd.isnan(v), axis),
        ),
        (dd.array(x),), wanted, tmp_path,
    )  # fmt: skip


def test_shape_01_sizes_of_zero(tmp_path: Path) -> None:
    a, b = dd.zeros((3, 0)), dd.ones((3, 1))
    for out in everywhere(lambda a, b: (a + b, dd.ones((3, 1)) * dd.zeros((1, 0)), dd.sum(a)), (a, b), tmp_path):
        assert [v.shape for v in out] == [(3, 0), (3, 0), ()] and float(out[2]) == 0
    assert float(dd.sum(dd.zeros(0))) == 0
    with pytest.raises(dd.ShapeError, match="cannot be determined"):
        dd.reshape(dd.zeros((2, 0, 6)), (2, 0, -1))
    assert dd.reshape(dd.zeros((0, 3)), (-1, 3)).shape == (0, 3)
    v = dd.array([1.0, 2.0, 3.0])
    assert v[v > 9].shape == (0,) and float(dd.sum(v[v > 9])) == 0
    assert dd.grad(lambda v: dd.sum(dd.where(v > 9, v, 0)))(v).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("p", "q", "wanted"),
    [
        ((6,), (6,), ()), ((6,), (6, 2), (2,)), ((4, 6), (6,), (4,)), ((2, 4, 6), (6,), (2, 4)),
        ((2, 1, 4, 6), (3, 6, 5), (2, 3, 4, 5)),
    ],
)  # fmt: skip
def test_shape_02_matmul_shapes_inferred_and_executed(p: Any, q: Any, wanted: Any, tmp_path: Path) -> None:
    (inferred,) = dd.defn(dd.matmul).lower(dd.spec(p), dd.spec(q)).outputs
    assert inferred.type.shape == wanted
    for out in everywhere(lambda x, y: x @ y, (dd.ones(p), dd.ones(q)), tmp_path):
        assert out.shape == np.asarray(out).shape == wanted and np.all(np.asarray(out) == 6)


@pytest.mark.parametrize(("axis", "wanted"), [(None, (1, 1, 1)), (0, (1, 3, 7)), (-1, (2, 3, 1)), (-2, (2, 1, 7))])
def test_shape_03_argmax_keeps_dims(axis: int | None, wanted: Any, tmp_path: Path) -> None:
    x = dd.arange(42).reshape(2, 3, 7)
    (inferred,) = dd.defn(lambda x: dd.argmax(x, axis, keepdims=True)).lower(x).outputs
    assert inferred.type.shape == wanted
    for out in everywhere(lambda x: dd.argmax(x, axis, keepdims=True), (x,), tmp_path):
        assert out.shape == np.asarray(out).shape == wanted
    assert int(dd.argmax(x)) == 41


@pytest.mark.parametrize("axis", [-4, 3])
def test_shape_03_a_bad_axis_is_refused_before_anything_runs(axis: int) -> None:
    x = dd.arange(42).reshape(2, 3, 7)
    ran = []

    @dd.defn
    def f(x: Any) -> Any:
        y = dd.argmax(x, axis=axis)
        ran.append(1)
        return y

    for call in (lambda: dd.argmax(x, axis=axis), lambda: f(x), lambda: f.lower(dd.spec((2, 3, 7)))):
        with pytest.raises(dd.ShapeError, match="axis"):
            call()
    assert not ran


@pytest.mark.parametrize("dtype", dtypes.ARRAYS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3), (2, 0), (20, 60)])
def test_repr_and_str_are_those_of_numpy(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.asarray(np.arange(np.prod(shape)) / 3).reshape(shape).astype(dtype.dtype)
    got = dd.array(x)
    if dtype is not dd.int64 and dtype is not dd.float64:  # NumPy leaves its own defaults out
        assert f"dtype={dtype}" in repr(got) or dtype is dd.bool_
    assert repr(got) == repr(x).replace("dtype=dtype(bfloat16)", "dtype=bfloat16") and str(got) == str(x)
    assert got.tolist() == x.tolist()


def test_reading_an_array() -> None:
    x = dd.array([[1.5]])
    assert x.item() == float(x) == 1.5 and int(x) == 1 and bool(x) and f"{dd.array(2.5):.2f}" == "2.50"
    assert (x.ndim, x.size, x.shape, x.dtype, x.T.shape) == (2, 1, (1, 1), dd.float32, (1, 1))
    assert x.dtype == np.float32 and np.asarray(x).dtype == np.float32 and np.asarray(x, np.float64).dtype == np.float64
    for bad in (dd.zeros(0), dd.zeros(2)):
        with pytest.raises(dd.ArgumentError):
            bad.item()
    assert dd.array(1.5, dd.bfloat16).item() == 1.5
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(dd.ArgumentTypeError):
        range(dd.array(1.0))  # type: ignore[arg-type]
    assert list(range(dd.array(2))) == [0, 1]


@pytest.mark.parametrize("dtype", dtypes.ARRAYS, ids=str)
def test_arrays_are_copied_and_pickled(dtype: DType) -> None:
    x = dd.ones((2, 3), dtype) + dd.zeros((), dtype)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.dtype is dtype and np.array_equal(np.asarray(y), np.asarray(x))
    key = dd.random.key(7)
    assert repr(pickle.loads(pickle.dumps(key))) == repr(key) == "key([0, 7])"


def test_numpy_on_the_left_hands_over() -> None:
    x = np.array([1.0, 2.0], np.float32)
    for y in (x + dd.ones(2), x * dd.ones(2), np.float32(2) * dd.ones(2), x @ dd.ones(2), x < dd.ones(2)):
        assert isinstance(y, dd.Array)


MISTAKES: list[tuple[type[Exception], Any]] = [
    (dd.ShapeError, lambda x: x + dd.zeros((3,))),
    (dd.ShapeError, lambda x: dd.sum(x, axis=5)),
    (dd.ShapeError, lambda x: x @ x),
    (dd.ShapeError, lambda x: x.reshape(7)),
    (dd.ShapeError, lambda x: dd.concatenate([x, dd.zeros((3, 3))])),
    (dd.DTypeError, lambda x: x & x),
    (dd.DTypeError, lambda x: dd.subtract(x > 0, x > 0)),
    (dd.ArgumentTypeError, lambda x: dd.exp("a")),
    (dd.ArgumentTypeError, lambda x: x + [[1], [1, 2]]),
    (dd.IndexOutOfRange, lambda x: x[5]),
    (dd.IndexOutOfRange, lambda x: dd.take(x, np.array([9]), axis=0)),
]


@pytest.mark.parametrize(("error", "f"), MISTAKES)
@pytest.mark.parametrize("way", ["eager", "defn", "reference"])
def test_an_error_names_the_users_line_and_shows_none_of_our_frames(error: type[Exception], f: Any, way: str) -> None:
    x = dd.zeros((2, 4))
    run = dd.defn(f) if way == "defn" else f
    with pytest.raises(error) as info, dd.using("reference" if way == "reference" else "flex"):
        run(x)
    e = info.value
    assert isinstance(e, dd.DalaError)
    place = e.location
    assert place is not None and Path(place.file).name == Path(__file__).name, e
    assert place.line == f.__code__.co_firstlineno, e
    assert e.code in str(e) and e.reason in str(e)
    ours = str(Path(dd.__file__).parent)
    frames, tb = [], e.__traceback__
    while tb is not None:
        frames.append(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    assert frames and not any(name.startswith(ours) for name in frames), frames
