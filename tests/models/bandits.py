"""Environments of one timestep, and data of them, for tests that an algorithm learns at all."""

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from axonrl.tests.estimators.fakes import Counting


class _OneTimestep(gymnasium.Env[Any, Any]):
    """Sees x, one of -1 and 1; what an action pays depends on it."""

    observation_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = self.np_random.choice([-1.0, 1.0])
        return np.array([self.x], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([self.x], np.float32), float(self.paid(action)), True, False, {}

    def paid(self, action: Any) -> Any:
        raise NotImplementedError


class Sides(_OneTimestep):
    """Three actions: the first pays 1 for -1, the last for 1."""

    observation_space = spaces.Box(-10, 10, (1,))
    action_space = spaces.Discrete(3, start=5)

    def paid(self, action: Any) -> Any:
        return action == 6 + self.x


class Bandit(_OneTimestep):
    """An action costs its squared distance from (1 + x, 1 - x), in 0 .. 3."""

    action_space = spaces.Box(0, 3, (2,))

    def paid(self, action: Any) -> Any:
        return -((action - [1 + self.x, 1 - self.x]) ** 2).sum()


class SteepBandit(_OneTimestep):
    """An action costs ten times its squared distance from 1 + x, of the range -1 .. 3."""

    action_space = spaces.Box(-1, 3, (1,))

    def paid(self, action: Any) -> Any:
        return -10 * (action[0] - (1 + self.x)) ** 2


SEEN = spaces.Box(-1, 1, (1,))
HALF = np.full((1, 1), 0.5, np.float32)


class Paying(Counting):
    """One timestep: it sees a half, and pays what ``paid`` makes of the action."""

    observation_space = SEEN

    def __init__(self, action_space: Any, paid: Callable[[Any], float]) -> None:
        super().__init__(1, action_space=action_space)
        self.paid = paid

    def observation(self) -> Any:
        return HALF[0]

    def reward(self) -> Any:
        return float(self.paid(self.actions[-1]))


def data(actions: Iterable[Any], paid: Callable[[Any], float]) -> list[dict[str, Any]]:
    """An episode of :class:`Paying` for each action."""
    flags = {"terminated": np.ones(1, np.bool_), "truncated": np.zeros(1, np.bool_)}
    seen = {"observation": HALF, "next_observation": HALF, **flags}
    return [{**seen, "action": np.array([one]), "reward": np.array([paid(one)], np.float32)} for one in actions]
