"""The explanation of an experiment, for ``axonrl check``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from ...core import registry, schedules
from ...core.checks import counted
from ...core.protocols import Memory
from ...distributed.settings import Settings
from ...estimators.limits import Plan, UpdateSchedule
from ...estimators.run_summary import RunSummary
from ...run_dir.provenance import processors
from ..config.schema import ExperimentFile
from ..config.sections import integer_if_whole
from ..config.seeds import seed_list, seed_ranges
from ..tracking.trackers import choices, disabled_by

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
OVER_TIMESTEPS: Final = ("epsilon", "sigma", "temperature")
"""Params of built-in models whose schedules follow timesteps, and are meant to end early; all others follow updates."""


def explanation(experiment: ExperimentFile, memory: Memory, summary: RunSummary, folder: Path) -> dict[str, Any]:
    """Everything that is known about a run before its first timestep, as plain data.

    Args:
        experiment: what to run.
        memory: its memory.
        summary: from ``Agent.check``.
        folder: the run folder that the run would have.
    """
    learn, train, num_envs = experiment.learn, experiment.train, summary.num_envs
    kind = "" if experiment.agent.memory is None else experiment.agent.memory.kind
    limits = {name: getattr(train, name, None) for name in ("max_steps", "max_episodes", "max_timesteps")}
    return {
        "name": experiment.name,
        "seed": experiment.seed,
        "seeds": _seeds(experiment),
        "environment": {
            "id": experiment.environment.id,
            "num_envs": num_envs,
            "vectorization": experiment.environment.vectorization,
            "wrappers": [wrapper.model_dump() for wrapper in experiment.environment.wrappers],
            "observation_space": space_summary(summary.observation_space),
            "action_space": space_summary(summary.action_space),
        },
        "model": {
            "model_fn": experiment.agent.model_fn,
            "parts": {name: dataclasses.asdict(part) for name, part in summary.parts.items()},
        },
        "memory": {"kind": kind, "bytes": summary.memory_bytes},
        "executors": {
            part: {"runtime": runtime, "why": summary.why.get(part, "")} for part, runtime in summary.runtimes.items()
        },
        "learn": None if learn is None else learn.model_dump(),
        "distributed": None if experiment.distributed is None else _cluster(experiment.distributed, memory),
        "train": None if train is None else {**limits, **_updates(train, memory, num_envs, summary.schedule)},
        "warnings": _warnings(experiment, memory),
        "evaluate": None if experiment.evaluate is None else experiment.evaluate.model_dump(),
        "hooks": [hook.model_dump() for hook in experiment.hooks],
        "tracker": None if disabled_by() else _trackers(experiment),
        "folder": str(folder),
    }


def rows(found: Mapping[str, Any]) -> dict[str, str]:
    """Format an explanation as labels and texts, for a table."""
    environment, learn, train, parts = found["environment"], found["learn"], found["train"], found["model"]["parts"]
    folder, evaluate = found["folder"], found["evaluate"]
    kind = "" if environment["vectorization"] == "sync" else f", {environment['vectorization']}"
    copies = kind if environment["num_envs"] == 1 else f", {environment['num_envs']} copies{kind}"
    lines = {
        "environment": environment["id"] + copies,
        "wrappers": ", ".join(map(_short, environment["wrappers"])),
        "observations": environment["observation_space"],
        "actions": environment["action_space"],
        "model": found["model"]["model_fn"],
        **dict(_part(name, part) for name, part in parts.items()),
        "values in all": f"{sum(part['parameters'] for part in parts.values()):,}",
        "memory": f"{found['memory']['kind']}, {_bytes(found['memory']['bytes'])}",
        **{f"{part} runs in": f"{one['runtime']}: {one['why']}" for part, one in found["executors"].items()},
        "learns from": "" if learn is None else f"{learn['data']}, {counted(learn['max_steps'], 'update')}",
        "cluster": _cluster_summary(found["distributed"]),
        **({} if train is None else _training(train)),
        "warning": "\n".join(one["message"] for one in found["warnings"]),
        "evaluation": ""
        if evaluate is None
        else f"{counted(evaluate['episodes'], 'episode')} of the {evaluate['policy']} policy, after training",
        "hooks": ", ".join(map(_short, found["hooks"])),
        "tracked": _trackers_summary(found["tracker"]),
        "seeds": _seeds_summary(found["seeds"]),
        **({"run folder": folder} if found["seeds"] is None else {"run folders": f"{folder}/seed-*"}),
    }
    return {label: text for label, text in lines.items() if text}


def _cluster(given: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """The settings of a cluster; ``cpus`` is the total of all roles, the learner included."""
    settings = Settings(**given)
    return {**settings.as_settings(), "cpus": settings.cpus(_shards(settings, memory)) + 1}


def _shards(settings: Settings, memory: Memory) -> int:
    return 0 if memory.is_rollout else settings.replay_shards


def _warnings(experiment: ExperimentFile, memory: Memory) -> list[dict[str, Any]]:
    """Warnings before a run begins; those about schedules include their numbers."""
    found = [dataclasses.asdict(one) | {"message": str(one)} for one in early_ends(experiment, memory)]
    if experiment.distributed is not None:
        settings = Settings(**experiment.distributed)
        if (scarce := settings.cpu_warning(_shards(settings, memory), processors())) is not None:
            found.append({"message": scarce})
    return found


def _cluster_summary(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    where = found["backend"] if found["address"] is None else f"{found['backend']} at {found['address']}"
    actors = f"{counted(found['actors'], 'actor')} of {counted(found['envs_per_actor'], 'environment')}"
    return f"{where}: {actors}, unrolls of {found['unroll']} timesteps, {found['cpus']:g} processors in all"


@dataclasses.dataclass(frozen=True)
class EarlyEnd:
    """Params whose schedules end before the run does: at ``value``, at this update and timestep.

    ``share`` is the share of the run's updates. ``timesteps`` are those of the run, None without a limit.
    """

    params: Sequence[str]
    value: float
    update: int
    timestep: int
    share: float
    timesteps: int | None

    def __str__(self) -> str:
        reach = "reaches" if len(self.params) == 1 else "reach"
        place = f"timestep {self.timestep:,}" + (f" of {self.timesteps:,}" if self.timesteps else "")
        return (
            f"{' and '.join(self.params)} {reach} {self.value:g} at update {self.update:,},"
            f" after {self.share:.0%} of the run ({place})"
        )


def early_ends(experiment: ExperimentFile, memory: Memory) -> list[EarlyEnd]:
    """Schedules of a built-in model's params that end at 0 before the last update, or in the first half of the run."""
    train, is_known = experiment.train, experiment.agent.model_fn in registry.BUILT_IN["model_fn"]
    given = experiment.agent.params.items() if is_known else ()
    scheduled = {name: one for name, one in given if isinstance(one, Mapping) and name not in OVER_TIMESTEPS}
    if not scheduled or train is None or experiment.learn is not None:  # updates of both count
        return []
    when = _updates(train, memory, experiment.environment.num_envs, train.schedule)
    first, every, updates = when["first_update_at"], when["timesteps_per_update"], when["updates"]
    if first is None or every is None or not updates:
        return []
    ends: dict[tuple[float, int], list[str]] = {}
    for name, value in scheduled.items():
        end = _end(value, updates)
        if end is not None and (end[1] < updates if end[0] == 0 else end[1] < updates / 2):
            ends.setdefault(end, []).append(name)
    return [
        EarlyEnd(names, value, update, first + (update - 1) * every, update / updates, train.max_timesteps)
        for (value, update), names in ends.items()
    ]


def _end(value: Mapping[str, Any], updates: int) -> tuple[float, int] | None:
    """The final value of a schedule, and the update at which it is reached; None if there is none."""
    schedule = schedules.make_schedule(value)
    scale = updates if schedules.follows_run(schedule) else 1
    match schedule:
        case (
            schedules.Linear(_, stop, duration)
            | schedules.Polynomial(_, stop, duration, _)
            | schedules.Cosine(_, stop, duration)
        ):
            return stop, math.ceil(duration * scale)
        case schedules.Exponential(start, rate, _, floor) if floor > 0 and rate < 1:
            periods = math.log(floor / start, rate)
        case schedules.NaturalExponential(start, rate, _, floor) if floor > 0:
            periods = math.log(start / floor) / rate
        case schedules.InverseTime(start, rate, _, floor) if floor > 0:
            periods = (start / floor - 1) / rate
        case schedules.PiecewiseConstant(boundaries, values) if boundaries:
            return values[-1], math.ceil(boundaries[-1] * scale)
        case _:
            return None
    whole = math.ceil(periods) if schedule.staircase else periods
    return floor, math.ceil(schedule.duration * scale * whole)


def space_summary(space: gymnasium.Space[Any]) -> str:
    """A short description of a space; for a Box with the lowest and the highest bound."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box{space.shape} of {space.dtype}, {np.min(space.low):g} to {np.max(space.high):g}"
    if isinstance(space, gymnasium.spaces.Dict):
        return f"Dict({', '.join(f'{name}: {space_summary(one)}' for name, one in space.items())})"
    if isinstance(space, gymnasium.spaces.Tuple):
        return f"Tuple({', '.join(map(space_summary, space))})"
    return str(space)


def _training(train: Mapping[str, Any]) -> dict[str, str]:
    """The schedule of updates and the end of training, in words."""
    first = train["first_update_at"]
    return {
        "first update": "when the memory is full" if first is None else f"at timestep {first:,}",
        "updates": _updates_summary(train),
        "ends after": ", or ".join(_limits(train)) or "no limit: a hook or Ctrl-C stops it",
    }


def _updates(train: Plan, memory: Memory, num_envs: int, schedule: UpdateSchedule) -> dict[str, int | None]:
    """The schedule of updates, and their maximum number; None for what is unknown."""
    most, size = train.max_timesteps, getattr(memory, "size", None)
    timesteps = None if most is None else _up_to(most, num_envs)
    if not memory.is_rollout:
        first, every = _up_to(schedule.first_update, num_envs), int(schedule.update_frequency)
        updates = None if timesteps is None else schedule.due(timesteps)
    elif isinstance(size, int):
        first, every = size, size
        updates = None if timesteps is None else timesteps // size
    else:
        return {"first_update_at": None, "timesteps_per_update": None, "updates": train.max_steps}
    at_most = [count for count in (updates, train.max_steps) if count is not None]
    return {"first_update_at": first, "timesteps_per_update": every, "updates": min(at_most, default=None)}


def _trackers(experiment: ExperimentFile) -> list[dict[str, Any]]:
    return [{"kind": one.kind, **one.settings} for one in choices(experiment) if one.settings is not None]


def _trackers_summary(trackers: Sequence[Mapping[str, Any]] | None) -> str:
    if trackers is None:
        return f"no, disabled by {disabled_by()}"
    return ", ".join(["in the run folder", *map(_short, trackers)])


def _seeds(experiment: ExperimentFile) -> dict[str, Any] | None:
    """The seeds of many runs, and the default number of jobs."""
    if experiment.seeds is None:
        return None
    seeds = seed_list(experiment.seeds, experiment.seed)
    return {"seeds": seeds, "jobs": min(processors(), len(seeds))}


def _seeds_summary(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    count = len(found["seeds"])
    return f"{seed_ranges(found['seeds'])}: {counted(count, 'run')}, {found['jobs']} at the same time"


def _up_to(timestep: int, num_envs: int) -> int:
    """The first timestep at or after this one that can occur, as all copies step together."""
    return -(-timestep // num_envs) * num_envs


def _short(named: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{name}={integer_if_whole(value)}" for name, value in named.items() if name != "kind")
    return f"{named['kind']} ({arguments})" if arguments else str(named["kind"])


def _part(name: str, part: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a part's variables, and the number of their values."""
    count, trainable = part["parameters"], part["trainable"]
    some = "" if trainable in (0, count) else f", {trainable:,} of them trained"
    kind = "parameters" if trainable else "state"
    return f"{kind}, {name}", f"{count:,}{some}{', used to act' if part['acts'] else ''}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "of unknown size"
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{count:,} bytes ({size:.1f} {_UNITS[unit]})"


def _updates_summary(train: Mapping[str, Any]) -> str:
    count, every = train["updates"], train["timesteps_per_update"]
    many = "" if count is None else f"{count:,}, "
    if every is None:
        return f"{many}one each time the memory is full"
    return f"{many}one every {every:,} timesteps" if every > 1 else f"{many}one every timestep"


def _limits(train: Mapping[str, Any]) -> Iterator[str]:
    for key, word in (("max_timesteps", "timesteps"), ("max_steps", "updates"), ("max_episodes", "episodes")):
        if train[key] is not None:
            yield f"{train[key]:,} {word}"
