"""The metrics of trials: which names there are, and what a trial has of one.

Most names are known before the first trial. Those of one family may depend on the model function or on a hook: whether
there is such a metric is known once a trial has others of its family.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from ... import registry
from ..language.schema import Experiment
from ..seeds.group import FINISHED, Outcome
from ..tracking.journal import TrackedRun

RETURN: Final = "return"
"""The metric where none is named: the mean of the final evaluation, else that of the last 100 episodes."""
FINAL: Final = "final_episode_"
RESULTS: Final = ("episodes", "timesteps", "updates", "seconds", "timesteps_per_second")
_EVALUATED: Final = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
_ROLLOUT: Final = ("return", "length", "return_mean", "length_mean", "exploration_rate")
_TIME: Final = (
    *("timesteps_per_second", "updates_per_second", "environment_share", "acting_share", "learning_share"),
    "episodes",
)


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A metric that a trial does not have.

    Args:
        name: of the metric.
        trial: its number.
        found: those that it has, the most similar name first.
    """

    name: str
    trial: int
    found: list[str]

    def __str__(self) -> str:
        return f"trial {self.trial} has no metric {self.name!r}. It has {', '.join(self.found)}"


def compared(matrix: Mapping[str, Any]) -> str:
    """The name of the metric that a valid matrix compares."""
    return str(matrix["metric"]["name"]) if matrix.get("metric") else RETURN


def names(experiment: Experiment) -> list[str]:
    """The metrics of its trials whose names are known."""
    final = [] if experiment.evaluate is None else [f"{FINAL}{name}" for name in _EVALUATED]
    evaluated = [f"eval/{name}" for name in _EVALUATED] if "eval/" in families(experiment) else []
    rollout, time = [f"rollout/{name}" for name in _ROLLOUT], [f"time/{name}" for name in _TIME]
    return [RETURN, *final, *rollout, *evaluated, "train/loss", "train/updates", *RESULTS, *time]


def families(experiment: Experiment) -> list[str]:
    """The first parts of names that only a trial shows."""
    own = registry.BUILT_IN["hook"]
    evaluates = any(hook.kind == "evaluation" or hook.kind not in own for hook in experiment.hooks)
    cluster = experiment.distributed is not None
    return ["train/", *(["eval/"] if evaluates else []), *(["distributed/"] if cluster else [])]


def may_be(name: str, experiment: Experiment) -> bool:
    """Can a trial have a metric of this name?"""
    return name in names(experiment) or any(name.startswith(family) for family in families(experiment))


def unknown(name: str, trial: int, found: Collection[str]) -> Unknown | None:
    """Tell that a trial has not this metric, but others of its family; None where it has it, or nothing is known."""
    family, slash, _ = name.partition("/")
    if not slash or name in found or not any(one.startswith(f"{family}/") for one in found):
        return None
    ordered = sorted(found, key=lambda one: (-difflib.SequenceMatcher(None, name, one).ratio(), one))
    return Unknown(name, trial, ordered)


def read(folder: Path) -> TrackedRun:
    """The journal of a trial; empty where there is none."""
    run = TrackedRun(folder)
    with contextlib.suppress(OSError):
        run.read()
    return run


def measured(name: str, outcome: Outcome, folder: Path) -> float | None:
    """What a trial that has ended has of a metric: among its results, else the last value in its journal.

    One that was stopped has no final evaluation. In its place are its last evaluation during training, or else its last
    100 episodes.
    """
    is_finished = outcome.status == FINISHED
    if name == RETURN and is_finished:
        return outcome.episode_return
    known = _results(outcome)
    if name in known:
        return known[name]
    run = read(folder)
    last = {point.name: point.value for point in run.points}
    if is_finished:
        return last.get(name, run.outputs.get(name))
    if name == RETURN or name.startswith(FINAL):
        what = "return_mean" if name == RETURN else name.removeprefix(FINAL)
        found = last.get(f"eval/{what}", last.get(f"rollout/{what}"))
        return outcome.episode_return if found is None and name == RETURN else found
    return last.get(name)


def _results(outcome: Outcome) -> Mapping[str, float]:
    own = {name: getattr(outcome, name, None) for name in RESULTS}
    evaluation = {f"final_{name}": value for name, value in (outcome.evaluation or {}).items()}
    return {name: float(value) for name, value in {**own, **evaluation}.items() if value is not None}
