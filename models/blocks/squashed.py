"""The squashed Gaussian: tanh of a diagonal Gaussian, for actions in a bounded Box. Pure maths, in TensorFlow.

Shapes in comments: B is the batch, A the number of the action's components. Squashed actions and their density are in
units of -1 .. 1; :func:`log_scale` converts the density to the environment's units.

Source: Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ...core.protocols import Array
from ...core.tensorflow_import import tf
from ...explorations.squashed import NEAREST

Tensor: TypeAlias = Any

_LOG_2 = math.log(2.0)
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


def sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Reparameterised actions and their log-probabilities, both differentiable in mean and log_std.

    Args:
        mean: float [B, A], of the Gaussian.
        log_std: float [B, A], of the Gaussian.
        noise: float [B, A], standard normal.

    Returns:
        actions in -1 .. 1, float [B, A], and log-probabilities, float [B].
    """
    unsquashed = mean + tf.exp(log_std) * noise
    return tf.tanh(unsquashed), log_prob(unsquashed, log_std, noise)


def log_prob(unsquashed: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """The log-density of ``tanh(unsquashed)``: the Gaussian's, minus the log of tanh's slope (equation 21).

    Computed from the noise, not from ``(unsquashed - mean) / std``, which loses precision for a small std.

    Args:
        unsquashed: float [B, A], ``mean + exp(log_std) * noise``.
        log_std: float [B, A].
        noise: float [B, A].

    Returns:
        float [B].
    """
    gaussian = -0.5 * tf.square(noise) - log_std - _LOG_SQRT_2_PI  # [B, A]
    return tf.reduce_sum(gaussian - log_slope(unsquashed), axis=-1)


def log_slope(unsquashed: Tensor) -> Tensor:
    """``log(1 - tanh(u)^2)``, computed as ``2 * (log 2 - u - softplus(-2 u))``, which never takes the log of 0.

    Args:
        unsquashed: float, any shape.

    Returns:
        the same shape.
    """
    return 2.0 * (_LOG_2 - unsquashed - tf.nn.softplus(-2.0 * unsquashed))


def unsquashed(action: Tensor) -> Tensor:
    """The inverse of tanh for actions in -1 .. 1, clipped to 1e-6 inside the bounds.

    Args:
        action: float, any shape.

    Returns:
        the same shape.
    """
    inside = tf.clip_by_value(action, -NEAREST, NEAREST)
    return 0.5 * (tf.math.log1p(inside) - tf.math.log1p(-inside))  # LiteRT has no atanh


def to_units(squashed: Tensor, low: Array, high: Array) -> Tensor:
    """Map -1 .. 1 to ``low .. high``.

    Args:
        squashed: float [B, A].
        low: lower bounds [A].
        high: upper bounds [A].

    Returns:
        float [B, A], in the environment's units.
    """
    return (high / 2 + low / 2) + squashed * (high / 2 - low / 2)


def log_scale(low: Array, high: Array) -> float:
    """The log of the factor by which :func:`to_units` stretches volumes: ``sum(log((high - low) / 2))``.

    A log-density in -1 .. 1 minus this is the log-density in the environment's units.

    Args:
        low: lower bounds [A].
        high: upper bounds [A].
    """
    return float(np.sum(np.log(high / 2 - low / 2)))


def from_units(action: Tensor, low: Array, high: Array) -> Tensor:
    """Map ``low .. high`` to -1 .. 1, the inverse of :func:`to_units`.

    Args:
        action: float [B, A], in the environment's units.
        low: lower bounds [A].
        high: upper bounds [A].

    Returns:
        float [B, A].
    """
    return (action - (high / 2 + low / 2)) / (high / 2 - low / 2)
