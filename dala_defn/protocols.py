"""NumPy's own functions on our arrays: ``np.exp(x)`` and ``np.sum(x)`` are ``dd.exp(x)`` and ``dd.sum(x)``.

A function that has no counterpart raises and says what to use; nothing is converted to NumPy behind the user's back,
but for printing and saving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dala_defn import dtypes, fft, linalg, ops, special
from dala_defn import functions as F
from dala_defn.array import Array
from dala_defn.errors import ArgumentError, ArgumentTypeError
from dala_defn.functions.base import convert, own

_UFUNCS: dict[str, Callable[..., Any]] = {
    **{name: getattr(F, name) for name in F.__all__},
    **{name: f for name, f in vars(special).items() if not name.startswith("_") and name not in F.__all__},
    "psi": special.digamma,
    "log_expit": lambda x: -F.logaddexp(0.0, -own(x)),
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": F.sum, "multiply": F.prod, "maximum": F.max, "minimum": F.min, "logical_and": F.all, "logical_or": F.any,
    "fmax": F.nanmax, "fmin": F.nanmin,
}  # fmt: skip
_ACCUMULATIONS: dict[str, Callable[..., Any]] = {
    "add": F.cumsum,
    "multiply": F.cumprod,
    "maximum": F.cummax,
    "minimum": F.cummin,
    "logaddexp": F.cumlogsumexp,
}


def _no_counterpart(name: str) -> ArgumentTypeError:
    what = "while tracing there are no numbers to give it" if ops.current_trace() is not None else ""
    return ArgumentTypeError(
        f"{name} has no counterpart for Dala's arrays", rule=what, hint=f"{name}(np.asarray(x), ...) outside @defn"
    )


def ufunc(f: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A NumPy ufunc, or one of its methods, on values of ours."""
    name = f.__name__
    options = {k: v for k, v in kwargs.items() if k not in ("casting", "order", "subok")}
    out = options.pop("out", None)
    if out is not None and any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise ArgumentTypeError(
            f"np.{name} into a given array: arrays do not change in place, nor does NumPy write results of ours",
            hint=f"y = np.{name}(...), or np.{name}(..., np.asarray(x), out=...) outside @defn",
        )
    g = _UFUNCS.get(name)
    if method == "__call__" and g is not None:
        if options.pop("where", True) is not True:
            raise ArgumentError(f"np.{name} with where=", hint=f"dd.where(mask, dd.{name}(...), x)")
        dtype = options.pop("dtype", None)
        if options:
            raise ArgumentError(f"np.{name} with {', '.join(options)}")
        return g(*inputs) if dtype is None else g(*(convert(own(x), dtypes.as_dtype(dtype)) for x in inputs))
    if method == "reduce" and name in _REDUCTIONS:
        axis = options.pop("axis", 0)
        options = {k: v for k, v in options.items() if v is not None and v is not np._NoValue}
        return _REDUCTIONS[name](*inputs, axis=axis, **options)
    if method == "accumulate" and name in _ACCUMULATIONS:
        return _ACCUMULATIONS[name](*inputs, axis=options.pop("axis", 0), **options)
    if method == "outer" and g is not None and len(inputs) == 2:
        x, y = (own(v) for v in inputs)
        return g(F.reshape(x, (*x.shape, *(1 for _ in y.shape))), y)
    raise _no_counterpart(f"np.{name}" + ("" if method == "__call__" else f".{method}"))


def _array_like(f: Callable[..., Any]) -> Callable[..., Any]:
    def convert_and_call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Array):
            raise _no_counterpart(f"np.{f.__name__}")
        return f(np.asarray(x), *args, **kwargs)

    return convert_and_call


# What prints or saves an array, or asks where it lies.
_HOST = ("array_repr", "array_str", "array2string", "savetxt", "shares_memory", "may_share_memory")

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(F, name) for name in F.__all__},
    "amax": F.max,
    "amin": F.min,
    "copy": lambda x, *args, **kwargs: own(x),
    "i0": special.i0,
    "result_type": dtypes.result_type,
    "save": lambda file, x, **kwargs: np.save(file, np.asarray(x), **kwargs),
    "savez": lambda file, *args, **kwargs: np.savez(file, *map(np.asarray, args), **_asarrays(kwargs)),
    "shape": lambda x: tuple(own(x).shape),
}
_FUNCTIONS |= {name: _array_like(getattr(np, name)) for name in _HOST}


def _asarrays(named: Mapping[str, Any]) -> dict[str, Any]:
    return {k: np.asarray(v) if isinstance(v, Array) else v for k, v in named.items()}


_SPACES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "numpy": _FUNCTIONS,
    "numpy.linalg": {name: getattr(linalg, name) for name in linalg.__all__},
    "numpy.fft": {name: getattr(fft, name) for name in fft.__all__},
}


def function(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A NumPy function on values of ours."""
    space = getattr(f, "__module__", "")
    found = _SPACES.get(space, {}).get(f.__name__)
    if found is None:
        raise _no_counterpart(f"{space.replace('numpy', 'np', 1)}.{f.__name__}")
    if kwargs.get("out") is not None:
        raise ArgumentTypeError(f"np.{f.__name__} into a given array: arrays do not change in place")
    return found(*args, **{k: v for k, v in kwargs.items() if k != "out"})
