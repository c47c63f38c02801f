"""Cluster: what ``Agent.train`` hands a training over to. Loads neither Ray nor TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..core.errors import ClusterError
from .settings import RUNNING, Settings


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

    def resize(self, actors: int) -> None:
        """Go on with so many actors, in the training that runs; for hooks to call. The next one has ``actors`` again.

        New actors start; those of the highest indices end after the unrolls they were asked for. Rungs of the ladder
        stay where they are: actor i has those of actor i modulo ``Cluster.actors``. In a local cluster actors beyond
        ``Cluster.actors`` share its processors.

        With replay shards there may be at most ``Cluster.actors``, for whose environments the shards were made: to
        grow later, begin with many and resize down first. So it is with ``placement="strict_spread"``.

        Raises:
            ArgumentError: it is less than ``min_actors``, more than may be, or more than ``max_lag`` allows.
            ClusterError: this cluster is not training, or it trains in lockstep.
        """
        running = vars(self).get(RUNNING)
        if running is None:
            raise ClusterError("Cluster.resize: this cluster is not training; call it in a hook, after the begin")
        running.resize(actors)
