"""Distributions over returns as quantiles: loss, targets, parameters, and the spec of learning.

Shapes in comments: B is the batch, A the number of actions, N the number of quantiles, M the number in a target.

Sources: Dabney, Rowland, Bellemare and Munos 2018 (https://arxiv.org/abs/1710.10044); Dabney, Ostrovski, Silver and
Munos 2018 (https://arxiv.org/abs/1806.06923).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.protocols import Array, EstimatorSpec
from ...core.schedules import Linear, ScheduleLike
from ...core.tensorflow_import import tf
from . import losses
from .distributional import of_action
from .params import flag, param, real
from .q_networks import QParams, QTask
from .train_step import learning_spec, mean_error

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantileParams(QParams):
    """The parameters of Q-learning with quantiles."""

    learning_rate: ScheduleLike = 5e-5  # from both papers, like the optimizer's epsilon, the last epsilon and kappa
    optimizer_epsilon: float | None = 0.01 / 32
    epsilon: ScheduleLike = Linear(1.0, 0.01, 10_000)
    kappa: float = param(
        1.0, "error above which the Huber loss is linear, in units of returns; 0: linear everywhere", real(at_least=0)
    )
    double: bool = param(False, "the online network selects the next action, not the target network", flag())


def midpoints(count: int) -> Array:
    """The fractions in the middle of N equal parts of 0 .. 1, ``(2 i - 1) / (2 N)``, float32 [N].

    Source: the first paper. The quantiles at these fractions are the N equally likely values nearest to a distribution,
    in the 1-Wasserstein distance.
    """
    return np.asarray((np.arange(count) + 0.5) / count, np.float32)


def values(quantiles: Tensor) -> Tensor:
    """Expected returns: the means over quantiles, the last axis."""
    return tf.reduce_mean(quantiles, axis=-1)


def target(reward: Tensor, discount: Tensor, next_quantiles: Tensor) -> Tensor:
    """``r + d z'_j``; no gradient flows through it.

    Source: algorithm 1 of the first paper.

    Args:
        reward: float [B]; the discounted sum of n rewards for an n-step transition.
        discount: float [B]; gamma to the n, 0 on termination.
        next_quantiles: float [B, M], equally likely returns after the next observation.

    Returns:
        float [B, M].
    """
    return tf.stop_gradient(reward[:, tf.newaxis] + discount[:, tf.newaxis] * next_quantiles)


def quantile_loss(quantiles: Tensor, fractions: Tensor, targets: Tensor, kappa: float) -> Tensor:
    """``sum_i mean_j |tau_i - 1[u_ij < 0]| huber(u_ij) / kappa`` with ``u_ij = target_j - quantile_i``.

    With kappa 0 it is the limit, the quantile regression loss, with ``|u_ij|`` instead of ``huber(u_ij) / kappa``.

    Sources: algorithm 1 of the first paper; the division by kappa is the second's.

    Args:
        quantiles: float [B, N], predicted.
        fractions: tau, float [N] or [B, N]: the fractions of these quantiles.
        targets: float [B, M], equally likely returns.
        kappa: error at which the loss becomes linear, at least 0, in units of returns.

    Returns:
        float [B].
    """
    error = targets[:, tf.newaxis, :] - quantiles[:, :, tf.newaxis]  # [B, N, M]
    size = losses.huber(error, kappa) / kappa if kappa else tf.abs(error)
    below = tf.cast(error < 0, tf.float32)
    return tf.reduce_sum(tf.reduce_mean(tf.abs(fractions[..., tf.newaxis] - below) * size, axis=2), axis=1)


def learning(
    task: QTask,
    params: QuantileParams,
    mode: str,
    labels: Mapping[str, Any],
    variables: Sequence[Any],
    prediction: tuple[Tensor, Tensor | Array],
    next_quantiles: Tensor,
    selector: Tensor,
) -> EstimatorSpec:
    """The spec of TRAIN or EVAL. Quantiles are in rows, one for each branch of a transition.

    Args:
        task: the spaces.
        params: parameters of learning.
        mode: TRAIN or EVAL.
        labels: the batch.
        variables: trained variables.
        prediction: quantiles of the observations, float [B * K, n, N], and their fractions, [N] or [B * K, N].
        next_quantiles: quantiles of the next observations by the target network, [B * K, n, M].
        selector: quantiles of the next observations whose means select actions, [B * K, n, L].
    """
    branches, (quantiles, fractions) = task.branches, prediction
    next_action = task.best(values(selector), labels["next_observation"])  # [B * K]
    next_taken = branches.mixture(of_action(next_quantiles, next_action))  # [B, K * M]
    targets = branches.spread(target(labels["reward"], labels["discount"], next_taken))
    taken = of_action(quantiles, branches.from_environment(labels["action"]))  # [B * K, N]
    error = quantile_loss(taken, fractions, targets, params.kappa)
    loss, priority = mean_error(branches.mean(error), labels), branches.priority(error)
    metrics = {"q_mean": tf.reduce_mean(values(taken))}
    return learning_spec(mode, loss, variables, labels, params, td_error=priority, metrics=metrics)
