"""The progress bar of a Runner."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ....hooks.progress import error_console, shown_above
from .loop import Record

_EVERY_SECS: Final = 0.2
"""Seconds between redraws."""


@contextlib.contextmanager
def bar(record: Record, limits: Mapping[str, float], horizon: int, *, wanted: bool) -> Iterator[Callable[[], None]]:
    """Context that shows a bar towards a run's limit, if wanted and standard error is a terminal.

    Args:
        record: the values to show.
        limits: limits by unit; the first finite one is used.
        horizon: number of episodes to average over.
        wanted: show a bar?

    Yields:
        A function that redraws the bar, unless it was just drawn; there is no thread.
    """
    unit = next((name for name, limit in limits.items() if limit < math.inf), "episodes")
    console = error_console() if wanted else None
    if console is None or not console.is_terminal or console.is_dumb_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
    drawn = Progress(*columns, console=console, auto_refresh=False)
    task, due = drawn.add_task("", total=limits[unit] if limits[unit] < math.inf else None), 0.0

    def show() -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + _EVERY_SECS
            with contextlib.suppress(OSError):  # a closed terminal must not end the run
                drawn.update(task, completed=getattr(record, unit), description=text(record, unit, limits, horizon))
                drawn.refresh()

    with shown_above(drawn.live):
        try:
            yield show
        finally:
            due = 0.0
            show()


def text(record: Record, unit: str, limits: Mapping[str, float], horizon: int) -> str:
    """The counter, and means over the last episodes of return, timesteps, and the agent's share of the time."""
    total = f"/{limits[unit]:,.0f}" if limits[unit] < math.inf else ""
    parts = [f"{getattr(record, unit):,}{total} {unit}"]
    rewards = record.episode_rewards[-horizon:]
    if rewards:
        timesteps, seconds = sum(record.episode_timesteps[-horizon:]), sum(record.episode_seconds[-horizon:])
        share = sum(record.episode_agent_seconds[-horizon:]) / seconds if seconds else 0.0
        parts.append(f"return {sum(rewards) / len(rewards):.4g}")
        parts.append(f"{timesteps / len(rewards):.4g} timesteps an episode")
        parts.append(f"agent {share:.0%}")
    return " | ".join(parts)
