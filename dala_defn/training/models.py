"""``Model`` and ``Sequential``: a graph of layers with Keras's surface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dala_defn import losses, metrics, optimizers, trees
from dala_defn.arguments import TensorSpec, spec
from dala_defn.callbacks import Callback, History
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import dtype_of
from dala_defn.ir import Type
from dala_defn.layers.base import Layer, blamed
from dala_defn.layers.model import LayerGraph, arranged, check
from dala_defn.layers.symbols import BATCH, Symbol
from dala_defn.training import loop, saving
from dala_defn.training.data import Data, host, weights_of
from dala_defn.training.step import OptimizerState, Scores
from dala_defn.training.summary import summarise


class Model(LayerGraph):
    """A model from input symbols to output symbols, trained and used as in Keras.

    Args:
        inputs, outputs: symbols, or lists or dicts of them.
        name: of the model, where it is a layer of another one.
        seed: of the first values of parameters; the same seed gives the same ones.

    Raises:
        ArgumentError: when the outputs do not depend on the inputs alone, or two layers were given the same name.

    Example:
        >>> x = dd.Input((4,))
        >>> model = dd.Model(x, dd.layers.Dense(2)(x))
        >>> model.predict(dd.ones((3, 4))).shape
        (3, 2)
    """

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, seed: int = 0) -> None:
        super().__init__(inputs, outputs, name, seed)

    stop_training: bool = False
    optimizer: optimizers.Optimizer | None = None
    _trainer: loop.Trainer | None = None
    _scores: Scores | None = None
    _compiled: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        known = "layers" in vars(self)  # not before a Sequential has seen an input
        return f"<{type(self).__name__} {self.name or ''}: {f'{len(self.layers)} layers' if known else 'no input yet'}>"

    def compile(self, optimizer: Any = "adam", loss: Any = None, metrics: Any = ()) -> None:
        """Says how the model is trained. The optimizer starts afresh.

        Args:
            optimizer: a name (``"adam"``, ``"adamw"``, ``"sgd"``) or an optimizer.
            loss: a name, a function of targets and predictions that gives one number a sample, or a ``Loss``; for
                several outputs a list or a dict by output name (one for all otherwise).
            metrics: a list of names, functions or ``Metric``s; for several outputs a list of lists or a dict.

        Raises:
            ArgumentError: for an unknown name.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        """
        self.optimizer = optimizers.get(optimizer)
        self._compiled = (loss, metrics)
        self._scores = None
        self._trainer = None
        if self._connected:
            self._score()

    @property
    def _connected(self) -> bool:
        return True

    def _score(self) -> Scores:
        if self._compiled is None:
            raise ArgumentError("the model is not compiled", hint="model.compile(optimizer, loss)")
        if self._scores is None:
            self._scores = _scores_of(self.output_names, *self._compiled)
        return self._scores

    def _training(self) -> loop.Trainer:
        if self._trainer is None or not self._trainer.fresh():
            self._trainer = loop.Trainer(self)
        if self.optimizer is not None and self._trainer.slots is None and self._trainer.layout.trainable:
            self._trainer.slots = OptimizerState(self.optimizer, self._trainer.layout)
        return self._trainer

    def _inputs(self, x: Any) -> list[Any]:
        if not self._connected:
            first = host(x[0] if isinstance(x, (list, tuple)) and len(x) == 1 else x, "x")
            self.prepare(spec(first.shape, dtype_of(first)))
        xs = [host(a, f"x[{n}]" if len(self.inputs) > 1 else "x") for a, n in self._named(x)]
        for a, s, n in zip(xs, self.inputs, self.input_names, strict=True):
            check(Type(dtype_of(a), a.shape), s.spec, n)
        return xs

    def _named(self, x: Any) -> list[tuple[Any, str]]:
        if len(self.inputs) == 1 and not isinstance(x, dict):
            return [(x, self.input_names[0])]
        return list(zip(self.arrange(x), self.input_names, strict=True))

    def _targets(self, y: Any) -> list[Any]:
        if y is None:
            raise ArgumentTypeError("y is missing")
        names = self.output_names
        many = [y] if len(names) == 1 and not isinstance(y, dict) else arranged(y, [names], "y", "outputs")
        return [host(a, f"y[{n}]" if len(names) > 1 else "y") for a, n in zip(many, names, strict=True)]

    def _data(self, x: Any, y: Any, sample_weight: Any = None, class_weight: Any = None) -> Data:
        xs, ys = self._inputs(x), self._targets(y)
        data = Data(xs, ys)
        classes = [s.shape[-1] if len(s.shape) > 1 else None for s in self.outputs]
        data.weights = weights_of(data.n, sample_weight, class_weight, ys, classes)
        return data

    def fit(
        self,
        x: Any,
        y: Any,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Sequence[Callback] = (),
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        seed: int = 0,
    ) -> History:
        """Trains on arrays; each batch is one call into the runtime.

        The loss of a batch is the sum of (weight * loss) over its samples, divided by their number; that of an epoch
        is the same over all samples, whatever the batch size. Metrics are means over samples, unweighted.

        Args:
            x, y: arrays whose first axis is that of the samples; lists or dicts of them for several.
            batch_size: 32 by default; the last batch may be smaller.
            verbose: 0 writes nothing, 1 a progress bar to standard error, 2 a line an epoch.
            validation_split: the share of samples, taken from the end before shuffling, to validate on.
            validation_data: ``(x, y)`` or ``(x, y, sample_weight)`` to validate on instead.
            shuffle: whether each epoch has an order of its own.
            class_weight: a weight for each class; 1 for those that it leaves out.
            sample_weight: one weight a sample.
            seed: of shuffling and dropout.

        Raises:
            ArgumentError: when the model is not compiled, or for class weights of classes that do not exist.
            ShapeError, DTypeError: when data does not fit the model. A failed step leaves the last finished one.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.compile("adam", "mse")
            >>> history = model.fit(dd.ones((8, 4)), dd.ones((8, 2)), epochs=3, verbose=0)
            >>> len(history.history["loss"])
            3
        """
        data = self._data(x, y, sample_weight, class_weight)
        if not 0 <= validation_split < 1:
            raise ArgumentError(f"validation_split = {validation_split!r}", rule="a number from 0 to below 1")
        validation = None
        if validation_data is not None:
            if not isinstance(validation_data, (tuple, list)) or len(validation_data) not in (2, 3):
                raise ArgumentTypeError("validation_data is (x, y) or (x, y, sample_weight)")
            validation = self._data(*validation_data)
        elif validation_split:
            cut = data.n - int(data.n * validation_split)
            data, validation = data.part(0, cut), data.part(cut, data.n)
        if data.n == 0:
            raise ArgumentError("there are no samples to train on")
        if validation is not None and validation.n == 0:
            raise ArgumentError("there are no samples to validate on")
        size = loop.batch_size_of(batch_size, 32)
        if isinstance(epochs, bool) or not hasattr(epochs, "__index__") or epochs < 0:
            raise ArgumentError(f"epochs = {epochs!r}", rule="a whole number of at least 0")
        scores = self._score()
        trainer = self._training()
        trainer.targets = data.specs()[len(data.xs) :][: len(data.ys)]
        return loop.fit(
            trainer,
            scores,
            data,
            validation,
            size,
            epochs,
            initial_epoch,
            shuffle,
            seed,
            verbose,
            callbacks,
        )

    def evaluate(
        self, x: Any, y: Any, batch_size: int | None = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """The loss, or the loss and the metrics as a list (or dict), over all samples.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.compile("adam", "mse", ["mae"])
            >>> loss, error = model.evaluate(dd.ones((8, 4)), dd.ones((8, 2)))
        """
        data = self._data(x, y, sample_weight)
        if data.n == 0:
            raise ArgumentError("there are no samples to evaluate on")
        found = loop.evaluate(self._training(), self._score(), data, loop.batch_size_of(batch_size, 256))
        if return_dict:
            return found
        return list(found.values()) if len(found) > 1 else found["loss"]

    def predict(self, x: Any, batch_size: int | None = None) -> Any:
        """The outputs for all samples as NumPy arrays, in the structure of the model's outputs.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.predict(dd.ones((3, 4))).shape
            (3, 2)
        """
        data = Data(self._inputs(x), [])
        outs = loop.predict(self._training(), data, loop.batch_size_of(batch_size, 256))
        return trees.unflatten(self._out_tree, outs)

    def summary(self, print_fn: Callable[[str], Any] = print) -> None:
        """Prints a table of layers, output shapes and parameter counts.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.summary()  # doctest: +ELLIPSIS
            Model: sequential
            ...
            Non-trainable params: 0
        """
        print_fn(summarise(self))

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters and states to a ``.safetensors`` file, named as in ``params`` (``dense/kernel``).

        Raises:
            FileError: when it cannot be written.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.save_weights("model.safetensors")
        """
        saving.save_weights(self._training().layout, path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Reads what ``save_weights`` wrote; everything, or when something does not fit, nothing.

        Raises:
            FileError, FileFormatError: when the file cannot be read or is damaged.
            ArgumentError, ShapeError: when names or shapes differ, naming them.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.save_weights("model.safetensors")
            >>> model.load_weights("model.safetensors")
        """
        saving.load_weights(self._training().layout, path)

    def export(self, path: str | os.PathLike[str], batch: str = "b", training: bool = False) -> None:
        """Writes the model to a ``.dala`` file with the entry ``predict``, for any number of samples.

        With ``training`` (of a compiled model) the entries ``train_step`` and ``evaluate`` share its weights, so that
        a program without Python can train on: ``train_step(x, y)`` updates them and gives the batch's means.

        Args:
            batch: the name of the size of the first axis.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.export("model.dala")
            >>> dd.load("model.dala")(dd.ones((3, 4))).shape
            (3, 2)
        """
        saving.export(self, self._training(), path, batch, self._score() if training else None)


class Sequential(Model):
    """Layers one after the other. Without an ``Input`` first, the first data says what the input is.

    Raises:
        ArgumentTypeError: for what is no layer.

    Example:
        >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
        >>> model.predict(dd.ones((3, 4))).shape
        (3, 2)
    """

    def __init__(self, layers: Sequence[Any] = (), name: str | None = None, seed: int = 0) -> None:
        self.name = name
        self.seed = seed
        self._stack: list[Layer] = []
        self._input: Symbol | None = None
        self._joined = False
        for layer in layers:
            self._append(layer)
        self._join()

    def add(self, layer: Any) -> None:
        """Appends a layer.

        Example:
            >>> model = dd.Sequential([dd.Input((4,)), dd.layers.Dense(2)])
            >>> model.add(dd.layers.Dense(3))
            >>> model.predict(dd.ones((1, 4))).shape
            (1, 3)
        """
        self._append(layer)
        self._trainer = None
        self._join()

    def _append(self, layer: Any) -> None:
        if isinstance(layer, Symbol) and layer.call is None and not self._stack and self._input is None:
            self._input = layer
        elif isinstance(layer, Layer):
            self._stack.append(layer)
        else:
            raise ArgumentTypeError(f"a Sequential takes layers, not a {type(layer).__name__}")

    def _join(self) -> None:
        if self._input is None or not self._stack:
            return
        x: Any = self._input
        for layer in self._stack:
            x = layer(x)
        self._connect(self._input, x)
        self._joined = True

    @property
    def _connected(self) -> bool:
        return self._joined

    def leaves(self, path: Any = (), trainable: bool = True) -> Any:
        """The layers that hold parameters, through nested models."""
        if not self._joined:
            raise ArgumentError(
                "the model is not built, as the shape of its input is not known",
                hint="dd.Input((...)) as the first layer, or a call with data",
            )
        return super().leaves(path, trainable)

    def prepare(self, spec: Any) -> None:
        """Connects the layers, when the input was not known before."""
        if self._joined:
            return
        if not isinstance(spec, TensorSpec) or not spec.shape or not self._stack:
            raise ArgumentError("a Sequential needs layers, and one array as its input")
        self._input = Symbol(TensorSpec((BATCH, *spec.shape[1:]), spec.dtype), None)
        blamed(self, self.name, self._join)


def _scores_of(outputs: Sequence[str], loss: Any, wanted: Any) -> Scores:
    n = len(outputs)
    if isinstance(loss, dict):
        unknown = set(loss) - set(outputs)
        if unknown:
            raise ArgumentError(f"a loss for {sorted(unknown)}", rule=f"outputs: {', '.join(outputs)}")
        each = [loss.get(o) for o in outputs]
    else:
        each = list(loss) if isinstance(loss, (list, tuple)) else [loss] * n
    if len(each) != n:
        raise ArgumentError(f"{len(each)} losses for {n} outputs")
    own = [None if item is None else losses.get(item) for item in each]
    if all(item is None for item in own):
        raise ArgumentError("the model was compiled without a loss", hint='model.compile("adam", loss)')
    if isinstance(wanted, dict):
        unknown = set(wanted) - set(outputs)
        if unknown:
            raise ArgumentError(f"metrics for {sorted(unknown)}", rule=f"outputs: {', '.join(outputs)}")
        rows = [wanted.get(o, ()) for o in outputs]
    else:
        given = list(wanted or ())
        nested = n > 1 and len(given) == n and all(isinstance(m, (list, tuple)) for m in given)
        rows = given if nested else [given] * n
    rows = [row if isinstance(row, (list, tuple)) else [row] for row in rows]
    return Scores(outputs, own, [[metrics.get(m, one) for m in row] for row, one in zip(rows, own, strict=True)])
