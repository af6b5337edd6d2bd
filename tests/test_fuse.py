"""The fusion pass on random graphs: fused kernels give the bits that a kernel for each node gives."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kernels import evaluate
from strategies import array, graphs

from dala_defn import dtypes, ops
from dala_defn.dtypes import ARRAYS, DType
from dala_defn.ir import Graph, Type
from dala_defn.ops.spec import OPS
from dala_defn.passes.dce import dce
from dala_defn.passes.fuse import Fuse
from dala_defn.trace import trace_function

UNARY = [s for s in OPS.values() if s.family == "unary" and s.fusion == "elementwise" and not s.attrs]
BINARY = [s for s in OPS.values() if s.family == "binary"]
COMMON = (dtypes.float32, dtypes.float32, dtypes.float32, dtypes.int32, dtypes.float64, dtypes.float16, dtypes.bool_)
EAGER = Fuse(few=0, alone=0)  # leaves nothing out


class Steps:
    """Ops on values whose shapes broadcast to one shape: what fuses."""

    def __init__(self, rng: Random, shape: tuple[int, ...], pool: list[Any]) -> None:
        self.rng = rng
        self.shape = shape
        self.pool = pool

    def step(self) -> None:
        way = self.rng.choice([self.unary, self.unary, self.binary, self.binary, self.binary, self.cast, self.select,
                               self.reduce, self.keep, self.iota, self.stretch, self.opaque])  # fmt: skip
        made = way()
        if made is not None:
            self.pool.append(made)

    def pick(self, accepts: Any = ARRAYS) -> Any:
        found = [x for x in self.pool if x.dtype in accepts]
        return self.rng.choice(found[-8:]) if found else None

    def other(self, x: Any) -> Any:
        """An operand that broadcasts with x, of its dtype."""
        fits = [y for y in self.pool if y.dtype is x.dtype and _fits(x.shape, y.shape)]
        return self.rng.choice(fits)

    def unary(self) -> Any:
        spec = self.rng.choice(UNARY)
        x = self.pick(spec.accepts)
        return None if x is None else spec(x)

    def binary(self) -> Any:
        spec = self.rng.choice(BINARY)
        x = self.pick(spec.accepts)
        return None if x is None else spec(x, self.other(x))

    def cast(self) -> Any:
        x = self.pick()
        return OPS["cast"](x, dtype=self.rng.choice(COMMON))

    def select(self) -> Any:
        c, x = self.pick((dtypes.bool_,)), self.pick()
        if c is None or not _fits(c.shape, x.shape):
            return None
        y = self.other(x)
        return OPS["select"](c, x, y) if _fits(c.shape, y.shape) else None

    def reduce(self) -> Any:
        spec = OPS[self.rng.choice(("sum", "prod", "max", "min"))]
        x = self.pick(spec.accepts)
        if x is None or not x.shape or (spec.name in ("max", "min") and 0 in x.shape):
            return None
        axes = (len(x.shape) - 1,) if self.rng.random() < 0.8 else (0,)
        y = spec(x, axes=axes)
        ones = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
        return OPS["reshape"](y, shape=ones) if self.rng.random() < 0.8 else y

    def keep(self) -> Any:
        x = self.pick()
        if len(x.shape) > len(self.shape) or any(
            m not in (1, n) for m, n in zip(reversed(x.shape), reversed(self.shape), strict=False)
        ):
            return None
        return OPS["broadcast_to"](x, shape=self.shape)

    def stretch(self) -> Any:
        x = self.pick()
        if x.shape and self.rng.random() < 0.5:
            return OPS["transpose"](x, axes=tuple(reversed(range(len(x.shape)))))
        return OPS["reshape"](x, shape=(*x.shape, 1))

    def iota(self) -> Any:
        if not self.shape:
            return None
        axis = self.rng.randrange(len(self.shape))
        return OPS["iota"](shape=self.shape, axis=axis, dtype=self.rng.choice((dtypes.int32, dtypes.float32)))

    def opaque(self) -> Any:
        x = self.pick(dtypes.NUMERIC)
        if x is None or not x.shape:
            return None
        return OPS["cumsum"](x, axis=len(x.shape) - 1, reverse=False)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def fusible(seed: int, steps: int) -> Graph:
    """A graph of ops that mostly fuse."""
    rng = Random(seed)
    shape = tuple(rng.choice((0, 1, 2, 3, 5, 9, 17, 40)) for _ in range(rng.randint(0, 3)))
    types = []
    for _ in range(rng.randint(2, 5)):
        mine = tuple(d if rng.random() < 0.8 else 1 for d in shape)
        types.append(Type(rng.choice(COMMON), mine[rng.choice((0, 0, 0, rng.randint(0, len(mine)))) :]))

    def body(*args: Any) -> list[Any]:
        s = Steps(rng, shape, list(args))
        for _ in range(steps):
            s.step()
        last = s.pool[-1:] + [rng.choice(s.pool) for _ in range(rng.randint(0, 3))]
        return last

    graph, captures = trace_function(body, types, "main", [f"x{i}" for i in range(len(types))])
    assert not captures
    return dce(graph)


def same(a: Any, b: Any, dtype: DType) -> bool:
    with np.errstate(all="ignore"):
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=dtype.is_float))


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_fused_kernels_give_the_bits_of_single_ones(seed: int, steps: int) -> None:
    graph = fusible(seed, steps)
    fused = EAGER.run(graph)
    ops.verify(fused)
    args = [array(v.type.dtype, v.type.shape, seed + i) for i, v in enumerate(graph.inputs)]  # type: ignore[arg-type]
    want = evaluate(graph, args, alone=True)
    got = evaluate(fused, args, alone=True)
    for v, a, b in zip(graph.outputs, want, got, strict=True):
        assert same(a, b, v.type.dtype), f"{v}\n{a}\n{b}\n{graph}\n{fused}"


@given(graphs(symbolic=False, nodes=30))
def test_any_graph_can_be_fused(graph: Graph) -> None:
    ops.verify(EAGER.run(graph))


def test_fusing_leaves_little_behind() -> None:
    count = {"before": 0, "after": 0}
    for seed in range(400):  # so many that it does not depend on which ops there are
        graph = fusible(seed, 20)
        count["before"] += len(graph.nodes)
        count["after"] += len(EAGER.run(graph).nodes)
    assert count["after"] < 0.7 * count["before"]
