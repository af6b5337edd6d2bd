"""Places of a function where control flow may depend on a traced value, as the rewritten code refers to them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dala_defn.pyflow import analyse
from dala_defn.pyflow.analyse import Names
from dala_defn.pyflow.source import Function, class_of, mangled
from dala_defn.sources import Location

ITEM = "_dala_item"  # the element that a turn of a loop is for


class Scope:
    """A function of the user: its syntax tree, and what is known of its variables."""

    def __init__(
        self,
        node: Function,
        qualname: str,
        file: str,
        flags: int,
        outer: Scope | None = None,
        free: tuple[str, ...] = (),
    ) -> None:
        self.node = node
        self.qualname = qualname
        self.file = file
        self.flags = flags
        self.owner = class_of(qualname)
        args = node.args
        listed = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
        self.node_name = "lambda" if isinstance(node, ast.Lambda) else node.name
        self.parameters = [a.arg for a in listed if a is not None]
        self.live = analyse.Liveness(node)
        self.globals = analyse.own(node, ast.Global)
        body: list[Any] = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.locals: Names = (analyse.bound(body) - self.globals) | frozenset(self.parameters) | frozenset(free)
        self.uncertain: Names = analyse.uncertain(node)
        if outer is not None:
            self.uncertain |= outer.uncertain - self.locals
            self.locals |= outer.locals

    def mangled(self, names: Names) -> Names:
        """Names as the compiler writes them."""
        return frozenset([mangled(n, self.owner) for n in names])


@dataclass
class Site:
    """One ``if``, loop or conditional expression.

    Attributes:
        parts: the pieces of the source that may run under a condition, by name, and what each binds.
        finish: what the end of its region is: the end of the function, of a loop's body, or of a unit.
        absorbs: whether a branch that does not jump has in it what follows, up to there.
        jumps: how its statements can be left; ``ends``: the branches that always are.
        after: the variables needed after it; ``end``: those needed when its region ends; ``head``: those needed at the
            start of a turn, for a loop; ``left``: those needed where each kind of jump leads.
        refusal: why a traced condition cannot be followed here, and what to write instead.
    """

    kind: str
    node: Any
    scope: Scope
    index: int
    finish: str = "unit"
    parts: dict[str, list[ast.stmt] | ast.expr] = field(default_factory=dict)
    binds: dict[str, Names] = field(default_factory=dict)
    names: Names = frozenset()
    after: Names = frozenset()
    end: Names = frozenset()
    head: Names = frozenset()
    left: dict[int, Names] = field(default_factory=dict)
    jumps: Names = frozenset()
    ends: dict[str, bool] = field(default_factory=dict)
    absorbs: bool = False
    refusal: tuple[str, str] | None = None
    closed: bool = False
    codes: dict[str, CodeType] = field(default_factory=dict)
    depth: int = 0

    def part(self, name: str, nodes: list[ast.stmt] | ast.expr, also: Names = frozenset()) -> None:
        """Adds a piece."""
        listed = nodes if isinstance(nodes, list) else [nodes]
        self.parts[name] = nodes
        bound = analyse.bound(listed) | also
        self.binds[name] = self.scope.mangled(bound - self.scope.globals)
        self.names |= bound | analyse.read(listed)
        if "super" in self.names:
            self.names |= frozenset(self.scope.parameters[:1])

    def place(self, node: Any = None) -> Location:
        """Where it, or a node inside it, stands in the user's file."""
        at = self.node if node is None else node
        return Location(self.scope.file, at.lineno, at.col_offset + 1, self.scope.qualname)
