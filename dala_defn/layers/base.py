"""The base of layers: pure ``build`` and ``call`` underneath, Keras's surface on top.

A layer's own code never sees a model, a trace or the arrays that a model holds; it maps a key to parameters, and
parameters and an input to an output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from dala_defn import dtypes, ops, random, trees
from dala_defn.arguments import TensorSpec
from dala_defn.array import Array
from dala_defn.captures import watch
from dala_defn.defn import defn
from dala_defn.errors import ArgumentError, ArgumentTypeError, DalaError, Operand, ShapeError
from dala_defn.executors import executor
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Type
from dala_defn.layers.symbols import Symbol, record
from dala_defn.sources import Place, here
from dala_defn.trace import layer_path, name_scope, prepared, trace_function

Path = tuple[str, ...]
R = TypeVar("R")


class Variable:
    """An array that changes: a parameter, a layer's state, or a part of an optimizer's state."""

    __slots__ = ("__weakref__", "type", "value")

    def __init__(self, value: Array) -> None:
        self.value = value
        self.type = Type(value.dtype, value.shape)

    def shared(self) -> Array:
        """The array, in a handle that later training steps leave as it is."""
        return executor().share(self.value)

    def assign(self, x: Any) -> None:
        """Puts a copy of ``x`` in the array's place.

        Raises:
            ShapeError, ArgumentTypeError: when it has another shape, or a dtype that would have to be narrowed.
        """
        self.value = executor().place(self.checked(x), self.type.dtype)

    def checked(self, x: Any) -> Any:
        """``x`` as a NumPy array of this dtype, when it fits."""
        given = value(x)
        if tuple(given.shape) != self.type.shape:
            raise ShapeError(f"{Type(dtype_of(given), tuple(given.shape))} does not fit {self.type}")
        if dtypes.promote_types(dtype_of(given), self.type.dtype) is not self.type.dtype:
            wide = dtype_of(given).is_float and self.type.dtype.is_float
            if not wide:
                raise ArgumentTypeError(f"{dtype_of(given)} does not fit {self.type}")
        host = given.numpy() if isinstance(given, Array) else given
        return host.astype(self.type.dtype.dtype)


def pairs_of(tree: Any, what: str) -> list[tuple[Path, Any]]:
    """The leaves of nested dicts with their paths, in the order in which they were put in.

    Raises:
        ArgumentTypeError: when there is anything else than dicts.
    """
    out: list[tuple[Path, Any]] = []

    def walk(at: Any, path: Path) -> None:
        if isinstance(at, Mapping):
            for name, child in at.items():
                walk(child, (*path, str(name)))
        elif path and (hasattr(at, "dtype") or dtypes.weak_kind(at) is not None):
            out.append((path, at))
        else:
            raise ArgumentTypeError(f"{what} gives a {type(at).__name__}", rule="a dict of arrays, or of such dicts")

    walk(tree, ())
    return out


def nest(pairs: Sequence[tuple[Path, Any]]) -> dict[str, Any]:
    """Nested dicts from leaves with their paths."""
    out: dict[str, Any] = {}
    for path, leaf in pairs:
        at = out
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = leaf
    return out


class _Held:
    """What a layer keeps beside its fields; not fields themselves."""

    _made: Place | None
    _paths: tuple[list[Path], list[Path]] | None
    _types: tuple[list[Type], list[Type]]
    _spec: Any
    _variables: tuple[list[Variable], list[Variable]] | None


@dataclass(eq=False, repr=False)
class Layer(_Held):
    """A piece of a model: fields, a ``build`` and a ``call``.

    Args:
        name: of the layer in its model; by default the class's name in lower case, made unique.
        trainable: whether training changes its parameters.

    Example:
        >>> class Scale(dd.layers.Layer):
        ...     def build(self, key, spec):
        ...         return {"scale": dd.ones(spec.shape[-1])}
        ...     def call(self, params, state, x, *, key=None, training=False):
        ...         return x * params["scale"], state
        >>> Scale()(dd.array([[1.0, 2.0]]))
        array([[1., 2.]], dtype=float32)
    """

    name: str | None = field(default=None, kw_only=True)
    trainable: bool = field(default=True, kw_only=True)

    def __new__(cls, *args: Any, **kwargs: Any) -> Layer:
        """Notes where the layer is made, also for subclasses with an ``__init__`` of their own."""
        self = super().__new__(cls)
        self._made = here()
        self._paths = None
        self._types = ([], [])
        self._spec = None
        self._variables = None
        return self

    def build(self, key: Any, spec: Any) -> dict[str, Any]:
        """The first parameters, for inputs like ``spec`` (with ``shape`` and ``dtype``; a tree of them for several).

        Pure; a dict of arrays, or of such dicts.
        """
        return {}

    def build_state(self, spec: Any) -> dict[str, Any]:
        """What a layer keeps besides parameters, before the first call; like ``build``."""
        return {}

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The output and the new state. Pure; ``key`` is given while training."""
        raise NotImplementedError(f"{type(self).__name__} has no call")

    def __repr__(self) -> str:
        given = [(f.name, getattr(self, f.name), f.default) for f in fields(self) if f.name != "name"]
        shown = ", ".join(f"{n}={x!r}" for n, x, default in given if x is not default and x != default)
        return f"{type(self).__name__}({shown})"

    def relied_on(self) -> tuple[str, ...]:
        """The attributes that what calls the layer is made of: when one changes, it is traced again."""
        return tuple([f.name for f in fields(self)])

    # What follows keeps a layer's arrays for those who do not want to.

    @property
    def built(self) -> bool:
        """Whether the layer holds parameters."""
        return self._variables is not None

    def leaves(self, path: Path = (), trainable: bool = True) -> Iterator[tuple[Path, Layer, bool]]:
        """The layers that hold parameters themselves (this one, or those of a model), with their paths.

        The third part says whether training changes them.
        """
        yield path, self, trainable and self.trainable

    def prepare(self, spec: Any) -> None:
        """Works out the types of parameters and state without computing any."""
        if self._paths is not None:
            return
        paths: list[list[Path]] = []

        def body(key: Any) -> list[Any]:
            built = [pairs_of(self.build(key, spec), f"{type(self).__name__}.build")]
            built.append(pairs_of(self.build_state(spec), f"{type(self).__name__}.build_state"))
            paths.extend([p for p, _ in pairs] for pairs in built)
            twice = set(paths[0]) & set(paths[1])
            if twice:
                raise ArgumentError(f"{self!r} has a parameter and a state of one name: {sorted(twice)}")
            return [value(x) for pairs in built for _, x in pairs]

        graph, _ = trace_function(body, [Type(dtypes.key, ())], f"{type(self).__name__}.build")
        types = [v.type for v in graph.outputs]
        self._types = (types[: len(paths[0])], types[len(paths[0]) :])
        self._paths = (paths[0], paths[1])
        self._spec = spec

    def output_spec(self, spec: Any) -> Any:
        """What ``call`` gives for inputs like ``spec``: the same shape rules, without numbers.

        Raises:
            ShapeError, DTypeError: when the layer does not take such inputs.
        """
        self.prepare(spec)
        leaves, tree = trees.flatten(spec)
        weights = [list(leaf._types) for _, leaf, _ in self.leaves()]
        types = [t for pair in weights for group in pair for t in group] + [s.type for s in leaves]
        names = ["/".join(p) for _, leaf, _ in self.leaves() for group in leaf._paths or () for p in group]
        names += ["x"] if len(leaves) == 1 else [f"x[{i}]" for i in range(len(leaves))]
        out: list[trees.Tree] = []

        def body(*xs: Any) -> list[Any]:
            rest = iter(xs)
            values = {
                id(leaf): ([next(rest) for _ in pair[0]], [next(rest) for _ in pair[1]])
                for pair, (_, leaf, _) in zip(weights, self.leaves(), strict=True)
            }
            params, state = self.assemble(values)
            y, _ = self.call(params, state, trees.unflatten(tree, list(rest)))
            flat, shape = trees.flatten(y)
            out.append(shape)
            return flat

        graph, _ = trace_function(body, types, type(self).__name__, names)
        return trees.unflatten(out[0], [TensorSpec(v.type.shape, v.type.dtype) for v in graph.outputs])

    def assemble(self, values: Mapping[int, tuple[Sequence[Any], Sequence[Any]]]) -> tuple[Any, Any]:
        """The trees of parameters and state from the values of every leaf layer, by its id."""
        params, state = values[id(self)]
        paths = self._paths or ([], [])
        return nest(list(zip(paths[0], params, strict=True))), nest(list(zip(paths[1], state, strict=True)))

    def variables(self, seed: int = 0) -> dict[int, tuple[list[Variable], list[Variable]]]:
        """The variables of every leaf layer by its id; made by the first call, all in one run.

        Raises:
            ArgumentError: when the layer's input is not known yet.
        """
        unique = list({id(leaf): leaf for _, leaf, _ in self.leaves()}.values())
        missing = [(i, leaf) for i, leaf in enumerate(unique) if leaf._variables is None]
        for _, leaf in missing:
            if leaf._paths is None:
                raise ArgumentError(
                    f"{leaf!r} has no parameters yet, as the shape of its input is not known",
                    hint="dd.Input((...)) as the first layer, or a call with data",
                )
        if missing:
            arrays = _initialize(missing, seed)
            for _, leaf in missing:
                made = [Variable(next(arrays)) for group in leaf._types for _ in group]
                count = len(leaf._types[0])
                leaf._variables = (made[:count], made[count:])
        return {id(leaf): leaf._variables for leaf in unique if leaf._variables is not None}

    def _trees(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.assemble({k: ([v.shared() for v in p], [v.shared() for v in s]) for k, (p, s) in self._all()})

    def _all(self) -> Any:
        return self.variables(getattr(self, "seed", 0)).items()

    @property
    def params(self) -> dict[str, Any]:
        """The parameters as nested dicts of arrays; further training does not change these arrays."""
        return self._trees()[0]

    @property
    def state(self) -> dict[str, Any]:
        """The state that is not trained, as nested dicts of arrays."""
        return self._trees()[1]

    def get_weights(self) -> list[Any]:
        """NumPy copies of parameters and state, layer by layer in the order in which they were built.

        Example:
            >>> dense = dd.layers.Dense(3)
            >>> y = dense(dd.ones((1, 2)))
            >>> [w.shape for w in dense.get_weights()]
            [(2, 3), (3,)]
        """
        return [v.value.numpy().copy() for _, groups in self._all() for group in groups for v in group]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Puts arrays in the place of those that ``get_weights`` gives; all of them or, when one does not fit, none.

        Raises:
            ArgumentError: for another number of arrays. ShapeError, ArgumentTypeError: for one that does not fit.
        """
        own = [v for _, groups in self._all() for group in groups for v in group]
        if len(own) != len(weights):
            raise ArgumentError(f"{len(weights)} arrays for {len(own)} weights")
        checked = [v.checked(x) for v, x in zip(own, weights, strict=True)]
        for v, x in zip(own, checked, strict=True):
            v.assign(x)

    def count_params(self) -> int:
        """The number of elements of all parameters and state; shared ones count once."""
        unique = {id(leaf): leaf for _, leaf, _ in self.leaves()}.values()
        total = 0
        for leaf in unique:
            for group in leaf._types:
                for t in group:
                    count = 1
                    for d in t.shape:
                        count *= int(d)
                    total += count
        return total

    def __call__(self, x: Any, *, key: Any = None, training: bool = False) -> Any:
        """Applies the layer: to symbols (of ``Input``) it builds a model, to arrays it computes.

        Parameters are made by the first call. A new state is kept only when called outside traces with
        ``training=True``.

        Raises:
            ShapeError, DTypeError: when the input does not fit, naming the layer and the line.
        """
        leaves, tree = trees.flatten(x)
        if any(isinstance(leaf, Symbol) for leaf in leaves):
            return record(self, x, lambda spec: blamed(self, self.name, lambda: self.output_spec(spec)))
        x = trees.unflatten(tree, [value(leaf) for leaf in leaves])
        spec = trees.map_tree(lambda leaf: TensorSpec(tuple(leaf.shape), dtype_of(leaf)), x)
        blamed(self, self.name, lambda: self.prepare(spec))
        held = self.variables(getattr(self, "seed", 0))
        values = {k: ([watched(v) for v in p], [watched(v) for v in s]) for k, (p, s) in held.items()}
        params, state = self.assemble(values)
        y, new = applied(self, self.name or default_name(self), params, state, x, key, training)
        if training and ops.current_trace() is None:
            for groups, after in zip(held.values(), self.disassemble(new), strict=True):
                for v, s in zip(groups[1], after, strict=True):
                    v.assign(s)
        return y

    def disassemble(self, state: Any) -> list[list[Any]]:
        """The state's arrays by leaf layer: the other way of ``assemble``."""
        out: dict[int, list[Any]] = {}
        for path, leaf, _ in self.leaves():
            at = state
            for name in path:
                at = at.get(name, {})
            out.setdefault(id(leaf), [_at(at, p) for p in (leaf._paths or ([], []))[1]])
        return list(out.values())


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def watched(v: Variable) -> Any:
    """A variable's array; a trace that captures it reads the variable again at each call."""
    if ops.current_trace() is not None:
        watch(v.value, v)
    return v.value


def _initialize(missing: list[tuple[int, Layer]], seed: int) -> Iterator[Array]:
    def init(key: Any) -> list[Any]:
        out = []
        for i, leaf in missing:
            k = random.fold_in(key, i)
            built = pairs_of(leaf.build(k, leaf._spec), "build") + pairs_of(leaf.build_state(leaf._spec), "build_state")
            out += [value(x) for _, x in built]
        return out

    return iter(defn(init)(random.key(seed)))


def default_name(layer: Layer) -> str:
    """The class's name in snake case: ``MaxPooling2D`` -> ``max_pooling2d``."""
    out = ""
    name = type(layer).__name__
    for i, c in enumerate(name):
        out += "_" + c if i and c.isupper() and not name[i - 1].isupper() and not name[i - 1].isdigit() else c
    return out.lower().lstrip("_")


def blamed(layer: Layer, name: str | None, run: Callable[[], R]) -> R:
    """Runs; an error of ours then also says which layer it happened in, and where that was made."""
    try:
        return run()
    except DalaError as error:
        if "layer" not in error.details:
            shown = name or default_name(layer)
            error.details["layer"] = "/".join([*filter(None, [layer_path()]), shown])
            made = f"made at {layer._made.resolve().short()}" if layer._made is not None else ""
            error.operands = (*error.operands, Operand("layer", f"{shown} = {layer!r}", made))
            if error.location is not None and not error.location.path:
                error.location = replace(error.location, path=error.details["layer"])
        raise


def applied(
    layer: Layer, name: str, params: Any, state: Any, x: Any, key: Any, training: bool
) -> tuple[Any, dict[str, Any]]:
    """One call of a layer, marked with its name.

    Raises:
        ArgumentTypeError: when ``call`` does not return a pair.
    """

    def run() -> tuple[Any, dict[str, Any]]:
        with name_scope(name):
            out = prepared(layer.call)(params, state, x, key=key, training=training)
        if not isinstance(out, tuple) or len(out) != 2 or not isinstance(out[1], Mapping):
            raise ArgumentTypeError(
                f"{type(layer).__name__}.call returns a {type(out).__name__}", rule="call gives (output, state)"
            )
        return out[0], dict(out[1])

    return blamed(layer, name, run)
