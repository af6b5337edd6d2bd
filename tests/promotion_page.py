"""The page docs/promotion.md: the dtype of every pair, beside NumPy's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import DType

WEAK = {"bool": True, "int": 1, "float": 1.0, "complex": 1j}
INTEGERS = "an integer with a float or a complex number takes that one's dtype: a model in a small dtype stays in it"
DEFAULTS = "where the array says nothing of a kind, a Python int is int32 and a float float32: the dtypes of models"
HEAD = f"""# Promotion

Written by `python tests/make_docs.py`; a test makes it again. The dtype of an operation on two arrays, and on an array
and a Python number, which is weak: it takes the array's dtype where that can hold its kind. Bold is what differs from
NumPy 2; there are two reasons, and no others:

1. {INTEGERS}. In NumPy int32 with float32 is float64.
2. {DEFAULTS}.
   NumPy gives int64, float64 or complex128.

Functions with a real result (`sqrt`, `mean`, ...) give float32 for integers and bool, by the second reason. A key takes
no part. uint64 with a signed integer is float64, as in NumPy: no integer dtype holds both.
"""


@dataclass(frozen=True)
class Cell:
    """A pair: ours, NumPy's, and the reason if they differ."""

    ours: DType
    theirs: np.dtype[np.generic]
    reason: str

    def __str__(self) -> str:
        return f"**{self.ours.short}**" if self.differs else self.ours.short

    @property
    def differs(self) -> bool:
        """Whether NumPy gives another dtype."""
        return self.ours.dtype != self.theirs


def pair(a: DType, b: DType) -> Cell:
    """Two arrays."""
    integer = (a.kind in "iu") != (b.kind in "iu") and bool({a.kind, b.kind} & set("fc"))
    return Cell(dtypes.result_type(a, b), np.result_type(a.dtype, b.dtype), INTEGERS if integer else "")


def with_number(a: DType, number: bool | int | float | complex) -> Cell:
    """An array and a Python number."""
    theirs = (np.zeros(1, a.dtype) + number).dtype
    ours = dtypes.weak_kind(number) or ""
    other = "bifc".index(ours) > "bifc".index(a.kind.replace("u", "i"))
    return Cell(dtypes.result_type(a, number), theirs, DEFAULTS if other else "")


def page() -> str:
    """The whole page."""
    every = dtypes.ELEMENTS
    lines = [HEAD, "## Two arrays", "", "| | " + " | ".join(d.short for d in every) + " |"]
    lines.append("| --- " * (1 + len(every)) + "|")
    lines += [f"| {a.short} | " + " | ".join(str(pair(a, b)) for b in every) + " |" for a in every]
    lines += ["", "## An array and a Python number", "", "| | " + " | ".join(WEAK) + " |", "| --- " * 5 + "|"]
    lines += [f"| {a.short} | " + " | ".join(str(with_number(a, x)) for x in WEAK.values()) + " |" for a in every]
    return "\n".join(lines) + "\n"
