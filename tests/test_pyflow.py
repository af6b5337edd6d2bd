"""Python's control flow over traced values: as plain Python on concrete data, and errors at the user's line."""

from __future__ import annotations

import flow_loops  # noqa: F401  registers its programs
import numpy as np
import pytest
from flow_programs import PROGRAMS
from flow_random import compiled

import dala_defn as dd

EXECUTORS = ["flex", "reference"]


def arrays(args, dtype=None):
    """Arguments as concrete arrays; None stays."""
    out = []
    for x in args:
        made = None if x is None else dd.array(np.asarray(x, np.float32) if isinstance(x, np.ndarray) else x)
        out.append(made.astype(dtype) if made is not None and dtype is not None and made.dtype == dd.float32 else made)
    return out


def leaves(x):
    return [np.asarray(leaf) for leaf in dd.trees.flatten(x)[0]]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_plain_python_gives(name, executor):
    p = PROGRAMS[name]
    made = dd.defn(p.f, executor=executor)
    for args in p.inputs:
        given = arrays(args)
        want = leaves(p.f(*given))
        got = leaves(made(*given))
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6, err_msg=f"{name}{args}")
    assert made.traces <= len({tuple(np.shape(x) for x in args) for args in p.inputs})


def scalar(f):
    def total(*args):
        out = 0.0
        for leaf in dd.trees.flatten(f(*args))[0]:
            out = out + dd.sum(leaf * 1.0)
        return out

    return total


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.smooth])
def test_a_gradient_is_that_of_plain_python(name):
    p = PROGRAMS[name]
    f = scalar(p.f)
    slope = dd.grad(f)
    for args in p.inputs:
        given = arrays(args, dd.float64)
        got = np.asarray(slope(*given))
        x = np.asarray(given[0])
        want = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            h = np.zeros_like(x)
            h[i] = 1e-6
            up, down = f(dd.array(x + h), *given[1:]), f(dd.array(x - h), *given[1:])
            want[i] = (np.asarray(up) - np.asarray(down)) / 2e-6
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"{name}{args}")


def same_as_plain(seed, path):
    text, f = compiled(seed, path)
    g = dd.defn(f)
    for x, n, xs in [(0.3, 0, [1.0, -2.0, 0.5]), (2.5, 1, [3.0, 1.0, -1.0]), (-1.7, 3, [-0.5, -0.25, 2.0])]:
        args = dd.array(x), dd.array(n), dd.array(xs)
        want = np.asarray(f(*args))
        np.testing.assert_allclose(np.asarray(g(*args)), want, rtol=1e-4, atol=1e-5, err_msg=f"{(x, n, xs)}\n{text}")


@pytest.mark.parametrize("seed", [*range(25), 124, 143, 223, 264, 318, 340])
def test_a_random_program_gives_what_plain_python_gives(seed, tmp_path):
    same_as_plain(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_many_random_programs_give_what_plain_python_gives(seed, tmp_path):
    same_as_plain(seed, tmp_path)


def test_gradients_of_random_programs(tmp_path):
    checked = 0
    for seed in range(20):
        text, f = compiled(seed, tmp_path, wide=True)
        slope = dd.grad(f)
        for x, n, xs in [(0.31, 1, [1.0, -2.0, 0.5]), (2.53, 2, [3.0, 1.0, -1.0])]:
            rest = dd.array(n), dd.array(np.array(xs))

            def quotient(h, f=f, x=x, rest=rest):
                up, down = f(dd.array(np.float64(x + h)), *rest), f(dd.array(np.float64(x - h)), *rest)
                return float(np.asarray(up) - np.asarray(down)) / (2 * h)

            want = quotient(1e-5)
            if abs(want - quotient(1e-6)) > 1e-4 * (1 + abs(want)):
                continue  # at a condition that changes sides
            got = float(np.asarray(slope(dd.array(np.float64(x)), *rest)))
            assert got == pytest.approx(want, rel=1e-4, abs=1e-4), text
            checked += 1
    assert checked > 30
