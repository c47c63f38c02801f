"""How a run stands, on the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..contracts import BeginFacts, EndFacts, Session
from .arguments import seconds
from .measures import Clock
from .status import StatusHook

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

PLAIN_SECS = 5.0
"""Seconds between two plain lines, at least."""


class ProgressHook(StatusHook):
    """Shows a status line and a live bar on a terminal, or prints a plain line every few seconds elsewhere.

    The bar runs to the first limit that will be reached, out of those of ``train``; without one it only pulses. There
    is no thread: it is drawn after updates and episodes, when it is time.

    Args:
        every_secs: seconds between two drawings on a terminal. Plain lines come at most every 5 s.
        console: rich's console to write to; None for standard error.
        clock: seconds; injected by tests.

    Raises:
        ValueError: ``every_secs`` is not positive.
    """

    def __init__(
        self, every_secs: float = 0.5, console: Console | None = None, *, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(seconds("ProgressHook(every_secs)", every_secs), clock)
        self._live_secs = self._every_secs
        self._console = console
        self._live: Live | None = None

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Open the display."""
        from rich.console import Console
        from rich.live import Live

        self._console = console = self._console or Console(stderr=True)
        live = console.is_terminal and not console.is_dumb_terminal
        self._every_secs = self._live_secs if live else max(self._live_secs, PLAIN_SECS)
        super().begin(session, facts)
        if live:
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
            self._report(session)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Draw the last state and give the terminal back."""
        try:
            self._report_last(session)
        finally:
            live, self._live = self._live, None
            if live is not None:
                live.stop()

    def _show(self, session: Session, line: str) -> None:
        if self._live is None:
            if self._console is not None:
                self._console.print(line, soft_wrap=True, highlight=False, markup=False)
            return
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        done = self._done(session)
        bar = ProgressBar(total=None if done is None else 1.0, completed=done or 0.0)
        self._live.update(Group(Text(line), bar), refresh=True)

    def _done(self, session: Session) -> float | None:
        """The share of the run that is done, 0 to 1, by the limit nearest to being reached; None without limits."""
        counts = {
            "steps": session.global_step,
            "episodes": session.global_episode,
            "timesteps": session.global_timestep,
        }
        shares = [counts[name] / limit for name, limit in self._limits.items()]
        return min(1.0, max(shares)) if shares else None
