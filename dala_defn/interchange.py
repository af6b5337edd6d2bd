"""Arrays from other libraries without copying, by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.array import Array, host_array
from dala_defn.errors import ArgumentTypeError
from dala_defn.functions.types import check_device


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory of another library's array on the CPU (NumPy, torch, …), without copying it.

    Who still holds the other array must not write to it: arrays of Dala do not change. ``copy=True`` copies.

    Raises:
        ArgumentTypeError: for what has no ``__dlpack__``, or lies elsewhere than in the CPU's memory.

    Example:
        >>> dd.from_dlpack(np.arange(3))
        array([0, 1, 2])
    """
    check_device(device)
    if isinstance(x, Array):
        return x
    if not hasattr(x, "__dlpack__"):
        raise ArgumentTypeError(f"{type(x).__name__} has no __dlpack__", hint="dd.array(x)")
    try:
        view = np.from_dlpack(x)
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentTypeError(f"a {type(x).__name__} that DLPack does not hand over: {error}") from None
    return host_array(np.array(view) if copy else view, dtypes.as_dtype(view.dtype))
