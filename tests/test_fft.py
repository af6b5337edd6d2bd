"""Fourier transforms against NumPy in float64, short-time ones against SciPy; everywhere that they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal
from measure import LAYOUTS

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.ops import OPS
from dala_defn.passes.pipeline import compile_passes

Array = np.ndarray[Any, Any]
BOUND = {4: 1e-5, 8: 1e-13}
NORMS = (None, "backward", "ortho", "forward")
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 30, 64, 97, 100, 128, 210)


def draw(shape: Any, dtype: Any, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return np.asarray(x).astype(dtype.dtype)


def close(found: Any, wanted: Array, bound: float) -> None:
    """Within a bound of the norm."""
    y = np.asarray(found)
    assert y.shape == wanted.shape
    assert (y.dtype.kind == "c") == (wanted.dtype.kind == "c")
    scale = np.sqrt(np.mean(np.abs(wanted) ** 2)) if wanted.size else 1
    assert np.max(np.abs(y - wanted), initial=0) <= bound * max(scale, 1e-30) * 4, np.max(np.abs(y - wanted)) / scale


ONE: dict[str, tuple[Any, ...]] = {
    "fft": (*dtypes.COMPLEX, dtypes.float32, dtypes.float64),
    "ifft": (*dtypes.COMPLEX, dtypes.float32, dtypes.float64),
    "rfft": (dtypes.float32, dtypes.float64),
    "irfft": (*dtypes.COMPLEX, dtypes.float32),
    "hfft": (*dtypes.COMPLEX, dtypes.float64),
    "ihfft": (dtypes.float32, dtypes.float64),
}


def wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_every_length_and_norm_is_numpys(name: str, executor: str) -> None:
    f, g = getattr(dd.fft, name), getattr(np.fft, name)
    with dd.using(executor):
        for dtype in ONE[name]:
            bound = BOUND[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
            for n in SIZES:
                if name in ("irfft", "hfft") and n == 1:
                    continue
                x = draw((n,), dtype, n)
                for norm in NORMS if n in (4, 5) else NORMS[:1]:
                    close(f(dd.array(x), norm=norm), g(wide(x), norm=norm), bound)
                if n in (1, 4, 5) and dtype in ONE[name][:2]:
                    for m in (1, 2, 3, 8):
                        close(f(dd.array(x), m), g(wide(x), m), bound)


@pytest.mark.parametrize("name", ONE)
def test_axes_layouts_and_empty_arrays(name: str) -> None:
    f, g = getattr(dd.fft, name), getattr(np.fft, name)
    dtype = ONE[name][0]
    x = draw((3, 4, 5), dtype)
    for axis in (-3, -2, -1, 0, 1, 2):
        for layout in LAYOUTS.values():
            close(f(layout(x), axis=axis), g(wide(layout(x)), axis=axis), 1e-5)
    wide_lines = draw((7, 40, 33), dtype)
    close(f(dd.array(wide_lines), axis=1), g(wide(wide_lines), axis=1), 1e-5)
    for shape in ((0, 4), (2, 0, 5)):
        assert f(dd.zeros(shape, dtype)).shape == g(np.zeros(shape)).shape


SEVERAL = ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn")


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes_are_numpys(name: str) -> None:
    f, g = getattr(dd.fft, name), getattr(np.fft, name)
    real = name in ("rfft2", "rfftn")
    for dtype in (dtypes.float32, dtypes.float64) if real else (dtypes.complex64, dtypes.complex128, dtypes.float64):
        x = draw((3, 4, 5), dtype)
        bound = BOUND[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
        for norm in NORMS:
            close(f(dd.array(x), norm=norm), g(wide(x), norm=norm), bound)
        for axes in ((0, 1), (-1, 0), (2, 1)):
            close(f(dd.array(x), axes=axes), g(wide(x), axes=axes), bound)
            close(f(dd.array(x), (2, 7), axes=axes), g(wide(x), (2, 7), axes=axes), bound)
        close(f(dd.array(x), (-1, 3), axes=(0, 1)), g(wide(x), (-1, 3), axes=(0, 1)), bound)
    if name in ("fftn", "ifftn"):
        x = draw((3, 4), dtypes.float64)
        close(f(dd.array(x), axes=()), g(x, axes=()).astype(complex), 1e-13)
        close(f(dd.array(x), axes=(1, 1)), g(x, axes=(1, 1)), 1e-13)
        close(f(dd.array(x), (2, 3)), g(x, (2, 3), axes=(0, 1)), 1e-13)


@pytest.mark.parametrize("n", [1009, 4096, 10_000, 65_537])
def test_long_lines_are_exact_too(n: int) -> None:
    for dtype in (dtypes.complex64, dtypes.complex128):
        x = draw((2, n), dtype, n)
        close(dd.fft.fft(dd.array(x)), np.fft.fft(wide(x)), BOUND[dtype.itemsize // 2])
        close(dd.fft.ifft(dd.fft.fft(dd.array(x))), wide(x), BOUND[dtype.itemsize // 2])
        r = np.ascontiguousarray(x.real)
        close(dd.fft.rfft(dd.array(r)), np.fft.rfft(wide(r)), BOUND[dtype.itemsize // 2])
        close(dd.fft.irfft(dd.fft.rfft(dd.array(r)), n), wide(r), BOUND[dtype.itemsize // 2])


def test_dtypes() -> None:
    for d in dtypes.ARRAYS:
        x = dd.ones((4,), d)
        want = dtypes.complex128 if d is dtypes.float64 else dtypes.complex64
        assert dd.fft.fft(x).dtype is want and dd.fft.rfft(x).dtype is want and dd.fft.ihfft(x).dtype is want
        real = dtypes.real_of(want)
        assert dd.fft.irfft(x).dtype is real and dd.fft.hfft(x).dtype is real
        np.testing.assert_allclose(np.asarray(dd.fft.fft(x)), [4, 0, 0, 0], atol=1e-6)


def test_what_is_not_finite_stays_in_its_line() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        for n in (2, 5, 16, 97):
            x = draw((3, n), dtypes.float32)
            x[1, n // 2] = bad
            for y in (dd.fft.fft(dd.array(x)), dd.fft.rfft(dd.array(x)), dd.fft.hfft(dd.array(x))):
                finite = np.isfinite(np.asarray(y))
                assert finite[[0, 2]].all()
                assert not finite[1].all()


def test_edges_of_irfft_have_no_imaginary_part() -> None:
    for n in (1, 2, 5, 8):
        x = draw((n // 2 + 1,), dtypes.complex128)
        close(dd.fft.irfft(dd.array(x), n), np.fft.irfft(x, n), 1e-13)


def _call(f: Any, x: Any, /) -> Any:
    return f(x)


def test_numpys_functions_work_eagerly_and_traced() -> None:
    x = draw((3, 8), dtypes.float32)
    for name in (*ONE, *SEVERAL):
        f = getattr(np.fft, name)
        want = f(wide(x))
        found = f(dd.array(x))
        assert isinstance(found, dd.Array)
        close(found, want, 1e-5)
        close(dd.defn(partial(_call, f))(x), want, 1e-5)
    assert np.fft.fft(dd.array(x), axis=0, norm="ortho").shape == (3, 8)


def test_compiled_exported_and_for_any_batch(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        z = dd.fft.fft(x)
        return z, dd.fft.irfft(dd.fft.rfft(dd.real(x)), 6), dd.fft.ifft(z * 2)

    x = draw((4, 6), dtypes.complex64)
    want = np.fft.fft(wide(x)), wide(x).real, wide(x) * 2
    compiled = dd.defn(f)
    for name in ("flex", "reference"):
        with dd.using(name):
            for a, b in zip(compiled(x), want, strict=True):
                close(a, b, 1e-5)
            path = tmp_path / f"{name}.dala"
            compiled.export(path, x)
            for a, b in zip(dd.load(path)(x).values(), want, strict=True):
                close(a, b, 1e-5)
    many = dd.defn(lambda x: dd.fft.fft(x))
    many.export(tmp_path / "any.dala", dd.spec("b 6", dd.complex64))
    loaded = dd.load(tmp_path / "any.dala")
    for b in (1, 5):
        x = draw((b, 6), dtypes.complex64)
        close(loaded(x), np.fft.fft(wide(x)), 1e-5)


def test_lengths_that_are_not_known() -> None:
    f = dd.defn(lambda x: (dd.fft.ifft(dd.fft.fft(x), norm="backward"), dd.fft.fft(dd.real(x), norm="ortho")))
    g = f.lower(dd.spec("n", dd.complex64))
    assert "fft" in str(g)
    real = dd.defn(lambda x: dd.fft.fft(x, norm="forward"))
    real.lower(dd.spec("n", dd.float32))
    with pytest.raises(dd.ShapeError):
        dd.defn(lambda x: dd.fft.fft(x, 8)).lower(dd.spec("n", dd.float32))


def test_a_complex_transform_is_one_node_without_copies() -> None:
    graph = compile_passes(dd.defn(dd.fft.fft).lower(dd.zeros((8,), dd.complex64)))
    assert [n.op for n in graph.nodes] == ["fft"]


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "fft": lambda x: dd.fft.fft(dd.complex(x, x * x), axis=0),
    "fft of reals": lambda x: dd.fft.fft(x, 7),
    "ifft": lambda x: dd.fft.ifft(dd.complex(x * x, x), norm="ortho"),
    "rfft": lambda x: dd.fft.rfft(x * x),
    "rfft odd": lambda x: dd.fft.rfft(x * x, 5),
    "irfft": lambda x: dd.fft.irfft(dd.complex(x, x * x)),
    "irfft odd": lambda x: dd.fft.irfft(dd.complex(x, x * x), 5),
    "hfft": lambda x: dd.fft.hfft(dd.complex(x, x * x), 6),
    "ihfft": lambda x: dd.fft.ihfft(x),
    "rfft2": lambda x: dd.fft.rfft2(x, norm="forward"),
    "irfftn": lambda x: dd.fft.irfftn(dd.complex(x, -x)),
    "stft": lambda x: dd.signal.stft(x, nperseg=4, noverlap=1)[2],
    "istft": lambda x: dd.signal.istft(dd.complex(x, x * x), nperseg=4)[1],
    "fftconvolve": lambda x: dd.signal.fftconvolve(x, x[:2, 1:3]),
}


def magnitudes(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        y = f(x)
        weights = dd.reshape(dd.cos(dd.arange(y.size, dtype=dd.float64)), y.shape)
        return dd.sum((dd.real(y) ** 2 + 3 * dd.imag(y)) * weights)

    return loss


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_central_differences(name: str) -> None:
    x = dd.array(draw((3, 6), dtypes.float64))
    loss = magnitudes(GRADIENTS[name])
    dd.testing.check_grads(loss, (x,), order=2)


@pytest.mark.parametrize("name", GRADIENTS)
def test_vmap_is_a_stack_of_rows(name: str) -> None:
    x = dd.array(draw((4, 3, 6), dtypes.float64))
    loss = magnitudes(GRADIENTS[name])
    for f in (GRADIENTS[name], dd.grad(loss)):
        rows = np.stack([np.asarray(f(row)) for row in x])
        np.testing.assert_allclose(np.asarray(dd.vmap(f)(x)), rows, rtol=1e-9, atol=1e-9)


def test_errors() -> None:
    x = dd.ones((4,))
    for f, error in (
        (lambda: dd.fft.fft(x, 0), dd.ArgumentError),
        (lambda: dd.fft.rfft(x, -3), dd.ArgumentError),
        (lambda: dd.fft.fft(x, norm="other"), dd.ArgumentError),
        (lambda: dd.fft.fft(dd.array(1.0)), dd.ShapeError),
        (lambda: dd.fft.fft(x, axis=1), dd.DalaError),
        (lambda: dd.fft.rfft(x + 1j), dd.ArgumentError),
        (lambda: dd.fft.fft2(x, (2,), axes=(0, 0)), dd.ArgumentError),
        (lambda: dd.fft.fft(dd.zeros((0,))), dd.ArgumentError),
        (lambda: dd.fft.irfft(dd.ones((1,))), dd.ArgumentError),
        (lambda: OPS["fft"](dd.ones((4, 3)), axis=0, inverse=False), dd.ShapeError),
        (lambda: OPS["irfft"](dd.ones((4, 2)), axis=0, length=(9,)), dd.ShapeError),
        (lambda: OPS["rfft"](dd.zeros((3, 0)), axis=1), dd.ShapeError),
    ):
        with pytest.raises(error):
            f()


def test_shifts_and_frequencies_go_with_it() -> None:
    x = draw((5, 6), dtypes.complex64)
    close(dd.fft.fftshift(dd.fft.fft2(dd.array(x))), np.fft.fftshift(np.fft.fft2(wide(x))), 1e-5)


WINDOWS = ("boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop", "bartlett", "tukey")


@pytest.mark.parametrize("n", [1, 2, 7, 16])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_scipys(n: int, periodic: bool) -> None:
    for w in (*WINDOWS, ("tukey", 0.25), ("tukey", 0), ("tukey", 1.0), ("kaiser", 4.0), ("gaussian", 1.5)):
        found = dd.signal.get_window(w, n, periodic, dtype=dd.float64)
        np.testing.assert_allclose(np.asarray(found), scipy.signal.get_window(w, n, periodic), atol=1e-12)
    with pytest.raises(dd.ArgumentError):
        dd.signal.get_window("none such", 4)
    with pytest.raises(dd.ArgumentError):
        dd.signal.get_window(("hann", 1, 2), 4)


STFT: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 16, "noverlap": 12, "nfft": 32},
    {"nperseg": 15, "noverlap": 4, "window": "hamming", "fs": 8.0},
    {"nperseg": 16, "boundary": "even"},
    {"nperseg": 16, "boundary": "odd", "scaling": "psd", "fs": 3.0},
    {"nperseg": 16, "boundary": "constant", "padded": False},
    {"nperseg": 16, "boundary": None, "padded": False},
    {"nperseg": 8, "return_onesided": False, "axis": 0},
    {"nperseg": 8, "axis": 1},
]


@pytest.mark.parametrize("given", STFT, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.complex128], ids=str)
def test_stft_is_scipys(given: dict[str, Any], dtype: Any) -> None:
    x = draw((40, 50) if "axis" in given else (2, 3, 100), dtype)
    if dtype.kind == "c":
        given = {**given, "return_onesided": False}
    want = scipy.signal.stft(x, **given)
    found = dd.signal.stft(dd.array(x), **given)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, atol=1e-12)


BACK: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 16, "noverlap": 12, "nfft": 32},
    {"nperseg": 15, "noverlap": 4, "window": "hamming", "fs": 8.0},
    {"nperseg": 16, "scaling": "psd", "fs": 3.0},
]


@pytest.mark.parametrize("given", BACK, ids=str)
def test_istft_is_scipys_and_the_inverse(given: dict[str, Any]) -> None:
    x = draw((2, 100), dtypes.float64)
    z = scipy.signal.stft(x, **given)[2]
    want = scipy.signal.istft(z, **given)
    found = dd.signal.istft(dd.array(z), **given)
    np.testing.assert_allclose(np.asarray(found[1]), want[1], atol=1e-12)
    np.testing.assert_allclose(np.asarray(found[0]), scipy.signal.istft(z[0], **given)[0])
    np.testing.assert_allclose(np.asarray(found[1])[:, :100], x, atol=1e-12)
    turned = dd.signal.istft(dd.array(np.moveaxis(z, (0, 1, 2), (1, 2, 0))), time_axis=0, freq_axis=2, **given)[1]
    shape = scipy.signal.istft(np.moveaxis(z, (0, 1, 2), (1, 2, 0)), time_axis=0, freq_axis=2, **given)[1]
    np.testing.assert_allclose(np.asarray(turned), shape, atol=1e-12)


def test_stft_of_complex_samples_and_back() -> None:
    x = draw((64,), dtypes.complex128)
    given = {"nperseg": 16, "noverlap": 8}
    z = dd.signal.stft(dd.array(x), return_onesided=False, **given)[2]
    back = dd.signal.istft(z, input_onesided=False, **given)[1]
    np.testing.assert_allclose(np.asarray(back), x, atol=1e-12)


def test_stft_with_a_window_of_ones_own() -> None:
    x, w = draw((50,), dtypes.float64), np.hanning(8)
    want = scipy.signal.stft(x, window=w, nperseg=8)[2]
    np.testing.assert_allclose(np.asarray(dd.signal.stft(x, window=dd.array(w))[2]), want, atol=1e-12)
    for bad in ({"nperseg": 9}, {"nperseg": 8, "noverlap": 8}, {"nfft": 4}, {"detrend": True}, {"scaling": "x"}):
        with pytest.raises(dd.ArgumentError):
            dd.signal.stft(dd.array(x), window=dd.array(w), **bad)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_fftconvolve_is_scipys(mode: str) -> None:
    for dtype in (dtypes.float64, dtypes.complex128):
        x, y = draw((9, 12), dtype), draw((3, 4), dtype, 1)
        for a, b in ((x, y), (y, x)):
            if mode == "same" and a is y:
                continue
            found = dd.signal.fftconvolve(dd.array(a), dd.array(b), mode)
            np.testing.assert_allclose(np.asarray(found), scipy.signal.fftconvolve(a, b, mode), atol=1e-11)
        along = dd.signal.fftconvolve(dd.array(x), dd.array(y[:1]), mode, axes=1)
        np.testing.assert_allclose(np.asarray(along), scipy.signal.fftconvolve(x, y[:1], mode, axes=1), atol=1e-11)
