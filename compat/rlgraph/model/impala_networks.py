"""The network of IMPALA: images or vectors, perhaps a layer with memory, then a policy and a value.

Shapes in comments: R rows, which are B sequences of L timesteps, sorted by sequence; A the number of values of an
action, ... the axes of several actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import tensorflow as tf

from ...common.layers.internal import Cell
from ...common.layers.layer import ACTIVATIONS, Layer, Step, Tensor
from ...common.layers.layers import Convolution2d, Linear, WindowPooling2d
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from .networks import Form, Names, Network, dense

State: TypeAlias = "Mapping[str, Tensor]"
"""``hidden`` and ``cell``, float32 [B, units]."""

PREVIOUS_ACTION: Final = "/previous_action"
PREVIOUS_REWARD: Final = "/previous_reward"
"""Among the features, beside those of the state, whose names do not begin so."""
_STEP: Final = Step(training=False)  # no layer has dropout


class Outputs(NamedTuple):
    """What the network returns."""

    logits: Tensor
    """float32 [R, ..., A]."""
    value: Tensor
    """float32 [R]."""
    state: State
    """After the last timestep; empty without memory."""


class ImageTorso:
    """From images to 256 features, as Espeholt et al. 2018 (figure 3) have it.

    ``small``: convolutions of 16 filters, 8x8 with stride 4, and 32, 4x4 with stride 2. ``large``: three sections of
    16, 32 and 32 filters: a convolution, a maximum over 3x3 with stride 2, and two residual blocks. Then a dense layer.

    Args:
        kind: ``small`` or ``large``.
        inputs: of the images [height, width, channels].
        scale: what they are divided by.
    """

    def __init__(self, kind: str, inputs: ValueSpec, scale: float) -> None:
        self._scale = scale
        self.variables: list[Any] = []
        images = ValueSpec("", "float", inputs.shape)
        self._layers: list[Any] = []
        if kind == "small":
            for index, (filters, window, stride) in enumerate(((16, 8, 4), (32, 4, 2))):
                images = self._convolution(f"conv2d-{index}", images, filters, window, stride, "relu")
        else:
            for index, filters in enumerate((16, 32, 32)):
                images = self._section(f"section-{index}", images, filters)
            self._layers.append(ACTIVATIONS["relu"])
        size = math.prod(images.shape)
        self._layers.append(lambda x: tf.reshape(x, [-1, size]))
        with scopes("dense"):
            self._add(Linear("architecture: dense", ValueSpec("", "float", (size,)), 256, activation="relu"))
        self.output = ValueSpec("", "float", (256,))

    def __call__(self, features: Mapping[str, Tensor]) -> Tensor:
        """float32 [R, 256]."""
        x = tf.cast(features[""], tf.float32) / self._scale
        for layer in self._layers:
            x = layer(x)
        return x

    def _convolution(
        self, name: str, inputs: ValueSpec, filters: int, window: int, stride: int, activation: str
    ) -> ValueSpec:
        with scopes(name):
            place = f"architecture: {name}"
            self._add(made := Convolution2d(place, inputs, filters, window, stride, "same", activation=activation))
        return made.output

    def _section(self, name: str, inputs: ValueSpec, filters: int) -> ValueSpec:
        images = self._convolution(f"{name}-conv2d", inputs, filters, 3, 1, "none")
        pool = WindowPooling2d(f"architecture: {name}", images, "max", 3, 2, "same")
        self._add(pool)
        for block in range(2):
            outside, self._layers = self._layers, []
            for unit in range(2):
                self._layers.append(ACTIVATIONS["relu"])
                self._convolution(f"{name}-residual-{block}-{unit}", pool.output, filters, 3, 1, "none")
            self._layers = [*outside, _residual(self._layers)]
        return pool.output

    def _add(self, layer: Layer) -> None:
        self.variables += layer.variables
        self._layers.append(lambda x: layer(x, _STEP))


def _residual(layers: Sequence[Any]) -> Any:
    def block(x: Tensor) -> Tensor:
        y = x
        for layer in layers:
            y = layer(y)
        return x + y

    return block


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
        with scopes("policy"):
            if layers is None:
                torso: Any = ImageTorso(form["architecture"], states[""], scale)
                memory: Form | None = {"type": "lstm"}
                after: Sequence[Form] = []
                size = units = 256
            else:
                kinds = [layer["type"] for layer in layers]
                place = kinds.index("lstm") if "lstm" in kinds else len(kinds)
                torso = Network("network_spec", layers[:place], states, names)
                memory, after = (layers[place] if "lstm" in kinds else None), layers[place + 1 :]
                size = torso.size
                units = size if memory is None else memory["units"]
            self._torso, self.variables = torso, list(torso.variables)
            if memory is not None:
                self._remember(names.of("network_spec", memory), size, units)
            inner = {"": ValueSpec("", "float", (units,))}
            self._after = Network("network_spec", after, inner, names)
            self._heads(form["action_adapter_spec"])

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
        hidden = self._pre.of(self._after.of(hidden))
        logits = tf.reshape(self._policy.of(hidden), [-1, *self._shape, self._categories])
        return Outputs(logits, tf.squeeze(self._value.of(hidden), axis=-1), following)

    def _remember(self, name: str, size: int, units: int) -> None:
        size += math.prod(self._shape) * self._categories if self._feeds_action else 0
        size += 1 if self._feeds_reward else 0
        layer = Layer("network_spec: lstm", ValueSpec("", "float", (size,)))
        with scopes(name):
            self._cell = Cell(layer, "lstm", size, units)
        self.variables += layer.variables

    def _heads(self, adapter: Form) -> None:
        place = "action_adapter_spec"
        with scopes("action-adapter"):
            self._pre = Network(f"{place}['pre_network_spec']", adapter["pre_network_spec"], {"": self._after.output})
            inner = {"": ValueSpec("", "float", (self._pre.size,))}
            output = dense("output", math.prod(self._shape) * self._categories, adapter)
            self._policy = Network(place, [output], inner)
            self._value = Network(place, [dense("state-value", 1, {})], inner)
        for part in (self._after, self._pre, self._policy, self._value):
            self.variables += part.variables

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
