"""DQN: Q-learning with a neural network, a target network and a replay memory, and its usual refinements.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581), Fortunato et al. 2018
(noisy, https://arxiv.org/abs/1706.10295), Tavakoli et al. 2018 (branches, https://arxiv.org/abs/1711.08946), Vieillard
et al. 2020 (Munchausen, https://arxiv.org/abs/2007.14430), Hester et al. 2018 (DQfD, https://arxiv.org/abs/1704.03732).
Differences from the papers: docs/algorithms/dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from .blocks import losses
from .blocks.branches import Branches
from .blocks.observations import Observations
from .blocks.params import flag, from_params, one_of, param, real
from .blocks.q_networks import QNetwork, QParams, predict_spec
from .blocks.train_step import check_transitions, learning_spec, mean_error


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
    margin_weight: float = param(
        0.0, "weight of DQfD's large-margin loss of demonstrations; 1 in the paper; 0 is off", real(at_least=0)
    )
    margin: float = param(0.8, "by which an expert's action must have a higher value than others", real(at_least=0))
    n_step_weight: float = param(
        0.0, "weight of DQfD's n-step loss beside the 1-step one; 1 in the paper; 0 is off", real(at_least=0)
    )
    l2: float = param(
        0.0, "weight of half the sum of all squared weights and biases; 1e-5 in DQfD's paper", real(at_least=0)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | DQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """DQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being the sum of a
    MultiDiscrete space's choices, ``noisy_action`` like ``action`` where layers are noisy, and ``action_mask`` bool
    [B, A] where observations have a mask. Metrics: ``q_mean`` (of the actions taken), ``td_error_mean`` (of absolute
    values), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(DQNParams, params)
    branches = Branches(config.action_space, "DQN")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    online = QNetwork("online", observations, branches, params)
    if mode == Modes.PREDICT:
        noisy_values = online(features, noisy=True) if params.noisy else None
        return predict_spec(online(features), noisy_values, features, branches, observations, params)

    check_transitions(labels, "DQN")
    target = QNetwork("target", observations, branches, params, zeros=True)
    params.move_target(mode, online.variables, target.variables, labels)

    def rows(network: QNetwork, observation: Any) -> Any:  # [B * K, n], each use with noise of its own
        return branches.rows(network(observation, noisy=params.noisy and mode == Modes.TRAIN))

    q_values, action = rows(online, features), branches.from_environment(labels["action"])
    mask = branches.mask(observations.mask(features), q_values)
    prediction = losses.action_values(q_values, action)

    def td_error_of(reward: Any, discount: Any, next_observation: Any) -> Any:  # [B * K]
        next_q_values = rows(target, next_observation)
        selector = rows(online, next_observation) if params.double else None
        next_mask = branches.mask(observations.mask(next_observation), next_q_values)
        reward = branches.spread(reward)
        if params.munchausen:
            temperature, floor = params.munchausen_temperature, params.munchausen_floor
            own = q_values if params.double else rows(target, features)
            reward += params.munchausen * losses.munchausen_bonus(own, action, temperature, floor, mask)
            policy = next_q_values if selector is None else selector
            next_value = losses.soft_value(next_q_values, policy, temperature, next_mask)
        else:
            next_value = losses.next_value(next_q_values, selector, next_mask)
        next_value = branches.spread(branches.mean(next_value))
        return losses.td_error(prediction, reward, branches.spread(discount), next_value)

    size_of = losses.LOSSES[params.loss]
    td_error = td_error_of(labels["reward"], labels["discount"], labels["next_observation"])
    error = branches.mean(size_of(td_error))  # [B]
    if params.n_step_weight:
        n_step = _needed(labels, ("n_step_reward", "n_step_discount", "n_step_next_observation"), "n_step_weight")
        error += params.n_step_weight * branches.mean(size_of(td_error_of(*n_step)))
    if params.margin_weight:
        (demonstration,) = _needed(labels, ("demonstration",), "margin_weight")
        margin_error = branches.mean(losses.large_margin(q_values, action, params.margin, mask))
        error += params.margin_weight * demonstration * margin_error
    loss, priority = mean_error(error, labels), branches.priority(td_error)
    if params.l2:
        loss += params.l2 * losses.half_square_sum(online.variables)
    metrics = {"q_mean": tf.reduce_mean(prediction), "td_error_mean": tf.reduce_mean(tf.abs(td_error))}
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)


def _needed(labels: Mapping[str, Any], names: Sequence[str], param: str) -> list[Any]:
    """Labels that a DemonstrationMemory adds; ArgumentError that names the parameter if they are missing."""
    if missing := [name for name in names if name not in labels]:
        message = f"{param} needs batches with {', '.join(missing)}: use a DemonstrationMemory"
        raise ArgumentError(message + (", with n_step > 1" if len(names) > 1 else ""), param)
    return [labels[name] for name in names]
