"""Distributions over returns as quantiles: loss, targets, and parameters.

Shapes in comments: B is the batch, A the number of actions, N the number of quantiles, M that of a target.

Sources: Dabney, Rowland, Bellemare and Munos 2018 (https://arxiv.org/abs/1710.10044); Dabney, Ostrovski, Silver and
Munos 2018 (https://arxiv.org/abs/1806.06923).
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ...core.protocols import Array
from ...core.schedules import Linear, ScheduleLike
from . import losses
from .params import flag, param, real
from .q_networks import QParams

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantileParams(QParams):
    """The parameters of Q-learning with quantiles."""

    learning_rate: ScheduleLike = 5e-5  # from both papers, like the optimizer's epsilon, the last epsilon and kappa
    optimizer_epsilon: float | None = 0.01 / 32
    epsilon: ScheduleLike = Linear(1.0, 0.01, 10_000)
    kappa: float = param(
        1.0, "where the loss becomes linear, in units of returns; 0 is linear everywhere", real(at_least=0)
    )
    double: bool = param(False, "the online network selects the next action, not the target network", flag())


def midpoints(count: int) -> Array:
    """The fractions in the middle of N equal parts of 0 .. 1, ``(2 i - 1) / (2 N)``, float32 [N].

    Source: the first paper. The quantiles at these fractions are the N equally likely values nearest to a distribution,
    in the 1-Wasserstein distance.
    """
    return np.asarray((np.arange(count) + 0.5) / count, np.float32)


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

    With kappa 0 it is the limit, the quantile regression loss: the error's absolute value in place of Huber's.

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
