"""Graph to graph, one file a pass: derivatives, batching, simplification. ``PASSES`` names them all."""

from dala_defn.passes.cse import Cse, cse
from dala_defn.passes.dce import Dce, dce
from dala_defn.passes.grad import Grad, Vjp, grad_graph, vjp_graph
from dala_defn.passes.inline import Inline, inline_calls
from dala_defn.passes.pipeline import PASSES, Pass, Pipeline, Step

__all__ = [
    "PASSES",
    "Cse",
    "Dce",
    "Grad",
    "Inline",
    "Pass",
    "Pipeline",
    "Step",
    "Vjp",
    "cse",
    "dce",
    "grad_graph",
    "inline_calls",
    "vjp_graph",
]
