"""The progress of many runs: a line for each on a terminal, elsewhere lines every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...hooks.measures import Clock
from ...hooks.progress import PLAIN_SECS, error_console, shown_above
from ..console import say
from .runs import FINISHED, Outcome, Runs

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

LIVE_SECS: Final = 0.5
"""Seconds between updates on a terminal."""


class RunsView:
    """Shows runs while it is open: on a terminal, or as plain lines.

    Args:
        runs: the runs.
        console: rich's console to write to; None for standard error.
        clock: returns seconds; for tests.
    """

    def __init__(self, runs: Runs, console: Console | None = None, *, clock: Clock = time.monotonic) -> None:
        self._runs, self._console, self._clock = runs, console, clock
        self._waiting: list[int] = []
        self._running: dict[int, str] = {}
        self._ended: dict[int, str] = {}
        self._warnings: set[str] = set()
        self._live: Live | None = None
        self._due = clock()

    @contextlib.contextmanager
    def opened(self, numbers: Sequence[int]) -> Iterator[RunsView]:
        """Open the display of these runs, if there is a terminal."""
        self._waiting, self._ended = list(numbers), {}
        console = self._console or error_console()
        if not console.is_terminal or console.is_dumb_terminal:
            self._due = self._clock() + PLAIN_SECS
            yield self
            return
        from rich.live import Live

        with contextlib.suppress(OSError), shown_above(Live(console=console, auto_refresh=False)) as live:
            self._live = live
            try:
                yield self
                self._draw(live)
            finally:
                self._live = None

    def started(self, number: int) -> None:
        """Show that a run starts."""
        self._waiting.remove(number)
        self._running[number] = "starting"
        about = self._runs.about(number)
        if about or self._live is None:
            say(f"{self._runs.label(number)}: started{about and ' with '}{about}")

    def status(self, number: int, line: str, share: float | None) -> None:
        """Store the status of a run and its finished share."""
        self._running[number] = line if share is None else f"{share:4.0%} {line}"

    def warning(self, number: int, text: str) -> None:
        """Show a warning, once for all runs."""
        if text not in self._warnings:
            self._warnings.add(text)
            say(f"{self._runs.label(number)}: {text}")

    def ended(self, number: int, outcome: Outcome) -> None:
        """Show the outcome of a run."""
        del self._running[number]
        self._ended[number] = outcome_text(outcome)
        if self._live is None:
            say(f"{self._runs.label(number)}: {self._ended[number]}")

    def refresh(self) -> None:
        """Draw or print if due."""
        if self._clock() < self._due:
            return
        if self._live is not None:
            self._due = self._clock() + LIVE_SECS
            self._draw(self._live)
        else:
            self._due = self._clock() + PLAIN_SECS
            for number, line in self._running.items():
                say(f"{self._runs.label(number)}: {line}")

    def _draw(self, live: Live) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not end the runs
            live.update(self._rows_table(live.console.height), refresh=True)

    def _rows_table(self, height: int) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        rows = {**dict.fromkeys(self._waiting, "waiting"), **self._running, **self._ended}
        rows = {number: rows[number] for number in self._runs.outcomes if number in rows}
        if len(rows) >= height:
            rows = self._running
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for number, text in rows.items():
            table.add_row(Text(self._runs.label(number)), Text(text))
        if rows.keys() == self._running.keys():
            table.add_row(Text(""), Text(f"{len(self._ended)} ended, {len(self._waiting)} waiting"))
        return table


def outcome_text(outcome: Outcome) -> str:
    """An outcome in one line."""
    parts = [outcome.status]
    if outcome.timesteps is not None:
        parts.append(f"{outcome.timesteps:,} timesteps")
    if outcome.status == FINISHED and outcome.seconds is not None:
        parts.append(f"{outcome.seconds:,.1f} s")
    if outcome.status == FINISHED and outcome.episode_return is not None:
        parts.append(f"return {outcome.episode_return:,.2f}")
    text = ", ".join(parts)
    return f"{text}: {outcome.message}" if outcome.message else text
