"""Bit flip: the goal environment of the paper on hindsight experience replay."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary

from ..core.checks import count
from ..core.protocols import Array

NAMESPACE: Final = "axonrl/"
"""Prefix of the ids of axonrl's own environments."""
ID: Final = "axonrl/BitFlip-v0"


def register() -> None:
    """Register the id with Gymnasium, once."""
    if ID not in gymnasium.registry:
        gymnasium.register(ID, f"{__name__}:{BitFlip.__name__}")


class BitFlip(gymnasium.Env[Any, Any]):
    """Flip one bit per timestep until the state equals the goal (Andrychowicz et al. 2017, section 3.1).

    Observations are a Dict of ``observation``, ``achieved_goal`` (the same) and ``desired_goal``, MultiBinary. Action i
    flips bit i. The reward is 0 where the goal is reached, which terminates the episode, else -1; after ``bits``
    timesteps the episode is truncated (appendix A). Initial states and goals are drawn uniformly, but differ. In the
    paper, episodes continue beyond the goal.

    Args:
        bits: number of bits, n.

    Raises:
        ArgumentError: ``bits`` is below 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's attribute

    def __init__(self, bits: int = 20) -> None:
        self.bits = count("bits", bits)
        part = MultiBinary(self.bits)
        self.observation_space: Any = Dict({"observation": part, "achieved_goal": part, "desired_goal": part})
        self.action_space: Any = Discrete(self.bits)
        self._state: Array = np.zeros(self.bits, np.int8)
        self._goal: Array = self._state
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._goal = self._draw_bits()
        self._state = self._draw_bits()
        while (self._state == self._goal).all():
            self._state = self._draw_bits()
        self._left = self.bits
        return self._observation(), {}

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Flip a bit."""
        self._state[action] ^= 1
        self._left -= 1
        reached = bool((self._state == self._goal).all())
        return self._observation(), float(reached) - 1.0, reached, self._left <= 0, {}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Rewards [...] for goals [..., bits]: 0 where they are equal, else -1."""
        rewards: Array = self.compute_terminated(achieved_goal, desired_goal, info) - 1.0
        return rewards

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Whether goals [..., bits] are equal: bool [...]."""
        equal: Array = np.asarray(np.equal(achieved_goal, desired_goal).all(axis=-1))
        return equal

    def _draw_bits(self) -> Array:
        return self.np_random.integers(0, 2, self.bits, np.int8)

    def _observation(self) -> dict[str, Array]:
        return {
            "observation": self._state.copy(),
            "achieved_goal": self._state.copy(),
            "desired_goal": self._goal.copy(),
        }
