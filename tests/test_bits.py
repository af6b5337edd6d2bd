"""Views of bits as other dtypes, and bits counted: against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measure import LAYOUTS

import dala_defn as dd
from dala_defn import dtypes

VIEWED = (*dtypes.NUMERIC, *dtypes.COMPLEX)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(x)).tobytes()


@pytest.mark.parametrize("source", [dtypes.bool_, *VIEWED], ids=str)
def test_a_view_is_numpys(source: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((16,), (3, 32), (0, 16), (2, 0)):
        x = rng.integers(0, 2 if source.kind == "b" else 100, shape).astype(source.dtype)
        for to in VIEWED:
            want = x.view(to.dtype)
            for executor in ("flex", "reference"):
                with dd.using(executor):
                    for found in (dd.array(x).view(to), dd.view(x, to), _traced(x, to)):
                        assert found.dtype is to
                        assert np.asarray(found).shape == want.shape
                        assert bits(found) == want.tobytes()
            for name, layout in LAYOUTS.items():
                if shape == (3, 32) and source.kind != "c":
                    assert bits(dd.view(layout(x), to)) == np.ascontiguousarray(layout(x)).view(to.dtype).tobytes(), (
                        name
                    )


def _traced(x: Any, to: Any) -> Any:
    return dd.defn(lambda x: dd.view(x, to))(x)


def test_rank_0_and_what_does_not_fit() -> None:
    assert int(dd.array(1.0).view(dd.uint32)) == 0x3F800000
    assert bits(dd.view(dd.array(1.5, dd.float64), dd.complex64)) == np.float64(1.5).view(np.complex64).tobytes()
    assert bits(dd.view(dd.array(1 + 2j, dd.complex64), dd.int64)) == np.complex64(1 + 2j).view(np.int64).tobytes()
    for x, to in (
        (dd.array(1.0), dd.float64),
        (dd.array(1.0), dd.uint8),
        (dd.array([1.0, 2.0, 3.0]), dd.float64),
        (dd.array([1, 2, 3]), dd.complex64),
        (dd.array(1j), dd.float32),
    ):
        with pytest.raises(dd.ShapeError):
            x.view(to)
    with pytest.raises(dd.DTypeError):
        dd.array([1], dd.uint8).view(dd.bool_)
    x = dd.array([True])
    assert x.view(dd.bool_).dtype is dtypes.bool_


def test_sizes_that_are_not_known(tmp_path: Path) -> None:
    f = dd.defn(lambda x: x.view(dd.uint8))
    f.export(tmp_path / "f.dala", dd.spec("n 3", dd.float32))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert bits(dd.load(tmp_path / "f.dala")(x)) == x.tobytes()
    wide = dd.defn(lambda x: x.view(dd.float64))
    assert wide(np.zeros((2, 4), np.float32)).shape == (2, 2)


def test_derivatives_do_not_pass_and_rows_are_apart() -> None:
    g = dd.grad(lambda x: dd.sum(x.view(dd.int32).view(dd.float32) * x))(dd.array([2.0, 3.0]))
    assert np.asarray(g).tolist() == [2, 3]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert bits(dd.vmap(lambda r: r.view(dd.uint16))(x)) == x.tobytes()


@pytest.mark.parametrize("dtype", dtypes.INTS, ids=str)
def test_bits_are_counted(dtype: Any) -> None:
    info = np.iinfo(dtype.dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (50,), dtype=dtype.dtype, endpoint=True)
    x = np.concatenate([x, np.array([0, 1, info.min, info.max], dtype.dtype)])
    width = dtype.itemsize * 8
    leading = [width - (int(v) % (1 << width)).bit_length() for v in x]
    for f in (lambda f: f, dd.defn):
        assert np.array_equal(f(dd.bitwise_count)(x), np.bitwise_count(x))
        assert np.asarray(f(dd.clz)(x)).tolist() == leading
        fused = f(lambda v: dd.clz(v) + dd.clz(v >> 1))(x)
        want = np.array(leading) + [width - (int(v) % (1 << width)).bit_length() for v in x >> 1]
        assert np.array_equal(fused, want.astype(dtype.dtype))
    assert dd.bitwise_count(x).dtype is dtypes.uint8
    assert dd.clz(dd.array(x)).dtype is dtype
    for name in ("bitwise_count", "clz"):
        with pytest.raises(dd.ArgumentTypeError):
            getattr(dd, name)(dd.array([1.0]))
