"""``.dala`` files taken apart and put together again with right digests, whatever was done to them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dala_defn.ir.container import seal

Json = Any


class File:
    """A file taken apart: its tensors' header rows, its metadata, its program, its data."""

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:8], "little")
        self.rows: Json = json.loads(data[8 : 8 + size])
        self.metadata: Json = self.rows.pop("__metadata__")
        self.program: Json = json.loads(self.metadata["dala.program"])
        self.aliases: Json = json.loads(self.metadata.get("dala.aliases", "{}"))
        self.data = data[8 + size :]

    def bytes(self, program_text: str | None = None, digests: Json = None, **metadata: Json) -> bytes:
        """Put together again, with right digests wherever ranges make sense."""
        text = dumps(self.program) if program_text is None else program_text
        rows = {"dala.version": "1", "dala.program": text, "dala.aliases": dumps(self.aliases)}
        rows["dala.tensors"] = dumps(self.digests() if digests is None else digests)
        rows["dala.digest"] = "0" * 64
        rows |= metadata
        rows = {k: v for k, v in rows.items() if v is not None}
        return packed(dumps({**self.rows, "__metadata__": rows}), self.data)

    def digests(self) -> dict[str, str]:
        """The digest of every tensor whose range can be cut out."""
        out = {}
        for name, row in self.rows.items():
            try:
                begin, end = row["data_offsets"]
                raw = self.data[begin:end]
            except (TypeError, KeyError, ValueError):
                raw = b""
            out[name] = hashlib.sha256(raw).hexdigest()
        return out


def dumps(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def packed(header: str, data: bytes) -> bytes:
    """A file from the text of its header, sealed when there is something to seal."""
    raw = header.encode()
    if b'"dala.digest":"' + b"0" * 64 in raw:
        raw = seal(raw)
    return len(raw).to_bytes(8, "little") + raw + data


Mutant = tuple[str, bytes]
