"""Vector environments behind the batched interface, one class per ``gymnasium.vector.AutoresetMode``.

https://farama.org/Vector-Autoreset-Mode describes the three modes.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from ..core.checks import shortened
from ..core.errors import ArgumentError, BrokenEnvironmentError
from ..core.protocols import Array, ArrayTree, State
from .batched import AnyVectorEnv, BatchedEnvironment, Step
from .native.vector import NativeVectorEnv
from .observations import MismatchError, as_mapping, copy_batch, from_mapping
from .pooled import PooledVectorEnv


class Vector(BatchedEnvironment):
    """``AutoresetMode.DISABLED``: environments are reset by mask, each with its seed.

    Its state is saved if the outermost object has the methods ``state_dict`` and ``load_state_dict``, as a wrapper
    without them may have its own state.
    """

    env: AnyVectorEnv

    def __init__(self, env: AnyVectorEnv, **details: Any) -> None:
        super().__init__(env, **details)
        self.saves_state = all(callable(getattr(type(env), name, None)) for name in ("state_dict", "load_state_dict"))

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        # The first reset also uses a mask: without one the environments would receive other options.
        masked = [int(seed) if asked else None for seed, asked in zip(seeds, chosen, strict=True)]
        return self._call_reset(masked, {"reset_mask": chosen.copy()})

    def step(self, actions: ArrayTree) -> Step:
        """One call for all."""
        return self._call_step(actions)[0]

    def _call_reset(self, seed: Any, options: dict[str, Any] | None) -> ArrayTree:
        try:
            result = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._failure_of("reset", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            self._refuse("reset", f"{shortened(result)}, expected (observations, infos)")
        return self._batch("reset", result[0])

    def _call_step(self, actions: ArrayTree, ignored: Array | None = None) -> tuple[Step, Any]:
        self._current()
        batch = self._actions.batch(actions, ignored)
        try:
            result = self.env.step(batch)
        except Exception as error:
            raise self._failure_of("step", error) from error
        if not isinstance(result, tuple) or len(result) != 5:
            self._refuse("step", f"{shortened(result)}, expected (observations, rewards, terminated, truncated, infos)")
        observations, rewards, terminated, truncated, infos = result
        step = Step(
            self._batch("step", observations),
            self._column("rewards", rewards, np.float64, "biuf"),
            self._column("terminated", terminated, np.bool_, "b"),
            self._column("truncated", truncated, np.bool_, "b"),
            None,
        )
        self._check_rewards(step.reward)
        self._check_finite("step", step.observation)
        self._last = step.observation
        return step, infos

    def _batch(self, method: str, observations: Any) -> ArrayTree:
        try:
            return self._observations.batch(observations)
        except MismatchError as error:
            self._refuse(method, error)

    def _column(self, what: str, values: Any, dtype: Any, kinds: str) -> Array:
        try:
            array = np.array(values)
        except ValueError as error:  # rows of different lengths
            self._refuse("step", f"{what} that are not an array: {error}")
        if array.shape != (self.num_envs,) or array.dtype.kind not in kinds:
            given = f"{what} of shape {array.shape} and dtype {array.dtype}"
            self._refuse("step", f"{given}, expected {np.dtype(dtype).name} [{self.num_envs}]: {shortened(values)}")
        return array.astype(dtype, copy=False)

    def state_dict(self) -> State | None:
        """The vector environment's state, if it offers one."""
        if not self.saves_state:
            return None
        env: Any = self.env
        return {"environment": dict(env.state_dict()), **as_mapping(self._current())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the vector environment's state."""
        if not self.saves_state:
            raise ValueError(f"{self.name} saves no state")
        env: Any = self.env
        env.load_state_dict(state["environment"])
        self._last = from_mapping(state)


class NativeVector(Vector):
    """One of axonrl's own vector environments: its results need neither checks nor copies."""

    def __init__(self, env: NativeVectorEnv, **details: Any) -> None:
        super().__init__(env, **details)
        self._native = env

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        lanes = np.flatnonzero(chosen).tolist()
        return self._native.begin(lanes, [int(seeds[lane]) for lane in lanes])

    def step(self, actions: ArrayTree) -> Step:
        """One call for all."""
        if self._last is None:
            self._current()
        observation, reward, terminated, truncated, _ = self._native.step(self._actions.batch(actions))
        self._last = observation
        return Step(observation, reward, terminated, truncated, None)


class SelfResettingVector(Vector):
    """A vector environment that resets its environments itself: seeds are used only if all are reset."""

    resets_itself = True

    def __init__(self, env: AnyVectorEnv, **details: Any) -> None:
        super().__init__(env, **details)
        self.saves_state = False  # such a run does not resume exactly anyway
        self._ended: Array = np.zeros(self.num_envs, np.bool_)

    @abc.abstractmethod
    def step(self, actions: ArrayTree) -> Step:
        """Step all with one call; sets ``_ended`` for the rows whose episode ended."""

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        if everything:
            self._ended = np.zeros(self.num_envs, np.bool_)
            # Other vector environments share one generator, and take one seed.
            takes_list = isinstance(self.env.unwrapped, SyncVectorEnv | AsyncVectorEnv | PooledVectorEnv)
            return self._call_reset([int(seed) for seed in seeds] if takes_list else int(seeds[0]), None)
        running = np.flatnonzero(chosen & ~self._ended).tolist()
        if running:
            message = f"{self.name} resets itself: environments {running} cannot be reset in mid-episode"
            raise ArgumentError(message, "mask", chosen)
        return copy_batch(self._current())


class SameStepVector(SelfResettingVector):
    """``AutoresetMode.SAME_STEP``: the step that ends an episode also starts the next one."""

    def step(self, actions: ArrayTree) -> Step:
        """Step all with one call; final observations come from ``infos["final_obs"]``."""
        step, infos = self._call_step(actions)
        self._ended = step.terminated | step.truncated
        if not self._ended.any():
            return step
        final = copy_batch(step.observation)
        for i in np.flatnonzero(self._ended).tolist():
            self._put_final(final, i, infos)
        self._check_finite("step", final)
        return step._replace(observation=final)

    def _put_final(self, batch: ArrayTree, row: int, infos: Any) -> None:
        try:
            self._observations.put(batch, row, infos["final_obs"][row])
        except MismatchError as error:
            self._refuse("step", f"in infos['final_obs'] {error}", row)
        except (KeyError, TypeError, IndexError) as error:
            what = f"the end of an episode without its last observation, infos['final_obs'][{row}]"
            raise BrokenEnvironmentError(f"{self.name}.step returned {what}", row) from error


class NextStepVector(SelfResettingVector):
    """``AutoresetMode.NEXT_STEP``: the step after an episode's end ignores that row's action and resets it."""

    skips_rows = True

    def step(self, actions: ArrayTree) -> Step:
        """One call for all; rows whose episode ended on the previous step did not act."""
        ignored = self._ignored_rows()
        step, _ = self._call_step(actions, ignored)
        self._ended = step.terminated | step.truncated
        return step if ignored is None else step._replace(acted=~ignored)

    def _ignored_rows(self) -> Array | None:
        """Mask of the rows that the next step resets; None if there are none."""
        return self._ended if 1 in self._ended.tobytes() else None  # faster than any() on short arrays


class PooledVector(NextStepVector):
    """EnvPool's environments: results have the shapes and dtypes of the spaces, in new arrays."""

    def __init__(self, env: PooledVectorEnv, **details: Any) -> None:
        super().__init__(env, **details)
        self._pool = env.pool

    def step(self, actions: ArrayTree) -> Step:
        """One call for all; rows whose episode ended on the previous step did not act."""
        self._current()
        ignored = self._ignored_rows()
        taken = self._actions.batch(actions, ignored)
        try:
            observations, rewards, terminated, truncated = self._pool.step(taken)
        except Exception as error:
            raise self._failure_of("step", error) from error
        observation = self._observations.batch_unchecked(observations)
        self._check_rewards(rewards)
        self._check_finite("step", observation)
        self._last = observation
        self._ended = terminated | truncated
        return Step(observation, rewards, terminated, truncated, None if ignored is None else ~ignored)
