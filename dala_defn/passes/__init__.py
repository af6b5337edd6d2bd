"""Graph to graph, one file a pass: derivatives, batching, simplification. ``PASSES`` names them all."""

from dala_defn.passes.base import PASSES, Pass
from dala_defn.passes.batch import Batch, batch_graph
from dala_defn.passes.complex_pairs import ComplexPairs
from dala_defn.passes.cse import Cse, cse
from dala_defn.passes.cut import cut
from dala_defn.passes.dce import Dce, dce
from dala_defn.passes.fold import Fold
from dala_defn.passes.fuse import Fuse
from dala_defn.passes.grad import Grad, Vjp, grad_graph, vjp_graph
from dala_defn.passes.inline import Inline, inline_calls
from dala_defn.passes.jvp import Jvp, jvp_graph
from dala_defn.passes.lower import Lower
from dala_defn.passes.pipeline import DEFAULT, Pipeline, Step
from dala_defn.passes.simplify import Simplify

__all__ = [
    "DEFAULT",
    "PASSES",
    "Batch",
    "ComplexPairs",
    "Cse",
    "Dce",
    "Fold",
    "Fuse",
    "Grad",
    "Inline",
    "Jvp",
    "Lower",
    "Pass",
    "Pipeline",
    "Simplify",
    "Step",
    "Vjp",
    "batch_graph",
    "cse",
    "cut",
    "dce",
    "grad_graph",
    "inline_calls",
    "jvp_graph",
    "vjp_graph",
]
