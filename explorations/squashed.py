"""The behaviour policy of SAC: a Gaussian, squashed into the bounds of a Box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contracts import Array
from .policies import NO_EXTRAS, is_float_box, unsuitable


class SquashedGaussian:
    """Draws u from a diagonal Gaussian and returns ``low + (tanh(u) + 1) / 2 * (high - low)``.

    Reads ``predictions["mean"]`` and ``predictions["log_std"]`` of u, float32 [N, ...].

    Source: Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C.

    Args:
        action_space: a Box of floats with finite bounds, ``low < high`` in each component.
    """

    def __init__(self, action_space: Any) -> None:
        if not is_bounded_box(action_space):
            raise unsuitable("SquashedGaussian", "a bounded Box of floats as action space", action_space)
        low, high = np.asarray(action_space.low, np.float32), np.asarray(action_space.high, np.float32)
        self._middle, self._half = high / 2 + low / 2, high / 2 - low / 2

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...] in the environment's units."""
        mean = predictions["mean"]
        drawn = mean + np.exp(predictions["log_std"]) * rng.standard_normal(mean.shape, np.float32)
        return self._middle + np.tanh(drawn) * self._half, NO_EXTRAS


def is_bounded_box(space: Any) -> bool:
    """Whether it is a Box of floats with finite bounds, ``low < high`` in each component, also in float32."""
    if not is_float_box(space):
        return False
    with np.errstate(over="ignore"):  # a float64 bound may be too large
        low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return bool(np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all())
