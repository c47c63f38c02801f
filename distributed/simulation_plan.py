"""The plan of a simulated cluster: the training, and the costs of its parts."""

from __future__ import annotations

import dataclasses
import math

from .settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of the parts of a training, in bytes, and in seconds of a processor unless noted.

    Args:
        timestep_s: a timestep of one environment in an actor, acting and stepping included.
        unroll_s: an actor's overhead per unroll.
        message_s: latency of an unroll, without a processor; its bytes are extra.
        ray_s: work of Ray's processes on the learner's machine for an unroll; asynchronous.
        timestep_bytes: size of a timestep in an unroll.
        node_bytes_s: bytes per second that a node can send or receive.
        driver_s: the driver's own work for an unroll: requesting, receiving, forming batches.
        update_s: an update, and publishing its weights.
        fetch_s: an actor's wait for newer weights, without a processor; their bytes are extra.
        insert_s: inserting an unroll into a replay shard.
        insert_lane_s: the same, extra for each environment the shard stores.
        sample_s: a batch, and its priorities, in a replay shard.
        weights_bytes: size of the weights, which each node fetches for each version its actors use.
        start_s: start of a new actor.
        noise: standard deviation of the logarithm of each actor's time for an unroll.
        deaths_per_hour: mean number of deaths of each actor per hour.
    """

    timestep_s: float
    unroll_s: float = 0.0
    message_s: float = 1e-3
    ray_s: float = 0.0
    timestep_bytes: float = 64.0
    node_bytes_s: float = 1.25e9
    driver_s: float = 2e-4
    update_s: float = 3e-3
    fetch_s: float = 0.0
    insert_s: float = 0.0
    insert_lane_s: float = 0.0
    sample_s: float = 0.0
    weights_bytes: float = 5e4
    start_s: float = 2.0
    noise: float = 0.1
    deaths_per_hour: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A training to simulate.

    Args:
        cluster: its settings.
        batch: K, unrolls of a rollout; None for replay.
        update_frequency: timesteps per update, with replay.
        batch_size: transitions of an update, with replay.
        nodes: number of nodes, to which actors are assigned in turn.
        cores: processors of each node; infinite: no job waits for a processor.
        shared: a processor's relative speed while others of its node are busy.
        together: are learner and shards on the first of these nodes? Otherwise they have their own nodes.
    """

    cluster: Settings
    batch: int | None = 1
    update_frequency: int = 4
    batch_size: int = 64
    nodes: int = 1
    cores: float = math.inf
    shared: float = 1.0
    together: bool = False

    @property
    def timesteps(self) -> int:
        """Timesteps of an unroll."""
        return self.cluster.unroll * self.cluster.envs_per_actor
