"""Writes the Rust side of the op table: ``python -m dala_defn.ops.rustgen [--check]``.

The enums are matched exhaustively in ``runtime/``, so an op that is missing there does not compile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dala_defn import dtypes
from dala_defn.ops.spec import OpSpec

RUST_KINDS = {
    "int": "i64",
    "bool": "bool",
    "str": "String",
    "ints": "Vec<i64>",
    "dims": "Vec<D>",
    "dtype": "DType",
    "fn": "usize",
    "fns": "Vec<usize>",
    "types": "Vec<SymTy<D>>",
    "value": "Literal",
}
GETTERS = {"fn": "fun", "fns": "funs"}
COPIED = ("int", "bool", "dtype", "fn")
GROUPED = ("unary", "binary")

HEAD = """\
//! Generated from the op table in `dala_defn/ops` by `python -m dala_defn.ops.rustgen`: edit the table, not this file.

use crate::attrs::{Attrs, Literal};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Error;
use crate::symbolic::{SymTy, map_dims};

/// The result dtype of an elementwise op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// That of the operands.
    Same,
    Bool,
    /// Decided by the op's own rule.
    Own,
}

/// What the table says of an op.
#[derive(Debug)]
pub struct OpInfo {
    pub name: &'static str,
    pub code: u16,
    pub family: Family,
    pub result: ResultType,
    /// Bit `d` is set when the op takes dtype number `d`.
    accepts: u32,
}

impl OpInfo {
    /// True when the op takes values of this dtype as its (first) operand.
    pub fn accepts(&self, dtype: DType) -> bool {
        self.accepts >> (dtype as u8) & 1 == 1 && dtype.is_stored()
    }
}

macro_rules! row {
    ($name:literal, $code:literal, $family:ident, $result:ident, $accepts:literal) => {
        const {
            &OpInfo {
                name: $name,
                code: $code,
                family: Family::$family,
                result: ResultType::$result,
                accepts: $accepts,
            }
        }
    };
}

/// What kind of op it is; families share their type rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
"""

DECODE = """\
impl Op<Dim> {
    /// Reads an op; every attribute must be there, and no other.
    pub fn decode(name: &str, attrs: &mut Attrs) -> Result<Self, Error> {
        let op = match name {
"""

MAP_DIMS = """\
impl<D> Op<D> {
    /// The same op with every dim replaced by what `f` gives for it.
    pub fn map_dims<T, E>(&self, mut f: impl FnMut(&D) -> Result<T, E>) -> Result<Op<T>, E> {
"""


def camel(name: str) -> str:
    """``reduce_sum`` -> ``ReduceSum``."""
    return "".join(part.capitalize() for part in name.split("_"))


def grouped(row: OpSpec) -> bool:
    """Whether the op is a member of its family's own enum: all of these have one type rule and one kind of kernel."""
    return row.family in GROUPED and not row.attrs and dtypes.key not in row.accepts


def info(row: OpSpec) -> str:
    """The row of the table as Rust."""
    mask = sum(1 << d.code for d in row.accepts if d.kind != "c")
    return f'row!("{row.name}", 0x{row.code:02x}, {camel(row.family)}, {camel(row.result)}, 0x{mask:x})'


def group(family: str, rows: Sequence[OpSpec]) -> list[str]:
    """The enum of the elementwise ops of a family."""
    name = camel(family)
    out = [f"/// An elementwise op of family `{family}`.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n"]
    out.append(f"pub enum {name} {{\n")
    out += [f"    {camel(r.name)},\n" for r in rows]
    out.append(f"}}\n\nimpl {name} {{\n    /// The op of that name.\n    pub fn named(name: &str) -> Option<Self> {{\n")
    out.append("        Some(match name {\n")
    out += [f'            "{r.name}" => {name}::{camel(r.name)},\n' for r in rows]
    out.append("            _ => return None,\n        })\n    }\n\n    /// The row of the table.\n")
    out.append("    pub fn info(self) -> &'static OpInfo {\n        match self {\n")
    out += [f"            {name}::{camel(r.name)} => {info(r)},\n" for r in rows]
    out.append("        }\n    }\n}\n\n")
    return out


def mapped(attr: str, kind: str) -> str:
    """The value of an attribute once its dims are replaced."""
    if kind == "dims":
        return f"map_dims({attr}, &mut f)?"
    if kind == "types":
        return f"{attr}.iter().map(|t| t.map_dims(&mut f)).collect::<Result<_, E>>()?"
    return f"*{attr}" if kind in COPIED else f"{attr}.clone()"


def render(rows: Iterable[OpSpec]) -> str:
    """The text of ``runtime/src/op.rs`` for these ops, without what is lowered to pairs of reals before."""
    rows = sorted((r for r in rows if r.family != "complex"), key=lambda r: r.code)
    families = list(dict.fromkeys(r.family for r in rows))
    groups = [(f, [r for r in rows if r.family == f and grouped(r)]) for f in families]
    groups = [(f, members) for f, members in groups if members]
    flat = [r for r in rows if not grouped(r)]
    fields = {r.name: " { .. }" if r.attrs else "" for r in flat}

    out = [HEAD]
    out += [f"    {camel(f)},\n" for f in families]
    out.append("}\n\n")
    for family, members in groups:
        out += group(family, members)

    out.append("/// An operation with its attributes; `D` is a dim expression, or a size once resolved.\n")
    out.append("#[derive(Clone, Debug, PartialEq)]\npub enum Op<D = Dim> {\n")
    out += [f"    {camel(f)}({camel(f)}),\n" for f, _ in groups]
    for r in flat:
        attrs = "".join(f"        {a}: {RUST_KINDS[k]},\n" for a, k in r.attrs.items())
        out.append(f"    {camel(r.name)} {{\n{attrs}    }},\n" if attrs else f"    {camel(r.name)},\n")
    out.append("}\n\n")

    out.append(DECODE)
    for r in flat:
        attrs = "".join(f'                {a}: attrs.{GETTERS.get(k, k)}("{a}")?,\n' for a, k in r.attrs.items())
        value = f"Op::{camel(r.name)} {{\n{attrs}            }}" if attrs else f"Op::{camel(r.name)}"
        out.append(f'            "{r.name}" => {value},\n')
    out.append("            _ => {\n")
    options = [f"{camel(f)}::named(name).map(Op::{camel(f)})" for f, _ in groups]
    found = "".join(f".or_else(|| {option})" if i else option for i, option in enumerate(options)) or "None"
    out.append(f"                let op: Option<Self> = {found};\n")
    out.append("                op.ok_or_else(|| Error::unknown_op(name))?\n")
    out.append("            }\n        };\n        attrs.finish()?;\n        Ok(op)\n    }\n}\n\n")

    out.append(MAP_DIMS)
    out.append("        Ok(match self {\n")
    out += [f"            Op::{camel(f)}(op) => Op::{camel(f)}(*op),\n" for f, _ in groups]
    for r in flat:
        attrs = "".join(f"                {a}: {mapped(a, k)},\n" for a, k in r.attrs.items())
        pattern = f" {{ {', '.join(r.attrs)} }}" if attrs else ""
        value = f" {{\n{attrs}            }}" if attrs else ""
        out.append(f"            Op::{camel(r.name)}{pattern} => Op::{camel(r.name)}{value},\n")
    out.append("        })\n    }\n\n    /// The row of the table.\n")
    out.append("    pub fn info(&self) -> &'static OpInfo {\n        match self {\n")
    out += [f"            Op::{camel(f)}(op) => op.info(),\n" for f, _ in groups]
    out += [f"            Op::{camel(r.name)}{fields[r.name]} => {info(r)},\n" for r in flat]
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
