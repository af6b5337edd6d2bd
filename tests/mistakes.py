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
    # sizes by name
    Mistake(
        "size-branch",
        "@dd.defn\ndef f(a: dd.Float32['b 3']):\n    return a if a.shape[0] > 3 else -a  # here\nf(x)",
        S,
        V,
        ("whether b > 3 is not known", "dd.require(b > 3)"),
    ),
    Mistake(
        "size-axis",
        "@dd.defn\ndef f(a: dd.Float32['b 4']):\n    return a\nf(x)  # here",
        S,
        V,
        ("argument a has the shape (2, 3), not (b, 4)", "axis 1 is 4, not 3"),
    ),
    Mistake(
        "size-name",
        "@dd.defn\ndef f(a: dd.Float32['b 3'], c: dd.Float32['b']):\n    return a\nf(x, v)  # here",
        S,
        V,
        ("argument c", "b = 2 by axis 0 of a"),
    ),
    Mistake(
        "size-dtype",
        "@dd.defn\ndef f(a: dd.Int32['n']):\n    return a\nf(v)  # here",
        D,
        TypeError,
        ("argument a is f32[3], annotated as i32[n]", "astype(dd.int32)"),
    ),
    Mistake(
        "size-needed",
        "@dd.defn\ndef f(a: dd.Float32['n']):\n    return a.reshape(-1, 2)\nf(v)  # here",
        S,
        V,
        ("n is 3: f needs n % 2 == 0", "is needed at"),
    ),
    Mistake(
        "size-loop",
        "@dd.defn\ndef f(a: dd.Float32['n']):\n    return [a for _ in range(a.shape[0])]  # here\nf(v)",
        S,
        V,
        ("the size n is not known", "dd.scan"),
    ),
    Mistake("size-text", "dd.spec('b +')  # here", S, V, ("'+' is no size",)),
    Mistake("require-value", traced("dd.require(x.sum() > 0)"), "TraceError", TypeError, ("dd.debug.check",)),
    # random keys
    Mistake(
        "key-twice",
        "@dd.defn\ndef f(k):\n    a = dd.random.normal(k)\n    return a + dd.random.uniform(k)  # here\n"
        "f(dd.random.key(0))",
        A,
        V,
        ("used twice", "argument k", "a = dd.random.normal(k)", "dd.random.split"),
    ),
    Mistake(
        "key-after-split",
        "@dd.defn\ndef f(k):\n    a, b = dd.random.split(k)\n    return dd.random.normal(k)  # here\n"
        "f(dd.random.key(0))",
        A,
        V,
        ("used twice", "a, b = dd.random.split(k)"),
    ),
    Mistake("key-seed", "dd.random.key(1.5)  # here", T, TypeError, ("a seed is an integer",)),
    Mistake("key-add", traced("dd.random.key(0) + x"), D, TypeError, ("key",)),
    # control flow
    Mistake(
        "cond-shapes",
        traced("dd.cond(x.sum() > 0, lambda: x, lambda: v)"),
        S,
        V,
        ("f32[2, 3]", "f32[3]"),
    ),
    Mistake(
        "cond-structure",
        traced("dd.cond(x.sum() > 0, lambda: (x, x), lambda: x)"),
        S,
        V,
        ("true_fn", "false_fn"),
    ),
    Mistake("cond-predicate", traced("dd.cond(x > 0, lambda: x, lambda: -x)"), T, TypeError, ("bool[2, 3]", "dd.all")),
    Mistake("cond-number", traced("dd.cond(x.sum(), lambda: x, lambda: -x)"), T, TypeError, ("f32[]",)),
    Mistake(
        "scan-carry",
        traced("dd.scan(lambda c, r: (dd.stack([c, c]), r), v, x)"),
        S,
        V,
        ("the carry goes in as", "comes back as", "f32[3]", "f32[2, 3]"),
    ),
    Mistake("scan-pair", traced("dd.scan(lambda c, r: c + r, v, x)"), T, TypeError, ("not a pair (carry, y)",)),
    Mistake("scan-lengths", traced("dd.scan(lambda c, r: (c, c), 0.0, (x, v))"), S, V, ("2 and 3",)),
    Mistake("scan-length", traced("dd.scan(lambda c, r: (c, c), 0.0, None)"), A, V, ("how many steps", "length=")),
    Mistake(
        "while-carry",
        traced("dd.while_loop(lambda c: c.sum() < 9, lambda c: c[0], x)"),
        S,
        V,
        ("f32[2, 3]", "f32[3]"),
    ),
    Mistake("while-test", traced("dd.while_loop(lambda c: c, lambda c: c + 1, x)"), T, TypeError, ("f32[2, 3]",)),
    Mistake("switch-empty", traced("dd.switch(i[0], [])"), A, V, ("no branches",)),
    Mistake("switch-index", traced("dd.switch(x, [dd.exp])"), T, TypeError, ("f32[2, 3]",)),
    # rules of one's own
    Mistake(
        "custom-vjp-missing",
        "f = dd.custom_vjp(lambda a: a * 2)\ndd.grad(lambda a: f(a).sum())(v)  # here",
        A,
        V,
        ("no rule yet", "f.defvjp"),
    ),
    Mistake(
        "custom-vjp-count",
        "f = dd.custom_vjp(lambda a: a * 2)\nf.defvjp(lambda a: (a * 2, None), lambda r, ct: (ct, ct))\n"
        "dd.grad(lambda a: f(a).sum())(v)  # here",
        T,
        TypeError,
        ("not 1 cotangents", "one for each argument"),
    ),
    Mistake(
        "custom-vjp-shape",
        "f = dd.custom_vjp(lambda a: a * 2)\nf.defvjp(lambda a: (a * 2, None), lambda r, ct: (ct[:2],))\n"
        "dd.grad(lambda a: f(a).sum())(v)  # here",
        S,
        V,
        ("(2,)", "f32[3]"),
    ),
    # gradients and functions
    Mistake(
        "grad-none",
        "def loss(a):  # here\n    a.sum()\ndd.grad(loss)(v)",
        "GradientError",
        V,
        ("loss returns nothing", "is a return missing?"),
    ),
    Mistake("jvp-shape", "dd.jvp(dd.sin, (v,), (x,))  # here", S, V, ("tangent", "primal")),
    Mistake("jvp-count", "dd.jvp(dd.sin, (v,), ())  # here", A, V, ("1 primals and 0 tangents",)),
    Mistake("vmap-axis", "dd.vmap(dd.sin, in_axes=2)(x)  # here", S, V, ("axis 2 is out of range",)),
    Mistake("vmap-none", "dd.vmap(lambda a: a, in_axes=None)(x)  # here", S, V, ("no argument has an axis",)),
    Mistake("vmap-count", "dd.vmap(lambda a, b: a, in_axes=(0,))(x, x)  # here", A, V, ("1 entries for 2 arguments",)),
    Mistake("static-name", "dd.defn(lambda a: a, static_argnames='n')  # here", A, V, ("no argument 'n'",)),
    Mistake("donate-name", "dd.defn(lambda a: a, donate_argnames='n')  # here", A, V, ("no argument 'n'",)),
    Mistake("extra", "f = dd.defn(lambda a: a)\nf(x, x)  # here", T, TypeError, ("too many positional",)),
    Mistake("executor", "dd.defn(lambda a: a, executor='gpu')(x)  # here", A, V, ("no executor 'gpu'", "flex")),
    Mistake("check", "dd.debug.check(dd.array(x) > 0, 'positive')  # here", T, TypeError, ("bool[2, 3]", "dd.all")),
    Mistake(
        "check-fails",
        "f = dd.defn(lambda a: dd.debug.check(a.sum() < 0, 'sum {}', a.sum()) or a)  # here\nf(x)",
        "CheckFailed",
        AssertionError,
        ("sum 6",),
    ),
    Mistake("print-field", traced("dd.debug.print('{} {}', x)"), A, V, ("nothing fills a field",)),
    Mistake(
        "nan",
        "f = dd.defn(lambda a: dd.log(a - 2))  # here\nwith dd.debug_nans():\n    f(x)",
        "NotFiniteError",
        FloatingPointError,
        ("log gives 6 NaN of 6 elements", "sub(…) made at", "-1 to -1"),
    ),
    Mistake("float", traced("x * float(v[0])"), "TraceError", TypeError, ("float()", "f32[]")),
    Mistake("item", traced("x * v[0].item()"), "TraceError", TypeError, ("item()",)),
    Mistake("einsum", traced("dd.einsum('ij,jk->ik', x, x)"), S, V, ("'j'", "3 and 2")),
    Mistake("split", traced("dd.split(v, 2)"), S, V, ("size 3", "2 equal parts")),
    Mistake("ellipsis", traced("x[..., ...]"), A, V, ("only one ...",)),
]
