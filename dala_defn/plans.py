"""Calls that are prepared: a function written for arguments like those of a call that went the general way.

It takes the arguments apart, checks that they are what it was written for, makes the one call into the runtime and puts
the results together. It gives ``MISS`` when anything differs, and the general way is to be taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, trees
from dala_defn.array import Array
from dala_defn.captures import Captured, exact
from dala_defn.errors import DalaError
from dala_defn.executors import chosen
from dala_defn.ir import Type
from dala_defn.nans import watch
from dala_defn.sources import write_function

MISS: Any = object()
Plan = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]

DEEPEST = 40  # Python's parser has a limit for parentheses
_COMPARED = (int, bool, str, bytes, type(None))


class Writer:
    """The body of a plan being written: arguments first, in the order in which their leaves are taken."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], types: Sequence[Type]) -> None:
        self.known: dict[str, Any] = {"MISS": MISS, "chosen": chosen, "watch": watch, "len": len, "type": type}
        self.lines = [
            f"if len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return MISS",
            f"if chosen.name is not {self.name(chosen.name)} or watch.mode is not {self.name(watch.mode)}: return MISS",
        ]
        self.leaves: list[str] = []
        self.values: list[Any] = []
        self._types = types

    def name(self, x: Any) -> str:
        """A name for a constant."""
        name = f"k{len(self.known)}"
        self.known[name] = x
        return name

    def require(self, condition: str) -> None:
        """The plan holds only under this condition."""
        self.lines.append(f"if not ({condition}): return MISS")

    def static(self, expression: str, x: Any) -> None:
        """A value that is part of the program."""
        v = self._variable(expression)
        if type(x) in _COMPARED:
            self.require(f"type({v}) is {self.name(type(x))} and {v} == {self.name(x)}")
        else:
            same, wanted = self.name(exact), self.name(exact(x))
            self.require(f"{v} is {self.name(x)} or {same}({v}) == {wanted}")

    def tree(self, expression: str, x: Any) -> None:
        """An argument with leaves; ``x`` is what it was."""
        v = self._variable(expression)
        kind = type(x)
        if x is None:
            self.require(f"{v} is None")
        elif kind is tuple or kind is list:
            self._inner(v, kind, [(f"{v}[{i}]", item) for i, item in enumerate(x)])
        elif kind is dict:
            self._inner(v, kind, [(f"{v}[{self.name(k)}]", x[k]) for k in trees.flatten(dict.fromkeys(x, 0))[1].meta])
        elif isinstance(x, tuple) and hasattr(x, "_fields"):
            self._inner(v, kind, [(f"{v}[{i}]", item) for i, item in enumerate(x)])
        elif kind in trees.registered:
            children, meta = trees.registered[kind][0](x)
            self.require(f"type({v}) is {self.name(kind)}")
            inner = self._variable(f"{self.name(trees.registered[kind][0])}({v})")
            self.require(f"{inner}[1] == {self.name(meta)} and len({inner}[0]) == {len(children)}")
            for i, child in enumerate(children):
                self.tree(f"{inner}[0][{i}]", child)
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            self.require(f"type({v}) is {self.name(kind)}")
            for field in dataclasses.fields(x):
                self.tree(f"{v}.{field.name}", getattr(x, field.name))
        else:
            self._leaf(v, x)

    def captures(self, captured: Captured) -> None:
        """Hidden inputs, after all arguments."""
        if not captured.simple:
            self.lines.append(f"held = {self.name(captured.current)}()")
            self.require("held is not None")

    def write(
        self, call: Callable[[Sequence[Any]], Any], captured: Captured, out: trees.Tree, place: Callable[..., Any]
    ) -> Plan:
        """The plan; ``call`` gives a list of results, or ``None`` when it does not fit."""
        self.captures(captured)
        taken = [*self.leaves, *([] if captured.simple else ["*held"])]
        failed = (KeyError, IndexError, AttributeError, TypeError, ValueError)
        self.known |= {"call": call, "failed": failed, "DalaError": DalaError, "place": place}
        body = [
            "try:",
            *(f"    {line}" for line in self.lines),
            "except failed: return MISS",
            f"try: y = call([{', '.join(taken)}])",
            "except DalaError as error:",
            "    error.location = place(error.location)",
            "    raise",
            "if y is None: return MISS",
            f"return {self._result(out, iter(range(out.size)))}",
        ]
        made: Plan = write_function("plan", "args, kwargs", body, self.known)
        return made

    def _variable(self, expression: str) -> str:
        v = f"v{len(self.lines)}"
        self.lines.append(f"{v} = {expression}")
        return v

    def _inner(self, v: str, kind: type, children: Sequence[tuple[str, Any]]) -> None:
        self.require(f"type({v}) is {self.name(kind)} and len({v}) == {len(children)}")
        for expression, child in children:
            self.tree(expression, child)

    def _leaf(self, v: str, x: Any) -> None:
        kind = type(x)
        if kind is Array:
            t = self.name(x._type)
            self.require(f"type({v}) is {self.name(Array)} and ({v}._type is {t} or {v}._type == {t})")
        elif kind is np.ndarray:
            d = self.name(x.dtype)
            same = f"({v}.dtype is {d} or {v}.dtype == {d}) and {v}.shape == {self.name(x.shape)}"
            self.require(f"type({v}) is {self.name(np.ndarray)} and {same}")
        else:
            self.require(f"type({v}) is {self.name(kind)}")
            if dtypes.weak_kind(x) is not None:
                dtype = self._types[len(self.leaves)].dtype
                x = dtypes.scalar_array(x, dtype)
                v = self._variable(f"{self.name(dtypes.scalar_array)}({v}, {self.name(dtype)})")
        self.leaves.append(v)
        self.values.append(x)

    def _result(self, tree: trees.Tree, index: Any, depth: int = 0) -> str:
        """An expression for a pytree of results."""
        if tree.kind is trees.LEAF:
            return f"y[{next(index)}]"
        if tree.kind is None:
            return "None"
        if tree.kind in (tuple, list, dict) and depth < DEEPEST:
            parts = [self._result(c, index, depth + 1) for c in tree.children]
            if tree.kind is dict:
                return "{" + ", ".join(f"{self.name(k)}: {p}" for k, p in zip(tree.meta, parts, strict=True)) + "}"
            return f"[{', '.join(parts)}]" if tree.kind is list else f"({''.join(f'{p}, ' for p in parts)})"
        parts = [f"y[{next(index)}]" for _ in range(tree.size)]
        return f"{self.name(trees.unflatten)}({self.name(tree)}, [{', '.join(parts)}])"
