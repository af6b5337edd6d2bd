"""Random integers and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dala_defn import dtypes, ops, special
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import convert, dtype_of, is_value, literal, own, value
from dala_defn.ops.spec import OPS
from dala_defn.random.continuous import gumbel, uniform
from dala_defn.random.keys import checked, split
from dala_defn.shapes import as_shape, normalize_axis


def randint(k: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers in ``[minval, maxval)``, from 64 random bits each: the bias is below (maxval - minval) / 2**64.

    The bounds may be arrays, which broadcast to the shape; where their range is empty the result is ``minval``.

    Raises:
        ArgumentError: for an empty range of numbers.

    Example:
        >>> dd.random.randint(dd.random.key(0), (3,), 0, 1)
        array([0, 0, 0], dtype=int32)
    """
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    if not to.is_integer:
        raise ArgumentTypeError(f"randint gives integers, not {to}", hint="dd.random.uniform")
    raw = OPS["random_bits"](checked(k), shape=as_shape(shape), dtype=dtypes.uint64)
    if is_value(minval) or is_value(maxval):
        low, high = (convert(own(v), to) for v in (minval, maxval))
        span = convert(F.maximum(high, low), dtypes.uint64) - convert(low, dtypes.uint64)
        return convert(OPS["remainder"](raw, F.broadcast_to(span, as_shape(shape))), to) + low
    if maxval <= minval:
        raise ArgumentError(f"randint: no integer in [{minval}, {maxval})")
    dtypes.scalar_array(minval, to)
    dtypes.scalar_array(maxval - 1, to)
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


def rademacher(k: Any, shape: Any = (), dtype: Any = None) -> Any:
    """1 or -1, each with probability 1/2; int32 unless ``dtype`` says otherwise.

    Example:
        >>> dd.abs(dd.random.rademacher(dd.random.key(0), (2,)))
        array([1, 1], dtype=int32)
    """
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    high = OPS["random_bits"](checked(k), shape=as_shape(shape), dtype=dtypes.uint32) >> 31
    return F.where(high == 1, convert(1, to), convert(-1, to))


def geometric(k: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The number of trials until the first success, each with probability ``p`` in (0, 1]; of its shape unless given.

    Example:
        >>> dd.random.geometric(dd.random.key(0), 1.0, (2,))
        array([1, 1], dtype=int32)
    """
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    chance = own(value(p))
    sizes = tuple(chance.shape) if shape is None else as_shape(shape)
    wide = convert(chance, dtypes.float64)
    ratio = F.log1p(-uniform(k, sizes, dtypes.float64)) / F.log1p(-F.where(wide < 1, wide, 0.5))
    return convert(F.where(wide < 1, F.floor(ratio) + 1, 1), to)


def categorical(k: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Classes (int32) with probabilities proportional to ``exp(logits)`` along an axis, by the largest of Gumbel sums.

    ``shape``, when given, is that of the result and ends in the shape of ``logits`` without the axis.

    Raises:
        ArgumentError: for a shape that does not.

    Example:
        >>> dd.random.categorical(dd.random.key(0), dd.array([-dd.inf, 0.0]), shape=(3,))
        array([1, 1, 1], dtype=int32)
    """
    x = own(value(logits))
    x = convert(x, dtypes.to_inexact(dtype_of(x)))
    x = F.moveaxis(x, normalize_axis(axis, len(x.shape)), -1)
    rest = tuple(x.shape[:-1])
    sizes = rest if shape is None else as_shape(shape)
    if len(sizes) < len(rest) or sizes[len(sizes) - len(rest) :] != rest:
        raise ArgumentError(f"categorical: the shape {sizes} does not end in {rest}")
    return F.argmax(x + gumbel(k, (*sizes, x.shape[-1]), dtype_of(x)), -1)


_FEW = 12.0  # below this mean the distribution function is summed up
_TERMS = 64  # of which there are so many: the rest is below 1e-20
_ROUNDS = 16  # each fails less than one time in seven


def poisson(k: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Poisson integers of mean ``lam``; of its shape unless given; int32 unless ``dtype`` says otherwise.

    Small means (below 12) by inversion, others by Hörmann's transformed rejection (1993) with a fixed number of rounds,
    of which none is accepted with a probability below 1e-12. -1 for a mean that is negative or NaN.

    Example:
        >>> dd.random.poisson(dd.random.key(0), 0.0, (2,))
        array([0, 0], dtype=int32)
    """
    to = dtypes.DEFAULT_INT if dtype is None else dtypes.as_dtype(dtype)
    mean = convert(own(value(lam)), dtypes.float64)
    sizes = tuple(mean.shape) if shape is None else as_shape(shape)
    mean = F.stop_gradient(F.broadcast_to(mean, sizes))
    keys = split(k, 3)
    valid = mean >= 0
    small = F.where(F.logical_and(valid, mean < _FEW), mean, 1)
    terms = np.arange(_TERMS, dtype=np.float64)
    factorials = literal(np.cumsum(np.log(np.maximum(terms, 1))), dtypes.float64)
    line = F.reshape(small, (*sizes, 1))
    density = F.exp(special.xlogy(literal(terms, dtypes.float64), line) - line - factorials)
    u = F.reshape(uniform(keys[0], sizes, dtypes.float64), (*sizes, 1))
    few = F.sum(u >= F.cumsum(density, -1), -1, dtypes.int64)

    large = F.where(F.logical_and(valid, mean >= _FEW), mean, 100)
    b = 0.931 + 2.53 * F.sqrt(large)
    a = -0.059 + 0.02483 * b
    fit = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    u = uniform(keys[1], (_ROUNDS, *sizes), dtypes.float64) - 0.5
    v = F.maximum(uniform(keys[2], (_ROUNDS, *sizes), dtypes.float64), 2.0**-54)
    us = 0.5 - F.absolute(u)
    guess = F.floor((2 * a / F.where(us == 0, 1, us) + b) * u + large + 0.43)
    quick = F.logical_and(us >= 0.07, v <= v_r)
    inside = F.logical_and(guess >= 0, F.logical_or(us >= 0.013, v <= us))
    safe = F.where(inside, guess, 0)
    left = F.log(v * fit / (a / F.where(us == 0, 1, us * us) + b))
    accepted = F.logical_and(inside, left <= safe * F.log(large) - large - special.gammaln(safe + 1))
    accepted = F.logical_and(us > 0, F.logical_or(F.logical_and(quick, guess >= 0), accepted))
    first = F.argmax(convert(accepted, dtypes.int8), 0, keepdims=True)
    many = F.squeeze(F.take_along_axis(guess, first, 0, mode="clip"), 0)
    out = F.where(mean < _FEW, few, convert(many, dtypes.int64))
    return convert(F.where(valid, out, -1), to)


__all__ = ["bernoulli", "categorical", "geometric", "poisson", "rademacher", "randint"]
