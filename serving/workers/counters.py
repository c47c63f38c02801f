"""Counters of a worker, for metrics."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager


@dataclasses.dataclass
class Tally:
    """Counts since the worker's start; names that end in ``_total`` only grow."""

    loaded_agents: int = 0
    updates_total: int = 0
    openings_total: int = 0
    evictions_total: int = 0
    journal_syncs_total: int = 0
    journal_sync_seconds_total: float = 0.0

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """Context in which a journal is forced to the disk."""
        began = time.perf_counter()
        yield
        self.journal_syncs_total += 1
        self.journal_sync_seconds_total += time.perf_counter() - began
