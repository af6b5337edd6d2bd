"""Control flow over traced values: ``cond``, ``switch``, ``while_loop``, ``fori_loop``, ``scan``, ``map``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dala_defn import dtypes, ops, trees
from dala_defn.dtypes import DType
from dala_defn.errors import ArgumentError, ArgumentTypeError, ShapeError
from dala_defn.functions.base import convert, dtype_of, is_value, value
from dala_defn.ir import Graph, Type, Value
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, at_least
from dala_defn.trace import prepared, trace_function


class Body:
    """A function traced over pytrees: its graph (arguments, then captures) and the structure of its result.

    Attributes:
        weak: for each leaf of the result, the kind of Python number that it was, or None.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        args: Sequence[tuple[trees.Tree, Sequence[Type]]],
        dtypes: Sequence[DType | None] = (),
        weak: Sequence[str | None] = (),
    ) -> None:
        seen: list[Any] = []

        def run(*leaves: Any) -> list[Any]:
            rest = iter(leaves)
            given = [trees.unflatten(tree, [next(rest) for _ in types]) for tree, types in args]
            flat, tree = trees.flatten(prepared(f)(*given))
            kinds = [_weak(x) for x in flat]
            seen[:] = [tree, kinds]
            wanted = list(dtypes) or [None] * len(flat)
            if len(wanted) != len(flat):
                return [value(x) for x in flat]
            return [
                value(x) if d is None or kind is None else convert(x, d)
                for x, d, kind in zip(flat, wanted, kinds, strict=True)
            ]

        name = getattr(f, "__name__", "function").replace("<lambda>", "lambda")
        types = [t for _, listed in args for t in listed]
        self.graph, self.captures = trace_function(run, types, name, (), weak)
        self.tree: trees.Tree = seen[0]
        self.weak: list[str | None] = seen[1]

    @property
    def types(self) -> list[Type]:
        """The types of the result's leaves."""
        return [v.type for v in self.graph.outputs]


def _weak(x: Any) -> str | None:
    return dtypes.weak_kind(x) if not is_value(x) else getattr(x, "weak", None)


def _values(tree: Any) -> tuple[list[Any], trees.Tree, list[str | None]]:
    """Leaves as values, their tree, and which of them are Python numbers."""
    leaves, structure = trees.flatten(tree)
    return [value(x) for x in leaves], structure, [_weak(x) for x in leaves]


def _types(values: Sequence[Any]) -> list[Type]:
    return [Type(dtype_of(x), tuple(x.shape)) for x in values]


def _together(bodies: Sequence[Body]) -> tuple[list[Any], list[list[int]]]:
    """All that the bodies captured, each once, and where the captures of each stand in it."""
    captures: list[Any] = []
    places = []
    for body in bodies:
        at = []
        for x in body.captures:
            found = next((i for i, y in enumerate(captures) if y is x), None)
            if found is None:
                found = len(captures)
                captures.append(x)
            at.append(found)
        places.append(at)
    return captures, places


def _closed(body: Body, shared: Sequence[Any], at: Sequence[int], first: bool) -> Graph:
    """The graph of a body whose captures are among ``shared``, which stand first or last in its inputs."""
    own = len(body.graph.inputs) - len(body.captures)
    args, captured = body.graph.inputs[:own], body.graph.inputs[own:]
    extra = [Value(t) for t in _types(shared)]
    for place, v in zip(at, captured, strict=True):
        extra[place] = v
    inputs = [*extra, *args] if first else [*args, *extra]
    return Graph(body.graph.name, inputs, body.graph.nodes, body.graph.outputs)


def _bind(op: str, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    return list(ops.bind(OPS[op], tuple(args), attrs))


def _scalar(x: Any, what: str, kinds: str) -> Any:
    x = value(x)
    if tuple(x.shape) != () or dtype_of(x).kind not in kinds:
        names = {"b": "a bool scalar", "iu": "an integer scalar"}[kinds]
        raise ArgumentTypeError(
            f"{what} is {Type(dtype_of(x), tuple(x.shape))}, not {names}",
            hint="dd.all(...) or dd.any(...) of an array of conditions" if kinds == "b" else "x.astype(dd.int32)",
        )
    return x


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``; only one of them runs.

    Args:
        pred: a bool scalar. With a Python bool the function is simply called.
        true_fn: a function of the operands; it may use arrays from outside.
        false_fn: one whose results have the same structure, shapes and dtypes.
        operands: pytrees of arrays.

    Raises:
        ArgumentTypeError: when ``pred`` is no bool scalar.
        ShapeError: when the results differ, naming each place where they do.

    Example:
        >>> dd.cond(dd.array(2.0) > 1, lambda x: x * 10, lambda x: -x, dd.array(3.0))
        array(30., dtype=float32)
    """
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*operands)
    pred = _scalar(pred, "the condition of cond", "b")
    return _choose(OPS["cast"](pred, dtype=dtypes.int32), [false_fn, true_fn], operands, ("false_fn", "true_fn"))


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index out of range takes the nearest.

    Args:
        index: an integer scalar.
        branches: functions of the operands whose results have the same structure, shapes and dtypes.
        operands: pytrees of arrays.

    Raises:
        ArgumentError: without branches.
        ArgumentTypeError: when ``index`` is no integer scalar.
        ShapeError: when the results differ, naming each place where they do.

    Example:
        >>> dd.switch(dd.array(1), [dd.sin, dd.exp, dd.cos], dd.array(0.0))
        array(1., dtype=float32)
    """
    if not branches:
        raise ArgumentError("switch: there are no branches")
    if type(index) is int:
        return branches[min(max(index, 0), len(branches) - 1)](*operands)
    index = _scalar(index, "the index of switch", "iu")
    if dtype_of(index).kind == "u":
        index = OPS["minimum"](index, ops.lit(min(len(branches), 255), dtype_of(index)))
    if dtype_of(index).itemsize == 8:
        clipped = OPS["maximum"](index, ops.lit(0, dtype_of(index)))
        index = OPS["minimum"](clipped, ops.lit(len(branches), dtype_of(index)))
    return _choose(convert(index, dtypes.int32), branches, operands, [f"branches[{i}]" for i in range(len(branches))])


def _choose(index: Any, branches: Sequence[Callable[..., Any]], operands: Any, names: Sequence[str]) -> Any:
    leaves, tree, _ = _values(operands)
    types = _types(leaves)
    given = [(child, types[a:b]) for child, a, b in _spans(tree)]
    bodies = [Body(f, given) for f in branches]
    wanted = _agreed(bodies)
    if wanted is not None:
        bodies = [Body(f, given, wanted) for f in branches]
    for body, name in zip(bodies[1:], names[1:], strict=True):
        _same_results(names[0], bodies[0], name, body)
    captures, places = _together(bodies)
    graphs = tuple([_closed(b, captures, at, first=False) for b, at in zip(bodies, places, strict=True)])
    return trees.unflatten(bodies[0].tree, _bind("cond", [index, *leaves, *captures], {"branches": graphs}))


def _spans(tree: trees.Tree) -> list[tuple[trees.Tree, int, int]]:
    out, at = [], 0
    for child in tree.children:
        out.append((child, at, at + child.size))
        at += child.size
    return out


def _agreed(bodies: Sequence[Body]) -> list[DType | None] | None:
    """The dtypes that results which are Python numbers take from the other branches; None when none must."""
    first = bodies[0]
    if any(b.tree != first.tree for b in bodies):
        return None
    wanted: list[DType | None] = []
    for leaves in zip(*([*zip(b.types, b.weak, strict=True)] for b in bodies), strict=True):
        strong = {t.dtype for t, kind in leaves if kind is None}
        weak = [kind for _, kind in leaves if kind is not None]
        dtype = None
        if weak and len({t.dtype for t, _ in leaves}) > 1:
            dtype = next(iter(strong)) if len(strong) == 1 else None
            for kind in weak:
                dtype = dtypes.promote_weak(dtype, kind)
        wanted.append(dtype)
    return wanted if any(d is not None for d in wanted) else None


def _same_results(name: str, a: Body, other: str, b: Body) -> None:
    if a.tree != b.tree:
        raise ShapeError(
            f"{name} and {other} give different structures: {a.tree!r} and {b.tree!r}",
            rule="all branches give the same structure, shapes and dtypes",
        )
    _differ(a.tree, a.types, b.types, f"{name} gives", f"{other}", "all branches give the same shapes and dtypes")


def _differ(tree: trees.Tree, a: Sequence[Type], b: Sequence[Type], left: str, right: str, rule: str) -> None:
    """Refuses types that differ, each with its path.

    Raises:
        ShapeError: naming every place.
    """
    if list(a) == list(b):
        return
    paths = [p for p, _ in trees.flatten_with_paths(trees.unflatten(tree, range(tree.size)))]
    rows = [
        f"at {trees.show_path(p) or 'the result'}: {left} {x}, {right} {y}"
        for p, x, y in zip(paths, a, b, strict=True)
        if x != y
    ]
    hint = "x.astype(...) where the dtypes differ" if all(x.shape == y.shape for x, y in zip(a, b, strict=True)) else ""
    raise ShapeError("; ".join(rows), rule=rule, hint=hint or "dd.reshape or dd.broadcast_to to one shape")


def _carried(
    f: Callable[[Sequence[Type], Sequence[str | None]], Body], init: Any, what: str
) -> tuple[Body, list[Any], trees.Tree]:
    """The body for a carry. Where the start is a Python number, it takes the dtype that the body gives it."""
    leaves, tree, weak = _values(init)
    while True:
        body = f(_types(leaves), weak)
        if body.tree != tree:
            raise ShapeError(
                f"{what}: the carry comes back as {body.tree!r}, but went in as {tree!r}",
                rule="a loop carries the same structure from step to step",
            )
        settled = True
        for i, (x, kind, t) in enumerate(zip(leaves, weak, body.types, strict=False)):
            if kind is not None and t.shape == () and t.dtype is not dtype_of(x):
                leaves[i], weak[i] = convert(x, t.dtype), None
                settled = False
        if settled:
            return body, leaves, tree


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Replaces a value by ``body_fn(value)`` as long as ``cond_fn(value)`` is true.

    Reverse mode keeps 128 carries: a loop with more steps is computed again between them.

    Args:
        cond_fn: value -> bool scalar.
        body_fn: value -> value of the same structure, shapes and dtypes.
        init: a pytree of arrays.

    Raises:
        ShapeError: when the carry changes, naming each place where it does.

    Example:
        >>> dd.while_loop(lambda x: x < 100, lambda x: x * 2, dd.array(3))
        array(192, dtype=int32)
    """
    tree = trees.flatten(init)[1]
    body, leaves, _ = _carried(lambda types, weak: Body(body_fn, [(tree, types)], (), weak), init, "while_loop")
    types = _types(leaves)
    _differ(tree, types, body.types, "the carry goes in as", "comes back as", "a carry keeps its shapes and dtypes")
    test = Body(lambda *a: _scalar(prepared(cond_fn)(*a), "the condition of while_loop", "b"), [(tree, types)])
    captures, (in_test, in_body) = _together([test, body])
    attrs = {
        "cond": _closed(test, captures, in_test, first=True),
        "body": _closed(body, captures, in_body, first=True),
        "consts": len(captures),
    }
    return trees.unflatten(tree, _bind("while_loop", [*captures, *leaves], attrs))


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """``value = body_fn(i, value)`` for every ``i`` from ``lower`` up to ``upper``, which is left out.

    With Python numbers as bounds it is a ``scan``, whose gradient takes memory in proportion to the steps; with traced
    bounds it is a ``while_loop``.

    Args:
        lower, upper: integers, or int32 scalars.
        body_fn: ``(i, value) -> value``; ``i`` is an int32 scalar.
        init: a pytree of arrays.

    Example:
        >>> dd.fori_loop(0, 4, lambda i, total: total + i, dd.array(0))
        array(6, dtype=int32)
    """
    body_fn = prepared(body_fn)
    if type(lower) is int and type(upper) is int:
        count = max(upper - lower, 0)
        xs = OPS["iota"](shape=(count,), axis=0, dtype=dtypes.int32)
        xs = OPS["add"](xs, ops.lit(lower, dtypes.int32)) if lower else xs
        return scan(lambda carry, i: (body_fn(i, carry), None), init, xs)[0]
    start = convert(_scalar(lower, "the lower bound", "iu"), dtypes.int32)
    end = convert(_scalar(upper, "the upper bound", "iu"), dtypes.int32)

    def step(carry: Any) -> Any:
        i, x = carry
        return OPS["add"](i, ops.lit(1, dtypes.int32)), body_fn(i, x)

    return while_loop(lambda carry: OPS["less"](carry[0], end), step, (start, init))[1]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Dim | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """Runs ``carry, y = f(carry, x)`` for each ``x`` of the first axis of ``xs``; gives the last carry and all ``y``.

    Args:
        f: a function of a carry and a slice; the carry keeps its structure, shapes and dtypes.
        init: the first carry, a pytree of arrays.
        xs: a pytree of arrays with one first size, or None.
        length: the number of steps, needed without ``xs``.
        reverse: whether the last slice comes first; ``ys[i]`` still belongs to ``xs[i]``.
        unroll: how many steps are written out in one turn of the loop.

    Returns:
        The last carry, and a pytree of the stacked ``y``.

    Raises:
        ShapeError: when the carry changes, naming each place where it does, or sizes of ``xs`` differ.

    Example:
        >>> dd.scan(lambda total, x: (total + x, total), 0.0, dd.array([1.0, 2.0, 3.0]))
        (array(6., dtype=float32), array([0., 1., 3.], dtype=float32))
    """
    f = prepared(f)
    slices, xs_tree, _ = _values(xs)
    count = _length(slices, length)
    if unroll < 1:
        raise ArgumentError(f"scan: unroll is {unroll}", rule="at least 1")
    if unroll > 1 and isinstance(count, int) and count > 1:
        return _unrolled(f, init, xs_tree, slices, count, reverse, min(unroll, count))
    row_types = [Type(t.dtype, t.shape[1:]) for t in _types(slices)]
    carry_tree = trees.flatten(init)[1]
    out: list[trees.Tree] = []

    def step(carry: Any, x: Any) -> Any:
        result = f(carry, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentTypeError(f"scan: the function gives {type(result).__name__}, not a pair (carry, y)")
        flat, tree = trees.flatten(result[1])
        out[:] = [trees.flatten(result[0])[1], tree]
        return (*trees.flatten(result[0])[0], *flat)

    def traced(types: Sequence[Type], weak: Sequence[str | None]) -> Body:
        body = Body(step, [(carry_tree, types), (xs_tree, row_types)], (), weak)
        body.tree = out[0]
        return body

    body, leaves, _ = _carried(traced, init, "scan")
    n = len(leaves)
    rule = "a carry keeps its shapes and dtypes"
    _differ(carry_tree, _types(leaves), body.types[:n], "the carry goes in as", "comes back as", rule)
    captures, (at,) = _together([body])
    attrs = {
        "body": _closed(body, captures, at, first=True),
        "consts": len(captures),
        "carries": n,
        "length": (count,),
        "reverse": bool(reverse),
    }
    made = _bind("scan", [*captures, *leaves, *slices], attrs)
    return trees.unflatten(carry_tree, made[:n]), trees.unflatten(out[1], made[n:])


def _length(slices: Sequence[Any], length: Dim | None) -> Dim:
    sizes: list[Dim] = []
    for x in slices:
        if not x.shape:
            raise ShapeError("scan: xs holds a scalar, which has no first axis", hint="None, and length=")
        if x.shape[0] not in sizes:
            sizes.append(x.shape[0])
    if length is not None and length not in sizes:
        sizes.append(length)
    if len(sizes) > 1:
        raise ShapeError(f"scan: {' and '.join([str(n) for n in sizes])} steps", rule="all of xs have one first size")
    if not sizes:
        raise ArgumentError("scan: how many steps?", hint="length=")
    if at_least(sizes[0], 0) is False:
        raise ArgumentError(f"scan: {sizes[0]} steps")
    return sizes[0]


def _unrolled(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    tree: trees.Tree,
    slices: Sequence[Any],
    count: int,
    reverse: bool,
    unroll: int,
) -> tuple[Any, Any]:
    turns = count // unroll
    whole = turns * unroll

    def several(carry: Any, rows: Any) -> tuple[Any, Any]:
        ys: list[Any] = [None] * unroll
        leaves = trees.flatten(rows)[0]
        for i in reversed(range(unroll)) if reverse else range(unroll):
            carry, ys[i] = f(carry, trees.unflatten(tree, [_part(x, i, i + 1, True) for x in leaves]))
        structure = trees.flatten(ys[0])[1]
        flat = [[value(leaf) for leaf in trees.flatten(y)[0]] for y in ys]
        joined = [OPS["concatenate"](*[_row(x) for x in leaf], axis=0) for leaf in zip(*flat, strict=True)]
        return carry, trees.unflatten(structure, joined)

    def grouped(x: Any) -> Any:
        return OPS["reshape"](_part(x, 0, whole), shape=(turns, unroll, *x.shape[1:]))

    def main(carry: Any) -> tuple[Any, Any]:
        rows = trees.unflatten(tree, [grouped(x) for x in slices])
        carry, ys = scan(several, carry, rows, turns, reverse)
        flat, structure = trees.flatten(ys)
        return carry, trees.unflatten(structure, [OPS["reshape"](y, shape=(whole, *y.shape[2:])) for y in flat])

    def rest(carry: Any) -> tuple[Any, Any]:
        rows = trees.unflatten(tree, [_part(x, whole, count) for x in slices])
        return scan(f, carry, rows, count - whole, reverse)

    if whole == count:
        return main(init)
    carry, first = (rest if reverse else main)(init)
    carry, second = (main if reverse else rest)(carry)
    a, b = (second, first) if reverse else (first, second)
    left, structure = trees.flatten(a)
    joined = [OPS["concatenate"](x, y, axis=0) for x, y in zip(left, trees.flatten(b)[0], strict=True)]
    return carry, trees.unflatten(structure, joined)


def _row(x: Any) -> Any:
    return OPS["reshape"](x, shape=(1, *x.shape))


def _part(x: Any, start: int, stop: int, single: bool = False) -> Any:
    rest = tuple(x.shape[1:])
    out = OPS["slice"](x, start=(start, *(0,) * len(rest)), stop=(stop, *rest), step=(1,) * (len(rest) + 1))
    return OPS["reshape"](out, shape=rest) if single else out


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """``f`` of each slice along the first axis of ``xs``, one after the other, stacked; ``vmap`` does them at once.

    Example:
        >>> dd.map(lambda x: x * x, dd.array([1, 2, 3]))
        array([1, 4, 9], dtype=int32)
    """
    f = prepared(f)
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


def associative_scan(f: Callable[[Any, Any], Any], xs: Any, reverse: bool = False) -> Any:
    """All the partial results of an associative function along the first axis, in a number of steps like its logarithm.

    Args:
        f: a function of two pytrees like ``xs`` with any first size, working on all entries at once;
            ``f(f(a, b), c) == f(a, f(b, c))``.
        xs: a pytree of arrays with one known first size.
        reverse: whether it starts at the last entry, which is then the first operand of ``f``.

    Example:
        >>> dd.associative_scan(lambda a, b: a * b, dd.array([1, 2, 3, 4]))
        array([ 1,  2,  6, 24], dtype=int32)
    """
    f = prepared(f)
    leaves, tree, _ = _values(xs)
    count = _length(leaves, None)
    if not isinstance(count, int):
        raise ShapeError(f"associative_scan: {count} entries", rule="their number must be known", hint="dd.scan")

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return [value(x) for x in trees.flatten(f(trees.unflatten(tree, a), trees.unflatten(tree, b)))[0]]

    if reverse:
        out = _partials(combine, [OPS["flip"](x, axes=(0,)) for x in leaves], count)
        return trees.unflatten(tree, [OPS["flip"](x, axes=(0,)) for x in out])
    return trees.unflatten(tree, _partials(combine, leaves, count))


def _partials(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], n: int) -> list[Any]:
    """Each entry with the one before it, at distances 1, 2, 4 ... (Hillis and Steele, 1986)."""
    step = 1
    while step < n:
        low = [_part(x, 0, n - step) for x in xs]
        high = [_part(x, step, n) for x in xs]
        done = combine(low, high)
        xs = [OPS["concatenate"](_part(x, 0, step), y, axis=0) for x, y in zip(xs, done, strict=True)]
        step *= 2
    return xs


__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
