"""From LLVM IR to a function pointer: one module a kernel, compiled to object code and linked, never unloaded."""

from __future__ import annotations

import ctypes
import platform
import threading
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from dala_defn.errors import EngineError

_lock = threading.Lock()
_linked: list[Any] = []


@cache
def target() -> Any:
    """The machine that this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features(), opt=2, reloc="pic", codemodel="small"
    )


@cache
def features() -> str:
    """The instruction sets of the processor, as LLVM lists them."""
    found = llvm.get_host_cpu_features()
    return str(found.flatten())


@cache
def vector_bytes() -> int:
    """The width of a vector register that pays."""
    found = llvm.get_host_cpu_features()
    if found.get("avx512f"):
        return 64
    return 32 if found.get("avx2") else 16


@cache
def identity() -> str:
    """All that object code depends on beside the kernel."""
    return f"{platform.machine()} {llvm.get_host_cpu_name()} {features()} llvmlite {llvmlite.__version__}"


def object_code(text: str) -> bytes:
    """A module of LLVM IR as object code of this machine.

    Raises:
        EngineError: when LLVM refuses the module.
    """
    with _lock:
        machine = target()
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:
            raise EngineError(f"LLVM refuses a kernel: {error}") from None
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
        passes = llvm.create_new_module_pass_manager()
        # Loops are over vectors already: what is left is to inline, to turn slots into registers and to tidy up.
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
        return bytes(machine.emit_object(module))


@cache
def _compiler() -> Any:
    made = llvm.create_lljit_compiler(target())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def link(code: bytes, symbol: str) -> int:
    """The address of a function of some object code, which stays loaded as long as the process lives.

    Raises:
        EngineError: when the code does not have it.
    """
    with _lock:
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
        try:
            tracker = library.link(_compiler(), f"{symbol}.{len(_linked)}")
            address = int(tracker[symbol])
        except RuntimeError as error:
            raise EngineError(f"the object code of a kernel cannot be linked: {error}") from None
        _linked.append(tracker)
        # A thread of the runtime may be in a kernel while the interpreter ends: nothing may dispose of the code.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tracker))
        return address


SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
