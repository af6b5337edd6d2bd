"""Products of arrays and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dala_defn import dtypes
from dala_defn.errors import ArgumentError, ShapeError
from dala_defn.functions.base import convert, dtype_of, operands, value
from dala_defn.functions.complexes import conj
from dala_defn.functions.shape import broadcast_to, moveaxis, ravel, reshape
from dala_defn.ops.spec import OPS
from dala_defn.shapes import Dim, DimExpr, broadcast_shapes, normalize_axis, show


def matmul(x: Any, y: Any, /) -> Any:
    """The matrix product of the last two axes; leading axes broadcast, vectors are taken as rows or columns.

    bool gives bool: whether any pair is true in both.

    Raises:
        ShapeError: when inner sizes differ or an operand has rank 0.

    Example:
        >>> dd.matmul(dd.ones((2, 3)), dd.ones((3, 1)))
        array([[3.],
               [3.]], dtype=float32)
    """
    a, b = operands(value(x), value(y))
    if not a.shape or not b.shape:
        raise ShapeError("matmul needs at least one axis on each side", op="matmul", hint="x * y for a scalar")
    if dtype_of(a).kind == "b":
        counts = matmul(convert(a, dtypes.DEFAULT_INT), convert(b, dtypes.DEFAULT_INT))
        return convert(counts, dtypes.bool_)
    rank_a, rank_b = len(a.shape), len(b.shape)
    if rank_b <= 2:
        return _dot(a, b, rank_a - 1, max(rank_b - 2, 0), 0)
    if rank_a == 1:
        return _dot(a, b, 0, rank_b - 2, 0)
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2], sure=False)
    a, b = (v if v.shape[:-2] == lead else broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, b))
    n = len(lead)
    return _dot(a, b, n + 1, n, n)


def _dot(a: Any, b: Any, axis_a: int, axis_b: int, batch: int) -> Any:
    lead = tuple(range(batch))
    return OPS["dot_general"](a, b, contract_x=(axis_a,), contract_y=(axis_b,), batch_x=lead, batch_y=lead)


def dot(x: Any, y: Any, /) -> Any:
    """NumPy's dot: the last axis of x with the last but one (or only) axis of y; a product for scalars.

    Example:
        >>> dd.dot(dd.array([1.0, 2.0]), dd.array([3.0, 4.0]))
        array(11., dtype=float32)
    """
    a, b = operands(value(x), value(y))
    if not a.shape or not b.shape:
        return a * b
    return _dot(a, b, len(a.shape) - 1, max(len(b.shape) - 2, 0), 0)


def vdot(x: Any, y: Any, /) -> Any:
    """The sum of products of all elements, those of x conjugated.

    Example:
        >>> dd.vdot(dd.array([1.0, 2.0]), dd.array([3.0, 4.0]))
        array(11., dtype=float32)
    """
    return dot(conj(ravel(x)), ravel(y))


def outer(x: Any, y: Any, /) -> Any:
    """All products of an element of x and one of y, both flattened.

    Example:
        >>> dd.outer(dd.array([1, 2]), dd.array([3, 4]))
        array([[3, 4],
               [6, 8]], dtype=int32)
    """
    return reshape(ravel(x), (-1, 1)) * reshape(ravel(y), (1, -1))


def tensordot(x: Any, y: Any, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """The sum of products over the last ``axes`` of x and the first of y, or over two lists of axes.

    Example:
        >>> dd.tensordot(dd.ones((2, 3)), dd.ones((3, 4)), 1).shape
        (2, 4)
    """
    a, b = operands(value(x), value(y))
    rank_a, rank_b = len(a.shape), len(b.shape)
    if isinstance(axes, int):
        left, right = tuple(range(rank_a - axes, rank_a)), tuple(range(axes))
    else:
        left = tuple(normalize_axis(i, rank_a) for i in axes[0])
        right = tuple(normalize_axis(i, rank_b) for i in axes[1])
    return OPS["dot_general"](a, b, contract_x=left, contract_y=right, batch_x=(), batch_y=())


def _tuple(v: int | Sequence[int], n: int, what: str) -> tuple[int, ...]:
    out = (v,) * n if isinstance(v, int) else tuple(v)
    if len(out) != n:
        raise ArgumentError(f"{what} must be a number or {n} numbers, not {v!r}")
    return out


def same_padding(n: Dim, k: int, stride: int, dilation: int) -> tuple[int, int]:
    """The padding before and after with which a window gives ``ceil(n / stride)`` results (the odd one after)."""
    reach = dilation * (k - 1) + 1
    if isinstance(n, DimExpr):
        if stride != 1:
            raise ShapeError(f'padding="same" with stride {stride} over an axis of unknown size {n}')
        total = reach - 1
    else:
        total = max((-(-n // stride) - 1) * stride + reach - n, 0)
    return total // 2, total - total // 2


def conv(
    x: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over 1 to 3 spatial axes, channels last.

    Args:
        x: (images, *size, in channels), floats.
        kernel: (*kernel size, in channels / groups, out channels), the same dtype after promotion.
        strides: one number, or one a spatial axis.
        padding: ``"valid"`` (none), ``"same"`` (size divided by stride, rounded up), or (before, after) an axis.
        dilation: the distance of kernel elements.
        groups: channels are cut into this many groups that do not mix.

    Returns:
        (images, *out size, out channels).

    Raises:
        ShapeError: when ranks, channels or groups do not fit.

    Example:
        >>> dd.conv(dd.ones((1, 4, 1)), dd.ones((2, 1, 1))).shape
        (1, 3, 1)
    """
    a, w = operands(value(x), value(kernel))
    if not dtype_of(a).is_inexact:
        a, w = convert(a, dtypes.DEFAULT_FLOAT), convert(w, dtypes.DEFAULT_FLOAT)
    rank = len(a.shape) - 2
    if len(w.shape) != rank + 2 or not 1 <= rank <= 3:
        raise ShapeError(
            f"conv: an input {show(a.shape)} and a kernel {show(w.shape)} do not go together",
            op="conv",
            rule="(images, *size, channels) with (*kernel size, in channels / groups, out channels)",
        )
    steps, gaps = _tuple(strides, rank, "strides"), _tuple(dilation, rank, "dilation")
    pads = spatial_padding(padding, a.shape[1:-1], w.shape[:rank], steps, gaps)
    y = OPS["conv"](
        moveaxis(a, -1, 1),
        moveaxis(w, (-1, -2), (0, 1)),
        strides=steps,
        low=tuple(p[0] for p in pads),
        high=tuple(p[1] for p in pads),
        dilation=gaps,
        groups=groups,
    )
    return moveaxis(y, 1, -1)


def spatial_padding(
    padding: str | Sequence[tuple[int, int]],
    size: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[int, int]]:
    """The padding before and after every spatial axis."""
    if isinstance(padding, str):
        if padding.lower() == "valid":
            return [(0, 0)] * len(size)
        if padding.lower() != "same":
            raise ArgumentError(f"padding {padding!r} is neither valid nor same")
        rows = zip(size, kernel, strides, dilation, strict=True)
        return [same_padding(n, int(k), s, d) for n, k, s, d in rows]
    pairs = [tuple(p) for p in padding]
    if len(pairs) != len(size) or any(len(p) != 2 for p in pairs):
        raise ArgumentError(f"padding {padding!r} does not give a pair for each of {len(size)} axes")
    return [(int(a), int(b)) for a, b in pairs]


def _pool(
    op: str, x: Any, pool_size: Any, strides: Any, padding: Any
) -> tuple[Any, list[tuple[int, int]], tuple[int, ...]]:
    x = value(x)
    rank = len(x.shape) - 2
    if rank < 1:
        raise ShapeError(f"pooling needs (images, *size, channels), not {show(x.shape)}")
    window = _tuple(pool_size, rank, "pool_size")
    steps = window if strides is None else _tuple(strides, rank, "strides")
    pads = spatial_padding(padding, x.shape[1:-1], window, steps, (1,) * rank)
    out = OPS[op](
        x,
        window=(1, *window, 1),
        strides=(1, *steps, 1),
        low=(0, *(p[0] for p in pads), 0),
        high=(0, *(p[1] for p in pads), 0),
    )
    return out, pads, window


def max_pool(x: Any, pool_size: Any, strides: Any = None, padding: Any = "valid") -> Any:
    """The maximum of every window over the spatial axes of (images, *size, channels).

    ``strides`` defaults to ``pool_size``; ``padding`` is as in ``conv`` and never wins.

    Example:
        >>> dd.max_pool(dd.ones((1, 4, 1)), 2).shape
        (1, 2, 1)
    """
    return _pool("window_max", x, pool_size, strides, padding)[0]


def avg_pool(x: Any, pool_size: Any, strides: Any = None, padding: Any = "valid") -> Any:
    """The mean of every window over the spatial axes of (images, *size, channels); padding does not count.

    Example:
        >>> dd.avg_pool(dd.ones((1, 4, 1)), 2).shape
        (1, 2, 1)
    """
    x = value(x)
    total, pads, window = _pool("window_sum", x, pool_size, strides, padding)
    if all(p == (0, 0) for p in pads):
        count = 1
        for w in window:
            count *= w
        return total / count
    ones = broadcast_to(convert(1, dtype_of(x)), (1, *x.shape[1:-1], 1))
    return total / _pool("window_sum", ones, pool_size, strides, padding)[0]


__all__ = [
    "avg_pool",
    "conv",
    "dot",
    "matmul",
    "max_pool",
    "outer",
    "tensordot",
    "vdot",
]
