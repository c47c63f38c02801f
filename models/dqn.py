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
from ..explorations import EpsilonGreedy
from .blocks import losses
from .blocks.actions import Discrete, EpsilonParams
from .blocks.learning import learning_spec, mean_error
from .blocks.networks import Network, NetworkParams, encode, encoded_shape
from .blocks.optimizers import OptimizerParams
from .blocks.params import flag, from_params, one_of, optional, param
from .blocks.targets import TargetParams, update_target


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNParams(EpsilonParams, TargetParams, OptimizerParams, NetworkParams):
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

    Predictions: ``action`` int32 [B] and ``q_values`` float32 [B, A]. Metrics: ``q_mean`` (of the actions taken),
    ``td_error_mean`` (of absolute values), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not Discrete, the observations do not fit, or a parameter is invalid.
    """
    params = from_params(DQNParams, params)
    actions = Discrete(config.action_space, "DQN")
    online = _QFunction("online", actions, params, config)
    q_values = online(features)  # [B, A]
    if mode == Modes.PREDICT:
        predictions = {"action": actions.greedy(q_values), "q_values": q_values}
        return EstimatorSpec(mode, predictions, exploration=EpsilonGreedy(params.epsilon, actions.space))

    target = _QFunction("target", actions, params, config, zeros=True)
    if mode == Modes.TRAIN:
        period, rate = params.target_update_period, params.target_update_rate
        update_target(online.variables, target.variables, labels["global_step"], period=period, rate=rate)
    action = actions.from_environment(labels["action"])
    next_observation = labels["next_observation"]
    transition = (q_values, action, labels["reward"], labels["discount"], target(next_observation))
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
        self, name: str, actions: Discrete, params: DQNParams, config: RunConfig, *, zeros: bool = False
    ) -> None:
        size = actions.num_outputs
        heads = {"q_values": size} if params.dueling is None else {"advantage": size, "value": 1}
        self._space, self._dueling = config.observation_space, params.dueling
        self._network = Network(name, encoded_shape(self._space), heads, params, zeros=zeros)
        self.variables = self._network.variables

    def __call__(self, observation: Any) -> Any:
        outputs = self._network(encode(observation, self._space))
        if self._dueling is None:
            return outputs["q_values"]
        return losses.dueling(outputs["value"], outputs["advantage"], self._dueling)
