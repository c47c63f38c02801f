"""Networks from lists of layers, run for one timestep or over windows of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from ...common.layers.internal import Internal
from ...common.layers.layer import Layer, Step, Tensor
from ...common.layers.scopes import scope, scopes
from ...common.value_specs import ValueSpec
from ..spaces.errors import choice, refuse, translate_errors
from .custom_layers import LAYERS, Keras, make_join

LayerSpec: TypeAlias = Mapping[str, Any]
"""A layer in normal form: ``type``, optionally ``name``, and arguments."""
Node: TypeAlias = "Callable[[Flow], None]"
"""One step of running a network, which changes the current tensor of a flow."""

_NOT_ARGUMENTS: Final = ("type", "name", "summary_labels")
CURRENT: Final = "*"
"""Name of the current tensor, among those to retrieve."""


class Flow:
    """The data of one call of a network.

    Args:
        tensors: tensors to retrieve by name: [N, ...], where N is B, or B * ``length`` over windows.
        internals: internals by name, float32 [B, ...]; None: zeros.
        step: how layers are called.
        length: timesteps of a window; 1 without windows.
        valid: float32 [B, length]; None: all are valid.
        remaining: internal layers that have not run yet. After the last of them, only the last timestep is needed.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor],
        internals: Mapping[str, Tensor] | None,
        step: Step,
        length: int,
        valid: Tensor | None,
        remaining: int,
    ) -> None:
        self.tensors, self.step = tensors, step
        self.x: Tensor = None
        self.following: dict[str, Tensor] = {}
        """The next internals, by name."""
        self._internals, self._length, self._valid, self._remaining = internals, length, valid, remaining
        if not remaining:
            self._keep_last()

    def run_internal(self, layer: Internal, name: str) -> None:
        """Run a layer over the timesteps of the window."""
        state = None if self._internals is None else self._internals[name]
        outputs, self.following[name] = layer.cell.unroll(self.x, self._length, self._valid, state)
        self._remaining -= 1
        if self._remaining == 0:
            self._keep_last()
        x = tf.reshape(tf.stack(outputs, axis=1), [-1, layer.units]) if self._length > 1 else outputs[-1]
        self.x = layer.finish(x, self.step)

    def _keep_last(self) -> None:
        """Drop all timesteps but the last; a layer that makes the current tensor must follow."""
        if self._length == 1:
            return
        for name, tensor in self.tensors.items():
            self.tensors[name] = tf.reshape(tensor, [-1, self._length, *tensor.shape[1:]])[:, -1]
        if self._valid is not None:
            self.step = Step(self.step.training, self._valid[:, -1])
        self._length = 1


def build_network(
    where: str, network: Mapping[str, Any], inputs: Mapping[str, ValueSpec], name: str, prefix: str = ""
) -> Network:
    """Create a network with all its variables, in the current name scope.

    Args:
        where: prefix of messages: ``Agent.create: policy['network']``.
        network: network in normal form, ``auto`` or ``layered``.
        inputs: specs of its inputs by name.
        name: its name scope: ``policy-network``.
        prefix: prefix of the names of its internals: ``baseline-`` for a critic's.

    Raises:
        TensorforceError: the layers do not fit one another, or the output is not a vector.
    """
    internal = f"{prefix}policy-network"
    with translate_errors(), scopes(name):
        if network["type"] == "auto":
            return Network(where, automatic_layers(where, network, inputs), inputs, internal, one_internal=True)
        return Network(where, network["layers"], inputs, internal)


class Network:
    """A network of layers, each in its own name scope; all variables are created at once.

    Args:
        where: prefix of messages.
        layers: a list, or a list of lists; the first layer is called with the only input, or is ``retrieve``.
        inputs: specs of its inputs by name.
        internal: prefix of the names of internals.
        one_internal: is there at most one internal layer, so that its name is not needed?

    Attributes:
        size: the output is float32 [B, *axes, size].
        axes: sizes of the axes before the last, which actions share; usually none.
        internals: names and shapes, without the batch axis, of the internals.
        length: timesteps of the windows to learn from: the longest of any internal layer.
        variables: trained variables in creation order.
        untrained: other variables in creation order.
        l2: L2 regularizations of variables with their own, by id.

    Raises:
        TensorforceError: the layers do not fit one another, or the output is not a vector.
    """

    def __init__(
        self,
        where: str,
        layers: Sequence[Any],
        inputs: Mapping[str, ValueSpec],
        internal: str,
        *,
        one_internal: bool = False,
    ) -> None:
        self.internals: dict[str, tuple[int, ...]] = {}
        self.length = 1
        self.variables: list[Any] = []
        self.untrained: list[Any] = []
        self.l2: dict[int, float] = {}
        self._nodes: list[Node] = []
        self._where, self._internal, self._one_internal = where, internal, one_internal
        self._inputs = tuple(inputs)
        self._tensors = dict(inputs)  # specs of what can be retrieved
        self._reusable: dict[str, tuple[ValueSpec, ValueSpec, list[Node]]] = {}  # inputs and outputs, by name
        self._names: set[str] = set()
        self._recurrent: list[str] = []  # names of layers with a state
        self._block = ""  # names of the enclosing blocks, each with a slash
        self._numbers: Counter[str] = Counter()
        output: ValueSpec | None = None
        if len(self._inputs) == 1:
            (name,) = self._inputs
            output = self._tensors[name]
            self._nodes.append(lambda flow: setattr(flow, "x", flow.tensors[name]))
        for layer in _flat(layers):
            output = self._add(layer, output)
        *self.axes, self.size = _output_shape(where, output)

    def __call__(
        self,
        features: Mapping[str, Tensor],
        internals: Mapping[str, Tensor] | None,
        training: bool,
        valid: Tensor | None = None,
        window: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The output at one timestep, or the last one of a window, float32 [B, size], and the next internals.

        Args:
            features: features by name, [B, *shape], or [B, L, *shape] with a window: float32 (0 or 1 for bools) or
                int32; features that are not inputs are ignored.
            internals: internals by name before the first valid timestep, float32 [B, ...]; others than the network's
                are ignored. None: zeros.
            training: apply dropout and update statistics? The batch size must be static then.
            valid: float32 [B], 1 for the rows that statistics use; None: all, or those of the window.
            window: float32 [B, L]; L is static. Where it is 0, internals do not change.
        """
        tensors, length = {name: features[name] for name in self._inputs}, 1
        if window is not None:
            tensors = {name: tf.reshape(x, [-1, *x.shape[2:]]) for name, x in tensors.items()}  # [B * L, *shape]
            valid, length = tf.reshape(window, [-1]), int(window.shape[1])
        flow = Flow(tensors, internals, Step(training, valid), length, window, len(self.internals))
        for node in self._nodes:
            node(flow)
        return flow.x, flow.following

    # -- building -----------------------------------------------------------------------------------------------------

    def _add(self, layer: LayerSpec, spec: ValueSpec | None) -> ValueSpec:
        """Add a layer with inputs of a spec; returns the spec of its output."""
        kind, name = layer["type"], self._name(layer)
        place = f"{self._where}: layer {name!r}"
        if kind == "retrieve":
            return self._retrieve(place, layer, spec)
        if spec is None:
            states = ", ".join(self._inputs)
            refuse(place, f"needs a layer retrieve before it, to select one of the states {states}")
        if kind == "register":
            tensor = layer["tensor"]
            if tensor in self._tensors or tensor == CURRENT:
                refuse(f"{place}: tensor", f"is a duplicate name, {tensor!r}; choose another", tensor)
            self._tensors[tensor] = spec
            self._nodes.append(lambda flow: flow.tensors.update({tensor: flow.x}))
            return spec
        if kind == "reuse":
            return self._reuse(place, layer["layer"], spec)
        first, output = len(self._nodes), spec
        if kind == "block":
            outer, numbers = self._block, self._numbers
            self._block, self._numbers = f"{name}/", Counter()
            for part in layer["layers"]:
                output = self._add(part, output)
            self._block, self._numbers = outer, numbers
        else:
            output = self._add_layer(place, layer, name, spec)
        self._reusable[name] = (spec, output, self._nodes[first:])
        return output

    def _add_layer(self, place: str, layer: LayerSpec, name: str, spec: ValueSpec) -> ValueSpec:
        kind = layer["type"]
        arguments = {key: value for key, value in layer.items() if key not in _NOT_ARGUMENTS}
        l2 = arguments.pop("l2_regularization", None)
        *outer, last = name.split("/")
        if kind == "keras":  # opens its own scope
            with scopes(*outer):
                made: Layer = Keras(place, spec, name=scope(last), **arguments)
        else:
            with scopes(*outer, last):
                made = LAYERS[kind](place, spec, **arguments)
        self.variables += made.variables
        self.untrained += made.untrained
        if l2 is not None:
            self.l2 |= {id(variable): l2 for variable in made.variables}
        if isinstance(made, Internal):
            middle = "" if self._one_internal else f"-{name.replace('/', '-')}"
            state, internal = f"{self._internal}{middle}-state", made
            self._recurrent.append(name)
            self.internals[state] = internal.cell.shape
            self.length = max(self.length, internal.length)
            self._nodes.append(lambda flow: flow.run_internal(internal, state))
        else:
            self._nodes.append(lambda flow: setattr(flow, "x", made(flow.x, flow.step)))
        return made.output

    def _reuse(self, place: str, layer: str, spec: ValueSpec) -> ValueSpec:
        argument = f"{place}: layer"
        if layer not in self._reusable and f"{self._block}{layer}" in self._reusable:
            layer = f"{self._block}{layer}"
        inputs, output, nodes = self._reusable[choice(argument, layer, self._reusable)]
        if (inputs.type, inputs.shape, inputs.num_values) != (spec.type, spec.shape, spec.num_values):
            found, wanted = f"{spec.type} {spec.shape}", f"{inputs.type} {inputs.shape}"
            refuse(argument, f"{layer!r} was made for inputs {wanted}, and cannot take {found}", layer)
        if any(name == layer or name.startswith(f"{layer}/") for name in self._recurrent):
            refuse(argument, f"{layer!r} is recurrent, and can be used only once per timestep", layer)
        self._nodes += nodes
        return output

    def _retrieve(self, place: str, layer: LayerSpec, spec: ValueSpec | None) -> ValueSpec:
        given = layer["tensors"]
        names = [given] if isinstance(given, str) else list(given)
        known = self._tensors if spec is None else {**self._tensors, CURRENT: spec}
        specs = [known[choice(f"{place}: tensors", name, known)] for name in names]
        kind = layer.get("aggregation", "concat")
        aggregate, output = make_join(place, specs, kind, layer.get("axis", 0))

        def node(flow: Flow) -> None:
            flow.x = aggregate([flow.x if name == CURRENT else flow.tensors[name] for name in names])

        self._nodes.append(node)
        return output

    def _name(self, layer: LayerSpec) -> str:
        """The layer's name, or its type and a number, prefixed with the names of its blocks."""
        kind, given = layer["type"], layer.get("name")
        name = f"{self._block}{given}"
        while given is None and (name == f"{self._block}{given}" or name in self._names):
            name = f"{self._block}{kind}{self._numbers[kind]}"
            self._numbers[kind] += 1
        if name in self._names:
            refuse(f"{self._where}: layer {name!r}", "is the name of two layers", name)
        self._names.add(name)
        return name


def _flat(layers: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for layer in layers:
        if isinstance(layer, Mapping):
            yield layer
        else:
            yield from _flat(layer)


def automatic_layers(where: str, network: Mapping[str, Any], inputs: Mapping[str, ValueSpec]) -> list[dict[str, Any]]:
    """The layers of ``auto``: layers for each input, by type and shape, then layers for all together."""
    size, final_size = network["size"], network.get("final_size") or network["size"]
    layers: list[dict[str, Any]] = []
    for name, spec in inputs.items():
        layers += _automatic_input(where, spec, name, size, network["depth"])
    layers.append({"type": "retrieve", "tensors": [f".{name}" for name in inputs]})
    if len(inputs) > 1:
        layers += [{"type": "dense", "name": f"dense{n}", "size": final_size} for n in range(network["final_depth"])]
    if network.get("internal_rnn"):
        length = network["internal_rnn"]
        layers.append({"type": "internal_lstm", "name": "lstm", "size": final_size, "length": length})
    return layers


def _automatic_input(where: str, spec: ValueSpec, name: str, size: int, depth: int) -> list[dict[str, Any]]:
    """The layers of one input, which register its feature vector under a name that no input can have."""
    layers: list[dict[str, Any]] = [{"type": "retrieve", "tensors": [name]}]
    embedded = spec.type != "float"
    rank = len(spec.shape) + embedded
    if embedded:
        layers.append({"type": "embedding", "name": f"{name}-embedding", "size": size})
    if rank == 0:
        layers.append({"type": "flatten"})
    if rank > 3:
        advice = "the network 'auto' takes floats with up to 3 axes, bools and ints with up to 2: give a list of layers"
        refuse(where, f"cannot be for {name!r} of shape {spec.shape}: {advice}", spec.shape)
    kind = {0: "dense", 1: "dense", 2: "conv1d", 3: "conv2d"}[rank]
    # An embedding counts as one layer.
    layers += [{"type": kind, "name": f"{name}-{kind}{n}", "size": size} for n in range(depth - embedded)]
    if rank > 1:
        layers.append({"type": "pooling", "reduction": "max"})
    return [*layers, {"type": "register", "tensor": f".{name}"}]


def _output_shape(where: str, output: ValueSpec | None) -> tuple[int, ...]:
    if output is None:
        refuse(where, "needs a layer retrieve, to select one of the states")
    if output.type == "int":
        refuse(where, "must return floats, but returns ints: add a layer embedding", output.type)
    if not 1 <= len(output.shape) <= 3:
        problem = f"must return a vector, or one at each place of actions, but returns the shape {output.shape}"
        refuse(where, f"{problem}: add a layer flatten or pooling", output.shape)
    return output.shape
