"""Random numbers from explicit keys, as in JAX: the same key gives the same numbers on every device.

A key is used once; ``split`` makes new ones from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn import dtypes, ops
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import convert, dtype_of, is_value, literal, value
from dala_defn.ops.spec import OPS
from dala_defn.shapes import as_shape, size


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


def _key(k: Any) -> Any:
    if not is_value(k) or dtype_of(k).kind != "k":
        what = dtype_of(k) if is_value(k) else type(k).__name__
        raise ArgumentTypeError(f"a key is needed, not {what}", hint="dd.random.key(0)")
    return k


_SPLIT = 0x73706C69  # a number that nobody folds in by chance


def split(k: Any, num: int = 2) -> Any:
    """New keys from one, along a first axis of size ``num``; do not use the old one again.

    Example:
        >>> dd.random.split(dd.random.key(0)).shape
        (2,)
    """
    if num < 0:
        raise ArgumentError(f"split into {num} keys")
    apart = fold_in(k, _SPLIT)  # else the i-th part would be the fold of i
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
    return OPS["random_fold_in"](_key(k), F.broadcast_to(number, tuple(k.shape)))


def bits(k: Any, shape: Any = (), dtype: Any = dtypes.uint32) -> Any:
    """Uniform random bits as unsigned integers.

    Example:
        >>> dd.random.bits(dd.random.key(0), (2,)).dtype
        uint32
    """
    return OPS["random_bits"](_key(k), shape=as_shape(shape), dtype=dtypes.as_dtype(dtype))


def uniform(k: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Floats in ``[minval, maxval)``, as many random bits as the mantissa has.

    Example:
        >>> dd.random.uniform(dd.random.key(0), (2,)).shape
        (2,)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_float:
        raise ArgumentTypeError(f"uniform gives floats, not {to}", hint="dd.random.randint")
    width, digits = (dtypes.uint64, 53) if to is dtypes.float64 else (dtypes.uint32, _DIGITS[to])
    raw = OPS["random_bits"](_key(k), shape=as_shape(shape), dtype=width)
    whole = raw >> (width.itemsize * 8 - digits)
    unit = convert(whole, to) * 2.0**-digits
    if minval == 0.0 and maxval == 1.0:
        return unit
    low, high = convert(minval, to), convert(maxval, to)
    return unit * (high - low) + low


_DIGITS = {dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def normal(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Normal floats of mean 0 and variance 1, by Box and Muller's transformation (1958).

    Example:
        >>> dd.random.normal(dd.random.key(0), (2,)).shape
        (2,)
    """
    to = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    wide = dtypes.float32 if to.itemsize == 2 else to
    sizes = as_shape(shape)
    pairs = uniform(k, (2, size(sizes)), wide)
    radius = F.sqrt(-2.0 * F.log1p(-pairs[0]))
    return convert(F.reshape(radius * F.cos((2.0 * np.pi) * pairs[1]), sizes), to)


def randint(k: Any, shape: Any, minval: int, maxval: int, dtype: Any = None) -> Any:
    """Integers in ``[minval, maxval)``, from 64 random bits each: the bias is below (maxval - minval) / 2**64.

    Raises:
        ArgumentError: for an empty range.

    Example:
        >>> dd.random.randint(dd.random.key(0), (3,), 0, 1)
        array([0, 0, 0], dtype=int32)
    """
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    if maxval <= minval:
        raise ArgumentError(f"randint: no integer in [{minval}, {maxval})")
    dtypes.scalar_array(minval, to)
    dtypes.scalar_array(maxval - 1, to)
    raw = OPS["random_bits"](_key(k), shape=as_shape(shape), dtype=dtypes.uint64)
    if maxval - minval < 2**64:
        raw = raw % ops.lit(maxval - minval, dtypes.uint64)
    return convert(raw, to) + ops.lit(minval, to)


def bernoulli(k: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """True with probability ``p``; of the shape of ``p`` unless given.

    Example:
        >>> dd.random.bernoulli(dd.random.key(0), 1.0, (2,))
        array([ True,  True])
    """
    return uniform(k, tuple(value(p).shape) if shape is None else shape) < p


def permutation(k: Any, x: Any) -> Any:
    """The integers below ``x``, or the rows of an array, in random order.

    Example:
        >>> dd.sort(dd.random.permutation(dd.random.key(0), 3))
        array([0, 1, 2], dtype=int32)
    """
    rows = F.arange(x) if not is_value(x) else x
    order = F.argsort(bits(k, (rows.shape[0],), dtypes.uint64))
    return F.take(rows, order, axis=0, mode="clip")
