"""What one can ask of dtypes and shapes, with the Array API's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from dala_defn import dtypes
from dala_defn import shapes as S
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, DTypeError
from dala_defn.functions.base import dtype_of, is_value


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a float dtype (of the parts of a complex one)."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """NumPy's older name of ``smallest_normal``."""
        return self.smallest_normal


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(x: Any) -> DType:
    return dtype_of(x) if is_value(x) and not isinstance(x, type) else dtypes.as_dtype(x)


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of that of an array.

    Raises:
        DTypeError: for another dtype.

    Example:
        >>> dd.finfo(dd.float32).eps
        1.1920928955078125e-07
    """
    dtype = _dtype(type)
    if dtype.kind == "c":
        dtype = dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
    if not dtype.is_float:
        raise DTypeError(f"finfo of {dtype}, which is no float", hint="dd.iinfo")
    f = ml_dtypes.finfo(dtype.dtype)
    return FloatInfo(dtype.itemsize * 8, float(f.eps), float(f.max), float(f.min), float(f.smallest_normal), dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of that of an array.

    Raises:
        DTypeError: for another dtype.

    Example:
        >>> dd.iinfo(dd.int8).max
        127
    """
    dtype = _dtype(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo of {dtype}, which is no integer", hint="dd.finfo")
    i = np.iinfo(dtype.dtype)
    return IntegerInfo(dtype.itemsize * 8, int(i.max), int(i.min), dtype)


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name of the Array API (``"integral"``, …), or a tuple of these.

    Raises:
        ArgumentError: for another name.

    Example:
        >>> dd.isdtype(dd.int8, ("real floating", "signed integer"))
        True
    """
    dtype = dtypes.as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ArgumentError(f"isdtype: {kind!r} is no kind of dtype", hint=", ".join(_KINDS))
        return dtype.kind in _KINDS[kind]
    return dtype is dtypes.as_dtype(kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype (or that of an array) goes into another one by promotion.

    Example:
        >>> dd.can_cast(dd.int32, dd.int64), dd.can_cast(dd.float64, dd.float32)
        (True, False)
    """
    a, b = _dtype(from_), dtypes.as_dtype(to)
    try:
        return dtypes.promote_types(a, b) is b
    except DTypeError:
        return False


def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises:
        ShapeError: when they do not broadcast.

    Example:
        >>> dd.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    return S.broadcast_shapes(*(S.as_shape(a) for a in args))


class NamespaceInfo:
    """What ``__array_namespace_info__`` gives: devices and dtypes, as the Array API has them."""

    def capabilities(self) -> dict[str, Any]:
        """Masks as indices work on concrete arrays; so do results whose sizes depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of new arrays."""
        return DEVICE

    def devices(self) -> list[str]:
        """All devices."""
        return [DEVICE]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that are taken where none is given."""
        check_device(device)
        return {
            "real floating": dtypes.DEFAULT_FLOAT,
            "complex floating": dtypes.complex64,
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.DEFAULT_INT,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of a kind (all by default) by name."""
        check_device(device)
        found = {d.name: d for d in (*dtypes.ARRAYS, dtypes.complex64, dtypes.complex128) if "float16" not in d.name}
        return {n: d for n, d in found.items() if kind is None or isdtype(d, kind)}


DEVICE = "cpu"


def check_device(device: Any) -> None:
    """Refuses a device that is not there.

    Raises:
        ArgumentError: for another one than ``"cpu"``.
    """
    if device is not None and device != DEVICE:
        raise ArgumentError(f"there is no device {device!r}", hint=f'"{DEVICE}"')


__all__ = ["broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype"]
