"""The IR: a typed graph in SSA form, its verifier, its text and its bytes."""

from dala_defn.ir.graph import Graph, Node, Value, frozen, install_printer
from dala_defn.ir.parser import parse
from dala_defn.ir.printer import print_graph
from dala_defn.ir.types import Literal, Type
from dala_defn.ir.verify import verify

install_printer(print_graph)

__all__ = ["Graph", "Literal", "Node", "Type", "Value", "frozen", "parse", "print_graph", "verify"]
