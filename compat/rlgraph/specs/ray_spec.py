"""``execution_spec["ray_spec"]``: how the processes of an ApexExecutor are told apart from what its agent is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from ...common.refusals import refuse
from ...common.specs.argument_checks import Only, flag, or_none, real, text, whole
from ...common.specs.modules import resolve
from ...common.specs.tables import Argument
from ..utils.rlgraph_errors import known, mapping, translate_errors
from .agent_tables import TABLES, settings

WHERE: Final = "ApexExecutor"
_RAY: Final = f"{WHERE}: execution_spec['ray_spec']"
LADDER: Final = (0.4, 7.0)
"""Base and power of the workers' epsilons."""
_LEGACY: Final = ("127.0.0.1:6379", "localhost:6379")
"""Addresses of Redis in RLgraph's examples."""
_MIN_SAMPLES: Final = 1000


def _steps(where: str, value: Any) -> int | None:
    """Timesteps of a record; 0 is one, as 0.1.3 adds them less one to the samples of a worker."""
    return None if value is None else max(1, whole(0)(where, value))


_SPEC: Final = {
    "executor_spec": settings(
        "executor_spec",
        Argument("redis_address", None, or_none(text)),
        Argument("num_cpus", None, or_none(real(at_least=0))),
        Argument("num_gpus", 0, or_none(real(at_least=0))),
        Argument("weight_sync_steps", 400, whole(1)),
        Argument("replay_sampling_task_depth", 4, whole(1)),
        Argument("env_interaction_task_depth", 2, whole(1)),
        Argument("num_worker_samples", 50, whole(1)),
        Argument("learn_queue_size", 16, whole(1)),
        Argument("num_sample_workers", 1, whole(1)),
        Argument("num_replay_workers", 1, whole(1)),
        Argument("num_cpus_per_replay_actor", 0.5, real(above=0)),
        Argument("num_cpus_per_worker", None, or_none(real(above=0))),
        Argument("num_gpus_per_worker", 0, or_none(real(at_least=0))),
    ),
    "worker_spec": settings(
        "worker_spec",
        Argument("num_worker_environments", 1, whole(1)),
        Argument("num_background_envs", 0, whole(0)),
        Argument("num_cpus", None, or_none(real(above=0))),
        Argument("frame_skip", 1, whole(1)),
        Argument("n_step_adjustment", None, _steps),
        Argument("execution_spec", None, or_none(mapping)),
        Argument("exploration_min_value", 0.0, real(at_least=0, at_most=1)),
        Argument("worker_computes_weights", True, flag),
        Argument("ray_constant_exploration", True, flag),
        Argument("worker_executes_exploration", True, flag),
        Argument("sample_exploration", None, or_none(Only(False, "each environment has an epsilon of its own"))),
    ),
    "apex_replay_spec": settings(
        "apex_replay_spec",
        Argument("memory_spec", None, or_none(mapping)),
        Argument("clip_rewards", True, flag),
        Argument("min_sample_memory_size", None, or_none(whole(1))),
        Argument("n_step_adjustment", None, _steps),
    ),
}
_NO_EFFECT: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
    "executor_spec": {
        **{"num_cpus": (None,), "num_gpus": (None, 0), "num_gpus_per_worker": (None, 0), "weight_sync_steps": (None,)},
    },
    "worker_spec": {
        **{"worker_computes_weights": (True,), "num_background_envs": (0,), "execution_spec": (None,)},
        "exploration_min_value": (0.0,),
    },
}
"""By part: keys that nothing follows from, unless they have one of these values."""


@dataclasses.dataclass(frozen=True)
class RaySpec:
    """Meaning of ``ray_spec``.

    Args:
        executor: all keys of ``executor_spec``.
        worker: of ``worker_spec``.
        replay: of ``apex_replay_spec``.
        memory: the memory's specification in normal form; None if none was given.
        n_step: timesteps of a record; None if nothing was said.
        ignored: names of keys that were given, and that nothing follows from.
    """

    executor: Mapping[str, Any]
    worker: Mapping[str, Any]
    replay: Mapping[str, Any]
    memory: Mapping[str, Any] | None
    n_step: int | None
    ignored: tuple[str, ...] = ()

    @property
    def workers(self) -> int:
        """Processes that act."""
        return int(self.executor["num_sample_workers"])

    @property
    def shards(self) -> int:
        """Processes that hold a part of the memory."""
        return int(self.executor["num_replay_workers"])

    @property
    def width(self) -> int:
        """Environments of a worker."""
        return int(self.worker["num_worker_environments"])

    @property
    def has_ladder(self) -> bool:
        """Has each environment an epsilon of its own, which never changes?"""
        return bool(self.worker["ray_constant_exploration"] and self.worker["worker_executes_exploration"])

    def cluster(self, backend: str, address: str | None) -> dict[str, Any]:
        """Arguments of :class:`axonrl.distributed.Cluster`."""
        executor = self.executor
        return {
            "actors": self.workers,
            "envs_per_actor": self.width,
            "unroll": -(-executor["num_worker_samples"] // self.width),
            "backend": backend,
            "address": None if backend == "inline" else address,
            "replay_shards": self.shards,
            "in_flight": executor["env_interaction_task_depth"],
            "prefetch": min(executor["learn_queue_size"], executor["replay_sampling_task_depth"] * self.shards),
            "shard_cpus": executor["num_cpus_per_replay_actor"],
            "actor_cpus": self.worker["num_cpus"] or executor["num_cpus_per_worker"] or 1.0,
            "ladder": LADDER if self.has_ladder else None,
        }

    def lanes(self) -> list[int]:
        """Environments that fill each part of the memory."""
        return [len(range(shard, self.workers, self.shards)) * self.width for shard in range(self.shards)]

    def size(self, capacity: int) -> int:
        """Size of the memory: ``capacity``, rounded up to parts of equal size, and lanes likewise."""
        unit = self.shards * math.lcm(*self.lanes())
        return -(-capacity // unit) * unit

    def first_update(self, capacity: int, batch: int, n_step: int, steps_before_update: int) -> int:
        """Timesteps before the first update.

        Raises:
            RLGraphError: the memory, or a part of it, could not fill a batch.
        """
        lanes, part = self.lanes(), self.size(capacity) // self.shards
        least = batch + (n_step - 1) * max(lanes)
        place = f"{_RAY}['apex_replay_spec']"
        with translate_errors():
            if part < least:
                problem = f"must be at least {least} for each of the {self.shards} num_replay_workers, so that each has"
                refuse(f"{place}['memory_spec']['capacity']", f"{problem} a batch of {batch}; got {capacity}", capacity)
            needed = batch + (n_step - 1) * sum(lanes)
            given = self.replay["min_sample_memory_size"]
            if given is None:
                return max(min(_MIN_SAMPLES, capacity), needed, steps_before_update)
            if given > capacity:
                problem = f"must be at most the capacity, {capacity}; got {given}"
                refuse(f"{place}['min_sample_memory_size']", problem, given)
            return int(max(given, needed, steps_before_update))


def read_ray_spec(given: Any) -> RaySpec:
    """The specification, with every default. What was given stays as it is.

    Raises:
        RLGraphError: a key is unknown or refused, a value is invalid, or two contradict each other.
    """
    with translate_errors():
        given = {} if given is None else mapping(_RAY, given)
        known(_RAY, given, _SPEC, what="part")
        parts = {name: resolve(f"{_RAY}[{name!r}]", given.get(name) or {}, name, {**TABLES, **_SPEC}) for name in _SPEC}
        executor, worker, replay = parts.values()
        shards, workers = executor["num_replay_workers"], executor["num_sample_workers"]
        if shards > workers:
            problem = f"must be at most num_sample_workers, {workers}: each worker fills one of them; got {shards}"
            refuse(f"{_RAY}['executor_spec']['num_replay_workers']", problem, shards)
        memory, steps = _memory(replay["memory_spec"])
        n_step = _agreed(worker["n_step_adjustment"], replay["n_step_adjustment"] if steps is None else steps)
    return RaySpec(executor, worker, replay, memory, n_step, tuple(_without_effect(given)))


def agreed_steps(n_step: Any, ray: RaySpec) -> Any:
    """``n_step`` of the agent, or what ``ray_spec`` says.

    Raises:
        RLGraphError: both say something, and not the same.
    """
    with translate_errors():
        if ray.n_step not in (None, 1) and n_step not in (None, 1, ray.n_step):
            refuse(f"{WHERE}: n_step", f"is {n_step}, and n_step_adjustment is {ray.n_step}: give one of them", n_step)
    return n_step if ray.n_step in (None, 1) else ray.n_step


def local_address(address: str | None) -> bool:
    """Is it the address of Redis in RLgraph's examples, where a cluster of today may be or not?"""
    return address in _LEGACY


def _memory(spec: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, int | None]:
    """The memory in normal form, and ``n_step_adjustment``."""
    if spec is None:
        return None, None
    place = f"{_RAY}['apex_replay_spec']['memory_spec']"
    steps = _steps(f"{place}['n_step_adjustment']", spec.get("n_step_adjustment"))
    own = {name: value for name, value in spec.items() if name != "n_step_adjustment"}
    return resolve(place, own, "apex_memory", TABLES), steps


def _agreed(first: int | None, second: int | None) -> int | None:
    if first is not None and second not in (None, first):
        place = f"{_RAY}['worker_spec']['n_step_adjustment']"
        refuse(place, f"is {first}, and that of memory_spec is {second}: give one of them", first)
    return second if first is None else first


def _without_effect(given: Mapping[str, Any]) -> list[str]:
    return [
        f"{part}[{name!r}]"
        for part, keys in _NO_EFFECT.items()
        for name, values in keys.items()
        if name in (given.get(part) or {}) and given[part][name] not in values
    ]
