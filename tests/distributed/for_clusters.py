"""What the tests of lost clusters run in processes of their own."""

import os
import signal
from pathlib import Path
from typing import Any

from axonrl.distributed import Cluster
from axonrl.distributed.guardian import descendants
from axonrl.distributed.settings import RUNNING
from axonrl.hooks import Hook
from axonrl.tests.distributed.agents import SHARED, replay, rollouts


class Kill(Hook):
    """Saves at the third update; at the fifth it says all processes, and kills Ray's raylet."""

    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            session.save_checkpoint()
        elif session.global_step == 5:
            below = descendants(os.getpid())
            print(*below, flush=True)
            for pid in below:
                name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                if name.endswith("/raylet"):
                    os.kill(pid, signal.SIGKILL)


def train_and_kill(folder: str) -> None:
    rollouts(folder).train("CartPole-v1", cluster=Cluster(**SHARED), hooks=Kill(), max_timesteps=10**7)


class SayLearning(Hook):
    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            print("learning", flush=True)


def fail_to_connect_and_train(folder: str) -> None:
    """Errors in the middle of connecting: of shards that are to take over what was saved, of the store of weights.

    After them a training that does not end.
    """
    import ray

    from axonrl.distributed.on_ray_weights import RayWeights
    from axonrl.distributed.replay import ShardedReplay

    def fail(*_: Any) -> None:
        raise OSError("no")

    for part, where, name in (("shards", ShardedReplay, "connect"), ("store", RayWeights, "__init__")):
        whole = getattr(where, name)
        setattr(where, name, fail)
        try:
            replay(f"{folder}-{part}").train("CartPole-v1", cluster=Cluster(**SHARED), timesteps=100)
        except OSError as error:
            left = "processes" if descendants(os.getpid()) else "no processes"
            print(f"{part}: {error} {ray.is_initialized()}, {left}", flush=True)
        setattr(where, name, whole)
    rollouts(folder).train("CartPole-v1", cluster=Cluster(**SHARED), hooks=SayLearning(), max_timesteps=10**7)


class Say(Hook):
    """Says at the first update which processes work for this training."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def after_update(self, session: Any, facts: Any) -> None:
        if self._cluster is not None:
            print(*vars(self._cluster)[RUNNING].backend.processes().values(), flush=True)
            self._cluster = None


def train_beside(address: str, folder: str) -> None:
    """In a cluster that others use: a training that ends, and says its counters; and one that does not end."""
    agent = replay(folder)
    cluster = Cluster(**{**SHARED, "actors": 1}, address=address)
    agent.train("CartPole-v1", 200, 8, cluster=cluster, timesteps=1000)
    print(agent.global_timestep, agent.global_step, flush=True)
    agent.train("CartPole-v1", 200, 8, cluster=cluster, timesteps=10**7, hooks=Say(cluster))
