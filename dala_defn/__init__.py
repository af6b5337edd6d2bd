"""Dala: functions over arrays, traced, differentiated, compiled, and shipped as one file.

>>> import dala_defn as dd
>>> @dd.defn
... def f(x):
...     return dd.sum(x * x)
>>> dd.grad(f)(dd.array([1.0, 2.0]))
array([2., 4.], dtype=float32)
"""

from __future__ import annotations

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from types import FunctionType as _FunctionType
from typing import TYPE_CHECKING
from typing import Any as _Any

from dala_defn import debug, errors, fft, ir, linalg, nn, ops, random, special, trees
from dala_defn.annotations import (
    BFloat16,
    Bool,
    Complex64,
    Complex128,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)
from dala_defn.arguments import is_compatible, spec, spec_of
from dala_defn.array import Array, get_printoptions, set_printoptions
from dala_defn.compiled import Compiled as _Compiled
from dala_defn.composites import Composite as _Composite
from dala_defn.composites import composite
from dala_defn.control import associative_scan, cond, fori_loop, map, scan, switch, while_loop
from dala_defn.custom import CustomJvp as _CustomJvp
from dala_defn.custom import CustomVjp as _CustomVjp
from dala_defn.custom import checkpoint, custom_jvp, custom_vjp
from dala_defn.debug import pure_callback
from dala_defn.defn import Defn as _Defn
from dala_defn.defn import cache_info, defn
from dala_defn.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dala_defn.eager import install as _install_eager
from dala_defn.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckFailed,
    DalaError,
    DonatedError,
    DTypeError,
    EngineError,
    EnginePanic,
    EscapedTracerError,
    FileError,
    FileFormatError,
    GradientError,
    IndexOutOfRange,
    NotFiniteError,
    OutOfMemory,
    ParseError,
    RetraceError,
    ShapeError,
    SignatureError,
    TimeLimitExceeded,
    TraceError,
    VerifyError,
)
from dala_defn.executors import executor, using
from dala_defn.export import Artifact as _Artifact
from dala_defn.export import EntryPoint as _EntryPoint
from dala_defn.export import load
from dala_defn.functions import *  # noqa: F403
from dala_defn.functions import __all__ as _functions
from dala_defn.functions.base import dim_value
from dala_defn.functions.types import NamespaceInfo as _NamespaceInfo
from dala_defn.functions.updates import At as _At
from dala_defn.interchange import from_dlpack
from dala_defn.jacobians import hessian, hvp, jacfwd, jacrev, linearize, vjp
from dala_defn.memory import memory_limit
from dala_defn.nans import debug_nans
from dala_defn.operators import Operators as _Operators
from dala_defn.operators import install_protocols as _install_protocols
from dala_defn.ops.effects import time_limit
from dala_defn.protocols import function as _function
from dala_defn.protocols import ufunc as _ufunc
from dala_defn.shapes import DimExpr
from dala_defn.special import erfc, erfinv, logsumexp
from dala_defn.trace import Tracer, name_scope, require
from dala_defn.transforms import Transformed as _Transformed
from dala_defn.transforms import grad, jvp, value_and_grad, vmap

if TYPE_CHECKING:
    from dala_defn import callbacks, initializers, layers, losses, metrics, optimizers, signal, signing, testing
    from dala_defn.arrayfiles import save
    from dala_defn.layers import Input
    from dala_defn.training import Model, Sequential

__version__ = "0.1.0"

__array_api_version__ = "2024.12"
__array_namespace_info__ = _NamespaceInfo

newaxis = None
euler_gamma = 0.5772156649015329
bool = bool_

__all__ = [
    *_functions,
    "BFloat16",
    "Bool",
    "Complex64",
    "Complex128",
    "Float16",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "dim_value",
    "require",
    "ArgumentError",
    "ArgumentTypeError",
    "Array",
    "CheckFailed",
    "DTypeError",
    "DalaError",
    "DimExpr",
    "DonatedError",
    "EngineError",
    "EnginePanic",
    "EscapedTracerError",
    "FileError",
    "FileFormatError",
    "GradientError",
    "IndexOutOfRange",
    "Input",
    "Model",
    "NotFiniteError",
    "debug_nans",
    "OutOfMemory",
    "ParseError",
    "RetraceError",
    "Sequential",
    "ShapeError",
    "SignatureError",
    "TimeLimitExceeded",
    "TraceError",
    "Tracer",
    "VerifyError",
    "associative_scan",
    "bfloat16",
    "bool_",
    "cache_info",
    "callbacks",
    "checkpoint",
    "complex128",
    "complex64",
    "composite",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "defn",
    "e",
    "erfc",
    "erfinv",
    "errors",
    "euler_gamma",
    "executor",
    "fft",
    "float16",
    "float32",
    "float64",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "inf",
    "initializers",
    "int16",
    "int32",
    "int64",
    "int8",
    "ir",
    "jacfwd",
    "jacrev",
    "jvp",
    "layers",
    "linalg",
    "linearize",
    "load",
    "logsumexp",
    "losses",
    "map",
    "memory_limit",
    "metrics",
    "name_scope",
    "nan",
    "newaxis",
    "nn",
    "ops",
    "optimizers",
    "pi",
    "promote_types",
    "pure_callback",
    "random",
    "result_type",
    "save",
    "scan",
    "signal",
    "signing",
    "is_compatible",
    "spec",
    "spec_of",
    "special",
    "switch",
    "testing",
    "time_limit",
    "trees",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "using",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "from_dlpack",
    "get_printoptions",
    "set_printoptions",
]

# What is imported when it is asked for, as not every program trains: name -> module, or what to take from one.
_LATER = {
    **{name: name for name in ("callbacks", "initializers", "layers", "losses", "metrics", "optimizers")},
    **{name: name for name in ("signal", "signing", "testing")},
    "Input": "layers.Input",
    "Model": "training.Model",
    "Sequential": "training.Sequential",
    "save": "arrayfiles.save",
}


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room, _, taken = _LATER[name].partition(".")
    found = _import_module(f"{__name__}.{room}")
    x = getattr(found, taken) if taken else found
    globals()[name] = x = errors.boundary(x) if isinstance(x, _FunctionType) else x
    return x


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


for _name in (n for n in __all__ if n not in _LATER):
    if isinstance(globals()[_name], _FunctionType):
        globals()[_name] = errors.boundary(globals()[_name])
for _holder in (
    Tracer,
    _Operators,
    _At,
    _Composite,
    _CustomJvp,
    _CustomVjp,
    _Compiled,
    _EntryPoint,
    _Artifact,
    _Transformed,
    debug,
    nn,
    random,
    special,
    linalg,
    fft,
):
    errors.boundaries(_holder)
errors.boundaries(Array, but=("__array__",))
errors.boundaries(_Defn, ["lower", "compile", "export", "explain"])
errors.install_excepthook()
_install_eager()
_install_protocols(_ufunc, _function)
