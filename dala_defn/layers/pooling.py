"""Pooling over images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dala_defn import functions as F
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.layers.base import Layer
from dala_defn.layers.convolution import pair
from dala_defn.shapes import show


@dataclass(eq=False, repr=False)
class _Pooling2D(Layer):
    pool_size: int | tuple[int, int] = 2
    strides: int | tuple[int, int] | None = None
    padding: str = "valid"

    def __post_init__(self) -> None:
        pair(type(self).__name__, "pool_size", self.pool_size)
        if self.strides is not None:
            pair(type(self).__name__, "strides", self.strides)
        if self.padding not in ("valid", "same"):
            raise ArgumentError(f"{type(self).__name__}: padding = {self.padding!r}", rule="valid or same")

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The pooled images."""
        if len(x.shape) != 4:
            raise ShapeError(f"{type(self).__name__} takes (images, height, width, channels), not {show(x.shape)}")
        return self._pool(x), state

    def _pool(self, x: Any) -> Any:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class MaxPooling2D(_Pooling2D):
    """The maximum of every window; (images, height, width, channels) in and out.

    Args:
        pool_size: the window, one number or two.
        strides: the distance of windows; the window's size by default.
        padding: ``"valid"`` (none) or ``"same"``; padding never wins.

    Raises:
        ShapeError: for an input that is no image.

    Example:
        >>> dd.layers.MaxPooling2D(2)(dd.ones((1, 8, 8, 3))).shape
        (1, 4, 4, 3)
    """

    def _pool(self, x: Any) -> Any:
        return F.max_pool(x, self.pool_size, self.strides, self.padding)


@dataclass(eq=False, repr=False)
class AveragePooling2D(_Pooling2D):
    """The mean of every window; padding does not count. Arguments as of ``MaxPooling2D``.

    Raises:
        ShapeError: for an input that is no image.

    Example:
        >>> dd.layers.AveragePooling2D(2)(dd.ones((1, 8, 8, 3))).shape
        (1, 4, 4, 3)
    """

    def _pool(self, x: Any) -> Any:
        return F.avg_pool(x, self.pool_size, self.strides, self.padding)
