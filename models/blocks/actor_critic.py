"""Policy and value networks of on-policy algorithms, with or without memory.

Shapes in comments: a rollout is [T, N, ...], T timesteps of N environments. Its rows are [B, ...], B = T * N: in the
order of the rollout, or, with an LSTM, environment by environment, so that each ``sequence_length`` rows are
consecutive timesteps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.errors import ArgumentError
from ...core.protocols import EstimatorSpec, Modes, RunConfig
from ...core.tensorflow_import import keras, tf
from . import rollouts
from .actions import actions_of
from .actor_critic_params import PolicyNetworkParams
from .box_actions import StateDependentBox
from .distributions import Distribution
from .lstm import State
from .networks import Network
from .observations import Observations
from .recurrent import RecurrentNetwork, observation_and_state
from .returns import gae

Tensor: TypeAlias = Any


class ActorCritic:
    """Policy and value networks. All variables are created at once.

    Args:
        config: has the spaces.
        params: parameters of the networks.
        algorithm: for error messages.
        sequence_length: timesteps over which an LSTM is unrolled in training.
        critic: whether there is a value; without one all values are None, and count as 0 in a rollout.
        least_log_std: lower bound of the log standard deviation of Box actions; None for none.

    Raises:
        ArgumentError: there is no policy for the action space.
        ValueError: the network does not fit the observations.
    """

    def __init__(
        self,
        config: RunConfig,
        params: PolicyNetworkParams,
        algorithm: str,
        sequence_length: int = 1,
        *,
        critic: bool = True,
        least_log_std: float | None = None,
    ) -> None:
        self.actions = actions = actions_of(
            config.action_space, algorithm, params.box_policy, params.sde_resample_every
        )
        """Actions of the policy."""
        self._observations = Observations(config.observation_space, actions.space, params.action_mask)
        self._algorithm, shape = algorithm, self._observations.shape
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        # The small head starts with a nearly uniform policy: Andrychowicz et al. 2020, section 3.2.
        self._policy = _Part("policy", shape, actions.num_outputs, params, scale, head_scale=0.01)
        self._log_std, self._least_log_std = None, least_log_std
        if actions.num_scales:
            with keras.name_scope("policy"):
                of_features = isinstance(actions, StateDependentBox)
                scales = (self._policy.width, actions.num_scales) if of_features else actions.num_scales
                initial = np.full(scales, params.log_std, np.float32)
                self._log_std = keras.Variable(initial, name="log_std")
        self._value: Any = None
        if critic:
            self._value = _Part("value", shape, 1, params, scale, shared=self._policy if params.shared else None)
        self._shared, self._recurrent = params.shared, params.lstm is not None
        self.sequence_length = sequence_length if self._recurrent else 1
        """Number of rows that minibatches keep together."""

    @property
    def policy_variables(self) -> list[Any]:
        """Variables of the policy."""
        return self._policy.variables if self._log_std is None else [*self._policy.variables, self._log_std]

    @property
    def value_variables(self) -> list[Any]:
        """Variables of the value, including layers shared with the policy."""
        found: list[Any] = [] if self._value is None else self._value.variables
        return found

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        both = [*self._policy.variables, *self.value_variables]
        found = list({id(variable): variable for variable in both}.values())  # a shared body once
        return found if self._log_std is None else [*found, self._log_std]

    def predict(self, features: Any, record: Sequence[str]) -> EstimatorSpec:
        """The spec of PREDICT: the likeliest ``action``, the ``value`` [B], and the distribution's parameters.

        Args:
            features: observations [B, ...], with the recurrent state before each if there is one.
            record: names of predictions to store with each transition.
        """
        observation, state = observation_and_state(features)
        encoded, actions = self._observations.encode(observation), self.actions
        hidden, following = self._policy.step(encoded, state)
        outputs = self._described(hidden, observation)
        predictions = {"action": actions.likeliest(outputs)}
        if self._value is not None:
            value_hidden, others = (hidden, {}) if self._shared else self._value.step(encoded, state)
            predictions["value"], following = self._value.head(value_hidden)[:, 0], {**following, **others}
        return EstimatorSpec(
            Modes.PREDICT,
            {**predictions, **actions.shaped(outputs)},
            exploration=actions.exploration(),
            record=tuple(record),
            state=following or None,
        )

    def rollout(self, features: Any, labels: Mapping[str, Any], gae_lambda: float) -> dict[str, Any]:
        """The rows of a rollout for PPO: :meth:`rows` without ``next_observation``, with advantages and returns.

        ``advantage`` (Schulman et al. 2016, equation 16) and ``return`` (advantage plus recorded value), float32 [B].

        Args:
            features: as for :meth:`rows`.
            labels: as for :meth:`rows`, with the recorded ``value`` if there is one, and ``log_prob`` if it is
                recorded.
            gae_lambda: lambda of the advantages.
        """
        found = self.rows(features, labels, [name for name in ("log_prob", "value") if name in labels])
        value = next_value = tf.zeros_like(labels["reward"])
        if self._value is not None:
            value, next_value = labels["value"], self.in_time(self._next_value(found, self._states(found)), labels)
        del found["next_observation"]
        return {**found, **self._advantages(labels, value, next_value, gae_lambda)}

    def recomputed(self, rows: Mapping[str, Any], labels: Mapping[str, Any], gae_lambda: float) -> dict[str, Tensor]:
        """``value``, ``advantage`` and ``return`` of :meth:`rows` by the value network as it is now, float32 [B]."""
        encoded = self._observations.encode(rows["observation"])
        hidden, state = self._value.unroll(encoded, rows, self.sequence_length)
        both = (self._value.head(hidden)[:, 0], self._next_value(rows, state))
        value, next_value = (self.in_time(tf.stop_gradient(values), labels) for values in both)
        return {**self._in_rows({"value": value}), **self._advantages(labels, value, next_value, gae_lambda)}

    def _advantages(
        self, labels: Mapping[str, Any], value: Tensor, next_value: Tensor, gae_lambda: float
    ) -> dict[str, Tensor]:
        """Rows of advantages and returns from values [T, N]."""
        reward, discount, truncated = (labels[name] for name in ("reward", "discount", "truncated"))
        advantage = gae(reward, discount, truncated, value, next_value, gae_lambda)
        found: dict[str, Tensor] = self._in_rows({"advantage": advantage, "return": advantage + value})
        return found

    def rows(self, features: Any, labels: Mapping[str, Any], recorded: Sequence[str] = ()) -> dict[str, Any]:
        """The rows of a rollout, [B, ...], for :meth:`evaluate`.

        Args:
            features: observations [T, N, ...], with the recurrent state before each if there is one.
            labels: the rest of the batch.
            recorded: further labels to include.

        Returns:
            ``observation``, ``next_observation``, ``action`` (for ``Distribution.log_prob``), the recorded labels, and
            with an LSTM ``state``, and ``begins`` [B], 1 where an episode began.

        Raises:
            ArgumentError: the batch is not a rollout, or ``sequence_length`` does not divide it.
        """
        rollouts.check_rollout(labels, self._algorithm)
        observation, state = observation_and_state(features)
        found = {name: labels[name] for name in ("next_observation", "action", *recorded)}
        found = {"observation": observation, **found}
        if self._recurrent:
            self._refuse_other_lengths(int(labels["reward"].shape[0]))
            ended = tf.maximum(labels["terminated"], labels["truncated"])
            found |= {"state": state, "begins": tf.pad(ended[:-1], [[1, 0], [0, 0]])}
        found = self._in_rows(found)
        return {**found, "action": self.actions.from_environment(found["action"])}

    def in_time(self, values: Tensor, labels: Mapping[str, Any]) -> Tensor:
        """Rearrange values of rows, [B], into the rollout's shape, [T, N]."""
        length, copies = labels["reward"].shape
        return tf.reshape(_transposed(values, copies, length) if self._recurrent else values, [length, copies])

    def evaluate(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
        """Parameters of the distributions (each [B, ...]), and values float32 [B], for rows of a rollout.

        With an LSTM the rows must be whole sequences; each begins with the recorded state.
        """
        outputs, value, _ = self._evaluate(rows)
        return outputs, value

    def distribution(self, rows: Mapping[str, Any]) -> Distribution:
        """Distribution of the policy's actions, for rows as for :meth:`evaluate`."""
        return self.actions.distribution(self.evaluate(rows)[0])

    def evaluate_with_next(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Results of :meth:`evaluate`, and the values of the next observations, float32 [B]."""
        outputs, value, state = self._evaluate(rows)
        return outputs, value, self._next_value(rows, state)

    def _refuse_other_lengths(self, length: int) -> None:
        if length % self.sequence_length:
            raise ArgumentError(
                f"sequence_length must divide the {length} timesteps of each environment in a rollout, got"
                f" {self.sequence_length}",
                "sequence_length",
                self.sequence_length,
            )

    def _in_rows(self, tree: Any) -> Any:
        """Rearrange a tensor [T, N, ...], or a mapping of tensors, into rows."""
        if isinstance(tree, Mapping):
            return {name: self._in_rows(part) for name, part in tree.items()}
        flat = rollouts.rows(tree)
        return _transposed(flat, *tree.shape[:2]) if self._recurrent else flat

    def _evaluate(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor, State | None]:
        encoded = self._observations.encode(rows["observation"])
        hidden, state = self._policy.unroll(encoded, rows, self.sequence_length)
        outputs = self._described(hidden, rows["observation"])
        if self._value is None:
            return outputs, None, None
        if not self._shared:
            hidden, state = self._value.unroll(encoded, rows, self.sequence_length)
        return outputs, self._value.head(hidden)[:, 0], state

    def _states(self, rows: Mapping[str, Any]) -> State | None:
        """The value's recurrent state after each row; None if it has none."""
        if not self._recurrent:
            return None
        encoded = self._observations.encode(rows["observation"])
        states: State | None = self._value.unroll(encoded, rows, self.sequence_length)[1]
        return states

    def _next_value(self, rows: Mapping[str, Any], state: State | None) -> Tensor:
        """V of the next observations [B], given the value's recurrent state before them."""
        hidden, _ = self._value.step(self._observations.encode(rows["next_observation"]), state)
        return self._value.head(hidden)[:, 0]

    def _described(self, hidden: Tensor, observation: Any) -> dict[str, Tensor]:
        """The distribution's parameters, from the input of the policy's head, and the mask."""
        outputs, actions = self._policy.head(hidden), self.actions
        if isinstance(actions, StateDependentBox):
            return actions.described(outputs, tf.convert_to_tensor(self._log_std), hidden)
        log_std = self._log_std
        if log_std is not None and self._least_log_std is not None:
            log_std = tf.maximum(log_std, self._least_log_std)
        return {**actions.described(outputs, log_std), **self._observations.masks(observation)}


class _Part:
    """The policy's or the value's network, which may have an LSTM.

    Args:
        name: prefix of the names of the variables.
        shape: shape of an encoded observation.
        size: number of outputs.
        params: parameters of the layers.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernel of the head.
        shared: another part, to share its layers below the head.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        size: int,
        params: PolicyNetworkParams,
        scale: float,
        *,
        head_scale: float = 1.0,
        shared: _Part | None = None,
    ) -> None:
        below = None if shared is None else shared.network
        scales: dict[str, Any] = {"scale": scale, "head_scale": head_scale}
        self.network: Any
        if params.lstm is None:
            self.network = Network(name, shape, {"head": size}, params, **scales, body=below and below.body)
        else:
            self.network = RecurrentNetwork(name, shape, {"head": size}, params, params.lstm, **scales, below=below)
        self._recurrent = params.lstm is not None
        self._prefix = "" if name == "policy" or shared is not None else f"{name}_"

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""
        found: list[Any] = self.network.variables
        return found

    @property
    def width(self) -> int:
        """Width of the head's input."""
        return int(self.network.width)

    def head(self, hidden: Tensor) -> Tensor:
        """float32 [B, size]."""
        return self.network.heads(hidden)["head"]

    def step(self, encoded: Tensor, state: Mapping[str, Tensor] | None) -> tuple[Tensor, State]:
        """The head's input [B, width], and this part's next recurrent state; empty if there is none.

        Args:
            encoded: observations [B, ...].
            state: recurrent state before them, [B, units] by name; None where episodes begin.
        """
        if not self._recurrent:
            return self.network.hidden(encoded), {}
        own = self.network.lstm.begin(encoded) if state is None else self._own(state)
        hidden, following = self.network(encoded[None], own)
        return hidden[0], self._named(following)

    def unroll(self, encoded: Tensor, rows: Mapping[str, Any], length: int) -> tuple[Tensor, State | None]:
        """The head's input [B, width], and the recurrent state after each row; rows must be whole sequences."""
        if not self._recurrent:
            return self.network.hidden(encoded), None
        sequences = encoded.shape[0] // length
        inputs, begins = (
            tf.reshape(_transposed(values, sequences, length), [length, sequences, *values.shape[1:]])
            for values in (encoded, rows["begins"])
        )
        first = {name: value[::length] for name, value in self._own(rows["state"]).items()}
        hidden, state = self.network.unrolled(inputs, first, begins)  # [L, S, units] each
        flat = {name: _transposed(rollouts.rows(values), length, sequences) for name, values in state.items()}
        return _transposed(rollouts.rows(hidden), length, sequences), self._named(flat)

    def _own(self, state: Mapping[str, Tensor]) -> State:
        return {name: state[f"{self._prefix}{name}"] for name in ("hidden", "cell")}

    def _named(self, state: State) -> State:
        return {f"{self._prefix}{name}": value for name, value in state.items()}


def _transposed(values: Tensor, first: int, second: int) -> Tensor:
    """Reorder rows [first * second, ...] by the second axis: [second * first, ...]."""
    shape = values.shape[1:]
    swapped = tf.transpose(tf.reshape(values, [first, second, *shape]), [1, 0, *range(2, 2 + len(shape))])
    return tf.reshape(swapped, [-1, *shape])
