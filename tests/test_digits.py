"""The example that trains on handwritten digits, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dala_defn as dd

ROOT = Path(__file__).resolve().parents[1]


def run(where: Path, *options: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), *options]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^epoch +1/\d+ 45 steps .*loss", done.stderr, re.MULTILINE)
    return done.stdout


@pytest.mark.slow
def test_digits_are_learned_shipped_and_the_same_again(tmp_path: Path) -> None:
    out = run(tmp_path, "--rows", "rows.f32")
    accuracy = re.search(r"^test accuracy: (\d+\.\d\d) %$", out, re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) >= 97.0
    losses = re.search(r"training loss: (\S+) in the first epoch, (\S+) in the last", out)
    assert losses is not None and float(losses[2]) < 0.2 * float(losses[1])
    assert "Total params: 38,282" in out and "confusion matrix" in out

    rows = np.fromfile(tmp_path / "rows.f32", "<f4").reshape(-1, 64)
    scores = np.asarray(dd.load(tmp_path / "digits.dala")(rows))
    assert scores.shape == (360, 10)
    lines = re.findall(r"^ {4}\d (.*)$", out, re.MULTILINE)
    table = np.array([[0 if c == "." else int(c) for c in line.split()] for line in lines])
    assert table.shape == (10, 10) and table.sum() == 360
    assert np.array_equal(np.bincount(np.argmax(scores, 1), minlength=10), table.sum(0))
    assert f"{100 * np.trace(table) / 360:.2f}" == accuracy[1]

    assert run(tmp_path, "--rows", "rows.f32") == out


def test_another_path_can_be_given(tmp_path: Path) -> None:
    out = run(tmp_path, "other.dala", "--epochs", "1")
    assert "other.dala: written and read back" in out
    assert [p.name for p in tmp_path.iterdir()] == ["other.dala"]
