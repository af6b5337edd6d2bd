"""What goes with Fourier transforms: frequencies and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError
from dala_defn.functions.base import literal, own
from dala_defn.functions.types import check_device


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of ``n`` samples at a distance ``d``; float32 unless ``dtype`` says otherwise.

    Raises:
        ArgumentError: for fewer than one sample.

    Example:
        >>> dd.fft.fftfreq(4)
        array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    check_device(device)
    if n < 1:
        raise ArgumentError(f"fftfreq of {n} samples")
    return literal(np.fft.fftfreq(n, d), dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of ``n`` real samples at a distance ``d``; float32 unless ``dtype`` is given.

    Raises:
        ArgumentError: for fewer than one sample.

    Example:
        >>> dd.fft.rfftfreq(4)
        array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    check_device(device)
    if n < 1:
        raise ArgumentError(f"rfftfreq of {n} samples")
    return literal(np.fft.rfftfreq(n, d), dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype))


def _shift(x: Any, axes: int | Sequence[int] | None, back: bool) -> Any:
    x = own(x)
    places = range(len(x.shape)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    for a in places:
        n = x.shape[a]
        x = F.roll(x, -(n // 2) if back else n // 2, a)
    return x


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Frequency 0 moved to the middle of axes (all by default).

    Example:
        >>> dd.fft.fftshift(dd.arange(4))
        array([2, 3, 0, 1], dtype=int32)
    """
    return _shift(x, axes, False)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Frequency 0 moved back from the middle of axes (all by default).

    Example:
        >>> dd.fft.ifftshift(dd.arange(3))
        array([1, 2, 0], dtype=int32)
    """
    return _shift(x, axes, True)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
