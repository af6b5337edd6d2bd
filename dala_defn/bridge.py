"""The one door to the native runtime: handles, marshalling, status -> exception. Nothing else imports it."""

from __future__ import annotations

import functools
import json
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dala_defn.array import Array, HostStorage
from dala_defn.dtypes import DTYPES, DType, as_dtype, as_pairs, real_of
from dala_defn.errors import (
    ArgumentError,
    DalaError,
    DonatedError,
    DTypeError,
    EngineError,
    EnginePanic,
    FileError,
    FileFormatError,
    IndexOutOfRange,
    OutOfMemory,
    ShapeError,
    VerifyError,
)
from dala_defn.ir import Type, frozen
from dala_defn.ir.codec import encode_attr
from dala_defn.shapes import DimExpr
from dala_defn.sources import Location

DONATE = 1
OP_CACHE = 4096

_ERRORS: dict[int, type[DalaError]] = {
    1: FileFormatError,
    2: VerifyError,
    3: ArgumentError,
    4: EngineError,
    5: EngineError,
    6: OutOfMemory,
    7: EnginePanic,
    8: FileError,
}
# By the code of an error whose status says less.
_CODES: dict[tuple[int, str], type[DalaError]] = {
    (3, "dtype"): DTypeError,
    (3, "shape"): ShapeError,
    (3, "dim"): ShapeError,
    (3, "dim-bounds"): ShapeError,
    (3, "dim-conflict"): ShapeError,
    (4, "index-out-of-range"): IndexOutOfRange,
}


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


def call_count() -> int:
    """How many calls into the runtime were made so far in this process, by any thread."""
    return int(_library.load()[1].dala_call_count())


def raise_error(ffi: Any, lib: Any, err: Any) -> None:
    """Raises what the error handle says, and frees it."""
    if err[0] == ffi.NULL:
        raise EngineError("the runtime failed and could not say why")
    status = int(lib.dala_error_status(err[0]))
    data = json.loads(ffi.string(lib.dala_error_json(err[0])))
    lib.dala_error_free(err[0])
    kind = _CODES.get((status, data.get("code")), _ERRORS.get(status, EngineError))
    place = data.get("location")
    location = None  # without one, the line of the call is the user's
    if place:
        location = Location(place["file"], place["line"], place["column"], place["function"], place.get("path") or "")
    raise kind(data["message"], op=data.get("op"), location=location, details=data.get("details") or {})


class TensorStorage:
    """Numbers that live in the runtime. Its handle is released with the engine's next call."""

    __slots__ = ("_lent", "_owner", "engine", "pointer", "result")

    def __init__(self, engine: Engine, owner: Any, index: int = 0) -> None:
        self.engine = engine
        self._owner = owner  # cffi frees the structs with their array, whatever else refers to them
        self.result = result = owner[index]
        self.pointer = result.tensor
        self._lent: weakref.ref[np.ndarray[Any, Any]] | None = None

    def lent(self) -> np.ndarray[Any, Any] | None:
        """The NumPy view of it that someone still holds, if any: such memory is not donated."""
        return None if self._lent is None else self._lent()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, read-only, sharing the tensor's memory."""
        if self.pointer is None:
            raise DonatedError(
                "the array's storage was donated to a call and is gone", hint="use the result of that call instead"
            )
        view = self.lent()
        if view is None:
            view = _view(self)
            self._lent = weakref.ref(view)
        return view

    def __del__(self) -> None:
        if self.pointer is not None:
            self.engine.frees.append(self.pointer)


class _HostView:
    """Lends a tensor's memory to NumPy and keeps the tensor alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


_DTYPES = {d.code: d.dtype for d in DTYPES}


def _view(storage: TensorStorage) -> np.ndarray[Any, Any]:
    ffi = storage.engine.ffi
    a = storage.result.array
    dtype = _DTYPES[a.dtype]
    shape = tuple(a.shape[0 : a.ndim])
    if a.data == ffi.NULL:
        empty = np.empty(shape, dtype)
        empty.flags.writeable = False
        return empty
    interface = {
        "version": 3,
        "typestr": dtype.str if dtype.kind != "V" else "<u2",
        "shape": shape,
        "strides": None if a.strides == ffi.NULL else tuple(a.strides[0 : a.ndim]),
        "data": (int(ffi.cast("intptr_t", a.data)), True),
    }
    out = np.asarray(_HostView(interface, storage))
    return out.view(dtype) if dtype.kind == "V" else out


class Engine:
    """One engine of the runtime (``"flex"`` is the CPU)."""

    def __init__(self, name: str = "flex", options: Mapping[str, Any] | None = None) -> None:
        self.ffi, self.lib = _library.load()
        self.name = name
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

    def load(self, data: bytes) -> Loaded:
        """A program from bytes."""
        out, err = self.ffi.new("dala_program **"), self.ffi.new("dala_error **")
        self.check(self.lib.dala_program_load(self.handle, data, len(data), out, err), err)
        return Loaded(self, out[0])

    def open(self, path: str | Path) -> Loaded:
        """A program from a file, mapped."""
        out, err = self.ffi.new("dala_program **"), self.ffi.new("dala_error **")
        self.check(self.lib.dala_program_open(self.handle, str(path).encode(), out, err), err)
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
        return [Array(TensorStorage(self, results, i), t) for i, t in enumerate(types)]


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
        """One run: one call into the runtime. ``types`` are those of the results; sizes may be symbolic."""
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
        return [Array(TensorStorage(engine, results, i), concrete(t, results[i])) for i, t in enumerate(types)]

    def caller(self, entry: int, args: Sequence[Type], host: Sequence[bool], results: Sequence[Type]) -> Caller | None:
        """A faster ``run`` for arguments of exactly these types, or ``None`` when sizes are symbolic."""
        if any(isinstance(d, DimExpr) for t in (*args, *results) for d in t.shape):
            return None
        return Caller(self, entry, args, host, results)

    def get_state(self, path: str, type: Type) -> Array:
        """A tensor of the program's state."""
        engine = self.engine
        result, err = engine.ffi.new("dala_result *"), engine.ffi.new("dala_error **")
        engine.check(engine.lib.dala_program_get_state(self.handle, path.encode(), result, err), err)
        return Array(TensorStorage(engine, result), type)

    def set_state(self, path: str, value: Any) -> None:
        """Replaces a tensor of the program's state."""
        engine = self.engine
        packed, keep = pack(engine, [value])
        err = engine.ffi.new("dala_error **")
        engine.check(engine.lib.dala_program_set_state(self.handle, path.encode(), packed, err), err)
        del keep


class Caller:
    """Runs an entry for arguments whose types and kinds never change: all that can be is prepared.

    ``host[i]`` says whether argument i is a NumPy array (else an ``Array``). Threads take a frame each.
    """

    __slots__ = ("_call", "_err", "_frames", "_from_buffer", "_host", "_new", "_types", "args", "loaded")

    def __init__(
        self, loaded: Loaded, entry: int, args: Sequence[Type], host: Sequence[bool], results: Sequence[Type]
    ) -> None:
        ffi, lib = loaded.engine.ffi, loaded.engine.lib
        self.loaded = loaded
        self.args = args
        self._host = tuple(host)
        self._types = tuple(results)
        self._frames: list[tuple[Any, Any, Any, Any]] = []
        self._from_buffer = ffi.from_buffer
        handle, n_args, n_results, run = loaded.handle, len(args), len(results), lib.dala_run
        kind = ffi.typeof(f"dala_result[{n_results}]")
        self._new = functools.partial(ffi.new, kind)
        null = ffi.NULL

        def call(packed: Any, out: Any, frees: Any, n_frees: int, err: Any) -> int:
            status: int = run(handle, entry, packed, n_args, out, n_results, frees or null, n_frees, err)
            return status

        self._call = call

    def _frame(self) -> tuple[Any, Any, Any, Any]:
        ffi = self.loaded.engine.ffi
        packed = ffi.new("dala_arg[]", len(self.args))
        shapes = []
        for i, t in enumerate(self.args):
            shape = (*t.shape, 2) if t.dtype.kind in "kc" else t.shape
            shapes.append(ffi.new("int64_t[]", shape))
            c = packed[i].array
            c.dtype, c.ndim, c.shape = real_of(t.dtype).code, len(shape), shapes[-1]
        cells = [packed[i].array if self._host[i] else packed[i] for i in range(len(self.args))]
        return packed, cells, ffi.new("dala_error **"), shapes

    def __call__(self, args: Sequence[Any]) -> list[Array] | None:
        """The results; ``None`` when an argument is not laid out as it must be, and the general way is to be taken."""
        frames = self._frames
        frame = frames.pop() if frames else self._frame()
        packed, cells, err, _ = frame
        for x, c, host in zip(args, cells, self._host, strict=True):
            if host:
                try:
                    c.data = self._from_buffer(x)
                except (ValueError, TypeError, BufferError):
                    return None
            else:
                storage = x._storage
                if type(storage) is not TensorStorage or storage.pointer is None:
                    return None
                c.tensor = storage.pointer
        engine = self.loaded.engine
        out = self._new()
        frees, n_frees = engine.take_frees() if engine.frees else (None, 0)
        status = self._call(packed, out, frees, n_frees, err)
        if status != 0:
            raise_error(engine.ffi, engine.lib, err)
        frames.append(frame)
        return [Array(TensorStorage(engine, out, i), t) for i, t in enumerate(self._types)]


def release(storage: TensorStorage) -> None:
    """Marks a donated array as gone."""
    if storage.pointer is not None:
        storage.engine.frees.append(storage.pointer)
        storage.pointer = None


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
    source = x.numpy() if isinstance(x, Array) else np.asarray(x)
    fill(ffi, c, source, dtype, keep)
    result, err = ffi.new("dala_result *"), ffi.new("dala_error **")
    engine.check(engine.lib.dala_tensor_new(engine.handle, c, result, err), err)
    shape = source.shape[:-1] if dtype.kind == "k" else source.shape
    return Array(TensorStorage(engine, result), Type(dtype, shape))


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
    return Array(TensorStorage(engine, result), x._type)


__all__ = ["Engine", "HostStorage", "Loaded", "TensorStorage", "call_count", "share", "to_engine"]
