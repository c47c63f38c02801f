"""QR-DQN: Q-learning with quantiles of the distribution of returns instead of its mean.

Source: Dabney, Rowland, Bellemare and Munos 2018 (https://arxiv.org/abs/1710.10044). Differences from the paper:
docs/algorithms/qr_dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from .blocks import quantiles
from .blocks.params import from_params, integer, param
from .blocks.q_networks import QNetwork, QTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class QRDQNParams(quantiles.QuantileParams):
    """The parameters of QR-DQN."""

    quantiles: int = param(200, "number of quantiles predicted for each action", integer(at_least=1))


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
    task = QTask(config, mode, params, "QR-DQN")
    network = partial(QNetwork, task=task, outputs=params.quantiles, head="quantiles")
    online = network("online")
    if mode == Modes.PREDICT:
        theta = online(features)  # [B, A, N]
        noisy_values = quantiles.values(online(features, noisy=True)) if task.noisy else None
        return task.predict(features, quantiles.values(theta), noisy_values, quantiles=theta)

    target = task.target(network, online, labels)
    rows, next_observation = task.branches.rows, labels["next_observation"]
    theta = rows(online(features, noisy=task.noisy))  # [B * K, n, N]; K = 1 except for MultiDiscrete actions
    next_theta = rows(target(next_observation, noisy=task.noisy))
    selector = rows(online(next_observation, noisy=task.noisy)) if params.double else next_theta
    prediction = theta, quantiles.midpoints(params.quantiles)
    return quantiles.learning(task, params, mode, labels, online.variables, prediction, next_theta, selector)
