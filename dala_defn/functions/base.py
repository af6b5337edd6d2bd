"""How public functions read their operands: promotion, weak scalars, lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentTypeError, DTypeError
from dala_defn.ir import Literal
from dala_defn.shapes import Dim, DimExpr, Shape


def is_value(x: Any) -> bool:
    """Whether ``x`` is an array of any kind, traced or concrete."""
    return hasattr(x, "dtype") and hasattr(x, "shape")


def dtype_of(x: Any) -> DType:
    """The dtype of a value."""
    dtype = x.dtype
    return dtype if isinstance(dtype, DType) else dtypes.as_dtype(dtype)


def value(x: Any) -> Any:
    """``x`` as a value: arrays stay, Python numbers and nested lists become arrays.

    Raises:
        ArgumentTypeError: for anything else.
    """
    if type(getattr(x, "dtype", None)) is DType or is_value(x):
        return x
    kind = dtypes.weak_kind(x)
    if kind is not None:
        return ops.lit(x, dtypes.promote_weak(None, kind))
    if isinstance(x, (list, tuple)):
        return from_nested(x, None)
    if isinstance(x, DimExpr):
        return dim_value(x, dtypes.int32)
    raise ArgumentTypeError(f"{type(x).__name__} is no array", hint="an array, a number or a list of numbers")


def literal(array: np.ndarray[Any, Any], dtype: DType) -> Any:
    """A concrete array as a value: a constant inside a trace, an array outside.

    Raises:
        DTypeError: when imaginary parts would be lost.
    """
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(f"complex numbers do not fit {dtype}", code="E202", hint="x.real, or dtype=dd.complex64")
    frozen = np.array(array, dtype.dtype, order="C")
    frozen.flags.writeable = False
    return ops.OPS["constant"](value=Literal(frozen, dtype))


def from_nested(x: Any, dtype: DType | None) -> Any:
    """An array from nested lists of numbers or values."""
    leaves: list[Any] = []
    shape = _measure(x, leaves)
    if not any(is_value(leaf) for leaf in leaves):
        if dtype is None:
            dtype = dtypes.result_type(*leaves) if leaves else dtypes.DEFAULT_FLOAT
        wanting = dtype.is_integer or (dtype.is_float and any(type(leaf) is complex for leaf in leaves))
        checked = [dtypes.scalar_array(leaf, dtype) for leaf in leaves] if wanting else leaves
        return literal(np.array(checked, dtype.dtype).reshape(shape), dtype)
    dtype = dtype or dtypes.result_type(*leaves)
    parts = [ops.OPS["reshape"](convert(leaf, dtype), shape=(1,)) for leaf in leaves]
    return ops.OPS["reshape"](ops.OPS["concatenate"](*parts, axis=0), shape=shape)


def _measure(x: Any, leaves: list[Any]) -> tuple[int, ...]:
    if isinstance(x, (list, tuple)):
        shapes = [_measure(item, leaves) for item in x]
        if any(s != shapes[0] for s in shapes):
            bad = next(i for i, s in enumerate(shapes) if s != shapes[0])
            raise ArgumentTypeError(
                f"a ragged list is no array: item {bad} has the shape {shapes[bad]}, item 0 {shapes[0]}"
            )
        return (len(x), *(shapes[0] if shapes else ()))
    if is_value(x):
        if x.shape != ():
            whole = list(x)
            return _measure(whole, leaves)
        leaves.append(x)
        return ()
    if dtypes.weak_kind(x) is None:
        raise ArgumentTypeError(f"{type(x).__name__} is no number")
    leaves.append(x)
    return ()


def convert(x: Any, dtype: DType) -> Any:
    """``x`` as a value of this dtype."""
    if not is_value(x):
        if dtypes.weak_kind(x) is not None:
            return ops.lit(x, dtype)
        x = dim_value(x, dtype) if isinstance(x, DimExpr) else value(x)
    return x if dtype_of(x) is dtype else ops.OPS["cast"](x, dtype=dtype)


# The dtypes that stay what they are beside a Python number of each type; as many as there are of both.
_STAYS = {
    type(number): frozenset(d for d in dtypes.ELEMENTS if dtypes.promote_weak(d, dtypes.weak_kind(number) or "") is d)
    for number in (True, 1, 1.0, 1j)
}


def pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of an elementwise function, promoted to one dtype."""
    # The ways that most calls go: values of one dtype, and a value with a Python number.
    left, right = getattr(x, "dtype", None), getattr(y, "dtype", None)
    if type(left) is DType:
        if left is right:
            return x, y
        if left in _STAYS.get(type(y), ()) and getattr(x, "weak", None) is None:
            return x, ops.lit(y, left)
    elif type(right) is DType and right in _STAYS.get(type(x), ()) and getattr(y, "weak", None) is None:
        return ops.lit(x, right), y
    a, b = operands(x, y)
    return a, b


def operands(*xs: Any) -> list[Any]:
    """The operands of an elementwise function, promoted to one dtype."""
    dtype: Any = getattr(xs[0], "dtype", None)
    if type(dtype) is DType and all(getattr(x, "dtype", None) is dtype for x in xs):
        return list(xs)
    xs = tuple(value(x) if isinstance(x, (list, tuple)) else x for x in xs)
    for x in xs:
        if not is_value(x) and dtypes.weak_kind(x) is None and not isinstance(x, DimExpr):
            raise ArgumentTypeError(f"{type(x).__name__} is no array", hint="an array, a number or a list of numbers")
    dtype = dtypes.result_type(*[0 if isinstance(x, DimExpr) else x for x in xs])  # a size is a number as well
    return [convert(x, dtype) for x in xs]


def inexact(x: Any) -> Any:
    """The operand of a function with real results: integers and bool become float32."""
    if getattr(x, "dtype", None).__class__ is DType and x.dtype.kind in "fc":
        return x
    x = value(x)
    return convert(x, dtypes.to_inexact(dtype_of(x)))


def dim_value(d: Dim, dtype: DType = dtypes.int32) -> Any:
    """A size as a scalar array, whether it is known while tracing or not.

    Example:
        >>> f = dd.defn(lambda x: dd.cond(dd.dim_value(x.shape[0]) > 3, dd.sum, dd.max, x))
        >>> f(dd.array([1.0, 2.0]))
        array(2., dtype=float32)
    """
    if not isinstance(d, DimExpr):
        return ops.lit(d, dtype)
    ones = ops.OPS["broadcast_to"](ops.lit(1, dtypes.int32), shape=(d,))
    return convert(ops.OPS["sum"](ones, axes=(0,)), dtype)


def same(x: Any) -> Any:
    """``x`` as the result of a function that changes nothing: never the caller's own NumPy array."""
    return literal(np.asarray(x), dtype_of(x)) if isinstance(x, (np.ndarray, np.generic)) and not _tracing() else x


def _tracing() -> bool:
    return ops.current_trace() is not None


def offset(k: int, rows: Dim, columns: Dim) -> int:
    """The number of a diagonal, no further out than the first empty one."""
    high = columns if isinstance(columns, int) else 2**30
    low = rows if isinstance(rows, int) else 2**30
    return max(min(k, high), -low)


def shape_of(x: Any) -> Shape:
    """The shape of a value."""
    return tuple(x.shape)


def own(x: Any) -> Any:
    """``x`` as a value whose operators follow our rules: a NumPy array becomes one of ours."""
    x = value(x)
    return ops.OPS["reshape"](x, shape=tuple(x.shape)) if isinstance(x, (np.ndarray, np.generic)) else x


def real(x: Any) -> Any:
    """``own`` with real numbers: integers and bool become float32."""
    return inexact(own(x))


def owned(*xs: Any) -> list[Any]:
    """The operands of an elementwise function, promoted to one dtype, with our operators."""
    return [own(x) for x in operands(*xs)]


def reals(*xs: Any) -> list[Any]:
    """``owned`` with real numbers: integers and bool become float32."""
    return [inexact(x) for x in owned(*xs)]


def no_out(name: str, given: Any) -> None:
    """Refuses an array to write into."""
    if given is not None:
        raise ArgumentTypeError(f"{name}: arrays do not change in place", hint=f"y = dd.{name}(...), without out=")
