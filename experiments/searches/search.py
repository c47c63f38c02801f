"""A search: the trials of a matrix.

A trial is a point with one of the seeds; with 5 seeds, the trials of point 2 are 10 to 14.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core import fields
from ...core.checks import flag
from ...core.yaml_text import flat, show
from ...run_dir.files import make_folders
from ...run_dir.generators import draw_seed
from ..config.files import Document
from ..config.schema import ExperimentFile, load
from ..config.seeds import seed_list
from ..errors import RunFolderError
from ..polyaxon.metrics import compared_metric
from ..running import folder as records
from .metrics import metric_of
from .runs import COUNT, IDENTITY, OUTCOME, OUTPUT, Outcome, Point, Runs, read_results, run_experiment
from .strategies import Batch, Next

MAY_CHANGE: Final = ("tracker", "submit", "description", "matrix.metric", "matrix.earlyStopping")
"""Keys that may change when a search is resumed, as they do not affect finished trials."""
_FIELDS: Final = fields.fields(
    {
        "group": IDENTITY,
        "seeds": fields.list_of(fields.integer()),
        "seed": fields.integer(),
        "ended": fields.text,
        "failed": flag,
        "points": fields.list_of(fields.mapping),
        "batches": fields.list_of(
            fields.fields(
                {"points": fields.list_of(fields.integer())}, dict.fromkeys(("iteration", "bracket"), fields.integer())
            )
        ),
        "trials": fields.each(OUTCOME),
    }
)


class Search(Runs):
    """A search and its trials.

    Args:
        folder: the folder of the search.
        identity: 32 hexadecimal digits, the same for all of them.
        seeds: each point is run with all of them.
        seed: the seed for drawing points.
    """

    noun, file, results = "trial", records.SEARCH, "search.json"

    def __init__(self, folder: Path, identity: str, seeds: Sequence[int], seed: int) -> None:
        super().__init__(folder, "", identity, seeds)
        self.seed = seed
        self.points: list[Point] = []
        self.batches: list[Batch] = []

    def trials(self, points: Iterable[int]) -> list[int]:
        """The numbers of these points' trials."""
        many = len(self.seeds)
        return [point * many + index for point in points for index in range(many)]

    def point_of(self, trial: int) -> int:
        """The number of its point."""
        return trial // len(self.seeds)

    def point(self, number: int) -> Point:
        """The values of a trial."""
        return self.points[self.point_of(number)]

    def seed_of(self, number: int) -> int:
        """The seed of a trial."""
        return self.seeds[number % len(self.seeds)]

    def about(self, number: int) -> str:
        """The values, and the seed where there are several."""
        parts = [
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.point(number).items()
        ]
        seed = [f"seed {self.seed_of(number)}"] if len(self.seeds) > 1 else []
        return ", ".join([*parts, *seed])

    def metrics_of(self, point: int) -> dict[int, float]:
        """The metrics of a point's trials that count and have one."""
        outcomes = {trial: self.outcomes[trial] for trial in self.trials([point])}
        found = {trial: one.metric for trial, one in outcomes.items() if one.status in COUNT}
        return {trial: value for trial, value in found.items() if value is not None and math.isfinite(value)}

    def metric(self, point: int) -> float | None:
        """The mean metric of a point's trials; None if no trial has one."""
        known = self.metrics_of(point).values()
        return math.fsum(known) / len(known) if known else None

    def metrics(self) -> dict[int, float]:
        """The metric of each point that has one."""
        found = {point: self.metric(point) for point in range(len(self.points))}
        return {point: value for point, value in found.items() if value is not None}

    def measure(self, name: str) -> None:
        """Change the metric to compare, also for trials that have ended."""
        for trial, outcome in self.outcomes.items():
            if outcome.status in COUNT:
                value = metric_of(name, outcome, self.run_folder(trial))
                self.outcomes[trial] = dataclasses.replace(outcome, metric=value)

    def add(self, wanted: Next) -> None:
        """Add a batch; points that continue become pending again, with their new values."""
        numbers = list(wanted.resumed)
        if numbers:
            for number, point in zip(numbers, wanted.points, strict=True):
                self.points[number] = dict(point)
        else:
            numbers = list(range(len(self.points), len(self.points) + len(wanted.points)))
            self.points += [dict(point) for point in wanted.points]
        self.batches.append(Batch(numbers, wanted.iteration, wanted.bracket))
        self.outcomes |= {trial: Outcome() for trial in self.trials(numbers)}
        self.write()

    def record(self) -> Mapping[str, Any]:
        """Points, batches, and outcomes by trial."""
        return {
            **{name: getattr(self, name) for name in ("seeds", "seed", "ended", "failed", "points")},
            "batches": [dataclasses.asdict(one) for one in self.batches],
            "trials": {str(trial): dataclasses.asdict(one) for trial, one in self.outcomes.items()},
        }


def prepare(folder: Path, experiment: ExperimentFile, document: Document, *, resume: bool) -> Search:
    """Create the folder, or check that its search can be resumed.

    Raises:
        RunFolderError: a new search, but the folder is not empty; or a resumed one, but there is none or a different
            one.
        OSError: the folder cannot be written.
    """
    records.check_folder(folder, resume=resume, file=Search.file)
    params = {name: param.model_dump() for name, param in experiment.params.items()}
    values = {"name": experiment.name, **document.values, "params": params}
    if resume:
        before = load(folder / Search.file)[1].values
        if "name" not in document.values:  # it is the name of the file, which may have changed
            values["name"] = before["name"]
        changed = _changed_keys(folder, before, values)
        search = _read(folder)
        if any(key.startswith("matrix.metric") for key in changed):
            search.measure(compared_metric(experiment.matrix or {}))
        if any(key.startswith("matrix.earlyStopping") for key in changed):
            search.ended, search.failed = "", False
    else:
        search = _new(folder, experiment)
    search.name = values["name"]
    make_folders(folder / OUTPUT)
    records.write_experiment(folder / Search.file, values)
    search.write()
    return search


def refused_changes(folder: Path, first: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    """The keys that prevent a trial from being resumed with other values, each with both values.

    Args:
        folder: the folder of the search.
        first: the trial's values that change.
        last: the values with which it would be resumed.

    Raises:
        ExperimentError: they do not make a valid experiment.
    """
    before, after = (run_experiment(folder / Search.file, point, 0)[0] for point in (first, last))
    return records.changes(before, after)


def _new(folder: Path, experiment: ExperimentFile) -> Search:
    first = experiment.seed
    if experiment.seeds is not None:
        seeds = seed_list(experiment.seeds, first)
    else:
        seeds = [draw_seed() if first is None else first]
    return Search(folder, uuid.uuid4().hex, seeds, seeds[0] % 2**31)


def _changed_keys(folder: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys that have changed; ``RunFolderError`` if one of them must not change."""
    old, new = dict(flat(before)), dict(flat(after))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    refused = [key for key in changed if not any(key == one or key.startswith(f"{one}.") for one in MAY_CHANGE)]
    if refused:
        told = ", ".join(f"{key} ({show(old.get(key))} -> {show(new.get(key))})" for key in refused)
        what = (
            f"The search in {folder} cannot be resumed with a changed experiment: {told}."
            f" Only {', '.join(MAY_CHANGE)} may change. Use --model-dir for a new search."
        )
        raise RunFolderError(folder, what)
    return changed


def _read(folder: Path) -> Search:
    path = folder / Search.results
    try:
        value = read_results(path, _FIELDS)
        search = Search(folder, value["group"]["uuid"], value["seeds"], value["seed"])
        search.points, search.ended, search.failed = value["points"], value["ended"], value["failed"]
        search.batches = [Batch(**one) for one in value["batches"]]
        search.outcomes = {int(trial): Outcome(**found) for trial, found in value["trials"].items()}
        expected = search.trials(range(len(search.points)))
        if sorted(search.outcomes) != expected:
            raise ValueError(f"{len(expected)} trials were expected, got {len(search.outcomes)}")
    except FileNotFoundError:
        what = f"{path} is missing, so the search cannot be resumed. Use --model-dir for a new search."
        raise RunFolderError(folder, what) from None
    except (OSError, ValueError) as error:
        what = (
            f"{path} is damaged, so the search cannot be resumed: {error}. Restore the file, or use --model-dir for a"
            " new search."
        )
        raise RunFolderError(folder, what) from None
    return search
