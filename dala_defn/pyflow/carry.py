"""The variables that a traced loop carries from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dala_defn import dtypes, trees
from dala_defn.functions.base import convert
from dala_defn.ir import Type
from dala_defn.pyflow.values import Slot, is_dynamic, marked, number_kind, same, type_of


class Carry:
    """Variables with a value before the loop: their structures, and the types of their arrays and numbers.

    Python numbers are carried like arrays; they take the dtype that the loop's body gives them.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = dict(entry)
        self.leaves: dict[str, list[Any]] = {}
        self.trees: dict[str, trees.Tree] = {}
        self.slots: dict[str, list[Slot | None]] = {}
        for name, x in entry.items():
            self.leaves[name], self.trees[name] = trees.flatten(x)
            self.slots[name] = [Slot(type_of(v), number_kind(v)) if is_dynamic(v) else None for v in self.leaves[name]]

    def types(self) -> list[tuple[Type, str | None]]:
        """The types of all that is carried, and the kinds of what stands for Python numbers."""
        return [(s.type, s.weak) for name in self.entry for s in self.slots[name] if s is not None]

    def build(self, values: Iterator[Any]) -> dict[str, Any]:
        """The variables, with these values in the places of their arrays and numbers."""
        out = {}
        for name in self.entry:
            leaves = [
                old if slot is None else marked(next(values), slot)
                for old, slot in zip(self.leaves[name], self.slots[name], strict=True)
            ]
            out[name] = trees.unflatten(self.trees[name], leaves)
        return out

    def settle(self, results: Mapping[str, Any]) -> tuple[bool, list[tuple[str, list[Any]]]]:
        """Whether numbers had to take other types to fit what the body gave, and the variables that do not fit."""
        grown, bad = False, []
        late: dict[str, list[Slot | None]] = {}
        for name in self.entry:
            flat, tree = trees.flatten(results[name])
            if tree != self.trees[name]:
                bad.append((name, [self.entry[name], results[name]]))
                continue
            slots = [self._settled(*row) for row in zip(self.leaves[name], self.slots[name], flat, strict=True)]
            if any(s is False for s in slots):
                bad.append((name, [self.entry[name], results[name]]))
            elif slots != self.slots[name]:
                settled = [s if isinstance(s, Slot) else None for s in slots]
                # What came from numbers alone has their default dtype: it waits for those that came from arrays.
                if all(s is None or s == t or _default(s) for s, t in zip(settled, self.slots[name], strict=True)):
                    late[name] = settled
                else:
                    self.slots[name] = settled
                    grown = True
        if not grown and not bad and late:
            self.slots.update(late)
            grown = True
        return grown, bad

    def _settled(self, old: Any, slot: Slot | None, new: Any) -> Slot | bool | None:
        """The slot that takes both; False when there is none."""
        if slot is None:
            return None if same(old, new) else False
        if not is_dynamic(new):
            return False
        t, kind = type_of(new), number_kind(new)
        if t.shape != slot.type.shape:
            return False
        if slot.type.dtype.kind in "kt" or t.dtype.kind in "kt":
            return slot if t.dtype is slot.type.dtype else False
        if kind is not None:
            dtype = dtypes.promote_weak(slot.type.dtype if slot.weak is None else None, kind)
            if slot.weak is None:
                return slot if dtype is slot.type.dtype else False
            wider = max(kind, slot.weak, key="bifc".index)
            return slot if wider == slot.weak else Slot(Type(dtypes.promote_weak(None, wider), t.shape), wider)
        if slot.weak is None:
            return slot if t.dtype is slot.type.dtype else False
        return Slot(t, None) if dtypes.promote_weak(t.dtype, slot.weak) is t.dtype else False

    def outputs(self, values: Mapping[str, Any]) -> list[Any]:
        """The arrays and numbers of the variables, in the types that are carried."""
        return [
            convert(leaf, slot.type.dtype)
            for name in self.entry
            for leaf, slot in zip(trees.flatten(values[name])[0], self.slots[name], strict=True)
            if slot is not None
        ]

    def without(self, names: Sequence[str]) -> Carry:
        """The same, with some of the variables left out."""
        return Carry({n: x for n, x in self.entry.items() if n not in names})


def _default(slot: Slot) -> bool:
    return slot.type.dtype in (dtypes.bool_, dtypes.DEFAULT_INT, dtypes.DEFAULT_FLOAT, dtypes.complex64)
