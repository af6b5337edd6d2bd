"""The ``.dala`` container: a safetensors file whose header carries the program and a digest (``docs/format.md``).

Files from outside are hostile: every size and range is checked before anything is read or allocated.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from dala_defn.dtypes import as_pairs
from dala_defn.errors import FileFormatError

VERSION = "1"
MAX_HEADER = 100_000_000
NUMPY = {
    "BOOL": np.bool_,
    **{f"I{8 * 2**i}": np.dtype(f"i{2**i}") for i in range(4)},
    **{f"U{8 * 2**i}": np.dtype(f"u{2**i}") for i in range(4)},
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F32": np.float32,
    "F64": np.float64,
}
_NAMES = {np.dtype(v): k for k, v in NUMPY.items()}
_DIGEST = re.compile(rb'"dala\.digest":"([0-9a-f]{64})"')
_BLANK = b"0" * 64


def write(
    program: str, tensors: Mapping[str, np.ndarray[Any, Any]], aliases: Mapping[str, str], complex: str = ""
) -> bytes:
    """The bytes of a file; the same input gives the same bytes. Complex tensors are written as real ones."""
    header, parts = lay_out(tensors)
    digests = {name: hashlib.sha256(raw).hexdigest() for name, raw in zip(header, parts, strict=True)}
    metadata = {
        "dala.version": VERSION,
        "dala.program": program,
        "dala.tensors": dumps(digests),
        "dala.digest": _BLANK.decode(),
    }
    if aliases:
        metadata["dala.aliases"] = dumps(dict(aliases))
    if complex:
        metadata["dala.complex"] = complex
    header["__metadata__"] = metadata
    text = dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), seal(text), *parts])


def lay_out(tensors: Mapping[str, np.ndarray[Any, Any]]) -> tuple[dict[str, Any], list[bytes]]:
    """The header's rows and the bytes of tensors, both in name order."""
    header: dict[str, Any] = {}
    parts, at = [], 0
    for name in sorted(tensors):
        given = tensors[name]
        if given.dtype.kind == "c":
            given = as_pairs(given)
        x = np.ascontiguousarray(given)
        raw = x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes() if x.dtype.kind != "V" else x.tobytes()
        header[name] = {
            "dtype": _NAMES[x.dtype],
            "shape": list(given.shape),
            "data_offsets": [at, at + len(raw)],
        }
        parts.append(raw)
        at += len(raw)
    return header, parts


def write_plain(tensors: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file without a program; the same input gives the same bytes."""
    header, parts = lay_out(tensors)
    text = dumps({**header, "__metadata__": dict(metadata)}).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_plain(data: bytes | memoryview) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of any safetensors file, as read-only arrays over its memory.

    Raises:
        FileFormatError: when the file is damaged, naming the tensor where there is one.
    """
    _, header, _, body = split(data)
    out = {}
    for name, (dtype, shape, begin, end) in read_spans(header, len(body)).items():
        out[name] = np.frombuffer(body[begin:end], dtype).reshape(shape)
        out[name].flags.writeable = False
    return out


def split(data: bytes | memoryview) -> tuple[bytes, dict[str, Any], Any, memoryview]:
    """The raw header of a file, its rows, its metadata, and the bytes of the tensors.

    Raises:
        FileFormatError: when there is no such header.
    """
    view = memoryview(data)
    if len(view) < 8:
        raise FileFormatError("the file is shorter than 8 bytes")
    length = int.from_bytes(view[:8], "little")
    if length > min(MAX_HEADER, len(view) - 8):
        raise FileFormatError(f"the header claims {length} bytes, the file has {len(view) - 8}")
    raw = bytes(view[8 : 8 + length])
    header = loads(raw, "the header")
    if not isinstance(header, dict):
        raise FileFormatError("the header is no JSON object")
    return raw, header, header.pop("__metadata__", None), view[8 + length :]


Spans = dict[str, tuple[np.dtype[Any], tuple[int, ...], int, int]]


def read_spans(header: Mapping[str, Any], available: int) -> Spans:
    """Dtype, shape and range of every tensor, checked against each other and the number of bytes there are.

    Raises:
        FileFormatError: naming the tensor that is wrong.
    """
    spans: Spans = {}
    for name, row in header.items():
        if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
            raise FileFormatError(f"tensor {clip(name)}: dtype, shape and data_offsets are needed")
        dtype, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
        if not isinstance(dtype, str) or dtype not in NUMPY:
            raise FileFormatError(f"tensor {clip(name)}: unknown dtype {clip(dtype)}")
        if not _whole(shape) or len(shape) > 32 or not _whole(offsets) or len(offsets) != 2:
            raise FileFormatError(f"tensor {clip(name)}: shape {clip(shape)} or offsets {clip(offsets)} are no sizes")
        size = np.dtype(NUMPY[dtype]).itemsize
        for d in shape:
            size *= d
        begin, end = offsets
        if begin > end or end > available or end - begin != size:
            raise FileFormatError(
                f"tensor {clip(name)}: {clip(size)} bytes are needed, the file gives [{begin}, {end}) of {available}"
            )
        spans[name] = (np.dtype(NUMPY[dtype]), tuple(shape), begin, end)
    at = 0
    for name, (_, _, begin, end) in sorted(spans.items(), key=lambda item: item[1][2:]):
        if begin != at:
            raise FileFormatError(f"tensor {clip(name)}: bytes [{begin}, {end}) leave a gap or overlap at {at}")
        at = end
    if at != available:
        raise FileFormatError(f"{available - at} bytes after the last tensor")
    return spans


def seal(header: bytes) -> bytes:
    """The header with its digest filled in."""
    match = _DIGEST.search(header)
    if match is None:
        raise FileFormatError("the header has no dala.digest")
    start, end = match.span(1)
    digest = hashlib.sha256(header[:start] + _BLANK + header[end:]).hexdigest().encode()
    return header[:start] + digest + header[end:]


def dumps(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def loads(text: str | bytes, what: str) -> Any:
    """JSON that names a key only once.

    Raises:
        FileFormatError: when it is not.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise FileFormatError(f"{what} names a key twice")
        return out

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{what} is not valid JSON: {str(error)[:200]}") from None


class Container:
    """A file that has passed its checks. Tensors are checked against their digest when they are first touched."""

    def __init__(self, data: bytes | memoryview) -> None:
        raw, header, metadata, self._data = split(data)
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise FileFormatError("the file has no metadata of Dala", hint="a file that export() wrote")
        version = metadata.get("dala.version")
        if version != VERSION:
            raise FileFormatError(f"format version {clip(version)}; this release reads version {VERSION}")
        found = _DIGEST.findall(raw)
        if len(found) != 1 or found[0].decode() != metadata.get("dala.digest") or seal(raw) != raw:
            raise FileFormatError("the digest of the header does not match: the file was changed or is damaged")
        self.program: str = metadata.get("dala.program", "")
        self.complex: str = metadata.get("dala.complex", "{}")
        self.aliases = _strings(metadata.get("dala.aliases", "{}"), "dala.aliases")
        self._digests = _strings(metadata.get("dala.tensors", "{}"), "dala.tensors")
        self._spans = read_spans(header, len(self._data))
        self._seen: dict[str, np.ndarray[Any, Any]] = {}
        unsealed = sorted(set(self._spans) - set(self._digests))
        if unsealed:
            raise FileFormatError(f"tensor {clip(unsealed[0])} has no digest")
        if set(self._digests) != set(self._spans):
            raise FileFormatError("dala.tensors names tensors that the file lacks")
        for name, target in self.aliases.items():
            if target not in self._spans or name in self._spans:
                raise FileFormatError(f"alias {clip(name)} does not name a tensor")

    def names(self) -> Iterator[str]:
        """Every tensor and alias."""
        yield from self._spans
        yield from self.aliases

    def __contains__(self, name: object) -> bool:
        return name in self._spans or name in self.aliases

    def shape(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Dtype and shape of a tensor, without reading it; KeyError when there is none."""
        return self._spans[self.aliases.get(name, name)][:2]

    def tensor(self, name: str) -> np.ndarray[Any, Any]:
        """A tensor as a read-only array over the file's memory.

        Raises:
            FileFormatError: when its bytes are not those that were written.
            KeyError: when there is none of this name.
        """
        name = self.aliases.get(name, name)
        if name not in self._seen:
            dtype, shape, begin, end = self._spans[name]
            raw = self._data[begin:end]
            if hashlib.sha256(raw).hexdigest() != self._digests[name]:
                raise FileFormatError(f"tensor {clip(name)} is damaged: its digest does not match")
            x = np.frombuffer(raw, dtype).reshape(shape)
            x.flags.writeable = False
            self._seen[name] = x
        return self._seen[name]


def clip(value: Any) -> str:
    """A value from a file as an error shows it: names and numbers there may be as long as they like."""
    text = value if isinstance(value, str) else repr(value) if not isinstance(value, int) else _number(value)
    text = text if len(text) <= 80 else text[:77] + "..."
    return repr(text) if isinstance(value, str) else text


def _number(value: int) -> str:
    # Python refuses to print a number of more than some thousand digits.
    return repr(value) if value.bit_length() < 512 else f"a number of {value.bit_length()} bits"


def _strings(text: str, what: str) -> dict[str, str]:
    value = loads(text, what)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise FileFormatError(f"{what} must map names to strings")
    return value


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)
