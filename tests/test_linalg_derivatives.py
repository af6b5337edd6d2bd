"""Derivatives of ``dd.linalg`` against central differences in float64, at regular matrices and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_linalg import adjoint, close, definite, draw, hermitian

import dala_defn as dd
from dala_defn import linalg

STEP = 1e-6
A, TALL = draw((3, 3)) + 2 * np.eye(3), draw((4, 3), seed=3)
W = draw((3, 3), seed=9)

# Functions to a real number whose derivative exists at the matrix beside them.
SCALARS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "solve": (lambda x: dd.sum(W * linalg.solve(x, W)), A),
    "solve a vector": (lambda x: dd.sum(linalg.solve(x, W[:, 0]) ** 2), A),
    "solve triangular": (lambda x: dd.sum(W * linalg.solve_triangular(x, W, 1, True)), A),
    "solve with factors": (lambda x: dd.sum(W * linalg.lu_solve(linalg.lu_factor(x), W, 1)), A),
    "inv": (lambda x: dd.sum(W * linalg.inv(x)), A),
    "det": (linalg.det, A),
    "det of rank n - 1": (linalg.det, np.array([[1.0, 2, 3], [4, 5, 6], [5, 7, 9]])),
    "det of rank n - 2": (linalg.det, np.outer([1.0, 2, 3], [3.0, 1, 2])),
    "det of the identity": (linalg.det, np.eye(3)),
    "slogdet": (lambda x: linalg.slogdet(x)[1], A),
    "cholesky": (lambda x: dd.sum(W * linalg.cholesky(x @ x.T + dd.eye(3, dtype=dd.float64))), A),
    "cholesky upper": (lambda x: dd.sum(W * linalg.cholesky(x @ x.T, upper=True)), A),
    "lu": (lambda x: dd.sum(W * linalg.lu(x)[1]) + dd.sum(W * linalg.lu(x)[2] ** 2), A),
    "qr": (lambda x: dd.sum(TALL * linalg.qr(x)[0]) + dd.sum(W * linalg.qr(x)[1]), TALL),
    "qr of wide": (lambda x: dd.sum(TALL.T * linalg.qr(x, "complete")[1]), TALL.T),
    "eigh": (lambda x: dd.sum(W * linalg.eigh(x + x.T)[1] ** 2) + dd.sum(W[0] * linalg.eigvalsh(x + x.T)), A),
    "svd": (lambda x: dd.sum(TALL * linalg.svd(x, full_matrices=False)[0]) + dd.sum(W * linalg.svd(x, False)[2]), TALL),
    "svdvals": (lambda x: dd.sum(W[0] * linalg.svdvals(x)), TALL),
    "pinv": (lambda x: dd.sum(TALL.T * linalg.pinv(x)), TALL),
    "pinv of wide": (lambda x: dd.sum(TALL * linalg.pinv(x)), TALL.T),
    "pinv of the identity": (lambda x: dd.sum(W * linalg.pinv(x)), np.eye(3)),
    "lstsq": (lambda x: dd.sum(linalg.lstsq(x, TALL)[0] ** 2), TALL + 1),
    "expm": (lambda x: dd.sum(W * linalg.expm(x)), A),
    "expm, squared": (lambda x: dd.sum(W * linalg.expm(x)), 4 * A),
    "cond": (linalg.cond, TALL),
    "nuc": (lambda x: linalg.norm(x, "nuc"), TALL),
    "2": (lambda x: linalg.norm(x, 2), TALL),
    "eigvals": (lambda x: dd.sum(dd.absolute(linalg.eigvals(x)) * W[0]), A),
    "eig": (lambda x: dd.sum(dd.absolute(linalg.eig(x)[1]) ** 2 * W), A),
    "matrix_power": (lambda x: dd.sum(W * linalg.matrix_power(x, -2)), A),
    "eigenvalues that are equal": (lambda x: dd.sum(linalg.eigvalsh(x @ x.T) ** 2), np.eye(3)),
    "singular values that are equal": (lambda x: dd.sum(linalg.svdvals(x) ** 2), np.eye(3)),
    "nuc of the identity": (lambda x: linalg.norm(x, "nuc"), np.eye(3)),
}


def slope(f: Callable[[Any], Any], x: Any) -> Any:
    """The gradient of a real function, element by element."""
    out = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            near = x.copy()
            near[at] += sign * STEP
            ends.append(np.asarray(f(near)))
        out[at] = (ends[0] - ends[1]) / (2 * STEP)
    return out


@pytest.mark.parametrize("name", SCALARS)
def test_gradients_agree_with_differences(name: str) -> None:
    f, x = SCALARS[name]
    wanted = slope(dd.defn(f), x)
    found = np.asarray(dd.grad(f)(x))
    close(found, wanted, 1e-6)
    t = draw(x.shape, seed=11)
    _, forward = dd.jvp(f, (x,), (t,))
    close(forward, np.sum(wanted * t), 1e-6)
    many = dd.vmap(dd.grad(f))(np.stack([x, x]))
    close(many, np.stack([found, found]), 1e-9)
    with dd.using("reference"):
        close(dd.grad(f)(x), found, 1e-9)


# Those whose second derivatives exist where they are taken.
TWICE = [n for n in SCALARS if "rank" not in n and "equal" not in n and "nuc of" not in n]


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_agree_with_differences(name: str) -> None:
    f, x = SCALARS[name]
    t = draw(x.shape, seed=12)
    first = dd.defn(dd.grad(f))
    wanted = (np.asarray(first(x + STEP * t)) - np.asarray(first(x - STEP * t))) / (2 * STEP)
    close(dd.hvp(f, (x,), (t,)), wanted, 2e-5)
    close(dd.grad(lambda y: dd.sum(dd.grad(f)(y) * t))(x), wanted, 2e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients_within_hermitian_matrices(dtype: Any) -> None:
    """They are Hermitian, and agree with differences along Hermitian directions."""
    spd, t = definite(3, (), dtype), hermitian(3, (), dtype, 5)
    w = np.array([1.0, 3.0, -2.0])
    fs: tuple[Callable[[Any], Any], ...] = (
        lambda x: dd.sum(dd.absolute(linalg.cholesky(x)) ** 2 * W),
        lambda x: dd.sum(dd.absolute(linalg.cholesky(x, upper=True)) ** 2 * W),
        lambda x: dd.sum(linalg.eigvalsh(x) * w),
        lambda x: dd.sum(linalg.eigvalsh(x, "U") * w),
        lambda x: dd.sum(dd.absolute(linalg.eigh(x)[1]) ** 2 * W),
    )
    for f in fs:
        g = np.asarray(dd.grad(f)(spd))
        close(g, adjoint(g), 1e-9)
        ends = [np.asarray(f(spd + s * STEP * t)) for s in (1, -1)]
        close(np.sum(np.real(g * t)), (ends[0] - ends[1]) / (2 * STEP), 1e-6)


def test_gradients_of_complex_matrices_agree_with_differences() -> None:
    x, w = draw((3, 3), np.complex128), draw((3, 3), np.complex128, 7)
    fs: tuple[Callable[[Any], Any], ...] = (
        lambda x: dd.sum(dd.real(w * linalg.inv(x))),
        lambda x: dd.absolute(linalg.det(x)),
        lambda x: linalg.slogdet(x)[1] + dd.real(linalg.slogdet(x)[0]),
        lambda x: dd.sum(dd.real(w * linalg.qr(x)[0])) + dd.sum(dd.real(w * linalg.qr(x)[1])),
        lambda x: dd.sum(dd.real(w * linalg.svd(x)[0])) + dd.sum(linalg.svdvals(x)),
        lambda x: dd.sum(dd.real(w * linalg.pinv(x[:, :2]).T[:, :1])),
        lambda x: dd.sum(dd.real(w * linalg.expm(x))),
        lambda x: dd.sum(dd.real(w * linalg.eig(x)[1])) + dd.sum(dd.real(w[0] * linalg.eigvals(x))),
    )
    for f in fs:
        g = np.asarray(dd.grad(f)(x))
        for t in (draw((3, 3), np.complex128, 13), 1j * draw((3, 3), np.complex128, 14)):
            ends = [np.asarray(f(x + s * STEP * t)) for s in (1, -1)]
            close(np.sum(np.real(g * t)), (ends[0] - ends[1]) / (2 * STEP), 1e-6)


def test_vectors_of_equal_values_have_no_derivative_and_say_so() -> None:
    x = np.eye(3)
    for f in (
        lambda t: dd.sum(W * linalg.eigh(t)[1]),
        lambda t: dd.sum(W * linalg.svd(t)[0]),
    ):
        assert not np.isfinite(np.asarray(dd.grad(f)(x))).all()
    # What asks for nothing of them gets nothing.
    for f in (
        lambda t: dd.sum(0 * linalg.eigh(t)[1]) + dd.sum(linalg.eigh(t)[0]),
        lambda t: dd.sum(0 * linalg.svd(t)[0]) + dd.sum(linalg.svd(t)[1]),
    ):
        close(dd.grad(f)(x), np.eye(3))


def test_derivatives_that_are_not_there_are_refused() -> None:
    for f in (
        lambda x: dd.sum(linalg.qr(x, "complete")[0]),
        lambda x: dd.sum(linalg.svd(x)[0]),
    ):
        with pytest.raises(dd.GradientError, match="orthonormal"):
            dd.grad(f)(TALL)


def test_what_is_not_differentiated_refuses_nothing() -> None:
    u, _, vh = np.linalg.svd(TALL, full_matrices=False)
    close(dd.grad(lambda x: dd.sum(linalg.svd(x).S))(TALL), u @ vh)


@pytest.mark.parametrize("name", ["det", "inv", "cholesky", "expm", "pinv", "eigvalsh"])
def test_gradients_at_sizes_by_name(name: str) -> None:
    f = getattr(linalg, name)
    g = dd.grad(lambda x: dd.sum(f(x) ** 2))
    compiled = dd.defn(g).compile(dd.spec(("b", "n", "n"), "float64"))
    for n in (2, 4):
        x = definite(n, (3,))
        close(compiled(x), g(x))


@pytest.mark.parametrize("f", [linalg.inv, linalg.svdvals, linalg.det, lambda x: linalg.qr(x)[0], linalg.pinv])
def test_batches_are_loops(f: Callable[[Any], Any]) -> None:
    x = draw((2, 3, 4, 4))
    wanted = np.stack([np.stack([np.asarray(f(x[i, j])) for j in range(3)]) for i in range(2)])
    close(f(x), wanted, 1e-12)
    close(dd.vmap(dd.vmap(f))(x), wanted, 1e-12)
    close(dd.vmap(f, in_axes=1, out_axes=1)(x), wanted, 1e-12)


def test_burns_own_gradients_are_refused_by_name() -> None:
    with pytest.raises(dd.DalaError, match="solve"):
        dd.grad(lambda x: dd.sum(linalg.inv(x)), method="burn")(A)
