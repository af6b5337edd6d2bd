"""Writing programs to ``.dala`` files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dala_defn import ops
from dala_defn.errors import ArgumentError, EngineError, FileError
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Bounds, Entry, Program
from dala_defn.shapes import names_of


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file whole or not at all.

    Raises:
        FileError: when it cannot be written.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise FileError(f"{target} cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def dims_of(entries: Sequence[Entry], bounds: Mapping[str, Bounds] | None = None) -> dict[str, Bounds]:
    """The named sizes of the entries, with their bounds (0 or more where none is given).

    Raises:
        ArgumentError: for bounds of a name that does not occur.
    """
    names = sorted({n for e in entries for v in e.graph.inputs for n in names_of(v.type.shape)})
    given = dict(bounds or {})
    for name in given:
        if name not in names:
            raise ArgumentError(f"bounds for {name!r}, which is no size of the arguments", rule=f"sizes: {names}")
    return {n: given.get(n, (0, None)) for n in names}


def write_program(path: str | os.PathLike[str], program: Program, *, strip_locations: bool = False) -> None:
    """Writes a program to a ``.dala`` file, whole or not at all.

    Raises:
        EngineError: for a program that calls back into Python.
    """
    for e in program.entries:
        ops.verify(e.graph)
        for node in (n for g in [*e.graph.functions(), e.graph] for n in g.nodes if n.op == "callback"):
            raise EngineError(
                f"{e.name} calls back into Python, to {node.attrs['name'].partition('/')[0]}: a file has none",
                op="callback",
                hint="dd.debug.check and dd.debug.print can be exported",
                location=None if node.loc is None else node.loc.resolve(),
            )
    write_file(path, encode(program, strip_locations=strip_locations))
