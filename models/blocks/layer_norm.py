"""Dense layers with normalised outputs, which keep Q-learning stable without target networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...core.tensorflow_import import keras
from .networks import NetworkParams, Style, dense, make_network
from .params import flag, param


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedNetworkParams(NetworkParams):
    """The parameters of a network whose hidden dense layers may be normalised."""

    layer_norm: bool = param(False, "layer normalisation of each hidden dense layer, before its activation", flag())

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of this shape."""
        layer = normalized_dense if self.layer_norm else dense
        return make_network(self.network, shape, self.hidden, Style(self.activation, initializer, scale, layer))


def normalized_dense(units: int, name: str, activation: str, initializer: str, scale: float) -> Any:
    """Dense layer: ``activation(gamma (z - mean) / deviation + beta)``, mean and deviation of each row of outputs z.

    Source: Ba, Kiros and Hinton 2016, https://arxiv.org/abs/1607.06450, equation 4.
    """
    outputs = dense(units, "dense", "linear", initializer, scale)
    normalization = keras.layers.LayerNormalization(epsilon=1e-6, name="normalization")
    return keras.Sequential([outputs, normalization, keras.layers.Activation(activation)], name=name)
