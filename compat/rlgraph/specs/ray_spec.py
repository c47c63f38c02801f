"""``execution_spec["ray_spec"]``: settings of an ApexExecutor's processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...common.specs.argument_checks import Only, flag, integer, or_none, real, text
from ...common.specs.modules import resolve
from ...common.specs.tables import Argument, SpecTable
from ..utils.rlgraph_errors import mapping, refuse, refuse_unknown
from .agent_tables import TABLES, settings

RAY: Final = "ApexExecutor: execution_spec['ray_spec']"
"""Place of the specification, for messages."""


def _steps(where: str, value: Any) -> int | None:
    """Timesteps of a record; 0 means 1, because 0.1.3 adds this number minus one to a worker's samples."""
    return None if value is None else max(1, integer(0)(where, value))


_STEPS: Final = Argument("n_step_adjustment", None, _steps)
_SPEC: Final[Mapping[str, SpecTable]] = {
    "executor_spec": settings(
        "executor_spec",
        Argument("redis_address", None, or_none(text)),
        Argument("replay_sampling_task_depth", 4, integer(1)),
        Argument("env_interaction_task_depth", 2, integer(1)),
        Argument("num_worker_samples", 50, integer(1)),
        Argument("learn_queue_size", 16, integer(1)),
        Argument("num_sample_workers", 1, integer(1)),
        Argument("num_replay_workers", 1, integer(1)),
        Argument("num_cpus_per_replay_actor", 0.5, real(above=0)),
        Argument("num_cpus_per_worker", None, or_none(real(above=0))),
        ignored={"num_cpus": None, "num_gpus": 0, "num_gpus_per_worker": 0, "weight_sync_steps": None},
    ),
    "worker_spec": settings(
        "worker_spec",
        Argument("num_worker_environments", 1, integer(1)),
        Argument("num_cpus", None, or_none(real(above=0))),
        Argument("frame_skip", 1, integer(1)),
        _STEPS,
        Argument("ray_constant_exploration", True, flag),
        Argument("worker_executes_exploration", True, flag),
        Argument("sample_exploration", None, or_none(Only(False, "each environment has its own epsilon"))),
        ignored={
            **{"num_background_envs": 0, "execution_spec": None, "exploration_min_value": 0.0},
            "worker_computes_weights": True,
        },
    ),
    "apex_replay_spec": settings(
        "apex_replay_spec",
        Argument("memory_spec", None, or_none(mapping)),
        Argument("clip_rewards", True, flag),
        Argument("min_sample_memory_size", None, or_none(integer(1))),
        _STEPS,
    ),
}


def read_ray_spec(given: Any, ignored: list[str]) -> dict[str, dict[str, Any]]:
    """All parts by name, with all defaults, and the memory in normal form. The given specification is not changed.

    Args:
        given: the specification.
        ignored: collects names of given keys without effect.

    Returns:
        The parts, and under ``agent`` the agent's ``memory_spec`` and ``n_step`` given in them.

    Raises:
        ArgumentError: a key is unknown or refused, a value is invalid, or two contradict each other.
    """
    given = {} if given is None else mapping(RAY, given)
    refuse_unknown(RAY, given, _SPEC, what="part")
    tables = {**TABLES, **_SPEC}
    parts = {name: resolve(f"{RAY}[{name!r}]", given.get(name) or {}, name, tables, ignored) for name in _SPEC}
    executor, worker, replay = parts.values()
    shards, workers = executor["num_replay_workers"], executor["num_sample_workers"]
    if shards > workers:
        problem = f"must be at most num_sample_workers, {workers}: each worker fills one of them; got {shards}"
        refuse(f"{RAY}['executor_spec']['num_replay_workers']", problem, shards)
    steps, memory = [worker[_STEPS.name], replay[_STEPS.name]], replay["memory_spec"]
    if memory is not None:
        place, memory = f"{RAY}['apex_replay_spec']['memory_spec']", dict(memory)
        steps.append(_steps(f"{place}[{_STEPS.name!r}]", memory.pop(_STEPS.name, None)))
        memory = resolve(place, memory, "apex_memory", TABLES)
    numbers = sorted({one for one in steps if one is not None})
    if len(numbers) > 1:
        place = f"{RAY}['worker_spec'][{_STEPS.name!r}]"
        refuse(place, f"and those of apex_replay_spec and memory_spec are {numbers}: give only one of them", numbers)
    return {**parts, "agent": {"memory_spec": memory, "n_step": (numbers or [None])[0]}}
