"""Layers against NumPy in float64, their names, their errors, and models as layers."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd

L = dd.layers


def close(got: Any, want: Any, rtol: float = 2e-6) -> None:
    want = np.asarray(want)
    assert np.asarray(got).shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, float(np.abs(want).max(initial=0))))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_dense_is_a_product_and_a_bias(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 3)).astype(np.float32)
    layer = L.Dense(4, activation="tanh")
    y = layer(x)
    kernel, bias = (w.astype(np.float64) for w in layer.get_weights())
    close(y, np.tanh(x.astype(np.float64) @ kernel + bias))
    assert (bias == 0).all() and layer.count_params() == 16
    assert L.Dense(2, use_bias=False)(x).shape == (5, 2)
    assert L.Dense(2)(rng.standard_normal((2, 7, 3)).astype(np.float32)).shape == (2, 7, 2)
    assert L.Dense(2)(np.ones((2, 3), np.uint8)).dtype is dd.float32


def convolution(x: Any, w: Any, strides: Any, pads: Any, dilation: Any, groups: int) -> Any:
    """By explicit loops in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    n, height, width, _ = x.shape
    kh, kw, per, filters = w.shape
    rows = (height - dilation[0] * (kh - 1) - 1) // strides[0] + 1
    columns = (width - dilation[1] * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((n, rows, columns, filters))
    for i in range(rows):
        for j in range(columns):
            for f in range(filters):
                first = f // (filters // groups) * per
                for a in range(kh):
                    for b in range(kw):
                        row, column = i * strides[0] + a * dilation[0], j * strides[1] + b * dilation[1]
                        part = x[:, row, column, first : first + per]
                        out[:, i, j, f] += part @ w[a, b, :, f].astype(np.float64)
    return out


@pytest.mark.parametrize(
    ("options", "pads"),
    [
        ({"kernel_size": 3}, [(0, 0), (0, 0)]),
        ({"kernel_size": (2, 3), "strides": (2, 1)}, [(0, 0), (0, 0)]),
        ({"kernel_size": 3, "padding": "same"}, [(1, 1), (1, 1)]),
        ({"kernel_size": 2, "padding": "same", "strides": 2}, [(0, 1), (0, 0)]),
        ({"kernel_size": 3, "dilation_rate": 2}, [(0, 0), (0, 0)]),
        ({"kernel_size": 2, "groups": 2}, [(0, 0), (0, 0)]),
    ],
)
def test_conv2d_is_what_loops_give(rng: np.random.Generator, options: dict[str, Any], pads: Any) -> None:
    x = rng.standard_normal((2, 7, 6, 4)).astype(np.float32)
    layer = L.Conv2D(6, **options, bias_initializer=dd.initializers.constant(0.5))
    y = layer(x)
    w, bias = layer.get_weights()
    pair = {k: (v, v) if isinstance(v, int) else v for k, v in options.items()}
    want = convolution(
        x, w, pair.get("strides", (1, 1)), pads, pair.get("dilation_rate", (1, 1)), options.get("groups", 1)
    )
    close(y, want + bias)


@pytest.mark.parametrize(("padding", "rows", "columns"), [("valid", 2, 2), ("same", 3, 2)])
def test_pooling_is_what_loops_give(rng: np.random.Generator, padding: str, rows: int, columns: int) -> None:
    x = rng.standard_normal((2, 5, 4, 3)).astype(np.float32)
    highest = np.full((2, rows, columns, 3), -np.inf)
    mean = np.zeros((2, rows, columns, 3))
    for i in range(rows):
        for j in range(columns):
            part = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].astype(np.float64)
            highest[:, i, j], mean[:, i, j] = part.max((1, 2)), part.mean((1, 2))
    close(L.MaxPooling2D(2, padding=padding)(x), highest)
    close(L.AveragePooling2D(2, padding=padding)(x), mean)


def test_layers_that_change_shapes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(L.Flatten()(x), x.reshape(2, 12))
    assert np.array_equal(L.Reshape((4, -1))(x), x.reshape(2, 4, 3))
    assert np.array_equal(L.Concatenate()([x, x]), np.concatenate([x, x], -1))
    assert np.array_equal(L.Add()([x, x, x]), 3 * x)
    assert np.array_equal(L.Lambda(lambda x: x[:, 0])(x), x[:, 0])
    close(L.Rescaling(1 / 255, 1)(np.array([[0, 255]], np.uint8)), [[1.0, 2.0]])
    assert dd.Sequential([dd.Input((None, 4)), L.Reshape((2, -1, 2))]).predict(x).shape == (2, 2, 3, 2)
    with pytest.raises(dd.ShapeError, match="12 elements"):
        L.Reshape((5,))(x)


def test_dropout_thins_and_scales_while_training_only() -> None:
    x = np.ones((100, 200), np.float32)
    layer = L.Dropout(0.25)
    assert np.array_equal(layer(x), x)
    y = np.asarray(layer(x, key=dd.random.key(1), training=True))
    assert set(np.unique(y).tolist()) == {0.0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / y.size)
    assert np.array_equal(y, layer(x, key=dd.random.key(1), training=True))
    assert np.isfinite(np.asarray(layer(x * np.inf, key=dd.random.key(1), training=True))[y == 0]).all()
    assert not np.asarray(L.Dropout(1.0)(x, key=dd.random.key(1), training=True)).any()
    with pytest.raises(dd.ArgumentError, match="key"):
        layer(x, training=True)


class Counting(L.Layer):
    """Has state: how many samples it saw while training."""

    def build_state(self, spec: Any) -> Any:
        return {"seen": dd.zeros((), dd.float32)}

    def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> Any:
        if training:
            state = {"seen": state["seen"] + dd.sum(dd.ones_like(x[:, 0]))}
        return x, state


def test_a_layer_of_ones_own_with_state() -> None:
    layer = Counting()
    layer(dd.ones((3, 2)))
    assert layer.state["seen"].item() == 0
    layer(dd.ones((3, 2)), training=True)
    assert layer.state["seen"].item() == 3
    model = dd.Sequential([dd.Input((2,)), Counting(name="count"), L.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((5, 2), np.float32), np.ones((5, 1), np.float32), batch_size=2, epochs=2, verbose=0)
    assert model.state["count"]["seen"].item() == 10
    assert set(model.params) == {"dense"}


def test_build_and_call_are_pure(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 3)).astype(np.float32)
    layer = L.Dense(2)
    params = layer.build(dd.random.key(0), dd.spec((4, 3)))

    @dd.defn
    def loss(params: Any) -> Any:
        y, _ = layer.call(params, {}, x)
        return dd.sum(y * y)

    grads = dd.grad(loss)(params)
    close(grads["kernel"], 2 * x.T.astype(np.float64) @ (x @ np.asarray(params["kernel"])), 1e-5)
    assert not layer.built


def test_names_are_unique_and_the_users_own_are_kept() -> None:
    a, b, c = L.Dense(1), L.Dense(1, name="dense_1"), L.Dense(1)
    model = dd.Sequential([dd.Input((1,)), a, b, c])
    assert list(model.names.values()) == ["dense", "dense_1", "dense_2"]
    assert model.get_layer("dense_1") is b
    again = dd.Sequential([dd.Input((1,)), L.Dense(1), L.Dense(1)])
    assert list(again.names.values()) == ["dense", "dense_1"]
    with pytest.raises(dd.ArgumentError, match="two layers have the name 'd'"):
        dd.Sequential([dd.Input((1,)), L.Dense(1, name="d"), L.Dense(2, name="d")])
    with pytest.raises(dd.ArgumentError, match="no name for a layer"):
        dd.Sequential([dd.Input((1,)), L.Dense(1, name="a/b")])


def test_a_wrong_shape_names_the_layer_and_both_lines() -> None:
    layer = L.Dense(3, name="head")
    layer(dd.Input((4,)))
    with pytest.raises(dd.ShapeError) as caught:
        layer(dd.Input((5,)))
    error = caught.value
    assert error.details["layer"] == "head"
    assert "head = Dense(units=3)  made at test_layers.py:" in str(error)
    assert error.location is not None and error.location.file == __file__ and "[head]" in str(error)
    assert "argument kernel" in str(error)
    with pytest.raises(dd.ShapeError, match="Conv2D takes") as caught:
        dd.Sequential([dd.Input((8, 8)), L.Conv2D(4, 3)])
    with pytest.raises(dd.ShapeError, match=r"input x takes f32\[b, 3\], not f32\[2, 4\]"):
        dd.Sequential([dd.Input((3,), name="x"), L.Dense(1)]).predict(np.ones((2, 4), np.float32))


@pytest.mark.parametrize(
    "make",
    [
        lambda: L.Dense(0),
        lambda: L.Dense(2.5),
        lambda: L.Dense(2, activation="nope"),
        lambda: L.Dense(2, kernel_initializer="nope"),
        lambda: L.Conv2D(4, (3, 3, 3)),
        lambda: L.Conv2D(4, 3, padding="full"),
        lambda: L.Conv2D(5, 3, groups=2),
        lambda: L.MaxPooling2D(0),
        lambda: L.Dropout(1.5),
    ],
)
def test_wrong_options_are_refused_at_the_users_line(make: Any) -> None:
    with pytest.raises(dd.ArgumentError) as caught:
        make()
    assert caught.value.location is not None and caught.value.location.file == __file__


def test_nodes_carry_the_path_of_their_layer() -> None:
    inner = dd.Sequential([dd.Input((2,)), L.Dense(2, name="deep")], name="inner")
    model = dd.Sequential([dd.Input((2,)), inner])
    graph = dd.defn(lambda x: model(x)).lower(dd.spec(("b", 2)))
    paths = {n.loc.path for n in graph.nodes if n.op == "dot_general" and n.loc is not None}
    assert paths == {"sequential/inner/deep"}


def test_shared_layers_and_several_inputs_and_outputs(rng: np.random.Generator) -> None:
    left, right = dd.Input((3,), name="left"), dd.Input((3,), name="right")
    shared = L.Dense(4, activation="relu", name="shared")
    both = L.Concatenate()([shared(left), shared(right)])
    model = dd.Model([left, right], {"sum": L.Dense(1)(both), "joined": both})
    a, b = (rng.standard_normal((5, 3)).astype(np.float32) for _ in range(2))
    kernel = np.asarray(model.params["shared"]["kernel"], np.float64)
    joined = np.concatenate([np.maximum(a @ kernel, 0), np.maximum(b @ kernel, 0)], 1)
    out = model.predict([a, b])
    close(out["joined"], joined)
    close(out["sum"], joined @ np.asarray(model.params["dense"]["kernel"], np.float64))
    close(model.predict({"left": a, "right": b})["joined"], joined)
    close(model([a, b])["joined"], joined)
    assert model.count_params() == 3 * 4 + 4 + 8 + 1
    with pytest.raises(dd.ArgumentTypeError, match="2 inputs"):
        model.predict([a, b, a])


def test_a_model_cut_out_of_another_shares_its_layers() -> None:
    x = dd.Input((2,))
    hidden = L.Dense(3)(x)
    whole = dd.Model(x, L.Dense(1)(hidden))
    part = dd.Model(x, hidden)
    whole.compile("sgd", "mse")
    data = np.ones((4, 2), np.float32)
    before = part.predict(data)
    whole.fit(data, np.zeros((4, 1), np.float32), verbose=0)
    assert not np.array_equal(before, part.predict(data))
    assert np.array_equal(part.params["dense"]["kernel"], whole.params["dense"]["kernel"])


def test_an_input_that_is_missing_is_named() -> None:
    a, b = dd.Input((2,), name="a"), dd.Input((2,), name="b")
    with pytest.raises(dd.ArgumentError, match="input 'b'"):
        dd.Model(a, L.Add()([a, b]))
    with pytest.raises(dd.ArgumentTypeError, match="symbols, not a Array"):
        dd.Model(a, dd.ones(2))
    with pytest.raises(dd.ArgumentTypeError, match="Lambda"):
        L.Add()([a, dd.ones((1, 2))])


def test_the_same_seed_gives_the_same_weights() -> None:
    def weights(seed: int) -> list[Any]:
        return dd.Sequential([dd.Input((3,)), L.Dense(4), L.Dense(2)], seed=seed).get_weights()

    assert all(np.array_equal(x, y) for x, y in zip(weights(1), weights(1), strict=True))
    assert not np.array_equal(weights(1)[0], weights(2)[0])


def test_weights_are_set_all_or_none() -> None:
    layer = L.Dense(2)
    layer(dd.ones((1, 3)))
    kernel, bias = layer.get_weights()
    with pytest.raises(dd.ShapeError):
        layer.set_weights([kernel * 0, np.zeros(3)])
    assert np.array_equal(layer.get_weights()[0], kernel)
    with pytest.raises(dd.ArgumentError, match="1 arrays for 2 weights"):
        layer.set_weights([kernel])
    layer.set_weights([kernel * 0, bias + 1])
    assert np.array_equal(layer(dd.ones((1, 3))), [[1.0, 1.0]])


def test_a_traced_function_sees_new_weights_of_a_layer() -> None:
    layer = L.Dense(1, use_bias=False)
    layer(dd.ones((1, 1)))
    f = dd.defn(lambda x: layer(x))
    f(dd.ones((1, 1)))
    layer.set_weights([np.array([[5.0]], np.float32)])
    assert f(dd.ones((1, 1))).item() == 5.0
    assert f.traces == 1


MODULES = [
    *"initializers losses metrics optimizers callbacks training.models".split(),
    *(f"layers.{p.stem}" for p in sorted((Path(dd.__file__).parent / "layers").glob("*.py")) if p.stem != "__init__"),
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(f"dala_defn.{module}"), extraglobs={"dd": dd})
    assert found.failed == 0
