"""Parts of axonrl that are measured without TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from axonrl.memories import ReplayMemory

from .. import settings
from ..memory import TRANSITION
from ..settings import NETWORKS
from ..timing import microseconds, seconds_of_command


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of sampling a batch."""
    replay = ReplayMemory(settings.MEMORY_SIZE, settings.BATCH_SIZE)
    replay.build(TRANSITION, 1, np.random.default_rng(0))
    observations = list(settings.observations(NETWORKS["2x64"], 200))
    action = np.int64(1)
    timestep = 0

    def add() -> None:
        nonlocal timestep
        here = timestep % 199
        timestep += 1
        replay.step(
            observation=observations[here],
            action=action,
            reward=1.0,
            terminated=here == 198,
            truncated=False,
            next_observation=observations[here + 1],
        )

    for _ in range(settings.MEMORY_SIZE):
        add()
    return {"add": microseconds(add, seconds), "sample 32": microseconds(replay.sample, seconds)}


def cli(times: int) -> dict[str, float]:
    """Seconds of ``axonrl --help``."""
    return {"seconds": seconds_of_command([str(Path(sys.executable).with_name("axonrl")), "--help"], times)}
