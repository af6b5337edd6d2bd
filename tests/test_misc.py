"""NumPy's small functions and options, and files of plain arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dala_defn as dd
from dala_defn import dtypes

RNG = np.random.default_rng(0)
NAN = np.nan


def test_questions_about_arrays() -> None:
    x = dd.ones((2, 3))
    assert dd.ndim(x) == 2 and dd.size(x) == 6 and dd.size(x, -1) == 3 and dd.ndim(3.0) == 0
    assert dd.isscalar(1) and dd.isscalar(np.float32(1)) and not dd.isscalar(x) and not dd.isscalar([1])
    z = np.array([1 + 1j, 2, np.nan])
    for name in ("iscomplex", "isreal"):
        np.testing.assert_array_equal(np.asarray(getattr(dd, name)(z)), getattr(np, name)(z))
        np.testing.assert_array_equal(np.asarray(getattr(dd, name)(z.real)), getattr(np, name)(z.real))
    assert dd.iscomplexobj(z) and dd.isrealobj(x)
    for v in (np.array([1 + 1e-16j]), np.array([1 + 1e-3j]), np.array([1.0])):
        assert np.asarray(dd.real_if_close(v)).dtype == np.real_if_close(v).dtype
    with pytest.raises(dd.ArgumentTypeError):
        dd.defn(dd.real_if_close)(z)


@pytest.mark.parametrize("dtype", [*dtypes.NUMERIC, dtypes.bool_], ids=str)
def test_trunc_divide(dtype: Any) -> None:
    a = np.array([7, 7, 6, 1, 0, 5]).astype(dtype.dtype)
    b = np.array([2, 3, 2, 4, 3, 1]).astype(dtype.dtype)
    signs = (1, -1) if dtype.kind in "if" else (1,)
    for s in signs:
        for t in signs:
            x, y = (a * s).astype(dtype.dtype), (b * t).astype(dtype.dtype)
            want = np.trunc(x.astype(np.float64) / y.astype(np.float64))
            np.testing.assert_array_equal(np.asarray(dd.trunc_divide(x, y)).astype(np.float64), want)
    assert int(dd.trunc_divide(dd.array(5), 0)) == 0


def test_bytes_and_batches() -> None:
    for dtype in (*dtypes.NUMERIC, dtypes.complex64):
        x = RNG.integers(0, 100, 6).astype(dtype.dtype)
        np.testing.assert_array_equal(np.asarray(dd.frombuffer(x.tobytes(), dtype)), x)
        np.testing.assert_array_equal(np.asarray(dd.frombuffer(x.tobytes(), dtype, 2, dtype.itemsize)), x[1:3])
        assert dd.array(x).tobytes() == x.tobytes()
    for bad in ((b"abc", dd.int16), (b"abcd", dd.int16, 5)):
        with pytest.raises(dd.ArgumentError):
            dd.frombuffer(*bad)
    x = dd.arange(7)
    got = {r: [b.tolist() for b in dd.batches(x, 3, r)] for r in ("keep", "drop", "wrap")}
    assert got == {
        "keep": [[0, 1, 2], [3, 4, 5], [6]],
        "drop": [[0, 1, 2], [3, 4, 5]],
        "wrap": [[0, 1, 2], [3, 4, 5], [6, 0, 1]],
    }
    assert list(dd.batches(dd.zeros((0, 2)), 3)) == []
    for bad in ((x, 0), (x, 2, "other")):
        with pytest.raises(dd.ArgumentError):
            dd.batches(*bad)
    with pytest.raises(dd.ShapeError):
        dd.batches(dd.array(1), 2)


@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_in_bytes(order: Any) -> None:
    for shape, axis in (((13,), None), ((3, 9), 0), ((3, 9), 1), ((2, 4), None), ((2, 0), 1)):
        x = RNG.integers(0, 3, shape)
        want = np.packbits(x.astype(bool), axis, order)
        np.testing.assert_array_equal(np.asarray(dd.packbits(x, axis, order)), want)
        np.testing.assert_array_equal(np.asarray(dd.defn(lambda x: dd.packbits(x, axis, order))(x)), want)  # noqa: B023
        for count in (None, 5, -2, 30) if want.size else (None,):
            back = np.unpackbits(want, axis, count, order)
            np.testing.assert_array_equal(np.asarray(dd.unpackbits(want, axis, count, order)), back)
    with pytest.raises(dd.ArgumentTypeError):
        dd.packbits(dd.ones(3))
    with pytest.raises(dd.ArgumentTypeError):
        dd.unpackbits(dd.array([1]))


def test_lines_one_by_one() -> None:
    x = RNG.normal(size=(3, 4, 5))
    for axis in (0, 1, -1):
        for f, g in ((dd.sum, np.sum), (dd.cumsum, np.cumsum), (lambda v: dd.outer(v, v), lambda v: np.outer(v, v))):
            want = np.apply_along_axis(g, axis, x)
            np.testing.assert_allclose(np.asarray(dd.apply_along_axis(f, axis, x)), want)
    f = dd.vectorize(lambda a, b: a if a > b else b)
    np.testing.assert_array_equal(np.asarray(f(dd.array([[1], [5]]), dd.array([3, 7]))), [[3, 7], [5, 7]])
    for line in ([0, 0, 1, 0, 2, 0], [0, 0], [1], []):
        for trim in ("fb", "f", "b"):
            v = np.array(line, np.int64)
            np.testing.assert_array_equal(np.asarray(dd.trim_zeros(v, trim)), np.trim_zeros(v, trim))
    with pytest.raises(dd.ArgumentTypeError):
        dd.defn(lambda x: dd.trim_zeros(x))(np.zeros(3))


def test_histograms_of_several_coordinates() -> None:
    x = RNG.normal(size=(200, 2))
    w = RNG.random(200)
    cases: list[dict[str, Any]] = [
        {},
        {"bins": 4},
        {"bins": (3, [-1.0, 0.0, 2.0])},
        {"bins": 5, "range": [(-1, 1), (-2, 2)]},
        {"bins": 3, "density": True},
        {"bins": 3, "weights": w},
    ]
    for given in cases:
        want, edges = np.histogramdd(x, **given)
        found, ours = dd.histogramdd(x, **given)
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)
        for a, b in zip(ours, edges, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12)
        flat = np.histogram2d(x[:, 0], x[:, 1], **given)
        for a, b in zip(dd.histogram2d(x[:, 0], x[:, 1], **given), flat, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12)
    found = dd.defn(lambda x: dd.histogramdd(x, 3)[0])(x)
    np.testing.assert_array_equal(np.asarray(found), np.histogramdd(x, 3)[0])


def test_options_of_numpy() -> None:
    x = np.array([[1.0, NAN, 3.0], [NAN, NAN, 2.0]])
    where = np.array([[True, True, False], [True, True, False]])
    for name in ("nansum", "nanprod", "nanmax", "nanmin"):
        want = getattr(np, name)(x, 1, initial=0.5, where=where)
        np.testing.assert_array_equal(np.asarray(getattr(dd, name)(x, 1, initial=0.5, where=where)), want)
    for name in ("nanvar", "nanstd"):
        want = getattr(np, name)(x, 1, correction=0, where=~np.isnan(x) & (x < 3))
        found = getattr(dd, name)(x, 1, correction=0, where=~np.isnan(x) & (x < 3))
        np.testing.assert_allclose(np.asarray(found), want)
        assert getattr(dd, name)(dd.array([1, 2]), dtype=dd.float64).dtype is dtypes.float64
    for name in ("zeros_like", "ones_like", "empty_like"):
        made = getattr(dd, name)(dd.array([1]), dd.int8, shape=(2, 3))
        assert made.shape == (2, 3) and made.dtype is dtypes.int8
    assert dd.full_like(dd.array([1]), 4, shape=(2,)).tolist() == [4, 4]
    for name in ("concatenate", "stack", "hstack", "vstack"):
        made = getattr(dd, name)([dd.array([1]), dd.array([2.5])], dtype=dd.int16)
        assert made.dtype is dtypes.int16


ARRAYS = {str(d): (RNG.integers(0, 2, (2, 3)) * 1).astype(d.dtype) for d in (*dtypes.ELEMENTS,)}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_from_files(name: str, tmp_path: Path) -> None:
    x = ARRAYS[name]
    for shape in ((2, 3), (), (0, 2)):
        v = np.zeros(shape, x.dtype) if shape != (2, 3) else x
        held = {"a": dd.array(v), "b/c": v}
        for suffix in ("safetensors", "npz", "npy"):
            path = tmp_path / f"x.{suffix}"
            if x.dtype == ml_dtypes.bfloat16 and suffix != "safetensors":
                with pytest.raises(dd.DTypeError):
                    dd.save(path, v if suffix == "npy" else held)
                continue
            dd.save(path, v if suffix == "npy" else held)
            found = dd.load(path)
            for got in [found] if suffix == "npy" else [found["a"], found["b/c"]]:
                assert isinstance(got, dd.Array)
                assert np.asarray(got).dtype == x.dtype and got.shape == shape
                np.testing.assert_array_equal(np.asarray(got), v)
    if x.dtype != ml_dtypes.bfloat16:
        np.save(tmp_path / "fortran.npy", np.asfortranarray(x))
        np.testing.assert_array_equal(np.asarray(dd.load(tmp_path / "fortran.npy")), x)
        np.savez_compressed(tmp_path / "zipped.npz", x=x)
        np.testing.assert_array_equal(np.asarray(dd.load(tmp_path / "zipped.npz")["x"]), x)


def test_what_is_no_file_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "big.npy", np.array([1, 2], ">i4"))
    assert dd.load(tmp_path / "big.npy").tolist() == [1, 2]
    whole = tmp_path / "whole.npz"
    np.savez(whole, a=np.ones(100))
    for name, data in (("cut.npz", whole.read_bytes()[:-30]), ("no.npy", b"nothing"), ("empty.npy", b"")):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 40)
    note = '{"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"dala.complex":"[\\"a\\"]"}}'
    (tmp_path / "lies.safetensors").write_bytes(len(note).to_bytes(8, "little") + note.encode() + bytes(8))
    for name in ("objects.npy", "text.npy", "cut.npz", "no.npy", "empty.npy", "bad.safetensors", "lies.safetensors"):
        with pytest.raises(dd.FileFormatError):
            dd.load(tmp_path / name)
    with pytest.raises(dd.FileError):
        dd.load(tmp_path / "not there.npy")
    with pytest.raises(dd.ArgumentError):
        dd.load(whole, public_key="0" * 64)
    for path, x in (("x.txt", dd.ones(2)), ("x.npz", dd.ones(2)), ("x.npy", dd.random.key(0))):
        with pytest.raises((dd.ArgumentError, dd.ArgumentTypeError)):
            dd.save(tmp_path / path, x)
    assert not (tmp_path / "x.npy").exists()


def test_specs_of_trees() -> None:
    tree = {"x": dd.ones((2, 3)), "n": 1, "k": np.zeros(2, np.int8)}
    specs = dd.spec_of(tree)
    assert dd.is_compatible(specs, tree) and dd.is_compatible(tree, tree)
    assert not dd.is_compatible(specs, {**tree, "n": 1.0})
    assert not dd.is_compatible(specs, {**tree, "x": dd.ones((3, 2))})
    assert not dd.is_compatible(specs, {"x": tree["x"]})
    two = (dd.spec("b"), dd.spec("2*b"))
    assert dd.is_compatible(two, (dd.ones(3), dd.ones(6)))
    assert not dd.is_compatible(two, (dd.ones(3), dd.ones(5)))
    assert not dd.is_compatible(dd.spec("1<=b<=4"), dd.ones(5))
    with pytest.raises(dd.ArgumentTypeError):
        dd.spec_of({"a": "text"})


def test_methods_are_the_functions() -> None:
    x = dd.array([3, 1, 2])
    assert x.sort().tolist() == [1, 2, 3] and x.sort(descending=True).tolist() == [3, 2, 1]
    assert int(dd.array([1, 2, 4]).searchsorted(3)) == 2
    assert x.partition(1).tolist()[1] == 2 and int(x[x.argpartition(0)[0]]) == 1
    assert x.compress(dd.array([True, False, True])).tolist() == [3, 2]
    assert dd.array([1, 0]).choose([dd.array([1, 2]), dd.array([3, 4])]).tolist() == [3, 2]
    assert x.copy() is x and dd.array([1j]).conjugate().tolist() == [-1j]


def test_assertions_about_numbers() -> None:
    close, equal = dd.testing.assert_allclose, dd.testing.assert_array_equal
    close({"a": [dd.array([1.0, NAN, np.inf])], "b": 2}, {"a": [np.array([1.0000001, NAN, np.inf])], "b": 2.0})
    equal(dd.arange(3), [0, 1, 2])
    equal([1, 2], dd.array([1, 2]))
    equal({"x": dd.array([2**62 + 1], dd.int64)}, {"x": np.array([2**62 + 1])})
    for f, x, y, said in (
        (close, {"a": dd.ones(2)}, {"a": np.array([1.0, 1.1])}, r"a is 1.0 where 1.1 is wanted, at \(1,\)"),
        (equal, dd.array(1.0), 1.0000001, "wanted"),
        (equal, {"x": dd.array([2**62 + 1], dd.int64)}, {"x": np.array([2**62])}, "wanted"),
        (close, {"a": 1}, {"b": 1}, "keys"),
        (close, {"a": [1]}, {"a": [1, 2]}, "a has 1 elements, not 2"),
        (close, {"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a/1/b is 2 where 3"),
        (close, dd.ones(2), dd.ones(3), r"shape \(2,\), not \(3,\)"),
        (close, dd.array([np.inf]), dd.array([-np.inf]), "wanted"),
        (lambda x, y: close(x, y, equal_nan=False), dd.array([NAN]), dd.array([NAN]), "wanted"),
    ):
        with pytest.raises(dd.CheckFailed, match=said):
            f(x, y)
    assert np.allclose(np.asarray(np.i0(dd.array([0.5]))), np.i0(0.5))
