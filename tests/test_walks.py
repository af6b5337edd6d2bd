"""The walks of docs/architecture.md (to add an op, a pass, a layer), each taken in a temporary copy of the tree.

The page names the files, these tests have their contents. A walk must change exactly the files that its section
names; what is added must then work, and must not when any one of these changes is taken back.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dala_defn import dtypes
from dala_defn.ops import OPS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "target", "dist", "build")
FORGETFUL = ("-p", "no:cacheprovider")
NOT_INHERITED = re.compile(r"GIT_|PYTEST_|DALA_")

Edit = Callable[[str], str]


def listed(what: str, page: str | None = None) -> list[str]:
    """The files that the steps of ``To add <what>`` start with, as the page writes them."""
    page = (ROOT / "docs" / "architecture.md").read_text() if page is None else page
    section = page.split(f"\n## To add {what}\n", 1)[1].split("\n## ", 1)[0]
    steps = re.findall(r"^\d+\. (.*)$", section, re.MULTILINE)
    files = re.findall(r"^\d+\. `([^` ]+/[^` ]+\.\w+)`:", section, re.MULTILINE)
    assert files and len(files) == len(steps), f"a step of 'To add {what}' does not start with its file: {steps}"
    return files


def pattern(file: str) -> re.Pattern[str]:
    """``<name>`` and ``*`` stand for a part of a path."""
    return re.compile(re.sub(r"<\w+>|\\\*", "[^/]+", re.escape(file)))


class Tree:
    """A copy of the tree under version control."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, ignore=LEFT_OUT)
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=walk", "-c", "user.email=walk@localhost", "commit", "-q", "-m", "before")

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not NOT_INHERITED.match(k)}
        env |= {
            "PYTHONPATH": str(self.root),
            "DALA_EXECUTOR": "reference",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **environment,
        }
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)

    def git(self, *words: str) -> str:
        done = self.run("git", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, *words: str) -> str | None:
        """What goes wrong, if anything does."""
        done = self.run(sys.executable, *words)
        return f"python {' '.join(words)}\n{done.stdout}{done.stderr}" if done.returncode else None

    def pytest(self, *words: str) -> str | None:
        """What goes wrong; a selection without tests is wrong too."""
        return self.python("-m", "pytest", "-q", *FORGETFUL, *words)

    def rustgen(self, *words: str) -> str | None:
        return self.python("-m", "dala_defn.ops.rustgen", *words)

    def lint(self) -> str | None:
        """What the linter says of the Python files that changed, where there is one."""
        files = [file for file in self.changed() if file.endswith(".py")]
        if not files or importlib.util.find_spec("ruff") is None:
            return None
        check, layout = ("-m", "ruff", "check", "-q"), ("-m", "ruff", "format", "-q", "--check")
        return self.python(*check, *files) or self.python(*layout, *files)

    def text(self, file: str) -> str:
        path = self.root / file
        return path.read_text() if path.exists() else ""

    def edit(self, file: str, change: Edit) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(change(self.text(file)))

    def changed(self) -> list[str]:
        self.git("add", "-A")
        return self.git("diff", "--cached", "--name-only", "HEAD").split()

    def without(self, file: str, check: Callable[[Tree], str | None]) -> str | None:
        """What ``check`` says while a file is as it was."""
        after = self.text(file)
        if self.run("git", "cat-file", "-e", f"HEAD:{file}").returncode:
            (self.root / file).unlink()
        else:
            (self.root / file).write_text(self.git("show", f"HEAD:{file}"))
        try:
            return check(self)
        finally:
            (self.root / file).write_text(after)


Check = Callable[[Tree], str | None]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    return Tree(tmp_path / "tree")


def finish(tree: Tree, what: str, check: Check, more: Check = Tree.lint) -> None:
    """Checks a walk that has been taken: all files of the page, no others, and none of them for nothing.

    ``check`` must fail when any change is taken back; ``more`` is what must hold besides.
    """
    for step in (check, Tree.lint, more):
        assert (wrong := step(tree)) is None, wrong
    changed, files = tree.changed(), listed(what)
    unlisted = [c for c in changed if not any(pattern(f).fullmatch(c) for f in files)]
    unchanged = [f for f in files if not any(pattern(f).fullmatch(c) for c in changed)]
    assert not unlisted, f"'To add {what}' does not name {unlisted}"
    assert not unchanged, f"'To add {what}' names {unchanged}, which did not change"
    for file in changed:
        assert tree.without(file, check) is not None, f"nothing fails without the change in {file}"


def before(marker: str, addition: str) -> Edit:
    """Puts text in front of the only place where ``marker`` is."""

    def change(text: str) -> str:
        assert text.count(marker) == 1, f"{marker!r} is there {text.count(marker)} times"
        return text.replace(marker, addition + marker)

    return change


def exported(package: str, module: str, name: str) -> Edit:
    """An import and an entry of ``__all__`` in the order that the linter wants."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        classes = [n for n, line in enumerate(lines) if re.match(r'    "[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*",', line)]
        at = next((n for n in classes if lines[n] > f'    "{name}",'), classes[-1] + 1)
        lines.insert(at, f'    "{name}",\n')
        imports = [n for n, line in enumerate(lines) if line.startswith(f"from {package}.")]
        at = next((n for n in imports if lines[n] > f"from {package}.{module} "), imports[-1] + 1)
        lines.insert(at, f"from {package}.{module} import {name}\n")
        return "".join(lines)

    return change


# An op.

CUBE = """
cube = unary(
    "cube", {code}, lambda x: x * x * x, dtypes=FLOATS, vjp=lambda ct, x, y: (strong(ct, 3 * x * x),),
    sample=reals(-4, 4), doc="The third power, elementwise.",
)  # fmt: skip
"""
OP_EDITS: Mapping[str, Edit] = {
    "runtime/src/host/unary.rs": before(
        "        U::Isfinite =>",
        "        U::Cube => {\n"
        "            through(with_real!(name, here, T => Kernel::cheap(row1(|x: T| x.mul(x).mul(x)))))\n"
        "        }\n",
    ),
    "runtime/src/exec/elementwise.rs": before("        Unary::Isfinite |", "        Unary::Cube => return None,\n"),
    "dala_defn/codegen/emit.py": before(
        '    "sqrt": _sqrt,',
        '    "cube": lambda b, args, dtype, attrs: rounded(\n'
        '        b, b.op("fmul", _elem(dtype), args[0], b.op("fmul", _elem(dtype), args[0], args[0])), dtype\n'
        "    ),\n",
    ),
}
USE_CUBE = """
import dala_defn as dd
from dala_defn.ops import parse
assert dd.executor().name == "reference"
x = dd.array([2.0, -3.0])
f = dd.defn(lambda x: dd.sum(dd.ops.cube(x)))
assert dd.ops.cube(x).tolist() == [8.0, -27.0]
assert f(x).item() == -19.0
assert dd.grad(f)(x).tolist() == [12.0, 27.0]
graph = f.lower(x)
assert "cube" in str(graph) and parse(str(graph)) == graph
"""


WRITE_REFERENCE = """
import sys
sys.path.insert(0, "tests")
import make_docs
(make_docs.DOCS / "ops.md").write_text(make_docs.op_reference())
"""


def measured(text: str) -> str:
    """The table of errors with rows of the op. Nothing is measured: that takes the library with the op in it."""
    head, rest = text.split("\n## unary\n", 1)
    table, rest = rest.split("\n\n## ", 1)
    cells = " | ".join("0" if d in dtypes.FLOATS else "refuses" for d in dtypes.EVERY)
    rows = "".join(f"\n| cube | 2 | {e} | {cells} |" for e in ("NumPy reference", "Burn, eager", "Burn, compiled"))
    return f"{head}\n## unary\n{table}{rows}\n\n## {rest}"


def add_cube(tree: Tree) -> None:
    code = max(s.code for s in OPS.values()) + 1
    tree.edit("dala_defn/ops/unary.py", lambda text: text + CUBE.format(code=f"0x{code:02X}"))
    assert "is out of date" in (tree.rustgen("--check") or "")
    assert (wrong := tree.rustgen()) is None, wrong
    for file, change in OP_EDITS.items():
        tree.edit(file, change)
    assert (wrong := tree.python("-c", WRITE_REFERENCE)) is None, wrong
    tree.edit("docs/op-table.md", measured)
    tree.edit("docs/coverage.md", lambda text: text + "| cube | yes | rule | rule | rule" + " | yes" * 6 + " |\n")


def matches(tree: Tree) -> str | None:
    """Where an op is missing in Rust, as far as the text tells; the compiler would say the same."""
    enum = tree.text("runtime/src/op.rs").split("pub enum Unary {", 1)[1].split("\n}", 1)[0]
    ops = set(re.findall(r"^    (\w+),$", enum, re.MULTILINE))
    assert {"Neg", "Isnan"} <= ops
    for where, name in (("runtime/src/host/unary.rs", "U"), ("runtime/src/exec/elementwise.rs", "Unary")):
        found = set(re.findall(rf"\b{name}::([A-Z]\w*)", tree.text(where)))
        if found != ops:
            return f"{where}: {sorted(found ^ ops)}"
    return None


def table_tests(tree: Tree) -> dict[str, set[str]]:
    """The tests that run for every differentiable op of one operand, with the words in their names."""
    done = tree.run(sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "", *FORGETFUL, "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    words: dict[str, set[str]] = {}
    for function, case in re.findall(r"^(\S+?::\w+)\[(.*)\]$", done.stdout, re.MULTILINE):
        words.setdefault(function, set()).update(re.findall(r"\w+", case))
    peers = {s.name for s in OPS.values() if s.family == "unary" and callable(s.vjp) and not s.attrs}
    return {function: names for function, names in words.items() if peers <= names}


def test_an_op(tree: Tree) -> None:
    if shutil.which("rustfmt") is None:
        pytest.skip("needs rustfmt")
    assert (wrong := tree.rustgen("--check")) is None, wrong
    assert (wrong := matches(tree)) is None, wrong
    add_cube(tree)
    tables = table_tests(tree)
    assert tables
    assert [function for function, names in tables.items() if "cube" not in names] == []
    finish(
        tree,
        "an op",
        lambda t: (
            matches(t)
            or t.rustgen("--check")
            or t.python("-c", USE_CUBE)
            or t.pytest("tests/test_docs.py", "-k", "up_to_date or has_every_op")
            or t.pytest("tests/test_kernels.py", "-k", "has_a_row")
        ),
        lambda t: t.pytest("tests/test_rules.py", "tests/test_architecture.py", "-k", "cube or go_down"),
    )


@pytest.mark.long
def test_the_op_compiles(tree: Tree, tmp_path: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs cargo")
    add_cube(tree)

    command = (cargo, "check", "--release", "--locked", "-p", "dala-runtime")
    target = os.environ.get("CARGO_TARGET_DIR", str(tmp_path / "target"))  # seconds where dependencies are checked

    def check(t: Tree) -> str | None:
        done = t.run(*command, CARGO_TARGET_DIR=target)
        return done.stderr if done.returncode else None

    assert (wrong := check(tree)) is None, wrong
    for file in [f for f in OP_EDITS if f.startswith("runtime")]:
        assert "Cube" in (tree.without(file, check) or ""), file


# A pass.

PASS = '''"""Adding zero to an integer changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dala_defn.ir import Graph
from dala_defn.passes.base import Pass, register
from dala_defn.passes.rewrite import Patterns, Var, rewrite, rule

P = Patterns()
x = Var("x")

RULES = [rule("add-zero", P.add(x, 0), x, lambda m: m.x.dtype.is_integer)]


@register
@dataclass(frozen=True)
class DropZero(Pass):
    """Takes integer zeros out of sums."""

    name: ClassVar[str] = "drop-zero"

    def run(self, graph: Graph) -> Graph:
        """The graph without them."""
        return rewrite(graph, RULES)
'''
FILETEST = """; run: drop-zero, dce
graph @main(%x: i32[4], %y: f32[4]) {
  %i = constant {value=i32[]<0>}
  %f = constant {value=f32[]<0.0>}
  %a = add %x, %i
  %b = add %y, %f  ; check: add %y
  return %a, %b    ; check: return %x
}
"""
PASS_EDITS: Mapping[str, Edit] = {
    "dala_defn/passes/drop_zero.py": lambda text: PASS,
    "dala_defn/passes/__init__.py": exported("dala_defn.passes", "drop_zero", "DropZero"),
    "tests/filetests/drop-zero/integers.ir": lambda text: FILETEST,
}


def test_a_pass(tree: Tree) -> None:
    for file, change in PASS_EDITS.items():
        tree.edit(file, change)
    passes = "tests/test_passes.py"
    finish(
        tree,
        "a pass",
        lambda t: t.pytest("tests/test_filetests.py", "-k", "drop-zero"),
        lambda t: t.pytest(passes, "tests/test_architecture.py", "-k", "keep_what or leave_theirs_alone or go_down"),
    )


# A layer.

LAYER = '''"""Multiplication by a number that is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dala_defn import functions as F
from dala_defn.layers.base import Layer


@dataclass(eq=False, repr=False)
class Scale(Layer):
    """``x * scale``.

    Example:
        >>> dd.layers.Scale(2.0)(dd.ones((2,)))
        array([2., 2.], dtype=float32)
    """

    first: float = 1.0

    def build(self, key: Any, spec: Any) -> dict[str, Any]:
        """``scale``, of rank 0."""
        return {"scale": F.full((), self.first, spec.dtype)}

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> tuple[Any, Any]:
        """The product."""
        return x * params["scale"], state
'''
LAYER_TEST = """

def test_scale() -> None:
    import numpy as np

    import dala_defn as dd

    assert "Scale" in dd.layers.__all__
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    layer = dd.layers.Scale(1.5)
    assert np.array_equal(layer(x), x * np.float32(1.5))
    assert layer.count_params() == 1
    assert np.array_equal(dd.Sequential([dd.Input((3,)), layer])(x), x * np.float32(1.5))
    grad = dd.grad(lambda p: dd.sum(layer.call(p, {}, x)[0]))(layer.params)
    assert grad["scale"].item() == 15.0
"""
LAYER_EDITS: Mapping[str, Edit] = {
    "dala_defn/layers/scale.py": lambda text: LAYER,
    "dala_defn/layers/__init__.py": exported("dala_defn.layers", "scale", "Scale"),
    "tests/test_layers.py": lambda text: (text or '"""Layers."""\n') + LAYER_TEST,
}


def test_a_layer(tree: Tree) -> None:
    if not (ROOT / "dala_defn" / "layers").is_dir():
        pytest.skip("there are no layers yet")
    for file, change in LAYER_EDITS.items():
        tree.edit(file, change)
    finish(
        tree,
        "a layer",
        lambda t: t.pytest("tests/test_layers.py", "-k", "test_scale"),
        lambda t: t.pytest("tests/test_layers.py", "tests/test_architecture.py"),
    )


# The test itself.


def test_the_page_is_read() -> None:
    steps = "1. `a/<name>.py`: one `b/c.py`.\n   More `d/e.py`.\n2. `f/*.ir`: x\n"
    page = f"\n## To add a thing\n\nWords.\n\n{steps}\n`g/h.py`\n\n## To\n"
    assert listed("a thing", page) == ["a/<name>.py", "f/*.ir"]
    assert pattern("a/<name>.py").fullmatch("a/b_c.py") and not pattern("a/<name>.py").fullmatch("a/b/c.py")
    assert pattern("f/<name>/*.ir").fullmatch("f/a-b/c.ir") and not pattern("f/*.ir").fullmatch("f/xir")
    with pytest.raises(AssertionError, match="does not start with its file"):
        listed("a thing", "\n## To add a thing\n\n1. `a/b.py`: x\n2. Run it.\n")


def test_a_walk_can_fail(tree: Tree) -> None:
    def check(t: Tree) -> str | None:
        return None if "mark" in t.text("dala_defn/layers/scale.py") else "no mark"

    with pytest.raises(AssertionError, match="no mark"):
        finish(tree, "a layer", check)
    tree.edit("dala_defn/layers/scale.py", lambda text: '"""mark"""\n')
    with pytest.raises(
        AssertionError, match=r"names \['dala_defn/layers/__init__.py', 'tests/test_layers.py'\], which"
    ):
        finish(tree, "a layer", check)
    for file in ("dala_defn/layers/__init__.py", "tests/test_layers.py"):
        tree.edit(file, lambda text: "# start\n" + (text or '"""Layers."""\n'))
    with pytest.raises(AssertionError, match=r"nothing fails without the change in dala_defn/layers/__init__\.py"):
        finish(tree, "a layer", check)
    tree.edit("dala_defn/nn.py", lambda text: "# start\n" + text)
    with pytest.raises(AssertionError, match=r"does not name \['dala_defn/nn.py'\]"):
        finish(tree, "a layer", check)
