"""cpprb: replay buffers in C++."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cpprb import PrioritizedReplayBuffer, ReplayBuffer

from .. import settings
from ..settings import NETWORKS
from ..timing import microseconds

KINDS = {
    "observation": {"shape": 4},
    "action": {"dtype": int},
    "reward": {},
    "terminated": {},
    "next_observation": {"shape": 4},
}


def fill(buffer: Any) -> Callable[[], None]:
    """Fill a buffer; a function that stores one more transition."""
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
    return add


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of drawing a batch."""
    buffer = ReplayBuffer(settings.MEMORY_SIZE, KINDS)
    add = fill(buffer)
    sample = partial(buffer.sample, settings.BATCH_SIZE)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(sample, seconds)}


def prioritized(seconds: float) -> dict[str, float]:
    """Microseconds of storing, drawing a batch, updating its priorities, and of all three in turn."""
    buffer = PrioritizedReplayBuffer(settings.MEMORY_SIZE, KINDS, alpha=settings.ALPHA, eps=settings.PRIORITY_EPSILON)
    add = fill(buffer)
    td_errors = settings.td_errors()
    sample = partial(buffer.sample, settings.BATCH_SIZE, beta=settings.BETA)
    places = sample()["indexes"]

    def update() -> None:
        buffer.update_priorities(places, next(td_errors))

    def turn() -> None:
        add()
        buffer.update_priorities(sample()["indexes"], next(td_errors))

    for _ in range(settings.MEMORY_SIZE // settings.BATCH_SIZE):
        turn()
    return {
        "add": microseconds(add, seconds),
        "sample 32": microseconds(sample, seconds),
        "update 32": microseconds(update, seconds),
        "add, sample 32 and update 32": microseconds(turn, seconds),
    }
