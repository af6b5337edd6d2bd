"""Complex numbers made of parts and taken apart. These ops exist in Python only: ``complex-pairs`` replaces them.

Cotangents pair with tangents as ``real(ct * t)``, without a conjugate (docs/decisions): a holomorphic op multiplies
both by its derivative, and the gradient of a real scalar is the derivative by the real part less i times that by the
imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import COMPLEX, DType, complex_of, float32, float64, real_of
from dala_defn.ir.types import Type
from dala_defn.ops.creation import lit
from dala_defn.ops.elementwise import broadcast_tangent, elementwise_batch, unbroadcast
from dala_defn.ops.samples import PAIRS, Array, reals, unary_cases
from dala_defn.ops.spec import LINEAR, OPS, Case, Linear, OpSpec, Rule, check_dtype, check_same_dtype, define, no_flops
from dala_defn.shapes import broadcast_shapes

PARTS = (float32, float64)


def _part(name: str, code: int, f: Callable[[Array], Any], vjp: Rule, doc: str) -> OpSpec:
    def infer(x: Type) -> tuple[Type, ...]:
        check_dtype(name, x.dtype, COMPLEX)
        return (Type(x.dtype if name == "conj" else real_of(x.dtype), x.shape),)

    linear: Linear = LINEAR
    return define(
        name=name,
        code=code,
        family="complex",
        attrs={},
        accepts=COMPLEX,
        result="own",
        infer=infer,
        reference=lambda x: np.array(f(x)),
        vjp=vjp,
        jvp=linear,
        batch=elementwise_batch(name),
        fusion="opaque",
        flops=no_flops,
        sample=unary_cases(reals(-4, 4)),
        ulp=0,
        doc=doc,
        example=f"{name}(dd.array([1 + 2j, 3 - 1j]))",
        since="0.1",
    )


real = _part(
    "real", 0xE0, np.real, lambda ct, x, y: (OPS["complex"](ct, lit(0, ct.dtype)),), "The real part, elementwise."
)
imag = _part(
    "imag", 0xE1, np.imag, lambda ct, x, y: (OPS["complex"](lit(0, ct.dtype), -ct),), "The imaginary part, elementwise."
)
conj = _part(
    "conj", 0xE3, np.conj, lambda ct, x, y: (OPS["conj"](ct),), "The complex conjugate, elementwise."
)  # fmt: skip


def _make_infer(x: Type, y: Type) -> tuple[Type, ...]:
    check_dtype("complex", x.dtype, PARTS)
    check_same_dtype("complex", (x, y))
    return (Type(complex_of(x.dtype), broadcast_shapes(x.shape, y.shape)),)


def _make(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y  # x + 1j * y is NaN beside an infinity
    return out


def _make_vjp(ct: Any, x: Any, y: Any, out: Any) -> tuple[Any, ...]:
    return unbroadcast(OPS["real"](ct), x.shape), unbroadcast(-OPS["imag"](ct), y.shape)


def _make_jvp(tangents: Sequence[Any], x: Any, y: Any, out: Any) -> tuple[Any, ...]:
    zero = lit(0, x.dtype)
    tx, ty = (zero if t is None else t for t in tangents)
    return (broadcast_tangent(OPS["complex"](tx, ty), out.shape),)


def _make_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    draw = reals(-4, 4)
    for a, b in PAIRS:
        yield Case((draw(rng, dtype, a), draw(rng, dtype, b)), {})
    special = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan]).astype(dtype.dtype)
    yield Case((special[:, None], special), {}, smooth=False)


complex_: OpSpec = define(
    name="complex",
    code=0xE2,
    family="complex",
    attrs={},
    accepts=PARTS,
    result="own",
    infer=_make_infer,
    reference=_make,
    vjp=_make_vjp,
    jvp=_make_jvp,
    batch=elementwise_batch("complex"),
    fusion="opaque",
    flops=no_flops,
    sample=_make_cases,
    ulp=0,
    doc="Complex numbers from real (first) and imaginary parts, which broadcast.",
    example="complex(dd.array([1.0, 2.0]), dd.array(3.0))",
    since="0.1",
)
