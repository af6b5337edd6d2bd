"""Keys, and the random bits that they give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import convert, dtype_of, is_value, literal
from dala_defn.ops.random import SPLIT
from dala_defn.ops.spec import OPS
from dala_defn.shapes import as_shape
from dala_defn.trace import reuse


def key(seed: Any) -> Any:
    """A key from an integer: the words are its upper and lower 32 bits.

    Raises:
        ArgumentTypeError: when the seed is no integer.

    Example:
        >>> dd.random.key(42)
        key([0, 42])
    """
    if is_value(seed) and not isinstance(seed, np.generic):
        if not dtype_of(seed).is_integer or seed.shape != ():
            raise ArgumentTypeError(f"a seed is one integer, not {dtype_of(seed)}{list(seed.shape)}")
        wide = convert(seed, dtypes.uint64)
        words = F.stack([convert(wide >> 32, dtypes.uint32), convert(wide, dtypes.uint32)])
        return OPS["random_wrap"](words)
    try:
        number = seed.__index__() % 2**64
    except AttributeError:
        raise ArgumentTypeError(f"a seed is an integer, not a {type(seed).__name__}") from None
    return literal(np.array([number >> 32, number & 0xFFFFFFFF], np.uint32), dtypes.key)


def checked(k: Any) -> Any:
    """``k``, when it is a key."""
    if not is_value(k) or dtype_of(k).kind != "k":
        what = dtype_of(k) if is_value(k) else type(k).__name__
        raise ArgumentTypeError(f"a key is needed, not {what}", hint="dd.random.key(0)")
    return k


def split(k: Any, num: int = 2) -> Any:
    """New keys from one, along a first axis of size ``num``; do not use the old one again.

    Example:
        >>> dd.random.split(dd.random.key(0)).shape
        (2,)
    """
    if num < 0:
        raise ArgumentError(f"split into {num} keys")
    apart = fold_in(k, SPLIT)  # else the i-th part would be the fold of i
    pairs = OPS["random_bits"](apart, shape=(num,), dtype=dtypes.uint64)
    high = convert(pairs >> 32, dtypes.uint32)
    low = convert(pairs, dtypes.uint32)
    return OPS["random_wrap"](F.stack([high, low], -1))


def fold_in(k: Any, data: Any) -> Any:
    """A new key from a key and an integer (of which the low 32 bits count); for many keys the integer broadcasts.

    Example:
        >>> dd.random.fold_in(dd.random.key(0), 1).shape
        ()
    """
    number = ops.lit(data & 0xFFFFFFFF, dtypes.uint32) if type(data) is int else convert(data, dtypes.uint32)
    return OPS["random_fold_in"](checked(k), F.broadcast_to(number, tuple(k.shape)))


def bits(k: Any, shape: Any = (), dtype: Any = dtypes.uint32) -> Any:
    """Uniform random bits as unsigned integers.

    Example:
        >>> dd.random.bits(dd.random.key(0), (2,)).dtype
        uint32
    """
    return OPS["random_bits"](checked(k), shape=as_shape(shape), dtype=dtypes.as_dtype(dtype))


@contextmanager
def allow_reuse() -> Iterator[None]:
    """Inside it a key may be used twice in one trace, for numbers that are to be equal. Else that is an error.

    Example:
        >>> @dd.defn
        ... def pair(k):
        ...     with dd.random.allow_reuse():
        ...         return dd.random.normal(k), dd.random.normal(k)
        >>> a, b = pair(dd.random.key(0))
        >>> bool(a == b)
        True
    """
    before = reuse.allowed
    reuse.allowed = True
    try:
        yield
    finally:
        reuse.allowed = before


__all__ = ["allow_reuse", "bits", "fold_in", "key", "split"]
