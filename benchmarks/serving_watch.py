"""Memory, descriptors, threads and files of a service while it is used."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Final

from ..tests.serving.service import Service
from .processes import growth, resident
from .report import table

GROWTH: Final = 0.05
FEW: Final = 4.0
"""Descriptors or threads more or less."""
FILES: Final = 48.0
"""Files more or less: agents are created and removed all the time, and leftovers would be thousands."""
FEWEST: Final = 240
"""Samples, for growth to be judged."""


def workers_of(service: Service) -> list[int]:
    """Process ids of the workers, without the builder, which ends when it has nothing to do."""
    found = []
    for pid in service.children():
        with contextlib.suppress(OSError):
            if b".workers.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


class Watch:
    """Notes once a second what a service takes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.seen: dict[str, list[float]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1):
            self._note("gateway", [self._service.pid])
            self._note("workers", workers_of(self._service))
            self.seen["files"].append(sum(len(files) for _, _, files in os.walk(self._service.data)))

    def _note(self, role: str, pids: list[int]) -> None:
        self.seen[f"{role}, MB"].append(sum(resident(pid) or 0 for pid in pids) / 1e6)
        with contextlib.suppress(OSError):
            counted = [len(os.listdir(f"/proc/{pid}/{what}")) for what in ("fd", "task") for pid in pids]  # noqa: PTH208
            half = len(pids)
            self.seen[f"{role}, descriptors"].append(sum(counted[:half]))
            self.seen[f"{role}, threads"].append(sum(counted[half:]))

    def report(self, part: str, allowed_mb: float = 0.0) -> list[str]:
        """Print a table; what has grown, beyond what may."""
        rows, found = [], []
        for name, values in sorted(self.seen.items()):
            grown = growth(values)
            quarters = [f"{values[k * (len(values) - 1) // 4]:.0f}" for k in range(5)]
            rows.append([name, *quarters, f"{max(values):.0f}", f"{grown:+.1%}"])
            room = {"workers, MB": allowed_mb, "files": FILES}.get(name, FEW)
            after_warm_up = values[len(values) // 5] if values else 0.0
            if len(values) >= FEWEST and grown * after_warm_up > GROWTH * after_warm_up + room:
                found.append(f"{part}: {name} grew by {grown:.1%}")
        print(
            "\n" + table(["what", "first", "1/4", "1/2", "3/4", "last", "most", "growth after warm-up"], rows),
            flush=True,
        )
        return found
