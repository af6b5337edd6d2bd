"""The types of the IR's values, and the constants that attributes hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.shapes import Dim, Shape


class Type:
    """An element type and a shape; immutable, compared by value."""

    __slots__ = ("_hash", "dtype", "shape")

    def __init__(self, dtype: DType, shape: tuple[Dim, ...]) -> None:
        self.dtype = dtype
        self.shape: Shape = shape
        self._hash = hash((dtype.code, shape))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Type) and self.dtype is other.dtype and self.shape == other.shape

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"


class Literal:
    """A constant array, compared by its bytes (so that NaN equals itself and -0 differs from 0)."""

    __slots__ = ("_hash", "array", "dtype")

    def __init__(self, array: np.ndarray[Any, Any], dtype: DType) -> None:
        if array.dtype != dtype.dtype or not array.flags.c_contiguous or array.flags.writeable:
            array = np.array(array, dtype.dtype, order="C")
            array.flags.writeable = False
        self.array = array
        self.dtype = dtype
        self._hash = hash((dtype.code, array.shape, array.tobytes()))

    @property
    def type(self) -> Type:
        """Its type; a key is held with one more dimension, of 2."""
        shape = self.array.shape
        return Type(self.dtype, shape[:-1] if self.dtype.kind == "k" else shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and self._hash == other._hash
            and self.type == other.type
            and self.array.tobytes() == other.array.tobytes()
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.type}<{self.array.tolist() if self.array.size < 8 else '...'}>"
