"""The fully connected layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dala_defn import dtypes, initializers, random
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import inexact
from dala_defn.layers import activation as activations
from dala_defn.layers.base import Layer
from dala_defn.shapes import show


def positive(layer: str, name: str, n: Any) -> None:
    """Refuses what is no whole number of at least 1.

    Raises:
        ArgumentError: then.
    """
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 1:
        raise ArgumentError(f"{layer}: {name} = {n!r}", rule="a whole number of at least 1")


@dataclass(eq=False, repr=False)
class Dense(Layer):
    """``activation(x @ kernel + bias)``, over the last axis.

    Takes (..., n) floats (integers become float32) and gives (..., units). Parameters: ``kernel`` (n, units) and
    ``bias`` (units,).

    Args:
        units: the size of the output's last axis.
        activation: a name of ``dd.nn``, or a function.

    Raises:
        ShapeError: for an input without a last axis, or with another one than the kernel was built for.

    Example:
        >>> dd.layers.Dense(4, activation="relu")(dd.ones((2, 3))).shape
        (2, 4)
    """

    units: int
    activation: str | Callable[[Any], Any] | None = None
    use_bias: bool = True
    kernel_initializer: str | initializers.Initializer = "glorot_uniform"
    bias_initializer: str | initializers.Initializer = "zeros"

    def __post_init__(self) -> None:
        positive("Dense", "units", self.units)
        activations.get(self.activation)
        initializers.get(self.kernel_initializer)
        initializers.get(self.bias_initializer)

    def build(self, key: Any, spec: Any) -> dict[str, Any]:
        """``kernel`` and ``bias``."""
        if not spec.shape or not isinstance(spec.shape[-1], int):
            raise ShapeError(f"Dense needs a last axis of known size, not {show(spec.shape)}")
        dtype = dtypes.to_inexact(spec.dtype)
        kernel = initializers.get(self.kernel_initializer)(key, (spec.shape[-1], self.units), dtype)
        if not self.use_bias:
            return {"kernel": kernel}
        bias = initializers.get(self.bias_initializer)(random.fold_in(key, 1), (self.units,), dtype)
        return {"kernel": kernel, "bias": bias}

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The product, the bias, the activation."""
        y = F.matmul(inexact(x), params["kernel"])
        if self.use_bias:
            y = y + params["bias"]
        return activations.get(self.activation)(y), state
