"""Checks for tests of one's own: that numbers are what they should be, and derivatives right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, errors, trees
from dala_defn.array import Array
from dala_defn.errors import ArgumentError, CheckFailed, GradientError
from dala_defn.functions import astype
from dala_defn.functions.base import value
from dala_defn.functions.creation import array
from dala_defn.gradients import STEP, Wide, outside_traces
from dala_defn.jacobians import vjp
from dala_defn.transforms import jvp

# By the smallest float among the arguments: derivatives in it are compared with differences in float64.
TOLERANCE = {dtypes.float64: 1e-6, dtypes.float32: 1e-4, dtypes.float16: 2e-2, dtypes.bfloat16: 1e-1}
MODES = ("fwd", "rev")


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = MODES,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Compares the derivatives of ``f`` with central differences in float64, in random directions.

    Args:
        f: a function of ``args``, each an array or a pytree of arrays; its result may be a pytree too.
        args: where to look; a place where the function has a kink or is not defined will not agree.
        order: up to which derivative: 2 also checks those of the first derivatives, and so on.
        modes: ``"fwd"`` (``dd.jvp``) and ``"rev"`` (``dd.vjp``).
        atol, rtol: what they may differ by; by default according to the dtype, 1e-4 for float32, 1e-6 for float64.
        eps: the step, relative to numbers larger than 1; by default about 6e-6.
        seed: chooses the directions.

    Raises:
        CheckFailed: an AssertionError, with the mode, the order and the argument that is off.
        ArgumentError: for another mode or order.
        GradientError: when no argument is a float, or an op has no derivative.

    Example:
        >>> dd.testing.check_grads(lambda x, y: dd.sin(x) * y, (0.5, 2.0), order=2)
    """
    outside_traces("numerical")
    chosen = (modes,) if isinstance(modes, str) else tuple(modes)
    if not chosen or set(chosen) - set(MODES):
        raise ArgumentError(f"modes={modes!r}", rule='"fwd", "rev" or both')
    if order < 1:
        raise ArgumentError(f"order={order}; the first derivative has order 1")
    leaves, tree = trees.flatten(tuple(args))
    held = [value(x) for x in leaves]
    floats = [i for i, x in enumerate(held) if x.dtype.is_float]
    if not floats:
        raise GradientError("no argument is a float: there is nothing to differentiate by")
    default = max(TOLERANCE[held[i].dtype] for i in floats)
    _Check(tree, floats, chosen, atol if atol is not None else default, rtol if rtol is not None else default,
           STEP if eps is None else eps, np.random.default_rng(seed)).run(f, held, order, "")  # fmt: skip


class _Check:
    """The derivatives of functions of the same arguments."""

    def __init__(
        self,
        tree: trees.Tree,
        floats: Sequence[int],
        modes: Sequence[str],
        atol: float,
        rtol: float,
        eps: float,
        rng: np.random.Generator,
    ) -> None:
        self.tree, self.floats, self.modes, self.rng = tree, floats, modes, rng
        self.atol, self.rtol, self.eps = atol, rtol, eps

    def run(self, f: Callable[..., Any], held: list[Any], order: int, path: str) -> None:
        """Checks the first derivatives, and those of them."""

        def by_floats(*xs: Any) -> list[Any]:
            """The float results of ``f``, by its float arguments."""
            whole = list(held)
            for i, x in zip(self.floats, xs, strict=True):
                whole[i] = x
            found = trees.flatten(f(*trees.unflatten(self.tree, whole)))[0]
            return [y for y in map(value, found) if y.dtype.is_float]

        xs = [held[i] for i in self.floats]
        ts = [self.like(x) for x in xs]
        wide = Wide(by_floats, xs)
        if not wide.types:
            raise GradientError("no result is a float: there is nothing to differentiate")
        slopes = self.slopes(wide, ts)
        if "fwd" in self.modes:
            _, found = jvp(by_floats, tuple(xs), tuple(ts))
            for k, (a, b) in enumerate(zip(found, slopes, strict=True)):
                self.compare(np.asarray(a), b, f"{path}jvp, result {k}")
        cts: list[Array] = []
        if "rev" in self.modes:
            ys, pull_back = vjp(by_floats, *xs)
            cts = [self.like(y) for y in ys]
            gs = pull_back(cts)
            # <ct, slope> along the direction must be <gradient, direction>: first by all arguments, then by each.
            self.compare(_dot(gs, ts), _dot(cts, slopes), f"{path}vjp")
            for k in range(len(xs)) if len(xs) > 1 else ():
                alone = [t if i == k else array(np.zeros(t.shape), t.dtype) for i, t in enumerate(ts)]
                want = _dot(cts, self.slopes(wide, alone))
                self.compare(_dot([gs[k]], [ts[k]]), want, f"{path}vjp by argument {self.floats[k]}")
        if order == 1:
            return

        def forward(*inner: Any) -> Any:
            return jvp(by_floats, inner, _cast(ts, inner))[1]

        def reverse(*inner: Any) -> Any:
            outs, back = vjp(by_floats, *inner)
            return back(list(_cast(cts, outs)))

        if "fwd" in self.modes:
            self.again(forward, held, order, f"{path}jvp of ")
        if "rev" in self.modes:
            self.again(reverse, held, order, f"{path}vjp of ")

    def again(self, g: Callable[..., Any], held: list[Any], order: int, path: str) -> None:
        """Checks a derivative, which is a function of the float arguments."""

        def f(*args: Any) -> Any:
            leaves = trees.flatten(args)[0]
            return g(*[leaves[i] for i in self.floats])

        self.run(f, held, order - 1, path)

    def like(self, x: Any) -> Array:
        """A direction for an array, with no element so small that it hides what is wrong."""
        shape = tuple(x.shape)
        return array(self.rng.uniform(0.5, 1.5, shape) * self.rng.choice([-1.0, 1.0], shape), x.dtype)

    def slopes(self, wide: Wide, ts: Sequence[Array]) -> list[np.ndarray[Any, Any]]:
        """How fast the results change along a direction."""
        scale = max([1.0, *[float(np.max(np.abs(x), initial=0)) for x in wide.args]])
        h = self.eps * scale
        high, low = (
            wide([x + sign * h * np.asarray(t).astype(np.float64) for x, t in zip(wide.args, ts, strict=True)])
            for sign in (1, -1)
        )
        return [(a - b) / (2 * h) for a, b in zip(high, low, strict=True)]

    def compare(self, found: Any, want: Any, what: str) -> None:
        """Refuses what is off, and what is NaN where the other is not."""
        found, want = np.asarray(found).astype(np.float64), np.asarray(want)
        with np.errstate(invalid="ignore"):
            good = np.abs(found - want) <= self.atol + self.rtol * np.abs(want)
        good |= np.isnan(found) & np.isnan(want)
        good |= found == want
        if np.all(good):
            return
        place = tuple(int(i) for i in np.argwhere(~good)[0])
        raise CheckFailed(
            f"{what} is {found[place]:.8g}, differences give {want[place]:.8g}" + (f" at {place}" if place else ""),
            rule=f"within {self.atol:g} + {self.rtol:g} of it",
            hint="a point away from kinks; a custom rule without mistakes; float64 for a closer look",
            details={"found": float(found[place]), "wanted": float(want[place])},
        )


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = True) -> None:
    """Raises unless two trees have one structure, one shape at each leaf, and numbers that are close.

    Close is ``abs(actual - desired) <= atol + rtol * abs(desired)``; equal infinities are, and NaN is where
    ``equal_nan`` says so. dtypes need not agree.

    Raises:
        CheckFailed: naming the leaf, how many differ and by how much at most, and the first place.

    Example:
        >>> dd.testing.assert_allclose({"x": dd.array([1.0])}, {"x": [1.0000001]})
    """
    _compare(actual, desired, rtol, atol, equal_nan)


def assert_array_equal(actual: Any, desired: Any) -> None:
    """Raises unless two trees have one structure, one shape at each leaf, and the same numbers; NaN equals NaN.

    Raises:
        CheckFailed: as ``assert_allclose``.

    Example:
        >>> dd.testing.assert_array_equal(dd.arange(3), [0, 1, 2])
    """
    _compare(actual, desired, 0, 0, True)


def _compare(actual: Any, desired: Any, rtol: float, atol: float, equal_nan: bool, name: str = "") -> None:
    def inner(x: Any, y: Any, key: Any) -> None:
        _compare(x, y, rtol, atol, equal_nan, f"{name}/{key}" if name else str(key))

    if isinstance(actual, dict):
        if not isinstance(desired, dict) or actual.keys() != desired.keys():
            raise CheckFailed(f"{name or 'the tree'} has the keys {list(actual)}, which are not those wanted")
        for key, x in actual.items():
            inner(x, desired[key], key)
    elif isinstance(actual, (list, tuple)) and isinstance(desired, (list, tuple)):
        if len(actual) != len(desired):
            raise CheckFailed(f"{name or 'the tree'} has {len(actual)} elements, not {len(desired)}")
        for i, (x, y) in enumerate(zip(actual, desired, strict=True)):
            inner(x, y, i)
    else:
        _close(name or "the array", actual, desired, rtol, atol, equal_nan)


def _close(name: str, actual: Any, desired: Any, rtol: float, atol: float, equal_nan: bool) -> None:
    x, y = (np.asarray(array(v)) for v in (actual, desired))
    if x.shape != y.shape:
        raise CheckFailed(f"{name} has the shape {x.shape}, not {y.shape}")
    exact = all(v.dtype.kind in "biu" for v in (x, y))
    a, b = (v if exact else v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (x, y))
    with np.errstate(all="ignore"):
        good = np.asarray(a == b)
        if equal_nan and not exact:
            good = good | (np.isnan(a) & np.isnan(b))
        gap = np.abs(a.astype(np.float64) - b) if exact else np.abs(a - b)
        if rtol or atol:
            good = good | (np.isfinite(gap) & (gap <= atol + rtol * np.abs(b)))
    if np.all(good):
        return
    place = tuple(int(i) for i in np.argwhere(~good)[0])
    worst = float(np.max(np.where(np.isnan(gap), np.inf, gap)[~good]))
    raise CheckFailed(
        f"{name} is {x[place]} where {y[place]} is wanted" + (f", at {place}" if place else ""),
        rule=f"within {atol:g} + {rtol:g} of it",
        details={"differ": int(np.sum(~good)), "of": int(good.size), "worst": worst},
    )


def _cast(directions: Sequence[Array], like: Sequence[Any]) -> tuple[Any, ...]:
    """The directions in the dtypes of what they belong to: differences are in float64."""
    return tuple(astype(t, x.dtype) for t, x in zip(directions, like, strict=True))


def _dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(sum(np.sum(_wide(x) * _wide(y)) for x, y in zip(xs, ys, strict=True)))


def _wide(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x).astype(np.float64)


errors.boundaries(sys.modules[__name__])
