"""Object code on disk: whole or not at all, bounded, private, shared between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from kernels import run_function

from dala_defn import codegen, ops
from dala_defn.codegen import Kernels
from dala_defn.codegen.cache import DiskCache, default_directory
from dala_defn.ir import Graph
from dala_defn.passes.kernels import kernel_plan


def graph(op: str = "exp") -> Graph:
    return ops.parse(f"graph @f(%x: f32[9]) {{\n  %a = {op} %x\n  %b = add %a, %x\n  return %b\n}}")


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.kernel"))


def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    plan = kernel_plan(graph(), 1, (0, 0), 1)
    first = Kernels(DiskCache(tmp_path))
    first.address(plan)
    first.address(plan)
    assert (first.counts.compiled, first.counts.found) == (1, 0)
    second = Kernels(DiskCache(tmp_path))
    second.address(plan)
    assert (second.counts.compiled, second.counts.found) == (0, 1)


def test_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    plan = kernel_plan(graph(), 1, (0, 0), 1)
    Kernels(DiskCache(tmp_path)).address(plan)
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:100], whole[:-1] + bytes([whole[-1] ^ 1]), b"x" + whole[1:]):
        file.write_bytes(damaged)
        again = Kernels(DiskCache(tmp_path))
        again.address(plan)
        assert again.counts.compiled == 1
        assert file.read_bytes()[:14] == whole[:14]


def test_code_is_not_taken_under_another_name(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("a", b"code of a")
    (file,) = files(tmp_path)
    cache.put("b", b"code of b")
    (other,) = [f for f in files(tmp_path) if f != file]
    other.write_bytes(file.read_bytes())
    assert cache.get("a") == b"code of a"
    assert cache.get("b") is None


def test_the_directory_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=5000)
    for i in range(20):
        cache.put(str(i), bytes(900))
        for f in files(tmp_path):
            os.utime(f, (1000 + i, 1000 + i)) if cache._path(str(i)) == f else None
    cache.prune()
    assert sum(f.stat().st_size for f in files(tmp_path)) <= 5000
    assert cache.get("19") is not None
    assert cache.get("0") is None


def test_a_directory_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache = DiskCache(tmp_path)
    cache.put("a", b"code")
    assert cache.get("a") is None
    assert files(tmp_path) == []


def test_no_directory_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for cache in (DiskCache(None), DiskCache(file / "below")):
        cache.put("a", b"code")
        assert cache.get("a") is None


def test_where_it_is(tmp_path: Path) -> None:
    before = dict(os.environ)
    try:
        os.environ["DALA_CACHE"] = "0"
        assert default_directory() is None
        os.environ["DALA_CACHE"] = str(tmp_path)
        assert default_directory() == tmp_path
        del os.environ["DALA_CACHE"]
        os.environ["XDG_CACHE_HOME"] = str(tmp_path)
        assert default_directory() == tmp_path / "dala" / "kernels"
    finally:
        os.environ.clear()
        os.environ.update(before)


WRITER = """
import sys, os
from pathlib import Path
from dala_defn.codegen.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), limit=1 << 20)
print("ready", flush=True)
i = 0
while True:
    cache.put(str(i % 7), bytes([i % 7]) * 200_000)
    i += 1
"""


def test_killed_writers_leave_nothing_half_written(tmp_path: Path) -> None:
    root = str(Path(codegen.__file__).parents[2])
    for _ in range(3):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path)],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": root},
            )
            for _ in range(2)
        ]
        for w in writers:
            assert w.stdout is not None
            assert w.stdout.readline() == b"ready\n"
        cache = DiskCache(tmp_path)
        for i in range(200):
            body = cache.get(str(i % 7))
            assert body is None or body == bytes([i % 7]) * 200_000
        for w in writers:
            w.kill()
            w.wait()
            assert w.stdout is not None
            w.stdout.close()
    cache = DiskCache(tmp_path)
    for i in range(7):
        cache.put(str(i), bytes([i]) * 200_000)
        assert cache.get(str(i)) == bytes([i]) * 200_000


def test_importing_the_package_does_not_import_llvm() -> None:
    code = "import sys, dala_defn; assert not any(m.startswith('llvmlite') for m in sys.modules), 'llvmlite'"
    root = str(Path(codegen.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=False)
    assert done.returncode == 0


def test_a_kernel_from_disk_computes_the_same() -> None:
    x = np.linspace(-3, 3, 9, dtype=np.float32)
    (got,) = run_function(graph(), [9], (0, 0), 1, [x])
    np.testing.assert_allclose(got, np.exp(x) + x, rtol=1e-6)
