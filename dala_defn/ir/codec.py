"""Programs as bytes and back (``docs/format.md``). Decoding trusts nothing and names what is wrong and where."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dala_defn.dtypes import BY_SHORT, DType, complex_of, float32, float64
from dala_defn.errors import FileFormatError, ShapeError
from dala_defn.ir.container import Container, clip, dumps, loads, write
from dala_defn.ir.graph import Graph, Node, Value, graphs_in
from dala_defn.ir.program import Arg, Bounds, Entry, Program, Result, state_path
from dala_defn.ir.types import Literal, Type
from dala_defn.shapes import Dim, names_of, parse_dim
from dala_defn.sources import Location

INLINE_BYTES = 64
# What the runtime takes too. A few lines of JSON can ask for any number of nodes by calling what calls.
MAX_NODES = 1 << 18
MAX_CALL_DEPTH = 200
MAX_OPERANDS = 1 << 12


class OpRow(Protocol):
    """What decoding needs of an op."""

    @property
    def attrs(self) -> Mapping[str, str]:
        """Attribute name -> kind."""
        ...


def encode(program: Program, *, strip_locations: bool = False) -> bytes:
    """The bytes of a ``.dala`` file: deterministic, with equal functions and equal constants stored once.

    Raises:
        FileFormatError: for a name that is no Unicode text.
    """
    try:
        return _Encoder(program, strip_locations).run()
    except UnicodeEncodeError as error:
        raise FileFormatError(f"a name is no Unicode text: {error.reason}") from None


class _Encoder:
    def __init__(self, program: Program, strip: bool) -> None:
        self.program = program
        self.strip = strip
        # A program that was read gives its tensors by their further names too.
        self.tensors = {name: x for name, x in program.tensors.items() if name not in program.aliases}
        self.literals: dict[Literal, str] = {}
        self.functions: list[dict[str, Any]] = []
        self.index: dict[Graph, int] = {}
        self.files: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.rows: dict[tuple[int, int, int, int, str], int] = {}

    def run(self) -> bytes:
        entries = []
        for e in self.program.entries:
            for g in [*e.graph.functions(), e.graph]:
                if g not in self.index:
                    self.functions.append(self.function(g))
                    self.index[g] = len(self.functions) - 1
            entries.append(
                {
                    "name": e.name,
                    "function": self.index[e.graph],
                    "args": [{"name": a.name, "role": a.role, "donate": a.donate} for a in e.args],
                    "results": [{"name": r.name, "role": r.role} for r in e.results],
                }
            )
        value: dict[str, Any] = {
            "version": 1,
            "functions": self.functions,
            "entries": entries,
            "dims": {k: {"min": lo, "max": hi} for k, (lo, hi) in self.program.dims.items()},
        }
        if not self.strip:
            value["locations"] = {
                "files": list(self.files),
                "functions": list(self.names),
                "table": [list(row) for row in self.rows],
            }
        complex = {
            e.name: {
                "args": [i for i, a in enumerate(e.args) if a.dtype is not None],
                "results": [i for i, r in enumerate(e.results) if r.dtype is not None],
            }
            for e in self.program.entries
            if any(a.dtype is not None for a in e.args) or any(r.dtype is not None for r in e.results)
        }
        return write(dumps(value), self.tensors, self.program.aliases, dumps(complex) if complex else "")

    def function(self, g: Graph) -> dict[str, Any]:
        number = g.numbering()
        unbound = names_of(d for v in number for d in v.type.shape) - set(self.program.dims)
        if unbound:
            raise ShapeError(
                f"the size {min(unbound)} in {g.name} is not one of the program's",
                rule=f"sizes are those of the arguments: {sorted(self.program.dims)}",
            )
        nodes = []
        for n in g.nodes:
            row: dict[str, Any] = {
                "op": n.op,
                "in": [number[v] for v in n.inputs],
                "out": [encode_type(v.type) for v in n.outputs],
            }
            if n.attrs:
                row["attrs"] = {k: self.attr(a) for k, a in n.attrs.items()}
            if n.loc is not None and not self.strip:
                row["loc"] = self.place(n.loc.resolve())
            nodes.append(row)
        return {
            "name": g.name,
            "inputs": [encode_type(v.type) for v in g.inputs],
            "nodes": nodes,
            "outputs": [number[v] for v in g.outputs],
        }

    def attr(self, a: Any) -> Any:
        if isinstance(a, Graph):
            return self.index[a]
        if graphs_in(a):
            return [self.index[g] for g in a]
        if isinstance(a, Literal):
            raw = a.array.tobytes()
            if len(raw) <= INLINE_BYTES:
                return {"hex": raw.hex()}
            if a not in self.literals:
                self.literals[a] = f"@const/{len(self.literals)}"
                self.tensors[self.literals[a]] = a.array
            return {"tensor": self.literals[a]}
        return encode_attr(a)

    def place(self, loc: Location) -> int:
        file = self.files.setdefault(relative_file(loc.file), len(self.files))
        name = self.names.setdefault(loc.function, len(self.names))
        return self.rows.setdefault((file, loc.line, loc.column, name, loc.path), len(self.rows))


def encode_attr(a: Any) -> Any:
    """An attribute that is neither a graph nor a constant, as JSON."""
    if isinstance(a, DType):
        return a.short
    if isinstance(a, tuple):
        return [encode_type(d) if isinstance(d, Type) else _dim(d) for d in a]
    return a if isinstance(a, (bool, int, str)) else _dim(a)


def _dim(d: Dim) -> int | str:
    return d if isinstance(d, int) else str(d)


def encode_type(t: Type) -> list[Any]:
    """A type as JSON."""
    return [t.dtype.short, [_dim(d) for d in t.shape]]


def relative_file(file: str) -> str:
    """A file as it was imported: relative to the entry of ``sys.path`` that it was found under, else its name."""
    best = ""
    for entry in sys.path:
        root = os.path.abspath(entry or os.curdir) + os.sep
        if file.startswith(root) and len(root) > len(best):
            best = root
    return file[len(best) :] if best else os.path.basename(file)


def decode(data: bytes | memoryview, ops: Mapping[str, OpRow]) -> Program:
    """Reads a program; the graphs are well-formed but not yet verified. Tensors are read lazily.

    Raises:
        FileFormatError: when the bytes are no valid file, naming the place.
    """
    container = Container(data)
    return decode_program(container, ops)


def decode_program(container: Container, ops: Mapping[str, OpRow]) -> Program:
    """The program of a container."""
    value = loads(container.program, "dala.program")
    reader = _Decoder(container, ops)
    return reader.run(value)


class _Tensors(Mapping[str, np.ndarray[Any, Any]]):
    """The tensors of a container as a mapping that reads on demand."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._container.tensor(name)

    def __iter__(self) -> Any:
        return self._container.names()

    def __len__(self) -> int:
        return len(list(self._container.names()))


class _Decoder:
    def __init__(self, container: Container, ops: Mapping[str, OpRow]) -> None:
        self.container = container
        self.ops = ops
        self.functions: list[Graph] = []
        self.sizes: dict[int, tuple[int, int]] = {}  # by id of a function: nodes with calls written out, depth
        self.places: list[Location] = []
        self.dims: dict[str, Bounds] = {}

    def run(self, value: Any) -> Program:
        _object(value, "the program", {"version", "functions", "entries", "dims"}, {"locations"})
        if type(value["version"]) is not int or value["version"] != 1:
            raise FileFormatError(f"program version {clip(value['version'])} is not known")
        for name, bounds in _object(value["dims"], "dims").items():
            _object(bounds, f"dims.{clip(name)}", {"min", "max"})
            lo, hi = bounds["min"], bounds["max"]
            if len(name) > 512 or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise FileFormatError(f"dims: {clip(name)} is no name of a size")
            if not _size(lo) or not (hi is None or (_size(hi) and hi >= lo)):
                raise FileFormatError(f"dims.{clip(name)}: {clip(lo)} to {clip(hi)} are no bounds")
            self.dims[name] = (lo, hi)
        if "locations" in value:
            self.read_places(value["locations"])
        for i, f in enumerate(_list(value["functions"], "functions")):
            self.functions.append(self.function(f, f"functions[{i}]"))
        entries = tuple(self.entry(e, f"entries[{i}]") for i, e in enumerate(_list(value["entries"], "entries")))
        if len({e.name for e in entries}) != len(entries):
            raise FileFormatError("two entries have the same name")
        entries = self.complex_entries(entries)
        return Program(entries, self.dims, _Tensors(self.container), self.container.aliases)

    def read_places(self, value: Any) -> None:
        _object(value, "locations", {"files", "functions", "table"})
        files, names = _list(value["files"], "files"), _list(value["functions"], "functions")
        if not all(isinstance(text, str) for text in (*files, *names)):
            raise FileFormatError("locations: files and functions are names")
        for i, row in enumerate(_list(value["table"], "locations.table")):
            at = f"locations.table[{i}]"
            if not isinstance(row, list) or len(row) != 5 or not all(_size(v) for v in row[:4]):
                raise FileFormatError(f"{at}: five entries are needed")
            if row[0] >= len(files) or row[3] >= len(names) or max(row[1:3]) >= 2**32 or not isinstance(row[4], str):
                raise FileFormatError(f"{at}: an index is out of range")
            self.places.append(Location(files[row[0]], row[1], row[2], names[row[3]], row[4]))

    def function(self, value: Any, at: str) -> Graph:
        _object(value, at, {"name", "inputs", "nodes", "outputs"})
        if not isinstance(value["name"], str):
            raise FileFormatError(f"{at}.name is no string")
        types = [self.type(t, f"{at}.inputs[{i}]") for i, t in enumerate(_list(value["inputs"], f"{at}.inputs"))]
        values = [Value(t) for t in types]
        count = len(values)
        nodes = []
        for i, n in enumerate(_list(value["nodes"], f"{at}.nodes")):
            node = self.node(n, values, f"{at}.nodes[{i}]")
            nodes.append(node)
            values.extend(node.outputs)
        outputs = self.values(value["outputs"], values, f"{at}.outputs")
        graph = Graph(value["name"], values[:count], nodes, outputs)
        called = [self.sizes[id(g)] for g in graph.subgraphs()]
        total = len(nodes) + sum(n for n, _ in called)
        depth = max((d + 1 for _, d in called), default=0)
        if total > MAX_NODES or depth > MAX_CALL_DEPTH:
            raise FileFormatError(
                f"{at} stands for {clip(total)} nodes and calls {depth} deep once its calls are written out",
                rule=f"at most {MAX_NODES} nodes and {MAX_CALL_DEPTH} deep",
            )
        self.sizes[id(graph)] = (total, depth)
        return graph

    def node(self, value: Any, values: list[Value], at: str) -> Node:
        _object(value, at, {"op", "in", "out"}, {"attrs", "loc"})
        row = self.ops.get(value["op"]) if isinstance(value["op"], str) else None
        if row is None:
            raise FileFormatError(f"{at}: unknown op {clip(value['op'])}")
        types = [self.type(t, f"{at}.out[{i}]") for i, t in enumerate(_list(value["out"], f"{at}.out"))]
        given = _object(value.get("attrs", {}), f"{at}.attrs", set(row.attrs))
        attrs = {k: self.attr(given[k], kind, types, f"{at}.attrs.{k}") for k, kind in row.attrs.items()}
        if len(_list(value["in"], f"{at}.in")) > MAX_OPERANDS:
            raise FileFormatError(f"{at}: {len(value['in'])} operands are more than {MAX_OPERANDS}")
        loc = None
        if "loc" in value:
            if not _size(value["loc"]) or value["loc"] >= len(self.places):
                raise FileFormatError(f"{at}.loc: no row {clip(value['loc'])}")
            loc = self.places[value["loc"]]
        return Node(value["op"], tuple(self.values(value["in"], values, f"{at}.in")), attrs, types, loc)

    def values(self, listed: Any, values: list[Value], at: str) -> list[Value]:
        out = []
        for v in _list(listed, at):
            if not _size(v) or v >= len(values):
                raise FileFormatError(f"{at}: value {clip(v)} is not made before it is used")
            out.append(values[v])
        return out

    def type(self, value: Any, at: str) -> Type:
        if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str) or value[0] not in BY_SHORT:
            raise FileFormatError(f"{at}: {clip(value)} is no type")
        return Type(BY_SHORT[value[0]], self.shape(value[1], at))

    def shape(self, value: Any, at: str) -> tuple[Dim, ...]:
        dims = _list(value, at)
        if len(dims) > 32:
            raise FileFormatError(f"{at}: rank {len(dims)} is over 32")
        out: list[Dim] = []
        for d in dims:
            if isinstance(d, str):
                try:
                    parsed = parse_dim(d)
                except ShapeError as error:
                    raise FileFormatError(f"{at}: {error.reason}") from None
                if not isinstance(parsed, int) and not parsed.names() <= set(self.dims):
                    raise FileFormatError(f"{at}: {clip(d)} has a name that dims lacks")
                out.append(parsed)
            elif _size(d):
                out.append(d)
            else:
                raise FileFormatError(f"{at}: {clip(d)} is no size")
        return tuple(out)

    def attr(self, a: Any, kind: str, types: list[Type], at: str) -> Any:
        if kind == "dims":
            return self.shape(a, at)
        if kind == "ints" and isinstance(a, list) and all(_whole(v) for v in a):
            return tuple(a)
        if kind == "int" and _whole(a):
            return a
        if (kind == "bool" and type(a) is bool) or (kind == "str" and isinstance(a, str)):
            return a
        if kind == "dtype" and isinstance(a, str) and a in BY_SHORT:
            return BY_SHORT[a]
        if kind == "fn" and _size(a) and a < len(self.functions):
            return self.functions[a]
        if kind == "fns" and isinstance(a, list) and a and all(_size(i) and i < len(self.functions) for i in a):
            return tuple([self.functions[i] for i in a])
        if kind == "types":
            return tuple([self.type(t, f"{at}[{i}]") for i, t in enumerate(_list(a, at))])
        if kind == "value" and isinstance(a, dict) and len(types) == 1:
            return self.literal(a, types[0], at)
        raise FileFormatError(f"{at}: {clip(a)} is no {kind}")

    def literal(self, a: dict[str, Any], t: Type, at: str) -> Literal:
        if not all(isinstance(d, int) for d in t.shape) or t.dtype.kind in "ct":
            raise FileFormatError(f"{at}: no constant of type {t}")
        shape = (*t.shape, 2) if t.dtype.kind == "k" else t.shape
        if set(a) == {"hex"} and isinstance(a["hex"], str) and len(a["hex"]) <= 2 * INLINE_BYTES:
            if not re.fullmatch(r"([0-9A-Fa-f]{2})*", a["hex"]):
                raise FileFormatError(f"{at}: {clip(a['hex'])} is not hexadecimal")
            raw = bytes.fromhex(a["hex"])
            count = 1
            for d in shape:
                count *= int(d)
            if len(raw) != count * t.dtype.dtype.itemsize:
                raise FileFormatError(f"{at}: {len(raw)} bytes for a constant of type {t}")
            array = np.frombuffer(raw, t.dtype.dtype).reshape([int(d) for d in shape])
        elif set(a) == {"tensor"} and isinstance(a["tensor"], str) and a["tensor"] in self.container:
            dtype, found = self.container.shape(a["tensor"])
            if dtype != t.dtype.dtype or found != shape:
                raise FileFormatError(f"{at}: tensor {clip(a['tensor'])} is {dtype}{list(found)}, not {t}")
            array = self.container.tensor(a["tensor"])
        else:
            raise FileFormatError(f"{at}: {clip(a)} is no constant")
        if t.dtype.kind == "b" and not set(array.tobytes()) <= {0, 1}:
            raise FileFormatError(f"{at}: a bool that is neither 0 nor 1")
        frozen = array.copy()
        frozen.flags.writeable = False
        return Literal(frozen, t.dtype)

    def entry(self, value: Any, at: str) -> Entry:
        _object(value, at, {"name", "function", "args", "results"})
        if not isinstance(value["name"], str) or not _size(value["function"]):
            raise FileFormatError(f"{at}: a name and a function are needed")
        if value["function"] >= len(self.functions):
            raise FileFormatError(f"{at}: no function {value['function']}")
        graph = self.functions[value["function"]]
        args = []
        for i, a in enumerate(_list(value["args"], f"{at}.args")):
            _object(a, f"{at}.args[{i}]", {"name", "role", "donate"})
            if type(a["donate"]) is not bool:
                raise FileFormatError(f"{at}.args[{i}].donate is no bool")
            args.append(Arg(self.text(a["name"], at), self.role(a["role"], ("arg", "key"), at), a["donate"]))
        results = []
        for i, r in enumerate(_list(value["results"], f"{at}.results")):
            _object(r, f"{at}.results[{i}]", {"name", "role"})
            results.append(Result(self.text(r["name"], at), self.role(r["role"], ("result",), at)))
        if len(args) != len(graph.inputs) or len(results) != len(graph.outputs):
            raise FileFormatError(f"{at}: the function has other numbers of inputs or outputs")
        self.check_states(graph, args, results, at)
        return Entry(value["name"], graph, tuple(args), tuple(results))

    def complex_entries(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The entries with the arguments and results that ``dala.complex`` lists as complex ones."""
        value = _object(loads(self.container.complex, "dala.complex"), "dala.complex")
        unknown = set(value) - {e.name for e in entries}
        if unknown:
            raise FileFormatError(f"dala.complex: there is no entry {clip(min(unknown))}")
        made = []
        for e in entries:
            if e.name in value:
                at = f"dala.complex.{clip(e.name)}"
                given = _object(value[e.name], at, {"args", "results"})
                args = self.complex_dtypes(given["args"], e.graph.inputs, f"{at}.args")
                results = self.complex_dtypes(given["results"], e.graph.outputs, f"{at}.results")
                e = replace(
                    e,
                    args=tuple([replace(a, dtype=args.get(i)) for i, a in enumerate(e.args)]),
                    results=tuple([replace(r, dtype=results.get(i)) for i, r in enumerate(e.results)]),
                )
            made.append(e)
        return tuple(made)

    def complex_dtypes(self, listed: Any, values: Sequence[Value], at: str) -> dict[int, DType]:
        out = {}
        for i in _list(listed, at):
            if not _size(i) or i >= len(values) or i in out:
                raise FileFormatError(f"{at}: {clip(i)} is no position, or there twice")
            t = values[i].type
            if t.dtype not in (float32, float64) or t.shape[-1:] != (2,):
                raise FileFormatError(f"{at}: a value of type {t} cannot be a complex one")
            out[i] = complex_of(t.dtype)
        return out

    def check_states(self, graph: Graph, args: list[Arg], results: list[Result], at: str) -> None:
        types: dict[str, Type] = {}
        for a, v in zip(args, graph.inputs, strict=True):
            path = state_path(a.role)
            if (a.role == "key") != (v.type.dtype.kind == "k") and path is None:
                raise FileFormatError(f"{at}: argument {clip(a.name)} of type {v.type} has the role {a.role}")
            if path is None:
                continue
            if path in types or path not in self.container:
                raise FileFormatError(f"{at}: state {clip(path)} is taken twice or has no tensor")
            dtype, shape = self.container.shape(path)
            wanted = (*v.type.shape, 2) if v.type.dtype.kind == "k" else v.type.shape
            if dtype != v.type.dtype.dtype or shape != wanted:
                raise FileFormatError(f"{at}: state {clip(path)} is {dtype}{list(shape)}, not {v.type}")
            types[path] = v.type
        seen = set()
        for r, v in zip(results, graph.outputs, strict=True):
            path = state_path(r.role)
            if path is not None and (types.get(path) != v.type or path in seen):
                raise FileFormatError(f"{at}: result {clip(r.name)} does not fit the state {clip(path)}")
            seen.add(path)

    def text(self, value: Any, at: str) -> str:
        if not isinstance(value, str):
            raise FileFormatError(f"{at}: {clip(value)} is no name")
        return value

    def role(self, value: Any, plain: tuple[str, ...], at: str) -> str:
        if isinstance(value, str) and (value in plain or state_path(value)):
            return value
        raise FileFormatError(f"{at}: {clip(value)} is no role")


def _object(value: Any, at: str, needed: set[str] | None = None, optional: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileFormatError(f"{at} is no object")
    if needed is not None:
        missing, unknown = needed - set(value), set(value) - needed - (optional or set())
        if missing or unknown:
            raise FileFormatError(
                f"{at}: missing {sorted(missing)}, unknown [{', '.join(map(clip, sorted(unknown)[:4]))}]"
            )
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise FileFormatError(f"{at} is no list")
    return value


def _whole(v: Any) -> bool:
    return type(v) is int and -(2**63) <= v < 2**63


def _size(v: Any) -> bool:
    return type(v) is int and 0 <= v < 2**63
