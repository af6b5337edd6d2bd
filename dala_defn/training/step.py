"""The programs that training runs: one call into the runtime a batch, whatever the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, random, trees
from dala_defn import functions as F
from dala_defn.arguments import TensorSpec
from dala_defn.compiled import Compiled
from dala_defn.defn import Defn
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.executors import executor
from dala_defn.layers.base import Path, Variable, nest
from dala_defn.layers.model import LayerGraph
from dala_defn.losses import Loss, per_sample
from dala_defn.metrics import Metric
from dala_defn.optimizers import Optimizer
from dala_defn.shapes import show
from dala_defn.trace import name_scope
from dala_defn.transforms import value_and_grad


class Layout:
    """A model's variables by name (``dense/kernel``): what is trained, what is not, and what layers keep.

    Shared variables have the first of their names; ``aliases`` leads from the others to it.
    """

    def __init__(self, model: LayerGraph) -> None:
        self.model = model
        held = model.variables(model.seed)
        self.trainable: dict[str, Variable] = {}
        self.frozen: dict[str, Variable] = {}
        self.state: dict[str, Variable] = {}
        self.aliases: dict[str, str] = {}
        self._rows: list[tuple[Path, str, bool]] = []
        first: dict[int, str] = {}
        for path, leaf, trainable in model.leaves():
            for is_state, paths, variables in zip((False, True), leaf._paths or ([], []), held[id(leaf)], strict=True):
                for inner, v in zip(paths, variables, strict=True):
                    name = "/".join((*path, *inner))
                    primary = first.setdefault(id(v), name)
                    self._rows.append(((*path, *inner), primary, is_state))
                    if primary == name:
                        learns = trainable and v.type.dtype.is_float
                        group = self.state if is_state else self.trainable if learns else self.frozen
                        group[name] = v
                    else:
                        self.aliases[name] = primary

    def relied_on(self) -> tuple[str, ...]:
        """What a step is made of: when it changes, the step is traced again."""
        return ("model",)

    def variables(self) -> dict[str, Variable]:
        """Everything by name, in the order of the layers."""
        everything = {**self.trainable, **self.frozen, **self.state}
        return {name: everything[name] for _, name, _ in self._rows}

    def trees(self, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """The trees of parameters and state that the model's ``call`` takes."""
        params = [(path, values[name]) for path, name, is_state in self._rows if not is_state]
        state = [(path, values[name]) for path, name, is_state in self._rows if is_state]
        return nest(params), nest(state)

    def state_of(self, tree: Any) -> dict[str, Any]:
        """The new values of the state by name, from the tree that ``call`` returned."""
        out: dict[str, Any] = {}
        for path, name, is_state in self._rows:
            if is_state and name not in out:
                at = tree
                for part in path:
                    at = at[part]
                out[name] = F.astype(at, self.state[name].type.dtype)
        return out


class Scores:
    """Losses and metrics of the outputs, as sums over the samples of a batch.

    ``names`` are those of the sums: the loss, each output's loss when there are several, the metrics.
    """

    def __init__(
        self, outputs: Sequence[str], losses: Sequence[Loss | None], metrics: Sequence[Sequence[Metric]]
    ) -> None:
        self.losses = losses
        self.metrics = metrics
        several = len(outputs) > 1
        self.names = ["loss"]
        if several:
            self.names += [f"{o}_loss" for o, loss in zip(outputs, losses, strict=True) if loss is not None]
        for o, own in zip(outputs, metrics, strict=True):
            self.names += [f"{o}_{m.name}" if several else m.name for m in own]
        if len(set(self.names)) != len(self.names):
            raise ArgumentError(f"two metrics have one name: {self.names}", hint="dd.metrics.Metric(f, name)")

    def relied_on(self) -> tuple[str, ...]:
        """What a step is made of: when it changes, the step is traced again."""
        return "losses", "metrics"

    def __call__(self, outs: Any, ys: Sequence[Any], weights: Any) -> tuple[Any, Any]:
        """The loss to minimise (the mean over the batch) and the float64 sums, in the order of ``names``."""
        total: Any = None
        sums: list[Any] = []
        measured: list[Any] = []
        for out, y, loss, metrics in zip(trees.flatten(outs)[0], ys, self.losses, self.metrics, strict=True):
            if loss is not None:
                with name_scope(loss.name):
                    each = self._each(loss, y, out)
                    each = each if weights is None else each * F.astype(weights, each.dtype)
                    sums.append(F.sum(F.astype(each, dtypes.float64)))
                    mean = F.mean(each)
                total = mean if total is None else total + mean
            for m in metrics:
                with name_scope(m.name):
                    measured.append(F.sum(F.astype(self._each(m, y, out), dtypes.float64)))
        whole = sums[0]
        for s in sums[1:]:
            whole = whole + s
        return total, F.stack([whole, *(sums if len(self.losses) > 1 else []), *measured])

    def _each(self, f: Any, y: Any, out: Any) -> Any:
        each = f(y, out)
        if not each.shape or each.shape[0] != out.shape[0]:
            raise ShapeError(
                f"{f.name} gives {show(tuple(each.shape))} for {out.shape[0]} samples",
                rule="a loss or metric gives one number a sample",
                hint="leave the mean over the first axis out",
            )
        return per_sample(each)


def train_step(layout: Layout, optimizer: Optimizer, scores: Scores) -> Defn:
    """Forward, backward and update as one function.

    It takes ``donated`` = [trainable, state, optimizer state] and ``given`` = [frozen, seed, xs, ys, weights], and
    returns ``donated`` renewed and the sums of ``scores``.
    """
    model = layout.model

    def train_step(donated: Any, given: Any) -> Any:
        trainable, state, slots = donated
        frozen, seed, xs, ys, weights = given
        key = random.fold_in(random.key(seed), slots["step"])

        def objective(trainable: Any) -> Any:
            params, tree = layout.trees({**trainable, **frozen, **state})
            outs, after = model.call(params, tree, xs if len(xs) > 1 else xs[0], key=key, training=True)
            loss, sums = scores(outs, ys, weights)
            return loss, (sums, layout.state_of(after))

        (_, (sums, after)), grads = value_and_grad(objective, has_aux=True)(trainable)
        with name_scope("optimizer"):
            trainable, slots = optimizer.update(trainable, grads, slots)
        return [trainable, after, slots, sums]

    return Defn(train_step, donate_argnames=("donated",))


def evaluate_step(layout: Layout, scores: Scores) -> Defn:
    """The sums of ``scores`` from ``given`` = [variables, xs, ys, weights]."""
    model = layout.model

    def evaluate(given: Any) -> Any:
        variables, xs, ys, weights = given
        params, state = layout.trees(variables)
        outs, _ = model.call(params, state, xs if len(xs) > 1 else xs[0])
        return scores(outs, ys, weights)[1]

    return Defn(evaluate)


def predict_step(layout: Layout) -> Defn:
    """The model's outputs, as a flat list, from ``given`` = [variables, xs]."""
    model = layout.model

    def predict(given: Any) -> Any:
        variables, xs = given
        params, state = layout.trees(variables)
        return trees.flatten(model.call(params, state, xs if len(xs) > 1 else xs[0])[0])[0]

    return Defn(predict)


def specs_of(variables: Mapping[str, Variable]) -> dict[str, TensorSpec]:
    """The specs of variables."""
    return {name: TensorSpec(v.type.shape, v.type.dtype) for name, v in variables.items()}


def in_order(variables: Mapping[str, Variable]) -> list[Variable]:
    """Variables in the order in which a traced function takes a dict of them."""
    return [variables[name] for name in sorted(variables)]


class OptimizerState:
    """An optimizer's state for a model's parameters, as variables in a tree of specs."""

    def __init__(self, optimizer: Optimizer, layout: Layout) -> None:
        self.optimizer = optimizer
        held = {name: v.value for name, v in layout.trainable.items()}
        pairs = trees.flatten_with_paths(optimizer.init(held))
        self.tree = trees.flatten(optimizer.init(held))[1]
        self.names = ["/".join(map(str, path)) for path, _ in pairs]
        self.variables = [Variable(executor().place(x, x.dtype)) for _, x in pairs]
        self._rate = optimizer.learning_rate

    def specs(self) -> Any:
        """The tree of specs."""
        return trees.unflatten(self.tree, [TensorSpec(v.type.shape, v.type.dtype) for v in self.variables])

    def refresh(self) -> None:
        """Takes over a learning rate that was set on the optimizer since the last call."""
        rate = self.optimizer.learning_rate
        if rate != self._rate and "learning_rate" in self.names and not callable(rate):
            self.variables[self.names.index("learning_rate")].assign(np.float32(rate))
            self._rate = rate


class Runner:
    """A compiled step with the variables that it reads and, in place, renews."""

    def __init__(self, compiled: Compiled, renewed: Sequence[Variable], read: Sequence[Variable]) -> None:
        self._compiled = compiled
        self._run = compiled.executable.run
        self._renewed = list(renewed)
        self._read = list(read)

    def captures(self) -> list[Any] | None:
        """What losses or layers took from outside, as it is now; ``None`` when the step must be traced again."""
        return self._compiled.traced.captured.current()

    def __call__(self, given: list[Any]) -> list[Any]:
        """Runs the step on ``given`` (batch arrays and what follows the variables): one call into the runtime.

        Variables change only after the run has succeeded. Gives the results that are no variables.
        """
        c = self._compiled
        args = [v.value for v in self._renewed]
        args += [v.value for v in self._read]
        args += given
        outs = self._run(c.index, args, c.results, c.donate)
        for v, x in zip(self._renewed, outs, strict=False):
            v.value = x
        return outs[len(self._renewed) :]
