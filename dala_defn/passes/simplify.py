"""Local simplification. Every rule is exact for every operand: NaN, infinities, signed zeros and wrapping included.

That is why many well-known ones are absent: ``x * 0``, ``x - x``, ``x / x``, ``x + 0.0`` (which turns -0.0 into 0.0),
``(x + c) - c``, and any rule that adds up in another order. The one exception is stated beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dala_defn.dtypes import DType, bfloat16, bool_, float16, float32, float64, real_of
from dala_defn.ir import Graph, Value
from dala_defn.ops.spec import OPS
from dala_defn.passes.base import Pass, register
from dala_defn.passes.rewrite import Match, Patterns, Rule, Var, constant_of, rewrite, rule

P = Patterns()
c, x, y = Var("c"), Var("x"), Var("y")

_EXACT_BITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}


def holds(wide: DType, narrow: DType) -> bool:
    """Whether each value of ``narrow`` is one of ``wide``."""
    if wide is narrow or narrow is bool_:
        return True
    if wide.kind == "c":
        return holds(real_of(wide), real_of(narrow))
    if narrow.kind == "c":
        return False
    if narrow.is_float:
        return wide is float64 or (wide is float32 and narrow.itemsize == 2)
    bits = narrow.itemsize * 8 - (narrow.kind == "i")
    if wide.is_float:
        # The most negative integer is a power of two, so it needs no more bits than the largest.
        return bits <= _EXACT_BITS[wide]
    if not wide.is_integer or (narrow.kind == "i" and wide.kind == "u"):
        return False
    return bits <= wide.itemsize * 8 - (wide.kind == "i")


def _cast_passes(m: Match) -> bool:
    """cast(cast(x)) = cast(x): the middle dtype holds everything, and does not change how the last step goes wrong."""
    source, middle, last = m.x.dtype, m.inner["dtype"], m.attrs["dtype"]
    if source.is_integer and middle.is_float and not holds(last, source):
        # Integers wrap where floats saturate, and may be rounded twice on their way to 16 bits.
        return bool(last.is_float and last.itemsize > 2) and holds(middle, source)
    return holds(middle, source)


def _recast(m: Match) -> Any:
    return m.x if m.x.dtype is m.attrs["dtype"] else OPS["cast"](m.x, dtype=m.attrs["dtype"])


def _transposed(m: Match) -> Any:
    return OPS["transpose"](m.x, axes=tuple(m.inner["axes"][a] for a in m.attrs["axes"]))


def _same_flip(m: Match) -> bool:
    return set(m.inner["axes"]) == set(m.attrs["axes"])


def _nothing_to_flip(m: Match) -> bool:
    return all(isinstance(m.x.shape[a], int) and m.x.shape[a] <= 1 for a in m.attrs["axes"])


def _is_identity(m: Match) -> bool:
    return m.attrs["axes"] == tuple(range(len(m.x.shape)))


def _only_ones(m: Match) -> bool:
    """Whether each result is of one element."""
    return all(m.x.shape[a] == 1 for a in m.attrs["axes"])


def _no_axes(m: Match) -> bool:
    return m.attrs["axes"] == ()


def _reshaped(m: Match) -> Any:
    return OPS["reshape"](m.x, shape=m.node.outputs[0].type.shape)


def _finite(v: Value) -> bool:
    array = constant_of(v)
    if array is None or array.dtype.kind == "c":
        return False
    return bool(np.all(np.isfinite(array.astype(np.float64))))


def _no_zero(v: Value) -> bool:
    array = constant_of(v)
    return array is not None and bool(np.all(array != 0))


def _always(value: bool) -> Any:
    def when(m: Match) -> bool:
        array = constant_of(m.c._value)
        return array is not None and array.size > 0 and bool(np.all(array == value))

    return when


def _stretched(name: str) -> Any:
    """The operand in the shape of the node: a branch that was chosen may have been broadcast."""

    def replacement(m: Match) -> Any:
        chosen = getattr(m, name)
        shape = m.node.outputs[0].type.shape
        return chosen if chosen.shape == shape else OPS["broadcast_to"](chosen, shape=shape)

    return replacement


def _whole(m: Match) -> bool:
    """Whether a joined value is cut out of one: two parts side by side, all of the rest."""
    first, second = (v.node for v in m.node.inputs)
    assert first is not None and second is not None
    axis, shape = m.attrs["axis"], m.x.shape
    ones = (1,) * len(shape)
    middle = first.attrs["stop"][axis]

    def part(start: Any, stop: Any) -> tuple[Any, ...]:
        def end(d: Any, rest: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(d if i == axis else r for i, r in enumerate(rest))

        return end(start, (0,) * len(shape)), end(stop, shape), ones

    cuts = [tuple(tuple(n.attrs[k]) for k in ("start", "stop", "step")) for n in (first, second)]
    return cuts == [part(0, middle), part(middle, shape[axis])]


def _is_integer(m: Match) -> bool:
    return m.x.dtype.is_integer


def _again(op: str, *names: str) -> Any:
    """``op`` with these operands and the attributes of the node."""
    return lambda m: OPS[op](*[getattr(m, n) for n in names], **m.attrs)


REDUCTIONS = ("sum", "prod", "max", "min")

# A rule applies only where the types agree, so ``x + 0`` does not lose a broadcast.
RULES: list[Rule] = [
    rule("neg-neg", P.neg(P.neg(x)), x),
    rule("not-not", P.bitwise_not(P.bitwise_not(x)), x),
    rule("abs-neg", P.abs(P.neg(x)), _again("abs", "x"), lambda m: m.x.dtype.kind != "u"),
    rule("abs-abs", P.abs(P.abs(x)), _again("abs", "x")),
    rule("add-neg-zero", P.add(x, -0.0), x),
    rule("neg-zero-add", P.add(-0.0, x), x),
    rule("add-neg", P.add(x, P.neg(y)), _again("sub", "x", "y")),
    rule("neg-add", P.add(P.neg(x), y), _again("sub", "y", "x")),
    rule("sub-zero", P.sub(x, 0.0), x),
    rule("sub-neg", P.sub(x, P.neg(y)), _again("add", "x", "y")),
    rule("mul-one", P.mul(x, 1), x),
    rule("one-mul", P.mul(1, x), x),
    rule("mul-neg-neg", P.mul(P.neg(x), P.neg(y)), _again("mul", "x", "y")),
    rule("div-one", P.div(x, 1), x),
    rule("div-neg-neg", P.div(P.neg(x), P.neg(y)), _again("div", "x", "y")),
    rule("floor-divide-one", P.floor_divide(x, 1), x, _is_integer),
    rule("power-one", P.power(x, 1), x),
    # The exception: 0 * c is -0.0 for a negative c, where the strong zero gives 0.0.
    rule("strong-zero-finite", P.mul_strong_zero(x, c), _again("mul", "x", "c"), lambda m: _finite(m.c._value)),
    rule("strong-zero-never", P.mul_strong_zero(c, x), _again("mul", "c", "x"), lambda m: _no_zero(m.c._value)),
    rule("select-true", P.select(c, x, y), _stretched("x"), _always(True)),
    rule("select-false", P.select(c, x, y), _stretched("y"), _always(False)),
    rule("select-same", P.select(c, x, x), x),
    rule("select-not", P.select(P.bitwise_not(c), x, y), _again("select", "c", "y", "x")),
    rule("cast-same", P.cast(x), x),
    rule("cast-cast", P.cast(P.cast(x)), _recast, _cast_passes),
    rule("stop-stop", P.stop_gradient(P.stop_gradient(x)), _again("stop_gradient", "x")),
    rule("reshape-same", P.reshape(x), x),
    rule("reshape-reshape", P.reshape(P.reshape(x)), _again("reshape", "x")),
    rule("broadcast-same", P.broadcast_to(x), x),
    rule("broadcast-broadcast", P.broadcast_to(P.broadcast_to(x)), _again("broadcast_to", "x")),
    rule("transpose-identity", P.transpose(x), x, _is_identity),
    rule("transpose-transpose", P.transpose(P.transpose(x)), _transposed),
    rule("slice-all", P.slice(x), x),
    rule("pad-nothing", P.pad(x, y), x),
    rule("flip-flip", P.flip(P.flip(x)), x, _same_flip),
    rule("flip-nothing", P.flip(x), x, _nothing_to_flip),
    rule("concatenate-one", P.concatenate(x), x),
    rule("concatenate-parts", P.concatenate(P.slice(x), P.slice(x)), x, _whole),
    *(rule(f"{op}-nothing", getattr(P, op)(x), x, _no_axes) for op in REDUCTIONS),
    *(rule(f"{op}-ones", getattr(P, op)(x), _reshaped, _only_ones) for op in REDUCTIONS),
]


@register
@dataclass(frozen=True)
class Simplify(Pass):
    """Applies ``RULES``."""

    name: ClassVar[str] = "simplify"

    def run(self, graph: Graph) -> Graph:
        """The simplified graph."""
        return rewrite(graph, RULES)
