"""How many seeds go: a line for each on a terminal; elsewhere lines every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...hooks.measures import Clock
from ...hooks.progress import PLAIN_SECS, error_console, shown_above
from ..console import say
from .group import FINISHED, Group, Outcome

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

LIVE_SECS: Final = 0.5
"""Between two drawings on a terminal."""


class SeedsView:
    """Shows the seeds of a group while it is open: on a terminal, or as plain lines.

    Args:
        group: whose seeds.
        seeds: those that are run now.
        console: rich's console to write to; None for standard error.
        clock: returns seconds; for tests.
    """

    def __init__(
        self, group: Group, seeds: list[int], console: Console | None = None, *, clock: Clock = time.monotonic
    ) -> None:
        self._group, self._clock = group, clock
        self._waiting = list(seeds)
        self._lines: dict[int, str] = {}
        """Of the seeds that run."""
        self._ended: dict[int, str] = {}
        self._warnings: set[str] = set()
        self._console = console
        self._live: Live | None = None
        self._due = clock()

    @contextlib.contextmanager
    def opened(self) -> Iterator[SeedsView]:
        """Take the terminal, if there is one."""
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

    def started(self, seed: int) -> None:
        """Its process begins."""
        self._waiting.remove(seed)
        self._lines[seed] = "starting"
        self._say(f"seed {seed}: started")

    def status(self, seed: int, line: str, share: float | None) -> None:
        """Its status, and the finished share."""
        self._lines[seed] = line if share is None else f"{share:4.0%} {line}"

    def warning(self, seed: int, text: str) -> None:
        """Its process warns of something; what others have warned of is not repeated."""
        if text not in self._warnings:
            self._warnings.add(text)
            say(f"seed {seed}: {text}")

    def ended(self, seed: int, outcome: Outcome) -> None:
        """Its process has ended."""
        del self._lines[seed]
        self._ended[seed] = outcome_text(outcome)
        self._say(f"seed {seed}: {self._ended[seed]}")

    def refresh(self) -> None:
        """Draw, or print, when it is time."""
        if self._clock() < self._due:
            return
        if self._live is not None:
            self._due = self._clock() + LIVE_SECS
            self._draw(self._live)
        else:
            self._due = self._clock() + PLAIN_SECS
            for seed, line in self._lines.items():
                say(f"seed {seed}: {line}")

    def _say(self, text: str) -> None:
        if self._live is None:
            say(text)

    def _draw(self, live: Live) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not end the runs
            live.update(self._shown(live.console.height), refresh=True)

    def _shown(self, height: int) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        rows = {
            seed: self._ended.get(seed) or self._lines.get(seed) or "waiting"
            for seed in self._group.seeds
            if seed in self._ended or seed in self._lines or seed in self._waiting
        }
        if len(rows) >= height:
            rows = dict(self._lines)
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for seed, text in rows.items():
            table.add_row(Text(f"seed {seed}"), Text(text))
        if rows.keys() == self._lines.keys():
            table.add_row(Text(""), Text(f"{len(self._ended)} ended, {len(self._waiting)} waiting"))
        return table


def outcome_text(outcome: Outcome) -> str:
    """What became of a seed, in one line."""
    parts = [outcome.status]
    if outcome.timesteps is not None:
        parts.append(f"{outcome.timesteps:,} timesteps")
    if outcome.status == FINISHED and outcome.seconds is not None:
        parts.append(f"{outcome.seconds:,.1f} s")
    if outcome.status == FINISHED and outcome.episode_return is not None:
        parts.append(f"return {outcome.episode_return:,.2f}")
    text = ", ".join(parts)
    return f"{text}: {outcome.message}" if outcome.message else text
