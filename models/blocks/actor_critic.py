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
from .actor_critic_params import INTRINSIC_VALUE, VALUE, PolicyNetworkParams
from .actor_critic_parts import Part, swap_axes
from .box_actions import StateDependentBox
from .distributions import Distribution
from .lstm import State
from .observations import Observations
from .recurrent import observation_and_state
from .returns import endless_gae, gae
from .rnd import RND

Tensor: TypeAlias = Any


class ActorCritic:
    """Policy and value networks. All variables are created at once.

    The value network has one head for each kind of reward.

    Args:
        config: has the spaces.
        params: parameters of the networks.
        algorithm: for error messages.
        sequence_length: timesteps over which an LSTM is unrolled in training.
        values: heads of the value network; without any there is none, and values in a rollout are 0.
        least_log_std: lower bound of the log standard deviation of Box actions; None: unbounded.

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
        values: Sequence[str] = (VALUE,),
        least_log_std: float | None = None,
    ) -> None:
        self.actions = actions = actions_of(
            config.action_space, algorithm, params.box_policy, params.sde_resample_every
        )
        """Actions of the policy."""
        self.observations = Observations(config.observation_space, actions.space, params.action_mask)
        """Encoding of observations."""
        self._algorithm, shape = algorithm, self.observations.shape
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        # A small head makes the initial policy nearly uniform: Andrychowicz et al. 2020, section 3.2.
        self._policy = Part("policy", shape, actions.num_outputs, params, scale, head_scale=0.01)
        self._log_std, self._least_log_std = None, least_log_std
        if actions.num_scales:
            with keras.name_scope("policy"):
                of_features = isinstance(actions, StateDependentBox)
                scales = (self._policy.width, actions.num_scales) if of_features else actions.num_scales
                initial = np.full(scales, params.log_std, np.float32)
                self._log_std = keras.Variable(initial, name="log_std")
        self._values = tuple(values)
        self._value: Any = None
        if values:
            shared = self._policy if params.shared else None
            self._value = Part("value", shape, len(values), params, scale, shared=shared)
        self._shared, self._recurrent = params.shared, params.lstm is not None
        self.sequence_length = sequence_length if self._recurrent else 1
        """Number of consecutive rows that minibatches keep together."""

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
        """The spec of PREDICT: the likeliest ``action``, the values [B] by head, and the distribution's parameters.

        Args:
            features: observations [B, ...], with the recurrent state before each if there is one.
            record: names of predictions to store with each transition.
        """
        observation, state = observation_and_state(features)
        encoded, actions = self.observations.encode(observation), self.actions
        hidden, following = self._policy.step(encoded, state)
        outputs = self._distribution_parameters(hidden, observation)
        predictions = {"action": actions.likeliest(outputs)}
        if self._value is not None:
            value_hidden, others = (hidden, {}) if self._shared else self._value.step(encoded, state)
            predictions |= self._by_head(value_hidden)
            following = {**following, **others}
        return EstimatorSpec(
            Modes.PREDICT,
            {**predictions, **actions.shaped(outputs)},
            exploration=actions.exploration(),
            record=tuple(record),
            state=following or None,
        )

    def rollout(
        self, features: Any, labels: Mapping[str, Any], gae_lambda: float, bonus: RND | None = None
    ) -> dict[str, Any]:
        """The rows of a rollout for PPO: :meth:`rows` without ``next_observation``, with advantages and returns.

        ``advantage`` (Schulman et al. 2016, equation 16) and ``return`` (advantage plus recorded value), float32 [B].
        With a bonus its advantage is added, and there are also ``intrinsic_return`` and the bonus' own rows.

        Args:
            features: as for :meth:`rows`.
            labels: as for :meth:`rows`, with the recorded values, and ``log_prob`` if it is recorded.
            gae_lambda: lambda of the advantages.
            bonus: intrinsic rewards, if the value has a head for them.
        """
        recorded = [name for name in ("log_prob", *self._values) if name in labels]
        found = self.rows(features, labels, recorded)
        values = next_values = {VALUE: tf.zeros_like(labels["reward"])}
        if self._value is not None:
            values = {name: labels[name] for name in self._values}
            ahead = self._next_values(found, self._states(found))
            next_values = {name: self.in_time(value, labels) for name, value in ahead.items()}
        del found["next_observation"]
        extra = {} if bonus is None else self._in_rows(bonus.rows)
        return {**found, **extra, **self._advantages(labels, values, next_values, gae_lambda, bonus)}

    def recomputed(
        self, rows: Mapping[str, Any], labels: Mapping[str, Any], gae_lambda: float, bonus: RND | None = None
    ) -> dict[str, Tensor]:
        """Values, advantages and returns of :meth:`rows`, by the current value network, float32 [B]."""
        encoded = self.observations.encode(rows["observation"])
        hidden, state = self._value.unroll(encoded, rows, self.sequence_length)
        both = (self._by_head(hidden), self._next_values(rows, state))
        values, next_values = (
            {name: self.in_time(tf.stop_gradient(value), labels) for name, value in by_head.items()} for by_head in both
        )
        return {**self._in_rows(values), **self._advantages(labels, values, next_values, gae_lambda, bonus)}

    def _advantages(
        self,
        labels: Mapping[str, Any],
        values: Mapping[str, Tensor],
        next_values: Mapping[str, Tensor],
        gae_lambda: float,
        bonus: RND | None,
    ) -> dict[str, Tensor]:
        """Rows of advantages and returns from values [T, N] by head."""
        reward, discount, truncated = (labels[name] for name in ("reward", "discount", "truncated"))
        advantage = gae(reward, discount, truncated, values[VALUE], next_values[VALUE], gae_lambda)
        found = {"advantage": advantage, "return": advantage + values[VALUE]}
        if bonus is not None:
            value, last = values[INTRINSIC_VALUE], next_values[INTRINSIC_VALUE][-1]
            own = endless_gae(bonus.reward, bonus.discount, value, last, gae_lambda)
            found = {**found, "advantage": advantage + bonus.coefficient * own, "intrinsic_return": own + value}
        in_rows: dict[str, Tensor] = self._in_rows(found)
        return in_rows

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
        return tf.reshape(swap_axes(values, copies, length) if self._recurrent else values, [length, copies])

    def evaluate(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Parameters of the distributions (each [B, ...]), and values float32 [B] by head, for rows of a rollout.

        With an LSTM the rows must be whole sequences; each begins with the recorded state.
        """
        outputs, values, _ = self._evaluate(rows)
        return outputs, values

    def distribution(self, rows: Mapping[str, Any]) -> Distribution:
        """Distribution of the policy's actions, for rows as for :meth:`evaluate`."""
        return self.actions.distribution(self.evaluate(rows)[0])

    def evaluate_with_next(
        self, rows: Mapping[str, Any]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Results of :meth:`evaluate`, and the values of the next observations, float32 [B] by head."""
        outputs, values, state = self._evaluate(rows)
        return outputs, values, self._next_values(rows, state)

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
        return swap_axes(flat, *tree.shape[:2]) if self._recurrent else flat

    def _evaluate(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor], State | None]:
        encoded = self.observations.encode(rows["observation"])
        hidden, state = self._policy.unroll(encoded, rows, self.sequence_length)
        outputs = self._distribution_parameters(hidden, rows["observation"])
        if self._value is None:
            return outputs, {}, None
        if not self._shared:
            hidden, state = self._value.unroll(encoded, rows, self.sequence_length)
        return outputs, self._by_head(hidden), state

    def _states(self, rows: Mapping[str, Any]) -> State | None:
        """The value's recurrent state after each row; None if it has none."""
        if not self._recurrent:
            return None
        encoded = self.observations.encode(rows["observation"])
        states: State | None = self._value.unroll(encoded, rows, self.sequence_length)[1]
        return states

    def _next_values(self, rows: Mapping[str, Any], state: State | None) -> dict[str, Tensor]:
        """V of the next observations [B] by head, given the value's recurrent state before them."""
        hidden, _ = self._value.step(self.observations.encode(rows["next_observation"]), state)
        return self._by_head(hidden)

    def _by_head(self, hidden: Tensor) -> dict[str, Tensor]:
        """Values [B] by head, from the input of the heads."""
        outputs = self._value.head(hidden)
        return {name: outputs[:, i] for i, name in enumerate(self._values)}

    def _distribution_parameters(self, hidden: Tensor, observation: Any) -> dict[str, Tensor]:
        """The distribution's parameters, from the input of the policy's head, and the mask."""
        outputs, actions = self._policy.head(hidden), self.actions
        if isinstance(actions, StateDependentBox):
            return actions.distribution_parameters(outputs, tf.convert_to_tensor(self._log_std), hidden)
        log_std = self._log_std
        if log_std is not None and self._least_log_std is not None:
            log_std = tf.maximum(log_std, self._least_log_std)
        return {**actions.distribution_parameters(outputs, log_std), **self.observations.masks(observation)}
