"""axonrl's actors and learner: ``python -m axonrl.benchmarks.distributing.axonrl '{"algorithm": "IMPALA", ...}'``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import dqn, impala

from . import settings
from .window import Window

NUMBERS: Final = {"lag_mean": "lag", "actor_wait_share": "actors wait", "learner_wait_share": "learner waits"}
"""A cluster's own numbers that are shown."""


class Measuring(Hook):
    """Shows a window what a training has done, and ends it."""

    def __init__(self, window: Window, batch_size: int) -> None:
        self._window, self._batch_size = window, batch_size
        self._seen: Any = None

    def after_update(self, session: Any, facts: Any) -> None:
        updates = session.global_step
        found = session.timings.distributed
        if found is not self._seen:
            self._seen = found
            self._window.note({NUMBERS[name]: value for name, value in found.items() if name in NUMBERS})
        if self._window.look(sampled=session.global_timestep, trained=updates * self._batch_size, updates=updates):
            session.request_stop("the window is over")


def agent_for(algorithm: str, folder: str) -> tuple[Agent, int, dict[str, Any]]:
    """An agent, the timesteps that it trains on in an update, and what its cluster is told."""
    where, config = Path(folder, "run"), RunConfig(seed=0, progress=False)
    if algorithm == "IMPALA":
        memory: Any = BatchMemory(settings.ROLLOUT, discount=settings.DISCOUNT)
        agent = Agent(impala.model_fn, memory, where, config, settings.AXONRL_IMPALA)
        return agent, settings.ROLLOUT, {"envs_per_actor": settings.ENVIRONMENTS, "unroll": settings.UNROLL}
    memory = ReplayMemory(
        settings.MEMORY_SIZE,
        settings.BATCH_SIZE,
        discount=settings.DISCOUNT,
        n_step=settings.N_STEP,
        sampler={"kind": "prioritized", "alpha": settings.ALPHA, "beta": settings.BETA},
    )
    agent = Agent(dqn.model_fn, memory, where, config, settings.AXONRL_DQN)
    cluster = {"envs_per_actor": settings.DQN_ENVIRONMENTS, "unroll": settings.DQN_UNROLL, "save_replay": False}
    return agent, settings.BATCH_SIZE, cluster


def train(algorithm: str, warm_up: float, seconds: float, **cluster: Any) -> None:
    """Train CartPole, measured; ``cluster`` has fields of ``Cluster``."""
    window = Window(warm_up, seconds)
    with tempfile.TemporaryDirectory() as folder:
        agent, batch_size, fixed = agent_for(algorithm, folder)
        agent.train(
            "CartPole-v1",
            first_update=settings.FIRST_UPDATE,
            update_frequency=settings.UPDATE_FREQUENCY,
            hooks=[Measuring(window, batch_size)],
            cluster=Cluster(**{**fixed, **cluster}),
        )
    window.tell()


if __name__ == "__main__":
    train(**json.loads(sys.argv[1]))
