"""Programs over sizes that are not known while they are traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dala_defn as dd


@dataclass(frozen=True)
class Program:
    """A function, what its arguments are (text as in an annotation; ``i:`` for integers), and which sizes it takes."""

    name: str
    f: Callable[..., Any]
    args: tuple[str, ...] = ("b 4",)
    fits: Callable[[int], bool] = lambda n: True
    loops: bool = False  # whether it has control flow


def dense(x: Any, w: Any, v: Any) -> Any:
    return dd.tanh(x @ w + v[:3]) @ w.T


def loss(x: Any, w: Any) -> Any:
    return dd.sum(dd.tanh(x @ w) ** 2)


def running(x: Any) -> Any:
    return dd.scan(lambda c, row: (c + row * row, c), dd.zeros(4), x)


def attention(q: Any, k: Any, v: Any) -> Any:
    return dd.nn.softmax(q @ dd.swapaxes(k, -1, -2) / 2.0, axis=-1) @ v


def layer_norm(x: Any) -> Any:
    centred = x - dd.mean(x, axis=-1, keepdims=True)
    return centred / dd.sqrt(dd.mean(centred**2, axis=-1, keepdims=True) + 1e-3)


def image(x: Any, w: Any) -> Any:
    y = dd.nn.relu(dd.conv(x, w, padding="same"))
    return dd.max_pool(y, 2) if hasattr(dd, "max_pool") else y


P = Program
B4 = "b 4"
PROGRAMS = [
    # elementwise and broadcasting
    P("exp", lambda x: dd.exp(x) - x / 2 + 1),
    P("where", lambda x: dd.where(x > 0, x, -x)),
    P("two", lambda x, y: x * y + dd.maximum(x, y), (B4, B4)),
    P("row", lambda x, v: x + v, (B4, "4")),
    P("column", lambda x, y: x + y, (B4, "b 1")),
    P("outer", lambda x, y: x[:, None] * y[None, :], ("b", "c")),
    P("outer-same", lambda x: x[:, None] - x, ("b",)),
    P("scalar", lambda x, s: x * s, (B4, "")),
    P("one-by", lambda x, y: x + y, ("1 4", B4)),
    P("clip", lambda x: dd.clip(x, -0.5, 0.5).astype(dd.float64)),
    P("compare", lambda x, y: (x < y) | (x == 0), (B4, B4)),
    P("broadcast_to", lambda x, v: dd.broadcast_to(v, x.shape) * x, (B4, "4")),
    P("size-as-number", lambda x: x * x.shape[0] + x.size),
    P("power", lambda x: abs(x) ** 1.5 % 1.0),
    # reductions
    P("sum", lambda x: dd.sum(x, axis=0)),
    P("sum-all", dd.sum),
    P("mean-rows", lambda x: dd.mean(x, axis=1)),
    P("mean-by-size", lambda x: dd.sum(x, axis=0) / dd.maximum(x.shape[0], 1)),
    P("max", lambda x: dd.max(x, axis=1, keepdims=True)),
    P("max-first", lambda x: dd.max(x, axis=0), fits=lambda n: n > 0),
    P("argmax", lambda x: dd.argmax(x, axis=1)),
    P("prod", lambda x: dd.prod(x, axis=0)),
    P("all", lambda x: dd.all(x > -1, axis=0)),
    P("var", lambda x: dd.var(x, axis=1)),
    P("logsumexp", lambda x: dd.special.logsumexp(x, axis=-1)),
    P("cumsum", lambda x: dd.cumsum(x, axis=0)),
    # shapes
    P("ravel", dd.ravel),
    P("flatten", lambda x: x.reshape(-1), ("b 2 3",)),
    P("reshape-keep", lambda x: x.reshape(x.shape[0], 2, 2)),
    P("reshape-rest", lambda x: x.reshape(-1, 6), ("b 2 3",)),
    P("reshape-even", lambda x: x.reshape(-1, 2), ("b",), lambda n: n % 2 == 0),
    P("transpose", lambda x: x.T @ x),
    P("moveaxis", lambda x: dd.moveaxis(x, 0, -1), ("b 2 3",)),
    P("stack", lambda x: dd.stack([x, -x], axis=1)),
    P("concatenate", lambda x, y: dd.concatenate([x, y, x], axis=0), (B4, "c 4")),
    P("concatenate-twice", lambda x: dd.concatenate([x, x * 2], axis=0)[x.shape[0] :]),
    P("flip", lambda x: dd.flip(x, 0)),
    P("pad", lambda x: dd.pad(x, ((1, 2), (0, 1)))),
    P("repeat", lambda x: dd.repeat(x, 2, axis=0)),
    P("tile", lambda x: dd.tile(x, (2, 1))),
    P("split", lambda x: dd.split(x, 2)[1], ("b 3",), lambda n: n % 2 == 0, loops=True),
    P("arange", lambda x: dd.arange(x.shape[0])),
    # matmul
    P("matmul", lambda x, w: x @ w, (B4, "4 3")),
    P("matmul-inner", lambda x, y: dd.swapaxes(x, 0, 1) @ y, (B4, "b 3")),
    P("matmul-batched", lambda x, w: x @ w, ("b 2 3", "b 3 2")),
    P("einsum", lambda x, y: dd.einsum("bi,ci->bc", x, y), (B4, "c 4")),
    P("dense", dense, (B4, "4 3", "4")),
    P("attention", attention, ("b 4", "c>=1 4", "c 4")),
    # indexing
    P("index-first", lambda x: x[0], fits=lambda n: n > 0),
    P("index-last", lambda x: x[-1], fits=lambda n: n > 0),
    P("slice", lambda x: x[1:], fits=lambda n: n > 0),
    P("slice-head", lambda x: x[:2], fits=lambda n: n >= 2),
    P("slice-step", lambda x: x[::2]),
    P("column-index", lambda x: x[:, 1]),
    P("take", lambda x, i: dd.take(x, i, axis=1), (B4, "i:b")),
    P("take-rows", lambda x: dd.take(x, dd.array([0, 0]), axis=0), fits=lambda n: n > 0),
    P("gather", lambda x, i: x[i], ("5 3", "i:b")),
    P("at-add", lambda x, i: dd.zeros(4).at[i].add(x), ("b", "i:b")),
    P("one_hot", lambda i: dd.one_hot(i, 5), ("i:b",)),
    # convolution, pooling, layers
    P("conv", lambda x, w: dd.conv(x, w), ("b 6 2", "3 2 4")),
    P("conv-strided", lambda x, w: dd.conv(x, w, strides=2, padding="same"), ("b 6 5 2", "3 2 2 3")),
    P("conv-size", lambda x, w: dd.conv(x, w, padding="same"), ("2 b 2", "3 2 4")),
    P("image", image, ("b 4 4 1", "3 3 1 2")),
    P("softmax", lambda x: dd.nn.softmax(x)),
    P("layer_norm", layer_norm),
    P("gelu", dd.nn.gelu),
    P("sort", lambda x: dd.sort(x, axis=1)),
    P("sort-rows", lambda x: dd.sort(x, axis=0)),
    P("norm", lambda x: dd.linalg.norm(x, axis=1)),
    # transformations
    P("grad", lambda x, w: dd.grad(loss, argnums=1)(x, w), (B4, "4 3")),
    P("grad-input", lambda x, w: dd.grad(loss)(x, w), (B4, "4 3")),
    P("grad-mean", dd.grad(lambda x: dd.mean(dd.mean(x, axis=1) ** 2))),
    P("grad-broadcast", lambda x, v: dd.grad(lambda v: dd.sum((x + v) ** 2))(v), (B4, "1 4")),
    P("grad-slice", dd.grad(lambda x: dd.sum(x[1:] * x[:-1])), fits=lambda n: n > 0),
    P("grad-concat", dd.grad(lambda x: dd.sum(dd.concatenate([x, x * x]) ** 2))),
    P("grad-conv", lambda x, w: dd.grad(lambda w: dd.sum(dd.conv(x, w) ** 2))(w), ("b 6 2", "3 2 4")),
    P("grad-softmax", dd.grad(lambda x: dd.sum(dd.nn.softmax(x) ** 2))),
    P("jvp", lambda x, t: dd.jvp(lambda x: dd.tanh(x) @ x.T, (x,), (t,))[1], (B4, B4)),
    P("vmap", lambda x, w: dd.vmap(lambda row: dd.tanh(row @ w))(x), (B4, "4 3")),
    P("vmap-grad", dd.vmap(dd.grad(lambda r: dd.sum(r**3)))),
    P("vmap-inner", lambda x: dd.vmap(lambda c: c / (1 + dd.sum(c * c)), in_axes=1, out_axes=1)(x)),
    P("hessian", lambda x: dd.grad(lambda x: dd.sum(dd.grad(lambda x: dd.sum(x**4))(x) ** 2))(x)),
    P("grad-pool", dd.grad(lambda x: dd.sum(dd.avg_pool(x, 2, strides=3) ** 2)), ("2 b 3",)),
    P("grad-take", lambda x, i: dd.grad(lambda x: dd.sum(dd.take(x, i, axis=1) ** 2))(x), (B4, "i:b")),
    P(
        "vmap-dynamic-slice",
        lambda x, i: dd.vmap(lambda r, s: dd.dynamic_slice(r, (s,), (2,)))(x, i),
        ("b c", "i:b"),
        lambda n: n > 0,
    ),
    # control flow
    P("scan", running, loops=True),
    P("scan-grad", dd.grad(lambda x: dd.sum(running(x)[0] ** 2)), loops=True),
    P("scan-vmap", dd.vmap(lambda x: dd.scan(lambda c, r: (c * 0.5 + r, c), 0.0, x)), ("b c",), loops=True),
    P("scan-jvp", lambda x, t: dd.jvp(running, (x,), (t,))[1][0], (B4, B4), loops=True),
    P("scan-carry", lambda x: dd.scan(lambda c, s: (dd.sin(c) * s, None), x, dd.ones(3))[0], loops=True),
    P("cond", lambda x: dd.cond(dd.sum(x) > 0, dd.exp, lambda x: -x, x), loops=True),
    P("cond-size", lambda x: dd.cond(dd.dim_value(x.shape[0]) > 1, dd.exp, dd.sin, x), loops=True),
    P("cond-grad", dd.grad(lambda x: dd.cond(dd.sum(x) > 0, loss_a, loss_b, x)), loops=True),
    P("fori", lambda x: dd.fori_loop(0, 3, lambda i, c: c * 0.5 + x, x), loops=True),
    P("while", lambda x: dd.while_loop(lambda c: dd.sum(c**2) > 1, lambda c: c / 2, x), loops=True),
    P("map", lambda x: dd.map(lambda r: dd.sum(r) * r, x), loops=True),
]  # fmt: skip


def loss_a(x: Any) -> Any:
    return dd.sum(x * x)


def loss_b(x: Any) -> Any:
    return dd.sum(dd.sin(x))


def arrays(program: Program, n: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Arguments with ``b`` = n and ``c`` = n + 1."""
    rng = np.random.default_rng(seed + n)
    out = []
    for text in program.args:
        names = text.removeprefix("i:").replace(">=1", "").split()
        shape = [{"b": n, "c": n + 1}.get(d) if not d.isdigit() else int(d) for d in names]
        if text.startswith("i:"):
            out.append(rng.integers(0, 4, shape).astype(np.int32))
        else:
            out.append(rng.standard_normal(shape).astype(np.float32))
    return out


def annotated(program: Program, **options: Any) -> Any:
    """The program as a ``@defn`` whose arguments name their sizes."""
    names = [f"a{i}" for i in range(len(program.args))]
    space: dict[str, Any] = {"f": program.f}
    exec(f"def program({', '.join(names)}): return f({', '.join(names)})", space)
    g = space["program"]
    kinds = [dd.Int32 if t.startswith("i:") else dd.Float32 for t in program.args]
    g.__annotations__ = {n: k[t.removeprefix("i:")] for n, k, t in zip(names, kinds, program.args, strict=True)}
    return dd.defn(g, **options)
