"""A Gaussian squashed into the bounds of a Box: the behaviour policy of SAC, and optionally of on-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..core.checks import all_finite
from ..core.protocols import Array
from .policies import NO_EXTRAS, is_float_box, unsuitable
from .sampling import HALF_LOG_2PI, refuse_gaussian

NEAREST: Final = 1 - 1e-6
"""Largest absolute value of an action in -1 .. 1 for which the density is computed."""
_LOG_2 = math.log(2)


class SquashedGaussian:
    """Draws u from a diagonal Gaussian and returns ``low + (tanh(u) + 1) / 2 * (high - low)``.

    Reads ``predictions["mean"]`` and ``predictions["log_std"]`` of u, float32 [N, ...].

    Source: Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C.

    Args:
        action_space: a Box of floats with finite bounds, ``low < high`` in each component.
        log_prob: whether to return the actions' log-densities too, for on-policy algorithms.
    """

    def __init__(self, action_space: Any, log_prob: bool = False) -> None:
        if not is_bounded_box(action_space):
            raise unsuitable("SquashedGaussian", "a bounded Box of floats as action space", action_space)
        self._middle, self._half = middle_and_half(action_space)
        self._log_scale = float(np.log(self._half).sum())
        self.log_prob = log_prob

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...] in the environment's units; and ``log_prob`` float32 [N], if requested.

        Raises:
            NonFiniteError: a requested log-probability is not finite, for instance because exp(log_std) is 0 or
                infinite.
        """
        mean = predictions["mean"]
        log_std = predictions["log_std"]
        drawn = mean + np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
        actions = self._middle + np.tanh(drawn) * self._half
        if not self.log_prob:
            return actions, NO_EXTRAS
        with np.errstate(all="ignore"):  # anything not finite makes the log-probability not finite
            log_prob = squashed_log_prob((actions - self._middle) / self._half, mean, log_std) - self._log_scale
        if not all_finite(log_prob):
            refuse_gaussian("SquashedGaussian", mean, log_std)
        return actions, {"log_prob": log_prob.astype(np.float32)}

    def log_prob_of(self, predictions: Mapping[str, Array], action: Array) -> Array:
        """Log-density float32 [N] of given actions [N, ...] within the bounds."""
        mean, log_std = predictions["mean"], predictions["log_std"]
        with np.errstate(all="ignore"):
            found = squashed_log_prob((action - self._middle) / self._half, mean, log_std) - self._log_scale
        if not all_finite(found):
            refuse_gaussian("SquashedGaussian", mean, log_std)
        return found.astype(np.float32)


def squashed_log_prob(action: Array, mean: Array, log_std: Array) -> Array:
    """Log-density of actions in -1 .. 1 under a squashed Gaussian, float [N].

    It is computed from the rounded action, which learning sees, not from the draw: near the bounds float32 has few
    values.

    Args:
        action: float [N, ...].
        mean: float [N, ...], before squashing.
        log_std: float [N, ...], before squashing.
    """
    inside = np.clip(action, -NEAREST, NEAREST)
    u = 0.5 * (np.log1p(inside) - np.log1p(-inside))
    noise = (u - mean) * np.exp(-log_std)
    each = -0.5 * noise * noise - log_std - HALF_LOG_2PI - log_slope(u)
    total: Array = each.reshape(len(each), -1).sum(1)
    return total


def log_slope(u: Array) -> Array:
    """``log(1 - tanh(u)^2)``, in the shape and dtype of ``u``: squashing subtracts it from a log-density."""
    slope: Array = 2 * (_LOG_2 - u - np.logaddexp(0, -2 * u))
    return slope


def middle_and_half(space: Any) -> tuple[Array, Array]:
    """Middle and half-width of each component's range in a bounded Box, float32 [...]."""
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return high / 2 + low / 2, high / 2 - low / 2


def is_bounded_box(space: Any) -> bool:
    """Whether it is a Box of floats with finite bounds, ``low < high`` in each component, also in float32."""
    if not is_float_box(space):
        return False
    with np.errstate(over="ignore"):  # a float64 bound may be too large
        low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return bool(np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all())
