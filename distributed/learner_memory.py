"""The learner's memory in a cluster: rollouts joined from unrolls, or a view of replay shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.checks import integer
from ..core.errors import ArgumentError, ClusterError
from ..memories import ReplayMemory
from .replay import ShardedReplay

if TYPE_CHECKING:
    from .settings import Settings


def make_learner_memory(cluster: Settings, memory: Any) -> Any:
    """Make the learner's memory: the memory itself for rollouts, or a view of replay shards."""
    if memory.is_rollout:
        size, wide = int(memory.size), cluster.unroll * cluster.envs_per_actor
        if size % wide:
            raise ArgumentError(
                f"unrolls of {cluster.unroll} timesteps of {cluster.envs_per_actor} environments (Cluster.unroll,"
                f" Cluster.envs_per_actor) do not fill a rollout of {size}: its size must be a multiple of {wide}",
                "memory",
                size,
            )
        refuse_short_lag(cluster, size // wide, cluster.actors)
        return memory
    if type(memory) is not ReplayMemory:
        raise ArgumentError(
            f"a {type(memory).__name__} cannot be split into shards: use a ReplayMemory, or a BatchMemory for rollouts",
            "memory",
            memory,
        )
    if memory.path is not None:
        message = f"replay shards keep transitions in RAM, got path={memory.path!r}: leave it out, or use one process"
        raise ArgumentError(message, "path", memory.path)
    if cluster.max_lag is not None:
        message = (
            f"Cluster.max_lag drops old unrolls before they join a rollout, got {cluster.max_lag} with a ReplayMemory,"
            " which stores them all: leave it out"
        )
        raise ArgumentError(message, "Cluster.max_lag", cluster.max_lag)
    lanes = [len(actors) * cluster.envs_per_actor for actors in actors_of_shards(cluster)]
    return ShardedReplay(memory, lanes, saves=cluster.save_replay)


def lanes_in(cluster: Settings, memory: Any) -> int:
    """Number of lanes of the learner's memory: unrolls side by side in a rollout, or all environments of a replay."""
    return int(memory.size) // cluster.unroll if memory.is_rollout else cluster.environments


def refuse_short_lag(cluster: Settings, batch: int, actors: int) -> None:
    """Raise for a ``max_lag`` that no unroll could keep: training would never proceed."""
    least = -(-actors * cluster.in_flight // batch)
    if cluster.max_lag is not None and cluster.max_lag < least:
        raise ArgumentError(
            f"Cluster.max_lag={cluster.max_lag} is less than the {least} updates that may be made while"
            f" {actors} actors work on {cluster.in_flight} unrolls each: raise it, or lower in_flight",
            "Cluster.max_lag",
            cluster.max_lag,
        )


def checked_resize(cluster: Settings, memory: Any, actors: Any) -> int:
    """Check a new number of actors; raises as ``Cluster.resize`` does."""
    number = integer("actors", actors, at_least=cluster.min_actors)
    if cluster.lockstep:
        raise ClusterError("Cluster.resize: the number of actors cannot change in lockstep")
    sharded = isinstance(memory, ShardedReplay)
    if number > cluster.actors and (sharded or cluster.placement == "strict_spread"):
        why = "replay shards have places for" if sharded else "placement='strict_spread' has reserved nodes for"
        raise ArgumentError(f"{why} Cluster.actors={cluster.actors}, got {number}", "actors", actors)
    if not sharded:
        refuse_short_lag(cluster, memory.size // (cluster.unroll * cluster.envs_per_actor), number)
    return number


def actors_of_shards(cluster: Settings) -> list[range]:
    """Indices of the actors that each shard serves; fixed, so that episodes stay in one shard."""
    return [range(index, cluster.actors, cluster.replay_shards) for index in range(cluster.replay_shards)]
