"""The final evaluation of a run, from the results in the journal of ``axonrl run``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

JOURNAL: Final = "journal.jsonl"
SUCCEEDED: Final = "succeeded"
EXPERIMENT: Final = "experiment.yml"
"""The resolved experiment in a run folder, if the run was started from one."""
_PREFIX: Final = "final_"
_TAIL: Final = 1 << 16
"""Bytes at the end of a journal that are searched for its last entries."""


class FinalEvaluation(NamedTuple):
    """A run's last evaluation; ``timesteps`` and ``updates`` are the run's at its end."""

    folder: Path
    """The run's results."""
    timesteps: int
    updates: int
    results: Mapping[str, Any]
    """Results of ``Agent.evaluate``."""

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return int(self.results["episodes"])

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.results["episode_return_mean"])

    def is_of(self, policy: str, timesteps: int, updates: int) -> bool:
        """Does it evaluate, greedily, the policy of this name, saved after this many timesteps and updates?"""
        evaluate = _evaluate(self.folder)
        if evaluate.get("explore"):
            return False
        evaluated = str(evaluate.get("policy", "last"))
        if evaluated == "last":  # also for a checkpoint's number, or "best" if the last policy was best
            return (timesteps, updates) == (self.timesteps, self.updates)
        return policy == evaluated


def final_evaluation(folder: Path) -> FinalEvaluation | None:
    """Read a run's final evaluation; None if there was none, or training has continued since."""
    try:
        for entry in last_entries(folder):
            if entry.get("status", SUCCEEDED) != SUCCEEDED or "metrics" in entry or "cut" in entry:
                return None
            if "outputs" in entry:
                return _of(folder, entry["outputs"])
    except (OSError, KeyError, TypeError, ValueError):  # no journal, or no such results
        pass
    return None


def last_entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the last entries of a run's journal, newest first, without lines cut short by a kill.

    Raises:
        OSError: there is no journal, or it cannot be read.
    """
    with (folder / JOURNAL).open("rb") as file:
        file.seek(-min(file.seek(0, os.SEEK_END), _TAIL), os.SEEK_END)
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _of(folder: Path, outputs: Mapping[str, Any]) -> FinalEvaluation | None:
    results = {name.removeprefix(_PREFIX): value for name, value in outputs.items() if name.startswith(_PREFIX)}
    if not results:
        return None
    found = FinalEvaluation(folder, int(outputs["timesteps"]), int(outputs["updates"]), results)
    return found if found.episodes and math.isfinite(found.mean) else None


def _evaluate(folder: Path) -> Mapping[str, Any]:
    """The section on the evaluation at the end, from the run's experiment."""
    import yaml

    try:
        experiment = yaml.safe_load((folder / EXPERIMENT).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    evaluate = experiment.get("evaluate") if isinstance(experiment, dict) else None
    return evaluate if isinstance(evaluate, dict) else {}
