"""The status of a run in one line, for logging and progress."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..core.protocols import State
from .events import BeginFacts, EpisodeStats, EvaluationFacts, Session, UpdateFacts
from .hook import Hook
from .measures import WINDOW, Clock, Meter, Rates, ReturnWindow

SEPARATOR = " | "
"""Separator of the parts of a line."""


class StatusHook(Hook):
    """Collects the status of a run, for a subclass to show periodically, after updates and episodes.

    The window of returns is part of checkpoints.

    Args:
        every_secs: seconds between two reports; infinity for never.
        clock: returns seconds; for tests.
    """

    def __init__(self, every_secs: float, clock: Clock) -> None:
        self._every_secs = every_secs
        self._clock = clock
        self._returns = ReturnWindow(WINDOW)
        self._limits: Mapping[str, int] = {}
        self._due = math.inf
        self._began = False
        self._losses, self._updates = 0.0, 0
        self._evaluation = math.nan

    def _show(self, session: Session, line: str) -> None:
        """Show a line."""
        raise NotImplementedError

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Start measuring."""
        self._limits, self._evaluation = facts.limits, math.nan
        self._meter, self._session_meter = Meter(self._clock), Meter(self._clock)
        self._meter.start(session)
        self._session_meter.start(session)
        self._began = True
        self._due = self._clock() + self._every_secs

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Record the loss; report if due."""
        self._losses += facts.loss
        self._updates += 1
        if self._clock() >= self._due:
            self._report(session)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Record the return; report if due."""
        self._returns.push(facts.episode_return)
        if self._clock() >= self._due:
            self._report(session)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Record the mean return."""
        self._evaluation = facts.results["episode_return_mean"]

    def _report(self, session: Session) -> None:
        self._show(session, self._report_line(session))

    def _report_line(self, session: Session) -> str:
        """The status since the last report."""
        line = self._line(session, self._meter.read(session))
        self._losses, self._updates = 0.0, 0
        self._due = self._clock() + self._every_secs
        return line

    def _report_last(self, session: Session) -> None:
        """Show the status with the speed of the whole session, if there is one."""
        if line := self._last_line(session):
            self._show(session, line)

    def _last_line(self, session: Session) -> str:
        """The status with the speed of the whole session; empty if ``begin`` did not run: another hook raised."""
        if not self._began:
            return ""
        self._began = False
        self._meter = self._session_meter
        return self._report_line(session)

    def _line(self, session: Session, rates: Rates | None = None) -> str:
        """Counters and limits, returns, mean loss since the last report, exploration rate, speed, evaluation.

        Without timesteps, the speed is that of updates.
        """
        counts = (
            ("timestep", "timesteps", session.global_timestep),
            ("update", "steps", session.global_step),
            ("episode", "episodes", session.global_episode),
        )
        parts = []
        for name, kind, count in counts:
            limit = self._limits.get(kind)
            parts.append(f"{name} {count:,}" if limit is None else f"{name} {count:,}/{limit:,}")
        speed, unit = math.nan, "timesteps"
        if rates is not None:
            speed = rates.timesteps_per_sec
            if speed == 0 and rates.steps_per_sec > 0:
                speed, unit = rates.steps_per_sec, "updates"
        low, high = self._returns.low, self._returns.high
        spread = f" ({low:.6g} to {high:.6g})" if low < high else ""
        values = {
            f"return({WINDOW}) {{:,.2f}}{spread}": self._returns.mean,
            "loss {:.4g}": self._losses / self._updates if self._updates else math.nan,
            "exploration rate {:.3g}": session.exploration,
            f"{{:,.0f}} {unit}/s": speed,
            "evaluation {:,.2f}": self._evaluation,
        }
        # NaN means unknown: no episode, update, exploration, time or evaluation yet.
        parts += [text.format(value) for text, value in values.items() if not math.isnan(value)]
        return SEPARATOR.join(parts)

    def state_dict(self) -> State:
        """The returns in the window."""
        return self._returns.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore the returns."""
        self._returns.load_state_dict(state)
