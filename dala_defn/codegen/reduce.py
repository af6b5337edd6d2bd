"""Reductions inside a kernel: an accumulator a lane, joined in a fixed order at the end of the row.

Floats are summed in double; doubles with the rounding errors of their additions summed beside them (Knuth's TwoSum;
Ogita, Rump and Oishi, "Accurate sum and dot product", 2005), so that a row of any length keeps the bound of the table.
"""

from __future__ import annotations

import math

from dala_defn.codegen.emit import extreme, rounded
from dala_defn.codegen.lanes import BITS, Lanes, register
from dala_defn.codegen.maths import D, F
from dala_defn.dtypes import DType

_MAX, _MIN = extreme(True), extreme(False)


class Accumulator:
    """One reduction of a row, kept in stack slots that LLVM turns into registers."""

    def __init__(self, op: str, dtype: DType, name: str) -> None:
        self.op = op
        self.dtype = dtype
        self.given = register(dtype)
        self.elem = D if dtype.is_float and op in ("sum", "prod") else self.given
        self.compensated = op == "sum" and self.given == D
        self.slots = [f"%{name}.s", f"%{name}.c"] if self.compensated else [f"%{name}.s"]

    @property
    def identity(self) -> float | int:
        """What changes nothing."""
        if self.op in ("sum", "prod"):
            return int(self.op == "prod")
        low = self.op == "max"
        if self.dtype.is_float:
            return -math.inf if low else math.inf
        if self.dtype.kind == "b":
            return int(not low)
        bits = BITS[self.given]
        if self.dtype.kind == "u":
            return 0 if low else 2**bits - 1
        return -(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1

    def allocate(self, b: Lanes) -> None:
        """The slots, once a kernel."""
        for slot in self.slots:
            b.put(f"  {slot} = alloca {b.type(self.elem)}")

    def start(self, b: Lanes) -> None:
        """At the beginning of a row."""
        for slot, value in zip(self.slots, (self.identity, 0), strict=False):
            b.put(f"  store {b.type(self.elem)} {b.const(self.elem, value)}, ptr {slot}")

    def take(self, b: Lanes, x: str, valid: str) -> None:
        """The next elements, those whose lane is valid."""
        t = b.type(self.elem)
        x = b.select(self.given, valid, x, b.const(self.given, self.identity))
        if self.elem != self.given:
            x = b.convert("fpext", self.given, self.elem, x)
        old = [b.add(f"load {t}, ptr {slot}") for slot in self.slots]
        if self.compensated:
            total, error = two_sum(b, t, old[0], x)
            new = [total, b.op("fadd", D, old[1], error)]
        else:
            new = [self._join(b, old[0], x)]
        for slot, value in zip(self.slots, new, strict=True):
            b.put(f"  store {t} {value}, ptr {slot}")

    def _join(self, b: Lanes, x: str, y: str) -> str:
        if self.op in ("max", "min"):
            return (_MAX if self.op == "max" else _MIN)(b, (x, y), self.dtype, {})
        kind = {"sum": "add", "prod": "mul"}[self.op]
        return b.op("f" + kind if self.dtype.is_float else kind, self.elem, x, y)

    def finish(self, b: Lanes) -> str:
        """The result in every lane: halves are joined until one lane is left."""
        t = b.type(self.elem)
        parts = [b.add(f"load {t}, ptr {slot}") for slot in self.slots]
        step = b.width // 2
        while step:
            order = ", ".join(f"i32 {(i + step) % b.width}" for i in range(b.width))
            far = [b.add(f"shufflevector {t} {p}, {t} poison, <{b.width} x i32> <{order}>") for p in parts]
            if self.compensated:
                total, error = two_sum(b, t, parts[0], far[0])
                parts = [total, b.op("fadd", D, b.op("fadd", D, parts[1], far[1]), error)]
            else:
                parts = [self._join(b, parts[0], far[0])]
            step //= 2
        if self.compensated:
            # An infinite sum has a NaN beside it.
            finite = b.compare("olt", D, b.intrinsic("fabs", D, parts[1]), b.const(D, math.inf))
            parts = [b.select(D, finite, b.op("fadd", D, *parts), parts[0])]
        lane = b.add(f"extractelement {t} {parts[0]}, i32 0")
        result = b.splat(self.elem, lane)
        if self.elem != self.given:
            result = rounded(b, b.convert("fptrunc", D, F, result), self.dtype)
        return result


def two_sum(b: Lanes, t: str, x: str, y: str) -> tuple[str, str]:
    """The sum, and exactly what rounding it has lost."""
    total = b.op("fadd", D, x, y)
    back = b.op("fsub", D, total, x)
    lost = b.op("fadd", D, b.op("fsub", D, x, b.op("fsub", D, total, back)), b.op("fsub", D, y, back))
    return total, lost


__all__ = ["Accumulator"]
