"""What rewritten functions call when they meet a condition or an iterable that may be traced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from dala_defn import debug, dtypes, ops
from dala_defn import functions as F
from dala_defn.errors import Operand, TraceError
from dala_defn.functions.base import convert, dtype_of, is_value
from dala_defn.ops.spec import OPS
from dala_defn.pyflow import frames
from dala_defn.pyflow.analyse import Names
from dala_defn.pyflow.frames import CONTINUE, RETURN, Contents, Frame, Jump, Status, code_of, is_code, value_of
from dala_defn.pyflow.iterables import Range, Rows, enumerated, ranged, reversed_rows, rows_of, zipped
from dala_defn.pyflow.sites import Site
from dala_defn.pyflow.values import (
    ABSENT,
    Joined,
    Part,
    Slot,
    Unassigned,
    closed,
    describe,
    has_value,
    is_dead,
    is_dynamic,
    join,
    together,
    traced,
    type_of,
)
from dala_defn.trace import describe as operand

MOST_NESTED = 50
MOST_TURNS = 1000  # of an iterator that does not tell its length
Run = Callable[[], Any]


class _Active(threading.local):
    """How often each site is being traced, inside itself, by this thread."""

    def __init__(self) -> None:
        self.depth: dict[int, int] = {}


class Branching:
    """Truth values, branches, and what follows them."""

    BREAK = Jump(frames.BREAK)
    CONTINUE = Jump(CONTINUE)

    def __init__(self, sites: list[Site], compile: Callable[..., Any], fn: Callable[[Any], Any]) -> None:
        self.sites = sites
        self.fn = fn
        self._compile = compile
        self._active = _Active()

    traced = staticmethod(traced)

    # Truth values.

    def truth(self, x: Any) -> Any:
        """A traced condition as a bool scalar.

        Raises:
            TraceError: when it has axes.
        """
        if tuple(x.shape) != ():
            raise TraceError(
                f"the condition is {type_of(x)}: one truth value is needed, and an array has many",
                operands=[operand(x, 0)],
                hint="dd.all(...) or dd.any(...) of it; dd.where(condition, x, y) for a choice element by element",
            )
        if dtype_of(x) is dtypes.bool_:
            return x
        if dtype_of(x).kind in "kt":
            raise TraceError(f"the condition is {type_of(x)}, which has no truth value")
        return OPS["not_equal"](x, ops.lit(0, dtype_of(x)))

    def false(self, x: Any) -> bool:
        """Whether ``and`` ends here, while tracing."""
        return not traced(x) and not x

    def true(self, x: Any) -> bool:
        """Whether ``or`` ends here, while tracing."""
        return not traced(x) and bool(x)

    def and_(self, x: Any, y: Any, truth: bool) -> Any:
        """``x and y``."""
        return self._joined(x, y, truth, True)

    def or_(self, x: Any, y: Any, truth: bool) -> Any:
        """``x or y``."""
        return self._joined(x, y, truth, False)

    def _joined(self, x: Any, y: Any, truth: bool, both: bool) -> Any:
        if not traced(x):
            return y
        left = self.truth(x)
        if truth or (dtype_of(x) is dtypes.bool_ and (type(y) is bool or _is_bool(y))):
            if not traced(y):
                return (left if y else False) if both else (True if y else left)
            return OPS["bitwise_and" if both else "bitwise_or"](left, self.truth(y))
        values = [y, x] if both else [x, y]
        made = join(values) if is_dynamic(y) else None
        if made is None:
            name = "and" if both else "or"
            raise TraceError(
                f"`x {name} y` is one of its two sides, which differ in type, depending on a traced condition",
                operands=[Operand("left", describe(x)), Operand("right", describe(y))],
                hint="dd.where(condition, x, y), or a comparison on both sides for a truth value",
            )
        sides = [convert(v, s.type.dtype) for v, s in zip(values, made.slots * 2, strict=True) if isinstance(s, Slot)]
        return F.where(left, *sides) if sides else y

    def not_(self, x: Any) -> Any:
        """``not x``."""
        return OPS["bitwise_not"](self.truth(x)) if traced(x) else not x

    # Values.

    def read(self, x: Any) -> Any:
        """A variable that may have no value because a branch or a loop did not run."""
        if type(x) is Unassigned:
            raise TraceError(
                f"{x.name} may have no value here: {x.reason}",
                rule=f"it gets its value at {x.place.short()}, under a traced condition",
                hint=f"{x.name} = ... before it, of the same shape and dtype",
            )
        return x

    def ret(self, x: Any, line: int) -> Jump:
        """A piece ends with ``return x``."""
        return Jump(RETURN, x, (line,))

    def value(self, status: Status) -> Any:
        """What a function that has come to its end returns."""
        x = value_of(status)
        return None if x is ABSENT else x

    def next(self, status: Status) -> bool:
        """Whether a loop goes on to its next turn."""
        return status is None or (status.known and status.code == CONTINUE)

    def raising(self, x: Any) -> Any:
        """``raise x`` under a traced condition.

        Raises:
            TraceError: always.
        """
        name = x.__name__ if isinstance(x, type) else type(x).__name__
        raise TraceError(
            f"{'an exception' if x is None else name} would be raised under a traced condition",
            rule="tracing runs both sides of a condition; only a check can fail when the program runs",
            hint='assert condition, "message", or dd.debug.check(condition, "message")',
        )

    def store(self, base: Any, text: str, kind: str) -> None:
        """An assignment to something other than a local variable under a traced condition.

        Raises:
            TraceError: unless it is an item of an array, which is refused in its own way.
        """
        if is_value(base) and kind == "Subscript":
            return
        if kind == "global":
            what, hint = f"the global {text}", f"a local variable, returned and assigned to {text} by the caller"
        elif kind == "Subscript":
            name = text.partition("[")[0]
            what = f"the item {text}"
            hint = f"{name} = {{**{name}, key: value}} for a dict, {name} = [*{name}, x] for a list"
        else:
            what = f"the attribute {text}"
            hint = f"value = {text} before, value = ... in here, {text} = value after"
        raise TraceError(
            f"{what} is assigned under a traced condition",
            rule="only local variables are carried out of a traced branch or loop",
            hint=hint,
        )

    def check(self, condition: Any, message: Callable[[], list[tuple[Any, Callable[[], str] | None]]]) -> None:
        """``assert condition, message``: the program checks it when it runs."""
        text, values = "", []
        for x, shown in message():
            if traced(x):
                text += "{}"
                values.append(x)
            else:
                plain = str(x) if shown is None else shown()
                text += plain.replace("{", "{{").replace("}", "}}")
        debug.check(self.truth(condition), text, *values)

    # Branches.

    def if_(self, index: int, test: Any, stub: FunctionType) -> Status:
        """An ``if`` with a traced condition; with what follows it up to the end of its region if it can jump."""
        site, frame = self._enter(index, stub)
        try:
            pred = self.truth(test)
            runs = {name: (lambda name=name: frame.run(name)) for name in ("true", "false")}
            names = site.binds["true"] | site.binds["false"]
            if not site.jumps:
                return self.choose(frame, pred, runs, names, site.after)
            if site.absorbs:
                return self.choose(frame, pred, runs, names, site.end, site.finish)
            status = self.choose(frame, pred, runs, names, site.after | site.end)
            return self.onward(frame, status)
        finally:
            self._leave(site)

    def either(self, index: int, test: Any, stub: FunctionType) -> Any:
        """A conditional expression with a traced condition."""
        site, frame = self._enter(index, stub)
        try:
            runs = {name: (lambda name=name: Jump(RETURN, frame.run(name))) for name in ("true", "false")}
            names = site.binds["true"] | site.binds["false"]
            return self.value(self.choose(frame, self.truth(test), runs, names, names))
        finally:
            self._leave(site)

    def _enter(self, index: int, stub: FunctionType) -> tuple[Site, Frame]:
        site = self.sites[index]
        if site.refusal is not None:
            raise TraceError(site.refusal[0], hint=site.refusal[1])
        depth = self._active.depth.get(index, 0)
        if depth >= MOST_NESTED:
            raise TraceError(
                f"{site.scope.qualname} calls itself without end: how deep it goes depends on a traced value",
                hint="a while loop, or a static argument (static_argnames) for the depth",
            )
        self._active.depth[index] = depth + 1
        return site, Frame(site, stub, self._compile)

    def _leave(self, site: Site) -> None:
        self._active.depth[site.index] -= 1

    def onward(self, frame: Frame, status: Status) -> Status:
        """Runs what follows a statement in its region, where the status does not say otherwise."""
        site = frame.site
        if status is None:
            return self.finished(frame.run("rest"), site.finish)
        if status.known:
            return self.finished(status, site.finish)
        if site.closed:
            raise TraceError(
                "a return in a loop inside a with or try statement depends on a traced condition",
                hint="the loop outside of that statement",
                location=site.place(),
            )
        runs = {"after it": lambda: frame.run("rest"), "before": lambda: status}
        return self.choose(frame, is_code(status, 0), runs, site.binds["rest"], site.end, site.finish)

    def finished(self, status: Status, finish: str) -> Status:
        """A status at the end of a region: a function that comes to its end returns None, a loop goes on."""
        if finish == "function":
            return Jump(RETURN, None) if status is None else status
        if finish == "loop" and status is not None:
            if status.known:
                return None if status.code == CONTINUE else status
            zero = ops.lit(0, dtypes.int32)
            code = OPS["select"](is_code(status, CONTINUE), zero, status.code)
            return Jump(code, status.value, status.lines)
        return status

    def choose(
        self,
        frame: Frame,
        pred: Any,
        runs: Mapping[str, Run],
        names: Names,
        live: Names,
        finish: str = "unit",
    ) -> Status:
        """Runs both sides (true, false), each in a graph of its own, and joins what they give in one ``cond``.

        The variables ``names`` get their joined values; those not in ``live`` are never read again.

        Raises:
            ShapeError: when variables or returned values differ in type, naming each.
        """
        entry = frame.values(names)
        contents = Contents(frame)
        parts: list[Part] = []
        statuses: list[Status] = []
        results: list[dict[str, Any]] = []
        try:
            for run in runs.values():
                part = Part(frame.site.scope.node_name)
                parts.append(part)
                frame.put(entry)
                with part.entered():
                    statuses.append(self.finished(run(), finish))
                contents.check()
                results.append(frame.values(names))
            return self._join(frame, pred, runs, parts, statuses, results, live, entry)
        except BaseException:
            frame.put(entry)
            raise
        finally:
            for part in parts:
                part.trace.open = False

    def _join(
        self,
        frame: Frame,
        pred: Any,
        runs: Mapping[str, Run],
        parts: list[Part],
        statuses: list[Status],
        results: list[dict[str, Any]],
        live: Names,
        entry: dict[str, Any],
    ) -> Status:
        site = frame.site
        joined: dict[str, Joined] = {}
        after: dict[str, Any] = {}
        rows: list[tuple[str, list[Any]]] = []
        for name in entry:
            values = [self._seen(site, name, r[name], s) for r, s in zip(results, statuses, strict=True)]
            if name not in live or not all(has_value(x) or is_dead(x) for x in values) or all(map(is_dead, values)):
                after[name] = self._unassigned(site, name, values, name not in live)
                continue
            made = join(values)
            if made is None:
                rows.append((name, values))
            else:
                joined[name] = made
        status = frames.joined_status(statuses)
        if status is None:
            what = "the returned value" if site.kind in ("if", "for", "while") else "its value"
            rows.append((what, [value_of(s) for s in statuses]))
        if rows:
            labels = [f"when {label}" for label in runs]
            lines = frames.lines_of(statuses) if status is None else ()  # of ``return`` statements
            raise frames.differ(site, rows, labels, lines)
        assert status is not None
        code, value = status
        outputs = []
        for part, side, result in zip(parts, statuses, results, strict=True):
            with part.entered():
                outs = [leaf for name, made in joined.items() for leaf in made.outputs(result[name])]
                if code is None:
                    outs.append(convert(code_of(side), dtypes.int32))
                if isinstance(value, Joined):
                    outs += value.outputs(value_of(side))
            outputs.append(outs)
        found = iter(self._cond(pred, parts, outputs))
        frame.put(after)
        frame.put({name: made.build(found) for name, made in joined.items()})
        if code is None:
            code = next(found)
        if isinstance(value, Joined):
            value = value.build(found)
        return None if isinstance(code, int) and code == 0 else Jump(code, value, frames.lines_of(statuses))

    def _seen(self, site: Site, name: str, x: Any, status: Status) -> Any:
        """What a variable of one side is worth after it: nothing is missing where a side has jumped elsewhere."""
        if not has_value(x) and status is not None and status.known and name not in site.left.get(int(status.code), ()):
            return Unassigned(name, "this side has been left", site.place(), dead=True)
        return x

    def _unassigned(self, site: Site, name: str, values: list[Any], dead: bool) -> Any:
        if all(x is ABSENT for x in values):
            return ABSENT
        if dead:
            return Unassigned(name, f"nothing reads it after line {site.node.lineno}", site.place(), dead=True)
        inner = next((x for x in values if type(x) is Unassigned and not x.dead), None)
        if inner is not None or all(map(is_dead, values)):
            return values[0] if inner is None else inner
        reason = f"only one side of the {site.kind} at line {site.node.lineno} gives it one"
        return Unassigned(name, reason, frames.binding(site, name))

    def _cond(self, pred: Any, parts: list[Part], outputs: list[list[Any]]) -> list[Any]:
        if not outputs[0] and not any(part.has_effects() for part in parts):
            return []
        for part, outs in zip(parts, outputs, strict=True):
            part.close(outs)
        shared = together(parts)
        graphs = tuple([closed(part, shared, [], first=False) for part in reversed(parts)])
        index = OPS["cast"](pred, dtype=dtypes.int32)
        return list(ops.bind(OPS["cond"], (index, *shared), {"branches": graphs}))

    # What loops run over.

    rows = staticmethod(rows_of)
    range_ = staticmethod(ranged)
    enumerate_ = staticmethod(enumerated)
    zip_ = staticmethod(zipped)
    reversed_ = staticmethod(reversed_rows)

    def over(self, x: Any) -> bool:
        """Whether a loop over this is part of the program."""
        return isinstance(x, (Rows, Range))


def _is_bool(x: Any) -> bool:
    return is_value(x) and dtype_of(x) is dtypes.bool_ and tuple(x.shape) == ()


__all__ = ["Branching"]
