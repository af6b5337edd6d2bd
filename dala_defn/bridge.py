"""The one door to the native runtime: handles, marshalling, status -> exception. Nothing else imports it."""

from __future__ import annotations

import functools
import json
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dala_defn.array import Array, HostStorage
from dala_defn.dtypes import DTYPES, DType, as_dtype, as_pairs, bfloat16, from_pairs, real_of
from dala_defn.errors import ArgumentError, DonatedError, EngineError, kind_of_status
from dala_defn.ir import Type, frozen
from dala_defn.ir.codec import encode_attr
from dala_defn.shapes import DimExpr
from dala_defn.sources import Location, write_function

DONATE = 1
OP_CACHE = 4096
CALL_CACHE = 256  # prepared calls of a program
MOST_FREES = 64
NO_LIMIT = 2**64 - 1


class _Library:
    """The loaded library; opened at the first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def load(self) -> tuple[Any, Any]:
        """cffi's ``ffi`` and the library."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    try:
                        from dala_defn._native import LIBRARY, ffi
                    except ImportError:
                        raise EngineError(
                            "the native runtime is not built",
                            hint="pip install ., or python cbridge/build_hook.py in a checkout",
                        ) from None
                    lib = ffi.dlopen(str(LIBRARY))
                    found = lib.dala_abi_version()
                    if found != lib.DALA_ABI_VERSION:
                        raise EngineError(f"the native runtime has ABI version {found}, not {lib.DALA_ABI_VERSION}")
                    self._loaded = (ffi, lib)
        return self._loaded


_library = _Library()

# ``error``: what this process' handler raised in this thread, which made the runtime stop.
raised = threading.local()


def library() -> tuple[Any, Any]:
    """cffi's ``ffi`` and the library."""
    return _library.load()


def call_count() -> int:
    """How many calls into the runtime were made so far in this process, by any thread."""
    return int(_library.load()[1].dala_call_count())


def register_kernel(name: str, address: int, abi_version: int) -> None:
    """Makes a native kernel known to the runtime, for the programs that are loaded from then on.

    Raises:
        EngineError: when the runtime calls kernels of another version.
    """
    ffi, lib = _library.load()
    err = ffi.new("dala_error **")
    if lib.dala_kernel_register(name.encode(), ffi.cast("void *", address), abi_version, err) != 0:
        raise_error(ffi, lib, err)


def raise_error(ffi: Any, lib: Any, err: Any) -> None:
    """Raises what the error handle says, and frees it."""
    if err[0] == ffi.NULL:
        raise EngineError("the runtime failed and could not say why")
    status = int(lib.dala_error_status(err[0]))
    data = json.loads(ffi.string(lib.dala_error_json(err[0])))
    lib.dala_error_free(err[0])
    if data.get("code") in ("handler", "interrupted"):
        error, raised.error = getattr(raised, "error", None), None
        if error is not None:
            raise error
    kind = kind_of_status(status, data.get("code"))
    place = data.get("location")
    location = None  # without one, the line of the call is the user's
    if place:
        location = Location(place["file"], place["line"], place["column"], place["function"], place.get("path") or "")
    raise kind(data["message"], op=data.get("op"), location=location, details=data.get("details") or {})


class TensorStorage:
    """Numbers that live in the runtime. Its handle is released with the engine's next call."""

    __slots__ = ("_lent", "_owner", "engine", "pointer", "result", "type")

    def __init__(self, engine: Engine, owner: Any, index: int, type: Type) -> None:
        self.engine = engine
        self._owner = owner  # cffi frees the structs with their array, whatever else refers to them
        self.result = result = owner[index]
        self.pointer = result.tensor
        self.type = type
        self._lent: weakref.ref[np.ndarray[Any, Any]] | None = None

    def lent(self) -> np.ndarray[Any, Any] | None:
        """The NumPy view of it that someone still holds, if any: such memory is not donated."""
        return None if self._lent is None else self._lent()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, read-only, sharing the tensor's memory."""
        lent = self._lent
        view = None if lent is None else lent()
        if view is None:
            if self.pointer is None:
                raise DonatedError(
                    "the array's storage was donated to a call and is gone", hint="use the result of that call instead"
                )
            # All views of it refer to this one: a dtype that is not NumPy's own is such a view, too.
            view = np.asarray(self)
            self._lent = weakref.ref(view)
        if self.type.dtype.kind == "c":
            return from_pairs(view)
        return view.view(self.type.dtype.dtype) if self.type.dtype is bfloat16 else view

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The tensor's memory as NumPy takes it; NumPy keeps this object as long as it does."""
        a = self.result.array
        data = a.data
        dtype, shape = self.type.dtype, self.type.shape
        engine = self.engine
        return {
            "version": 3,
            "typestr": _TYPES[dtype],
            "shape": (*shape, 2) if dtype.kind in "kc" else shape,
            "strides": tuple(a.strides[0 : a.ndim]) if a.strides else None,
            "data": (int(engine.cast(engine.address, data)) if data else _EMPTY.ctypes.data, True),
        }

    def __del__(self) -> None:
        if self.pointer is not None:
            self.engine.frees.append(self.pointer)


# NumPy's interface has no name for a dtype that is not its own.
_EMPTY = np.empty(1, np.uint64)  # where an array without elements is said to lie
_TYPES = {d: real_of(d).dtype.str if d.dtype.kind != "V" else "<u2" for d in DTYPES}


class Engine:
    """One engine of the runtime (``"flex"`` is the CPU)."""

    def __init__(self, name: str = "flex", options: Mapping[str, Any] | None = None) -> None:
        self.ffi, self.lib = _library.load()
        self.name = name
        self.cast, self.address = self.ffi.cast, self.ffi.typeof("intptr_t")
        self.frees: deque[Any] = deque()
        self._ops: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()
        out = self.ffi.new("dala_engine **")
        text = self.ffi.NULL if options is None else json.dumps(dict(options)).encode()
        err = self.ffi.new("dala_error **")
        self.check(self.lib.dala_engine_new(name.encode(), text, out, err), err)
        self.handle = self.ffi.gc(out[0], self.lib.dala_engine_free)

    def check(self, status: int, err: Any) -> None:
        """Raises for a status that is not OK."""
        if status != 0:
            raise_error(self.ffi, self.lib, err)

    def take_frees(self) -> tuple[Any, int]:
        """The handles that wait for release, for the next call."""
        frees = self.frees
        if not frees:
            return self.ffi.NULL, 0
        taken = []
        while frees:
            try:
                taken.append(frees.popleft())
            except IndexError:
                break
        return self.ffi.new("dala_tensor *[]", taken), len(taken)

    def load(self, data: bytes, signature: bytes | None = None, trusted: Sequence[bytes] = ()) -> Loaded:
        """A program from bytes, with the content of their ``.sig``; by one of the trusted keys, where there are any."""
        out, err = self.ffi.new("dala_program **"), self.ffi.new("dala_error **")
        if signature is None and not trusted:
            status = self.lib.dala_program_load(self.handle, data, len(data), out, err)
        else:
            sig, size = (self.ffi.NULL, 0) if signature is None else (signature, len(signature))
            keys = b"".join(trusted)
            status = self.lib.dala_program_load_signed(
                self.handle, data, len(data), sig, size, keys, len(trusted), out, err
            )
        self.check(status, err)
        return Loaded(self, out[0])

    def open(self, path: str | Path, trusted: Sequence[bytes] = ()) -> Loaded:
        """A program from a file, mapped; where there are trusted keys, it must be signed by one of them."""
        out, err = self.ffi.new("dala_program **"), self.ffi.new("dala_error **")
        name = str(path).encode()
        if trusted:
            keys = b"".join(trusted)
            status = self.lib.dala_program_open_trusted(self.handle, name, keys, len(trusted), out, err)
        else:
            status = self.lib.dala_program_open(self.handle, name, out, err)
        self.check(status, err)
        return Loaded(self, out[0])

    def op(self, name: str, attrs: Mapping[str, Any]) -> Any:
        """The handle of one operation, from a bounded cache."""
        key = (name, frozen(attrs))
        handle = self._ops.get(key)
        if handle is None:
            text = json.dumps({"op": name, "attrs": {k: encode_attr(a) for k, a in attrs.items()}}).encode()
            out, err = self.ffi.new("dala_op **"), self.ffi.new("dala_error **")
            self.check(self.lib.dala_op_new(self.handle, text, out, err), err)
            handle = self.ffi.gc(out[0], self.lib.dala_op_free)
            with self._lock:
                self._ops[key] = handle
                while len(self._ops) > OP_CACHE:
                    self._ops.popitem(last=False)
        return handle

    def run_op(self, name: str, attrs: Mapping[str, Any], args: Sequence[Any], types: Sequence[Type]) -> list[Array]:
        """Runs one operation on concrete arrays."""
        handle = self.op(name, attrs)
        ffi = self.ffi
        packed, keep = pack(self, args)
        results = ffi.new("dala_result[]", len(types))
        frees, n_frees = self.take_frees()
        err = ffi.new("dala_error **")
        status = self.lib.dala_op_run(handle, packed, len(args), results, len(types), frees, n_frees, err)
        del keep
        self.check(status, err)
        return [wrap(self, results, i, t) for i, t in enumerate(types)]


def pack(engine: Engine, args: Sequence[Any], donate: Sequence[bool] | None = None) -> tuple[Any, list[Any]]:
    """The arguments of a call as C structs, and what must stay alive during it."""
    ffi = engine.ffi
    packed = ffi.new("dala_arg[]", len(args))
    keep: list[Any] = []
    for i, x in enumerate(args):
        c = packed[i]
        if isinstance(x, Array):
            storage = x._storage
            if isinstance(storage, TensorStorage) and storage.engine is engine:
                if storage.pointer is None:
                    storage.numpy()
                c.tensor = storage.pointer
                if donate is not None and donate[i] and storage.lent() is None:
                    c.flags = DONATE
                continue
            fill(ffi, c.array, storage.numpy(), x.dtype, keep)
        else:
            x = np.asarray(x)
            fill(ffi, c.array, x, as_dtype(x.dtype), keep)
    return packed, keep


def fill(ffi: Any, c: Any, x: np.ndarray[Any, Any], dtype: DType, keep: list[Any]) -> None:
    """Describes a NumPy array to the runtime; it is read where it lies."""
    if dtype.kind == "c":
        x, dtype = (as_pairs(x) if x.dtype.kind == "c" else x), real_of(dtype)
    if not x.dtype.isnative or not x.flags.aligned:
        x = np.ascontiguousarray(x, dtype.dtype).reshape(x.shape)
    keep.append(x)
    shape = ffi.new("int64_t[]", x.shape)
    keep.append(shape)
    c.dtype = dtype.code
    c.ndim = x.ndim
    c.shape = shape
    if not x.flags.c_contiguous:
        strides = ffi.new("int64_t[]", x.strides)
        keep.append(strides)
        c.strides = strides
    c.data = ffi.cast("void *", x.__array_interface__["data"][0])


class Loaded:
    """A program in the runtime."""

    def __init__(self, engine: Engine, handle: Any) -> None:
        self.engine = engine
        self.handle = engine.ffi.gc(handle, engine.lib.dala_program_free)
        self._calls: OrderedDict[tuple[Any, ...], Call] = OrderedDict()
        self._lock = threading.Lock()

    def info(self) -> Any:
        """What the runtime says of the entries."""
        return json.loads(self.engine.ffi.string(self.engine.lib.dala_program_info(self.handle)))

    def entry(self, name: str) -> int:
        """The index of an entry."""
        index = int(self.engine.lib.dala_program_entry(self.handle, name.encode()))
        if index < 0:
            raise ArgumentError(f"the program has no entry {name!r}")
        return index

    def run(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """One run: one call into the runtime. ``types`` are those of the results; sizes may be symbolic.

        What can be prepared for arguments like these is kept for the next such call.
        """
        kinds = [kind_of(self.engine, x) for x in args]
        given = [x._type if type(x) is Array else (x.dtype, x.shape) for x in args]
        key = (entry, *kinds, *given, *(donate or ()))
        call = self._calls.get(key)
        outs = None if call is None else call(args)
        if outs is None:
            outs = self.once(entry, args, types, donate)
            if call is None:
                # The sizes of the arguments decide those of the results, so these are numbers now.
                made = self.prepare(entry, args, [y._type for y in outs], donate)
                if made is not None:
                    with self._lock:
                        self._calls[key] = made
                        while len(self._calls) > CALL_CACHE:
                            self._calls.popitem(last=False)
        return outs

    def once(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> list[Array]:
        """``run`` without preparing anything for the next."""
        engine = self.engine
        ffi = engine.ffi
        packed, keep = pack(engine, args, donate)
        results = ffi.new("dala_result[]", len(types))
        frees, n_frees = engine.take_frees()
        err = ffi.new("dala_error **")
        status = engine.lib.dala_run(self.handle, entry, packed, len(args), results, len(types), frees, n_frees, err)
        del keep
        if status != 0:
            raise_error(ffi, engine.lib, err)
        if donate is not None:
            for i, x in enumerate(args):
                if packed[i].flags & DONATE:
                    release(x._storage)
        return [wrap(engine, results, i, concrete(t, results[i])) for i, t in enumerate(types)]

    def prepare(
        self, entry: int, args: Sequence[Any], types: Sequence[Type], donate: Sequence[bool] | None = None
    ) -> Call | None:
        """A faster ``run`` for arguments of exactly the kinds and types of these; ``types`` of results have no names.

        It gives ``None`` when an argument does not lie as it must, and ``run`` is to be taken; and so does this when
        nothing can be prepared.
        """
        kinds = [kind_of(self.engine, x) for x in args]
        return None if "" in kinds else _prepare(self, entry, args, kinds, types, donate or [False] * len(args))

    def gradient(
        self,
        entry: int,
        args: Sequence[Any],
        wrt: Sequence[int],
        output: int,
        types: Sequence[Type],
        cotangent: Any | None = None,
    ) -> list[Array]:
        """The results of an entry, and the gradients of one of them by Burn's own backward pass.

        ``types`` are those of the results and then of the arguments ``wrt``.
        """
        engine, ffi = self.engine, self.engine.ffi
        packed, keep = pack(engine, args)
        ct, keep_too = (ffi.NULL, []) if cotangent is None else pack(engine, [cotangent])
        results = ffi.new("dala_result[]", len(types))
        frees, n_frees = engine.take_frees()
        err = ffi.new("dala_error **")
        status = engine.lib.dala_gradient(
            self.handle, entry, packed, len(args), output, ct, list(wrt), len(wrt),
            results, len(types), frees, n_frees, err,
        )  # fmt: skip
        del keep, keep_too
        engine.check(status, err)
        return [wrap(engine, results, i, concrete(t, results[i])) for i, t in enumerate(types)]

    def memory(self, entry: int, given: Sequence[tuple[Type, str]]) -> Any:
        """What memory a run holds, on arguments of these types that come so: kept, donated or lent."""
        ffi, lib = self.engine.ffi, self.engine.lib
        packed, keep = ffi.new("dala_arg[]", len(given)), []
        for c, (t, kind) in zip(packed, given, strict=True):
            shape = (*t.shape, 2) if t.dtype.kind in "kc" else t.shape
            keep.append(ffi.new("int64_t[]", shape))
            c.array.dtype, c.array.ndim, c.array.shape = real_of(t.dtype).code, len(shape), keep[-1]
            c.array.data = packed if kind == "lent" else ffi.NULL  # whether there are data: they are not looked at
            c.flags = DONATE if kind == "donated" else 0
        out, err = ffi.new("char **"), ffi.new("dala_error **")
        self.engine.check(lib.dala_program_memory(self.handle, entry, packed, len(given), out, err), err)
        return json.loads(ffi.string(ffi.gc(out[0], lib.dala_text_free)))

    def limit_memory(self, limit: int) -> None:
        """Refuses, from now on, runs that would hold more bytes at a time."""
        err = self.engine.ffi.new("dala_error **")
        status = self.engine.lib.dala_program_limit_memory(self.handle, min(limit, NO_LIMIT), err)
        self.engine.check(status, err)

    def get_state(self, path: str, type: Type) -> Array:
        """A tensor of the program's state."""
        engine = self.engine
        result, err = engine.ffi.new("dala_result *"), engine.ffi.new("dala_error **")
        engine.check(engine.lib.dala_program_get_state(self.handle, path.encode(), result, err), err)
        return wrap(engine, result, 0, type)

    def set_state(self, path: str, value: Any) -> None:
        """Replaces a tensor of the program's state."""
        engine = self.engine
        packed, keep = pack(engine, [value])
        err = engine.ffi.new("dala_error **")
        engine.check(engine.lib.dala_program_set_state(self.handle, path.encode(), packed, err), err)
        del keep


Call = Callable[[Sequence[Any]], "list[Array] | None"]


def kind_of(engine: Engine, x: Any) -> str:
    """How a prepared call takes an argument; empty when only the general way takes it.

    ``tensor``: an ``Array`` of this engine; ``held``: one over NumPy memory; ``host``: a NumPy array that lies as the
    runtime reads it; ``scalar``: a NumPy scalar.
    """
    kind = type(x)
    if kind is Array:
        storage = x._storage
        if type(storage) is TensorStorage:
            return "tensor" if storage.engine is engine else ""
        return "held" if type(storage) is HostStorage and _plain(storage._array) else ""
    if kind is np.ndarray:
        return "host" if _plain(x) else ""
    return "scalar" if isinstance(x, np.generic) else ""


def _plain(x: np.ndarray[Any, Any]) -> bool:
    return bool(x.dtype.isnative and x.flags.c_contiguous and x.flags.aligned)


# Arrays from this size on are read where they lie (COPY_BELOW in runtime/src/tensor.rs), and must be aligned for it.
LENT_FROM = 4096


def _prepare(
    loaded: Loaded,
    entry: int,
    args: Sequence[Any],
    kinds: Sequence[str],
    types: Sequence[Type],
    donate: Sequence[bool],
) -> Call:
    """A function written for these arguments: for each a few statements, with nothing to look up or to branch on."""
    engine = loaded.engine
    ffi, lib = engine.ffi, engine.lib
    describe: list[tuple[int, tuple[int, ...]]] = []
    names = [f"x{i}" for i in range(len(args))]
    read, store, after = [], [], []
    for i, (x, kind, given) in enumerate(zip(args, kinds, donate, strict=True)):
        dtype = as_dtype(x.dtype)
        describe.append((real_of(dtype).code, (*x.shape, 2) if dtype.kind in "kc" else tuple(x.shape)))
        if kind == "tensor":
            read.append(f"s{i} = x{i}._storage")
            read.append(f"if type(s{i}) is not TensorStorage or s{i}.engine is not engine: return None")
            read.append(f"p{i} = s{i}.pointer")
            read.append(f"if p{i} is None: s{i}.numpy()")  # which says that it is gone
            store.append(f"c{i}.tensor = p{i}")
            if given:
                store.append(f"c{i}.flags = 1 if s{i}._lent is None or s{i}._lent() is None else 0")
                after.append(f"if c{i}.flags: release(s{i})")
            continue
        if kind == "held":
            read.append(f"s{i} = x{i}._storage")
            read.append(f"if type(s{i}) is not HostStorage: return None")
            read.append(f"h{i} = s{i}._array")
        elif kind == "scalar":
            read.append(f"h{i} = asarray(x{i})")
        else:
            read.append(f"h{i} = x{i}")
        if kind == "host" and x.nbytes >= LENT_FROM and dtype.itemsize > 1:
            read.append(f"if not h{i}.flags.aligned: return None")
        # NumPy lends no buffer of a dtype that is not its own.
        view = ".view(bits)" if dtype.dtype.kind == "V" else ""
        read.append(f"b{i} = from_buffer(h{i}{view})")
        store.append(f"c{i}.data = b{i}")
    body = [
        *([f"{', '.join(names)}, = args"] if names else []),
        "try:",
        *(f"    {line}" for line in [*read, "pass"]),
        "except (ValueError, TypeError, BufferError): return None",
        "try: frame = pop()",
        "except IndexError: frame = new_frame()",
        "packed, err, drain, cells = frame",
        *([f"{', '.join(f'c{i}' for i in range(len(args)))}, = cells"] if names else []),
        *store,
        "out = new_results()",
        "n = 0",
        "f = drain",
        "if frees:",
        "    if len(frees) > MOST: f, n = take_frees()",
        "    else:",
        "        while frees:",
        "            try: drain[n] = popleft()",
        "            except IndexError: break",
        "            n += 1",
        f"status = run(handle, {entry}, packed, {len(args)}, out, {len(types)}, f, n, err)",
        "if status: fail(ffi, lib, err)",
        *after,
        "push(frame)",
        f"return [{', '.join(f'wrap(engine, out, {i}, t{i})' for i in range(len(types)))}]",
    ]
    frames: list[Any] = []

    def new_frame() -> tuple[Any, ...]:
        packed = ffi.new("dala_arg[]", len(describe))
        keep = []
        for i, (code, shape) in enumerate(describe):
            keep.append(ffi.new("int64_t[]", shape))
            c = packed[i].array
            c.dtype, c.ndim, c.shape = code, len(shape), keep[-1]
        cells = _Cells([packed[i] if kinds[i] == "tensor" else packed[i].array for i in range(len(describe))])
        cells.keep = keep
        return packed, ffi.new("dala_error **"), ffi.new("dala_tensor *[]", MOST_FREES), cells

    known = {
        **{f"t{i}": t for i, t in enumerate(types)},
        **{"engine": engine, "ffi": ffi, "lib": lib, "handle": loaded.handle, "frees": engine.frees, "bits": np.uint16},
        **{"TensorStorage": TensorStorage, "HostStorage": HostStorage, "wrap": wrap, "release": release},
        **{"fail": raise_error, "run": lib.dala_run, "from_buffer": ffi.from_buffer, "asarray": np.asarray},
        **{"pop": frames.pop, "push": frames.append, "popleft": engine.frees.popleft, "new_frame": new_frame},
        **{"take_frees": engine.take_frees, "MOST": MOST_FREES, "type": type, "len": len},
        "new_results": functools.partial(ffi.new, ffi.typeof(f"dala_result[{len(types)}]")),
    }
    made: Call = write_function("call", "args", body, known)
    return made


class _Cells(list[Any]):
    """The C structs that a call writes to; ``keep`` is what they point to."""

    keep: Any


def release(storage: TensorStorage) -> None:
    """Marks a donated array as gone."""
    if storage.pointer is not None:
        storage.engine.frees.append(storage.pointer)
        storage.pointer = None


def wrap(engine: Engine, results: Any, index: int, type: Type) -> Array:
    """A result as an array, which owns it from now on."""
    return Array(TensorStorage(engine, results, index, type), type)


def concrete(t: Type, result: Any) -> Type:
    """A result's type with its actual sizes."""
    if not any(isinstance(d, DimExpr) for d in t.shape):
        return t
    sizes = tuple(result.array.shape[0 : result.array.ndim])
    return Type(t.dtype, sizes[: len(t.shape)])


def to_engine(engine: Engine, x: Any, dtype: DType) -> Array:
    """A copy of an array in the runtime."""
    ffi = engine.ffi
    keep: list[Any] = []
    c = ffi.new("dala_array *")
    source = x._storage.numpy() if isinstance(x, Array) else np.asarray(x)
    fill(ffi, c, source, dtype, keep)
    result, err = ffi.new("dala_result *"), ffi.new("dala_error **")
    engine.check(engine.lib.dala_tensor_new(engine.handle, c, result, err), err)
    shape = source.shape[:-1] if dtype.kind == "k" else source.shape
    return wrap(engine, result, 0, Type(dtype, shape))


def share(x: Array) -> Array:
    """A second handle to the same storage: donating one leaves the other as it is."""
    storage = x._storage
    if not isinstance(storage, TensorStorage):
        return x
    engine = storage.engine
    if storage.pointer is None:
        storage.numpy()
    out, err = engine.ffi.new("dala_tensor **"), engine.ffi.new("dala_error **")
    engine.check(engine.lib.dala_tensor_clone(storage.pointer, out, err), err)
    result = engine.ffi.new("dala_result *")
    result.tensor = out[0]
    view_err = engine.lib.dala_tensor_view(out[0], engine.ffi.addressof(result, "array"), err)
    engine.check(view_err, err)
    return wrap(engine, result, 0, x._type)


def filled(size: int, call: Any) -> bytes:
    """The bytes that a function of the library writes."""
    ffi, lib = _library.load()
    out, err = ffi.new("uint8_t[]", size), ffi.new("dala_error **")
    if call(ffi, lib, out, err) != 0:
        raise_error(ffi, lib, err)
    return bytes(ffi.buffer(out, size))


__all__ = ["Engine", "HostStorage", "Loaded", "TensorStorage", "call_count", "share", "to_engine"]
