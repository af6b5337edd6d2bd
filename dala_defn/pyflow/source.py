"""The source of a function as a syntax tree with the line and column numbers of its file."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections import OrderedDict
from collections.abc import Iterable
from types import CodeType
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

FLOW = "_dala_flow"  # what the rewritten code calls, found like a variable of an enclosing function
UNIT = "_dala_unit"  # the name of a function while it is compiled: its own would hide the global of that name
_FILES = 16
_SCOPES = (*FUNCTIONS, ast.ClassDef)


class File:
    """The functions of a file by their first line (that of the first decorator), and the names that it imports."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.functions: dict[int, list[Function]] = {}
        self.imports: set[str] = set()

    def add(self, tree: ast.Module) -> None:
        """Reads the syntax tree."""
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                first = node.lineno
                if not isinstance(node, ast.Lambda):
                    first = min([first, *(d.lineno for d in node.decorator_list)])
                self.functions.setdefault(first, []).append(node)
        queue: list[ast.AST] = [tree]
        while queue:
            for node in ast.iter_child_nodes(queue.pop()):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    self.imports.update(a.asname or a.name.partition(".")[0] for a in node.names)
                elif not isinstance(node, (*_SCOPES, ast.expr)):
                    queue.append(node)


_files: OrderedDict[str, File] = OrderedDict()


def read(file: str) -> File:
    """What stands in a file; nothing when there is no source."""
    lines = linecache.getlines(file)
    known = _files.get(file)
    if known is not None and known.lines == lines:
        return known
    made = File(lines)
    try:
        made.add(ast.parse("".join(lines), file))
    except (SyntaxError, ValueError):
        return made
    _files[file] = made
    while len(_files) > _FILES:
        _files.popitem(last=False)
    return made


def flags_of(code: CodeType) -> int:
    """The ``__future__`` imports under which a function was compiled."""
    return code.co_flags & _FUTURE


def class_of(qualname: str) -> str:
    """The innermost class around a function, or nothing: names that start with ``__`` are written with it."""
    parts = qualname.split(".")
    at = len(parts) - 2
    while at >= 0 and parts[at] == "<locals>":
        at -= 2
    return parts[at] if at >= 0 else ""


def mangled(name: str, owner: str) -> str:
    """A name as the compiler writes it inside a class."""
    bare = owner.lstrip("_")
    return f"_{bare}{name}" if bare and name.startswith("__") and not name.endswith("__") else name


def compile_inside(
    node: ast.FunctionDef | ast.Lambda, free: Iterable[str], owner: str, file: str, flags: int, qualname: str
) -> CodeType:
    """The code of a function that finds ``free`` in an enclosing function, and stands in a class ``owner`` if any.

    Its qualified name, and those of the functions inside it, are made to start with ``qualname``.
    """
    body: ast.stmt = ast.Return(node) if isinstance(node, ast.Lambda) else node
    if owner:
        held = ast.Assign([ast.Name("held", ast.Store())], node) if isinstance(node, ast.Lambda) else node
        body = ast.ClassDef(owner, [], [], [held], [])
    statements = [body]
    if owner and owner not in free:
        statements.insert(0, ast.copy_location(ast.Global([owner]), node))
    outer = ast.FunctionDef(
        name="outer",
        args=ast.arguments([], [ast.arg(name) for name in free if name != "__class__"], None, [], [], None, []),
        body=statements,
        decorator_list=[],
    )
    for new in (outer, body, *(body.body if isinstance(body, ast.ClassDef) else ())):
        ast.copy_location(new, node)
    # The compiler calls the functions of modules that the file imports in another way than methods of objects.
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & read(file).imports
    imports = [ast.copy_location(ast.Import([ast.alias(name) for name in sorted(used)]), node)] if used else []
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    code = compile(module, file, "exec", flags=flags, dont_inherit=True)
    found = _inner(_inner(code))
    found = _inner(found) if owner else found
    return _renamed(found, found.co_qualname, qualname)


def _inner(code: CodeType) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType))


def _renamed(code: CodeType, old: str, new: str) -> CodeType:
    consts = tuple([_renamed(c, old, new) if isinstance(c, CodeType) else c for c in code.co_consts])
    name = new + code.co_qualname.removeprefix(old)
    return code.replace(co_consts=consts, co_qualname=name, co_name=name.rpartition(".")[2])


def bare(node: Function) -> Any:
    """A function without what is evaluated where it is defined: decorators, defaults, annotations."""
    args = node.args

    def plain(a: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(a.arg), a)

    new_args = ast.arguments(
        [plain(a) for a in args.posonlyargs],
        [plain(a) for a in args.args],
        plain(args.vararg) if args.vararg else None,
        [plain(a) for a in args.kwonlyargs],
        [None for _ in args.kwonlyargs],
        plain(args.kwarg) if args.kwarg else None,
        [],
    )
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Lambda(new_args, node.body), node)
    return ast.copy_location(type(node)(name=UNIT, args=new_args, body=node.body, decorator_list=[]), node)


def find(code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The syntax tree that a function was compiled from; ``None`` when there is none, or it is another one by now."""
    owner = class_of(code.co_qualname)
    named = []
    for node in read(code.co_filename).functions.get(code.co_firstlineno, ()):
        if isinstance(node, ast.AsyncFunctionDef):
            continue
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        if mangled(name, owner) in (code.co_name, name) and name in (code.co_name, mangled(code.co_name, owner)):
            named.append(node)
    return next((node for node in named if _is_of(node, code, owner)), None)


def _is_of(node: ast.FunctionDef | ast.Lambda, code: CodeType, owner: str) -> bool:
    try:
        made = compile_inside(bare(node), code.co_freevars, owner, code.co_filename, flags_of(code), code.co_qualname)
    except (SyntaxError, ValueError, StopIteration):
        return False
    count = made.co_argcount + made.co_kwonlyargcount
    if made.co_varnames[:count] != code.co_varnames[:count] or made.co_freevars != code.co_freevars:
        return False
    # Test runners replace assert statements by code of their own.
    if any(isinstance(n, ast.Assert) for n in ast.walk(node)):
        return True
    same = made.co_code == code.co_code and made.co_names == code.co_names
    return same and _places(made) == _places(code)


def _places(code: CodeType) -> list[tuple[int | None, ...]]:
    """Where the instructions of a function stand, without those for the function itself."""
    return [p for p in code.co_positions() if p[2] != p[3]]
