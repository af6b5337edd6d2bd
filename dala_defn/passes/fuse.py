"""Chains of elementwise ops, and reductions over the last axis with what they feed, become ``fused`` nodes.

Nodes are taken in order, each joining the groups of its operands where that is allowed:

- A group runs over the axes of one shape. In a group that reduces, the last of these axes is swept by each row, and
  what has been reduced stays with its row: softmax and layer normalisation are one group.
- Every node has a level: that of its group, where everything that a group takes from outside is of a lower one. So no
  path leads from a group through another node back into it, and groups of one level may be joined. A group that nothing
  outside has used yet may also rise to a higher level.
- Nothing is computed twice but what costs nothing: constants, ``broadcast_to``, ``iota`` and reshapes that add axes of
  size 1 are repeated in every group that uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.spec import OPS
from dala_defn.passes.base import Pass, register
from dala_defn.passes.kernels import is_computed, is_free, is_one, is_reduced, kernel_plan
from dala_defn.shapes import Dim, size

_SLOW = 12  # the cost of an op that is worth a kernel alone, where there is much of it
Map = tuple[int | None, ...]  # for each dim of a value the axis of the space it runs over; None where it is repeated


@dataclass(eq=False)
class _Group:
    """Nodes that will be one kernel.

    Attributes:
        space: the sizes that it runs over, without those that are 1.
        level: see the module.
        nodes: its members, in order.
        maps: for every value in it, and every value that it takes from outside, over which axes its dims run.
        outside: the values that it takes from outside.
        row: whether the last axis is swept, because something is reduced over it.
        escaped: whether something outside uses what it computes.
    """

    space: tuple[Dim, ...]
    level: int
    nodes: list[Node] = field(default_factory=list)
    maps: dict[Value, Map] = field(default_factory=dict)
    outside: set[Value] = field(default_factory=set)
    row: bool = False
    escaped: bool = False

    def whole(self, m: Map) -> bool:
        """Whether a value of this map varies over the whole space."""
        return {a for a in m if a is not None} == set(range(len(self.space)))


@register
@dataclass(frozen=True)
class Fuse(Pass):
    """Groups what one kernel can compute. A single op is left alone, unless it is a slow one on many numbers.

    Attributes:
        limit: the largest number of nodes in a kernel.
        operands: the largest number of its operands.
        alone: from how many elements on a slow op is a kernel by itself.
        few, small: so few nodes on so few elements are no kernel either: calling Burn for each costs less than a kernel
            takes to compile.
        rowless: up to how many elements a reduction to a single number is a kernel: it runs on one thread.
    """

    name: ClassVar[str] = "fuse"

    limit: int = 512
    operands: int = 48
    alone: int = 4096
    few: int = 4
    small: int = 256
    rowless: int = 1 << 15

    def run(self, graph: Graph) -> Graph:
        """The graph with fused nodes."""
        groups = _Grouping(self, graph).groups()
        return _rebuilt(graph, groups) if groups else graph


class _Grouping:
    """One graph being grouped."""

    def __init__(self, options: Fuse, graph: Graph) -> None:
        self.options = options
        self.graph = graph
        self.group: dict[Node, _Group] = {}
        self.moved: dict[_Group, _Group] = {}  # groups that were joined to others
        self.level: dict[Value, int] = {}

    def groups(self) -> list[_Group]:
        """The groups that pay."""
        for node in self.graph.nodes:
            self._take(node)
        found = dict.fromkeys(self._of(g) for g in self.group.values())
        return [g for g in found if self._pays(g)]

    def _of(self, g: _Group) -> _Group:
        while g in self.moved:
            g = self.moved[g]
        return g

    def _take(self, node: Node) -> None:
        if (is_computed(node) or is_reduced(node)) and not node.has_effect:
            nearest = self._nearest(node)
            if nearest is not None and self._join(nearest, node):
                return
            if self._join(self._fresh(node), node):
                return
        free = is_free(node)
        level = max(map(self._below, node.inputs), default=-1)
        for v in node.outputs:
            self.level[v] = level if free else level + 1
        if not free:
            self._used(node.inputs, None)

    def _used(self, values: Iterable[Value], by: _Group | None) -> None:
        """Marks the groups whose values are used outside of them."""
        for v in values:
            g = self._source(v)
            if g is not None and g is not by:
                g.escaped = True

    def _nearest(self, node: Node) -> _Group | None:
        """The highest of the groups that its operands come from: the others must lie below it or join it too."""
        found = [g for v in node.inputs if (g := self._source(v)) is not None]
        return max(found, key=lambda g: g.level, default=None)

    def _source(self, v: Value) -> _Group | None:
        """The group that computes a value, perhaps under free nodes."""
        while v.node is not None and is_free(v.node) and v.node.inputs:
            v = v.node.inputs[0]
        return None if v.node is None or v.node not in self.group else self._of(self.group[v.node])

    def _fresh(self, node: Node) -> _Group:
        shape = node.inputs[0].type.shape if is_reduced(node) else node.outputs[0].type.shape
        g = _Group(tuple(d for d in shape if not is_one(d)), 1 + max(map(self._below, node.inputs), default=-1))
        return g

    def _below(self, v: Value) -> int:
        g = self._source(v)
        return self.level.get(v, -1) if g is None else g.level

    def _join(self, g: _Group, node: Node) -> bool:
        """Takes a node into a group, with the groups of its operands where they fit; whether it could."""
        joined = _Attempt(self, g, node).run()
        if joined is None:
            return False
        for other in joined.absorbed:
            self._absorb(g, other)
        g.maps.update(joined.maps)
        g.outside.update(v for v in joined.maps if v.node is not node)
        g.row |= is_reduced(node)
        g.nodes.append(node)
        self.group[node] = g
        self._used(node.inputs, g)
        return True

    def _absorb(self, g: _Group, other: _Group) -> None:
        g.nodes += other.nodes
        g.row |= other.row
        g.escaped |= other.escaped
        g.outside |= other.outside
        for v, m in other.maps.items():
            g.maps.setdefault(v, m)
        self.moved[other] = g

    def _pays(self, g: _Group) -> bool:
        work = [n for n in g.nodes if n.op != "stop_gradient"]
        if not work:
            return False
        if g.row and all(is_reduced(n) for n in work):
            return False
        total = size(g.space)
        if len(work) == 1:
            return OPS[work[0].op].cost >= _SLOW and (not isinstance(total, int) or total >= self.options.alone)
        return len(work) > self.options.few or not isinstance(total, int) or total > self.options.small


class _Attempt:
    """Whether a node fits into a group, and what follows if it does."""

    def __init__(self, grouping: _Grouping, g: _Group, node: Node) -> None:
        self.grouping = grouping
        self.g = g
        self.node = node
        self.maps: dict[Value, Map] = {}
        self.absorbed: list[_Group] = []
        self.row = g.row or is_reduced(node)

    def run(self) -> _Attempt | None:
        """Itself when the node fits."""
        g, node, options = self.g, self.node, self.grouping.options
        if len(g.nodes) >= options.limit:
            return None
        if is_reduced(node):
            if is_one(node.inputs[0].type.shape[-1]) or not self._one_sweep():
                return None
            given = self._reduced_operand()
            if given is None or not self._operand(node.inputs[0], given):
                return None
            out: Map = given[:-1]
        else:
            found = self._result_map()
            if found is None:
                return None
            out = found
            if not (g.whole(out) or (self._in_row(out) and self._within_rows())):
                return None
            shift = len(out)
            for v in node.inputs:
                aligned = tuple(
                    None if is_one(d) else a for d, a in zip(v.type.shape, out[shift - v.type.ndim :], strict=True)
                )
                if not self._operand(v, aligned):
                    return None
        self.maps[node.outputs[0]] = out
        if self._external() > options.operands:
            return None
        return self

    def _in_row(self, m: Map) -> bool:
        return self.row and {a for a in m if a is not None} == set(range(len(self.g.space) - 1))

    def _within_rows(self) -> bool:
        """Whether a node of rows belongs to this group: something that it uses was reduced there."""
        return any(self.grouping._source(v) is self.g for v in self.node.inputs)

    def _one_sweep(self) -> bool:
        """Whether the group's last axis can be swept: rows enough to share between threads, or few elements."""
        space = self.g.space
        if not space:
            return False
        if len(space) == 1:
            n = space[0]
            return isinstance(n, int) and n <= self.grouping.options.rowless
        # A group whose other results are not whole lines of the space stays as it is.
        return True

    def _reduced_operand(self) -> Map | None:
        """The map of a reduction's operand: all of the space, the axis that goes away the last of it."""
        v = self.node.inputs[0]
        known = self._known(v)
        want: list[int | None] = []
        at = 0
        for d in v.type.shape:
            if is_one(d):
                want.append(None)
                continue
            if at >= len(self.g.space) or self.g.space[at] != d:
                return None
            want.append(at)
            at += 1
        if at != len(self.g.space):
            return None
        fits = known is None or all(a is None or a == b for a, b in zip(known, want, strict=True))
        return tuple(want) if fits else None

    def _result_map(self) -> Map | None:
        """The map of an elementwise result, from the operands that are in the group; else that of the whole space."""
        (out,) = self.node.outputs
        shape = out.type.shape
        found: list[int | None] = [None] * len(shape)
        seen = False
        for v in self.node.inputs:
            m = self._known(v)
            if m is None:
                continue
            seen = seen or any(a is not None for a in m)
            shift = len(shape) - len(m)
            for i, a in enumerate(m):
                if a is not None and found[i + shift] not in (None, a):
                    return None
                if a is not None:
                    found[i + shift] = a
        missing = [i for i, d in enumerate(shape) if not is_one(d) and found[i] is None]
        if missing or not seen:
            # The rest is repeated over the axes that are left, which must fit in order.
            whole = [i for i, d in enumerate(shape) if not is_one(d)]
            if len(whole) != len(self.g.space) or any(
                self.g.space[a] != shape[i] or found[i] not in (None, a) for a, i in enumerate(whole)
            ):
                return None
            for a, i in enumerate(whole):
                found[i] = a
        named = [a for a in found if a is not None]
        return tuple(found) if len(set(named)) == len(named) else None

    def _known(self, v: Value) -> Map | None:
        """The map of a value that the group has, perhaps under free nodes; None for what comes from outside."""
        m = self.maps.get(v)
        if m is None and v.node is not None and self._is_mine(v):
            m = self.g.maps.get(v)
        if m is not None or v.node is None or not is_free(v.node) or not v.node.inputs:
            return m
        inner = self._known(v.node.inputs[0])
        return None if inner is None else _through(v.node, inner)

    def _is_mine(self, v: Value) -> bool:
        return v.node in self.grouping.group and self.grouping._of(self.grouping.group[v.node]) is self.g

    def _operand(self, v: Value, m: Map) -> bool:
        """Whether an operand can be used with this map; notes what it needs."""
        node = v.node
        if node is not None and is_free(node):
            if node.op in ("constant", "iota"):
                return True
            inner = _back(node, m)
            return inner is not None and self._operand(node.inputs[0], inner)
        source = None if node is None else self.grouping.group.get(node)
        source = None if source is None else self.grouping._of(source)
        if source is self.g:
            return _agrees(self.g.maps[v], m)
        if source is not None and self._absorbs(source, v, m):
            return True
        known = self.maps.get(v, self.g.maps.get(v))
        if known is not None and known != m:
            return False
        if self.grouping._below(v) >= self.g.level:
            return False
        self.maps[v] = m
        return True

    def _absorbs(self, other: _Group, v: Value, m: Map) -> bool:
        """Whether the group that computes an operand may be joined: same space, same level, the same reading of it."""
        if other in self.absorbed:
            return _agrees(other.maps[v], m)
        if other.space != self.g.space or (other.level != self.g.level and other.escaped):
            return False
        if len(other.nodes) + len(self.g.nodes) > self.grouping.options.limit or not _agrees(other.maps[v], m):
            return False
        if (other.row or self.row) and not self._one_sweep():
            return False
        if any(self.g.maps.get(u, k) != k for u, k in other.maps.items()):
            return False
        self.absorbed.append(other)
        return True

    def _external(self) -> int:
        """How many operands there would be."""
        new = sum(v not in self.g.outside for v in self.maps) - 1
        return len(self.g.outside) + new + sum(len(other.outside) for other in self.absorbed)


def _agrees(have: Map, want: Map) -> bool:
    return len(have) == len(want) and all(a == b for a, b in zip(have, want, strict=True))


def _through(node: Node, m: Map) -> Map:
    """The map of what a free node makes of a value."""
    shape = node.outputs[0].type.shape
    if node.op == "reshape":
        axes = iter([a for a, d in zip(m, node.inputs[0].type.shape, strict=True) if not is_one(d)])
        return tuple(None if is_one(d) else next(axes) for d in shape)
    return (None,) * (len(shape) - len(m)) + m


def _back(node: Node, m: Map) -> Map | None:
    """The map that the operand of a free node has when its result has this one."""
    shape = node.inputs[0].type.shape
    if node.op == "reshape":
        axes = iter([a for a, d in zip(m, node.outputs[0].type.shape, strict=True) if not is_one(d)])
        return tuple(None if is_one(d) else next(axes) for d in shape)
    shift = len(m) - len(shape)
    return tuple(None if is_one(d) else m[i + shift] for i, d in enumerate(shape))


def _needed(graph: Graph, member: Mapping[Node, _Group]) -> set[Value]:
    """The values that must exist outside of groups; free nodes that only groups use are none of them."""
    needed: set[Value] = set(graph.outputs)
    for node in reversed(graph.nodes):
        g = member.get(node)
        if g is None:
            if node.has_effect or any(v in needed for v in node.outputs):
                needed.update(node.inputs)
            continue
        for v in node.inputs:
            while v.node is not None and is_free(v.node) and v.node.inputs:
                v = v.node.inputs[0]
            if v.node is None or (not is_free(v.node) and member.get(v.node) is not g):
                needed.add(v)
    return needed


def _rebuilt(graph: Graph, groups: Iterable[_Group]) -> Graph:
    """The graph with a node for each group, in an order that works."""
    member = {n: g for g in groups for n in g.nodes}
    needed = _needed(graph, member)
    place = {n: i for i, n in enumerate(graph.nodes)}
    builds = {g: _Build(g, needed, place) for g in groups}
    env: dict[Value, Value] = {}
    nodes: list[Node] = []
    done: set[Node | _Group] = set()
    for first in graph.nodes:
        stack: list[Node | _Group] = [first]
        while stack:
            item = stack[-1]
            item = member.get(item, item) if isinstance(item, Node) else item
            alive = isinstance(item, _Group) or item.has_effect or any(v in needed for v in item.outputs)
            if item in done or not alive:
                stack.pop()
                continue
            operands = item.inputs if isinstance(item, Node) else builds[item].operands
            waiting = [v.node for v in operands if v.node is not None and member.get(v.node, v.node) not in done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            done.add(item)
            if isinstance(item, _Group):
                node = builds[item].node(env)
                env.update(zip(builds[item].results, node.outputs, strict=True))
            else:
                node = _on(item, env)
            nodes.append(node)
    return Graph(graph.name, graph.inputs, nodes, [env.get(v, v) for v in graph.outputs])


def _on(node: Node, env: dict[Value, Value]) -> Node:
    """The node on what its operands have become."""
    inputs = tuple([env.get(v, v) for v in node.inputs])
    if inputs == node.inputs:
        return node
    copy = Node(node.op, inputs, node.attrs, [o.type for o in node.outputs], node.loc)
    env.update(zip(node.outputs, copy.outputs, strict=True))
    return copy


class _Build:
    """The fused node of a group."""

    def __init__(self, g: _Group, needed: set[Value], place: Mapping[Node, int]) -> None:
        self.g = g
        members = sorted(g.nodes, key=lambda n: place[n])  # groups that were joined stand one after the other
        self.copies: list[Node] = []
        self.operands: list[Value] = []
        self.inputs: list[Value] = []
        self.input_maps: list[Map] = []
        self.env: dict[Value, Value] = {}
        self.outside: dict[tuple[Value, Map], Value] = {}
        for n in members:
            inputs = tuple([self._inside(v, self._map_of(n, v)) for v in n.inputs])
            copy = Node(n.op, inputs, n.attrs, [o.type for o in n.outputs], n.loc)
            self.env.update(zip(n.outputs, copy.outputs, strict=True))
            self.copies.append(copy)
        self.results = [v for n in members for v in n.outputs if v in needed]
        self.loc = members[-1].loc

    def _map_of(self, n: Node, v: Value) -> Map:
        out = self.g.maps[n.outputs[0]]
        if is_reduced(n):
            return (*out, len(self.g.space) - 1)
        shift = len(out)
        return tuple(None if is_one(d) else a for d, a in zip(v.type.shape, out[shift - v.type.ndim :], strict=True))

    def _inside(self, v: Value, m: Map) -> Value:
        """A value as the function has it: free nodes are repeated, others from outside become operands."""
        if v in self.env:
            return self.env[v]
        if v.node is not None and is_free(v.node):
            inner = []
            if v.node.inputs:
                back = _back(v.node, m)
                assert back is not None
                inner.append(self._inside(v.node.inputs[0], back))
            copy = Node(v.node.op, tuple(inner), v.node.attrs, [v.type], v.node.loc)
            self.copies.append(copy)
            return copy.outputs[0]
        found = self.outside.get((v, m))
        if found is None:
            found = self.outside[v, m] = Value(v.type, v.name)
            self.operands.append(v)
            self.inputs.append(found)
            self.input_maps.append(m)
        return found

    def node(self, env: Mapping[Value, Value]) -> Node:
        """The node, on what its operands have become."""
        g = self.g
        function = Graph("fused", self.inputs, self.copies, [self.env[v] for v in self.results])
        axes = [-1 if a is None else a for m in self.input_maps for a in m]
        axes += [-1 if a is None else a for v in self.results for a in g.maps[v]]
        parallel = len(g.space) - (1 if g.row else 0)
        key = kernel_plan(function, len(g.space), axes, parallel).key()
        attrs = {"function": function, "key": key, "space": g.space, "axes": tuple(axes), "parallel": parallel}
        operands = tuple([env.get(v, v) for v in self.operands])
        return Node("fused", operands, attrs, [v.type for v in self.results], self.loc)
