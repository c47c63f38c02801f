"""Wrappers that normalise all copies of an environment with shared statistics (see :mod:`.normalizers`).

Gymnasium's wrappers do not suffice: for single environments they keep statistics per copy, and for vector environments
they support neither ``AutoresetMode.DISABLED`` nor a reset mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from ..core.protocols import Array, ArrayTree, State
from .actions import nest
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .normalizers import NormalizeObservation, Normalizers
from .observations import as_mapping, copy_batch, from_mapping, keep_rows, observations_for


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Outermost wrapper of an environment made with wrappers by name.

    The batched interface looks through it and normalises all copies at once (:class:`NormalizedEnvironment`).
    Environments made from its ``spec`` have ``row=None``.

    Args:
        env: one copy, inside the other wrappers.
        normalizers: shared by all copies.
        row: the copy's index; None to only read the statistics: observations are normalised, and rewards unchanged.
        given: all wrappers as given, each ``{"kind": name, argument: value, ...}``.
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
            self._observations = observations_for(env.observation_space, 1)
            self.observation_space = normalizers.observation.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        if self.normalizers.reward is not None and self.row is not None:
            self.normalizers.reward.begin(self.row)
        return self._normalize(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.normalizers.reward is not None and self.row is not None:
            reward = self.normalizers.reward(np.array([reward], np.float64), [self.row]).item()
        return self._normalize(observation), reward, terminated, truncated, info

    def _normalize(self, observation: Any) -> Any:
        normalize = self.normalizers.observation
        if normalize is None:
            return observation
        batch = self._observations.single(observation)
        if self.row is not None:
            normalize.learn(batch)
        normalized = normalize(batch)
        if normalize.parts is None:
            return normalized[0]
        return nest(self.observation_space, {name: part[0, ...] for name, part in normalized.items()})


if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Any, Any, Any]
else:  # generic since Gymnasium 1.4
    _VectorWrapper = VectorWrapper


class WrappedVector(_VectorWrapper):
    """Wrapper of a vector environment made with wrappers by name that all normalise.

    The batched interface looks through it, as through :class:`Wrapped`.

    Args:
        env: vector environment with autoreset disabled.
        normalizers: normalisation of all its environments.
        given: the wrappers as given, each ``{"kind": name, argument: value, ...}``.
    """

    row: Final = 0
    """Not None, as in :class:`Wrapped`: the statistics are updated."""

    def __init__(self, env: AnyVectorEnv, normalizers: Normalizers, given: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(env)
        self.given = given
        self.normalizers = normalizers
        if normalizers.observation is not None:
            self._observations = observations_for(env.single_observation_space, env.num_envs)
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
            batch = self._learn_and_normalize(observation, batch, rows)
            if not rows.all():
                keep_rows(batch, self._last, ~rows)
        return self._keep_and_copy(batch), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in each environment."""
        batch, rewards, terminated, truncated, infos = self.env.step(actions)
        observation, reward = self.normalizers
        if observation is not None:
            batch = self._learn_and_normalize(observation, batch)
        rewards = rewards if reward is None else reward(rewards)
        return self._keep_and_copy(batch), rewards, terminated, truncated, infos

    def _learn_and_normalize(self, normalize: NormalizeObservation, batch: Any, rows: Any = slice(None)) -> Any:
        batch = self._observations.batch(batch)
        normalize.learn(batch, rows)
        return normalize(batch)

    def _keep_and_copy(self, batch: Any) -> Any:
        self._last, normalize = batch, self.normalizers.observation
        found: Any = copy_batch(batch)
        nests = normalize is not None and normalize.parts is not None
        return nest(self.single_observation_space, found) if nests else found


BY_NAME: Final = (Wrapped, WrappedVector)
"""Wrappers of environments made with wrappers by name."""


def are_copies(envs: Sequence[AnyEnv]) -> TypeGuard[Sequence[Wrapped]]:
    """Whether all environments share one normalisation, and either all or none update it."""
    first = envs[0]
    return isinstance(first, Wrapped) and all(
        isinstance(env, Wrapped) and env.normalizers is first.normalizers and (env.row is None) == (first.row is None)
        for env in envs
    )


class NormalizedEnvironment(BatchedEnvironment):
    """Normalises all copies at once.

    Every observation is added to the statistics once: after a reset the rows that were reset; after a step all rows,
    including final observations, except those without an agent. Rows that are not reset keep their normalised values.

    Args:
        env: the opened environment.
        inner: its copies without normalisation.
        normalizers: shared by the copies.
        learns: whether the statistics are updated; if not, rewards are unchanged.
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
        self.skips_rows, self.waits, self.saves_state = inner.skips_rows, inner.waits, inner.saves_state
        self._normalizers = normalizers
        self._learns = learns

    @property
    def waiting(self) -> Array | None:
        """Waiting lanes of the copies, bool [N]; None if there are none."""
        return self._inner.waiting

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        batch: Any = self._inner.reset(None if everything else chosen, seeds)
        observation, reward = self._normalizers
        if reward is not None and self._learns:
            reward.begin(chosen)
        if observation is None:
            return copy_batch(batch)
        if self._inner.resets_itself and not everything:
            return copy_batch(self._current())  # the first observations are those of the next step
        if self._learns:
            observation.learn(batch, chosen if self.waiting is None else chosen & ~self.waiting)
        found: ArrayTree = observation(batch)
        return found

    def step(self, actions: ArrayTree) -> Step:
        """Take one action in each copy."""
        self._current()
        step = self._inner.step(actions)
        observation, reward = self._normalizers
        batch: Any = step.observation
        if observation is not None:
            if self._learns:
                # Rows that reset themselves hold first observations; those without an agent hold nothing.
                observation.learn(batch, step.acted if self.waits and step.acted is not None else slice(None))
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

    def state_dict(self) -> State | None:
        """State of the copies; :mod:`.statistics` saves the statistics."""
        inner = self._inner.state_dict()
        return None if inner is None else {"inner": inner, **as_mapping(self._current())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
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
