"""The run loop: acts, stores, learns, calls hooks, counts episodes and measures time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from ..core.protocols import Array, ArrayTree
from ..core.trees import first_row, map_tree
from ..environments.batched import BatchedEnvironment
from ..environments.copies import Single
from ..hooks.events import EpisodeFacts, EpisodeStats, TimestepFacts, Timings, TrainingSession
from ..hooks.hook import LOOK_SECS, Event, Hooks
from .failures import FAILURES, EnvironmentFailure, with_place
from .interrupts import UNDONE, WAITING, Interrupts
from .state import TrainingState

_BREAKS: Final = (*FAILURES, KeyboardInterrupt)
logger = logging.getLogger("axonrl")


class Loop:
    """Runs timesteps of all environments together; or a caller who owns the loop calls the parts of a timestep.

    Args:
        state: everything the run's future depends on; changed in place.
        env: the environments; None if the caller owns the loop, or learns without timesteps.
        hooks: the hooks to call.
        session: argument for the hooks.
    """

    def __init__(
        self, state: TrainingState, env: BatchedEnvironment | None, hooks: Hooks, session: TrainingSession
    ) -> None:
        self.timings = Timings()
        self.interrupts = Interrupts()
        """Phase of the timestep in progress."""
        self.updates = 0
        """Updates in this session."""
        self.loss_sum = 0.0
        """Sum of their losses."""
        self._state = state
        self._stepper = state.stepper
        self._env = env
        self._hooks = hooks
        self._session = session
        is_single = isinstance(env, Single)  # numbers instead of arrays, which are much slower
        self._store = self._store_one if is_single else self._store_all
        if env is not None:
            self._step: Callable[[ArrayTree], Any] = env.step_single if isinstance(env, Single) else env.step
        self._row: ArrayTree | None = None  # the object last passed to the memory, which compares by identity
        self._all_running = False  # as far as known here
        # Ctrl-C also reaches the environments' processes in the middle of a timestep, which is then undone.
        self._in_processes = env is not None and isinstance(getattr(env.env, "unwrapped", None), AsyncVectorEnv)
        self._look_at = 0.0  # next call of hooks that depend on time
        self._said_cannot_sample = False

    def timestep(self) -> Sequence[EpisodeStats]:
        """Take one action in every environment, run the updates that are due, and end episodes.

        Updates left pending by a limit on steps come first, before any timestep: the next action is then chosen with
        the same weights as in an uninterrupted run.

        Returns:
            The episodes that finished.
        """
        state, stepper = self._state, self._stepper
        if stepper.pending_updates:
            self.learn()
            return ()
        if not self._all_running:
            waiting, self._row = None if self._env is None else self._env.waiting, None
            self._all_running = waiting is None
            self.begin(~state.episodes.running if waiting is None else ~(state.episodes.running | waiting))
        observation = state.observation
        began = time.perf_counter()
        drawn = stepper.behaviour.capture() if self._in_processes else None
        action, recorded = stepper.act(observation)
        acted = time.perf_counter()
        try:
            step = self._step(action)
        except _BREAKS as error:
            if drawn is not None:
                stepper.behaviour.put_back(drawn)
                self.interrupts.phase = UNDONE
            if isinstance(error, KeyboardInterrupt):
                raise
            raise self._with_place(error) from error
        stepped = time.perf_counter()
        self._store(observation, action, step, recorded)
        state.observation = step.observation
        state.episodes.record(action, step.reward, step.acted)
        if step.acted is not None:
            stepper.behaviour.begin(~step.acted)  # after a reset, episodes begin with the current observations
        if listeners := self.listeners(began, acted, stepped):
            reward, terminated, truncated = step.outcome()
            facts = TimestepFacts(observation, action, reward, terminated, truncated, step.observation, step.acted)
            self.tell(listeners, facts)
        if self._stepper.pending_updates:
            self.learn()
        if not step.is_end():
            return ()
        self._all_running = False
        return self.finish(*step.ends())

    def _store_one(self, observation: ArrayTree, action: ArrayTree, step: Any, recorded: dict[str, Any]) -> None:
        row, following = self._row, step.observation
        if row is None:
            row = first_row(observation)
        self._row = following = following[0] if type(following) is np.ndarray else first_row(following)
        transition = {
            "observation": row,
            "action": action[0] if type(action) is np.ndarray else first_row(action),
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": following,
        }
        if recorded:
            transition.update(first_row(recorded))
        self._stepper.store_one(transition)

    def _store_all(self, observation: ArrayTree, action: ArrayTree, step: Any, recorded: dict[str, Any]) -> None:
        transition = {
            "observation": observation,
            "action": action,
            "reward": step.reward if step.normalized_reward is None else step.normalized_reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": step.observation,
            **recorded,
        }
        self._stepper.store(transition, step.acted)

    # -- at each of its steps -----------------------------------------------------------------------------------------

    def begin(self, mask: Array) -> None:
        """Begin episodes where ``mask`` [N], and report them."""
        if not mask.any():
            return
        episodes = self._state.episodes
        began = time.perf_counter()
        seeds = episodes.begin(mask)
        if self._env is not None:
            try:
                self._state.observation = self._env.reset(mask, seeds)
            except FAILURES as error:
                raise self._with_place(error) from error
            if (waiting := self._env.waiting) is not None:
                episodes.postpone(mask & waiting)
                mask, self._all_running = mask & ~waiting, False
        self._stepper.behaviour.begin(mask)
        self.timings.environment += time.perf_counter() - began
        if self._hooks.before_episode:
            for i in np.flatnonzero(mask).tolist():
                facts = EpisodeFacts(i, int(episodes.index[i]) - 1, seeds[i])
                for call in self._hooks.before_episode:
                    call(self._session, facts)

    def listeners(self, began: float, acted: float, stepped: float) -> Sequence[Event]:
        """Record the times of a timestep; returns the hooks that need it.

        Args:
            began: start, in seconds of ``time.perf_counter``.
            acted: when the actions were chosen.
            stepped: when the environment step was done.
        """
        now = time.perf_counter()
        timings = self.timings
        timings.acting += acted - began + now - stepped
        timings.environment += stepped - acted
        if now < self._look_at:
            return self._hooks.every_timestep
        self._look_at = now + LOOK_SECS
        return self._hooks.after_timestep

    def tell(self, listeners: Sequence[Event], facts: TimestepFacts) -> None:
        """Report a timestep to :meth:`listeners`, which cannot change its arrays: the run goes on with them."""
        parts: Any = [None if part is None else map_tree(_read_only, part) for part in facts]
        shown = TimestepFacts(*parts)
        for call in listeners:
            call(self._session, shown)

    def learn(self) -> None:
        """Run pending updates, up to a limit on steps, until they must wait."""
        stepper, interrupts = self._stepper, self.interrupts
        began = time.perf_counter()
        while stepper.has_pending_updates(stepper.limits) and interrupts.phase != WAITING:
            if not stepper.memory.can_sample():
                self._skip_updates()
                break
            facts = stepper.learn()
            self._state.episodes.add_loss(facts.loss)
            self.updates += 1
            self.loss_sum += facts.loss
            for call in self._hooks.after_update:
                call(self._session, facts)
            stepper.pending_updates -= 1
        self.timings.learning += time.perf_counter() - began

    def learn_offline(self) -> None:
        """Run an update without a timestep, which belongs to no episode."""
        began = time.perf_counter()
        facts = self._stepper.learn()
        self._state.offline_steps += 1
        for call in self._hooks.after_update:
            call(self._session, facts)
        self.timings.learning += time.perf_counter() - began

    def _skip_updates(self) -> None:
        self._stepper.pending_updates = 0
        if not self._said_cannot_sample:
            logger.warning("skipping due updates: the memory cannot fill a batch yet")
            self._said_cannot_sample = True

    def finish(self, lanes: Sequence[int], terminated: Sequence[bool], truncated: Sequence[bool]) -> list[EpisodeStats]:
        """End episodes in these lanes; returns the statistics of those that count."""
        finished = []
        for i, terminal, cut in zip(lanes, terminated, truncated, strict=True):
            stats = self._state.episodes.finish(i, terminal, cut, self._session.exploration)
            if self.count_episode(stats):
                finished.append(stats)
        return finished

    def count_episode(self, stats: EpisodeStats) -> bool:
        """Count a finished episode and report it; False for a surplus one, which is discarded."""
        counters = self._stepper.counters
        if counters.global_episode == self._stepper.limits.episodes:
            return False
        counters.global_episode += 1
        for call in self._hooks.after_episode:
            call(self._session, stats)
        return True

    def _with_place(self, error: EnvironmentFailure) -> EnvironmentFailure:
        """Add the place in the running episodes to an error."""
        episodes = self._state.episodes
        when = f"global_timestep {self._stepper.counters.global_timestep}"
        return with_place(error, episodes.seeds, episodes.index - 1, episodes.lengths, when)


def _read_only(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view
