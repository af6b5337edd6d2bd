"""Dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dala_defn import functions as F
from dala_defn import random
from dala_defn.errors import ArgumentError
from dala_defn.functions.base import inexact
from dala_defn.layers.base import Layer


@dataclass(eq=False, repr=False)
class Dropout(Layer):
    """While training, sets each element to 0 with probability ``rate`` and scales the others by ``1 / (1 - rate)``.

    Otherwise, and at a rate of 0, the input itself (Srivastava et al. 2014, in the "inverted" form).

    Raises:
        ArgumentError: for a rate outside [0, 1], or a training call without a key.

    Example:
        >>> dd.layers.Dropout(0.5)(dd.ones((1, 2)))
        array([[1., 1.]], dtype=float32)
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ArgumentError(f"Dropout: rate = {self.rate!r}", rule="a number from 0 to 1")

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The thinned input."""
        if not training or self.rate == 0:
            return x, state
        if key is None:
            raise ArgumentError("Dropout needs a key while training", hint="layer(x, key=dd.random.key(0), ...)")
        x = inexact(x)
        if self.rate == 1:
            return F.zeros_like(x), state
        # `where`, not a product: an infinite element that is dropped must become 0.
        return F.where(random.bernoulli(key, 1 - self.rate, x.shape), x * (1 / (1 - self.rate)), 0.0), state
