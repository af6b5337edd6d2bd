"""Files from outside: whatever is in them, there is a clear error or the right answer; no crash, hang or huge memory.

Mutants run in processes of their own (``hostile_worker.py``), by way of Python and straight in the runtime.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants
import numpy as np
import programs
import pytest
from taken_apart import File

import dala_defn as dd
from dala_defn import bridge

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2
pytestmark = pytest.mark.slow


def _part(part):
    """Every outcome of one worker's share; a mutant that kills the process is an outcome too."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    rows, first = [], 0
    while True:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "hostile_worker.py"), str(part), str(WORKERS), str(first)],
            env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        rows += [line for line in lines if "done" in line]
        if done.returncode == 0:
            return rows
        assert lines and "start" in lines[-1], done.stderr
        died = f"the process died with status {done.returncode}: {done.stderr[-500:]}"
        rows.append({"done": lines[-1]["start"], "kinds": {}, "texts": {}, "problems": [died], "rss": 0})
        first = lines[-1]["at"] + 1


@pytest.fixture(scope="module")
def outcomes():
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = [row for part in pool.map(_part, range(WORKERS)) for row in part]
    return {row["done"]: row for row in rows}


def test_there_are_enough_mutants_half_of_them_with_right_digests():
    found = mutants.all_mutants()
    assert len({data for _, data in found}) >= 1000
    sealed = [name for name, _ in found if "/cut-" not in name and "/flip-" not in name]
    assert len(sealed) >= len(found) / 2


def test_every_mutant_gives_a_clear_error_or_the_right_answer(outcomes):
    assert len(outcomes) == len(dict(mutants.all_mutants()))
    assert {name: row["problems"] for name, row in outcomes.items() if row["problems"]} == {}


def test_some_mutants_run(outcomes):
    # Otherwise all would be refused for one reason, and nothing would be tested.
    ran = [name for name, row in outcomes.items() if set(row["kinds"].values()) == {"ok"}]
    assert len(ran) >= 100


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # A type whose dtype is a list was a TypeError of a dict.
        ("row-dtype-list", "tensor 'w': unknown dtype"),
        # Two readers could have run different programs: the runtime took the last of two equal keys.
        ("text-two-versions", "twice"),
        ("text-two-ops", "twice"),
        ("text-two-dims", "twice"),
        # Python wrote calls out without a limit.
        ("bomb-2x62", "once its calls are written out"),
        ("bomb-1x5000", "once its calls are written out"),
        # The reference allocated whatever it was asked for.
        ("iota-1099511627776", "would hold"),
        ("broadcast-8589934592", "would hold"),
        ("dim-b-5", "is -3"),
        ("dims-only-derived", "b"),
        ("row-promises-more", "1200000 bytes are needed"),
        ("length-1152921504606846976", "header"),
    ],
)
def test_what_was_found(outcomes, name, said):
    row = outcomes[name]
    assert row["problems"] == []
    assert set(row["kinds"].values()) == {"refused"}
    assert said in row["texts"]["reference"]


def _saved(tmp_path, data):
    path = tmp_path / "file.dala"
    path.write_bytes(data)
    return path


def test_state_under_a_second_name_is_one_state(tmp_path):
    # The reference kept a copy for each name, and went on with the old numbers under the other one.
    path = _saved(tmp_path, programs.train())
    x, y = np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)
    found = []
    for executor in ("reference", "flex"):
        artifact = dd.load(path, executor)
        before = np.array(np.asarray(artifact["predict"](x)))
        artifact["step"](x, y)
        after = np.array(np.asarray(artifact["predict"](x)))
        assert not np.allclose(before, after)
        found.append(after)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_errors_of_the_runtime_have_their_own_class():
    engine = bridge.Engine()
    good = programs.mlp()
    with pytest.raises(dd.FileFormatError, match="shorter than 8 bytes"):
        engine.load(b"abc")
    wrong = File(good)
    wrong.program["functions"][-1]["nodes"][0]["in"] = [99, 99]
    with pytest.raises(dd.VerifyError, match="not numbered before"):
        engine.load(wrong.bytes())
    with pytest.raises(dd.FileError, match="No such file"):
        engine.open("/none/file.dala")
    loaded = engine.load(good)
    with pytest.raises(dd.ShapeError, match="4"):
        loaded.run(0, [np.zeros((2, 5), np.float32)], loaded_types(loaded))
    with pytest.raises(dd.DTypeError, match="f64"):
        loaded.run(0, [np.zeros((2, 4))], loaded_types(loaded))
    with pytest.raises(dd.ShapeError, match=re.escape("outside 1..64")):
        loaded.run(0, [np.zeros((65, 4), np.float32)], loaded_types(loaded))


def loaded_types(loaded):
    from dala_defn.ir import Type

    return [Type(dd.float32, (2, 3)) for _ in loaded.info()["entries"][0]["results"]]


def test_bounds_of_sizes_hold_on_both_executors(tmp_path):
    path = _saved(tmp_path, programs.mlp())
    for executor in ("reference", "flex"):
        artifact = dd.load(path, executor)
        for n in (1, 2, 64):
            assert artifact(np.zeros((n, 4), np.float32)).shape == (n, 3)
        for n in (0, 65):
            with pytest.raises(dd.ShapeError, match=f"b is {n}"):
                artifact(np.zeros((n, 4), np.float32))


def test_a_shared_weight_is_written_once(tmp_path):
    # export-02: a table for looking up and, turned, for the output; folding made a second copy of it elsewhere.
    table = dd.array(np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32))

    @dd.defn
    def f(i):
        return dd.take(table, i, axis=0, mode="clip") @ table.T

    path = tmp_path / "tied.dala"
    f.export(path, dd.spec(("b",), dd.int32))
    assert 256_000 < path.stat().st_size < 256_000 + 4096
    artifact = dd.load(path)
    assert sum(x.size for x in artifact.program.tensors.values()) == 64_000
    i = np.array([3, 999], np.int32)
    np.testing.assert_array_equal(np.asarray(artifact(i)), np.asarray(f(i)))
    (state,) = [a.role.removeprefix("state:") for a in artifact.default.entry.args if a.role.startswith("state:")]
    artifact.loaded.set_state(state, np.ones((1000, 64), np.float32))
    np.testing.assert_array_equal(np.asarray(artifact(i)), np.full((2, 1000), 64, np.float32))


def test_the_version_is_checked_and_softmax_has_the_axis_that_it_was_given(tmp_path):
    # export-01, as far as it touches our own format.
    x = np.array([[[0, 1], [2, 3]]], np.float32)
    f = dd.defn(lambda x: dd.nn.softmax(x, axis=1))
    path = tmp_path / "softmax.dala"
    f.export(path, dd.spec((1, 2, 2)))
    want = [[[0.11920292202211755] * 2, [0.8807970779778823] * 2]]
    np.testing.assert_allclose(np.asarray(dd.load(path)(x)), want, rtol=1e-6)
    for change in ({"version": 2}, {"version": 0}):
        file = File(path.read_bytes())
        file.program |= change
        path.with_suffix(".v").write_bytes(file.bytes())
        for load in (dd.load, bridge.Engine().open):
            with pytest.raises(dd.DalaError, match="version"):
                load(path.with_suffix(".v"))


def test_arrays_come_back_bitwise_with_their_dtypes(tmp_path):
    # saveload-01, as far as there is something that saves: dtypes side by side, one shape, no one else's values.
    rng = np.random.default_rng(0)
    held = {
        d.name: dd.array(rng.integers(0, 2, (3, 3)).astype(d.dtype))
        for d in (dd.float16, dd.bfloat16, dd.float32, dd.float64, dd.int8, dd.int64, dd.uint8, dd.bool_)
    }

    @dd.defn
    def f(x):
        return {name: dd.where(x, v, v) for name, v in held.items()}

    path = tmp_path / "dtypes.dala"
    f.export(path, dd.spec((3, 3), dd.bool_))
    out = dd.load(path)(np.ones((3, 3), bool))
    for name, v in held.items():
        assert out[name].dtype is v.dtype
        assert np.asarray(out[name]).tobytes() == np.asarray(v).tobytes()


def test_the_same_program_gives_the_same_bytes(tmp_path):
    for make in programs.FILES.values():
        assert hashlib.sha256(make()).digest() == hashlib.sha256(make()).digest()
