"""Losses with Keras's names. Each gives one number a sample: the mean over all axes but the first.

``y_true`` and ``y_pred`` have the same shape, or differ by a last axis of size 1 that is then added. With both of rank
1 every element is a sample. The functions are plain; the classes carry options for ``compile``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, nn
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, DTypeError, ShapeError
from dala_defn.functions.base import dtype_of, inexact, value
from dala_defn.shapes import show
from dala_defn.trace import prepared

EPSILON = 1e-7
_TINY = {
    dtypes.float64: 2.0**-1022,
    dtypes.float32: 2.0**-126,
    dtypes.bfloat16: 2.0**-126,
    dtypes.float16: 2.0**-14,
}


def per_sample(x: Any) -> Any:
    """The mean over all axes but the first.

    Example:
        >>> dd.losses.per_sample(dd.array([[1.0, 3.0], [2.0, 2.0]]))
        array([2., 2.], dtype=float32)
    """
    return F.mean(x, tuple(range(1, len(x.shape)))) if len(x.shape) > 1 else x


def aligned(name: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Targets and predictions of one shape and of the predictions' dtype.

    Raises:
        ShapeError: when the shapes differ; they are never broadcast against each other.
    """
    y, p = value(y_true), inexact(y_pred)
    if len(y.shape) == len(p.shape) - 1 and p.shape[-1] == 1:
        y = F.expand_dims(y, -1)
    elif len(p.shape) == len(y.shape) - 1 and y.shape[-1] == 1:
        y = F.squeeze(y, -1)
    if tuple(y.shape) != tuple(p.shape):
        raise ShapeError(
            f"{name}: targets {show(y.shape)} for predictions {show(p.shape)}",
            op=name,
            rule="targets and predictions have the same shape",
            hint="sparse_categorical_crossentropy for integer labels" if name == "categorical_crossentropy" else "",
        )
    return F.astype(y, dtype_of(p)), p


def _log_probabilities(p: Any, from_logits: bool, axis: int) -> Any:
    # Only what underflows is bounded: clipping at 1e-7 would report 16.1 for every larger loss.
    return nn.log_softmax(p, axis=axis) if from_logits else F.log(F.maximum(p, _TINY[dtype_of(p)]))


def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """``-sum(y_true * log(y_pred))`` over the classes.

    Args:
        y_true: one-hot or soft targets, (samples, ..., classes).
        y_pred: probabilities, taken as they are, or with ``from_logits`` scores before a softmax (exact for any size).
        axis: the axis of the classes.

    Returns:
        (samples,) of the predictions' dtype. A probability of 0 counts as the smallest normal number.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.losses.categorical_crossentropy([[1.0, 0.0]], [[0.5, 0.5]])
        array([0.6931472], dtype=float32)
    """
    y, p = aligned("categorical_crossentropy", y_true, y_pred)
    return per_sample(-F.sum(y * _log_probabilities(p, from_logits, axis), axis))


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Any:
    """``-log(y_pred)`` at each sample's class.

    Args:
        y_true: integer labels, (samples, ...) or (samples, ..., 1).
        y_pred: probabilities or with ``from_logits`` scores, (samples, ..., classes).

    Returns:
        (samples,) of the predictions' dtype.

    Raises:
        DTypeError: when the labels are no integers. ShapeError: when the shapes do not fit.
        IndexOutOfRange: while running, for a label below 0 or not below the number of classes.

    Example:
        >>> dd.losses.sparse_categorical_crossentropy([0], [[0.5, 0.5]])
        array([0.6931472], dtype=float32)
    """
    labels, p = labels_of("sparse_categorical_crossentropy", y_true, y_pred)
    logs = _log_probabilities(p, from_logits, -1)
    return per_sample(-F.squeeze(F.take_along_axis(logs, labels, -1), -1))


def labels_of(name: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Integer labels with a last axis of size 1 and float predictions.

    Raises:
        DTypeError, ShapeError: when they do not fit.
    """
    y, p = value(y_true), inexact(y_pred)
    if not dtype_of(y).is_integer:
        raise DTypeError(f"{name}: labels are integers, not {dtype_of(y)}", op=name, hint="y.astype(dd.int32)")
    if len(y.shape) == len(p.shape) - 1:
        y = F.expand_dims(y, -1)
    if tuple(y.shape) != (*p.shape[:-1], 1):
        raise ShapeError(
            f"{name}: labels {show(value(y_true).shape)} for predictions {show(p.shape)}",
            op=name,
            rule="(samples, ...) labels for (samples, ..., classes)",
            hint="categorical_crossentropy for one-hot targets",
        )
    # Unsigned, so that a label of -1 is out of range and not the last class.
    return F.astype(y, dtypes.uint64 if dtype_of(y).itemsize == 8 else dtypes.uint32), p


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Any:
    """``-y log(p) - (1 - y) log(1 - p)``, the mean over all axes but the first.

    From probabilities, ``p`` and ``1 - p`` are each at least 1e-7 (once, inside the logarithm): the loss is at most
    16.118095651. From logits ``z`` it is ``max(z, 0) - y z + log(1 + exp(-|z|))``, exact for any size.

    Returns:
        (samples,) of the predictions' dtype.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.losses.binary_crossentropy([1, 0], [-800.0, 800.0], from_logits=True)
        array([800., 800.], dtype=float32)
    """
    y, p = aligned("binary_crossentropy", y_true, y_pred)
    if from_logits:
        return per_sample(F.maximum(p, 0) - p * y + F.log1p(F.exp(-F.absolute(p))))
    return per_sample(y * -F.log(F.maximum(p, EPSILON)) + (1 - y) * -F.log(F.maximum(1 - p, EPSILON)))


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """``(y_true - y_pred)**2``, the mean over all axes but the first.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.losses.mean_squared_error([[0.0, 1.0]], [[1.0, 1.0]])
        array([0.5], dtype=float32)
    """
    y, p = aligned("mean_squared_error", y_true, y_pred)
    return per_sample(F.square(y - p))


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """``|y_true - y_pred|``, the mean over all axes but the first.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.losses.mean_absolute_error([[0.0, 1.0]], [[1.0, 1.0]])
        array([0.5], dtype=float32)
    """
    y, p = aligned("mean_absolute_error", y_true, y_pred)
    return per_sample(F.absolute(y - p))


class Loss:
    """A loss with its options: ``Loss(function, **options)``; call it with targets and predictions.

    Example:
        >>> dd.losses.Loss(dd.losses.mean_squared_error)([[1.0]], [[3.0]])
        array([4.], dtype=float32)
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.options = options
        self.name: str = getattr(function, "__name__", type(function).__name__)

    def relied_on(self) -> tuple[str, ...]:
        """The attributes that a train step is made of: when one changes, it is traced again."""
        return "function", "options"

    def __call__(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of every sample."""
        return prepared(self.function)(y_true, y_pred, **self.options)

    def __repr__(self) -> str:
        return f"<loss {self.name} {self.options}>" if self.options else f"<loss {self.name}>"


class CategoricalCrossentropy(Loss):
    """``categorical_crossentropy`` with options.

    Example:
        >>> dd.losses.CategoricalCrossentropy(from_logits=True)([[1.0, 0.0]], [[0.0, 0.0]])
        array([0.6931472], dtype=float32)
    """

    def __init__(self, from_logits: bool = False, axis: int = -1) -> None:
        super().__init__(categorical_crossentropy, from_logits=from_logits, axis=axis)


class SparseCategoricalCrossentropy(Loss):
    """``sparse_categorical_crossentropy`` with options.

    Example:
        >>> dd.losses.SparseCategoricalCrossentropy(from_logits=True)([0], [[0.0, 0.0]])
        array([0.6931472], dtype=float32)
    """

    def __init__(self, from_logits: bool = False) -> None:
        super().__init__(sparse_categorical_crossentropy, from_logits=from_logits)


class BinaryCrossentropy(Loss):
    """``binary_crossentropy`` with options.

    Example:
        >>> dd.losses.BinaryCrossentropy(from_logits=True)([1], [0.0])
        array([0.6931472], dtype=float32)
    """

    def __init__(self, from_logits: bool = False) -> None:
        super().__init__(binary_crossentropy, from_logits=from_logits)


class MeanSquaredError(Loss):
    """``mean_squared_error``.

    Example:
        >>> dd.losses.MeanSquaredError()([[1.0]], [[3.0]])
        array([4.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(mean_squared_error)


class MeanAbsoluteError(Loss):
    """``mean_absolute_error``.

    Example:
        >>> dd.losses.MeanAbsoluteError()([[1.0]], [[3.0]])
        array([2.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(mean_absolute_error)


_FUNCTIONS = {
    f.__name__: f
    for f in (
        categorical_crossentropy,
        sparse_categorical_crossentropy,
        binary_crossentropy,
        mean_squared_error,
        mean_absolute_error,
    )
}
_FUNCTIONS |= {"mse": mean_squared_error, "mae": mean_absolute_error}


def get(loss: Any) -> Loss:
    """A loss by its name, from a function of targets and predictions, or itself.

    Raises:
        ArgumentError: for an unknown name.

    Example:
        >>> dd.losses.get("mse")
        <loss mean_squared_error>
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _FUNCTIONS:
        return Loss(_FUNCTIONS[loss])
    if callable(loss):
        return Loss(loss)
    raise ArgumentError(f"there is no loss {loss!r}", rule=f"one of {', '.join(_FUNCTIONS)}, or a function")
