"""How calls that carry rules of their own are differentiated and batched: by transforming the functions they hold.

``t`` is a ``Transformer``. Rules for loops are in ``loops.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit, type_of
from dala_defn.ops.creation import zeros as zeros_of
from dala_defn.ops.spec import OPS, Cut, Transformer
from dala_defn.shapes import Dim

POLICIES = ("nothing", "dots")

Attrs = Mapping[str, Any]
Values = Sequence[Any]


def zeros(t: Type) -> Any:
    """Zeros of a type; for keys, those of the number 0."""
    if t.dtype.kind != "k":
        return zeros_of(t)
    return OPS["random_wrap"](zeros_of(Type(dtypes.uint32, (*t.shape, 2))))


def filled(values: Values, types: Sequence[Type]) -> list[Any]:
    """The values, with zeros where there is none."""
    return [zeros(t) if x is None else x for x, t in zip(values, types, strict=True)]


def outputs(op: str, args: Values, attrs: Attrs) -> list[Any]:
    """The outputs of an op, however many there are."""
    out = OPS[op](*args, **attrs)
    return list(out) if isinstance(out, tuple) else [out]


def positions(flags: Sequence[bool]) -> list[int]:
    """Where a flag is set."""
    return [i for i, flag in enumerate(flags) if flag]


def is_inexact(x: Any) -> bool:
    """Whether a value has derivatives."""
    return bool(type_of(x).dtype.is_inexact)


def types_of(graph: Graph) -> list[Type]:
    """The types of a function's outputs."""
    return [v.type for v in graph.outputs]


def spread(found: Values, at: Sequence[int], count: int) -> list[Any]:
    """A list of ``count``, with what was found at these positions and None elsewhere."""
    out: list[Any] = [None] * count
    for i, x in zip(at, found, strict=True):
        out[i] = x
    return out


def with_batch(size: Dim, x: Any, batched: bool) -> Any:
    """The value with the batch first."""
    return x if batched else OPS["broadcast_to"](x, shape=(size, *x.shape))


# call with a vjp rule


def custom_vjp_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """Runs the forward function; its residuals are kept."""
    made = t.inline(attrs["forward"], inputs)
    count = len(attrs["primal"].outputs)
    return made[:count], (attrs, made[count:], [is_inexact(x) for x in inputs])


def custom_vjp_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """Runs the backward function."""
    attrs, residuals, floats = saved
    outs = types_of(attrs["primal"])
    given = [zeros(u) if ct is None else ct for ct, u in zip(cts, outs, strict=True) if u.dtype.is_inexact]
    return spread(t.inline(attrs["backward"], [*residuals, *given]), positions(floats), len(floats))


def custom_vjp_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """Forward mode from a vjp rule: the backward function is linear in the cotangents, so its own vjp is the jvp."""
    outs, (_, residuals, floats) = custom_vjp_forward(t, (), inputs, attrs)
    backward: Graph = attrs["backward"]
    wrt = list(range(len(residuals), len(backward.inputs)))
    linear = t.vjp(backward, wrt, range(len(backward.outputs)))
    dummies = [zeros(backward.inputs[i].type) for i in wrt]
    given = filled([tangents[i] for i in positions(floats)], types_of(backward))
    found = t.inline(linear, [*residuals, *dummies, *given])[len(backward.outputs) :]
    return outs, spread(found, positions([is_inexact(x) for x in outs]), len(outs))


def _all_batched(t: Transformer, size: Dim, graph: Graph) -> Graph:
    return t.batch(graph, [True] * len(graph.inputs), size, [True] * len(graph.outputs))[0]


def custom_vjp_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """All of its functions over batches; operands that are shared are repeated, and add their cotangents up."""
    whole = [with_batch(size, x, b) for x, b in zip(args, batched, strict=True)]
    outs = outputs("custom_vjp", whole, {k: _all_batched(t, size, g) for k, g in attrs.items()})
    return outs, [True] * len(outs)


# call with a jvp rule


def custom_jvp_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """Runs the rule."""
    at = positions([is_inexact(x) for x in inputs])
    given = filled([tangents[i] for i in at], [type_of(inputs[i]) for i in at])
    made = t.inline(attrs["tangent"], [*inputs, *given])
    count = len(attrs["primal"].outputs)
    outs = made[:count]
    return outs, spread(made[count:], positions([is_inexact(x) for x in outs]), count)


def custom_jvp_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """Runs the function itself; its operands are kept."""
    return t.inline(attrs["primal"], inputs), (attrs, list(inputs))


def custom_jvp_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """Reverse mode from a jvp rule: it is linear in the tangents, so its vjp by these, at any, is it."""
    attrs, inputs = saved
    rule: Graph = attrs["tangent"]
    outs = types_of(attrs["primal"])
    at = positions([is_inexact(x) for x in inputs])
    wrt = range(len(inputs), len(rule.inputs))
    transposed = t.vjp(rule, wrt, range(len(outs), len(rule.outputs)))
    given = [zeros(u) if ct is None else ct for ct, u in zip(cts, outs, strict=True) if u.dtype.is_inexact]
    zero = [zeros(rule.inputs[i].type) for i in wrt]
    found = t.inline(transposed, [*inputs, *zero, *given])[len(rule.outputs) :]
    return spread(found, at, len(inputs))


def custom_jvp_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """Both of its functions over batches."""
    whole = [with_batch(size, x, b) for x, b in zip(args, batched, strict=True)]
    outs = outputs("custom_jvp", whole, {k: _all_batched(t, size, g) for k, g in attrs.items()})
    return outs, [True] * len(outs)


# checkpoint


def checkpoint_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """The derivative computes everything again too, so it is one node of the same kind."""
    at = [i for i, x in enumerate(tangents) if x is not None]
    function = t.jvp(attrs["function"], at)
    made = outputs("checkpoint", [*inputs, *[tangents[i] for i in at]], {**attrs, "function": function})
    count = len(attrs["function"].outputs)
    return made[:count], spread(made[count:], positions([is_inexact(x) for x in made[:count]]), count)


def checkpoint_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """Runs the function; only what the policy names and its operands are kept."""
    function: Graph = attrs["function"]
    flags = t.active(function, active)
    wrt, given = positions(active), positions(flags)
    halves: Cut = t.cut(
        t.vjp(function, wrt, given),
        len(function.inputs),
        len(function.outputs),
        range(len(function.inputs)),
        attrs["policy"],
    )
    made = outputs("checkpoint", inputs, {**attrs, "function": halves.early})
    count = len(function.outputs)
    again = [inputs[i] for i in halves.again]
    return made[:count], (attrs, halves, [*made[count:], *again], wrt, given, len(inputs))


def checkpoint_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """Computes again what the derivative needs, in a node of the same kind: no pass merges it with the first time."""
    attrs, halves, kept, wrt, given, count = saved
    types = types_of(attrs["function"])
    args = [*kept, *filled([cts[i] for i in given], [types[i] for i in given])]
    return spread(outputs("checkpoint", args, {**attrs, "function": halves.late}), wrt, count)


def checkpoint_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """The function over a batch."""
    function, flags = t.batch(attrs["function"], batched, size, [False] * len(attrs["function"].outputs))
    return outputs("checkpoint", args, {**attrs, "function": function}), flags


# cond


def cond_jvp(t: Transformer, tangents: Values, inputs: Values, attrs: Attrs) -> Any:
    """Each branch with its derivative."""
    at = [i - 1 for i, x in enumerate(tangents) if x is not None]
    branches = tuple([t.jvp(g, at) for g in attrs["branches"]])
    made = outputs("cond", [*inputs, *[tangents[i + 1] for i in at]], {"branches": branches})
    count = len(attrs["branches"][0].outputs)
    return made[:count], spread(made[count:], positions([is_inexact(x) for x in made[:count]]), count)


def cond_forward(t: Transformer, active: Sequence[bool], inputs: Values, attrs: Attrs) -> Any:
    """Each branch gives what its own derivative needs, in slots that the branches share by type."""
    first: Graph = attrs["branches"][0]
    count, operands = len(first.outputs), len(first.inputs)
    wrt = positions(active[1:])
    flags = [any(f) for f in zip(*(t.active(g, active[1:]) for g in attrs["branches"]), strict=True)]
    given = positions(flags)
    halves = [t.cut(t.vjp(g, wrt, given), operands, count, range(operands)) for g in attrs["branches"]]
    slots, places = _shared([types_of(h.early)[count:] for h in halves])

    def branch(half: Cut, at: Sequence[int]) -> Graph:
        def run(*args: Any) -> list[Any]:
            made = t.inline(half.early, args)
            return [*made[:count], *filled(spread(made[count:], at, len(slots)), slots)]

        return t.trace(run, [v.type for v in first.inputs], half.early.name)

    branches = tuple([branch(h, at) for h, at in zip(halves, places, strict=True)])
    made = outputs("cond", inputs, {"branches": branches})
    return made[:count], (halves, places, made[count:], inputs, wrt, given, types_of(first))


def _shared(wanted: Sequence[Sequence[Type]]) -> tuple[list[Type], list[list[int]]]:
    """Slots enough for any one of the lists of types, and where each entry of each list goes."""
    slots: list[Type] = []
    places = []
    for types in wanted:
        free = list(range(len(slots)))
        at = []
        for u in types:
            i = next((i for i in free if slots[i] == u), None)
            if i is None:
                i = len(slots)
                slots.append(u)
            else:
                free.remove(i)
            at.append(i)
        places.append(at)
    return slots, places


def cond_backward(t: Transformer, saved: Any, cts: Values) -> Values:
    """The other half of the branch that was taken."""
    halves, places, slots, inputs, wrt, given, types = saved
    again = sorted({i for h in halves for i in h.again})
    seeds = filled([cts[i] for i in given], [types[i] for i in given])
    args = [*slots, *[inputs[i + 1] for i in again], *seeds]

    def branch(half: Cut, at: Sequence[int]) -> Graph:
        def run(*args: Any) -> list[Any]:
            shared = dict(zip(again, args[len(slots) :], strict=False))
            ends = args[len(slots) + len(again) :]
            return t.inline(half.late, [*[args[i] for i in at], *[shared[i] for i in half.again], *ends])

        return t.trace(run, [type_of(x) for x in args], half.late.name)

    branches = tuple([branch(h, at) for h, at in zip(halves, places, strict=True)])
    found = outputs("cond", [inputs[0], *args], {"branches": branches})
    return spread(found, [i + 1 for i in wrt], len(inputs))


def cond_batch(t: Transformer, size: Dim, args: Values, batched: Sequence[bool], attrs: Attrs) -> Any:
    """One index for all: one branch on the batch. An index for each: every branch that some example takes."""
    index, *operands = args
    branches: Sequence[Graph] = attrs["branches"]
    count = len(branches[0].outputs)
    if not batched[0]:
        flags = [t.batch(g, batched[1:], size, [False] * count)[1] for g in branches]
        every = [any(f) for f in zip(*flags, strict=True)]
        done = tuple([t.batch(g, batched[1:], size, every)[0] for g in branches])
        return outputs("cond", args, {"branches": done}), every
    nearest = OPS["minimum"](OPS["maximum"](index, lit(0, dtypes.int32)), lit(len(branches) - 1, dtypes.int32))
    out: list[Any] = []
    for k, g in enumerate(branches):
        whole = t.batch(g, batched[1:], size, [True] * count)[0]
        chosen = OPS["equal"](nearest, lit(k, dtypes.int32))
        types = types_of(whole)
        nothing = t.trace(lambda *_, u=types: [zeros(a) for a in u], [v.type for v in whole.inputs], "nothing")
        needed = OPS["sum"](OPS["cast"](chosen, dtype=dtypes.int32), axes=(0,))
        found = outputs("cond", [needed, *operands], {"branches": (nothing, whole)})
        if not out:
            out = found
        else:
            out = [per_example(chosen, new, old) for new, old in zip(found, out, strict=True)]
    return out, [True] * count


def per_example(chosen: Any, yes: Any, no: Any) -> Any:
    """``yes`` for the examples that are chosen, ``no`` for the others."""
    ones = (1,) * (len(yes.shape) - 1)
    if type_of(yes).dtype.kind == "k":
        words = per_example(chosen, OPS["random_unwrap"](yes), OPS["random_unwrap"](no))
        return OPS["random_wrap"](words)
    return OPS["select"](OPS["reshape"](chosen, shape=(*chosen.shape, *ones)), yes, no)
