"""TorchRL's memories, on torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler, TensorDictPrioritizedReplayBuffer

from .. import settings
from ..settings import NETWORKS
from ..timing import microseconds

torch.set_num_threads(settings.threads())


def fill(buffer: Any) -> Callable[[], None]:
    """Fill a buffer; a function that stores one more transition, made beforehand."""
    observations = torch.from_numpy(settings.observations(NETWORKS["2x64"], 200))
    stored = [
        TensorDict(
            {
                "observation": observations[here],
                "action": torch.tensor(1),
                "reward": torch.tensor(1.0),
                "terminated": torch.tensor([here == 198]),
                "next_observation": observations[here + 1],
            }
        )
        for here in range(199)
    ]
    buffer.extend(torch.stack([stored[here % 199] for here in range(settings.MEMORY_SIZE)]))
    timestep = 0

    def add() -> None:
        nonlocal timestep
        buffer.add(stored[timestep % 199])
        timestep += 1

    return add


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of drawing a batch."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(settings.MEMORY_SIZE), batch_size=settings.BATCH_SIZE)
    add = fill(buffer)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(buffer.sample, seconds)}


def sequences(length: int, seconds: float) -> dict[str, float]:
    """Microseconds of storing a timestep, and of drawing a batch of slices of episodes."""
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(settings.MEMORY_SIZE),
        sampler=SliceSampler(slice_len=length, end_key="terminated"),
        batch_size=settings.BATCH_SIZE * length,
    )
    add = fill(buffer)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(buffer.sample, seconds)}


def prioritized(seconds: float) -> dict[str, float]:
    """Microseconds of storing, drawing a batch, updating its priorities, and of all three in turn."""
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=settings.ALPHA,
        beta=settings.BETA,
        eps=settings.PRIORITY_EPSILON,
        storage=LazyTensorStorage(settings.MEMORY_SIZE),
        batch_size=settings.BATCH_SIZE,
    )
    add = fill(buffer)
    td_errors = map(torch.from_numpy, settings.td_errors())
    places = buffer.sample()["index"]

    def update() -> None:
        buffer.update_priority(places, next(td_errors))

    def turn() -> None:
        add()
        buffer.update_priority(buffer.sample()["index"], next(td_errors))

    for _ in range(settings.MEMORY_SIZE // settings.BATCH_SIZE):
        turn()
    return {
        "add": microseconds(add, seconds),
        "sample 32": microseconds(buffer.sample, seconds),
        "update 32": microseconds(update, seconds),
        "add, sample 32 and update 32": microseconds(turn, seconds),
    }
