"""Writing programs to ``.dala`` files; reading files, and checking who signed them."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dala_defn import keys, ops
from dala_defn.errors import (
    ArgumentError,
    ArgumentTypeError,
    EngineError,
    FileError,
    FileFormatError,
    SignatureError,
)
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Bounds, Entry, Program
from dala_defn.shapes import names_of

Key = bytes | str
ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors")


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


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file that only its owner can read; never over one that is there.

    Raises:
        FileError: when there is one, or it cannot be written.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as f:
            f.write(data)
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None


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


def as_key(key: Key) -> bytes:
    """A key as bytes.

    Raises:
        ArgumentError: for one that is none; the message does not show it, as it may be private.
        ArgumentTypeError: for anything but bytes and text.
    """
    if not isinstance(key, (bytes, str)):
        raise ArgumentTypeError(f"a key is 32 bytes or 64 hex digits, not a {type(key).__name__}")
    raw = key
    if isinstance(key, str):
        try:
            raw = bytes.fromhex(key) if len(key) == 2 * keys.KEY_BYTES else b""
        except ValueError:
            raw = b""
    if not isinstance(raw, bytes) or len(raw) != keys.KEY_BYTES:
        raise ArgumentError("this is no key", rule="32 bytes or 64 hex digits")
    return raw


def as_keys(keys: Key | Sequence[Key]) -> tuple[bytes, ...]:
    """One key or several.

    Raises:
        ArgumentError: for none at all, which would trust nobody or everybody.
    """
    found = (as_key(keys),) if isinstance(keys, (bytes, str)) else tuple(as_key(k) for k in keys)
    if not found:
        raise ArgumentError("public_key= lists no key", hint="None, to load files that nobody signed")
    return found


def signature_path(path: str | os.PathLike[str]) -> str:
    """Where the signature of a file lies."""
    return os.fspath(path) + ".sig"


def read_signature(path: str | os.PathLike[str]) -> bytes | None:
    """The content of ``FILE.sig``, or ``None`` where there is none.

    Raises:
        FileError: when there is one that cannot be read: that must not pass for an unsigned file.
    """
    where = signature_path(path)
    try:
        os.lstat(where)  # follows no link: one that leads nowhere is there, and cannot be read
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return None
        raise FileError(f"{where} cannot be read: {error.strerror or error}") from None
    try:
        if not stat.S_ISREG(os.stat(where).st_mode):  # opening a pipe would wait for somebody to write to it
            raise FileError(f"{where} cannot be read: it is no file")
        with open(where, "rb") as f:
            return f.read(keys.SIGNATURE_BYTES + 1)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{where} cannot be read: {error.strerror or error}") from None


def check_signature(
    data: bytes | memoryview, signature: bytes | None, trusted: Sequence[bytes], what: str
) -> bytes | None:
    """The signer of a file, by its bytes and the content of its ``.sig``; ``None`` for a file without one.

    Raises:
        SignatureError: when the signature is missing, not the file's, or not by a trusted key, where there are any.
        EngineError: when there is something to check and no native library.
    """
    if signature is None:
        if trusted:
            raise SignatureError(f"{what}: the file has no signature, and one by a trusted key is demanded")
        return None
    try:
        return keys.verify_signature(data, signature, trusted)
    except FileFormatError as error:
        raise type(error)(f"{what}: {error.reason}", details=error.details) from None
    except EngineError as error:
        raise EngineError(f"{what}: checking a signature needs the native library: {error.reason}") from None


def read_signed(path: str | os.PathLike[str], trusted: Sequence[bytes] = ()) -> tuple[bytes | memoryview, bytes | None]:
    """The bytes of a file, mapped, and its signer; nothing of a file with a wrong signature is handed out.

    Raises:
        FileError: when the file, or the signature beside it, cannot be read.
        SignatureError: as ``check_signature``.
    """
    data = read_file(path)
    return data, check_signature(data, read_signature(path), trusted, os.fspath(path))
