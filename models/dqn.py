"""DQN: Q-learning with a neural network, a target network and a replay memory, and its usual refinements.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581), Fortunato et al. 2018
(noisy, https://arxiv.org/abs/1706.10295), Tavakoli et al. 2018 (branches, https://arxiv.org/abs/1711.08946), Vieillard
et al. 2020 (Munchausen, https://arxiv.org/abs/2007.14430). Differences from the papers: docs/algorithms/dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ..contracts import EstimatorSpec, Modes, RunConfig
from .blocks import losses, masks
from .blocks.branches import Branches
from .blocks.learning import learning_spec, mean_error
from .blocks.observations import Observations
from .blocks.params import flag, from_params, one_of, param, real
from .blocks.q_networks import QNetwork, QParams, predict_spec
from .blocks.targets import update_target


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNParams(QParams):
    """The parameters of DQN."""

    max_gradient_norm: float | None = 10.0  # Wang et al. 2016, section 4.2
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    loss: str = param("huber", "of a TD error", one_of(losses.LOSSES))
    munchausen: float = param(
        0.0, "weight of the log-probability that is added to a reward; 0.9 in the paper; 0 is off", real(at_least=0)
    )
    munchausen_temperature: float = param(
        0.03, "of the soft policy whose log-probability that is, in units of values", real(above=0)
    )
    munchausen_floor: float = param(-1.0, "the lowest log-probability times temperature", real(at_most=0))


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | DQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """DQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being the sum of a
    MultiDiscrete space's choices, ``noisy_action`` like ``action`` where layers are noisy, and ``action_mask`` bool
    [B, A] where observations have a mask. Metrics: ``q_mean`` (of the actions taken), ``td_error_mean`` (of absolute
    values), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is another one, the observations do not fit, or a parameter is invalid.
    """
    params = from_params(DQNParams, params)
    branches = Branches(config.action_space, "DQN")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    online = QNetwork("online", observations, branches, params)
    if mode == Modes.PREDICT:
        noisy_values = online(features, noisy=True) if params.noisy else None
        return predict_spec(online(features), noisy_values, features, branches, observations, params)

    target = QNetwork("target", observations, branches, params, zeros=True)
    if mode == Modes.TRAIN:
        period, rate = params.target_update_period, params.target_update_rate
        update_target(online.variables, target.variables, labels["global_step"], period=period, rate=rate)

    def rows(network: QNetwork, observation: Any) -> Any:  # [B * K, n], each use with noise of its own
        return branches.rows(network(observation, noisy=params.noisy and mode == Modes.TRAIN))

    next_observation = labels["next_observation"]
    q_values, next_q_values = rows(online, features), rows(target, next_observation)
    selector = rows(online, next_observation) if params.double else next_q_values
    next_mask = branches.mask(observations.mask(next_observation), next_q_values)
    action = branches.from_environment(labels["action"])  # [B * K]
    reward, discount = branches.spread(labels["reward"]), branches.spread(labels["discount"])
    if params.munchausen:
        temperature, floor = params.munchausen_temperature, params.munchausen_floor
        own = q_values if params.double else rows(target, features)
        mask = branches.mask(observations.mask(features), own)
        reward += params.munchausen * losses.munchausen_bonus(own, action, temperature, floor, mask)
        next_value = losses.soft_value(next_q_values, selector, temperature, next_mask)
    elif params.double:
        next_value = losses.double_value(next_q_values, selector, next_mask)
    else:
        next_value = masks.highest(next_q_values, next_mask)
    prediction = losses.action_values(q_values, action)
    td_error = losses.td_error(prediction, reward, discount, branches.spread(branches.mean(next_value)))
    loss = mean_error(branches.mean(losses.LOSSES[params.loss](td_error)), labels)
    metrics = {"q_mean": tf.reduce_mean(prediction), "td_error_mean": tf.reduce_mean(tf.abs(td_error))}
    priority = branches.priority(td_error)
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)
