"""What a piece of a function does with its variables: which it binds, reads, needs later; how it can be left."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dala_defn.pyflow.source import FUNCTIONS, Function

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, ast.ClassDef)
_TRIES = (ast.Try, ast.TryStar)
Names = frozenset[str]
Nodes = Iterable[ast.AST]


class _Bound(ast.NodeVisitor):
    """Collects the names that a piece binds in the function itself, not in functions or classes inside it."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names.add(node.name)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = scope

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def comprehension(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.names.add(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names.add(node.name)
        self.generic_visit(node)

    def pattern(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.names.add(node.name)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = pattern

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.names.add(node.rest)
        self.generic_visit(node)


def bound(nodes: Nodes) -> Names:
    """The names that these nodes bind or delete in the function that they stand in."""
    visitor = _Bound()
    for node in nodes:
        visitor.visit(node)
    return frozenset(visitor.names)


def read(nodes: Nodes) -> Names:
    """The names that these nodes read, functions inside them included."""
    found: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Load, ast.Del)):
                found.add(inner.id)
                if inner.id == "super":
                    found.add("__class__")
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                found.add(inner.target.id)
            elif isinstance(inner, (ast.Nonlocal, ast.Global)):
                found.update(inner.names)
    return frozenset(found)


def jumps(body: Sequence[ast.AST], in_loop: bool = False) -> Names:
    """How these statements can be left other than at their end: ``return``, ``break``, ``continue``."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.Return):
            found.add("return")
        elif isinstance(node, (ast.Break, ast.Continue)):
            if not in_loop:
                found.add("break" if isinstance(node, ast.Break) else "continue")
        elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            found |= jumps(node.body, True) | jumps(node.orelse, in_loop)
        else:
            found |= jumps([n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)], in_loop)
    return frozenset(found)


def ends(body: Sequence[ast.stmt]) -> bool:
    """Whether control never reaches what follows these statements."""
    for node in body:
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.If) and node.orelse and ends(node.body) and ends(node.orelse):
            return True
    return False


def yields(node: Function) -> bool:
    """Whether a function is a generator."""
    if isinstance(node, ast.Lambda):
        return _yields(node.body)
    return any(_yields(n) for n in node.body)


def _yields(node: ast.AST) -> bool:
    if isinstance(node, _SCOPES):
        return False
    if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
        return True
    return any(_yields(n) for n in ast.iter_child_nodes(node))


def own(node: Function, kind: type[ast.Global] | type[ast.Nonlocal]) -> Names:
    """The names that a function itself declares ``global`` or ``nonlocal``."""
    found: set[str] = set()
    queue: list[ast.AST] = [] if isinstance(node, ast.Lambda) else list(node.body)
    while queue:
        at = queue.pop()
        if isinstance(at, kind):
            found.update(at.names)
        if not isinstance(at, (*_SCOPES, ast.expr)):
            queue.extend(ast.iter_child_nodes(at))
    return frozenset(found)


class Liveness:
    """Which variables are needed after each statement of a function, and at the head of each loop.

    Attributes:
        after: for each statement, the names that may be read later.
        head: for each loop, those that may be read when a turn starts or there is none left.
        left: for each statement, those that may be read after a ``break``, and after a ``continue``, in it.
        kept: names that may be read at any time: functions inside see them, or they belong to the outside.
    """

    def __init__(self, node: Function) -> None:
        self.after: dict[ast.AST, Names] = {}
        self.head: dict[ast.AST, Names] = {}
        self.left: dict[ast.AST, tuple[Names, Names]] = {}
        kept: set[str] = set(own(node, ast.Global) | own(node, ast.Nonlocal))
        for inner in ast.walk(node):
            if inner is not node and isinstance(inner, _SCOPES):
                kept |= read([inner]) | bound(getattr(inner, "body", ()) if not isinstance(inner, ast.Lambda) else ())
        self.kept = frozenset(kept)
        self.always = self.kept
        if not isinstance(node, ast.Lambda):
            self.block(node.body, frozenset(), frozenset(), frozenset())

    def block(self, body: Sequence[ast.stmt], out: Names, brk: Names, cnt: Names) -> Names:
        """What is needed before ``body``, given what is needed after it, at ``break`` and at ``continue``."""
        for node in reversed(body):
            out = out | self.always
            self.after[node] = out | self.after.get(node, frozenset())
            self.left[node] = brk | self.kept, cnt | self.kept
            out = self.statement(node, out, brk, cnt)
        return out | self.always

    def statement(self, node: ast.stmt, out: Names, brk: Names, cnt: Names) -> Names:
        """What is needed before one statement."""
        if isinstance(node, ast.If):
            return read([node.test]) | self.block(node.body, out, brk, cnt) | self.block(node.orelse, out, brk, cnt)
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            return self.loop(node, out, brk, cnt)
        if isinstance(node, _TRIES):
            before = self.always
            later = self.block(node.finalbody, out, brk, cnt)
            handlers = later.union(*[self.block(h.body, later, brk, cnt) | read([h]) for h in node.handlers])
            self.always = self.always | handlers
            found = self.block(node.body, self.block(node.orelse, later, brk, cnt), brk, cnt)
            self.always = before
            return found
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return read(node.items) | self.block(node.body, out, brk, cnt)
        if isinstance(node, ast.Match):
            found = read([node.subject]) | out
            for case in node.cases:
                found |= read([case.pattern]) | self.block(case.body, out, brk, cnt)
                found |= read([case.guard] if case.guard else [])
            return found
        if isinstance(node, ast.Return):
            return read([node])
        if isinstance(node, ast.Raise):
            return read([node]) | self.always
        if isinstance(node, ast.Break):
            return brk
        if isinstance(node, ast.Continue):
            return cnt
        return (out - _surely(node)) | read([node])

    def loop(self, node: ast.While | ast.For | ast.AsyncFor, out: Names, brk: Names, cnt: Names) -> Names:
        """What is needed before a loop: the least solution for its head."""
        last = self.block(node.orelse, out, brk, cnt)
        first = read([node.test]) if isinstance(node, ast.While) else frozenset()
        target = frozenset() if isinstance(node, ast.While) else _surely(ast.Assign([node.target], node.iter))
        head = first | last
        while True:
            body = self.block(node.body, head, out, head) - target
            if not isinstance(node, ast.While):
                body |= read([node.target])
            wider = head | body | first
            if wider == head:
                break
            head = wider
        self.head[node] = head | self.head.get(node, frozenset())
        return head | (frozenset() if isinstance(node, ast.While) else read([node.iter]))


def _surely(node: ast.stmt) -> Names:
    """The names that a simple statement rebinds whatever happens."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        targets = [node.target]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return frozenset({node.name})
    else:
        return frozenset()
    return frozenset(
        n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def uncertain(node: Function) -> Names:
    """The variables that may have no value at some place because a branch or loop that gives one did not run."""
    if isinstance(node, ast.Lambda):
        return frozenset()
    args = node.args
    known = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a is not None}
    deleted = [t for n in ast.walk(node) if isinstance(n, ast.Delete) for t in n.targets]
    found = {t.id for t in deleted if isinstance(t, ast.Name)}
    _uncertain(node.body, known, found)
    return frozenset(found)


def _uncertain(body: Sequence[ast.stmt], known: set[str], found: set[str]) -> None:
    for node in body:
        if isinstance(node, ast.If):
            sides = []
            for side in (node.body, node.orelse):
                inner = set(known)
                _uncertain(side, inner, found)
                sides.append((inner, ends(side)))
            open_ = [inner for inner, ended in sides if not ended]
            sure = set.intersection(*open_) if open_ else set.union(*[inner for inner, _ in sides])
            found |= (bound([node]) - sure) - known
            known |= sure
        elif isinstance(node, (ast.For, ast.While)):
            _uncertain(node.body, known | (bound([node.target]) if isinstance(node, ast.For) else set()), found)
            _uncertain(node.orelse, set(known), found)
            found |= bound([node]) - known
        elif isinstance(node, (*_TRIES, ast.With, ast.AsyncWith, ast.Match)):
            for part in ast.walk(node):
                for field in ("body", "orelse", "finalbody"):
                    inside = getattr(part, field, None)
                    if isinstance(inside, list) and not isinstance(part, _SCOPES):
                        _uncertain(inside, set(known), found)
            found |= bound([node]) - known
        else:
            known |= bound([node]) if not isinstance(node, ast.Delete) else set()
