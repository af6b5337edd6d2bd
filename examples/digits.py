"""Trains a small convolutional network on handwritten digits, and ships it as one file.

    python digits.py [digits.dala] [--rows ROWS.f32] [--epochs N] [--seed N]

The 1,797 images are put in the order of NumPy's ``default_rng(0).permutation``; the first 1,437 are trained on, the
other 360 are the test set. The same seed gives the same numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import dala_defn as dd
from dala_defn import layers

TRAIN = 1437


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Train and test images, as rows of 64 grey values from 0 to 16, with their labels."""
    with np.load(Path(__file__).resolve().parent / "data" / "digits.npz") as data:
        x = data["images"].reshape(-1, 64).astype(np.float32)
        y = data["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:TRAIN], order[TRAIN:]
    return x[train], y[train], x[test], y[test]


def network(seed: int) -> dd.Sequential:
    return dd.Sequential(
        [
            dd.Input((64,), name="pixels"),
            layers.Rescaling(1 / 16),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ],
        name="digits",
        seed=seed,
    )


def confusion(labels: np.ndarray, classes: np.ndarray) -> str:
    """How often each digit (a row) was taken for each (a column)."""
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, classes), 1)
    lines = ["      " + " ".join(f"{i:>3}" for i in range(10))]
    lines += [f"  {i:>3} " + " ".join(f"{n:>3}" if n else "  ." for n in row) for i, row in enumerate(counts)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains on handwritten digits and exports the model.")
    parser.add_argument("path", nargs="?", default="digits.dala", help="where the model is written")
    parser.add_argument("--rows", metavar="FILE", help="also write the test images as little-endian float32 rows")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    x_train, y_train, x_test, y_test = digits()
    model = network(options.seed)
    model.summary()
    model.compile(
        optimizer=dd.optimizers.Adam(2e-3),
        loss=dd.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    began = time.perf_counter()
    history = model.fit(x_train, y_train, batch_size=32, epochs=options.epochs, seed=options.seed)
    seconds = time.perf_counter() - began
    losses = history.history["loss"]
    print(f"training loss: {losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last")

    scores = model.predict(x_test)
    classes = np.argmax(scores, axis=1)
    print("confusion matrix (rows: the digit, columns: what it was taken for)")
    print(confusion(y_test, classes))
    accuracy = model.evaluate(x_test, y_test, return_dict=True)["accuracy"]
    print(f"test accuracy: {100 * accuracy:.2f} %")

    model.export(options.path, training=True)
    again = np.asarray(dd.load(options.path)["predict"](x_test))
    if not np.array_equal(scores, again):
        raise SystemExit("the exported model predicts something else")
    print(f"{options.path}: written and read back, its predictions are equal")
    if options.rows:
        x_test.astype("<f4").tofile(options.rows)
        print(f"{options.rows}: {len(x_test)} rows of {x_test.shape[1]}")
    print(f"trained in {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
