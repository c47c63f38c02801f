"""The layers by the names that specifications have for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Final

from ...common.layers import internal, layers
from ...common.layers.layer import Layer
from . import custom_layers

LAYERS: Final[Mapping[str, Callable[..., Layer]]] = {
    "activation": layers.Activation,
    "conv1d": layers.Convolution,
    "conv2d": layers.Convolution2d,
    "dense": layers.Dense,
    "dropout": layers.Dropout,
    "embedding": layers.Embedding,
    "exponential_normalization": custom_layers.ExponentialNormalization,
    "flatten": layers.Flatten,
    "function": custom_layers.Function,
    "gru": functools.partial(internal.Recurrent, cell="gru"),
    "instance_normalization": custom_layers.InstanceNormalization,
    "internal_gru": functools.partial(internal.Internal, cell="gru"),
    "internal_lstm": functools.partial(internal.Internal, cell="lstm"),
    "internal_rnn": internal.Internal,
    "keras": custom_layers.Keras,
    "linear": layers.Linear,
    "lstm": functools.partial(internal.Recurrent, cell="lstm"),
    "pool1d": layers.WindowPooling,
    "pool2d": layers.WindowPooling2d,
    "pooling": layers.Pooling,
    "reshape": layers.Reshape,
    "rnn": internal.Recurrent,
}
"""By type; each is called with a place for messages, the spec of its inputs, and its arguments by name."""
