"""Parts of axonrl that are measured without TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from axonrl.core.protocols import ArraySpec
from axonrl.environments import make, open_environment
from axonrl.memories import Memory, ReplayMemory, SequenceMemory

from .. import settings
from ..settings import NETWORKS
from ..timing import microseconds, seconds_of_command, vector_step_microseconds

OBSERVATION: Final = ArraySpec((4,), np.float32)
TRANSITION: Final = {
    "observation": OBSERVATION,
    "action": ArraySpec((), np.int32),
    "reward": ArraySpec((), np.float32),
    "terminated": ArraySpec((), np.bool_),
    "truncated": ArraySpec((), np.bool_),
    "next_observation": OBSERVATION,
}
"""A transition of CartPole."""


def fill(replay: Memory) -> Callable[[], None]:
    """Fill a memory; a function that stores one more transition."""
    replay.build(TRANSITION, 1, np.random.default_rng(0))
    replay.trust_identity()  # as the loop does
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
    return add


def vector(copies: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds of a step of native copies, behind the interface that a run has them."""
    found = {}
    for number in copies:
        env = open_environment(make("CartPole-v1", number, vectorization="native"))
        env.reset(None, range(number))

        def step(actions: Any, env: Any = env) -> Any:
            return env.step(actions)[2:4]

        measured = vector_step_microseconds(step, env.reset, settings.vector_actions(number), seconds)
        found[f"{number} copies"], found[f"{number} copies, with resets"] = measured
    return found


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of drawing a batch."""
    replay = ReplayMemory(settings.MEMORY_SIZE, settings.BATCH_SIZE)
    add = fill(replay)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(replay.sample, seconds)}


def sequences(length: int, seconds: float) -> dict[str, float]:
    """Microseconds of storing a timestep, and of drawing a batch of sequences."""
    replay = SequenceMemory(settings.MEMORY_SIZE, settings.BATCH_SIZE, length=length)
    add = fill(replay)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(replay.sample, seconds)}


def prioritized(seconds: float) -> dict[str, float]:
    """Microseconds of storing, drawing a batch, updating its priorities, and of all three in turn."""
    replay = ReplayMemory(settings.MEMORY_SIZE, settings.BATCH_SIZE, sampler="prioritized")
    add = fill(replay)
    td_errors = settings.td_errors()

    def update() -> None:
        replay.update_priorities(next(td_errors))

    def turn() -> None:
        add()
        replay.sample()
        replay.update_priorities(next(td_errors))

    replay.sample()
    for _ in range(settings.MEMORY_SIZE // settings.BATCH_SIZE):
        turn()
    return {
        "add": microseconds(add, seconds),
        "sample 32": microseconds(replay.sample, seconds),
        "update 32": microseconds(update, seconds),
        "add, sample 32 and update 32": microseconds(turn, seconds),
    }


def cli(times: int) -> dict[str, float]:
    """Seconds of ``axonrl --help``."""
    return {"seconds": seconds_of_command([str(Path(sys.executable).with_name("axonrl")), "--help"], times)}
