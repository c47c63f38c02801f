"""Networks from lists of layers (Keras layers under RLgraph's names), and heads on them.

Shapes in comments: B is the batch, A the number of values of an action, ... the axes of several actions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import keras
import tensorflow as tf

from ....core.errors import ArgumentError
from ....models.blocks import losses
from ...common.layers.layer import ACTIVATIONS, Tensor
from ...common.layers.layer import initializer as fixed
from ...common.layers.scopes import scope, scopes
from ...common.refusals import refuse
from ...common.value_specs import ValueSpec

Form: TypeAlias = Mapping[str, Any]
Node: TypeAlias = Callable[[Tensor], Tensor]

_KERAS: Final = {
    "dense": ("Dense", (1, 2, 3), ("units",)),
    "conv2d": ("Conv2D", (3,), ("filters", "kernel_size", "strides", "padding")),
    "maxpool2d": ("MaxPooling2D", (3,), ("pool_size", "strides", "padding")),
}
"""Keras layers by type: class, allowed ranks of inputs, and arguments from a specification."""
_ELSEWHERE: Final = {
    "lstm": "is for IMPALAAgent, once, with nothing but dense layers after it",
    "concat": "joins the parts of Dict and Tuple states: it comes first",
}


class Names:
    """Names of a network's layers: their scopes, or their types and numbers."""

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()
        self._taken: set[str] = set()

    def of(self, where: str, layer: Form) -> str:
        """The name of the next layer; ArgumentError if another one has its scope."""
        name = layer.get("scope")
        while name is None or (name in self._taken and "scope" not in layer):
            name = f"{layer['type']}-{self._numbers[layer['type']]}"
            self._numbers[layer["type"]] += 1
        if name in self._taken:
            refuse(f"{where}: layer {name!r}", "is the scope of two layers", name)
        self._taken.add(name)
        return str(name)


class Network:
    """A sequence of layers; all variables are created at once, in the current name scope.

    Args:
        where: place of the specification, for messages.
        layers: layers in normal form, including those of architectures: ``activation``, and ``divide`` by a number.
        inputs: specs by flat name; several inputs need a first layer ``concat``.
        names: layer names of the whole network, if this is one part of it.

    Attributes:
        output: spec of its output.
        variables: variables in creation order.

    Raises:
        ArgumentError: layers do not fit each other.
    """

    def __init__(
        self, where: str, layers: Sequence[Form], inputs: Mapping[str, ValueSpec], names: Names | None = None
    ) -> None:
        self._where, self._nodes, self._names = where, list[Node](), Names() if names is None else names
        self.variables: list[Any] = []
        first = layers[0] if layers else {}
        (name, self.output), *others = inputs.items()
        self._enter: Callable[[Mapping[str, Tensor]], Tensor] = lambda features: features[name]
        if others:
            if first.get("type") != "concat":
                problem = f"must be a layer concat, which joins the states {', '.join(inputs)}"
                refuse(f"{where}[0]", problem, first or None)
            self._enter = lambda features: tf.concat([vector(features[n], spec) for n, spec in inputs.items()], axis=-1)
            self.output = _floats(sum(map(width, inputs.values())))
            layers = layers[1:]
        elif self.output.type == "int" and not self.output.shape and first.get("type") != "reshape":
            self._flatten(self.output)
        for layer in layers:
            self._add(layer)

    def __call__(self, features: Mapping[str, Tensor]) -> Tensor:
        """Output [B, ...] for features [B, ...] by flat name."""
        return self.of(self._enter(features))

    def of(self, x: Tensor) -> Tensor:
        """Output for a single input."""
        for node in self._nodes:
            x = node(x)
        return x

    @property
    def size(self) -> int:
        """Size of the output, float32 [B, size]."""
        output = self.output
        if output.type == "int" or len(output.shape) != 1:
            problem = f"must return a vector, but returns {output.type}s of shape {output.shape}"
            refuse(self._where, f"{problem}: add a layer dict(type='reshape', flatten=True)", output.shape)
        return output.shape[0]

    def _add(self, layer: Form) -> None:
        kind, name = layer["type"], self._names.of(self._where, layer)
        place = f"{self._where}: layer {name!r}"
        if kind in _ELSEWHERE:
            refuse(place, _ELSEWHERE[kind], kind)
        if kind == "reshape":
            self._reshape(place, layer)
            return
        if self.output.type != "float":
            self._nodes.append(lambda x: tf.cast(x, tf.float32))
            self.output = _floats(*self.output.shape)
        if kind == "divide":
            self._nodes.append(lambda x: x / layer["divisor"])
        elif kind == "residual":
            self._residual(place, name, layer)
        else:
            self._of_keras(place, name, layer)

    def _of_keras(self, place: str, name: str, layer: Form) -> None:
        if layer["type"] in _KERAS:
            (kind, ranks, arguments), inputs = _KERAS[layer["type"]], self.output.shape
            if len(inputs) not in ranks:
                problem = f"takes inputs with {' or '.join(map(str, ranks))} axes, but gets the shape {inputs}"
                refuse(place, f"{problem}: add a layer reshape before it", inputs)
            given = {argument: layer[argument] for argument in arguments}
            if "weights_spec" in layer:
                given["use_bias"] = layer["biases_spec"] is not False
                given["kernel_initializer"] = _initializer(f"{place}: weights_spec", layer["weights_spec"])
                given["bias_initializer"] = _initializer(f"{place}: biases_spec", layer["biases_spec"] or 0.0)
            made = getattr(keras.layers, kind)(**given, name=scope(name))
            try:
                made.build((None, *inputs))
                self.output = _floats(*made.compute_output_shape((None, *inputs))[1:])
            except ArgumentError:
                raise
            except ValueError:
                problem = (
                    f"has a window that is larger than inputs of shape {inputs}: use padding 'same' or a smaller window"
                )
                refuse(place, problem, inputs)
            self._nodes.append(made)
            self.variables += made.trainable_variables
        activation = layer.get("activation", "none")
        if slope := layer.get("activation_params"):
            self._nodes.append(lambda x: tf.nn.leaky_relu(x, slope[0]))
        elif activation != "none":
            self._nodes.append(ACTIVATIONS[activation])
        if activation == "crelu":
            *axes, units = self.output.shape
            self.output = _floats(*axes, 2 * units)

    def _reshape(self, place: str, layer: Form) -> None:
        spec, shape, wanted = self.output, layer["new_shape"], layer["flatten_categories"]
        if spec.type == "int" and isinstance(wanted, int) and not isinstance(wanted, bool):
            if wanted < (spec.num_values or 0):
                problem = f"must be at least {spec.num_values}, the number of values; got {wanted}"
                refuse(f"{place}: flatten_categories", problem, wanted)
            spec = ValueSpec("", "int", spec.shape, wanted, spec.min_value)
        if layer["flatten"] == (shape is not None):
            refuse(place, "needs either flatten=True or new_shape", shape)
        if layer["flatten"]:
            self._flatten(ValueSpec("", spec.type, spec.shape) if wanted is False else spec)
            return
        if math.prod(shape) != math.prod(spec.shape):
            refuse(f"{place}: new_shape", f"must hold what {spec.shape} holds, got {tuple(shape)}", shape)
        self._nodes.append(lambda x: tf.reshape(x, [-1, *shape]))
        self.output = ValueSpec("", spec.type, tuple(shape), spec.num_values, spec.min_value)

    def _flatten(self, spec: ValueSpec) -> None:
        self._nodes.append(lambda x: vector(x, spec))
        self.output = _floats(width(spec))

    def _residual(self, place: str, name: str, layer: Form) -> None:
        """A repeated unit of layers, whose output is added to its input."""
        shape, units = self.output.shape, []
        for number in range(layer["repeats"]):
            with scopes(name, f"unit-{number}"):
                unit = Network(f"{place}: residual_unit", layer["residual_unit"], {"": self.output})
            units.append(unit)
            self.variables += unit.variables
            self.output = unit.output
        if self.output.shape != shape:
            refuse(place, f"must return the shape that it gets, {shape}; it returns {self.output.shape}", name)

        def node(x: Tensor) -> Tensor:
            y = x
            for unit in units:
                y = unit.of(y)
            return x + y

        self._nodes.append(node)


class Heads:
    """Several named outputs of a network, after the layers of an action adapter.

    Args:
        form: the agent's normal form.
        inputs: spec of the network's output.
        heads: layers of each output; the last part of its name is the scope of its last layer.

    Attributes:
        variables: variables in creation order.
        size: size of the heads' input.
        hidden: function from a network's output to the heads' input, float32 [B, size].
    """

    def __init__(self, form: Form, inputs: ValueSpec, heads: Mapping[str, Sequence[Form]]) -> None:
        before = (form.get("action_adapter_spec") or {}).get("pre_network_spec", [])
        with scopes("action-adapter"):
            place = "action_adapter_spec['pre_network_spec']" if before else "network_spec"
            pre = Network(place, before, {"": inputs})
            self.hidden, self.size, self._heads = pre.of, pre.size, dict[str, Network]()
            for name, layers in heads.items():
                with scopes(*name.split("/")[:-1]):
                    self._heads[name] = Network("action_adapter_spec", layers, {"": _floats(self.size)})
        self.variables = [v for part in (pre, *self._heads.values()) for v in part.variables]

    def of_hidden(self, hidden: Tensor) -> dict[str, Tensor]:
        """The outputs of all heads, float32 [B, units] by name."""
        return {name: head.of(hidden) for name, head in self._heads.items()}


class HeadedNetwork:
    """The network of ``network_spec`` with its :class:`Heads`: from states to outputs by name.

    Args:
        scope: name scope of all variables.
        form: the agent's normal form.
        states: specs by flat name.
        heads: layers of each output.
    """

    def __init__(
        self, scope: str, form: Form, states: Mapping[str, ValueSpec], heads: Mapping[str, Sequence[Form]]
    ) -> None:
        with scopes(scope):
            self._network = Network("network_spec", form["network_spec"], states)
            self._adapter = Heads(form, self._network.output, heads)
        self.variables, self.size = [*self._network.variables, *self._adapter.variables], self._adapter.size
        self.heads = self._adapter.of_hidden

    def hidden(self, features: Mapping[str, Tensor]) -> Tensor:
        """Input of the heads, float32 [B, size]."""
        return self._adapter.hidden(self._network(features))

    def __call__(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of all heads, float32 [B, units] by name."""
        return self.heads(self.hidden(features))


class QNetwork(HeadedNetwork):
    """Network from states to values of actions, float32 [B, ..., A].

    Args:
        name: its name scope.
        params: the model's params.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        form, self._shape = params["form"], (*params["shape"], params["categories"])
        adapter = form["action_adapter_spec"]
        heads = {"output": [dense("output", math.prod(self._shape), adapter)]}
        if form["dueling_q"]:
            heads["output"].insert(0, _stream(adapter, "advantage"))
            heads = {"state-value": [_stream(adapter, "state_value"), dense("state-value", 1)], **heads}
        super().__init__(name, form, params["states"], heads)

    def values(self, features: Mapping[str, Tensor]) -> Tensor:
        """Values; with dueling streams by Wang et al. 2016, equation 9."""
        found = self(features)
        values = tf.reshape(found["output"], [-1, *self._shape])
        if "state-value" not in found:
            return values
        return losses.dueling(tf.reshape(found["state-value"], [-1] + [1] * len(self._shape)), values, "mean")


def dense(scope: str, units: int, spec: Form | None = None) -> dict[str, Any]:
    """The normal form of a dense layer, with the activation and initial values of another part."""
    defaults = {"activation": "none", "weights_spec": None, "biases_spec": None}
    own = {name: (spec or {}).get(name, default) for name, default in defaults.items()}
    return {"type": "dense", "scope": scope, "units": units, **own}


def vector(x: Tensor, spec: ValueSpec) -> Tensor:
    """Values [B, *shape] as float vectors; ints with a known number of values one-hot."""
    if spec.type == "int" and spec.num_values:
        x = tf.one_hot(tf.cast(x, tf.int32) - int(spec.min_value or 0), spec.num_values, dtype=tf.float32)
    return tf.reshape(tf.cast(x, tf.float32), [-1, width(spec)])


def width(spec: ValueSpec) -> int:
    """Size of the result of :func:`vector`."""
    return math.prod(spec.shape) * ((spec.num_values or 1) if spec.type == "int" else 1)


def _floats(*shape: int) -> ValueSpec:
    return ValueSpec("", "float", shape)


def _stream(adapter: Form, name: str) -> dict[str, Any]:
    """The hidden layer of a stream."""
    parts = {part: adapter[f"{part}_{name}_stream"] for part in ("activation", "weights_spec", "biases_spec")}
    return dense(f"{name.replace('_', '-')}-stream", adapter[f"units_{name}_stream"], parts)


def _initializer(place: str, spec: Any) -> Any:
    """The initializer of a spec; None is Glorot uniform."""
    if spec is None or (isinstance(spec, Mapping) and spec["type"] == "xavier"):
        return keras.initializers.GlorotUniform()
    if isinstance(spec, Mapping) and spec["type"] == "truncated_normal":
        return keras.initializers.TruncatedNormal(mean=spec["mean"], stddev=spec["stddev"])
    values = 0.0 if isinstance(spec, Mapping) else spec
    return lambda shape, dtype=None: fixed(place, values, tuple(shape), None)(shape, dtype)
