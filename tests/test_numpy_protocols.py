"""Our arrays among others: NumPy's functions on them, operators beside NumPy arrays, DLPack, pickles, the Array API."""

from __future__ import annotations

import array
import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
from numeric import everywhere

import dala_defn as dd
from dala_defn import linalg
from dala_defn.functions import __all__ as FUNCTIONS

X = np.array([[0.5, 1.0, 2.0], [3.0, -1.0, 0.25]])
UNARY = "exp sin sqrt abs negative floor isnan log1p square cbrt exp2 sign rint logical_not conjugate deg2rad".split()
BINARY = "add subtract multiply divide power maximum minimum arctan2 less equal hypot logaddexp fmod copysign".split()


@pytest.mark.parametrize("name", UNARY)
def test_ufuncs_of_one(name: str) -> None:
    f = getattr(np, name)

    with np.errstate(all="ignore"):
        for got in (f(dd.array(X)), dd.defn(lambda x: f(x))(dd.array(X))):
            assert isinstance(got, dd.Array)
            assert np.allclose(np.asarray(got), f(X), rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", BINARY)
def test_ufuncs_of_two_with_numpy_arrays_on_either_side(name: str) -> None:
    f = getattr(np, name)
    with np.errstate(all="ignore"):
        for run in (lambda h: h, dd.defn):
            for h in (lambda x: f(x, X[0]), lambda x: f(X[0], x), lambda x: f(x, 2), lambda x: f(2, x)):
                got = run(h)(dd.array(X))
                assert isinstance(got, dd.Array)
                assert np.allclose(np.asarray(got), h(X), rtol=1e-12, equal_nan=True)


def test_operators_beside_numpy_arrays() -> None:
    def f(x: Any) -> Any:
        parts = [
            x + X,
            X + x,
            X - x,
            x * X[0],
            X[0] / x,
            X.T @ x,
            x @ X.T,
            np.greater(X, x),
            np.float64(2) * x,
            -(X**x),
        ]
        return tuple(p.astype(dd.float64) for p in parts)

    want = [X + X, X + X, X - X, X * X[0], X[0] / X, X.T @ X, X @ X.T, X > X, 2 * X, -(X**X)]
    with np.errstate(all="ignore"):
        want[-1] = -(X**X)
        for got in (f(dd.array(X)), dd.defn(f)(dd.array(X))):
            for g, w in zip(got, want, strict=True):
                assert isinstance(g, dd.Array)
                assert np.allclose(np.asarray(g), w, equal_nan=True)


CALLS = [
    lambda x: np.sum(x, axis=0), lambda x: np.mean(x), lambda x: np.max(x, axis=1, keepdims=True),
    lambda x: np.concatenate([x, X]), lambda x: np.stack([x, x]), lambda x: np.where(x > 0, x, 0),
    lambda x: np.transpose(x), lambda x: np.reshape(x, (3, 2)), lambda x: np.dot(x, X.T), lambda x: np.clip(x, 0, 1),
    lambda x: np.einsum("ij,kj->ik", x, X), lambda x: np.linalg.norm(x), lambda x: np.sort(x, axis=0),
    lambda x: np.argmax(x, axis=1), lambda x: np.cumsum(x, axis=1), lambda x: np.tile(x, 2), lambda x: np.pad(x, 1),
    lambda x: np.take(x, [1, 0], axis=1), lambda x: np.median(x, axis=0), lambda x: np.full_like(x, 3),
    lambda x: np.amax(x), lambda x: np.diff(x), lambda x: np.fft.fftshift(x), lambda x: np.copy(x),
    lambda x: np.add.reduce(x), lambda x: np.multiply.accumulate(x, axis=1), lambda x: np.subtract.outer(x[0], X[1]),
    lambda x: np.maximum.reduce(x, axis=1, keepdims=True), lambda x: np.logical_and.reduce(x, axis=None),
    lambda x: np.add(x, 1, dtype=np.float32), lambda x: np.round(x, 1), lambda x: np.var(x, axis=1, ddof=1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_of_numpy(number: int) -> None:
    f = CALLS[number]
    for got in (f(dd.array(X)), dd.defn(f)(dd.array(X))):
        assert isinstance(got, dd.Array)
        assert np.allclose(np.asarray(got), f(X))


def test_what_has_no_counterpart_raises_and_says_what_to_use() -> None:
    x = dd.array(X)
    with pytest.raises(dd.ArgumentTypeError, match=r"np\.apply_over_axes"):
        np.apply_over_axes(np.sum, x, 0)
    with pytest.raises(dd.ArgumentTypeError, match=r"np\.asarray"):
        np.apply_over_axes(np.sum, x, 0)
    with pytest.raises(dd.ArgumentTypeError, match="place"):
        np.add(x, 1, out=np.zeros_like(X))
    with pytest.raises(dd.ArgumentTypeError, match="place"):
        y = X.copy()
        y += x
    with pytest.raises(dd.ArgumentError, match=r"dd\.where"):
        np.exp(x, where=X > 0)
    with pytest.raises(dd.ArgumentTypeError):
        np.add.at(X.copy(), [0], x)
    with pytest.raises(dd.DalaError):
        dd.defn(lambda x: dd.array(np.array(x)))(x)
    with pytest.raises(dd.ArgumentTypeError):
        x[0] = 1


def test_printing_and_saving_go_through_numpy() -> None:
    x = dd.array(X)
    assert np.array2string(x) == np.array2string(X)
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    assert np.array_equal(np.load(file), X)
    assert np.ndim(x) == 2 and np.shape(x) == (2, 3) and np.size(x) == 6
    assert np.shares_memory(x, np.asarray(x))


def test_dlpack_hands_memory_over_without_a_copy() -> None:
    for dtype in (np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_):
        x = (
            dd.array(np.ones((3, 2), dtype)) + dd.array(np.zeros((3, 2), dtype))
            if dtype != np.bool_
            else dd.ones(2) > 0
        )
        pointer = np.asarray(x).ctypes.data
        for taken in (np.from_dlpack(x), np.from_dlpack(_Unversioned(x))):
            assert taken.ctypes.data == pointer and taken.dtype == dtype and np.array_equal(taken, np.asarray(x))
        assert np.from_dlpack(x, copy=True).ctypes.data != pointer
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        dd.ones(2, dtype=dd.bfloat16).__dlpack__()
    with pytest.raises(BufferError):
        dd.ones(2).__dlpack__(dl_device=(2, 0))


class _Unversioned:
    """A producer that is asked as consumers of the first DLPack ask."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **_: Any) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


def test_dlpack_takes_memory_without_a_copy() -> None:
    for source in (np.arange(6.0).reshape(2, 3), np.arange(4, dtype=np.int16)[::2]):
        y = dd.from_dlpack(source)
        assert np.asarray(y).ctypes.data == source.ctypes.data
        assert np.array_equal(np.asarray(y + y), source + source)
        assert np.array_equal(np.asarray(dd.defn(lambda a: a * 2)(y)), source * 2)
        assert np.asarray(dd.from_dlpack(source, copy=True)).ctypes.data != source.ctypes.data
    assert dd.from_dlpack(y) is y
    with pytest.raises(dd.ArgumentTypeError):
        dd.from_dlpack([1, 2])
    with pytest.raises(dd.ArgumentError):
        dd.from_dlpack(source, device="gpu")


def test_what_numpy_reads_becomes_an_array() -> None:
    class Reads:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3.0)

    for source in (
        Reads(),
        memoryview(np.arange(3.0)),
        array.array("d", [0, 1, 2]),
        _Unversioned(dd.array(np.arange(3.0))),
    ):
        y = dd.asarray(source)
        assert y.dtype is dd.float64 and y.tolist() == [0, 1, 2]
    with pytest.raises(dd.ArgumentError):
        dd.asarray(np.ones(2), copy=False)
    x = dd.ones(2)
    assert dd.asarray(x, copy=False) is x


@pytest.mark.parametrize("dtype", [dd.float32, dd.float64, dd.bfloat16, dd.int8, dd.bool_, dd.uint64], ids=str)
def test_pickles_and_copies(dtype: Any) -> None:
    x = dd.ones((2, 0, 3), dtype=dtype) if dtype is dd.int8 else dd.array(np.ones((2, 3)), dtype=dtype)
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy({"x": x})["x"]):
        assert y.dtype is dtype and y.shape == x.shape and np.array_equal(np.asarray(y), np.asarray(x))


def test_print_options_are_ours_alone() -> None:
    x = dd.array(np.array([1 / 3, 2 / 3]))
    before = repr(x)
    try:
        dd.set_printoptions(precision=2)
        assert repr(x) == "array([0.33, 0.67])" and str(x) == "[0.33 0.67]"
        assert np.get_printoptions()["precision"] == 8 and dd.get_printoptions()["precision"] == 2
        with pytest.raises(TypeError):
            dd.set_printoptions(color="red")
    finally:
        dd.set_printoptions(precision=None)
    assert repr(x) == before


def test_arrays_say_their_namespace_and_place() -> None:
    x = dd.array(X)
    assert x.__array_namespace__() is dd and x.__array_namespace__(api_version="2024.12") is dd
    with pytest.raises(dd.ArgumentError):
        x.__array_namespace__(api_version="1999.01")
    assert x.device == "cpu" and x.to_device("cpu") is x and x.nbytes == 48 and x.itemsize == 8
    with pytest.raises(dd.ArgumentError):
        x.to_device("cuda")
    assert dd.zeros((2, 3, 4)).mT.shape == (2, 4, 3) and dd.zeros((2, 3)).T.shape == (3, 2)
    info = dd.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["real floating"] is dd.float32
    assert info.dtypes(kind="signed integer") == {
        "int8": dd.int8,
        "int16": dd.int16,
        "int32": dd.int32,
        "int64": dd.int64,
    }


def test_questions_about_dtypes() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        got, want = dd.finfo(dtype), np.finfo(dtype)
        assert (got.bits, got.eps, got.max, got.min, got.tiny) == (want.bits, want.eps, want.max, want.min, want.tiny)
    assert dd.finfo(dd.bfloat16).eps == 2.0**-7 and dd.finfo(dd.complex64).dtype is dd.float32
    assert (dd.iinfo(dd.ones(1, dtype=dd.uint8)).max, dd.iinfo("int16").min) == (255, -32768)
    with pytest.raises(dd.DTypeError):
        dd.finfo(dd.int8)
    with pytest.raises(dd.DTypeError):
        dd.iinfo(dd.float32)
    assert dd.isdtype(dd.bool_, "bool") and not dd.isdtype(dd.bool_, "numeric") and dd.isdtype(dd.uint8, "integral")
    with pytest.raises(dd.ArgumentError):
        dd.isdtype(dd.int8, "whole")
    assert dd.can_cast(dd.uint8, dd.int16) and not dd.can_cast(dd.uint64, dd.int64)
    assert dd.broadcast_shapes((2, 1), (3,)) == (2, 3)


# The functions of the Array API 2024.12.
STANDARD = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast
ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal
exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo
imag isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative
nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder repeat reshape
result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack
var vecdot where zeros zeros_like e inf nan pi newaxis bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32
float64 complex64 complex128 __array_api_version__ __array_namespace_info__
""".split()
STANDARD_LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr
slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()


def test_the_namespace_has_the_names_of_the_array_api() -> None:
    assert [n for n in STANDARD if not hasattr(dd, n)] == []
    assert [n for n in STANDARD_LINALG if not hasattr(linalg, n)] == []
    assert len(FUNCTIONS) == len(set(FUNCTIONS)) and all(hasattr(dd, n) for n in FUNCTIONS)


def test_numpy_functions_agree_everywhere(tmp_path: Any) -> None:
    for out in everywhere(lambda x: np.exp(x) @ np.transpose(x), (X,), tmp_path):
        got = out[0] if isinstance(out, tuple) else out
        assert np.allclose(np.asarray(got), np.exp(X) @ X.T)


def test_a_masked_array_is_refused_and_not_unmasked() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    plain = np.array([1.0, 2.0])
    double = dd.defn(lambda x: x * 2)
    captures = dd.defn(lambda: dd.array(1.0) * masked)
    double(plain)
    for call in (lambda: dd.array(masked), lambda: dd.sum(masked), lambda: double(masked), captures):
        with pytest.raises(dd.DTypeError, match="mask would be lost"):
            call()
    assert double(masked.filled(0.0)).tolist() == [2.0, 0.0]
