"""Optimizers against steps computed by hand in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dala_defn as dd

O = dd.optimizers  # noqa: E741


def steps(optimizer: Any, grads: list[float], w: float = 1.0, dtype: Any = dd.float32) -> list[float]:
    """The parameter after each gradient, through one compiled update."""
    update = dd.defn(optimizer.update)
    params: Any = {"w": dd.array([w], dtype)}
    state = optimizer.init(params)
    out = []
    for g in grads:
        params, state = update(params, {"w": dd.array([g], dtype)}, state)
        out.append(params["w"].item())
    assert int(state["step"]) == len(grads)
    assert update.traces == 1
    return out


@pytest.mark.parametrize(("momentum", "want"), [(0.0, [0.93, 0.8614]), (0.9, [0.93, 0.7984])])
def test_sgd_decays_with_and_without_momentum(momentum: float, want: list[float]) -> None:
    got = steps(O.SGD(0.1, momentum=momentum, weight_decay=0.2), [0.5, 0.5])
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sgd_nesterov() -> None:
    w, v, want = 1.0, 0.0, []
    for g in (0.5, -0.2, 0.1):
        v = 0.9 * v - 0.1 * g
        w += 0.9 * v - 0.1 * g
        want.append(w)
    np.testing.assert_allclose(steps(O.SGD(0.1, 0.9, nesterov=True), [0.5, -0.2, 0.1]), want, rtol=1e-6)


def test_adam_is_kerass_form() -> None:
    # The "epsilon hat" form, as documented.
    want = [0.9387425886722793, 0.9072069581973083, 0.8639109147299384]
    np.testing.assert_allclose(steps(O.Adam(0.1, epsilon=1e-2), [0.5, -0.1, 0.3]), want, rtol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_by_hand_for_many_steps(decay: float) -> None:
    rng = np.random.default_rng(0)
    grads = rng.standard_normal(40)
    w, m, v, want = 1.0, 0.0, 0.0, []
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w -= 0.01 * decay * w
        w -= 0.01 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (math.sqrt(v) + 1e-7)
        want.append(w)
    optimizer = O.AdamW(0.01, weight_decay=decay) if decay else O.Adam(0.01)
    np.testing.assert_allclose(steps(optimizer, list(grads)), want, rtol=3e-6)
    np.testing.assert_allclose(steps(optimizer, list(grads), dtype=dd.float64), want, rtol=1e-7)


def test_a_learning_rate_may_depend_on_the_step() -> None:
    got = steps(O.SGD(lambda step: 1.0 / (1.0 + dd.astype(step, dd.float32))), [0.1, 0.1, 0.1])
    np.testing.assert_allclose(got, [0.9, 0.85, 0.85 - 0.1 / 3], rtol=1e-6)


def test_the_learning_rate_is_state() -> None:
    sgd = O.SGD(0.1)
    params = dd.array(1.0)
    state = sgd.init(params)
    state["learning_rate"] = dd.array(0.5)
    np.testing.assert_allclose(sgd.update(params, dd.array(1.0), state)[0], 0.5)


def clip(grads: Any, norm: float) -> Any:
    return {k: np.asarray(v).tolist() for k, v in O.clip_by_global_norm(grads, norm).items()}


def test_clipping_keeps_the_direction() -> None:
    grads = {"a": dd.array([3.0, 4.0]), "b": dd.array([12.0])}
    got = clip(grads, 1.0)
    np.testing.assert_allclose(got["a"], [3 / 13, 4 / 13], rtol=1e-6)
    np.testing.assert_allclose(got["b"], [12 / 13], rtol=1e-6)
    for norm in (13.0, 100.0):
        assert clip(grads, norm) == {"a": [3.0, 4.0], "b": [12.0]}


def test_clipping_of_zeros_and_of_what_is_not_finite() -> None:
    zeros = {"a": dd.zeros(2), "b": dd.zeros(())}
    for norm in (1.0, 0.0):
        assert clip(zeros, norm) == {"a": [0.0, 0.0], "b": 0.0}
    for bad in (math.inf, math.nan):
        assert np.isnan(clip({"a": dd.array([bad, 1.0])}, 1.0)["a"]).all()
    np.testing.assert_allclose(clip({"a": dd.array([3e30, 4e30])}, 1.0)["a"], [0.6, 0.8], rtol=1e-6)
    got = steps(O.SGD(1.0, global_clipnorm=1.0), [4.0])
    np.testing.assert_allclose(got, [0.0], atol=1e-6)


def test_wrong_options_are_refused() -> None:
    for make in (lambda: O.SGD(-1.0), lambda: O.SGD(0.1, momentum=2), lambda: O.Adam(beta_1=1.0), lambda: O.get("x")):
        with pytest.raises(dd.ArgumentError):
            make()
    sgd = O.SGD(0.1)
    with pytest.raises(dd.ArgumentTypeError, match="structure"):
        sgd.update({"a": dd.array(1.0)}, {"b": dd.array(1.0)}, sgd.init({"a": dd.array(1.0)}))
