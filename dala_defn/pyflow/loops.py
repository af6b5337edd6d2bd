"""Traced loops: ``while`` and ranges become ``while_loop``, loops over rows ``scan``; loops that a traced ``break`` may
leave are finished turn by turn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

from dala_defn import dtypes, ops
from dala_defn.errors import TraceError
from dala_defn.functions.base import convert, dtype_of
from dala_defn.ir import Type
from dala_defn.ops.spec import OPS
from dala_defn.pyflow import frames
from dala_defn.pyflow.analyse import Names
from dala_defn.pyflow.carry import Carry
from dala_defn.pyflow.frames import BREAK, RETURN, Contents, Frame, Jump, Status, code_of, is_code, value_of
from dala_defn.pyflow.iterables import Range, Rows
from dala_defn.pyflow.runtime import MOST_TURNS, Branching
from dala_defn.pyflow.values import (
    ABSENT,
    Joined,
    Part,
    Slot,
    Unassigned,
    closed,
    has_value,
    is_dead,
    join,
    marked,
    together,
    traced,
    zeros,
)
from dala_defn.shapes import at_least

_CODE = Type(dtypes.int32, ())
_LABELS = ("before it", "after a turn")
Turn = Callable[[list[Any]], tuple[Status, list[Any]]]


class Body:
    """The body of a traced loop, traced: its part, what it carries, and how a turn ended."""

    def __init__(self, part: Part, carry: Carry, extra: list[Any], args: list[Any]) -> None:
        self.part = part
        self.carry = carry
        self.extra = extra  # results of the loop itself: whether it goes on, the number of the turn
        self.args = args
        self.status: Status = None
        self.results: dict[str, Any] = {}


class Flow(Branching):
    """All that a rewritten function calls."""

    def while_(self, index: int, test: Any, stub: FunctionType) -> Status:
        """A ``while`` whose condition is traced now, with its ``else``."""
        site, frame = self._enter(index, stub)
        try:
            return self._ended(frame, self._while(frame, self.truth(test), None))
        finally:
            self._leave(site)

    def for_(self, index: int, over: Rows | Range, stub: FunctionType) -> Status:
        """A ``for`` over traced rows or a traced range, with its ``else``."""
        site, frame = self._enter(index, stub)
        try:
            status = self._range(frame, over) if isinstance(over, Range) else self._rows(frame, over)
            return self._ended(frame, status)
        finally:
            self._leave(site)

    def leave(self, index: int, status: Jump, iterator: Iterator[Any] | None, stub: FunctionType) -> Status:
        """What is left of a loop whose current turn ended so; a traced status means that the rest may still run."""
        if status.known:
            return None if status.code == BREAK else status
        site, frame = self._enter(index, stub)
        try:
            if site.kind == "for":
                assert iterator is not None
                return self._ended(frame, self._turns(frame, iterator, status))
            flag = self._again(frame, status)
            if flag is not False:
                status = self._while(frame, flag, status)  # type: ignore[assignment]
            return self._ended(frame, status)
        finally:
            self._leave(site)

    def _ended(self, frame: Frame, status: Status) -> Status:
        """The ``else`` of a loop that ended so, and what follows it in its region where that is open."""
        site = frame.site
        if status is not None and status.known:
            return None if status.code == BREAK else status
        otherwise = bool(site.parts["else"])
        if status is None:
            after = frame.run("else") if otherwise else None
            return self._closing(frame, after)
        rest = self._without_break(status) if "return" in site.jumps else None
        if not otherwise:
            return self._closing(frame, rest)
        runs = {"it ends": lambda: frame.run("else"), "it is left": lambda: rest}
        after = self.choose(frame, is_code(status, 0), runs, site.binds["else"], site.after | site.end)
        return self._closing(frame, after)

    def _without_break(self, status: Jump) -> Jump:
        code = OPS["select"](is_code(status, BREAK), ops.lit(0, dtypes.int32), status.code)
        return Jump(code, status.value, status.lines)

    def _closing(self, frame: Frame, status: Status) -> Status:
        return status if status is None or status.known else self.onward(frame, status)

    # Loops in Python, of which a traced condition decides when they end.

    def _turns(self, frame: Frame, iterator: Iterator[Any], status: Status) -> Status:
        site = frame.site
        names = site.binds["target"] | site.binds["body"]
        live = site.head | site.after | site.end
        endless = operator.length_hint(iterator, -1) < 0
        for number, item in enumerate(iterator):
            if endless and number >= MOST_TURNS:
                raise TraceError(
                    f"more than {MOST_TURNS} turns of a loop that a traced condition may leave",
                    rule=f"such a loop is written out, and {type(iterator).__name__} does not tell its length",
                    hint="a while loop, or a loop over an array or a list",
                    location=site.place(),
                )
            if status is None or status.known:
                if status is not None:
                    return status
                frame.run("target", item)
                status = self.finished(frame.run("body"), "loop")
                continue
            held = status

            def turn(item: Any = item) -> Status:
                frame.run("target", item)
                result: Status = frame.run("body")
                return result

            runs = {"it goes on": turn, "it was left": lambda held=held: held}
            status = self.choose(frame, is_code(held, 0), runs, names, live, "loop")
        return status

    # while

    def _again(self, frame: Frame, status: Status) -> Any:
        """Whether a ``while`` goes on after a turn that ended so: False, True or a traced bool."""
        site = frame.site
        if status is not None and status.known:
            return False
        if status is not None and site.binds["test"]:
            runs = {"it goes on": lambda: self.ret(frame.run("test"), 0), "it was left": lambda: self.ret(False, 0)}
            live = site.head | site.after | site.end
            return self.truth(self.value(self.choose(frame, is_code(status, 0), runs, site.binds["test"], live)))
        test = frame.run("test")
        flag = self.truth(test) if traced(test) else bool(test)
        if status is None or flag is False:
            return flag
        open_ = is_code(status, 0)
        return open_ if flag is True else OPS["bitwise_and"](open_, flag)

    def _while(self, frame: Frame, flag: Any, status: Status) -> Status:
        site = frame.site

        def turn(extra: list[Any]) -> tuple[Status, list[Any]]:
            ended = self.finished(frame.run("body"), "loop")
            again = self._again(frame, ended)
            return ended, [again if traced(again) else ops.lit(again, dtypes.bool_)]

        names = site.binds["body"] | site.binds["test"]
        if not traced(flag):
            flag = ops.lit(flag, dtypes.bool_)
        return self._loop(frame, names, [flag], turn, lambda extra, code: extra[0], status)

    def _range(self, frame: Frame, over: Range) -> Status:
        site = frame.site
        dtype = dtype_of(over.count)

        def turn(extra: list[Any]) -> tuple[Status, list[Any]]:
            item = over.item(extra[0])
            if dtype is dtypes.DEFAULT_INT:
                item.weak = "i"
            frame.run("target", item)
            ended = self.finished(frame.run("body"), "loop")
            return ended, [OPS["add"](extra[0], ops.lit(1, dtype))]

        def test(extra: list[Any], code: Any) -> Any:
            more = OPS["less"](extra[0], over.count)
            return more if code is None else OPS["bitwise_and"](more, is_code(Jump(code), 0))

        names = site.binds["target"] | site.binds["body"]
        return self._loop(frame, names, [ops.lit(0, dtype)], turn, test, None)

    def _loop(
        self,
        frame: Frame,
        names: Names,
        extra: list[Any],
        turn: Turn,
        test: Callable[[list[Any], Any], Any],
        before: Status,
    ) -> Status:
        """A ``while_loop`` over the variables ``names``, and ``extra`` values of the loop's own."""
        site = frame.site
        entry = frame.values(names)
        extras = [Type(dtype_of(x), ()) for x in extra]
        try:
            body = self._traced(frame, entry, extras, turn)
            part, carry = body.part, body.carry
            jumped = body.status is not None or before is not None
            value = self._returned(frame, [before, body.status]) if jumped else ABSENT
            init = [*carry.outputs(carry.entry), *extra]
            with part.entered():
                outs = [*carry.outputs(body.results), *body.extra]
            args = list(part.own)
            if jumped:
                init.append(convert(code_of(before), dtypes.int32))
                init += value.outputs(value_of(before)) if isinstance(value, Joined) else []
                with part.entered():
                    outs.append(convert(code_of(body.status), dtypes.int32))
                    outs += value.outputs(value_of(body.status)) if isinstance(value, Joined) else []
                args += [part.argument(Type(dtype_of(x), tuple(x.shape)))._value for x in init[len(args) :]]
            part.close(outs)
            check = Part(site.scope.node_name)
            given = [check.argument(v.type) for v in args]
            with check.entered():
                at = len(carry.types())
                code = given[at + len(extra)] if jumped else None
                result = test(given[at : at + len(extra)], code)
            check.close([result])
            shared = together([check, part])
            attrs = {
                "cond": closed(check, shared, check.own, first=True),
                "body": closed(part, shared, args, first=True),
                "consts": len(shared),
            }
            made = iter(ops.bind(OPS["while_loop"], (*shared, *init), attrs))
        except BaseException:
            frame.put(entry)
            raise
        after = {n: self._maybe(frame, n, entry[n], body.results.get(n, ABSENT)) for n in entry}
        frame.put({**after, **carry.build(made)})
        for _ in extra:
            next(made)
        if not jumped:
            return None
        code = next(made)
        found = value.build(made) if isinstance(value, Joined) else ABSENT
        return Jump(code, found, frames.lines_of([before, body.status]))

    def _maybe(self, frame: Frame, name: str, entry: Any, result: Any) -> Any:
        if not has_value(entry) and not has_value(result):
            return entry
        site = frame.site
        if name not in site.after | site.end | site.head:
            return Unassigned(name, f"nothing reads it after line {site.node.lineno}", site.place(), dead=True)
        reason = f"the loop at line {site.node.lineno} may not run, or ends before it gets one"
        return Unassigned(name, reason, frames.binding(site, name))

    def _returned(self, frame: Frame, statuses: Sequence[Status]) -> Any:
        values = [value_of(s) for s in statuses]
        if all(v is ABSENT for v in values):
            return ABSENT
        made = join(values)
        if made is None:
            lines = frames.lines_of(statuses)
            raise frames.differ(frame.site, [("the returned value", values)], _LABELS, lines)
        return made

    def _traced(self, frame: Frame, entry: dict[str, Any], extras: list[Type], turn: Turn, rows: int = 0) -> Body:
        """The body, traced as often as it takes until the types of what it carries are settled."""
        site = frame.site
        needed = site.head | site.after | site.end
        carry = Carry({n: x for n, x in entry.items() if has_value(x) and n in needed})
        contents = Contents(frame)
        while True:
            part = Part(site.scope.node_name)
            args = [part.argument(t, weak) for t, weak in carry.types()]
            own = [part.argument(t) for t in extras]
            body = Body(part, carry, own, args)
            lost = {n: self._lost(frame, n, x, n in needed) for n, x in entry.items() if n not in carry.entry}
            try:
                with part.entered():
                    frame.put({**lost, **carry.build(iter(args))})
                    body.status, body.extra = turn(own)
                contents.check()
                body.results = frame.values(frozenset(entry))
            except BaseException:
                part.trace.open = False
                raise
            kept = carry.build(iter(args))
            body.results.update({n: kept[n] for n in kept if is_dead(body.results[n])})
            gone = [n for n in carry.entry if not has_value(body.results[n])]
            if gone:
                carry = carry.without(gone)
                continue
            grown, bad = carry.settle(body.results)
            if bad:
                part.trace.open = False
                raise frames.differ(site, bad, _LABELS, ())
            if not grown:
                return body
            part.trace.open = False

    def _lost(self, frame: Frame, name: str, entry: Any, needed: bool) -> Any:
        """What a variable that is not carried holds when a turn starts."""
        if not has_value(entry):
            return entry
        site = frame.site
        return Unassigned(name, "it is new in each turn of the loop", frames.binding(site, name), dead=not needed)

    # for over rows

    def _rows(self, frame: Frame, over: Rows) -> Status:
        site = frame.site
        if at_least(over.count, 1) is False:
            return None
        sure = at_least(over.count, 1) is True
        names = site.binds["target"] | site.binds["body"]
        if site.jumps and sure:
            first = [self._row(x) for x in over.arrays]
            frame.run("target", over.element(first))
        entry = frame.values(names)
        try:
            return self._scan(frame, over, names, entry, sure)
        except BaseException:
            frame.put(entry)
            raise

    def _row(self, x: Any) -> Any:
        rest = tuple(x.shape[1:])
        out = OPS["slice"](x, start=(0, *(0,) * len(rest)), stop=(1, *rest), step=(1,) * (len(rest) + 1))
        return OPS["reshape"](out, shape=rest)

    def _scan(self, frame: Frame, over: Rows, names: Names, entry: dict[str, Any], sure: bool) -> Status:
        site = frame.site
        rows = [Type(dtype_of(x), tuple(x.shape[1:])) for x in over.arrays]
        count = len(rows)
        returned: Joined | None = None
        live = site.head | site.after | site.end

        def turn(extra: list[Any]) -> tuple[Status, list[Any]]:
            item = over.element(extra[:count])
            if not site.jumps:
                frame.run("target", item)
                frame.run("body")
                return None, []
            slots = iter([marked(x, s) for x, s in zip(extra[count + 1 :], _slots(returned), strict=True)])
            before = Jump(extra[count], ABSENT if returned is None else returned.build(slots))

            def step() -> Status:
                frame.run("target", item)
                result: Status = frame.run("body")
                return result

            runs = {"it goes on": step, "it was left": lambda: before}
            return self.choose(frame, is_code(before, 0), runs, names, live, "loop"), []

        codes = [_CODE] if site.jumps else []
        body = self._traced(frame, entry, [*rows, *codes], turn)
        while True:
            found = value_of(body.status)
            made = None if found is ABSENT else join([found])
            if made == returned:
                break
            returned = made
            body = self._traced(frame, entry, [*rows, *codes, *(s.type for s in _slots(made))], turn)
        return self._scanned(frame, over, body, entry, returned, sure)

    def _scanned(
        self, frame: Frame, over: Rows, body: Body, entry: dict[str, Any], returned: Joined | None, sure: bool
    ) -> Status:
        site, part, carry = frame.site, body.part, body.carry
        count, n = len(over.arrays), len(carry.types())
        init = carry.outputs(carry.entry)
        carried, rows, own = part.own[:n], part.own[n : n + count], part.own[n + count :]
        with part.entered():
            outs = carry.outputs(body.results)
        args = [*carried]
        if site.jumps:
            init += [ops.lit(0, dtypes.int32), *(zeros(s.type) for s in _slots(returned))]
            with part.entered():
                outs.append(convert(code_of(body.status), dtypes.int32))
                outs += [] if returned is None else returned.outputs(value_of(body.status))
            args += own
        # Variables that the body makes: their last values, when there surely is one.
        made: dict[str, Joined] = {}
        needed = site.after | site.end | site.head
        for name, x in body.results.items():
            if sure and name not in carry.entry and has_value(x) and name in needed:
                joined = join([x])
                assert joined is not None
                made[name] = joined
                with part.entered():
                    outs += joined.outputs(x)
                init += [zeros(s.type) for s in _slots(joined)]
                args += [part.argument(s.type)._value for s in _slots(joined)]
        part.close(outs)
        shared = together([part])
        attrs = {
            "body": closed(part, shared, [*args, *rows], first=True),
            "consts": len(shared),
            "carries": len(args),
            "length": (over.count,),
            "reverse": False,
        }
        results = iter(ops.bind(OPS["scan"], (*shared, *init, *over.arrays), attrs))
        after = {name: self._maybe(frame, name, entry[name], body.results.get(name, ABSENT)) for name in entry}
        after.update(carry.build(results))
        status: Status = None
        if site.jumps:
            code = next(results)
            value = ABSENT if returned is None else returned.build(results)
            status = Jump(code, value, frames.lines_of([body.status]))
        after.update({name: joined.build(results) for name, joined in made.items()})
        frame.put(after)
        return status


def _slots(joined: Joined | None) -> list[Slot]:
    return [] if joined is None else [s for s in joined.slots if isinstance(s, Slot)]


__all__ = ["RETURN", "Flow"]
