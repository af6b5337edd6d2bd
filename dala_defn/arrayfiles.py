"""Files of plain arrays: ``.npy``, ``.npz`` and ``.safetensors``. Nothing in them is executed."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.array import Array, host_array
from dala_defn.artifacts import ARRAY_SUFFIXES, read_file, write_file
from dala_defn.dtypes import from_pairs
from dala_defn.errors import ArgumentError, ArgumentTypeError, DTypeError, FileError, FileFormatError
from dala_defn.functions.creation import array
from dala_defn.ir import container

_COMPLEX = "dala.complex"


def _host(name: str, x: Any) -> np.ndarray[Any, Any]:
    x = array(x)
    if x.dtype.kind == "k":
        raise ArgumentTypeError(f"{name} is a random key", hint="dd.random.key from its number, after loading")
    return np.asarray(x)


def save(path: str | os.PathLike[str], arrays: Any) -> None:
    """Writes arrays to a file: one to ``.npy``, those of a mapping by name to ``.npz`` or ``.safetensors``.

    A file is written whole or not at all. bfloat16 goes into ``.safetensors``; complex numbers do too, as real ones
    with a last axis of 2 and a note that ``dd.load`` reads.

    Raises:
        ArgumentError: for another ending.
        ArgumentTypeError: for what does not go into such a file.
        FileError: when it cannot be written.

    Example:
        >>> dd.save("weights.safetensors", {"w": dd.ones((2, 2)), "b": dd.zeros(2)})
        >>> sorted(dd.load("weights.safetensors"))
        ['b', 'w']
    """
    suffix = Path(path).suffix
    if suffix not in ARRAY_SUFFIXES:
        raise ArgumentError(f"save to {os.fspath(path)!r}", rule=", ".join(ARRAY_SUFFIXES))
    if suffix == ".npy":
        held = {"the array": _host("the array", arrays)}
    elif isinstance(arrays, Mapping) and all(isinstance(k, str) for k in arrays):
        held = {k: _host(k, v) for k, v in arrays.items()}
    else:
        raise ArgumentTypeError(f"a {type(arrays).__name__} to {suffix}", hint="a mapping from names to arrays")
    if suffix == ".safetensors":
        whole = sorted(k for k, v in held.items() if v.dtype.kind == "c")
        write_file(path, container.write_plain(held, {_COMPLEX: json.dumps(whole)} if whole else {}))
        return
    for k, v in held.items():
        if v.dtype.kind == "V":
            raise DTypeError(f"{k} is bfloat16, which NumPy's files do not name", hint="a .safetensors file")
    out = io.BytesIO()
    if suffix == ".npy":
        np.save(out, held["the array"], allow_pickle=False)
    else:
        with zipfile.ZipFile(out, "w") as z:
            for k, v in held.items():
                part = io.BytesIO()
                np.save(part, v, allow_pickle=False)
                z.writestr(f"{k}.npy", part.getvalue())
    write_file(path, out.getvalue())


def load_arrays(path: str | os.PathLike[str]) -> Array | dict[str, Array]:
    """The array of a ``.npy`` file, or those of an ``.npz`` or ``.safetensors`` file by name; see ``dd.load``.

    Raises:
        FileError: when it cannot be read.
        FileFormatError: when it is damaged, or holds what is no array of ours.
    """
    data = read_file(path)
    where = os.fspath(path)
    if Path(path).suffix == ".safetensors":
        found = container.read_plain(data)
        note = (container.split(data)[2] or {}).get(_COMPLEX, "[]")
        names = container.loads(note, _COMPLEX) if isinstance(note, str) else None
        if not isinstance(names, list) or not all(isinstance(n, str) and n in found for n in names):
            raise FileFormatError(f"{where}: {_COMPLEX} names what is not there")
        for n in names:
            if found[n].dtype.kind != "f" or found[n].shape[-1:] != (2,) or found[n].dtype.itemsize < 4:
                raise FileFormatError(f"{where}: {n} is no complex array")
            found[n] = from_pairs(found[n])
        return {k: _ours(where, k, v) for k, v in found.items()}
    try:
        loaded = np.load(io.BytesIO(bytes(data)), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return _ours(where, "the array", loaded)
        return {k: _ours(where, k, loaded[k]) for k in loaded.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, SyntaxError, MemoryError, KeyError) as error:
        if isinstance(error, (FileFormatError, FileError)):
            raise
        raise FileFormatError(f"{where} cannot be read: {str(error)[:200]}") from None


def _ours(where: str, name: str, x: np.ndarray[Any, Any]) -> Array:
    try:
        dtype = dtypes.as_dtype(x.dtype.newbyteorder("="))
    except DTypeError as error:
        raise FileFormatError(f"{where}: {name} is {x.dtype}: {error.reason}") from None
    return host_array(np.array(x, dtype.dtype, order="C"), dtype)
