"""What surrounds acting and learning: hooks are told, episodes counted, time measured."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from ..core.protocols import Array, ArrayTree
from ..hooks.events import EpisodeFacts, EpisodeStats, TimestepFacts, Timings, TrainingSession
from ..hooks.hook import LOOK_SECS, Event, Hooks
from .failures import EnvironmentFailure, located
from .limits import Limits
from .state import TrainingState

logger = logging.getLogger("axonrl")


class Monitor:
    """Used by whoever drives a stepper: the loop over an environment, or a caller's own loop.

    Args:
        state: the run's state; its stepper and episodes are driven from here.
        hooks: who is told.
        session: what hooks are handed.
    """

    def __init__(self, state: TrainingState, hooks: Hooks, session: TrainingSession) -> None:
        self.timings = Timings()
        self.limits = Limits()
        self.waits = False
        """Are updates to wait for a checkpoint of the policy as it is now?"""
        self.updates = 0
        """Of this session."""
        self.loss_sum = 0.0
        """Of their losses."""
        self._state = state
        self._stepper = state.stepper
        self._hooks = hooks
        self._session = session
        self._look_at = 0.0  # when the hooks that go by the clock are called next
        self._said_cannot_sample = False

    def announce(self, mask: Array, seeds: Sequence[int]) -> None:
        """Episodes have begun where ``mask`` [N]."""
        if self._hooks.before_episode:
            index = self._state.episodes.index
            for i in np.flatnonzero(mask).tolist():
                facts = EpisodeFacts(i, int(index[i]) - 1, seeds[i])
                for call in self._hooks.before_episode:
                    call(self._session, facts)

    def listeners(self, began: float, acted: float, stepped: float) -> Sequence[Event]:
        """Note where the time of a timestep went; returns which hooks are to hear of it.

        Args:
            began: when it began, in seconds of ``time.perf_counter``.
            acted: when the actions were chosen.
            stepped: when the environment had taken them.
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
    ) -> None:
        """A timestep was taken; ``outcome`` is reward, terminated and truncated, all [N, ...]."""
        facts = TimestepFacts(observation, action, *outcome, following)
        for call in listeners:
            call(self._session, facts)

    def learn(self) -> None:
        """Run the updates that are owed, as far as a limit on steps allows, and until they are to wait."""
        stepper, limit = self._stepper, self.limits.steps
        began = time.perf_counter()
        while stepper.pending_updates and stepper.counters.global_step != limit and not self.waits:
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
        """Run an update that no timestep has made due; it belongs to no episode."""
        began = time.perf_counter()
        facts = self._stepper.learn()
        self._state.offline_steps += 1
        for call in self._hooks.after_update:
            call(self._session, facts)
        self.timings.learning += time.perf_counter() - began

    def _skip_updates(self) -> None:
        self._stepper.pending_updates = 0
        if not self._said_cannot_sample:
            logger.warning("updates are due, but the memory cannot fill a batch yet; they are skipped")
            self._said_cannot_sample = True

    def finish(self, lanes: Sequence[int], terminated: Sequence[bool], truncated: Sequence[bool]) -> list[EpisodeStats]:
        """Episodes ended in these lanes; returns the statistics of those that count."""
        finished = []
        for i, terminal, cut in zip(lanes, terminated, truncated, strict=True):
            stats = self._state.episodes.finish(i, terminal, cut, self._session.exploration)
            if self.counted(stats):
                finished.append(stats)
        return finished

    def counted(self, stats: EpisodeStats) -> bool:
        """Count a finished episode and tell hooks of it; False for a surplus one, which is cut."""
        counters = self._stepper.counters
        if counters.global_episode == self.limits.episodes:
            return False
        counters.global_episode += 1
        for call in self._hooks.after_episode:
            call(self._session, stats)
        return True

    def located(self, error: EnvironmentFailure) -> EnvironmentFailure:
        """The error with the running episodes in it."""
        episodes = self._state.episodes
        when = f"global_timestep {self._stepper.counters.global_timestep}"
        return located(error, episodes.seeds, episodes.index - 1, episodes.lengths, when)
