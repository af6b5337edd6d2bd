"""For mypy: ``Float32["b 784"]`` as an array; in its configuration ``plugins = ["dala_defn.mypy_plugin"]``."""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import Type

from dala_defn.annotations import KINDS

_NAMES = {f"{module}.{name}" for module in ("dala_defn", "dala_defn.annotations") for name in KINDS}
_ARRAYS = {"dala_defn.Array", "dala_defn.array.Array"}


def _array(context: AnalyzeTypeContext) -> Type:
    return context.api.named_type("dala_defn.array.Array", [])


class ArrayPlugin(Plugin):
    """Reads annotations with sizes as arrays."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """What reads the annotation of this name."""
        return _array if fullname in _NAMES or fullname in _ARRAYS else None


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    return ArrayPlugin
