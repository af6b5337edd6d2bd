"""Metrics with Keras's names. Each gives one number a sample; what is reported is the mean over samples.

The mean is exact: numbers are summed over the samples of all batches, so it does not depend on the batch size.
Sample weights and class weights do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.errors import ArgumentError
from dala_defn.functions.base import dtype_of
from dala_defn.losses import (
    Loss,
    aligned,
    binary_crossentropy,
    categorical_crossentropy,
    labels_of,
    mean_absolute_error,
    mean_squared_error,
    per_sample,
    sparse_categorical_crossentropy,
)
from dala_defn.trace import prepared


def _hits(hit: Any) -> Any:
    return per_sample(F.astype(hit, dtypes.float32))


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """The share of predictions on the same side of the threshold as their target (which is 0 or 1).

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.metrics.binary_accuracy([[1], [0]], [[0.7], [0.6]])
        array([1., 0.], dtype=float32)
    """
    y, p = aligned("binary_accuracy", y_true, y_pred)
    return _hits(F.equal(y > 0.5, p > threshold))


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the largest prediction stands where the largest target does (the first of equal ones).

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.metrics.categorical_accuracy([[0, 1]], [[0.2, 0.8]])
        array([1.], dtype=float32)
    """
    y, p = aligned("categorical_accuracy", y_true, y_pred)
    return _hits(F.equal(F.argmax(y, -1), F.argmax(p, -1)))


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the largest prediction (the first of equal ones) stands at the label.

    Raises:
        DTypeError: when the labels are no integers. ShapeError: when the shapes do not fit.

    Example:
        >>> dd.metrics.sparse_categorical_accuracy([1], [[0.2, 0.8]])
        array([1.], dtype=float32)
    """
    labels, p = labels_of("sparse_categorical_accuracy", y_true, y_pred)
    best = F.argmax(p, -1)
    return _hits(F.equal(F.squeeze(labels, -1), F.astype(best, dtype_of(labels))))


def accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the prediction equals the target.

    Under the name ``"accuracy"``, ``compile`` takes the accuracy that goes with the loss instead.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> dd.metrics.accuracy([1, 2], [1, 3])
        array([1., 0.], dtype=float32)
    """
    y, p = aligned("accuracy", y_true, y_pred)
    return _hits(F.equal(y, p))


class Metric:
    """A metric with its options and the name that it has in logs.

    Example:
        >>> dd.metrics.Metric(dd.metrics.binary_accuracy, "above_0.9", threshold=0.9)([[1]], [[0.8]])
        array([0.], dtype=float32)
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, **options: Any) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.options = options

    def relied_on(self) -> tuple[str, ...]:
        """The attributes that a train step is made of: when one changes, it is traced again."""
        return "function", "options"

    def __call__(self, y_true: Any, y_pred: Any) -> Any:
        """The metric of every sample."""
        return prepared(self.function)(y_true, y_pred, **self.options)

    def __repr__(self) -> str:
        return f"<metric {self.name}>"


_FUNCTIONS = {
    f.__name__: f
    for f in (
        binary_accuracy,
        categorical_accuracy,
        sparse_categorical_accuracy,
        mean_squared_error,
        mean_absolute_error,
        categorical_crossentropy,
        sparse_categorical_crossentropy,
        binary_crossentropy,
    )
}
_SHORT = {"mse": mean_squared_error, "mae": mean_absolute_error}
_FOR_LOSS: dict[Any, Callable[..., Any]] = {
    categorical_crossentropy: categorical_accuracy,
    sparse_categorical_crossentropy: sparse_categorical_accuracy,
    binary_crossentropy: binary_accuracy,
}


def get(metric: Any, loss: Loss | None = None) -> Metric:
    """A metric by its name, from a function of targets and predictions, or itself.

    ``"accuracy"`` is the one that goes with the loss; after a binary crossentropy from logits its threshold is 0.

    Raises:
        ArgumentError: for an unknown name.

    Example:
        >>> dd.metrics.get("mse")
        <metric mse>
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str) and metric in ("accuracy", "acc"):
        function = _FOR_LOSS.get(loss.function if loss is not None else None, accuracy)
        logits = function is binary_accuracy and loss is not None and loss.options.get("from_logits")
        return Metric(function, str(metric), **({"threshold": 0.0} if logits else {}))
    if isinstance(metric, str) and metric in (_FUNCTIONS | _SHORT):
        return Metric((_FUNCTIONS | _SHORT)[metric], metric)
    if isinstance(metric, Loss):
        return Metric(metric, metric.name)
    if callable(metric):
        return Metric(metric)
    raise ArgumentError(
        f"there is no metric {metric!r}", rule=f"accuracy, {', '.join(_FUNCTIONS | _SHORT)}, or a function"
    )
