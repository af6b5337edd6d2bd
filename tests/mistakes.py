"""Mistakes that users make, each a small program; ``# here`` marks the line that the error must name."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import numpy as np
import dala_defn as dd

x = np.ones((2, 3), np.float32)
v = np.ones(3, np.float32)
i = np.array([0, 1], np.int32)
"""


@dataclass(frozen=True)
class Mistake:
    """A program, and what its error must be and say."""

    name: str
    code: str
    error: str
    base: type[Exception]
    says: tuple[str, ...] = ()


def traced(body: str, args: str = "x, v, i") -> str:
    """The body of a function ``f(x, v, i)`` that is traced; its last line is the wrong one."""
    *lines, last = body.split("\n")
    inner = "".join(f"    {line}\n" for line in [*lines, f"return {last}  # here"])
    return f"@dd.defn\ndef f(x, v, i):\n{inner}\nf({args})"


def eager(line: str) -> str:
    """A line outside any function."""
    return f"a, b, k = dd.array(x), dd.array(v), dd.array(i)\n{line}  # here"


S, D, A, T, V = "ShapeError", "DTypeError", "ArgumentError", "ArgumentTypeError", ValueError
MISTAKES = [
    # shapes
    Mistake(
        "add", traced("x + v[:2]"), S, V, ("do not broadcast", "f32[2, 3]", "f32[2]", "left", "right", "argument x")
    ),
    Mistake("matmul", traced("x @ x"), S, V, ("f32[2, 3]", "left", "right", "argument x")),
    Mistake("matmul-rank", traced("x @ x.sum()"), S, V, ("at least one axis",)),
    Mistake("made", traced("h = dd.exp(x)\nh @ x"), S, V, ("exp(…) made at",)),
    Mistake("reshape", traced("x.reshape(4, 2)"), S, V, ("6", "8", "f32[2, 3]")),
    Mistake("reshape-minus", traced("x.reshape(-1, 4)"), S, V, ("f32[2, 3]",)),
    Mistake("concatenate", traced("dd.concatenate([x, x[:, :2]], axis=0)"), S, V, ("f32[2, 3]", "f32[2, 2]")),
    Mistake("stack", traced("dd.stack([x, v])"), S, V, ("(2, 3)", "(3,)")),
    Mistake("broadcast_to", traced("dd.broadcast_to(x, (2, 4))"), S, V, ("f32[2, 3]",)),
    Mistake("where", traced("dd.where(x > 0, x, i)"), S, V, ("do not broadcast",)),
    Mistake("conv", traced("dd.conv(x, v)"), S, V, ("f32[2, 3]",)),
    Mistake("eager-add", eager("a + b[:2]"), S, V, ("do not broadcast", "f32[2, 3]", "f32[2]")),
    Mistake("eager-matmul", eager("a @ a"), S, V, ("f32[2, 3]",)),
    Mistake("squeeze", traced("dd.squeeze(x, 0)"), S, V, ("f32[2, 3]",)),
    # axes
    Mistake("axis", traced("dd.sum(x, axis=2)"), S, V, ("axis 2 is out of range", "-2 <= axis < 2", "f32[2, 3]")),
    Mistake("axis-twice", traced("dd.sum(x, axis=(0, 0))"), S, V, ("twice", "f32[2, 3]")),
    Mistake("axis-kind", traced("dd.sum(x, axis='rows')"), S, V, ("'rows'",)),
    Mistake("transpose", traced("dd.transpose(x, (0, 0))"), S, V, ("f32[2, 3]",)),
    Mistake("eager-axis", eager("a.max(axis=5)"), S, V, ("axis 5 is out of range", "f32[2, 3]")),
    # dtypes
    Mistake("shift", traced("x << i[0]"), D, TypeError, ("float32",)),
    Mistake("bits", traced("x & x"), D, TypeError, ("float32", "f32[2, 3]")),
    Mistake("overflow", traced("i.astype(dd.uint8) + 300"), D, TypeError, ("300 does not fit uint8", "0 to 255")),
    Mistake("dtype-name", traced("x.astype('float33')"), D, TypeError, ("float33", "float32")),
    Mistake("one-hot", traced("dd.one_hot(x, 3)"), T, TypeError, ("float32",)),
    # indices
    Mistake(
        "index",
        traced("v[3]"),
        "IndexOutOfRange",
        IndexError,
        ("index 3 is out of range for axis 0 of size 3", "f32[3]"),
    ),
    Mistake("indices", traced("v[0, 0]"), "IndexOutOfRange", IndexError, ("rank 1", "f32[3]")),
    Mistake("index-kind", traced("v[1.5]"), T, TypeError, ("float", "integer")),
    Mistake("index-float", traced("v[v]"), T, TypeError, ("float32",)),
    Mistake("mask", traced("x[x > 0]"), T, TypeError, ("dd.where",)),
    Mistake("slice", traced("v[: i[0]]"), T, TypeError, ("dd.dynamic_slice",)),
    Mistake("take", traced("dd.take(v, i + 5)"), "IndexOutOfRange", IndexError, ("5",)),
    Mistake("eager-take", eager("dd.take(b, k + 9)"), "IndexOutOfRange", IndexError, ("9",)),
    # arguments
    Mistake(
        "missing", "f = dd.defn(lambda a, b: a)\nf(x)  # here", T, TypeError, ("missing a required argument: 'b'",)
    ),
    Mistake(
        "string",
        "f = dd.defn(lambda a, mode: a)\nf(x, 'same')  # here",
        T,
        TypeError,
        ("mode", "static_argnames=('mode',)"),
    ),
    Mistake("ragged", "dd.array([[1, 2], [3]])  # here", T, TypeError, ("item 1 has the shape (1,)",)),
    Mistake("operand", traced("x + 'a'"), T, TypeError, ("str", "left", "right")),
    Mistake(
        "returns",
        "@dd.defn\ndef f(a):\n    return {'a': a, 'name': 'layer'}\nf(x)  # here",
        T,
        TypeError,
        ("returns a str at name",),
    ),
    Mistake(
        "static", "f = dd.defn(lambda a, n: a, static_argnames='n')\nf(x, [1])  # here", T, TypeError, ("not hashable",)
    ),
    # traced values
    Mistake(
        "if",
        traced("x if x > 0 else -x"),
        "TraceError",
        TypeError,
        ("one truth value", "dd.where", "dd.all", "bool[2, 3]", "greater"),
    ),
    Mistake("int", traced("x * int(v[0])"), "TraceError", TypeError, ("int()", "f32[]")),
    Mistake("range", traced("[x for _ in range(i[0])]"), "TraceError", TypeError, ("i32[]",)),
    Mistake("numpy", traced("np.asarray(x)"), "TraceError", TypeError, ("f32[2, 3]", "argument x")),
    Mistake(
        "escaped",
        "kept = []\ndd.defn(lambda a: kept.append(a) or a)(x)  # here",
        "EscapedTracerError",
        RuntimeError,
        ("f32[2, 3]", "return the value"),
    ),
    Mistake("set-item", traced("x.__setitem__(0, 1.0)"), T, TypeError, ("x.at[index].set",)),
    # gradients
    Mistake("grad-int", "dd.grad(lambda a: a * 1.0)(3)  # here", "GradientError", V, ("i32[]", "no derivative")),
    Mistake(
        "grad-vector", "def loss(a):\n    return a * 2  # here\ndd.grad(loss)(v)", S, V, ("scalar", "f32[3]", "dd.sum")
    ),
    Mistake(
        "grad-int-result",
        "def loss(a):\n    return dd.argmax(a)  # here\ndd.grad(loss)(v)",
        D,
        TypeError,
        ("float result", "i32[]"),
    ),
    Mistake("argnums", "dd.grad(lambda a: a, argnums=1)(1.0)  # here", A, V, ("argnums 1",)),
    Mistake("aux", "dd.grad(lambda a: a, has_aux=True)(1.0)  # here", T, TypeError, ("(value, aux)",)),
    # sizes that are not known, donation, files
    Mistake("vmap", "dd.vmap(lambda a, b: a + b)(x, v)  # here", S, V, ("size 2 and 3",)),
    Mistake(
        "symbolic",
        "@dd.defn\ndef f(a):\n    return dd.split(a, [1])  # here\nf.lower(dd.spec(('b',)))",
        S,
        V,
        ("unknown size b", "f32[b]"),
    ),
    Mistake(
        "symbolic-if",
        "@dd.defn\ndef f(a):\n    return a if a.shape[0] else -a  # here\nf.lower(dd.spec(('b',)))",
        S,
        V,
        ("whether b != 0 is not known", "dd.require(b != 0)"),
    ),
    Mistake(
        "donated",
        "f = dd.defn(lambda a: a + 1, donate_argnames='a')\na = dd.ones(3) + 1\nf(a)\na + 1  # here",
        "DonatedError",
        RuntimeError,
        ("donated",),
    ),
    Mistake("file", "dd.load('none.dala')  # here", "FileError", OSError, ("none.dala",)),
    Mistake("key", "dd.random.uniform(3, (2,))  # here", T, TypeError, ("a key is needed", "dd.random.key(0)")),
]
