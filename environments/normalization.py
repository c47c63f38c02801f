"""Normalisation by running statistics that all copies of an environment share, as in Stable-Baselines3's VecNormalize.

Gymnasium's wrappers do not serve: those of single environments keep statistics for each copy, and those of vector
environments support neither ``AutoresetMode.DISABLED`` nor a reset mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from ..checks import number
from ..contracts import Array, ArrayTree, State
from ..errors import ArgumentError
from ..spread import divisor
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .observations import as_mapping, copied, from_mapping

_EPSILON: Final = 1e-8
"""Added to variances, as in VecNormalize and Gymnasium."""


class Moments:
    """Mean and population variance of all rows [*shape] so far; 0 and 1 before the first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = 0

    def update(self, rows: Array) -> None:
        """Add ``rows`` [n, ...], n >= 1; Chan, Golub and LeVeque (1983), equation 1.5."""
        n, total = len(rows), self.count + len(rows)
        mean = np.add.reduce(rows, dtype=np.float64) / n
        deviation, delta = rows - mean, mean - self.mean
        squares = np.add.reduce(deviation * deviation) + delta * delta * (self.count * n / total)
        self.mean = self.mean + delta * (n / total)
        self.var = (self.var * self.count + squares) / total
        self.count = total


class NormalizeObservation:
    """Observations minus their running mean, over their running standard deviation, clipped; float32.

    Numbers that have not varied by more than rounding are 0.

    Has the attributes of Gymnasium's wrapper of this name, for checkpoints and exports.

    Args:
        space: one environment's observation space, a Box of floats.
        clip: largest absolute value of the result, above 0.
    """

    def __init__(self, space: gymnasium.Space[Any], clip: float) -> None:
        if not isinstance(space, Box) or space.dtype.kind != "f":
            message = f"the observation space must be a Box of floats, got {space}"
            raise ArgumentError(message, "observation_space", space)
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.obs_rms = Moments(space.shape)
        self.update_running_mean = True
        self.space = Box(-self.clip, self.clip, space.shape, np.float32)

    def learn(self, rows: Array) -> None:
        """Add observations [n, ...] to the statistics, unless these are frozen (evaluation, replay)."""
        if self.update_running_mean and len(rows):
            self.obs_rms.update(rows)

    def __call__(self, batch: Any) -> Array:
        """The normalised observations [N, ...]."""
        moments = self.obs_rms
        scaled = (batch - moments.mean) / divisor(moments.mean, moments.var, self.epsilon)
        clipped: Array = np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)
        return clipped


class NormalizeReward:
    """Rewards over the running standard deviation of the discounted sum of past rewards, clipped.

    The sum starts at 0 in every episode, as in VecNormalize; it is no return-to-go. Rewards are 0 where it has not
    varied by more than rounding, as at the first timestep. While frozen (evaluation) they are unchanged. Hooks and
    returns always see the environment's rewards.

    Args:
        num_envs: N.
        discount: of the sum, 0 .. 1.
        clip: largest absolute value of the result, above 0.
    """

    def __init__(self, num_envs: int, discount: float, clip: float) -> None:
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.return_rms = Moments(())
        self.accumulated_reward = np.zeros(num_envs)
        self.update_running_mean = True

    def begin(self, rows: Any) -> None:
        """Start episodes in these ``rows``, any index of environments."""
        if self.update_running_mean:
            self.accumulated_reward[rows] = 0.0

    def __call__(self, rewards: Any, rows: Any = slice(None)) -> Any:
        """The normalised ``rewards`` [n] of these ``rows``."""
        if not self.update_running_mean:
            return rewards
        self.accumulated_reward[rows] = self.accumulated_reward[rows] * self.discount + rewards
        self.return_rms.update(self.accumulated_reward[rows])
        sums = self.return_rms
        scaled = rewards / divisor(sums.mean, sums.var, self.epsilon)
        return np.minimum(np.maximum(scaled, -self.clip), self.clip)


class Normalizers(NamedTuple):
    """The normalisation that all copies of an environment share; None where there is none."""

    observation: NormalizeObservation | None = None
    reward: NormalizeReward | None = None

    def __deepcopy__(self, memo: Any) -> Normalizers:
        """Itself: environments made from a copied spec share the statistics."""
        return self


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The outermost wrapper of an environment that was made with wrappers by name.

    The batched interface looks through it and normalises all copies at once (:class:`NormalizedEnvironment`).
    Environments made from its ``spec`` have ``row=None``.

    Args:
        env: one copy, inside the other wrappers.
        normalizers: shared by all copies.
        row: the copy's index; None to only read the statistics: observations are normalised, rewards unchanged.
        given: all wrappers as they were given, each ``{"kind": name, argument: value, ...}``.
    """

    def __init__(
        self, env: AnyEnv, normalizers: Normalizers, row: int | None, given: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        RecordConstructorArgs.__init__(self, normalizers=normalizers, row=None, given=given)
        gymnasium.Wrapper.__init__(self, env)
        self.given = given
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
        batch = np.asarray(observation, np.float32)[None]  # the dtype of the batched interface
        if self.row is not None:
            normalize.learn(batch)
        return normalize(batch)[0]


class WrappedVector(VectorWrapper[Any, Any, Any]):
    """A vector environment that was made with wrappers by name, which are normalisation alone.

    The batched interface looks through it, as through :class:`Wrapped`.

    Args:
        env: with autoreset disabled.
        normalizers: of all its environments.
        given: the wrappers as they were given, each ``{"kind": name, argument: value, ...}``.
    """

    row: Final = 0
    """As in :class:`Wrapped`: the statistics are updated."""

    def __init__(self, env: AnyVectorEnv, normalizers: Normalizers, given: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(env)
        self.given = given
        self.normalizers = normalizers
        if normalizers.observation is not None:
            self.single_observation_space = normalizers.observation.space
            self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._last: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes, in the rows of ``options["reset_mask"]`` if it is given."""
        mask = (options or {}).get("reset_mask")
        rows = np.ones(self.num_envs, np.bool_) if mask is None else mask.copy()
        batch, infos = self.env.reset(seed=seed, options=options)
        observation, reward = self.normalizers
        if reward is not None:
            reward.begin(rows)
        if observation is not None:
            observation.learn(batch[rows])
            batch = observation(batch)
            if not rows.all():
                batch[~rows] = self._last[~rows]
        self._last = batch
        return copied(batch), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in each environment."""
        batch, rewards, terminated, truncated, infos = self.env.step(actions)
        observation, reward = self.normalizers
        if observation is not None:
            observation.learn(batch)
            batch = observation(batch)
        self._last = batch
        return copied(batch), rewards if reward is None else reward(rewards), terminated, truncated, infos


BY_NAME: Final = (Wrapped, WrappedVector)
"""Around environments that were made with wrappers by name."""


def are_copies(envs: Sequence[AnyEnv]) -> TypeGuard[Sequence[Wrapped]]:
    """Whether all of these share one normalisation, and either all or none update it."""
    first = envs[0]
    return isinstance(first, Wrapped) and all(
        isinstance(env, Wrapped) and env.normalizers is first.normalizers and (env.row is None) == (first.row is None)
        for env in envs
    )


class NormalizedEnvironment(BatchedEnvironment):
    """Normalises all copies at once.

    Every observation enters the statistics once: after a reset the rows that were reset, after a step all rows,
    including final observations. Rows that are not reset keep their normalised values.

    Args:
        env: the environment that was opened.
        inner: its copies without normalisation.
        normalizers: shared by the copies.
        learns: whether the statistics are updated; otherwise rewards are unchanged.
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
        self.skips_rows = inner.skips_rows
        self._normalizers = normalizers
        self._learns = learns

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        batch: Any = self._inner.reset(None if everything else chosen, seeds)
        observation, reward = self._normalizers
        if reward is not None and self._learns:
            reward.begin(chosen)
        if observation is None:
            return copied(batch)
        if self._inner.resets_itself and not everything:
            return copied(self._current())  # the first observations are those of the next step
        if self._learns:
            observation.learn(batch[chosen])
        return observation(batch)

    def step(self, actions: ArrayTree) -> Step:
        """One action in each copy."""
        self._current()
        step = self._inner.step(actions)
        observation, reward = self._normalizers
        batch: Any = step.observation
        if observation is not None:
            if self._learns:
                observation.learn(batch)
            batch = observation(batch)
        self._last = batch
        if reward is None or not self._learns:
            return step._replace(observation=batch)
        if step.acted is None:
            return step._replace(observation=batch, normalized_reward=reward(step.reward))
        normalized, rows = np.zeros(self.num_envs), np.flatnonzero(step.acted)
        if len(rows):
            normalized[rows] = reward(step.reward[rows], rows)
        return step._replace(observation=batch, normalized_reward=normalized)

    @property
    def saves_state(self) -> bool:
        """Do the copies?"""
        return self._inner.saves_state

    def state_dict(self) -> State | None:
        """That of the copies; statistics are saved by :mod:`.statistics`."""
        inner = self._inner.state_dict()
        return None if inner is None else {"inner": inner, **as_mapping(self._current())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self._inner.load_state_dict(state["inner"])
        self._last = from_mapping(state)


def wrappers_of(env: Any) -> Iterator[Any]:
    """The wrappers of an environment, outermost first, then those of each part of a SyncVectorEnv."""
    while isinstance(env, gymnasium.Wrapper | VectorWrapper):
        yield env
        env = env.env
    if isinstance(env, SyncVectorEnv):
        for one in env.envs:
            yield from wrappers_of(one)
