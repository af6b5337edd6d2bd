"""The arguments of a traced function: what may be one, its type, and how those of a call are sorted."""

from __future__ import annotations

import copy
import inspect
import operator
import re
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from dala_defn import dtypes, ops, trees
from dala_defn.annotations import KINDS, Shaped, bind_sizes, parse_sizes
from dala_defn.array import Array
from dala_defn.captures import exact, weak
from dala_defn.errors import ArgumentError, ArgumentTypeError, DalaError, DTypeError, EscapedTracerError, ShapeError
from dala_defn.ir import Type
from dala_defn.plans import Writer
from dala_defn.shapes import DimExpr, Range
from dala_defn.trace import Tracer, explain


class TensorSpec:
    """The shape and dtype of an array that is not there; sizes may be names or expressions such as ``"2*b"``."""

    __slots__ = ("bounds", "dtype", "name", "shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str = "") -> None:
        self.shape, self.bounds = parse_sizes(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @property
    def type(self) -> Type:
        """As a type of the IR."""
        return Type(self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"spec({self.type})"


def spec(shape: Any, dtype: Any = dtypes.float32, name: str = "") -> TensorSpec:
    """Stands for an array of this shape and dtype in ``lower``, ``compile`` and ``export``.

    Args:
        shape: sizes: numbers, names or expressions; or all of them as text, apart by blanks. ``b>=1``, ``b<=64`` and
            ``1<=b<=64`` bound a name; a file keeps the bounds.

    Example:
        >>> dd.spec("1<=b<=64 784")
        spec(f32[b, 784])
        >>> dd.spec(("b", 784), dd.float32)
        spec(f32[b, 784])
    """
    return TensorSpec(shape, dtype, name)


def spec_of(tree: Any) -> Any:
    """A spec for every array and number of a tree: its shape and dtype without the numbers.

    Raises:
        ArgumentTypeError: for a leaf that is no array.

    Example:
        >>> dd.spec_of({"x": dd.ones((2, 3)), "n": 1})
        {'n': spec(i32[]), 'x': spec(f32[2, 3])}
    """

    def one(x: Any) -> TensorSpec:
        t = type_of(x, "")[0]
        return TensorSpec(t.shape, t.dtype)

    return trees.map_tree(one, tree)


def is_compatible(specs: Any, tree: Any) -> bool:
    """Whether a tree of arrays fits a tree of specs: structure, dtypes and sizes, as a function of these would ask.

    A name stands for one size everywhere, within its bounds.

    Raises:
        ArgumentTypeError: for a leaf that is no array.

    Example:
        >>> s = (dd.spec("b 3"), dd.spec("b"))
        >>> dd.is_compatible(s, (dd.ones((2, 3)), dd.ones(2))), dd.is_compatible(s, (dd.ones((2, 3)), dd.ones(4)))
        (True, False)
    """
    wanted, form = trees.flatten(specs)
    given, other = trees.flatten(tree)
    types = [type_of(x, "")[0] for x in given]
    held = [w if isinstance(w, TensorSpec) else spec_of(w) for w in wanted]
    if form != other or any(w.dtype is not t.dtype for w, t in zip(held, types, strict=True)):
        return False
    bounds = {name: span for w in held for name, span in w.bounds.items()}
    try:
        bind_sizes([("", w) for w in held], [t.shape for t in types], bounds)
    except ShapeError:
        return False
    return True


def escaped(x: Tracer) -> DalaError:
    """The error for a value of a trace that has ended."""
    return explain(
        EscapedTracerError(
            "a traced value is used after its trace has ended", hint="return the value instead of storing it"
        ),
        (x,),
    )


def type_of(x: Any, path: str) -> tuple[Type, str | None]:
    """The type of an argument's leaf, and its kind when it is a Python number (weak).

    Raises:
        ArgumentTypeError: when it is no array.
    """
    if isinstance(x, Tracer) and ops.current_trace() is None:
        raise escaped(x)
    if isinstance(x, (Array, Tracer)):
        return Type(x.dtype, tuple(x.shape)), x.weak if isinstance(x, Tracer) else None
    if isinstance(x, (np.ndarray, np.generic)):
        return Type(dtypes.of_numpy(x), np.shape(x)), None
    if isinstance(x, TensorSpec):
        return x.type, None
    kind = dtypes.weak_kind(x)
    if kind is not None:
        return Type(dtypes.promote_weak(None, kind), ()), kind
    raise ArgumentTypeError(
        f"argument {path} is a {type(x).__name__}, which is no array",
        hint=f"@defn(static_argnames=({path.split('/')[0]!r},)) for a value that is part of the program",
    )


def as_operand(x: Any, t: Type) -> Any:
    """A leaf as the executor takes it: Python numbers become arrays of rank 0."""
    return dtypes.scalar_array(x, t.dtype) if dtypes.weak_kind(x) is not None else x


SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_KIND = re.compile(rf"\b({'|'.join([*KINDS, 'Array'])})\s*\[")


def _shaped(annotation: Any, f: Any, name: str) -> Shaped | None:
    """What an annotation says of sizes; as text it is read when it looks as if it did."""
    if isinstance(annotation, str):
        if f is None or not _KIND.search(annotation):
            return None
        cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        try:
            annotation = eval(annotation, f.__globals__, {n: c.cell_contents for n, c in cells})
        except DalaError:
            raise
        except Exception as error:
            raise ArgumentError(f"the annotation of {name} cannot be read: {annotation}: {error}") from None
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = next((x for x in typing.get_args(annotation)[1:] if isinstance(x, Shaped)), None)
    return annotation if isinstance(annotation, Shaped) else None


class Bound:
    """The arguments of a call, sorted into traced leaves and static values.

    Attributes:
        defaults: those that were left to their defaults, where these are ``settled``: part of the program.
    """

    __slots__ = (
        "bounds",
        "defaults",
        "donate",
        "dynamic",
        "key",
        "leaves",
        "names",
        "sizes",
        "statics",
        "tree",
        "types",
        "weak",
    )

    def __init__(
        self, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any], settled: bool = False
    ) -> None:
        arguments.refresh()
        try:
            given = arguments.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(f"{arguments.function}{arguments.signature}: {error}") from None
        present = set(given.arguments)
        given.apply_defaults()
        dynamic: dict[str, Any] = {}
        self.statics: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        for name, x in given.arguments.items():
            if name in arguments.static:
                self.statics[name] = x
            elif settled and name not in present and arguments.signature.parameters[name].kind not in SEVERAL:
                self.defaults[name] = x
            else:
                dynamic[name] = x
        # In the order of the signature: a dict would be sorted by name, and leaves would not be in the call's order.
        self.dynamic = tuple(dynamic)
        values = tuple(dynamic.values())
        paths = [(self.dynamic[path[0]], *path[1:]) for path, _ in trees.flatten_with_paths(values)]
        self.names = [trees.show_path(path) for path in paths]
        self.leaves, self.tree = trees.flatten(values)
        self.donate = [path[0] in arguments.donate for path in paths]
        for name, x in self.statics.items():
            try:
                hash(x)
            except TypeError:
                raise ArgumentTypeError(
                    f"static argument {name} is not hashable: {type(x).__name__}", hint="a tuple for a list"
                ) from None
        types = [type_of(x, n) for x, n in zip(self.leaves, self.names, strict=True)]
        self.bounds: dict[str, Range] = {}  # of the names of sizes
        self.sizes: dict[str, Any] = {}  # what the names in annotations are in this call
        for x in self.leaves:
            if isinstance(x, TensorSpec):
                self.bounds.update(x.bounds)
        if arguments.annotated:
            types = self._annotated(arguments, types, [path[0] for path in paths])
        self.types = [t for t, _ in types]
        self.weak = [kind for _, kind in types]
        statics = tuple((k, exact(v)) for k, v in self.statics.items())
        self.key = (self.dynamic, self.tree, tuple(types), statics)

    def _annotated(
        self, arguments: Arguments, types: list[tuple[Type, str | None]], roots: Sequence[Any]
    ) -> list[tuple[Type, str | None]]:
        """The types with sizes by name, where arguments have such annotations; checks these."""
        wanted = [arguments.annotated.get(root) for root in roots]
        pairs, given, out = [], [], list(types)
        for i, (w, root) in enumerate(zip(wanted, roots, strict=True)):
            if w is None:
                continue
            t, kind = types[i]
            if "/" in self.names[i] and arguments.signature.parameters[root].kind not in SEVERAL:
                raise ArgumentTypeError(f"argument {root} is annotated as {w}, and holds more than one array")
            if kind is not None and w.dtype is not None:
                t = Type(dtypes.promote_weak(w.dtype, kind), t.shape)
            if w.dtype is not None and t.dtype is not w.dtype:
                raise DTypeError(
                    f"argument {self.names[i]} is {types[i][0]}, annotated as {w}", hint=f"x.astype(dd.{w.dtype})"
                )
            pairs.append((self.names[i], w))
            given.append(t.shape)
            self.bounds.update(w.bounds)
            out[i] = (t, None if w.dtype is not None else kind)
        self.sizes = bind_sizes(pairs, given, self.bounds)
        # Inside a trace, and for specs, sizes are what the others have; else one trace is for all sizes.
        if ops.current_trace() is None and not any(isinstance(d, DimExpr) for t, _ in types for d in t.shape):
            for i, w in enumerate(wanted):
                if w is not None:
                    out[i] = (Type(out[i][0].dtype, w.shape), out[i][1])
        return out


class Arguments:
    """The arguments that a function takes, and which of them are static or donated.

    Raises:
        ArgumentError: when ``static`` or ``donate`` names none of them.
    """

    def __init__(self, f: Callable[..., Any], function: str, static: Iterable[str], donate: Iterable[str]) -> None:
        self.function = function
        self.signature = inspect.signature(f)
        code: Any = getattr(f, "__func__", f)
        self._function = weak(code if isinstance(code, FunctionType) else None)
        self._defaults = self._now()
        self._version = 0
        self._read: dict[str, Shaped] | None = None
        self.static = frozenset(static)
        self.donate = frozenset(donate)
        for name in self.static | self.donate:
            if name not in self.signature.parameters:
                raise ArgumentError(f"{function} has no argument {name!r}")

    @property
    def annotated(self) -> dict[str, Shaped]:
        """The arguments whose annotations say sizes and dtypes.

        Raises:
            ArgumentError: for an annotation of this kind that cannot be read.
        """
        if self._read is None:
            f = self._function()
            found = {n: _shaped(p.annotation, f, n) for n, p in self.signature.parameters.items()}
            self._read = {n: w for n, w in found.items() if w is not None}
        return self._read

    def specs(self) -> dict[str, Any]:
        """A spec for every argument that an annotation describes in full."""
        return {n: TensorSpec(w.shape, w.dtype) for n, w in self.annotated.items() if w.dtype is not None}

    def _now(self) -> tuple[Any, ...]:
        f = self._function()
        keywords = getattr(f, "__kwdefaults__", None) or {}
        return getattr(f, "__defaults__", None), *keywords.values()

    def refresh(self) -> int:
        """Reads the defaults again when they have changed; gives how often they have."""
        now = self._now()
        if len(now) != len(self._defaults) or not all(map(operator.is_, now, self._defaults)):
            f = self._function()
            positional = f.__code__.co_varnames[: f.__code__.co_argcount]
            values = dict(zip(reversed(positional), reversed(f.__defaults__ or ()), strict=False))
            values |= f.__kwdefaults__ or {}
            parameters = [
                p if p.kind in SEVERAL else p.replace(default=values.get(name, p.empty))
                for name, p in self.signature.parameters.items()
            ]
            self.signature = self.signature.replace(parameters=parameters)
            self._defaults = now
            self._version += 1
        return self._version

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], settled: bool = False) -> Bound:
        """Sorts the arguments of a call; ``settled``: those left to their defaults are part of the program.

        Raises:
            ArgumentTypeError: when they do not fit the signature, or one is no array.
        """
        return Bound(self, args, kwargs, settled)

    def without(self, names: Iterable[str]) -> Arguments:
        """The arguments that are left when these are settled."""
        gone = set(names)
        left = copy.copy(self)
        parameters = [p for n, p in self.signature.parameters.items() if n not in gone]
        left.signature = self.signature.replace(parameters=parameters)
        left.static = self.static - gone
        return left

    def take(self, writer: Writer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Writes how the leaves and static values of calls like this one are found, in the order of ``bind``."""
        positions = [f"args[{i}]" for i in range(len(args))]
        names = {k: f"kwargs[{k!r}]" for k in kwargs}
        where = self.signature.bind(*positions, **names).arguments
        given = self.signature.bind(*args, **kwargs)
        given.apply_defaults()
        for name, x in given.arguments.items():
            kind = self.signature.parameters[name].kind
            expression = where.get(name)
            if expression is None:  # a default
                expression = writer.name(x)
                writer.require(f"{writer.name(self.refresh)}() == {self._version}")
            if kind is inspect.Parameter.VAR_POSITIONAL:
                expression = f"({''.join(f'{e}, ' for e in where.get(name, ()))})"
            elif kind is inspect.Parameter.VAR_KEYWORD:
                expression = f"{{{', '.join(f'{k!r}: {e}' for k, e in where.get(name, {}).items())}}}"
            if name in self.static:
                writer.static(expression, x)
            else:
                writer.tree(expression, x)

    def apply(self, f: Callable[..., Any], bound: Bound, leaves: Sequence[Any]) -> Any:
        """``f`` applied to these leaves in the place of the call's."""
        dynamic = zip(bound.dynamic, trees.unflatten(bound.tree, leaves), strict=True)
        given = {**dict(dynamic), **bound.statics, **bound.defaults}
        ordered = inspect.BoundArguments(
            self.signature, OrderedDict((k, given[k]) for k in self.signature.parameters if k in given)
        )
        return f(*ordered.args, **ordered.kwargs)
