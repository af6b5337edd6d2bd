"""Hostile ``.dala`` files that chance would not find: each one an idea of someone who means harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import programs
from taken_apart import File, Json, Mutant, dumps, packed


def node(op: str, ins: list[int], out: Json, **attrs: Json) -> Json:
    return {"op": op, "in": ins, "out": [out], "attrs": attrs}


def program(functions: list[Json], args: Json = None, dims: Json = None, results: int = 1, **more: Json) -> Json:
    """A program whose last function is its only entry."""
    last = functions[-1]
    roles = [{"name": f"x{i}", "role": "arg", "donate": False} for i in range(len(last["inputs"]))]
    outs = [{"name": str(i), "role": "result"} for i in range(results)]
    entry = {"name": "main", "function": len(functions) - 1, "args": args or roles, "results": outs}
    return {"version": 1, "functions": functions, "entries": [entry], "dims": dims or {}, **more}


def function(inputs: list[Json], nodes: list[Json], outputs: list[int], name: str = "f") -> Json:
    return {"name": name, "inputs": inputs, "nodes": nodes, "outputs": outputs}


def bare(value: Json, text: str | None = None) -> bytes:
    """A file of a program without tensors."""
    file = File(programs.indices())
    file.rows, file.aliases, file.data = {}, {}, b""
    file.program = value
    return file.bytes(text)


F32 = ["f32", [4]]


def _bomb(width: int, depth: int) -> Json:
    functions = [function([F32], [node("neg", [0], F32)], [1])]
    for i in range(depth):
        calls = [node("call", [k], F32, function=i, composite="") for k in range(width)]
        functions.append(function([F32], calls, [width]))
    return program(functions)


def _chain(length: int) -> Json:
    nodes = [node("neg", [i], F32) for i in range(length)]
    return program([function([F32], nodes, [length])])


def _made(op: str, shape: Json, dtype: str = "f32", reduce: bool = True, **attrs: Json) -> Json:
    """A value of a huge shape that is reduced to one number."""
    big = [dtype, shape]
    axes = list(range(len(shape)))
    nodes = (
        [node(op, [], big, shape=shape, dtype=dtype, **attrs)]
        if op == "iota"
        else [
            {"op": "constant", "in": [], "out": [[dtype, []]], "attrs": {"value": {"hex": "0000803f"}}},
            node("broadcast_to", [0], big, shape=shape),
        ]
    )
    at = len(nodes)
    if reduce:
        nodes.append(node("max", [at - 1], [dtype, []], axes=axes))
    return program([function([], nodes, [len(nodes) - 1])])


def by_hand() -> Iterator[Mutant]:
    """Attacks that chance would not find."""
    for width, depth in ((2, 24), (2, 62), (40, 40), (1, 199), (1, 300), (1, 5000)):
        yield f"bomb-{width}x{depth}", bare(_bomb(width, depth))
    yield "chain-4000", bare(_chain(4_000))
    for n in (2**24, 2**31, 2**33, 2**40, 2**61, 2**62, 2**63 - 1):
        yield f"iota-{n}", bare(_made("iota", [n], axis=0))
        yield f"broadcast-{n}", bare(_made("broadcast_to", [n]))
    yield "iota-product", bare(_made("iota", [2**32, 2**32, 2**32], axis=0))
    yield "iota-rank", bare(_made("iota", [1] * 33, axis=0))
    yield "iota-rank-32", bare(_made("iota", [1] * 32, axis=0))
    yield "iota-empty-huge", bare(_made("iota", [0, 2**62, 2**62], axis=0, reduce=False))
    yield "broadcast-empty-huge", bare(_made("broadcast_to", [2**40, 0, 2**40], reduce=False))
    for dim in ("b", "b*b*b*b", "b*1000000000000", "b-5", "1-b", "b//0", "b//b", "0*b", "z", "b+" * 400 + "b"):
        f = function([["f32", ["b"]]], [node("iota", [], ["i32", [dim]], shape=[dim], axis=0, dtype="i32")], [1])
        yield f"dim-{dim[:20]}", bare(program([f], dims={"b": {"min": 0, "max": None}}))
    yield from _dims()
    yield from _windows()
    yield from _functions()
    yield from _texts()
    yield from _headers()


def _dims() -> Iterator[Mutant]:
    f = function([["f32", ["b"]]], [node("neg", [0], ["f32", ["b"]])], [1])
    for label, dims in {
        "none": {},
        "list": [],
        "null": None,
        "other": {"c": {"min": 0, "max": None}},
        "inverted": {"b": {"min": 5, "max": 1}},
        "negative": {"b": {"min": -1, "max": None}},
        "huge": {"b": {"min": 2**63, "max": None}},
        "no-max": {"b": {"min": 0}},
        "far": {"b": {"min": 2**40, "max": 2**41}},
        "extra": {"b": {"min": 0, "max": None, "step": 2}},
        "float": {"b": {"min": 0.0, "max": 2.0}},
        "name": {"b": {"min": 0, "max": None}, "b b": {"min": 0, "max": 1}},
        "true": {"b": {"min": True, "max": True}},
        "empty-name": {"b": {"min": 0, "max": None}, "": {"min": 0, "max": 1}},
    }.items():
        yield f"dims-{label}", bare({**program([f]), "dims": dims})
    derived = function([["f32", ["2*b"]]], [node("neg", [0], ["f32", ["2*b"]])], [1])
    yield "dims-only-derived", bare(program([derived], dims={"b": {"min": 0, "max": None}}))
    inner = function([["f32", ["b"]]], [node("neg", [0], ["f32", ["b"]])], [1])
    outer = function(
        [["f32", ["b"]], ["f32", ["c"]]],
        [node("call", [1], ["f32", ["c"]], function=0, composite="")],
        [2],
    )
    both = {"b": {"min": 0, "max": None}, "c": {"min": 0, "max": None}}
    yield "dims-rebound-by-call", bare(program([inner, outer], dims=both))


def _windows() -> Iterator[Mutant]:
    x = ["f32", [1, 6, 6, 1]]
    for label, window, strides, low, high in (
        ("huge-window", [1, 2**40, 1, 1], [1] * 4, [0] * 4, [0, 2**40, 0, 0]),
        ("huge-pad", [1, 1, 1, 1], [1, 2**40, 1, 1], [0, 2**40, 0, 0], [0] * 4),
        ("wide-pad", [1, 2, 2, 1], [1, 2, 2, 1], [0, 2**15, 2**15, 0], [0, 2**15, 2**15, 0]),
        ("zero-stride", [1, 2, 2, 1], [1, 0, 2, 1], [0] * 4, [0] * 4),
        ("negative-pad", [1, 2, 2, 1], [1, 2, 2, 1], [0, -1, 0, 0], [0] * 4),
        ("zero-window", [1, 0, 2, 1], [1, 2, 2, 1], [0] * 4, [0] * 4),
        ("max-numbers", [2**62] * 4, [2**62] * 4, [2**62] * 4, [2**62] * 4),
    ):
        for op in ("window_max", "window_sum"):
            for size in (1, 3, 2**17):
                out = ["f32", [1, size, size, 1]]
                n = node(op, [0], out, window=window, strides=strides, low=low, high=high)
                yield f"{op}-{label}-{size}", bare(program([function([x], [n], [1])]))
    for dilation, groups, strides in ((2**40, 1, 1), (1, 2**40, 1), (1, 0, 1), (1, -1, 1), (1, 1, 0), (1, 1, 2**62)):
        n = node(
            "conv",
            [0, 1],
            ["f32", [1, 4, 4, 2]],
            strides=[strides, 1],
            low=[0, 0],
            high=[0, 0],
            dilation=[dilation, 1],
            groups=groups,
        )
        w = ["f32", [3, 3, 1, 2]]
        yield f"conv-{dilation}-{groups}-{strides}", bare(program([function([x, w], [n], [2])]))
    for low, high, interior in ((2**62, 2**62, 0), (0, 0, 2**62), (-5, 0, 0), (2**30, 0, 0), (2**33, 0, 0)):
        n = node("pad", [0, 1], F32, low=[low], high=[high], interior=[interior])
        yield f"pad-{low}-{high}-{interior}", bare(program([function([F32, ["f32", []]], [n], [2])]))


def _functions() -> Iterator[Mutant]:
    call = node("call", [0], F32, function=0, composite="")
    yield "call-itself", bare(program([function([F32], [call], [1])]))
    up = node("call", [0], F32, function=1, composite="")
    leaf = function([F32], [node("neg", [0], F32)], [1])
    yield "call-upwards", bare(program([function([F32], [up], [1]), leaf]))
    yield "call-mutual", bare(program([function([F32], [up], [1]), function([F32], [call], [1])]))
    for index in (-1, 7, 2**63, None, "0", 0.0, True, [0]):
        yield (
            f"call-{index}",
            bare(program([leaf, function([F32], [{**call, "attrs": {"function": index, "composite": ""}}], [1])])),
        )
    for label, change in {
        "no-operand": {"in": []},
        "two-operands": {"in": [0, 0]},
        "no-result": {"out": []},
        "two-results": {"out": [F32, F32]},
        "other-type": {"out": [["f64", [4]]]},
        "other-shape": {"out": [["f32", [5]]]},
    }.items():
        yield f"call-{label}", bare(program([leaf, function([F32], [{**call, **change}], [1])]))
    yield "no-functions", bare({"version": 1, "functions": [], "entries": [], "dims": {}})
    yield "entry-of-nothing", bare({**program([leaf]), "functions": []})
    two = program([leaf])
    two["entries"] *= 2
    yield "entries-of-one-name", bare(two)
    yield "forward-reference", bare(program([function([F32], [node("neg", [2], F32), node("neg", [1], F32)], [1])]))
    yield "self-reference", bare(program([function([F32], [node("neg", [1], F32)], [1])]))
    yield "many-outputs", bare(program([function([F32], [], [0] * 1000)], results=1000))
    yield "many-inputs", bare(program([function([F32] * 1000, [], [0])]))
    wide = node("concatenate", [0] * 5000, ["f32", [20000]], axis=0)
    yield "many-operands", bare(program([function([F32], [wide], [1])]))
    yield "operands-of-nothing", bare(program([function([F32], [node("concatenate", [], F32, axis=0)], [1])]))
    for version in (0, 2, "1", 1.0, True, None, 2**70):
        yield f"version-{version}", bare({**program([leaf]), "version": version})
    gather = node("gather", [0, 1], ["f32", [1]], axis=0, batch_dims=0, mode="error")
    for value in ("ffffffff", "ffffff7f", "00000080", "04000000"):
        index = {"op": "constant", "in": [], "out": [["i32", [1]]], "attrs": {"value": {"hex": value}}}
        yield f"gather-{value}", bare(program([function([F32], [index, gather], [2])]))
        scatter = node("scatter_set", [0, 1, 0], F32, axis=0, batch_dims=0, mode="error")
        yield f"scatter-{value}", bare(program([function([F32], [index, scatter], [2])]))
    for raw in ("", "00", "0" * 8, "0" * 400, "zz", "00 00 00 00", "0000803f" * 4):
        c = {"op": "constant", "in": [], "out": [["f32", []]], "attrs": {"value": {"hex": raw}}}
        yield f"constant-{raw[:12]}-{len(raw)}", bare(program([function([], [c], [0])]))
    c = {"op": "constant", "in": [], "out": [["bool", [4]]], "attrs": {"value": {"hex": "00010203"}}}
    yield "constant-bool", bare(program([function([], [c], [0])]))


def _texts() -> Iterator[Mutant]:
    good = program([function([F32], [node("neg", [0], F32)], [1])])
    text = dumps(good)
    yield "good", bare(good)
    for label, changed in {
        "nested-lists": "[" * 100_000,
        "nested-objects": '{"a":' * 50_000,
        "closed": "[" * 5000 + "]" * 5000,
        "empty": "",
        "null": "null",
        "cut": text[:-9],
        "twice": text + text,
        "nan": text.replace('"version":1', '"version":NaN'),
        "two-versions": text.replace('"version":1', '"version":1,"version":1'),
        "two-ops": text.replace('"op":"neg"', '"op":"neg","op":"exp"'),
        "two-dims": text.replace('"dims":{}', '"dims":{"b":{"max":null,"min":0},"b":{"max":1,"min":0}}'),
        "infinity": text.replace("[4]", "[Infinity]"),
        "exponent": text.replace("[4]", "[4e0]"),
        "exponents": text.replace("[4]", "[1e999]"),
        "minus-zero": text.replace("[4]", "[-0]"),
        "digits": text.replace("[4]", "[" + "4" * 5000 + "]"),
        "surrogate": text.replace('"f"', '"\\ud800"'),
        "bom": "\ufeff" + text,
        "name": text.replace('"name":"f"', '"name":"' + "f" * 200_000 + '"'),
        "nul": text.replace('"name":"f"', '"name":"\\u0000"'),
        "deep-attr": text.replace('"attrs":{}', '"attrs":{"x":' + "[" * 400 + "]" * 400 + "}"),
        "comment": text + " // more",
        "single-quotes": text.replace('"', "'"),
        "trailing": text.replace("[4]", "[4,]"),
        "space": " \n\t" + text + "\n ",
    }.items():
        yield f"text-{label}", bare(None, changed)


def _headers() -> Iterator[Mutant]:
    good = programs.train()
    size = int.from_bytes(good[:8], "little")
    for length in (0, 1, 7, size - 1, size + 1, len(good), 10**8, 10**8 + 1, 2**31, 2**32 + 8, 2**60, 2**63, 2**64 - 1):
        yield f"length-{length}", length.to_bytes(8, "little") + good[8:]
    for label, change in {
        "promises-more": {"shape": [600, 500], "data_offsets": [0, 1_200_000]},
        "shape-too-large": {"shape": [600, 500], "data_offsets": [0, 8]},
        "backwards": {"data_offsets": [8, 4]},
        "negative-shape": {"shape": [-1, 4]},
        "negative-offset": {"data_offsets": [-4, 20]},
        "three-offsets": {"data_offsets": [0, 4, 8]},
        "float-shape": {"shape": [3.0, 2]},
        "overflow": {"shape": [2**32, 2**32, 4]},
        "overflow-to-24": {"shape": [2**62, 4, 6]},
        "no-shape": {"shape": None},
        "dtype-list": {"dtype": ["F32"]},
        "dtype": {"dtype": "F31"},
        "dtype-f64": {"dtype": "F64"},
        "dtype-i32": {"dtype": "I32"},
        "shape-turned": {"shape": [2, 3]},
        "rank": {"shape": [1] * 40 + [6]},
        "empty": {"shape": [0, 2**62], "data_offsets": [0, 0]},
        "more": {"more": 1},
        "string-offsets": {"data_offsets": "04"},
        "far": {"data_offsets": [2**63, 2**63 + 24]},
        "bool-shape": {"shape": [True, 6]},
    }.items():
        file = File(good)
        file.rows["w"].update(change)
        yield f"row-{label}", file.bytes()
    for label, edit in HEADER_EDITS.items():
        file = File(good)
        yield f"header-{label}", edit(file)
    for label, table in {
        "loop": {"a": "b", "b": "a"},
        "self": {"a": "a"},
        "chain": {"tied": "x", "x": "w"},
        "shadow": {"w": "count", "tied": "w"},
        "none": {"tied": "none"},
        "number": {"tied": 1},
        "list": ["w"],
        "null": None,
        "gone": {},
        "both": {"tied": "w", "w": "w"},
        "other": {"tied": "count"},
    }.items():
        file = File(good)
        file.aliases = table
        yield f"aliases-{label}", file.bytes()


def _overlap(file: File) -> bytes:
    w = file.rows["w"]["data_offsets"]
    file.rows["second"] = {"dtype": "F32", "shape": [3, 2], "data_offsets": list(w)}
    return file.bytes()


def _gap(file: File) -> bytes:
    file.data += b"\0" * 8
    return file.bytes()


def _hole(file: File) -> bytes:
    file.data = file.data[:4] + b"\0" * 4 + file.data[4:]
    file.rows["w"]["data_offsets"] = [n + 4 for n in file.rows["w"]["data_offsets"]]
    return file.bytes()


def _doubled(file: File) -> bytes:
    text = file.bytes()
    size = int.from_bytes(text[:8], "little")
    header = text[8 : 8 + size].decode()
    row = dumps(file.rows["w"])
    return packed(header[:1] + f'"w":{row},' + header[1:], file.data)


def _digest_first(file: File) -> bytes:
    # A second place that looks like the digest, in a string that comes first.
    file.rows = {'a"': {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, **file.rows}
    return file.bytes(**{"aaa": '"dala.digest":"' + "0" * 64 + '"'})


HEADER_EDITS: dict[str, Callable[[File], bytes]] = {
    "overlap": _overlap,
    "tail": _gap,
    "hole": _hole,
    "tensor-twice": _doubled,
    "digest-twice": _digest_first,
    "no-digests": lambda f: f.bytes(digests={}),
    "digest-of-more": lambda f: f.bytes(digests={**f.digests(), "x": "0" * 64}),
    "digest-number": lambda f: f.bytes(digests={**f.digests(), "w": 1}),
    "digest-upper": lambda f: f.bytes(digests={k: v.upper() for k, v in f.digests().items()}),
    "digest-wrong": lambda f: f.bytes(digests=dict.fromkeys(f.digests(), "0" * 64)),
    "digests-list": lambda f: f.bytes(digests=[]),
    "version-2": lambda f: f.bytes(**{"dala.version": "2"}),
    "version-number": lambda f: f.bytes(**{"dala.version": 1}),
    "no-version": lambda f: f.bytes(**{"dala.version": None}),
    "no-program": lambda f: f.bytes(**{"dala.program": None}),
    "program-object": lambda f: f.bytes(**{"dala.program": f.program}),
    "no-tensors-digests": lambda f: f.bytes(**{"dala.tensors": None}),
    "deep-aliases": lambda f: f.bytes(**{"dala.aliases": "[" * 100_000}),
    "short-digest": lambda f: f.bytes(**{"dala.digest": "0" * 10}),
    "no-digest": lambda f: f.bytes(**{"dala.digest": None}),
    "no-metadata": lambda f: packed(dumps(f.rows), f.data),
    "metadata-list": lambda f: packed(dumps({**f.rows, "__metadata__": []}), f.data),
    "list": lambda f: packed("[]", f.data),
    "empty": lambda f: packed("", f.data),
    "deep": lambda f: packed("[" * 200_000, f.data),
    "deep-tensor": lambda f: packed('{"a":' * 100_000, f.data),
    "not-utf8": lambda f: (4).to_bytes(8, "little") + b'{"\xff"' + f.data,
}
