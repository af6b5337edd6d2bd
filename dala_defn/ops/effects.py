"""Ops that do more than compute: they take a token and give the next one, so that their order stays.

A function makes its own first token. Nodes with effects, those that run functions with effects included, run in the
order in which they stand, and no pass moves, merges or drops them.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.errors import CheckFailed, DTypeError, EngineError, ShapeError, TimeLimitExceeded
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import OPS, ZERO_GRAD, Batched, OpSpec, define, no_flops
from dala_defn.ops.structure import no_cases

TOKEN = Type(dtypes.token, ())
TRUTH = Type(dtypes.bool_, ())
Handler = Callable[[str, str, Sequence[Array], Sequence[Type]], Sequence[Any]]

_handler: list[Handler] = []


def install_handler(handler: Handler) -> None:
    """Hands in what prints, taps and calls back: ``(kind, name, values, result types) -> results``."""
    _handler[:] = [handler]


def handle(kind: str, name: str, values: Sequence[Array], types: Sequence[Type] = ()) -> Sequence[Any]:
    """Runs an effect.

    Raises:
        EngineError: when nothing was handed in that could.
    """
    if not _handler:
        raise EngineError(f"{kind} {name!r}: nothing handles it here", hint="import dala_defn, not a part of it")
    return _handler[0](kind, name, values, types)


class _Clock(threading.local):
    end = math.inf
    seconds = math.inf


_clock = _Clock()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stops programs that this thread runs inside once so much time has passed; loops look at the clock.

    A run that is stopped leaves state and donated arrays as they were. Programs from outside may hold loops without an
    end.

    Args:
        seconds: of real time, from the beginning of the block.

    Raises:
        TimeLimitExceeded: from the run that is stopped.

    Example:
        >>> with dd.time_limit(10):
        ...     y = dd.while_loop(lambda x: x < 100, lambda x: x * 2, dd.array(3))
    """
    before = _clock.end, _clock.seconds
    _clock.end = min(_clock.end, time.monotonic() + seconds)
    _clock.seconds = min(_clock.seconds, seconds)
    try:
        yield
    finally:
        _clock.end, _clock.seconds = before


def look_at_the_clock() -> None:
    """Executors call it in loops.

    Raises:
        TimeLimitExceeded: when the time is over.
    """
    if _clock.end < math.inf and time.monotonic() > _clock.end:
        raise TimeLimitExceeded(f"the run took longer than {_clock.seconds:g} seconds")


def _token(op: str, types: Sequence[Type]) -> None:
    if not types or types[0] != TOKEN:
        raise DTypeError(f"{op} takes a token first", op=op)
    if any(t.dtype.kind == "t" for t in types[1:]):
        raise DTypeError(f"{op} takes one token", op=op)


def _effect_infer(op: str) -> Callable[..., tuple[Type, ...]]:
    def infer(*types: Type, **attrs: str) -> tuple[Type, ...]:
        _token(op, types)
        return (TOKEN,)

    return infer


def _batch_whole(op: str) -> Batched:
    """An effect of a batch is that of all its examples at once."""

    def rule(t: Any, size: Any, args: Sequence[Any], batched: Sequence[bool], attrs: Any) -> Any:
        return (OPS[op](*args, **attrs),), (False,)

    return Batched(rule)


NEW = np.zeros((), np.uint8)


def effect(**given: Any) -> OpSpec:
    """Enters an op with an effect in the table; see ``define``."""
    shared: dict[str, Any] = {
        "family": "effect",
        "accepts": (),
        "result": "own",
        "vjp": ZERO_GRAD,
        "jvp": ZERO_GRAD,
        "fusion": "opaque",
        "flops": no_flops,
        "sample": no_cases,
        "ulp": 0,
        "since": "0.1",
    }
    return define(**shared, **given)


token: OpSpec = effect(
    name="token",
    code=0xC8,
    attrs={},
    cost=0,
    infer=lambda: (TOKEN,),
    reference=lambda: NEW,
    batch=Batched(lambda t, size, args, batched, attrs: ((token(),), (False,))),
    doc="The first token of a function, from which its effects follow one after the other.",
    example='dd.defn(lambda x: dd.debug.tap("x", x))(dd.array(1.0))',
)


def _shown(kind: str, attr: str) -> Callable[..., Array]:
    def reference(before: Array, *values: Array, **attrs: str) -> Array:
        handle(kind, attrs[attr], values)
        return before

    return reference


print_: OpSpec = effect(
    name="print",
    code=0xC9,
    attrs={"format": "str"},
    infer=_effect_infer("print"),
    reference=_shown("print", "format"),
    batch=_batch_whole("print"),
    doc="Prints ``format`` with ``{0}``, ``{1}`` ... replaced by the operands after the token.",
    example='dd.defn(lambda x: (dd.debug.print("x is {}", x), x)[1])(dd.array(1.0))',
)

tap: OpSpec = effect(
    name="tap",
    code=0xCA,
    attrs={"name": "str"},
    infer=_effect_infer("tap"),
    reference=_shown("tap", "name"),
    batch=_batch_whole("tap"),
    doc="Shows the operands after the token under a name to whoever collects taps; else it does nothing.",
    example='dd.debug.tap("x", dd.array(1.0))',
)


def _assert_infer(*types: Type, message: str) -> tuple[Type, ...]:
    _token("assert", types)
    if len(types) < 2 or types[1] != TRUTH:
        raise DTypeError(
            f"assert takes a bool scalar, not {types[1] if len(types) > 1 else 'nothing'}",
            op="assert",
            hint="dd.all(...) of an array of conditions",
        )
    return (TOKEN,)


def fill(template: str, values: Sequence[Array]) -> str:
    """The template with ``{0}``, ``{1}`` ... replaced by the values, ``{{`` and ``}}`` by single ones."""
    shown = [np.array2string(np.asarray(x), threshold=20) for x in values]

    def replaced(m: re.Match[str]) -> str:
        at = m[1]
        return m[0][0] if at is None else shown[int(at)] if int(at) < len(shown) else m[0]

    return re.sub(r"\{\{|\}\}|\{(\d{1,6})\}", replaced, template)


def _assert(before: Array, condition: Array, *values: Array, message: str) -> Array:
    if not bool(condition):
        raise CheckFailed(fill(message, values), op="assert")
    return before


def _assert_batch(t: Any, size: Any, args: Sequence[Any], batched: Sequence[bool], attrs: Any) -> Any:
    before, condition, *values = args
    if batched[1]:
        failed = OPS["cast"](OPS["bitwise_not"](condition), dtype=dtypes.int32)
        condition = OPS["equal"](OPS["sum"](failed, axes=(0,)), lit(0, dtypes.int32))
    return (assert_(before, condition, *values, **attrs),), (False,)


assert_: OpSpec = effect(
    name="assert",
    code=0xCB,
    attrs={"message": "str"},
    infer=_assert_infer,
    reference=_assert,
    batch=Batched(_assert_batch),
    doc="Fails the run when its condition, the operand after the token, is false; the message is made like that of "
    "``print`` from the operands after it.",
    example='dd.defn(lambda x: (dd.debug.check(x > 0, "x is {}", x), x)[1])(dd.array(1.0))',
)


def _callback_infer(*types: Type, name: str, results: tuple[Type, ...]) -> tuple[Type, ...]:
    _token("callback", types)
    if any(t.dtype.kind in "tk" for t in results):
        raise DTypeError("callback: a result is an array, no key and no token", op="callback")
    return (TOKEN, *results)


def _callback(before: Array, *values: Array, name: str, results: Sequence[Type]) -> tuple[Array, ...]:
    found = handle("callback", name, values, results)
    out = []
    for x, t in zip(found, results, strict=True):
        a = np.asarray(x, t.dtype.dtype)
        if a.shape != t.shape:
            raise ShapeError(f"callback {name}: it gave an array of shape {list(a.shape)}, not {t}", op="callback")
        out.append(a)
    return (before, *out)


def _callback_batch(t: Any, size: Any, args: Sequence[Any], batched: Sequence[bool], attrs: Any) -> Any:
    raise EngineError(
        f"callback {attrs['name']}: a Python function cannot be batched",
        op="callback",
        hint="call it outside vmap, on the whole batch",
    )


callback: OpSpec = effect(
    name="callback",
    code=0xCC,
    attrs={"name": "str", "results": "types"},
    infer=_callback_infer,
    reference=_callback,
    batch=Batched(_callback_batch),
    doc="Calls what the process registered under ``name`` with the operands after the token; it gives arrays of the "
    "types ``results``. It exists in a live process only, and is refused in a file.",
    example="dd.pure_callback(np.sin, dd.spec((), dd.float32), dd.array(1.0))",
)
