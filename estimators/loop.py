"""The run loop: a stepper acts in an environment and learns from it; hooks are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from ..core.protocols import Array, ArrayTree
from ..environments.batched import BatchedEnvironment, Step
from ..environments.single import Single, SingleStep
from ..hooks.events import EpisodeStats
from .batch_layout import first_row
from .failures import FAILURES
from .monitor import Monitor
from .state import TrainingState

_BREAKS: Final = (*FAILURES, KeyboardInterrupt)


class Loop:
    """One timestep after the other, of every environment together.

    Args:
        state: what the run's future follows from; changed in place.
        env: the environments.
        monitor: tells hooks, counts episodes, runs updates.
    """

    def __init__(self, state: TrainingState, env: BatchedEnvironment, monitor: Monitor) -> None:
        self.untouched = False
        """Is the state as it was before the timestep that failed?"""
        self._state = state
        self._stepper = state.stepper
        self._env = env
        self._monitor = monitor
        self._is_single = isinstance(env, Single)
        self._lanes = _One(env) if isinstance(env, Single) else _Many(env)
        self._all_running = False  # as far as this loop knows
        # Ctrl-C reaches the environments' own processes too, in the middle of a timestep: this one is undone then.
        self._in_processes = isinstance(getattr(env.env, "unwrapped", None), AsyncVectorEnv)

    def timestep(self) -> Sequence[EpisodeStats]:
        """One action in every environment, the updates that are due, and the ends of episodes.

        Updates that a limit on steps left over from the last timestep come first, and by themselves: the next action
        is chosen with the weights that it would have been chosen with in one run.

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
                self.untouched = True
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
            stepper.behaviour.begin(~mask)  # these were reset: their episodes begin with the observations they have now
        if listeners := self._monitor.listeners(began, acted, stepped):
            outcome = lanes.outcome(step)
            self._monitor.tell(listeners, observation, action, outcome, step.observation)
        if self._stepper.pending_updates:
            self._monitor.learn()
        return self._finish_episodes(step) if lanes.ended(step) else ()

    def _begin_episodes(self) -> None:
        state, episodes = self._state, self._state.episodes
        mask = ~episodes.running
        self._all_running = True
        if not mask.any():
            return
        began = time.perf_counter()
        seeds = episodes.begin(mask)
        try:
            state.observation = self._env.reset(mask, seeds)
        except FAILURES as error:
            raise self._monitor.located(error) from error
        self._lanes.begin()
        self._stepper.behaviour.begin(mask)
        self._monitor.timings.environment += time.perf_counter() - began
        self._monitor.announce(mask, seeds)

    def _finish_episodes(self, step: Any) -> list[EpisodeStats]:
        self._all_running = False
        _, terminated, truncated = self._lanes.outcome(step)
        ended = np.flatnonzero(terminated | truncated)
        return self._monitor.finish(ended.tolist(), terminated[ended].tolist(), truncated[ended].tolist())


class _One:
    """The only environment: numbers where several have arrays, which take most of the time."""

    def __init__(self, env: Single) -> None:
        self.step: Callable[[ArrayTree], SingleStep] = env.step_single
        self._row: ArrayTree | None = None  # the very object that the memory was handed last: it need not compare

    def begin(self) -> None:
        self._row = None

    def transition(
        self, observation: ArrayTree, action: ArrayTree, step: Any, recorded: dict[str, Any]
    ) -> dict[str, Any]:
        row = first_row(observation) if self._row is None else self._row
        self._row = following = first_row(step.observation)
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
        # Bytes are compared many times as fast as operations on arrays of a few truth values take.
        return not step.terminated.tobytes() == step.truncated.tobytes() == self._none

    def outcome(self, step: Any) -> tuple[Array, Array, Array]:
        return step.reward, step.terminated, step.truncated
