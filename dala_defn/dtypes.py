"""The element types and how they combine.

Promotion follows NumPy 2 with these stated choices: an integer with a float takes the float's dtype, float16 with
bfloat16 is float32, and Python scalars are weak (they take the dtype of the array they meet).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dala_defn.errors import DTypeError


class DType:
    """An element type. ``np.dtype(dd.float32)`` works, and ``x.dtype == np.float32`` compares as expected.

    Attributes:
        name: NumPy's name, such as ``"float32"``.
        short: the name in the IR, such as ``"f32"``.
        kind: ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` float, ``c`` complex, ``k`` key, ``t`` token.
        code: the number in the C interface.
        itemsize: bytes of one element.
        dtype: the NumPy dtype that holds it (a key is held as uint32 with a last dimension of 2).
    """

    __slots__ = ("code", "dtype", "itemsize", "kind", "name", "short")

    def __init__(self, name: str, short: str, kind: str, code: int, numpy: Any, itemsize: int | None = None) -> None:
        self.name = name
        self.short = short
        self.kind = kind
        self.code = code
        self.dtype: np.dtype[Any] = np.dtype(numpy)
        self.itemsize = self.dtype.itemsize if itemsize is None else itemsize

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if other is None:  # which NumPy takes for float64
            return False
        try:
            return self.kind not in "kt" and self.dtype == np.dtype(other)  # type: ignore[call-overload]
        except TypeError:
            return NotImplemented

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_short, (self.short,))

    @property
    def is_float(self) -> bool:
        """Real floating point."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer."""
        return self.kind in "iu"

    @property
    def is_inexact(self) -> bool:
        """Real or complex floating point: what has a derivative."""
        return self.kind in "fc"


bool_ = DType("bool", "bool", "b", 0, np.bool_)
int8 = DType("int8", "i8", "i", 1, np.int8)
int16 = DType("int16", "i16", "i", 2, np.int16)
int32 = DType("int32", "i32", "i", 3, np.int32)
int64 = DType("int64", "i64", "i", 4, np.int64)
uint8 = DType("uint8", "u8", "u", 5, np.uint8)
uint16 = DType("uint16", "u16", "u", 6, np.uint16)
uint32 = DType("uint32", "u32", "u", 7, np.uint32)
uint64 = DType("uint64", "u64", "u", 8, np.uint64)
float16 = DType("float16", "f16", "f", 9, np.float16)
bfloat16 = DType("bfloat16", "bf16", "f", 10, ml_dtypes.bfloat16)
float32 = DType("float32", "f32", "f", 11, np.float32)
float64 = DType("float64", "f64", "f", 12, np.float64)
complex64 = DType("complex64", "c64", "c", 13, np.complex64)
complex128 = DType("complex128", "c128", "c", 14, np.complex128)
key = DType("key", "key", "k", 15, np.uint32, 8)
token = DType("token", "token", "t", 16, np.uint8, 0)

DTYPES = (
    *(bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    *(float16, bfloat16, float32, float64, complex64, complex128, key, token),
)
BY_SHORT = {d.short: d for d in DTYPES}
BY_NAME = {d.name: d for d in DTYPES}
_BY_NUMPY = {d.dtype: d for d in DTYPES if d.kind not in "kt"}

DEFAULT_INT = int32
DEFAULT_FLOAT = float32

FLOATS = (float16, bfloat16, float32, float64)
SINGLE = (float16, bfloat16, float32)
SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTS = SIGNED + UNSIGNED
NUMERIC = INTS + FLOATS
ARRAYS = (bool_, *NUMERIC)
KEYED = (*ARRAYS, key)
COMPLEX = (complex64, complex128)
INEXACT = FLOATS + COMPLEX
NUMBERS = NUMERIC + COMPLEX
ELEMENTS = ARRAYS + COMPLEX
EVERY = (*ELEMENTS, key)


def _by_short(short: str) -> DType:
    return BY_SHORT[short]


def as_dtype(value: Any) -> DType:
    """The DType that ``value`` names: a DType, a NumPy dtype or scalar type, a name, or ``bool``/``int``/``float``.

    Raises:
        DTypeError: when it names none.
    """
    if isinstance(value, DType):
        return value
    if value is int:
        return DEFAULT_INT
    if value is float:
        return DEFAULT_FLOAT
    if value is complex:
        return complex64
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    try:
        return _BY_NUMPY[np.dtype(value).newbyteorder("=")]
    except (TypeError, KeyError):
        raise DTypeError(
            f"{value!r} is no dtype that Dala has", hint="one of " + ", ".join(d.name for d in DTYPES[:15])
        ) from None


def of_numpy(x: Any) -> DType:
    """The DType of a NumPy array or scalar.

    Raises:
        DTypeError: when Dala has none like it, and for a masked array: its mask would be lost.
    """
    if type(x) is not np.ndarray and any(k.__module__.startswith("numpy.ma") for k in type(x).__mro__):
        raise DTypeError("a masked array: its mask would be lost", hint="x.filled(value), or dd.where with the mask")
    return as_dtype(x.dtype)


_FLOAT_RANK = {float16: 1, bfloat16: 1, float32: 2, float64: 3}


def promote_types(a: Any, b: Any) -> DType:
    """The dtype that holds both: ``promote_types("uint8", "int8")`` is int16.

    uint64 with a signed integer has no integer home and gives float64, as in NumPy.

    Raises:
        DTypeError: for a key or token with anything but itself.
    """
    a, b = as_dtype(a), as_dtype(b)
    if a is b:
        return a
    if a.kind in "kt" or b.kind in "kt":
        raise DTypeError(f"{a} and {b} do not combine")
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    if a.kind == "c" or b.kind == "c":
        wide = {complex128, float64}
        return complex128 if a in wide or b in wide else complex64
    if a.kind == "f" and b.kind == "f":
        if _FLOAT_RANK[a] == _FLOAT_RANK[b]:
            return float32
        return a if _FLOAT_RANK[a] > _FLOAT_RANK[b] else b
    if a.kind == "f":
        return a
    if b.kind == "f":
        return b
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is uint64:
        return float64
    return SIGNED[UNSIGNED.index(unsigned) + 1]


def weak_kind(value: Any) -> str | None:
    """The kind of a Python scalar (``"b"``, ``"i"``, ``"f"``, ``"c"``), or ``None`` for anything else."""
    kind = type(value)
    if kind is bool:
        return "b"
    if kind is int:
        return "i"
    if kind is float:
        return "f"
    if kind is complex:
        return "c"
    return None


def promote_weak(dtype: DType | None, kind: str) -> DType:
    """The dtype of an array of ``dtype`` (or of nothing) that meets a Python scalar of ``kind``."""
    if dtype is None:
        return {"b": bool_, "i": DEFAULT_INT, "f": DEFAULT_FLOAT, "c": complex64}[kind]
    if dtype.kind in "kt":
        raise DTypeError(f"{dtype} does not combine with a Python number")
    order = "bifc"
    rank = order.index("i" if dtype.kind == "u" else dtype.kind)
    if order.index(kind) <= rank:
        return dtype
    if kind == "i":
        return DEFAULT_INT
    if kind == "f":
        return DEFAULT_FLOAT
    return complex128 if dtype is float64 else complex64


def result_type(*operands: Any) -> DType:
    """The dtype of an operation on these operands: dtypes, things with a ``dtype``, and Python scalars (weak)."""
    strong: DType | None = None
    weak = []
    for operand in operands:
        kind = weak_kind(operand) or getattr(operand, "weak", None)
        if kind is not None:
            weak.append(kind)
            continue
        named = isinstance(operand, (DType, type, str, np.dtype))
        dtype = as_dtype(operand if named else operand.dtype)
        strong = dtype if strong is None else promote_types(strong, dtype)
    for kind in weak:
        strong = promote_weak(strong, kind)
    if strong is None:
        raise DTypeError("no operands to take a dtype from")
    return strong


def to_inexact(dtype: DType) -> DType:
    """The dtype of a function with a real result, such as ``sqrt``: floats stay, integers and bool become float32."""
    return dtype if dtype.is_inexact else DEFAULT_FLOAT


def real_of(dtype: DType) -> DType:
    """The dtype of the parts of a complex dtype; any other dtype is its own."""
    return dtype if dtype.kind != "c" else float32 if dtype is complex64 else float64


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold this dtype: complex128 for float64, else complex64.

    Raises:
        DTypeError: for a key or token.
    """
    return promote_weak(dtype, "c")


def as_pairs(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A complex array as a real one with a last axis of 2, over the same memory."""
    return x[..., None].view(x.real.dtype)


def from_pairs(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A real array with a last axis of 2 as a complex one, over the same memory when its pairs lie side by side."""
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(np.complex64 if x.itemsize == 4 else np.complex128)[..., 0]


def scalar_array(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python scalar as an array of rank 0.

    Raises:
        DTypeError: when the dtype cannot hold it: nothing wraps silently.
    """
    if dtype.is_integer and weak_kind(value) in ("b", "i"):
        info = np.iinfo(dtype.dtype)
        if not info.min <= value <= info.max:
            raise DTypeError(
                f"{value} does not fit {dtype} ({info.min} to {info.max})",
                code="E202",
                hint=f"a wider dtype, such as dd.array({value}, dtype=dd.int64)",
            )
    if weak_kind(value) == "c" and dtype.kind not in "cb":
        raise DTypeError(
            f"{value} does not fit {dtype}: it is complex", code="E202", hint=f"{value}.real, or dtype=dd.complex64"
        )
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype.dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype of a sum: small integers and bool widen to the default integer (unsigned to uint32)."""
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < DEFAULT_INT.itemsize):
        return DEFAULT_INT
    if dtype.kind == "u" and dtype.itemsize < DEFAULT_INT.itemsize:
        return uint32
    return dtype
