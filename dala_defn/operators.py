"""The operators and methods that every array has, traced or concrete: Python's spelling of the public functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dala_defn import functions as F
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions.indexing import getitem
from dala_defn.functions.types import DEVICE, check_device
from dala_defn.functions.updates import At
from dala_defn.shapes import Dim, Shape, size

Protocol = Callable[..., Any]
_protocols: list[Protocol] = []


def install_protocols(ufunc: Protocol, function: Protocol) -> None:
    """Hands in what NumPy's own functions do with our arrays."""
    _protocols[:] = [ufunc, function]


class Operators:
    """Arithmetic, comparison, indexing and the usual methods, by way of the public functions."""

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        raise AssertionError("a subclass has a shape")

    @property
    def dtype(self) -> DType:
        """The element type."""
        raise AssertionError("a subclass has a dtype")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return size(self.shape)

    @property
    def T(self) -> Any:
        """The axes reversed."""
        return F.transpose(self)

    @property
    def real(self) -> Any:
        """The real part; see ``dd.real``."""
        return F.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part; see ``dd.imag``."""
        return F.imag(self)

    @property
    def at(self) -> At:
        """``x.at[index].set(v)``, ``x.at[index].add(v)``: a changed copy."""
        return At(self)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return F.matrix_transpose(self)

    @property
    def device(self) -> str:
        """Where the numbers are: ``"cpu"``."""
        return DEVICE

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array itself: there is one device."""
        check_device(device)
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ArgumentError(f"there is no version {api_version!r} of the Array API here", hint='"2024.12"')
        return sys.modules[__name__.partition(".")[0]]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _protocols[0](ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _protocols[1](func, args, kwargs)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("an array of rank 0 has no length")
        n = self.shape[0]
        if not isinstance(n, int):
            raise ShapeError(f"the length {n} is not known while tracing", hint="x.shape[0] as a symbolic size")
        return n

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: Any) -> Any:
        return getitem(self, index)

    def __setitem__(self, index: Any, values: Any) -> None:
        raise ArgumentTypeError("arrays do not change in place", hint="x = x.at[index].set(values)")

    def __neg__(self) -> Any:
        return F.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return F.absolute(self)

    def __invert__(self) -> Any:
        return F.bitwise_not(self)

    def __add__(self, other: Any) -> Any:
        return F.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return F.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return F.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return F.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return F.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return F.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return F.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return F.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return F.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return F.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return F.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return F.remainder(other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return F.divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return F.divmod(other, self)

    def __pow__(self, other: Any) -> Any:
        return F.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return F.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return F.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return F.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return F.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return F.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return F.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return F.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return F.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return F.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return F.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return F.left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return F.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return F.right_shift(other, self)

    def __eq__(self, other: Any) -> Any:
        return F.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return F.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return F.less(self, other)

    def __le__(self, other: Any) -> Any:
        return F.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return F.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return F.greater_equal(self, other)

    def astype(self, dtype: Any, *, copy: bool = True, device: Any = None) -> Any:
        """Another dtype; see ``dd.astype``."""
        return F.astype(self, dtype, copy=copy, device=device)

    def view(self, dtype: Any) -> Any:
        """The same bits as another dtype; see ``dd.view``."""
        return F.view(self, dtype)

    def conj(self) -> Any:
        """The complex conjugate; see ``dd.conj``."""
        return F.conj(self)

    def reshape(self, *shape: Any, copy: bool | None = None) -> Any:
        """Another shape; see ``dd.reshape``."""
        return F.reshape(self, shape if len(shape) != 1 else shape[0], copy=copy)

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order; see ``dd.transpose``."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return F.transpose(self, order)

    def ravel(self) -> Any:
        """All elements along one axis."""
        return F.ravel(self)

    flatten = ravel

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Any:
        """Axes of size 1 removed; see ``dd.squeeze``."""
        return F.squeeze(self, axis)

    def sum(
        self, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
    ) -> Any:
        """The sum; see ``dd.sum``."""
        return F.sum(self, axis, dtype, keepdims, initial=initial, where=where)

    def prod(
        self, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
    ) -> Any:
        """The product; see ``dd.prod``."""
        return F.prod(self, axis, dtype, keepdims, initial=initial, where=where)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
        """The mean; see ``dd.mean``."""
        return F.mean(self, axis, dtype, keepdims, where=where)

    def var(
        self,
        axis: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        where: Any = None,
        correction: Any = None,
    ) -> Any:
        """The variance; see ``dd.var``."""
        return F.var(self, axis, ddof, keepdims, dtype=dtype, where=where, correction=correction)

    def std(
        self,
        axis: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        dtype: Any = None,
        where: Any = None,
        correction: Any = None,
    ) -> Any:
        """The standard deviation; see ``dd.std``."""
        return F.std(self, axis, ddof, keepdims, dtype=dtype, where=where, correction=correction)

    def max(self, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
        """The largest; see ``dd.max``."""
        return F.max(self, axis, keepdims, initial=initial, where=where)

    def min(self, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
        """The smallest; see ``dd.min``."""
        return F.min(self, axis, keepdims, initial=initial, where=where)

    def any(self, axis: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
        """Whether any is nonzero; see ``dd.any``."""
        return F.any(self, axis, keepdims, where=where)

    def all(self, axis: Any = None, keepdims: bool = False, *, where: Any = None) -> Any:
        """Whether all are nonzero; see ``dd.all``."""
        return F.all(self, axis, keepdims, where=where)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The index of the largest; see ``dd.argmax``."""
        return F.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The index of the smallest; see ``dd.argmin``."""
        return F.argmin(self, axis, keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Any:
        """The running sum; see ``dd.cumsum``."""
        return F.cumsum(self, axis, dtype, reverse=reverse)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Limits each element; see ``dd.clip``."""
        return F.clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        """Rounds; see ``dd.round``."""
        return F.round(self, decimals)

    def dot(self, other: Any) -> Any:
        """NumPy's dot; see ``dd.dot``."""
        return F.dot(self, other)

    def cumprod(self, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Any:
        """The running product; see ``dd.cumprod``."""
        return F.cumprod(self, axis, dtype, reverse=reverse)

    def argsort(self, axis: int | None = -1, *, descending: bool = False, stable: bool = True, kind: Any = None) -> Any:
        """The indices that sort; see ``dd.argsort``."""
        return F.argsort(self, axis, descending=descending, stable=stable, kind=kind)

    def take(self, indices: Any, axis: int | None = None, mode: str = "error", *, fill_value: Any = None) -> Any:
        """Elements by index; see ``dd.take``."""
        return F.take(self, indices, axis, mode, fill_value=fill_value)

    def repeat(self, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
        """Each element several times; see ``dd.repeat``."""
        return F.repeat(self, repeats, axis, total_repeat_length=total_repeat_length)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Two axes exchanged; see ``dd.swapaxes``."""
        return F.swapaxes(self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """A diagonal; see ``dd.diagonal``."""
        return F.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
        """The sum of a diagonal; see ``dd.trace``."""
        return F.trace(self, offset, axis1, axis2, dtype)

    def sort(self, axis: int | None = -1, *, descending: bool = False, stable: bool = True, kind: Any = None) -> Any:
        """The elements in order, in a new array; see ``dd.sort``."""
        return F.sort(self, axis, descending=descending, stable=stable, kind=kind)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """Where elements belong in this ascending vector; see ``dd.searchsorted``."""
        return F.searchsorted(self, v, side, sorter)

    def partition(self, kth: Any, axis: int | None = -1) -> Any:
        """The elements with the ``kth`` in its place, in a new array; see ``dd.partition``."""
        return F.partition(self, kth, axis)

    def argpartition(self, kth: Any, axis: int | None = -1) -> Any:
        """The indices that partition; see ``dd.argpartition``."""
        return F.argpartition(self, kth, axis)

    def compress(self, condition: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0) -> Any:
        """The parts for which a vector of conditions holds; see ``dd.compress``."""
        return F.compress(condition, self, axis, size=size, fill_value=fill_value)

    def choose(self, choices: Sequence[Any], mode: str = "clip") -> Any:
        """Elements of several arrays by number; see ``dd.choose``."""
        return F.choose(self, choices, mode)

    def conjugate(self) -> Any:
        """The complex conjugate; see ``dd.conj``."""
        return F.conj(self)

    def copy(self) -> Any:
        """The array itself: it never changes."""
        return self

    def nonzero(self, *, size: int | None = None, fill_value: Any = 0) -> tuple[Any, ...]:
        """The indices of what is not zero; see ``dd.nonzero``."""
        return F.nonzero(self, size=size, fill_value=fill_value)
