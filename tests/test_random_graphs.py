"""Random graphs: each value is right for its operands, and eager, compiled and exported runs give the same bits.

That passes keep what a graph computes is tests/test_passes.py, and that fused kernels keep the bits of single ones
tests/test_fuse.py. ``pytest -m long tests/test_random_graphs.py`` runs 10,000 graphs.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure import equal, operands, truth, words
from strategies import array, random_graph, seeds

import dala_defn as dd
from dala_defn import ops
from dala_defn.array import Array
from dala_defn.executors import executor
from dala_defn.ir import Graph, Node, Value
from dala_defn.ir.codec import encode
from dala_defn.ir.graph import graphs_in
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops.spec import OPS
from dala_defn.passes import inline_calls
from dala_defn.trace import inline

LONG = 10_000


def inputs_of(graph: Graph, seed: int) -> list[Any]:
    """An array for each input, NaN and infinities among them."""
    made = [array(v.type.dtype, v.type.shape, seed + i) for i, v in enumerate(graph.inputs)]  # type: ignore[arg-type]
    return list(operands([v.type for v in graph.inputs], made))


def is_plain(node: Node) -> bool:
    """An op of values alone."""
    return not any(graphs_in(a) for a in node.attrs.values()) and node.op not in ("constant", "iota")


def compiled(graph: Graph, args: list[Any], watched: list[Value]) -> dict[Value, Array]:
    """Values of one run on Burn as the graph stands: without passes and kernels."""
    whole = Graph(graph.name, graph.inputs, graph.nodes, tuple(watched))
    takes = [Arg(f"x{i}", "key" if v.type.dtype.kind == "k" else "arg") for i, v in enumerate(graph.inputs)]
    entry = Entry("main", whole, tuple(takes), tuple(Result(f"y{i}") for i in range(len(watched))))
    runner: Any = executor("flex")
    loaded = runner.engine.load(encode(Program((entry,))))
    return dict(zip(watched, loaded.run(0, args, [v.type for v in watched]), strict=True))


def check(seed: int, nodes: int, tmp_path: Path) -> None:
    """All that this file says, of one graph."""
    graph = random_graph(seed, nodes)
    args = inputs_of(graph, seed)
    flat = inline_calls(graph)
    watched = [v for n in flat.nodes for v in n.outputs if v.type.dtype.kind != "t"]
    found = dict(zip(flat.inputs, args, strict=True)) | compiled(flat, args, watched)

    for node in flat.nodes:
        if not is_plain(node):
            continue
        spec, given_ = OPS[node.op], [found[v] for v in node.inputs]
        types = [v.type for v in node.inputs]
        arrays = [words(np.asarray(x.numpy())) for x in given_]
        eager = ops.bind(spec, tuple(given_), node.attrs)
        for v, x in zip(node.outputs, eager, strict=True):
            got = words(np.asarray(found[v].numpy()))
            assert equal(words(np.asarray(x.numpy())), got), f"{node}: eager and compiled differ\n{graph}"
        if len(node.outputs) == 1 and (spec.determined is None or spec.determined(*arrays, **node.attrs)):
            got = words(np.asarray(found[node.outputs[0]].numpy()))
            right = truth(spec, types, arrays, node.attrs)
            bound = spec.bound(types[0].dtype if types else node.outputs[0].type.dtype)
            assert right.error(got) <= bound, f"{node}\n{got}\n{right.want}\n{graph}"

    f = dd.defn(lambda *xs: inline(graph, xs), rewrite=False)
    path = tmp_path / "graph.dala"
    f.export(path, *[dd.spec(v.type.shape, v.type.dtype) for v in graph.inputs])
    loaded = dd.load(path)(*args)
    for a, b in zip(f(*args), loaded.values() if isinstance(loaded, dict) else [loaded], strict=True):
        assert equal(words(np.asarray(a.numpy())), words(np.asarray(b.numpy()))), f"the file differs\n{graph}"


@given(seeds(), st.integers(1, 20))
@settings(max_examples=300)
def test_random_graphs(tmp_path_factory: pytest.TempPathFactory, seed: int, nodes: int) -> None:
    check(seed, nodes, tmp_path_factory.getbasetemp())


@pytest.mark.long
@pytest.mark.parametrize("part", range(100))
def test_many_random_graphs(tmp_path: Path, part: int) -> None:
    rng = Random(part)
    for _ in range(LONG // 100):
        check(rng.getrandbits(32), rng.randint(1, 20), tmp_path)
