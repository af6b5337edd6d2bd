"""Dala: functions over arrays, traced, differentiated, compiled, and shipped as one file.

>>> import dala_defn as dd
>>> @dd.defn
... def f(x):
...     return dd.sum(x * x)
>>> dd.grad(f)(dd.array([1.0, 2.0]))
array([2., 4.], dtype=float32)
"""

from math import e, inf, nan, pi
from types import FunctionType as _FunctionType

from dala_defn import (
    callbacks,
    errors,
    fft,
    initializers,
    ir,
    layers,
    linalg,
    losses,
    metrics,
    nn,
    ops,
    optimizers,
    random,
    special,
    trees,
)
from dala_defn.arguments import spec
from dala_defn.array import Array
from dala_defn.compiled import Compiled as _Compiled
from dala_defn.composites import Composite as _Composite
from dala_defn.composites import composite
from dala_defn.defn import Defn as _Defn
from dala_defn.defn import defn
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
    OutOfMemory,
    ParseError,
    ShapeError,
    TraceError,
    VerifyError,
)
from dala_defn.executors import executor, using
from dala_defn.export import Artifact as _Artifact
from dala_defn.export import EntryPoint as _EntryPoint
from dala_defn.export import load
from dala_defn.functions import *  # noqa: F403
from dala_defn.functions import __all__ as _functions
from dala_defn.functions.updates import At as _At
from dala_defn.layers import Input
from dala_defn.operators import Operators as _Operators
from dala_defn.shapes import DimExpr
from dala_defn.trace import Tracer, name_scope
from dala_defn.training import Model, Sequential
from dala_defn.transforms import Transformed as _Transformed
from dala_defn.transforms import grad, jvp, value_and_grad, vmap

__version__ = "0.1.0"

newaxis = None

__all__ = [
    *_functions,
    "ArgumentError",
    "ArgumentTypeError",
    "Array",
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
    "OutOfMemory",
    "ParseError",
    "Sequential",
    "ShapeError",
    "TraceError",
    "Tracer",
    "VerifyError",
    "bfloat16",
    "bool_",
    "callbacks",
    "complex64",
    "complex128",
    "composite",
    "defn",
    "e",
    "errors",
    "executor",
    "fft",
    "float16",
    "float32",
    "float64",
    "grad",
    "inf",
    "initializers",
    "int8",
    "int16",
    "int32",
    "int64",
    "ir",
    "jvp",
    "layers",
    "linalg",
    "load",
    "losses",
    "metrics",
    "name_scope",
    "nan",
    "newaxis",
    "nn",
    "ops",
    "optimizers",
    "pi",
    "promote_types",
    "random",
    "result_type",
    "spec",
    "special",
    "trees",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "using",
    "value_and_grad",
    "vmap",
]

for _name in __all__:
    if isinstance(globals()[_name], _FunctionType):
        globals()[_name] = errors.boundary(globals()[_name])
for _holder in (
    Array,
    Tracer,
    _Operators,
    _At,
    _Composite,
    _Compiled,
    _EntryPoint,
    _Artifact,
    _Transformed,
    Model,
    Sequential,
    nn,
    random,
    special,
    linalg,
    fft,
):
    errors.boundaries(_holder)
errors.boundaries(_Defn, ["lower", "compile", "export"])
errors.install_excepthook()
_install_eager()
