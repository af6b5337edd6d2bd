"""Short-time Fourier transforms, convolution by transforms, and windows, with SciPy's names and conventions.

A frame every ``nperseg - noverlap`` samples (the hop); ``boundary`` centres the first frame on the first sample.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, errors, fft
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, literal, own
from dala_defn.functions.shape import cut
from dala_defn.ops.spec import OPS
from dala_defn.shapes import normalize_axis, show

Array = np.ndarray[Any, Any]
_SUMS: dict[str, tuple[float, ...]] = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.50, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _cosines(weights: Sequence[float]) -> Callable[[int], Array]:
    def window(n: int) -> Array:
        angle = np.linspace(-np.pi, np.pi, n)
        return np.asarray(sum(w * np.cos(k * angle) for k, w in enumerate(weights)))

    return window


def _tukey(alpha: float) -> Callable[[int], Array]:
    def window(n: int) -> Array:
        if alpha <= 0:
            return np.ones(n)
        if alpha >= 1:
            return _cosines(_SUMS["hann"])(n)
        k = np.arange(n, dtype=float)
        edge = alpha * (n - 1) / 2
        near = np.minimum(k, n - 1 - k)
        return np.where(near < edge, 0.5 * (1 - np.cos(np.pi * near / edge)), 1.0)

    return window


def _gaussian(std: float) -> Callable[[int], Array]:
    return lambda n: np.exp(-((np.arange(n) - (n - 1) / 2) ** 2) / (2 * std * std))


def _window(window: Any, n: int, periodic: bool) -> Array:
    """The window in float64."""
    name, *parameters = window if isinstance(window, tuple) else (window,)
    made: dict[str, Callable[..., Callable[[int], Array]]] = {
        **{k: lambda w=w: _cosines(w) for k, w in _SUMS.items()},
        "boxcar": lambda: np.ones,
        "bartlett": lambda: np.bartlett,
        "kaiser": lambda beta: lambda m: np.kaiser(m, beta),
        "gaussian": _gaussian,
        "tukey": lambda alpha=0.5: _tukey(alpha),
    }
    if name not in made or n < 1:
        raise ArgumentError(f"there is no window {window!r} of {n}", hint=", ".join(made))
    try:
        make = made[name](*parameters)
    except TypeError:
        raise ArgumentError(f"the window {name!r} with {len(parameters)} parameters") from None
    if n == 1:
        return np.ones(1)
    return np.asarray(make(n + 1)[:-1] if periodic else make(n), np.float64)


def get_window(window: Any, Nx: int, fftbins: bool = True, *, dtype: Any = None) -> Any:
    """A window of ``Nx`` numbers by its name, or by a name and parameters; float32 unless ``dtype`` says otherwise.

    ``boxcar``, ``hann``, ``hamming``, ``blackman``, ``nuttall``, ``blackmanharris``, ``flattop``, ``bartlett``,
    ``tukey``, ``("tukey", alpha)``, ``("kaiser", beta)``, ``("gaussian", std)``. With ``fftbins`` it is one period of
    what repeats, as transforms want it; without, symmetric.

    Raises:
        ArgumentError: for another window, or wrong parameters.

    Example:
        >>> dd.signal.get_window("hann", 4)
        array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return literal(_window(window, Nx, fftbins), dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def _frame_size(x: Any, n: Any, name: str) -> int:
    if not isinstance(n, int):
        raise ShapeError(f"{name} of {show(x.shape)}, whose size is not known", hint="a known size")
    return n


def _frames(x: Any, size: int, step: int) -> Any:
    """Frames of the last axis, which becomes two: ``(..., frames, size)``."""
    last = len(x.shape) - 1
    count = (x.shape[last] - size) // step + 1
    places = literal(np.arange(count)[:, None] * step + np.arange(size), dtypes.int32)
    return OPS["gather"](x, places, axis=last, batch_dims=0, mode="clip")


def _extended(x: Any, boundary: str | None, n: int) -> Any:
    modes = {"zeros": "constant", "even": "reflect", "constant": "edge"}
    if boundary is None or n == 0:
        return x
    lead = [(0, 0)] * (len(x.shape) - 1)
    if boundary in modes:
        return F.pad(x, [*lead, (n, n)], mode=modes[boundary])
    if boundary != "odd":
        raise ArgumentError(f"stft: boundary {boundary!r}", hint='"zeros", "even", "odd", "constant" or None')
    last, size = len(x.shape) - 1, x.shape[-1]
    mirrored = F.pad(x, [*lead, (n, n)], mode="reflect")
    ends = F.pad(x, [*lead, (n, n)], mode="edge")
    inside = np.arange(size + 2 * n)
    mask = literal((inside >= n) & (inside < n + size), dtypes.bool_)
    return F.where(mask, cut(mirrored, last, 0, size + 2 * n), 2 * ends - mirrored)


def _given_window(window: Any, nperseg: int | None, length: int, real: Any) -> tuple[Any, int]:
    """The window as an array of this dtype, and the size of a frame."""
    if isinstance(window, (str, tuple)):
        n = min(256 if nperseg is None else nperseg, length)
        if n < 1:
            raise ArgumentError(f"frames of {n} samples")
        return literal(_window(window, n, True), real), n
    w = convert(own(window), real)
    if len(w.shape) != 1 or not isinstance(w.shape[0], int) or w.shape[0] > length:
        raise ShapeError(f"the window {show(w.shape)} for {length} samples")
    if nperseg is not None and nperseg != w.shape[0]:
        raise ArgumentError(f"nperseg {nperseg} with a window of {w.shape[0]}")
    return w, w.shape[0]


def _hop(nperseg: int, noverlap: int | None) -> int:
    overlap = nperseg // 2 if noverlap is None else noverlap
    if not 0 <= overlap < nperseg:
        raise ArgumentError(f"noverlap {overlap} for frames of {nperseg}", rule="at least 0, less than nperseg")
    return nperseg - overlap


def _scale(w: Any, fs: float, scaling: str) -> Any:
    """What a frame is divided by."""
    if scaling == "spectrum":
        return F.sum(w)
    if scaling == "psd":
        return F.sqrt(fs * F.sum(w * w))
    raise ArgumentError(f"scaling {scaling!r}", hint='"spectrum" or "psd"')


def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: bool = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:
    """The short-time Fourier transform: frequencies, times, and the transforms, as ``scipy.signal.stft`` gives them.

    Frames of ``nperseg`` (256) samples start every ``nperseg - noverlap`` (half of it), are multiplied by the window
    and transformed, with zeros up to ``nfft``; frequencies stand in the place of ``axis``, the times come last. With
    ``boundary`` (``"zeros"``, ``"even"``, ``"odd"``, ``"constant"``) half a frame is added at both ends, so that the
    first is centred on the first sample; with ``padded`` zeros make the last frame whole. Transforms are divided by the
    sum of the window (``scaling="spectrum"``) or by the root of ``fs`` times that of its squares (``"psd"``).

    Raises:
        ShapeError: along an axis of unknown size, or for a window longer than it.
        ArgumentError: for sizes that do not go together, ``detrend``, or a name that is not there.

    Example:
        >>> f, t, z = dd.signal.stft(dd.ones(16), nperseg=8)
        >>> z.shape
        (5, 5)
    """
    if detrend is not False:
        raise ArgumentError("stft with detrend", hint="x - dd.mean(x)")
    x = own(x)
    dtype = dtypes.to_inexact(dtype_of(x))
    x = convert(x, dtype if dtype.itemsize >= 4 else dtypes.float32)
    real = dtypes.real_of(dtype_of(x)) if dtype_of(x).kind == "c" else dtype_of(x)
    place = normalize_axis(axis, len(x.shape))
    length = _frame_size(x, x.shape[place], "stft")
    x = F.moveaxis(x, place, -1)
    w, n = _given_window(window, nperseg, length, real)
    step = _hop(n, noverlap)
    size = n if nfft is None else nfft
    if size < n:
        raise ArgumentError(f"nfft {size} for frames of {n}", rule="at least nperseg")
    x = _extended(x, boundary, n // 2)
    total = x.shape[-1]
    if padded and (total - n) % step:
        x = F.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, step - (total - n) % step)])
        total = x.shape[-1]
    frames = _frames(x, n, step) * (w / _scale(w, fs, scaling))
    onesided = return_onesided and dtype_of(x).kind != "c"
    z = fft.rfft(frames, size) if onesided else fft.fft(frames, size)
    frequencies = (np.fft.rfftfreq if onesided else np.fft.fftfreq)(size, 1 / fs)
    times = (np.arange(n / 2, total - n / 2 + 1, step) - (0 if boundary is None else n / 2)) / fs
    return literal(frequencies, real), literal(times, real), F.moveaxis(z, -1, place)


def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Any, Any]:
    """The inverse of ``stft``: times and samples. Frames are added up where they overlap, as least squares asks for.

    Arguments as there; ``boundary`` says that half a frame was added at both ends. It gives back what was transformed
    where the windows of each sample do not all vanish (Griffin and Lim, "Signal estimation from modified short-time
    Fourier transform").

    Raises:
        ShapeError: for arrays of unknown size or below rank 2.
        ArgumentError: for sizes that do not go together, or a name that is not there.

    Example:
        >>> x = dd.arange(16, dtype=dd.float32)
        >>> dd.allclose(dd.signal.istft(dd.signal.stft(x, nperseg=8)[2], nperseg=8)[1], x, atol=1e-5)
        array(True)
    """
    z = own(Zxx)
    rank = len(z.shape)
    if rank < 2:
        raise ShapeError(f"istft of {show(z.shape)}", rule="frequencies and times")
    freq, time = normalize_axis(freq_axis, rank), normalize_axis(time_axis, rank)
    if freq == time:
        raise ArgumentError(f"istft: axis {freq} for both frequencies and times")
    z = F.moveaxis(z, (time, freq), (-2, -1))
    found, count = (_frame_size(z, z.shape[k], "istft") for k in (-1, -2))
    whole = 2 * (found - 1) if input_onesided else found
    n = whole if nperseg is None else nperseg
    size = nfft if nfft is not None else n if input_onesided and n == whole + 1 else whole
    if not 1 <= n <= size:
        raise ArgumentError(f"nfft {size} for frames of {n}", rule="at least nperseg")
    step = _hop(n, noverlap)
    frames = fft.irfft(z, size) if input_onesided else fft.ifft(z, size)
    frames = cut(frames, rank - 1, 0, n)
    kind = dtype_of(frames)
    real = dtypes.real_of(kind) if kind.kind == "c" else kind
    w, _ = _given_window(window, n, n, real)
    total = n + (count - 1) * step
    places = literal(np.arange(count)[:, None] * step + np.arange(n), dtypes.int32)
    shape = (*frames.shape[:-2], total)
    blank = F.zeros(shape, kind)
    out = OPS["scatter_add"](
        blank, places, frames * (w * _scale(w, fs, scaling)), axis=rank - 2, batch_dims=0, mode="clip"
    )
    squares = F.broadcast_to(w * w, (count, n))
    weight = OPS["scatter_add"](F.zeros((total,), real), places, squares, axis=0, batch_dims=0, mode="clip")
    if boundary:
        out, weight = cut(out, rank - 2, n // 2, total - n // 2), cut(weight, 0, n // 2, total - n // 2)
    out = out / F.where(weight > 1e-10, weight, 1.0)
    times = literal(np.arange(out.shape[-1]) / fs, real)
    if rank > 2 and time != rank - 1:
        # The samples stand where the times did, among the axes that are left.
        out = F.moveaxis(out, -1, time - (freq < time))
    return times, out


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None) -> Any:
    """The convolution of two arrays along axes (all by default) by Fourier transforms, with NumPy's broadcasting.

    ``"full"``, the middle part in the size of ``in1`` (``"same"``), or where both overlap wholly (``"valid"``).

    Raises:
        ShapeError: for arrays of different rank or unknown size.
        ArgumentError: for another mode, or where neither array holds the other with ``"valid"``.

    Example:
        >>> dd.round(dd.signal.fftconvolve(dd.array([1.0, 2.0]), dd.array([1.0, 1.0])), 3)
        array([1., 3., 2.], dtype=float32)
    """
    x, y = (own(v) for v in (in1, in2))
    dtype = dtypes.to_inexact(dtypes.result_type(x, y))
    x, y = convert(x, dtype), convert(y, dtype)
    rank = len(x.shape)
    if rank != len(y.shape):
        raise ShapeError(f"fftconvolve of {show(x.shape)} and {show(y.shape)}", rule="the same rank")
    which = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    places = sorted(normalize_axis(a, rank) for a in which)
    a, b = ([_frame_size(v, v.shape[p], "fftconvolve") for p in places] for v in (x, y))
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"fftconvolve: mode {mode!r}", hint='"full", "same" or "valid"')
    if mode == "valid" and any(m < n for m, n in zip(a, b, strict=True)):
        if any(m > n for m, n in zip(a, b, strict=True)):
            raise ArgumentError(f"fftconvolve: {show(x.shape)} and {show(y.shape)}: neither holds the other")
        x, y, a, b = y, x, b, a
    full = [m + n - 1 for m, n in zip(a, b, strict=True)]
    if 0 in a or 0 in b:
        raise ArgumentError("fftconvolve of nothing")
    if dtype.kind == "c":
        out = fft.ifftn(fft.fftn(x, full, places) * fft.fftn(y, full, places), full, places)
    else:
        out = convert(fft.irfftn(fft.rfftn(x, full, places) * fft.rfftn(y, full, places), full, places), dtype)
    if mode != "full":
        for p, m, n, k in zip(places, a, b, full, strict=True):
            size = m if mode == "same" else m - n + 1
            out = cut(out, p, (k - size) // 2, (k - size) // 2 + size)
    return out


__all__ = ["fftconvolve", "get_window", "istft", "stft"]

errors.boundaries(sys.modules[__name__])
