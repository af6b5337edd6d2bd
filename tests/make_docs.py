"""Writes the pages in docs/ that are made: ops, op-table (the measured errors), coverage and promotion."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import coverage_page
import numpy as np
import promotion_page
from measure import EXECUTORS, worst

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.ops import OPS
from dala_defn.ops.spec import LINEAR, ZERO_GRAD, Linear, NoGrad, OpSpec

DOCS = Path(__file__).resolve().parents[1] / "docs"
REFUSES = "refuses"
NAMES = {"reference": "NumPy reference", "eager": "Burn, eager", "compiled": "Burn, compiled"}
TABLE_HEAD = """# Op by dtype by executor

Written by `python tests/make_docs.py`, which runs every op on the cases of its table entry (sizes 0, 1 and n,
broadcasting both ways, NaN and infinities), elementwise ops also on random bits and on every 16-bit float.

Each number is the largest error seen, in units in the last place of the result, against the reference in float64 (for
float64: in the widest float there is); for reductions and contractions the unit is that of the sum of magnitudes. `0`
is exact; `0.50` is correctly rounded. For complex numbers the error of either part counts, in units of the absolute
value. The column `ulp` is the bound that the table states and that the tests hold every executor to; where there are
two, the second is for complex numbers. "refuses" is a `DTypeError` before anything runs. Eager and compiled results
have the same bits, unless ops are fused: kernels keep the same bounds.
`call` and `fused` are not here: they are their function.
"""


def families() -> dict[str, list[OpSpec]]:
    """The ops by family, in the order of their codes."""
    out: dict[str, list[OpSpec]] = {}
    for spec in sorted(OPS.values(), key=lambda s: s.code):
        out.setdefault(spec.family, []).append(spec)
    return out


def cell(error: float) -> str:
    """An error as it stands in the table."""
    return "0" if error == 0 else f"{error:.2f}"


def stated(spec: OpSpec) -> str:
    """The bound, and that for complex numbers where it is another."""
    return f"{spec.ulp:g}" if spec.ulp == spec.ulp_complex else f"{spec.ulp:g}; {spec.ulp_complex:g}"


def op_table() -> str:
    """docs/op-table.md, measured now."""
    lines = [TABLE_HEAD]
    for family, specs in families().items():
        if not any(spec.accepts for spec in specs):
            continue
        lines += [f"## {family}", ""]
        lines += ["| op | ulp | executor | " + " | ".join(d.short for d in dtypes.EVERY) + " |"]
        lines += ["| --- " * (3 + len(dtypes.EVERY)) + "|"]
        for spec in specs:
            found = {d: worst(spec, d) for d in spec.accepts}
            for name in EXECUTORS:
                row = [cell(found[d][name]) if d in found else REFUSES for d in dtypes.EVERY]
                lines.append(f"| {spec.name} | {stated(spec)} | {NAMES[name]} | " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines)


def rows(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """The table read back: (op, executor) -> column -> cell."""
    out: dict[tuple[str, str], dict[str, str]] = {}
    head: list[str] = []
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            cells = [c.strip() for c in line.strip("|").split("|")]
            if cells[0] == "op":
                head = cells
            else:
                row = dict(zip(head, cells, strict=True))
                out[row["op"], row["executor"]] = row
    return out


def derivative(spec: OpSpec) -> str:
    """What there is of derivatives, in words."""

    def kind(rule: Any) -> str:
        if rule is ZERO_GRAD:
            return "zero"
        if isinstance(rule, NoGrad):
            return f"none: {rule.reason}"
        if rule is LINEAR or isinstance(rule, Linear):
            return "linear: the op itself on tangents"
        return "a rule"

    reverse, forward = kind(spec.vjp), kind(spec.jvp)
    return reverse if reverse == forward else f"reverse {reverse}; forward {forward}"


def accuracy(spec: OpSpec) -> str:
    """The bound of the error, in words."""
    if spec.ulp == spec.ulp_complex == 0:
        return "exact"
    of = " of the sum of magnitudes" if spec.magnitude and spec.name != "power" else ""
    real = f"error at most {spec.ulp:g} ulp{of}" if spec.ulp else "exact"
    if spec.ulp_complex == spec.ulp:
        return real
    return f"{real}; {spec.ulp_complex:g} ulp{of} for complex numbers"


def accepted(spec: OpSpec) -> str:
    """The accepted dtypes, by set where they are one."""
    for name, members in (
        ("every dtype and keys", dtypes.EVERY),
        ("every dtype", dtypes.ELEMENTS),
        ("every dtype but complex ones", dtypes.ARRAYS),
        ("integers, floats and complex numbers", dtypes.NUMBERS),
        ("integers and floats", dtypes.NUMERIC),
        ("floats and complex numbers", dtypes.INEXACT),
        ("floats", dtypes.FLOATS),
        ("complex numbers", dtypes.COMPLEX),
        ("integers", dtypes.INTS),
        ("bool and integers", (dtypes.bool_, *dtypes.INTS)),
    ):
        if spec.accepts == members:
            return name
    return ", ".join(d.name for d in spec.accepts) or ("those of its function" if spec.family == "structure" else "any")


def run_example(spec: OpSpec) -> Any:
    """The value of an op's example."""
    return eval(spec.example, {**OPS, "dd": dd, "np": np})


def shown(x: Any) -> str:
    """A result with few enough digits to be the same on every machine."""
    if isinstance(x, tuple):
        return f"({', '.join(map(shown, x))})"
    if x.dtype.kind == "k":
        return repr(x)
    return np.array2string(np.asarray(x).astype(np.float64) if x.dtype.is_float else np.asarray(x), precision=5)


def entry(spec: OpSpec) -> str:
    """One op of the reference."""
    attrs = ", ".join(f"{name}: {kind}" for name, kind in spec.attrs.items()) or "none"
    result = {"same": "the operand's dtype", "own": "see above"}.get(spec.result, spec.result)
    with dd.using("reference"):
        value = run_example(spec)
    values = value if isinstance(value, tuple) else (value,)
    kind = ", ".join(f"{v.dtype}[{', '.join(map(str, v.shape))}]" for v in values)
    return "\n".join(
        [
            f"### {spec.name}",
            "",
            spec.doc,
            "",
            f"- code `0x{spec.code:02x}`, since {spec.since}; fusion: {spec.fusion}",
            f"- takes {accepted(spec)}; gives {result}",
            f"- attributes: {attrs}",
            f"- derivative: {derivative(spec)}",
            f"- {accuracy(spec)}",
            "",
            "```python",
            *(f"{'>>>' if i == 0 else '...'} {line}" for i, line in enumerate(spec.example.splitlines())),
            shown(value),
            "```",
            f"`{kind}`",
            "",
        ]
    )


def op_reference() -> str:
    """docs/ops.md."""
    lines = [
        "# The ops",
        "",
        "Every primitive of the IR, from the op table (`dala_defn/ops/`). Written by `python tests/make_docs.py`; a",
        "test runs each example and checks that the page is up to date. Measured errors: [op-table.md](op-table.md).",
        "In the examples every op is called by its name; operands have one dtype already: promotion, weak numbers and",
        "negative axes belong to the public functions.",
        "",
    ]
    for family, specs in families().items():
        lines += [f"## {family}", "", *(entry(s) for s in specs)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Writes the pages."""
    (DOCS / "ops.md").write_text(op_reference())
    (DOCS / "coverage.md").write_text(coverage_page.page())
    (DOCS / "promotion.md").write_text(promotion_page.page())
    (DOCS / "op-table.md").write_text(op_table().rstrip() + "\n")
    sys.stdout.write("".join(f"{DOCS / name}.md\n" for name in ("ops", "coverage", "promotion", "op-table")))


if __name__ == "__main__":
    main()
