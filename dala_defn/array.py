"""Concrete arrays. An ``Array`` is immutable; its numbers live with the executor that made them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dala_defn.annotations import Shaped
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError, DalaError, leave
from dala_defn.ir.types import Type
from dala_defn.operators import Operators
from dala_defn.ops.bind import traces
from dala_defn.ops.random import KEY_RECORD, unpack_keys


class Storage(Protocol):
    """Where an array's numbers are."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers as a read-only NumPy array (a key as uint32 with a last dimension of 2)."""
        ...


class Array(Operators):
    """A concrete array: ``np.asarray(x)``, ``x.item()``, ``x.tolist()`` read it, operators make new ones."""

    __slots__ = ("__weakref__", "_storage", "_type")

    def __init__(self, storage: Storage, type: Type) -> None:
        self._storage = storage
        self._type = type

    def __class_getitem__(cls, shape: Any) -> Shaped:
        """An annotation: an array of this shape and of any dtype; see ``dd.Float32``."""
        return Shaped(shape, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._type.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._type.dtype

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers as a read-only NumPy array that shares their memory; valid as long as it is held."""
        if traces.stack:
            traces.note(self)
        return self._storage.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # Often the larger part of a small call, so it is its own boundary.
        try:
            x = self._storage.numpy()
            if traces.stack:
                traces.note(self)
        except DalaError as error:
            leave(error)
            raise
        if dtype is None and not copy:
            return x
        if dtype is not None and np.dtype(dtype) != x.dtype:
            if copy is False:
                raise ArgumentError("a conversion of dtype needs a copy")
            return x.astype(dtype)
        return x.copy() if copy else x

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            ArgumentError: when there is not exactly one element.
        """
        x = self.numpy()
        if x.size != 1:
            raise ArgumentError(f"item() of an array of {x.size} elements")
        return x.astype(np.float32).item() if x.dtype.kind == "V" else x.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.shape != () or not self.dtype.is_integer:
            raise ArgumentTypeError(f"{self._type} is no index", hint="an integer array of rank 0")
        return int(self.item())

    def __repr__(self) -> str:
        if self.dtype.kind == "k":
            return f"key({self.numpy().tolist()})"
        return np.array_repr(self.numpy())

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.shape == () else str(self), spec)

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (np.array(self.numpy()), self.dtype))


class HostStorage:
    """Numbers in a NumPy array of our own."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype == KEY_RECORD:
            array = unpack_keys(array)
        self._array = array.view()
        self._array.flags.writeable = False

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array, read-only."""
        return self._array


def host_array(x: np.ndarray[Any, Any], dtype: DType) -> Array:
    """An ``Array`` over a NumPy array that nobody else changes."""
    storage = HostStorage(x)
    shape = storage.numpy().shape
    return Array(storage, Type(dtype, shape[:-1] if dtype.kind == "k" else shape))


def _rebuild(x: np.ndarray[Any, Any], dtype: DType) -> Array:
    return host_array(x, dtype)
