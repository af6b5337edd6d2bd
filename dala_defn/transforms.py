"""Transformations: ``grad``, ``value_and_grad``, ``jvp``, ``vmap``; each works inside ``@defn`` and nests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dala_defn import functions as F
from dala_defn import gradients, ops, trees
from dala_defn.defn import Defn
from dala_defn.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Graph, Type
from dala_defn.passes.batch import batch_graph
from dala_defn.passes.grad import grad_graph
from dala_defn.passes.jvp import jvp_graph
from dala_defn.shapes import normalize_axis
from dala_defn.sources import Location
from dala_defn.trace import inline, prepared, trace_function


class Traced:
    """A function traced at the arguments of a call: its graph, its operands, and the trees of both sides."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], has_aux: bool = False
    ) -> None:
        leaves, self.tree = trees.flatten(args)
        self.values = [value(x) for x in leaves]
        types = [Type(dtype_of(x), tuple(x.shape)) for x in self.values]
        names = [trees.show_path(p) for p, _ in trees.flatten_with_paths(args)]
        shape: list[trees.Tree] = []
        self.has_aux = has_aux

        def body(*inner: Any) -> list[Any]:
            out = prepared(f)(*trees.unflatten(self.tree, inner), **kwargs)
            if has_aux and (not isinstance(out, tuple) or len(out) != 2):
                raise ArgumentTypeError("with has_aux=True the function returns (value, aux)")
            flat, tree = trees.flatten(out)
            shape.append(tree)
            return flat

        name = getattr(f, "__name__", "function").replace("<lambda>", "lambda")
        self.body = body
        self.graph, self.captures = trace_function(body, types, name, names)
        self.out_tree = shape[0]

    def differentiated(self, wrt: Sequence[int], method: str, eps: float | None) -> tuple[list[Any], list[Any]]:
        """The results, and the gradients of the first by the inputs ``wrt``."""
        count = len(self.graph.outputs)
        if method == "rules":
            outs = inline(grad_graph(self.graph, wrt), self.operands())
            return outs[:count], outs[count:]
        if method == "burn":
            return gradients.by_burn(self.graph, self.operands(), wrt)
        result = ops.bind(ops.OPS["call"], tuple(self.operands()), {"function": self.graph, "composite": ""})
        return list(result), gradients.by_differences(self.body, self.values, wrt, eps)

    def operands(self) -> list[Any]:
        """The arguments of the graph."""
        return [*self.values, *self.captures]

    def spans(self) -> list[range]:
        """For each positional argument, the positions of its leaves."""
        out, at = [], 0
        for child in self.tree.children:
            out.append(range(at, at + child.size))
            at += child.size
        return out


class Transformed:
    """A transformed function. Outside traces it is compiled like a ``@defn``; inside one it becomes part of it."""

    def __init__(self, f: Callable[..., Any], name: str, apply: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f, updated=())
        self.__name__ = f"{name}({getattr(f, '__name__', 'function')})"
        self._apply = apply
        self._defn = Defn(self._run)
        self._defn.__name__ = self.__name__.replace("(", "_").replace(")", "").replace("<", "").replace(">", "")

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._apply(*args, **kwargs)

    @property
    def traces(self) -> int:
        """How often it was traced outside other traces."""
        return self._defn.traces

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Applies the transformed function."""
        if ops.current_trace() is not None:
            return self._apply(*args, **kwargs)
        return self._defn(args, kwargs)

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


def argument_numbers(argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """The positional arguments that are meant, from 0.

    Raises:
        ArgumentError: for one that there is not.
    """
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in listed:
        if not -count <= i < count:
            raise ArgumentError(f"argnums {i} names no argument of {count}")
    return tuple(i % count for i in listed)


def _gives_nothing(f: Any) -> GradientError:
    code = getattr(inspect.unwrap(f), "__code__", None)
    return GradientError(
        f"{getattr(f, '__name__', 'the function')} returns nothing to differentiate",
        rule="grad is of a function with a scalar result",
        hint="return the value at its end; is a return missing?",
        location=None if code is None else Location(code.co_filename, code.co_firstlineno, 1, code.co_qualname),
    )


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    method: str = "rules",
    eps: float | None = None,
) -> Callable[..., Any]:
    """The value of a scalar function together with its gradient.

    Args:
        f: a function whose result is a real scalar (with ``has_aux``: a pair of it and anything else).
        argnums: the positional arguments to differentiate by; each may be a pytree of floats.
        has_aux: whether ``f`` returns ``(value, aux)``.
        method: ``"rules"``, those of the op table; to check these by there are ``"burn"``, the backward pass of Burn,
            which knows nothing of them (straight programs only, no rules of custom functions), and ``"numerical"``,
            central differences in float64, one element at a time. Both run at once and are no part of a trace.
        eps: the step of ``"numerical"``, relative to numbers larger than 1; by default about 6e-6.

    Returns:
        A function giving ``(value, gradient)``; the gradient has the structure of the argument (a tuple for several).
        By a complex argument ``x + iy`` it is ``df/dx - i df/dy``: its conjugate points uphill.

    Raises:
        GradientError: for an integer argument, or an op without a derivative, naming its line.
        ShapeError: when the result is no scalar.
        TraceError: inside a trace, with another method than ``"rules"``.

    Example:
        >>> dd.value_and_grad(lambda x: x * x)(3.0)
        (array(9., dtype=float32), array(6., dtype=float32))
        >>> dd.value_and_grad(lambda x: x * x, method="burn")(3.0)
        (array(9., dtype=float32), array(6., dtype=float32))
    """
    gradients.check_method(method, eps)

    def apply(*args: Any, **kwargs: Any) -> Any:
        call = Traced(f, args, kwargs, has_aux)
        if not call.graph.outputs:
            raise _gives_nothing(f)
        chosen = argument_numbers(argnums, len(args))
        spans = call.spans()
        wrt = [i for n in chosen for i in spans[n]]
        outs, found = call.differentiated(wrt, method, eps)
        result = trees.unflatten(call.out_tree, outs)
        rest = iter(found)
        grads = [trees.unflatten(call.tree.children[n], [next(rest) for _ in spans[n]]) for n in chosen]
        return result, grads[0] if isinstance(argnums, int) else tuple(grads)

    return Transformed(f, "value_and_grad", apply) if method == "rules" else _at_once(f, method, apply)


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    method: str = "rules",
    eps: float | None = None,
) -> Callable[..., Any]:
    """The gradient of a scalar function, by reverse mode; see ``value_and_grad`` (with ``has_aux``: ``(grad, aux)``).

    Example:
        >>> dd.grad(lambda x: x * x)(3.0)
        array(6., dtype=float32)
    """
    both = value_and_grad(f, argnums, has_aux, method=method, eps=eps)

    def apply(*args: Any, **kwargs: Any) -> Any:
        result, gradient = both(*args, **kwargs)
        return (gradient, result[1]) if has_aux else gradient

    return Transformed(f, "grad", apply) if method == "rules" else _at_once(f, method, apply)


def _at_once(f: Callable[..., Any], method: str, apply: Callable[..., Any]) -> Callable[..., Any]:
    """A derivative that runs when it is called."""

    @functools.wraps(f, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        gradients.outside_traces(method)
        return apply(*args, **kwargs)

    return run


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of ``f`` at ``primals`` and its derivative in the direction ``tangents``, by forward mode.

    Tangents have the structure, shapes and dtypes of the primals, which are floats.

    Example:
        >>> dd.jvp(lambda x: x * x, (3.0,), (1.0,))
        (array(9., dtype=float32), array(6., dtype=float32))
    """
    if len(primals) != len(tangents):
        raise ArgumentError(f"{len(primals)} primals and {len(tangents)} tangents")

    def apply(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        call = Traced(f, primals, {})
        ts, tree = trees.flatten(tangents)
        if tree != call.tree:
            raise ArgumentTypeError(f"tangents {tree} do not have the structure of the primals {call.tree}")
        given = [value(t) for t in ts]
        for x, t in zip(call.values, given, strict=True):
            if tuple(x.shape) != tuple(t.shape) or dtype_of(x) is not dtype_of(t):
                raise ShapeError(f"a tangent {dtype_of(t)}{list(t.shape)} for a primal {dtype_of(x)}{list(x.shape)}")
        outs = inline(jvp_graph(call.graph, list(range(len(given)))), [*call.operands(), *given])
        count = len(call.graph.outputs)
        return trees.unflatten(call.out_tree, outs[:count]), trees.unflatten(call.out_tree, outs[count:])

    out: tuple[Any, Any] = Transformed(f, "jvp", apply)(tuple(primals), tuple(tangents))
    return out


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that applies ``f`` to every element of an axis at once.

    Args:
        in_axes: the axis of every argument's arrays that runs, or ``None`` for one that is shared; one for all, or one
            for each positional argument, each again one for all of its leaves or a pytree of them.
        out_axes: where the axis stands in the results; one for all, or a pytree like the result.

    Raises:
        ShapeError: when sizes of the running axes differ, or there is none.
        ArgumentTypeError: when the axes do not have the structure of what they are for.

    Example:
        >>> dd.vmap(lambda x, y: x * y, in_axes=(0, None))(dd.array([1, 2]), 3)
        array([3, 6], dtype=int32)
    """

    def apply(*args: Any, **kwargs: Any) -> Any:
        per = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(per) != len(args):
            raise ArgumentError(f"in_axes has {len(per)} entries for {len(args)} arguments")
        found, tree = trees.flatten(args)
        leaves = [value(x) for x in found]
        listed = [a for prefix, child in zip(per, tree.children, strict=True) for a in trees.spread(prefix, child)]
        axes = [
            None if a is None else normalize_axis(_axis(a), len(x.shape)) for x, a in zip(leaves, listed, strict=True)
        ]
        sizes = list(dict.fromkeys([x.shape[a] for x, a in zip(leaves, axes, strict=True) if a is not None]))
        if len(sizes) > 1:
            raise ShapeError(f"vmap: axes of size {' and '.join(map(str, sizes))} run together")
        if not sizes:
            raise ShapeError("vmap: no argument has an axis that runs", hint="in_axes=0 for at least one")
        graph, captures, out_tree = _element(f, args, leaves, axes, kwargs)
        batched = batch_graph(graph, [*axes, *(None for _ in captures)], sizes[0])
        outs = inline(batched, [*leaves, *captures])
        places = [_axis(a) for a in trees.spread(out_axes, out_tree)]
        return trees.unflatten(out_tree, [F.moveaxis(y, 0, a) if a else y for y, a in zip(outs, places, strict=True)])

    return Transformed(f, "vmap", apply)


def _axis(a: Any) -> int:
    if type(a) is not int:
        raise ArgumentTypeError(f"vmap: an axis is a number or None, not {a!r}")
    return a


def _element(
    f: Callable[..., Any], args: Any, leaves: list[Any], axes: list[int | None], kwargs: dict[str, Any]
) -> tuple[Graph, list[Any], trees.Tree]:
    types = []
    for x, axis in zip(leaves, axes, strict=True):
        shape = tuple(d for i, d in enumerate(x.shape) if i != axis)
        types.append(Type(dtype_of(x), shape))
    tree = trees.flatten(args)[1]
    out: list[trees.Tree] = []

    def body(*inner: Any) -> list[Any]:
        flat, shape = trees.flatten(prepared(f)(*trees.unflatten(tree, inner), **kwargs))
        out.append(shape)
        return flat

    graph, captures = trace_function(body, types, getattr(f, "__name__", "function").replace("<lambda>", "lambda"))
    return graph, captures, out[0]
