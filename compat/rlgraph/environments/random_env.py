"""An environment with random states and rewards, for tests."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ..spaces import space_of
from ..utils.rlgraph_errors import flag, number, refuse
from .environment import Environment

_DETERMINISTIC: Final = 10
"""The seed used with ``deterministic``."""


class RandomEnv(Environment):
    """Random states, rewards and ends of episodes, independent of the actions.

    Args:
        state_space: space from which states are sampled.
        action_space: space of the actions, which are only checked.
        reward_space: space from which rewards are sampled, a box of shape (); by default rewards are from N(0, 1).
        terminal_prob: the probability that a step ends the episode, 0 .. 1.
        deterministic: use a fixed seed.
        seed: seed of the samples.

    Raises:
        RLGraphError: an argument is invalid.
    """

    def __init__(
        self,
        state_space: Any,
        action_space: Any,
        reward_space: Any = float,
        terminal_prob: float = 0.1,
        deterministic: bool = False,
        seed: int | None = None,
    ) -> None:
        fixed = flag("RandomEnv: deterministic", deterministic) and seed is None
        super().__init__(state_space, action_space, _DETERMINISTIC if fixed else seed)
        self.reward_space = space_of("RandomEnv: reward_space", float if reward_space is None else reward_space)
        if self.reward_space.shape != () or self.reward_space.dtype.kind not in "fiu":
            refuse("RandomEnv: reward_space", f"must be one number, got {self.reward_space}", reward_space)
        self.terminal_prob = number("RandomEnv: terminal_prob", terminal_prob, at_least=0, at_most=1)

    def reset(self) -> Any:
        """A random state."""
        return self.state_space.sample(rng=self._env_rng)

    def step(self, actions: Any = None) -> tuple[Any, np.float32, bool, dict[str, Any]]:
        """A random state, reward (float32) and terminal, and ``{}``.

        Args:
            actions: actions of the action space, or None.
        """
        if actions is not None and not self.action_space.contains(actions):
            refuse("RandomEnv.step: actions", f"must be of {self.action_space}, got {shortened(actions)}", actions)
        state = self.state_space.sample(rng=self._env_rng)
        reward = np.float32(self.reward_space.sample(rng=self._env_rng))
        return state, reward, bool(self._env_rng.random() < self.terminal_prob), {}
