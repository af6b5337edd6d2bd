"""Models for ``kernels.py``: written once over what Dala and JAX share, and checked against NumPy in float64."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dala_defn as dd

F = np.float32
ROOT = Path(__file__).resolve().parents[2]


class Dala:
    """Dala."""

    m = dd

    def conv(self, x: Any, w: Any) -> Any:
        """A convolution, channels last, that keeps the size."""
        return dd.conv(x, w, padding="same")

    def pool(self, x: Any) -> Any:
        """The maximum of 2 by 2 windows."""
        return dd.max_pool(x, 2)

    def scan(self, f: Any, init: Any, xs: Any) -> Any:
        """A loop over rows."""
        return dd.scan(f, init, xs)

    def update(self, cache: Any, row: Any, at: Any) -> Any:
        """A cache with one row replaced, of (heads, length, size)."""
        return cache.at[:, at].set(row)


class Jax:
    """JAX."""

    def __init__(self, jax: Any) -> None:
        self.jax, self.m = jax, jax.numpy

    def conv(self, x: Any, w: Any) -> Any:
        """See ``Dala``."""
        names = ("NHWC", "HWIO", "NHWC")
        return self.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=names)

    def pool(self, x: Any) -> Any:
        """See ``Dala``."""
        lax, window = self.jax.lax, (1, 2, 2, 1)
        return lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID")

    def scan(self, f: Any, init: Any, xs: Any) -> Any:
        """See ``Dala``."""
        return self.jax.lax.scan(f, init, xs)

    def update(self, cache: Any, row: Any, at: Any) -> Any:
        """See ``Dala``."""
        return cache.at[:, at].set(row)


def gelu(m: Any, x: Any) -> Any:
    """By tanh."""
    return 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softmax(m: Any, x: Any) -> Any:
    """Over the last axis."""
    e = m.exp(x - m.max(x, axis=-1, keepdims=True))
    return e / m.sum(e, axis=-1, keepdims=True)


def norm(m: Any, x: Any, gain: Any, bias: Any) -> Any:
    """Layer normalisation."""
    centred = x - m.mean(x, axis=-1, keepdims=True)
    return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * gain + bias


def normal(seed: int, *shape: int, scale: float = 1.0) -> Any:
    """Random numbers."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(F)


def block_weights(d: int, seed: int) -> dict[str, Any]:
    """Those of a transformer block."""
    s = d**-0.5
    return {
        "qkv": normal(seed, d, 3 * d, scale=s),
        "out": normal(seed + 1, d, d, scale=s),
        "up": normal(seed + 2, d, 4 * d, scale=s),
        "down": normal(seed + 3, 4 * d, d, scale=s / 2),
        "g1": np.ones(d, F),
        "b1": np.zeros(d, F),
        "g2": np.ones(d, F),
        "b2": np.zeros(d, F),
    }


def block(b: Any, w: Any, x: Any, heads: int) -> Any:
    """A transformer block on (batch, tokens, d)."""
    m = b.m
    n, t, d = x.shape
    h = norm(m, x, w["g1"], w["b1"]) @ w["qkv"]
    q, k, v = (
        m.transpose(m.reshape(h[:, :, i * d : (i + 1) * d], (n, t, heads, d // heads)), (0, 2, 1, 3)) for i in range(3)
    )
    scores = softmax(m, q @ m.transpose(k, (0, 1, 3, 2)) * float((d // heads) ** -0.5))
    mixed = m.reshape(m.transpose(scores @ v, (0, 2, 1, 3)), (n, t, d))
    x = x + mixed @ w["out"]
    return x + gelu(m, norm(m, x, w["g2"], w["b2"]) @ w["up"]) @ w["down"]


def blocks(b: Any, heads: int, w: Any, x: Any) -> Any:
    """Several, one after the other, to a number."""
    for one in w:
        x = block(b, one, x, heads)
    return b.m.mean(x * x)


def lstm(b: Any, w: Any, xs: Any) -> Any:
    """An LSTM over (steps, batch, size), to a number."""
    m = b.m
    units = w["h"].shape[0]

    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        z = x @ w["x"] + h @ w["h"] + w["b"]
        i, f, o = (1 / (1 + m.exp(-z[:, k * units : (k + 1) * units])) for k in range(3))
        c = f * c + i * m.tanh(z[:, 3 * units :])
        h = o * m.tanh(c)
        return (h, c), h

    zero = m.zeros((xs.shape[1], units), xs.dtype)
    _, hs = b.scan(step, (zero, zero), xs)
    return m.mean(hs * hs)


def cnn(b: Any, w: Any, x: Any, onehot: Any) -> Any:
    """Two convolutions, a pool and a dense layer, to the cross-entropy."""
    m = b.m
    h = m.maximum(b.conv(x, w["c1"]) + w["b1"], 0)
    h = b.pool(m.maximum(b.conv(h, w["c2"]) + w["b2"], 0))
    logits = m.reshape(h, (x.shape[0], -1)) @ w["d"] + w["b3"]
    shifted = logits - m.max(logits, axis=1, keepdims=True)
    return -m.mean(m.sum((shifted - m.log(m.sum(m.exp(shifted), axis=1, keepdims=True))) * onehot, axis=1))


def residual(b: Any, w: Any, x: Any) -> Any:
    """A residual block of two convolutions."""
    m = b.m
    h = m.maximum(b.conv(x, w["c1"]) + w["b1"], 0)
    return m.maximum(b.conv(h, w["c2"]) + w["b2"] + x, 0)


def decode(b: Any, w: Any, caches: Any, x: Any, at: Any) -> Any:
    """One token through several blocks with caches of keys and values: (heads, length, size) each."""
    m = b.m
    d = x.shape[0]
    new = []
    for one, (keys, values) in zip(w, caches, strict=True):
        heads, length, size = keys.shape
        h = norm(m, x, one["g1"], one["b1"]) @ one["qkv"]
        q, k, v = (m.reshape(h[i * d : (i + 1) * d], (heads, size)) for i in range(3))
        keys, values = b.update(keys, k, at), b.update(values, v, at)
        scores = m.sum(keys * m.reshape(q, (heads, 1, size)), axis=-1) * float(size**-0.5)
        scores = softmax(m, m.where(m.arange(length) <= at, scores, -1e9))
        mixed = m.reshape(m.reshape(scores, (heads, 1, length)) @ values, (d,))
        x = x + mixed @ one["out"]
        x = x + gelu(m, norm(m, x, one["g2"], one["b2"]) @ one["up"]) @ one["down"]
        new.append((keys, values))
    return x, new


def adam(m: Any, p: Any, a: Any, b: Any, g: Any, t: Any) -> Any:
    """A parameter and its moments after a step."""
    a = 0.9 * a + 0.1 * g
    b = 0.999 * b + 0.001 * g * g
    return p - 0.001 * (a / (1 - 0.9**t)) / (m.sqrt(b / (1 - 0.999**t)) + 1e-8), a, b


def trained(b: Any, grad: Any, loss: Any, state: Any, *data: Any) -> Any:
    """A step of Adam on a dict of parameters."""
    params, firsts, seconds, t = state
    value, grads = grad(loss)(params, *data)
    rows = {n: adam(b.m, params[n], firsts[n], seconds[n], grads[n], t) for n in params}
    return (*({n: r[i] for n, r in rows.items()} for i in range(3)), t + 1), value


def tree(f: Callable[[Any], Any], x: Any) -> Any:
    """A tree of arrays, each changed."""
    if isinstance(x, dict):
        return {n: tree(f, y) for n, y in x.items()}
    return type(x)(tree(f, y) for y in x) if isinstance(x, (tuple, list)) else f(x)


def wide(f: Callable[..., Any], *args: Any) -> Any:
    """What a function of Dala gives on NumPy, in float64."""
    up = lambda a: a.astype(np.float64) if a.dtype == F else a  # noqa: E731
    with dd.using("reference"):
        return tree(np.asarray, dd.defn(partial(f, Dala()))(*tree(up, list(args))))


def competitors(jax: Any, f: Callable[..., Any], args: list[Any], grad: bool) -> dict[str, Callable[[], Any]]:
    """A function, or its value and gradient, by Dala and by JAX; values are checked."""
    first = lambda x: x[0] if grad else x  # noqa: E731
    want = wide(f, *args)
    ours = partial(f, Dala())
    made: Any = dd.defn(dd.value_and_grad(ours) if grad else ours)
    held = tree(lambda a: dd.array(a) + 0, args)
    works: dict[str, Callable[[], Any]] = {"dala": lambda: made(*held)}
    if jax is not None:
        theirs = partial(f, Jax(jax))
        jitted = jax.jit(jax.value_and_grad(theirs) if grad else theirs)
        given = tree(jax.device_put, args)
        works["jax"] = lambda: jax.block_until_ready(jitted(*given))
    for name, work in works.items():
        close(name, first(work()), want)
    return works


def close(name: str, have: Any, want: Any) -> None:
    """Holds results against those in float64."""
    if isinstance(want, (tuple, list)):
        for x, y in zip(have, want, strict=True):
            close(name, x, y)
        return
    scale = np.max(np.abs(want)) + 1e-30
    error = float(np.max(np.abs(np.asarray(have, np.float64) - want)) / scale)
    assert error < 1e-4, f"{name}: off by {error} of the largest"


def steps(jax: Any, f: Callable[..., Any], params: dict[str, Any], data: list[Any]) -> dict[str, Callable[[], Any]]:
    """Training steps with Adam, the state given up to each."""
    zeros = tree(np.zeros_like, params)
    state = (params, zeros, tree(np.copy, zeros), F(1))
    want = wide(f, params, *data)
    held: dict[str, Any] = {"dala": tree(lambda a: dd.array(a) + 0, state)}
    given: dict[str, Any] = {"dala": tree(lambda a: dd.array(a) + 0, data)}
    ours = dd.defn(lambda s, *d: trained(Dala(), dd.value_and_grad, partial(f, Dala()), s, *d), donate_argnames=("s",))
    run: dict[str, Any] = {"dala": ours}
    if jax is not None:
        held["jax"] = tree(lambda a: jax.device_put(np.array(a)), state)
        given["jax"] = tree(jax.device_put, data)
        jitted = jax.jit(
            lambda s, *d: trained(Jax(jax), jax.value_and_grad, partial(f, Jax(jax)), s, *d), donate_argnums=0
        )
        run["jax"] = lambda *a: jax.block_until_ready(jitted(*a))
    works = {}
    for name in run:

        def work(name: str = name) -> Any:
            held[name], loss = run[name](held[name], *given[name])
            return loss

        close(name, work(), want)
        works[name] = work
    return works


def transformer(jax: Any, grad: bool) -> dict[str, Callable[[], Any]]:
    """One block, d=256, 8 heads, 128 tokens, batch 8."""
    return competitors(jax, lambda b, w, x: blocks(b, 8, w, x), [[block_weights(256, 0)], normal(9, 8, 128, 256)], grad)


def recurrent(jax: Any) -> dict[str, Callable[[], Any]]:
    """LSTM, 128 units, 64 steps, batch 32."""
    w = {"x": normal(0, 128, 512, scale=0.1), "h": normal(1, 128, 512, scale=0.1), "b": np.zeros(512, F)}
    return competitors(jax, lstm, [w, normal(2, 64, 32, 128)], True)


def convolutional(jax: Any) -> dict[str, Callable[[], Any]]:
    """28 by 28, batch 64, 32 and 64 channels."""
    w = {
        "c1": normal(0, 3, 3, 1, 32, scale=0.3),
        "b1": np.zeros(32, F),
        "c2": normal(1, 3, 3, 32, 64, scale=0.06),
        "b2": np.zeros(64, F),
        "d": normal(2, 14 * 14 * 64, 10, scale=0.01),
        "b3": np.zeros(10, F),
    }
    onehot = np.eye(10, dtype=F)[np.random.default_rng(3).integers(0, 10, 64)]
    return steps(jax, cnn, w, [normal(4, 64, 28, 28, 1), onehot])


def residual_block(jax: Any) -> dict[str, Callable[[], Any]]:
    """64 channels, 56 by 56, batch 1."""
    w = {"c1": normal(0, 3, 3, 64, 64, scale=0.04), "b1": np.zeros(64, F)}
    w |= {"c2": normal(1, 3, 3, 64, 64, scale=0.04), "b2": np.zeros(64, F)}
    return competitors(jax, residual, [w, normal(2, 1, 56, 56, 64)], False)


def decoding(jax: Any) -> dict[str, Callable[[], Any]]:
    """d=512, 4 layers, caches of 256 tokens."""
    w = [block_weights(512, 10 * i) for i in range(4)]
    caches = [(normal(50 + i, 8, 256, 64), normal(60 + i, 8, 256, 64)) for i in range(4)]
    return competitors(jax, decode, [w, caches, normal(70, 512), np.int32(200)], False)


def cold() -> dict[str, Callable[[], Any]]:
    """A process each that imports, traces, compiles and runs the gradient of twelve blocks."""
    return _processes("cold")


def digits() -> dict[str, Callable[[], Any]]:
    """A process each that trains the digits to 97 %: with kernels on disk, and without any."""
    script = ROOT / "examples" / "digits.py"
    if not script.exists():
        return {}

    def run(fresh: bool) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            if fresh:
                env["DALA_CACHE"] = folder
            subprocess.run([sys.executable, str(script)], check=True, env=env, stdout=subprocess.DEVNULL)

    run(False)
    return {"dala, warm cache": lambda: run(False), "dala, empty cache": lambda: run(True)}


def _processes(what: str) -> dict[str, Callable[[], Any]]:
    from importlib.util import find_spec

    def run(who: str) -> Any:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, __file__, what, who], check=True, env=env, stdout=subprocess.DEVNULL)

    names = ["dala", *(n for n in ("jax",) if find_spec(n) is not None)]
    for name in names:
        run(name)  # leaves the bytecode
    return {name: partial(run, name) for name in names}


def deep(who: str) -> None:
    """The gradient of twelve blocks, once."""
    w = [block_weights(128, 10 * i) for i in range(12)]
    x = normal(9, 2, 64, 128)
    if who == "dala":
        loss, _ = dd.defn(dd.value_and_grad(partial(blocks, Dala(), 4)))(w, x)
    else:
        import jax

        loss, _ = jax.block_until_ready(jax.jit(jax.value_and_grad(partial(blocks, Jax(jax), 4)))(w, x))
    assert np.isfinite(np.asarray(loss))


def warm(jax: Any) -> dict[str, Callable[[], Any]]:
    """The same step again and again."""
    w = [block_weights(128, 10 * i) for i in range(12)]
    return competitors(jax, lambda b, w, x: blocks(b, 4, w, x), [w, normal(9, 2, 64, 128)], True)


def temporaries(jax: Any) -> dict[str, dict[str, int]]:
    """Bytes beyond arguments and results at the peak, as each plans them."""
    cases: dict[str, tuple[Callable[..., Any], list[Any], bool]] = {
        "gelu, 1M floats": (lambda b, x: gelu(b.m, x), [normal(0, 1000, 1000)], False),
        "transformer block": (
            lambda b, w, x: blocks(b, 8, w, x),
            [[block_weights(256, 0)], normal(9, 8, 128, 256)],
            True,
        ),
        "LSTM": (
            lstm,
            [{"x": normal(0, 128, 512), "h": normal(1, 128, 512), "b": np.zeros(512, F)}, normal(2, 64, 32, 128)],
            True,
        ),
    }
    out = {}
    for title, (f, args, grad) in cases.items():
        ours = partial(f, Dala())
        made = dd.defn(dd.value_and_grad(ours) if grad else ours)
        found = {"dala": made.memory_plan(*tree(lambda a: dd.array(a) + 0, args)).temporaries}
        if jax is not None:
            theirs = partial(f, Jax(jax))
            jitted = jax.jit(jax.value_and_grad(theirs) if grad else theirs)
            found["jax"] = jitted.lower(*args).compile().memory_analysis().temp_size_in_bytes
        out[title] = found
    return out


if __name__ == "__main__":
    start = time.perf_counter()
    {"cold": deep}[sys.argv[1]](sys.argv[2])
    print(time.perf_counter() - start)
