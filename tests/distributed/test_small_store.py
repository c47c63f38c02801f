"""Unrolls of images that do not all fit into Ray's object store at once."""

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.core.errors import ClusterError
from axonrl.distributed import Cluster, ray_connection
from axonrl.distributed.guardian import descendants
from axonrl.distributed.ray_connection import Connection
from axonrl.hooks import Hook

from .agents import QUICK, factory, replay, rollouts

pytestmark = pytest.mark.ray

MB = 2**20
SHAPE: dict[str, Any] = {**QUICK, "envs_per_actor": 10, "unroll": 20, "queue": 20, "in_flight": 8, "prefetch": 32}
"""An unroll has 21 * 10 * 28,224 bytes: 5.9 MB."""


@pytest.fixture(scope="module")
def store(notes: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cluster with an object store of 80 MB; yields the folder of its files. The disk is full or has room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_connection, "_STORE", 80 * MB)
        patch.setenv("RAY_local_fs_capacity_threshold", {"full": "0", "room": "1"}[request.param])
        connection = Connection(Cluster(**QUICK), shards=1)
    assert connection._guardian is not None
    yield Path(connection._guardian.folder)
    connection.close()


def memory_of(pids: set[int]) -> int:
    """Bytes of processes; what they share counts once."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return found


class Watch(Hook):
    """Is slow until Ray has written files; notes every ten updates what it has in them, and all processes in memory."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.memory: list[int] = []
        self.files: list[int] = []

    def after_update(self, session: Any, facts: Any) -> None:
        until = time.monotonic() + 2
        while max(self.files, default=0) <= 10 * MB and time.monotonic() < until:
            time.sleep(0.05)
            self.files.append(bytes_below(self._store))
        time.sleep(0.05)
        if session.global_step % 10 == 0:
            self.memory.append(memory_of({os.getpid(), *descendants(os.getpid())}))
            self.files.append(bytes_below(self._store))


def bytes_below(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


@pytest.mark.parametrize("store", ["room"], indirect=True)
@pytest.mark.parametrize(
    ("make_agent", "updates"),
    [
        (functools.partial(rollouts, size=200), 50),
        # Its 32 batches ahead have 58 MB for themselves.
        (functools.partial(replay, size=1000, batch_size=32), 1 + (10_000 - 400) // 200),
    ],
    ids=["rollouts", "replay"],
)
def test_more_than_fits_goes_to_files_and_leaves_them(
    store: Path, seen: list[Any], tmp_path: Path, make_agent: Any, updates: int
) -> None:
    """Of 290 MB in 50 unrolls, 80 MB fit: nothing stands still, is lost, or is kept."""
    agent, watch = make_agent(tmp_path), Watch(store)
    agent.train(factory("images"), 400, 200, cluster=Cluster(**SHAPE), hooks=watch, max_timesteps=10_000)
    assert (agent.global_timestep, agent.global_step) == (10_000, updates)
    assert seen[0].counts == {"asked": 50, "accepted": 50}
    assert 10 * MB < max(watch.files) < 300 * MB
    assert max(watch.memory[1:]) - watch.memory[1] < 250 * MB, watch.memory
    until = time.monotonic() + 60
    while (left := bytes_below(store)) > 10 * MB and time.monotonic() < until:
        time.sleep(0.1)
    assert left <= 10 * MB


@pytest.mark.parametrize("store", ["full"], indirect=True)
@pytest.mark.parametrize("make_agent", [functools.partial(rollouts, size=4000), replay], ids=["rollouts", "replay"])
def test_a_full_disk_is_named(store: Path, tmp_path: Path, make_agent: Any) -> None:
    """An actor that cannot store an unroll ends like one that raised; the run ends when all have, with the cause."""
    agent = make_agent(tmp_path)
    with pytest.raises(ClusterError, match="object store is full, and so is the disk"):
        agent.train(factory("images"), 4000, 4000, cluster=Cluster(**SHAPE), max_timesteps=40_000)
