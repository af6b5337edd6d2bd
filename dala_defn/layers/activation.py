"""Activations as a layer, and by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dala_defn import functions as F
from dala_defn import nn
from dala_defn.errors import ArgumentError
from dala_defn.layers.base import Layer
from dala_defn.trace import prepared

_NAMED: dict[str, Callable[..., Any]] = {
    "linear": nn.linear,
    "relu": nn.relu,
    "leaky_relu": nn.leaky_relu,
    "elu": nn.elu,
    "softplus": nn.softplus,
    "silu": nn.silu,
    "swish": nn.silu,
    "gelu": nn.gelu,
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "tanh": nn.tanh,
    "sigmoid": nn.sigmoid,
    "exponential": F.exp,
}


def get(activation: str | Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """An activation by its name, or the function itself; ``None`` leaves values as they are.

    Raises:
        ArgumentError: for an unknown name.

    Example:
        >>> dd.layers.activation.get("relu") is dd.nn.relu
        True
    """
    if activation is None:
        return nn.linear
    if callable(activation):
        return prepared(activation)
    found = _NAMED.get(activation)
    if found is None:
        raise ArgumentError(f"there is no activation {activation!r}", rule=f"one of {', '.join(_NAMED)}")
    return found


@dataclass(eq=False, repr=False)
class Activation(Layer):
    """A function of the input, by name or as it is.

    Example:
        >>> dd.layers.Activation("relu")(dd.array([[-1.0, 1.0]]))
        array([[0., 1.]], dtype=float32)
    """

    activation: str | Callable[[Any], Any]

    def __post_init__(self) -> None:
        get(self.activation)

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The function's value."""
        return get(self.activation)(x), state


@dataclass(eq=False, repr=False)
class Lambda(Layer):
    """Any function of arrays as a layer without parameters.

    Example:
        >>> dd.layers.Lambda(lambda x: x * 2)(dd.array([[1.0]]))
        array([[2.]], dtype=float32)
    """

    function: Callable[[Any], Any]

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The function's value."""
        return self.function(x), state
