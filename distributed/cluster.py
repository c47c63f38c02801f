"""Cluster: passed to ``Agent.train`` to train on several processes. Loads neither Ray nor TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..core.errors import ClusterError
from .settings import RUNNING, Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster(Settings):
    """Several processes that train one agent.

    Example::

        agent = Agent(impala.model_fn, BatchMemory(800), "runs/impala")
        agent.train("CartPole-v1", cluster=Cluster(actors=4), max_timesteps=1_000_000)
    """

    def train(self, trainer: Any, model: Any, env: Any, hooks: Any, schedule: Any, goal: Any) -> None:
        """Train as ``Agent.train`` does, in these processes; called by the Agent."""
        from .entry import train

        train(self, trainer, model, env, hooks, schedule, goal)

    def resize(self, actors: int) -> None:
        """Change the number of actors of the running training, from a hook. The next training starts with ``actors``.

        New actors start; those with the highest indices end after the unrolls requested from them. Epsilons keep their
        place: actor i has those of actor i modulo ``Cluster.actors``. In a local cluster, actors beyond
        ``Cluster.actors`` share its processors.

        With replay shards, or with ``placement="strict_spread"``, ``Cluster.actors`` is the maximum: to grow later,
        start with many actors and resize down first.

        Raises:
            ArgumentError: ``actors`` is below ``min_actors``, above the maximum, or too large for ``max_lag``.
            ClusterError: this cluster is not training, or trains in lockstep.
        """
        running = vars(self).get(RUNNING)
        if running is None:
            raise ClusterError("Cluster.resize: this cluster is not training; call it in a hook, after `begin`")
        running.resize(actors)
