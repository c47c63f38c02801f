"""Results of an executor's workers, collected while they work and summarised when a workload ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ......hooks.events import EpisodeStats

logger = logging.getLogger("axonrl")
SERIES: Final = ("episode_timesteps", "episode_rewards", "episode_total_times", "episode_sample_times")
"""Series per worker, each with a list per environment."""


class Results:
    """A hook that records all episodes, and reports periodically.

    Args:
        workers: number of workers.
        width: environments per worker.
    """

    def __init__(self, workers: int, width: int) -> None:
        self._width = width
        self._series: list[dict[str, list[list[float]]]] = [
            {name: [[] for _ in range(width)] for name in SERIES} for _ in range(workers)
        ]
        self.report: Report | None = None
        """The report of the running workload."""

    def of_worker(self, index: int) -> dict[str, list[list[float]]]:
        """Copies of a worker's series, over all workloads."""
        return {name: [list(one) for one in lists] for name, lists in self._series[index].items()}

    def begin(self, session: Any, facts: Any) -> None:
        """Start the clock when training starts."""
        if self.report is not None:
            self.report.begin(session)

    def after_timestep(self, session: Any, facts: Any) -> None:
        """An unroll has arrived."""
        if self.report is not None:
            self.report.look(session)

    def after_episode(self, session: Any, facts: EpisodeStats) -> None:
        """An episode has ended."""
        worker, environment = divmod(facts.environment, self._width)
        values = (facts.length, float(facts.episode_return), facts.seconds, facts.seconds)
        for name, value in zip(SERIES, values, strict=True):
            self._series[worker][name][environment].append(value)
        if self.report is not None:
            self.report.rewards[worker].append(float(facts.episode_return))


class Report:
    """Report of one workload, from the counters ``global_step`` (updates) and ``global_timestep`` of the session.

    Args:
        workers: number of workers.
        frame_skip: frames per timestep.
        timesteps: requested timesteps.
        interval: timesteps between two reports.
        min_seconds: least seconds between two reports.
        clock: returns seconds.
    """

    def __init__(
        self,
        workers: int,
        frame_skip: int,
        timesteps: int,
        interval: int,
        min_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(workers)]
        """Returns of the episodes of each worker."""
        self._frame_skip, self._timesteps, self._clock = frame_skip, timesteps, clock
        self._interval, self._min_seconds = interval, min_seconds
        self._rates: list[tuple[float, float]] = []
        """Timesteps and updates per second between reports."""
        self._first = self._last = (clock(), 0, 0)
        """Time, timesteps and updates at the beginning and at the last report."""

    def begin(self, session: Any) -> None:
        """Count from here."""
        self._first = self._last = (self._clock(), session.global_timestep, session.global_step)

    def look(self, session: Any, *, ends: bool = False) -> None:
        """Report if a report is due, or at the end."""
        now = (self._clock(), session.global_timestep, session.global_step)
        seconds, timesteps, updates = (late - early for late, early in zip(now, self._last, strict=True))
        if (timesteps < self._interval or seconds < self._min_seconds) and not (ends and timesteps):
            return
        self._rates.append((timesteps / max(seconds, 1e-9), updates / max(seconds, 1e-9)))
        self._last = now
        done = now[1] - self._first[1], self._timesteps, now[2] - self._first[2]
        logger.info("Executed %d of %d timesteps, and %d updates.", *done)

    def result(self, session: Any) -> dict[str, Any]:
        """Result of ``execute_workload``; NaN without episodes."""
        self.look(session, ends=True)
        seconds = max(self._clock() - self._first[0], 1e-9)
        executed = session.global_timestep - self._first[1]
        workers, frames = len(self.rewards), executed * self._frame_skip
        some = [rewards for rewards in self.rewards if rewards]
        return {
            "runtime": seconds,
            "timesteps_executed": executed,
            "ops_per_second": executed / seconds,
            "env_frames": frames,
            "env_frames_per_second": frames / seconds,
            "worker_frame_skip": self._frame_skip,
            "num_updates": session.global_step - self._first[2],
            **_extent("iteration_sample_throughput", [samples for samples, _ in self._rates]),
            **_extent("iteration_update_throughput", [updates for _, updates in self._rates]),
            "mean_worker_op_throughput": executed / seconds / workers,
            "mean_worker_env_frames_throughput": frames / seconds / workers,
            "num_episodes": sum(map(len, some)),
            "mean_worker_reward": _or_nan(np.mean, [float(np.mean(one)) for one in some]),
            "max_worker_reward": _or_nan(np.max, [max(one) for one in some]),
            "min_worker_reward": _or_nan(np.min, [min(one) for one in some]),
            "mean_final_reward": _or_nan(np.mean, [one[-1] for one in some]),
        }


def _extent(name: str, values: Sequence[float]) -> dict[str, float]:
    functions: dict[str, Callable[..., Any]] = {"min": np.min, "max": np.max, "mean": np.mean}
    return {f"{key}_{name}": _or_nan(function, values) for key, function in functions.items()}


def _or_nan(function: Callable[..., Any], values: Sequence[float]) -> float:
    return float(function(values)) if values else float("nan")
