"""The progress of a Runner on a terminal."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ....hooks.progress import error_console, shown_above
from .loop import Record

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY_SECS: Final = 0.2
"""Between two drawings."""


class Bar:
    """A bar towards the run's limit, with means over the last episodes; drawn by ``show``, without a thread.

    Args:
        record: what is shown.
        limits: by unit; the first finite one counts.
        horizon: over how many episodes means are.
    """

    def __init__(self, record: Record, limits: Mapping[str, float], horizon: int) -> None:
        self._record, self._horizon = record, horizon
        self.unit = next((name for name, limit in limits.items() if limit < math.inf), "episodes")
        self.total = limits[self.unit] if limits[self.unit] < math.inf else None
        self._bar: Progress | None = None
        self._next = math.inf

    @contextlib.contextmanager
    def opened(self, wanted: bool) -> Iterator[None]:
        """Draw the bar while this is open, if it is wanted and standard error is a terminal."""
        console = error_console() if wanted else None
        if console is None or not console.is_terminal or console.is_dumb_terminal:
            yield
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = bar = Progress(*columns, console=console, auto_refresh=False)
        bar.add_task("", total=self.total)
        with shown_above(bar.live):
            self._next = 0.0
            try:
                yield
            finally:
                self._draw()
                self._bar, self._next = None, math.inf

    def show(self) -> None:
        """Draw it, unless that was just done."""
        if self._next < math.inf and (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECS
            self._draw()

    def text(self) -> str:
        """The counter, and means over the last episodes: return, timesteps, and the agent's share of the time."""
        record, horizon = self._record, self._horizon
        parts = [f"{getattr(record, self.unit):,}{'' if self.total is None else f'/{self.total:,.0f}'} {self.unit}"]
        rewards = record.episode_rewards[-horizon:]
        if rewards:
            timesteps, seconds = sum(record.episode_timesteps[-horizon:]), sum(record.episode_seconds[-horizon:])
            share = sum(record.episode_agent_seconds[-horizon:]) / seconds if seconds else 0.0
            parts.append(f"return {sum(rewards) / len(rewards):.4g}")
            parts.append(f"{timesteps / len(rewards):.4g} timesteps an episode")
            parts.append(f"agent {share:.0%}")
        return " | ".join(parts)

    def _draw(self) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):  # a closed terminal must not end the run
                self._bar.update(self._bar.task_ids[0], completed=getattr(self._record, self.unit))
                self._bar.tasks[0].description = self.text()
                self._bar.refresh()
