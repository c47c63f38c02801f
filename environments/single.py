"""One environment, stepped without the arrays of a batch where possible."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.protocols import ArrayTree
from .batched import AnyEnv, Copies, Step
from .observations import MismatchError


class SingleStep(NamedTuple):
    """Results of one step of one environment: the observation [1, ...], the rest without a batch axis."""

    observation: ArrayTree
    reward: float
    terminated: bool
    truncated: bool

    def batched(self) -> Step:
        """These results as a :class:`Step` with N = 1."""
        terminated, truncated = np.array([self.terminated]), np.array([self.truncated])
        return Step(self.observation, np.array([self.reward]), terminated, truncated, None)


class Single(Copies):
    """One ``gymnasium.Env``."""

    def __init__(self, env: AnyEnv, **details: Any) -> None:
        super().__init__(env, [env], **details)
        self._step = env.step

    def step(self, actions: ArrayTree) -> Step:
        """Take one action."""
        return self.step_single(actions).batched()

    def step_single(self, actions: ArrayTree) -> SingleStep:
        """Take one action, up to a third faster than :meth:`step`; here, too, ``actions`` are [1, ...]."""
        if self._last is None:
            self._current()
        action = self._actions.single(actions)
        try:
            result = self._step(action)
        except Exception as error:
            raise self._raised("step", error, 0) from error
        observation, reward, terminated, truncated = self._checked(result, 0)
        try:
            batch = self._observations.single(observation)
        except MismatchError as error:
            self._refuse("step", error, 0)
        self._check_finite("step", batch)
        self._last = batch
        return SingleStep(batch, reward, terminated, truncated)
