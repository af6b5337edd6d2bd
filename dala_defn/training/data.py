"""Arrays as training reads them: checked once, weighted once, cut into batches without further thought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn.arguments import TensorSpec, spec
from dala_defn.array import Array
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions.base import dtype_of
from dala_defn.layers.symbols import BATCH

Numpy = np.ndarray[Any, Any]


def host(x: Any, what: str) -> Numpy:
    """An array-like as a contiguous NumPy array.

    Raises:
        ArgumentTypeError: when it is none. ShapeError: when it has no axis of samples.
    """
    if isinstance(x, Array):
        out = x.numpy()
    else:
        try:
            out = np.asarray(x)
        except ValueError as error:
            raise ArgumentTypeError(f"{what} is no array: {error}") from None
        if out.dtype == np.float64 and not hasattr(x, "dtype"):
            out = out.astype(np.float32)  # Python numbers have the default dtype
        elif out.dtype == np.int64 and not hasattr(x, "dtype"):
            out = out.astype(np.int32)
    if out.dtype.kind in "OSUMm":
        raise ArgumentTypeError(f"{what} holds {out.dtype}, not numbers")
    if out.ndim == 0:
        raise ShapeError(f"{what} is a single number", rule="the first axis is that of the samples")
    return np.ascontiguousarray(out)


class Data:
    """Inputs, targets and weights with the same number of samples."""

    def __init__(self, xs: Sequence[Numpy], ys: Sequence[Numpy], weights: Numpy | None = None) -> None:
        self.xs = list(xs)
        self.ys = list(ys)
        self.weights = weights
        sizes = {x.shape[0] for x in [*self.xs, *self.ys]}
        if len(sizes) != 1:
            raise ShapeError(
                f"different numbers of samples: x {[x.shape[0] for x in xs]}, y {[y.shape[0] for y in ys]}",
                rule="the first axis of every array is that of the samples",
            )
        self.n = sizes.pop()
        if weights is not None and weights.shape != (self.n,):
            raise ShapeError(f"sample_weight has the shape {weights.shape} for {self.n} samples")

    def __len__(self) -> int:
        return self.n

    @property
    def arrays(self) -> list[Numpy]:
        """Everything that a batch holds a part of."""
        return [*self.xs, *self.ys, *([] if self.weights is None else [self.weights])]

    def specs(self) -> list[TensorSpec]:
        """The specs of ``arrays``, with an open number of samples."""
        return [spec((BATCH, *a.shape[1:]), dtype_of(a)) for a in self.arrays]

    def part(self, start: int, stop: int) -> Data:
        """Some of the samples."""
        weights = None if self.weights is None else self.weights[start:stop]
        return Data([x[start:stop] for x in self.xs], [y[start:stop] for y in self.ys], weights)

    def batches(self, size: int, order: Numpy | None = None) -> Iterator[tuple[int, list[Numpy]]]:
        """The samples' number and arrays, batch by batch; in place of each other when there is an order.

        With an order, the arrays of a batch are overwritten by the next one.
        """
        arrays = self.arrays
        if order is None:
            for at in range(0, self.n, size):
                stop = min(at + size, self.n)
                yield stop - at, [a[at:stop] for a in arrays]
            return
        held = [np.empty((min(size, self.n), *a.shape[1:]), a.dtype) for a in arrays]
        for at in range(0, self.n, size):
            chosen = order[at : at + size]
            count = len(chosen)
            outs = held if count == size else [h[:count] for h in held]
            for a, out in zip(arrays, outs, strict=True):
                np.take(a, chosen, 0, out, "clip")  # the indices are ours; "raise" would copy `out` first
            yield count, outs


def weights_of(
    n: int, sample_weight: Any, class_weight: Mapping[Any, float] | None, ys: Sequence[Numpy], classes: Sequence[Any]
) -> Numpy | None:
    """One float32 weight a sample, or ``None`` when there are none.

    A class without a weight counts 1.

    Raises:
        ArgumentError: for a key that is no class, or a weight that is negative or not finite.
    """
    out = None
    if sample_weight is not None:
        out = host(sample_weight, "sample_weight").astype(np.float32)
        if out.shape != (n,):
            raise ShapeError(f"sample_weight has the shape {out.shape} for {n} samples", rule="one weight a sample")
    if class_weight:
        if len(ys) != 1:
            raise ArgumentError("class_weight is for models with one output", hint="sample_weight")
        labels, count = _labels(ys[0], classes[0])
        for key, w in class_weight.items():
            if isinstance(key, bool) or not hasattr(key, "__index__") or not 0 <= key < count:
                raise ArgumentError(f"class_weight: {key!r} is no class", rule=f"classes are 0 to {count - 1}")
            if not hasattr(w, "__float__"):
                raise ArgumentError(f"class_weight: {w!r} for class {key} is no number")
        table = np.ones(count, np.float32)
        for key, w in class_weight.items():
            table[int(key)] = w
        by_class = table[labels]
        out = by_class if out is None else out * by_class
    if out is not None and not (np.isfinite(out).all() and (out >= 0).all()):
        raise ArgumentError("weights must be finite and at least 0")
    return out


def _labels(y: Numpy, classes: Any) -> tuple[Numpy, int]:
    if y.ndim == 2 and y.shape[1] > 1:
        return np.argmax(y, 1), y.shape[1]
    flat = y.reshape(-1) if y.ndim <= 2 else None
    if flat is None or not np.array_equal(flat, np.trunc(flat)):
        raise ArgumentError("class_weight needs class labels or one-hot targets", hint="sample_weight")
    count = classes if isinstance(classes, int) and classes > 1 else 2
    labels = flat.astype(np.int64)
    if len(labels) and not (labels.min() >= 0 and labels.max() < count):
        raise ArgumentError(f"labels run from {labels.min()} to {labels.max()}, classes from 0 to {count - 1}")
    return labels, count
