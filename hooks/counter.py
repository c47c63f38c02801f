"""Speed of a run, and time spent in each part of the loop."""

from __future__ import annotations

import logging
import math
import time

from ..core.checks import number
from .events import BeginFacts, EndFacts, EpisodeStats, Session, UpdateFacts
from .hook import Hook
from .measures import Clock, Meter, Rates

_log = logging.getLogger(__name__)


class CounterHook(Hook):
    """Logs timesteps, updates and episodes per second, and the share of time of each part of the loop.

    Args:
        every_secs: seconds between measurements, made after updates and episodes, and at the end.
        clock: returns seconds; for tests.
    """

    def __init__(self, every_secs: float = 10.0, *, clock: Clock = time.monotonic) -> None:
        self._every_secs = number("CounterHook(every_secs)", every_secs, above=0)
        self._clock = clock
        self._meter = Meter(clock)
        self._due = math.inf
        self._rates: Rates | None = None

    def rates(self) -> Rates | None:
        """The latest measurement; None before the first."""
        return self._rates

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Start measuring."""
        self._meter.start(session)
        self._rates = None
        self._due = self._clock() + self._every_secs

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Measure if due."""
        if self._clock() >= self._due:
            self._measure(session)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Measure if due."""
        if self._clock() >= self._due:
            self._measure(session)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Measure the time since the latest measurement."""
        if self._due < math.inf:  # begin ran
            self._measure(session)
            self._due = math.inf

    def _measure(self, session: Session) -> None:
        self._rates = rates = self._meter.read(session)
        self._due = self._clock() + self._every_secs
        _log.info(
            "%.4g timesteps/s | %.4g updates/s | %.4g episodes/s"
            " | environment %.0f %%, acting %.0f %%, learning %.0f %%",
            rates.timesteps_per_sec,
            rates.steps_per_sec,
            rates.episodes_per_sec,
            100 * rates.environment_share,
            100 * rates.acting_share,
            100 * rates.learning_share,
        )
