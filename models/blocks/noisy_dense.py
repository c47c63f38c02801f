"""A dense layer with noise in its weights."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from ... import noise
from ...core.initializers import UNIFORM, Initializer

Tensor: TypeAlias = Any


class NoisyDense(keras.layers.Layer):  # type: ignore[misc] # Keras has no types
    """``activation(x (W + S * E) + b + s * e)`` with factorised Gaussian noise E and e in training, else without.

    A call with ``training=True`` draws noise for the whole batch: E_ij = f(u_i) f(v_j) and e_j = f(v_j), with
    f(x) = sgn(x) sqrt(abs(x)) and u, v standard normal. Initially W and b are uniform within 1 / sqrt(inputs), and S
    and s are ``sigma`` / sqrt(inputs).

    Source: Fortunato et al. 2018, https://arxiv.org/abs/1706.10295, equations 9 to 11 and section 3.2.

    Args:
        units: outputs.
        activation: Keras' name of an activation.
        sigma: initial size of the noise; 0 makes W, b, S and s zero, for a network that becomes a copy.
        name: name of the layer.
    """

    def __init__(self, units: int, *, activation: str = "linear", sigma: float = 0.5, name: str | None = None) -> None:
        super().__init__(name=name)
        self.units, self.sigma = units, sigma
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: Any) -> None:
        """Create the variables."""
        inputs = int(input_shape[-1])
        bound = 1 / math.sqrt(inputs) if self.sigma else 0.0
        shapes = (("kernel", "kernel_sigma", (inputs, self.units)), ("bias", "bias_sigma", (self.units,)))
        for name, name_of_scale, shape in shapes:
            mean = Initializer(UNIFORM, bound) if self.sigma else "zeros"
            scale = keras.initializers.Constant(self.sigma * bound)
            setattr(self, name, self.add_weight(shape=shape, initializer=mean, name=name))
            setattr(self, name_of_scale, self.add_weight(shape=shape, initializer=scale, name=name_of_scale))
        self._inputs = inputs

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Outputs float32 [B, units] of inputs float32 [B, inputs]."""
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        if training:
            drawn = noise.normal([self._inputs + self.units])
            scaled = tf.sign(drawn) * tf.sqrt(tf.abs(drawn))
            rows, columns = scaled[: self._inputs], scaled[self._inputs :]
            kernel += self.kernel_sigma * (rows[:, tf.newaxis] * columns)
            bias += self.bias_sigma * columns
        return self.activation(tf.matmul(inputs, kernel) + bias)
