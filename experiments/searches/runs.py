"""Many runs of one experiment in one folder: the files, and the outcome of each run.

=============================  =======================================================================================
in the folder                  what it is
=============================  =======================================================================================
``seeds.yml``, ``search.yml``  the experiment: with all of its seeds, or with its matrix
``seeds.json``, ...            status and results of each run, rewritten whenever one ends
``seed-<n>/``, ``trial-<n>/``  a run folder like any other
``output/seed-<n>.txt``, ...   what a run logged
``output/workers.txt``         what worker processes logged before their first run
``compiled/``                  the training program of all seeds
``programs/``                  programs that several trials share
``study.db``                   the study of a search by Optuna
``pareto.png``                 its points by several objectives; ``.svg`` is beside it
``learning_curves.png``        the learning curves of all seeds and their mean; ``.svg`` is beside it
=============================  =======================================================================================
"""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from ...core import fields
from ...run_dir.files import write_json_atomically
from ..config.files import Document
from ..config.schema import ExperimentFile, load

OUTPUT: Final = "output"
COMPILED: Final = "compiled"
FINISHED, STOPPED, FAILED, KILLED, WAITING = "finished", "stopped", "failed", "killed", "waiting"
"""Statuses of runs."""
EARLY: Final = "stopped early"
"""The status of a trial that early stopping has ended: it counts, and is not continued."""
COUNT: Final = (FINISHED, EARLY)
"""Statuses of runs that count."""
FAILING: Final = (FAILED, KILLED)

Point: TypeAlias = dict[str, Any]
"""Names of params to their values."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    ``episode_return`` is the mean return of the final evaluation, if the experiment has one, else of the last 100
    training episodes. ``seconds`` are those of training since the run was last started or resumed. ``message`` says why
    it did not finish. ``metric`` is the value that a search compares.
    """

    status: str = WAITING
    episodes: int | None = None
    timesteps: int | None = None
    updates: int | None = None
    seconds: float | None = None
    episode_return: float | None = None
    evaluation: Mapping[str, float] | None = None
    message: str = ""
    metric: float | None = None


OUTCOME: Final = fields.fields(
    {"status": fields.one_of(FINISHED, STOPPED, FAILED, KILLED, WAITING, EARLY)},
    {
        **dict.fromkeys(("episodes", "timesteps", "updates"), fields.optional(fields.integer())),
        **dict.fromkeys(("seconds", "episode_return", "metric"), fields.optional(fields.number)),
        "evaluation": fields.optional(fields.each(fields.number)),
        "message": fields.text,
    },
)
"""Contents of an outcome in a file."""
IDENTITY: Final = fields.fields({"uuid": fields.text}, {"name": fields.text})
"""Contents of a tracking group in a file."""


class Runs(abc.ABC):
    """The runs of one experiment, by number.

    Args:
        folder: the folder of all of them.
        name: the name of the experiment.
        identity: 32 hexadecimal digits, the same for all of them.
        seeds: the seeds of all of them.
    """

    noun: ClassVar[str]
    """The noun for a run, with which the names of run folders begin."""
    file: ClassVar[str]
    """Name of the experiment file in the folder."""
    results: ClassVar[str]
    """Name of the file of outcomes in the folder."""

    def __init__(self, folder: Path, name: str, identity: str, seeds: Sequence[int]) -> None:
        self.folder, self.name, self.identity, self.seeds = folder, name, identity, list(seeds)
        self.outcomes: dict[int, Outcome] = {}
        self.ended = ""
        """Why the runs ended early; empty if they did not."""
        self.failed = False
        """Whether they ended because too many failed."""

    def point(self, number: int) -> Point:
        """The declared params in which a run differs."""
        return {}

    def seed_of(self, number: int) -> int:
        """The seed of a run."""
        return number

    def about(self, number: int) -> str:
        """A description that distinguishes a run; empty if its label does so already."""
        return ""

    @abc.abstractmethod
    def record(self) -> Mapping[str, Any]:
        """The content of the file of outcomes."""

    def label(self, number: int) -> str:
        """The label of a run, for people."""
        return f"{self.noun} {number}"

    def run_folder(self, number: int) -> Path:
        """The run folder of a run."""
        return self.folder / f"{self.noun}-{number}"

    def output(self, number: int) -> Path:
        """The file with the log of a run."""
        return self.folder / OUTPUT / f"{self.noun}-{number}.txt"

    def with_status(self, *statuses: str) -> list[int]:
        """The runs with one of these statuses."""
        return [number for number, outcome in self.outcomes.items() if outcome.status in statuses]

    def unfinished(self) -> list[int]:
        """The runs that remain to be run."""
        return self.with_status(STOPPED, FAILED, KILLED, WAITING)

    def done(self, number: int, outcome: Outcome) -> None:
        """Record the outcome of a run."""
        self.outcomes[number] = outcome
        self.write()

    def write(self) -> None:
        """Write the file of outcomes."""
        group = {"name": self.name, "uuid": self.identity}
        write_json_atomically(self.folder / self.results, {"group": group, **self.record()})


def read_results(path: Path, kind: fields.Kind) -> Any:
    """Read and check a file of outcomes; ``OSError``, ``ValueError``."""
    value: Any = json.loads(path.read_text(encoding="utf-8"))
    fields.check("", value, kind)
    return value


def run_experiment(path: Path, point: Mapping[str, Any], seed: int) -> tuple[ExperimentFile, Document]:
    """The experiment of one run; errors as for ``load``.

    Args:
        path: the experiment of all runs.
        point: the declared params of the run.
        seed: its seed.
    """
    experiment, document = load(path, as_text(point))
    return experiment.model_copy(update={"seed": seed, "seeds": None, "matrix": None}), document


def as_text(point: Mapping[str, Any]) -> dict[str, str]:
    """A point in the form of ``-P``."""
    return {name: value if isinstance(value, str) else repr(value).lower() for name, value in point.items()}
