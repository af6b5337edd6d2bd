"""Functions of neural networks: activations and their likes. Each is a composite, visible by name in the graph."""

from __future__ import annotations

import math
from typing import Any

from dala_defn import functions as F
from dala_defn.composites import composite
from dala_defn.functions.base import inexact, same, value


@composite("relu")
def relu(x: Any, /) -> Any:
    """``x`` where positive, else 0; NaN stays NaN. The derivative at 0 is 0.

    Example:
        >>> dd.nn.relu(dd.array([-1.0, 2.0]))
        array([0., 2.], dtype=float32)
    """
    return F.where(F.less_equal(x, 0), 0, x)


@composite("leaky_relu")
def leaky_relu(x: Any, /, *, negative_slope: float = 0.2) -> Any:
    """``x`` where positive, else ``negative_slope * x``.

    Example:
        >>> dd.nn.leaky_relu(dd.array([-1.0, 2.0]))
        array([-0.2,  2. ], dtype=float32)
    """
    x = inexact(x)
    return F.where(F.less_equal(x, 0), x * negative_slope, x)


@composite("elu")
def elu(x: Any, /, *, alpha: float = 1.0) -> Any:
    """``x`` where positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015).

    Example:
        >>> dd.nn.elu(dd.array([0.0, 2.0]))
        array([0., 2.], dtype=float32)
    """
    x = inexact(x)
    return F.where(x > 0, x, alpha * F.expm1(F.minimum(x, 0)))


@composite("softplus")
def softplus(x: Any, /) -> Any:
    """``log(1 + exp(x))`` without overflow.

    Example:
        >>> dd.nn.softplus(dd.array([0.0]))
        array([0.6931472], dtype=float32)
    """
    x = inexact(x)
    return F.where(F.less_equal(x, 0), 0, x) + F.log1p(F.exp(-F.absolute(x)))


@composite("silu")
def silu(x: Any, /) -> Any:
    """``x * sigmoid(x)``, also known as swish.

    Example:
        >>> dd.nn.silu(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    x = inexact(x)
    return x * F.sigmoid(x)


@composite("gelu")
def gelu(x: Any, /, *, approximate: bool = False) -> Any:
    """``x * Phi(x)`` with the normal distribution function, or its tanh approximation (Hendrycks and Gimpel 2016).

    Example:
        >>> dd.nn.gelu(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    x = inexact(x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1 + F.tanh(inner))
    return 0.5 * x * (1 + F.erf(x * (1 / math.sqrt(2))))


@composite("logsumexp")
def logsumexp(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` over axes (all by default) without overflow.

    Example:
        >>> dd.nn.logsumexp(dd.array([0.0, 0.0]))
        array(0.6931472, dtype=float32)
    """
    x = inexact(x)
    high = F.stop_gradient(F.max(x, axis, keepdims=True))
    high = F.where(F.isfinite(high), high, 0)
    total = F.log(F.sum(F.exp(x - high), axis, keepdims=True)) + high
    return total if keepdims else F.reshape(total, tuple(F.sum(x, axis).shape))


@composite("softmax")
def softmax(x: Any, /, *, axis: Any = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along one axis (or several), without overflow; NaN where a whole row is -inf.

    Example:
        >>> dd.nn.softmax(dd.array([0.0, 0.0]))
        array([0.5, 0.5], dtype=float32)
    """
    x = inexact(x)
    e = F.exp(x - F.stop_gradient(F.max(x, axis, keepdims=True)))
    return e / F.sum(e, axis, keepdims=True)


@composite("log_softmax")
def log_softmax(x: Any, /, *, axis: Any = -1) -> Any:
    """The logarithm of ``softmax``, without overflow or underflow.

    Example:
        >>> dd.nn.log_softmax(dd.array([0.0, 0.0]))
        array([-0.6931472, -0.6931472], dtype=float32)
    """
    x = inexact(x)
    shifted = x - F.stop_gradient(F.max(x, axis, keepdims=True))
    return shifted - F.log(F.sum(F.exp(shifted), axis, keepdims=True))


def one_hot(x: Any, num_classes: int, dtype: Any = None) -> Any:
    """A 1 at the position that each integer names, in a new last axis; see ``dd.one_hot``.

    Example:
        >>> dd.nn.one_hot(dd.array([1]), 2)
        array([[0., 1.]], dtype=float32)
    """
    return F.one_hot(x, num_classes, dtype)


def linear(x: Any) -> Any:
    """``x`` itself, for where an activation is asked for.

    Example:
        >>> dd.nn.linear(dd.array([1.0]))
        array([1.], dtype=float32)
    """
    return same(value(x))


def tanh(x: Any, /) -> Any:
    """The hyperbolic tangent; see ``dd.tanh``.

    Example:
        >>> dd.nn.tanh(dd.array([0.0]))
        array([0.], dtype=float32)
    """
    return F.tanh(x)


def sigmoid(x: Any, /) -> Any:
    """``1 / (1 + exp(-x))``; see ``dd.sigmoid``.

    Example:
        >>> dd.nn.sigmoid(dd.array([0.0]))
        array([0.5], dtype=float32)
    """
    return F.sigmoid(x)
