"""Python's own control flow inside traces: ``if``, ``while``, ``for``, ``and``, ``assert`` over traced values.

A function is rewritten from its source when it is traced first. ``source`` finds its syntax tree, ``analyse`` what it
does with its variables, ``rewrite`` makes its new code, ``runtime`` and ``loops`` are what that calls.
"""

from dala_defn.pyflow.convert import converted, rewriting

__all__ = ["converted", "rewriting"]
