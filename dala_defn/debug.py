"""Looking into a running program: ``print``, ``tap``, ``check``, and calls back into Python."""

from __future__ import annotations

import itertools
import string
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dala_defn import dtypes, ops, trees
from dala_defn.array import host_array
from dala_defn.errors import ArgumentError, ArgumentTypeError, CheckFailed, EngineError
from dala_defn.functions.base import dtype_of, value
from dala_defn.ir import Type
from dala_defn.nans import see
from dala_defn.ops import effects
from dala_defn.ops.spec import OPS
from dala_defn.trace import Trace


def _effect(op: str, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """Records an effect after those that the trace has already."""
    trace = ops.current_trace()
    assert isinstance(trace, Trace)
    before = trace.token if trace.token is not None else OPS["token"]()
    outs = ops.bind(OPS[op], (before, *args), attrs)
    trace.token = outs[0]
    return list(outs[1:])


def _template(text: str, args: Sequence[Any], named: dict[str, Any]) -> tuple[str, list[Any]]:
    """The text with its fields numbered, and a value for each.

    Raises:
        ArgumentError: for a field that nothing fills, or one with a format of its own.
    """
    out = ""
    values: list[Any] = []
    counter = itertools.count()
    try:
        for literal, field, spec, conversion in string.Formatter().parse(text):
            out += literal.replace("{", "{{").replace("}", "}}")
            if field is None:
                continue
            if spec or conversion:
                raise ArgumentError(
                    f"debug: the field {{{field}}} has a format of its own",
                    rule="a field is {}, {0} or {name}",
                    hint="dd.round(x, 3) for fewer digits",
                )
            x = named[field] if field and not field.isdigit() else args[int(field) if field else next(counter)]
            out += f"{{{len(values)}}}"
            values.append(value(x))
    except (KeyError, IndexError):
        raise ArgumentError(f"debug: nothing fills a field of {text!r}") from None
    except ValueError as error:
        raise ArgumentError(f"debug: {text!r} is no template: {error}") from None
    return out, values


def print(text: str, *args: Any, **named: Any) -> None:
    """Prints when the program runs, not while it is traced.

    Args:
        text: with fields ``{}``, ``{0}`` or ``{name}``, as for ``str.format``.
        args, named: arrays for the fields.

    Raises:
        ArgumentError: for a field that nothing fills, or one with a format of its own.

    Example:
        >>> dd.debug.print("x is {}", dd.array([1, 2]))
        x is [1 2]
    """
    template, values = _template(text, args, named)
    if ops.current_trace() is None:
        effects.handle("print", template, [np.asarray(x) for x in values])
    else:
        _effect("print", values, {"format": template})


def tap(name: str, x: Any) -> Any:
    """Gives ``x`` back; when the program runs inside ``with dd.debug.taps() as found``, ``found[name]`` gets its value.

    Args:
        name: what to call it.
        x: a pytree of arrays.

    Example:
        >>> with dd.debug.taps() as found:
        ...     y = dd.debug.tap("x", dd.array(2.0)) * 3
        >>> found["x"]
        [array(2., dtype=float32)]
    """
    leaves, tree = trees.flatten(x)
    for path, leaf in trees.flatten_with_paths(trees.unflatten(tree, [value(leaf) for leaf in leaves])):
        called = "/".join([name, *([trees.show_path(path)] if path else [])])
        if ops.current_trace() is None:
            effects.handle("tap", called, [np.asarray(leaf)])
        else:
            _effect("tap", [leaf], {"name": called})
    return x


class _Taps(threading.local):
    def __init__(self) -> None:
        self.found: list[dict[str, list[Any]]] = []


_taps = _Taps()


@contextmanager
def taps() -> Iterator[dict[str, list[Any]]]:
    """Collects what this thread's programs tap: a dictionary from names to lists of NumPy arrays, in order."""
    found: dict[str, list[Any]] = {}
    _taps.found.append(found)
    try:
        yield found
    finally:
        _taps.found.remove(found)


def check(condition: Any, message: str, *args: Any, **named: Any) -> None:
    """Fails the run when ``condition`` is false, with the line of this call; exported programs keep it.

    Args:
        condition: a bool scalar.
        message: with fields as for ``print``.

    Raises:
        CheckFailed: when the program runs (an ``AssertionError`` too).
        ArgumentTypeError: when ``condition`` is no bool scalar.

    Example:
        >>> dd.debug.check(dd.all(dd.array([1.0, 2.0]) > 0), "not positive")
    """
    template, values = _template(message, args, named)
    condition = value(condition)
    if tuple(condition.shape) != () or dtype_of(condition) is not dtypes.bool_:
        raise ArgumentTypeError(
            f"check: the condition is {Type(dtype_of(condition), tuple(condition.shape))}, not a bool scalar",
            hint="dd.all(...) of an array of conditions",
        )
    if ops.current_trace() is not None:
        _effect("assert", [condition, *values], {"message": template})
    elif not bool(np.asarray(condition)):
        raise CheckFailed(effects.fill(template, [np.asarray(x) for x in values]))


def error_if(condition: Any, message: str, *args: Any, **named: Any) -> None:
    """Fails the run when ``condition`` is true; see ``check``.

    Example:
        >>> dd.debug.error_if(dd.array(1.0) < 0, "negative")
    """
    condition = value(condition)
    check(OPS["bitwise_not"](condition) if dtype_of(condition) is dtypes.bool_ else condition, message, *args, **named)


SEE = "watched"  # what programs call under ``debug_nans``

_callbacks: dict[str, Callable[..., Any]] = {}
_names: dict[int, str] = {}
_lock = threading.Lock()


def _register(f: Callable[..., Any]) -> str:
    """A name for a function, which is kept as long as the process lives: programs know it by that name only."""
    with _lock:
        name = _names.get(id(f))
        if name is None:
            name = _names[id(f)] = f"{getattr(f, '__name__', 'function')}/{len(_names)}"
            _callbacks[name] = f
        return name


def callback(f: Callable[..., Any], *args: Any) -> None:
    """Calls ``f`` with NumPy arrays when the program runs; what it returns is ignored.

    A program with callbacks cannot be exported.

    Example:
        >>> seen = []
        >>> dd.debug.callback(seen.append, dd.array(1.0))
        >>> seen
        [array(1., dtype=float32)]
    """
    values = [value(x) for x in args]
    if ops.current_trace() is None:
        f(*[np.asarray(x) for x in values])
    else:
        _effect("callback", values, {"name": _register(f), "results": ()})


def pure_callback(f: Callable[..., Any], result: Any, *args: Any) -> Any:
    """The result of ``f`` on NumPy arrays, computed by Python when the program runs. It has no derivative.

    Args:
        f: a function of NumPy arrays.
        result: a pytree of ``dd.spec``s or arrays: the shapes and dtypes of what ``f`` returns.
        args: arrays.

    Raises:
        ShapeError: when the program runs, if ``f`` returns something else.

    Example:
        >>> dd.pure_callback(lambda x: x + 1, dd.spec((), dd.float32), dd.array(1.0))
        array(2., dtype=float32)
    """
    leaves, tree = trees.flatten(result)
    types = tuple([Type(dtypes.as_dtype(x.dtype), tuple(x.shape)) for x in leaves])
    values = [value(x) for x in args]

    if ops.current_trace() is None:
        attrs = {"name": _register(f), "results": types}
        outs = OPS["callback"].reference(effects.NEW, *[np.asarray(x) for x in values], **attrs)[1:]
        return trees.unflatten(tree, [host_array(x, t.dtype) for x, t in zip(outs, types, strict=True)])
    return trees.unflatten(tree, _effect("callback", values, {"name": _register(f), "results": types}))


def _run(kind: str, name: str, values: Sequence[Any], types: Sequence[Type]) -> Sequence[Any]:
    """What executors call for each effect."""
    if kind == "print":
        import builtins

        builtins.print(effects.fill(name, values), flush=True)
    elif kind == "tap":
        for found in _taps.found:
            found.setdefault(name, []).append(np.array(values[0]))
    elif kind == "callback":
        f = _callbacks.get(name)
        if f is None:
            raise EngineError(f"callback {name!r}: this process has no such function")
        out = f(*values)
        return trees.flatten(out)[0] if types else ()
    return ()


effects.install_handler(_run)
_callbacks[SEE] = see
