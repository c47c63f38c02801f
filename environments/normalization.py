"""Normalisation around all copies of an environment together, by running statistics that they have in common.

It is written here, because its statistics are those of all copies, as in Stable-Baselines3's VecNormalize: Gymnasium's
wrappers of single environments keep one set for each, and those of vector environments take neither
``AutoresetMode.DISABLED`` nor a reset mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorWrapper

from ..checks import number
from ..contracts import Array, ArrayTree
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .observations import copied

_EPSILON: Final = 1e-8
"""Added to variances, as VecNormalize and Gymnasium do."""


class Moments:
    """Mean and variance (of the population) of all rows so far; 0 and 1 as long as there are none.

    Args:
        shape: of a row.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = 0

    def update(self, rows: Array) -> None:
        """Take account of more ``rows`` [n, ...], n >= 1; by Chan, Golub and LeVeque (1983), equation 1.5."""
        n, total = len(rows), self.count + len(rows)
        mean = np.add.reduce(rows, dtype=np.float64) / n
        deviation, delta = rows - mean, mean - self.mean
        squares = np.add.reduce(deviation * deviation) + delta * delta * (self.count * n / total)
        self.mean = self.mean + delta * (n / total)
        self.var = (self.var * self.count + squares) / total
        self.count = total


class NormalizeObservation:
    """Observations minus their running mean, over their running standard deviation, clipped; float32.

    It has the attributes of Gymnasium's wrapper of this name, so that checkpoints and exports treat both alike.

    Args:
        space: one environment's observation space.
        clip: the largest absolute value that comes out.

    Raises:
        ValueError: the space is not a Box of floats, or ``clip`` is not above 0.
    """

    def __init__(self, space: gymnasium.Space[Any], clip: float) -> None:
        if not isinstance(space, Box) or space.dtype.kind != "f":
            raise ValueError(f"normalize_observation needs a Box of floats, got {space}")
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.obs_rms = Moments(space.shape)
        self.update_running_mean = True
        self.space = Box(-self.clip, self.clip, space.shape, np.float32)

    def learn(self, rows: Array) -> None:
        """Take account of observations [n, ...]; not while an evaluation or a replay has it frozen."""
        if self.update_running_mean and len(rows):
            self.obs_rms.update(rows)

    def __call__(self, batch: Any) -> Array:
        """The normalised observations [N, ...]."""
        moments = self.obs_rms
        scaled = (batch - moments.mean) / np.sqrt(moments.var + self.epsilon)
        clipped: Array = np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)
        return clipped


class NormalizeReward:
    """Rewards over the running standard deviation of the discounted sum of rewards so far, clipped.

    That sum goes forwards (it is no return-to-go) and begins anew with every episode, as in VecNormalize. Whatever is
    frozen, as an evaluation is, gets the environment's own rewards; and so do hooks and returns, always.

    Args:
        num_envs: N.
        discount: of the sum.
        clip: the largest absolute value that comes out.

    Raises:
        ValueError: ``discount`` is not in 0 .. 1, or ``clip`` not above 0.
    """

    def __init__(self, num_envs: int, discount: float, clip: float) -> None:
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.return_rms = Moments(())
        self.accumulated_reward = np.zeros(num_envs)
        self.update_running_mean = True

    def begin(self, rows: Any) -> None:
        """Episodes begin in these ``rows``: an index of environments, of any kind."""
        if self.update_running_mean:
            self.accumulated_reward[rows] = 0.0

    def __call__(self, rewards: Any, rows: Any = slice(None)) -> Any:
        """The normalised ``rewards`` [n] of these ``rows``."""
        if not self.update_running_mean:
            return rewards
        self.accumulated_reward[rows] = self.accumulated_reward[rows] * self.discount + rewards
        self.return_rms.update(self.accumulated_reward[rows])
        scaled = rewards / np.sqrt(self.return_rms.var + self.epsilon)
        return np.minimum(np.maximum(scaled, -self.clip), self.clip)


class Normalizers(NamedTuple):
    """What all copies of an environment have in common; None for what is not normalised."""

    observation: NormalizeObservation | None = None
    reward: NormalizeReward | None = None

    def __deepcopy__(self, memo: Any) -> Normalizers:
        """Itself: specs of environments are copied time and again, and what is made from them shares the statistics."""
        return self


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The outermost wrapper of one environment that was made with wrappers by name.

    The batched interface looks through it, and normalises all copies at once (:class:`NormalizedEnvironment`). Its
    ``spec`` makes one that watches.

    Args:
        env: one copy, with the other wrappers around it.
        normalizers: shared by all copies.
        row: which copy it is; None for one that only watches: it is normalised like the others, but nothing is learnt
            from it, and its rewards are its own.
    """

    def __init__(self, env: AnyEnv, normalizers: Normalizers, row: int | None) -> None:
        RecordConstructorArgs.__init__(self, normalizers=normalizers, row=None)
        gymnasium.Wrapper.__init__(self, env)
        self.normalizers = normalizers
        self.row = row
        if normalizers.observation is not None:
            self.observation_space = normalizers.observation.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        if self.normalizers.reward is not None and self.row is not None:
            self.normalizers.reward.begin(self.row)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.normalizers.reward is not None and self.row is not None:
            reward = self.normalizers.reward(np.array([reward], np.float64), [self.row]).item()
        return self._seen(observation), reward, terminated, truncated, info

    def _seen(self, observation: Any) -> Any:
        normalize = self.normalizers.observation
        if normalize is None:
            return observation
        batch = np.asarray(observation, np.float32)[None]  # as the batched interface has it
        if self.row is not None:
            normalize.learn(batch)
        return normalize(batch)[0]


def are_copies(envs: Sequence[AnyEnv]) -> TypeGuard[Sequence[Wrapped]]:
    """Were these made together, so that they share their normalisation, and all learn, or all watch?"""
    first = envs[0]
    return isinstance(first, Wrapped) and all(
        isinstance(env, Wrapped) and env.normalizers is first.normalizers and (env.row is None) == (first.row is None)
        for env in envs
    )


class NormalizedEnvironment(BatchedEnvironment):
    """Normalises all copies at once.

    Every observation counts once in the statistics: that of a reset in the rows that were reset, that of a step in
    all of them, the last one of an episode included. Rows that are not reset keep what they were.

    Args:
        env: what was opened.
        inner: its copies without normalisation.
        normalizers: what they share.
        learns: do the statistics follow? Otherwise rewards are left as they are.
    """

    def __init__(
        self, env: AnyEnv | AnyVectorEnv, inner: BatchedEnvironment, normalizers: Normalizers, *, learns: bool
    ) -> None:
        observation = normalizers.observation
        super().__init__(
            env,
            name=inner.name,
            num_envs=inner.num_envs,
            observation_space=inner.observation_space if observation is None else observation.space,
            action_space=inner.action_space,
            not_exact=inner.not_exact,
        )
        self._inner = inner
        self._normalizers = normalizers
        self._learns = learns

    def _reset(self, chosen: Array, seeds: list[int], *, everything: bool) -> ArrayTree:
        batch: Any = self._inner.reset(None if everything else chosen, seeds)
        observation, reward = self._normalizers
        if reward is not None and self._learns:
            reward.begin(chosen)
        if observation is None:
            return copied(batch)
        if self._learns:
            observation.learn(batch[chosen])
        return observation(batch)

    def step(self, actions: Array) -> Step:
        """One action in each of the copies."""
        self._current()
        step = self._inner.step(actions)
        observation, reward = self._normalizers
        batch: Any = step.observation
        if observation is not None:
            if self._learns:
                observation.learn(batch)
            batch = observation(batch)
        self._last = batch
        normalized = None if reward is None or not self._learns else reward(step.reward)
        return step._replace(observation=batch, normalized_reward=normalized)


def wrappers_of(env: Any) -> Iterator[Any]:
    """The wrappers around an environment, from the outside in, and then those around each part of a SyncVectorEnv."""
    while isinstance(env, gymnasium.Wrapper | VectorWrapper):
        yield env
        env = env.env
    if isinstance(env, SyncVectorEnv):
        for one in env.envs:
            yield from wrappers_of(one)
