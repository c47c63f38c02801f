"""CQL: conservative Q-learning, an offline DQN that does not overestimate actions missing from the data.

Sources: Kumar et al. 2020 (https://arxiv.org/abs/2006.04779), whose equations are cited below, over double Q-learning
by van Hasselt et al. 2016 (https://arxiv.org/abs/1509.06461). Differences from the papers: docs/algorithms/cql.md. For
actions in a Box: cql_sac.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from .blocks import losses
from .blocks.branches import Branches
from .blocks.observations import Observations
from .blocks.params import flag, from_params, one_of, param, real
from .blocks.q_networks import QNetwork, QParams, predict_spec
from .blocks.train_step import check_transitions, learning_spec, mean_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLParams(QParams):
    """The parameters of CQL."""

    max_gradient_norm: float | None = 10.0
    epsilon: ScheduleLike = 0.05  # for training that follows the data
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    loss: str = param("huber", "of a TD error", one_of(losses.LOSSES))
    conservative_weight: float = param(
        1.0, "alpha, weight of how much higher other actions are valued than those of the data", real(at_least=0)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | CQLParams | None, config: RunConfig
) -> EstimatorSpec:
    """CQL(H), for a ReplayMemory filled in advance.

    Predictions are those of DQN: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being
    the sum of a MultiDiscrete space's choices, ``noisy_action`` like ``action`` where layers are noisy, and
    ``action_mask`` bool [B, A] where observations have a mask. Metrics: ``q_mean`` (of the actions in the data),
    ``td_error_mean`` (of absolute values), ``conservative_error`` (of equation 4, without alpha), ``gradient_norm``
    (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(CQLParams, params)
    branches = Branches(config.action_space, "CQL")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    online = QNetwork("online", observations, branches, params)
    if mode == Modes.PREDICT:
        noisy_values = online(features, noisy=True) if params.noisy else None
        return predict_spec(online(features), noisy_values, features, branches, observations, params)

    check_transitions(labels, "CQL")
    target = QNetwork("target", observations, branches, params, zeros=True)
    params.move_target(mode, online.variables, target.variables, labels)

    def rows(network: QNetwork, observation: Any) -> Any:  # [B * K, n], each use with noise of its own
        return branches.rows(network(observation, noisy=params.noisy and mode == Modes.TRAIN))

    q_values, action = rows(online, features), branches.from_environment(labels["action"])
    prediction = losses.action_values(q_values, action)
    next_observation = labels["next_observation"]
    next_q_values = rows(target, next_observation)
    next_mask = branches.mask(observations.mask(next_observation), next_q_values)
    selector = rows(online, next_observation) if params.double else None
    next_value = branches.spread(branches.mean(losses.next_value(next_q_values, selector, next_mask)))
    reward, discount = branches.spread(labels["reward"]), branches.spread(labels["discount"])
    td_error = losses.td_error(prediction, reward, discount, next_value)  # [B * K]

    mask = branches.mask(observations.mask(features), q_values)
    gap = branches.mean(losses.conservative(q_values, action, mask))  # [B]
    error = branches.mean(losses.LOSSES[params.loss](td_error)) + params.conservative_weight * gap  # equation 4
    metrics = {
        "q_mean": tf.reduce_mean(prediction),
        "td_error_mean": tf.reduce_mean(tf.abs(td_error)),
        "conservative_error": tf.reduce_mean(gap),
    }
    loss, priority = mean_error(error, labels), branches.priority(td_error)
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)
