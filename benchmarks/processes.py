"""Processes that belong together: finding them, their memory and its growth, and how they are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..distributed.guardian import descendants

AXONRL: Final = [sys.executable, "-c", "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"]
"""The command line, before its words."""
MARK: Final = "AXONRL_BENCHMARK"
"""A variable of the environment, by whose value processes are found that have lost their parents."""
GRACE_SECONDS: Final = 5.0
"""Seconds for daemons to end after they were told to."""
KILL_SECONDS: Final = 30.0
"""Seconds for killed processes to be gone: the system takes a moment, longer on a busy machine."""
WARM_UP: Final = 0.2
"""Share of the time before growth is measured."""


class Process(NamedTuple):
    """A process; numbers are used again, but not with the same start."""

    pid: int
    start: str


def tree(pid: int, mark: str) -> set[Process]:
    """A living process, its descendants, and those that inherited the mark, with their descendants."""
    roots = {pid, *_pids_with_mark(mark)}
    return _running(roots.union(*(descendants(one) for one in roots)))


def _running(pids: Iterable[int]) -> set[Process]:
    return {Process(pid, start) for pid in pids if (start := _start_of(pid)) is not None}


def _start_of(pid: int) -> str | None:
    """Start of a process in ticks since the machine's; None if it has ended, even if nobody has waited for it."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    return None


def _pids_with_mark(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def is_alive(pid: int) -> bool:
    """Does a process run? One that nobody has waited for does not."""
    return _start_of(pid) is not None


def resident(pid: int) -> int | None:
    """Bytes of a process, without shared memory; None if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines)
    if "RssAnon" not in found:
        return None
    return sum(int(found[name].split()[0]) for name in ("RssAnon", "RssFile")) * 1024


def growth(values: Sequence[float]) -> float:
    """Relative growth from the first quarter of the values after the warm-up to the last one, of medians."""
    rest = values[int(len(values) * WARM_UP) :]
    quarter = max(len(rest) // 4, 1)
    return statistics.median(rest[-quarter:]) / statistics.median(rest[:quarter]) - 1 if rest else float("nan")


def pss(processes: Iterable[Process]) -> float:
    """Memory of processes in MB; what several share counts once in all (Linux's proportional set size)."""
    return sum(_pss(one.pid) for one in processes) * 1024 / 1e6


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):  # it has ended
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def end(seen: set[Process], mark: str) -> int:
    """Kill those of ``seen``, or with the mark, that do not end by themselves soon; returns how many there were."""
    left = _wait_until_ended(seen, mark, GRACE_SECONDS)
    for one in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
    _wait_until_ended(left, mark, KILL_SECONDS)
    return len(left)


def _wait_until_ended(seen: set[Process], mark: str, seconds: float) -> set[Process]:
    """Processes of ``seen``, or with the mark, that live after so many seconds; returns at once when none does."""
    until = time.monotonic() + seconds
    while left := {one for one in seen | _running(_pids_with_mark(mark)) if _start_of(one.pid) == one.start}:
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return left
