"""Around acting and learning: calls hooks, counts episodes, measures time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from ..core.protocols import Array, ArrayTree
from ..hooks.events import EpisodeFacts, EpisodeStats, TimestepFacts, Timings, TrainingSession
from ..hooks.hook import LOOK_SECS, Event, Hooks
from .failures import EnvironmentFailure, located
from .interrupts import WAITING, Interrupts
from .state import TrainingState

logger = logging.getLogger("axonrl")


class Monitor:
    """Used by the driver of a stepper: the loop over an environment, or a caller's own loop.

    Args:
        state: the run's state, whose stepper and episodes it drives.
        hooks: the hooks to call.
        session: argument for the hooks.
    """

    def __init__(self, state: TrainingState, hooks: Hooks, session: TrainingSession) -> None:
        self.timings = Timings()
        self.interrupts = Interrupts()
        """Phase of the timestep in progress."""
        self.updates = 0
        """Updates in this session."""
        self.loss_sum = 0.0
        """Sum of their losses."""
        self._state = state
        self._stepper = state.stepper
        self._hooks = hooks
        self._session = session
        self._look_at = 0.0  # next call of hooks that depend on time
        self._said_cannot_sample = False

    def announce(self, mask: Array, seeds: Sequence[int]) -> None:
        """Report episodes that have begun where ``mask`` [N]."""
        if self._hooks.before_episode:
            index = self._state.episodes.index
            for i in np.flatnonzero(mask).tolist():
                facts = EpisodeFacts(i, int(index[i]) - 1, seeds[i])
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

    def tell(
        self,
        listeners: Sequence[Event],
        observation: ArrayTree,
        action: ArrayTree,
        outcome: tuple[Array, Array, Array],
        following: ArrayTree,
        acted: Array | None = None,
    ) -> None:
        """Report a timestep; ``outcome`` is reward, terminated and truncated, all [N, ...]."""
        facts = TimestepFacts(observation, action, *outcome, following, acted)
        for call in listeners:
            call(self._session, facts)

    def learn(self) -> None:
        """Run pending updates, as far as a limit on steps allows, until they must wait."""
        stepper, interrupts, limit = self._stepper, self.interrupts, self._stepper.limits.steps
        began = time.perf_counter()
        while stepper.pending_updates and stepper.counters.global_step != limit and interrupts.phase != WAITING:
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
        """Run an update without a timestep; it belongs to no episode."""
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
            if self.counted(stats):
                finished.append(stats)
        return finished

    def counted(self, stats: EpisodeStats) -> bool:
        """Count a finished episode and report it; False for a surplus one, which is discarded."""
        counters = self._stepper.counters
        if counters.global_episode == self._stepper.limits.episodes:
            return False
        counters.global_episode += 1
        for call in self._hooks.after_episode:
            call(self._session, stats)
        return True

    def located(self, error: EnvironmentFailure) -> EnvironmentFailure:
        """Add the running episodes to an error."""
        episodes = self._state.episodes
        when = f"global_timestep {self._stepper.counters.global_timestep}"
        return located(error, episodes.seeds, episodes.index - 1, episodes.lengths, when)
