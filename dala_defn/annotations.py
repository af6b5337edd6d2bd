"""Sizes by name, as text: ``"b 784"``; and annotations such as ``Float32["b 784"]`` that arguments are held against."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.shapes import (
    Condition,
    Dim,
    DimExpr,
    Range,
    Shape,
    as_shape,
    evaluate,
    may,
    names_of,
    parse_dim,
    same_size,
    show,
)

_BOUND = re.compile(r"(?:(\d+)\s*<=\s*)?([A-Za-z_]\w*)(?:\s*(<=|>=)\s*(\d+))?", re.ASCII)


def parse_sizes(value: Any) -> tuple[Shape, dict[str, Range]]:
    """A shape from text (sizes apart by blanks) or as ``as_shape`` takes it, and the bounds of its names.

    In text, and in names in a sequence, ``b>=2``, ``b<=64`` and ``2<=b<=64`` bound a name.

    Raises:
        ShapeError: for what is no shape.
    """
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        return as_shape(items), {}
    bounds: dict[str, Range] = {}
    out: list[Any] = []
    for item in items:
        found = _BOUND.fullmatch(item.strip()) if isinstance(item, str) else None
        if found is not None:
            low, name, sign, limit = found.groups()
            first, last = bounds.get(name, (0, None))
            if low is not None or sign == ">=":
                first = max(first or 0, int(low or 0), int(limit) if sign == ">=" else 0)
            if sign == "<=":
                last = int(limit) if last is None else min(last, int(limit))
            if low is not None or sign is not None:
                bounds[name] = (first, last)
            if last is not None and (first or 0) > last:
                raise ShapeError(f"no size {name} is at least {first} and at most {last}")
            item = DimExpr.named(name)
        elif isinstance(item, str):
            try:
                item = parse_dim(item)
            except ShapeError:
                raise ShapeError(
                    f"{value!r} is no shape: {item!r} is no size",
                    rule='sizes are numbers, names or expressions without blanks: "b 784", "2*b+1 c>=1"',
                ) from None
        out.append(item)
    return as_shape(tuple(out)), bounds


class Shaped:
    """What an argument must be: sizes, known or by name, and a dtype (``None``: any). Made by ``Float32["b 784"]``."""

    __slots__ = ("bounds", "dtype", "shape")

    def __init__(self, shape: Any, dtype: DType | None) -> None:
        self.shape, self.bounds = parse_sizes(shape)
        self.dtype = dtype

    def __call__(self, *args: Any) -> Any:
        """Refused: ``typing`` takes only what can be called for a type."""
        raise ArgumentError(f"{self!r} is an annotation; it makes no array")

    def __repr__(self) -> str:
        return f"{self.dtype.short if self.dtype else 'array'}{_brackets(self.shape)}"


def _brackets(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


class Annotation:
    """Arrays of one dtype as a type: ``dd.Float32["b 784"]`` annotates an argument of a ``@defn``.

    A function whose arguments name their sizes is traced once for all sizes. Arguments are held against their
    annotations at each call; a name stands for one size in all of them. Type checkers take
    ``Annotated[dd.Array, dd.Float32["b 784"]]``, mypy with the plugin ``dala_defn.mypy_plugin`` the short form too.

    Example:
        >>> @dd.defn
        ... def mean(x: dd.Float32["n>=1"]):
        ...     return dd.sum(x) / x.shape[0]
        >>> mean(dd.array([1.0, 2.0])), mean(dd.array([4.0])), mean.traces
        (array(1.5, dtype=float32), array(4., dtype=float32), 1)
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __getitem__(self, shape: Any) -> Shaped:
        return Shaped(shape, self.dtype)

    def __call__(self, *args: Any) -> Any:
        """Refused: it makes no array."""
        raise ArgumentError(f"{self!r} is an annotation; it makes no array", hint=f"dd.array(x, dd.{self.dtype})")

    def __repr__(self) -> str:
        return f"dd.{self.dtype.name.title().replace('_', '').replace('float', 'Float')}"


Bool, Int8, Int16, Int32, Int64 = map(Annotation, (dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64))
UInt8, UInt16, UInt32, UInt64 = map(Annotation, (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64))
Float16, BFloat16, Float32, Float64 = map(Annotation, (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64))
Complex64, Complex128 = map(Annotation, (dtypes.complex64, dtypes.complex128))

KINDS = {
    "Bool": Bool, "Int8": Int8, "Int16": Int16, "Int32": Int32, "Int64": Int64,
    "UInt8": UInt8, "UInt16": UInt16, "UInt32": UInt32, "UInt64": UInt64,
    "Float16": Float16, "BFloat16": BFloat16, "Float32": Float32, "Float64": Float64,
    "Complex64": Complex64, "Complex128": Complex128,
}  # fmt: skip


def bind_sizes(
    wanted: Sequence[tuple[str, Any]], shapes: Sequence[Shape], bounds: Mapping[str, Range]
) -> dict[str, Dim]:
    """The sizes of names, from the shapes of arguments; ``wanted`` has the name and the shaped thing of each.

    Raises:
        ShapeError: for the first that does not fit, naming it, both shapes and the size.
    """
    sizes: dict[str, Dim] = {}
    first: dict[str, str] = {}
    for (argument, w), shape in zip(wanted, shapes, strict=True):
        if len(shape) != len(w.shape):
            raise _unfit(argument, w, shape, f"{len(w.shape)} axes, not {len(shape)}")
        for axis, (d, n) in enumerate(zip(w.shape, shape, strict=True)):
            name = d.as_name() if isinstance(d, DimExpr) else None
            if name is not None and name not in sizes:
                sizes[name] = n
                first[name] = f"axis {axis} of {argument}"
    for (argument, w), shape in zip(wanted, shapes, strict=True):
        for axis, (d, n) in enumerate(zip(w.shape, shape, strict=True)):
            missing = names_of([d]) - set(sizes)
            if missing:
                raise ShapeError(
                    f"the size {d} of argument {argument} has {min(missing)}, which is the size of no axis",
                    hint=f"an argument with an axis that is {min(missing)} alone",
                )
            is_symbolic = any(isinstance(sizes[m], DimExpr) for m in names_of([d]))
            have: Any = _substituted(d, sizes) if is_symbolic else evaluate(d, sizes)  # type: ignore[arg-type]
            if not same_size(have, n, f"argument {argument}"):
                known = "" if isinstance(d, int) else f", where {_told(d, sizes, first)}"
                raise _unfit(argument, w, shape, f"axis {axis} is {d}{f' = {have}' if known else ''}, not {n}{known}")
    for name, (low, high) in bounds.items():
        n = sizes.get(name, low or 0)
        below = not may(Condition(n, ">=", low or 0), name)
        if below or (high is not None and not may(Condition(n, "<=", high), name)):
            top = f"at least {low}" if below else f"at most {high}"
            raise ShapeError(
                f"the size {name} is {n} ({first[name]}), and must be {top}",
                details={"size": name, "value": n, "low": low, "high": high},
            )
    return sizes


def _told(d: Dim, sizes: Mapping[str, Dim], first: Mapping[str, str]) -> str:
    return " and ".join(f"{n} = {sizes[n]} by {first[n]}" for n in sorted(names_of([d])))


def _unfit(argument: str, w: Any, shape: Shape, why: str) -> ShapeError:
    return ShapeError(
        f"argument {argument} has the shape {show(shape)}, not {show(w.shape)}: {why}",
        rule="a name stands for one size in all arguments of a call",
        details={"argument": argument, "given": list(map(str, shape)), "wanted": list(map(str, w.shape))},
    )


def _substituted(d: Dim, sizes: Mapping[str, Dim]) -> Dim:
    return d.substitute(sizes) if isinstance(d, DimExpr) else d
