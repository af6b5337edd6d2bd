"""Symbols: what flows through a model while it is put together. Layers called with symbols record the call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, trees
from dala_defn.arguments import TensorSpec
from dala_defn.errors import ArgumentTypeError
from dala_defn.shapes import DimExpr, as_shape

BATCH = "b"

_order = itertools.count()


class Symbol:
    """The output of a layer, or an input, of a model that is being put together; its first axis is the batch."""

    def __init__(self, spec: TensorSpec, call: Call | None, name: str = "") -> None:
        self.spec = spec
        self.call = call
        self.name = name

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, with ``None`` for those that are open."""
        return tuple(None if isinstance(d, DimExpr) else d for d in self.spec.shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"<symbol {self.spec.type}>"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentTypeError("a symbol has no numbers", hint="a layer; dd.layers.Lambda makes one of any function")


class Call:
    """One call of a layer: its inputs and outputs are trees of symbols."""

    def __init__(self, layer: Any, inputs: Any, spec: Any) -> None:
        self.layer = layer
        self.inputs = inputs
        self.spec = spec
        self.order = next(_order)
        self.outputs: Any = None


def record(layer: Any, x: Any, infer: Callable[[Any], Any]) -> Any:
    """Records a call and gives its output symbols.

    Raises:
        ArgumentTypeError: when symbols and arrays are mixed.
    """
    for leaf in trees.flatten(x)[0]:
        if not isinstance(leaf, Symbol):
            raise ArgumentTypeError(
                f"{layer!r} is called with symbols and a {type(leaf).__name__}",
                hint="dd.layers.Lambda(lambda x: x + array)",
            )
    spec = trees.map_tree(lambda s: s.spec, x)
    call = Call(layer, x, spec)
    call.outputs = trees.map_tree(lambda s: Symbol(s, call), infer(spec))
    return call.outputs


def Input(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Symbol:
    """An input of a model: the shape of one sample.

    A size that is open has a name, such as ``"time"``; the same name means the same size in all inputs. ``None``
    stands for the name ``n`` with the number of the axis, ``NAME_`` with it when the input has a name.

    Raises:
        ShapeError: when it is no shape.

    Example:
        >>> dd.Input((28, 28, 1)).shape
        (None, 28, 28, 1)
    """
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    prefix = f"{name}_" if name else "n"
    open_sizes = tuple(DimExpr.named(f"{prefix}{i + 1}") if d is None else d for i, d in enumerate(sizes))
    return Symbol(TensorSpec((BATCH, *as_shape(open_sizes)), dtype), None, name or "")
