"""The IR: a typed graph in SSA form, its verifier, its text and its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dala_defn.ir.graph import Graph, Node, Value, frozen, install_printer
from dala_defn.ir.printer import print_graph
from dala_defn.ir.types import Literal, Type
from dala_defn.ir.verify import verify

if TYPE_CHECKING:
    from dala_defn.ir.parser import parse

install_printer(print_graph)


def __getattr__(name: str) -> Any:
    """Lark is imported when a text is parsed, and not before: it would take a good part of the package's start."""
    if name != "parse":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dala_defn.ir.parser import parse

    globals()["parse"] = parse
    return parse


__all__ = ["Graph", "Literal", "Node", "Type", "Value", "frozen", "parse", "print_graph", "verify"]
