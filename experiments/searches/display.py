"""How the trials of a search go, as plain lines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ...hooks.measures import Clock
from ..console import say
from ..seeds.display import outcome_text
from ..seeds.group import Outcome
from .folder import Search

EVERY_SECS: Final = 30.0
"""Between two summaries of what runs."""


class SearchView:
    """Shows the trials of a search.

    Args:
        search: whose trials.
        clock: returns seconds; for tests.
    """

    def __init__(self, search: Search, *, clock: Clock = time.monotonic) -> None:
        self._search, self._clock = search, clock
        self._lines: dict[int, str] = {}
        self._warnings: set[str] = set()
        self._due = clock() + EVERY_SECS

    def started(self, trial: int) -> None:
        """It begins, or continues."""
        search = self._search
        self._lines[trial] = "starting"
        seed = f", seed {search.seed_of(trial)}" if len(search.seeds) > 1 else ""
        say(f"trial {trial}: started with {_values(search.points[search.point_of(trial)])}{seed}")

    def status(self, trial: int, line: str, share: float | None) -> None:
        """Its status, and the finished share."""
        self._lines[trial] = line if share is None else f"{share:4.0%} {line}"

    def warning(self, trial: int, text: str) -> None:
        """It warns of something; what others have warned of is not repeated."""
        if text not in self._warnings:
            self._warnings.add(text)
            say(f"trial {trial}: {text}")

    def ended(self, trial: int, outcome: Outcome) -> None:
        """It has ended."""
        self._lines.pop(trial, None)
        say(f"trial {trial}: {outcome_text(outcome)}")

    def refresh(self) -> None:
        """Print what runs, when it is time."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + EVERY_SECS
        for trial, line in self._lines.items():
            say(f"trial {trial}: {line}")


def _values(point: Mapping[str, Any]) -> str:
    parts = (f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in point.items())
    return ", ".join(parts)
