"""How a run stands, through Python's logging."""

from __future__ import annotations

import logging
import math
import time

from ..checks import count, number
from ..facts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session
from .measures import Clock
from .status import StatusHook

_log = logging.getLogger(__name__)


class LoggingHook(StatusHook):
    """Logs one compact line from time to time, under the logger ``axonrl``, level INFO.

    The line has the three counters, the mean return of the last 100 episodes, the mean loss since the last line, the
    exploration's level, and the rate. The beginning, evaluations and the end have lines of their own.

    Args:
        every_secs: seconds between lines; None for never by time.
        every_episodes: a line at every multiple of this many finished episodes; None for never by episodes.
        clock: seconds; injected by tests.

    Raises:
        ValueError: both are None, or a value is not positive.
    """

    def __init__(
        self,
        every_secs: float | None = 10.0,
        every_episodes: int | None = None,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        secs = None if every_secs is None else number("LoggingHook(every_secs)", every_secs, above=0)
        self._every_episodes = None if every_episodes is None else count("LoggingHook(every_episodes)", every_episodes)
        if secs is None and every_episodes is None:
            raise ValueError("LoggingHook needs every_secs or every_episodes, got neither")
        super().__init__(math.inf if secs is None else secs, clock)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Say where the run begins."""
        super().begin(session, facts)
        word = "resumes" if facts.resumed else "begins"
        _log.info("the run %s: %s | in %s", word, self._line(session), session.model_dir)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Collect the return; log a line if it is time, or the episodes say so."""
        if self._every_episodes is not None and session.global_episode % self._every_episodes == 0:
            self._due = -math.inf
        super().after_episode(session, facts)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Log the results."""
        super().after_evaluation(session, facts)
        returns = facts.episode_returns
        spread = f" ({min(returns):.6g} to {max(returns):.6g})" if returns else ""
        mean = facts.results["episode_return_mean"]
        # What EVAL found on batches stands behind what the episodes came to.
        found = [f"{name} {value:.4g}" for name, value in facts.results.items() if name.startswith(("eval_", "eval/"))]
        line = " | ".join([f"return {mean:.6g}{spread} over {len(returns)} episodes", *found])
        _log.info("evaluation at timestep %s: %s", f"{session.global_timestep:,}", line)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Say why the run ends, and where."""
        self._report_last(session)
        _log.info("the run ends after %.1f s: %s", facts.seconds, facts.reason)

    def _show(self, session: Session, line: str) -> None:
        _log.info("%s", line)
