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

    def tobytes(self) -> bytes:
        """The bytes of the elements in row-major order."""
        return self.numpy().tobytes()

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
        with np.printoptions(**_options):
            # Later versions of ml_dtypes give the dtype a repr of its own kind, which NumPy then writes.
            return np.array_repr(self.numpy()).replace("dtype=dtype(bfloat16)", "dtype=bfloat16")

    def __str__(self) -> str:
        with np.printoptions(**_options):
            return str(self.numpy())

    def __buffer__(self, flags: int) -> memoryview:
        return self.numpy().data

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device not in (None, _CPU):
            raise BufferError(f"the array is on the CPU, not on device {dl_device}")
        if stream is not None:
            raise BufferError("the CPU has no streams")
        x = self.numpy()
        if x.dtype.kind == "V" or self.dtype.kind == "k":
            raise BufferError(f"DLPack by way of NumPy has no {self.dtype}: x.astype(dd.float32)")
        if copy:
            return x.copy().__dlpack__()
        if max_version is not None and max_version >= (1, 0):
            return x.__dlpack__(max_version=max_version)
        return _writable(x).__dlpack__()

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.shape == () else str(self), spec)

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (np.array(self.numpy()), self.dtype))


_CPU = (1, 0)  # DLPack's number of the kind of device, and that of the device
_options: dict[str, Any] = {}


def set_printoptions(**options: Any) -> None:
    """How arrays print: NumPy's options, such as ``precision``, ``threshold`` or ``suppress``, for our arrays only.

    An option that is set to ``None`` follows NumPy's again.

    Example:
        >>> dd.set_printoptions(precision=2)
        >>> dd.array([1 / 3])
        array([0.33], dtype=float32)
        >>> dd.set_printoptions(precision=None)
    """
    merged = {k: v for k, v in {**_options, **options}.items() if v is not None}
    with np.printoptions(**merged):  # refuses what it does not know before anything changes
        pass
    _options.clear()
    _options.update(merged)


def get_printoptions() -> dict[str, Any]:
    """The options that arrays print with: NumPy's, and over them ours.

    Example:
        >>> dd.get_printoptions()["precision"]
        8
    """
    return {**np.get_printoptions(), **_options}


def _writable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory without the mark that it is read-only, which older DLPack cannot say: readers must not write."""
    interface = dict(x.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Lent(interface, x))


class _Lent:
    """Memory and what keeps it alive."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


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
