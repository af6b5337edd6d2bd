"""Where in the user's program something was written.

While tracing only the code object and the instruction are kept; file, line and column are worked out when asked for.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parent) + os.sep
# Packages (by the first part of their name) whose code is none of the user's.
FOREIGN = frozenset({*sys.stdlib_module_names, "numpy", "ml_dtypes", "dala_defn"})


@dataclass(frozen=True)
class Location:
    """A place: file (as the module was loaded), line and column from 1, function, and the layer path if any."""

    file: str
    line: int
    column: int
    function: str
    path: str = ""

    def __str__(self) -> str:
        layer = f" [{self.path}]" if self.path else ""
        return f"{self.file}:{self.line}:{self.column} in {self.function}{layer}"

    def source_line(self) -> str:
        """The text of the line, or nothing when there is no source."""
        return linecache.getline(self.file, self.line).rstrip()

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "function": self.function,
            "path": self.path,
        }

    def resolve(self) -> Location:
        """Itself: the same question may be asked of a mark."""
        return self

    def short(self) -> str:
        """``file:line:column`` with the file's own name only."""
        return f"{os.path.basename(self.file)}:{self.line}:{self.column}"


class Mark:
    """A place as it is cheap to take: a code object and an instruction in it."""

    __slots__ = ("code", "instruction", "path")

    def __init__(self, code: CodeType, instruction: int, path: str = "") -> None:
        self.code = code
        self.instruction = instruction
        self.path = path

    def resolve(self) -> Location:
        """The file, line and column."""
        spot = next(islice(self.code.co_positions(), self.instruction // 2, None), (None, None, None, None))
        line, _, column, _ = spot
        return Location(
            self.code.co_filename,
            line or self.code.co_firstlineno,
            (column or 0) + 1,
            self.code.co_qualname,
            self.path,
        )


Place = Mark | Location

_OURS: dict[str, bool] = {"<string>": False}


def write_function(name: str, arguments: str, body: Sequence[str], known: Mapping[str, Any]) -> Any:
    """A function made from lines of its body, which see the names ``known``; its frames count as ours."""
    source = "\n".join([f"def {name}({arguments}):", *(f"    {line}" for line in body)])
    space = dict(known)
    exec(compile(source, f"{PACKAGE}<{name}>", "exec"), space)
    return space[name]


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside this package."""
    return _outside(sys._getframe(depth))


def _outside(frame: FrameType | None) -> FrameType | None:
    known = _OURS
    while frame is not None:
        file = frame.f_code.co_filename  # the hash of a text is kept; that of a code object is worked out each time
        ours = known.get(file)
        if ours is None:
            ours = known[file] = file.startswith((PACKAGE, "<frozen"))
        # Dataclasses write an __init__ of their own.
        if not ours and not (file == "<string>" and frame.f_code.co_qualname.startswith("__create_fn__")):
            return frame
        frame = frame.f_back
    return None


def asked_by_user() -> bool:
    """Whether the function that calls this one was itself called from outside this package, C functions aside."""
    frame = sys._getframe(2)
    return user_frame(3) is frame


def entry_frame() -> FrameType | None:
    """The outermost frame of this package below the user's innermost: the function of ours that the user called."""
    found, frame = None, sys._getframe(1)
    end = user_frame(2)
    while frame is not None and frame is not end:
        if frame.f_code.co_name != "call_from_user":  # of errors.boundary, which only passes on
            found = frame
        frame = frame.f_back  # type: ignore[assignment]
    return found if end is not None else None


_MARKS: dict[tuple[int, int, str], Mark] = {}
_MOST_MARKS = 1 << 16


def mark(path: str = "", depth: int = 0) -> Mark | None:
    """A mark of the user's line that is being executed; ``depth`` callers are known to be none of the user's."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and _OURS.get(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and (frame.f_code.co_filename == "<string>" or frame.f_code.co_filename not in _OURS):
        frame = _outside(frame)
    if frame is None:
        return None
    code = frame.f_code
    key = (id(code), frame.f_lasti, path)  # a mark keeps its code alive, and so its identity
    found = _MARKS.get(key)
    if found is None:
        if len(_MARKS) >= _MOST_MARKS:
            _MARKS.clear()
        found = _MARKS[key] = Mark(code, frame.f_lasti, path)
    return found


def here(path: str = "") -> Mark | None:
    """A mark of the user's line that is being executed."""
    return mark(path, 1)


def user_location() -> Location | None:
    """The user's line that is being executed."""
    mark = here()
    return None if mark is None else mark.resolve()
