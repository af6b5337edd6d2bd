"""``dd.linalg`` against NumPy and SciPy in float64: values, on every executor, at every size, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from measure import LAYOUTS
from numeric import everywhere

import dala_defn as dd
from dala_defn import linalg

Array = np.ndarray[Any, Any]
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


def draw(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape)
    return np.asarray(x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def hermitian(n: int, lead: tuple[int, ...] = (), dtype: Any = np.float64, seed: int = 0) -> Array:
    x = draw((*lead, n, n), dtype, seed)
    return x + np.conj(np.swapaxes(x, -1, -2))


def definite(n: int, lead: tuple[int, ...] = (), dtype: Any = np.float64, seed: int = 0) -> Array:
    x = draw((*lead, n, n), dtype, seed)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)).astype(dtype)


def adjoint(x: Any) -> Array:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


def bound(dtype: Any) -> float:
    return 2e-4 if np.dtype(dtype).itemsize // (2 if np.dtype(dtype).kind == "c" else 1) == 4 else 1e-10


def close(found: Any, wanted: Any, by: float = 1e-10) -> None:
    a, b = np.asarray(found), np.asarray(wanted)
    assert a.shape == b.shape, f"{a.shape}, not {b.shape}"
    scale = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
    np.testing.assert_allclose(a, b, rtol=by, atol=by * scale)


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


def of(f: Callable[..., Any], *given: Any) -> Callable[[Any], Any]:
    """A function of the module alone."""
    return lambda m: f(m, *given)


A, B, C = draw((4, 4)), draw((4, 3), seed=1), draw((2, 3, 3), seed=2)
TALL, WIDE = draw((5, 3), seed=3), draw((3, 5), seed=4)
SPD = definite(4)
HERMITIAN = hermitian(4)

SAME = {
    "cholesky": (lambda m: m.linalg.cholesky(SPD), lambda m: m.linalg.cholesky(SPD, upper=True)),
    "solve": (
        lambda m: m.linalg.solve(A, B),
        lambda m: m.linalg.solve(A, B[:, 0]),
        lambda m: m.linalg.solve(C, B[:3]),
        lambda m: m.linalg.solve(C, B[:3, 0]),
        lambda m: m.linalg.solve(C[:, None], draw((5, 3, 2))),
    ),
    "inv": (lambda m: m.linalg.inv(A), lambda m: m.linalg.inv(C)),
    "det": (lambda m: m.linalg.det(A), lambda m: m.linalg.det(C), lambda m: m.linalg.det(np.zeros((0, 0)))),
    "slogdet": (lambda m: tuple(m.linalg.slogdet(A)), lambda m: tuple(m.linalg.slogdet(C))),
    "eigvalsh": (
        lambda m: m.linalg.eigvalsh(HERMITIAN),
        lambda m: m.linalg.eigvalsh(A),
        lambda m: m.linalg.eigvalsh(A, "U"),
        lambda m: m.linalg.eigh(A, UPLO="u")[0],
    ),
    "svdvals": (
        lambda m: m.linalg.svdvals(TALL),
        lambda m: m.linalg.svdvals(WIDE),
        lambda m: m.linalg.svd(C, compute_uv=False),
    ),
    "pinv": (
        lambda m: m.linalg.pinv(TALL),
        lambda m: m.linalg.pinv(WIDE),
        lambda m: m.linalg.pinv(C, rtol=0.3),
        lambda m: m.linalg.pinv(TALL[:, :1] @ WIDE[:1]),
        lambda m: m.linalg.pinv(HERMITIAN, hermitian=True),
    ),
    "matrix_rank": (
        lambda m: m.linalg.matrix_rank(TALL),
        lambda m: m.linalg.matrix_rank(TALL[:, :1] @ WIDE[:1]),
        lambda m: m.linalg.matrix_rank(C, tol=1.0),
        lambda m: m.linalg.matrix_rank(HERMITIAN, hermitian=True),
        lambda m: m.linalg.matrix_rank(np.zeros((2, 3))),
        lambda m: m.linalg.matrix_rank(np.zeros(3)),
        lambda m: m.linalg.matrix_rank(np.ones(3)),
    ),
    "lstsq": (
        lambda m: tuple(m.linalg.lstsq(TALL, draw((5,)))),
        lambda m: tuple(m.linalg.lstsq(TALL, draw((5, 2)))),
        lambda m: tuple(m.linalg.lstsq(WIDE, draw((3, 2)))),
    ),
    "cond": tuple(of(lambda m, p: m.linalg.cond(C, p), p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")),
    "norm": tuple(
        of(lambda m, p, axis, keep: m.linalg.norm(draw((2, 3, 4)), p, axis, keep), p, axis, keep)
        for p in (2, -2, "nuc")
        for axis in ((0, 1), (2, 0), (-1, -2))
        for keep in (False, True)
    ),
    "matrix_norm": tuple(
        of(lambda m, p: m.linalg.matrix_norm(C, ord=p), p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ),
    "matrix_power": tuple(of(lambda m, n: m.linalg.matrix_power(C, n), n) for n in (-3, -1, 0, 1, 3)),
    "tensorinv": (
        lambda m: m.linalg.tensorinv(draw((4, 6, 8, 3))),
        lambda m: m.linalg.tensorinv(draw((24, 8, 3)), ind=1),
    ),
    "tensorsolve": (
        lambda m: m.linalg.tensorsolve(draw((2, 3, 6)), draw((2, 3))),
        lambda m: m.linalg.tensorsolve(draw((6, 2, 3)), draw((2, 3)), axes=(0,)),
    ),
}
ROWS = [(name, k) for name, fs in SAME.items() for k in range(len(fs))]


class _Ours:
    linalg = linalg


@pytest.mark.parametrize(("name", "number"), ROWS, ids=[f"{n}-{k}" for n, k in ROWS])
def test_values_are_those_of_numpy(name: str, number: int) -> None:
    f = SAME[name][number]
    wanted = leaves(f(np))
    for executor in ("flex", "reference"):
        with dd.using(executor):
            for found, want in zip(leaves(f(_Ours)), wanted, strict=True):
                close(found, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 17])
@pytest.mark.parametrize("lead", [(), (0,), (2, 1)])
def test_factors_give_the_matrix_back(dtype: Any, n: int, lead: tuple[int, ...]) -> None:
    by = bound(dtype)
    one = np.broadcast_to(np.eye(n), (*lead, n, n))
    for executor in ("flex", "reference"):
        with dd.using(executor):
            x, spd = draw((*lead, n, n), dtype), definite(n, lead, dtype)
            low = np.asarray(linalg.cholesky(spd))
            assert low.dtype == dtype and not np.triu(low, 1).any()
            close(low @ adjoint(low), spd, by)
            w, v = (np.asarray(t) for t in linalg.eigh(spd))
            assert w.dtype == np.empty(0, dtype).real.dtype and v.dtype == dtype
            close(v * w[..., None, :] @ adjoint(v), spd, by)
            close(adjoint(v) @ v, one, by)
            close(w, np.linalg.eigvalsh(spd), by)
            close(linalg.inv(spd) @ spd, one, by)
            p, low, high = (np.asarray(t) for t in linalg.lu(x))
            close(p @ low @ high, x, by)
            assert not np.triu(low, 1).any() and not np.tril(high, -1).any()
            both = np.asarray(linalg.lu(x, permute_l=True)[0])
            close(both, p @ low, by)
            # Magnitudes of complex pivots are compared by the sum of their parts' sizes.
            assert np.abs(low).max(initial=0) <= (1 if low.dtype.kind == "f" else np.sqrt(2)) + by


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (5, 3), (3, 5), (6, 6), (40, 7)])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_orthogonal_factors(dtype: Any, m: int, n: int, lead: tuple[int, ...]) -> None:
    by, k = bound(dtype), min(m, n)
    x = draw((*lead, m, n), dtype)
    for executor in ("flex", "reference"):
        with dd.using(executor):
            for mode, width in (("reduced", k), ("complete", m)):
                q, r = (np.asarray(t) for t in linalg.qr(x, mode))
                assert q.shape == (*lead, m, width) and r.shape == (*lead, width, n)
                close(q @ r, x, by)
                close(adjoint(q) @ q, np.broadcast_to(np.eye(width), (*lead, width, width)), by)
                assert not np.tril(r, -1).any()
                diagonal = np.diagonal(r, 0, -2, -1)
                assert np.all(diagonal.real >= 0) and np.allclose(diagonal.imag, 0, atol=by)
            close(linalg.qr(x, "r"), r[..., :k, :], by)
            for full in (True, False):
                u, s, vh = (np.asarray(t) for t in linalg.svd(x, full_matrices=full))
                assert u.shape == (*lead, m, m if full else k) and vh.shape == (*lead, n if full else k, n)
                close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, by)
                close(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*lead, *[u.shape[-1]] * 2)), by)
                close(vh @ adjoint(vh), np.broadcast_to(np.eye(vh.shape[-2]), (*lead, *[vh.shape[-2]] * 2)), by)
                close(s, np.linalg.svd(x, compute_uv=False), by)
            close(linalg.svdvals(x), s, by)
            p, low, high = (np.asarray(t) for t in linalg.lu(x))
            close(p @ low @ high, x, by)
            close(linalg.pinv(x), np.linalg.pinv(x), 10 * by)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 20])
def test_eigenvalues_of_any_matrix(dtype: Any, n: int) -> None:
    by = 5 * bound(dtype)
    x = draw((2, n, n), dtype)
    want = np.linalg.eigvals(x.astype(np.complex128))
    order = np.argsort(want.real + 0.6180339887498949 * want.imag, -1)
    for executor in ("flex", "reference"):
        with dd.using(executor):
            w, v = (np.asarray(t) for t in linalg.eig(x))
            assert w.dtype == v.dtype == np.result_type(dtype, np.complex64)
            close(x @ v, v * w[..., None, :], by)
            close(np.linalg.norm(v, axis=-2), np.ones((2, n)), by)
            close(w, np.take_along_axis(want, order, -1), by)
            close(linalg.eigvals(x), w, by)


def test_eigenvalues_of_matrices_that_are_hard() -> None:
    for executor in ("flex", "reference"):
        with dd.using(executor):
            turn = np.array([[0.0, 1], [-1, 0]])
            close(linalg.eigvals(turn), [-1j, 1j])
            cycle = np.roll(np.eye(5), 1, 0)
            close(np.asarray(linalg.eigvals(cycle)) ** 5, np.ones(5))
            jordan = np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]])
            w, v = (np.asarray(t) for t in linalg.eig(jordan))
            close(w, [2, 2, 2], 1e-4)
            close(jordan @ v, v * w, 1e-4)
            for scale in (0.0, 1e-200, 1e200):
                close(np.asarray(linalg.eigvals(scale * A)) / (scale or 1), np.asarray(linalg.eigvals(A)) * bool(scale))
            assert np.isnan(np.asarray(linalg.eigvals(np.full((2, 2), np.nan)))).all()
            # The companion of (x - 1) (x - 2) ... (x - 6).
            close(np.sort(np.asarray(linalg.eigvals(scipy.linalg.companion(np.poly(np.arange(1.0, 7))))).real),
                  np.arange(1, 7), 1e-8)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions(dtype: Any) -> None:
    by = 10 * bound(dtype)
    a, b = draw((3, 6, 6), dtype) + 4 * np.eye(6, dtype=dtype), draw((3, 6, 2), dtype, 1)
    for executor in ("flex", "reference"):
        with dd.using(executor):
            close(linalg.solve(a, b), np.linalg.solve(a, b), by)
            factors = linalg.lu_factor(a)
            for trans, op in ((0, lambda t: t), ("T", lambda t: np.swapaxes(t, -1, -2)), (2, adjoint)):
                close(linalg.lu_solve(factors, b, trans), np.linalg.solve(op(a), b), by)
                close(linalg.lu_solve((factors.lu[0], factors.permutation[0]), b[0, :, 0], trans),
                      np.linalg.solve(op(a[0]), b[0, :, 0]), by)  # fmt: skip
                for lower in (False, True):
                    for unit in (False, True):
                        t = np.tril(a) if lower else np.triu(a)
                        t = t - t * np.eye(6, dtype=dtype) + np.eye(6, dtype=dtype) if unit else t
                        want = np.linalg.solve(op(t), b)
                        options = {"trans": trans, "lower": lower, "unit_diagonal": unit}
                        close(linalg.solve_triangular(a, b, **options), want, by)
                        close(linalg.solve_triangular(a[0], b[0, :, 0], **options), want[0, :, 0], by)
                        right = np.swapaxes(b, -1, -2)
                        got = linalg.solve_triangular(a, right, left_side=False, **options)
                        close(got, right @ np.linalg.inv(op(t)), by)
            close(linalg.det(a), np.linalg.det(a), by)
            sign, size = linalg.slogdet(a)
            wanted = np.linalg.slogdet(a)
            close(sign, wanted[0], by)
            close(size, wanted[1], by)
            assert np.asarray(size).dtype == np.empty(0, dtype).real.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0])
def test_exponentials(dtype: Any, scale: float) -> None:
    x = (draw((2, 4, 4), dtype) * scale).astype(dtype)
    want = scipy.linalg.expm(x.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64))
    for executor in ("flex", "reference"):
        with dd.using(executor):
            for got in (linalg.expm(x), dd.defn(lambda t: linalg.expm(t))(x)):
                assert np.asarray(got).dtype == dtype
                close(
                    np.asarray(got) / np.abs(want).max(), want / np.abs(want).max(), 30 * max(scale, 1) * bound(dtype)
                )
    assert np.isnan(np.asarray(linalg.expm(np.eye(2) * 1e9))).all()
    nilpotent = np.array([[0.0, 1e7], [0, 0]])
    assert np.isnan(np.asarray(linalg.expm(nilpotent))).any()
    close(linalg.expm(nilpotent, max_squarings=30), [[1, 1e7], [0, 1]])


PROGRAMS: dict[str, Callable[..., Any]] = {
    "solve": lambda x, y: linalg.solve(x, y),
    "cholesky": lambda x, y: linalg.cholesky(x @ dd.conj(dd.matrix_transpose(x)) + dd.eye(3)),
    "det": lambda x, y: linalg.det(x),
    "slogdet": lambda x, y: linalg.slogdet(x)[1],
    "qr": lambda x, y: linalg.qr(x)[1],
    "eigh": lambda x, y: linalg.eigh(x)[0],
    "svd": lambda x, y: linalg.svdvals(x @ y),
    "svd products": lambda x, y: dd.matmul(*linalg.svd(y, full_matrices=True)[::2][:1] * 2),
    "pinv": lambda x, y: linalg.pinv(y),
    "lu": lambda x, y: linalg.lu(x)[2],
    "expm": lambda x, y: linalg.expm(x),
    "norm": lambda x, y: linalg.norm(y, "nuc"),
    "eig": lambda x, y: linalg.eig(x)[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_every_executor_gives_the_same(name: str, dtype: Any, tmp_path: Path) -> None:
    x, y = draw((3, 3), dtype), draw((3, 2), dtype, 1)
    found = everywhere(PROGRAMS[name], (x, y), tmp_path)
    for other in found[1:]:
        close(other, found[0])


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from([(), (1,), (2,), (0,), (2, 2)]),
    st.integers(0, 2**20),
    st.sampled_from(sorted(LAYOUTS)),
)
def test_any_size_and_layout(m: int, n: int, lead: tuple[int, ...], seed: int, layout: str) -> None:
    x = LAYOUTS[layout](draw((*lead, m, n), seed=seed))
    before = x.copy()
    u, s, vh = linalg.svd(x, full_matrices=False)
    close(np.asarray(u) * np.asarray(s)[..., None, :] @ np.asarray(vh), x, 1e-9)
    q, r = linalg.qr(x)
    close(np.asarray(q) @ np.asarray(r), x, 1e-9)
    p, low, high = linalg.lu(x)
    close(np.asarray(p) @ np.asarray(low) @ np.asarray(high), x, 1e-9)
    square = np.asarray(x) @ adjoint(x)
    w, v = linalg.eigh(square)
    close(np.asarray(v) * np.asarray(w)[..., None, :] @ adjoint(v), square, 1e-9)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("executor", ["flex", "reference"])
def test_matrices_that_are_hard(executor: str) -> None:
    with dd.using(executor):
        for n in (3, 8, 12):
            h = scipy.linalg.hilbert(n)
            close(linalg.svdvals(h), np.linalg.svd(h, compute_uv=False), 1e-14)
            u, s, vh = (np.asarray(t) for t in linalg.svd(h))
            close(u * s @ vh, h, 1e-14)
            close(adjoint(u) @ u, np.eye(n), 1e-13)
            x = np.asarray(linalg.solve(h, np.ones(n)))
            # The residual is small whatever the condition number.
            assert np.abs(h @ x - 1).max() <= 1e-14 * n * np.abs(h).max() * np.abs(x).max()
        for scale in (1e-200, 1e-160, 1e160, 1e200):
            a = A * scale
            close(np.asarray(linalg.svdvals(a)) / scale, np.linalg.svd(A, compute_uv=False), 1e-12)
            close(np.asarray(linalg.eigvalsh(HERMITIAN * scale)) / scale, np.linalg.eigvalsh(HERMITIAN), 1e-12)
            q, r = (np.asarray(t) for t in linalg.qr(a))
            close(q @ r / scale, A, 1e-12)
        for flat in (np.zeros((3, 3)), np.ones((4, 3)), np.eye(4)[:, :2] * 0, np.diag([1.0, 1.0, 0.0])):
            u, s, vh = (np.asarray(t) for t in linalg.svd(flat))
            close(u[:, : len(s)] * s @ vh[: len(s)], flat, 1e-14)
            close(adjoint(u) @ u, np.eye(len(u)), 1e-14)
            close(vh @ adjoint(vh), np.eye(len(vh)), 1e-14)
            q, r = (np.asarray(t) for t in linalg.qr(flat))
            close(q @ r, flat, 1e-14)
        w, v = (np.asarray(t) for t in linalg.eigh(np.ones((4, 4))))
        close(w, [0, 0, 0, 4], 1e-14)
        close(adjoint(v) @ v, np.eye(4), 1e-14)


@pytest.mark.parametrize("executor", ["flex", "reference"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_has_no_result_gives_nan(executor: str, dtype: Any) -> None:
    singular = np.array([[[1, 2], [2, 4]], [[2, 0], [0, 4]]], dtype)
    with dd.using(executor):
        for f in (linalg.inv, lambda x: linalg.solve(x, np.ones((2, 2, 1), dtype))):
            out = np.asarray(f(singular))
            assert np.isnan(out[0]).all() and np.isfinite(out[1]).all()
        assert np.asarray(linalg.det(singular)).tolist() == [0, 8]
        sign, size = (np.asarray(t) for t in linalg.slogdet(singular))
        assert sign.tolist() == [0, 1] and size[0] == -np.inf
        indefinite = np.array([[[1, 2], [2, 1]], [[4, 2], [2, 2]], [[0, 0], [0, 0]], [[-1, 0], [0, 1]]], dtype)
        out = np.asarray(linalg.cholesky(indefinite))
        assert [bool(np.isnan(t).all()) for t in out] == [True, False, True, True]
        assert np.asarray(linalg.cond(singular, 1)).tolist() == [np.inf, 2]
        zero = np.array([[1, 0], [1, 0]], dtype)
        assert not np.isfinite(np.asarray(linalg.solve_triangular(zero, np.ones(2, dtype), lower=True))).all()


@pytest.mark.parametrize("executor", ["flex", "reference"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_nan_and_infinity_end_and_stay_in_their_matrix(executor: str, bad: float, n: int) -> None:
    x = definite(n, (2,))
    x[0, n - 1, 0] = bad
    fs = (
        linalg.cholesky, linalg.inv, linalg.svdvals, linalg.eigvalsh, linalg.pinv, lambda t: linalg.svd(t)[0],
        lambda t: linalg.qr(t)[0], lambda t: linalg.eigh(t)[1], lambda t: linalg.lu_factor(t)[0], linalg.det,
        lambda t: linalg.solve(t, np.ones((2, n, 1))), lambda t: linalg.qr(t[..., :1], "complete")[0],
    )  # fmt: skip
    with dd.using(executor):
        for k, f in enumerate(fs):
            out = np.asarray(f(x))
            assert np.isnan(out[0]).all() and np.isfinite(out[1]).all(), k


def test_only_the_triangle_that_is_named_is_read() -> None:
    x = hermitian(3)
    low, high = np.tril(x), np.triu(x)
    low[np.triu_indices(3, 1)] = np.nan
    high[np.tril_indices(3, -1)] = np.nan
    spd = definite(3)
    lows, highs = (
        np.tril(spd) + np.triu(np.full((3, 3), np.nan), 1),
        np.triu(spd) + np.tril(np.full((3, 3), np.nan), -1),
    )
    for executor in ("flex", "reference"):
        with dd.using(executor):
            close(linalg.eigvalsh(low), np.linalg.eigvalsh(x))
            close(linalg.eigvalsh(high, "U"), np.linalg.eigvalsh(x))
            close(linalg.cholesky(lows), np.linalg.cholesky(spd))
            close(linalg.cholesky(highs, upper=True), np.linalg.cholesky(spd).T)
            close(linalg.solve_triangular(lows, np.ones(3), lower=True), np.linalg.solve(np.tril(spd), np.ones(3)))


def test_integers_become_float32_and_short_floats_are_refused() -> None:
    whole = np.array([[2, 1], [1, 2]])
    assert linalg.inv(whole).dtype is dd.float32 and linalg.eigvalsh(whole).dtype is dd.float32
    assert linalg.solve(whole, np.ones(2)).dtype is dd.float64
    for dtype in (dd.float16, dd.bfloat16):
        x = dd.eye(2, dtype=dtype)
        for f in (
            linalg.inv,
            linalg.svd,
            linalg.eigh,
            linalg.qr,
            linalg.cholesky,
            linalg.det,
            linalg.expm,
            linalg.pinv,
        ):
            with pytest.raises(dd.DTypeError, match="float16"):
                f(x)
    with pytest.raises(dd.DTypeError):
        dd.ops.lu(dd.eye(2, dtype=dd.float16), pairs=False)


@pytest.mark.parametrize(
    ("f", "kind", "said"),
    [
        (lambda: linalg.inv(np.ones((2, 3))), dd.ShapeError, "square"),
        (lambda: linalg.det(np.ones(3)), dd.ShapeError, "two axes"),
        (lambda: linalg.svd(np.ones(3)), dd.ShapeError, "two axes"),
        (lambda: linalg.cholesky(np.ones((2, 3))), dd.ShapeError, "square"),
        (lambda: linalg.eigh(np.ones((2, 3))), dd.ShapeError, "square"),
        (lambda: linalg.eig(np.ones((2, 3))), dd.ShapeError, "square"),
        (lambda: dd.ops.eig(np.eye(2), vectors=True, pairs=False), dd.DTypeError, "complex"),
        (lambda: linalg.eigh(np.eye(2), "X"), dd.ArgumentError, "UPLO"),
        (lambda: linalg.qr(np.eye(2), "raw"), dd.ArgumentError, "Householder"),
        (lambda: linalg.qr(np.eye(2), "full"), dd.ArgumentError, "mode"),
        (lambda: linalg.solve(np.eye(2), np.ones(3)), dd.ShapeError, "right sides"),
        (lambda: linalg.solve(np.ones((3, 2, 2)), np.ones((3, 3, 2))), dd.ShapeError, "right sides"),
        (lambda: linalg.solve(np.ones((3, 2, 2)), np.ones((2, 2, 2))), dd.ShapeError, "broadcast"),
        (lambda: linalg.solve_triangular(np.eye(2), np.ones(2), trans=3), dd.ArgumentError, "trans"),
        (lambda: linalg.expm(np.ones((2, 3))), dd.ShapeError, "square"),
        (lambda: linalg.expm(np.eye(2), max_squarings=-1), dd.ArgumentError, "max_squarings"),
        (lambda: linalg.matrix_power(np.eye(2), 1.5), dd.ArgumentError, "power"),
        (lambda: linalg.pinv(np.eye(2), 0.1, rtol=0.1), dd.ArgumentError, "tolerances"),
        (lambda: linalg.matrix_rank(np.eye(2), 0.1, rtol=0.1), dd.ArgumentError, "tolerances"),
        (lambda: linalg.lstsq(np.eye(2), np.ones(3)), dd.ShapeError, "lstsq"),
        (lambda: linalg.lstsq(np.ones((2, 2, 2)), np.ones(2)), dd.ShapeError, "lstsq"),
        (lambda: linalg.tensorinv(np.ones((2, 3))), dd.ShapeError, "differ"),
        (lambda: linalg.tensorinv(np.eye(2), 0), dd.ArgumentError, "ind"),
        (lambda: linalg.tensorsolve(np.ones((2, 3)), np.ones(2)), dd.ShapeError, "tensorsolve"),
        (lambda: linalg.matrix_norm(np.eye(2), ord=3), dd.ArgumentError, "no norm"),
        (lambda: dd.ops.complement(np.ones((2, 3)), pairs=False), dd.ShapeError, "orthonormal"),
        (lambda: dd.ops.lu(np.ones((2, 3)), pairs=True), dd.ShapeError, "pairs"),
    ],
)
def test_what_does_not_fit_is_refused(f: Callable[[], Any], kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        f()


def test_the_runtime_checks_what_it_is_given() -> None:
    """Nothing that Python would have refused gets past it."""
    from dala_defn.array import host_array
    from dala_defn.dtypes import float64
    from dala_defn.executors import executor
    from dala_defn.ir import Type

    def run(name: str, *shapes: tuple[int, ...], **attrs: Any) -> Any:
        args = [host_array(np.ones(s), float64) for s in shapes]
        return executor("flex").run_op(dd.ops.OPS[name], args, {"pairs": False, **attrs}, [Type(float64, (2, 2))])

    run("solve", (2, 2), (2, 2))
    options = {"triangular_solve": {"lower": True, "transpose": False, "unit": False}}
    options |= {name: {"vectors": True} for name in ("eigh", "svd", "eig")}
    for name in ("cholesky", "lu", "qr", "complement", "eigh", "svd", "eig"):
        given = options.get(name, {})
        for shape in ((), (2,)):
            with pytest.raises(dd.DalaError, match="operands"):
                run(name, shape, **given)
        for shape in ((2, 2), (2, 2, 3), (2,), (2, 2, 2)):
            if shape != (2, 2, 2):
                with pytest.raises(dd.DalaError, match="operands"):
                    run(name, shape, **{**given, "pairs": True})
        with pytest.raises(dd.DalaError, match="operands"):
            run(name, (2, 2), (2, 2), **given)
    for name in ("cholesky", "complement", "eigh"):
        with pytest.raises(dd.DalaError, match="operands"):
            run(name, (2, 3), **options.get(name, {}))
    for name in ("solve", "triangular_solve"):
        for left, right in (
            ((2, 3), (2, 2)),
            ((2, 2), (3, 2)),
            ((2, 2), (2,)),
            ((3, 2, 2), (2, 2)),
            ((2, 2, 2), (3, 2, 2)),
        ):
            with pytest.raises(dd.DalaError, match="operands"):
                run(name, left, right, **options.get(name, {}))


def test_numpys_own_functions_work_on_our_arrays() -> None:
    x, y = dd.array(SPD), dd.array(B)
    for f in (
        lambda x, y: np.linalg.solve(x, y), lambda x, y: np.linalg.inv(x), lambda x, y: np.linalg.det(x),
        lambda x, y: np.linalg.cholesky(x), lambda x, y: np.linalg.eigh(x).eigenvalues,
        lambda x, y: np.linalg.svd(x).S, lambda x, y: np.linalg.qr(x, mode="r") ** 2, lambda x, y: np.linalg.pinv(y),
        lambda x, y: np.linalg.slogdet(x).logabsdet, lambda x, y: np.linalg.lstsq(x, y)[0],
        lambda x, y: np.linalg.matrix_rank(x), lambda x, y: np.linalg.cond(x),
        lambda x, y: np.linalg.matrix_power(x, -2), lambda x, y: np.linalg.norm(x, "nuc"),
        lambda x, y: np.linalg.eigvalsh(x), lambda x, y: np.linalg.svdvals(y),
    ):  # fmt: skip
        for got in (f(x, y), dd.defn(f)(x, y)):
            assert isinstance(got, dd.Array)
            close(got, f(SPD, B))


def test_sizes_by_name() -> None:
    spec = dd.spec(("b", "n", "n"), "float64")
    for f in (linalg.inv, linalg.cholesky, linalg.det, linalg.eigvalsh, linalg.expm, lambda x: linalg.qr(x)[0],
              lambda x: linalg.svd(x)[0], lambda x: linalg.lu(x)[1], linalg.pinv):  # fmt: skip
        compiled = dd.defn(f).compile(spec)
        for shape in ((2, 3, 3), (1, 5, 5)):
            x = definite(shape[-1], shape[:1])
            close(compiled(x), f(x))
    with pytest.raises(dd.ShapeError, match="not known"):
        dd.defn(linalg.svd).compile(dd.spec(("m", "n"), "float64"))


def test_results_have_names() -> None:
    assert linalg.qr(A)._fields == ("Q", "R") and linalg.svd(A)._fields == ("U", "S", "Vh")
    assert linalg.eigh(SPD)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.slogdet(A)._fields == ("sign", "logabsdet")
    assert dd.defn(linalg.slogdet)(A)._fields == ("sign", "logabsdet")
