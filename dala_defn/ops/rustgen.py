"""Writes the Rust side of the op table: ``python -m dala_defn.ops.rustgen [--check]``.

The enum is matched exhaustively in ``runtime/``, so an op that is missing there does not compile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from dala_defn.ops.spec import OpSpec

RUST_KINDS = {
    "int": "i64",
    "bool": "bool",
    "str": "String",
    "ints": "Vec<i64>",
    "dims": "Vec<D>",
    "dtype": "DType",
    "fn": "usize",
    "value": "Literal",
}
HEAD = """\
//! Generated from the op table in `dala_defn/ops` by `python -m dala_defn.ops.rustgen`: edit the table, not this file.

use crate::attrs::{Attrs, Literal};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Error;

/// What kind of op it is; families share their type rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
"""


def camel(name: str) -> str:
    """``reduce_sum`` -> ``ReduceSum``."""
    return "".join(part.capitalize() for part in name.split("_"))


def render(rows: Iterable[OpSpec]) -> str:
    """The text of ``runtime/src/op.rs`` for these ops, without what is lowered to pairs of reals before."""
    rows = sorted((r for r in rows if r.family != "complex"), key=lambda r: r.code)
    families = list(dict.fromkeys(r.family for r in rows))
    out = [HEAD]
    out += [f"    {camel(f)},\n" for f in families]
    out.append("}\n\n/// An operation with its attributes; `D` is a dim expression, or a size once resolved.\n")
    out.append("#[derive(Clone, Debug, PartialEq)]\npub enum Op<D = Dim> {\n")
    for r in rows:
        if r.attrs:
            out.append(f"    {camel(r.name)} {{\n")
            out += [f"        {a}: {RUST_KINDS[k]},\n" for a, k in r.attrs.items()]
            out.append("    },\n")
        else:
            out.append(f"    {camel(r.name)},\n")
    out.append("}\n\n/// The result dtype of an elementwise op.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n")
    out.append(
        "pub enum ResultType {\n    /// That of the operands.\n    Same,\n    Bool,\n    /// Decided by the op's own rule.\n    Own,\n}\n\n"
    )
    out.append("/// What the table says of an op.\n#[derive(Debug)]\npub struct OpInfo {\n")
    out.append("    pub name: &'static str,\n    pub code: u16,\n    pub family: Family,\n")
    out.append(
        "    /// Bit `d` is set when the op takes dtype number `d`.\n    pub accepts: u32,\n    pub result: ResultType,\n}\n\n"
    )
    out.append(f"/// Every op, in the order of the codes.\npub static OPS: [OpInfo; {len(rows)}] = [\n")
    for r in rows:
        mask = sum(1 << d.code for d in r.accepts if d.kind != "c")
        out.append(
            "    OpInfo {\n"
            f'        name: "{r.name}",\n        code: 0x{r.code:02x},\n        family: Family::{camel(r.family)},\n'
            f"        accepts: 0x{mask:x},\n        result: ResultType::{camel(r.result)},\n    }},\n"
        )
    out.append("];\n\nimpl Op<Dim> {\n    /// Reads an op; every attribute must be there, and no other.\n")
    out.append(
        "    pub fn decode(name: &str, attrs: &mut Attrs) -> Result<Self, Error> {\n        let op = match name {\n"
    )
    for r in rows:
        if r.attrs:
            out.append(f'            "{r.name}" => Op::{camel(r.name)} {{\n')
            out += [f'                {a}: attrs.{"fun" if k == "fn" else k}("{a}")?,\n' for a, k in r.attrs.items()]
            out.append("            },\n")
        else:
            out.append(f'            "{r.name}" => Op::{camel(r.name)},\n')
    out.append(
        "            _ => return Err(Error::unknown_op(name)),\n        };\n        attrs.finish()?;\n        Ok(op)\n    }\n}\n\n"
    )
    out.append("impl<D> Op<D> {\n    /// The same op with every dim replaced by what `f` gives for it.\n")
    out.append("    pub fn map_dims<T, E>(&self, mut f: impl FnMut(&D) -> Result<T, E>) -> Result<Op<T>, E> {\n")
    if any("dims" in r.attrs.values() for r in rows):
        out.append("        let mut all = |dims: &Vec<D>| dims.iter().map(&mut f).collect::<Result<Vec<T>, E>>();\n")
    out.append("        Ok(match self {\n")
    for r in rows:
        if not r.attrs:
            out.append(f"            Op::{camel(r.name)} => Op::{camel(r.name)},\n")
            continue
        names = ", ".join(r.attrs)
        out.append(f"            Op::{camel(r.name)} {{ {names} }} => Op::{camel(r.name)} {{\n")
        for a, k in r.attrs.items():
            copy = {"dims": f"all({a})?", "int": f"*{a}", "bool": f"*{a}", "dtype": f"*{a}", "fn": f"*{a}"}
            out.append(f"                {a}: {copy.get(k, f'{a}.clone()')},\n")
        out.append("            },\n")
    out.append(
        "        })\n    }\n\n    /// The row of the table.\n    pub fn info(&self) -> &'static OpInfo {\n        match self {\n"
    )
    for i, r in enumerate(rows):
        out.append(f"            Op::{camel(r.name)}{' { .. }' if r.attrs else ''} => &OPS[{i}],\n")
    out.append("        }\n    }\n}\n")
    return "".join(out)


def target() -> Path:
    """``runtime/src/op.rs`` of the checkout that this package stands in."""
    return Path(__file__).resolve().parents[2] / "runtime" / "src" / "op.rs"


def formatted(text: str) -> str:
    """The text as rustfmt leaves it."""
    import subprocess

    done = subprocess.run(["rustfmt", "--edition", "2024"], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def main(argv: list[str]) -> int:
    """Writes the file, or with ``--check`` says whether it is up to date."""
    from dala_defn import ops

    text = formatted(render(ops.OPS.values()))
    if "--check" in argv:
        same = target().read_text() == text
        print("up to date" if same else f"{target()} is out of date: run python -m dala_defn.ops.rustgen")
        return 0 if same else 1
    target().write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
