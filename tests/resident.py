"""A function and arrays that stay in the runtime, for the tests of calls and of memory."""

from __future__ import annotations

import numpy as np

import dala_defn as dd


@dd.defn
def affine(x):
    return x * 2.0 + 1.0


def device(*shape):
    """An array whose numbers are the runtime's."""
    return dd.zeros(shape) + np.float32(1)
