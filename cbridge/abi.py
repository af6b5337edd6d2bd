"""Turns ``include/dala.h`` into cffi declarations, so that the header is the one place where the C interface stands."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

HEADER = Path(__file__).resolve().parent / "include" / "dala.h"

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CPLUSPLUS = re.compile(r"^\s*#\s*ifdef\s+__cplusplus\b.*?^\s*#\s*endif\b[^\n]*$", re.DOTALL | re.MULTILINE)
DEFINE_INT = re.compile(r"#\s*define\s+(\w+)\s+(-?(?:0[xX][0-9a-fA-F]+|\d+))$")
GUARD = re.compile(r"#\s*(?:ifndef\s+(\w+)_H|define\s+(\w+)_H|include\s+<\w+\.h>|endif)$")


def cdefs(header: str) -> str:
    """The declarations of a C header in the form that ``cffi.FFI.cdef`` takes.

    cffi has no preprocessor. The blocks for C++, the include guard and the includes (fixed-width integers and
    ``size_t`` are built into cffi) are dropped; an integer ``#define`` and every enum stay, so that Python sees the
    constants of C. Any other directive is refused: dropping it could change what the declarations mean.
    """
    text = CPLUSPLUS.sub("", COMMENT.sub(" ", header))
    lines = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            if define := DEFINE_INT.match(stripped):
                lines.append(f"#define {define[1]} {define[2]}")
            elif not GUARD.match(stripped):
                raise ValueError(f"cbridge/abi.py cannot turn this line of the header into cffi: {stripped}")
        elif stripped:
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def write_module(header: str, module: str, path: Path) -> None:
    """Writes a Python module that defines ``ffi`` for this header (ABI mode: importing it needs no C compiler)."""
    from cffi import FFI  # here, so that ``cdefs`` can be used and tested without cffi

    ffi = FFI()
    ffi.cdef(cdefs(header))
    ffi.set_source(module, None)
    with contextlib.redirect_stdout(io.StringIO()):  # it reports the temporary path it writes to
        ffi.emit_python_code(str(path))
