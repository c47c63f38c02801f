"""The run loop: a stepper acts in an environment and learns; hooks are called."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from ..core.protocols import Array, ArraySpec, ArrayTree
from ..core.trees import first_row
from ..environments.batched import BatchedEnvironment, Step
from ..environments.copies import Single, SingleStep
from ..environments.spaces import observation_spec
from ..hooks.events import EpisodeStats
from .failures import FAILURES
from .interrupts import UNDONE
from .monitor import Monitor
from .state import TrainingState

_BREAKS: Final = (*FAILURES, KeyboardInterrupt)


class Loop:
    """Runs timesteps of all environments together.

    Args:
        state: everything the run's future depends on; changed in place.
        env: the environments.
        monitor: calls hooks, counts episodes, runs updates.
    """

    def __init__(self, state: TrainingState, env: BatchedEnvironment, monitor: Monitor) -> None:
        self._state = state
        self._stepper = state.stepper
        self._env = env
        self._monitor = monitor
        self._is_single = isinstance(env, Single)
        self._lanes = _One(env) if isinstance(env, Single) else _Many(env)
        self._all_running = False  # as far as known here
        # Ctrl-C also reaches the environments' processes in the middle of a timestep, which is then undone.
        self._in_processes = isinstance(getattr(env.env, "unwrapped", None), AsyncVectorEnv)

    def timestep(self) -> Sequence[EpisodeStats]:
        """Take one action in every environment, run the updates that are due, and end episodes.

        Updates remaining from a limit on steps come first, without a timestep: the next action is chosen with the same
        weights as in an uninterrupted run.

        Returns:
            The episodes that finished.
        """
        state, stepper, lanes = self._state, self._stepper, self._lanes
        if stepper.pending_updates:
            self._monitor.learn()
            return ()
        if not self._all_running:
            self._begin_episodes()
        observation = state.observation
        began = time.perf_counter()
        drawn = stepper.behaviour.drawn() if self._in_processes else None
        action, recorded = stepper.act(observation)
        acted = time.perf_counter()
        try:
            step = lanes.step(action)
        except _BREAKS as error:
            if drawn is not None:
                stepper.behaviour.put_back(drawn)
                self._monitor.interrupts.phase = UNDONE
            if isinstance(error, KeyboardInterrupt):
                raise
            raise self._monitor.located(error) from error
        stepped = time.perf_counter()
        mask = lanes.mask(step)
        transition = lanes.transition(observation, action, step, recorded)
        if self._is_single:
            stepper.store_one(transition)
        else:
            stepper.store(transition, mask)
        state.observation = step.observation
        state.episodes.record(action, step.reward, mask)
        if mask is not None:
            stepper.behaviour.begin(~mask)  # after a reset, episodes begin with the current observations
        if listeners := self._monitor.listeners(began, acted, stepped):
            outcome = lanes.outcome(step)
            self._monitor.tell(listeners, observation, action, outcome, step.observation, mask)
        if self._stepper.pending_updates:
            self._monitor.learn()
        return self._finish_episodes(step) if lanes.ended(step) else ()

    def _begin_episodes(self) -> None:
        state, episodes = self._state, self._state.episodes
        mask, waiting = ~episodes.running, self._env.waiting
        if waiting is not None:
            mask &= ~waiting
        self._all_running = waiting is None
        if not mask.any():
            return
        began = time.perf_counter()
        seeds = episodes.begin(mask)
        try:
            state.observation = self._env.reset(mask, seeds)
        except FAILURES as error:
            raise self._monitor.located(error) from error
        if (waiting := self._env.waiting) is not None:
            episodes.postpone(mask & waiting)
            mask, self._all_running = mask & ~waiting, False
        self._lanes.begin()
        self._stepper.behaviour.begin(mask)
        self._monitor.timings.environment += time.perf_counter() - began
        self._monitor.announce(mask, seeds)

    def _finish_episodes(self, step: Any) -> list[EpisodeStats]:
        self._all_running = False
        return self._monitor.finish(*self._lanes.ends(step))


class _One:
    """A single environment: numbers instead of arrays, which are much slower."""

    def __init__(self, env: Single) -> None:
        self.step: Callable[[ArrayTree], SingleStep] = env.step_single
        is_array = isinstance(observation_spec(env.observation_space), ArraySpec)
        self._first: Callable[[ArrayTree], ArrayTree] = operator.itemgetter(0) if is_array else first_row
        self._row: ArrayTree | None = None  # the object last passed to the memory, which compares by identity

    def begin(self) -> None:
        self._row = None

    def transition(
        self, observation: ArrayTree, action: ArrayTree, step: Any, recorded: dict[str, Any]
    ) -> dict[str, Any]:
        row = self._first(observation) if self._row is None else self._row
        self._row = following = self._first(step.observation)
        return {
            "observation": row,
            "action": action[0] if type(action) is np.ndarray else first_row(action),
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": following,
            **(first_row(recorded) if recorded else recorded),
        }

    def mask(self, step: Any) -> Array | None:
        return None

    def ended(self, step: Any) -> bool:
        ended: bool = step.terminated or step.truncated
        return ended

    def ends(self, step: Any) -> tuple[Sequence[int], Sequence[bool], Sequence[bool]]:
        return (0,), (step.terminated,), (step.truncated,)

    def outcome(self, step: Any) -> tuple[Array, Array, Array]:
        return np.array([step.reward]), np.array([step.terminated]), np.array([step.truncated])


class _Many:
    """Several environments: arrays [N, ...]."""

    def __init__(self, env: BatchedEnvironment) -> None:
        self.step: Callable[[ArrayTree], Step] = env.step
        self._none = np.zeros(env.num_envs, np.bool_).tobytes()

    def begin(self) -> None:
        pass

    def transition(
        self, observation: ArrayTree, action: ArrayTree, step: Any, recorded: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "observation": observation,
            "action": action,
            "reward": step.reward if step.normalized_reward is None else step.normalized_reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": step.observation,
            **recorded,
        }

    def mask(self, step: Any) -> Array | None:
        acted: Array | None = step.acted
        return acted

    def ended(self, step: Any) -> bool:
        # Comparing bytes is many times faster than operations on tiny boolean arrays.
        return not step.terminated.tobytes() == step.truncated.tobytes() == self._none

    def ends(self, step: Any) -> tuple[Sequence[int], Sequence[bool], Sequence[bool]]:
        """The lanes whose episodes have ended, and how."""
        ended = np.flatnonzero(step.terminated | step.truncated)
        return ended.tolist(), step.terminated[ended].tolist(), step.truncated[ended].tolist()

    def outcome(self, step: Any) -> tuple[Array, Array, Array]:
        return step.reward, step.terminated, step.truncated
