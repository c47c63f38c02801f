"""Networks from layer lists: run for one timestep, or over windows of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ...common.layers.flow import Flow
from ...common.layers.layer import Step, Tensor
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from ..spaces.errors import refuse, translate_errors
from .assembly import Assembly


def build_network(
    where: str, network: Mapping[str, Any], inputs: Mapping[str, ValueSpec], name: str, prefix: str = ""
) -> Network:
    """A network, with all its variables, in the name scope that is open.

    Args:
        where: for messages: ``Agent.create: policy['network']``.
        network: in normal form, ``auto`` or ``layered``.
        inputs: what it is called with, by name.
        name: of its name scope: ``policy-network``.
        prefix: of the names of its internals: ``baseline-`` for a critic's.

    Raises:
        TensorforceError: the layers do not fit one another, or the output is not a vector.
    """
    internal = f"{prefix}policy-network"
    with translate_errors(), scopes(name):
        if network["type"] == "auto":
            return Network(where, automatic_layers(where, network, inputs), inputs, internal, one_internal=True)
        return Network(where, network["layers"], inputs, internal)


class Network:
    """A network of layers; all variables are created at once.

    Args:
        where: for messages.
        layers: a list, which may be grouped in lists; the first one is called with the only input, or is `retrieve`.
        inputs: what it is called with, by name.
        internal: what names of internals begin with.
        one_internal: is there one at most, whose name needs no layer's?

    Attributes:
        size: the output is float32 [B, size].
        internals: names and shapes, without the batch axis, of what is kept between timesteps.
        length: of the windows to learn from, in timesteps: the longest of an internal layer.
        variables: those that are trained, in the order of creation.
        untrained: all others, likewise.
        l2: regularizations of variables that do not have the agent's, by id.

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
        assembly = Assembly(where, inputs, internal, one_internal=one_internal)
        output = assembly.begin()
        for layer in _flat(layers):
            output = assembly.add(layer, output)
        self._inputs, self._nodes = tuple(inputs), assembly.nodes
        self.size = _vector_size(where, output)
        self.internals = {name: layer.state for name, layer in assembly.internals.items()}
        self.length = max((layer.length for layer in assembly.internals.values()), default=1)
        self.variables, self.untrained = assembly.variables, assembly.untrained
        self.l2 = assembly.l2

    def __call__(
        self,
        features: Mapping[str, Tensor],
        internals: Mapping[str, Tensor] | None,
        training: bool,
        valid: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One timestep: the output, float32 [B, size], and the next internals.

        Args:
            features: by name, [B, *shape]: float32 (of bools: 0 or 1) or int32; more than the inputs is allowed.
            internals: by name, float32 [B, ...]; more than the network's is allowed. None: zeros.
            training: do dropout and statistics act? The batch must be static then.
            valid: float32 [B], 1 for the rows that count in statistics; None: all.
        """
        tensors = {name: features[name] for name in self._inputs}
        return self._run(Flow(tensors, internals, Step(training, valid), 1, None, len(self.internals)))

    def over_window(
        self, features: Mapping[str, Tensor], valid: Tensor, internals: Mapping[str, Tensor] | None, training: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """A window of timesteps: the output at the last one, float32 [B, size], and the internals after it.

        Args:
            features: by name, [B, L, *shape]; L is static.
            valid: float32 [B, L]; where it is 0, internals stay as they are.
            internals: before the first valid timestep, as for a call.
            training: as for a call.
        """
        windows = {name: features[name] for name in self._inputs}
        tensors = {name: tf.reshape(x, [-1, *x.shape[2:]]) for name, x in windows.items()}  # [B * L, *shape]
        step = Step(training, tf.reshape(valid, [-1]))
        return self._run(Flow(tensors, internals, step, int(valid.shape[1]), valid, len(self.internals)))

    def _run(self, flow: Flow) -> tuple[Tensor, dict[str, Tensor]]:
        for node in self._nodes:
            node(flow)
        return flow.x, flow.following


def _flat(layers: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for layer in layers:
        if isinstance(layer, Mapping):
            yield layer
        else:
            yield from _flat(layer)


def automatic_layers(where: str, network: Mapping[str, Any], inputs: Mapping[str, ValueSpec]) -> list[dict[str, Any]]:
    """The layers of ``auto``: some for each input, by its type and shape, then some for all."""
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
    """The layers of one input; registers its features, a vector, under a name that no input can have."""
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


def _vector_size(where: str, output: ValueSpec | None) -> int:
    if output is None:
        refuse(where, "needs a layer retrieve, which says which of the states it begins with")
    if output.type == "int":
        refuse(where, "must return floats, but returns ints: add a layer embedding", output.type)
    if len(output.shape) != 1:
        shape = output.shape
        refuse(where, f"must return a vector, but returns the shape {shape}: add a layer flatten or pooling", shape)
    return output.shape[0]
