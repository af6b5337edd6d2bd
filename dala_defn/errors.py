"""What goes wrong, as data: every error of Dala carries its code, the user's line, the operands and a next step."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from dala_defn.sources import PACKAGE, Location, entry_frame, user_location

# As the interpreter has it: errors of ours have a property of this name in front of it.
_TRACEBACK: Any = vars(BaseException)["__traceback__"]


@dataclass(frozen=True)
class Operand:
    """One operand as an error shows it: its name, its type and where it was made."""

    name: str
    type: str
    origin: str = ""


_describer: list[Callable[[FrameType], tuple[Operand, ...]]] = []


def install_describer(describer: Callable[[FrameType], tuple[Operand, ...]]) -> None:
    """Hands in what reads operands from the frame of a public function: it knows arrays, which this module does not."""
    _describer[:] = [describer]


class _Describing(threading.local):
    now = False


_describing = _Describing()


def _found_operands() -> tuple[Operand, ...]:
    """What the user gave to the function of ours that is running."""
    frame = None if _describing.now or not _describer else entry_frame()
    if frame is None:
        return ()
    _describing.now = True  # describing may itself fail, with an error that would be described
    try:
        return _describer[0](frame)
    except DalaError:
        return ()
    finally:
        _describing.now = False


class DalaError(Exception):
    """The base of all errors of Dala.

    Attributes:
        reason: what is wrong, in one line.
        code: a short stable code such as ``"E101"``.
        op: the operation it happened in, or ``None``.
        operands: the operands with their types and origins.
        rule: the rule that was broken; ``hint``: what to try.
        location: the user's place; where none is given, the line that is being executed.
        details: further facts, by name.
    """

    default_code = "E000"

    def __init__(
        self,
        reason: str,
        *,
        code: str | None = None,
        op: str | None = None,
        operands: Sequence[Operand] = (),
        rule: str = "",
        hint: str = "",
        location: Location | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code or self.default_code
        self.op = op
        self.operands = tuple(operands) or _found_operands()
        self.rule = rule
        self.hint = hint
        self.location = user_location() if location is None else location
        self._placed = False
        self.details = dict(details or {})

    def __str__(self) -> str:
        head = f"[{self.code}]"
        lines = []
        if self.location is not None:
            head += f" {self.location}"
            source = self.location.source_line()
            if source:
                text = source.lstrip()
                column = max((self.location.column or 1) - 1 - (len(source) - len(text)), 0)
                number = f"{self.location.line:>6} | "
                lines += [number + text, " " * len(number) + " " * column + f"^ {self.reason}"]
        if not lines:
            lines = [self.reason]
        width = max((len(o.name) for o in self.operands), default=0)
        for o in self.operands:
            lines.append(f"  {o.name:<{width}}  {o.type}" + (f"  {o.origin}" if o.origin else ""))
        if self.rule:
            lines.append(f"  rule  {self.rule}")
        if self.hint:
            lines.append(f"  try   {self.hint}")
        return "\n".join([head, *lines])

    def place(self, location: Location) -> None:
        """Says where in a graph it happened; the first to know, which is the innermost function, is right."""
        if not self._placed:
            self._placed = True
            self.location = location

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data, fit for JSON."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "op": self.op,
            "reason": self.reason,
            "operands": [vars(o) for o in self.operands],
            "rule": self.rule,
            "hint": self.hint,
            "location": None if self.location is None else self.location.to_dict(),
            "details": self.details,
        }

    def log_line(self) -> str:
        """The error in one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, default=str)

    # Reading the traceback leaves out our own frames; the interpreter itself still has them all.
    @property
    def __traceback__(self) -> TracebackType | None:
        return user_frames(_TRACEBACK.__get__(self))

    @__traceback__.setter
    def __traceback__(self, tb: TracebackType | None) -> None:
        _TRACEBACK.__set__(self, tb)


class ShapeError(DalaError, ValueError):
    """Shapes, axes or sizes that do not fit."""

    default_code = "E101"


class DTypeError(DalaError, TypeError):
    """An element type that an operation does not take, or that cannot hold a value."""

    default_code = "E201"


class ArgumentError(DalaError, ValueError):
    """A value that an argument cannot have."""

    default_code = "E301"


class ArgumentTypeError(DalaError, TypeError):
    """An argument of a kind that is not taken."""

    default_code = "E302"


class TraceError(DalaError, TypeError):
    """A traced value used where a concrete one is needed."""

    default_code = "E401"


class EscapedTracerError(DalaError, RuntimeError):
    """A traced value used after its trace has ended."""

    default_code = "E402"


class RetraceError(DalaError, RuntimeError):
    """A function that would be traced more often than it may be."""

    default_code = "E404"


class GradientError(DalaError, ValueError):
    """A derivative that does not exist."""

    default_code = "E501"


class VerifyError(DalaError, ValueError):
    """A graph that breaks the rules of the IR."""

    default_code = "E601"


class ParseError(DalaError, ValueError):
    """Text that is not a graph."""

    default_code = "E602"


class FileFormatError(DalaError, ValueError):
    """A file that is not a valid ``.dala`` file."""

    default_code = "E701"


class SignatureError(FileFormatError):
    """A file whose signature is missing, another file's, or by a key that is not trusted."""

    default_code = "E703"


class FileError(DalaError, OSError):
    """A file that cannot be read or written."""

    default_code = "E702"


class EngineError(DalaError, RuntimeError):
    """The runtime could not do what was asked."""

    default_code = "E801"


class EnginePanic(EngineError):
    """A bug inside the runtime, caught at the boundary; the process goes on."""

    default_code = "E802"


class CheckFailed(DalaError, AssertionError):
    """A condition that the program checks while it runs was false."""

    default_code = "E805"


class NotFiniteError(DalaError, FloatingPointError):
    """A NaN, or an infinity, where ``debug_nans`` watches for one."""

    default_code = "E808"


class IndexOutOfRange(DalaError, IndexError):
    """An index outside its axis."""

    default_code = "E303"


class OutOfMemory(DalaError, MemoryError):
    """A run that would pass the memory limit."""

    default_code = "E803"


class TimeLimitExceeded(DalaError, TimeoutError):
    """A run that took longer than ``dd.time_limit`` allows."""

    default_code = "E806"


class DonatedError(DalaError, RuntimeError):
    """An array whose storage was given away."""

    default_code = "E804"


def full_tracebacks() -> bool:
    """Whether ``DALA_TRACEBACK=full`` asks for our own frames too."""
    return os.environ.get("DALA_TRACEBACK") == "full"


def user_frames(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package (all of it when nothing else is in it)."""
    return tb if full_tracebacks() else _without_ours(tb) or tb


def _without_ours(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    at = tb
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(at)
        at = at.tb_next
    chain = None
    for entry in reversed(kept):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain


F = TypeVar("F", bound=Callable[..., Any])


def leave(error: DalaError) -> None:
    """Takes our frames out of an error that is about to leave for the user's code, by a bare ``raise``.

    ``sys.exc_info()``, which logging and ``traceback.format_exc()`` ask, does not ask ``error.__traceback__``; and a
    bare ``raise`` does not enter its own frame again.
    """
    if not full_tracebacks():
        error.__traceback__ = _without_ours(_TRACEBACK.__get__(error))


def boundary(f: F) -> F:
    """``f`` as users call it: errors of ours leave it without our frames."""

    @functools.wraps(f)
    def call_from_user(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except DalaError as error:
            leave(error)
            raise

    return cast(F, call_from_user)


def boundaries(holder: Any, names: Iterable[str] | None = None, *, but: Iterable[str] = ()) -> None:
    """Makes the functions of a module, or the methods of a class, boundaries: the public ones and operators."""
    for name in set(vars(holder) if names is None else names) - set(but):
        f = vars(holder)[name]
        operator = name.startswith("__") and name not in _QUIET
        if isinstance(f, FunctionType) and (operator or not name.startswith("_")):
            setattr(holder, name, boundary(f))


_QUIET = {"__init__", "__new__", "__repr__", "__str__", "__hash__", "__del__", "__getattr__", "__get__", "__reduce__"}


def install_excepthook() -> None:
    """Makes the interpreter's last words leave out our frames for our errors."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if isinstance(error, DalaError):
            tb = user_frames(tb)
            error.__traceback__ = tb
        previous(kind, error, tb)

    sys.excepthook = hook


# Statuses of the native runtime (dala.h).
_STATUS: dict[int, type[DalaError]] = {
    1: FileFormatError,
    2: VerifyError,
    3: ArgumentError,
    4: EngineError,
    5: EngineError,
    6: OutOfMemory,
    7: EnginePanic,
    8: FileError,
}
# By the code of an error whose status says less.
_CODES: dict[tuple[int, str], type[DalaError]] = {
    (1, "signature"): SignatureError,
    (1, "signature-key"): SignatureError,
    (1, "signature-missing"): SignatureError,
    (3, "dtype"): DTypeError,
    (3, "shape"): ShapeError,
    (3, "dim"): ShapeError,
    (3, "dim-bounds"): ShapeError,
    (3, "dim-conflict"): ShapeError,
    (4, "index-out-of-range"): IndexOutOfRange,
    (4, "assertion"): CheckFailed,
}


def kind_of_status(status: int, code: str | None) -> type[DalaError]:
    """The class of an error of the native runtime."""
    return _CODES.get((status, code or ""), _STATUS.get(status, EngineError))
