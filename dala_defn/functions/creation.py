"""Arrays from numbers, and counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import convert, dtype_of, from_nested, is_value, literal, offset, value
from dala_defn.functions.types import check_device
from dala_defn.shapes import DimExpr, as_shape


def array(x: Any, dtype: Any = None, *, copy: bool | None = None, device: Any = None) -> Any:
    """An array from numbers, nested lists, NumPy arrays (or what becomes one) or arrays; a copy of what can change.

    Python integers give int32 and floats float32 unless ``dtype`` says otherwise; NumPy arrays keep their dtype.

    Raises:
        ArgumentTypeError: for a ragged list, or what is no number.
        ArgumentError: with ``copy=False`` for what has to be copied.
        DTypeError: when an integer does not fit the dtype.

    Example:
        >>> dd.array([[1, 2], [3, 4]])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    check_device(device)
    to = None if dtype is None else dtypes.as_dtype(dtype)
    ours = is_value(x) and isinstance(x.dtype, DType)
    if copy is False and (not ours or to not in (None, dtype_of(x))):
        raise ArgumentError(f"an array from a {type(x).__name__} of other memory or dtype is a copy", hint=_BORROW)
    if not ours and not isinstance(x, (np.ndarray, np.generic)) and _is_foreign(x):
        x = np.asarray(x) if hasattr(x, "__array__") or not hasattr(x, "__dlpack__") else np.from_dlpack(x)
    if isinstance(x, (np.ndarray, np.generic)):
        own = dtypes.of_numpy(x)
        made = literal(np.asarray(x), own)
        return made if to is None else convert(made, to)
    if is_value(x):
        return x if to is None else convert(x, to)
    if isinstance(x, (list, tuple)):
        return from_nested(x, to)
    kind = dtypes.weak_kind(x)
    if kind is None:
        raise ArgumentTypeError(f"{type(x).__name__} is no array", hint="numbers, nested lists or a NumPy array")
    return ops.lit(x, to or dtypes.promote_weak(None, kind))


asarray = array
_BORROW = "dd.from_dlpack(x) takes the memory of another array"


def _is_foreign(x: Any) -> bool:
    """Whether NumPy makes an array of it without looking at elements one by one."""
    known = hasattr(x, "__array__") or hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__")
    return known or isinstance(x, (memoryview, bytearray)) or type(x).__module__ == "array"


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of one value.

    Example:
        >>> dd.full((2,), 7)
        array([7, 7], dtype=int32)
    """
    v = array(fill_value, dtype, device=device)
    sizes = as_shape(shape)
    return v if sizes == tuple(v.shape) else ops.OPS["broadcast_to"](v, shape=sizes)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of zeros, float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.zeros(2)
        array([0., 0.], dtype=float32)
    """
    return full(shape, 0, dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of ones, float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.ones(2)
        array([1., 1.], dtype=float32)
    """
    return full(shape, 1, dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device)


def full_like(x: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """An array of one value with the dtype and shape of ``x``, unless they are given.

    Example:
        >>> dd.full_like(dd.array([1, 2]), 9)
        array([9, 9], dtype=int32)
    """
    x = value(x)
    sizes = tuple(x.shape) if shape is None else shape
    return full(sizes, fill_value, dtype_of(x) if dtype is None else dtype, device=device)


def zeros_like(x: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Zeros with the dtype and shape of ``x``, unless they are given.

    Example:
        >>> dd.zeros_like(dd.array([1, 2]))
        array([0, 0], dtype=int32)
    """
    return full_like(x, 0, dtype, shape=shape, device=device)


def ones_like(x: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Ones with the dtype and shape of ``x``, unless they are given.

    Example:
        >>> dd.ones_like(dd.array([1, 2]))
        array([1, 1], dtype=int32)
    """
    return full_like(x, 1, dtype, shape=shape, device=device)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Any:
    """Numbers from ``start`` (0 when only one is given) up to but without ``stop``, by ``step``.

    int32 for integers, float32 for floats, unless ``dtype`` says otherwise. One argument may be a symbolic size.

    Raises:
        ArgumentError: for a step of 0.

    Example:
        >>> dd.arange(3)
        array([0, 1, 2], dtype=int32)
    """
    check_device(device)
    if stop is None:
        start, stop = 0, start
    to = dtypes.as_dtype(dtype) if dtype is not None else None
    if isinstance(stop, DimExpr):
        if type(start) is not int or type(step) is not int or (start, step) != (0, 1):
            raise ArgumentError("arange up to a symbolic size starts at 0 with step 1")
        return ops.OPS["iota"](shape=(stop,), axis=0, dtype=to or dtypes.DEFAULT_INT)
    if step == 0:
        raise ArgumentError("arange: the step is 0")
    count = max(math.ceil((stop - start) / step), 0)
    to = to or dtypes.result_type(start, stop, step)
    if count and to.is_integer:
        dtypes.scalar_array(int(start), to)
        dtypes.scalar_array(int(start + (count - 1) * step), to)
    if to.is_integer or start != int(start) or step != int(step):
        return literal(np.asarray(start + step * np.arange(count)), to)
    line = ops.OPS["iota"](shape=(count,), axis=0, dtype=to)
    line = line if step == 1 else ops.OPS["mul"](line, ops.lit(step, to))
    return line if start == 0 else ops.OPS["add"](line, ops.lit(start, to))


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on the k-th diagonal of an (n, m) array of zeros; float32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.eye(2)
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    check_device(device)
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    rows, columns = as_shape((n, n if m is None else m))
    shape = (rows, columns)
    i = ops.OPS["iota"](shape=shape, axis=0, dtype=dtypes.int32)
    j = ops.OPS["iota"](shape=shape, axis=1, dtype=dtypes.int32)
    return convert(ops.OPS["equal"](ops.OPS["add"](i, ops.lit(offset(k, rows, columns), dtypes.int32)), j), to)


def one_hot(x: Any, num_classes: int, dtype: Any = None) -> Any:
    """A 1 at the position that each integer names, in a new last axis; out of range gives all zeros.

    Example:
        >>> dd.one_hot(dd.array([1]), 3)
        array([[0., 1., 0.]], dtype=float32)
    """
    x = value(x)
    if not dtype_of(x).is_integer:
        raise ArgumentTypeError(f"one_hot takes integers, not {dtype_of(x)}")
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    line = ops.OPS["iota"](shape=(num_classes,), axis=0, dtype=dtypes.int64)
    column = ops.OPS["reshape"](convert(x, dtypes.int64), shape=(*x.shape, 1))
    return convert(ops.OPS["equal"](column, line), to)


__all__ = [
    "arange",
    "array",
    "asarray",
    "eye",
    "full",
    "full_like",
    "one_hot",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]
