"""Examples in docstrings and in the op table are run; the pages made from the op table are up to date."""

from __future__ import annotations

import contextlib
import doctest
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage_page
import make_docs
import numpy as np
import promotion_page
import pytest

import dala_defn as dd
from dala_defn import dtypes
from dala_defn import functions as F
from dala_defn.functions.updates import At
from dala_defn.ops import OPS
from dala_defn.ops.spec import OpSpec


def public_functions() -> dict[str, Any]:
    """Every public function by its name, and the methods that have examples of their own."""
    found = {f"dd.{n}": getattr(dd, n) for n in F.__all__}
    found |= {f"dd.{n}": getattr(dd, n) for n in ("grad", "value_and_grad", "jvp", "vmap", "defn", "spec", "using")}
    found |= {f"dd.{n}": getattr(dd, n) for n in ("load", "composite")}
    for name in ("random", "nn", "special", "linalg", "fft", "signal", "signing", "testing"):
        module = getattr(dd, name)
        for n, f in vars(module).items():
            if callable(f) and not n.startswith("_") and getattr(f, "__module__", "").startswith(module.__name__):
                found[f"dd.{name}.{n}"] = f
    found |= {f"x.at[i].{n}": f for n, f in vars(At).items() if not n.startswith("_")}
    return found | {"f.export": type(dd.defn(len)).export}


EXAMPLES = public_functions()


@contextlib.contextmanager
def inside(path: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def same_numbers(a: Any, b: Any) -> bool:
    """Results of both executors, where the docstring does not say what comes out."""
    if isinstance(a, dd.Array):
        x, y = (np.asarray(v).astype(np.complex128 if a.dtype.kind == "c" else np.float64) for v in (a, b))
        return a.dtype is b.dtype and x.shape == y.shape and np.allclose(x, y, 1e-6, 1e-6, equal_nan=True)
    return a is None or a == b or repr(a) == repr(b)


def run_examples(name: str, doc: str) -> int:
    """Runs the examples of a docstring and compares what they print; gives their number."""
    f = dd.defn(lambda x: x * 2)
    f.export("model.dala", dd.spec((8,)))
    scope = {"dd": dd, "np": np, "f": f, "x": dd.ones(8), "key": b"k" * 32}
    test = doctest.DocTestParser().get_doctest(doc, scope, name, name, 0)
    for example in test.examples:
        if example.want:
            out: list[str] = []
            one = doctest.DocTest([example], scope, name, name, 0, doc)
            runner = doctest.DocTestRunner(verbose=False)
            failed, _ = runner.run(one, out=out.append, clear_globs=False)
            scope = one.globs
            assert not failed, "".join(out)
            continue
        try:
            code = compile(example.source.strip(), name, "eval")
        except SyntaxError:
            exec(example.source, scope)
            continue
        first = eval(code, scope)
        with dd.using("reference"):
            assert same_numbers(first, eval(code, scope)), example.source
    return len(test.examples)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_examples_of_public_functions(name: str, tmp_path: Path) -> None:
    doc = EXAMPLES[name].__doc__
    assert doc, f"{name} has no docstring"
    with inside(tmp_path):
        assert run_examples(name, doc), f"{name} has no example"


def test_the_example_of_the_package(tmp_path: Path) -> None:
    with inside(tmp_path):
        assert run_examples("dala_defn", dd.__doc__ or "")


@pytest.mark.parametrize("spec", OPS.values(), ids=lambda s: s.name)
def test_the_examples_of_the_op_table(spec: OpSpec) -> None:
    first = make_docs.run_example(spec)
    with dd.using("reference"):
        second = make_docs.run_example(spec)
    assert same_numbers(first, second), f"{first}\n{second}"


def test_the_op_reference_is_up_to_date() -> None:
    assert (make_docs.DOCS / "ops.md").read_text() == make_docs.op_reference(), "run python tests/make_docs.py"


@pytest.mark.parametrize("spec", OPS.values(), ids=lambda s: s.name)
def test_no_cell_of_the_coverage_is_empty(spec: OpSpec) -> None:
    cells = coverage_page.row(spec)
    assert tuple(cells) == coverage_page.COLUMNS and all(cells.values())
    line = f"| {spec.name} | {' | '.join(cells.values())} |"
    assert line in (make_docs.DOCS / "coverage.md").read_text().splitlines(), "run python tests/make_docs.py"


def test_the_coverage_has_every_op() -> None:
    lines = (make_docs.DOCS / "coverage.md").read_text().splitlines()
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    ops = [s.name for s in sorted(OPS.values(), key=lambda s: s.code)]
    assert names == ["op", "---", *ops], "run python tests/make_docs.py"


def test_promotion_differs_from_numpy_for_the_reasons_given_alone() -> None:
    cells = [promotion_page.pair(a, b) for a in dtypes.ELEMENTS for b in dtypes.ELEMENTS]
    cells += [promotion_page.with_number(a, x) for a in dtypes.ELEMENTS for x in promotion_page.WEAK.values()]
    assert all(cell.reason for cell in cells if cell.differs), [c for c in cells if c.differs and not c.reason]
    assert (make_docs.DOCS / "promotion.md").read_text() == promotion_page.page(), "run python tests/make_docs.py"


def test_the_op_table_has_every_op_and_dtype_within_its_bound() -> None:
    rows = make_docs.rows((make_docs.DOCS / "op-table.md").read_text())
    ops = [s for fs in make_docs.families().values() for s in fs if s.accepts]
    assert list(rows) == [(s.name, n) for s in ops for n in make_docs.NAMES.values()], "run python tests/make_docs.py"
    for spec in ops:
        for name in make_docs.NAMES.values():
            row = rows[spec.name, name]
            assert row["ulp"] == make_docs.stated(spec), f"{spec.name}: run python tests/make_docs.py"
            for dtype in dtypes.EVERY:
                cell = row[dtype.short]
                if dtype in spec.accepts:
                    assert float(cell) <= spec.bound(dtype), f"{spec.name} {dtype} {name}: {cell}"
                else:
                    assert cell == make_docs.REFUSES, f"{spec.name} {dtype} {name}: {cell}"
