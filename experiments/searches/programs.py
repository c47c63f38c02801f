"""Which trials share a program: those whose experiments differ in nothing that a model function sees."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ..language.schema import Experiment
from .folder import PROGRAMS, Search, trial_experiment

NOT_SEEN: Final = {
    *("name", "description", "seed", "seeds", "params", "learn", "train", "evaluate", "hooks", "tracker", "submit"),
    "matrix",
}
"""What a model function does not see."""


def key(experiment: Experiment) -> str:
    """Equal where the program is."""
    values = experiment.model_dump(exclude=NOT_SEEN)
    if isinstance(memory := values["agent"]["memory"], dict):
        memory.pop("size", None)
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Sharing:
    """Tells which program a trial takes.

    Args:
        search: whose trials.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._keys: dict[int, str] = {}

    def of(self, trials: Sequence[int]) -> dict[int, str]:
        """The name of each trial's program; empty where nothing else needs it, and compiling it would be for nothing.

        Raises:
            ExperimentError: the values of a point do not make a valid experiment.
        """
        search = self._search
        for trial in trials:
            point = search.point_of(trial)
            if point not in self._keys:
                self._keys[point] = key(trial_experiment(search.folder, search.points[point], 0)[0])
        users = Counter(self._keys.values())
        found = {trial: self._keys[search.point_of(trial)] for trial in trials}
        return {trial: name if self._is_shared(name, users) else "" for trial, name in found.items()}

    def _is_shared(self, name: str, users: Counter[str]) -> bool:
        if (self._search.folder / PROGRAMS / name).exists():
            return True
        return users[name] * len(self._search.seeds) > 1
