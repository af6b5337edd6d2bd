"""``python -m dala_defn``: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import programs
import pytest

import dala_defn as dd

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, make in programs.FILES.items():
        (folder / f"{name}.dala").write_bytes(make())
    np.save(folder / "x.npy", np.ones((2, 4), np.float32))
    return folder


def dala(folder, *words, **environment):
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": paths, **environment}
    command = [sys.executable, "-m", "dala_defn", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


def fails(done, status, *words):
    assert done.returncode == status, done
    assert done.stdout == ""
    assert done.stderr.startswith("dala: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_info_lists_everything(files):
    done = dala(files, "info", "train.dala")
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "format 1",
        "entry step",
        "takes  w: float32[3, 2]  state:w",
        "takes  x: float32[b, 3]  donated",
        "gives  1: float32[3, 2]  state:w",
        "size b: 1 to any",
        "2 tensors, 28 bytes",
        "w: float32[3, 2]  24 bytes  also tied",
    ):
        assert line in done.stdout


def test_info_as_json(files):
    facts = json.loads(dala(files, "info", "mlp.dala", "--json").stdout)
    assert facts["format_version"] == 1
    assert facts["bytes"] == (files / "mlp.dala").stat().st_size
    assert facts["dims"] == {"b": {"min": 1, "max": 64}}
    (entry,) = facts["entries"]
    assert entry["args"][0] == {"name": "x", "role": "arg", "donate": False, "dtype": "float32", "shape": ["b", 4]}
    assert entry["results"][0]["shape"] == ["b", 3]
    assert [(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in facts["tensors"]] == [
        ("b1", "float32", [8], 32),
        ("w1", "float32", [4, 8], 128),
        ("w2", "float32", [8, 3], 96),
    ]


def test_show_prints_graphs_that_read_back(files):
    done = dala(files, "show", "train.dala")
    assert done.returncode == 0
    texts = done.stdout.split("; entry ")[1:]
    assert [t.split("\n")[0] for t in texts] == ["step", "predict"]
    predict = dala(files, "show", "train.dala", "predict").stdout
    assert predict == "; entry " + texts[1]
    loaded = dd.load(files / "train.dala").entries["predict"].entry.graph
    assert dd.ops.parse(predict) == loaded


def test_show_with_locations(files):
    assert "programs.py" not in dala(files, "show", "mlp.dala").stdout
    assert 'loc("programs.py":' in dala(files, "show", "mlp.dala", "--locations").stdout


def test_run_prints_what_the_program_gives(files):
    done = dala(files, "run", "mlp.dala", "x=x.npy")
    want = dd.load(files / "mlp.dala")(np.ones((2, 4), np.float32))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"0: float32[2, 3]\n{np.asarray(want)}\n"


@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_run_writes_an_archive(files, tmp_path, executor):
    out = tmp_path / "out.npz"
    words = ["train.dala", "step", "-o", str(out), "x=@[[1, 2, 3]]", "y=@[[0.5, 1]]", "--executor", executor]
    done = dala(files, "run", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    x, y = np.array([[1, 2, 3]], np.float32), np.array([[0.5, 1]], np.float32)
    with np.load(out, allow_pickle=False) as found:
        assert found.files == ["0"]
        np.testing.assert_allclose(found["0"], np.asarray(dd.load(files / "train.dala")["step"](x, y)), rtol=1e-6)


def test_run_makes_keys_of_integers(files):
    done = dala(files, "run", "keys.dala", "draw", "key=@7", "scale=@1")
    want = dd.load(files / "keys.dala")(dd.random.key(7), 1.0)
    assert done.stdout.startswith(f"0: float32[4]\n{np.asarray(want['0'])}\n1: uint32[3]\n")


def test_verify_checks_every_tensor(files, tmp_path):
    done = dala(files, "verify", "train.dala")
    assert (done.returncode, done.stdout) == (0, "train.dala: ok; 2 tensors and 2 entries checked; not signed\n")
    data = bytearray((files / "train.dala").read_bytes())
    data[-1] ^= 1
    (tmp_path / "bad.dala").write_bytes(data)
    fails(dala(tmp_path, "verify", "bad.dala"), 1, "tensor 'w' is damaged")


WRONG = [
    (2, "", "COMMAND"),
    (2, "frob", "frob"),
    (2, "info", "FILE"),
    (2, "info mlp.dala --yaml", "--yaml"),
    (2, "info mlp.dala more", "more"),
    (2, "show mlp.dala train", "no entry 'train'"),
    (2, "run train.dala", "predict needs x: f32[b, 3]"),
    (2, "run mlp.dala train", "no entry 'train'"),
    (2, "run mlp.dala", "x: f32[b, 4]"),
    (2, "run mlp.dala z=@1", "no argument 'z'"),
    (2, "run mlp.dala x=@1 x=@2", "twice"),
    (2, "run mlp.dala predict x", "no NAME=VALUE"),
    (2, "run mlp.dala x=@__import__('os')", "no number"),
    (2, "run mlp.dala x=@[[1,", "no number"),
    (2, "run mlp.dala x=@1 --executor gpu", "gpu"),
    (2, "run keys.dala key=@1 scale=@nan", "no number"),
    (1, "info none.dala", "none.dala cannot be read: No such file or directory"),
    (1, "show x.npy", "the header claims"),
    (1, "verify .", "Is a directory"),
    (1, "run mlp.dala x=@[[1,2]]", "f32[1, 2], not f32[b, 4]"),
    (1, "run mlp.dala x=@[[1,2],[3]]", "ragged"),
    (1, "run mlp.dala x=@'text'", "str is no array"),
    (1, "run mlp.dala x=none.npy", "none.npy cannot be read"),
    (1, "run mlp.dala x=mlp.dala", "no .npy file"),
    (1, "run mlp.dala x=x.npy -o none/out.npz", "cannot be written"),
    (1, "run indices.dala table=@[[1]] at=@[300000000000]", "does not fit int32"),
    (1, "run keys.dala key=@1.5 scale=@1", "a seed is an integer"),
]

# One process for all: starting Python takes longer than what is tested.
DRIVER = """
import contextlib, io, json, sys
from dala_defn.__main__ import main
rows = []
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(line.split())
    rows.append([status, out.getvalue(), err.getvalue()])
json.dump(rows, sys.stdout)
"""


def test_a_wrong_command_line_is_status_2_and_a_failure_1(files):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps([line for _, line, _ in WRONG]), cwd=files,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    for (status, line, said), row in zip(WRONG, json.loads(done.stdout), strict=True):
        fails(subprocess.CompletedProcess(line, *row), status, said)


def test_the_status_is_the_process_status(files):
    fails(dala(files, "frob"), 2, "frob")
    fails(dala(files, "info", "none.dala"), 1, "none.dala")


def test_the_full_traceback_is_there_when_asked_for(files):
    done = dala(files, "info", "none.dala", DALA_TRACEBACK="full")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_names_in_a_file_do_not_reach_the_terminal_raw(tmp_path):
    from dala_defn.ir.codec import encode
    from dala_defn.ir.program import Program

    def f(x):
        return x + 1

    entry = programs.entry("\x1b[2Jevil\r", f, [dd.spec((2,))])
    (tmp_path / "evil.dala").write_bytes(encode(Program((entry,))))
    done = dala(tmp_path, "info", "evil.dala")
    assert "\x1b" not in done.stdout and "\r" not in done.stdout
    assert "entry \\x1b[2Jevil\\r" in done.stdout


def test_a_reader_that_leaves_is_no_error(files):
    code = "import sys; from dala_defn.__main__ import main; sys.exit(main(['info', 'mlp.dala', '--json']))"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -c "$CODE" | true'], cwd=files, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths, "CODE": code}, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
