"""The network of IMPALA: images or vectors, perhaps a layer with memory, then a policy and a value.

Shapes in comments: R rows, which are B sequences of L timesteps, sorted by sequence; A the number of values of an
action, ... the axes of several actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """After the last timestep; empty without memory."""


def architecture(kind: str, scale: float) -> list[Form]:
    """The layers from images to 256 features, and an LSTM, as Espeholt et al. 2018 (figure 3) have them.

    ``small``: convolutions of 16 filters, 8x8 with stride 4, and 32, 4x4 with stride 2. ``large``: three sections of
    16, 32 and 32 filters: a convolution, a maximum over 3x3 with stride 2, and two residual blocks. Then a dense layer.

    Args:
        kind: ``small`` or ``large``.
        scale: what images are divided by.
    """
    relu: Form = {"type": "activation", "activation": "relu"}
    layers: list[Form] = [{"type": "divide", "divisor": scale}]
    if kind == "small":
        layers += [_convolution(16, 8, 4, "relu"), _convolution(32, 4, 2, "relu")]
    else:
        for index, filters in enumerate((16, 32, 32)):
            block = [
                relu,
                _convolution(filters, 3, 1, scope="first"),
                relu,
                _convolution(filters, 3, 1, scope="second"),
            ]
            pool = {"type": "maxpool2d", "pool_size": 3, "strides": 2, "padding": "same"}
            residuals = [
                {
                    "type": "residual",
                    "residual_unit": block,
                    "repeats": 1,
                    "scope": f"section-{index}-residual-{number}",
                }
                for number in range(2)
            ]
            layers += [_convolution(filters, 3, 1, scope=f"section-{index}-conv2d"), pool, *residuals]
        layers.append(relu)
    flat = {"type": "reshape", "flatten": True, "flatten_categories": False, "new_shape": None}
    return [*layers, flat, dense("dense", 256, {"activation": "relu"}), {"type": "lstm", "units": 256}]


def _convolution(filters: int, window: int, stride: int, activation: str = "none", **scope: str) -> dict[str, Any]:
    sizes = {"filters": filters, "kernel_size": window, "strides": stride, "padding": "same"}
    return {"type": "conv2d", **sizes, "activation": activation, "weights_spec": None, "biases_spec": None, **scope}


class PolicyNetwork:
    """From states to the policy's logits and the value.

    Args:
        form: the agent's normal form.
        states: specs by flat name.
        scale: what images are divided by, for ``architecture``.
        shape: of the action: () for one.
        categories: values that each has.
    """

    def __init__(
        self, form: Form, states: Mapping[str, ValueSpec], scale: float, shape: Sequence[int], categories: int
    ) -> None:
        self._shape, self._categories = tuple(shape), categories
        self._feeds_action = form["feed_previous_action_through_nn"]
        self._feeds_reward = form["feed_previous_reward_through_nn"]
        self._cell: Cell | None = None
        layers, names = form["network_spec"], Names()
        if layers is None:
            layers = architecture(form["architecture"], scale)
        kinds = [layer["type"] for layer in layers]
        place = kinds.index("lstm") if "lstm" in kinds else len(kinds)
        with scopes("policy"):
            self._torso = Network("network_spec", layers[:place], states, names)
            self.variables, units = list(self._torso.variables), self._torso.size
            if "lstm" in kinds:
                name, inputs = names.of("network_spec", layers[place]), units
                units = layers[place]["units"]
                self._remember(name, inputs, units)
            self._after = Network("network_spec", layers[place + 1 :], {"": ValueSpec("", "float", (units,))}, names)
            output = dense("output", math.prod(self._shape) * self._categories, form["action_adapter_spec"])
            heads = {"output": [output], "state-value": [dense("state-value", 1, {})]}
            self._heads = Heads(form, self._after.output, heads)
        self.variables += [*self._after.variables, *self._heads.variables]

    def __call__(
        self, features: Mapping[str, Tensor], length: int, state: State | None, begins: Tensor | None
    ) -> Outputs:
        """Outputs for sequences.

        Args:
            features: [R, ...] by flat name.
            length: L.
            state: before the first timestep; None: zeros.
            begins: float32 [B, L], 1 where an episode begins: the state before it is zero; None: nowhere.
        """
        hidden = self._torso(features)
        following: dict[str, Tensor] = {}
        if self._cell is not None:
            hidden, following = self._recurrent(self._joined(hidden, features), length, state, begins)
        found = self._heads(self._after.of(hidden))
        logits = tf.reshape(found["output"], [-1, *self._shape, self._categories])
        return Outputs(logits, tf.squeeze(found["state-value"], axis=-1), following)

    def _remember(self, name: str, size: int, units: int) -> None:
        size += math.prod(self._shape) * self._categories if self._feeds_action else 0
        size += 1 if self._feeds_reward else 0
        layer = Layer("network_spec: lstm", ValueSpec("", "float", (size,)))
        with scopes(name):
            self._cell = Cell(layer, "lstm", size, units)
        self.variables += layer.variables

    def _joined(self, hidden: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """With the last action (one-hot, zeros if there was none) and the last reward [R, ...]."""
        parts = [hidden]
        if self._feeds_action:
            taken = tf.one_hot(features[PREVIOUS_ACTION], self._categories, dtype=tf.float32)
            parts.append(tf.reshape(taken, [-1, math.prod(self._shape) * self._categories]))
        if self._feeds_reward:
            parts.append(tf.reshape(features[PREVIOUS_REWARD], [-1, 1]))
        return tf.concat(parts, axis=-1)

    def _recurrent(
        self, x: Tensor, length: int, state: State | None, begins: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs of the cell [R, units], and its state after the last timestep."""
        assert self._cell is not None
        steps = self._cell.steps(x, length)
        now = self._cell.zeros(steps[0]) if state is None else (state["hidden"], state["cell"])
        outputs = []
        for t, step in enumerate(steps):
            if begins is not None:
                kept = 1.0 - begins[:, t : t + 1]  # products with 0 or 1 are exact
                now = tuple(kept * part for part in now)
            now = self._cell(step, now)
            outputs.append(now[0])
        stacked = outputs[0] if length == 1 else tf.reshape(tf.stack(outputs, axis=1), [-1, self._cell.units])
        return stacked, {"hidden": now[0], "cell": now[1]}
