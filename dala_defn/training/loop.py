"""``fit``, ``evaluate`` and ``predict``: batches go in, sums over samples come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn.arguments import TensorSpec, spec
from dala_defn.array import Array
from dala_defn.callbacks import Callback, History
from dala_defn.dtypes import int64
from dala_defn.errors import ArgumentError
from dala_defn.executors import executor
from dala_defn.training.data import Data
from dala_defn.training.progress import Progress
from dala_defn.training.step import (
    Layout,
    OptimizerState,
    Runner,
    Scores,
    evaluate_step,
    in_order,
    predict_step,
    specs_of,
    train_step,
)

SEED = spec((), int64)


class Trainer:
    """The compiled steps of a model. They are kept by the kinds of the data, the executor and what is trainable."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.layout = Layout(model)
        self._key = layout_key(model)
        self._runners: dict[Any, Runner] = {}
        self.slots: OptimizerState | None = None
        self.targets: list[TensorSpec] | None = None  # what the last training took

    def fresh(self) -> bool:
        """Whether the layout still is that of the model: ``trainable`` may have been set since."""
        return self._key == layout_key(self.model)

    def given(self, data: Data) -> list[Any]:
        """The batch part of a step's arguments as specs."""
        specs = data.specs()
        count = len(data.xs)
        ys = specs[count : count + len(data.ys)]
        return [specs[:count], ys, None if data.weights is None else specs[-1]]

    def train(self, data: Data, scores: Scores) -> Runner:
        """The train step for such data."""
        slots, layout = self.slots, self.layout
        if slots is None:
            raise ArgumentError("the model has nothing to train", hint="layers with parameters and trainable=True")

        def make() -> Runner:
            donated = [specs_of(layout.trainable), specs_of(layout.state), slots.specs()]
            compiled = train_step(layout, slots.optimizer, scores).compile(
                donated, [specs_of(layout.frozen), SEED, *self.given(data)]
            )
            renewed = [*in_order(layout.trainable), *in_order(layout.state), *slots.variables]
            return Runner(compiled, renewed, in_order(layout.frozen))

        return self._runner(("train", id(scores)), data, make)

    def evaluate(self, data: Data, scores: Scores) -> Runner:
        """The step of ``evaluate`` for such data."""

        def make() -> Runner:
            held = self.layout.variables()
            compiled = evaluate_step(self.layout, scores).compile([specs_of(held), *self.given(data)])
            return Runner(compiled, (), in_order(held))

        return self._runner(("evaluate", id(scores)), data, make)

    def predict(self, data: Data) -> Runner:
        """The step of ``predict`` for such data."""

        def make() -> Runner:
            held = self.layout.variables()
            compiled = predict_step(self.layout).compile([specs_of(held), data.specs()])
            return Runner(compiled, (), in_order(held))

        return self._runner(("predict",), data, make)

    def _runner(self, what: Any, data: Data, make: Callable[[], Runner]) -> Runner:
        key = (what, tuple(s.type for s in data.specs()), data.weights is None, executor().name)
        found = self._runners.get(key)
        if found is None or found.captures() is None:
            found = self._runners[key] = make()
        return found


def layout_key(model: Any) -> Any:
    """What a layout depends on besides the graph."""
    return tuple((path, trainable) for path, _, trainable in model.leaves())


def fit(
    trainer: Trainer,
    scores: Scores,
    data: Data,
    validation: Data | None,
    batch_size: int,
    epochs: int,
    initial_epoch: int,
    shuffle: bool,
    seed: int,
    verbose: int,
    callbacks: Sequence[Callback],
) -> History:
    """The epochs of ``Model.fit``."""
    model = trainer.model
    history = History()
    listeners = [history, *callbacks]
    for c in listeners:
        c.model = model
    rng = np.random.default_rng(seed)
    held_seed = executor().place(np.int64(seed), int64)
    step_count = -(-data.n // batch_size)
    progress = Progress(verbose, epochs, step_count)
    model.stop_training = False
    for c in listeners:
        c.on_train_begin()
    for epoch in range(initial_epoch, epochs):
        for c in listeners:
            c.on_epoch_begin(epoch)
        if trainer.slots is not None:
            trainer.slots.refresh()
        runner = trainer.train(data, scores)
        tail = runner.captures() or []
        order = rng.permutation(data.n) if shuffle else None
        progress.start(epoch)
        sums = np.zeros(len(scores.names))
        seen = 0
        for i, (count, arrays) in enumerate(data.batches(batch_size, order)):
            sums += runner([held_seed, *arrays, *tail])[0].numpy()
            seen += count
            if progress.live and progress.due():
                progress.step(i + 1, means(scores, sums, seen))
        logs = means(scores, sums, seen)
        if validation is not None:
            logs |= {f"val_{k}": v for k, v in evaluate(trainer, scores, validation, batch_size).items()}
        progress.end(logs)
        for c in listeners:
            c.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    for c in listeners:
        c.on_train_end()
    return history


def means(scores: Scores, sums: Any, n: int) -> dict[str, float]:
    """Sums over samples as means, by name."""
    return {name: float(s) / n for name, s in zip(scores.names, sums, strict=True)}


def evaluate(trainer: Trainer, scores: Scores, data: Data, batch_size: int) -> dict[str, float]:
    """The means of losses and metrics over all samples."""
    runner = trainer.evaluate(data, scores)
    tail = runner.captures() or []
    sums = np.zeros(len(scores.names))
    for _, arrays in data.batches(batch_size):
        sums += runner([*arrays, *tail])[0].numpy()
    return means(scores, sums, data.n)


def predict(trainer: Trainer, data: Data, batch_size: int) -> list[Any]:
    """The outputs for all samples, as NumPy arrays."""
    runner = trainer.predict(data)
    tail = runner.captures() or []
    outs: list[Any] = []
    at = 0
    for count, arrays in data.batches(batch_size) if data.n else [(0, data.arrays)]:
        parts: list[Array] = runner([*arrays, *tail])
        if not outs:
            if count == data.n:
                return [p.numpy().copy() for p in parts]
            outs = [np.empty((data.n, *p.shape[1:]), p.numpy().dtype) for p in parts]
        for out, p in zip(outs, parts, strict=True):
            out[at : at + count] = p.numpy()
        at += count
    return outs


def batch_size_of(n: Any, default: int) -> int:
    """A batch size: the default for ``None``.

    Raises:
        ArgumentError: when it is no whole number of at least 1.
    """
    if n is None:
        return default
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 1:
        raise ArgumentError(f"batch_size = {n!r}", rule="a whole number of at least 1")
    return int(n)
