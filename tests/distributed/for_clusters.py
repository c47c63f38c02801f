"""What the tests of lost clusters run in processes of their own."""

import os
import signal
from pathlib import Path
from typing import Any

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster
from axonrl.distributed.guardian import descendants
from axonrl.distributed.settings import RUNNING
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import dqn, impala

SETTINGS: Any = {"actors": 2, "envs_per_actor": 2, "fragment": 10, "actor_cpus": 0.5, "shard_cpus": 0.5}
CONFIG: Any = RunConfig(seed=1, progress=False)


class Kill(Hook):
    """Saves at the third update; at the fifth it says where it is and all processes, and kills a daemon of Ray."""

    def __init__(self, daemon: str) -> None:
        self._daemon = daemon

    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            session.save_checkpoint()
        elif session.global_step == 5:
            below = descendants(os.getpid())
            print(session.global_step, *below, flush=True)
            for pid in below:
                name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                if name.endswith(f"/{self._daemon}"):
                    os.kill(pid, signal.SIGKILL)


def train_and_kill(daemon: str, folder: str) -> None:
    agent = Agent(impala.model_fn, BatchMemory(40), folder, CONFIG, {"hidden": (8,)})
    agent.train("CartPole-v1", cluster=Cluster(**SETTINGS), hooks=Kill(daemon), max_timesteps=10**7)


class SayLearning(Hook):
    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            print("learning", flush=True)


def train_for_ever(folder: str) -> None:
    agent = Agent(impala.model_fn, BatchMemory(40), folder, CONFIG, {"hidden": (8,)})
    agent.train("CartPole-v1", cluster=Cluster(**SETTINGS), hooks=SayLearning(), max_timesteps=10**7)


def fail_to_connect(folder: str) -> None:
    """Errors in the middle of connecting: of shards that are to take over what was saved, of the store of weights."""
    import ray

    from axonrl.distributed import on_ray, replay

    def fail(*_: Any) -> None:
        raise OSError("no")

    for part, where, name in (("shards", replay.ShardedReplay, "connect"), ("store", on_ray.OnRay, "_launch_store")):
        setattr(where, name, fail)
        agent = Agent(dqn.model_fn, ReplayMemory(2000, 8), f"{folder}-{part}", CONFIG, {"hidden": (8,)})
        try:
            agent.train("CartPole-v1", cluster=Cluster(**SETTINGS), timesteps=100)
        except OSError as error:
            left = "processes" if descendants(os.getpid()) else "no processes"
            print(f"{part}: {error} {ray.is_initialized()}, {left}", flush=True)


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
    agent = Agent(dqn.model_fn, ReplayMemory(2000, 8), folder, CONFIG, {"hidden": (8,)})
    cluster = Cluster(**{**SETTINGS, "actors": 1}, address=address)
    agent.train("CartPole-v1", 200, 8, cluster=cluster, timesteps=1000)
    print(agent.global_timestep, agent.global_step, flush=True)
    agent.train("CartPole-v1", 200, 8, cluster=cluster, timesteps=10**7, hooks=Say(cluster))
