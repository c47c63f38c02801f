"""The environment alone: nobody who steps it can be faster."""

from __future__ import annotations

import numpy as np

from .. import settings
from ..timing import seconds_of


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
