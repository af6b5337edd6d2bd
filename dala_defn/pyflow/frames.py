"""The variables of a user's function while pieces of it run inside traces, and how those pieces end."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

from dala_defn import dtypes, ops, trees
from dala_defn.errors import Operand, ShapeError, TraceError
from dala_defn.ops.spec import OPS
from dala_defn.pyflow.analyse import Names
from dala_defn.pyflow.sites import Site
from dala_defn.pyflow.values import ABSENT, describe, join
from dala_defn.sources import Location
from dala_defn.trace import Tracer

BREAK, CONTINUE, RETURN = 1, 2, 3
_MUTATORS = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add discard".split()
)
_MOST_DEPTH, _MOST_ITEMS = 4, 1000


@dataclass(frozen=True)
class Jump:
    """How a piece ended: a code, known or traced (0: at its end), and what it returns, if it does."""

    code: int | Tracer
    value: Any = ABSENT
    lines: tuple[int, ...] = ()

    @property
    def known(self) -> bool:
        """Whether tracing alone tells how it ended."""
        return isinstance(self.code, int)


Status = Jump | None


def code_of(status: Status) -> int | Tracer:
    """The code of a status."""
    return 0 if status is None else status.code


def value_of(status: Status) -> Any:
    """What a status returns, if it does."""
    return ABSENT if status is None else status.value


def lines_of(statuses: Iterable[Status]) -> tuple[int, ...]:
    """The lines of the ``return`` statements."""
    return tuple(sorted({line for s in statuses if s is not None for line in s.lines}))


class Frame:
    """The variables that a site reaches, by way of the closure of its stub."""

    def __init__(
        self, site: Site, stub: FunctionType, compile: Callable[[Site, str, tuple[str, ...], Any], Any]
    ) -> None:
        self.site = site
        self.globals = stub.__globals__
        self.cells: dict[str, CellType] = dict(zip(stub.__code__.co_freevars, stub.__closure__ or (), strict=True))
        self._compile = compile

    def get(self, name: str) -> Any:
        """What a variable holds."""
        try:
            return self.cells[name].cell_contents
        except (ValueError, KeyError):
            return ABSENT

    def put(self, values: Mapping[str, Any]) -> None:
        """Sets variables."""
        for name, x in values.items():
            cell = self.cells.get(name)
            if cell is None:
                continue
            if x is not ABSENT:
                cell.cell_contents = x
            elif self.get(name) is not ABSENT:
                del cell.cell_contents

    def values(self, names: Names) -> dict[str, Any]:
        """What these variables hold, in the order of their names."""
        return {name: self.get(name) for name in sorted(names) if name in self.cells}

    def run(self, part: str, *args: Any) -> Any:
        """Runs a piece of the site in the current trace."""
        code = self.site.codes.get(part)
        if code is None:
            code = self.site.codes[part] = self._compile(self.site, part, tuple(sorted(self.cells)), self.globals)
        closure = tuple([self.cells[name] for name in code.co_freevars])
        return FunctionType(code, self.globals, code.co_name, None, closure)(*args)


class Contents:
    """What the lists, dicts and sets that variables hold have in them: a piece must leave them as they were."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.held: list[tuple[str, Any, list[Any]]] = []
        self.seen: set[int] = set()
        for name in sorted(frame.cells):
            self.look(name, frame.get(name), 0)

    def look(self, name: str, x: Any, depth: int) -> None:
        """Notes a container and those in it."""
        if not isinstance(x, (list, dict, set, tuple)) or depth > _MOST_DEPTH or id(x) in self.seen:
            return
        if len(x) > _MOST_ITEMS:
            return
        self.seen.add(id(x))
        items = list(x.items()) if isinstance(x, dict) else list(x)
        if not isinstance(x, tuple):
            self.held.append((name, x, items))
        for item in x.values() if isinstance(x, dict) else items:
            self.look(name, item, depth + 1)

    def check(self) -> None:
        """Puts back what was changed.

        Raises:
            TraceError: when something was, with the line that did it.
        """
        changed = ""
        for name, x, items in self.held:
            now = list(x.items()) if isinstance(x, dict) else list(x)
            if len(now) == len(items) and all(_one(a, b) for a, b in zip(now, items, strict=True)):
                continue
            changed = changed or name
            if isinstance(x, list):
                x[:] = items
            else:
                x.clear()
                x.update(items)
        if changed:
            site = self.frame.site
            raise TraceError(
                f"{changed} is changed in place under the condition of a traced `{site.kind}`",
                rule="tracing runs every branch and loop body once, so what they change in place would change always",
                hint=f"{changed} = [*{changed}, x] instead of {changed}.append(x), "
                f"{changed} = {{**{changed}, k: v}} instead of {changed}[k] = v; dd.scan or dd.map to collect results",
                location=site.place(_mutation(site, changed)),
                operands=[Operand(changed, describe(self.frame.get(changed)))],
            )


def _one(a: Any, b: Any) -> bool:
    if type(a) is tuple and type(b) is tuple and len(a) == len(b) == 2:
        return a[0] is b[0] and a[1] is b[1]
    return a is b


def _mutation(site: Site, name: str) -> ast.AST | None:
    """The first place where something in a variable is changed by a method or an assignment."""
    for part in site.parts.values():
        for root in part if isinstance(part, list) else [part]:
            for node in ast.walk(root):
                if isinstance(node, ast.Attribute) and node.attr in _MUTATORS and _root(node.value) == name:
                    return node
                if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and _root(node) == name:
                    return node
                if isinstance(node, ast.AugAssign) and _root(node.target) == name:
                    return node
    return None


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def binding(site: Site, name: str) -> Location:
    """The first place in a site where a variable gets a value."""
    for part in site.parts.values():
        for root in part if isinstance(part, list) else [part]:
            for node in ast.walk(root):
                stored = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
                if stored or (isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name):
                    return site.place(node)
    return site.place()


def differ(
    site: Site, rows: Sequence[tuple[str, Sequence[Any]]], labels: Sequence[str], lines: Sequence[int]
) -> ShapeError:
    """The error for variables whose values differ between sides, each with what it is on every side."""
    names = [name for name, _ in rows]
    operands = [
        Operand(name, ", ".join(f"{describe(x)} {label}" for x, label in zip(xs, labels, strict=True)))
        for name, xs in rows
    ]
    if site.kind in ("for", "while"):
        reason = f"{_listed(names)} would change type from turn to turn of this loop"
        rule = "a traced loop keeps the structure, shapes and dtypes of the variables that it carries"
        hint = "start with the type that the loop gives: x = dd.zeros(...), x.astype(...)"
    else:
        reason = f"{_listed(names)} would have a type that depends on a traced condition"
        rule = "both sides of a traced condition give a variable one structure, shape and dtype"
        hint = "x.astype(...) where dtypes differ, dd.broadcast_to(...) where shapes do"
        if any(trees.flatten(xs[0])[1] != trees.flatten(x)[1] for _, xs in rows for x in xs[1:]):
            hint = "the same tuples, lists, dicts and None on both sides, with zeros where there is nothing to tell"
    if lines:
        rule += f"; return statements at line {', '.join(map(str, lines))}"
    return ShapeError(
        reason, operands=operands[:6], rule=rule, hint=hint, location=site.place(getattr(site.node, "test", None))
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def joined_status(statuses: Sequence[Status]) -> tuple[Any, Any] | None:
    """How the codes and the returned values of several sides join; ``None`` when the values differ.

    The code is an int when all sides end alike, else ``None``; the value is absent when no side returns one.
    """
    codes = [code_of(s) for s in statuses]
    code = codes[0] if all(isinstance(c, int) and c == codes[0] for c in codes) else None
    values = [value_of(s) for s in statuses]
    if all(v is ABSENT for v in values):
        return code, ABSENT
    value = join(values)
    return None if value is None else (code, value)


def is_code(status: Jump, code: int) -> Any:
    """Whether a traced status is this one, as a traced bool."""
    return OPS["equal"](status.code, ops.lit(code, dtypes.int32))
