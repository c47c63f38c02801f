"""Lines that the processes of both sides print: the beginning of the measured window, and what happened in it."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

COUNTERS: Final = ("sampled", "trained", "updates")
"""Counts since the start of the run: timesteps of environments, timesteps trained on, updates."""


class Window:
    """A measured window after a warm-up, which begins with the first update.

    Standard output is for it alone; what others print goes to standard error.

    Args:
        warm_up: seconds.
        seconds: the seconds of the window.
    """

    def __init__(self, warm_up: float, seconds: float) -> None:
        self._out = os.fdopen(os.dup(1), "w")  # not inherited: daemons that outlive this process do not hold it open
        os.dup2(2, 1)
        self._warm_up, self._seconds = warm_up, seconds
        self._warm_at: float | None = None
        self._began: tuple[float, Mapping[str, float]] | None = None
        self._numbers: dict[str, list[float]] = {}
        self._rates: dict[str, float] = {}

    def look(self, **counters: float) -> bool:
        """Note the counters, of the names in ``COUNTERS``; is the window over?"""
        now = time.perf_counter()
        if self._warm_at is None and counters["updates"] > 0:
            self._warm_at = now
        if self._began is None:
            if self._warm_at is not None and now - self._warm_at >= self._warm_up:
                self._began = now, counters
                self._say({"window": self._seconds})
            return False
        began, before = self._began
        if not self._rates and now - began >= self._seconds:
            self._rates = {name: (counters[name] - before[name]) / (now - began) for name in COUNTERS}
        return bool(self._rates)

    def note(self, numbers: Mapping[str, float]) -> None:
        """Note measurements of the last seconds; they count if they are in the window."""
        if self._began is not None and not self._rates:
            for name, value in numbers.items():
                self._numbers.setdefault(name, []).append(float(value))

    def tell(self) -> None:
        """Print counters per second, and means of the numbers."""
        self._say({**self._rates, **{name: statistics.fmean(values) for name, values in self._numbers.items()}})

    def _say(self, found: Mapping[str, Any]) -> None:
        print(json.dumps(found), file=self._out, flush=True)
