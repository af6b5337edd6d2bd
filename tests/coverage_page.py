"""The page docs/coverage.md: what of every op is there, found by trying it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import operands
from rules import cases, types_of

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.ir import Graph, Node
from dala_defn.ir.codec import decode, encode
from dala_defn.ir.graph import graphs_in
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops import OPS, parse, verify
from dala_defn.ops.spec import LINEAR, ZERO_GRAD, Batched, Forward, Linear, NoGrad, OpSpec, Reverse
from dala_defn.passes.complex_pairs import ComplexPairs, has_complex
from dala_defn.passes.fuse import Fuse

COLUMNS = ("type rule", "vjp", "jvp", "batch", "text", "JSON", "reference", "Burn", "sample", "doc")
HEAD = """# Coverage

Written by `python tests/make_docs.py`; a test makes it again, with all that it tries. For every op of the table: a
graph of it, from one of its sample cases, is typed and verified, comes back from text and from the bytes of a file, and
runs on the NumPy reference and on Burn; its example ([ops.md](ops.md)) runs too.

- **vjp**, **jvp**, **batch**: "linear" is the op itself on tangents, "zero" a derivative that is zero everywhere,
  "functions" a rule that has the functions transformed which the op holds. "refuses" stands with its reason: to ask for
  that derivative is a `GradientError` with the user's line.
- **JSON**, **Burn**: "as pairs" is complex numbers, which are pairs of real ones there.
- **sample**: the number of cases that are made for tests, of all dtypes that the op takes; what comes out of them is in
  [op-table.md](op-table.md). Ops that hold functions or act on the outside are tried in "programs".
"""


@dd.defn
def _twice(x: Any) -> Any:
    return x * 2


_OWN_VJP = dd.custom_vjp(lambda x: x, lambda x: (x, ()), lambda saved, ct: (2 * ct,))
_OWN_JVP = dd.custom_jvp(lambda x: x, lambda xs, ts: (xs[0], 2 * ts[0]))

# Programs of one array for the ops without samples.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "call": lambda x: _twice(x) + 1,
    "custom_vjp": _OWN_VJP,
    "custom_jvp": _OWN_JVP,
    "checkpoint": dd.checkpoint(dd.sin),
    "token": lambda x: dd.debug.tap("x", x),
    "print": lambda x: (dd.debug.print("{}", x), x)[1],
    "tap": lambda x: dd.debug.tap("x", x),
    "assert": lambda x: (dd.debug.check(dd.all(x == x), "not a number"), x)[1],
    "callback": lambda x: dd.pure_callback(np.sin, dd.spec((3,), dd.float32), x),
    "cond": lambda x: dd.cond(dd.sum(x) > 0, dd.sin, dd.cos, x),
    "while_loop": lambda x: dd.while_loop(lambda c: dd.sum(c) < 9, lambda c: c * 2 + 1, x),
    "scan": lambda x: dd.scan(lambda c, _: (c * 2, c), x, None, length=3),
    "fused": lambda x: dd.exp(x) * dd.sin(x) + 1,
}


def row(spec: OpSpec) -> dict[str, str]:
    """The cells of an op; raises where one would be empty."""
    if spec.name in PROGRAMS:
        f, sample = PROGRAMS[spec.name], "programs"
        args = [dd.array([0.5, 1.0, 1.5])]
    else:
        dtype = dtypes.float32 if dtypes.float32 in spec.accepts else spec.accepts[0]
        made = cases(spec, dtype)
        case = max(made, key=lambda c: sum(np.size(a) for a in c.args))
        f = lambda *xs: spec(*xs, **case.attrs)  # noqa: E731
        args = operands(types_of(spec, dtype, case), case.args)
        sample = str(sum(len(cases(spec, d)) for d in spec.accepts))
    graph = dd.defn(f).lower(*args)
    if spec.name == "fused":
        graph = Fuse(small=0).run(graph)
    verify(graph)
    assert any(node.op == spec.name for node in _nodes(graph)), f"{spec.name} is not in its graph"
    assert parse(str(graph)) == graph
    pairs = has_complex(graph)
    stored = ComplexPairs().run(graph)
    takes = [Arg(f"x{i}", "key" if v.type.dtype.kind == "k" else "arg") for i, v in enumerate(stored.inputs)]
    gives = [Result(f"y{i}") for i in range(len(stored.outputs))]
    back = decode(encode(Program((Entry("main", stored, tuple(takes), tuple(gives)),))), OPS)
    assert back.entries[0].graph == stored
    for name in ("reference", "flex"):
        with dd.using(name), np.errstate(all="ignore"):
            dd.defn(f)(*args)
            eval(spec.example, {**OPS, "dd": dd, "np": np})
    native = "as pairs" if pairs else "yes"
    rules = (_derivative(spec.vjp), _derivative(spec.jvp), _batch(spec.batch))
    return dict(zip(COLUMNS, ("yes", *rules, "yes", native, "yes", native, sample, "yes"), strict=True))


def page() -> str:
    """The whole page."""
    lines = [HEAD, f"| op | {' | '.join(COLUMNS)} |", "| --- " * (1 + len(COLUMNS)) + "|"]
    for spec in sorted(OPS.values(), key=lambda s: s.code):
        cells = row(spec)
        lines.append(f"| {spec.name} | {' | '.join(cells[c] for c in COLUMNS)} |")
    return "\n".join(lines) + "\n"


def _nodes(graph: Graph) -> list[Node]:
    inner = [g for node in graph.nodes for a in node.attrs.values() for g in graphs_in(a)]
    return [*graph.nodes, *(node for g in inner for node in _nodes(g))]


def _derivative(rule: Any) -> str:
    if isinstance(rule, NoGrad):
        return f"refuses: {rule.reason}"
    if isinstance(rule, (Reverse, Forward)):
        return "functions"
    if rule is ZERO_GRAD:
        return "zero"
    return "linear" if rule is LINEAR or isinstance(rule, Linear) else "rule"


def _batch(rule: Any) -> str:
    return "functions" if isinstance(rule, Batched) else "rule"
