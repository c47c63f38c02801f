"""The evaluation with which a run ended, as the journal of ``axonrl run`` has it among the run's results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

JOURNAL: Final = "journal.jsonl"
SUCCEEDED: Final = "succeeded"
_EXPERIMENT: Final = "experiment.yml"
_PREFIX: Final = "final_"
_TAIL: Final = 1 << 16
"""Bytes at the end of a journal in which its last entries are looked for."""


class FinalEvaluation(NamedTuple):
    """``timesteps`` and ``updates`` are the run's when it ended."""

    folder: Path
    """The run's."""
    timesteps: int
    updates: int
    results: Mapping[str, Any]
    """As ``Agent.evaluate`` returned them."""

    @property
    def episodes(self) -> int:
        """How many it had."""
        return int(self.results["episodes"])

    @property
    def mean(self) -> float:
        """Of their returns."""
        return float(self.results["episode_return_mean"])

    def is_of(self, policy: str, timesteps: int, updates: int) -> bool:
        """Is it that of the policy of this name, which was the run's after so many timesteps and updates?"""
        evaluated = _evaluated(self.folder)
        if evaluated == "last":  # whatever it is called: a checkpoint's number, or "best" where the last was best
            return (timesteps, updates) == (self.timesteps, self.updates)
        return policy == evaluated


def final_evaluation(folder: Path) -> FinalEvaluation | None:
    """The evaluation with which the run in a folder ended; None if there was none, or training went on since."""
    try:
        for entry in last_entries(folder):
            if entry.get("status", SUCCEEDED) != SUCCEEDED or "metrics" in entry or "cut" in entry:
                return None
            if "outputs" in entry:
                return _of(folder, entry["outputs"])
    except (OSError, KeyError, TypeError, ValueError):  # no journal, or no such results in it
        pass
    return None


def last_entries(folder: Path) -> Iterator[dict[str, Any]]:
    """The last entries of a run's journal, the newest first; lines that a kill has cut short are left out.

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


def _evaluated(folder: Path) -> str:
    """Which policy is evaluated at the end, as the run's experiment says."""
    import yaml

    try:
        experiment = yaml.safe_load((folder / _EXPERIMENT).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return "last"
    evaluate = experiment.get("evaluate") if isinstance(experiment, dict) else None
    return str(evaluate.get("policy", "last")) if isinstance(evaluate, dict) else "last"
