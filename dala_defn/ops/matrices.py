"""What the rules of the matrix ops share: products, triangles and parts of the last two axes, and their definition.

The packed results and the operands of these ops may be complex. In the runtime they are not: there, with the
attribute ``pairs``, the last axis holds real and imaginary parts, and the matrices stand in the two axes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn.dtypes import DType, complex64, complex128, complex_of, float32, float64, int32
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.creation import iota, lit
from dala_defn.ops.movement import reshape, slice_, spread_batch, transpose
from dala_defn.ops.samples import Array, reals
from dala_defn.ops.spec import OPS, Attrs, Case, NoGrad, OpSpec, check_same_dtype, define
from dala_defn.shapes import Dim, Shape, at_least, same_size, show, size

REAL = (float32, float64)
MATRICES = (float32, float64, complex64, complex128)


# Types.


def _not_taken(name: str, t: Type, taken: Sequence[DType]) -> DTypeError:
    return DTypeError(
        f"{name} does not take {t.dtype}",
        op=name,
        rule="one of " + ", ".join(d.name for d in taken),
        hint="x.astype(dd.float32)",
    )


def check_matrix(name: str, t: Type) -> tuple[Dim, Dim]:
    """The sizes of the matrices.

    Raises:
        DTypeError: for a dtype that is not taken.
        ShapeError: for less than two axes.
    """
    if t.dtype not in MATRICES:
        raise _not_taken(name, t, MATRICES)
    if t.ndim < 2:
        raise ShapeError(f"{name} needs matrices in the last two axes, not {show(t.shape)}", op=name)
    return t.shape[-2], t.shape[-1]


def check_square(name: str, t: Type) -> Dim:
    """The size of square matrices.

    Raises:
        DTypeError, ShapeError: as ``check_matrix``, and when they are not square.
    """
    m, n = check_matrix(name, t)
    if not same_size(m, n, f"{name} of square matrices"):
        raise ShapeError(f"{name} needs square matrices, not {show(t.shape)}", op=name)
    return n if isinstance(n, int) else m


def smaller(name: str, m: Dim, n: Dim) -> Dim:
    """The smaller of two sizes.

    Raises:
        ShapeError: when that is not known.
    """
    if m == n:
        return m
    for a, b in ((m, n), (n, m)):
        if at_least(a, b):
            return b
    raise ShapeError(
        f"{name}: which of the sizes {m} and {n} is smaller is not known",
        op=name,
        hint="trace with numbers for these sizes, or with bounds that decide",
    )


# Values.


def is_complex(x: Any) -> bool:
    """Whether a value is complex."""
    return bool(x.dtype.kind == "c")


def conj(x: Any) -> Any:
    """The conjugate, of what is complex."""
    return OPS["conj"](x) if is_complex(x) else x


def turned(x: Any) -> Any:
    """The transpose of the last two axes."""
    n = len(x.shape)
    return transpose(x, axes=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conj(turned(x))


def times(x: Any, y: Any) -> Any:
    """The product of matrices with the same leading axes."""
    n = len(x.shape)
    lead = tuple(range(n - 2))
    return OPS["dot_general"](x, y, contract_x=(n - 1,), contract_y=(n - 2,), batch_x=lead, batch_y=lead)


def part(x: Any, axis: int, start: Dim, stop: Dim) -> Any:
    """A part along an axis, which counts from the end."""
    at = len(x.shape) + axis
    low: list[Dim] = [0] * len(x.shape)
    high = list(x.shape)
    low[at], high[at] = start, stop
    return slice_(x, start=tuple(low), stop=tuple(high), step=(1,) * len(x.shape))


def rows(x: Any, start: Dim, stop: Dim) -> Any:
    """Some rows."""
    return part(x, -2, start, stop)


def columns(x: Any, start: Dim, stop: Dim) -> Any:
    """Some columns."""
    return part(x, -1, start, stop)


def below(*xs: Any) -> Any:
    """Matrices with the same columns, one below the other."""
    return OPS["concatenate"](*xs, axis=len(xs[0].shape) - 2)


def beside(*xs: Any) -> Any:
    """Matrices with the same rows, one beside the other."""
    return OPS["concatenate"](*xs, axis=len(xs[0].shape) - 1)


def _places(x: Any) -> tuple[Any, Any]:
    shape = tuple(x.shape[-2:])
    return iota(shape=shape, axis=0, dtype=int32), iota(shape=shape, axis=1, dtype=int32)


def _kept(keep: Any, x: Any) -> Any:
    return OPS["select"](keep, x, lit(0, x.dtype))


def strictly_lower(x: Any) -> Any:
    """What stands below the diagonal."""
    i, j = _places(x)
    return _kept(OPS["greater"](i, j), x)


def lower(x: Any) -> Any:
    """What does not stand above the diagonal."""
    i, j = _places(x)
    return _kept(OPS["greater_equal"](i, j), x)


def upper(x: Any) -> Any:
    """What does not stand below the diagonal."""
    i, j = _places(x)
    return _kept(OPS["less_equal"](i, j), x)


def half(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    i, j = _places(x)
    return _kept(OPS["greater"](i, j), x) + _kept(OPS["equal"](i, j), x) * lit(0.5, x.dtype)


def diagonal(x: Any) -> Any:
    """The diagonal of square matrices, as a matrix of one row."""
    i, j = _places(x)
    line = OPS["sum"](_kept(OPS["equal"](i, j), x), axes=(len(x.shape) - 2,))
    return reshape(line, shape=(*x.shape[:-2], 1, x.shape[-1]))


def on_diagonal(row: Any, like: Any) -> Any:
    """A diagonal matrix from a row; ``like`` has its shape."""
    i, j = _places(like)
    whole = row if row.shape == like.shape else OPS["broadcast_to"](row, shape=like.shape)
    return _kept(OPS["equal"](i, j), whole)


def identity(like: Any, n: Dim) -> Any:
    """The identity of n rows, as often as there are matrices in ``like``."""
    i, j = (iota(shape=(n, n), axis=a, dtype=int32) for a in (0, 1))
    one = OPS["cast"](OPS["equal"](i, j), dtype=like.dtype)
    return OPS["broadcast_to"](one, shape=(*like.shape[:-2], n, n))


def real_part(x: Any) -> Any:
    """The real part, in the dtype that the value has."""
    return OPS["cast"](OPS["real"](x), dtype=x.dtype) if is_complex(x) else x


def imaginary_part(x: Any) -> Any:
    """The imaginary part as a real number, in the dtype of a complex value."""
    return OPS["cast"](OPS["imag"](x), dtype=x.dtype)


def inverse_gaps(x: Any, squared: bool) -> Any:
    """``1 / (x_j - x_i)``, or ``1 / (x_j**2 - x_i**2)``, with a diagonal of zeros, from a row; infinite where equal."""
    column = turned(x)
    gap = x - column
    if squared:
        gap = gap * (x + column)
    i, j = _places(gap)
    equal = OPS["equal"](i, j)
    one = lit(1, gap.dtype)
    return _kept(OPS["bitwise_not"](equal), one / OPS["select"](equal, one, gap))


def strong(ct: Any, d: Any) -> Any:
    """A product in which 0 on the left wins."""
    return OPS["mul_strong_zero"](ct, d)


# Phases: an eigenvector or a pair of singular vectors is unique up to a factor of magnitude 1.


def pivots(x: Array) -> Array:
    """The place in each column of the first element that is at least half as large as the largest."""
    size = np.abs(x)
    return np.asarray(np.argmax(size >= 0.5 * np.max(size, axis=-2, keepdims=True, initial=0), axis=-2))


def phases(x: Array) -> Array:
    """The factors that make the pivots of the columns real and positive, as matrices of one row."""
    if 0 in x.shape:
        return np.ones((*x.shape[:-2], 1, x.shape[-1]), x.dtype)
    at = np.take_along_axis(x, pivots(x)[..., None, :], -2)
    size = np.abs(at)
    return np.asarray(np.where(size > 0, np.conj(at) / np.where(size > 0, size, 1), 1)).astype(x.dtype)


def _pivot_mask(x: Any) -> Any:
    """1 at the pivots, 0 elsewhere."""
    axis = len(x.shape) - 2
    size = OPS["abs"](OPS["stop_gradient"](x))
    top = OPS["max"](size, axes=(axis,))
    half_of_top = reshape(top, shape=(*x.shape[:-2], 1, x.shape[-1])) * lit(0.5, size.dtype)
    large = OPS["cast"](OPS["greater_equal"](size, half_of_top), dtype=int32)
    first = OPS["bitwise_and"](
        OPS["equal"](large, lit(1, int32)), OPS["equal"](OPS["cumsum"](large, axis=axis, reverse=False), lit(1, int32))
    )
    return OPS["cast"](first, dtype=x.dtype)


def column_sums(x: Any) -> Any:
    """The sums of the columns, as matrices of one row."""
    return reshape(OPS["sum"](x, axes=(len(x.shape) - 2,)), shape=(*x.shape[:-2], 1, x.shape[-1]))


def angles(x: Any, tangent: Any) -> Any:
    """i times the angles by which a tangent turns the pivots of columns; without these the pivots stay real."""
    mask = _pivot_mask(x)
    turn = imaginary_part(column_sums(mask * tangent)) / column_sums(mask * x)
    return turn * lit(1j, x.dtype)


def turning(x: Any, ct: Any) -> Any:
    """How a cotangent of columns changes with their angles, a row; the cotangent is the conjugate one."""
    return imaginary_part(column_sums(conj(ct) * x))


def unturned(x: Any, ct: Any, turn: Any) -> Any:
    """The cotangent of columns before their pivots were made real; ``turn`` sums what turns with them."""
    mask = _pivot_mask(x)
    return ct + mask * (turn / column_sums(mask * x)) * lit(1j, x.dtype)


# Definition.


def as_complex(x: Array) -> Array:
    """Pairs of parts in the last axis as complex numbers."""
    out = np.empty(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x[..., 0], x[..., 1]
    return out


def as_parts(x: Array) -> Array:
    """Complex numbers as pairs of parts in a last axis."""
    return np.stack([x.real, x.imag], -1)


def in_wide(f: Callable[..., Any], *xs: Array) -> Any:
    """``f`` on float64 or complex128, its result in the dtype of the operands."""
    dtype = xs[0].dtype
    out = f(*(x.astype(np.complex128 if dtype.kind == "c" else np.float64) for x in xs))
    return np.asarray(out).astype(dtype)


def each(f: Callable[..., Array], xs: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """``f`` on each of stacked matrices; NaN where the first of them holds something else than finite numbers."""
    out = np.full(shape, np.nan, xs[0].dtype)
    for at in np.ndindex(*shape[:-2]):
        given = [x[at] for x in xs]
        if np.isfinite(given[0]).all():
            with np.errstate(all="ignore"):
                out[at] = f(*given)
    return out


def _pair(x: Any) -> Any:
    """A complex value from parts in the last axis."""
    n = len(x.shape) - 1
    re, im = (reshape(part(x, -1, i, i + 1), shape=x.shape[:n]) for i in (0, 1))
    return OPS["complex"](re, im)


def _parts(x: Any, sign: int = 1) -> Any:
    shape = (*x.shape, 1)
    im = OPS["imag"](x)
    return OPS["concatenate"](
        reshape(OPS["real"](x), shape=shape), reshape(im if sign > 0 else -im, shape=shape), axis=len(x.shape)
    )


def _complex_type(name: str, t: Type) -> Type:
    if t.dtype not in REAL:
        raise _not_taken(name, t, REAL)
    if not t.shape or t.shape[-1] != 2:
        raise ShapeError(f"{name}: {t} does not hold pairs of parts in its last axis", op=name)
    return Type(complex_of(t.dtype), t.shape[:-1])


def _empty(*xs: Any) -> bool:
    return any(d == 0 for x in xs for d in x.shape)


def _zeros(x: Any) -> Any:
    return OPS["broadcast_to"](lit(0, x.dtype), shape=x.shape)


def matrix_op(
    *,
    name: str,
    code: int,
    attrs: Mapping[str, str],
    infer: Callable[..., Type],
    reference: Callable[..., Array],
    vjp: Callable[..., tuple[Any, ...]] | NoGrad,
    jvp: Callable[..., Any] | NoGrad,
    accepts: tuple[DType, ...] = MATRICES,
    cases: Callable[[np.random.Generator, DType], Iterator[Case]],
    flops: Callable[[Sequence[Type], Type], Dim],
    ulp: float,
    determined: Callable[..., bool],
    doc: str,
    example: str,
) -> OpSpec:
    """Defines an op on stacked matrices: one result, and the attribute ``pairs`` (see the head of this file).

    ``infer``, ``reference``, ``vjp`` and ``jvp`` know nothing of pairs, nor of matrices without elements. ``accepts``
    are the dtypes without pairs.
    """

    def _infer(*types: Type, pairs: bool, **given: Any) -> tuple[Type, ...]:
        if pairs:
            out = infer(*(_complex_type(name, t) for t in types), **given)
            check_same_dtype(name, types)
            return (Type(types[0].dtype, (*out.shape, 2)),)
        out = infer(*types, **given)
        check_same_dtype(name, types)
        return (out,)

    def _reference(*xs: Array, pairs: bool, **given: Any) -> Array:
        if not pairs:
            return reference(*xs, **given)
        return as_parts(reference(*map(as_complex, xs), **given)).astype(xs[0].dtype)

    def _vjp(ct: Any, *args: Any, pairs: bool, **given: Any) -> tuple[Any, ...]:
        assert not isinstance(vjp, NoGrad)
        xs = args[:-1]
        if _empty(ct, *xs):
            return tuple(_zeros(x) for x in xs)
        if not pairs:
            return vjp(ct, *args, **given)
        # A cotangent of parts is the conjugate of that of the complex number.
        found = vjp(conj(_pair(ct)), *map(_pair, args), **given)
        return tuple(_parts(g, -1) for g in found)

    def _jvp(tangents: Sequence[Any], *args: Any, pairs: bool, **given: Any) -> tuple[Any, ...]:
        assert not isinstance(jvp, NoGrad)
        if _empty(*args):
            return (_zeros(args[-1]),)
        if not pairs:
            return (jvp(tangents, *args, **given),)
        moved = [t if t is None else _pair(t) for t in tangents]
        return (_parts(jvp(moved, *map(_pair, args), **given)),)

    def _batch(n: Any, args: Sequence[Any], batched: Sequence[bool], **given: Any) -> tuple[Any, ...]:
        return (OPS[name](*spread_batch(n, args, batched), **given),)

    def _flops(inputs: Sequence[Type], outputs: Sequence[Type], given: Attrs) -> Dim:
        if not given["pairs"]:
            return flops(inputs, outputs[0])
        return 4 * flops([Type(t.dtype, t.shape[:-1]) for t in inputs], Type(outputs[0].dtype, outputs[0].shape[:-1]))

    def _sample(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
        if dtype in accepts:
            for case in cases(rng, dtype):
                yield Case(case.args, {**case.attrs, "pairs": False}, case.smooth)
        if dtype.kind != "c":
            whole = list(cases(rng, complex_of(dtype)))
            for case in (whole[0], whole[-1]):
                args = tuple(as_parts(np.asarray(a)).astype(dtype.dtype) for a in case.args)
                yield Case(args, {**case.attrs, "pairs": True}, case.smooth)

    def _determined(*xs: Array, pairs: bool, **given: Any) -> bool:
        return determined(*(map(as_complex, xs) if pairs else xs), **given)

    def _magnitude(*xs: Array, **given: Any) -> Array:
        """Rounding in a matrix is of the size of its largest elements."""
        y = np.abs(_reference(*xs, **given))
        axes = (-3, -2, -1) if given["pairs"] else (-2, -1)
        return np.broadcast_to(np.max(y, axis=axes, keepdims=True, initial=0), y.shape)

    return define(
        name=name,
        code=code,
        family="matrix",
        attrs={**attrs, "pairs": "bool"},
        accepts=MATRICES,
        result="own",
        infer=_infer,
        reference=_reference,
        vjp=vjp if isinstance(vjp, NoGrad) else _vjp,
        jvp=jvp if isinstance(jvp, NoGrad) else _jvp,
        batch=_batch,
        fusion="opaque",
        flops=_flops,
        sample=_sample,
        ulp=ulp,
        magnitude=_magnitude,
        determined=_determined,
        doc=doc,
        example=example,
        since="0.1",
    )


def cube(inputs: Sequence[Type], output: Type) -> Dim:
    """The size of the first operand times its columns: what a factorization takes, but for a factor."""
    return size(inputs[0].shape) * inputs[0].shape[-1]


def drawn(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Matrices of elements around 0."""
    return reals(-2, 2)(rng, dtype, tuple(map(int, shape)))


def conditioned(rng: np.random.Generator, dtype: DType, shape: Sequence[int], low: float = 0.5) -> Array:
    """Matrices with singular values far from each other and from 0: ``low``, ``low + 0.75`` and so on."""
    x = drawn(rng, complex_of(dtype) if dtype.kind == "c" else float64, tuple(shape)).astype(
        np.complex128 if dtype.kind == "c" else np.float64
    )
    if 0 in x.shape:
        return x.astype(dtype.dtype)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    s = low + 0.75 * np.arange(s.shape[-1], 0, -1) + 0 * s
    return np.asarray((u * s[..., None, :]) @ v).astype(dtype.dtype)


def definite(rng: np.random.Generator, dtype: DType, shape: Sequence[int], low: float = 0.5) -> Array:
    """Hermitian matrices with eigenvalues far from each other, positive for a positive ``low``."""
    x = conditioned(rng, dtype, shape).astype(np.complex128 if dtype.kind == "c" else np.float64)
    if 0 in x.shape:
        return x.astype(dtype.dtype)
    u = np.linalg.qr(x)[0]
    w = low + 0.75 * np.arange(x.shape[-1])
    whole = (u * w) @ np.conj(np.swapaxes(u, -1, -2))
    return np.asarray((whole + np.conj(np.swapaxes(whole, -1, -2))) / 2).astype(dtype.dtype)
