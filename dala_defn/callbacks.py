"""Callbacks: what runs between the epochs of ``fit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dala_defn.errors import ArgumentError

Logs = Mapping[str, float]


class Callback:
    """The base: override what you need. ``model`` is set before training begins.

    Example:
        >>> class Losses(dd.callbacks.Callback):
        ...     def on_epoch_end(self, epoch, logs):
        ...         print(epoch, logs["loss"])
    """

    model: Any = None

    def on_train_begin(self) -> None:
        """Before the first epoch."""

    def on_train_end(self) -> None:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Before an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """After an epoch and its validation; ``logs`` has the numbers that ``History`` keeps."""


class History(Callback):
    """What ``fit`` returns: the numbers of every epoch.

    Attributes:
        history: a list for every name, one number an epoch.
        epoch: the numbers of the epochs, from 0.

    Example:
        >>> history = dd.callbacks.History()
        >>> history.on_epoch_end(0, {"loss": 0.5})
        >>> history.history
        {'loss': [0.5]}
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Keeps the numbers."""
        self.epoch.append(epoch)
        for name, x in logs.items():
            self.history.setdefault(name, []).append(x)


class EarlyStopping(Callback):
    """Stops when a number has not become better for ``patience`` epochs.

    Args:
        monitor: a name in the logs, such as ``"val_loss"``.
        min_delta: what counts as better must be better by more than this.
        mode: ``"min"``, ``"max"``, or ``"auto"``: the larger is the better for names that end in ``accuracy``.
        restore_best_weights: whether the model gets the weights of the best epoch back.

    Example:
        >>> stop = dd.callbacks.EarlyStopping(monitor="val_loss", patience=3)
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        restore_best_weights: bool = False,
    ) -> None:
        if mode not in ("auto", "min", "max"):
            raise ArgumentError(f"mode = {mode!r}", rule="auto, min or max")
        self.monitor = monitor
        self.min_delta = abs(min_delta)
        self.patience = patience
        self.sign = -1.0 if mode == "max" or (mode == "auto" and monitor.endswith(("accuracy", "acc"))) else 1.0
        self.restore_best_weights = restore_best_weights

    def on_train_begin(self) -> None:
        """Forgets an earlier training."""
        self.best = float("inf")
        self.wait = 0
        self.best_epoch = 0
        self.stopped_epoch: int | None = None
        self._weights: Sequence[Any] | None = None

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Compares, and stops the training when the patience is over."""
        if self.monitor not in logs:
            raise ArgumentError(f"there is no {self.monitor!r} to monitor", rule=f"logs: {', '.join(logs)}")
        value = self.sign * logs[self.monitor]
        if value < self.best - self.min_delta:
            self.best, self.best_epoch, self.wait = value, epoch, 0
            if self.restore_best_weights:
                self._weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self) -> None:
        """Puts the best weights back."""
        if self._weights is not None:
            self.model.set_weights(self._weights)
