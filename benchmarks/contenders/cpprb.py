"""cpprb: replay buffers in C++."""

from __future__ import annotations

from functools import partial

from cpprb import ReplayBuffer

from .. import settings
from ..settings import NETWORKS
from ..timing import microseconds


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of drawing a batch."""
    kinds = {"observation": {"shape": 4}, "action": {"dtype": int}, "reward": {}, "terminated": {}}
    buffer = ReplayBuffer(settings.MEMORY_SIZE, {**kinds, "next_observation": {"shape": 4}})
    observations = list(settings.observations(NETWORKS["2x64"], 200))
    timestep = 0

    def add() -> None:
        nonlocal timestep
        here = timestep % 199
        timestep += 1
        buffer.add(
            observation=observations[here],
            action=1,
            reward=1.0,
            terminated=float(here == 198),
            next_observation=observations[here + 1],
        )
        if here == 198:
            buffer.on_episode_end()

    for _ in range(settings.MEMORY_SIZE):
        add()
    sample = partial(buffer.sample, settings.BATCH_SIZE)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(sample, seconds)}
