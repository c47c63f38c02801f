"""Logs the status of a run with Python's logging."""

from __future__ import annotations

import logging
import math
import time

from ..core.checks import count, counted, number
from ..core.errors import ArgumentError
from .events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session
from .measures import Clock
from .status import SEPARATOR, StatusHook

_log = logging.getLogger(__name__)


class LoggingHook(StatusHook):
    """Logs a status line at intervals of seconds or episodes, with the logger ``axonrl`` at level INFO.

    The line has the three counters, the returns of the last 100 episodes (mean, minimum and maximum), the mean loss
    since the last line, the exploration rate, and the speed. Start, evaluations and end have their own lines.

    Args:
        every_secs: seconds between lines, or None.
        every_episodes: finished episodes between lines, or None. At least one of the two is required.
        clock: returns seconds; for tests.
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
            message = "LoggingHook needs every_secs or every_episodes, got neither"
            raise ArgumentError(message, "LoggingHook(every_secs)", None)
        super().__init__(math.inf if secs is None else secs, clock)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Log the counters and the run folder."""
        super().begin(session, facts)
        word = "resumes" if facts.resumed else "starts"
        _log.info("%s %s: %s | in %s", session.activity, word, self._line(session), session.model_dir)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Record the return; log a line if due."""
        if self._every_episodes is not None and session.global_episode % self._every_episodes == 0:
            self._due = -math.inf
        super().after_episode(session, facts)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Log the results."""
        super().after_evaluation(session, facts)
        returns = facts.episode_returns
        spread = f" ({min(returns):.6g} to {max(returns):.6g})" if returns else ""
        mean = facts.results["episode_return_mean"]
        # Results of EVAL follow those of the episodes.
        found = [f"{name} {value:.4g}" for name, value in facts.results.items() if name.startswith(("eval_", "eval/"))]
        line = " | ".join([f"return {mean:.6g}{spread} over {counted(len(returns), 'episode')}", *found])
        at = f"timestep {session.global_timestep:,}"
        if session.position > session.global_timestep:  # with updates without timesteps
            at = f"{at}, update {session.global_step:,}"
        _log.info("evaluation at %s: %s", at, line)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Log why the session ends, and a last status."""
        found = [f"{session.activity} ends after {facts.seconds:,.1f} s: {facts.reason}", self._last_line(session)]
        _log.info("%s", SEPARATOR.join(filter(None, found)))

    def _show(self, session: Session, line: str) -> None:
        _log.info("%s", line)
