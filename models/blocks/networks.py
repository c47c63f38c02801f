"""Networks with named heads, and the encoding of observations of any space into the tensors they take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from gymnasium import Space, spaces

from ...checks import choice
from ...errors import ArgumentError
from .params import Params, one_of, optional, param, sizes

Tensor: TypeAlias = Any

ACTIVATIONS = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "squareplus",
    "swish",
    "tanh",
)
"""Activations by Keras' names."""
INITIALIZERS = (
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "variance_scaling",
    "zeros",
)
"""Kernel initialisers by Keras' names; biases start at zero."""

DEFAULT_UNITS: dict[str, tuple[int, ...]] = {"mlp": (64, 64), "nature_cnn": (512,)}
"""Networks by name, and the default sizes of their dense layers."""
_NATURE_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel, stride
_NATURE_SMALLEST = 36  # pixels that leave one after the three convolutions


@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseParams(Params):
    """The parameters of dense layers."""

    hidden: Sequence[int] | None = param((64, 64), "sizes of the dense layers", sizes())
    activation: str = param("relu", "of every hidden layer", one_of(ACTIVATIONS, "an activation of Keras"))
    initializer: str = param("glorot_uniform", "of every kernel", one_of(INITIALIZERS, "an initializer of Keras"))

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of a shape."""
        return mlp(shape, self.hidden or (), self.activation, initializer, scale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkParams(DenseParams):
    """The parameters of a network from observations."""

    hidden: Sequence[int] | None = param(
        None, "sizes of the dense layers; `null`: `[64, 64]` for mlp, `[512]` for nature_cnn", optional(sizes())
    )
    network: str = param(
        "mlp", "`nature_cnn` is for frames [height, width, channels] of at least 36 x 36", one_of(DEFAULT_UNITS)
    )

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of a shape."""
        return make_network(self.network, shape, self.hidden, self.activation, initializer, scale)


class Network:
    """Hidden layers (the body) and linear heads by name. All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        shape: of one input, without the batch axis.
        heads: name to number of outputs, in the order of creation.
        params: which layers.
        zeros: kernels start at zero, for a network that becomes a copy of another one.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernels of the heads.
        body: the body of another network, to share it.

    Raises:
        ValueError: the layers do not fit the shape.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        heads: Mapping[str, int],
        params: DenseParams,
        *,
        zeros: bool = False,
        scale: float = 1.0,
        head_scale: float = 1.0,
        body: Any = None,
    ) -> None:
        initializer = "zeros" if zeros else params.initializer
        with keras.name_scope(name):
            self.body = params.body(shape, initializer, scale) if body is None else body
            width = self.body.output_shape[-1]
            self._heads = {head: linear(width, size, head, initializer, head_scale) for head, size in heads.items()}

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation; a shared body counts."""
        return [variable for part in (self.body, *self._heads.values()) for variable in part.trainable_variables]

    def heads(self, hidden: Tensor) -> dict[str, Tensor]:
        """The outputs by head, float32 [B, size] each, from the output of the body, float32 [B, width]."""
        return {name: head(hidden) for name, head in self._heads.items()}

    def __call__(self, inputs: Tensor) -> dict[str, Tensor]:
        """The outputs by head, float32 [B, size] each, from inputs float32 [B, *shape]."""
        return self.heads(self.body(inputs))


def mlp(
    shape: Sequence[int],
    units: Sequence[int],
    activation: str = "relu",
    initializer: str = "glorot_uniform",
    scale: float = 1.0,
) -> Any:
    """Dense layers, one after another; inputs of more than one axis are flattened first.

    Args:
        shape: of one input, without the batch axis.
        units: sizes of the layers; without any, the output is the flat input.
        activation: one of :data:`ACTIVATIONS`, after every layer.
        initializer: one of :data:`INITIALIZERS`.
        scale: what the kernels' initial values are multiplied by.

    Returns:
        a built ``keras.Sequential``, float32 [B, *shape] to [B, units[-1]].

    Raises:
        ValueError: a name is unknown; names the nearest.
    """
    layers = [keras.Input(tuple(shape))]
    if len(shape) != 1 or not units:  # a Sequential must have a layer
        layers.append(keras.layers.Flatten())
    return keras.Sequential([*layers, *_dense(units, activation, initializer, scale)], name="mlp")


def nature_cnn(
    shape: Sequence[int],
    units: Sequence[int],
    activation: str = "relu",
    initializer: str = "glorot_uniform",
    scale: float = 1.0,
) -> Any:
    """Three convolutions and dense layers, for stacked frames.

    Source: Mnih et al. 2015, https://doi.org/10.1038/nature14236, Methods, "Model architecture".

    Args:
        shape: height, width and channels of one input, at least 36 x 36.
        units: sizes of the dense layers; the paper's is (512,).
        activation: one of :data:`ACTIVATIONS`, after every layer.
        initializer: one of :data:`INITIALIZERS`.
        scale: what the kernels' initial values are multiplied by.

    Returns:
        a built ``keras.Sequential``, float32 [B, *shape] to [B, units[-1]].

    Raises:
        ValueError: the shape does not fit, or a name is unknown.
    """
    if len(shape) != 3 or min(shape[:2]) < _NATURE_SMALLEST:
        raise ValueError(
            f"nature_cnn needs frames of shape [height, width, channels] with at least {_NATURE_SMALLEST} x"
            f" {_NATURE_SMALLEST} pixels, got {list(shape)}; network 'mlp' takes any shape"
        )
    function = _activation(activation)
    convolutions = [
        keras.layers.Conv2D(
            filters,
            size,
            strides=stride,
            activation=function,
            kernel_initializer=_kernel(initializer, scale),
            data_format="channels_last",
            name=f"convolution{index}",
        )
        for index, (filters, size, stride) in enumerate(_NATURE_CONVOLUTIONS, start=1)
    ]
    flatten = keras.layers.Flatten(data_format="channels_last")
    dense = _dense(units, activation, initializer, scale)
    return keras.Sequential([keras.Input(tuple(shape)), *convolutions, flatten, *dense], name="nature_cnn")


def make_network(
    name: str,
    shape: Sequence[int],
    units: Sequence[int] | None,
    activation: str,
    initializer: str,
    scale: float = 1.0,
) -> Any:
    """A body by name, ``"mlp"`` or ``"nature_cnn"``; ``units=None`` means its :data:`DEFAULT_UNITS`.

    Raises:
        ValueError: a name is unknown, or the shape does not fit.
    """
    network = {"mlp": mlp, "nature_cnn": nature_cnn}[choice("network", name, DEFAULT_UNITS)]
    return network(shape, DEFAULT_UNITS[name] if units is None else units, activation, initializer, scale)


def linear(inputs: int, outputs: int, name: str, initializer: str = "glorot_uniform", scale: float = 1.0) -> Any:
    """A built dense layer without activation, float32 [B, inputs] to [B, outputs]: the head of a network."""
    layer = keras.layers.Dense(outputs, kernel_initializer=_kernel(initializer, scale), name=name)
    layer.build((None, inputs))
    return layer


def encoded_shape(space: Space[Any] | None) -> tuple[int, ...]:
    """The shape, without the batch axis, of encoded observations of a space.

    Raises:
        ArgumentError: observations of this space cannot be encoded.
    """
    match space:
        case spaces.Box() | spaces.MultiBinary():
            return tuple(space.shape)
        case spaces.Discrete():
            return (int(space.n),)
        case spaces.MultiDiscrete():
            return (int(np.sum(space.nvec)),)
        case spaces.Dict() | spaces.Tuple():
            return (sum(math.prod(encoded_shape(part)) for _, part in _parts(space)),)
    raise ArgumentError(
        "a built-in network needs Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations, got"
        f" {space!r}",
        "observation_space",
        space,
    )


def encode(observation: Any, space: Space[Any] | None) -> Tensor:
    """Observations as the float32 tensor that a network takes.

    Bytes (uint8 frames) are scaled to 0 .. 1; discrete values become one-hot; the parts of a Dict are flattened and
    concatenated in the order of their sorted keys, those of a Tuple in their order.

    Args:
        observation: tensor [B, ...], or for a Dict or a Tuple space a mapping of such, with the keys of spaces within
            one another joined by ``/``.
        space: one environment's observation space.

    Returns:
        float32 [B, *encoded_shape(space)].

    Raises:
        ArgumentError: observations of this space cannot be encoded.
    """
    match space:
        case spaces.Dict() | spaces.Tuple():
            parts = [encode(part_of(observation, key), part) for key, part in _parts(space)]
            return tf.concat([tf.reshape(part, [-1, math.prod(part.shape[1:])]) for part in parts], axis=-1)
        case spaces.Discrete():
            return tf.one_hot(observation - int(space.start), int(space.n), dtype=tf.float32)
        case spaces.MultiDiscrete():
            indices = tf.reshape(tf.cast(observation, tf.int32) - space.start.astype(np.int32), [-1, space.nvec.size])
            one_hots = [tf.one_hot(indices[:, i], int(n), dtype=tf.float32) for i, n in enumerate(space.nvec.flat)]
            return tf.concat(one_hots, axis=-1)
    encoded_shape(space)  # raises for every other space
    values = tf.cast(observation, tf.float32)
    return values / 255.0 if observation.dtype == tf.uint8 else values


def part_of(observation: Mapping[str, Any], key: str) -> Any:
    """A part of an observation; where that has parts of its own, those, which are ``key/name`` in ``observation``."""
    if key in observation:
        return observation[key]
    start = f"{key}/"
    return {name.removeprefix(start): value for name, value in observation.items() if name.startswith(start)}


def _parts(space: spaces.Dict | spaces.Tuple[Any]) -> list[tuple[str, Space[Any]]]:
    if isinstance(space, spaces.Dict):
        return sorted(space.spaces.items())
    return [(str(index), part) for index, part in enumerate(space.spaces)]


def _dense(units: Sequence[int], activation: str, initializer: str, scale: float) -> list[Any]:
    function = _activation(activation)
    return [
        keras.layers.Dense(
            size, activation=function, kernel_initializer=_kernel(initializer, scale), name=f"dense{index}"
        )
        for index, size in enumerate(units, start=1)
    ]


def _kernel(initializer: str, scale: float) -> Any:
    """A kernel's initialiser, new for each layer: a shared one would make kernels of equal shapes equal."""
    name = choice("initializer", initializer, INITIALIZERS)
    return name if scale == 1.0 else _Scaled(keras.initializers.get(name), scale)


class _Scaled(keras.initializers.Initializer):  # type: ignore[misc] # Keras has no types
    """Another initialiser's values, multiplied."""

    def __init__(self, initializer: Any, scale: float) -> None:
        self._initializer, self._scale = initializer, scale

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return self._scale * self._initializer(shape, dtype=dtype)


def _activation(name: str) -> str:
    return choice("activation", name, ACTIVATIONS)
