"""The network of IMPALA: a torso for images or vectors, an optional LSTM, then a policy and a value.

Shapes in comments: R rows, which are B sequences of L timesteps, sorted by sequence; A the number of values of an
action, ... the axes of several actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from ...common.layers.internal import Cell
from ...common.layers.layer import Layer, Tensor
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from ..specs.impala import PREVIOUS_ACTION, PREVIOUS_REWARD
from .networks import Form, Heads, Names, Network, dense

State: TypeAlias = "Mapping[str, Tensor]"
"""``hidden`` and ``cell``, float32 [B, units]."""


class Outputs(NamedTuple):
    """Outputs of the network."""

    logits: Tensor
    """float32 [R, ..., A]."""
    value: Tensor
    """float32 [R]."""
    state: State
    """State after the last timestep; empty without an LSTM."""


def architecture(kind: str, scale: float) -> list[Form]:
    """The layers from images to 256 features, and an LSTM, as in Espeholt et al. 2018, figure 3.

    ``small``: convolutions with 16 filters of 8x8 and stride 4, and 32 filters of 4x4 and stride 2. ``large``: three
    sections of 16, 32 and 32 filters: a convolution, 3x3 max pooling with stride 2, and two residual blocks. Both end
    with a dense layer.

    Args:
        kind: ``small`` or ``large``.
        scale: divisor of images.
    """
    relu: Form = {"type": "activation", "activation": "relu"}
    layers: list[Form] = [{"type": "divide", "divisor": scale}]
    if kind == "small":
        layers += [_convolution(16, 8, 4, activation="relu"), _convolution(32, 4, 2, activation="relu")]
    else:
        for section, filters in enumerate((16, 32, 32)):
            unit = [relu, _convolution(filters, 3, 1, scope="first"), relu, _convolution(filters, 3, 1, scope="second")]
            residual = {"type": "residual", "residual_unit": unit, "repeats": 1}
            layers += [
                _convolution(filters, 3, 1, scope=f"section-{section}-conv2d"),
                {"type": "maxpool2d", "pool_size": 3, "strides": 2, "padding": "same"},
                *({**residual, "scope": f"section-{section}-residual-{number}"} for number in range(2)),
            ]
        layers.append(relu)
    flat = {"type": "reshape", "flatten": True, "flatten_categories": False, "new_shape": None}
    return [*layers, flat, dense("dense", 256, {"activation": "relu"}), {"type": "lstm", "units": 256}]


def _convolution(filters: int, window: int, stride: int, **more: str) -> dict[str, Any]:
    sizes = {"filters": filters, "kernel_size": window, "strides": stride, "padding": "same"}
    return {"type": "conv2d", **sizes, "weights_spec": None, "biases_spec": None, **more}


class PolicyNetwork:
    """Network from states to the policy's logits and the value.

    Args:
        params: of the model.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        form, self._shape = params["form"], (*params["shape"], params["categories"])
        self._fed = params["fed"]
        layers, names = form["network_spec"], Names()
        if layers is None:
            layers = architecture(form["architecture"], params["scale"])
        lstm = next((place for place, layer in enumerate(layers) if layer["type"] == "lstm"), len(layers))
        with scopes("policy"):
            self._torso = Network("network_spec", layers[:lstm], params["states"], names)
            self.variables, units, self._cell = list(self._torso.variables), self._torso.size, None
            if lstm < len(layers):
                sizes = {PREVIOUS_ACTION: math.prod(self._shape), PREVIOUS_REWARD: 1}
                size, units = units + sum(sizes[name] for name in self._fed), layers[lstm]["units"]
                layer = Layer("lstm", ValueSpec("", "float", (size,)))
                with scopes(names.of("network_spec", layers[lstm])):
                    self._cell = Cell(layer, "lstm", size, units)
                self.variables += layer.variables
            self._after = Network("network_spec", layers[lstm + 1 :], {"": ValueSpec("", "float", (units,))}, names)
            output = dense("output", math.prod(self._shape), form["action_adapter_spec"])
            self._heads = Heads(
                form, self._after.output, {"output": [output], "state-value": [dense("state-value", 1)]}
            )
        self.variables += [*self._after.variables, *self._heads.variables]

    def __call__(
        self, features: Mapping[str, Tensor], length: int, state: State | None, begins: Tensor | None
    ) -> Outputs:
        """Outputs for sequences.

        Args:
            features: arrays [R, ...] by flat name.
            length: L.
            state: initial recurrent state; None: zeros.
            begins: float32 [B, L], 1 where an episode begins and the state is reset to zero; None: nowhere.
        """
        hidden, following = self._torso(features), dict[str, Tensor]()
        if self._cell is not None:
            hidden, following = self._recurrent(
                self._cell, self._join_features(hidden, features), length, state, begins
            )
        found = self._heads.of_hidden(self._heads.hidden(self._after.of(hidden)))
        logits = tf.reshape(found["output"], [-1, *self._shape])
        return Outputs(logits, tf.squeeze(found["state-value"], axis=-1), following)

    def _join_features(self, hidden: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """Join features with the previous action (one-hot, zeros if none) and reward if they are fed: [R, ...]."""
        parts = [hidden]
        if PREVIOUS_ACTION in self._fed:
            taken = tf.one_hot(features[PREVIOUS_ACTION], self._shape[-1], dtype=tf.float32)
            parts.append(tf.reshape(taken, [-1, math.prod(self._shape)]))
        if PREVIOUS_REWARD in self._fed:
            parts.append(tf.reshape(features[PREVIOUS_REWARD], [-1, 1]))
        return tf.concat(parts, axis=-1)

    def _recurrent(
        self, cell: Cell, x: Tensor, length: int, state: State | None, begins: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs of the cell [R, units], and its state after the last timestep."""
        steps, outputs = cell.steps(x, length), []
        now = cell.zeros(steps[0]) if state is None else (state["hidden"], state["cell"])
        for t, step in enumerate(steps):
            if begins is not None:
                kept = 1.0 - begins[:, t : t + 1]  # products with 0 or 1 are exact
                now = tuple(kept * part for part in now)
            now = cell(step, now)
            outputs.append(now[0])
        stacked = outputs[0] if length == 1 else tf.reshape(tf.stack(outputs, axis=1), [-1, cell.units])
        return stacked, {"hidden": now[0], "cell": now[1]}
