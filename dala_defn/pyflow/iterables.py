"""What a ``for`` statement runs over when it is traced: the rows of arrays, or a range with traced bounds."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dala_defn import dtypes, ops
from dala_defn.errors import ArgumentTypeError, ShapeError
from dala_defn.functions.base import convert, dtype_of, is_value, value
from dala_defn.ops.spec import OPS
from dala_defn.pyflow.values import traced, type_of
from dala_defn.shapes import Dim


@dataclass(frozen=True)
class Rows:
    """Arrays with one first size, and how their rows make an element."""

    arrays: tuple[Any, ...]
    count: Dim
    element: Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Range:
    """``range`` with traced bounds: int scalars of one dtype."""

    start: Any
    step: Any
    count: Any

    def item(self, k: Any) -> Any:
        """The element number ``k``."""
        return OPS["add"](self.start, OPS["mul"](k, self.step))


def rows_of(x: Any) -> Any:
    """What a loop over ``x`` runs over: an iterator, or rows to scan.

    Raises:
        ArgumentTypeError: for an array of rank 0.
    """
    if isinstance(x, (Rows, Range)):
        return x
    return _rows(x) if traced(x) else iter(x)


def _rows(x: Any) -> Rows:
    if not x.shape:
        raise ArgumentTypeError(
            f"a loop over {type_of(x)}, which has no axis", hint="for i in range(x) if it is a number of turns"
        )
    return Rows((x,), x.shape[0], lambda row: row[0])


def _scalar(x: Any) -> Any:
    x = value(x)
    if tuple(x.shape) != () or dtype_of(x).kind not in "iu":
        raise ArgumentTypeError(f"range: {type_of(x)} is no integer", hint="x.astype(dd.int32)")
    return x


def ranged(*args: Any) -> Any:
    """``range``, of traced values too."""
    if not any(traced(x) for x in args):
        return range(*args)
    start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
    dtype = dtypes.result_type(*[x if not is_value(x) else _scalar(x) for x in (start, stop, step)])
    start, stop, step = (convert(_scalar(x), dtype) for x in (start, stop, step))
    # Rounded up: minus the floor of minus the quotient.
    count = OPS["neg"](OPS["floor_divide"](OPS["sub"](start, stop), step))
    return Range(start, step, count)


def enumerated(x: Any, start: Any = 0) -> Any:
    """``enumerate``, of traced arrays too."""
    rows = rows_of(x) if traced(x) or isinstance(x, (Rows, Range)) else None
    if not isinstance(rows, Rows):
        if isinstance(rows, Range):
            raise ArgumentTypeError("enumerate of a range with traced bounds", hint="two variables of your own")
        return enumerate(x, start)
    index = OPS["iota"](shape=(rows.count,), axis=0, dtype=dtypes.int32)
    index = OPS["add"](index, convert(value(start), dtypes.int32))
    inner = rows.element

    def element(row: Sequence[Any]) -> Any:
        number = row[0]
        number.weak = "i"
        return number, inner(row[1:])

    return Rows((index, *rows.arrays), rows.count, element)


def zipped(*args: Any, strict: bool = False) -> Any:
    """``zip``, of traced arrays too: with them only arrays, lists of numbers and ranges of one length."""
    if not any(traced(x) or isinstance(x, (Rows, Range)) for x in args):
        return zip(*args, strict=strict)
    parts = []
    for x in args:
        if isinstance(x, Rows):
            parts.append(x)
        elif isinstance(x, Range):
            raise ArgumentTypeError("zip with a range that has traced bounds", hint="for i in range(...): xs[i]")
        else:
            parts.append(_rows(value(list(x) if isinstance(x, (range, tuple)) else x)))
    counts = [p.count for p in parts]
    if any(n != counts[0] for n in counts):
        if strict or not all(isinstance(n, int) for n in counts):
            raise ShapeError(
                f"zip: {', '.join(map(str, counts))} rows", rule="arrays that run together have one length"
            )
        shortest = min(n for n in counts if isinstance(n, int))
        parts = [Rows(tuple([_cut(a, shortest) for a in p.arrays]), shortest, p.element) for p in parts]

    def element(row: Sequence[Any]) -> Any:
        out, at = [], 0
        for p in parts:
            out.append(p.element(row[at : at + len(p.arrays)]))
            at += len(p.arrays)
        return tuple(out)

    return Rows(tuple([a for p in parts for a in p.arrays]), parts[0].count, element)


def _cut(x: Any, n: int) -> Any:
    rest = tuple(x.shape[1:])
    return OPS["slice"](x, start=(0, *(0,) * len(rest)), stop=(n, *rest), step=(1,) * (len(rest) + 1))


def reversed_rows(x: Any) -> Any:
    """``reversed``, of traced arrays and ranges too."""
    if isinstance(x, Range):
        last = OPS["sub"](x.count, ops.lit(1, dtype_of(x.count)))
        return Range(x.item(last), OPS["neg"](x.step), x.count)
    if isinstance(x, Rows) or traced(x):
        rows = rows_of(x)
        return Rows(tuple([OPS["flip"](a, axes=(0,)) for a in rows.arrays]), rows.count, rows.element)
    return builtins.reversed(x)
