"""What the tests of memories share: specs, and short ways to store transitions whose observations are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from axonrl.contracts import ArraySpec, SpecTree
from axonrl.memories import Memory
from axonrl.tests.memories.transitions import specs_of, timestep


@pytest.fixture
def specs() -> dict[str, SpecTree]:
    """Observations are one float32 number, actions are discrete."""
    return specs_of(ArraySpec((1,), np.float32))


@pytest.fixture
def built(specs: Mapping[str, SpecTree]) -> Callable[..., Any]:
    """Builds a memory: ``built(memory, num_envs=1, seed=0)`` returns it."""

    def build(memory: Memory, num_envs: int = 1, seed: int = 0) -> Memory:
        memory.build(specs, num_envs, np.random.default_rng(seed))
        return memory

    return build


@pytest.fixture
def step() -> Callable[..., None]:
    """Stores one transition from observation ``now`` to ``following``; the action is the number of ``now``."""

    def store(
        memory: Memory,
        now: float,
        following: float,
        reward: float = 0.0,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        ends = {"terminated": terminated, "truncated": truncated}
        stored, then = np.array([now], np.float32), np.array([following], np.float32)
        memory.step(**timestep(stored, then, action=int(now), reward=reward, **ends))

    return store


@pytest.fixture
def extend() -> Callable[..., None]:
    """The same for a vector step: every argument is a list with one value for each environment."""

    def store(
        memory: Memory,
        now: list[float],
        following: list[float],
        reward: list[float] | None = None,
        terminated: list[bool] | None = None,
        truncated: list[bool] | None = None,
        mask: list[bool] | None = None,
    ) -> None:
        memory.extend(
            None if mask is None else np.array(mask),
            observation=np.array(now, np.float32)[:, None],
            action=np.array(now).astype(np.int64),
            reward=np.zeros(len(now)) if reward is None else np.array(reward),
            terminated=np.zeros(len(now), np.bool_) if terminated is None else np.array(terminated),
            truncated=np.zeros(len(now), np.bool_) if truncated is None else np.array(truncated),
            next_observation=np.array(following, np.float32)[:, None],
        )

    return store
