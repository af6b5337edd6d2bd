"""What the op table says of an op. Every field must be given: a missing one is an error at import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np

from dala_defn.dtypes import DType
from dala_defn.errors import DTypeError, GradientError, ShapeError
from dala_defn.ir.graph import Graph
from dala_defn.ir.types import Type
from dala_defn.ops.bind import bind
from dala_defn.shapes import Dim, size

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One input of an op for tests: operands as NumPy arrays (keys as uint32 with a last dim of 2) and attributes."""

    args: tuple[Array, ...]
    attrs: Mapping[str, Any]
    smooth: bool = True  # whether derivatives exist at this point


class ZeroGrad:
    """The derivative is zero wherever it exists."""


ZERO_GRAD = ZeroGrad()


@dataclass(frozen=True)
class NoGrad:
    """There is no derivative rule; differentiating refuses, with this reason."""

    reason: str


@dataclass(frozen=True)
class Linear:
    """The op is linear in these operands (all when ``None``): its tangent is the op itself applied to tangents."""

    operands: tuple[int, ...] | None = None


LINEAR = Linear()


class Transformer(Protocol):
    """What the rules of ops that hold functions may do to these; handed in by the passes."""

    def trace(self, f: Callable[..., Sequence[Any]], types: Sequence[Type], name: str) -> Graph:
        """The closed graph of a function over values of these types."""
        ...

    def inline(self, graph: Graph, args: Sequence[Any]) -> list[Any]:
        """The outputs of a graph on values, its nodes written out."""
        ...

    def active(self, graph: Graph, inputs: Sequence[bool]) -> list[bool]:
        """Which outputs change to first order with the inputs that are set."""
        ...

    def jvp(self, graph: Graph, wrt: Sequence[int]) -> Graph:
        """See ``passes.jvp.jvp_graph``."""
        ...

    def vjp(self, graph: Graph, wrt: Sequence[int], outputs: Sequence[int]) -> Graph:
        """See ``passes.grad.vjp_graph``."""
        ...

    def cut(self, graph: Graph, known: int, outputs: int, again: Sequence[int] = (), policy: str = "all") -> Cut:
        """See ``passes.cut.cut``."""
        ...

    def batch(
        self, graph: Graph, batched: Sequence[bool], size: Dim, every: Sequence[bool]
    ) -> tuple[Graph, list[bool]]:
        """See ``passes.batch.batch_function``."""
        ...


@dataclass(frozen=True)
class Cut:
    """A graph in two halves: what can be computed early, and what follows from it later.

    Attributes:
        early: the early inputs -> the early outputs, then what the late half needs.
        late: what it needs, then the early inputs ``again``, then the late inputs -> the late outputs.
    """

    early: Graph
    late: Graph
    again: tuple[int, ...]


@dataclass(frozen=True)
class Reverse:
    """A vjp rule of an op that holds functions, in two halves: it may compute the op in another way.

    Attributes:
        forward: ``(transformer, active, inputs, attrs) -> (outputs, saved)``; ``saved`` is anything.
        backward: ``(transformer, saved, cts) -> cotangents``, where cotangents may be None, for each input.
    """

    forward: Callable[..., tuple[Sequence[Any], Any]]
    backward: Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Forward:
    """A jvp rule of an op that holds functions: ``(transformer, tangents, inputs, attrs) -> (outputs, tangents)``."""

    rule: Callable[..., tuple[Sequence[Any], Sequence[Any]]]


@dataclass(frozen=True)
class Batched:
    """A batching rule of an op that holds functions or whose outputs may not be batched.

    ``(transformer, size, args, batched, attrs) -> (outputs, batched)``, both for each output.
    """

    rule: Callable[..., tuple[Sequence[Any], Sequence[bool]]]


Rule = Callable[..., Any]
Fusion = Literal["elementwise", "reduction", "movement", "opaque"]
ATTR_KINDS = ("int", "bool", "str", "ints", "dims", "dtype", "fn", "fns", "types", "value")


@dataclass(frozen=True, eq=False, kw_only=True)
class OpSpec:
    """An op, whole. Calling it applies it: ``add(x, y)``.

    Attributes:
        name: its one spelling, in Python, IR text and (in camel case) Rust.
        code: its stable number.
        family: which type rule and Rust file it belongs to.
        attrs: attribute name -> kind (see ``docs/format.md``).
        accepts: dtypes of its (first) operand.
        result: ``"same"``, ``"bool"`` or ``"own"``: the result dtype, for the Rust side.
        infer: ``(*types, **attrs) -> tuple of types``; raises ShapeError or DTypeError.
        reference: the same on NumPy arrays; the oracle. In the place of graphs it gets functions over arrays, whose
            ``types`` are those of their results.
        vjp: ``(*cts, *inputs, *outputs, **attrs) -> one cotangent (or None) per input``, Reverse, ZERO_GRAD or NoGrad.
        jvp: ``(tangents, *inputs, *outputs, **attrs) -> tangents of outputs``, Forward, LINEAR, ZERO_GRAD or NoGrad.
        batch: ``(size, args, batched, **attrs) -> outputs``, where batched args and all outputs have the batch first;
            or Batched.
        fusion: how fusion may treat it.
        cost: the work of an element, in additions; 0 for what is cheaper to make again than to keep. 1 if not given.
        kernel: for which dtypes of the first operand a fused kernel computes it within the bound. None if not given.
        flops: ``(input types, output types, attrs) -> count`` (bytes follow from the types).
        sample: ``(rng, dtype) -> cases`` for tests, sizes 0, 1, n included.
        ulp: bound of the error against float64, in units in the last place of the result dtype (scaled by the sum of
            magnitudes for reductions and contractions, see ``magnitude``).
        ulp_complex: the same for complex operands; either part of the result counts in units of the whole's magnitude.
        magnitude: ``(*arrays, **attrs) -> array`` what the error scales with, or ``None`` for the result itself.
        determined: ``(*arrays, **attrs) -> bool`` whether rounding leaves the result at these operands within ``ulp``
            (a matrix without an inverse has factors that it does not), or ``None`` for always.
        doc: one or more sentences; ``example``: a line that is run by a test; ``since``: version.
    """

    name: str
    code: int
    family: str
    attrs: Mapping[str, str]
    accepts: tuple[DType, ...]
    result: str
    infer: Callable[..., tuple[Type, ...]]
    reference: Callable[..., Any]
    vjp: Rule | Reverse | ZeroGrad | NoGrad
    jvp: Rule | Forward | Linear | ZeroGrad | NoGrad
    batch: Rule | Batched
    fusion: Fusion
    cost: int
    kernel: tuple[DType, ...]
    flops: Callable[[Sequence[Type], Sequence[Type], Attrs], Dim]
    sample: Callable[[np.random.Generator, DType], Iterator[Case]]
    ulp: float
    ulp_complex: float
    magnitude: Callable[..., Array] | None
    determined: Callable[..., bool] | None
    doc: str
    example: str
    since: str

    def __post_init__(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) is None and f.name not in ("magnitude", "determined"):
                raise TypeError(f"op {self.name}: the field {f.name} is missing")
        for attr, kind in self.attrs.items():
            if kind not in ATTR_KINDS:
                raise TypeError(f"op {self.name}: {attr} has the unknown kind {kind}")

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Applies the op to values of the right dtypes; one output comes as itself, several as a tuple."""
        outs = bind(self, args, attrs)
        return outs[0] if len(outs) == 1 else outs

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def bound(self, dtype: DType) -> float:
        """The bound of the error for operands of a dtype."""
        return self.ulp_complex if dtype.kind == "c" else self.ulp

    def refuse_gradient(self, reason: str) -> GradientError:
        """The error for a derivative that this op does not have."""
        return GradientError(f"{self.name} has no derivative: {reason}", op=self.name)


OPS: dict[str, OpSpec] = {}


def define(**given: Any) -> OpSpec:
    """Enters an op in the table.

    Raises:
        TypeError: when a field is missing or unknown, or the name or code is taken.
    """
    given.setdefault("magnitude", None)
    given.setdefault("determined", None)
    given.setdefault("cost", 1)
    given.setdefault("kernel", ())
    given.setdefault("ulp_complex", given.get("ulp"))
    spec = OpSpec(**given)
    if spec.name in OPS or any(o.code == spec.code for o in OPS.values()):
        raise TypeError(f"op {spec.name} (0x{spec.code:02x}): the name or code is taken")
    OPS[spec.name] = spec
    return spec


def in_sequence(scale: Array, terms: int) -> Array:
    """What the error of sums of this many terms one after the other scales with.

    Each addition rounds, and on equal terms often to the same side: the error of n of them can reach n/2 units of the
    sum of magnitudes (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).
    """
    return scale * max(1.0, terms / 8)


def check_dtype(spec_name: str, dtype: DType, accepts: Sequence[DType]) -> None:
    """Refuses an operand dtype that the op does not take."""
    for d in accepts:
        if d is dtype:
            return
    raise DTypeError(
        f"{spec_name} does not take {dtype}",
        op=spec_name,
        rule="one of " + ", ".join(d.name for d in accepts),
        hint="dd.real(x), dd.imag(x) or dd.absolute(x)" if dtype.kind == "c" else "x.astype(...) to one of these",
    )


def check_same_dtype(name: str, types: Sequence[Type]) -> None:
    """Refuses operands of different dtypes: promotion happens before an op is applied."""
    if any(t.dtype is not types[0].dtype for t in types):
        raise DTypeError(
            f"{name} takes operands of one dtype, not " + " and ".join(t.dtype.name for t in types), op=name
        )


def check_rank(name: str, t: Type, rank: int, what: str = "operand") -> None:
    """Refuses another rank."""
    if t.ndim != rank:
        raise ShapeError(f"{name}: the {what} must have rank {rank}, not {t.ndim}", op=name)


def outputs_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    """One operation an element of the first output."""
    return size(outputs[0].shape)


def inputs_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    """One operation an element of the first input."""
    return size(inputs[0].shape)


def no_flops(inputs: Sequence[Type], outputs: Sequence[Type], attrs: Attrs) -> Dim:
    """Only memory is moved."""
    return 0
