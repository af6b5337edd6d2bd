"""Small programs as ``.dala`` files, for the tests of files from outside and of the command."""

from __future__ import annotations

import numpy as np

import dala_defn as dd
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.passes.pipeline import compile_passes


def entry(name, f, specs, *, roles=None, results=None, donate=()):
    """An entry from a function of arrays; ``roles`` and ``results`` give the roles that are not the plain ones."""
    graph = compile_passes(dd.defn(f).lower(*specs))
    names = list(dd.defn(f).signature.parameters)
    roles = roles or {}
    args = tuple(
        Arg(n, roles.get(n, "key" if v.type.dtype.kind == "k" else "arg"), n in donate)
        for n, v in zip(names, graph.inputs, strict=True)
    )
    given = results or ["result"] * len(graph.outputs)
    return Entry(name, graph, args, tuple(Result(str(i), role) for i, role in enumerate(given)))


def _numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def mlp() -> bytes:
    """Two layers with weights in the file, over a batch of any size up to 64."""

    def predict(x, w1, b1, w2):
        return dd.nn.softmax(dd.nn.relu(x @ w1 + b1) @ w2)

    tensors = {"w1": _numbers(4, 8), "b1": _numbers(8, seed=1), "w2": _numbers(8, 3, seed=2)}
    specs = [dd.spec(("b", 4)), dd.spec((4, 8)), dd.spec((8,)), dd.spec((8, 3))]
    roles = {n: f"state:{n}" for n in tensors}
    return encode(Program((entry("predict", predict, specs, roles=roles),), {"b": (1, 64)}, tensors))


def conv() -> bytes:
    """A convolution with a pooling and a constant that is stored as a tensor."""
    w = np.random.default_rng(3).normal(size=(3, 3, 1, 2)).astype(np.float32)

    def features(x):
        y = dd.nn.relu(dd.conv(x, dd.array(w), padding="SAME"))
        return dd.sum(dd.max_pool(y, 2), axis=(1, 2))

    return encode(Program((entry("features", features, [dd.spec(("n", 6, 6, 1))]),), {"n": (0, None)}))


def indices() -> bytes:
    """Integers, comparisons, gathers and scatters."""

    def look(table, at):
        rows = dd.take(table, at, axis=0, mode="clip")
        counts = dd.zeros(5, dd.int32).at[at % 5].add(1)
        return rows + dd.arange(3), dd.sort(counts), dd.argmax(rows, axis=1), rows[:, ::2] // 2

    return encode(Program((entry("look", look, [dd.spec((5, 3), dd.int32), dd.spec((4,), dd.int32)]),)))


def keys() -> bytes:
    """Random numbers from a key."""

    def draw(key, scale):
        a, b = dd.random.split(key)
        return dd.random.uniform(a, (4,)) * scale, dd.random.bits(b, (3,))

    return encode(Program((entry("draw", draw, [dd.spec((), "key"), dd.spec(())]),)))


def train() -> bytes:
    """A step of gradient descent that replaces its state, and an entry that reads it; one tensor has a second name."""

    def loss(w, x, y):
        return dd.mean((x @ w - y) ** 2)

    def step(w, count, x, y):
        value, g = dd.value_and_grad(loss)(w, x, y)
        return value, w - 0.1 * g, count + 1

    def predict(w, x):
        return x @ w

    tensors = {"w": _numbers(3, 2), "count": np.zeros((), np.int32)}
    batch = [dd.spec(("b", 3)), dd.spec(("b", 2))]
    entries = (
        entry(
            "step", step, [dd.spec((3, 2)), dd.spec((), dd.int32), *batch],
            roles={"w": "state:w", "count": "state:count"}, results=["result", "state:w", "state:count"], donate=("x",),
        ),
        entry("predict", predict, [dd.spec((3, 2)), batch[0]], roles={"w": "state:tied"}),
    )  # fmt: skip
    return encode(Program(entries, {"b": (1, None)}, tensors, {"tied": "w"}))


def loops() -> bytes:
    """Ops that hold functions, the gradient of a scan among them, a check and a tap."""

    def loss(w, xs):
        def step(c, x):
            c = dd.cond(dd.sum(x) > 0, lambda c: dd.tanh(c * w + x), lambda c: c - x, c)
            return c, dd.sum(c)

        c, ys = dd.scan(step, dd.zeros(2), xs)
        return dd.sum(dd.checkpoint(lambda c: dd.sin(c) * c)(c)) + dd.sum(ys)

    def run(w, xs, n):
        dd.debug.check(n < 9, "n is {}", n)
        steps, total = dd.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2 + s[0]), (0, n))
        return dd.grad(loss)(w, xs), dd.debug.tap("total", total), steps

    return encode(
        Program((entry("run", run, [dd.spec((2,)), dd.spec(("b", 2)), dd.spec((), dd.int32)]),), {"b": (0, 9)})
    )


FILES = {"loops": loops, "mlp": mlp, "conv": conv, "indices": indices, "keys": keys, "train": train}
