"""Pure shape arithmetic. A dim is an int or a ``DimExpr``, a polynomial over named sizes such as ``2*b + 1``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Union

from dala_defn.errors import ShapeError

Dim = Union[int, "DimExpr"]
Shape = tuple[Dim, ...]

# Far above any real size, and low enough that text from outside cannot make us compute or recurse without end.
MAX_WEIGHT = 512
MAX_DEPTH = 24
MAX_NUMBER = 2**63


class DimExpr:
    """A size known by name: a polynomial with integer coefficients over names and floor divisions.

    Equal expressions are equal objects by value, whatever way they were written; a constant is always an int.
    """

    __slots__ = ("_hash", "_terms", "depth", "weight")

    def __init__(self, terms: Mapping[tuple[Atom, ...], int]) -> None:
        self.weight = self.depth = 0
        for monomial, coefficient in terms.items():
            self.weight += 1
            for atom in monomial:
                if isinstance(atom, FloorDiv):
                    self.depth = max(self.depth, atom.depth + 1)
                    self.weight += atom.weight
                else:
                    self.weight += 1
            if self.weight > MAX_WEIGHT or self.depth > MAX_DEPTH or abs(coefficient) >= MAX_NUMBER:
                raise _too_complex()
        self._terms = {k: terms[k] for k in sorted(terms, key=_monomial_order) if terms[k]}
        self._hash = hash(tuple(self._terms.items()))

    @staticmethod
    def named(name: str) -> DimExpr:
        """The size called ``name``."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ShapeError(f"{name!r} is no name for a size", hint="letters, digits and _")
        return DimExpr({(name,): 1})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DimExpr):
            return self is other or self._terms == other._terms
        return False if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, DimExpr)):
            return NotImplemented
        terms = dict(self._terms)
        for k, v in _terms(other).items():
            terms[k] = terms.get(k, 0) + v
        return _collapse(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, DimExpr)):
            return NotImplemented
        if isinstance(other, DimExpr) and self.weight * other.weight > MAX_WEIGHT * 8:
            raise _too_complex()
        terms: dict[tuple[Atom, ...], int] = {}
        for ka, va in self._terms.items():
            for kb, vb in _terms(other).items():
                k = tuple(sorted(ka + kb, key=str))
                terms[k] = terms.get(k, 0) + va * vb
        return _collapse(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __bool__(self) -> bool:
        raise ShapeError(f"the size {self} is not known while tracing", hint="a comparison that holds for every size")

    def __int__(self) -> int:
        raise ShapeError(f"the size {self} is not known while tracing", hint="keep it symbolic, or trace with numbers")

    __index__ = __int__

    def __repr__(self) -> str:
        out = ""
        for monomial, coefficient in self._terms.items():
            factors = [str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            out += (sign if sign == "-" and not out else f" {sign} " if out else "") + "*".join(factors)
        return out or "0"

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The number, with a size for every name."""
        total = 0
        for monomial, coefficient in self._terms.items():
            for atom in monomial:
                coefficient *= sizes[atom] if isinstance(atom, str) else atom.evaluate(sizes)
            total += coefficient
        return total

    def names(self) -> set[str]:
        """The names in it."""
        out: set[str] = set()
        for monomial in self._terms:
            for atom in monomial:
                out |= {atom} if isinstance(atom, str) else names_of([atom.num, atom.den])
        return out

    def as_name(self) -> str | None:
        """The name, when it is nothing but one."""
        if len(self._terms) == 1:
            ((monomial, coefficient),) = self._terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                return monomial[0]
        return None


class FloorDiv:
    """A floor division that does not come out even."""

    __slots__ = ("den", "depth", "num", "weight")

    def __init__(self, num: Dim, den: Dim) -> None:
        self.num, self.den = num, den
        parts = [d for d in (num, den) if isinstance(d, DimExpr)]
        self.depth = max((d.depth for d in parts), default=0)
        self.weight = 1 + sum(d.weight for d in parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloorDiv) and (self.num, self.den) == (other.num, other.den)

    def __hash__(self) -> int:
        return hash((self.num, self.den))

    def __repr__(self) -> str:
        return f"(({self.num})//({self.den}))"

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The number."""
        return evaluate(self.num, sizes) // evaluate(self.den, sizes)


Atom = str | FloorDiv


def _too_complex() -> ShapeError:
    return ShapeError("a size that is too long an expression, or too large", rule=f"at most {MAX_WEIGHT} parts")


def _monomial_order(monomial: tuple[Atom, ...]) -> tuple[int, str]:
    return (-len(monomial), str(monomial))


def _terms(d: Dim) -> Mapping[tuple[Atom, ...], int]:
    return d._terms if isinstance(d, DimExpr) else {(): d}


def _collapse(terms: Mapping[tuple[Atom, ...], int]) -> Dim:
    kept = {k: v for k, v in terms.items() if v}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return DimExpr(kept)


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b``; exact when every coefficient divides."""
    if isinstance(b, int) and b == 0:
        raise ShapeError(f"the size {a} // 0")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and isinstance(a, DimExpr):
        if all(v % b == 0 for v in a._terms.values()):
            return _collapse({k: v // b for k, v in a._terms.items()})
    elif isinstance(a, DimExpr) and isinstance(b, DimExpr):
        exact = divide(a, b)
        if exact is not None:
            return exact
    elif a == 0:
        return 0
    return DimExpr({(FloorDiv(a, b),): 1})


def divide(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` when it is exact for all sizes (``b`` a single term), else ``None``."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if a == b else None
    ((monomial, coefficient),) = divisor.items()
    out: dict[tuple[Atom, ...], int] = {}
    for k, v in _terms(a).items():
        rest = list(k)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient == 0 or v % coefficient:
            return None
        out[tuple(rest)] = v // coefficient
    return _collapse(out)


def evaluate(d: Dim, sizes: Mapping[str, int]) -> int:
    """The number a dim stands for."""
    return d.evaluate(sizes) if isinstance(d, DimExpr) else d


def names_of(dims: Iterable[Dim]) -> set[str]:
    """All names in these dims."""
    return {n for d in dims if isinstance(d, DimExpr) for n in d.names()}


def at_least(a: Dim, b: Dim) -> bool | None:
    """Whether ``a >= b`` for all sizes >= 0: true, false (for all), or ``None`` when it depends."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    terms = _terms(a - b)
    if all(v >= 0 for v in terms.values()):
        return True
    if all(v <= 0 for v in terms.values()) and terms.get((), 0) < 0:
        return False
    return None


def size(shape: Iterable[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = 1
    for d in shape:
        total = total * d
    return total


_TOKEN = re.compile(r"\s*(//|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-+*()])")


def parse_dim(text: str) -> Dim:
    """Reads a dim as it prints: ``"2*b + 1"``.

    Raises:
        ShapeError: when it is none.
    """
    tokens: list[str] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None or len(tokens) > 512:
            raise ShapeError(f"{text[:80]!r} is no size")
        tokens.append(match[1])
        at = match.end()
    pos = 0

    def peek() -> str:
        return tokens[pos] if pos < len(tokens) else ""

    def take() -> str:
        nonlocal pos
        pos += 1
        return tokens[pos - 1] if pos <= len(tokens) else ""

    def atom(depth: int) -> Dim:
        if depth > 64:
            raise ShapeError(f"{text[:80]!r} is nested too deeply")
        token = take()
        if token == "-":
            return atom(depth + 1) * -1
        if token == "(":
            inner = total(depth + 1)
            if take() != ")":
                raise ShapeError(f"{text[:80]!r}: a ) is missing")
            return inner
        if token.isdigit():
            if len(token) > 19:
                raise _too_complex()
            return int(token)
        if token and (token[0].isalpha() or token[0] == "_"):
            return DimExpr.named(token)
        raise ShapeError(f"{text[:80]!r} is no size")

    def product(depth: int) -> Dim:
        left = atom(depth)
        while peek() in ("*", "//"):
            left = left * atom(depth) if take() == "*" else floordiv(left, atom(depth))
            if isinstance(left, int) and abs(left) >= MAX_NUMBER:
                raise _too_complex()
        return left

    def total(depth: int) -> Dim:
        left = product(depth)
        while peek() in ("+", "-"):
            left = left + product(depth) if take() == "+" else left - product(depth)
        return left

    out = total(0)
    if pos != len(tokens):
        raise ShapeError(f"{text[:80]!r} is no size")
    return out


def as_shape(value: object) -> Shape:
    """A shape from an int, a dim, a name, or a sequence of these; sizes must not be negative."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    out: list[Dim] = []
    for item in items:
        if isinstance(item, str):
            item = parse_dim(item)
        if isinstance(item, DimExpr):
            out.append(item)
            continue
        try:
            number = item.__index__()
        except AttributeError:
            raise ShapeError(f"{value!r} is no shape: {item!r} is not a whole number") from None
        if number < 0:
            raise ShapeError(f"{value!r} is no shape: {number} is negative")
        out.append(number)
    return tuple(out)


def show(shape: Sequence[Dim]) -> str:
    """A shape as text: ``(b, 3)``."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def broadcast_dims(a: Dim, b: Dim) -> Dim | None:
    """The size of two axes that meet, or ``None`` when they do not fit or cannot be decided."""
    if a == b:
        return a
    if isinstance(a, int) and a == 1:
        return b
    if isinstance(b, int) and b == 1:
        return a
    return None


def broadcast_shapes(*shapes: Sequence[Dim]) -> Shape:
    """NumPy's rule: align right, equal sizes or 1.

    Raises:
        ShapeError: when two sizes do not fit.
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for axis in range(rank):
        at: Dim = 1
        for s in shapes:
            index = axis - rank + len(s)
            if index < 0:
                continue
            fit = broadcast_dims(at, s[index])
            if fit is None:
                symbolic = isinstance(at, DimExpr) or isinstance(s[index], DimExpr)
                raise ShapeError(
                    "do not broadcast: " + " and ".join(map(show, shapes)),
                    rule="sizes are aligned from the right and must be equal or 1",
                    hint=f"that {at} equals {s[index]} cannot be known while tracing" if symbolic else "",
                    details={"shapes": [list(map(str, s)) for s in shapes]},
                )
            at = fit
        out.append(at)
    return tuple(out)


def normalize_axis(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        ShapeError: when it is out of range.
    """
    try:
        number = axis.__index__()
    except AttributeError:
        raise ShapeError(f"an axis must be a whole number, not {axis!r}", code="E103") from None
    if not -rank <= number < rank:
        raise ShapeError(
            f"axis {number} is out of range for an array of rank {rank}",
            code="E103",
            rule=f"{-rank} <= axis < {rank}" if rank else "an array of rank 0 has no axes",
        )
    return number % rank


def normalize_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted; ``None`` means all. Refuses repeats."""
    if axes is None:
        return tuple(range(rank))
    listed = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    out = tuple(sorted(normalize_axis(a, rank) for a in listed))
    if len(set(out)) != len(out):
        raise ShapeError(f"axes {listed} name an axis twice", code="E103")
    return out
