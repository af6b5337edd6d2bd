"""Layers that prepare data, so that a model takes it as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dala_defn.functions.base import inexact
from dala_defn.layers.base import Layer


@dataclass(eq=False, repr=False)
class Rescaling(Layer):
    """``x * scale + offset``; integers become float32 first.

    Example:
        >>> dd.layers.Rescaling(1 / 255)(dd.array([[0, 255]]))
        array([[0., 1.]], dtype=float32)
    """

    scale: float
    offset: float = 0.0

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The rescaled values."""
        y = inexact(x) * self.scale
        return (y + self.offset if self.offset else y), state
