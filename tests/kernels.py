"""Kernels called through ``ctypes``, without the runtime: what a fused function gives on arrays of any layout."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn.codegen import KERNELS
from dala_defn.codegen.jit import SIGNATURE
from dala_defn.ir import Graph
from dala_defn.passes.kernels import KernelPlan, kernel_plan


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
    for begin, end in zip(cuts, cuts[1:], strict=False):
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
