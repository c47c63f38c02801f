"""What the tests of memories share: specs, and short ways to store transitions whose observations are numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec, SpecTree
from axonrl.memories import Memory
from axonrl.tests.memories.transitions import specs_of, timestep, timesteps


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

    def store(memory: Memory, now: float, following: float, **rest: Any) -> None:
        stored, then = np.array([now], np.float32), np.array([following], np.float32)
        memory.step(**timestep(stored, then, action=int(now), **rest))

    return store


@pytest.fixture
def extend() -> Callable[..., None]:
    """The same for a vector step: every argument is a list with one value for each environment."""

    def store(memory: Memory, now: Any, following: Any, mask: Any = None, **rest: Any) -> None:
        stored, then = (np.array(values, np.float32)[:, None] for values in (now, following))
        given = {key: np.array(value) for key, value in {"action": now, **rest}.items()}
        memory.extend(None if mask is None else np.array(mask), **timesteps(stored, then, len(now), **given))

    return store
