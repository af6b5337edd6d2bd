"""Sizes that are not known while tracing: one trace for all of them, and nothing guessed."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from symbolic_programs import PROGRAMS, Program, annotated, arrays

import dala_defn as dd
from dala_defn.array import Array

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
    return ENGINES


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
                assert (
                    f"b is {n}" in str(caught.value)
                    or f"c is {n + 1}" in str(caught.value)
                    or (f"size {n}" in str(caught.value))
                )
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


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def refused(f: Any, *args: Any) -> str:
    with pytest.raises(dd.DalaError) as caught:
        f(*args)
    return str(caught.value)


# What annotations check


FOUR = np.zeros(4, np.int32)


FOUR = np.zeros(4, np.int32)


@dd.defn
def weigh(x: dd.Float32["b 3"], w: dd.Float32["b"], k: dd.Int32["2*b"] = FOUR) -> Any:
    return x * w[:, None]


def test_an_argument_that_does_not_fit_is_named_with_both_shapes_and_the_size() -> None:
    text = refused(weigh, ones(2, 4), ones(2))
    assert "argument x has the shape (2, 4), not (b, 3): axis 1 is 3, not 4" in text
    text = refused(weigh, ones(2, 3), ones(5))
    assert "argument w has the shape (5,), not (b,)" in text
    assert "b = 2 by axis 0 of x" in text
    text = refused(weigh, ones(3, 3), ones(3))
    assert "argument k has the shape (4,), not (2*b,): axis 0 is 2*b = 6, not 4" in text
    assert "1 axes, not 2" in refused(weigh, ones(2, 3), ones(2, 1))
    assert "argument x is f64[2, 3], annotated as f32[b, 3]" in refused(weigh, np.ones((2, 3)), ones(2))
    with pytest.raises(dd.DTypeError):
        weigh(np.ones((2, 3)), ones(2))


def test_annotations_as_text_annotated_and_of_any_dtype() -> None:
    @dd.defn
    def f(x: Annotated[Any, dd.Float32["n 2"]], y: Array["n"], *rest: dd.Float32["n"]) -> Any:
        return dd.sum(x, axis=1) + y + sum(rest)

    space: dict[str, Any] = {"dd": dd}
    exec('from __future__ import annotations\ndef f(x: dd.Float32["n 2"]): return x * 2', space)
    g = dd.defn(space["f"])
    for n in SIZES:
        agree(f(ones(n, 2), np.arange(n), ones(n)), np.arange(n, dtype=np.float32) + 3)
        agree(g(ones(n, 2)), ones(n, 2) * 2)
    assert (f.traces, g.traces) == (1, 1)
    f(ones(2, 2), ones(2), ones(2))  # another dtype is another trace
    assert f.traces == 2
    assert str(g.lower().inputs[0].type) == "f32[n, 2]"


def test_numbers_fit_scalars() -> None:
    @dd.defn
    def f(x: dd.Float32["n"], s: dd.Float32[""] = 2.0) -> Any:
        return x * s

    agree(f(ones(2), 3), ones(2) * 3)
    agree(f(ones(2)), ones(2) * 2)
    assert f.traces == 1


def test_a_function_is_called_in_a_trace_with_what_is_there() -> None:
    @dd.defn
    def outer(x: dd.Float32["m 3"]) -> Any:
        return weigh(x, x[:, 0], dd.zeros(2 * x.shape[0], dd.int32))

    for n in SIZES:
        agree(outer(ones(n, 3)), ones(n, 3))
    assert outer.traces == 1
    wrong = dd.defn(lambda x: weigh(x, dd.zeros(7), dd.zeros(14, dd.int32)))
    assert "argument w has the shape (7,)" in refused(wrong, ones(2, 3))


def test_what_an_annotation_cannot_say() -> None:
    with pytest.raises(dd.ShapeError, match="no size"):
        dd.Float32["b +"]
    with pytest.raises(dd.ShapeError, match="at least 5 and at most 3"):
        dd.Float32["5<=b<=3"]
    with pytest.raises(dd.ArgumentError, match="makes no array"):
        dd.Float32([1.0])
    space: dict[str, Any] = {"dd": dd}
    exec('from __future__ import annotations\ndef f(x: dd.Float32["n", nothing]): return x', space)
    with pytest.raises(dd.ArgumentError, match="the annotation of x cannot be read"):
        dd.defn(space["f"])(1.0)
    f = dd.defn(lambda x: x)
    f.arguments._read = {"x": dd.Float32["2*b"]}
    assert "which is the size of no axis" in refused(f, ones(4))


# What is decided, what is required, what is refused


def traced(f: Any, shape: str = "b 4") -> Any:
    f.__annotations__ = {"x": dd.Float32[shape]}
    return dd.defn(f)


def test_comparisons_that_hold_for_all_sizes_are_decided() -> None:
    seen: list[bool] = []

    def f(x: Any) -> Any:
        n = x.shape[0]
        seen[:] = [
            n >= 0,
            n + 1 > n,
            n == n,
            n != n + 1,
            2 * n >= n,
            n < 0,
            n + 1 == 0,
            x.shape == (n, 4),
            n >= 2,
            n == 1,
        ]
        seen[:] = [bool(s) for s in seen]
        return x

    traced(f, "b>=2 4")(ones(3, 4))
    assert seen == [True] * 5 + [False, False, True, True, False]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x if x.shape[0] > 3 else -x,
        lambda x: x if x.shape[0] == 1 else -x,
        lambda x: x if x.shape[0] != 3 else -x,
        lambda x: x if x.shape == (2, 4) else -x,
        lambda x: x if 3 in x.shape else -x,
        lambda x: x if x.shape[0] else -x,
        lambda x: x * max(x.shape[0], 2),
        lambda x: x if x.size % 3 == 0 else -x,
    ],
)
def test_a_branch_on_a_size_is_refused_with_what_to_write(f: Any) -> None:
    text = refused(traced(f), ones(2, 4))
    assert "not known while tracing: b may be any size" in text
    assert "dd.require(" in text
    assert "symbolic.py" in text


def test_a_loop_over_a_size_is_refused() -> None:
    assert "the size b is not known" in refused(traced(lambda x: [x for _ in range(x.shape[0])]), ones(2, 4))
    assert "the length b is not known" in refused(traced(lambda x: list(x)), ones(2, 4))


def test_what_is_required_is_known_from_there_on_and_checked_at_each_call(tmp_path: Any) -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        dd.require(n > 3)
        dd.require(n % 2 == 0)
        return (x[3], x) if n > 2 and n % 2 == 0 and n != 1 else -x

    g = traced(f)
    agree(g(ones(4, 4)), [ones(4), ones(4, 4)])
    text = refused(g, ones(2, 4))
    assert "b is 2: f needs b > 3" in text
    assert "is needed at" in text and "test_symbolic.py" in text
    assert "b is 5: f needs" in refused(g, ones(5, 4))
    assert g.traces == 1
    g.export(tmp_path / "f.dala")
    loaded = dd.load(tmp_path / "f.dala", executor="reference")
    assert loaded.dims == {"b": (4, None)}
    loaded(ones(4, 4))
    assert "b is 2, outside 4.." in refused(loaded, ones(2, 4))
    assert "f needs b - 2*((b)//(2)) == 0" in refused(loaded, ones(5, 4)) or "f needs" in refused(loaded, ones(5, 4))


def test_what_cannot_hold_is_refused_while_tracing() -> None:
    assert "b < 0 does not hold" in refused(traced(lambda x: dd.require(x.shape[0] < 0)), ones(2, 4))
    assert "sizes" in refused(traced(lambda x: dd.require(x.sum() > 0)), ones(2, 4))
    assert "do not broadcast" in refused(traced(lambda x: x + dd.ones((x.shape[0] + 1, 4))), ones(2, 4))
    assert "do not broadcast" in refused(traced(lambda x: x + dd.concatenate([x, x], 0)), ones(2, 4))
    assert "cannot reshape" in refused(traced(lambda x: x.reshape(x.shape[0], 5)), ones(2, 4))
    with pytest.raises(dd.ShapeError, match="does not hold"):
        dd.require(1 > 2)


@pytest.mark.parametrize(
    ("f", "needs"),
    [
        (lambda x: x + dd.ones((3, 4)), "b == 3"),
        (lambda x: x.T @ dd.ones((3, 2)), "b == 3"),
        (lambda x: dd.concatenate([x, dd.ones((3, 2))], axis=1), "b == 3"),
        (lambda x: dd.where(dd.ones((3, 1)) > 0, x, 0), "b == 3"),
        (lambda x: dd.broadcast_to(x, (3, 4)), "b == 3"),
        (lambda x: dd.einsum("ab,ac->bc", x, dd.ones((3, 2))), "b == 3"),
        (lambda x: x.reshape(6, 2), "4*b == 12"),
        (lambda x: x[2], "b > 2"),
        (lambda x: x[-3:], "b - 3 >= 0"),
        (lambda x: dd.dynamic_slice(x, (0, 0), (3, 1)), "b >= 3"),
        (lambda x: dd.max(x[1:], axis=0), "b - 1 > 0"),
        (lambda x: x.reshape(-1, 12), "4*b % 12 == 0"),
    ],
)
def test_what_an_op_needs_of_a_size_is_checked_at_each_call(f: Any, needs: str, tmp_path: Any) -> None:
    g = traced(f)
    agree(g(ones(3, 4)), f(dd.array(ones(3, 4))))
    text = refused(g, ones(1, 4))
    assert "b is 1: lambda needs " in text
    assert f"needs {needs}\n" in text
    assert "is needed at" in text and "test_symbolic.py" in text
    assert g.traces == 1
    compiled = g.compile()
    agree(compiled(ones(3, 4)), f(dd.array(ones(3, 4))))
    assert "b is 1" in refused(compiled, ones(1, 4))
    g.export(tmp_path / "f.dala")
    for engine in ENGINES:
        loaded = dd.load(tmp_path / "f.dala", executor=engine)
        agree(loaded(ones(3, 4)), f(dd.array(ones(3, 4))))
        refused(loaded, ones(1, 4))


def test_sizes_of_two_names_may_be_required_equal() -> None:
    @dd.defn
    def f(x: dd.Float32["b 4"], y: dd.Float32["c 4"]) -> Any:
        return dd.grad(lambda x: dd.sum((x * y) ** 2))(x)

    agree(f(ones(2, 4), ones(2, 4)), ones(2, 4) * 2)
    assert "b is 1 and c is 2: f needs b == c" in refused(f, ones(1, 4), ones(2, 4))
    assert f.traces == 1


def test_a_size_is_a_number_in_arithmetic() -> None:
    for n in (1, 2, 7):
        agree(traced(lambda x: x / x.shape[0] + 2 * x.shape[0])(ones(n, 4)), ones(n, 4) / n + 2 * n)
    assert dd.defn(lambda x: dd.dim_value(x.shape[0]))(ones(3)).item() == 3


# Bounds


def test_bounds_are_read_checked_and_written(tmp_path: Any) -> None:
    assert str(dd.spec("1<=b<=64 784")) == "spec(f32[b, 784])"
    assert dd.spec("1<=b<=64 784").bounds == {"b": (1, 64)}
    assert dd.spec(("b>=2", 3)).bounds == {"b": (2, None)}
    g = traced(lambda x: x[1], "2<=b<=4 3")
    agree(g(ones(2, 3)), ones(3))
    assert "the size b is 1 (axis 0 of x), and must be at least 2" in refused(g, ones(1, 3))
    assert "the size b is 5 (axis 0 of x), and must be at most 4" in refused(g, ones(5, 3))
    g.export(tmp_path / "f.dala")
    for engine in ENGINES:
        loaded = dd.load(tmp_path / "f.dala", executor=engine)
        assert loaded.dims == {"b": (2, 4)}
        agree(loaded(ones(4, 3)), ones(3))
        for n in (1, 5):
            assert f"b is {n}" in refused(loaded, ones(n, 3))
    h = dd.defn(lambda x: x + 1)
    h.export(tmp_path / "h.dala", dd.spec("n<=9"))
    assert dd.load(tmp_path / "h.dala").dims == {"n": (0, 9)}


# What needs known sizes still, and says so


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (dd.grad(lambda x: dd.sum(dd.prod(x, axis=0))), "prod has no derivative: the reduced size b is not known"),
        (lambda x: dd.pad(x, 1, mode="wrap"), "unknown size b"),
        (lambda x: x[::-1], "dd.flip"),
        (lambda x: dd.split(x, [1, 2]), "unknown size b"),
        (lambda x: dd.conv(x[:, None], x[:, :, None, None][:, :, 0]), "kernel"),
        (lambda x: dd.unstack(x), "unknown size b"),
    ],
)
def test_what_needs_a_known_size_says_so(f: Any, says: str) -> None:
    def g(x: Any) -> Any:
        return f(x)

    assert says in refused(traced(g), ones(2, 4))
