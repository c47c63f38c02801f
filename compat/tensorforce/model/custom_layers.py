"""Layers by their names in specifications, including custom ones and normalisations, and joins of tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ....core.checks import did_you_mean
from ....core.protocols import Array
from ....core.spread import varies
from ...common.layers import internal, layers
from ...common.layers.layer import Layer, Step, Tensor
from ...common.value_specs import ValueSpec
from ..spaces.errors import TensorforceError, refuse

_EPSILON = 1e-6  # added to variances


class Function(Layer):
    """A function of tensors [N, *shape], without variables."""

    def __init__(
        self,
        place: str,
        inputs: ValueSpec,
        function: Callable[[Tensor], Tensor],
        output_spec: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(place, inputs)
        self._function = function
        given = tf.TensorSpec([None, *inputs.shape], _dtype(inputs))
        try:
            traced = tf.function(self._apply, autograph=False).get_concrete_function(given)
            result = traced.structured_outputs
        except Exception as error:
            raise _failure(f"{place}: function", given, error) from error
        if traced.variables:
            refuse(f"{place}: function", "uses variables: use a keras layer to create them", function)
        sizes = None if result.shape.rank is None else result.shape.as_list()
        self.output = _output(f"{place}: function", sizes, result.dtype)
        wanted, made = output_spec or {}, self.output
        shape = wanted.get("shape", made.shape)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.output = ValueSpec("", wanted.get("type", made.type), shape, wanted.get("num_values"))
        if (self.output.shape, self.output.type) != (made.shape, made.type):
            problem = f"is {dict(wanted)}, but the function returns {made.type} {made.shape}"
            refuse(f"{place}: output_spec", problem, wanted)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        return _to_network_dtype(self._apply(x))

    def _apply(self, x: Tensor) -> Tensor:
        return tf.convert_to_tensor(self._function(x))


class Keras(Layer):
    """A Keras layer: the name of one, or a subclass, with its arguments.

    An object is copied, because a network is built at each trace; weights of a built layer become initial weights.
    """

    def __init__(self, place: str, inputs: ValueSpec, layer: Any, name: str = "keras", **arguments: Any) -> None:
        super().__init__(place, inputs)
        given = keras.KerasTensor((None, *inputs.shape), dtype=_dtype(inputs).name)
        is_built = isinstance(layer, keras.layers.Layer) and layer.built
        weights = [np.asarray(one) for one in layer.weights] if is_built else []  # in creation order
        try:
            with tf.variable_creator_scope(functools.partial(_create_variable, weights)):
                self._layer = _keras_layer(f"{place}: layer", layer, arguments)
                self._layer.name = name
                result = self._layer(given)
        except TensorforceError:
            raise
        except Exception as error:
            raise _failure(f"{place}: layer", given, error) from error
        if weights:
            problem = f"is built, and {len(weights)} of its weights cannot be copied: give an unbuilt one, or its class"
            refuse(f"{place}: layer", problem, layer)
        if not hasattr(result, "shape"):
            refuse(f"{place}: layer", f"must return one tensor, returns {result!r}", layer)
        self.output = _output(f"{place}: layer", result.shape, tf.as_dtype(result.dtype))
        self.variables = list(self._layer.trainable_variables)
        self.untrained = list(self._layer.non_trainable_variables)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        return _to_network_dtype(self._layer(x, training=step.training))


def instance_normalization(layer: Layer, axes: Sequence[int] | int | None = None) -> layers.Function:
    """Normalise values by mean and standard deviation over axes of each row (default: all)."""
    shape = layer.require(*range(1, 6))
    over = _axes(f"{layer.place}: axes", axes, len(shape), range(len(shape)))
    layer.returns(*shape)

    def normalized(x: Tensor, _: Step) -> Tensor:
        mean = tf.reduce_mean(x, axis=over, keepdims=True)
        return _normalize(x, mean, tf.reduce_mean(tf.square(x - mean), axis=over, keepdims=True))

    return normalized


class ExponentialNormalization(Layer):
    """Normalise values by moving mean and standard deviation over the batch and axes (default: all but the last).

    Both are updated in training, before use; the first update sets them.
    """

    def __init__(
        self, place: str, inputs: ValueSpec, decay: float = 0.999, axes: Sequence[int] | int | None = None
    ) -> None:
        super().__init__(place, inputs)
        shape = self.require(*range(6))
        self._decay = decay
        self._axes = [0, *_axes(f"{place}: axes", axes, len(shape), range(len(shape) - 1))]
        kept = [1 if axis in self._axes else size for axis, size in enumerate(shape, start=1)]
        self._mean = self.variable("mean", (1, *kept), "zeros", trained=False)
        self._variance = self.variable("variance", (1, *kept), "ones", trained=False)
        self._updated = self.variable("updated", (), "zeros", trained=False)
        self.returns(*shape)

    def _call(self, x: Tensor, step: Step) -> Tensor:
        if step.training:
            self._update(tf.stop_gradient(x), step.valid)
        return _normalize(x, tf.convert_to_tensor(self._mean), tf.convert_to_tensor(self._variance))

    def _update(self, x: Tensor, valid: Tensor | None) -> None:
        weight = tf.ones_like(x)
        if valid is not None:
            weight *= tf.reshape(valid, [-1] + [1] * len(self.inputs.shape))
        count = tf.maximum(tf.reduce_sum(weight, axis=self._axes, keepdims=True), 1.0)
        mean = tf.reduce_sum(weight * x, axis=self._axes, keepdims=True) / count
        variance = tf.reduce_sum(weight * tf.square(x - mean), axis=self._axes, keepdims=True) / count
        decay = self._decay * tf.convert_to_tensor(self._updated)
        self._mean.assign(mean + decay * (self._mean - mean))
        self._variance.assign(variance + decay * (self._variance - variance))
        self._updated.assign(tf.ones([]))


def _keras_layer(argument: str, layer: Any, arguments: Mapping[str, Any]) -> Any:
    """A new Keras layer, not built."""
    if isinstance(layer, str):
        names = [name for name, value in vars(keras.layers).items() if _is_layer(value)]
        if layer not in names:
            refuse(argument, f"must be a layer of Keras, got {layer!r}{did_you_mean(layer, names)}", layer)
        layer = getattr(keras.layers, layer)
    if isinstance(layer, keras.layers.Layer):
        return type(layer).from_config({**layer.get_config(), **arguments})
    if not _is_layer(layer):
        refuse(argument, f"must be a name or a subclass of keras.layers.Layer, got {layer!r}", layer)
    return layer(**arguments)


def _create_variable(weights: list[Array], make: Callable[..., Any], **kwargs: Any) -> Any:
    """Create a variable; the first of the weights, if of its shape and dtype, is removed and used as initial value."""
    if not weights:
        return make(**kwargs)
    given = kwargs["initial_value"]
    value = given() if callable(given) else given
    if tuple(value.shape) == weights[0].shape and tf.as_dtype(value.dtype) == weights[0].dtype:
        kwargs["initial_value"] = tf.constant(weights.pop(0))
    return make(**kwargs)


def _is_layer(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, keras.layers.Layer)


def _dtype(spec: ValueSpec) -> Any:
    return tf.int32 if spec.type == "int" else tf.float32


def _output(argument: str, shape: Sequence[int | None] | None, dtype: Any) -> ValueSpec:
    """The spec of the output of a user's layer."""
    sizes = [size for size in (shape or ())[1:] if size is not None]
    if not shape or len(sizes) != len(shape) - 1:
        refuse(argument, f"must return a tensor [batch, ...] whose other axes are known, returns {shape}", shape)
    type_ = "bool" if dtype == tf.bool else "int" if dtype.is_integer else "float"
    return ValueSpec("", type_, tuple(map(int, sizes)))


def _to_network_dtype(x: Tensor) -> Tensor:
    """Cast to the networks' dtype: int32 for integers, else float32."""
    return tf.cast(x, tf.int32 if x.dtype.is_integer else tf.float32)


def _failure(argument: str, given: Any, error: Exception) -> TensorforceError:
    text = f"{argument} fails for inputs of shape {tuple(given.shape)}: {type(error).__name__}: {error}"
    return TensorforceError(text, argument)


def _axes(argument: str, axes: Sequence[int] | int | None, rank: int, default: Sequence[int]) -> list[int]:
    """Axes including the batch axis, from axes counted without it."""
    given = default if axes is None else [axes] if isinstance(axes, int) else list(axes)
    if any(not 0 <= axis < rank for axis in given):
        refuse(argument, f"must lie in 0 .. {rank - 1}, got {axes!r}", axes)
    return [axis + 1 for axis in given]


def _normalize(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    deviation = x - mean
    # The variance within a batch of one row is 0, while the mean moves.
    differ = varies(tf.maximum(variance, tf.square(deviation)), tf.square(mean))
    return deviation / tf.sqrt(tf.maximum(variance, _EPSILON)) * tf.cast(differ, tf.float32)


def _plain(make: Callable[..., layers.Function]) -> Callable[..., Layer]:
    return functools.partial(layers.Plain, make=make)


LAYERS: Final[Mapping[str, Callable[..., Layer]]] = {
    "activation": _plain(layers.activation),
    "conv1d": layers.Convolution,
    "conv2d": layers.Convolution2d,
    "dense": layers.Dense,
    "dropout": _plain(layers.dropout),
    "embedding": layers.Embedding,
    "exponential_normalization": ExponentialNormalization,
    "flatten": _plain(layers.flatten),
    "function": Function,
    "gru": functools.partial(internal.Recurrent, cell="gru"),
    "instance_normalization": _plain(instance_normalization),
    "internal_gru": functools.partial(internal.Internal, cell="gru"),
    "internal_lstm": functools.partial(internal.Internal, cell="lstm"),
    "internal_rnn": internal.Internal,
    "keras": Keras,
    "linear": layers.Linear,
    "lstm": functools.partial(internal.Recurrent, cell="lstm"),
    "pool1d": layers.WindowPooling,
    "pool2d": layers.WindowPooling2d,
    "pooling": _plain(layers.pooling),
    "reshape": _plain(layers.reshape),
    "rnn": internal.Recurrent,
}
"""Layers by type; each takes a place for messages, the spec of its inputs, and its arguments by name."""


# -- several tensors as one --------------------------------------------------------------------------------------------

Join: TypeAlias = Callable[[Sequence[Tensor]], Tensor]

_JOINS: Final[dict[str, Callable[[list[Tensor], int], Tensor]]] = {
    "concat": lambda tensors, axis: keras.ops.concatenate(tensors, axis + 1),
    "product": lambda tensors, axis: functools.reduce(keras.ops.multiply, tensors),
    "stack": lambda tensors, axis: keras.ops.stack(tensors, axis + 1),
    "sum": lambda tensors, axis: functools.reduce(keras.ops.add, tensors),
}


def make_join(place: str, specs: Sequence[ValueSpec], kind: str, axis: int) -> tuple[Join, ValueSpec]:
    """The function that joins tensors of some specs, and the spec of its result.

    Args:
        place: prefix of messages.
        specs: specs of the tensors. Numbers are concatenated as vectors of one; products and sums broadcast axes of
            size 1.
        kind: ``concat``, ``product``, ``stack`` or ``sum``.
        axis: axis of ``concat`` and ``stack``, without the batch axis.

    Raises:
        ArgumentError: the specs do not fit.
    """
    join, argument = _JOINS[kind], f"{place}: tensors"
    if len(specs) == 1:
        return lambda tensors: tensors[0], specs[0]
    if len({spec.type == "int" for spec in specs}) > 1:
        refuse(argument, "cannot join ints and others: use a layer embedding, and register what it returns")
    shapes = [spec.shape or ((1,) if kind == "concat" else ()) for spec in specs]
    rank = len(shapes[0]) + (kind == "stack")
    if kind in ("concat", "stack") and not 0 <= axis < rank:
        refuse(f"{place}: axis", f"must lie in 0 .. {rank - 1}, got {axis}", axis)
    try:
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError
        _, *shape = join([keras.KerasTensor((None, *shape)) for shape in shapes], axis).shape
    except ValueError:
        refuse(argument, f"have the shapes {', '.join(map(str, shapes))}, which do not fit {kind}", shapes)

    def join_all(tensors: Sequence[Tensor]) -> Tensor:
        pairs = zip(tensors, shapes, strict=True)
        return join([x if x.shape.rank > len(own) else tf.reshape(x, [-1, *own]) for x, own in pairs], axis)

    return join_all, ValueSpec("", specs[0].type if specs[0].type == "int" else "float", tuple(shape))
