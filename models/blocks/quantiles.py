"""Distributions over returns as quantiles: the value of each of some fractions, and the loss that fits them.

Shapes in comments: B is the batch, A the number of actions, N the number of quantiles, M that of a target's.

Sources: Dabney, Rowland, Bellemare and Munos 2018 (https://arxiv.org/abs/1710.10044); Dabney, Ostrovski, Silver and
Munos 2018 (https://arxiv.org/abs/1806.06923).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ...contracts import Array
from . import losses

Tensor: TypeAlias = Any


def midpoints(count: int) -> Array:
    """The fractions in the middle of N equal parts of 0 .. 1, ``(2 i - 1) / (2 N)``, float32 [N].

    Source: lemma 2 of the first paper: values at these are the N equally likely ones nearest to a distribution.
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

    With kappa 0 it is what that tends to, the quantile regression loss: the error's absolute value in place of Huber's.

    Sources: equation 10 of the first paper, divided by kappa as in equation 3 of the second; summed over i and averaged
    over j as in algorithm 1 of the first and equation 3 of the second.

    Args:
        quantiles: float [B, N], predicted.
        fractions: tau, float [N] or [B, N]: what they are quantiles of.
        targets: float [B, M], equally likely returns.
        kappa: where errors begin to count linearly, at least 0, in units of returns.

    Returns:
        float [B].
    """
    error = targets[:, tf.newaxis, :] - quantiles[:, :, tf.newaxis]  # [B, N, M]
    size = losses.huber(error, kappa) / kappa if kappa else tf.abs(error)
    below = tf.cast(error < 0, tf.float32)
    return tf.reduce_sum(tf.reduce_mean(tf.abs(fractions[..., tf.newaxis] - below) * size, axis=2), axis=1)
