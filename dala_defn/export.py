"""Loading ``.dala`` files."""

from __future__ import annotations

import mmap
import os
from typing import Any

from dala_defn import ops
from dala_defn.arguments import as_operand, type_of
from dala_defn.array import Array
from dala_defn.dtypes import weak_kind
from dala_defn.errors import ArgumentError, ArgumentTypeError, DTypeError, FileError, ShapeError
from dala_defn.executors import executor
from dala_defn.ir.codec import decode
from dala_defn.ir.program import Entry, state_path


class EntryPoint:
    """One entry of a loaded program: call it with arrays, by position or by name."""

    def __init__(self, artifact: Artifact, index: int, entry: Entry) -> None:
        self.name = entry.name
        self.entry = entry
        self._artifact = artifact
        self._index = index
        pairs = zip(entry.args, entry.arg_types(), strict=True)
        self.args = [(a, t) for a, t in pairs if state_path(a.role) is None]
        outs = zip(entry.results, entry.result_types(), strict=True)
        self.results = [(r, t) for r, t in outs if state_path(r.role) is None]
        self._types = [t for _, t in self.results]

    def __repr__(self) -> str:
        takes = ", ".join(f"{a.name}: {t}" for a, t in self.args)
        return f"{self.name}({takes}) -> {', '.join(str(t) for t in self._types)}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the entry; one result comes as itself, several as a dict by name.

        Raises:
            ArgumentTypeError: for a wrong number or name of arguments.
            DTypeError, ShapeError: when an argument does not fit.
        """
        names = [a.name for a, _ in self.args]
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or set(given) & set(kwargs) or set(kwargs) - set(names):
            raise ArgumentTypeError(f"{self!r} cannot be called with {len(args)} arrays and {sorted(kwargs)}")
        given |= kwargs
        if len(given) != len(names):
            missing = [n for n in names if n not in given]
            raise ArgumentTypeError(f"{self!r}: {', '.join(missing)} missing")
        leaves = []
        for a, t in self.args:
            x = given[a.name]
            have, _ = type_of(x, a.name)
            if have.dtype is not t.dtype and weak_kind(x) is None:
                raise DTypeError(f"argument {a.name} is {have}, not {t}", hint=f"x.astype(dd.{t.dtype})")
            fixed = zip(have.shape, t.shape, strict=False)
            if have.ndim != t.ndim or any(isinstance(d, int) and d != n for n, d in fixed):
                raise ShapeError(f"argument {a.name} is {have}, not {t}")
            leaves.append(as_operand(x, t))
        outs = self._artifact.loaded.run(self._index, leaves, self._types)
        if len(outs) == 1:
            return outs[0]
        return {r.name: x for (r, _), x in zip(self.results, outs, strict=True)}


class Artifact:
    """A loaded ``.dala`` file. Calling it runs its only entry, or ``predict``, or ``main``.

    Attributes:
        entries: the entry points by name.
        dims: the named sizes with their bounds.
    """

    def __init__(self, path: str | os.PathLike[str], executor_name: str | None = None) -> None:
        self.path = os.fspath(path)
        data = read_file(path)
        self.program = decode(data, ops.OPS)
        for e in self.program.entries:
            ops.verify(e.graph)
        self.dims = dict(self.program.dims)
        runner = executor(executor_name)
        opened = getattr(runner, "open", None)
        self.loaded = runner.load(self.program) if opened is None else opened(path)
        self.entries = {e.name: EntryPoint(self, self.loaded.entry(e.name), e) for e in self.program.entries}

    def __getitem__(self, name: str) -> EntryPoint:
        try:
            return self.entries[name]
        except KeyError:
            raise ArgumentError(f"{self.path} has no entry {name!r}", rule=f"entries: {sorted(self.entries)}") from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the default entry."""
        return self.default(*args, **kwargs)

    @property
    def default(self) -> EntryPoint:
        """The only entry, or ``predict``, or ``main``.

        Raises:
            ArgumentError: when there is none of these.
        """
        if len(self.entries) == 1:
            return next(iter(self.entries.values()))
        for name in ("predict", "main"):
            if name in self.entries:
                return self.entries[name]
        raise ArgumentError(f"choose an entry of {sorted(self.entries)}", hint='artifact["name"](...)')

    def state(self, path: str) -> Array:
        """A tensor of the program's state, as it is now."""
        for e in self.program.entries:
            for a, t in zip(e.args, e.arg_types(), strict=True):
                if state_path(a.role) == path:
                    return self.loaded.get_state(path, t)
        raise ArgumentError(f"{self.path} has no state {path!r}")

    def __repr__(self) -> str:
        return f"<{self.path}: {'; '.join(map(repr, self.entries.values()))}>"


def read_file(path: str | os.PathLike[str]) -> bytes | memoryview:
    """The bytes of a file, mapped.

    Raises:
        FileError: when it cannot be read.
    """
    try:
        with open(path, "rb") as f:
            if os.fstat(f.fileno()).st_size == 0:
                return b""
            return memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be read: {error.strerror or error}") from None


def load(path: str | os.PathLike[str], executor: str | None = None) -> Artifact:
    """Loads a ``.dala`` file; nothing in it is executed as code.

    Raises:
        FileError: when the file cannot be read.
        FileFormatError, VerifyError: when it is damaged or no valid program.

    Example:
        >>> model = dd.load("model.dala")
        >>> y = model(x)
    """
    return Artifact(path, executor)
