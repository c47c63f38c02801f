"""Fragments of images that do not all fit into Ray's object store at once."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent
from axonrl.distributed import Cluster, connecting
from axonrl.distributed.connecting import Connection
from axonrl.distributed.guardian import descendants
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, Prioritized, ReplayMemory
from axonrl.models import dqn, impala

from .agents import CONFIG, QUICK, SMALL, factory

MB = 2**20
SHAPE: dict[str, Any] = {**QUICK, "envs_per_actor": 10, "fragment": 20, "queue": 20, "in_flight": 8}
"""A fragment has 21 * 10 * 28,224 bytes: 5.9 MB."""


@pytest.fixture(scope="module")
def store(notes: Path) -> Iterator[Connection]:
    """A cluster with an object store of 80 MB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connecting, "_STORE", 80 * MB)
        connection = Connection(Cluster(**QUICK), shards=1)
    yield connection
    connection.close()


def memory_of(pids: set[int]) -> int:
    """Bytes of processes; what they share counts once."""
    found = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return found


class Watch(Hook):
    """A slow learner, which notes the memory of all processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.memory: list[int] = []
        self.disk: list[int] = []

    def after_update(self, session: Any, facts: Any) -> None:
        time.sleep(0.05)
        import ray
        every: Any = ray.cluster_resources()
        free: Any = ray.available_resources()
        self.memory.append(memory_of({os.getpid(), *descendants(os.getpid())}))
        self.disk.append(sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file()))
        print(session.global_step, self.memory[-1] / MB, self.disk[-1] / MB, (every["object_store_memory"] - free["object_store_memory"])/MB, 
          session.timings.distributed.get("in_flight"), session.timings.distributed.get("lag_mean"))


def test_rollouts(store: Connection, seen, tmp_path: Path) -> None:
    agent = Agent(impala.model_fn, BatchMemory(200), tmp_path, CONFIG, SMALL)
    watch = Watch(Path(store._guardian.folder))
    agent.train(factory("images"), cluster=Cluster(**SHAPE), hooks=watch, max_timesteps=200*100)
    print(seen[0].counts)


def test_replay(store: Connection, seen, tmp_path: Path) -> None:
    memory = ReplayMemory(2000, 64, n_step=3, sampler=Prioritized())
    agent = Agent(dqn.model_fn, memory, tmp_path, CONFIG, SMALL)
    watch = Watch(Path(store._guardian.folder))
    agent.train(factory("images"), 400, 200, cluster=Cluster(**SHAPE), hooks=watch, max_timesteps=200*100)
    print(seen[0].counts)
