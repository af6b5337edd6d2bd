"""The elements of constants as text: short where they are few and plain, else their bytes. Exact both ways."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.ir.types import Literal

Array = np.ndarray[Any, Any]

MOST_ELEMENTS = 16
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,9})?")
_SPECIAL = {"inf": np.inf, "+inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def elements(literal: Literal) -> str:
    """What stands between ``<`` and ``>``: elements in row-major order, or ``0x`` and the little-endian bytes."""
    array, kind = literal.array, literal.dtype.kind
    if array.size <= MOST_ELEMENTS and kind in "biufk":
        if kind != "f":
            return ", ".join([str(x).lower() for x in array.ravel().tolist()])
        if not np.isnan(array.astype(np.float64)).any():
            # A float16 or bfloat16 is printed as the float32 that it is.
            wide = array if array.dtype.itemsize > 2 else array.astype(np.float32)
            shown = [str(x) for x in wide.ravel()]
            if _parsed(literal.dtype, shown).tobytes() == array.tobytes():
                return ", ".join(shown)
    return "0x" + array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes().hex()


def read(dtype: DType, shape: tuple[int, ...], tokens: Sequence[str]) -> Literal:
    """A constant from its elements.

    Raises:
        ValueError: when they are not of the dtype, or not as many as the shape asks for.
    """
    full = (*shape, 2) if dtype.kind == "k" else shape
    if len(full) > 32 or any(d < 0 for d in full):
        raise ValueError("no shape for a constant")
    count = 1
    for d in full:
        count *= d
    if len(tokens) == 1 and tokens[0].startswith("0x"):
        data = bytes.fromhex(tokens[0][2:])
        if len(data) != count * dtype.dtype.itemsize:
            raise ValueError(f"{count * dtype.dtype.itemsize} bytes are needed, not {len(data)}")
        little = dtype.dtype.newbyteorder("<")
        if dtype.kind == "b" and not set(data) <= {0, 1}:
            raise ValueError("a bool is the byte 00 or 01")
        array = np.frombuffer(data, little).astype(dtype.dtype)
    else:
        if len(tokens) != count:
            raise ValueError(f"{count} elements are needed, not {len(tokens)}")
        if dtype.kind not in "biufk":
            raise ValueError(f"elements of {dtype} are written as bytes: 0x...")
        array = _parsed(dtype, tokens)
    array = array.reshape(full)
    array.flags.writeable = False
    return Literal(array, dtype)


def _parsed(dtype: DType, tokens: Sequence[str]) -> Array:
    if dtype.kind == "b":
        if not {"true", "false"}.issuperset(tokens):
            raise ValueError("a bool is true or false")
        return np.array([t == "true" for t in tokens], np.bool_)
    if dtype.kind == "f":
        wide = np.array([_real(t) for t in tokens], np.float64)
        with np.errstate(over="ignore"):
            out = wide.astype(dtype.dtype)
        lost = np.isfinite(wide) & ~np.isfinite(out.astype(np.float64))
        if lost.any():
            raise ValueError(f"{tokens[int(np.argmax(lost))]} does not fit {dtype}")
        return out
    info = np.iinfo(dtype.dtype)
    numbers = [_whole(t) for t in tokens]
    for n in numbers:
        if not info.min <= n <= info.max:
            raise ValueError(f"{n} does not fit {dtype}")
    return np.array(numbers, dtype.dtype)


def _real(token: str) -> float:
    if token in _SPECIAL:
        return float(_SPECIAL[token])
    if len(token) > 1000 or not _NUMBER.fullmatch(token):
        raise ValueError(f"{token[:40]} is no number")
    value = float(token)
    if np.isinf(value):
        raise ValueError(f"{token[:40]} does not fit float64")
    return value


def _whole(token: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,20}", token):
        raise ValueError(f"{token[:40]} is no whole number")
    return int(token)
