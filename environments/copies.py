"""Environments in this process: several, stepped one after the other, or one, without the arrays of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import FLOAT32_MAX, plain, shortened
from ..core.protocols import Array, ArrayTree
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .observations import MismatchError

_LOW, _HIGH = -FLOAT32_MAX, FLOAT32_MAX


class Copies(BatchedEnvironment):
    """N environments in this process, stepped one after the other: those of a SyncVectorEnv.

    Stepping them here rather than through the SyncVectorEnv shows which one failed, and copies results only once.
    """

    def __init__(self, env: AnyEnv | AnyVectorEnv, envs: Sequence[AnyEnv], **details: Any) -> None:
        super().__init__(env, num_envs=len(envs), **details)
        self._envs = tuple(envs)

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        batch = self._observations.empty()
        for i, env in enumerate(self._envs):
            if chosen[i]:
                try:
                    result = env.reset(seed=int(seeds[i]))
                except Exception as error:
                    raise self._failure_of("reset", error, i) from error
                if not isinstance(result, tuple) or len(result) != 2:
                    self._refuse("reset", f"{shortened(result)}, expected (observation, info)", i)
                self._put("reset", batch, i, result[0])
        return batch

    def step(self, actions: ArrayTree) -> Step:
        """Take one action in each, in order."""
        if self._last is None:
            self._current()
        each = self._actions.each(actions)
        batch = self._observations.empty()
        rewards = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, np.bool_)
        truncated = np.empty(self.num_envs, np.bool_)
        put = self._observations.put
        for i, env in enumerate(self._envs):
            try:
                result = env.step(each[i])
            except Exception as error:
                raise self._failure_of("step", error, i) from error
            observation, rewards[i], terminated[i], truncated[i] = self._check_step(result, i)
            try:
                put(batch, i, observation)
            except MismatchError as error:
                self._refuse("step", error, i)
        self._check_finite("step", batch)
        self._last = batch
        return Step(batch, rewards, terminated, truncated, None)

    def check(self, method: str, result: Any) -> None:
        """Raise what a training raises for this result of ``reset`` or ``step``, of the first environment."""
        batch = self._observations.empty()
        if method == "step":
            self._check_step(result, 0)
        self._put(method, batch, 0, result[0])
        self._check_finite(method, batch)

    def _put(self, method: str, batch: ArrayTree, row: int, observation: Any) -> None:
        try:
            self._observations.put(batch, row, observation)
        except MismatchError as error:
            self._refuse(method, error, row)

    def _check_step(self, result: Any, i: int) -> tuple[Any, float, bool, bool]:
        """Observation, reward, terminated and truncated, converted to Python types."""
        if not isinstance(result, tuple) or len(result) != 5:
            self._refuse("step", f"{shortened(result)}, expected (observation, reward, terminated, truncated, info)", i)
        observation, reward, terminated, truncated, _ = result
        if type(reward) is float and type(terminated) is bool and type(truncated) is bool and _LOW <= reward <= _HIGH:
            return observation, reward, terminated, truncated  # the common case
        if not isinstance(reward, (float, int, np.floating, np.integer)):
            self._refuse("step", f"the reward {shortened(reward)}, which is not a number", i)
        if isinstance(reward, np.float16):
            reward = float(reward)  # compared in float16, the bounds would overflow, with a warning
        if not _LOW <= reward <= _HIGH:
            raise self._not_held(plain(reward), i)
        if not isinstance(terminated, (bool, np.bool_)) or not isinstance(truncated, (bool, np.bool_)):
            given = f"terminated={shortened(terminated)} and truncated={shortened(truncated)}"
            self._refuse("step", f"{given}, which are not both booleans", i)
        return observation, float(reward), bool(terminated), bool(truncated)


class SingleStep(NamedTuple):
    """A :class:`Step` of one environment: the observation [1, ...], the rest without a batch axis."""

    observation: ArrayTree
    reward: float
    terminated: bool
    truncated: bool
    acted: None = None

    def outcome(self) -> tuple[Array, Array, Array]:
        """Rewards, terminated and truncated, [1] each."""
        return np.array([self.reward]), np.array([self.terminated]), np.array([self.truncated])

    def is_end(self) -> bool:
        """Whether the episode ended."""
        return self.terminated or self.truncated

    def ends(self) -> tuple[Sequence[int], Sequence[bool], Sequence[bool]]:
        """The only row, and how its episode ended."""
        return (0,), (self.terminated,), (self.truncated,)


class Single(Copies):
    """One ``gymnasium.Env``."""

    def __init__(self, env: AnyEnv, **details: Any) -> None:
        super().__init__(env, [env], **details)
        self._step = env.step

    def step(self, actions: ArrayTree) -> Step:
        """Take one action."""
        one = self.step_single(actions)
        return Step(one.observation, *one.outcome(), None)

    def step_single(self, actions: ArrayTree) -> SingleStep:
        """Take one action, up to a third faster than :meth:`step`; here, too, ``actions`` are [1, ...]."""
        if self._last is None:
            self._current()
        action = self._actions.single(actions)
        try:
            result = self._step(action)
        except Exception as error:
            raise self._failure_of("step", error, 0) from error
        observation, reward, terminated, truncated = self._check_step(result, 0)
        try:
            batch = self._observations.single(observation)
        except MismatchError as error:
            self._refuse("step", error, 0)
        if not self._observations.all_finite(batch):
            raise self._not_finite("step", batch)
        self._last = batch
        return SingleStep(batch, reward, terminated, truncated)
