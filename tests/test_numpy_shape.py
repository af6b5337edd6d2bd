"""Creation, joining, padding, products and functions of neighbours against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numeric import Array, check

import dala_defn as dd


def numbers(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.random(shape) < 0.5) if dtype is np.bool_ else rng.integers(-9, 9, shape).astype(dtype)


def same(got: Any, want: Any, close: bool = False) -> None:
    """One array or several; shapes and numbers as NumPy's, whatever the width of the dtype."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, close)
        return
    found, want = np.asarray(got), np.asarray(want)
    assert found.shape == want.shape and found.dtype.kind == want.dtype.kind
    assert np.allclose(found, want, 1e-5 if close else 0, 1e-5 if close else 0, equal_nan=True), f"{found}\n{want}"


MADE: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("linspace", (0, 1), {"num": 0}),
    ("linspace", (2.0, -3.0), {"num": 1}),
    ("linspace", (0, 5, 7), {"endpoint": False}),
    ("linspace", (-2.5, 2.5, 6), {"retstep": True}),
    ("linspace", (0, 5, 7), {"dtype": np.int32}),
    ("linspace", (-3, 3, 5), {"dtype": np.int32}),
    ("linspace", (np.array([0.0, 1.0]), np.array([5.0, -1.0]), 4), {}),
    ("linspace", (np.array([0.0, 1.0]), 5.0, 4), {"axis": -1, "endpoint": False}),
    ("logspace", (0, 3, 4), {}),
    ("logspace", (0, 3, 5), {"base": 2.0, "endpoint": False}),
    ("logspace", (np.array([0.0, 1.0]), np.array([2.0, 3.0]), 3), {}),
    ("geomspace", (1, 1000, 4), {}),
    ("geomspace", (-2.0, -32.0, 5), {"endpoint": False}),
    ("geomspace", (np.array([1.0, 2.0]), np.array([8.0, 54.0]), 4), {}),
    ("eye", (3,), {}),
    ("eye", (2, 4), {"k": 1}),
    ("eye", (4, 2), {"k": -2}),
    ("eye", (2, 2), {"k": 10**12}),
    ("identity", (3,), {}),
    ("tri", (3,), {}),
    ("tri", (2, 4), {"k": 1}),
    ("tri", (4, 2), {"k": -(10**12)}),
    ("vander", (np.array([1.0, 2, 3]),), {}),
    ("vander", (np.array([1, 2, 3]), 2), {"increasing": True}),
    ("vander", (np.array([1.0, 2]), 0), {}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3),), {"sparse": True}),
    ("diag", (np.arange(3.0),), {}),
    ("diag", (np.arange(3.0),), {"k": 2}),
    ("diag", (np.arange(3.0),), {"k": -1}),
    ("diag", (np.arange(12.0).reshape(3, 4),), {"k": 1}),
    ("diagflat", (np.arange(4.0).reshape(2, 2),), {"k": 1}),
    ("hanning", (7,), {}),
    ("hamming", (6,), {}),
    ("blackman", (5,), {}),
    ("bartlett", (6,), {}),
    ("kaiser", (5, 8.6), {}),
    ("hanning", (1,), {}),
    ("hamming", (0,), {}),
    ("tril_indices", (3,), {"k": 1}),
    ("triu_indices", (3,), {"m": 4}),
    ("diag_indices", (3,), {"ndim": 3}),
    ("meshgrid", (np.arange(3), np.arange(2.0)), {}),
    ("meshgrid", (np.arange(3), np.arange(2), np.arange(4)), {"indexing": "ij"}),
    ("meshgrid", (np.arange(3), np.arange(2), np.arange(4)), {"sparse": True}),
    ("meshgrid", (), {}),
    ("unravel_index", (np.array([5, 0, 11]), (3, 4)), {}),
    ("ravel_multi_index", ((np.array([5, 0, -1]), np.array([1, 2, 9])), (3, 4)), {"mode": "clip"}),
    ("ravel_multi_index", ((np.array([5, 0, -1]), np.array([1, 2, 9])), (3, 4)), {"mode": "wrap"}),
    ("ix_", (np.array([0, 2]), np.array([1, 3])), {}),
    ("empty", ((2, 0),), {}),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_creation(number: int) -> None:
    name, args, options = MADE[number]
    want = getattr(np, name)(*args, **options)
    same(getattr(dd, name)(*args, **options), want, close=True)
    same(dd.defn(lambda: tuple(_listed(getattr(dd, name)(*args, **options))))(), _listed(want), close=True)


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def test_creation_refuses() -> None:
    for f in (
        lambda: dd.linspace(0, 1, -1),
        lambda: dd.geomspace(-1, 1),
        lambda: dd.meshgrid(dd.ones(2), indexing="yx"),
        lambda: dd.vander(dd.ones((2, 2))),
        lambda: dd.diag(dd.ones((2, 2, 2))),
        lambda: dd.ix_(dd.ones((2, 2))),
        lambda: dd.diagonal(dd.ones((2, 2)), 0, 1, 1),
        lambda: dd.fill_diagonal(dd.ones(3), 1),
        lambda: dd.zeros(2, device="tpu"),
    ):
        with pytest.raises((dd.ShapeError, dd.ArgumentError)):
            f()


def test_diagonals() -> None:
    for shape in ((3, 4), (4, 3), (2, 3, 3), (0, 2), (1, 1)):
        x = numbers(*shape)
        for k in range(-5, 6):
            check(dd.diagonal(x, k), np.diagonal(x, k))
            check(dd.trace(x, k), np.trace(x, k))
            check(dd.tril(x, k), np.tril(x, k))
            check(dd.triu(x, k), np.triu(x, k))
        check(dd.diagonal(x, 0, -1, 0), np.diagonal(x, 0, -1, 0))
    for shape, wrap in (((3, 3), False), ((7, 2), False), ((7, 2), True), ((2, 5), False), ((3, 3, 3), False)):
        for value in (7.0, np.array([1.0, 2.0])):
            want = numbers(*shape)
            np.fill_diagonal(want, value, wrap)
            check(dd.fill_diagonal(numbers(*shape), value, wrap), want)
    square = dd.defn(lambda x: dd.diagonal(x)).lower(dd.spec(("n", "n"), dd.float32))
    assert "n" in str(square)


A, B, C, V = numbers(2, 3), numbers(2, 3, seed=1), numbers(2, 3, 4), numbers(5)
SHAPED: dict[str, Callable[[Any], Any]] = {
    "atleast_1d": lambda m: (m.atleast_1d(V[0]), m.atleast_1d(A)),
    "atleast_2d": lambda m: m.atleast_2d(V[0], V, A),
    "atleast_3d": lambda m: m.atleast_3d(V[0], V, A, C),
    "vstack": lambda m: (m.vstack([V, V]), m.vstack([A, B])),
    "hstack": lambda m: (m.hstack([V, V]), m.hstack([A, B])),
    "dstack": lambda m: (m.dstack([V, V]), m.dstack([A, B])),
    "column_stack": lambda m: (m.column_stack([V, V]), m.column_stack([A, B])),
    "block": lambda m: (
        m.block([[A, B], [B, A]]),
        m.block([V, V]),
        m.block([[V], [V]]),
        m.block([[C, C]]),
        m.block(3.0),
    ),
    "append": lambda m: (m.append(A, B), m.append(A, B, 0), m.append(A, B, -1)),
    "delete": lambda m: [
        m.delete(A, i, a)
        for i, a in ((1, None), (-1, 1), ([0, 2], 1), (slice(0, 3, 2), 1), ([True, False], 0), ([], 0))
    ],
    "insert": lambda m: [
        m.insert(V, 1, 9.0),
        m.insert(V, [0, 5, 0], [7.0, 8.0, 9.0]),
        m.insert(V, -1, [1.0, 2.0]),
        m.insert(A, 1, 5.0, 1),
        m.insert(A, 1, [5.0, 6.0], 1),
        m.insert(A, [1, 3], 5.0, 1),
        m.insert(A, slice(0, 2), 7.0, 1),
        m.insert(A, [0, 1], B[:, :2], 1),
        m.insert(A, 1, B[0], 0),
    ],
    "array_split": lambda m: m.array_split(V, 3) + m.array_split(A, 5, 1) + m.array_split(A, [1, 2, 9], 1),
    "splits": lambda m: m.hsplit(C, 3) + m.vsplit(C, 2) + m.dsplit(C, [1, 3]) + m.hsplit(V, 5),
    "unstack": lambda m: m.unstack(C, axis=1),
    "broadcast_arrays": lambda m: list(m.broadcast_arrays(A, V[:3], 1.0)),
    "flips": lambda m: (m.fliplr(A), m.flipud(A), m.flip(C, (0, 2)), m.flip(C)),
    "rot90": lambda m: [m.rot90(C, k, a) for k in range(-1, 5) for a in ((0, 1), (2, 0), (1, 2))],
    "rollaxis": lambda m: [m.rollaxis(C, a, s) for a in (0, 1, -1) for s in (0, 1, 2, 3)],
    "roll": lambda m: [
        m.roll(C, 2),
        m.roll(C, -7, 1),
        m.roll(C, (1, 2), (0, 2)),
        m.roll(C, 1, (0, 1)),
        m.roll(C, (1, 2), 1),
    ],
    "repeat": lambda m: [
        m.repeat(A, 2),
        m.repeat(A, 3, 1),
        m.repeat(A, [1, 0], 0),
        m.repeat(V, [0, 1, 2, 0, 3]),
        m.repeat(A, 0),
    ],
    "tile": lambda m: [m.tile(A, 2), m.tile(A, (2, 1, 3)), m.tile(V, (2, 2)), m.tile(C, (1, 2))],
    "resize": lambda m: [m.resize(A, (4, 4)), m.resize(V, 2), m.resize(V, (0, 3)), m.resize(V, (2, 1, 2))],
    "kron": lambda m: [m.kron(A, B), m.kron(V, A), m.kron(C, A), m.kron(2.0, A)],
    "cross": lambda m: [m.cross(A, B), m.cross(A[0], B), m.cross(A.T, B.T, axis=0), m.cross(A, B.T, axisb=0)],
    "products": lambda m: [
        m.inner(A, B),
        m.inner(V, V),
        m.inner(2.0, V),
        m.outer(A, V),
        m.vdot(A, B),
        m.vecdot(A, B),
        m.vecdot(A.T, B.T, axis=0),
        m.matvec(A, B[0]),
        m.vecmat(B[0], A.T),
        m.matrix_transpose(C),
    ],
    "linalg": lambda m: [
        m.linalg.norm(A),
        m.linalg.norm(V),
        m.linalg.multi_dot([A, B.T, A, V[:3]]),
        m.linalg.multi_dot([V[:2], A, B.T]),
        m.linalg.trace(C),
        m.linalg.diagonal(C, offset=1),
        m.linalg.vector_norm(C, axis=(0, 2), ord=3),
        m.linalg.matrix_norm(C),
        m.linalg.cross(A, B),
    ],
    "powers": lambda m: [m.linalg.matrix_power(np.array([[1.0, 1], [1, 0]]), n) for n in (0, 1, 2, 7)],
    "shifts": lambda m: [
        m.fft.fftshift(C),
        m.fft.ifftshift(C),
        m.fft.fftshift(V, 0),
        m.fft.fftfreq(5, 0.5),
        m.fft.rfftfreq(6),
    ],
    "differences": lambda m: [
        m.diff(C),
        m.diff(C, 2, 1),
        m.diff(V, 0),
        m.diff(V, 9),
        m.diff(A, prepend=1.0, append=B, axis=1),
        m.diff(A > 0),
        m.ediff1d(A),
        m.ediff1d(V, to_end=[1.0, 2.0], to_begin=9.0),
    ],
    "trapezoid": lambda m: [
        m.trapezoid(C),
        m.trapezoid(C, dx=0.5, axis=0),
        m.trapezoid(A, np.array([0.0, 1, 4])),
        m.trapezoid(A, np.sort(B, 1)),
    ],
    "gradient": lambda m: [
        *m.gradient(C),
        m.gradient(V),
        m.gradient(V, 0.5, edge_order=2),
        m.gradient(C, axis=-1),
        m.gradient(V, np.array([0.0, 1, 3, 4, 9])),
        *m.gradient(C, 2.0, np.array([0.0, 1, 5]), axis=(0, 1)),
        m.gradient(V, np.array([0.0, 1, 3, 4, 9]), edge_order=2),
    ],
    "unwrap": lambda m: [
        m.unwrap(V * 2),
        m.unwrap(C * 1.5, axis=1),
        m.unwrap(V, discont=9.0),
        m.unwrap(V * 40, period=360.0),
        m.unwrap(np.array([0, 350, 10, -200]), period=360),
        m.unwrap(np.array([0, 7, 1]), period=5),
    ],
    "interp": lambda m: [
        m.interp(V / 3, [-2.0, 0.0, 2.5], [1.0, 5.0, -1.0]),
        m.interp(A, [0.0, 1.0], [3.0, 4.0], left=-9.0, right=9.0),
        m.interp(V, [350.0, 10.0, 90.0], [1.0, 2.0, 3.0], period=360),
        m.interp(1.0, [0.5], [7.0]),
    ],
    "convolve": lambda m: [
        f(a, v, mode)
        for f in (m.convolve, m.correlate)
        for mode in ("full", "same", "valid")
        for a, v in ((V, V[:3]), (V[:2], V), (V, V), (V[:4], V[:2]), (V, V[:1]))
    ],
    "polynomials": lambda m: [
        m.polyval(V, A),
        m.polyval(V, 2.0),
        m.polyadd(V, V[:2]),
        m.polymul(V, V[:3]),
        m.polyder(V),
        m.polyder(V, 2),
        m.polyint(V),
        m.polyint(V, 2),
    ],
}


@pytest.mark.parametrize("name", SHAPED)
def test_functions_of_shape_and_neighbours(name: str) -> None:
    f = SHAPED[name]
    want = list(_listed(f(np)))
    same(_listed(f(dd)), want, close=True)
    same(_listed(dd.defn(lambda: tuple(_listed(f(dd))))()), want, close=True)


def test_integers_convolve_exactly_and_stay_integers() -> None:
    a, v = numbers(9, dtype=np.int64) * 10**15, numbers(4, dtype=np.int64)
    for mode in ("full", "same", "valid"):
        check(dd.convolve(a, v, mode), np.convolve(a, v, mode), dd.int64)
        check(dd.correlate(a, v, mode), np.correlate(a, v, mode), dd.int64)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean"])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8, np.bool_])
def test_padding(mode: Any, dtype: Any) -> None:
    if mode == "mean" and dtype is not np.float64:
        return  # NumPy rounds the mean of integers in its own ways
    for shape, widths in (
        ((5,), 2),
        ((5,), (0, 3)),
        ((3, 4), ((1, 2), (0, 1))),
        ((3, 4), ((2,), (1,))),
        ((1, 2), 1),
        ((2, 3), 7),
        ((4,), 0),
        ((2, 3), [(1, 2)]),
    ):
        x = numbers(*shape, dtype=dtype)
        want = np.pad(x, widths, mode=mode)
        check(dd.pad(x, widths, mode), want)
        check(dd.defn(lambda x: dd.pad(x, widths, mode))(x), want)
    if mode == "constant" and dtype is np.float64:
        for values in (3.0, (1.0, 2.0), ((1.0, 2.0), (3.0, 4.0))):
            check(dd.pad(x, 2, constant_values=values), np.pad(x, 2, constant_values=values))
    if mode != "constant":
        with pytest.raises(dd.ShapeError):
            dd.pad(dd.zeros((0, 3)), 1, mode)
    with pytest.raises(dd.ArgumentError):
        dd.pad(x, -1)
    with pytest.raises(dd.ArgumentError):
        dd.pad(x, 1, "ramp")


def test_paddings_have_gradients() -> None:
    x = dd.array(np.arange(3.0))
    for mode, want in (("edge", [3, 1, 3]), ("reflect", [2, 3, 2]), ("wrap", [2, 3, 2]), ("symmetric", [2, 3, 2])):
        got = dd.grad(lambda x: dd.sum(dd.pad(x, 2, mode)))(x)
        slope = np.array([np.pad(np.eye(3)[i], 2, mode=mode).sum() for i in range(3)])  # type: ignore[call-overload]
        assert np.array_equal(np.asarray(got), slope), (mode, want)


def test_traced_shifts_and_repeats() -> None:
    x = np.arange(10.0).reshape(2, 5)
    for by in (0, 3, -8):
        check(dd.defn(lambda x, by: dd.roll(x, by, 1))(x, by), np.roll(x, by, 1))
    counts = np.array([1, 0, 2, 3, 0])
    got = dd.defn(lambda x, n: dd.repeat(x, n, 1, total_repeat_length=6))(x, counts)
    check(got, np.repeat(x, counts, 1))
    with pytest.raises(dd.ArgumentError, match="total_repeat_length"):
        dd.defn(lambda x, n: dd.repeat(x, n, 1))(x, counts)
    with pytest.raises(dd.ArgumentError):
        dd.repeat(x, [-1, 2], 0)
    for f in (lambda x: dd.roll(x, 2, 0), lambda x: dd.repeat(x, 2, 0), lambda x: dd.pad(x, 1, "edge"), dd.vstack):
        assert "n" in str(dd.defn(lambda x: f(x) if f is not dd.vstack else f([x, x])).lower(dd.spec(("n + 1", 3))))


EINSUMS = [
    "ij,jk->ik",
    "ij,jk",
    "ij->ji",
    "ii->i",
    "ii",
    "ij->",
    "ij,ij->",
    "ij,kj->ik",
    "bij,bjk->bik",
    "i,j->ij",
    "ij,j->ij",
    "ij,jk,kl->il",
    "...ij,...jk->...ik",
    "i...->...",
    "iij->ij",
    "ij,jk,ki->",
    "abc,cd,de,ea->b",
    "ij,kl->ijkl",
    "...,...->...",
]


@pytest.mark.parametrize("text", EINSUMS)
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_einsum(text: str, dtype: Any) -> None:
    sizes = dict(zip("abcdeijkl", (2, 3, 4, 2, 3, 3, 3, 2, 4), strict=True)) | {"j": 3, "k": 3, "i": 3}
    lead = (2, 1)
    xs = []
    for n, term in enumerate(text.split("->")[0].split(",")):
        shape: list[int] = []
        for c in term.replace("...", "."):
            shape += lead[n % 2 :] if c == "." else [sizes[c]]
        xs.append(numbers(*shape, dtype=dtype, seed=n))
    want = np.einsum(text, *xs)
    check(dd.einsum(text, *xs), want)
    check(dd.defn(lambda *xs: dd.einsum(text, *xs))(*xs), want)
    path = dd.einsum_path(text, *xs)[0]
    check(dd.einsum(text, *xs, optimize=path), want)


def test_einsum_in_other_words() -> None:
    check(dd.einsum(A, [0, 1], B, [2, 1], [0, 2]), A @ B.T)
    check(dd.einsum(A, [..., 0], B, [..., 0]), np.einsum(A, [..., 0], B, [..., 0]))
    check(dd.einsum("ij,jk->ik", A > 0, B.T > 0), (A > 0) @ (B.T > 0), dd.bool_)
    check(dd.einsum("ij,j->i", A, np.ones(1)), np.einsum("ij,j->i", A, np.ones(3)))
    gx, gy = dd.grad(lambda x, y: dd.sum(dd.einsum("ij,jk->ik", x, y)), argnums=(0, 1))(dd.array(A), dd.array(B.T))
    check(gx, np.broadcast_to(B.T.sum(1), A.shape))
    check(gy, np.broadcast_to(A.sum(0)[:, None], B.T.shape))
    assert len(dd.einsum_path("ij,jk,kl->il", np.ones((2, 50)), np.ones((50, 3)), np.ones((3, 4)))[0]) == 3
    for bad in ("ij,jk->iz", "ij", "ij,jk->ii", "i,jk", "i1,jk"):
        with pytest.raises((dd.ArgumentError, dd.ShapeError)):
            dd.einsum(bad, A, B.T)
    with pytest.raises(dd.ShapeError):
        dd.einsum("ij,jk->ik", A, B)
    assert "n" in str(dd.defn(lambda x, y: dd.einsum("nd,md->nm", x, y)).lower(dd.spec(("n", 3)), dd.spec(("m", 3))))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), (1, 0), (0, 2), -1])
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3.5, -1, -2, "fro", "nuc", np.inf, -np.inf])
def test_norms(axis: Any, order: Any) -> None:
    x = numbers(2, 3, 4) + 0.5
    for keepdims in (False, True):
        matrix = isinstance(axis, tuple)
        if (
            (axis is None and order is not None)
            or (not matrix and order in ("fro", "nuc"))
            or (matrix and order in (0, 3.5))
        ):
            with pytest.raises(dd.ArgumentError):
                dd.linalg.norm(x, order, axis)
            continue
        check(dd.linalg.norm(x, order, axis, keepdims), np.linalg.norm(x, order, axis, keepdims))


def test_norms_do_not_overflow_and_have_gradients_at_zero() -> None:
    big = np.full(4, 1e300)
    assert float(dd.linalg.norm(big)) == 2e300 and np.isclose(
        float(dd.linalg.vector_norm(big, ord=3)), 4 ** (1 / 3) * 1e300
    )
    for f in (dd.linalg.norm, lambda x: dd.linalg.vector_norm(x, ord=3)):
        assert dd.grad(f)(dd.zeros(3)).tolist() == [0, 0, 0]
    with pytest.raises(dd.ShapeError):
        dd.linalg.matrix_power(dd.ones((2, 3)), 2)
