"""R2D2: recurrent Q-learning from replayed sequences, with stored state and burn-in.

Sources: Kapturowski et al. 2019 (https://openreview.net/forum?id=r1lyTjAqYX), whose sections are cited below; value
rescaling by Pohlen et al. 2018 (https://arxiv.org/abs/1805.11593). Differences from the papers:
docs/algorithms/r2d2.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks import losses
from .blocks.actions import Discrete
from .blocks.behaviour import BehaviourParams
from .blocks.losses import action_values
from .blocks.lstm import State
from .blocks.masks import best
from .blocks.observations import MaskParams, Observations
from .blocks.optimizers import OptimizerParams
from .blocks.params import flag, from_params, integer, one_of, optional, param, real
from .blocks.recurrent import RecurrentNetwork, RecurrentParams, Sequences, observation_and_state
from .blocks.returns import n_step_returns
from .blocks.rollouts import rows
from .blocks.targets import TargetParams
from .blocks.train_step import learning_spec

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class R2D2Params(BehaviourParams, MaskParams, TargetParams, OptimizerParams, RecurrentParams):
    """The parameters of R2D2."""

    max_gradient_norm: float | None = 40.0
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    dueling: str | None = param(
        "mean",
        "dueling network: split Q into V and advantages, minus their `mean`, their `max` or nothing (`naive`)",
        optional(one_of(losses.DUELING)),
    )
    loss: str = param("squared", "loss function of TD errors", one_of(losses.LOSSES))
    n_step: int = param(5, "n of n-step returns, which end with their sequence", integer(at_least=1))
    rescaling: float | None = param(
        1e-3, "epsilon of the value rescaling function h; `null`: no rescaling", optional(real(above=0))
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | R2D2Params | None, config: RunConfig
) -> EstimatorSpec:
    """R2D2, for a SequenceMemory.

    Predictions: ``action`` int32 [B], ``q_values`` float32 [B, A], and ``action_mask`` bool [B, A] where observations
    have a mask. State: ``hidden`` and ``cell``, float32 [B, lstm]. Metrics: ``q_mean`` (of the actions taken),
    ``td_error_mean`` (of absolute values, on the scale of h), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not Discrete, the observations do not fit, the memory does not yield
            sequences, or a parameter is invalid.
    """
    params = from_params(R2D2Params, params)
    actions = Discrete(config.action_space, "R2D2")
    observations = Observations(config.observation_space, actions.space, params.action_mask)
    online = _QFunction("online", actions, params, observations)
    if mode == Modes.PREDICT:
        observation, state = observation_and_state(features)
        q_values, state = online.step(observations.encode(observation), state)  # [B, A]
        greedy = actions.greedy(q_values, observations.mask(observation))
        predictions = {"action": greedy, "q_values": online.values(q_values), **observations.masks(observation)}
        return EstimatorSpec(mode, predictions, exploration=params.behaviour(actions.space), state=state)

    target = _QFunction("target", actions, params, observations, zeros=True)
    params.move_target(mode, online.variables, target.variables, labels)
    sequences = Sequences(features, labels, "R2D2")
    q_values, target_q = online(sequences), target(sequences)  # [L + 1, B, A]
    next_mask = observations.mask(sequences["next_observation"])
    next_action = best((q_values if params.double else target_q)[1:], next_mask)  # [L, B]
    next_value = target.values(action_values(target_q[1:], next_action))
    past = sequences["reward"], sequences["discount"], sequences["truncated"]
    returns = online.scale(n_step_returns(*past, next_value, params.n_step))  # section 2.3
    q_taken = action_values(q_values[:-1], actions.from_environment(sequences["action"]))
    td_error = returns - q_taken  # [L, B]
    loss = sequences.mean(losses.LOSSES[params.loss](td_error), labels.get("weight", 1.0))
    metrics = {"q_mean": sequences.mean(online.values(q_taken)), "td_error_mean": sequences.mean(tf.abs(td_error))}
    td_error = sequences.with_burn_in(td_error)
    return learning_spec(mode, loss, online.variables, labels, params, td_error=td_error, metrics=metrics)


class _QFunction:
    """Network from sequences of observations to the values of all actions, rescaled by h; dueling or not."""

    def __init__(
        self, name: str, actions: Discrete, params: R2D2Params, observations: Observations, *, zeros: bool = False
    ) -> None:
        size = actions.num_outputs
        heads = {"q_values": size} if params.dueling is None else {"advantage": size, "value": 1}
        self._observations, self._dueling, self._epsilon = observations, params.dueling, params.rescaling
        self._network = RecurrentNetwork(name, observations.shape, heads, params, params.lstm, zeros=zeros)
        self.variables = self._network.variables

    def step(self, encoded: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The values [B, A], and the next state, for one encoded observation, float32 [B, ...]."""
        hidden, state = self._network(encoded[None], self._network.lstm.begin(encoded) if state is None else state)
        return self._q_values(hidden[0]), state

    def __call__(self, sequences: Sequences) -> Tensor:
        """The values [L + 1, B, A] of the observations after burn-in."""
        observed = sequences.observations()
        encoded = self._observations.encode(rows(observed))
        length, batch = tf.nest.flatten(observed)[0].shape[:2]
        return self._q_values(self._network.unroll(tf.reshape(encoded, [length, batch, *encoded.shape[1:]]), sequences))

    def _q_values(self, hidden: Tensor) -> Tensor:
        outputs = self._network.heads(hidden)
        if self._dueling is None:
            return outputs["q_values"]
        return losses.dueling(outputs["value"], outputs["advantage"], self._dueling)

    def scale(self, values: Tensor) -> Tensor:
        """Apply h to values, if the network learns rescaled ones."""
        return values if self._epsilon is None else losses.rescaled(values, self._epsilon)

    def values(self, q_values: Tensor) -> Tensor:
        """The inverse of :meth:`scale`."""
        return q_values if self._epsilon is None else losses.unrescaled(q_values, self._epsilon)
