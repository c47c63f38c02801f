"""The settings by which runs are grouped, from the record and the experiment file of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...core.registry import BUILT_IN
from ...core.yaml_text import flat
from ...distributed.settings import Settings
from ...models.blocks.params import parameters_of
from ...run_dir import record
from ..config import files
from ..running.folder import EXPERIMENT

_NOT_SETTINGS: Final = ("name", "description", "seed", "seeds", "params", "tracker", "submit", "include")
"""Keys of an experiment file that do not distinguish runs; declared params are already substituted."""
_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Described(NamedTuple):
    """The settings in ``run.json`` and the experiment file."""

    is_recorded: bool = False
    seed: int | None = None
    num_envs: int = 1
    """Environments that acted side by side."""
    settings: Mapping[str, Any] = _NO_SETTINGS
    """Settings by dotted keys, without empty ones."""
    unrecorded: tuple[str, ...] = ()
    """Settings in which such runs may differ undetected."""


def described_by(folder: Path, found: record.RunRecord | None) -> Described:
    """Read the settings of a run.

    If both record a setting, ``run.json`` counts rather than the experiment file: it has the chosen values of settings
    that were not given, and is the same for files and programs.
    """
    file: Mapping[str, Any] = {}
    if (folder / EXPERIMENT).is_file():
        file = files.read(folder / EXPERIMENT).values
    settings = dict(flat({key: value for key, value in file.items() if key not in _NOT_SETTINGS}, whole_lists=True))
    if found is None:
        seed = file.get("seed")
        return Described(False, seed if isinstance(seed, int) else None, settings=_without_empty(settings))
    for key, value in _recorded_settings(found).items():
        if value is not None:
            settings = {name: kept for name, kept in settings.items() if not f"{name}.".startswith(f"{key}.")}
            settings.update(flat(value, key, whole_lists=True))
    unrecorded = _unrecorded_settings(found, is_file=bool(file))
    number = _environments(file.get("distributed"), found)
    return Described(True, found.seed, number, _without_empty(settings), unrecorded)


def _environments(cluster: Any, found: record.RunRecord) -> int:
    """The number of environments; ``run.json`` has that of lanes, which is another one for rollouts of a cluster."""
    try:
        return Settings(**cluster).environments if isinstance(cluster, Mapping) else found.num_envs
    except (TypeError, ValueError):  # the file was edited
        return found.num_envs


def _without_empty(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in settings.items() if value not in (None, {}, [])}


def _recorded_settings(found: record.RunRecord) -> Mapping[str, Any]:
    """The settings in ``run.json``, by the keys of an experiment file; None for settings not recorded."""
    defaults: Mapping[str, Any] = {}
    if found.model_fn in BUILT_IN["model_fn"]:
        defaults = {name: one.default for name, one in parameters_of(str(found.model_fn)).items()}
    warm_start = {name: value for name, value in (found.warm_start or {}).items() if name != "new"}
    environment, schedule = found.environment, found.schedule or {}
    if environment is not None:
        environment = {"vectorization": "sync", "num_envs": found.num_envs, **environment}
    return {
        "environment": environment,
        "agent.model_fn": found.model_fn,
        "agent.params": {**defaults, **(found.params or {}), **dict.fromkeys(found.unrecorded, "not recorded")},
        "agent.memory": found.memory,
        "agent.warm_start": warm_start or None,
        "train.first_update": schedule.get("first_update"),
        "train.update_frequency": schedule.get("update_frequency"),
        **{f"train.max_{kind}": end for kind, end in (found.limits or {}).items()},
        "code": {name: one["digest"] for name, one in (found.code or {}).items()},
    }


def _unrecorded_settings(found: record.RunRecord, *, is_file: bool) -> tuple[str, ...]:
    """Settings in which runs may differ although they look the same."""
    params = [f"agent.params.{name}" for name in found.unrecorded]
    if found.environment is None:
        environment = [] if is_file else ["environment"]
    else:
        own = found.environment.get("unrecorded", {})
        environment = [f"environment.{name}" for name, value in own.items() if value is None]
    memory = ["agent.memory"] if found.memory is None and not is_file else []
    code = [
        f"{name} in the code of {part}" for part, one in (found.code or {}).items() for name in one.get("unknown", ())
    ]
    if found.model_fn is None and not found.code:
        code.append("agent.model_fn")
    return (*params, *environment, *memory, *code)
