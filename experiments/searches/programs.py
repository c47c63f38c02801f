"""Programs that trials share, because their experiments do not differ in anything that changes the program.

Two keys decide that. Trials with the same *own* key have the same program. Trials of one *family* differ only in
numbers among the model function's params: a program may leave these free (``policies/free_params.py``), which is known
once it is compiled. So the first trial of a family compiles its program, and the others check whether they can use it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core import registry
from ...core.errors import ArgumentError
from ...policies import free_params
from ..config.schema import ExperimentFile
from ..errors import ExperimentError
from .runs import run_experiment
from .search import Search

PROGRAMS: Final = "programs"
"""The folder of programs, in the folder of the search."""
NOT_SEEN: Final = {
    *("name", "description", "seed", "seeds", "params", "learn", "train", "evaluate", "hooks", "tracker", "submit"),
    "matrix",
}
"""Keys of an experiment that a model function does not see."""
ON_THE_HOST: Final = ("size", "discount")
"""Arguments of a memory that do not change the shapes of its batches; ``size`` does for a rollout."""


@dataclasses.dataclass(frozen=True)
class ProgramKeys:
    """The programs that a trial may use."""

    family: str = ""
    own: str = ""


def keys(experiment: ExperimentFile) -> ProgramKeys:
    """Both keys of an experiment."""
    values = experiment.model_dump(exclude=NOT_SEEN)
    memory = values["agent"]["memory"]
    if isinstance(memory, dict):
        memory |= dict.fromkeys(_open(memory), None)
    own = _digest(values)
    values["agent"]["params"] = free_params.family(values["agent"]["params"])
    return ProgramKeys(_digest([values, "family"]), own)


class Sharing:
    """Decides which program a trial uses.

    Args:
        search: the search with the trials.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._keys: dict[int, ProgramKeys] = {}

    def of(self, trials: Sequence[int]) -> dict[int, list[str]]:
        """The programs of each trial, within the folder of the search, if other trials need them too.

        A trial whose values make no valid experiment has none; the trial itself will report the error.
        """
        search = self._search
        for trial in trials:
            point = search.point_of(trial)
            if point not in self._keys:
                self._keys[point] = self._of_point(point)
        users = Counter(name for one in self._keys.values() for name in (one.family, one.own))
        found = {trial: self._keys[search.point_of(trial)] for trial in trials}
        return {
            trial: [
                f"{PROGRAMS}/{name}" for name in dict.fromkeys((one.family, one.own)) if self._is_shared(name, users)
            ]
            for trial, one in found.items()
        }

    def _of_point(self, point: int) -> ProgramKeys:
        try:
            return keys(run_experiment(self._search.folder / Search.file, self._search.points[point], 0)[0])
        except ExperimentError:
            return ProgramKeys()

    def _is_shared(self, name: str, users: Counter[str]) -> bool:
        """Does another trial need this program, or does it exist already? If not, compiling it would not pay."""
        there = (self._search.folder / PROGRAMS / name).exists()
        return bool(name) and (there or users[name] * len(self._search.seeds) > 1)


def _open(memory: Mapping[str, Any]) -> Sequence[str]:
    try:
        is_rollout = getattr(registry.find("memory", memory["kind"]), "is_rollout", False)
    except ArgumentError:  # the trial will report it
        return ()
    return ON_THE_HOST[1:] if is_rollout else ON_THE_HOST


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
