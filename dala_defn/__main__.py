"""The ``dala`` command: looks into ``.dala`` files, runs them, and checks them."""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from dala_defn import ops, signing
from dala_defn.array import host_array
from dala_defn.artifacts import as_key, read_file, read_signed, signature_path, write_private
from dala_defn.dtypes import as_dtype
from dala_defn.errors import ArgumentError, DalaError, FileError, FileFormatError, full_tracebacks
from dala_defn.export import Artifact, EntryPoint, load
from dala_defn.functions import array
from dala_defn.ir import Type, print_graph
from dala_defn.ir.codec import decode_program
from dala_defn.ir.container import VERSION, Container
from dala_defn.ir.program import Entry, Program
from dala_defn.random import key

USAGE, FAILURE, INTERRUPTED = 2, 1, 130


class Usage(Exception):
    """The command line is wrong; the text says how."""


class _Parser(argparse.ArgumentParser):
    """Its errors take one line."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message} (see {self.prog} --help)")


class _File:
    """A file that was read: its bytes, its checked container and its program; and who signed it."""

    def __init__(self, path: str, trusted: Sequence[bytes] = ()) -> None:
        self.path = path
        data, self.signer = read_signed(path, trusted)
        self.size = len(data)
        self.container = Container(data)
        self.program: Program = decode_program(self.container, ops.OPS)

    def tensors(self) -> list[dict[str, Any]]:
        """The stored tensors in the order of their names, without reading them."""
        rows = []
        for name in sorted(set(self.container.names()) - set(self.container.aliases)):
            dtype, shape = self.container.shape(name)
            count = 1
            for n in shape:
                count *= n
            rows.append(
                {
                    "name": name,
                    "dtype": as_dtype(dtype).name,
                    "shape": list(shape),
                    "bytes": count * dtype.itemsize,
                    "aliases": sorted(a for a, target in self.container.aliases.items() if target == name),
                }
            )
        return rows

    def entry(self, name: str) -> Entry:
        """The entry of this name."""
        for e in self.program.entries:
            if e.name == name:
                return e
        raise Usage(f"{self.path} has no entry {name!r}; it has {', '.join(e.name for e in self.program.entries)}")


def _type(t: Type) -> dict[str, Any]:
    return {"dtype": t.dtype.name, "shape": [d if isinstance(d, int) else str(d) for d in t.shape]}


def describe(file: _File) -> dict[str, Any]:
    """What ``info --json`` prints."""
    entries = []
    for e in file.program.entries:
        args = [
            {"name": a.name, "role": a.role, "donate": a.donate, **_type(t)}
            for a, t in zip(e.args, e.arg_types(), strict=True)
        ]
        results = [
            {"name": r.name, "role": r.role, **_type(t)} for r, t in zip(e.results, e.result_types(), strict=True)
        ]
        nodes = len(e.graph.nodes) + sum(len(f.nodes) for f in e.graph.functions())
        entries.append({"name": e.name, "args": args, "results": results, "nodes": nodes})
    tensors = file.tensors()
    return {
        "file": file.path,
        "format_version": int(VERSION),
        "signer": None if file.signer is None else file.signer.hex(),
        "bytes": file.size,
        "tensor_bytes": sum(t["bytes"] for t in tensors),
        "dims": {n: {"min": lo, "max": hi} for n, (lo, hi) in sorted(file.program.dims.items())},
        "entries": entries,
        "tensors": tensors,
    }


def _ports(kind: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        extra = "" if row["role"] in ("arg", "result") else f"  {row['role']}"
        extra += "  donated" if row.get("donate") else ""
        shape = ", ".join(map(str, row["shape"]))
        lines.append(f"    {kind}  {row['name']}: {row['dtype']}[{shape}]{extra}")
    return lines


def info(options: argparse.Namespace) -> None:
    """``info FILE``."""
    facts = describe(_File(options.file))
    if options.json:
        _say(json.dumps(facts, indent=1))
        return
    lines = [f"{facts['file']}: format {facts['format_version']}, {facts['bytes']:,} bytes"]
    if facts["signer"]:
        lines.append(f"  signed by {facts['signer']}")
    for e in facts["entries"]:
        lines.append(f"  entry {e['name']}  ({e['nodes']} nodes)")
        lines += _ports("takes", e["args"]) + _ports("gives", e["results"])
    for name, bound in facts["dims"].items():
        top = "any" if bound["max"] is None else bound["max"]
        lines.append(f"  size {name}: {bound['min']} to {top}")
    lines.append(f"  {len(facts['tensors'])} tensors, {facts['tensor_bytes']:,} bytes")
    for t in facts["tensors"]:
        also = f"  also {', '.join(t['aliases'])}" if t["aliases"] else ""
        lines.append(f"    {t['name']}: {t['dtype']}[{', '.join(map(str, t['shape']))}]  {t['bytes']:,} bytes{also}")
    _say("\n".join(lines))


def show(options: argparse.Namespace) -> None:
    """``show FILE [ENTRY]``."""
    file = _File(options.file)
    entries = file.program.entries if options.entry is None else [file.entry(options.entry)]
    for e in entries:
        ops.verify(e.graph)
        _say(f"; entry {e.name}\n" + print_graph(e.graph, locations=options.locations).rstrip())


def run(options: argparse.Namespace) -> None:
    """``run FILE [ENTRY] NAME=VALUE...``."""
    words = list(options.words)
    name = words.pop(0) if words and "=" not in words[0] else None
    artifact = load(options.file, options.executor)
    entry = _chosen(artifact, name)
    types = {a.name: t for a, t in entry.args}
    given: dict[str, Any] = {}
    for word in words:
        at, equals, text = word.partition("=")
        if not equals:
            raise Usage(f"{word!r} is no NAME=VALUE")
        if at not in types or at in given:
            known = ", ".join(types) or "no arguments"
            raise Usage(f"{'argument ' + at + ' is given twice' if at in given else f'there is no argument {at!r}'}"
                        f"; {entry.name} takes {known}")  # fmt: skip
        given[at] = _value(at, text, types[at])
    missing = [n for n in types if n not in given]
    if missing:
        raise Usage(f"{entry.name} needs {', '.join(f'{n}: {types[n]}' for n in missing)}")
    out = entry(**given) if entry.results else None
    results = out if isinstance(out, dict) else {entry.results[0][0].name: out} if entry.results else {}
    arrays = {n: np.asarray(x) for n, x in results.items()}
    if options.output:
        _write(options.output, arrays)
        return
    for n, x in arrays.items():
        shown = x if x.dtype.kind != "V" else x.astype(np.float32)
        _say(f"{n}: {as_dtype(x.dtype).name}[{', '.join(map(str, x.shape))}]\n{np.array2string(shown)}")


def _chosen(artifact: Artifact, name: str | None) -> EntryPoint:
    try:
        return artifact.default if name is None else artifact[name]
    except ArgumentError as error:
        raise Usage(f"{error.reason}; entries: {', '.join(sorted(artifact.entries))}") from None


def _value(name: str, text: str, t: Type) -> Any:
    """An argument from the command line: a ``.npy`` file, or ``@`` and a Python literal."""
    if not text.startswith("@"):
        return _read_npy(text, t)
    try:
        literal = ast.literal_eval(text[1:])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Usage(f"{name}: {text[1:60]!r} is no number or list of numbers") from None
    return key(literal) if t.dtype.kind == "k" else array(literal, t.dtype)


def _read_npy(path: str, t: Type) -> Any:
    try:
        x = np.load(path, allow_pickle=False)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise FileFormatError(f"{path} is no .npy file of numbers") from None
    if not isinstance(x, np.ndarray):
        raise FileFormatError(f"{path} holds several arrays: give one .npy file for each argument")
    if t.dtype.kind == "k" and x.dtype == np.uint32 and x.shape[-1:] == (2,):
        return host_array(x, t.dtype)
    if t.dtype.dtype == ml_dtypes.bfloat16 and x.dtype == np.dtype("V2"):
        return x.view(ml_dtypes.bfloat16)
    return x


def _write(path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    # np.savez takes the names as keyword arguments, and some of them would be its own.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, x in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(x).reshape(x.shape), allow_pickle=False)
    try:
        with open(path, "wb") as f:
            f.write(buffer.getvalue())
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from None


def verify(options: argparse.Namespace) -> None:
    """``verify FILE``."""
    trusted = [_key(word) for word in options.public_key]
    file = _File(options.file, trusted)
    tensors = file.tensors()
    for t in tensors:
        file.container.tensor(t["name"])
    for e in file.program.entries:
        ops.verify(e.graph)
    load(options.file, options.executor, public_key=trusted or None)
    who = "not signed" if file.signer is None else f"signed by {file.signer.hex()}"
    _say(f"{file.path}: ok; {len(tensors)} tensors and {len(file.program.entries)} entries checked; {who}")


def keygen(options: argparse.Namespace) -> None:
    """``keygen FILE``."""
    key = signing.generate_key()
    public = signing.public_key(key)
    write_private(options.file, key.hex().encode() + b"\n")
    _say(f"{options.file}: the private key, for `sign --key`; keep it to yourself\npublic key {public.hex()}")


def sign(options: argparse.Namespace) -> None:
    """``sign FILE --key KEYFILE``."""
    key = _read_key(options.key)
    signing.sign(options.file, key)
    _say(f"{signature_path(options.file)}: signed by {signing.public_key(key).hex()}")


def _key(word: str) -> bytes:
    """A public key from the command line: its digits, or a file that holds them."""
    try:
        return as_key(word)
    except ArgumentError:
        return _read_key(word)


def _read_key(path: str) -> bytes:
    try:
        return as_key(bytes(read_file(path)[:200]).decode("ascii", "replace").strip())
    except ArgumentError:
        raise Usage(f"{path} holds no key: 64 hex digits") from None


def _parser() -> _Parser:
    parser = _Parser(prog="dala", description="Looks into .dala files, runs them, and checks them.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, what: str, run: Any) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=what, description=what)
        added.set_defaults(run=run)
        added.add_argument("file", metavar="FILE")
        return added

    command("info", "Entries, arguments, sizes and tensors of a file.", info).add_argument(
        "--json", action="store_true", help="as JSON"
    )
    shown = command("show", "The graphs of a file as text.", show)
    shown.add_argument("entry", metavar="ENTRY", nargs="?")
    shown.add_argument("--locations", action="store_true", help="with the places in the source")
    ran = command("run", "Runs an entry and prints its results.", run)
    ran.add_argument("words", metavar="[ENTRY] NAME=VALUE", nargs="*", help="VALUE: x.npy, or @[[1, 2], [3, 4]]")
    ran.add_argument("-o", "--output", metavar="OUT.npz", help="writes the results instead of printing them")
    checked = command("verify", "Checks every digest and every graph of a file.", verify)
    checked.add_argument(
        "--public-key",
        metavar="KEY",
        action="append",
        default=[],
        help="who must have signed the file: 64 hex digits, or a file with them; may be given several times",
    )
    signs = command("sign", "Signs a file: writes FILE.sig.", sign)
    signs.add_argument("--key", metavar="KEYFILE", required=True, help="the private key, as `keygen` wrote it")
    command("keygen", "Writes a new private key to FILE, and prints the public one.", keygen)
    for added in (ran, checked):
        added.add_argument("--executor", choices=("flex", "reference"), help="what runs the graphs (default flex)")
    return parser


def _clean(text: str) -> str:
    """Text with nothing that a terminal would obey: names in a file come from whoever wrote it."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _say(text: str) -> None:
    sys.stdout.write(_clean(text) + "\n")


def _fail(text: str) -> None:
    sys.stderr.write("dala: " + _clean(" ".join(text.split())) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; gives the exit status: 1 when it failed, 2 when it was called wrongly."""
    try:
        # argparse takes the words of `run` in one piece only; those behind an option come back as unknown.
        parser = _parser()
        options, rest = parser.parse_known_args(argv)
        if rest and (options.command != "run" or any(word.startswith("-") for word in rest)):
            parser.error(f"unknown: {' '.join(rest)}")
        if rest:
            options.words += rest
        options.run(options)
        sys.stdout.flush()
    except Usage as error:
        _fail(str(error))
        return USAGE
    except DalaError as error:
        if full_tracebacks():
            raise
        _fail(f"{error.reason} [{error.code}]")
        return FAILURE
    except MemoryError:
        _fail("out of memory")
        return FAILURE
    except BrokenPipeError:
        # Whoever read our output has gone; closing it must not complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
