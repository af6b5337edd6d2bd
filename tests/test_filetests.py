"""Runs every ``filetests/**/*.ir``.

The first line says what to run: ``; run: verify``, or names of passes, as in ``; run: simplify, dce``; the verifier
runs after each. Comments say what is expected:

- ``check: TEXT``: the printed result has this text, after that of the check before it;
- ``check-not: TEXT``: it is nowhere in the result;
- ``error: E101 words``: the error of this line, with this code and these words;
- ``expect:`` alone in a line: the commented lines after it are the whole result; ``--bless`` rewrites them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dala_defn import ops
from dala_defn.errors import DalaError
from dala_defn.ir import Graph, print_graph

HERE = Path(__file__).parent / "filetests"
FILES = sorted(HERE.rglob("*.ir"))
DIRECTIVE = re.compile(r";\s*(check-not|check|error):\s*(.*?)\s*$")
EXPECT = "; expect:\n"


@dataclass
class Script:
    """What a file asks for."""

    run: list[str]
    checks: list[str] = field(default_factory=list)
    check_nots: list[str] = field(default_factory=list)
    errors: list[tuple[int, str, str]] = field(default_factory=list)  # line, code, words
    expect: str | None = None


def read(text: str) -> Script:
    first, *rest = text.split("\n")
    assert first.startswith("; run: "), "the first line must be '; run: ...'"
    script = Script([name.strip() for name in first.removeprefix("; run: ").split(",")])
    if EXPECT in text:
        block = text[text.index(EXPECT) + len(EXPECT) :].rstrip("\n").split("\n")
        script.expect = "".join(line.removeprefix(";").removeprefix(" ") + "\n" for line in block if line)
    for number, line in enumerate(rest, 2):
        if line + "\n" == EXPECT:
            break
        found = DIRECTIVE.search(line)
        if found is None:
            assert not re.search(r";\s*(check|error|run|expect)\b", line), f"line {number} is no directive: {line}"
        elif found[1] == "error":
            code, _, words = found[2].partition(" ")
            script.errors.append((number, code, words))
        else:
            (script.checks if found[1] == "check" else script.check_nots).append(found[2])
    return script


def run(script: Script, text: str, file: str) -> Graph:
    graph = ops.parse(text, file)
    ops.verify(graph)
    for name in script.run:
        if name != "verify":
            from dala_defn.passes import PASSES

            before = print_graph(graph, locations=True)
            after = PASSES[name].run(graph)
            assert print_graph(graph, locations=True) == before, f"{name} changed the graph it was given"
            ops.verify(after)
            graph = after
    return graph


def compare(script: Script, printed: str) -> None:
    at = 0
    for text in script.checks:
        found = printed.find(text, at)
        assert found >= 0, f"{text!r} is not{' any more' if text in printed else ''} in\n{printed[at:]}"
        at = found + len(text)
    for text in script.check_nots:
        assert text not in printed, f"{text!r} is in\n{printed}"


def line_of(error: DalaError) -> int | None:
    return error.details.get("line") or (error.location and error.location.line)


def test_there_are_files() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).as_posix())
def test_file(path: Path, bless: bool) -> None:
    text = path.read_text()
    script = read(text)
    if script.errors:
        ((line, code, words),) = script.errors
        with pytest.raises(DalaError) as caught:
            run(script, text, str(path))
        error = caught.value
        assert error.code == code or f"{code}:" in error.reason, f"not {code}: {error}"
        assert words in error.reason
        assert line_of(error) == line, str(error)
        return
    graph = run(script, text, str(path))
    printed = print_graph(graph)
    assert ops.parse(printed) == graph
    compare(script, printed)
    if script.expect is not None and script.expect != printed and bless:
        head = text[: text.index(EXPECT) + len(EXPECT)]
        path.write_text(head + "".join(f"; {line}".rstrip() + "\n" for line in printed.rstrip("\n").split("\n")))
    elif script.expect is not None:
        assert printed == script.expect, "run with --bless, then read the diff"


def test_the_checks_can_fail() -> None:
    text = (
        "; run: verify\ngraph @main(%x: f32[2]) {\n  %y = neg %x  ; check: neg %x\n  return %y  ; check-not: exp\n}\n"
    )
    script = read(text)
    printed = print_graph(run(script, text, "here"))
    compare(script, printed)
    with pytest.raises(AssertionError, match="'abs' is not in"):
        compare(Script([], ["abs"]), printed)
    with pytest.raises(AssertionError, match="'neg' is not any more in"):
        compare(Script([], ["return", "neg"]), printed)
    with pytest.raises(AssertionError, match="'neg' is in"):
        compare(Script([], [], ["neg"]), printed)
    with pytest.raises(AssertionError, match="line 2 is no directive"):
        read("; run: verify\n; check neg")
