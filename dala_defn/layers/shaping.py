"""Layers that change the shape of a sample, or put several inputs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dala_defn import functions as F
from dala_defn.errors import ArgumentTypeError, ShapeError
from dala_defn.layers.base import Layer
from dala_defn.shapes import DimExpr, show, size


@dataclass(eq=False, repr=False)
class Flatten(Layer):
    """One axis a sample: (samples, ...) -> (samples, n).

    Example:
        >>> dd.layers.Flatten()(dd.ones((2, 3, 4))).shape
        (2, 12)
    """

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The flattened samples."""
        if not x.shape:
            raise ShapeError("Flatten needs a first axis of samples")
        return F.reshape(x, (x.shape[0], size(x.shape[1:]))), state


@dataclass(eq=False, repr=False)
class Reshape(Layer):
    """Samples of another shape, with as many elements; one size may be -1.

    Raises:
        ShapeError: when the elements do not come out even.

    Example:
        >>> dd.layers.Reshape((2, 2, 1))(dd.ones((3, 4))).shape
        (3, 2, 2, 1)
    """

    target_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = self.target_shape
        self.target_shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The reshaped samples."""
        target = self.target_shape
        have = size(x.shape[1:])
        if -1 in target and isinstance(have, int):
            # Worked out from the sample alone, as the batch may be open.
            known = int(size(d for d in target if d != -1))
            target = tuple(have // known if d == -1 and known else d for d in target)
        if not isinstance(have, DimExpr) and have != size(target):
            raise ShapeError(
                f"Reshape: a sample of shape {show(x.shape[1:])} has {have} elements, {show(self.target_shape)} "
                f"does not",
            )
        return F.reshape(x, (x.shape[0], *target)), state


@dataclass(eq=False, repr=False)
class Concatenate(Layer):
    """Several inputs, one after the other along an axis (which counts the samples' axis, as in NumPy).

    Example:
        >>> dd.layers.Concatenate()([dd.ones((2, 1)), dd.ones((2, 3))]).shape
        (2, 4)
    """

    axis: int = -1

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The joined arrays."""
        return F.concatenate(_several(self, x), self.axis), state


@dataclass(eq=False, repr=False)
class Add(Layer):
    """The sum of several inputs.

    Example:
        >>> dd.layers.Add()([dd.ones((1, 2)), dd.ones((1, 2))])
        array([[2., 2.]], dtype=float32)
    """

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The sum."""
        xs = _several(self, x)
        total = xs[0]
        for y in xs[1:]:
            total = total + y
        return total, state


def _several(layer: Layer, x: Any) -> list[Any]:
    if not isinstance(x, (list, tuple)) or not x:
        raise ArgumentTypeError(f"{type(layer).__name__} takes a list of inputs")
    return list(x)
