"""Functions with derivatives of their own, and with less kept for reverse mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dala_defn import ops, trees
from dala_defn.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from dala_defn.functions.base import convert, dtype_of, value
from dala_defn.ir import Graph, Type
from dala_defn.ops.creation import zeros
from dala_defn.ops.nested import POLICIES
from dala_defn.ops.spec import OPS
from dala_defn.shapes import show
from dala_defn.trace import Tracer, describe, prepared, trace_function


class _Traced:
    """A function of pytrees as a graph, with the structure of its result."""

    def __init__(self, f: Callable[..., Any], trees_in: Sequence[trees.Tree], types: Sequence[Type], name: str) -> None:
        seen: list[trees.Tree] = []

        def run(*leaves: Any) -> list[Any]:
            rest = iter(leaves)
            args = [trees.unflatten(t, [next(rest) for _ in range(t.size)]) for t in trees_in]
            flat, tree = trees.flatten(prepared(f)(*args))
            seen.append(tree)
            return [value(x) for x in flat]

        self.graph, self.captures = trace_function(run, types, name)
        self.tree = seen[0]


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", "function").replace("<lambda>", "lambda")


def _arguments(args: Sequence[Any]) -> tuple[list[Any], list[trees.Tree], list[Type]]:
    leaves: list[Any] = []
    structure = []
    for a in args:
        flat, tree = trees.flatten(a)
        leaves += [value(x) for x in flat]
        structure.append(tree)
    return leaves, structure, [Type(dtype_of(x), tuple(x.shape)) for x in leaves]


def _closed(traced: _Traced, what: str, captures: list[Any]) -> None:
    """Adds what a function took from outside; values that derivatives may be asked for are refused.

    Raises:
        GradientError: for a traced float.
    """
    for x in traced.captures:
        if isinstance(x, Tracer) and x.dtype.is_inexact:
            raise GradientError(
                f"{what} uses a traced value from outside, whose derivative its own rule does not give",
                operands=[describe(x, 0)],
                hint="pass it as an argument",
            )
        if not any(x is y for y in captures):
            captures.append(x)


def _with_captures(traced: _Traced, captures: Sequence[Any], before: int) -> Graph:
    """The graph with all captures as inputs, after the first ``before``."""
    own = len(traced.graph.inputs) - len(traced.captures)
    from_outside = dict(zip(map(id, traced.captures), traced.graph.inputs[own:], strict=True))
    shared = [from_outside.get(id(x)) for x in captures]
    fresh, _ = trace_function(lambda *xs: (), [Type(dtype_of(x), tuple(x.shape)) for x in captures], "")
    extra = [v if v is not None else w for v, w in zip(shared, fresh.inputs, strict=True)]
    args = traced.graph.inputs[:own]
    inputs = [*args[:before], *extra, *args[before:]]
    return Graph(traced.graph.name, inputs, traced.graph.nodes, traced.graph.outputs)


class CustomVjp:
    """What ``custom_vjp`` gives."""

    def __init__(self, f: Callable[..., Any], forward: Any = None, backward: Any = None) -> None:
        functools.update_wrapper(self, f, updated=())
        self.f = f
        self.forward = forward
        self.backward = backward

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Sets the rule: ``forward(*args) -> (result, saved)``, ``backward(saved, ct) -> (one cotangent, ...)``."""
        self.forward, self.backward = forward, backward

    def __call__(self, *args: Any) -> Any:
        """Applies the function.

        Raises:
            ArgumentError: when it has no rule.
            ShapeError: when the rule does not fit the function.
        """
        if self.forward is None or self.backward is None:
            raise ArgumentError(f"{_name(self.f)} has no rule yet", hint="f.defvjp(forward, backward)")
        leaves, structure, types = _arguments(args)
        primal = _Traced(self.f, structure, types, _name(self.f))
        out_types = [v.type for v in primal.graph.outputs]
        saved: list[trees.Tree] = []

        def forward(*given: Any) -> Any:
            made = self.forward(*given)
            if not isinstance(made, tuple) or len(made) != 2:
                raise ArgumentTypeError(f"the forward rule of {_name(self.f)} gives no pair (result, saved)")
            flat, tree = trees.flatten(made[0])
            if tree != primal.tree:
                raise ShapeError(f"the forward rule of {_name(self.f)} gives {tree!r}, the function {primal.tree!r}")
            kept, shape = trees.flatten(made[1])
            saved[:] = [shape]
            return [*[convert(x, t.dtype) for x, t in zip(flat, out_types, strict=True)], *kept]

        ahead = _Traced(forward, structure, types, f"{_name(self.f)}_forward")
        made_types = [v.type for v in ahead.graph.outputs]
        if made_types[: len(out_types)] != out_types:
            raise ShapeError(
                f"the forward rule of {_name(self.f)} gives {made_types[: len(out_types)]}, the function {out_types}"
            )

        def backward(*given: Any) -> Any:
            residuals = given[: saved[0].size]
            seeds = iter(given[saved[0].size :])
            cts = [next(seeds) if t.dtype.is_inexact else None for t in out_types]
            found = self.backward(trees.unflatten(saved[0], residuals), trees.unflatten(primal.tree, cts))
            return _cotangents(found, args, types, _name(self.f))

        tangent_types = [t for t in out_types if t.dtype.is_inexact]
        flat_trees = [trees.flatten(0)[1]] * (saved[0].size + len(tangent_types))
        back = _Traced(
            backward, flat_trees, [*made_types[len(out_types) :], *tangent_types], f"{_name(self.f)}_backward"
        )
        captures: list[Any] = []
        for traced, what in ((primal, self.f), (ahead, self.forward), (back, self.backward)):
            _closed(traced, _name(what), captures)
        outs = self._bind(leaves, captures, primal, ahead, back, len(out_types))
        return trees.unflatten(primal.tree, outs)

    def _bind(
        self, leaves: list[Any], captures: list[Any], primal: _Traced, ahead: _Traced, back: _Traced, count: int
    ) -> Any:
        """Captured values are operands too; what is among them and inexact is a constant, so its cotangent is zero."""
        own = len(leaves)
        forward = _with_captures(ahead, captures, own)
        # The backward function gets the captures as residuals of their own.
        forward = Graph(forward.name, forward.inputs, forward.nodes, [*forward.outputs, *forward.inputs[own:]])
        residuals = len(ahead.graph.outputs) - count
        backward = _with_captures(back, captures, residuals)
        inexact = [Type(dtype_of(x), tuple(x.shape)) for x in captures if dtype_of(x).is_inexact]
        blank, _ = trace_function(lambda: [zeros(t) for t in inexact], [], "")
        nodes, outputs = [*backward.nodes, *blank.nodes], [*backward.outputs, *blank.outputs]
        attrs = {
            "primal": _with_captures(primal, captures, own),
            "forward": forward,
            "backward": Graph(backward.name, backward.inputs, nodes, outputs),
        }
        return ops.bind(OPS["custom_vjp"], (*leaves, *captures), attrs)


def _cotangents(found: Any, args: Sequence[Any], types: Sequence[Type], name: str) -> list[Any]:
    """One cotangent for each inexact leaf of the arguments.

    Raises:
        ArgumentTypeError, ShapeError: when the rule gave something else.
    """
    if not isinstance(found, (tuple, list)) or len(found) != len(args):
        raise ArgumentTypeError(
            f"the backward rule of {name} gives {type(found).__name__}, not {len(args)} cotangents",
            rule="one for each argument, None where there is none",
        )
    out = []
    rest = iter(types)
    for ct, arg in zip(found, args, strict=True):
        wanted = trees.flatten(arg)[1]
        of_arg = [next(rest) for _ in range(wanted.size)]
        if ct is None:
            out += [zeros(t) for t in of_arg if t.dtype.is_inexact]
            continue
        for x, t in zip(trees.flatten_like(wanted, ct), of_arg, strict=True):
            if not t.dtype.is_inexact:
                continue
            x = zeros(t) if x is None else convert(value(x), t.dtype)
            if tuple(x.shape) != t.shape:
                raise ShapeError(
                    f"the backward rule of {name} gives a cotangent of shape {show(x.shape)} for an argument {t}"
                )
            out.append(x)
    return out


def custom_vjp(
    f: Callable[..., Any], forward: Callable[..., Any] | None = None, backward: Callable[..., Any] | None = None
) -> CustomVjp:
    """A function whose reverse-mode derivative is given by hand; forward mode and higher orders follow from it.

    Args:
        f: a function of pytrees of arrays, by position.
        forward: ``(*args) -> (f(*args), saved)``, ``saved`` a pytree of arrays; may be set later by ``defvjp``.
        backward: ``(saved, ct) -> cotangents``, one for each argument, with the argument's structure, or None for zero;
            ``ct`` has the structure of the result, None in the place of integers.

    Raises:
        ArgumentError: at a call, without a rule.
        GradientError: at a call, when a function uses a traced float from outside: pass it as an argument.

    Example:
        >>> @dd.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, ()), lambda saved, ct: (dd.clip(ct, -1, 1),))
        >>> dd.grad(lambda x: 5 * clipped(x))(2.0)
        array(1., dtype=float32)
    """
    return CustomVjp(f, forward, backward)


class CustomJvp:
    """What ``custom_jvp`` gives."""

    def __init__(self, f: Callable[..., Any], rule: Any = None) -> None:
        functools.update_wrapper(self, f, updated=())
        self.f = f
        self.rule = rule

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule: ``rule(primals, tangents) -> (result, tangent)``; it is linear in the tangents."""
        self.rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        """Applies the function.

        Raises:
            ArgumentError: when it has no rule.
            ShapeError: when the rule does not fit the function.
        """
        name = _name(self.f)
        if self.rule is None:
            raise ArgumentError(f"{name} has no rule yet", hint="f.defjvp(rule)")
        leaves, structure, types = _arguments(args)
        primal = _Traced(self.f, structure, types, name)
        out_types = [v.type for v in primal.graph.outputs]

        def run(*given: Any) -> Any:
            seeds = iter(given[len(types) :])
            ds = [next(seeds) if t.dtype.is_inexact else None for t in types]
            made = self.rule(tuple(_split(structure, given[: len(types)])), tuple(_split(structure, ds)))
            if not isinstance(made, tuple) or len(made) != 2:
                raise ArgumentTypeError(f"the rule of {name} gives no pair (result, tangent)")
            flat, tree = trees.flatten(made[0])
            if tree != primal.tree:
                raise ShapeError(f"the rule of {name} gives {tree!r}, the function {primal.tree!r}")
            tangents = trees.flatten_like(tree, made[1])
            outs = [convert(x, t.dtype) for x, t in zip(flat, out_types, strict=True)]
            ends = [
                zeros(t) if x is None else convert(value(x), t.dtype)
                for x, t in zip(tangents, out_types, strict=True)
                if t.dtype.is_inexact
            ]
            return [*outs, *ends]

        floats = [t for t in types if t.dtype.is_inexact]
        leaf = trees.flatten(0)[1]
        rule = _Traced(run, [leaf] * (len(types) + len(floats)), [*types, *floats], f"{name}_jvp")
        captures: list[Any] = []
        _closed(primal, name, captures)
        _closed(rule, f"the rule of {name}", captures)
        if any(dtype_of(x).is_inexact for x in captures):
            captured = [Type(dtype_of(x), tuple(x.shape)) for x in captures if dtype_of(x).is_inexact]
            tangent = _with_captures(rule, captures, len(types))
            blank, _ = trace_function(lambda *xs: (), captured, "")
            tangent = Graph(tangent.name, [*tangent.inputs, *blank.inputs], tangent.nodes, tangent.outputs)
        else:
            tangent = _with_captures(rule, captures, len(types))
        attrs = {"primal": _with_captures(primal, captures, len(leaves)), "tangent": tangent}
        return trees.unflatten(primal.tree, ops.bind(OPS["custom_jvp"], (*leaves, *captures), attrs))


def _split(structure: Sequence[trees.Tree], leaves: Sequence[Any]) -> list[Any]:
    rest = iter(leaves)
    return [trees.unflatten(t, [next(rest) for _ in range(t.size)]) for t in structure]


def custom_jvp(f: Callable[..., Any], rule: Callable[..., Any] | None = None) -> CustomJvp:
    """A function whose forward-mode derivative is given by hand; reverse mode and higher orders follow from it.

    Args:
        f: a function of pytrees of arrays, by position.
        rule: ``(primals, tangents) -> (result, tangent)``; tangents have the structure of the primals, None in the
            place of integers. It must be linear in the tangents. May be set later by ``defjvp``.

    Raises:
        ArgumentError: at a call, without a rule.
        GradientError: at a call, when a function uses a traced float from outside: pass it as an argument.

    Example:
        >>> square = dd.custom_jvp(lambda x: x * x, lambda xs, ts: (xs[0] * xs[0], 2 * xs[0] * ts[0]))
        >>> dd.grad(square)(3.0)
        array(6., dtype=float32)
    """
    return CustomJvp(f, rule)


def checkpoint(f: Callable[..., Any] | None = None, *, policy: str = "nothing") -> Any:
    """The same function, whose intermediate values reverse mode computes again instead of keeping them.

    Args:
        f: a function of pytrees of arrays, by position.
        policy: what is kept all the same: ``"nothing"``, or ``"dots"``, the results of products and convolutions.

    Raises:
        ArgumentError: for another policy.

    Example:
        >>> dd.grad(dd.checkpoint(lambda x: dd.sin(dd.sin(x))))(0.0)
        array(1., dtype=float32)
    """
    if policy not in POLICIES:
        raise ArgumentError(f"checkpoint: there is no policy {policy!r}", rule="one of " + ", ".join(POLICIES))
    if f is None:
        return lambda g: checkpoint(g, policy=policy)

    @functools.wraps(f, updated=())
    def apply(*args: Any) -> Any:
        leaves, structure, types = _arguments(args)
        traced = _Traced(f, structure, types, _name(f))
        outs = ops.bind(OPS["checkpoint"], (*leaves, *traced.captures), {"function": traced.graph, "policy": policy})
        return trees.unflatten(traced.tree, outs)

    return apply


__all__ = ["checkpoint", "custom_jvp", "custom_vjp"]
