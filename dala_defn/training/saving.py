"""Weights to ``.safetensors`` files and back, and whole models to ``.dala`` files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, trees
from dala_defn import functions as F
from dala_defn.arguments import TensorSpec, spec
from dala_defn.artifacts import dims_of, read_file, write_file, write_program
from dala_defn.defn import Defn
from dala_defn.errors import ArgumentError, FileFormatError, ShapeError
from dala_defn.ir import Type, container
from dala_defn.ir.program import STATE, Arg, Entry, Program, Result
from dala_defn.layers.base import Variable
from dala_defn.training.step import Layout, Scores, evaluate_step, predict_step, specs_of, train_step

SEED = "seed"


def save_weights(layout: Layout, path: str | os.PathLike[str]) -> None:
    """Writes the variables; shared ones once."""
    held = {name: v.value.numpy() for name, v in layout.variables().items()}
    write_file(path, container.write_plain(held, {"format": "dala-weights-1"}))


def load_weights(layout: Layout, path: str | os.PathLike[str]) -> None:
    """Reads the variables, all or none."""
    try:
        found = container.read_plain(read_file(path))
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error.reason}") from None
    own = layout.variables()
    missing, extra = sorted(set(own) - set(found)), sorted(set(found) - set(own))
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(extra)}, which the model lacks"] if extra else []
        raise ArgumentError(f"{os.fspath(path)} {' and '.join(parts)}", rule="names as save_weights wrote them")
    for name, v in own.items():
        have = Type(dtypes.as_dtype(found[name].dtype), found[name].shape)
        if have != v.type:
            raise ShapeError(f"{os.fspath(path)}: {name} is {have}, the model's is {v.type}")
    for name, v in own.items():
        v.assign(found[name])


def export(model: Any, trainer: Any, path: str | os.PathLike[str], batch: str, scores: Scores | None) -> None:
    """Writes the entries of a model with shared weights."""
    layout: Layout = trainer.layout
    held = layout.variables()
    xs = [_named(s.spec, batch) for s in model.inputs]
    names = [f"{STATE}{n}" for n in sorted(held)]
    plain = len(xs) == 1 and not model.inputs[0].name
    inputs = [(n, "arg") for n in (["x"] if plain else model.input_names)]
    entries = [_entry("predict", predict_step(layout), ([specs_of(held), xs],), [*_roles(names), *inputs], ())]
    tensors: dict[str, Variable] = dict(held)
    seed: dict[str, np.ndarray[Any, Any]] = {}
    if scores is not None:
        slots = trainer.slots
        if slots is None:
            raise ArgumentError("the model has nothing to train")
        guessed = [_target(s.spec, loss) for s, loss in zip(model.outputs, scores.losses, strict=True)]
        ys = [_named(s, batch) for s in trainer.targets or guessed]
        targets = [(n, "arg") for n in (["y"] if len(ys) == 1 else model.output_names)]
        slot_names = [f"optimizer/{n}" for n in slots.names]
        tensors |= dict(zip(slot_names, slots.variables, strict=True))
        seed[SEED] = np.zeros((), np.int64)
        renewed = [f"{STATE}{n}" for n in (*sorted(layout.trainable), *sorted(layout.state), *slot_names)]
        frozen = [f"{STATE}{n}" for n in sorted(layout.frozen)]
        donated = [specs_of(layout.trainable), specs_of(layout.state), slots.specs()]
        given = [specs_of(layout.frozen), TensorSpec((), dtypes.int64), xs, ys, None]
        step = _means(train_step(layout, slots.optimizer, scores), scores, -1)
        roles = [*_roles([*renewed, *frozen, f"{STATE}{SEED}"]), *inputs, *targets]
        entries.append(_entry("train_step", step, (donated, given), roles, renewed, scores.names))
        check = _means(evaluate_step(layout, scores), scores, None)
        args = ([specs_of(held), xs, ys, None],)
        entries.append(_entry("evaluate", check, args, [*_roles(names), *inputs, *targets], (), scores.names))
    arrays = {n: np.ascontiguousarray(v.value.numpy()) for n, v in tensors.items()} | seed
    arrays = {n: x.reshape(tensors[n].type.shape) if n in tensors else x for n, x in arrays.items()}
    for e, captured in entries:
        arrays.update({f"captured/{e.name}/{i}": np.asarray(x) for i, x in enumerate(captured)})
    made = tuple(e for e, _ in entries)
    write_program(path, Program(made, dims_of(made), arrays, dict(layout.aliases)))


def _roles(states: Sequence[str]) -> list[tuple[str, str]]:
    return [(role.removeprefix(STATE), role) for role in states]


def _means(step: Defn, scores: Scores, at: int | None) -> Defn:
    """A step that gives the batch's means by name in the place of the sums."""

    def means(*args: Any) -> Any:
        out = step(*args)
        sums = out if at is None else out[at]
        batch = trees.flatten(args[-1][-3])[0][0]  # the first input
        count = F.astype(F.sum(F.ones((batch.shape[0],), dtypes.int32)), sums.dtype)
        whole = [F.astype(sums[i] / count, dtypes.float32) for i in range(len(scores.names))]
        return whole if at is None else [*out[:at], whole]

    means.__name__ = step.__name__
    return Defn(means)


def _entry(
    name: str,
    step: Defn,
    args: tuple[Any, ...],
    roles: Sequence[tuple[str, str]],
    renewed: Sequence[str],
    results: Sequence[str] = (),
) -> tuple[Entry, list[Any]]:
    """An entry whose first results renew the state; and what the function captured."""
    compiled = step.compile(*args)
    graph, captured = compiled.graph, compiled.traced.captures
    given = [Arg(n, role) for n, role in roles]
    given += [Arg(f"captured_{i}", f"{STATE}captured/{name}/{i}") for i in range(len(captured))]
    names = list(results) or [str(i) for i in range(len(graph.outputs) - len(renewed))]
    outs = [Result(role.removeprefix(STATE), role) for role in renewed] + [Result(n) for n in names]
    return Entry(name, graph, tuple(given), tuple(outs)).shown_as(compiled.traced.graph), captured


def _named(s: TensorSpec, batch: str) -> TensorSpec:
    """The spec with the batch's size under another name."""
    return spec((batch, *s.shape[1:]), s.dtype)


def _target(s: TensorSpec, loss: Any) -> TensorSpec:
    """What a target looks like: labels for sparse losses, else like the output."""
    name = getattr(loss, "name", "")
    if name.startswith("sparse_"):
        return spec(s.shape[:-1], dtypes.int32)
    return s
