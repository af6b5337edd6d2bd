"""The rewritten form of a function: plain Python where a condition is concrete, calls into ``runtime`` where it is not.

Every statement stays where it was, with its line and column. In front of each ``if`` or loop stands a test whether its
condition is traced; only then does the runtime take over: it compiles the branch, or the body, as a function of its own
that shares the variables of the frame (they are cells), and runs it inside a trace. A piece that runs so is a unit:
``break``, ``continue`` and ``return`` in it are results that the runtime understands.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, ModuleType
from typing import Any

from dala_defn.pyflow import analyse
from dala_defn.pyflow.analyse import Names
from dala_defn.pyflow.explain import instead
from dala_defn.pyflow.sites import ITEM, Scope, Site
from dala_defn.pyflow.source import FLOW, UNIT, bare, compile_inside
from dala_defn.sources import FOREIGN

TEST = "_dala_t"
STATUS = "_dala_s"
_NONE: Names = frozenset()
_CALLERS = frozenset({"map", "filter", "functools", "itertools"})  # what calls functions that it is given
_ITERATORS = frozenset({"range", "enumerate", "zip", "reversed"})


@dataclass(frozen=True)
class Region:
    """The statements that control runs through without the runtime's help: a function, a unit, a loop's body."""

    kind: str
    live: Names
    end: str = "unit"  # what its last statement is the last one of: the function, a loop's body, or neither
    depth: int = 0
    loop: Site | None = None
    iterator: bool = False
    closed: bool = False
    caught: bool = False


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def call(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(load(FLOW), method, ast.Load()), list(args), [])


def placed(new: Any, at: ast.AST) -> Any:
    """Gives a new node, and those in it that have none, a place."""
    return ast.fix_missing_locations(ast.copy_location(new, at))


class Rewriter:
    """Rewrites the pieces of one function."""

    def __init__(self, scope: Scope, sites: list[Site], globals: Mapping[str, Any], unit: bool = False) -> None:
        self.scope = scope
        self.sites = sites
        self.globals = globals
        self.unit = unit
        self.plain = 0  # inside the iterables of comprehensions, where nothing can be assigned
        self.fresh: Names = frozenset()  # variables that hold containers made in this unit

    # The whole function, and units.

    def function(self) -> ast.FunctionDef | ast.Lambda:
        """The function, without what is evaluated where it is defined."""
        new: Any = bare(self.scope.node)
        if isinstance(new, ast.Lambda):
            new.body = self.expr(new.body)
        else:
            new.body = self.block(new.body, Region("function", self.scope.live.kept, "function"), ())
        return new

    def _site(self, kind: str, node: Any, region: Region | None = None) -> Site:
        site = Site(kind, node, self.scope, len(self.sites))
        if region is not None:
            live = self.scope.live
            site.finish = region.end
            site.after = self.scope.mangled(live.after.get(node, live.kept))
            site.end = self.scope.mangled(region.live)
            site.head = self.scope.mangled(live.head.get(node, _NONE))
            left = (*live.left.get(node, (live.kept, live.kept)), live.kept)
            site.left = {code: self.scope.mangled(names) for code, names in enumerate(left, 1)}
            site.closed = region.closed
            if region.caught:
                site.refusal = (
                    f"`{kind}` on a traced value inside a try statement: what happens when it runs cannot be caught",
                    instead(node),
                )
        self.sites.append(site)
        return site

    def _stub(self, site: Site) -> ast.Lambda:
        """A function that is never called: its closure is how the runtime reaches the variables."""
        names = sorted((site.names - self.scope.globals) | {FLOW})
        return ast.Lambda(
            ast.arguments([], [], None, [], [], None, []), ast.Tuple([load(n) for n in names], ast.Load())
        )

    def _enter(self, method: str, site: Site, *args: ast.expr) -> ast.Call:
        return call(method, ast.Constant(site.index), *args, self._stub(site))

    # Statements.

    def block(self, body: Sequence[ast.stmt], region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        """Statements, one after the other; ``rest`` is what follows them up to the end of the region."""
        out: list[ast.stmt] = []
        for i, node in enumerate(body):
            method = getattr(self, f"stmt_{type(node).__name__}", None)
            if method is None:
                out += self._checked(node)
                out.append(self.generic(node))
            else:
                out += method(node, region, (*body[i + 1 :], *rest))
        return out

    def stmt_If(self, node: ast.If, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        site = self._site("if", node, region)
        site.jumps = analyse.jumps([*node.body, *node.orelse])
        sides = {"true": node.body, "false": node.orelse}
        site.ends = {name: analyse.ends(side) for name, side in sides.items()}
        site.absorbs = bool(site.jumps) and any(site.ends.values())
        for name, side in sides.items():
            site.part(name, [*side, *rest] if site.absorbs and not site.ends[name] else list(side))
        if site.jumps:
            site.part("rest", list(rest))
            if region.closed:
                site.refusal = site.refusal or (
                    f"{' or '.join(sorted(site.jumps))} under a traced condition inside a with or try statement",
                    "a variable for the result, returned after the with or try statement",
                )
        enter = placed(self._enter("if_", site, load(TEST)), node.test)
        if site.jumps and site.refusal is None:
            taken = self._dispatch(enter, region, node)
        else:
            taken = [ast.Expr(enter)]
        plain = ast.If(load(TEST), self.block(node.body, region, rest), self.block(node.orelse, region, rest))
        test = call("traced", ast.NamedExpr(store(TEST), self.expr(node.test, truth=True)))
        return [placed(ast.If(placed(test, node.test), taken, [placed(plain, node)]), node)]

    def _dispatch(self, status: ast.expr, region: Region, at: ast.AST) -> list[ast.stmt]:
        """What happens after a statement whose region the runtime has brought to its end with this status."""
        if region.kind == "function":
            return [placed(ast.Return(call("value", status)), at)]
        if region.kind == "unit":
            return [placed(ast.Return(status), at)]
        assert region.loop is not None
        held = load(f"_dala_i{region.depth}") if region.iterator else ast.Constant(None)
        leave = self._enter("leave", region.loop, load(STATUS), held)
        return [
            placed(ast.Assign([store(STATUS)], status), at),
            placed(ast.If(call("next", load(STATUS)), [ast.Continue()], []), at),
            placed(ast.Assign([store(f"_dala_j{region.depth}")], leave), region.loop.node),
            placed(ast.Break(), at),
        ]

    def _loop(self, node: ast.For | ast.While, region: Region, rest: tuple[ast.stmt, ...]) -> tuple[Site, Region, bool]:
        kind = "for" if isinstance(node, ast.For) else "while"
        site = self._site(kind, node, region)
        site.jumps = analyse.jumps(node.body)
        site.depth = region.depth + 1
        site.part("body", list(node.body))
        if isinstance(node, ast.While):
            site.part("test", node.test)
        else:
            site.part("target", [placed(ast.Assign([node.target], load(ITEM)), node.target)])
        site.part("else", list(node.orelse))
        left = bool(site.jumps & {"return"} or analyse.jumps(node.orelse))
        if left:
            site.part("rest", list(rest))
        live = self.scope.live
        needed = live.head.get(node, _NONE) | live.after.get(node, _NONE) | region.live
        return site, Region("loop", needed, "loop", site.depth, site, kind == "for"), left

    def _after_loop(self, site: Site, region: Region, left: bool, node: ast.stmt) -> list[ast.stmt]:
        if not left:
            return []
        name = f"_dala_j{site.depth}"
        test = ast.Compare(load(name), [ast.IsNot()], [ast.Constant(None)])
        return [placed(ast.If(test, self._dispatch(load(name), region, node), []), node)]

    def stmt_While(self, node: ast.While, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        site, inner, left = self._loop(node, region, rest)
        status = store(f"_dala_j{site.depth}")
        taken: list[ast.stmt] = [ast.Assign([status], self._enter("while_", site, load(TEST))), ast.Break()]
        traced = placed(ast.If(call("traced", load(TEST)), taken, []), node.test)
        test = call("traced", ast.NamedExpr(store(TEST), self.expr(node.test, truth=True)))
        new = ast.While(
            placed(ast.BoolOp(ast.Or(), [test, load(TEST)]), node.test),
            [traced, *self.block(node.body, inner, ())],
            self.block(node.orelse, region, rest),
        )
        before = placed(ast.Assign([status], ast.Constant(None)), node)
        return [before, placed(new, node), *self._after_loop(site, region, left, node)]

    def stmt_For(self, node: ast.For, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        site, inner, left = self._loop(node, region, rest)
        over = self.iterable(node.iter)
        held, status = f"_dala_i{site.depth}", f"_dala_j{site.depth}"
        plain = ast.For(
            self.expr(node.target),
            placed(load(held), node.iter),
            self.block(node.body, inner, ()),
            self.block(node.orelse, region, rest),
        )
        taken: list[ast.stmt] = [ast.Assign([store(status)], self._enter("for_", site, load(held)))]
        return [
            placed(ast.Assign([store(held)], placed(call("rows", over), node.iter)), node.iter),
            placed(ast.Assign([store(status)], ast.Constant(None)), node.iter),
            placed(ast.If(call("over", load(held)), taken, [placed(plain, node)]), node.iter),
            *self._after_loop(site, region, left, node),
        ]

    def stmt_AnnAssign(self, node: ast.AnnAssign, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        out = self._checked(node)
        if not self.unit or not node.simple:
            return [*out, self.generic(node)]
        # A variable that a unit shares cannot be annotated in it.
        if node.value is None:
            return [*out, placed(ast.Pass(), node)]
        return [*out, placed(ast.Assign([self.expr(node.target)], self.expr(node.value)), node)]

    def iterable(self, node: ast.expr) -> ast.expr:
        """What a loop runs over, where ``range`` and the like take traced values."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ITERATORS):
            return self.expr(node)
        if not self._builtin(node.func.id):
            return self.expr(node)
        func = ast.Attribute(load(FLOW), f"{node.func.id}_", ast.Load())
        keywords = [ast.keyword(k.arg, self.expr(k.value)) for k in node.keywords]
        return placed(ast.Call(func, [self.iterable(a) for a in node.args], keywords), node)

    def stmt_Global(self, node: ast.stmt, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        return [placed(ast.Pass(), node)] if self.unit else [node]

    stmt_Nonlocal = stmt_Global

    def stmt_Return(self, node: ast.Return, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        value = None if node.value is None else self.expr(node.value)
        if self.unit:
            given = ast.Constant(None) if value is None else value
            value = placed(call("ret", given, ast.Constant(node.lineno)), node)
        return [placed(ast.Return(value), node)]

    def stmt_Break(self, node: ast.stmt, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        if region.kind == "loop":
            return [node]
        return [placed(ast.Return(ast.Attribute(load(FLOW), type(node).__name__.upper(), ast.Load())), node)]

    stmt_Continue = stmt_Break

    def stmt_With(self, node: ast.With, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        items = [self.generic(item) for item in node.items]
        return [placed(ast.With(items, self.block(node.body, replace(region, closed=True), ())), node)]

    def stmt_Try(self, node: ast.Try | ast.TryStar, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        outside = replace(region, closed=True)
        inside = replace(outside, caught=region.caught or bool(node.handlers))
        handlers = []
        for h in node.handlers:
            kind = None if h.type is None else self.expr(h.type)
            handlers.append(placed(ast.ExceptHandler(kind, h.name, self.block(h.body, outside, ())), h))
        new = type(node)(
            self.block(node.body, inside, ()),
            handlers,
            self.block(node.orelse, outside, ()),
            self.block(node.finalbody, outside, ()),
        )
        return [placed(new, node)]

    stmt_TryStar = stmt_Try

    def stmt_Match(self, node: ast.Match, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        cases = [
            ast.match_case(c.pattern, None if c.guard is None else self.expr(c.guard), self.block(c.body, region, rest))
            for c in node.cases
        ]
        return [placed(ast.Match(self.expr(node.subject), cases), node)]

    def stmt_Assert(self, node: ast.Assert, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        if not __debug__:
            return [node]
        message: ast.expr = ast.Constant(f"assert {ast.unparse(node.test)}") if node.msg is None else node.msg
        pieces = message.values if isinstance(message, ast.JoinedStr) else [message]
        parts: list[ast.expr] = []
        for piece in pieces:
            inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
            whole = self.expr(piece if isinstance(message, ast.JoinedStr) is False else inner)
            if isinstance(piece, ast.FormattedValue):
                text = placed(ast.JoinedStr([self.generic(piece)]), node)
                lazily = ast.Lambda(ast.arguments([], [], None, [], [], None, []), text)
                parts.append(ast.Tuple([whole, lazily], ast.Load()))
            else:
                parts.append(ast.Tuple([whole, ast.Constant(None)], ast.Load()))
        lazy = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.List(parts, ast.Load()))
        checked = placed(ast.Expr(placed(call("check", load(TEST), lazy), node)), node)
        plain = ast.Assert(load(TEST), None if node.msg is None else self.expr(node.msg))
        test = call("traced", ast.NamedExpr(store(TEST), self.expr(node.test, truth=True)))
        return [placed(ast.If(placed(test, node.test), [checked], [placed(plain, node)]), node)]

    def stmt_Raise(self, node: ast.Raise, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        new = self.generic(node)
        if self.unit and not region.caught:
            new.exc = placed(call("raising", new.exc or ast.Constant(None)), node)
        return [new]

    def stmt_FunctionDef(self, node: Any, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        return [self.nested(node)]

    stmt_AsyncFunctionDef = stmt_FunctionDef

    def stmt_ClassDef(self, node: ast.ClassDef, region: Region, rest: tuple[ast.stmt, ...]) -> list[ast.stmt]:
        new = copy.copy(node)
        new.bases = [self.expr(x) for x in node.bases]
        new.decorator_list = [self.expr(x) for x in node.decorator_list]
        new.body = [self.nested(x, node.name) if isinstance(x, ast.FunctionDef) else x for x in node.body]
        return [new]

    def nested(self, node: Any, owner: str = "") -> Any:
        """A function inside the function: rewritten by itself."""
        new = copy.copy(node)
        new.decorator_list = [self.expr(x) for x in node.decorator_list]
        new.args = self.generic(node.args)
        if isinstance(node, ast.FunctionDef) and not analyse.yields(node):
            new.body = self._inside(node, node.name, owner).function().body
        return new

    def _inside(self, node: Any, name: str, owner: str = "") -> Rewriter:
        path = f"{self.scope.qualname}.<locals>.{owner + '.' if owner else ''}{name}"
        scope = Scope(node, path, self.scope.file, self.scope.flags, self.scope)
        return Rewriter(scope, self.sites, self.globals)

    def _checked(self, node: ast.stmt) -> list[ast.stmt]:
        """What must be asked before a simple statement."""
        out: list[ast.stmt] = []
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = placed(load(node.target.id), node.target)
            if node.target.id in self.scope.uncertain:
                out.append(placed(ast.Expr(placed(call("read", name), node.target)), node))
        if not self.unit:
            return out
        for target in [t for root in targets for t in _flat(root)]:
            text = ast.Constant(ast.unparse(target))
            if isinstance(target, ast.Name):
                if target.id in self.scope.globals:
                    out.append(
                        placed(ast.Expr(call("store", ast.Constant(None), text, ast.Constant("global"))), target)
                    )
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                own = isinstance(target.value, ast.Name) and target.value.id in self.fresh
                if not (own and isinstance(target, ast.Subscript)):
                    base = target.value if isinstance(target.value, ast.Name) else ast.Constant(None)
                    kind = ast.Constant(type(target).__name__)
                    out.append(placed(ast.Expr(placed(call("store", base, text, kind), target)), target))
        return out

    # Expressions.

    def generic(self, node: Any) -> Any:
        """A copy with its expressions rewritten."""
        new = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(new, name, [self.expr(x) if isinstance(x, ast.AST) else x for x in value])
            elif isinstance(value, ast.AST):
                setattr(new, name, self.expr(value))
        return new

    def expr(self, node: Any, truth: bool = False) -> Any:
        """An expression; ``truth`` says that only its truth value is asked for."""
        method = getattr(self, f"expr_{type(node).__name__}", None)
        if method is None:
            return self.generic(node)
        return method(node, truth)

    def expr_Name(self, node: ast.Name, truth: bool) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.scope.uncertain:
            return placed(call("read", node), node)
        return node

    def expr_Constant(self, node: ast.Constant, truth: bool) -> ast.expr:
        return node

    def expr_BoolOp(self, node: ast.BoolOp, truth: bool) -> ast.expr:
        if self.plain:
            return self.generic(node)
        joined = isinstance(node.op, ast.And)

        def chain(values: list[ast.expr]) -> ast.expr:
            first = self.expr(values[0], truth)
            if len(values) == 1:
                return first
            given = [load(TEST), chain(values[1:]), ast.Constant(truth)]
            new = ast.IfExp(
                call("false" if joined else "true", ast.NamedExpr(store(TEST), first)),
                load(TEST),
                call("and_" if joined else "or_", *given),
            )
            return placed(new, node)

        return chain(node.values)

    def expr_UnaryOp(self, node: ast.UnaryOp, truth: bool) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            return self.generic(node)
        return placed(call("not_", self.expr(node.operand, truth=True)), node)

    def expr_Compare(self, node: ast.Compare, truth: bool) -> ast.expr:
        if len(node.ops) == 1 or self.plain:
            return self.generic(node)

        def chain(left: ast.expr, at: int) -> ast.expr:
            right = self.expr(node.comparators[at])
            if at == len(node.ops) - 1:
                return placed(ast.Compare(left, [node.ops[at]], [right]), node)
            held = f"{TEST}{at}"
            first = ast.Compare(left, [node.ops[at]], [placed(ast.NamedExpr(store(held), right), right)])
            new = ast.IfExp(
                call("false", ast.NamedExpr(store(TEST), placed(first, node))),
                load(TEST),
                call("and_", load(TEST), chain(placed(load(held), right), at + 1), ast.Constant(truth)),
            )
            return placed(new, node)

        return chain(self.expr(node.left), 0)

    def expr_IfExp(self, node: ast.IfExp, truth: bool) -> ast.expr:
        if self.plain:
            return self.generic(node)
        site = self._site("conditional expression", node)
        site.part("true", node.body)
        site.part("false", node.orelse)
        test = call("traced", ast.NamedExpr(store(TEST), self.expr(node.test, truth=True)))
        new = ast.IfExp(
            placed(test, node.test),
            placed(self._enter("either", site, load(TEST)), node.test),
            placed(ast.IfExp(load(TEST), self.expr(node.body, truth), self.expr(node.orelse, truth)), node),
        )
        return placed(new, node)

    def expr_comprehension(self, node: ast.comprehension, truth: bool) -> ast.comprehension:
        self.plain += 1
        over = self.expr(node.iter)
        self.plain -= 1
        conditions = [self.expr(x, truth=True) for x in node.ifs]
        return ast.comprehension(node.target, over, conditions, node.is_async)

    def expr_Lambda(self, node: ast.Lambda, truth: bool) -> ast.expr:
        new = copy.copy(node)
        new.args = self.generic(node.args)
        if not analyse.yields(node):
            inside = self._inside(node, "<lambda>")
            new.body = inside.expr(node.body)
        return new

    def expr_Call(self, node: ast.Call, truth: bool) -> ast.expr:
        new = self.generic(node)
        func = node.func
        if isinstance(func, ast.Name) and func.id == "super" and self._builtin("super"):
            if self.unit and not node.args and self.scope.parameters:
                new.args = [placed(load("__class__"), node), placed(load(self.scope.parameters[0]), node)]
            return new
        if self._foreign(func):
            root = func
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in _CALLERS:
                names = (ast.Name, ast.Attribute)
                new.args = [placed(call("fn", a), a) if isinstance(a, names) else a for a in new.args]
            return new
        new.func = placed(call("fn", new.func), func)
        if isinstance(func, ast.Attribute) and func.end_lineno not in (None, node.lineno):
            # Where the compiler sees the call of a method whose name stands on a line of its own.
            new.lineno = func.end_lineno
            new.col_offset = max((func.end_col_offset or 0) - len(func.attr), 0)
        return new

    def _builtin(self, name: str) -> bool:
        return hasattr(builtins, name) and name not in self.scope.locals and name not in self.globals

    def _foreign(self, func: ast.expr) -> bool:
        """Whether what is called is surely none of the user's functions."""
        if isinstance(func, ast.Name):
            return self._builtin(func.id)
        while isinstance(func, ast.Attribute):
            func = func.value
        if not isinstance(func, ast.Name) or func.id in self.scope.locals:
            return False
        found = self.globals.get(func.id)
        return isinstance(found, ModuleType) and found.__name__.partition(".")[0] in FOREIGN


def _flat(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [x for item in target.elts for x in _flat(item)]
    return _flat(target.value) if isinstance(target, ast.Starred) else [target]


_MAKERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.BinOp)


def compile_unit(
    site: Site, name: str, free: tuple[str, ...], sites: list[Site], globals: Mapping[str, Any]
) -> CodeType:
    """The code of one piece of a site, as a function that shares the variables ``free``."""
    scope, content = site.scope, site.parts[name]
    rewriter = Rewriter(scope, sites, globals, unit=True)
    live = frozenset(scope.live.kept | site.after | site.end | site.head)
    listed: list[Any] = content if isinstance(content, list) else [content]
    at = listed[0] if listed else site.node
    names = analyse.bound(listed) - {TEST}
    body: list[ast.stmt]
    if isinstance(content, list):
        made = [n for s in content for n in ast.walk(s) if isinstance(n, ast.Assign) and isinstance(n.value, _MAKERS)]
        rewriter.fresh = analyse.bound([t for n in made for t in n.targets if isinstance(t, ast.Name)])
        whole = name == "rest" or site.absorbs
        end = "loop" if name == "body" else site.finish if whole else "unit"
        body = rewriter.block(content, Region("unit", live, end), ()) or [placed(ast.Pass(), at)]
    else:
        truth = name == "test"
        body = [placed(ast.Return(rewriter.expr(content, truth)), at)]
    declared: list[ast.stmt] = []
    if shared := sorted(n for n in names - scope.globals if scope.mangled(frozenset({n})) & set(free)):
        declared.append(placed(ast.Nonlocal(shared), at))
    if outside := sorted((names | analyse.read(listed)) & scope.globals):
        declared.append(placed(ast.Global(outside), at))
    arguments = ast.arguments([], [ast.arg(ITEM)] if name == "target" else [], None, [], [], None, [])
    new = placed(ast.FunctionDef(name=UNIT, args=arguments, body=[*declared, *body], decorator_list=[]), at)
    return compile_inside(new, free, scope.owner, scope.file, scope.flags, scope.qualname)


def compile_function(
    scope: Scope, free: tuple[str, ...], sites: list[Site], globals: Mapping[str, Any]
) -> CodeType | None:
    """The code of a rewritten function; ``None`` when there is nothing in it to rewrite."""
    new = Rewriter(scope, sites, globals).function()
    if not any(isinstance(n, ast.Name) and n.id == FLOW for n in ast.walk(new)):
        return None
    return compile_inside(new, (*free, FLOW), scope.owner, scope.file, scope.flags, scope.qualname)


__all__ = ["compile_function", "compile_unit"]
