"""Runs single ops on every executor and measures how far results are from the truth, in units in the last place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rules import graph_of, types_of

from dala_defn import dtypes
from dala_defn.array import Array as DalaArray
from dala_defn.array import host_array
from dala_defn.dtypes import DType
from dala_defn.executors import executor, reference, using
from dala_defn.ir import Type
from dala_defn.ir.codec import encode
from dala_defn.ir.program import Arg, Entry, Program, Result
from dala_defn.ops.random import KEY_RECORD, unpack_keys
from dala_defn.ops.spec import Case, OpSpec

Array = np.ndarray[Any, Any]
EXECUTORS = ("reference", "eager", "compiled")  # NumPy; dala_op_run; a program of one node, its operands donated
_FORMS = {
    dtypes.float16: (10, -14, 16),
    dtypes.bfloat16: (7, -126, 128),
    dtypes.float32: (23, -126, 128),
    dtypes.float64: (52, -1022, 1024),
}  # digits after the point, the least exponent of a normal number, the exponent of the first number that is too large


def unit(dtype: DType, at: Array) -> Array:
    """The distance between neighbouring numbers of a float dtype at these magnitudes."""
    digits, least, _ = _FORMS[dtype]
    exponent = np.frexp(np.asarray(at))[1] - 1
    return np.asarray(np.ldexp(np.asarray(1, at.dtype), np.maximum(exponent, least) - digits))


@dataclass(frozen=True)
class Truth:
    """What a result should be: in a wider type where the op rounds, and what its error is measured by."""

    want: Array
    scale: Array
    dtype: DType

    def error(self, got: Array) -> float:
        """The largest error in units in the last place; inf for a wrong shape, dtype, integer, NaN or infinity."""
        assert got.shape == self.want.shape, f"shape {got.shape}, not {self.want.shape}"
        assert got.dtype == self.dtype.dtype, f"dtype {got.dtype}, not {self.dtype}"
        if not got.size:
            return 0.0
        if self.dtype.kind == "c":
            return self.complex_error(got)
        if not self.dtype.is_float:
            return 0.0 if np.array_equal(got, self.want) else np.inf
        with np.errstate(all="ignore"):
            rounded = self.want.astype(got.dtype)
            same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
            have = got.astype(self.want.dtype)
            # Rounding to infinity is an error like any other: it stands for the number after the largest.
            most = np.ldexp(np.asarray(1, have.dtype), _FORMS[self.dtype][2])
            near = np.isinf(have) & np.isfinite(self.want)
            distance = np.abs(np.where(near, np.copysign(most, have), have) - self.want) / self.scale
            error = np.where(np.isfinite(distance), distance, np.inf)
        return float(np.max(np.where(same & ~np.isfinite(have), 0, error)))

    def complex_error(self, got: Array) -> float:
        """Either part counts; where the result is too large for the dtype, or not a number, it must not be finite."""
        with np.errstate(all="ignore"):
            finite = np.isfinite(self.want.astype(got.dtype))
            parts = np.maximum(np.abs(got.real - self.want.real), np.abs(got.imag - self.want.imag))
            error = np.where(np.isfinite(got), parts / self.scale, np.inf)
            return float(np.max(np.where(finite, error, np.where(np.isfinite(got), np.inf, 0))))


def operands(types: Sequence[Type], args: Sequence[Any]) -> list[DalaArray]:
    """NumPy arrays as arrays that keep their memory layout."""
    return [host_array(np.asarray(a), t.dtype) for a, t in zip(args, types, strict=True)]


def results(spec: OpSpec, types: Sequence[Type], attrs: Any) -> tuple[Type, ...]:
    """The types of the results."""
    return spec.infer(*types, **attrs)


def words(x: Array) -> Array:
    """Keys as words, anything else as it is."""
    return unpack_keys(x) if x.dtype == KEY_RECORD else x


def by_reference(spec: OpSpec, types: Sequence[Type], args: Sequence[Array], attrs: Any) -> Array:
    """The result of the reference."""
    with np.errstate(all="ignore"):
        held = [reference.to_numpy(a, t) for a, t in zip(args, types, strict=True)]
        return words(np.asarray(spec.reference(*held, **attrs)))


def truth(spec: OpSpec, types: Sequence[Type], args: Sequence[Array], attrs: Any) -> Truth:
    """The right result, from the reference in float64 (of float64 itself: in the widest float of this machine)."""
    (out,) = results(spec, types, attrs)
    exact = spec.bound(types[0].dtype if types else out.dtype) == 0 or not out.dtype.is_inexact
    given = list(args)
    if not exact:
        part = dtypes.real_of(out.dtype)
        wide: dict[str, Any] = {"f": np.float64, "c": np.complex128}
        if part is dtypes.float64:
            wide = {"f": np.longdouble, "c": np.clongdouble}
        with np.errstate(all="ignore"):
            given = [
                a.astype(wide[t.dtype.kind]) if t.dtype.is_inexact else a for a, t in zip(args, types, strict=True)
            ]
    want = by_reference(spec, types, given, attrs)
    if not out.dtype.is_inexact:
        return Truth(want, want, out.dtype)
    with np.errstate(all="ignore"):
        if exact and out.dtype.kind == "c":
            return Truth(want, np.asarray(np.finfo(want.dtype).smallest_subnormal), out.dtype)
        wide_want = want.astype(np.float64) if want.dtype.itemsize < 8 else want
        scale = np.abs(wide_want)
        if spec.magnitude is not None:
            scale = np.maximum(scale, np.asarray(spec.magnitude(*given, **attrs)))
        finite = np.isfinite(scale) | (out.dtype.kind != "c")
        return Truth(wide_want, unit(dtypes.real_of(out.dtype), np.where(finite, scale, 1)), out.dtype)


def eager(spec: OpSpec, types: Sequence[Type], args: Sequence[Any], attrs: Any) -> Array:
    """The result of one op on Burn."""
    with using("flex"):
        return np.asarray(spec(*operands(types, args), **attrs))


class Compiled:
    """A program of one node on Burn, unfused."""

    def __init__(self, spec: OpSpec, types: Sequence[Type], attrs: Any) -> None:
        graph = graph_of(spec, types, attrs)
        entry = Entry("main", graph, tuple(Arg(f"x{i}") for i in range(len(types))), (Result("0"),))
        self.types = types
        self.outs = [v.type for v in graph.outputs]
        runner: Any = executor("flex")
        # Not through load, which would make a kernel of it: those have tests of their own.
        self.loaded = runner.engine.load(encode(Program((runner.lowered(entry),))))

    def __call__(self, args: Sequence[Any], donate: bool = True) -> Array:
        """One run; with ``donate`` on copies of the operands, which the kernel may overwrite."""
        given: list[Any] = operands(self.types, args)
        if donate:
            given = [executor("flex").place(x, x.dtype) for x in given]
        marks = [donate] * len(given)
        return np.asarray(self.loaded.run(0, given, self.outs, marks)[0])


def equal(a: Array, b: Array) -> bool:
    """The same numbers, NaN like NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    with np.errstate(all="ignore"):  # comparing a signalling NaN warns
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fcV"))


def all_halves(dtype: DType) -> Array:
    """Every number of a 16-bit float dtype."""
    return np.arange(2**16, dtype=np.uint16).view(dtype.dtype)


def any_bits(rng: np.random.Generator, dtype: DType, n: int) -> Array:
    """Floats of random bits, so that every magnitude occurs, beside ordinary ones and exact halves."""
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize), n, dtype=f"u{dtype.itemsize}", endpoint=False)
    with np.errstate(all="ignore"):
        usual = [rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n), rng.integers(-40, 40, n) / 2]
        out = np.concatenate([bits.view(dtype.dtype), *(u.astype(dtype.dtype) for u in usual)])
        out[np.isnan(out)] = np.nan  # pow(NaN, 0) is 1 for a quiet NaN only
    return out


def any_complex(rng: np.random.Generator, dtype: DType, n: int) -> Array:
    """Finite numbers with parts of random bits, and of one magnitude."""
    real = dtypes.real_of(dtype)
    parts = any_bits(rng, real, n)
    with np.errstate(all="ignore"):
        near = parts * (1 + 0.1 * rng.normal(size=parts.shape)).astype(parts.dtype)
    out = np.empty((2, *parts.shape), dtype.dtype)
    out.real, out.imag = parts, [rng.permutation(parts), near]
    return out[np.isfinite(out)]


@cache
def samples(spec: OpSpec, dtype: DType) -> tuple[Case, ...]:
    """The cases of the table; for elementwise ops on floats also random bits, and every 16-bit float there is."""
    rng = np.random.default_rng(20240607)
    found = list(spec.sample(rng, dtype))
    if not dtype.is_inexact or spec.attrs:
        return tuple(found)
    if dtype.kind == "c":
        with np.errstate(all="ignore"):
            x, y = any_complex(rng, dtype, 500), any_complex(rng, dtype, 500)
        n = min(len(x), len(y))
        if spec.family in ("unary", "complex"):
            found.append(Case((x,), {}))
        elif spec.family == "binary" and spec.magnitude is None:
            found.append(Case((x[:n], rng.permutation(y)[:n]), {}))
        return tuple(found)
    if spec.family == "unary":
        x = all_halves(dtype) if dtype.itemsize == 2 else any_bits(rng, dtype, 1000)
        found.append(Case((x,), {}))
    elif spec.family == "binary":
        x, y = any_bits(rng, dtype, 1000), any_bits(rng, dtype, 1000)
        found.append(Case((x, y), {}))
        found.append(Case((x, rng.permutation(y)), {}))
    return tuple(found)


def measure(spec: OpSpec, dtype: DType) -> Iterator[tuple[str, dict[str, float]]]:
    """For each case what it is, and the error of each executor; checks that both Burn paths give the same bits."""
    for k, case in enumerate(samples(spec, dtype)):
        types = types_of(spec, dtype, case)
        what = f"{spec.name} case {k}: {types} {dict(case.attrs)}"
        right = truth(spec, types, case.args, case.attrs)
        one = eager(spec, types, case.args, case.attrs)
        whole = Compiled(spec, types, case.attrs)(case.args)
        assert equal(one, whole), f"{what}\neager    {one}\ncompiled {whole}"
        found = {"reference": by_reference(spec, types, case.args, case.attrs), "eager": one, "compiled": whole}
        yield what, {name: right.error(x) for name, x in found.items()}


def worst(spec: OpSpec, dtype: DType) -> dict[str, float]:
    """The largest error of each executor over all cases."""
    out = dict.fromkeys(EXECUTORS, 0.0)
    for _, found in measure(spec, dtype):
        for name, error in found.items():
            out[name] = max(out[name], error)
    return out


def _strided(x: Array) -> Array:
    buffer = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    view = buffer[(..., *(slice(1, None, 2) for _ in x.shape))]
    view[...] = x
    return view


def _reversed(x: Array) -> Array:
    back = (..., *(slice(None, None, -1) for _ in x.shape))
    return np.array(x[back], order="C")[back]


def _read_only(x: Array) -> Array:
    out = x.copy()
    out.flags.writeable = False
    return out


def _stretched(axis: int) -> Callable[[Array], Array]:
    def layout(x: Array) -> Array:
        if not x.ndim or not x.size:
            return x
        at = axis % x.ndim
        return np.broadcast_to(np.take(x, [0], at), x.shape)

    return layout


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "transposed": lambda x: np.array(x, order="F"),
    "reversed": _reversed,
    "strided": _strided,
    "read-only": _read_only,
    "first axis of stride 0": _stretched(0),
    "last axis of stride 0": _stretched(-1),
}
