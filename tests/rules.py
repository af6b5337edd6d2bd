"""What the rule tests share: cases of an op, and graphs of one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType
from dala_defn.ir import Graph, Type
from dala_defn.ops.spec import Case, OpSpec
from dala_defn.trace import trace_function

SEED = 20240607
Array = np.ndarray[Any, Any]


def cases(spec: OpSpec, dtype: DType, seed: int = SEED) -> list[Case]:
    """The sample cases of an op."""
    return list(spec.sample(np.random.default_rng(seed), dtype))


def types_of(spec: OpSpec, dtype: DType, case: Case) -> list[Type]:
    """The types of a case's operands; keys come as uint32 with a last axis of 2."""
    out = []
    for i, a in enumerate(case.args):
        a = np.asarray(a)
        is_key = dtype.kind == "k" and a.dtype == np.uint32 and (spec.family != "random" or i == 0)
        out.append(Type(dtypes.key, a.shape[:-1]) if is_key else Type(dtypes.as_dtype(a.dtype), a.shape))
    return out


def graph_of(spec: OpSpec, types: Sequence[Type], attrs: Any) -> Graph:
    """The op as a graph."""

    def f(*args: Any) -> Any:
        out = spec(*args, **attrs)
        return out if isinstance(out, tuple) else [out]

    return trace_function(f, types, spec.name, [f"x{i}" for i in range(len(types))])[0]


def floats(types: Sequence[Type]) -> list[int]:
    """The positions of float operands."""
    return [i for i, t in enumerate(types) if t.dtype.is_inexact]


def normal(rng: np.random.Generator, like: Array) -> Array:
    """Random numbers in the shape and dtype of an array."""
    out = rng.normal(size=like.shape)
    return np.asarray(out + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else out).astype(like.dtype)


def moved(args: Sequence[Array], wrt: Sequence[int], directions: Sequence[Array], by: float) -> list[Array]:
    """The operands a step along the directions."""
    out = list(args)
    for i, d in zip(wrt, directions, strict=True):
        out[i] = args[i] + by * d
    return out
