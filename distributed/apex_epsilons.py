"""The epsilon ladder of Ape-X: each actor explores with its own constant epsilon.

Source: Horgan et al. 2018, https://arxiv.org/abs/1803.00933, section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.protocols import Array
from ..explorations import EpsilonGreedy


def apex_epsilons(rungs: int, base: float = 0.4, power: float = 7.0) -> Array:
    """``base ** (1 + power * i / (rungs - 1))`` for i = 0 .. rungs - 1, float64 [rungs]; ``base`` alone for one."""
    return np.asarray(base ** (1 + power * np.arange(rungs) / max(rungs - 1, 1)), np.float64)


class ApexEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy with a constant epsilon for each environment.

    Args:
        epsilons: in 0 .. 1, float [N].
        action_space: as for :class:`~axonrl.explorations.EpsilonGreedy`.
    """

    def __init__(self, epsilons: Array, action_space: Any) -> None:
        super().__init__(float(np.mean(epsilons)), action_space)
        self.epsilons = np.asarray(epsilons, np.float64)

    def _epsilon(self, timestep: int, rng: np.random.Generator) -> Any:
        return self.epsilons
