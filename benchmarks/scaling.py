"""A training by actors on this machine, and what each role of it takes; ``scale.py`` calls it."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster
from axonrl.distributed.guardian import descendants
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, Prioritized, ReplayMemory
from axonrl.models import dqn, impala

UPDATE_FREQUENCY: Final = 8
SIZES: Final = {"impala": (50, 16), "apex": (25, 8)}
"""Timesteps and environments of an unroll."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ROLES: Final = {"ray::ActorProcess": "actors", "ray::ShardProcess": "shards"}


class Taken:
    """Work done and time taken, from the start of a process to now."""

    def __init__(self, session: Any) -> None:
        self.at = time.perf_counter()
        self.timesteps, self.updates = session.global_timestep, session.global_step
        self.waited, self.learning = session.timings.environment, session.timings.learning
        self.main, self.driver = time.thread_time(), time.process_time()
        self.roles = processor_seconds()


class Measuring(Hook):
    """Looks when a window begins and when it ends, and stops the training."""

    def __init__(self, warm_up: float, seconds: float) -> None:
        self._begin, self._end = warm_up, warm_up + seconds
        self._started: float | None = None
        self.first: Taken | None = None
        self.last: Taken | None = None
        self._seen: Any = None
        self.lags: list[float] = []

    def after_update(self, session: Any, facts: Any) -> None:
        now = time.perf_counter()
        self._started = now if self._started is None else self._started
        passed = now - self._started
        if passed < self._begin:
            return
        if self.first is None:
            self.first = Taken(session)
        found = session.timings.distributed
        if found is not self._seen:
            self._seen = found
            self.lags.append(found["lag_mean"])
        if passed > self._end and self.last is None:
            self.last = Taken(session)
            session.request_stop("the window is over")


def processor_seconds() -> dict[str, float]:
    """Processor seconds of the processes below this one, by role; those of Ray together."""
    found: dict[str, float] = defaultdict(float)
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended
            name = Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0].partition(".")[0].strip()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[_ROLES.get(name, "ray")] += (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def train(algorithm: str, actors: int, warm_up: float, seconds: float) -> dict[str, float]:
    """Train CartPole; returns the speed, the lag, and the processor seconds of each role for what it does."""
    length, width = SIZES[algorithm]
    measuring = Measuring(warm_up, seconds)
    memory: Any = BatchMemory(length * width)
    if algorithm == "apex":
        memory = ReplayMemory(32_000, 64, n_step=3, sampler=Prioritized())
    cluster = Cluster(
        actors=actors, envs_per_actor=width, unroll=length, actor_cpus=0.25, shard_cpus=0.25, save_replay=False
    )
    model_fn = {"impala": impala.model_fn, "apex": dqn.model_fn}[algorithm]
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(model_fn, memory, folder, RunConfig(seed=0, progress=False), {"hidden": [64, 64]})
        agent.train("CartPole-v1", 1000, UPDATE_FREQUENCY, hooks=[measuring], cluster=cluster)
    first, last = measuring.first, measuring.last
    assert first is not None
    assert last is not None
    passed, timesteps = last.at - first.at, last.timesteps - first.timesteps
    updates, unrolls = last.updates - first.updates, timesteps / length / width
    used = {role: seconds - first.roles.get(role, 0.0) for role, seconds in last.roles.items()}
    main = last.main - first.main
    learning = last.learning - first.learning
    working = passed - (last.waited - first.waited)
    return {
        "timesteps_per_s": timesteps / passed,
        "updates_per_s": updates / passed,
        "lag_mean": statistics.fmean(measuring.lags),
        "learner_waits": (last.waited - first.waited) / passed,
        "timestep_s": used["actors"] / timesteps,
        "update_s": main * learning / working / updates,
        "driver_s": main * (1 - learning / working) / unrolls,
        "ray_s": (last.driver - first.driver - main + used["ray"]) / unrolls,
        "sample_s": used.get("shards", 0.0) / updates,
        "processors": (sum(used.values()) + last.driver - first.driver) / passed,
    }


if __name__ == "__main__":
    print(json.dumps(train(**json.loads(sys.argv[1]))))
