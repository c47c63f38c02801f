"""Settings of distributed training: the fields of ``Cluster``. Loads neither Ray nor TensorFlow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..core.checks import choice, count, flag, integer, number, plain
from ..core.errors import ArgumentError
from ..core.protocols import MOST_LANES

BACKENDS: Final = ("ray", "inline")
PLACEMENTS: Final = ("spread", "pack", "strict_spread")
ACTOR_RUNTIMES: Final = ("litert", "tensorflow")
_COUNTS: Final = ("actors", "envs_per_actor", "unroll", "replay_shards", "in_flight", "queue", "prefetch", "min_actors")
RUNNING: Final = "_running"
"""Key of the running training, besides the fields."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Actors that step environments, the learner in this process, and shards of a replay memory.

    Args:
        actors: processes that act.
        envs_per_actor: N, environments each actor steps together.
        unroll: T, timesteps of each environment in a message.
        backend: ``"ray"``, or ``"inline"``: the same roles in this process, in turn; deterministic.
        address: Ray cluster to join, ``"auto"`` or ``"host:port"``; None starts one on this machine, and ends it.
        replay_shards: processes that each hold a part of a replay memory.
        in_flight: unrolls requested from an actor at a time.
        queue: for rollouts, batches of unrolls that should wait for the learner: more unrolls are requested while it
            lacks a batch, fewer while more batches than this always wait.
        prefetch: batches requested from replay shards ahead of use; none in lockstep.
        max_lag: age of weights, in updates, above which unrolls are dropped when a rollout is formed. None: no limit.
        ladder: base and power of the actors' epsilons (Horgan et al. 2018), if the exploration is epsilon-greedy; None:
            the model's schedule, in all actors.
        min_actors: training begins when this many actors are ready, and fails when fewer are left (in lockstep, when
            one is given up).
        actor_cpus: processors of an actor, for Ray's placement; actors with fractions share one.
        shard_cpus: processors of a replay shard, for Ray's placement.
        placement: actors' placement on nodes: ``"spread"`` or ``"pack"`` if possible, or ``"strict_spread"``, required.
        actor_runtime: ``"litert"``, or ``"tensorflow"`` for models that do not convert: actors then load TensorFlow.
        unroll_timeout_s: an actor is replaced if an unroll takes longer than this and three times its usual time.
        stall_timeout_s: training fails when nothing has progressed for this long.
        restart_delay_s: delay before an actor restarts; doubles with each failure, up to 60 s.
        max_restarts: limit for each actor.
        lockstep: rounds in which every actor collects one unroll with the same weights: same seed, same run.
        save_replay: store the contents of the replay shards in checkpoints?

    Raises:
        ArgumentError: a value is out of range, or contradicts another.
    """

    actors: int = 2
    envs_per_actor: int = 8
    unroll: int = 50
    backend: str = "ray"
    address: str | None = None
    replay_shards: int = 1
    in_flight: int = 2
    queue: int = 4
    prefetch: int = 16
    max_lag: int | None = None
    ladder: Sequence[float] | None = (0.4, 7.0)
    min_actors: int = 1
    actor_cpus: float = 1.0
    shard_cpus: float = 0.5
    placement: str = "spread"
    actor_runtime: str = "litert"
    unroll_timeout_s: float = 60.0
    stall_timeout_s: float = 300.0
    restart_delay_s: float = 1.0
    max_restarts: int = 100
    lockstep: bool = False
    save_replay: bool = True

    def __post_init__(self) -> None:
        for name in _COUNTS:
            object.__setattr__(self, name, count(f"Cluster.{name}", getattr(self, name), at_most=MOST_LANES))
        if self.max_lag is not None:
            object.__setattr__(self, "max_lag", integer("Cluster.max_lag", self.max_lag, at_least=1))
        object.__setattr__(self, "max_restarts", integer("Cluster.max_restarts", self.max_restarts, at_least=0))
        for name in ("actor_cpus", "shard_cpus", "unroll_timeout_s", "stall_timeout_s", "restart_delay_s"):
            object.__setattr__(self, name, number(f"Cluster.{name}", getattr(self, name), above=0))
        choice("Cluster.backend", self.backend, BACKENDS)
        choice("Cluster.placement", self.placement, PLACEMENTS)
        choice("Cluster.actor_runtime", self.actor_runtime, ACTOR_RUNTIMES)
        for name in ("lockstep", "save_replay"):
            object.__setattr__(self, name, flag(f"Cluster.{name}", getattr(self, name)))
        object.__setattr__(self, "ladder", _ladder(self.ladder))
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if self.min_actors > self.actors:
            message = f"Cluster.min_actors must be at most actors={self.actors}, got {self.min_actors}"
            raise ArgumentError(message, "Cluster.min_actors", self.min_actors)
        if self.replay_shards > self.actors:
            message = f"Cluster.replay_shards must be at most actors={self.actors}, got {self.replay_shards}"
            raise ArgumentError(message, "Cluster.replay_shards", self.replay_shards)
        address: Any = self.address
        if address is not None and not isinstance(address, str):
            raise ArgumentError(f"Cluster.address must be text or None, got {address!r}", "Cluster.address", address)
        if address is not None and address.startswith("ray://"):
            message = (
                f"Cluster.address={address!r} is Ray's client, which would copy every batch twice: start"
                " the training on a node of the cluster, with address='auto', or as a job (`ray job submit`)"
            )
            raise ArgumentError(message, "Cluster.address", address)
        if address is not None and self.backend == "inline":
            message = f"Cluster.address requires backend='ray', got {address!r} with backend='inline'"
            raise ArgumentError(message, "Cluster.address", address)

    @property
    def environments(self) -> int:
        """Environments of all actors."""
        return self.actors * self.envs_per_actor

    def cpus(self, shards: int) -> float:
        """Processors of the actors and of ``shards`` replay shards."""
        return self.actors * self.actor_cpus + shards * self.shard_cpus

    def cpu_warning(self, shards: int, there: int) -> str | None:
        """Warning for a local cluster on a machine with too few processors; None if they suffice."""
        wanted = math.ceil(self.cpus(shards))
        if self.backend != "ray" or self.address is not None or wanted <= there:
            return None
        return f"actors and shards want {wanted} processors but share {there}"

    def shape(self) -> Mapping[str, int]:
        """Settings that determine a run in lockstep."""
        return {name: getattr(self, name) for name in ("actors", "envs_per_actor", "unroll", "replay_shards")}

    def as_settings(self) -> Mapping[str, Any]:
        """Fields as JSON values."""
        values = dataclasses.asdict(self)
        return {**values, "ladder": None if self.ladder is None else list(self.ladder)}


def _ladder(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        message = f"Cluster.ladder must be two numbers (base, power), or None, got {value!r}"
        raise ArgumentError(message, "Cluster.ladder", value)
    base = number("Cluster.ladder", value[0], above=0, at_most=1)
    return base, number("Cluster.ladder", value[1], at_least=0)
