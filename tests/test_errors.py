"""Errors: what class they are, whose line they name, what they say, and what they leave out."""

from __future__ import annotations

import io
import json
import linecache
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import mistakes
import pytest

import dala_defn as dd

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "dala_defn")
IDS = [m.name for m in mistakes.MISTAKES]


@pytest.fixture
def made(tmp_path):
    """Writes a mistake to a file, runs it, and gives the error, its file and the line marked ``# here``."""

    def make(mistake):
        source = mistakes.HEAD + mistake.code + "\n"
        path = tmp_path / f"{mistake.name.replace('-', '_')}.py"
        path.write_text(source)
        linecache.checkcache(str(path))
        (line,) = [n for n, text in enumerate(source.split("\n"), 1) if text.endswith("# here")]
        with pytest.raises(dd.DalaError) as caught:
            exec(compile(source, str(path), "exec"), {"__name__": "mistake"})
        return caught.value, str(path), line, source

    return make


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=IDS)
def test_a_mistake_is_named_with_its_line_and_operands(made, mistake):
    error, path, line, source = made(mistake)
    assert type(error).__name__ == mistake.error
    assert isinstance(error, mistake.base)
    text = str(error)
    assert len(text.split("\n")) <= 14
    assert all(len(row) <= 240 for row in text.split("\n"))
    assert PACKAGE not in text
    # file:line:column, the line itself, and a caret that points into it
    assert error.location is not None
    assert (error.location.file, error.location.line) == (path, line)
    assert f"{path}:{line}:{error.location.column} in " in text
    written = source.split("\n")[line - 1].strip()
    rows = text.split("\n")
    at = next(n for n, row in enumerate(rows) if row.endswith(written))
    caret = rows[at + 1].index("^")
    assert rows[at].index(written) <= caret < len(rows[at])
    for said in mistake.says:
        assert said in text
    assert re.fullmatch(r"\[E\d\d\d\] .*", rows[0])


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=IDS)
def test_a_traceback_has_no_frame_of_ours(made, mistake):
    error, path, _, _ = made(mistake)
    shown = "".join(traceback.format_exception(error))
    assert PACKAGE not in shown
    assert path in shown
    assert "During handling" not in shown
    assert "direct cause" not in shown
    files = {f.filename for f in traceback.extract_tb(error.__traceback__)}
    assert files == {path, __file__}


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=IDS)
def test_an_error_is_data(made, mistake):
    error, path, line, _ = made(mistake)
    row = json.loads(error.log_line())
    assert "\n" not in error.log_line()
    assert row == json.loads(json.dumps(error.to_dict()))
    assert row["error"] == mistake.error
    assert (row["location"]["file"], row["location"]["line"]) == (path, line)
    assert re.fullmatch(r"E\d\d\d", row["code"])
    assert row["reason"] == error.reason
    assert "\n" not in error.reason


def test_there_are_eighty_mistakes():
    assert len(IDS) == len(set(IDS)) >= 80


def run(tmp_path, code, *words, **environment):
    (tmp_path / "program.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *words, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )  # fmt: skip


WRONG = mistakes.HEAD + "\n@dd.defn\ndef layer(x):\n    return x @ x\n\ndef main():\n    return layer(x)\n"


def test_a_program_that_ends_with_an_error_shows_the_users_frames_only(tmp_path):
    done = run(tmp_path, WRONG + "\nmain()\n")
    assert done.returncode == 1
    assert PACKAGE not in done.stderr
    rows = done.stderr.strip().split("\n")
    frames = [row for row in rows if row.startswith("  File ")]
    assert [row.rpartition(" in ")[2] for row in frames] == ["<module>", "main", "layer"]
    assert "ShapeError" in done.stderr


def test_format_exc_and_logging_show_the_users_frames_only(tmp_path):
    code = WRONG + (
        "\nimport logging, traceback\ntry:\n    main()\nexcept ValueError as error:\n"
        "    print(traceback.format_exc())\n    logging.exception('failed')\n    traceback.print_exc()\n"
        "    print(''.join(traceback.TracebackException.from_exception(error).format()))\n"
    )
    done = run(tmp_path, code)
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("ShapeError: [E101]") == 4
    assert PACKAGE not in done.stdout + done.stderr


def test_a_thread_and_a_chain_show_the_users_frames_only(tmp_path):
    code = WRONG + (
        "\nimport threading\nt = threading.Thread(target=main)\nt.start()\nt.join()\n"
        "try:\n    main()\nexcept ValueError as error:\n    raise RuntimeError('mine') from error\n"
    )
    done = run(tmp_path, code)
    assert done.stderr.count("ShapeError: [E101]") == 2
    assert "RuntimeError: mine" in done.stderr
    assert PACKAGE not in done.stderr


def test_full_tracebacks_are_there_when_asked_for(tmp_path):
    done = run(tmp_path, WRONG + "\nmain()\n", DALA_TRACEBACK="full")
    assert f'File "{PACKAGE}' in done.stderr


def test_pytest_shows_the_users_frames_only(tmp_path):
    (tmp_path / "test_wrong.py").write_text(WRONG + "\ndef test_main():\n    main()\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_wrong.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "1 failed" in done.stdout
    assert "ShapeError" in done.stdout
    assert PACKAGE not in done.stdout
    assert "dala_defn/" not in done.stdout


def test_the_users_own_errors_pass_unchanged():
    @dd.defn
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        f(1.0)
    assert type(caught.value) is KeyError
    assert caught.value.args == ("mine",)


def test_errors_can_be_raised_again_copied_and_pickled():
    import copy
    import pickle

    with pytest.raises(dd.ShapeError) as caught:
        dd.ones(3) + dd.ones(4)
    error = caught.value
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert other.to_dict() == error.to_dict()
        assert str(other) == str(error)


def test_an_error_without_source_still_says_where():
    code = compile("import dala_defn as dd\ndd.ones(3) + dd.ones(4)", "<typed>", "exec")
    with pytest.raises(dd.ShapeError) as caught:
        exec(code, {"__name__": "typed"})
    assert "<typed>:2:1" in str(caught.value)
    out = io.StringIO()
    traceback.print_exception(caught.value, file=out)
    assert PACKAGE not in out.getvalue()


def test_every_class_has_a_code_and_a_python_base():
    from dala_defn import errors

    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, dd.DalaError)]
    codes = [k.default_code for k in kinds]
    assert len(codes) == len(set(codes))
    for kind in kinds:
        if kind is not dd.DalaError:
            assert next(b for b in kind.__mro__ if b.__module__ == "builtins") is not Exception
            assert getattr(dd, kind.__name__) is kind
