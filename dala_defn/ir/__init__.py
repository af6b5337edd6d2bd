"""The IR: a typed graph in SSA form, its verifier, its text and its bytes."""

from dala_defn.ir.graph import Graph, Node, Value, frozen
from dala_defn.ir.types import Literal, Type

__all__ = ["Graph", "Literal", "Node", "Type", "Value", "frozen"]
