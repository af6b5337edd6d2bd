"""The build hook's pure parts, the packaging data and the shipped digits; nothing here builds Rust."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "cbridge" / "include" / "dala.h"


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"test_packaging_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


abi = load(ROOT / "cbridge" / "abi.py")
hook = load(ROOT / "cbridge" / "build_hook.py")


@pytest.fixture(scope="module")
def ffi(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """cffi's own reading of the header, as the generated module has it."""
    path = tmp_path_factory.mktemp("abi") / "_abi.py"
    abi.write_module(HEADER.read_text(), "_abi", path)
    return load(path).ffi


def test_cffi_reads_every_declaration_of_the_header(ffi: Any) -> None:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    functions = set(re.findall(r"^[\w ]+?[ *](dala_\w+)\(", text, flags=re.MULTILINE))
    constants = set(re.findall(r"\b(DALA_\w+) *=? *\d", text))
    assert {"dala_run", "dala_error_free"} <= functions
    assert {"DALA_ABI_VERSION", "DALA_PANIC", "DALA_TOKEN"} <= constants
    assert set(dir(ffi.dlopen(None))) == functions | constants


def test_constants_and_structs_of_the_header_survive(ffi: Any) -> None:
    lib = ffi.dlopen(None)
    assert (lib.DALA_ABI_VERSION, lib.DALA_OK, lib.DALA_IO_ERROR, lib.DALA_TOKEN) == (1, 0, 8, 16)
    assert [name for name, _ in ffi.typeof("dala_array").fields] == ["dtype", "ndim", "shape", "strides", "data"]
    assert [name for name, _ in ffi.typeof("dala_arg").fields] == ["tensor", "array", "flags"]


def test_cdefs_drop_what_is_for_the_preprocessor() -> None:
    header = (
        "#ifndef A_H\n#define A_H\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
        "#define A_MAX 0x10\n/* enum { NO } */ enum { A = 1 };\nint32_t a(void);\n"
        "#ifdef __cplusplus\n}\n#endif\n#endif\n"
    )  # fmt: skip
    assert abi.cdefs(header).split("\n") == ["#define A_MAX 0x10", "  enum { A = 1 };", "int32_t a(void);", ""]


@pytest.mark.parametrize("line", ["#if A > 1", "#define A(x) x", "#define A_EXPORT __attribute__((used))", "#pragma x"])
def test_cdefs_refuse_a_directive_that_could_change_the_meaning(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line)):
        abi.cdefs(f"int a(void);\n{line}\n")


def test_the_generated_package_opens_a_library(tmp_path: Path) -> None:
    library = tmp_path / "libdala.so"
    library.write_bytes(b"not read here")
    native = tmp_path / "made_package"
    files = hook.fill(native, library)
    assert sorted(path.name for path in files) == ["__init__.py", "_abi.py", "dala.h", "libdala.so"]
    code = (
        "import made_package as m; print(m.LIBRARY.read_bytes(), m.HEADER.name, m.ffi.sizeof('dala_array') > 0);"
        "c = m.ffi.dlopen(None); print(c.DALA_PANIC, c.DALA_ABI_VERSION)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["b'not read here' dala.h True", "7 1"]


def test_filling_twice_writes_nothing(tmp_path: Path) -> None:
    library = tmp_path / "libdala.so"
    library.write_bytes(b"one")
    native = tmp_path / "native"
    before = {path: path.stat().st_ino for path in hook.fill(native, library)}
    assert {path: path.stat().st_ino for path in hook.fill(native, library)} == before
    library.write_bytes(b"two")
    changed = {path.name for path in hook.fill(native, library) if path.stat().st_ino != before[path]}
    assert changed == {"libdala.so"}
    assert (native / "libdala.so").read_bytes() == b"two"
    assert len(list(native.iterdir())) == 4


def artifact(package: str, kind: str, *files: str) -> str:
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "package_id": package,
            "target": {"name": "dala", "kind": [kind], "crate_types": [kind]},
            "filenames": list(files),
        }
    )


CBRIDGE = "path+file:///src/cbridge#dala-cbridge@0.1.0"
OTHERS = [
    artifact("path+file:///src/runtime#dala-runtime@0.1.0", "lib", "/t/release/libdala_runtime.rlib"),
    artifact("registry+x#other@1.0.0", "cdylib", "/t/release/libother.so"),
    '{"reason":"build-script-executed","package_id":"registry+x#libmimalloc-sys@0.1.44"}',
    "a line that is not JSON",
]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["/t/release/libdala.so"], "/t/release/libdala.so"),
        (["/elsewhere/release/libdala.dylib"], "/elsewhere/release/libdala.dylib"),
        (["C:\\t\\release\\dala.dll.lib", "C:\\t\\release\\dala.dll"], "C:\\t\\release\\dala.dll"),
    ],
)
def test_the_library_is_where_cargo_says(files: list[str], expected: str) -> None:
    messages = [*OTHERS, artifact(CBRIDGE, "cdylib", *files), '{"reason":"build-finished","success":true}']
    assert hook.library_path(messages) == Path(expected)


def test_no_library_among_the_messages_is_an_error() -> None:
    with pytest.raises(hook.BuildError, match="cargo named no shared library of dala-cbridge"):
        hook.library_path([*OTHERS, artifact(CBRIDGE, "lib", "/t/release/libdala.rlib")])


def test_a_missing_cargo_says_what_to_install(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CARGO"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "cbridge" / "build_hook.py")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: cargo was not found")
    assert f"Install Rust {hook.needed_version()} or newer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("told", "status", "message"),
    [
        ("cargo 1.94.1 (abc 2026-01-01)", 0, "cargo 1.94.1 is too old: Dala's runtime needs Rust 1.95. Install Rust"),
        ("cargo 0.99.0", 0, "cargo 0.99.0 is too old"),
        ("no default toolchain", 1, "does not work: no default toolchain. Install Rust 1.95 or newer"),
        ("cargo 1.95.0 (abc 2026-03-21)", 0, None),
        ("cargo 1.100.0-nightly (abc 2026-09-01)", 0, None),
        ("cargo 2.0.0", 0, None),
    ],
)
def test_the_version_of_cargo_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, status: int, message: str | None
) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\necho '{told}'\nexit {status}\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("CARGO", str(cargo))
    if message is None:
        assert hook.find_cargo("1.95") == str(cargo)
    else:
        with pytest.raises(hook.BuildError, match=re.escape(message)):
            hook.find_cargo("1.95")


def test_the_wheel_is_for_any_python_3_and_this_platform() -> None:
    assert re.fullmatch(r"py3-none-[a-z0-9]+(_[a-z0-9]+)*", hook.wheel_tag())


def test_python_and_rust_carry_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert project["version"] == workspace["version"]
    assert project["license"] == workspace["license"]


def test_ci_finds_the_second_command_of_the_readme() -> None:
    pattern = re.search(r"^readme_pattern='(.*)'$", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    assert pattern is not None
    commands = re.findall(f"^{pattern[1]}$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(commands) == 1


def test_the_digits_are_all_there() -> None:
    with np.load(ROOT / "examples" / "data" / "digits.npz", allow_pickle=False) as data:
        images, labels = data["images"], data["labels"]
    assert (images.shape, images.dtype, labels.shape, labels.dtype) == ((1797, 8, 8), np.uint8, (1797,), np.uint8)
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
