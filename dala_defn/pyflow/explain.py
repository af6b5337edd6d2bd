"""Why a condition could not be followed where it stands, and what to write in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import CodeType
from typing import Any

from dala_defn.pyflow import source
from dala_defn.sources import user_frame

_GENERATOR, _ASYNC = 0x20, 0x80 | 0x200
_COMPREHENSIONS = {
    ast.ListComp: "a list",
    ast.SetComp: "a set",
    ast.DictComp: "a dict",
    ast.GeneratorExp: "a generator",
}
CHANGED = "the source file is not the one that runs: it has changed since it was imported"
_MOST = 40  # characters of an expression that are shown


def instead(node: ast.AST) -> str:
    """A form in terms of ``dd`` for a statement or expression whose condition is traced."""
    if isinstance(node, ast.IfExp):
        return f"dd.where({_text(node.test)}, {_text(node.body)}, {_text(node.orelse)})"
    if isinstance(node, ast.While):
        return f"dd.while_loop(lambda state: {_text(node.test)}, body, state) before it"
    if isinstance(node, ast.For):
        return "dd.scan(body, state, xs) or dd.fori_loop(0, n, body, state) before it"
    if isinstance(node, ast.comprehension):
        return f"dd.where({_text(node.ifs[0])}, x, 0)" if node.ifs else "dd.where(condition, x, y)"
    if isinstance(node, ast.Assert):
        return f'dd.debug.check({_text(node.test)}, "message")'
    if isinstance(node, ast.If):
        one, other = _assigned(node.body), _assigned(node.orelse)
        test = _text(node.test)
        if one is not None and (not node.orelse or (other is not None and other[0] == one[0])):
            return f"{one[0]} = dd.where({test}, {one[1]}, {one[0] if other is None else other[1]})"
        return f"dd.cond({test}, lambda: ..., lambda: ...) or dd.where({test}, x, y)"
    return "dd.where(condition, x, y) or dd.cond(condition, f, g, x)"


def _assigned(body: list[ast.stmt]) -> tuple[str, str] | None:
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or len(body[0].targets) != 1:
        return None
    return _text(body[0].targets[0]), _text(body[0].value)


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _MOST else "..."


def _reason(code: CodeType, on: bool, ours: bool) -> str:
    if not on:
        return "rewrite=False was asked for"
    if code.co_flags & _GENERATOR:
        return f"{code.co_qualname} is a generator, which cannot be rewritten"
    if code.co_flags & _ASYNC:
        return f"{code.co_qualname} is asynchronous, which cannot be rewritten"
    if not ours:
        return f"{code.co_qualname} belongs to an installed package, whose code is not rewritten"
    if code.co_name == "<module>":
        return "it stands outside of any function"
    if not source.read(code.co_filename).functions:
        return f"the source of {code.co_qualname} is not there to be rewritten"
    return CHANGED if source.find(code) is None else ""


def condition(on: bool, users: Any) -> tuple[str, str]:
    """For the user's line that asks for a truth value: the reason that it was not rewritten, and what to write."""
    frame = user_frame(2)
    if frame is None:
        return "", ""
    code = frame.f_code
    found, filtered = _asking(code, frame.f_lineno)
    reason = f"the condition decides how long {filtered} is" if on and filtered else _reason(code, on, users(code))
    return reason, instead(found) if found is not None and reason != CHANGED else ""


def _asking(code: CodeType, line: int) -> tuple[ast.AST | None, str]:
    """What has its condition in a line, and what it makes where that is a comprehension."""
    found: ast.AST | None = None
    filtered = ""
    for functions in source.read(code.co_filename).functions.values():
        for function in functions:
            if not function.lineno <= line <= (function.end_lineno or line):
                continue
            for node in ast.walk(function):
                makes = _COMPREHENSIONS.get(type(node), "")
                parts: Iterable[Any] = getattr(node, "generators", ()) if makes else (node,)
                for asks in parts:
                    tests = asks.ifs if makes else [getattr(asks, "test", None)]
                    if any(isinstance(t, ast.expr) and t.lineno <= line <= (t.end_lineno or line) for t in tests):
                        found, filtered = asks, makes
    return found, filtered


__all__ = ["condition", "instead"]
