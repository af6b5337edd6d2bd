"""Layers, with Keras's names. Each is fields, a pure ``build`` and a pure ``call``; see ``Layer``."""

from dala_defn.layers.activation import Activation, Lambda
from dala_defn.layers.base import Layer
from dala_defn.layers.convolution import Conv2D
from dala_defn.layers.dense import Dense
from dala_defn.layers.dropout import Dropout
from dala_defn.layers.pooling import AveragePooling2D, MaxPooling2D
from dala_defn.layers.preprocessing import Rescaling
from dala_defn.layers.shaping import Add, Concatenate, Flatten, Reshape
from dala_defn.layers.symbols import Input

__all__ = [
    "Activation",
    "Add",
    "AveragePooling2D",
    "Concatenate",
    "Conv2D",
    "Dense",
    "Dropout",
    "Flatten",
    "Input",
    "Lambda",
    "Layer",
    "MaxPooling2D",
    "Rescaling",
    "Reshape",
]
