"""Checkpoints by time, by updates and by episodes."""

from __future__ import annotations

import time

from ..core.checks import count, number
from ..core.errors import ArgumentError
from .events import BeginFacts, EpisodeStats, TimestepFacts, TrainingSession, UpdateFacts
from .hook import Hook, by_the_clock
from .measures import Clock


class CheckpointHook(Hook):
    """Writes a checkpoint at intervals of seconds, updates or episodes.

    Seconds count from the last checkpoint written by this hook.

    Args:
        secs: seconds between checkpoints.
        steps: write a checkpoint at every multiple of this number of updates.
        episodes: write a checkpoint at every multiple of this number of finished episodes.
        clock: returns seconds; for tests.

    Raises:
        ArgumentError: nothing is given, or a value is not positive.
    """

    def __init__(
        self,
        secs: float | None = None,
        steps: int | None = None,
        episodes: int | None = None,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._secs = None if secs is None else number("CheckpointHook(secs)", secs, above=0)
        self._steps = None if steps is None else count("CheckpointHook(steps)", steps)
        self._episodes = None if episodes is None else count("CheckpointHook(episodes)", episodes)
        if secs is None and steps is None and episodes is None:
            message = "CheckpointHook needs at least one of secs, steps and episodes"
            raise ArgumentError(message, "CheckpointHook(secs)", secs)
        self._clock = clock
        self._saved_at = 0.0

    def begin(self, session: TrainingSession, facts: BeginFacts) -> None:
        """Start the clock; the first checkpoint is written before hooks begin."""
        self._saved_at = self._clock()

    def after_update(self, session: TrainingSession, facts: UpdateFacts) -> None:
        """Save if due by updates, or by time, as there may be no timesteps."""
        if (self._steps is not None and session.global_step % self._steps == 0) or self._time_is_up():
            self._save(session)

    def after_episode(self, session: TrainingSession, facts: EpisodeStats) -> None:
        """Save if due by episodes."""
        if self._episodes is not None and session.global_episode % self._episodes == 0:
            self._save(session)

    @by_the_clock
    def after_timestep(self, session: TrainingSession, facts: TimestepFacts) -> None:
        """Save if due by time, also without updates and finished episodes."""
        if self._time_is_up():
            self._save(session)

    def _time_is_up(self) -> bool:
        return self._secs is not None and self._clock() - self._saved_at >= self._secs

    def _save(self, session: TrainingSession) -> None:
        session.save_checkpoint()
        self._saved_at = self._clock()
