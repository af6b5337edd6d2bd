"""Loading ``.dala`` files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dala_defn import ops
from dala_defn.arguments import as_operand, type_of
from dala_defn.array import Array
from dala_defn.artifacts import ARRAY_SUFFIXES, Key, as_keys, check_signature, read_signed
from dala_defn.dtypes import weak_kind
from dala_defn.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from dala_defn.executors import executor
from dala_defn.ir.codec import decode
from dala_defn.ir.program import Entry, state_path
from dala_defn.memory import MemoryPlan, given, plan_of


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
        given = self._leaves(args, kwargs)
        leaves = [as_operand(x, t) for x, (_, t) in zip(given, self.args, strict=True)]
        outs = self._artifact.loaded.run(self._index, leaves, self._types)
        if len(outs) == 1:
            return outs[0]
        return {r.name: x for (r, _), x in zip(self.results, outs, strict=True)}

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in order, each of the type that it must have."""
        names = [a.name for a, _ in self.args]
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or set(given) & set(kwargs) or set(kwargs) - set(names):
            raise ArgumentTypeError(f"{self!r} cannot be called with {len(args)} arrays and {sorted(kwargs)}")
        given |= kwargs
        if len(given) != len(names):
            missing = [n for n in names if n not in given]
            raise ArgumentTypeError(f"{self!r}: {', '.join(missing)} missing")
        for a, t in self.args:
            x = given[a.name]
            have, _ = type_of(x, a.name)
            if have.dtype is not t.dtype and weak_kind(x) is None:
                raise DTypeError(f"argument {a.name} is {have}, not {t}", hint=f"x.astype(dd.{t.dtype})")
            fixed = zip(have.shape, t.shape, strict=False)
            if have.ndim != t.ndim or any(isinstance(d, int) and d != n for n, d in fixed):
                raise ShapeError(f"argument {a.name} is {have}, not {t}")
        return [given[n] for n in names]

    def memory_plan(self, *args: Any, **kwargs: Any) -> MemoryPlan:
        """What memory a run on these arguments (or specs) holds; without arguments, on those of the file.

        Raises:
            ArgumentTypeError: for a wrong number or name of arguments.
            ArgumentError: when a size is not known.
        """
        leaves = self._leaves(args, kwargs) if args or kwargs else [t for _, t in self.args]
        types = [t for _, t in self.args]
        come = given([a.name for a, _ in self.args], types, leaves, [a.donate for a, _ in self.args])
        return plan_of(self.name, self._artifact.loaded.memory(self._index, come), lambda at: at)


class Artifact:
    """A loaded ``.dala`` file. Calling it runs its only entry, or ``predict``, or ``main``.

    Attributes:
        entries: the entry points by name.
        dims: the named sizes with their bounds.
        signer: the public key that signed the file, or ``None``.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        executor_name: str | None = None,
        trusted: Sequence[bytes] = (),
        signature: bytes | None = None,
    ) -> None:
        if isinstance(source, bytes):
            self.path = "<bytes>"
            self.signer = check_signature(source, signature, trusted, self.path)
            data: bytes | memoryview = source
        else:
            self.path = os.fspath(source)
            data, self.signer = read_signed(source, trusted)
        self.program = decode(data, ops.OPS)
        for e in self.program.entries:
            ops.verify(e.graph)
        self.dims = dict(self.program.dims)
        runner = executor(executor_name)
        opened = getattr(runner, "open", None)
        if opened is None or isinstance(source, bytes):
            self.loaded = runner.load(self.program)
        else:
            # The runtime reads the file for itself, so it checks for itself too.
            self.loaded = opened(source, trusted, self.program)
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


def load(
    source: str | os.PathLike[str] | bytes,
    executor: str | None = None,
    *,
    public_key: Key | Sequence[Key] | None = None,
    signature: bytes | None = None,
) -> Any:
    """Loads a ``.dala`` file, or arrays from ``.npy``, ``.npz`` or ``.safetensors``; nothing in it is run as code.

    Of ``.npy`` it is the array, of the other two a dict of arrays by name, as ``dd.save`` writes them.

    Where ``FILE.sig`` lies beside the file, it must be the file's signature (see ``dd.signing``), by whatever key: else
    nothing of the file is read. That there is one, and who made it, matters when ``public_key`` is given.

    Args:
        source: the path of the file, or its bytes.
        executor: what runs it; otherwise as ``dd.using`` says.
        public_key: the key, or the keys, one of which must have signed the file: 32 bytes or 64 hex digits each.
        signature: the content of ``FILE.sig``, for bytes.

    Raises:
        FileError: when the file, or the signature beside it, cannot be read.
        SignatureError: when the signature is missing, not the file's, or not by one of the keys.
        FileFormatError, VerifyError: when it is damaged or no valid program.
        ArgumentError: for a key that is none, no keys at all, or a signature together with a path.

    Example:
        >>> model = dd.load("model.dala")
        >>> y = model(x)
    """
    if not isinstance(source, bytes) and Path(source).suffix in ARRAY_SUFFIXES:
        if executor is not None or public_key is not None or signature is not None:
            raise ArgumentError(f"{os.fspath(source)} holds arrays: they are not run or signed", hint="dd.load(path)")
        from dala_defn.arrayfiles import load_arrays  # not every program needs it

        return load_arrays(source)
    if signature is not None and not isinstance(source, bytes):
        raise ArgumentError("signature= goes with bytes", hint="a file has its signature beside it, in FILE.sig")
    trusted = () if public_key is None else as_keys(public_key)
    return Artifact(source, executor, trusted, signature)
