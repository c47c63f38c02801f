"""QR-DQN: Q-learning with quantiles of the distribution of returns in place of its mean.

Source: Dabney, Rowland, Bellemare and Munos 2018 (https://arxiv.org/abs/1710.10044). Differences from the paper:
docs/algorithms/qr_dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from .blocks import quantiles
from .blocks.branches import Branches
from .blocks.distributional import of_action
from .blocks.observations import Observations
from .blocks.params import from_params, param, whole
from .blocks.q_networks import QNetwork, predict_spec
from .blocks.train_step import check_transitions, learning_spec, mean_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class QRDQNParams(quantiles.QuantileParams):
    """The parameters of QR-DQN."""

    quantiles: int = param(200, "equally likely returns that are predicted for each action", whole(at_least=1))


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | QRDQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """QR-DQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A] (expected returns), A being
    the sum of a MultiDiscrete space's choices, ``quantiles`` float32 [B, A, quantiles], ``noisy_action`` like
    ``action`` where layers are noisy, and ``action_mask`` bool [B, A] where observations have a mask. Metrics:
    ``q_mean`` (of the actions taken), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(QRDQNParams, params)
    branches = Branches(config.action_space, "QR-DQN")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    noisy = params.noisy and mode != Modes.EVAL

    def values(theta: Any) -> Any:
        return tf.reduce_mean(theta, axis=-1)

    online = QNetwork("online", observations, branches, params, outputs=params.quantiles, head="quantiles")
    if mode == Modes.PREDICT:
        theta = online(features)  # [B, A, N]
        noisy_values = values(online(features, noisy=True)) if noisy else None
        return predict_spec(values(theta), noisy_values, features, branches, observations, params, quantiles=theta)

    check_transitions(labels, "QR-DQN")
    target = QNetwork("target", observations, branches, params, outputs=params.quantiles, head="quantiles", zeros=True)
    params.move_target(mode, online.variables, target.variables, labels)
    next_observation, action = labels["next_observation"], branches.from_environment(labels["action"])
    theta = branches.rows(online(features, noisy=noisy))  # [B * K, n, N]; K = 1 but for MultiDiscrete actions
    next_theta = branches.rows(target(next_observation, noisy=noisy))
    selector = branches.rows(online(next_observation, noisy=noisy)) if params.double else next_theta
    next_action = branches.best(values(selector), observations.mask(next_observation))  # [B * K]
    next_taken = branches.mixture(of_action(next_theta, next_action))  # [B, K * N]
    targets = branches.spread(quantiles.target(labels["reward"], labels["discount"], next_taken))
    taken = of_action(theta, action)  # [B * K, N]
    error = quantiles.quantile_loss(taken, quantiles.midpoints(params.quantiles), targets, params.kappa)  # algorithm 1
    loss, priority = mean_error(branches.mean(error), labels), branches.priority(error)
    metrics = {"q_mean": tf.reduce_mean(values(taken))}
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)
