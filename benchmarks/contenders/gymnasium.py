"""The environment alone: an upper bound for everyone who steps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from .. import settings
from ..timing import seconds_of, vector_step_microseconds


def environment(timesteps: int) -> dict[str, float]:
    """Timesteps per second of CartPole alone, with random actions."""
    env = settings.cartpole()
    actions = np.random.default_rng(0).integers(0, 2, timesteps)
    env.reset(seed=0)

    def steps() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return {"timesteps per second": timesteps / seconds_of(steps)}


def vector(copies: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds of a step of a SyncVectorEnv; resets have a mask and seeds."""
    found = {}
    for number in copies:
        env = SyncVectorEnv([settings.cartpole] * number, autoreset_mode=AutoresetMode.DISABLED)
        env.reset(seed=0)

        def step(actions: Any, env: Any = env) -> Any:
            return env.step(actions)[2:4]

        def reset(mask: Any, seeds: Sequence[int], env: Any = env) -> Any:
            return env.reset(seed=seeds, options={"reset_mask": mask})

        measured = vector_step_microseconds(step, reset, settings.vector_actions(number), seconds)
        found[f"{number} copies"], found[f"{number} copies, with resets"] = measured
    return found
