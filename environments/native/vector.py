"""Base of the native vector environments: episodes of N lanes, with seeds, time limits and saved states."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ...core.checks import shortened
from ...core.protocols import Array, State

_MASK: Final = "reset_mask"
_NEVER: Final = np.iinfo(np.int64).max


class NativeVectorEnv(VectorEnv[Array, Array, Array], abc.ABC):
    """N copies of one of Gymnasium's environments, stepped as arrays.

    For the same seeds and actions, observations, rewards and ends of episodes equal those of Gymnasium's own
    environment bit for bit. Autoreset is disabled: ``reset`` takes a mask and a seed for each lane. The state can be
    saved. Returned arrays are new.

    Args:
        one: Gymnasium's environment, from ``gymnasium.make``. It provides the constants, and draws the initial states
            of all lanes.
        num_envs: N.
    """

    arguments: ClassVar[tuple[str, ...]] = ()
    """Keyword arguments of Gymnasium's environment that are supported."""

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}
        self.num_envs = num_envs
        self.spec = one.spec
        self.single_observation_space = one.observation_space
        self.single_action_space = one.action_space
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)
        self._one: Any = one.unwrapped
        self._limit = None if one.spec is None else one.spec.max_episode_steps
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        # Timesteps of all lanes are counted together; an episode is truncated when the count reaches its deadline.
        self._count = 0
        self._deadlines: Array = np.full(num_envs, _NEVER)
        self._next_deadline = _NEVER
        self._ended: Array = np.ones(num_envs, np.bool_)
        self._any_ended = True
        self._none_ended = np.zeros(num_envs, np.bool_)
        self._state: Array = np.zeros(0)  # the lanes' states [..., N], which subclasses allocate
        self._observations: Array = np.zeros(self.observation_space.shape or (), np.float32)
        self._is_discrete = isinstance(one.action_space, Discrete)
        self._actions_shape, self._actions_dtype = self.action_space.shape or (), self.action_space.dtype

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: a seed for each lane, or the first of N consecutive ones. With None a lane's random generator
                continues.
            options: ``reset_mask``, bool [N]: lanes to reset, default all; and the options of Gymnasium's environment.

        Returns:
            The observations [N, ...]; lanes outside the mask keep their last one.

        Raises:
            ValueError: wrong number of seeds, or a mask of another shape.
            TypeError: the mask is not a boolean array.
        """
        seeds = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{self} needs {self.num_envs} seeds, got {len(seeds)}")
        others = dict(options or {})
        lanes = self._lanes_of(others.pop(_MASK, None))
        chosen = [None if seeds is None else seeds[lane] for lane in lanes]
        return self.begin(lanes, chosen, others or None), {}

    def begin(self, lanes: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None = None) -> Array:
        """Start episodes in these lanes, with a seed for each; returns a new array [N, ...], like :meth:`reset`."""
        for lane, seed in zip(lanes, seeds, strict=True):
            self._observations[lane] = self._begin(lane, seed, options)
        self._any_ended = bool(self._ended.any())
        self._next_deadline = int(self._deadlines.min())
        observations: Array = self._observations.copy()
        return observations

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take one action in each lane.

        Args:
            actions: integers [N] for a Discrete space; [N, 1] in its dtype for a Box, clipped here.

        Returns:
            Observations float32 [N, ...], rewards float64 [N], terminated and truncated bool [N], and no infos.

        Raises:
            ValueError: actions of another shape or dtype, or outside of a Discrete space; or an episode has ended and
                its lane has not been reset.
        """
        if (
            not isinstance(actions, np.ndarray)
            or actions.shape != self._actions_shape  # NumPy would give one action to all lanes
            or (actions.dtype.kind not in "iu" if self._is_discrete else actions.dtype != self._actions_dtype)
        ):
            expected = f"{'integers' if self._is_discrete else self._actions_dtype} {list(self._actions_shape)}"
            raise ValueError(f"{self} needs an array of actions, {expected}, got {shortened(actions)}")
        if self._any_ended:
            lanes = np.flatnonzero(self._ended).tolist()
            raise ValueError(f"{self}: the lanes {lanes} must be reset before the next step")
        observations, rewards, terminated = self._advance(actions)
        self._count += 1
        if self._count >= self._next_deadline:
            truncated = self._deadlines <= self._count
            self._ended = terminated | truncated
            self._any_ended = True
        else:
            truncated = self._none_ended.copy()
            if terminated.tobytes() != truncated.tobytes():
                self._ended = terminated.copy()
                self._any_ended = True
        self._observations = observations.copy()  # the returned array belongs to the caller
        return observations, rewards, terminated, truncated, {}

    def state_dict(self) -> State:
        """Everything that determines the future of all lanes."""
        return {
            "made_from": self._made_from(),
            "state": self._state_copy(),
            "observations": self._observations.copy(),
            "deadlines": np.where(self._deadlines == _NEVER, _NEVER, self._deadlines - self._count),
            "ended": self._ended.copy() if self._any_ended else self._none_ended.copy(),
            "generators": [None if one is None else one.bit_generator.state for one in self._generators],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned.

        Raises:
            ValueError: the state is for another environment, other arguments or another number of lanes.
        """
        if (made_from := state.get("made_from")) != self._made_from():
            raise ValueError(f"the state belongs to {made_from or 'something else'}, but this is {self._made_from()}")
        self._restore(state["state"])
        self._observations = state["observations"].copy()
        self._count, self._deadlines = 0, state["deadlines"].copy()
        self._next_deadline = int(self._deadlines.min())
        self._ended = state["ended"].copy()
        self._any_ended = bool(self._ended.any())
        self._generators = [None if one is None else _generator(one) for one in state["generators"]]

    def close_extras(self, **kwargs: Any) -> None:
        """Close Gymnasium's environment."""
        self._one.close()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._made_from()})"

    @abc.abstractmethod
    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        """New arrays: observations float32 [N, ...], rewards float64 [N], terminated bool [N]."""

    def _put(self, lane: int, state: Any) -> None:
        """Begin an episode of ``lane`` with ``state``, in the form of Gymnasium's environment."""
        self._state[:, lane] = state

    def _state_copy(self) -> Any:
        """A copy of the lanes' states."""
        return self._state.copy()

    def _restore(self, saved: Any) -> None:
        """Restore what :meth:`_state_copy` returned."""
        self._state[...] = saved

    def _lanes_of(self, mask: Any) -> list[int]:
        if mask is None:
            return list(range(self.num_envs))
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"options['{_MASK}'] must be a boolean array, got {mask!r}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(f"options['{_MASK}'] must be [{self.num_envs}] with at least one True, got {mask!r}")
        lanes: list[int] = np.flatnonzero(mask).tolist()
        return lanes

    def _begin(self, lane: int, seed: int | None, options: dict[str, Any] | None) -> Array:
        """Begin an episode: Gymnasium's environment draws the initial state, with the lane's generator."""
        one = self._one
        if seed is None:
            one.np_random = self._generators[lane] or np_random()[0]
        observation: Array
        observation, _ = one.reset(seed=seed, options=options)
        self._generators[lane] = one.np_random
        self._put(lane, one.state)
        self._ended[lane] = False
        self._deadlines[lane] = _NEVER if self._limit is None else self._count + self._limit
        return observation

    def _made_from(self) -> str:
        spec = self.spec
        named = {} if spec is None else {**spec.kwargs, "max_episode_steps": self._limit}
        arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(named.items()))
        return f"{'' if spec is None else spec.id}, {self.num_envs} lanes, {arguments}"


def pick(table: Array, actions: Array) -> Array:
    """``table[actions]`` [N]; ``ValueError`` if an action is not a non-negative index."""
    each = actions.tolist()
    if min(each) < 0 or max(each) >= len(table):
        raise ValueError(f"actions must be integers 0 .. {len(table) - 1}, got {each}")
    values: Array = table[actions]
    return values


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    bits: Any = np.random.PCG64()
    bits.state = dict(state)
    return np.random.Generator(bits)
