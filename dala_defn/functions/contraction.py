"""Sums of products over named axes (einsum) and the products that follow from them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, own, owned
from dala_defn.functions.grids import diagonal
from dala_defn.functions.linear import tensordot
from dala_defn.functions.reduce import sum as _sum
from dala_defn.functions.shape import broadcast_to, moveaxis, reshape, stack, swapaxes, transpose
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, DimExpr, broadcast_dims, normalize_axis, same_size, show

Labels = tuple[str, ...]
Term = tuple[Any, Labels]
_UNKNOWN = 1000  # what an unknown size counts when orders of contraction are compared


def _read(name: str, operands: Sequence[Any]) -> tuple[list[Any], list[Labels], Labels]:
    """Operands, the labels of their axes, and the labels of the result; the axes of ``...`` become ``0``, ``1``, …"""
    if isinstance(operands[0], str):
        text, xs = operands[0].replace(" ", ""), list(operands[1:])
    else:  # x, [0, 1], y, [1, 2], ..., [0, 2]
        rows = list(operands)
        letters: dict[Any, str] = {}
        ends = rows.pop() if len(rows) % 2 else None

        def spell(row: Sequence[Any]) -> str:
            spelled = []
            for item in row:
                letters.setdefault(item, chr(ord("A") + len(letters)) if item is not Ellipsis else "...")
                spelled.append(letters[item])
            return "".join(spelled)

        xs = rows[::2]
        text = ",".join(spell(row) for row in rows[1::2])
        text += "" if ends is None else "->" + spell(ends)
    xs = owned(*xs) if len(xs) > 1 else [own(x) for x in xs]
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ArgumentError(f"{name}: {len(terms)} terms in {text!r} for {len(xs)} operands")
    widest = 0
    counts = []
    for term, x in zip(terms, xs, strict=True):
        letters_only = term.replace("...", "", 1)
        if not all(c.isalpha() for c in letters_only):
            raise ArgumentError(f"{name}: {term!r} has something else than letters", hint='such as "ij,jk->ik"')
        rest = len(x.shape) - len(letters_only)
        if rest < 0 or (rest and "..." not in term):
            raise ShapeError(f"{name}: {term!r} does not fit an operand {show(x.shape)}")
        counts.append(rest)
        widest = max(widest, rest)

    def labels(term: str, rest: int) -> Labels:
        before, dots, after = term.partition("...")
        middle = tuple(str(i) for i in range(widest - rest, widest)) if dots else ()
        return (*before, *middle, *after)

    inputs = [labels(term, rest) for term, rest in zip(terms, counts, strict=True)]
    if arrow:
        if not all(c.isalpha() for c in right.replace("...", "", 1)):
            raise ArgumentError(f"{name}: {right!r} has something else than letters")
        output = labels(right, widest)
    else:
        seen = Counter(c for term in inputs for c in term)
        output = tuple(str(i) for i in range(widest)) + tuple(
            sorted(c for c, n in seen.items() if n == 1 and not c.isdigit())
        )
    known = {c for term in inputs for c in term}
    for c in output:
        if c not in known or output.count(c) > 1:
            raise ArgumentError(f"{name}: {c!r} of the result is in no operand, or twice in the result")
    return xs, inputs, output


def _sizes(name: str, xs: Sequence[Any], inputs: Sequence[Labels]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for x, term in zip(xs, inputs, strict=True):
        for c, d in zip(term, x.shape, strict=True):
            fit = broadcast_dims(sizes.get(c, 1), d)
            if fit is None and same_size(sizes[c], d, name):
                fit = d if isinstance(sizes[c], DimExpr) else sizes[c]
            if fit is None:
                raise ShapeError(f"{name}: the axis {c!r} has the sizes {sizes[c]} and {d}")
            sizes[c] = fit
    return sizes


def _weight(labels: Any, sizes: dict[str, Dim]) -> int:
    out = 1
    for c in labels:
        d = sizes[c]
        out *= d if isinstance(d, int) else _UNKNOWN
    return out


def _best_path(inputs: Sequence[Labels], output: Labels, sizes: dict[str, Dim]) -> list[tuple[int, ...]]:
    """Pairs to contract one after another: always the pair that makes least of most (Smith and Gray's greedy rule)."""
    terms = [frozenset(t) for t in inputs]
    path: list[tuple[int, ...]] = []
    while len(terms) > 2:
        best: tuple[Any, ...] | None = None
        for i, j in itertools.combinations(range(len(terms)), 2):
            rest = frozenset(output).union(*(t for k, t in enumerate(terms) if k not in (i, j)))
            made = (terms[i] | terms[j]) & rest
            gain = _weight(made, sizes) - _weight(terms[i], sizes) - _weight(terms[j], sizes)
            score = (gain, _weight(terms[i] | terms[j], sizes), i, j)
            if best is None or score < best[0]:
                best = (score, i, j, made)
        assert best is not None
        _, i, j, made = best
        path.append((i, j))
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [made]
    return [*path, tuple(range(len(terms)))]


def einsum_path(*operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """The order in which ``einsum`` contracts: the path as NumPy has it, and a line about its cost.

    Example:
        >>> x = dd.ones((2, 2))
        >>> dd.einsum_path("ij,jk,kl->il", x, x, x)[0]
        ['einsum_path', (0, 1), (0, 1)]
    """
    xs, inputs, output = _read("einsum_path", operands)
    sizes = _sizes("einsum_path", xs, inputs)
    path = _best_path(inputs, output, sizes) if optimize is not False else [tuple(range(len(xs)))]
    total = _weight({c for t in inputs for c in t}, sizes)
    return ["einsum_path", *path], f"one by one {total} products, in {len(path)} steps"


def einsum(*operands: Any, optimize: Any = "greedy") -> Any:
    """Sums of products over named axes, in Einstein's notation: ``einsum("ij,jk->ik", x, y)`` is a matrix product.

    A letter for each axis; equal letters run together, those that the result lacks are summed; ``...`` stands for axes
    that broadcast. Without ``->`` the result has the letters that occur once, in alphabetical order. Operands may also
    be followed by lists of numbers instead of letters. With more than two operands the order of contraction is chosen
    by size, or given as ``optimize`` (a path of ``einsum_path``).

    Raises:
        ArgumentError: when the text is wrong, or has another number of terms than there are operands.
        ShapeError: when terms do not fit ranks, or sizes differ.

    Example:
        >>> dd.einsum("ij,j->i", dd.ones((2, 3)), dd.array([1.0, 2.0, 3.0]))
        array([6., 6.], dtype=float32)
    """
    if not operands:
        raise ArgumentError("einsum: nothing to sum")
    xs, inputs, output = _read("einsum", operands)
    sizes = _sizes("einsum", xs, inputs)
    logical = dtype_of(xs[0]).kind == "b"
    if logical:
        xs = [convert(x, dtypes.DEFAULT_INT) for x in xs]
    given = isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path"
    path = list(optimize[1:]) if given else _best_path(inputs, output, sizes)
    terms = [_diagonals(x, t) for x, t in zip(xs, inputs, strict=True)]
    for step in path:
        chosen = [terms[i] for i in step]
        terms = [t for i, t in enumerate(terms) if i not in step]
        while len(chosen) > 1:
            rest = set(output).union(*(t for _, t in terms), *(t for _, t in chosen[2:]))
            chosen[:2] = [_contract(chosen[0], chosen[1], rest, sizes)]
        terms.append(chosen[0])
    if len(terms) != 1:
        raise ArgumentError(f"einsum: the path {path} leaves {len(terms)} terms")
    x, labels = _sum_out(*terms[0], set(output))
    x = broadcast_to(x, tuple(sizes[c] for c in labels))
    out = transpose(x, [labels.index(c) for c in output])
    return convert(out, dtypes.bool_) if logical else out


def _diagonals(x: Any, labels: Labels) -> tuple[Any, Labels]:
    """An operand whose labels are all different: a diagonal for those that occur twice."""
    while len(set(labels)) < len(labels):
        c = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(c)
        j = labels.index(c, i + 1)
        if x.shape[i] != x.shape[j]:
            raise ShapeError(f"einsum: the axis {c!r} has the sizes {x.shape[i]} and {x.shape[j]} in one operand")
        x = diagonal(x, 0, i, j)
        labels = (*(d for k, d in enumerate(labels) if k not in (i, j)), c)
    return x, labels


def _sum_out(x: Any, labels: Labels, keep: Any) -> tuple[Any, Labels]:
    gone = tuple(i for i, c in enumerate(labels) if c not in keep)
    return (OPS["sum"](x, axes=gone), tuple(c for c in labels if c in keep)) if gone else (x, labels)


def _contract(
    a: tuple[Any, Labels], b: tuple[Any, Labels], rest: set[str], sizes: dict[str, Dim]
) -> tuple[Any, Labels]:
    """The product of two operands, summed over what nothing else needs."""
    (x, p), (y, q) = _sum_out(*a, rest | set(b[1])), _sum_out(*b, rest | set(a[1]))
    both = [c for c in p if c in q]
    # An axis of size 1 that meets a larger one: summed away it stands for nothing but itself.
    for c in both:
        i, j = p.index(c), q.index(c)
        if x.shape[i] != y.shape[j]:
            x, y = (
                broadcast_to(v, tuple(sizes[c] if k == at else d for k, d in enumerate(v.shape)))
                for v, at in ((x, i), (y, j))
            )
    batch = [c for c in both if c in rest]
    contracted = [c for c in both if c not in rest]
    out = OPS["dot_general"](
        x,
        y,
        contract_x=tuple(p.index(c) for c in contracted),
        contract_y=tuple(q.index(c) for c in contracted),
        batch_x=tuple(p.index(c) for c in batch),
        batch_y=tuple(q.index(c) for c in batch),
    )
    labels = (*batch, *(c for c in p if c not in both), *(c for c in q if c not in both))
    return out, labels


def inner(x: Any, y: Any, /) -> Any:
    """The sums of products over the last axes of both; a product for scalars.

    Example:
        >>> dd.inner(dd.array([1.0, 2.0]), dd.array([3.0, 4.0]))
        array(11., dtype=float32)
    """
    a, b = owned(x, y)
    return a * b if not a.shape or not b.shape else tensordot(a, b, ((-1,), (-1,)))


def vecdot(x: Any, y: Any, /, *, axis: int = -1) -> Any:
    """The sums of products along one axis of both, the others broadcast.

    Raises:
        ShapeError: when the sizes along the axis differ.

    Example:
        >>> dd.vecdot(dd.ones((2, 3)), dd.array([1.0, 2.0, 3.0]))
        array([6., 6.], dtype=float32)
    """
    a, b = owned(x, y)
    a, b = (moveaxis(v, normalize_axis(axis, len(v.shape)), -1) for v in (a, b))
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: the sizes {a.shape[-1]} and {b.shape[-1]} along the axis differ", op="vecdot")
    return einsum("...i,...i->...", a, b)


def matvec(x: Any, y: Any, /) -> Any:
    """Matrices times vectors: the last axis of both is summed, leading axes broadcast.

    Example:
        >>> dd.matvec(dd.ones((2, 3)), dd.array([1.0, 2.0, 3.0]))
        array([6., 6.], dtype=float32)
    """
    return einsum("...ij,...j->...i", x, y)


def vecmat(x: Any, y: Any, /) -> Any:
    """Vectors times matrices: the last axis of x and the last but one of y are summed, leading axes broadcast.

    Example:
        >>> dd.vecmat(dd.array([1.0, 2.0]), dd.ones((2, 3)))
        array([3., 3., 3.], dtype=float32)
    """
    return einsum("...i,...ij->...j", x, y)


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: every element of ``a`` times all of ``b``.

    Example:
        >>> dd.kron(dd.array([1, 10]), dd.array([1, 2]))
        array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = owned(a, b)
    rank = max(len(x.shape), len(y.shape))
    n, m = ((1,) * (rank - len(v.shape)) + tuple(v.shape) for v in (x, y))
    x = reshape(x, tuple(d for s in n for d in (s, 1)))
    y = reshape(y, tuple(d for s in m for d in (1, s)))
    return reshape(x * y, tuple(s * t for s, t in zip(n, m, strict=True)))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The cross products of vectors of three components; other axes broadcast. ``axis`` stands for all three.

    Raises:
        ShapeError: when the axis has another size than 3.

    Example:
        >>> dd.cross(dd.array([1, 0, 0]), dd.array([0, 1, 0]))
        array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = owned(a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(f"cross: vectors of {x.shape[-1]} and {y.shape[-1]} components", rule="3 components")
    (x0, x1, x2), (y0, y1, y2) = ([v[..., i] for i in range(3)] for v in (x, y))
    return stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axisc)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum of a diagonal of two axes, with the dtypes of ``sum``.

    Example:
        >>> dd.trace(dd.array([[1, 2], [3, 4]]))
        array(5, dtype=int32)
    """
    return _sum(diagonal(x, offset, axis1, axis2), -1, dtype)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged.

    Raises:
        ShapeError: for fewer than two axes.

    Example:
        >>> dd.matrix_transpose(dd.zeros((2, 3, 4))).shape
        (2, 4, 3)
    """
    x = own(x)
    if len(x.shape) < 2:
        raise ShapeError(f"matrix_transpose needs two axes, not {show(x.shape)}")
    return swapaxes(x, -2, -1)


__all__ = [
    "cross",
    "einsum",
    "einsum_path",
    "inner",
    "kron",
    "matrix_transpose",
    "matvec",
    "trace",
    "vecdot",
    "vecmat",
]
