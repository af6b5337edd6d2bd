"""Convolution over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dala_defn import dtypes, initializers, random
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.layers import activation as activations
from dala_defn.layers.base import Layer
from dala_defn.layers.dense import positive
from dala_defn.shapes import show


def pair(layer: str, name: str, v: Any) -> tuple[int, int]:
    """Two whole numbers of at least 1, from one or two.

    Raises:
        ArgumentError: for anything else.
    """
    out = tuple(v) if isinstance(v, (tuple, list)) else (v, v)
    if len(out) != 2:
        raise ArgumentError(f"{layer}: {name} = {v!r}", rule="one number, or two")
    for n in out:
        positive(layer, name, n)
    return out[0], out[1]


@dataclass(eq=False, repr=False)
class Conv2D(Layer):
    """``activation(conv(x, kernel) + bias)`` over images with channels last.

    Takes (images, height, width, channels) and gives (images, height', width', filters). Parameters: ``kernel``
    (*kernel_size, channels / groups, filters) and ``bias`` (filters,).

    Args:
        filters: the number of output channels.
        kernel_size: one number, or height and width.
        strides, dilation_rate: one number, or two.
        padding: ``"valid"`` (none) or ``"same"`` (the size divided by the stride, rounded up).
        groups: channels are cut into this many groups that do not mix.

    Raises:
        ShapeError: for an input that is no image, or has other channels than the kernel was built for.

    Example:
        >>> dd.layers.Conv2D(4, 3)(dd.ones((1, 8, 8, 1))).shape
        (1, 6, 6, 4)
    """

    filters: int
    kernel_size: int | tuple[int, int]
    strides: int | tuple[int, int] = 1
    padding: str = "valid"
    dilation_rate: int | tuple[int, int] = 1
    groups: int = 1
    activation: str | Callable[[Any], Any] | None = None
    use_bias: bool = True
    kernel_initializer: str | initializers.Initializer = "glorot_uniform"
    bias_initializer: str | initializers.Initializer = "zeros"

    def __post_init__(self) -> None:
        positive("Conv2D", "filters", self.filters)
        positive("Conv2D", "groups", self.groups)
        for name in ("kernel_size", "strides", "dilation_rate"):
            pair("Conv2D", name, getattr(self, name))
        if self.padding not in ("valid", "same"):
            raise ArgumentError(f"Conv2D: padding = {self.padding!r}", rule="valid or same")
        if self.filters % self.groups:
            raise ArgumentError(f"Conv2D: {self.filters} filters in {self.groups} groups")
        activations.get(self.activation)
        initializers.get(self.kernel_initializer)
        initializers.get(self.bias_initializer)

    def build(self, key: Any, spec: Any) -> dict[str, Any]:
        """``kernel`` and ``bias``."""
        if len(spec.shape) != 4 or not isinstance(spec.shape[-1], int) or spec.shape[-1] % self.groups:
            raise ShapeError(
                f"Conv2D takes (images, height, width, channels), not {show(spec.shape)}",
                rule=f"channels are known and divide into {self.groups} groups" if self.groups > 1 else "",
                hint="dd.layers.Reshape((height, width, channels)) before it",
            )
        dtype = dtypes.to_inexact(spec.dtype)
        size = pair("Conv2D", "kernel_size", self.kernel_size)
        shape = (*size, spec.shape[-1] // self.groups, self.filters)
        kernel = initializers.get(self.kernel_initializer)(key, shape, dtype)
        if not self.use_bias:
            return {"kernel": kernel}
        bias = initializers.get(self.bias_initializer)(random.fold_in(key, 1), (self.filters,), dtype)
        return {"kernel": kernel, "bias": bias}

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The convolution, the bias, the activation."""
        y = F.conv(
            x,
            params["kernel"],
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation_rate,
            groups=self.groups,
        )
        if self.use_bias:
            y = y + params["bias"]
        return activations.get(self.activation)(y), state
