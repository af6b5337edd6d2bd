"""Training: exact means, one call a step, the same numbers again, saving, export."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dala_defn as dd
from dala_defn.bridge import call_count
from dala_defn.training.progress import Progress

L = dd.layers


def of_target(y: Any, p: Any) -> Any:
    """A loss whose value is the target itself."""
    return y[:, 0] + 0 * p[:, 0]


def recorder(losses: list[float], metrics: Any = ()) -> tuple[dd.Sequential, Any, Any]:
    """A model with the given per-sample losses."""
    model = dd.Sequential([dd.Input((1,)), L.Dense(1)])
    model.compile(dd.optimizers.SGD(0.0), of_target, metrics)
    return model, np.ones((len(losses), 1), np.float32), np.array(losses, np.float32)[:, None]


def data(n: int = 20, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)).astype(np.float32)
    return x, (x[:, :1] - 2 * x[:, 1:2] + 0.5).astype(np.float32)


def network(seed: int = 0, dropout: float = 0.0) -> dd.Sequential:
    return dd.Sequential([dd.Input((4,)), L.Dense(8, activation="tanh"), L.Dropout(dropout), L.Dense(1)], seed=seed)


def arrays(tree: Any) -> list[Any]:
    return [np.asarray(x) for x in dd.trees.flatten(tree)[0]]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_means_are_over_samples(batch_size: int) -> None:
    hits = dd.metrics.Metric(lambda y, p: (y[:, 0] > 5) * 1.0, "hit")
    for losses, mean in (([8.0, 6.0, 1.0], 5.0), ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3.0)):
        model, x, y = recorder(losses, [hits])
        history = model.fit(x, y, batch_size=batch_size, validation_data=(x, y), verbose=0).history
        share = sum(v > 5 for v in losses) / len(losses)
        want = {"loss": [mean], "hit": [share], "val_loss": [mean], "val_hit": [share]}
        assert set(history) == set(want)
        assert all(history[name] == pytest.approx(x, rel=1e-6) for name, x in want.items())
        assert model.evaluate(x, y, batch_size) == pytest.approx([mean, share], rel=1e-6)


def test_class_weights_divide_by_the_samples() -> None:
    def loss(y: Any, p: Any) -> Any:
        return dd.astype(y, dd.float32) * 0 + dd.take(dd.array([1.0, 2.0, 3.0, 4.0]), y) + 0 * p[:, 0]

    # The targets are the labels; sample i of class [0, 1, 1, 2][i] has the loss [1, 2, 2, 3][i].
    model = dd.Sequential([dd.Input((1,)), L.Dense(3)])
    model.compile(dd.optimizers.SGD(0.0), loss)
    x, labels = np.ones((4, 1), np.float32), np.array([0, 1, 1, 2], np.int32)

    def fitted(weights: Any, **more: Any) -> float:
        return model.fit(x, labels, batch_size=3, verbose=0, class_weight=weights, **more).history["loss"][0]

    assert fitted({0: 2.0, 1: 0.25}) == (2 * 1 + 0.25 * 2 + 0.25 * 2 + 3) / 4
    assert fitted({}) == fitted(None) == 2.0
    assert fitted({0: 0.0, 1: 0.0, 2: 0.0}) == 0.0
    assert fitted({0: 2.0}, sample_weight=[1, 0, 0, 1]) == (2 + 3) / 4
    assert model.evaluate(x, labels, sample_weight=[2, 0.25, 0.25, 1]) == (2 * 1 + 0.25 * 2 + 0.25 * 2 + 3) / 4
    before = arrays(model.params)
    for bad in ({"one": 0.5}, {7: 1.0}, {0: -1.0}, {0: float("nan")}, {True: 1.0}, {0: "x"}):
        with pytest.raises(ValueError):
            fitted(bad)
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays(model.params), strict=True))


def test_the_given_weighted_losses() -> None:
    model = dd.Sequential([dd.Input((1,)), L.Dense(1)])
    model.compile(dd.optimizers.SGD(0.0), of_target)
    y = np.array([[1], [2], [3], [4]], np.float32)
    got = model.fit(np.ones((4, 1)), y, sample_weight=[2.0, 0.25, 0.25, 1.0], verbose=0).history["loss"]
    assert got == [1.8125]


def test_sgd_training_by_hand_in_float64() -> None:
    x, y = data(10)
    model = dd.Sequential([dd.Input((4,)), L.Dense(1)])
    w, b = (v.astype(np.float64) for v in model.get_weights())
    model.compile(dd.optimizers.SGD(0.05, momentum=0.9), "mse")
    losses = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0).history["loss"]
    vw, vb, want = np.zeros_like(w), np.zeros_like(b), []
    for _ in range(3):
        total = 0.0
        for at in (0, 4, 8):
            xb, yb = x[at : at + 4].astype(np.float64), y[at : at + 4]
            r = xb @ w + b - yb
            total += (r**2).sum()
            vw, vb = 0.9 * vw - 0.05 * 2 * xb.T @ r / len(r), 0.9 * vb - 0.05 * 2 * r.mean(0)
            w, b = w + vw, b + vb
        want.append(total / 10)
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5)


def test_the_reference_trains_to_the_same_numbers() -> None:
    x, y = data(10)
    out = {}
    for name in ("flex", "reference"):
        with dd.using(name):
            model = dd.Sequential(
                [
                    dd.Input((4,)),
                    L.Reshape((2, 2, 1)),
                    L.Conv2D(3, 2, padding="same", activation="relu"),
                    L.MaxPooling2D(2),
                    L.Flatten(),
                    L.Dropout(0.3),
                    L.Dense(1),
                ]
            )
            model.compile(dd.optimizers.Adam(0.01), "mse")
            losses = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history["loss"]
            out[name] = (losses, model.get_weights(), model.predict(x))
    np.testing.assert_allclose(out["flex"][0], out["reference"][0], rtol=1e-4)
    np.testing.assert_allclose(out["flex"][2], out["reference"][2], rtol=1e-3, atol=1e-4)
    for a, b in zip(out["flex"][1], out["reference"][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_step_is_one_call_into_the_runtime() -> None:
    x, y = data(64)
    model = network(dropout=0.5)
    model.compile("adam", "mse", ["mae"])
    model.fit(x, y, batch_size=8, verbose=0)

    def calls(epochs: int) -> int:
        before = call_count()
        model.fit(x, y, batch_size=8, epochs=epochs, verbose=0)
        return call_count() - before

    assert calls(3) - calls(2) == 8


def test_the_same_seed_gives_the_same_numbers() -> None:
    x, y = data(30)

    def run(seed: int) -> Any:
        model = network(dropout=0.4)
        model.compile("adam", "mse")
        return model.fit(x, y, batch_size=7, epochs=3, seed=seed, verbose=0).history["loss"], model.get_weights()

    first, second, other = run(1), run(1), run(2)
    assert first[0] == second[0] and first[0] != other[0]
    assert all(np.array_equal(a, b) for a, b in zip(first[1], second[1], strict=True))


def test_batches_of_one_and_odd_sizes_are_steps_like_others() -> None:
    x, y = data(5)
    for size in (1, 2, 4, 5, 9):
        model = network()
        model.compile(dd.optimizers.SGD(0.01), "mse")
        history = model.fit(x, y, batch_size=size, epochs=4, verbose=0).history["loss"]
        assert history[-1] < history[0]
    assert model.predict(x, batch_size=2).shape == (5, 1)
    np.testing.assert_allclose(model.predict(x, batch_size=2), model.predict(x), rtol=1e-5, atol=1e-6)
    assert model.predict(x[:0]).shape == (0, 1)


def test_params_handed_out_stay_as_they_are() -> None:
    x, y = data()
    model = network()
    model.compile("adam", "mse")
    held = model.params
    before = [a.copy() for a in arrays(held)]
    model.fit(x, y, verbose=0, epochs=2)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(held), before, strict=True))
    assert not np.array_equal(arrays(model.params)[1], before[1])


def test_a_failed_step_leaves_the_last_finished_one() -> None:
    x = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 7], np.int32)  # the last batch fails
    model = dd.Sequential([dd.Input((2,)), L.Dense(3)])
    twin = dd.Sequential([dd.Input((2,)), L.Dense(3)])
    for m in (model, twin):
        m.compile(dd.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    with pytest.raises(dd.IndexOutOfRange):
        model.fit(x, labels, batch_size=3, shuffle=False, verbose=0)
    twin.fit(x[:6], labels[:6], batch_size=3, shuffle=False, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), twin.get_weights(), strict=True))
    for m in (model, twin):
        m.fit(x[:6], labels[:6], batch_size=3, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), twin.get_weights(), strict=True))


def test_what_is_not_trainable_stays() -> None:
    x, y = data()
    model = network()
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    model.layers[0].trainable = False
    before = model.get_weights()
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    after = model.get_weights()
    assert np.array_equal(before[0], after[0]) and not np.array_equal(before[2], after[2])
    lines: list[str] = []
    model.summary(lines.append)
    assert "Non-trainable params: 40" in lines[0]
    model.trainable = False
    model.compile("sgd", "mse")
    with pytest.raises(dd.ArgumentError, match="nothing to train"):
        model.fit(x, y, verbose=0)


def test_validation_split_takes_the_end_and_early_stopping_stops() -> None:
    model, x, y = recorder([1.0, 1.0, 1.0, 5.0])
    stop = dd.callbacks.EarlyStopping(patience=2)
    history = model.fit(x, y, epochs=50, validation_split=0.25, callbacks=[stop], verbose=0)
    assert history.history["val_loss"] == [5.0] * 3 and history.history["loss"] == [1.0] * 3
    assert history.epoch == [0, 1, 2] and stop.stopped_epoch == 2
    with pytest.raises(dd.ArgumentError, match="no 'val_loss'"):
        model.fit(x, y, callbacks=[dd.callbacks.EarlyStopping()], verbose=0)


def test_early_stopping_gives_the_best_weights_back() -> None:
    x, y = data()
    model = network()
    model.compile(dd.optimizers.SGD(5.0), "mse")  # diverges
    stop = dd.callbacks.EarlyStopping(monitor="loss", patience=1, restore_best_weights=True)
    model.fit(x, y, epochs=9, callbacks=[stop], verbose=0)
    assert stop.best_epoch < 8


def test_the_learning_rate_can_be_set_between_epochs() -> None:
    x, y = data()

    class Stop(dd.callbacks.Callback):
        def on_epoch_begin(self, epoch: int) -> None:
            if epoch == 1:
                self.model.optimizer.learning_rate = 0.0

    model = network()
    model.compile(dd.optimizers.SGD(0.1), "mse")
    losses = model.fit(x, y, epochs=4, batch_size=20, callbacks=[Stop()], verbose=0).history["loss"]
    assert losses[0] != losses[1] == pytest.approx(losses[3], rel=1e-6)


def test_several_inputs_and_outputs_train_together() -> None:
    a, b = dd.Input((2,), name="a"), dd.Input((2,), name="b")
    shared = L.Dense(3, activation="relu", name="shared")
    joined = L.Concatenate()([shared(a), shared(b)])
    model = dd.Model([a, b], [L.Dense(1, name="value")(joined), L.Dense(2, name="kind")(joined)])
    model.compile(
        "adam",
        {"value": "mse", "kind": dd.losses.SparseCategoricalCrossentropy(from_logits=True)},
        {"kind": ["accuracy"]},
    )
    rng = np.random.default_rng(0)
    x = {"a": rng.standard_normal((11, 2)), "b": rng.standard_normal((11, 2))}
    y = {"value": rng.standard_normal((11, 1)), "kind": rng.integers(0, 2, 11)}
    logs = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history
    assert set(logs) == {"loss", "value_loss", "kind_loss", "kind_accuracy"}
    got = model.evaluate(x, y, batch_size=3, return_dict=True)
    assert got["loss"] == pytest.approx(got["value_loss"] + got["kind_loss"])
    values = model.predict(x)[0]
    assert got["value_loss"] == pytest.approx(((values - y["value"]) ** 2).mean(), rel=1e-5)


def nested() -> dd.Model:
    inner = dd.Sequential([dd.Input((6, 6, 1)), L.Conv2D(10, 3, name="c"), L.Conv2D(10, 1)], name="inner")
    mid = dd.Sequential([dd.Input((6, 6, 1)), inner, L.Flatten()], name="mid")
    x = dd.Input((6, 6, 1))
    return dd.Model(x, L.Dense(2)(mid(x)), seed=int(np.random.default_rng().integers(1 << 30)))


def test_weights_of_nested_models_survive(tmp_path: Path) -> None:
    first, second = nested(), nested()
    x = np.random.default_rng(0).standard_normal((3, 6, 6, 1)).astype(np.float32)
    assert not np.array_equal(first.predict(x), second.predict(x))
    first.save_weights(tmp_path / "w.safetensors")
    second.load_weights(tmp_path / "w.safetensors")
    assert list(first.params["mid"]["inner"]) == ["c", "conv2d"]
    assert all(np.array_equal(a, b) for a, b in zip(arrays(first.params), arrays(second.params), strict=True))
    assert np.array_equal(first.predict(x), second.predict(x))
    first.export(tmp_path / "m.dala")
    assert np.array_equal(dd.load(tmp_path / "m.dala")(x), first.predict(x))


def test_weights_keep_their_dtypes(tmp_path: Path) -> None:
    class Mixed(L.Layer):
        def build(self, key: Any, spec: Any) -> Any:
            return {
                "half": dd.random.normal(dd.random.fold_in(key, 1), (3,), dd.float16),
                "full": dd.random.normal(key, (3,)),
                "wide": dd.ones(2, dd.bfloat16),
            }

        def build_state(self, spec: Any) -> Any:
            return {"count": dd.array([1, -2], dd.int8), "on": dd.array([True, False])}

        def call(self, params: Any, state: Any, x: Any, *, key: Any = None, training: bool = False) -> Any:
            return x + params["full"] + dd.astype(params["half"], dd.float32), state

    def make(seed: int) -> dd.Sequential:
        return dd.Sequential([dd.Input((3,)), Mixed()], seed=seed)

    first, second = make(1), make(2)
    first.save_weights(tmp_path / "w.safetensors")
    second.load_weights(tmp_path / "w.safetensors")
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    assert [w.dtype for w in second.get_weights()] == [np.float16, np.float32, dd.bfloat16.dtype, np.int8, np.bool_]


def test_files_that_do_not_fit_are_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    model, other = network(), dd.Sequential([dd.Input((4,)), L.Dense(7), L.Dense(1)])
    model.save_weights(path)
    before = other.get_weights()
    with pytest.raises(dd.ShapeError, match="dense/kernel is f32"):
        other.load_weights(path)
    with pytest.raises(dd.ArgumentError, match="lacks dense_2/"):
        dd.Sequential([dd.Input((4,)), L.Dense(8), L.Dense(1), L.Dense(1)]).load_weights(path)
    assert all(np.array_equal(a, b) for a, b in zip(before, other.get_weights(), strict=True))
    whole = path.read_bytes()
    for cut in range(0, len(whole), 64):
        path.write_bytes(whole[:cut])
        with pytest.raises(dd.FileFormatError):
            model.load_weights(path)
    with pytest.raises(dd.FileError):
        model.load_weights(tmp_path / "none")


def row(shape: Any, offsets: Any, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"t": row([600, 500], [0, 1200000])}, "'t': 1200000 bytes are needed"),
        ({"t": row([600, 500], [0, 8])}, "'t': 1200000 bytes are needed"),
        ({"t": row([1], [8, 4])}, "'t'"),
        ({"t": row([1], [0, 4]), "u": row([1], [2, 6])}, "'u': .* overlap"),
        ({"t": row([-1, 4], [0, 8])}, "'t': shape .* no sizes"),
        ({"t": row([2**40, 2**40], [0, 8])}, "'t'"),
        ({"t": row([1], [0, 4])}, "4 bytes after the last tensor"),
        ({"t": row([1], [0, 8], "X9")}, "'t': unknown dtype"),
        ({"t": 5}, "'t'"),
        ([1], "no JSON object"),
    ],
)
def test_hostile_weight_files_are_refused_by_name(tmp_path: Path, rows: Any, said: str) -> None:
    text = json.dumps(rows).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(dd.FileFormatError, match=said):
        network().load_weights(path)
    path.write_bytes((2**60).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(dd.FileFormatError, match="the header claims"):
        network().load_weights(path)


def test_other_tools_read_the_weights(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    model = network()
    model.save_weights(tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    assert set(found) == {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}
    assert np.array_equal(found["dense/kernel"], model.get_weights()[0])


def test_an_exported_model_trains_on(tmp_path: Path) -> None:
    x, y = data(24)
    model = network(dropout=0.3)
    model.compile(dd.optimizers.Adam(0.01), "mse", ["mae"])
    model.fit(x, y, batch_size=8, verbose=0, seed=0)
    path = tmp_path / "m.dala"
    model.export(path, batch="rows", training=True)
    loaded = dd.load(path)
    assert set(loaded.entries) == {"predict", "train_step", "evaluate"}
    assert "f32[rows, 4]" in repr(loaded["predict"])
    assert np.array_equal(loaded["predict"](x), model.predict(x))
    before = loaded["evaluate"](x, y)
    want = model.evaluate(x, y, return_dict=True)
    assert {k: v.item() for k, v in before.items()} == pytest.approx(want, rel=1e-6)
    for _ in range(3):
        loaded["train_step"](x[:8], y[:8])
        model.fit(x[:8], y[:8], batch_size=8, shuffle=False, verbose=0, seed=0)
    assert loaded.state("optimizer/step").item() == 6
    assert np.array_equal(loaded["predict"](x), model.predict(x))
    assert loaded["evaluate"](x, y)["loss"].item() < before["loss"].item()
    with pytest.raises(dd.ArgumentError, match="not compiled"):
        network().export(path, training=True)


def test_tied_weights_are_one_tensor(tmp_path: Path) -> None:
    shared = L.Dense(4, name="tied")
    inner = dd.Sequential([dd.Input((4,)), shared], name="inner")
    model = dd.Sequential([dd.Input((4,)), shared, inner])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    model.fit(x, x, verbose=0)
    model.export(tmp_path / "m.dala", training=True)
    loaded = dd.load(tmp_path / "m.dala")
    assert set(loaded.program.tensors) >= {"tied/kernel", "tied/bias"}
    assert loaded.program.aliases == {"inner/tied/kernel": "tied/kernel", "inner/tied/bias": "tied/bias"}
    assert np.array_equal(loaded["predict"](x), model.predict(x))
    kernel = model.get_weights()[0]
    np.testing.assert_allclose(model.predict(x), np.asarray(shared(shared(x))), rtol=1e-6)
    assert len(model.get_weights()) == 2 and kernel.shape == (4, 4)
    assert np.array_equal(model.params["tied"]["kernel"], model.params["inner"]["tied"]["kernel"])


def test_wrong_data_is_refused_before_the_first_step() -> None:
    x, y = data()
    model = network()
    with pytest.raises(dd.ArgumentError, match="not compiled"):
        model.fit(x, y, verbose=0)
    model.compile("sgd", "mse")
    for bad, error in (
        (lambda: model.fit(x[:3], y, verbose=0), dd.ShapeError),
        (lambda: model.fit(x[:, :3], y, verbose=0), dd.ShapeError),
        (lambda: model.fit(x, np.ones((20, 2)), verbose=0), dd.ShapeError),
        (lambda: model.fit(x, y, batch_size=0, verbose=0), dd.ArgumentError),
        (lambda: model.fit(x[:0], y[:0], verbose=0), dd.ArgumentError),
        (lambda: model.fit(x, y, validation_split=1.0, verbose=0), dd.ArgumentError),
        (lambda: model.fit(x, y, sample_weight=[1.0], verbose=0), dd.ShapeError),
        (lambda: model.fit(["a"], ["b"], verbose=0), dd.ArgumentTypeError),
        (lambda: model.compile("sgd", "nope"), dd.ArgumentError),
        (lambda: model.compile("nope", "mse"), dd.ArgumentError),
    ):
        with pytest.raises(error):
            bad()
    model.compile("sgd", lambda y, p: dd.mean(y - p))
    with pytest.raises(dd.ShapeError, match="one number a sample"):
        model.fit(x, y, verbose=0)


def test_a_sequential_without_input_takes_the_shape_of_the_data() -> None:
    x, y = data()
    model = dd.Sequential([L.Dense(3), L.Dense(1)])
    lines: list[str] = []
    model.summary(lines.append)
    assert "not built" in lines[0]
    with pytest.raises(dd.ArgumentError, match="not built"):
        model.get_weights()
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    assert model.predict(x).shape == (20, 1)
    model.add(L.Dense(2))
    assert model.predict(x).shape == (20, 2)


def test_the_summary_is_a_table() -> None:
    lines: list[str] = []
    network().summary(lines.append)
    assert lines == [
        "Model: sequential\n"
        "---------------------------------------\n"
        "Layer (type)       Output shape  Params\n"
        "---------------------------------------\n"
        "input (Input)      (None, 4)          0\n"
        "dense (Dense)      (None, 8)         40\n"
        "dropout (Dropout)  (None, 8)          0\n"
        "dense_1 (Dense)    (None, 1)          9\n"
        "---------------------------------------\n"
        "Total params: 49\n"
        "Trainable params: 49\n"
        "Non-trainable params: 0"
    ]


def test_progress_is_a_line_an_epoch_where_there_is_no_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def shown(verbose: int, stream: io.StringIO) -> str:
        p = Progress(verbose, 3, 10, stream)
        p.start(0)
        if p.live:
            p.step(5, {"loss": 0.5})
        p.end({"loss": 0.25})
        return stream.getvalue()

    assert shown(0, Terminal()) == ""
    plain = shown(1, io.StringIO())
    assert plain.startswith("epoch 1/3 10 steps") and plain.endswith("loss 0.2500\n") and plain.count("\n") == 1
    live = shown(1, Terminal())
    assert live.count("\r") == 2 and "[============            ] 5/10" in live


def test_fit_writes_to_standard_error_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = recorder([1.0])
    model.fit(x, y, verbose=0)
    assert capsys.readouterr() == ("", "")
    model.fit(x, y)
    out, err = capsys.readouterr()
    assert out == "" and "epoch 1/1" in err


def test_a_weights_gradient_is_made_where_it_lies() -> None:
    graph = dd.defn(dd.grad(lambda w, x: dd.sum(dd.square(x @ w)))).lower(dd.spec((3, 2)), dd.spec(("b", 3)))
    assert not [n for n in graph.nodes if n.op == "transpose" and n.inputs[0].type.shape == (2, 3)]


def test_a_model_without_an_input_has_a_repr() -> None:
    model = dd.Sequential([L.Dense(1)])
    assert repr(model) == "<Sequential : no input yet>"
    model.predict(np.ones((1, 2), np.float32))
    assert repr(model) == "<Sequential : 1 layers>"


@pytest.mark.parametrize("epochs", [-1, 1.5, True])
def test_epochs_are_a_whole_number(epochs: Any) -> None:
    model, x, y = recorder([1.0])
    with pytest.raises(dd.ArgumentError, match="epochs"):
        model.fit(x, y, epochs=epochs, verbose=0)
