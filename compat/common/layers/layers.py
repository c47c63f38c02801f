"""The layers of networks, except recurrent ones (``internal.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import keras
import tensorflow as tf

from ..refusals import refuse
from ..value_specs import ValueSpec
from .layer import ACTIVATIONS, Layer, Step, Tensor, Transform, apply_dropout, project

Function: TypeAlias = Callable[[Tensor, Step], Tensor]
_REDUCTIONS: Final = {"max": tf.reduce_max, "mean": tf.reduce_mean, "product": tf.reduce_prod, "sum": tf.reduce_sum}


class Linear(Transform):
    """Linear in the last axis, for inputs with up to three axes; ``ends`` are arguments of :class:`Transform`."""

    RANKS: tuple[int, ...] = (1, 2, 3)

    def __init__(self, place: str, inputs: ValueSpec, size: int, **ends: Any) -> None:
        super().__init__(place, inputs, size, **ends)
        *axes, features = self.require(*self.RANKS)
        self._kernel = self.kernel(features, self.units)
        self.ends(*axes)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        return self.finish(project(x, self._kernel), step)


class Dense(Linear):
    """A fully connected layer for vectors."""

    ACTIVATION = "tanh"
    RANKS = (1,)


class Embedding(Transform):
    """Embedding: a trained vector for each value of bools or ints."""

    ACTIVATION = "tanh"

    def __init__(
        self,
        place: str,
        inputs: ValueSpec,
        size: int,
        num_embeddings: int | None = None,
        max_norm: float | None = None,
        **ends: Any,
    ) -> None:
        super().__init__(place, inputs, size, **ends)
        if inputs.type == "float":
            refuse(place, "takes bools or ints, but gets floats: use a layer dense or linear", inputs.type)
        values = 2 if inputs.type == "bool" else inputs.num_values
        self._count, self._max_norm = num_embeddings or values or 0, max_norm
        if self._count < (values or 1):
            problem = f"must be the number of values, at least {values or 1}; got {num_embeddings}"
            refuse(f"{place}: num_embeddings", problem, num_embeddings)
        stddev = min(0.1, math.sqrt(2.0 / (self._count + self.units)))
        initial = keras.initializers.TruncatedNormal(stddev=stddev)
        self._kernel = self.variable("kernel", (self._count, self.units), initial)
        self.ends(*inputs.shape)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        kernel = tf.convert_to_tensor(self._kernel)
        if self._max_norm is not None:
            squares = tf.reduce_sum(tf.square(kernel), axis=-1, keepdims=True)
            kernel *= tf.minimum(1.0, self._max_norm * tf.math.rsqrt(tf.maximum(squares, 1e-12)))
        # A matrix product instead of a look-up: its gradient is a product too, which converts to LiteRT.
        chosen = tf.one_hot(tf.cast(x, tf.int32), self._count, dtype=tf.float32)
        return self.finish(project(chosen, kernel), step)


class Convolution(Transform):
    """A convolution over all axes but the last, which holds the channels."""

    ACTIVATION = "relu"
    AXES = 1

    def __init__(
        self,
        place: str,
        inputs: ValueSpec,
        size: int,
        window: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: str = "same",
        dilation: int | Sequence[int] = 1,
        **ends: Any,
    ) -> None:
        super().__init__(place, inputs, size, **ends)
        *axes, channels = self.require(self.AXES + 1)
        windows, self._strides, self._dilations = (_each(self.AXES, one) for one in (window, stride, dilation))
        if max(self._strides) > 1 and max(self._dilations) > 1:
            refuse(f"{place}: dilation", f"must be 1 if the stride is not 1, got {dilation!r}", dilation)
        spans = [(one - 1) * holes + 1 for one, holes in zip(windows, self._dilations, strict=True)]
        self._padding = padding.upper()
        self._kernel = self.kernel(*windows, channels, self.units)
        self.ends(*_sizes_after_windows(place, axes, spans, self._strides, padding))

    def _call(self, x: Tensor, step: Step) -> Tensor:
        kernel = tf.convert_to_tensor(self._kernel)
        x = tf.nn.convolution(x, kernel, self._strides, self._padding, dilations=self._dilations)
        return self.finish(x, step)


class Convolution2d(Convolution):
    """A convolution over two axes."""

    AXES = 2


class WindowPooling(Layer):
    """Pooling: the mean or maximum of windows over all axes but the last."""

    AXES = 1

    def __init__(
        self,
        place: str,
        inputs: ValueSpec,
        reduction: str,
        window: int | Sequence[int] = 2,
        stride: int | Sequence[int] = 2,
        padding: str = "same",
    ) -> None:
        super().__init__(place, inputs)
        *axes, channels = self.require(self.AXES + 1)
        self._windows, self._strides = _each(self.AXES, window), _each(self.AXES, stride)
        self._kind, self._padding = {"average": "AVG", "max": "MAX"}[reduction], padding.upper()
        self.returns(*_sizes_after_windows(place, axes, self._windows, self._strides, padding), channels)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        return tf.nn.pool(x, self._windows, self._kind, strides=self._strides, padding=self._padding)


class WindowPooling2d(WindowPooling):
    """Pooling over two axes."""

    AXES = 2


class Plain(Layer):
    """A layer without variables.

    Args:
        place: prefix of messages.
        inputs: spec of its inputs.
        make: sets the layer's output spec and returns its function of tensors and :class:`Call`.
        arguments: arguments of ``make``.
    """

    def __init__(self, place: str, inputs: ValueSpec, make: Callable[..., Function], **arguments: Any) -> None:
        super().__init__(place, inputs)
        self._function = make(self, **arguments)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        return self._function(x, step)


def pooling(layer: Layer, reduction: str) -> Function:
    """Reduce all axes but the last, or join them with it."""
    *axes, last = layer.require(1, 2, 3, 4, 5)
    reduce, over = _REDUCTIONS.get(reduction), list(range(1, len(axes) + 1))
    if reduce is None:
        return reshape(layer, math.prod(layer.inputs.shape))
    layer.returns(last)
    return lambda x, _: reduce(x, axis=over) if over else x


def reshape(layer: Layer, shape: int | Sequence[int]) -> Function:
    """The same numbers in another shape."""
    sizes, inputs = (shape,) if isinstance(shape, int) else tuple(shape), layer.inputs
    if math.prod(sizes) != math.prod(inputs.shape):
        refuse(f"{layer.place}: shape", f"must hold what {inputs.shape} holds, got {sizes}", shape)
    layer.output = ValueSpec("", inputs.type, sizes, inputs.num_values)
    return lambda x, _: tf.reshape(x, [-1, *sizes])


def flatten(layer: Layer) -> Function:
    """All numbers as one vector; a single number becomes a vector of one."""
    return reshape(layer, math.prod(layer.inputs.shape))


def activation(layer: Layer, nonlinearity: str) -> Function:
    """A nonlinearity."""
    function = ACTIVATIONS[nonlinearity]
    # Over the last axis, which must not be the batch's.
    shape = layer.require(*range(nonlinearity in ("crelu", "softmax"), 6))
    layer.returns(*shape[:-1], 2 * shape[-1]) if nonlinearity == "crelu" else layer.returns(*shape)
    return lambda x, _: function(x)


def dropout(layer: Layer, rate: float) -> Function:
    """Dropout: in training, zero values with a probability."""
    layer.returns(*layer.require(*range(6)))
    return lambda x, step: apply_dropout(x, rate, step)


def _each(axes: int, value: int | Sequence[int]) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _sizes_after_windows(
    place: str, axes: Sequence[int], windows: Sequence[int], strides: Sequence[int], padding: str
) -> list[int]:
    """Output sizes of the axes over which windows move."""
    if padding == "valid":
        axes = [size - window + 1 for size, window in zip(axes, windows, strict=True)]
    if min(axes) < 1:
        refuse(f"{place}: window", "is larger than the inputs: use padding 'same' or a smaller window", list(windows))
    return [math.ceil(size / stride) for size, stride in zip(axes, strides, strict=True)]
