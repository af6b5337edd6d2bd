"""How loops are differentiated and batched. ``t`` is a ``Transformer``; see ``nested.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit, type_of
from dala_defn.ops.nested import (
    filled,
    outputs,
    per_example,
    positions,
    spread,
    with_batch,
    zeros,
)
from dala_defn.ops.spec import OPS, Transformer
from dala_defn.shapes import Dim

# Carries that reverse mode keeps of a loop whose number of steps is not known. A longer loop is computed again from
# the nearest one kept, so this trades memory for work; an even number.
TAPE = 128

Attrs = Mapping[str, Any]
Values = Sequence[Any]


def _split(values: Values, *counts: int) -> list[list[Any]]:
    """The values in parts of these sizes, and the rest."""
    out, at = [], 0
    for n in counts:
        out.append(list(values[at : at + n]))
        at += n
    return [*out, list(values[at:])]


def _activity(t: Transformer, body: Graph, consts: int, carries: int, given: Sequence[bool]) -> list[list[bool]]:
    """Which inputs and which outputs of a body change to first order once it has run often enough."""
    inputs = list(given)
    while True:
        outs = t.active(body, inputs)
        carried = [a or b for a, b in zip(inputs[consts : consts + carries], outs[:carries], strict=True)]
        if carried == inputs[consts : consts + carries]:
            return [inputs, carried + outs[carries:]]
        inputs[consts : consts + carries] = carried


def _chosen(values: Values, flags: Sequence[bool]) -> list[Any]:
    return [x for x, flag in zip(values, flags, strict=True) if flag]


# scan


def scan_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """One scan that carries the tangents beside the values."""
    body: Graph = attrs["body"]
    consts, carries = attrs["consts"], attrs["carries"]
    active, out = _activity(t, body, consts, carries, [x is not None for x in tangents])
    parts = _split(active, consts, carries)
    counts = [sum(p) for p in parts]
    graph = t.jvp(body, positions(active))
    floats = [v.type.dtype.is_inexact for v in body.outputs]

    def run(*args: Any) -> list[Any]:
        fixed, dfixed, carry, dcarry, xs, dxs = _split(args, consts, counts[0], carries, counts[1], len(parts[2]))
        made = t.inline(graph, [*fixed, *carry, *xs, *dfixed, *dcarry, *dxs])
        values, ds = made[: len(floats)], spread(made[len(floats) :], positions(floats), len(floats))
        kept = [d for d, flag in zip(ds, out, strict=True) if flag]
        return [*values[:carries], *kept[: counts[1]], *values[carries:], *kept[counts[1] :]]

    def arranged(values: Values, ds: Values) -> list[Any]:
        v, d = _split(values, consts, carries), _split(ds, consts, carries)
        return [x for i in range(3) for x in (*v[i], *_chosen(d[i], parts[i]))]

    types = [v.type for v in body.inputs]
    new = t.trace(run, arranged(types, types), f"{body.name}_jvp")
    given = [zeros(type_of(x)) if d is None and a else d for x, d, a in zip(inputs, tangents, active, strict=True)]
    changed = {**attrs, "body": new, "consts": consts + counts[0], "carries": carries + counts[1]}
    made = outputs("scan", arranged(inputs, given), changed)
    carry, dcarry, ys, dys = _split(made, carries, counts[1], len(floats) - carries)
    return [*carry, *ys], spread([*dcarry, *dys], positions(out), len(floats))


def scan_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """The scan, which also stacks what the derivative of its body needs."""
    body: Graph = attrs["body"]
    consts = attrs["consts"]
    flags, out = _activity(t, body, consts, attrs["carries"], active)
    wrt, given = positions(flags), positions(out)
    halves = t.cut(t.vjp(body, wrt, given), len(body.inputs), len(body.outputs), range(consts), "invariants")
    made = outputs("scan", inputs, {**attrs, "body": halves.early})
    count = len(body.outputs)
    return made[:count], (attrs, halves, list(inputs[:consts]), made[count:], flags, out, [type_of(x) for x in made])


def scan_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """A scan the other way, which carries the cotangents of the carry and adds up those of the constants."""
    attrs, halves, inputs, stacked, flags, out, types = saved
    consts, carries = attrs["consts"], attrs["carries"]
    fixed, carried, _ = _split(flags, consts, carries)
    sums, state = sum(fixed), sum(carried)
    again = [inputs[i] for i in halves.again]
    ends = [x.type for x in halves.late.inputs[len(stacked) + len(again) :]]
    carry_types, slice_types = ends[:state], ends[state:]

    def run(*args: Any) -> list[Any]:
        shared, ct, total, rows, seeds = _split(args, len(again), state, sums, len(stacked))
        found = t.inline(halves.late, [*rows, *shared, *ct, *seeds])
        more, back, xs = _split(found, sums, state)
        return [*back, *[OPS["add"](a, b) for a, b in zip(total, more, strict=True)], *xs]

    sum_types = [type_of(x) for x in _chosen(inputs, fixed)]
    row_types = [Type(u.dtype, u.shape[1:]) for u in map(type_of, stacked)]
    body = t.trace(
        run,
        [*map(type_of, again), *carry_types, *sum_types, *row_types, *slice_types],
        f"{attrs['body'].name}_vjp",
    )
    at = positions(out)
    seeds = filled([cts[i] for i in at], [types[i] for i in at])
    changed = {
        "body": body,
        "consts": len(again),
        "carries": state + sums,
        "length": attrs["length"],
        "reverse": not attrs["reverse"],
    }
    given = [*again, *seeds[:state], *map(zeros, sum_types), *stacked, *seeds[state:]]
    back, total, xs = _split(outputs("scan", given, changed), state, sums)
    return spread([*total, *back, *xs], positions(flags), len(flags))


def scan_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """One scan over batches."""
    body: Graph = attrs["body"]
    consts, carries = attrs["consts"], attrs["carries"]
    graph, flags = _carried_batch(t, body, consts, carries, batched, size)
    given = [
        with_batch(size, x, b) if flag and i < consts + carries else _swapped(x) if b and i >= consts + carries else x
        for i, (x, b, flag) in enumerate(zip(args, batched, flags[0], strict=True))
    ]
    made = outputs("scan", given, {**attrs, "body": graph})
    return [
        _swapped(y) if b and i >= carries else y for i, (y, b) in enumerate(zip(made, flags[1], strict=True))
    ], flags[1]


def _swapped(x: Any) -> Any:
    """The first two axes exchanged: a scan slices the first, which is that of a batch elsewhere."""
    return OPS["transpose"](x, axes=(1, 0, *range(2, len(x.shape))))


def _carried_batch(
    t: Transformer, body: Graph, consts: int, carries: int, batched: Sequence[bool], size: Dim
) -> tuple[Graph, list[list[bool]]]:
    """A body over batches; what it makes of the carry is batched where the carry is, and the other way round."""
    inputs = list(batched)
    while True:
        carry = inputs[consts : consts + carries]
        graph, outs = t.batch(body, inputs, size, carry + [False] * (len(body.outputs) - carries))
        if outs[:carries] == carry:
            return graph, [inputs, outs]
        inputs[consts : consts + carries] = outs[:carries]


# while_loop


def _int(n: int) -> Any:
    return lit(n, dtypes.int32)


INT = Type(dtypes.int32, ())


def while_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """One loop that carries the tangents beside the values."""
    body: Graph = attrs["body"]
    consts = attrs["consts"]
    carries = len(inputs) - consts
    active, _ = _activity(t, body, consts, carries, [x is not None for x in tangents])
    fixed_flags, carry_flags = active[:consts], active[consts:]
    sums = sum(fixed_flags)
    graph = t.jvp(body, positions(active))
    floats = [v.type.dtype.is_inexact for v in body.outputs]

    def arranged(values: Values, ds: Values) -> list[Any]:
        v, d = _split(values, consts), _split(ds, consts)
        return [*v[0], *_chosen(d[0], fixed_flags), *v[1], *_chosen(d[1], carry_flags)]

    def step(*args: Any) -> list[Any]:
        fixed, dfixed, carry, dcarry = _split(args, consts, sums, carries)
        made = t.inline(graph, [*fixed, *carry, *dfixed, *dcarry])
        ds = spread(made[carries:], positions(floats), carries)
        return [*made[:carries], *_chosen(ds, carry_flags)]

    def goes_on(*args: Any) -> list[Any]:
        fixed, _, carry, _ = _split(args, consts, sums, carries)
        return t.inline(attrs["cond"], [*fixed, *carry])

    types = arranged([v.type for v in body.inputs], [v.type for v in body.inputs])
    new = {
        "cond": t.trace(goes_on, types, attrs["cond"].name),
        "body": t.trace(step, types, f"{body.name}_jvp"),
        "consts": consts + sums,
    }
    given = [zeros(type_of(x)) if d is None and a else d for x, d, a in zip(inputs, tangents, active, strict=True)]
    made = outputs("while_loop", arranged(inputs, given), new)
    return made[:carries], spread(made[carries:], positions(carry_flags), carries)


def while_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """The loop, which counts its steps and keeps the carry of every ``stride``-th.

    When the tape is full, every other carry on it is dropped and the stride doubles.
    """
    body: Graph = attrs["body"]
    consts = attrs["consts"]
    fixed_types = [v.type for v in body.inputs[:consts]]
    carry_types = [v.type for v in body.inputs[consts:]]
    tape_types = [Type(u.dtype, (TAPE, *u.shape)) for u in carry_types]
    n = len(carry_types)
    flags, _ = _activity(t, body, consts, n, active)

    def keep(*args: Any) -> list[Any]:
        (slot,), tapes, carry = _split(args, 1, n)
        return [_put(tape, x, slot) for tape, x in zip(tapes, carry, strict=True)]

    def thin(*args: Any) -> list[Any]:
        (stride,), tapes = _split(args, 1)
        return [OPS["mul"](stride, _int(2)), *map(_halved, tapes)]

    keep_graph = t.trace(keep, [INT, *tape_types, *carry_types], "keep")
    skip_graph = t.trace(lambda *args: args[1 : n + 1], [INT, *tape_types, *carry_types], "skip")
    thin_graph = t.trace(thin, [INT, *tape_types], "thin")
    same_graph = t.trace(lambda *args: list(args), [INT, *tape_types], "same")

    def step(*args: Any) -> list[Any]:
        fixed, (count, stride), tapes, carry = _split(args, consts, 2, n)
        full = OPS["equal"](count, OPS["mul"](stride, _int(TAPE)))
        stride, *tapes = _branch(full, same_graph, thin_graph, [stride, *tapes])
        due = OPS["equal"](OPS["remainder"](count, stride), _int(0))
        slot = OPS["floor_divide"](count, stride)
        tapes = _branch(due, skip_graph, keep_graph, [slot, *tapes, *carry])
        return [OPS["add"](count, _int(1)), stride, *tapes, *t.inline(body, [*fixed, *carry])]

    def goes_on(*args: Any) -> list[Any]:
        fixed, _, _, carry = _split(args, consts, 2, n)
        return t.inline(attrs["cond"], [*fixed, *carry])

    types = [*fixed_types, INT, INT, *tape_types, *carry_types]
    new = {
        "cond": t.trace(goes_on, types, attrs["cond"].name),
        "body": t.trace(step, types, f"{body.name}_taped"),
        "consts": consts,
    }
    given = [*inputs[:consts], _int(0), _int(1), *map(zeros, tape_types), *inputs[consts:]]
    (count, stride), tapes, carry = _split(outputs("while_loop", given, new), 2, n)
    return carry, (attrs, list(inputs[:consts]), count, stride, tapes, flags)


def while_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """The steps from the last to the first: each computed again from the nearest carry kept, then pulled back."""
    attrs, fixed_values, count, stride, tapes, flags = saved
    body: Graph = attrs["body"]
    consts, n = len(fixed_values), len(tapes)
    carry_types = [v.type for v in body.inputs[consts:]]
    wrt = positions(flags)
    given = [i for i in range(n) if flags[consts + i]]
    sums, state = sum(flags[:consts]), len(given)
    graph = t.vjp(body, wrt, given)
    again = _repeat(t, body, consts)

    def step(*args: Any) -> list[Any]:
        fixed, (every,), kept, (i,), ct, total = _split(args, consts, 1, n, 1, state)
        slot = OPS["floor_divide"](i, every)
        start = [_take(tape, slot) for tape in kept]
        begin = OPS["mul"](slot, every)
        carry = outputs("while_loop", [*fixed, i, begin, *start], again)[1:]
        found = t.inline(graph, [*fixed, *carry, *ct])[n:]
        more, back = _split(found, sums)
        return [OPS["sub"](i, _int(1)), *back, *[OPS["add"](a, b) for a, b in zip(total, more, strict=True)]]

    def goes_on(*args: Any) -> list[Any]:
        return [OPS["greater_equal"](args[consts + 1 + n], _int(0))]

    sum_types = [type_of(x) for x in _chosen(fixed_values, flags[:consts])]
    fixed = [*fixed_values, stride, *tapes]
    types = [*map(type_of, fixed), INT, *[carry_types[i] for i in given], *sum_types]
    new = {
        "cond": t.trace(goes_on, types, "steps_left"),
        "body": t.trace(step, types, f"{body.name}_vjp"),
        "consts": len(fixed),
    }
    seeds = filled([cts[i] for i in given], [carry_types[i] for i in given])
    start = [*fixed, OPS["sub"](count, _int(1)), *seeds, *map(zeros, sum_types)]
    _, back, total = _split(outputs("while_loop", start, new), 1, state)
    return spread([*total, *back], wrt, len(flags))


def _repeat(t: Transformer, body: Graph, consts: int) -> Attrs:
    """A loop of ``body`` from one step to another: constants, the last step, then the step and the carry."""
    types = [v.type for v in body.inputs]
    whole = [*types[:consts], INT, INT, *types[consts:]]

    def step(*args: Any) -> list[Any]:
        fixed, (_, at), carry = _split(args, consts, 2)
        return [OPS["add"](at, _int(1)), *t.inline(body, [*fixed, *carry])]

    def goes_on(*args: Any) -> list[Any]:
        return [OPS["less"](args[consts + 1], args[consts])]

    return {
        "cond": t.trace(goes_on, whole, "not_there"),
        "body": t.trace(step, whole, body.name),
        "consts": consts + 1,
    }


def _branch(condition: Any, no: Graph, yes: Graph, args: Values) -> list[Any]:
    return outputs("cond", [OPS["cast"](condition, dtype=dtypes.int32), *args], {"branches": (no, yes)})


def _start(x: Any, slot: Any) -> Any:
    first = OPS["reshape"](slot, shape=(1,))
    rest = len(x.shape) - 1
    return OPS["pad"](first, _int(0), low=(0,), high=(rest,), interior=(0,)) if rest else first


def _put(tape: Any, x: Any, slot: Any) -> Any:
    row = OPS["reshape"](x, shape=(1, *x.shape))
    return OPS["dynamic_update_slice"](tape, row, _start(tape, slot))


def _take(tape: Any, slot: Any) -> Any:
    row = OPS["dynamic_slice"](tape, _start(tape, slot), sizes=(1, *tape.shape[1:]))
    return OPS["reshape"](row, shape=tape.shape[1:])


def _halved(tape: Any) -> Any:
    """Every other row, in the first half; what stands in the second is not read."""
    rank = len(tape.shape)
    rest = tuple(tape.shape[1:])
    even = OPS["slice"](tape, start=(0,) * rank, stop=tuple(tape.shape), step=(2, *(1,) * (rank - 1)))
    return OPS["concatenate"](even, OPS["reshape"](even, shape=(TAPE // 2, *rest)), axis=0)


def while_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """One loop over batches, until every example is done; those that are keep their values."""
    body: Graph = attrs["body"]
    consts = attrs["consts"]
    carries = len(args) - consts
    graph, flags = _carried_batch(t, body, consts, carries, batched, size)
    test, (lanes,) = t.batch(attrs["cond"], flags[0], size, [False])
    if not lanes:
        given = [with_batch(size, x, b) if flag else x for x, b, flag in zip(args, batched, flags[0], strict=True)]
        return outputs("while_loop", given, {"cond": test, "body": graph, "consts": consts}), flags[1]

    every = [*batched[:consts], *[True] * carries]
    graph = t.batch(body, every, size, [True] * carries)[0]
    test = t.batch(attrs["cond"], every, size, [True])[0]

    def step(*values: Any) -> list[Any]:
        fixed, (going,), carry = _split(values, consts, 1)
        new = t.inline(graph, [*fixed, *carry])
        carry = [per_example(going, a, b) for a, b in zip(new, carry, strict=True)]
        return [OPS["bitwise_and"](going, t.inline(test, [*fixed, *carry])[0]), *carry]

    def goes_on(*values: Any) -> list[Any]:
        left = OPS["sum"](OPS["cast"](values[consts], dtype=dtypes.int32), axes=(0,))
        return [OPS["greater"](left, _int(0))]

    carry = [with_batch(size, x, b) for x, b in zip(args[consts:], batched[consts:], strict=True)]
    going = t.inline(test, [*args[:consts], *carry])[0]
    given = [*args[:consts], going, *carry]
    types = [type_of(x) for x in given]
    new = {"cond": t.trace(goes_on, types, "any_left"), "body": t.trace(step, types, body.name), "consts": consts}
    return outputs("while_loop", given, new)[1:], [True] * carries
