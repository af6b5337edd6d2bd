"""Programs as bytes and back, on random graphs."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import graphs

from dala_defn import dtypes, ops
from dala_defn.errors import ShapeError
from dala_defn.ir import Graph, Node, Type
from dala_defn.ir.codec import decode, encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.shapes import DimExpr, names_of


def program_of(graph: Graph) -> Program:
    """A program with this graph as its only entry."""
    args = tuple(Arg(f"x{i}", "key" if v.type.dtype.kind == "k" else "arg") for i, v in enumerate(graph.inputs))
    entry = Entry("main", graph, args, tuple(Result(f"y{i}") for i in range(len(graph.outputs))))
    return Program((entry,), dict.fromkeys(sorted(sizes_of(graph)), (0, None)))


def sizes_of(graph: Graph) -> set[str]:
    """The names of all sizes in a graph and its functions."""
    values = [v for g in (graph, *graph.functions()) for v in (*g.inputs, *(o for n in g.nodes for o in n.outputs))]
    return names_of(d for v in values for d in v.type.shape)


@given(graphs())
def test_bytes_round_trip(graph: Graph) -> None:
    data = encode(program_of(graph))
    back = decode(data, ops.OPS)
    ops.verify(back.entries[0].graph)
    assert back.entries[0].graph == graph
    assert back.dims == program_of(graph).dims
    assert encode(back) == data


@given(graphs())
def test_locations_can_be_stripped(graph: Graph) -> None:
    bare = encode(program_of(graph), strip_locations=True)
    assert b'"locations"' not in bare and len(bare) <= len(encode(program_of(graph)))
    assert decode(bare, ops.OPS).entries[0].graph == graph


def test_a_size_that_no_argument_gives_is_refused() -> None:
    n = DimExpr.named("n")
    node = Node("iota", (), {"shape": (n,), "axis": 0, "dtype": dtypes.int32}, [Type(dtypes.int32, (n,))])
    graph = Graph("count", (), (node,), node.outputs)
    with pytest.raises(ShapeError, match="the size n"):
        encode(Program((Entry("main", graph, (), (Result("y"),)),)))
