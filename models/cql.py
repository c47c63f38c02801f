"""CQL: conservative Q-learning, an offline DQN that does not overestimate actions missing from the data.

Sources: Kumar et al. 2020 (https://arxiv.org/abs/2006.04779), whose equations are cited below, over double Q-learning
by van Hasselt et al. 2016 (https://arxiv.org/abs/1509.06461). Differences from the papers: docs/algorithms/cql.md. For
actions in a Box: cql_sac.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks import losses
from .blocks.params import flag, from_params, one_of, param, real
from .blocks.q_networks import QBatch, QNetwork, QParams, QTask
from .blocks.train_step import learning_spec, mean_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLParams(QParams):
    """The parameters of CQL."""

    max_gradient_norm: float | None = 10.0
    epsilon: ScheduleLike = 0.05  # for later training in an environment
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    loss: str = param("huber", "loss function of TD errors", one_of(losses.LOSSES))
    conservative_weight: float = param(
        1.0, "alpha, weight of the gap between the soft maximum of Q and the data's actions", real(at_least=0)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | CQLParams | None, config: RunConfig
) -> EstimatorSpec:
    """CQL(H), for a ReplayMemory filled in advance.

    Predictions are those of DQN: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being
    the sum of a MultiDiscrete space's choices, ``noisy_action`` like ``action`` where layers are noisy, and
    ``action_mask`` bool [B, A] where observations have a mask. Metrics: ``q_mean`` (of the actions in the data),
    ``td_error_mean`` (of absolute values), ``conservative_error`` (the gap in equation 4, without alpha),
    ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(CQLParams, params)
    task = QTask(config, mode, params, "CQL")
    network = partial(QNetwork, task=task)
    online = network("online")
    if mode == Modes.PREDICT:
        noisy_values = online(features, noisy=True) if params.noisy else None
        return task.predict(features, online(features), noisy_values)

    batch = QBatch(task, (online, task.target(network, online, labels)), params.double, features, labels)
    next_value = losses.next_value(*batch.after(labels["next_observation"]))
    td_error = batch.td_error(labels["reward"], labels["discount"], next_value)  # [B * K]
    gap = task.branches.mean(losses.conservative(batch.q_values, batch.action, batch.mask))  # [B]
    error = task.branches.mean(losses.LOSSES[params.loss](td_error)) + params.conservative_weight * gap  # equation 4
    metrics = {
        "q_mean": tf.reduce_mean(batch.prediction),
        "td_error_mean": tf.reduce_mean(tf.abs(td_error)),
        "conservative_error": tf.reduce_mean(gap),
    }
    loss, priority = mean_error(error, labels), task.branches.priority(td_error)
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)
