"""DQN: Q-learning with a neural network, a target network and a replay memory, and its usual refinements.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581). Differences from the
papers: docs/algorithms/dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ..contracts import EstimatorSpec, Modes, RunConfig
from .blocks import losses
from .blocks.actions import BehaviourParams, Discrete
from .blocks.learning import learning_spec, mean_error
from .blocks.networks import Network, NetworkParams
from .blocks.observations import MaskParams, Observations
from .blocks.optimizers import OptimizerParams
from .blocks.params import flag, from_params, one_of, optional, param
from .blocks.targets import TargetParams, update_target


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNParams(BehaviourParams, MaskParams, TargetParams, OptimizerParams, NetworkParams):
    """The parameters of DQN."""

    max_gradient_norm: float | None = 10.0  # Wang et al. 2016, section 4.2
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    dueling: str | None = param(
        None, "split Q into a value and advantages, less their mean or maximum", optional(one_of(losses.DUELING))
    )
    loss: str = param("huber", "of a TD error", one_of(losses.LOSSES))


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | DQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """DQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B], ``q_values`` float32 [B, A], and ``action_mask`` bool [B, A] where observations
    have a mask. Metrics: ``q_mean`` (of the actions taken), ``td_error_mean`` (of absolute values), ``gradient_norm``
    (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not Discrete, the observations do not fit, or a parameter is invalid.
    """
    params = from_params(DQNParams, params)
    actions = Discrete(config.action_space, "DQN")
    observations = Observations(config.observation_space, actions.space, params.action_mask)
    online = _QFunction("online", actions, params, observations)
    q_values = online(features)  # [B, A]
    if mode == Modes.PREDICT:
        greedy = actions.greedy(q_values, observations.mask(features))
        predictions = {"action": greedy, "q_values": q_values, **observations.masks(features)}
        return EstimatorSpec(mode, predictions, exploration=params.behaviour(actions.space))

    target = _QFunction("target", actions, params, observations, zeros=True)
    if mode == Modes.TRAIN:
        period, rate = params.target_update_period, params.target_update_rate
        update_target(online.variables, target.variables, labels["global_step"], period=period, rate=rate)
    action = actions.from_environment(labels["action"])
    next_observation = labels["next_observation"]
    next_mask = observations.mask(next_observation)
    transition = (q_values, action, labels["reward"], labels["discount"], target(next_observation), next_mask)
    if params.double:
        td_error = losses.double_q_learning(*transition, selector_q_values=online(next_observation))  # [B]
    else:
        td_error = losses.q_learning(*transition)  # [B]
    loss = mean_error(losses.LOSSES[params.loss](td_error), labels)
    metrics = {
        "q_mean": tf.reduce_mean(losses.action_values(q_values, action)),
        "td_error_mean": tf.reduce_mean(tf.abs(td_error)),
    }
    return learning_spec(mode, loss, online.variables, labels, params, td_error=td_error, metrics=metrics)


class _QFunction:
    """From observations to the values of all actions, float32 [B, A]; dueling or not."""

    def __init__(
        self, name: str, actions: Discrete, params: DQNParams, observations: Observations, *, zeros: bool = False
    ) -> None:
        size = actions.num_outputs
        heads = {"q_values": size} if params.dueling is None else {"advantage": size, "value": 1}
        self._observations, self._dueling = observations, params.dueling
        self._network = Network(name, observations.shape, heads, params, zeros=zeros)
        self.variables = self._network.variables

    def __call__(self, observation: Any) -> Any:
        outputs = self._network(self._observations.encode(observation))
        if self._dueling is None:
            return outputs["q_values"]
        return losses.dueling(outputs["value"], outputs["advantage"], self._dueling)
