"""Random well-typed graphs, and inputs for them.

A graph is drawn by tracing: each step picks operands among the values there are and applies an op that takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dala_defn import dtypes
from dala_defn.dtypes import ARRAYS, INTS, NUMERIC, UNSIGNED, DType, int32
from dala_defn.ir import Graph, Literal, Type
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import OPS
from dala_defn.random import allow_reuse
from dala_defn.shapes import Dim, DimExpr, Known, Shape, evaluate, names_of, size
from dala_defn.trace import inline, trace_function

NAMES = ("b", "n")
UNARY = tuple(s for s in OPS.values() if s.family == "unary" and not s.attrs)
BINARY = tuple(s for s in OPS.values() if s.family == "binary")
REDUCTIONS = tuple(OPS[n] for n in ("sum", "prod", "max", "min"))


def seeds() -> st.SearchStrategy[int]:
    """A seed for NumPy: arrays are drawn by it, which is faster than element by element."""
    return st.integers(0, 2**32 - 1)


def array(dtype: DType, shape: Sequence[int], seed: int, *, special: bool = True) -> np.ndarray[Any, Any]:
    """Elements of every sort; floats may be NaN, infinite and -0.0 when ``special``. A key has a last dim of 2."""
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    if dtype.kind == "k":
        return rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        wide = rng.integers(info.min, info.max, shape, dtype=dtype.dtype, endpoint=True)
        small = rng.integers(max(info.min, -3), 6, shape).astype(dtype.dtype)
        return np.where(rng.random(shape) < 0.3, wide, small).astype(dtype.dtype)
    out = np.asarray(rng.normal(0, 2, shape))
    if special:
        odd = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]), shape)
        out = np.where(rng.random(shape) < 0.15, odd, out)
    return out.astype(dtype.dtype)


def draw_dim(rng: Random, symbolic: bool) -> Dim:
    """A size: 0 to 4, or a name, or a little more than a name."""
    if not symbolic or rng.random() < 0.5:
        return rng.choice((0, 1, 1, 2, 2, 3, 3, 4))
    d = DimExpr.named(rng.choice(NAMES))
    return rng.choice((d, d, d, d + 1, 2 * d))


def draw_shape(rng: Random, symbolic: bool, most: int = 3) -> Shape:
    """A shape of up to ``most`` axes."""
    return tuple([draw_dim(rng, symbolic) for _ in range(rng.randint(0, most))])


def draw_type(rng: Random, symbolic: bool) -> Type:
    """A type: the common dtypes more often than the others."""
    common = (dtypes.float32, dtypes.float32, dtypes.int32, dtypes.bool_)
    dtype = rng.choice(common if rng.random() < 0.5 else (*ARRAYS, dtypes.key))
    return Type(dtype, draw_shape(rng, symbolic))


def random_graph(
    seed: int, nodes: int, symbolic: bool = False, depth: int = 1, inputs: Sequence[Type] | None = None
) -> Graph:
    """The graph of a seed: about ``nodes`` steps, with calls nested up to ``depth`` deep.

    Fewer steps of one seed are the beginning of more, so that a failure shrinks.
    """
    rng = Random(seed)
    if inputs is None:
        inputs = [draw_type(rng, symbolic) for _ in range(rng.randint(0, 3))]
    names = [rng.choice(("x", "x", "y", "weights", "", "a b")) for _ in inputs]
    name = rng.choice(("main", "f", "f", "<lambda>"))

    def body(*args: Any) -> list[Any]:
        steps = _Steps(rng, symbolic, depth, list(args))
        for _ in range(nodes):
            steps.step()
        last = Random(seed)
        outputs = [last.choice(steps.pool) for _ in range(last.randint(0, 2))] if steps.pool else []
        return outputs + steps.pool[-1:]

    with allow_reuse():
        graph, captures = trace_function(body, inputs, name, names, known=Known(as_written=True))
    assert not captures
    return graph


def graphs(
    symbolic: bool | None = None, nodes: int = 20, inputs: Sequence[Type] | None = None
) -> st.SearchStrategy[Graph]:
    """Random graphs of up to about ``nodes`` nodes; of symbolic sizes, of known ones, or (``None``) of either."""
    sort = st.booleans() if symbolic is None else st.just(symbolic)
    return st.builds(random_graph, seeds(), st.integers(0, nodes), sort, inputs=st.just(inputs))


@st.composite
def concrete_inputs(
    draw: Callable[..., Any], graph: Graph, least: int = 1, special: bool = True
) -> list[np.ndarray[Any, Any]]:
    """An array for each input of a graph, with one size for each name (keys as uint32 with a last dim of 2).

    ``least`` is the smallest size that a name gets: of an axis of size 0 the maximum, say, does not exist, which a
    graph of symbolic sizes cannot tell.
    """
    names = sorted(names_of(d for v in graph.inputs for d in v.type.shape))
    sizes = {name: draw(st.integers(least, 4)) for name in names}
    return [
        array(v.type.dtype, [evaluate(d, sizes) for d in v.type.shape], draw(seeds()), special=special)
        for v in graph.inputs
    ]


def _changed(x: Any) -> Any:
    """Something else of the same type, where there is an op for that."""
    return OPS["neg"](x) if x.dtype in OPS["neg"].accepts else x


class _Steps:
    """The values there are, and the ways to make more. A way that finds no operands for itself does nothing."""

    def __init__(self, rng: Random, symbolic: bool, depth: int, pool: list[Any]) -> None:
        self.rng = rng
        self.symbolic = symbolic
        self.depth = depth
        self.pool = pool

    def step(self) -> None:
        ways = [
            *(self.constant, self.iota, self.select, self.cast, *[self.unary] * 4, *[self.binary] * 4),
            *(self.broadcast, self.reshape, self.transpose, self.slice, self.pad, self.concatenate, self.flip),
            *(
                self.reduce,
                self.along,
                self.gather,
                self.scatter,
                self.block,
                self.window,
                self.dot,
                self.random,
                self.call,
                self.nested,
            ),
        ]
        out = self.rng.choice(ways)()
        self.pool += out if isinstance(out, list) else [] if out is None else [out]

    def coin(self) -> bool:
        return self.rng.random() < 0.5

    def pick(self, accepts: Callable[[Any], bool] = lambda v: True) -> Any:
        """A value that is accepted, or ``None``."""
        fit = [v for v in self.pool if accepts(v)]
        return self.rng.choice(fit) if fit else None

    def of(self, accepted: Sequence[DType], least_rank: int = 0) -> Any:
        return self.pick(lambda v: v.dtype in accepted and len(v.shape) >= least_rank)

    def literal(self, dtype: DType, shape: Sequence[int]) -> Any:
        value = array(dtype, shape, self.rng.getrandbits(32))
        return OPS["constant"](value=Literal(value, dtype))

    def axis(self, x: Any) -> int:
        return int(self.rng.randint(0, len(x.shape) - 1))

    def constant(self) -> Any:
        dtype = self.rng.choice((*ARRAYS, dtypes.key))
        return self.literal(dtype, draw_shape(self.rng, False))

    def iota(self) -> Any:
        shape = (draw_dim(self.rng, self.symbolic), *draw_shape(self.rng, self.symbolic, 2))
        dtype = self.rng.choice(NUMERIC)
        return OPS["iota"](shape=shape, axis=self.rng.randint(0, len(shape) - 1), dtype=dtype)

    def unary(self) -> Any:
        x = self.pick()
        fit = [s for s in UNARY if x is not None and x.dtype in s.accepts]
        return self.rng.choice(fit)(x) if fit else None

    def fitting(self, x: Any) -> Any:
        """Another value of the dtype of x that broadcasts with it: one there is, part of its shape, or a constant."""
        shape = x.shape
        other = self.pick(lambda v: v.dtype is x.dtype and (v.shape == shape or v.shape == ()))
        if other is None or self.coin():
            known = tuple(d if isinstance(d, int) else 1 for d in shape)
            known = tuple(self.rng.choice((d, 1)) for d in known)
            other = self.literal(x.dtype, known[self.rng.randint(0, len(known)) :])
        return other

    def binary(self) -> Any:
        x = self.of(ARRAYS)
        fit = [s for s in BINARY if x is not None and x.dtype in s.accepts]
        if not fit:
            return None
        pair = [x, self.fitting(x)]
        if self.coin():
            pair.reverse()
        return self.rng.choice(fit)(*pair)

    def select(self) -> Any:
        x = self.of(ARRAYS)
        if x is None:
            return None
        other = self.fitting(x)
        condition = self.pick(lambda v: v.dtype is dtypes.bool_ and v.shape in (x.shape, ()))
        if condition is None:
            condition = OPS["equal"](x, x)
        return OPS["select"](condition, x, other)

    def cast(self) -> Any:
        x = self.of(ARRAYS)
        return None if x is None else OPS["cast"](x, dtype=self.rng.choice(ARRAYS))

    def broadcast(self) -> Any:
        x = self.pick(lambda v: len(v.shape) < 3)
        if x is None:
            return None
        shape = tuple(draw_dim(self.rng, self.symbolic) if isinstance(d, int) and d == 1 else d for d in x.shape)
        return OPS["broadcast_to"](x, shape=(*draw_shape(self.rng, self.symbolic, 1), *shape))

    def reshape(self) -> Any:
        x = self.pick()
        if x is None:
            return None
        n, rank = size(x.shape), len(x.shape)
        at = self.rng.randint(0, rank)
        options: list[Shape] = [
            (n,),
            (1, *x.shape),
            (*x.shape[:at], 1, *x.shape[at:]),
            (size(x.shape[:at]), size(x.shape[at:])),
        ]
        return OPS["reshape"](x, shape=self.rng.choice(options))

    def transpose(self) -> Any:
        x = self.pick()
        return (
            None if x is None else OPS["transpose"](x, axes=tuple(self.rng.sample(range(len(x.shape)), len(x.shape))))
        )

    def slice(self) -> Any:
        x = self.pick()
        if x is None:
            return None
        start: list[Dim] = []
        stop: list[Dim] = []
        for d in x.shape:
            low = self.rng.randint(0, d) if isinstance(d, int) else 0
            start.append(low)
            stop.append(self.rng.randint(low, d) if isinstance(d, int) else d)
        step = tuple(self.rng.randint(1, 3) for _ in x.shape)
        return OPS["slice"](x, start=tuple(start), stop=tuple(stop), step=step)

    def pad(self) -> Any:
        x = self.pick(lambda v: v.dtype in ARRAYS and all(not isinstance(d, int) or d <= 4 for d in v.shape))
        if x is None:
            return None
        low, high = (tuple(self.rng.randint(0, 1) for _ in x.shape) for _ in range(2))
        interior = tuple(self.rng.randint(0, 1) if isinstance(d, int) else 0 for d in x.shape)
        return OPS["pad"](x, self.literal(x.dtype, ()), low=low, high=high, interior=interior)

    def concatenate(self) -> Any:
        x = self.of(dtypes.KEYED, 1)
        if x is None:
            return None
        axis = self.axis(x)

        def joins(v: Any) -> bool:
            off = [s[:axis] + s[axis + 1 :] for s in (v.shape, x.shape)]
            return v.dtype is x.dtype and len(v.shape) == len(x.shape) and off[0] == off[1]

        more = [self.pick(joins) for _ in range(self.rng.randint(0, 2))]
        return OPS["concatenate"](x, *more, axis=axis)

    def flip(self) -> Any:
        x = self.pick()
        return None if x is None else OPS["flip"](x, axes=self.axes(x))

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(i for i in range(len(x.shape)) if self.coin())

    def reduce(self) -> Any:
        spec = self.rng.choice(REDUCTIONS)
        x = self.of(spec.accepts)
        if x is None:
            return None
        axes = self.axes(x)
        if spec.name in ("max", "min") and any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
            return None
        return spec(x, axes=axes)

    def along(self) -> Any:
        """Ops along one axis."""
        x = self.of(NUMERIC, 1)
        if x is None:
            return None
        axis = self.axis(x)
        name = self.rng.choice(("cumsum", "cummax", "sort", "argsort", "argmax", "argmin"))
        if name.startswith("arg") and isinstance(x.shape[axis], int) and x.shape[axis] == 0:
            return None
        attrs = {"reverse": self.coin()} if name.startswith("cum") else {}
        return OPS[name](x, axis=axis, **attrs)

    def gather(self) -> Any:
        x = self.of(dtypes.KEYED, 1)
        if x is None:
            return None
        axis = self.axis(x)
        n = x.shape[axis]
        mode = self.rng.choice(("clip", "fill", "error") if isinstance(n, int) else ("fill",))
        if n == 0:
            mode = "fill"
        if x.dtype.kind == "k" and mode == "fill":
            return None
        dtype = self.rng.choice((int32, int32, *INTS))
        indices = self.of((dtype,)) if mode != "error" else None
        if indices is None:
            most = n - 1 if mode == "error" else 5
            rng = np.random.default_rng(self.rng.getrandbits(32))
            values = rng.integers(0, most + 1, draw_shape(self.rng, False, 2)).astype(dtype.dtype)
            indices = OPS["constant"](value=Literal(np.asarray(values), dtype))
        if len(indices.shape) + len(x.shape) > 4:
            return None
        return OPS["gather"](x, indices, axis=axis, batch_dims=0, mode=mode)

    def scatter(self) -> Any:
        x = self.of(NUMERIC, 1)
        if x is None or x.shape[0] == 0:
            return None
        indices = OPS["iota"](shape=(2,), axis=0, dtype=int32)
        updates = OPS["broadcast_to"](self.literal(x.dtype, ()), shape=(2, *x.shape[1:]))
        name = self.rng.choice(("scatter_add", "scatter_set"))
        return OPS[name](x, indices, updates, axis=0, batch_dims=0, mode=self.rng.choice(("clip", "fill")))

    def block(self) -> Any:
        """Slices at a place that is known only while running."""
        x = self.of(ARRAYS)
        if x is None:
            return None
        starts = OPS["constant"](value=Literal(np.array([self.rng.randint(-1, 4) for _ in x.shape], np.int32), int32))
        sizes = tuple([self.rng.randint(0, d) if isinstance(d, int) else d for d in x.shape])
        part = OPS["dynamic_slice"](x, starts, sizes=sizes)
        return [part, OPS["dynamic_update_slice"](x, part, starts)] if self.coin() else part

    def window(self) -> Any:
        x = self.of(NUMERIC)
        if x is None:
            return None
        attrs: dict[str, tuple[int, ...]] = {"window": (), "strides": (), "low": (), "high": ()}
        for d in x.shape:
            w = self.rng.randint(1, 3) if isinstance(d, int) else 1
            row = (w, self.rng.randint(1, 2) if isinstance(d, int) else 1, self.rng.randint(0, w - 1), 0)
            attrs = {k: (*attrs[k], v) for k, v in zip(attrs, row, strict=True)}
        return OPS[self.rng.choice(("window_sum", "window_max"))](x, **attrs)

    def dot(self) -> Any:
        x = self.of(NUMERIC)
        if x is None:
            return None
        y = self.pick(lambda v: v.dtype is x.dtype and len(v.shape) + len(x.shape) <= 4)
        if y is None:
            return None
        shared = [(i, j) for i, a in enumerate(x.shape) for j, b in enumerate(y.shape) if a == b]
        pairs: dict[str, list[tuple[int, int]]] = {"contract": [], "batch": [], "": []}
        for i, j in shared:
            used = [p for listed in pairs.values() for p in listed]
            if all(i != a and j != b for a, b in used):
                pairs[self.rng.choice(("contract", "contract", "batch", ""))].append((i, j))
        attrs = {
            f"{kind}_{side}": tuple(p[at] for p in pairs[kind])
            for kind in ("contract", "batch")
            for at, side in enumerate("xy")
        }
        return OPS["dot_general"](x, y, **attrs)

    def random(self) -> Any:
        key = self.of((dtypes.key,))
        if key is None:
            return self.literal(dtypes.key, ())
        way = self.rng.choice(("bits", "fold", "unwrap"))
        if way == "unwrap":
            return OPS["random_wrap"](OPS["random_unwrap"](key))
        if way == "fold":
            data = OPS["broadcast_to"](self.literal(dtypes.uint32, ()), shape=key.shape)
            return OPS["random_fold_in"](key, data)
        shape = draw_shape(self.rng, self.symbolic, 1)
        return OPS["random_bits"](key, shape=shape, dtype=self.rng.choice(UNSIGNED))

    def function(self) -> tuple[list[Any], Graph]:
        """Operands and a random graph over them."""
        args = [self.rng.choice(self.pool) for _ in range(self.rng.randint(0, 2))] if self.pool else []
        inputs = [Type(a.dtype, a.shape) for a in args]
        seed = self.rng.getrandbits(32)
        return args, random_graph(seed, self.rng.randint(0, 4), self.symbolic, self.depth - 1, inputs)

    def nested(self) -> Any:
        """An op that holds functions: one of them random, the others made to fit."""
        if not self.depth:
            return None
        args, function = self.function()
        if not function.outputs:
            return None
        types = [v.type for v in function.inputs]
        way = self.rng.choice(("cond", "scan", "while_loop", "checkpoint"))
        if way == "checkpoint":
            out = OPS["checkpoint"](*args, function=function, policy=self.rng.choice(("nothing", "dots")))
        elif way == "cond":
            other, _ = trace_function(lambda *xs: [_changed(y) for y in inline(function, xs)], types, "other")
            index = self.literal(dtypes.int32, ())
            branches = [function, other] if self.coin() else [other, function, other]
            out = OPS["cond"](index, *args, branches=tuple(branches))
        else:
            out = self.loop(way, args, function, types)
        return list(out) if isinstance(out, tuple) else [out]

    def loop(self, op: str, args: list[Any], function: Graph, types: list[Type]) -> Any:
        """A loop of up to three steps that counts them, and in ``while_loop`` carries what the function gives."""
        count = Type(dtypes.int32, ())
        one = lambda: lit(1, dtypes.int32)  # noqa: E731
        if op == "scan":

            def step(*xs: Any) -> list[Any]:
                return [OPS["add"](xs[-1], one()), *inline(function, xs[:-1])]

            body, _ = trace_function(step, [*types, count], "body")
            length = (self.rng.randint(0, 3),)
            start = lit(0, dtypes.int32)
            attrs = {"consts": len(args), "carries": 1, "length": length, "reverse": self.coin()}
            return OPS["scan"](*args, start, body=body, **attrs)

        def again(*xs: Any) -> list[Any]:
            return [OPS["add"](xs[len(args)], one()), *inline(function, xs[: len(args)])]

        whole = [*types, count, *[v.type for v in function.outputs]]
        body, _ = trace_function(again, whole, "body")
        steps = self.rng.randint(0, 3)
        test, _ = trace_function(lambda *xs: [OPS["less"](xs[len(args)], lit(steps, dtypes.int32))], whole, "test")
        carry = [lit(0, dtypes.int32), *inline(function, args)]
        return OPS["while_loop"](*args, *carry, cond=test, body=body, consts=len(args))

    def call(self) -> Any:
        if not self.depth:
            return None
        args, function = self.function()
        composite = self.rng.choice(("", "softmax", 'a "b"\\\n'))
        outs = OPS["call"](*args, function=function, composite=composite)
        if self.coin():
            outs = OPS["call"](*args, function=function, composite="")
        return list(outs) if isinstance(outs, tuple) else [outs]


__all__ = ["array", "concrete_inputs", "draw_dim", "draw_shape", "draw_type", "graphs", "random_graph", "seeds"]
