"""Cluster: what ``Agent.train`` hands a training over to. Loads neither Ray nor TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster(Settings):
    """Several processes that train together.

    Example::

        agent = Agent(impala.model_fn, BatchMemory(800), "runs/impala")
        agent.train("CartPole-v1", cluster=Cluster(actors=4), max_timesteps=1_000_000)
    """

    def train(self, trainer: Any, model: Any, env: Any, hooks: Sequence[Any], schedule: Any, goal: Any) -> None:
        """Train as ``Agent.train`` does, in these processes; for the Agent to call."""
        from .driver import train

        train(self, trainer, model, env, hooks, schedule, goal)
