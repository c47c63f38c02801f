"""Networks with an LSTM between body and heads, and the sequences that they learn from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...core.errors import ArgumentError
from ...core.tensorflow_import import keras, tf
from .lstm import LSTM, State
from .networks import DenseParams, NetworkParams, dense
from .params import integer, param

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentParams(NetworkParams):
    """The parameters of a network with an LSTM."""

    lstm: int = param(64, "units of the LSTM after the hidden layers", integer(at_least=1))


class RecurrentNetwork:
    """Hidden layers, an LSTM, and linear heads by name. All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        shape: shape of one input, without the axes of time and batch.
        heads: name to number of outputs.
        params: parameters of the layers.
        units: units of the LSTM.
        zeros: whether kernels start at zero, for a network that becomes a copy of another.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernels of the heads.
        below: another network, to share its layers up to the LSTM.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        heads: Mapping[str, int],
        params: DenseParams,
        units: int,
        *,
        zeros: bool = False,
        scale: float = 1.0,
        head_scale: float = 1.0,
        below: RecurrentNetwork | None = None,
    ) -> None:
        initializer = "zeros" if zeros else params.initializer
        self.width = units
        with keras.name_scope(name):
            self.body: Any = params.body(shape, initializer, scale) if below is None else below.body
            self.lstm: LSTM = LSTM(self.body.output_shape[-1], units, initializer) if below is None else below.lstm
            self._heads = {head: dense(size, head, "linear", initializer, head_scale) for head, size in heads.items()}
            for head in self._heads.values():
                head.build((None, units))

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""
        heads = [variable for head in self._heads.values() for variable in head.trainable_variables]
        return [*self.body.trainable_variables, *self.lstm.variables, *heads]

    def __call__(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Outputs of the LSTM [T, B, units], and its last state, for inputs float32 [T, B, *shape]."""
        return self.lstm(self._below(inputs), state)

    def unrolled(self, inputs: Tensor, state: State, begins: Tensor) -> tuple[Tensor, State]:
        """Outputs as from a call, and the state after every timestep, [T, B, units]."""
        return self.lstm.unrolled(self._below(inputs), state, begins)

    def _below(self, inputs: Tensor) -> Tensor:
        """The output of the hidden layers, float32 [T, B, width]."""
        hidden = self.body(tf.reshape(inputs, [-1, *inputs.shape[2:]]))  # [T * B, width]
        length, batch = inputs.shape[:2]
        return tf.reshape(hidden, [length, -1 if batch is None else batch, hidden.shape[-1]])

    def unroll(self, inputs: Tensor, sequences: Sequences) -> Tensor:
        """The outputs of the LSTM for the timesteps after burn-in, float32 [L + 1, B, units].

        Burn-in brings the stored state up to date; no gradient flows into it (Kapturowski et al. 2019, section 3).

        Args:
            inputs: float32 [burn_in + L + 1, B, *shape], the observation after the sequences included.
            sequences: the sequences of these inputs.
        """
        state = sequences.state
        if sequences.burn_in:
            state = self.lstm.after(self._below(inputs[: sequences.burn_in]), state, sequences.labels["burn_in"])
            state = {name: tf.stop_gradient(value) for name, value in state.items()}
        # Only one output beyond the end of an episode is used, so no timestep needs to be skipped.
        return self(inputs[sequences.burn_in :], state)[0]

    def heads(self, hidden: Tensor) -> dict[str, Tensor]:
        """The outputs by head, float32 [..., size] each, from outputs of the LSTM [..., units]."""
        return {name: head(hidden) for name, head in self._heads.items()}


class Sequences:
    """A batch of a SequenceMemory for a recurrent model: timesteps of burn-in, then L that are trained on.

    Args:
        features: observations [burn_in + L, B, ...], with the recurrent state [B, ...].
        labels: the rest of the batch.
        algorithm: for the error message.

    Raises:
        ArgumentError: the memory yields something else.
    """

    def __init__(self, features: Any, labels: Mapping[str, Any], algorithm: str) -> None:
        if "valid" not in labels or labels["reward"].shape.rank != 2:
            raise ArgumentError(
                f"{algorithm} learns from sequences [T, B, ...]: use a SequenceMemory; this memory's batches have"
                f" rewards of shape {list(labels['reward'].shape)}",
                "memory",
            )
        self.labels = labels
        self.observation, self.state = observation_and_state(features)
        self.burn_in = int(labels["burn_in"].shape[0]) if "burn_in" in labels else 0
        """Timesteps before the trained ones."""

    def observations(self) -> Any:
        """Observations in order, with the one after the last action: [burn_in + L + 1, B, ...]."""
        return _map(
            lambda now, following: tf.concat([now, following[-1:]], 0), self.observation, self["next_observation"]
        )

    def __getitem__(self, key: str) -> Any:
        """A label without burn-in, [L, B, ...]."""
        return _map(lambda values: values[self.burn_in :], self.labels[key])

    def mean(self, values: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        """The mean of values [L, B] times the weights [B] of their sequences, without padding."""
        valid = self.labels["valid"]
        return tf.reduce_sum(valid * values * weight) / tf.reduce_sum(valid)

    def with_burn_in(self, td_error: Tensor) -> Tensor:
        """Pad TD errors [L, B] for the memory: [burn_in + L, B], 0 for burn-in and padding."""
        return tf.pad(self.labels["valid"] * td_error, [[self.burn_in, 0], [0, 0]])


def observation_and_state(features: Any) -> tuple[Any, Any]:
    """Split a model's features into observation and recurrent state, which is None where a model declares its own."""
    if isinstance(features, Mapping) and isinstance(features.get("state"), Mapping):
        return features["observation"], dict(features["state"])
    return features, None


def _map(function: Callable[..., Tensor], *trees: Any) -> Any:
    """Apply a function to tensors, or to the tensors of mappings with equal keys."""
    if isinstance(trees[0], Mapping):
        return {key: function(*(tree[key] for tree in trees)) for key in trees[0]}
    return function(*trees)
