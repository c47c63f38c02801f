"""Policy and value networks of on-policy algorithms, with or without memory, and the parameters that these share.

Shapes in comments: a rollout is [T, N, ...], T timesteps of N environments. Its rows are [B, ...], B = T * N: in the
order of the rollout, or, where the networks have an LSTM, one environment after another, so that ``sequence_length``
rows at a time are consecutive timesteps.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ...errors import ArgumentError
from ...schedules import ScheduleLike
from .actions import Actions
from .networks import Network, NetworkParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams
from .params import flag, optional, param, real, schedule, whole
from .recurrent import RecurrentNetwork, State, observation_and_state
from .returns import gae
from .rollouts import check_rollout, rows

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticParams(MaskParams, OptimizerParams, NetworkParams):
    """The parameters that on-policy algorithms share. Schedules follow ``global_step``, which counts rollouts."""

    activation: str = "tanh"
    initializer: str = "orthogonal"
    max_gradient_norm: float | None = 0.5
    shared: bool = param(False, "one network with two heads for policy and value instead of two networks", flag())
    lstm: int | None = param(
        None,
        "units of an LSTM after the hidden layers, for tasks that need memory; `null`: none",
        optional(whole(at_least=1)),
    )
    sequence_length: int = param(
        16, "timesteps that an LSTM is trained over at once; divides those of each environment", whole(at_least=1)
    )
    log_std: float = param(
        0.0,
        "initial log standard deviation of Box actions, in the environment's units",
        real(at_least=-20, at_most=20),
    )
    value_coefficient: float = param(0.5, "weight of the value's squared error", real(at_least=0))
    entropy_coefficient: ScheduleLike = param(0.0, "weight of the entropy", schedule(at_least=0))
    normalize_advantages: bool = param(
        True, "to mean 0 and standard deviation 1, among those of one step of the optimizer", flag()
    )
    gae_lambda: float = param(
        0.95, "between one-step TD errors (0) and discounted returns (1)", real(at_least=0, at_most=1)
    )


class ActorCritic:
    """Policy and value. All variables are created at once.

    Args:
        observations: what the networks see of them.
        actions: what the policy decides.
        params: which networks.

    Raises:
        ValueError: the network does not fit the observations.
    """

    def __init__(self, observations: Observations, actions: Actions, params: ActorCriticParams) -> None:
        self._observations, self._actions, shape = observations, actions, observations.shape
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        # The small head starts with a nearly uniform policy: Andrychowicz et al. 2020, section 3.2.
        self._policy = _Part("policy", shape, actions.num_outputs, params, scale, head_scale=0.01)
        self._log_std: Any = None
        if actions.num_scales:
            with keras.name_scope("policy"):
                initial = np.full(actions.num_scales, params.log_std, np.float32)
                self._log_std = keras.Variable(initial, name="log_std")
        self._value = _Part("value", shape, 1, params, scale, shared=self._policy if params.shared else None)
        self._shared = params.shared
        self.sequence_length = 1 if params.lstm is None else params.sequence_length
        """Rows that minibatches keep together."""

    @property
    def policy_variables(self) -> list[Any]:
        """What the policy consists of."""
        return self._policy.variables if self._log_std is None else [*self._policy.variables, self._log_std]

    @property
    def value_variables(self) -> list[Any]:
        """What the value consists of; layers that it shares with the policy are among them."""
        return self._value.variables

    @property
    def variables(self) -> list[Any]:
        """What is trained."""
        both = [*self._policy.variables, *self._value.variables]
        found = list({id(variable): variable for variable in both}.values())  # a shared body once
        return found if self._log_std is None else [*found, self._log_std]

    def act(self, features: Any) -> tuple[dict[str, Tensor], Tensor, State | None]:
        """For PREDICT: what describes the distribution over actions, the value [B], and the next recurrent state."""
        observation, state = observation_and_state(features)
        encoded = self._observations.encode(observation)
        hidden, following = self._policy.step(encoded, state)
        value_hidden, others = (hidden, {}) if self._shared else self._value.step(encoded, state)
        outputs = self._described(self._policy.head(hidden), observation)
        return outputs, self._value.head(value_hidden)[:, 0], {**following, **others} or None

    def rollout(self, features: Any, labels: Mapping[str, Any], gae_lambda: float, algorithm: str) -> dict[str, Any]:
        """The rows of a rollout, [B, ...], as :meth:`evaluate` takes them.

        Args:
            features: observations [T, N, ...], with the recurrent state before each if there is one.
            labels: the rest of the batch, with the recorded ``log_prob`` and ``value`` [T, N].
            gae_lambda: of the advantages.
            algorithm: for error messages.

        Returns:
            ``observation``, ``action`` (as ``Distribution.log_prob`` takes it), ``log_prob``, ``value``,
            ``advantage`` (Schulman et al. 2016, equation 16), ``return`` (advantage and value), float32 [B] but for the
            first two; with an LSTM ``state``, and ``begins`` [B], 1 where an episode began.

        Raises:
            ArgumentError: the batch is no rollout, or sequences do not divide it.
        """
        check_rollout(labels, algorithm)
        length, copies = labels["reward"].shape
        observation, state = observation_and_state(features)
        recorded = {name: labels[name] for name in ("action", "log_prob", "value")}
        batch = {"observation": observation, "next_observation": labels["next_observation"], **recorded}
        if state is not None:
            batch["state"] = state
        found = {name: rows(part) for name, part in batch.items()}
        next_value = tf.reshape(self._next_value(found), [length, copies])
        reward, discount, truncated, value = (labels[name] for name in ("reward", "discount", "truncated", "value"))
        advantage = gae(reward, discount, truncated, value, next_value, gae_lambda)
        found |= {"advantage": rows(advantage), "return": rows(advantage + value)}
        found["action"] = self._actions.from_environment(found["action"])
        del found["next_observation"]
        if state is None:
            return found
        if length % self.sequence_length:
            raise ArgumentError(
                f"sequence_length must divide the {length} timesteps of each environment in a rollout, got"
                f" {self.sequence_length}",
                "sequence_length",
                self.sequence_length,
            )
        ended = tf.maximum(labels["terminated"], truncated)
        found["begins"] = rows(tf.pad(ended[:-1], [[1, 0], [0, 0]]))
        return {name: _by_environment(part, length, copies) for name, part in found.items()}

    def evaluate(self, rows: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
        """For rows of :meth:`rollout`: what describes the distributions (each [B, ...]), and the values, float32 [B].

        With an LSTM the rows must be whole sequences; each begins with the recorded state.
        """
        encoded = self._observations.encode(rows["observation"])
        hidden = self._policy.unroll(encoded, rows)
        outputs = self._described(self._policy.head(hidden), rows["observation"])
        value_hidden = hidden if self._shared else self._value.unroll(encoded, rows)
        return outputs, self._value.head(value_hidden)[:, 0]

    def _next_value(self, rows: Mapping[str, Any]) -> Tensor:
        """V of the next observations [B], which follow the state after the observations."""
        state = rows.get("state")
        if state is not None:
            _, state = self._value.step(self._observations.encode(rows["observation"]), state)
        hidden, _ = self._value.step(self._observations.encode(rows["next_observation"]), state)
        return self._value.head(hidden)[:, 0]

    def _described(self, outputs: Tensor, observation: Any) -> dict[str, Tensor]:
        return {**self._actions.described(outputs, self._log_std), **self._observations.masks(observation)}


class _Part:
    """The policy's or the value's network, which may have an LSTM.

    Args:
        name: prefix of the names of the variables.
        shape: of an encoded observation.
        size: outputs.
        params: which layers.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernel of the head.
        shared: the part whose layers below the head are this one's too.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        size: int,
        params: ActorCriticParams,
        scale: float,
        *,
        head_scale: float = 1.0,
        shared: _Part | None = None,
    ) -> None:
        below = None if shared is None else shared._network
        scales = {"scale": scale, "head_scale": head_scale}
        self._network: Any
        if params.lstm is None:
            self._network = Network(name, shape, {"head": size}, params, **scales, body=below and below.body)
        else:
            self._network = RecurrentNetwork(name, shape, {"head": size}, params, params.lstm, **scales, below=below)
        self._recurrent, self._length = params.lstm is not None, params.sequence_length
        self._prefix = "" if name == "policy" or shared is not None else f"{name}_"

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        found: list[Any] = self._network.variables
        return found

    def head(self, hidden: Tensor) -> Tensor:
        """float32 [B, size]."""
        return self._network.heads(hidden)["head"]

    def step(self, encoded: Tensor, state: Mapping[str, Tensor] | None) -> tuple[Tensor, State]:
        """What the head is given [B, width], and the part of the recurrent state that follows; empty if there is none.

        Args:
            encoded: observations [B, ...].
            state: before them, [B, units] by name; None where episodes begin.
        """
        if not self._recurrent:
            return self._network.hidden(encoded), {}
        own = self._network.lstm.begin(encoded) if state is None else self._own(state)
        hidden, following = self._network(encoded[None], own)
        return hidden[0], {f"{self._prefix}{name}": value for name, value in following.items()}

    def unroll(self, encoded: Tensor, rows: Mapping[str, Any]) -> Tensor:
        """What the head is given for rows that are whole sequences, [B, width]."""
        if not self._recurrent:
            return self._network.hidden(encoded)
        length, sequences = self._length, encoded.shape[0] // self._length
        inputs = _time_first(encoded, sequences, length)
        begins = _time_first(rows["begins"], sequences, length)
        first = {name: value[::length] for name, value in self._own(rows["state"]).items()}
        hidden, _ = self._network(inputs, first, begins=begins)  # [L, S, units]
        return _by_environment(tf.reshape(hidden, [-1, hidden.shape[-1]]), length, sequences)

    def _own(self, state: Mapping[str, Tensor]) -> State:
        return {name: state[f"{self._prefix}{name}"] for name in ("hidden", "cell")}


def _time_first(values: Tensor, sequences: int, length: int) -> Tensor:
    """Rows [S * L, ...] of one sequence after another, as [L, S, ...]."""
    return _swapped(tf.reshape(values, [sequences, length, *values.shape[1:]]))


def _by_environment(tree: Any, length: int, copies: int) -> Any:
    """Rows [T * N, ...] in the order of time as those of one environment after another; or those of a mapping."""
    if isinstance(tree, Mapping):
        return {name: _by_environment(part, length, copies) for name, part in tree.items()}
    return tf.reshape(_swapped(tf.reshape(tree, [length, copies, *tree.shape[1:]])), [-1, *tree.shape[1:]])


def _swapped(values: Tensor) -> Tensor:
    """The first two axes exchanged."""
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])
