"""Writing LLVM IR as text, several elements at a time.

A value is the text of an LLVM operand (a register, or a constant), of a vector type with one lane an element. In
registers a bool is ``i1``, and float16 and bfloat16 are floats that hold numbers of their type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from dala_defn.dtypes import DType

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
_MANGLED = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}


def register(dtype: DType) -> str:
    """The element type that a dtype has in registers."""
    if dtype.kind == "b":
        return "i1"
    if dtype.is_integer:
        return f"i{dtype.itemsize * 8}"
    return "double" if dtype.itemsize == 8 else "float"


def memory(dtype: DType) -> str:
    """The element type that a dtype has in memory."""
    if dtype.kind == "b":
        return "i8"
    if dtype.short == "f16":
        return "half"
    return "i16" if dtype.short == "bf16" else register(dtype)


def number(elem: str, value: float | int) -> str:
    """A scalar constant as LLVM spells it."""
    if elem in ("float", "double"):
        wide = float(np.float32(value)) if elem == "float" else float(value)
        return f"0x{struct.pack('>d', wide).hex().upper()}"
    if elem == "i1":
        return "true" if value else "false"
    return str(int(value))


class Module:
    """The functions of one kernel's module: each is written once, when it is first asked for."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.declared: dict[str, None] = {}
        self.functions: dict[str, str] = {}

    def define(self, name: str, elem: str, arity: int, body: Callable[[Lanes, Sequence[str]], str]) -> str:
        """A function from vectors of ``elem`` to one, inlined wherever it is called; gives its name."""
        if name not in self.functions:
            self.functions[name] = ""  # its own callees come first
            inner = Lanes(self)
            args = [f"%x{i}" for i in range(arity)]
            result = body(inner, args)
            t = inner.type(elem)
            head = ", ".join(f"{t} {a}" for a in args)
            lines = "\n".join(inner.lines)
            self.functions[name] = (
                f"define internal {t} @{name}({head}) alwaysinline nounwind {{\n{lines}\n  ret {t} {result}\n}}\n"
            )
        return name

    def raw(self, name: str, text: str) -> str:
        """A function that is written out already."""
        self.functions.setdefault(name, text)
        return name

    def text(self) -> str:
        """The module."""
        return "\n".join([*self.functions.values(), *self.declared]) + "\n"


class Lanes:
    """Instructions in order, each giving a register with the same number of lanes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self._count = 0

    @property
    def width(self) -> int:
        """The number of lanes."""
        return self.module.lanes

    def type(self, elem: str) -> str:
        """The vector type."""
        return f"<{self.module.lanes} x {elem}>"

    def add(self, text: str) -> str:
        """An instruction with a result."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def put(self, text: str) -> None:
        """An instruction without one, or a label."""
        self.lines.append(text)

    def const(self, elem: str, value: float | int) -> str:
        """The same number in every lane."""
        return f"splat ({elem} {number(elem, value)})"

    def op(self, name: str, elem: str, *args: str) -> str:
        """``fadd``, ``xor`` ...: operands and result of one type."""
        return self.add(f"{name} {self.type(elem)} {', '.join(args)}")

    def compare(self, how: str, elem: str, x: str, y: str) -> str:
        """``icmp`` or ``fcmp`` with its predicate."""
        kind = "fcmp" if elem in ("float", "double") else "icmp"
        return self.add(f"{kind} {how} {self.type(elem)} {x}, {y}")

    def select(self, elem: str, cond: str, x: str, y: str) -> str:
        """x where the condition holds, else y."""
        t = self.type(elem)
        return self.add(f"select {self.type('i1')} {cond}, {t} {x}, {t} {y}")

    def convert(self, how: str, source: str, to: str, x: str) -> str:
        """``bitcast``, ``sext``, ``fptrunc`` ..."""
        return self.add(f"{how} {self.type(source)} {x} to {self.type(to)}")

    def intrinsic(self, name: str, elem: str, *args: str) -> str:
        """An LLVM intrinsic on vectors of one type."""
        t = self.type(elem)
        full = f"llvm.{name}.v{self.module.lanes}{_MANGLED[elem]}"
        self.module.declared[f"declare {t} @{full}({', '.join([t] * len(args))})"] = None
        return self.add(f"call {t} @{full}({', '.join(f'{t} {a}' for a in args)})")

    def leading_zeros(self, elem: str, x: str) -> str:
        """Zeros before the first one bit; the width of the type where there is none."""
        t = self.type(elem)
        full = f"llvm.ctlz.v{self.module.lanes}{_MANGLED[elem]}"
        self.module.declared[f"declare {t} @{full}({t}, i1)"] = None
        return self.add(f"call {t} @{full}({t} {x}, i1 false)")

    def call(self, name: str, elem: str, *args: str) -> str:
        """A function of the module."""
        t = self.type(elem)
        return self.add(f"call {t} @{name}({', '.join(f'{t} {a}' for a in args)})")

    def each(self, name: str, elem: str, x: str) -> str:
        """A scalar function from outside, lane by lane."""
        self.module.declared[f"declare {elem} @{name}({elem})"] = None
        t = self.type(elem)
        out = "poison"
        for i in range(self.width):
            lane = self.add(f"extractelement {t} {x}, i32 {i}")
            y = self.add(f"call {elem} @{name}({elem} {lane})")
            out = self.add(f"insertelement {t} {out}, {elem} {y}, i32 {i}")
        return out

    def fma(self, elem: str, x: str, y: str, z: str) -> str:
        """x * y + z, rounded once."""
        return self.intrinsic("fma", elem, x, y, z)

    def poly(self, elem: str, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial by Horner's rule, the lowest coefficient first."""
        y = self.const(elem, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            y = self.fma(elem, x, y, self.const(elem, c))
        return y

    def splat(self, elem: str, scalar: str) -> str:
        """A scalar register in every lane."""
        t = self.type(elem)
        one = self.add(f"insertelement {t} poison, {elem} {scalar}, i64 0")
        return self.add(f"shufflevector {t} {one}, {t} poison, <{self.width} x i32> zeroinitializer")

    def iota(self, elem: str) -> str:
        """0, 1, 2 ... over the lanes."""
        return "<" + ", ".join(f"{elem} {number(elem, i)}" for i in range(self.width)) + ">"


__all__ = ["BITS", "Lanes", "Module", "memory", "number", "register"]
