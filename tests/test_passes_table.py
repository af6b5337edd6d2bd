"""Every pass that keeps what a graph computes, on every op of the table: alone, twice in a row, beside constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from evaluate import evaluate
from measure import samples
from rules import types_of
from test_passes import SAME, assert_same

from dala_defn import dtypes, ops
from dala_defn.dtypes import DType
from dala_defn.ir import Graph, Type
from dala_defn.ops import OPS
from dala_defn.ops.creation import lit
from dala_defn.ops.spec import Case, OpSpec
from dala_defn.passes import PASSES
from dala_defn.trace import trace_function

KINDS = (dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.float32, dtypes.complex64, dtypes.key)
CELLS = [(spec, dtype) for spec in OPS.values() for dtype in spec.accepts if dtype in KINDS]


def _graph(f: Any, types: Sequence[Type]) -> Graph:
    graph, captures = trace_function(f, types, "f")
    assert not captures
    return graph


def around(spec: OpSpec, types: Sequence[Type], case: Case) -> Iterator[Graph]:
    """Small graphs of an op on operands of these types."""

    def op(*xs: Any) -> list[Any]:
        out = spec(*xs, **case.attrs)
        return list(out) if isinstance(out, tuple) else [out]

    alone = _graph(op, types)
    yield alone
    (first, *others) = (v.type for v in alone.outputs)
    if not others and types and first == types[0]:
        yield _graph(lambda *xs: op(op(*xs)[0], *xs[1:]), types)
        yield _graph(lambda *xs: [*op(*xs), *op(op(*xs)[0], *xs[1:])], types)
    if spec.family == "binary" and types[0].dtype.kind in "biuf":
        for c in (0, 1) if types[0].dtype.kind in "bu" else (0, 1, -1):
            yield _graph(lambda x, c=c: op(x, lit(c, x.dtype)), types[:1])
            yield _graph(lambda x, c=c: op(lit(c, x.dtype), x), types[:1])
            yield _graph(lambda x: op(x, x), types[:1])


@pytest.mark.parametrize(("spec", "dtype"), CELLS, ids=[f"{s.name}-{d.short}" for s, d in CELLS])
def test_passes_keep_what_an_op_computes(spec: OpSpec, dtype: DType) -> None:
    signs = spec.name != "mul_strong_zero"  # see test_passes
    for case in [c for c in samples(spec, dtype) if sum(np.size(a) for a in c.args) <= 400][:6]:
        types = types_of(spec, dtype, case)
        for graph in around(spec, types, case):
            args = [np.asarray(a) for a in case.args][: len(graph.inputs)]
            with np.errstate(all="ignore"):
                wanted = evaluate(graph, *args)
                for name in SAME:
                    after = PASSES[name].run(graph)
                    ops.verify(after)
                    assert_same(evaluate(after, *args), wanted, signs)
