"""The two example programs without Python, in C and in Rust, give the classes that Python gives."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dala_defn as dd
from dala_defn import layers
from dala_defn._native import HEADER, LIBRARY

ROOT = Path(__file__).resolve().parents[1]
ROWS, LENGTH = 50, 12


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[int]]:
    """The arguments of the programs, and the classes that they should print."""
    folder = tmp_path_factory.mktemp("predict")
    model = dd.Sequential(
        [dd.Input((LENGTH,)), layers.Dense(16, activation="relu"), layers.Dense(5)], name="small", seed=3
    )
    model.export(folder / "model.dala")
    rows = np.random.default_rng(0).normal(size=(ROWS, LENGTH)).astype(np.float32)
    rows.astype("<f4").tofile(folder / "rows.f32")
    scores = np.asarray(dd.load(folder / "model.dala")(rows))
    classes = [int(c) for c in scores.argmax(1)]
    assert len(set(classes)) > 1
    return [str(folder / "model.dala"), str(folder / "rows.f32"), str(ROWS), str(LENGTH)], classes


def printed(command: list[str]) -> list[int]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.slow
def test_the_c_example_gives_the_classes_of_python(exported: tuple[list[str], list[int]], tmp_path: Path) -> None:
    cc = shutil.which(os.environ.get("CC", "cc"))
    if cc is None:
        pytest.skip("no C compiler")
    program = tmp_path / "predict"
    folder = str(LIBRARY.parent)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", str(HEADER.parent)]
    library = ["-L", folder, f"-Wl,-rpath,{folder}", "-ldala"]
    build = [cc, *strict, str(ROOT / "examples" / "predict.c"), *library, "-o", str(program)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    args, classes = exported
    assert printed([str(program), *args]) == classes


@pytest.mark.slow
def test_the_rust_example_gives_the_classes_of_python(exported: tuple[list[str], list[int]]) -> None:
    cargo = shutil.which(os.environ.get("CARGO", "cargo"))
    if cargo is None:
        pytest.skip("no cargo")
    args, classes = exported
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "dala-runtime", "--example", "predict", "--"]
    assert printed([*command, *args]) == classes
