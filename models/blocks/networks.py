"""Networks with named heads: dense layers, or convolutions for images, noisy or not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...core.checks import choice
from ...core.errors import ArgumentError
from ...core.initializers import LAWS, Initializer
from ...core.tensorflow_import import keras
from .input_tensors import JoinedShape
from .params import Params, one_of, optional, param, sizes

Tensor: TypeAlias = Any
Layer: TypeAlias = Callable[[int, str, str, str, float], Any]
"""Makes a dense layer from size, name, activation, initialiser and its factor, like :func:`dense`."""

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
INITIALIZERS = LAWS
"""Kernel initialisers by Keras' names; biases start at zero."""

DEFAULT_UNITS: dict[str, tuple[int, ...]] = {"mlp": (64, 64), "nature_cnn": (512,), "minatar_cnn": (128,)}
"""Networks by name, and the default sizes of their dense layers."""
_CONVOLUTIONS = {"nature_cnn": ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "minatar_cnn": ((16, 3, 1),)}
"""Filters, kernel and stride of each convolution."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseParams(Params):
    """The parameters of dense layers."""

    hidden: Sequence[int] | None = param((64, 64), "sizes of the dense layers", sizes())
    activation: str = param(
        "relu", "activation function of every hidden layer", one_of(ACTIVATIONS, "an activation of Keras")
    )
    initializer: str = param(
        "glorot_uniform", "initializer of every kernel", one_of(INITIALIZERS, "an initializer of Keras")
    )

    def layer(self, units: int, name: str, activation: str, initializer: str, scale: float) -> Any:
        """One dense layer, of the body or a head."""
        return dense(units, name, activation, initializer, scale)

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of this shape."""
        return mlp(shape, self.hidden or (), Style(self.activation, initializer, scale, self.layer))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkParams(DenseParams):
    """The parameters of a network over observations."""

    hidden: Sequence[int] | None = param(
        None,
        "sizes of the dense layers; `null`: `[64, 64]` for mlp, `[512]` for nature_cnn, `[128]` for minatar_cnn",
        optional(sizes()),
    )
    network: str = param(
        "mlp",
        "`nature_cnn` is for frames [height, width, channels] of at least 36 x 36, `minatar_cnn` for smaller ones; the"
        " other parts of a Dict are concatenated with their features",
        one_of(DEFAULT_UNITS),
    )

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of this shape."""
        style = Style(self.activation, initializer, scale, self.layer)
        return make_network(self.network, shape, self.hidden, style)


class Network:
    """Hidden layers (the body) and linear heads by name. All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        shape: shape of one input, without the batch axis.
        heads: name to number of outputs, in the order of creation.
        params: parameters of the layers.
        zeros: whether kernels start at zero, for a network that becomes a copy of another.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernels of the heads.
        body: the body of another network, to share it.

    Raises:
        ArgumentError: the layers do not fit the shape.
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
            self.width = int(self.body.output_shape[-1])
            self._heads = {
                head: _build_layer(params.layer(size, head, "linear", initializer, head_scale), self.width)
                for head, size in heads.items()
            }

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation, a shared body's included."""
        return [variable for part in (self.body, *self._heads.values()) for variable in part.trainable_variables]

    def hidden(self, inputs: Tensor, *, training: bool = False) -> Tensor:
        """The output of the body, float32 [B, width], for inputs float32 [B, *shape]."""
        return _call_layer(self.body, inputs, training)

    def heads(self, hidden: Tensor, *, training: bool = False) -> dict[str, Tensor]:
        """The outputs by head, float32 [B, size] each, from the output of the body, float32 [B, width]."""
        return {name: _call_layer(head, hidden, training) for name, head in self._heads.items()}

    def __call__(self, inputs: Tensor, *, training: bool = False) -> dict[str, Tensor]:
        """The outputs by head, float32 [B, size] each.

        Args:
            inputs: float32 [B, *shape].
            training: noisy layers draw new noise, and batch normalisation uses the statistics of these inputs and
                updates its running averages; otherwise noisy layers use their means, and batch normalisation its
                running averages.
        """
        return self.heads(self.hidden(inputs, training=training), training=training)


def dense(units: int, name: str, activation: str, initializer: str, scale: float) -> Any:
    """An unbuilt dense layer."""
    return keras.layers.Dense(
        units, activation=_activation(activation), kernel_initializer=_kernel(initializer, scale), name=name
    )


class Style(NamedTuple):
    """Activation and initial kernels of all layers of a network, by name."""

    activation: str = "relu"
    """One of :data:`ACTIVATIONS`, after every layer."""
    initializer: str = "glorot_uniform"
    """One of :data:`INITIALIZERS`."""
    scale: float = 1.0
    """Factor of the kernels' initial values."""
    layer: Layer = dense
    """Makes each dense layer."""

    def dense_layers(self, units: Sequence[int]) -> list[Any]:
        """Dense layers of these sizes, unbuilt."""
        _activation(self.activation)
        sizes = enumerate(units, start=1)
        return [self.layer(n, f"dense{i}", self.activation, self.initializer, self.scale) for i, n in sizes]

    def convolutions(self, name: str, prefix: str) -> list[Any]:
        """The convolutions of a network by name, and a layer that flattens their output."""
        made = [
            keras.layers.Conv2D(
                filters,
                size,
                strides=stride,
                activation=_activation(self.activation),
                kernel_initializer=_kernel(self.initializer, self.scale),
                data_format="channels_last",
                name=f"{prefix}convolution{index}",
            )
            for index, (filters, size, stride) in enumerate(_CONVOLUTIONS[name], start=1)
        ]
        return [*made, keras.layers.Flatten(data_format="channels_last")]


_USUAL = Style()


def mlp(shape: Sequence[int], units: Sequence[int], style: Style = _USUAL) -> Any:
    """Dense layers, one after another; inputs of more than one axis are flattened first.

    Args:
        shape: shape of one input, without the batch axis.
        units: sizes of the layers; without any, the output is the flat input.
        style: activation and initial kernels.

    Returns:
        a built ``keras.Sequential``, float32 [B, *shape] to [B, units[-1]].

    Raises:
        ArgumentError: a name is unknown; the message suggests the nearest.
    """
    layers = [keras.Input(tuple(shape))]
    if len(shape) != 1 or not units:  # a Sequential must have a layer
        layers.append(keras.layers.Flatten())
    return keras.Sequential([*layers, *style.dense_layers(units)], name="mlp")


def cnn(name: str, shape: Sequence[int], units: Sequence[int], style: Style = _USUAL) -> Any:
    """Convolutions and dense layers, for frames.

    In joined parts (a Dict of images and vectors) every image has its own convolutions; the dense layers take their
    features and the other parts together.

    Sources: ``"nature_cnn"``, of three convolutions, is Mnih et al. 2015, https://doi.org/10.1038/nature14236, Methods,
    "Model architecture"; ``"minatar_cnn"``, of one, Young and Tian 2019, https://arxiv.org/abs/1903.03176.

    Args:
        name: one of the two.
        shape: height, width and channels of one input, at least 36 x 36 or 3 x 3; or a
            :class:`.input_tensors.JoinedShape` with at least one such part.
        units: sizes of the dense layers; the papers' are (512,) and (128,).
        style: activation and initial kernels.

    Returns:
        a built Keras model, float32 [B, *shape] to [B, units[-1]].

    Raises:
        ArgumentError: the shape does not fit, or a name is unknown.
    """
    smallest = 1  # pixels along a side that the convolutions reduce to one
    for _, size, stride in reversed(_CONVOLUTIONS[name]):
        smallest = (smallest - 1) * stride + size

    def is_image(shape: Sequence[int]) -> bool:
        return len(shape) == 3 and min(shape[:2]) >= smallest

    parts: Sequence[Sequence[int]] = shape.parts if isinstance(shape, JoinedShape) else (shape,)
    if not any(map(is_image, parts)):
        given = [list(part) for part in parts] if isinstance(shape, JoinedShape) else list(shape)
        raise ArgumentError(
            f"{name} needs frames of shape [height, width, channels] with at least {smallest} x {smallest} pixels, got"
            f" {given}; network 'mlp' takes any shape",
            "network",
            name,
        )
    last = style.dense_layers(units)
    if not isinstance(shape, JoinedShape):
        return keras.Sequential([keras.Input(tuple(shape)), *style.convolutions(name, ""), *last], name=name)
    inputs = keras.Input(tuple(shape))
    features, begin = [], 0
    for index, part in enumerate(parts, start=1):
        size = math.prod(part)
        values = inputs[:, begin : begin + size]
        begin += size
        if is_image(part):
            values = keras.layers.Reshape(tuple(part))(values)
            for one in style.convolutions(name, f"part{index}_"):
                values = one(values)
        features.append(values)
    outputs = keras.ops.concatenate(features, axis=-1)
    for one in last:
        outputs = one(outputs)
    return keras.Model(inputs, outputs, name=name)


def make_network(name: str, shape: Sequence[int], units: Sequence[int] | None, style: Style) -> Any:
    """The body of a name in :data:`DEFAULT_UNITS`, with the sizes given there if ``units`` is None.

    Raises:
        ArgumentError: a name is unknown, or the shape does not fit.
    """
    usual = DEFAULT_UNITS[choice("network", name, DEFAULT_UNITS)]
    units = usual if units is None else units
    return mlp(shape, units, style) if name == "mlp" else cnn(name, shape, units, style)


def _build_layer(layer: Any, inputs: int) -> Any:
    layer.build((None, inputs))
    return layer


def _call_layer(layer: Any, inputs: Tensor, training: bool) -> Tensor:
    return layer(inputs, training=True) if training else layer(inputs)


def _kernel(initializer: str, scale: float) -> Initializer:
    return Initializer(choice("initializer", initializer, INITIALIZERS), scale)


def _activation(name: str) -> str:
    return choice("activation", name, ACTIVATIONS)
