"""Kernels called through ``ctypes``, without the runtime: what a fused function gives on arrays of any layout."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn.codegen import KERNELS
from dala_defn.codegen.jit import SIGNATURE
from dala_defn.ir import Graph, Node, Value
from dala_defn.ops.spec import OPS
from dala_defn.passes.kernels import KernelPlan, is_computed, is_reduced, kernel_plan


def strides_of(x: np.ndarray[Any, Any], axes: Sequence[int], rank: int) -> list[int]:
    """Bytes from one element to the next along each axis of the space."""
    out = [0] * rank
    for step, axis in zip(x.strides, axes, strict=True):
        if axis >= 0:
            out[axis] = step
    return out


def split_axes(function: Graph, axes: Sequence[int]) -> list[list[int]]:
    """The axes of each operand, then of each result."""
    out, at = [], 0
    for v in (*function.inputs, *function.outputs):
        out.append(list(axes[at : at + v.type.ndim]))
        at += v.type.ndim
    return out


def run_kernel(
    plan: KernelPlan,
    axes: Sequence[Sequence[int]],
    extents: Sequence[int],
    arrays: Sequence[np.ndarray[Any, Any]],
    parts: int = 1,
) -> None:
    """Calls the kernel on operands and results, in so many parts."""
    call = SIGNATURE(KERNELS.address(plan))
    data = (ctypes.c_void_p * max(1, len(arrays)))(*[x.ctypes.data for x in arrays])
    flat = [s for x, a in zip(arrays, axes, strict=True) for s in strides_of(x, a, plan.rank)]
    strides = (ctypes.c_int64 * max(1, len(flat)))(*flat)
    sizes = (ctypes.c_int64 * max(1, plan.rank))(*extents)
    total = int(np.prod(extents[: plan.parallel], dtype=np.int64))
    cuts = [total * i // parts for i in range(parts + 1)]
    for begin, end in itertools.pairwise(cuts):
        assert call(data, sizes, strides, begin, end) == 0


def run_function(
    function: Graph, space: Sequence[int], axes: Sequence[int], parallel: int, args: Sequence[Any], parts: int = 1
) -> list[np.ndarray[Any, Any]]:
    """The results of a fused function of known sizes on operands of any layout."""
    plan = kernel_plan(function, len(space), axes, parallel)
    results = [np.zeros(v.type.shape, v.type.dtype.dtype) for v in function.outputs]  # type: ignore[arg-type]
    arrays = [np.asarray(a) for a in args] + results
    run_kernel(plan, split_axes(function, axes), space, arrays, parts)
    return results


def evaluate(graph: Graph, args: Sequence[Any], alone: bool = False) -> list[np.ndarray[Any, Any]]:
    """The outputs of a graph of known sizes: fused nodes by their kernels, others by their reference.

    With ``alone`` a node that a kernel can compute is run by a kernel of its own.
    """
    env: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        given = [env[v] for v in node.inputs]
        if node.op == "fused":
            a = node.attrs
            outs = run_function(a["function"], a["space"], a["axes"], a["parallel"], given, parts=2)
        elif alone and (is_computed(node) or is_reduced(node)):
            outs = [_alone(node, given)]
        else:
            with np.errstate(all="ignore"):
                found = OPS[node.op].reference(*given, **node.attrs)
            outs = list(found) if isinstance(found, tuple) else [np.asarray(found)]
        env.update(zip(node.outputs, outs, strict=True))
    return [env[v] for v in graph.outputs]


def _alone(node: Node, args: Sequence[Any]) -> np.ndarray[Any, Any]:
    function = Graph("alone", [Value(v.type) for v in node.inputs], [], [])
    copy = Node(node.op, function.inputs, node.attrs, [v.type for v in node.outputs])
    function = Graph("alone", function.inputs, [copy], copy.outputs)
    shape = node.inputs[0].type.shape if is_reduced(node) else node.outputs[0].type.shape
    if is_reduced(node) and shape[-1] == 1:
        return np.asarray(args[0][..., 0])
    number = {i: sum(e != 1 for e in shape[:i]) for i, d in enumerate(shape) if d != 1}
    axes = []
    for v in function.inputs:
        shift = len(shape) - v.type.ndim
        axes += [-1 if d == 1 else number[i + shift] for i, d in enumerate(v.type.shape)]
    axes += [-1 if d == 1 else number[i] for i, d in enumerate(copy.outputs[0].type.shape)]
    parallel = len(number) - (1 if is_reduced(node) else 0)
    return run_function(function, [d for d in shape if d != 1], axes, parallel, args)[0]
