"""Behaviour policy with random first actions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..core.checks import integer
from ..core.protocols import Array, Exploration, check_exploration
from .policies import Random
from .returned_actions import level_of


class RandomWarmUp:
    """Uniformly random actions before a timestep, then those of another policy.

    Source: Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477, section 6.1.

    Args:
        exploration: the other policy. Its optional methods are available here.
        timesteps: ``global_timestep`` from which it acts, at least 0.
        action_space: as for :class:`Random`.
    """

    def __init__(self, exploration: Exploration, timesteps: int, action_space: Any) -> None:
        check_exploration("RandomWarmUp.exploration", exploration)
        self.exploration = exploration
        self.timesteps = integer("timesteps", timesteps, at_least=0)
        self._random = Random(action_space)

    def __call__(
        self, predictions: Mapping[str, Any], timestep: int, rng: np.random.Generator
    ) -> tuple[Any, Mapping[str, Array]]:
        """Actions [N, ...], and extras of the other policy; random actions have none."""
        return self.acting(timestep)(predictions, timestep, rng)

    def acting(self, timestep: int) -> Exploration:
        """The policy that acts at this timestep."""
        return self._random if timestep < self.timesteps else self.exploration

    def level(self, timestep: int) -> float:
        """Level of the policy that acts at this timestep; NaN if it has none."""
        return level_of(self.acting(timestep), timestep)

    def __getattr__(self, name: str) -> Any:
        # Callers look for optional methods by name, so this has those that the other policy has.
        if name.startswith("__") or name == "exploration":  # copy asks before attributes are set
            raise AttributeError(name)
        found = getattr(self.exploration, name)
        return partial(self._act_for, found) if name == "act_for" else found

    def _act_for(
        self, act_for: Any, predictions: Mapping[str, Any], timestep: int, rng: np.random.Generator, lanes: Array
    ) -> Any:
        if timestep < self.timesteps:
            return self._random(predictions, timestep, rng)
        return act_for(predictions, timestep, rng, lanes)
