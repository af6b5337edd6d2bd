"""Derivatives that are functions or matrices: ``vjp``, ``linearize``, ``jacfwd``, ``jacrev``, ``hessian``, ``hvp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dala_defn import dtypes, ops, trees
from dala_defn.errors import ArgumentError, GradientError, ShapeError
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Graph, Type
from dala_defn.ops.creation import zeros
from dala_defn.ops.spec import OPS
from dala_defn.passes.batch import batch_graph
from dala_defn.passes.cut import cut
from dala_defn.passes.grad import vjp_graph
from dala_defn.passes.inline import inline_calls
from dala_defn.passes.jvp import jvp_graph
from dala_defn.shapes import size
from dala_defn.trace import inline
from dala_defn.transforms import Traced, Transformed, argument_numbers, grad, jvp


def _applied(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The outputs of a graph on values: written out in a trace, one program outside."""
    if ops.current_trace() is not None:
        return inline(graph, args)
    return list(ops.bind(OPS["call"], tuple(args), {"function": graph, "composite": ""}))


def _type_of(x: Any) -> Type:
    return Type(dtype_of(x), tuple(x.shape))


def _matching(given: Any, tree: trees.Tree, types: Sequence[Type], what: str) -> list[Any]:
    """The leaves of cotangents or tangents; where the value is no float there is none, whatever was given.

    Raises:
        ArgumentTypeError, ShapeError: when they do not fit.
    """
    out = []
    for x, t in zip(trees.flatten_like(tree, given), types, strict=True):
        if not t.dtype.is_inexact:
            continue
        x = zeros(t) if x is None else value(x)
        if _type_of(x) != t:
            raise ShapeError(f"{what}: {_type_of(x)} where {t} is wanted", hint="x.astype(...) or dd.broadcast_to")
        out.append(x)
    return out


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``f`` and a function from cotangents of it to those of the primals.

    Args:
        f: a function of the primals (with ``has_aux``: giving a pair of its result and anything else).
        primals: pytrees of arrays; those that are no floats get no cotangent (None).
        has_aux: whether ``f`` returns ``(result, aux)``.

    Returns:
        ``(result, pull_back)``, or ``(result, pull_back, aux)``. ``pull_back(ct)`` takes what has the structure, shapes
        and dtypes of the result, and gives a tuple with one cotangent for each primal. What it needs was computed with
        the result, so that it may be called often.

    Raises:
        GradientError: for an op without a derivative, naming its line.
        ShapeError: from ``pull_back``, for another shape or dtype.

    Example:
        >>> y, pull_back = dd.vjp(dd.sin, dd.array(0.0))
        >>> pull_back(dd.array(2.0))
        (array(2., dtype=float32),)
    """
    call = Traced(f, primals, {}, has_aux)
    types = [v.type for v in call.graph.outputs]
    main = call.out_tree.children[0] if has_aux else call.out_tree
    given = [i for i in range(main.size) if types[i].dtype.is_inexact]
    leaves = len(call.values)
    wrt = [i for i in range(leaves) if call.graph.inputs[i].type.dtype.is_inexact]
    halves = cut(vjp_graph(call.graph, wrt, given), len(call.graph.inputs), len(types), range(len(call.graph.inputs)))
    operands = call.operands()
    made = _applied(halves.early, operands)
    saved = [*made[len(types) :], *[operands[i] for i in halves.again]]

    def pull_back(ct: Any) -> tuple[Any, ...]:
        """Cotangents of the result -> a cotangent for each primal."""
        cts = _matching(ct, main, types[: main.size], "vjp")
        found = _applied(halves.late, [*saved, *cts])
        cotangents: list[Any] = [None] * leaves
        for i, x in zip(wrt, found, strict=True):
            cotangents[i] = x
        out: tuple[Any, ...] = trees.unflatten(call.tree, cotangents)
        return out

    result = trees.unflatten(call.out_tree, made[: len(types)])
    return (result[0], pull_back, result[1]) if has_aux else (result, pull_back)


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``f`` and its derivative there, a linear function of tangents.

    Args:
        f: a function of the primals.
        primals: pytrees of arrays.

    Returns:
        ``(result, push_forward)``; ``push_forward(*tangents)`` takes one tangent for each primal, of its structure,
        shapes and dtypes, and gives that of the result, with None where it is no float. What it needs was computed with
        the result, so that it may be called often; a loop and a branch it runs again, with their tangents.

    Raises:
        GradientError: for an op without a derivative, naming its line.

    Example:
        >>> y, push_forward = dd.linearize(dd.sin, dd.array(0.0))
        >>> push_forward(dd.array(2.0))
        array(2., dtype=float32)
    """
    call = Traced(f, primals, {})
    types = [v.type for v in call.graph.outputs]
    leaves = [v.type for v in call.graph.inputs[: len(call.values)]]
    wrt = [i for i, t in enumerate(leaves) if t.dtype.is_inexact]
    graph = inline_calls(call.graph)
    forward = jvp_graph(graph, wrt)
    # The rule of a loop gives its results along with their tangents; the early half has them without.
    plain = set(graph.nodes)
    nodes = [*graph.nodes, *[n for n in forward.nodes if n not in plain]]
    joined = Graph(forward.name, forward.inputs, nodes, (*graph.outputs, *forward.outputs[len(types) :]))
    halves = cut(joined, len(graph.inputs), len(types), range(len(graph.inputs)))
    operands = call.operands()
    made = _applied(halves.early, operands)
    saved = [*made[len(types) :], *[operands[i] for i in halves.again]]

    def push_forward(*tangents: Any) -> Any:
        """A tangent for each primal -> the tangent of the result."""
        if len(tangents) != len(call.tree.children):
            raise ArgumentError(f"linearize: {len(tangents)} tangents for {len(call.tree.children)} primals")
        ts, at = [], 0
        for given, tree in zip(tangents, call.tree.children, strict=True):
            ts += _matching(given, tree, leaves[at : at + tree.size], "linearize")
            at += tree.size
        found = iter(_applied(halves.late, [*saved, *ts]))
        return trees.unflatten(call.out_tree, [next(found) if t.dtype.is_inexact else None for t in types])

    return trees.unflatten(call.out_tree, made[: len(types)]), push_forward


def _basis(types: Sequence[Type], at: int) -> tuple[list[Any], Any]:
    """Every unit vector of the entry ``at`` among zeros for the others, in a first axis; and how many there are."""
    t = types[at]
    count = size(t.shape)
    rows = OPS["iota"](shape=(count, count), axis=0, dtype=dtypes.int32)
    columns = OPS["iota"](shape=(count, count), axis=1, dtype=dtypes.int32)
    unit = OPS["cast"](OPS["equal"](rows, columns), dtype=t.dtype)
    return [
        OPS["reshape"](unit, shape=(count, *u.shape)) if i == at else zeros(Type(u.dtype, (count, *u.shape)))
        for i, u in enumerate(types)
    ], count


def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The Jacobian of ``f``, by reverse mode: one pull-back for each element of the result, all at once.

    Args:
        f: a function with float results, a pytree of arrays.
        argnums: the positional arguments to differentiate by, pytrees of floats.

    Returns:
        A function giving, for each leaf of the result, the structure of the argument (a tuple for several) with arrays
        of the result's shape followed by the argument's.

    Raises:
        GradientError: for an integer argument or result, or an op without a derivative.

    Example:
        >>> dd.jacrev(lambda x: x * x)(dd.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]], dtype=float32)
    """

    def apply(*args: Any, **kwargs: Any) -> Any:
        call = Traced(f, args, kwargs)
        chosen = argument_numbers(argnums, len(args))
        spans = call.spans()
        wrt = [i for n in chosen for i in spans[n]]
        types = [v.type for v in call.graph.outputs]
        _floats(types, "jacrev")
        _real(types, "jacrev: a result")
        known = len(call.graph.inputs)
        halves = cut(vjp_graph(call.graph, wrt, range(len(types))), known, len(types), range(known))
        operands = call.operands()
        made = inline(halves.early, operands)
        saved = [*made[len(types) :], *[operands[i] for i in halves.again]]
        rows = []
        for at, t in enumerate(types):
            seeds, count = _basis(types, at)
            axes = [None] * len(saved) + [0] * len(types)
            found = inline(batch_graph(halves.late, axes, count), [*saved, *seeds])
            shaped = [OPS["reshape"](g, shape=(*t.shape, *g.shape[1:])) for g in found]
            rows.append(_by_argument(call, chosen, spans, shaped, isinstance(argnums, int)))
        return trees.unflatten(call.out_tree, rows)

    return Transformed(f, "jacrev", apply)


def _by_argument(call: Traced, chosen: Sequence[int], spans: Sequence[range], found: list[Any], single: bool) -> Any:
    rest = iter(found)
    out = [trees.unflatten(call.tree.children[n], [next(rest) for _ in spans[n]]) for n in chosen]
    return out[0] if single else tuple(out)


def _floats(types: Sequence[Type], name: str) -> None:
    for t in types:
        if not t.dtype.is_inexact:
            raise GradientError(f"{name}: a result {t} has no derivative", hint="x.astype(dd.float32) in the function")


def _real(types: Sequence[Type], what: str) -> None:
    """Refuses what has two directions for each number: one column would stand for both."""
    for t in types:
        if t.dtype.kind == "c":
            raise GradientError(
                f"{what} {t} is complex, and a Jacobian is of real numbers",
                rule="jacrev takes complex arguments, jacfwd gives complex results",
                hint="a function of dd.real(x) and dd.imag(x), or dd.jvp and dd.vjp",
            )


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The Jacobian of ``f``, by forward mode: one push-forward for each element of the arguments, all at once.

    See ``jacrev`` for arguments, result and errors.

    Example:
        >>> dd.jacfwd(lambda x: x * x)(dd.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]], dtype=float32)
    """

    def apply(*args: Any, **kwargs: Any) -> Any:
        call = Traced(f, args, kwargs)
        chosen = argument_numbers(argnums, len(args))
        spans = call.spans()
        wrt = [i for n in chosen for i in spans[n]]
        types = [v.type for v in call.graph.outputs]
        _floats(types, "jacfwd")
        forward = jvp_graph(call.graph, wrt)
        inputs = [call.graph.inputs[i].type for i in wrt]
        _real(inputs, "jacfwd: an argument")
        columns: list[list[Any]] = [[] for _ in types]
        for at, t in enumerate(inputs):
            seeds, count = _basis(inputs, at)
            axes = [None] * len(call.graph.inputs) + [0] * len(inputs)
            found = inline(batch_graph(forward, axes, count), [*call.operands(), *seeds])[len(types) :]
            for column, y, u in zip(columns, found, types, strict=True):
                last = OPS["transpose"](y, axes=(*range(1, len(u.shape) + 1), 0))
                column.append(OPS["reshape"](last, shape=(*u.shape, *t.shape)))
        rows = [_by_argument(call, chosen, spans, column, isinstance(argnums, int)) for column in columns]
        return trees.unflatten(call.out_tree, rows)

    return Transformed(f, "jacfwd", apply)


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The second derivatives of ``f``: ``jacfwd`` of ``jacrev``.

    Example:
        >>> dd.hessian(lambda x: dd.sum(x * x * x))(dd.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(f, argnums), argnums)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the Hessian of a scalar function with a vector, at the cost of a few gradients.

    Args:
        f: a function of the primals with a real scalar result.
        primals, tangents: one entry for each argument, of the same structure, shapes and dtypes.

    Returns:
        What the gradient of ``f`` by its first argument has (a tuple, for several arguments).

    Example:
        >>> dd.hvp(lambda x: dd.sum(x * x * x), (dd.array([1.0, 2.0]),), (dd.array([1.0, 0.0]),))
        array([6., 0.], dtype=float32)
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums), primals, tangents)[1]


__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "linearize", "vjp"]
