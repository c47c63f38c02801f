"""Normalisation by running statistics that all copies of an environment share, as in Stable-Baselines3's VecNormalize.

Gymnasium's wrappers do not suffice: for single environments they keep statistics per copy, and for vector environments
they support neither ``AutoresetMode.DISABLED`` nor a reset mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from ..core.checks import number
from ..core.errors import ArgumentError
from ..core.protocols import ACHIEVED_GOAL, DESIRED_GOAL, Array, ArrayTree, State
from ..core.spread import divisor
from .actions import nested
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .observations import Observations, as_mapping, copied, from_mapping, keep_rows
from .spaces import AnySpace, Leaf, leaves

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

    In a Dict or a Tuple, Boxes of floats and of integers are normalised, each number on its own; bytes (images), bits,
    masks and categories stay unchanged. So do the two goals of a goal environment: hindsight computes rewards from them
    as the environment returned them, and combines goals of different times.

    Has the attributes of Gymnasium's wrapper of this name, for checkpoints and exports.

    Args:
        space: one environment's observation space, with something to normalise.
        clip: largest absolute value of the result, above 0.
    """

    def __init__(self, space: AnySpace, clip: float) -> None:
        shapes = {leaf.name: leaf.spec.shape for leaf in leaves(space) if _is_normalized(leaf)}
        if not shapes:
            raise ArgumentError(
                "the observation space must be a Box of floats or of integers other than bytes, or a Dict or a Tuple"
                f" with one that is not a goal, got {space}",
                "observation_space",
                space,
            )
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.parts = dict(sorted(shapes.items())) if isinstance(space, Dict | Tuple) else None
        """Shapes of the normalised parts of a Dict or a Tuple by name; the moments concatenate them in this order."""
        self.obs_rms = Moments((sum(map(math.prod, shapes.values())),) if self.parts else shapes[""])
        self.update_running_mean = True
        self.space = _with_boxes(space, {name: self._box(shape) for name, shape in shapes.items()})

    def _box(self, shape: tuple[int, ...]) -> AnySpace:
        box: AnySpace = Box(-self.clip, self.clip, shape, np.float32)
        return box

    def learn(self, batch: Any, rows: Any = slice(None)) -> None:
        """Add these ``rows`` of a batch to the statistics, unless they are frozen (evaluation, replay)."""
        if self.update_running_mean:
            learnt = self._joined(batch)[rows]
            if len(learnt):
                self.obs_rms.update(learnt)

    def __call__(self, batch: Any) -> Any:
        """The normalised observations [N, ...]."""
        moments, joined = self.obs_rms, self._joined(batch)
        scaled = (joined - moments.mean) / divisor(moments.mean, moments.var, self.epsilon)
        clipped: Array = np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)
        if self.parts is None:
            return clipped
        sizes = [math.prod(shape) for shape in self.parts.values()]
        each = np.split(clipped, np.cumsum(sizes)[:-1], axis=1)
        found = {name: part.copy() for name, part in batch.items()}
        for (name, shape), part in zip(self.parts.items(), each, strict=True):
            found[name] = np.ascontiguousarray(part).reshape(len(part), *shape)
        return found

    def _joined(self, batch: Any) -> Array:
        """Concatenate the normalised parts into one array [N, ...] of float32."""
        if self.parts is None:
            return np.asarray(batch, np.float32)
        each = ((np.asarray(batch[name], np.float32), math.prod(shape)) for name, shape in self.parts.items())
        return np.concatenate([part.reshape(len(part), size) for part, size in each], axis=1)


def _is_normalized(leaf: Leaf) -> bool:
    is_number = isinstance(leaf.space, Box) and leaf.spec.dtype in (np.float32, np.int32)
    return is_number and leaf.name not in (ACHIEVED_GOAL, DESIRED_GOAL)


def _with_boxes(space: AnySpace, boxes: Mapping[str, AnySpace], prefix: str = "") -> AnySpace:
    """The space with the leaves of these names replaced by ``boxes``."""
    start = f"{prefix}/" if prefix else ""
    if isinstance(space, Dict):
        return Dict([(key, _with_boxes(part, boxes, f"{start}{key}")) for key, part in space.spaces.items()])
    if isinstance(space, Tuple):
        return Tuple([_with_boxes(part, boxes, f"{start}{place}") for place, part in enumerate(space.spaces)])
    return boxes.get(prefix, space)


class NormalizeReward:
    """Rewards over the running standard deviation of the discounted sum of past rewards, clipped.

    The sum starts at 0 in every episode, as in VecNormalize; it is not a return-to-go. Rewards are 0 while it has not
    varied by more than rounding, as at the first timestep. While frozen (evaluation) they are unchanged. Hooks and
    returns always see the environment's rewards.

    Args:
        num_envs: N.
        discount: discount of the sum, 0 .. 1.
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
    """Normalisation shared by all copies of an environment; None where there is none."""

    observation: NormalizeObservation | None = None
    reward: NormalizeReward | None = None

    def __deepcopy__(self, memo: Any) -> Normalizers:
        """Itself: environments made from a copied spec share the statistics."""
        return self


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Outermost wrapper of an environment made with wrappers by name.

    The batched interface looks through it and normalises all copies at once (:class:`NormalizedEnvironment`).
    Environments made from its ``spec`` have ``row=None``.

    Args:
        env: one copy, inside the other wrappers.
        normalizers: shared by all copies.
        row: the copy's index; None to only read the statistics: observations are normalised, rewards unchanged.
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
            self._observations = Observations(env.observation_space, 1)
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
        batch = self._observations.single(observation)
        if self.row is not None:
            normalize.learn(batch)
        normalized = normalize(batch)
        if normalize.parts is None:
            return normalized[0]
        return nested(self.observation_space, {name: part[0, ...] for name, part in normalized.items()})


class WrappedVector(VectorWrapper[Any, Any, Any]):
    """Wrapper of a vector environment made with wrappers by name, all of which are normalisation.

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
            self._observations = Observations(env.single_observation_space, env.num_envs)
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
            batch = self._normalized(observation, batch, rows)
            if not rows.all():
                keep_rows(batch, self._last, ~rows)
        return self._returned(batch), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in each environment."""
        batch, rewards, terminated, truncated, infos = self.env.step(actions)
        observation, reward = self.normalizers
        if observation is not None:
            batch = self._normalized(observation, batch)
        rewards = rewards if reward is None else reward(rewards)
        return self._returned(batch), rewards, terminated, truncated, infos

    def _normalized(self, normalize: NormalizeObservation, batch: Any, rows: Any = slice(None)) -> Any:
        batch = self._observations.batch(batch)
        normalize.learn(batch, rows)
        return normalize(batch)

    def _returned(self, batch: Any) -> Any:
        self._last, normalize = batch, self.normalizers.observation
        found: Any = copied(batch)
        nests = normalize is not None and normalize.parts is not None
        return nested(self.single_observation_space, found) if nests else found


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

    Every observation enters the statistics once: after a reset the rows that were reset, after a step all rows,
    including final observations. Rows that are not reset keep their normalised values.

    Args:
        env: the opened environment.
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
            observation.learn(batch, chosen)
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
        """Whether the copies save state."""
        return self._inner.saves_state

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
