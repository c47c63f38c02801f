"""Categorical distributions over returns on fixed atoms: expected values, projected targets, and their loss.

Shapes in comments: B is the batch, A the number of actions, N the number of atoms.

Source: Bellemare, Dabney and Munos 2017, https://arxiv.org/abs/1707.06887, section 4.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ...core.errors import ArgumentError
from ...core.protocols import Array
from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any

_SMALLEST = 1e-30
"""Replaces a probability of 0 inside a logarithm that is multiplied by that probability."""


def support(v_min: float, v_max: float, atoms: int) -> Array:
    """The atoms ``z_i``: evenly spaced returns from v_min to v_max, float32 [N].

    Raises:
        ArgumentError: in float32 two of them are equal, or their distance is infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.linspace(v_min, v_max, atoms, dtype=np.float32)
        distinct = np.isfinite(z[-1] - z[0]) and (np.diff(z) > 0).all()
    if not distinct:
        message = f"{atoms} atoms from v_min {v_min} to v_max {v_max} are not distinct and finite in float32"
        raise ArgumentError(message, "v_min", v_min)
    return z


def expected_values(log_probs: Tensor, atoms: Array) -> Tensor:
    """``Q(s, a) = sum_i z_i p_i(s, a)``, float [B, A].

    Args:
        log_probs: float [B, A, N].
        atoms: evenly spaced, float [N].
    """
    return tf.reduce_sum(tf.exp(log_probs) * atoms, axis=-1)


def of_action(log_probs: Tensor, action: Tensor) -> Tensor:
    """The distribution of one action per row. A product with one-hot vectors, whose gradient every runtime supports.

    Args:
        log_probs: float [B, A, N].
        action: int [B], 0 .. A - 1.

    Returns:
        float [B, N].
    """
    chosen = tf.one_hot(action, log_probs.shape[1], dtype=log_probs.dtype)  # [B, A]
    return tf.reduce_sum(log_probs * chosen[:, :, tf.newaxis], axis=1)


def projected_target(reward: Tensor, discount: Tensor, next_probs: Tensor, atoms: Array) -> Tensor:
    """The distribution of ``r + d Z'`` on the atoms: the two atoms nearest to a value share its probability.

    Values beyond the bounds are clipped to them. No gradient flows through the result.

    Source: equation 7 of the paper, computed as in its algorithm 1, by scattering B N numbers. Products with the shares
    of all pairs of atoms take five times as long in LiteRT.

    Args:
        reward: float [B], with static B; the discounted sum of n rewards for an n-step transition.
        discount: float [B]; gamma to the n, 0 on termination.
        next_probs: float [B, N], of the return after the next observation.
        atoms: evenly spaced, float [N].

    Returns:
        float [B, N]; rows sum to 1.
    """
    rows, size = next_probs.shape
    values = reward[:, tf.newaxis] + discount[:, tf.newaxis] * atoms  # [B, N]
    position = tf.minimum(tf.maximum((values - atoms[0]) / (atoms[1] - atoms[0]), 0.0), size - 1.0)  # b of algorithm 1
    below = tf.floor(position)
    upper = (position - below) * next_probs
    # Summed in rows of N + 1 places: the last atom's upper neighbour gets nothing and is cut off.
    place = tf.cast(below, tf.int32) + np.arange(rows, dtype=np.int32)[:, np.newaxis] * (size + 1)
    places, shares = tf.stack([place, place + 1]), tf.stack([next_probs - upper, upper])
    target = tf.scatter_nd(tf.reshape(places, [-1, 1]), tf.reshape(shares, [-1]), [rows * (size + 1)])
    return tf.stop_gradient(tf.reshape(target, [rows, size + 1])[:, :size])


def cross_entropy(target: Tensor, log_probs: Tensor) -> Tensor:
    """``-sum_i m_i log p_i``, float [B], of target probabilities m and predicted log-probabilities, [B, N] each."""
    return -tf.reduce_sum(target * log_probs, axis=-1)


def divergence(target: Tensor, log_probs: Tensor) -> Tensor:
    """``KL(m || p)``, float [B]: the cross-entropy minus the target's entropy, 0 for a perfect prediction."""
    return cross_entropy(target, log_probs) - cross_entropy(target, tf.math.log(tf.maximum(target, _SMALLEST)))
