"""Environments of one timestep, for tests that an algorithm learns at all."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Sides(gymnasium.Env[Any, Any]):
    """Sees x, one of -1 and 1; of three actions the first pays 1 for -1, the last for 1."""

    observation_space = spaces.Box(-10, 10, (1,))
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = self.np_random.choice([-1.0, 1.0])
        return np.array([self.x], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([self.x], np.float32), float(action == 6 + self.x), True, False, {}
