"""Sizes that are not known while tracing: one trace for all of them, and nothing guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from symbolic_programs import PROGRAMS, Program, annotated, arrays

import dala_defn as dd

SIZES = (0, 1, 2, 7)
ENGINES = ("flex", "reference")


def leaves(y: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in dd.trees.flatten(y)[0]]


def agree(got: Any, wanted: Any) -> None:
    got, wanted = leaves(got), leaves(wanted)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def engines(p: Program) -> tuple[str, ...]:
    return ("reference",) if p.loops else ENGINES


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_one_trace_serves_all_sizes(program: Program, tmp_path: Any) -> None:
    path = tmp_path / "f.dala"
    annotated(program).export(path)
    for engine in engines(program):
        f = annotated(program, executor=engine)
        loaded = dd.load(path, executor=engine)
        for n in SIZES:
            args = arrays(program, n)
            if not program.fits(n):
                with pytest.raises(dd.DalaError) as caught:
                    f(*args)
                assert f"b is {n}" in str(caught.value) or f"size {n}" in str(caught.value)
                with pytest.raises(dd.DalaError):
                    loaded(*args)
                continue
            with dd.using(engine):
                wanted = program.f(*[dd.array(x) for x in args])
            agree(f(*args), wanted)
            agree(f(*args), wanted)  # by the prepared call
            found = loaded(*args)
            agree(list(found.values()) if isinstance(found, dict) else found, leaves(wanted))
        assert f.traces == 1


def test_there_are_sixty_programs() -> None:
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS) >= 60
