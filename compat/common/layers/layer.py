"""Common parts of network layers: variables, initial values, activations, dropout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from .... import noise
from ....core.checks import all_finite, shortened
from ....core.protocols import Array
from ..refusals import refuse
from ..value_specs import ValueSpec

Tensor: TypeAlias = Any
Initial: TypeAlias = "Callable[..., Any] | Array | float | None"
"""Initial values of a variable: a Keras initializer, an array of its shape, or a number; None: the layer's own."""


def _crelu(x: Tensor) -> Tensor:
    return tf.concat([tf.nn.relu(x), tf.nn.relu(-x)], axis=-1)


ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "crelu": _crelu,
    "elu": tf.nn.elu,
    "leaky-relu": lambda x: tf.nn.leaky_relu(x, alpha=0.2),
    "none": lambda x: x,
    "relu": tf.nn.relu,
    "selu": tf.nn.selu,
    "sigmoid": tf.sigmoid,
    "softmax": tf.nn.softmax,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "swish": lambda x: x * tf.sigmoid(x),  # the custom gradient of TensorFlow's own does not convert to LiteRT
    "tanh": tf.tanh,
}
"""Activations by name; ``crelu`` doubles the last axis."""


@dataclasses.dataclass(frozen=True)
class Step:
    """How layers are called.

    Args:
        training: apply dropout and update statistics?
        valid: float32 [N], 1 for the rows that statistics use; None: all.
    """

    training: bool
    valid: Tensor | None = None


class Layer:
    """A layer. Its constructor creates all its variables, in the current name scope.

    Args:
        place: prefix of messages.
        inputs: spec of its inputs; bools are passed as float32 0 or 1.
        is_trainable: are its variables trained?
    """

    def __init__(self, place: str, inputs: ValueSpec, *, is_trainable: bool = True) -> None:
        self.place, self.inputs = place, inputs
        self.output = inputs
        """Spec of its outputs; subclasses set it."""
        self.variables: list[Any] = []
        """Trained variables in the order of creation."""
        self.untrained: list[Any] = []
        """Other variables in the order of creation."""
        self._is_trainable = is_trainable

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """The outputs [N, *output.shape] of inputs [N, *inputs.shape]."""
        return self._call(x, step)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        raise NotImplementedError

    def variable(self, name: str, shape: Sequence[int], initializer: Any, *, trained: bool = True) -> Any:
        """A new variable, float32."""
        trained = trained and self._is_trainable
        made = keras.Variable(initializer, shape=tuple(shape), dtype="float32", trainable=trained, name=name)
        (self.variables if trained else self.untrained).append(made)
        return made

    def require(self, *ranks: int) -> tuple[int, ...]:
        """The shape of the inputs, which must be floats (or bools) with an allowed number of axes."""
        shape = self.inputs.shape
        if self.inputs.type == "int":
            refuse(self.place, "takes floats, but gets ints: add a layer embedding before it", self.inputs.type)
        if len(shape) not in ranks:
            wanted = " or ".join(map(str, ranks))
            advice = ": add a layer flatten, pooling or reshape before it"
            refuse(self.place, f"takes inputs with {wanted} axes, but gets the shape {shape}{advice}", shape)
        return shape

    def returns(self, *shape: int, type_: str = "float") -> None:
        """Set the output."""
        self.output = ValueSpec("", type_, shape)


class Transform(Layer):
    """A layer that ends with a bias, an activation and dropout; size 0 means one unit, whose axis is dropped.

    Args:
        place: prefix of messages.
        inputs: spec of its inputs.
        size: size of the last axis.
        bias: add a bias? None: the class's ``BIAS``.
        activation: a name of :data:`ACTIVATIONS`; None is ``none``; default: the class's ``ACTIVATION``.
        dropout: probability that an output is set to zero in training.
        is_trainable: are its variables trained?
        kernel_initializer: initial values of the kernel that :meth:`kernel` creates; None: orthogonal.
        bias_initializer: initial values of the bias; None: zeros.
    """

    BIAS = True
    ACTIVATION = "none"

    def __init__(
        self,
        place: str,
        inputs: ValueSpec,
        size: int,
        *,
        bias: bool | None = None,
        activation: str | None = "",
        dropout: float = 0.0,
        is_trainable: bool = True,
        kernel_initializer: Initial = None,
        bias_initializer: Initial = None,
    ) -> None:
        super().__init__(place, inputs, is_trainable=is_trainable)
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer
        self.size, self.units = size, max(size, 1)
        self._activation = self.ACTIVATION if activation == "" else activation or "none"
        self._has_bias, self._rate = self.BIAS if bias is None else bias, dropout
        self._bias: Any = None
        if size == 0 and self._activation == "crelu":
            refuse(f"{place}: activation", "crelu doubles the last axis, which size 0 drops", activation)

    def kernel(self, *shape: int) -> Any:
        """Create the kernel."""
        orthogonal = keras.initializers.Orthogonal(gain=math.sqrt(2.0) if self._activation == "relu" else 1.0)
        argument = f"{self.place}: kernel_initializer"
        return self.variable("kernel", shape, initializer(argument, self._kernel_initializer, shape, orthogonal))

    def ends(self, *shape: int, bias: str = "bias") -> None:
        """Create the bias under this name, and set the output spec to ``shape`` plus the units."""
        if self._has_bias:
            one, argument = (self.units,), f"{self.place}: bias_initializer"
            self._bias = self.variable(bias, one, initializer(argument, self._bias_initializer, one, "zeros"))
        units = self.units * 2 if self._activation == "crelu" else self.units
        self.returns(*shape, *([] if self.size == 0 else [units]))

    def finish(self, x: Tensor, step: Step) -> Tensor:
        """Apply bias, activation and dropout to values [N, ..., units]."""
        if self._bias is not None:
            x = x + self._bias
        x = ACTIVATIONS[self._activation](x)
        return apply_dropout(tf.squeeze(x, axis=-1) if self.size == 0 else x, self._rate, step)


def apply_dropout(x: Tensor, rate: float, step: Step) -> Tensor:
    """Apply dropout in training, where the shape must be static: zero values at ``rate``, enlarge the others."""
    if not step.training or rate == 0.0:
        return x
    return x * tf.cast(noise.uniform(x.shape) >= rate, tf.float32) / (1.0 - rate)


def initializer(argument: str, given: Initial, shape: tuple[int, ...], default: Any) -> Any:
    """Initializer of a variable of this shape; ``default`` if none is given.

    Raises:
        ArgumentError: an array has another shape, or values that are not finite numbers.
    """
    if given is None or callable(given):
        return default if given is None else given
    try:
        values = np.asarray(given)
    except ValueError:  # lists of different lengths
        values = np.asarray(None)
    if values.dtype.kind not in "iuf" or not all_finite(values.astype(np.float32)):
        refuse(argument, f"must be finite numbers, got {shortened(given)}", given)
    if values.shape not in ((), shape):
        refuse(argument, f"must be a number or of shape {shape}, got an array of shape {values.shape}", given)
    return lambda wanted, dtype=None: tf.broadcast_to(tf.constant(values, tf.float32), wanted)


def project(x: Tensor, kernel: Any) -> Tensor:
    """The product of the last axis [N, ..., F] with a kernel [F, U]: [N, ..., U]."""
    kernel = tf.convert_to_tensor(kernel)
    if x.shape.rank == 2:
        return tf.matmul(x, kernel)
    flat = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel)
    return tf.reshape(flat, [-1, *x.shape[1:-1], kernel.shape[-1]])
