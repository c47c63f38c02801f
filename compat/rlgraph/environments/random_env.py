"""An environment without a world: for tests of whatever handles one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ..spaces import space_of
from ..utils.rlgraph_errors import flag, number, refuse
from .environment import Environment

_DETERMINISTIC: Final = 10
"""The seed behind ``deterministic``."""


class RandomEnv(Environment):
    """Random states, rewards and ends of episodes, whatever the actions.

    Args:
        state_space: of the states, which are its samples.
        action_space: of the actions, which are only checked.
        reward_space: of the rewards, a box of shape (); by default they are from N(0, 1).
        terminal_prob: the probability that a step ends the episode, 0 .. 1.
        deterministic: use a fixed seed.
        seed: of the samples.

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
            actions: of the action space; None is taken as well.
        """
        if actions is not None and not self.action_space.contains(actions):
            refuse("RandomEnv.step: actions", f"must be of {self.action_space}, got {shortened(actions)}", actions)
        state = self.state_space.sample(rng=self._env_rng)
        reward = np.float32(self.reward_space.sample(rng=self._env_rng))
        return state, reward, bool(self._env_rng.random() < self.terminal_prob), {}
