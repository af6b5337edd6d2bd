"""Damaged and hostile ``.dala`` files: cut, flipped, and edited in structure with all digests right again."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import attacks
import programs
from taken_apart import File, Json, Mutant, dumps


def cut_and_flipped(name: str, data: bytes, flips: int = 64) -> Iterator[Mutant]:
    """Truncations at every 64th byte, and single bits flipped: in the length, the header and the data."""
    rng = random.Random(name)
    for at in range(0, len(data), 64):
        yield f"{name}/cut-{at}", data[:at]
    header = 8 + int.from_bytes(data[:8], "little")
    places = [*range(8), *(rng.randrange(8, header) for _ in range(flips))]
    places += [rng.randrange(header, len(data)) for _ in range(8) if header < len(data)]
    for at in places:
        bit = rng.randrange(8)
        yield f"{name}/flip-{at}.{bit}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


# What stands in the place of a value of each kind.
NUMBERS = [-1, 0, 1, 2, 3, 7, 33, 1000, 2**20, 2**31, 2**33, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 1.5, True, None]
NUMBERS += ["1", [], {}, [1], "b", 10**400]
STRINGS: list[Json] = ["", "f32", "f64", "i32", "u8", "bool", "key", "c64", "token", "add", "sum", "gather", "call"]
STRINGS += [
    "constant",
    "scan",
    "while_loop",
    "cond",
    "checkpoint",
    "tap",
    "assert",
    "reshape",
    "error",
    "clip",
    "state:",
    "state:w",
    "state:none",
    "arg",
    "b",
    "n",
    "z",
    "-1",
    "b-9",
]
STRINGS += ["b//0", "b*b*b*b*9999999999", "9" * 30, "(" * 200, "b" * 5000, "\x00", "\ud7ff", 5, None, [], {}, ["f32"]]
LISTS: list[Json] = [
    [],
    None,
    {},
    "f32",
    0,
    [0],
    [-1],
    [0, 0],
    [1] * 40,
    [[]],
    [2**62, 2**62],
    [None],
    ["b"],
    [0] * 5000,
]
OBJECTS: list[Json] = [{}, None, [], "x", 1, {"hex": ""}, {"hex": "zz"}, {"tensor": "none"}, {"tensor": []}, {"x": 1}]


def places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, v in items:
        yield from places(v, (*path, k))


def at(value: Json, path: tuple[Any, ...]) -> Json:
    for k in path:
        value = value[k]
    return value


def edits(rng: random.Random, holder: Json, key: Any) -> tuple[str, Json]:
    """One edit of a value: what was done, and the new value (``...`` removes it)."""
    value = holder[key]
    if isinstance(value, bool) or value is None or isinstance(value, (int, float)):
        choices = [*NUMBERS, value + 1, value - 1] if isinstance(value, int) else NUMBERS
        new = rng.choice(choices)
    elif isinstance(value, str):
        new = rng.choice(STRINGS)
    elif isinstance(value, list):
        new = rng.choice([*LISTS, value[1:], value[:-1], value[::-1], value + value[-1:], [value], value * 2])
    else:
        new = rng.choice([*OBJECTS, {**value, "more": 1}, value | dict.fromkeys(list(value)[:1]), ...])
    if rng.random() < 0.06:
        new = ...
    return f"{key}={'(gone)' if new is ... else str(new)[:24]}", new


def edited(name: str, data: bytes, count: int, part: str) -> Iterator[Mutant]:
    """Random edits of the program (or of the tensors' rows and aliases), sealed again."""
    rng = random.Random(f"{name}/{part}")
    whole = File(data)
    # Locations say little; types, attributes and numbers say most.
    all_places = [p for p in places(getattr(whole, part)) if p[0] != "locations" or rng.random() < 0.15]
    for i in range(count):
        file = File(data)
        path = rng.choice(all_places)
        holder = at(getattr(file, part), path[:-1])
        what, new = edits(rng, holder, path[-1])
        if new is ... and isinstance(holder, dict):
            del holder[path[-1]]
        elif new is ...:
            holder.pop(path[-1])
        else:
            holder[path[-1]] = copy.deepcopy(new)
        where = ".".join(map(str, path[:-1]))
        yield f"{name}/{part}-{i}:{where}.{what}", file.bytes()


def type_swaps(name: str, data: bytes) -> Iterator[Mutant]:
    """Two nodes, types, functions or tensors in each other's places."""
    rng = random.Random(f"{name}/swap")
    for i in range(12):
        file = File(data)
        f = rng.choice(file.program["functions"])
        nodes = f["nodes"]
        if len(nodes) < 2:
            continue
        a, b = rng.sample(range(len(nodes)), 2)
        kind = rng.choice(["op", "in", "out", "attrs", "whole"])
        if kind == "whole":
            nodes[a], nodes[b] = nodes[b], nodes[a]
        else:
            nodes[a][kind], nodes[b][kind] = nodes[b].get(kind, {}), nodes[a].get(kind, {})
        yield f"{name}/swap-{i}:{kind}", file.bytes()
    file = File(data)
    file.program["functions"].reverse()
    yield f"{name}/functions-reversed", file.bytes()


ALIKE = [
    ["neg", "exp", "tanh", "abs", "floor", "ceil", "sign", "sqrt", "sin", "relu_is_no_op"],
    ["add", "sub", "mul", "max_is_no_op", "maximum", "minimum", "div", "mod"],
    ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"],
    ["max", "min", "sum", "prod"],
    ["window_max", "window_sum"],
    ["argmax", "argmin"],
    ["scatter_set", "scatter_add"],
]


def other_meanings(name: str, data: bytes) -> Iterator[Mutant]:
    """Other programs that are as valid: what they give must be what the reference gives."""
    for f, function in enumerate(File(data).program["functions"]):
        for n, row in enumerate(function["nodes"]):
            changes: list[Json] = [{"op": op} for ops in ALIKE if row["op"] in ops for op in ops if op != row["op"]]
            held = [k for k, v in row.get("attrs", {}).items() if k in ("body", "cond", "function", "branches")]
            changes += [
                {"attrs": {**row["attrs"], k: [g] * len(row["attrs"][k]) if k == "branches" else g}}
                for k in held
                for g in range(f)
            ]
            changes += [
                {"attrs": {**row["attrs"], k: row["attrs"][k] + by}}
                for k in ("consts", "carries")
                if k in row.get("attrs", {})
                for by in (-1, 1)
            ]
            if "reverse" in row.get("attrs", {}):
                changes.append({"attrs": {**row["attrs"], "reverse": not row["attrs"]["reverse"]}})
            if len(row["in"]) == 2:
                changes.append({"in": row["in"][::-1]})
            changes += [
                {"attrs": {**row["attrs"], "mode": m}}
                for m in ("clip", "fill", "error")
                if "mode" in row.get("attrs", {})
            ]
            for change in changes:
                file = File(data)
                file.program["functions"][f]["nodes"][n].update(change)
                yield f"{name}/meaning-{f}.{n}:{dumps(change)}", file.bytes()


def structural(name: str, data: bytes, count: int) -> Iterator[Mutant]:
    yield from edited(name, data, count, "program")
    if File(data).rows:
        yield from edited(name, data, 12, "rows")
    yield from type_swaps(name, data)
    yield from other_meanings(name, data)


def all_mutants(count: int = 240) -> list[Mutant]:
    """Every mutant, in an order that does not change."""
    out: list[Mutant] = []
    for name, make in programs.FILES.items():
        data = make()
        out += cut_and_flipped(name, data)
        out += structural(name, data, count)
    return out + list(attacks.by_hand())
