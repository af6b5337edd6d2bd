"""Graphs of layers: the pure part of models. A graph is a layer itself, so models nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dala_defn import functions as F
from dala_defn import random, trees
from dala_defn.arguments import TensorSpec
from dala_defn.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Type
from dala_defn.layers.base import Layer, Path, applied, default_name, nest, pairs_of
from dala_defn.layers.symbols import BATCH, Call, Symbol
from dala_defn.shapes import DimExpr


class LayerGraph(Layer):
    """Layers that call each other: from input symbols to output symbols (single ones, or trees of them)."""

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, seed: int = 0) -> None:
        self.name = name
        self.seed = seed
        self._connect(inputs, outputs)

    def _connect(self, inputs: Any, outputs: Any) -> None:
        self.inputs: list[Symbol] = _symbols(inputs, "inputs")
        self.outputs: list[Symbol] = _symbols(outputs, "outputs")
        self._out_tree = trees.flatten(outputs)[1]
        self._by_key = list(inputs) if isinstance(inputs, dict) else None
        if self._by_key is not None:
            self._by_key.sort()
        self.calls = _calls(self.inputs, self.outputs)
        self.layers: list[Layer] = list({id(c.layer): c.layer for c in self.calls}.values())
        self.names = _names(self.layers)
        self.input_names = _distinct([s.name or "input" for s in self.inputs])
        self.output_names = _distinct(
            [self.names[id(s.call.layer)] if s.call is not None else s.name or "output" for s in self.outputs]
        )

    def get_layer(self, name: str) -> Layer:
        """The layer of this name.

        Raises:
            ArgumentError: when there is none.
        """
        for layer in self.layers:
            if self.names[id(layer)] == name:
                return layer
        raise ArgumentError(f"there is no layer {name!r}", rule=f"layers: {', '.join(self.names.values())}")

    def relied_on(self) -> tuple[str, ...]:
        """The layers, and so what these rely on."""
        return "trainable", "layers"

    def leaves(self, path: Path = (), trainable: bool = True) -> Iterator[tuple[Path, Layer, bool]]:
        """The layers that hold parameters, through nested models."""
        for layer in self.layers:
            yield from layer.leaves((*path, self.names[id(layer)]), trainable and self.trainable)

    @property
    def built(self) -> bool:
        """Whether all layers hold parameters."""
        return all(leaf.built for _, leaf, _ in self.leaves())

    def prepare(self, spec: Any) -> None:
        """Nothing is left to do: layers were prepared when they were called with symbols."""

    def build(self, key: Any, spec: Any) -> dict[str, Any]:
        """The first parameters of all layers, by layer name."""
        self.prepare(spec)
        return self._built(key, "build")

    def build_state(self, spec: Any) -> dict[str, Any]:
        """The first states of all layers, by layer name."""
        self.prepare(spec)
        return self._built(None, "build_state")

    def _built(self, key: Any, what: str) -> dict[str, Any]:
        out: list[tuple[Path, Any]] = []
        order: dict[int, int] = {}
        for path, leaf, _ in self.leaves():
            i = order.setdefault(id(leaf), len(order))
            made = leaf.build_state(leaf._spec) if key is None else leaf.build(random.fold_in(key, i), leaf._spec)
            out += [((*path, *inner), x) for inner, x in pairs_of(made, what)]
        return nest(out)

    def assemble(self, values: Mapping[int, tuple[Sequence[Any], Sequence[Any]]]) -> tuple[Any, Any]:
        """The trees of parameters and state, by layer name; layers without any are left out."""
        params, state = {}, {}
        for layer in self.layers:
            p, s = layer.assemble(values)
            if p:
                params[self.names[id(layer)]] = p
            if s:
                state[self.names[id(layer)]] = s
        return params, state

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The outputs and the new states; every call of a layer has a key of its own."""
        known: dict[int, Any] = {id(s): v for s, v in zip(self.inputs, self.bind(x), strict=True)}
        state = dict(state)
        for i, c in enumerate(self.calls):
            name = self.names[id(c.layer)]
            args = trees.map_tree(lambda s: known[id(s)], c.inputs)
            own = None if key is None else random.fold_in(key, i)
            y, new = applied(c.layer, name, params.get(name, {}), state.get(name, {}), args, own, training)
            if new:
                state[name] = new
            for s, v in zip(trees.flatten(c.outputs)[0], trees.flatten(y)[0], strict=True):
                known[id(s)] = v
        return trees.unflatten(self._out_tree, [known[id(s)] for s in self.outputs]), state

    def arrange(self, x: Any, what: str = "x") -> list[Any]:
        """The arrays for the inputs, in order: from one array, a list, or a dict by input name or key.

        Raises:
            ArgumentTypeError: for another number or other names.
        """
        names = self.input_names if self._by_key is None else self._by_key
        return arranged(x, [self.input_names, names], what, "inputs")

    def bind(self, x: Any) -> list[Any]:
        """The arrays for the inputs, checked, in the dtypes of the inputs."""
        return [checked(v, s.spec, n) for v, s, n in zip(self.arrange(x), self.inputs, self.input_names, strict=True)]


def arranged(x: Any, names: Sequence[Sequence[str]], what: str, kind: str) -> list[Any]:
    """Arrays in the order of names, from a single one, a list, or a dict by one of the sets of names.

    Raises:
        ArgumentTypeError: for another number or other names.
    """
    count = len(names[0])
    if isinstance(x, dict):
        for known in names:
            if set(x) == set(known):
                return [x[n] for n in known]
        raise ArgumentTypeError(f"{what} names {sorted(map(str, x))}", rule=f"{kind}: {', '.join(names[0])}")
    out = list(x) if count > 1 and isinstance(x, (list, tuple)) else [x]
    if count == 1 and isinstance(x, (list, tuple)) and len(x) == 1 and hasattr(x[0], "shape"):
        out = [x[0]]
    if len(out) != count:
        raise ArgumentTypeError(f"{what} has {len(out)} arrays for {count} {kind}", rule=f"{', '.join(names[0])}")
    return out


def checked(x: Any, spec: TensorSpec, name: str) -> Any:
    """An input in the dtype of its spec; floats are converted to other floats, integers to floats.

    Raises:
        ShapeError, DTypeError: when it does not fit.
    """
    x = value(x)
    check(Type(dtype_of(x), tuple(x.shape)), spec, name)
    return F.astype(x, spec.dtype)


def check(have: Type, spec: TensorSpec, name: str) -> None:
    """Refuses what an input does not take.

    Raises:
        ShapeError: when sizes do not fit. DTypeError: for floats where integers are taken.
    """
    fits = have.ndim == len(spec.shape) and all(
        isinstance(d, DimExpr) or d == n for d, n in zip(spec.shape, have.shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"input {name} takes {spec.type}, not {have}", rule=f"{BATCH} is the number of samples")
    if have.dtype.is_inexact and not spec.dtype.is_inexact:
        raise DTypeError(f"input {name} takes {spec.type}, not {have}", hint=f"x.astype(dd.{spec.dtype})")


def _symbols(tree: Any, what: str) -> list[Symbol]:
    leaves = trees.flatten(tree)[0]
    for leaf in leaves:
        if not isinstance(leaf, Symbol):
            raise ArgumentTypeError(
                f"{what} of a model are symbols, not a {type(leaf).__name__}", hint="dd.Input((8,))"
            )
    if not leaves or (len({id(s) for s in leaves}) != len(leaves) and what == "inputs"):
        raise ArgumentError(f"a model needs {what}, each once")
    return leaves


def _calls(inputs: Sequence[Symbol], outputs: Sequence[Symbol]) -> list[Call]:
    """The calls that lead from the inputs to the outputs, in the order in which they were made."""
    given = {id(s) for s in inputs}
    found: dict[int, Call] = {}
    waiting = [s for s in outputs if id(s) not in given]
    while waiting:
        s = waiting.pop()
        if s.call is None:
            raise ArgumentError(
                f"the outputs depend on the input {s.name or s!r}, which is not among the model's inputs"
            )
        if id(s.call) not in found:
            found[id(s.call)] = s.call
            waiting += [i for i in trees.flatten(s.call.inputs)[0] if id(i) not in given]
    return sorted(found.values(), key=lambda c: c.order)


def _names(layers: Sequence[Layer]) -> dict[int, str]:
    """A name in the model for every layer: its own, or one made from its class.

    Raises:
        ArgumentError: when two layers were given the same name.
    """
    taken: dict[str, Layer] = {}
    for layer in layers:
        if layer.name is not None:
            other = taken.setdefault(layer.name, layer)
            if other is not layer:
                raise ArgumentError(
                    f"two layers have the name {layer.name!r}: {other!r} and {layer!r}", hint="another name for one"
                )
            if not layer.name or "/" in layer.name:
                raise ArgumentError(f"{layer.name!r} is no name for a layer", rule="not empty, without /")
    out = {}
    for layer in layers:
        name = layer.name
        if name is None:
            base = default_name(layer)
            name, i = base, 0
            while name in taken:
                i += 1
                name = f"{base}_{i}"
            taken[name] = layer
        out[id(layer)] = name
    return out


def _distinct(names: Sequence[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        i, unique = 0, name
        while unique in out:
            i += 1
            unique = f"{name}_{i}"
        out.append(unique)
    return out
