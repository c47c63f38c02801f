"""Durations: of a call, a run, the start of a process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

BLOCK_SECONDS = 0.01
"""Length of a block of calls: long against the cost of the clock, short against disturbances."""


def microseconds(function: Callable[[], Any], seconds: float) -> float:
    """Microseconds of one call: the median over blocks of calls that take ``seconds`` together, after a warm-up."""
    ends = time.perf_counter() + seconds / 4
    fastest = _seconds_of(function, 1)
    while time.perf_counter() < ends:
        fastest = min(fastest, _seconds_of(function, 1))
    calls = max(1, round(BLOCK_SECONDS / fastest))
    ends = time.perf_counter() + seconds
    blocks = [_seconds_of(function, calls)]
    while time.perf_counter() < ends or len(blocks) < 3:
        blocks.append(_seconds_of(function, calls))
    return statistics.median(blocks) / calls * 1e6


def _seconds_of(function: Callable[[], Any], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - began


def seconds_of(function: Callable[[], Any]) -> float:
    """Seconds of one call."""
    return _seconds_of(function, 1)


def cpu_seconds_of(function: Callable[[], Any], calls: int = 1) -> float:
    """CPU seconds of all threads of this process during ``calls`` calls."""
    began = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - began


def cpu_microseconds(function: Callable[[], Any], calls: int) -> float:
    """CPU microseconds of one call: the mean of ``calls``, after a warm-up."""
    cpu_seconds_of(function, calls // 10)
    return cpu_seconds_of(function, calls) / calls * 1e6


PEAK_MEMORY = """
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0], flush=True)
"""


def start_of(code: str, *arguments: str, times: int = 3) -> dict[str, float]:
    """Seconds from the start of a Python process to the end of ``code``, its first action, and its peak memory.

    After a first process that fills the file cache.
    """
    process(code, *arguments)
    seconds, megabytes = process(code, *arguments, times=times)
    return {"seconds to the first action": seconds, "memory, MB": megabytes}


def process(code: str, *arguments: str, times: int = 1) -> tuple[float, float]:
    """Seconds from the start of a Python process to the end of ``code``, and its peak memory in MB (Linux's ``VmHWM``).

    Medians of several processes.
    """
    command = [sys.executable, "-c", code + PEAK_MEMORY, *arguments]
    seconds, kibibytes = zip(*[_start(command) for _ in range(times)], strict=True)
    return statistics.median(seconds), statistics.median(kibibytes) * 1024 / 1e6


def _start(command: Sequence[str]) -> tuple[float, float]:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        lines = process.stdout if process.stdout is not None else ()
        line = next(iter(lines), "")
        seconds = time.perf_counter() - began
    if not line or process.returncode:
        raise RuntimeError(f"the process ended with status {process.returncode} before its first action")
    return seconds, float(line)


def seconds_of_command(command: Sequence[str], times: int) -> float:
    """Seconds of a command: the median of several runs, after a warm-up."""

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return statistics.median([seconds_of(run) for _ in range(times + 1)][1:])


def vector_step_microseconds(
    step: Callable[[Any], Any], reset: Callable[[Any, Sequence[int]], Any], actions: Any, seconds: float
) -> tuple[float, float]:
    """Microseconds of a step of a vector environment, without resets and with those that it takes; after a warm-up.

    Args:
        step: takes actions [N], returns terminated and truncated [N].
        reset: takes a mask [N] and N seeds.
        actions: [T, N], taken again and again.
        seconds: the seconds of the whole measurement.
    """
    count, in_steps, began, warm = 0, 0.0, time.perf_counter(), False
    while True:
        now = time.perf_counter()
        if not warm and now > began + seconds / 4:
            count, in_steps, began, warm = 0, 0.0, now, True
        elif warm and now > began + seconds:
            return in_steps / count * 1e6, (now - began) / count * 1e6
        chosen = actions[count % len(actions)]
        before = time.perf_counter()
        terminated, truncated = step(chosen)
        in_steps += time.perf_counter() - before
        count += 1
        ended = terminated | truncated
        if ended.any():
            reset(ended, [count * len(chosen) + lane for lane in range(len(chosen))])
