"""Object code on disk, so that a second process does not compile again.

A file is written beside its place and renamed into it, so readers see all of it or nothing; its digest comes first, so
what is damaged is noticed and made again. The directory is bounded: the files longest not used go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

MAGIC = b"dala kernel 1\n"
LIMIT = 64 << 20
SUFFIX = ".kernel"


def default_directory() -> Path | None:
    """``$DALA_CACHE`` (nothing is kept when it is ``0``), else ``dala`` in the user's cache directory."""
    named = os.environ.get("DALA_CACHE")
    if named == "0":
        return None
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dala" / "kernels"


class DiskCache:
    """Bytes by name in one directory. A directory that cannot be used, or that others can write to, keeps nothing."""

    def __init__(self, directory: Path | None, limit: int = LIMIT) -> None:
        self.directory = directory
        self.limit = limit
        self._usable: bool | None = None
        self._written: int | None = None  # bytes since the directory was last measured

    def _ready(self) -> bool:
        if self._usable is None:
            self._usable = self.directory is not None and _is_private(self.directory)
        return self._usable

    def _path(self, name: str) -> Path:
        assert self.directory is not None
        return self.directory / (hashlib.sha256(name.encode()).hexdigest()[:40] + SUFFIX)

    def get(self, name: str) -> bytes | None:
        """The bytes of this name; None when they are not there or not whole."""
        if not self._ready():
            return None
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        body = data[len(MAGIC) + 32 :]
        if data[: len(MAGIC)] != MAGIC or hashlib.sha256(name.encode() + body).digest() != data[len(MAGIC) :][:32]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return body

    def put(self, name: str, body: bytes) -> None:
        """Keeps the bytes; a disk that is full or gone is no error."""
        if not self._ready():
            return
        data = MAGIC + hashlib.sha256(name.encode() + body).digest() + body
        path = self._path(name)
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._written = None if self._written is None else self._written + len(data)
        if self._written is None or self._written > self.limit // 8:
            self.prune()

    def prune(self) -> None:
        """Removes the files longest not used, until what is left is within the limit; and parts nobody finished."""
        assert self.directory is not None
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    found.append((about.st_mtime, about.st_size, entry.path))
        newest = max((f[0] for f in found), default=0.0)
        total = 0
        for mtime, size, path in sorted(found, reverse=True):
            stale = path.endswith(".part") and mtime < newest - 3600
            if total + size > self.limit or stale:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            else:
                total += size
        self._written = 0


def _is_private(directory: Path) -> bool:
    """Whether only this user can have put files there: they are run."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = directory.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(about.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return about.st_uid == os.getuid() and not about.st_mode & 0o022
