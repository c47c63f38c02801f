"""Networks from lists of layers, and what makes values of actions of their output.

Shapes in comments: B is the batch, A the number of values of an action, ... the axes of several actions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import keras
import tensorflow as tf

from ....models.blocks import losses
from ...common.layers.layer import ACTIVATIONS, Step, Tensor
from ...common.layers.layers import Convolution2d, Linear, WindowPooling2d
from ...common.layers.scopes import scopes
from ...common.refusals import refuse
from ...common.value_specs import ValueSpec

Form: TypeAlias = Mapping[str, Any]
Node: TypeAlias = Callable[[Tensor], Tensor]

_STEP = Step(training=False)  # no layer has dropout
NODES: Final[Mapping[str, Callable[[Form], Node]]] = {
    "activation": lambda layer: ACTIVATIONS[layer["activation"]],
    "divide": lambda layer: lambda x: x / layer["divisor"],
}
"""Layers of architectures, which users' lists have not: without variables, on floats of any shape."""


class Names:
    """The names of a network's layers: their scopes, or their types and numbers."""

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
    """A list of layers, one after another; all variables are created at once, in the name scope that is open.

    Args:
        where: for messages.
        layers: in normal form.
        inputs: specs by flat name, of which several are joined by a layer ``concat`` at the beginning.
        names: of the layers of a network of which this is one part.

    Attributes:
        output: the spec of what it returns.
        variables: in the order of creation.

    Raises:
        ArgumentError: layers do not fit each other.
    """

    def __init__(
        self, where: str, layers: Sequence[Form], inputs: Mapping[str, ValueSpec], names: Names | None = None
    ) -> None:
        self._where = where
        self._nodes: list[Node] = []
        self._layer_names = Names() if names is None else names
        self.variables: list[Any] = []
        first = layers[0] if layers else {}
        (name, self.output), *others = inputs.items()
        self._enter: Callable[[Mapping[str, Tensor]], Tensor] = lambda features: features[name]
        if others:
            self._join(first, inputs)
            layers = layers[1:]
        if self.output.type == "int" and not self.output.shape and first.get("type") != "reshape":
            self._one_hot()
        for layer in layers:
            self._add(layer)

    def __call__(self, features: Mapping[str, Tensor]) -> Tensor:
        """From features [B, ...] by flat name to the output [B, ...]."""
        return self.of(self._enter(features))

    def of(self, x: Tensor) -> Tensor:
        """Output for the only input."""
        for node in self._nodes:
            x = node(x)
        return x

    @property
    def size(self) -> int:
        """The output is float32 [B, size]."""
        output = self.output
        if output.type == "int" or len(output.shape) != 1:
            problem = f"must return a vector, but returns {output.type}s of shape {output.shape}"
            refuse(self._where, f"{problem}: add a layer dict(type='reshape', flatten=True)", output.shape)
        return output.shape[0]

    def _join(self, first: Form, inputs: Mapping[str, ValueSpec]) -> None:
        if first.get("type") != "concat":
            names = ", ".join(inputs)
            refuse(f"{self._where}[0]", f"must be a layer concat, which joins the states {names}", first or None)
        sizes = [math.prod(spec.shape) * (spec.num_values or 1) for spec in inputs.values()]
        self._enter = lambda features: tf.concat([vector(features[n], spec) for n, spec in inputs.items()], axis=-1)
        self.output = ValueSpec("", "float", (sum(sizes),))

    def _one_hot(self) -> None:
        spec = self.output
        self._nodes.append(lambda x: vector(x, spec))
        self.output = ValueSpec("", "float", (spec.num_values or 1,))

    def _add(self, layer: Form) -> None:
        kind = layer["type"]
        name = self._layer_names.of(self._where, layer)
        place = f"{self._where}: layer {name!r}"
        if kind == "reshape":
            self._reshape(place, layer)
        elif kind == "residual":
            self._residual(place, name, layer)
        elif kind in NODES:
            self._floats()
            self._nodes.append(NODES[kind](layer))
        elif kind in ("lstm", "concat"):
            lstm = "is for IMPALAAgent, once, with nothing but dense layers after it"
            refuse(place, lstm if kind == "lstm" else "joins the parts of Dict and Tuple states: it comes first", kind)
        else:
            self._floats()
            made = self._weighted(place, name, layer)
            self.variables += made.variables
            self.output = made.output
            self._nodes.append(lambda x: made(x, _STEP))
            if slope := layer.get("activation_params"):
                self._nodes.append(lambda x: tf.nn.leaky_relu(x, slope[0]))

    def _weighted(self, place: str, name: str, layer: Form) -> Any:
        if layer["type"] == "maxpool2d":
            return WindowPooling2d(place, self.output, "max", layer["pool_size"], layer["strides"], layer["padding"])
        more = {
            "bias": layer["biases_spec"] is not False,
            "activation": "none" if layer.get("activation_params") else layer["activation"],
            "kernel_initializer": initializer(layer["weights_spec"]),
            "bias_initializer": initializer(layer["biases_spec"] or 0.0),
        }
        with scopes(name):
            if layer["type"] == "dense":
                return Linear(place, self.output, layer["units"], **more)
            window, stride, padding = layer["kernel_size"], layer["strides"], layer["padding"]
            return Convolution2d(place, self.output, layer["filters"], window, stride, padding, **more)

    def _reshape(self, place: str, layer: Form) -> None:
        spec, shape = self.output, layer["new_shape"]
        wanted = layer["flatten_categories"]
        if spec.type == "int" and isinstance(wanted, int) and not isinstance(wanted, bool):
            if wanted < (spec.num_values or 0):
                problem = f"must be at least {spec.num_values}, the values that there are; got {wanted}"
                refuse(f"{place}: flatten_categories", problem, wanted)
            spec = ValueSpec("", "int", spec.shape, wanted, spec.min_value)
        one_hot = spec.type == "int" and spec.num_values and wanted is not False
        if layer["flatten"] == (shape is not None):
            refuse(place, "needs either flatten=True or new_shape", shape)
        if layer["flatten"]:
            values = spec if one_hot else ValueSpec("", spec.type, spec.shape)
            self._nodes.append(lambda x: vector(x, values))
            size = math.prod(spec.shape) * ((spec.num_values or 1) if one_hot else 1)
            self.output = ValueSpec("", "float", (size,))
            return
        if math.prod(shape) != math.prod(spec.shape):
            refuse(f"{place}: new_shape", f"must hold what {spec.shape} holds, got {tuple(shape)}", shape)
        self._nodes.append(lambda x: tf.reshape(x, [-1, *shape]))
        self.output = ValueSpec("", spec.type, tuple(shape), spec.num_values)

    def _residual(self, place: str, name: str, layer: Form) -> None:
        """A unit of layers, repeated, whose output is added to its input."""
        self._floats()
        spec, units = self.output, []
        for number in range(layer["repeats"]):
            with scopes(name, f"unit-{number}"):
                unit = Network(f"{place}: residual_unit", layer["residual_unit"], {"": self.output})
            units.append(unit)
            self.variables += unit.variables
            self.output = unit.output
        if self.output.shape != spec.shape:
            refuse(place, f"must return the shape that it gets, {spec.shape}; it returns {self.output.shape}", name)

        def node(x: Tensor) -> Tensor:
            y = x
            for unit in units:
                y = unit.of(y)
            return x + y

        self._nodes.append(node)

    def _floats(self) -> None:
        """Numbers of any type as floats."""
        if self.output.type != "float":
            self._nodes.append(lambda x: tf.cast(x, tf.float32))
            self.output = ValueSpec("", "float", self.output.shape)


class Heads:
    """A network's output, through the layers of an action adapter, to several outputs by name.

    Args:
        form: the agent's normal form.
        inputs: what the network returns.
        heads: layers of each; the last part of a name is the scope of its last layer.

    Attributes:
        variables: in the order of creation.
        size: of what the heads follow from.
    """

    def __init__(self, form: Form, inputs: ValueSpec, heads: Mapping[str, Sequence[Form]]) -> None:
        before = (form.get("action_adapter_spec") or {}).get("pre_network_spec", [])
        with scopes("action-adapter"):
            place = "action_adapter_spec['pre_network_spec']" if before else "network_spec"
            self._pre = Network(place, before, {"": inputs})
            self.size, self._heads = self._pre.size, {}
            for name, layers in heads.items():
                with scopes(*name.split("/")[:-1]):
                    vector = {"": ValueSpec("", "float", (self.size,))}
                    self._heads[name] = Network("action_adapter_spec", layers, vector)
        self.variables = [v for part in (self._pre, *self._heads.values()) for v in part.variables]

    def hidden(self, x: Tensor) -> Tensor:
        """Inputs of the heads, float32 [B, size]."""
        return self._pre.of(x)

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        """The outputs of all heads, float32 [B, units] by name."""
        hidden = self.hidden(x)
        return {name: head.of(hidden) for name, head in self._heads.items()}


class HeadedNetwork:
    """The network of ``network_spec`` and its :class:`Heads`, in a name scope: from states to outputs by name.

    Args:
        scope: of all variables.
        form: the agent's normal form.
        states: specs by flat name.
        heads: layers of each output.
    """

    def __init__(
        self, scope: str, form: Form, states: Mapping[str, ValueSpec], heads: Mapping[str, Sequence[Form]]
    ) -> None:
        with scopes(scope):
            self._network = Network("network_spec", form["network_spec"], states)
            self._heads = Heads(form, self._network.output, heads)
        self.variables, self.size = [*self._network.variables, *self._heads.variables], self._heads.size

    def hidden(self, features: Mapping[str, Tensor]) -> Tensor:
        """Inputs of the heads, float32 [B, size]."""
        return self._heads.hidden(self._network(features))

    def __call__(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of all heads, float32 [B, units] by name."""
        return self._heads(self._network(features))


class QNetwork(HeadedNetwork):
    """From states to values of actions, float32 [B, ..., A].

    Args:
        name: of its name scope.
        form: the agent's normal form.
        states: specs by flat name.
        shape: of the action: () for one.
        categories: values that each has.
    """

    def __init__(
        self, name: str, form: Form, states: Mapping[str, ValueSpec], shape: Sequence[int], categories: int
    ) -> None:
        adapter, self._shape = form["action_adapter_spec"], (*shape, categories)
        output = dense("output", math.prod(self._shape), adapter)
        heads = {"output": [output]}
        if form["dueling_q"]:
            value = [_stream(adapter, "state_value"), dense("state-value", 1)]
            heads = {"state-value": value, "output": [_stream(adapter, "advantage"), output]}
        super().__init__(name, form, states, heads)

    def values(self, features: Mapping[str, Tensor]) -> Tensor:
        """Values; with dueling streams those of Wang et al. 2016, equation 9."""
        found = self(features)
        values = tf.reshape(found["output"], [-1, *self._shape])
        if "state-value" not in found:
            return values
        return losses.dueling(tf.reshape(found["state-value"], [-1] + [1] * len(self._shape)), values, "mean")


def initializer(spec: Any) -> Any:
    """The initializer of a spec; None is Glorot's uniform distribution."""
    if spec is None or (isinstance(spec, Mapping) and spec["type"] == "xavier"):
        return keras.initializers.GlorotUniform()
    if not isinstance(spec, Mapping):
        return spec
    if spec["type"] == "zeros":
        return 0.0
    return keras.initializers.TruncatedNormal(mean=spec["mean"], stddev=spec["stddev"])


def dense(scope: str, units: int, spec: Form | None = None) -> dict[str, Any]:
    """The normal form of a dense layer, with what another part says of activation and initial values."""
    spec = spec or {}
    return {
        "type": "dense",
        "scope": scope,
        "units": units,
        "activation": spec.get("activation", "none"),
        "weights_spec": spec.get("weights_spec"),
        "biases_spec": spec.get("biases_spec"),
    }


def _stream(adapter: Form, name: str) -> dict[str, Any]:
    """The hidden layer of a stream."""
    parts = {part: adapter[f"{part}_{name}_stream"] for part in ("activation", "weights_spec", "biases_spec")}
    return dense(f"{name.replace('_', '-')}-stream", adapter[f"units_{name}_stream"], parts)


def vector(x: Tensor, spec: ValueSpec) -> Tensor:
    """Values [B, *shape] as float vectors; ints with a number of values one-hot."""
    if spec.type == "int" and spec.num_values:
        x = tf.one_hot(tf.cast(x, tf.int32) - int(spec.min_value or 0), spec.num_values, dtype=tf.float32)
        return tf.reshape(x, [-1, math.prod(spec.shape) * spec.num_values])
    return tf.reshape(tf.cast(x, tf.float32), [-1, math.prod(spec.shape)])
