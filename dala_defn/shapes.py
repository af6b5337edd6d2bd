"""Pure shape arithmetic. A dim is an int or a ``DimExpr``, a polynomial over named sizes such as ``2*b + 1``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from dala_defn.errors import ShapeError
from dala_defn.sources import asked_by_user

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

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (int, DimExpr)):
            return NotImplemented
        same = self is other or (isinstance(other, DimExpr) and self._terms == other._terms)
        # For us a size equals what is written alike; a user asks about numbers, which may agree all the same.
        return same if same or not _by_value() or not asked_by_user() else Condition(self, "==", other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, (int, DimExpr)):
            return NotImplemented
        same = self is other or (isinstance(other, DimExpr) and self._terms == other._terms)
        return not same if same or not _by_value() or not asked_by_user() else Condition(self, "!=", other)

    def __lt__(self, other: Dim) -> Condition:
        return Condition(self, "<", other) if isinstance(other, (int, DimExpr)) else NotImplemented

    def __le__(self, other: Dim) -> Condition:
        return Condition(self, "<=", other) if isinstance(other, (int, DimExpr)) else NotImplemented

    def __gt__(self, other: Dim) -> Condition:
        return Condition(self, ">", other) if isinstance(other, (int, DimExpr)) else NotImplemented

    def __ge__(self, other: Dim) -> Condition:
        return Condition(self, ">=", other) if isinstance(other, (int, DimExpr)) else NotImplemented

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
        return floordiv(self, other) if isinstance(other, (int, DimExpr)) else NotImplemented

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self) if isinstance(other, (int, DimExpr)) else NotImplemented

    def __mod__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, DimExpr)):
            return NotImplemented
        return self - floordiv(self, other) * other

    def __bool__(self) -> bool:
        return bool(Condition(self, "!=", 0))

    def __int__(self) -> int:
        raise ShapeError(
            f"the size {self} is not known while tracing",
            rule="one trace serves all sizes",
            hint="dd.scan for a loop over it, dd.dim_value for it as an array, or a trace with numbers",
        )

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

    def substitute(self, sizes: Mapping[str, Dim]) -> Dim:
        """The size with others in the place of names."""
        total: Dim = 0
        for monomial, coefficient in self._terms.items():
            product: Dim = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    product = product * sizes.get(atom, DimExpr.named(atom))
                else:
                    num, den = (d.substitute(sizes) if isinstance(d, DimExpr) else d for d in (atom.num, atom.den))
                    product = product * floordiv(num, den)
            total = total + product
        return total

    def names(self) -> set[str]:
        """The names in it."""
        out: set[str] = set()
        for monomial in self._terms:
            for atom in monomial:
                out |= {atom} if isinstance(atom, str) else names_of([atom.num, atom.den])
        return out

    def parts(self) -> list[Dim]:
        """The terms that it is the sum of."""
        return [_collapse({k: v}) for k, v in self._terms.items()]

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


Range = tuple[int | None, int | None]  # from, to; None where there is no end


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def interval(d: Dim, bounds: Mapping[str, Range]) -> Range:
    """Between which numbers a size lies, when names lie within ``bounds`` (from 0 on where there are none)."""
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in _terms(d).items():
        a: int | None = 1
        b: int | None = 1
        for atom in monomial:
            first, last = bounds.get(atom, (0, None)) if isinstance(atom, str) else _quotient(atom, bounds)
            if first is None or first < 0:
                return None, None
            a = None if a is None else a * first
            b = 0 if 0 in (b, last) else None if b is None or last is None else b * last
        ends = [None if x is None else x * coefficient for x in (a, b)]
        low, high = _plus(low, ends[coefficient < 0]), _plus(high, ends[coefficient > 0])
    return low, high


def _quotient(d: FloorDiv, bounds: Mapping[str, Range]) -> Range:
    (a, b), (least, most) = interval(d.num, bounds), interval(d.den, bounds)
    if least is None or least < 1 or a is None or a < 0:
        return None, None
    return (0 if most is None else a // most), (None if b is None else b // least)


_OPPOSITE = {"==": "!=", "!=": "==", ">=": "<", "<": ">=", "<=": ">", ">": "<="}


class Condition:
    """A comparison of sizes; asking for its truth is an error when that depends on sizes that are not known."""

    __slots__ = ("left", "op", "right", "text")

    def __init__(self, left: Dim, op: str, right: Dim, text: str = "") -> None:
        self.left, self.op, self.right, self.text = left, op, right, text

    def __repr__(self) -> str:
        return self.text or f"{self.left} {self.op} {self.right}"

    def opposite(self) -> Condition:
        """The condition that holds when this one does not."""
        return Condition(self.left, _OPPOSITE[self.op], self.right)

    def key(self) -> tuple[Dim, str]:
        """What conditions that say the same share: a difference, and how it compares with 0."""
        left, op, right = self.left, self.op, self.right
        if op in ("<", "<="):
            left, op, right = right, {"<": ">", "<=": ">="}[op], left
        if op in (">", ">="):
            return (left - right - (op == ">"), ">=")
        d = left - right
        return (d if next(iter(_terms(d).values()), 0) >= 0 else d * -1, op)

    def evaluate(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for these sizes."""
        d, op = self.key()
        n = evaluate(d, sizes)
        return n == 0 if op == "==" else n != 0 if op == "!=" else n >= 0

    def decide(self, known: Known) -> bool | None:
        """Whether it holds for all sizes that are possible; ``None`` when it depends on them."""
        d, op = self.key()
        low, high = interval(d, known.bounds)
        if op == ">=":
            found = True if low is not None and low >= 0 else False if high is not None and high < 0 else None
        else:
            apart = (low is not None and low > 0) or (high is not None and high < 0)
            found = op == "!=" if apart else op == "==" if low == high == 0 else None
        if found is None:
            keys = [fact.condition.key() for fact in known.facts]
            found = True if self.key() in keys else False if self.opposite().key() in keys else None
        return found

    def __bool__(self) -> bool:
        found = self.decide(known() or NOTHING)
        if found is None:
            names = sorted(names_of([self.left, self.right]))
            raise ShapeError(
                f"whether {self} is not known while tracing: {' and '.join(names)} may be any size",
                rule="one trace serves all sizes, so no branch is taken for some of them",
                hint=f"dd.require({self}) before, which is checked at each call; or dd.cond on dd.dim_value(...)",
                details={"sizes": names, "condition": str(self)},
            )
        return found


class Fact:
    """A condition that a trace relies on: which, where in the user's program, and what for."""

    __slots__ = ("alone", "condition", "place", "why")

    def __init__(self, condition: Condition, place: Any, why: str, alone: bool = False) -> None:
        self.condition, self.place, self.why = condition, place, why
        self.alone = alone  # no type rule of an op depends on it: a file must say it


class Known:
    """What holds of the sizes of a trace: bounds of names, and what else was required; checked at every call."""

    def __init__(self, bounds: Mapping[str, Range] | None = None, as_written: bool = False) -> None:
        self.as_written = as_written  # whether == asks if sizes are written alike, and not for their values
        self.bounds: dict[str, Range] = dict(bounds or {})
        self.facts: list[Fact] = []

    def add(self, condition: Condition, place: Any = None, why: str = "", alone: bool = False) -> None:
        """Takes a condition for true from here on."""
        if condition.decide(self) is True:
            return
        self.facts.append(Fact(condition, place, why, alone))
        d, op = condition.key()
        line = _line(d)
        if line is None:
            return
        (name, scale), rest = line
        if op == ">=":
            low, high = self.bounds.get(name, (0, None))
            if scale > 0:
                low = max(low or 0, -(rest // scale))
            else:
                high = rest // -scale if high is None else min(high, rest // -scale)
            self.bounds[name] = (low, high)
        elif op == "==" and rest % scale == 0:
            self.bounds[name] = (-rest // scale, -rest // scale)


def _line(d: Dim) -> tuple[tuple[str, int], int] | None:
    """A size as name, factor and rest, when it is so simple."""
    terms = dict(_terms(d))
    rest = terms.pop((), 0)
    if len(terms) == 1:
        ((monomial, scale),) = terms.items()
        if len(monomial) == 1 and isinstance(monomial[0], str):
            return (monomial[0], scale), rest
    return None


NOTHING = Known()
_tracing: list[Callable[[], tuple[Known, Any] | None]] = []


def install_known(f: Callable[[], tuple[Known, Any] | None]) -> None:
    """Hands in what finds the knowledge of the trace that is open, and the place in the user's program."""
    _tracing[:] = [f]


def known() -> Known | None:
    """What the trace that is open knows of sizes."""
    found = _tracing[0]() if _tracing else None
    return None if found is None else found[0]


def _by_value() -> bool:
    now = known()
    return now is not None and not now.as_written


def may(condition: Condition, why: str = "", alone: bool = False) -> bool:
    """Whether a condition can hold; when that depends on the sizes it does, and calls with others are refused.

    Outside of traces nothing is noted: whoever runs a graph checks its types again with the sizes of the run.
    """
    found = _tracing[0]() if _tracing else None
    decided = condition.decide(NOTHING if found is None else found[0])
    if decided is None and found is not None:
        found[0].add(condition, found[1], why, alone)
    return decided is not False


def at_least(a: Dim, b: Dim) -> bool | None:
    """Whether ``a >= b`` for all sizes that are possible: true, false (for all), or ``None`` when it depends."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return Condition(a, ">=", b).decide(known() or NOTHING)


def same_size(a: Dim, b: Dim, why: str = "") -> bool:
    """Whether two sizes are or may be equal, in more than the empty case; see ``may``."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if a == b or Condition(a, "==", b).decide(known() or NOTHING):
        return True
    if isinstance(a, int):
        a, b = b, a
    low, high = interval(a - b, (known() or NOTHING).bounds)
    return low != 0 and high != 0 and may(Condition(a, "==", b), why)


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


def broadcast_shapes(*shapes: Sequence[Dim], sure: bool = True) -> Shape:
    """NumPy's rule: align right, equal sizes or 1; unless ``sure``, sizes that may be equal are taken to be.

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
            if fit is None and not sure and same_size(at, s[index], "broadcasting"):
                fit = s[index] if isinstance(at, DimExpr) else at
            if fit is None:
                symbolic = isinstance(at, DimExpr) or isinstance(s[index], DimExpr)
                raise ShapeError(
                    "do not broadcast: " + " and ".join(map(show, shapes)),
                    rule="sizes are aligned from the right and must be equal or 1",
                    hint=f"that {at} equals {s[index]} cannot be known while tracing" if symbolic else "",
                    details={"shapes": [list(map(str, s)) for s in shapes], "unequal": [str(at), str(s[index])]},
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
