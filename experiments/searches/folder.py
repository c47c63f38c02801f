"""The folder of a search: its files, and what is known of each trial.

==========================  ==========================================================================================
in the folder               what it is
==========================  ==========================================================================================
``search.yml``              the experiment with its matrix, as it was written, with the values of ``-P``
``search.json``             the points, and status and results of each trial; written anew whenever one ends
``trial-<n>/``              a run folder like any other
``output/trial-<n>.txt``    what the trial logged
``programs/``               programs that several trials share
==========================  ==========================================================================================

A trial is a point with one of the seeds: with 5 seeds, the trials of point 2 are 10 to 14.
"""

from __future__ import annotations

import dataclasses
import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core import fields
from ...core.checks import flag
from ...run_dir.files import make_folders, replacing, write_file, write_json_atomically
from ...run_dir.generators import draw_seed
from ..config.files import Document, show
from ..config.schema import ExperimentFile, load
from ..config.seeds import listed
from ..config.values import flat
from ..config.yaml_writer import to_yaml
from ..errors import RunFolderError
from ..polyaxon.metrics import compared
from ..running import folder as records
from ..seeds.group import FINISHED, IDENTITY, OUTCOME, Outcome
from .metrics import measured
from .space import Point, as_text
from .strategies import Batch, Next

EXPERIMENT: Final = records.SEARCH
RESULTS: Final = "search.json"
PROGRAMS: Final = "programs"
OUTPUT: Final = "output"
TRIAL: Final = "trial"
"""What the names of run folders begin with."""
EARLY: Final = "stopped early"
"""The status of a trial that a rule of early stopping has ended: it counts, and does not continue."""
COUNT: Final = (FINISHED, EARLY)
"""Statuses of trials that count."""
MAY_CHANGE: Final = ("tracker", "submit", "description", "matrix.metric", "matrix.earlyStopping")
"""What may change when a search is resumed: no trial that has finished would be another one."""


_FIELDS: Final = fields.fields(
    {
        "group": IDENTITY,
        "seeds": fields.listed(fields.whole()),
        "seed": fields.whole(),
        "ended": fields.text,
        "failed": flag,
        "points": fields.listed(fields.mapping),
        "batches": fields.listed(
            fields.fields(
                {"points": fields.listed(fields.whole())}, dict.fromkeys(("iteration", "bracket"), fields.whole())
            )
        ),
        "trials": fields.each(
            fields.fields({"status": fields.text}, {**OUTCOME, "metric": fields.optional(fields.number)})
        ),
    }
)
"""What ``RESULTS`` holds."""


@dataclasses.dataclass(frozen=True)
class TrialOutcome(Outcome):
    """What became of a trial. ``metric`` is what is compared."""

    metric: float | None = None


class Search:
    """A search and its trials.

    Args:
        folder: of the search.
        identity: 32 hexadecimal digits, the same for all of them.
        seeds: each point is run with all of them.
        seed: of draws.
    """

    def __init__(self, folder: Path, identity: str, seeds: Sequence[int], seed: int) -> None:
        self.folder, self.identity, self.seeds, self.seed = folder, identity, list(seeds), seed
        self.name = ""
        self.points: list[Point] = []
        self.batches: list[Batch] = []
        self.outcomes: dict[int, Outcome] = {}
        self.ended = ""
        """Why it ended before its last trial; empty if it did not."""
        self.failed = False
        """Did it end because too much failed?"""

    def run_folder(self, trial: int) -> Path:
        """The run folder of a trial."""
        return self.folder / f"{TRIAL}-{trial}"

    def output(self, trial: int) -> Path:
        """What a trial logged."""
        return self.folder / OUTPUT / f"{TRIAL}-{trial}.txt"

    def trials(self, points: Iterable[int]) -> list[int]:
        """The numbers of these points' trials."""
        many = len(self.seeds)
        return [point * many + index for point in points for index in range(many)]

    def point_of(self, trial: int) -> int:
        """The number of its point."""
        return trial // len(self.seeds)

    def seed_of(self, trial: int) -> int:
        """Its seed."""
        return self.seeds[trial % len(self.seeds)]

    def unfinished(self) -> list[int]:
        """The trials that are to be run."""
        return [one for one, outcome in self.outcomes.items() if outcome.status not in COUNT]

    def reached(self, point: int) -> dict[int, float]:
        """The metric of each of its trials that counts and has one."""
        outcomes = {trial: self.outcomes[trial] for trial in self.trials([point])}
        found = {trial: getattr(one, "metric", None) for trial, one in outcomes.items() if one.status in COUNT}
        return {trial: value for trial, value in found.items() if value is not None and math.isfinite(value)}

    def metric(self, point: int) -> float | None:
        """The mean of what its trials reached; None where none has reached anything."""
        known = self.reached(point).values()
        return math.fsum(known) / len(known) if known else None

    def metrics(self) -> dict[int, float]:
        """Those of all points that have one."""
        found = {point: self.metric(point) for point in range(len(self.points))}
        return {point: value for point, value in found.items() if value is not None}

    def measure(self, name: str) -> None:
        """Compare another metric from now on, of trials that have ended too."""
        for trial, outcome in self.outcomes.items():
            if isinstance(outcome, TrialOutcome) and outcome.status in COUNT:
                value = measured(name, outcome, self.run_folder(trial))
                self.outcomes[trial] = dataclasses.replace(outcome, metric=value)

    def add(self, wanted: Next) -> None:
        """Add a batch; points that continue wait again, with their new values."""
        numbers = list(wanted.resumed)
        if numbers:
            for number, point in zip(numbers, wanted.points, strict=True):
                self.points[number] = dict(point)
        else:
            numbers = list(range(len(self.points), len(self.points) + len(wanted.points)))
            self.points += [dict(point) for point in wanted.points]
        self.batches.append(Batch(numbers, wanted.iteration, wanted.bracket))
        self.outcomes |= {trial: TrialOutcome() for trial in self.trials(numbers)}
        self.write()

    def done(self, trial: int, outcome: TrialOutcome) -> None:
        """Record what became of a trial."""
        self.outcomes[trial] = outcome
        self.write()

    def write(self) -> None:
        """Write ``search.json``."""
        value = {
            "group": {"name": self.name, "uuid": self.identity},
            **{name: getattr(self, name) for name in ("seeds", "seed", "ended", "failed", "points")},
            "batches": [dataclasses.asdict(one) for one in self.batches],
            "trials": {str(trial): dataclasses.asdict(one) for trial, one in self.outcomes.items()},
        }
        write_json_atomically(self.folder / RESULTS, value)


def prepare(folder: Path, experiment: ExperimentFile, document: Document, *, resume: bool) -> Search:
    """Create the folder, or check that its search may be resumed.

    Raises:
        RunFolderError: a new one and the folder is not empty; or a resumed one, and there is none or a different one.
        OSError: the folder cannot be written.
    """
    check_folder(folder, resume=resume)
    params = {name: param.model_dump() for name, param in experiment.params.items()}
    values = {"name": experiment.name, **document.values, "params": params}
    if resume:
        before = load(folder / EXPERIMENT)[1].values
        if "name" not in document.values:  # it is that of the file, which may have been renamed
            values["name"] = before["name"]
        changed = _changed(folder, before, values)
        search = _read(folder)
        if any(key.startswith("matrix.metric") for key in changed):
            search.measure(compared(experiment.matrix or {}))
        if any(key.startswith("matrix.earlyStopping") for key in changed):
            search.ended, search.failed = "", False
    else:
        search = _new(folder, experiment)
    search.name = values["name"]
    make_folders(folder / OUTPUT)
    with replacing(folder / EXPERIMENT) as temporary:
        write_file(temporary, [to_yaml(values).encode()])
    search.write()
    return search


def trial_experiment(folder: Path, point: Mapping[str, Any], seed: int) -> tuple[ExperimentFile, Document]:
    """The experiment of a trial; errors as for ``load``."""
    experiment, document = load(folder / EXPERIMENT, as_text(point))
    return experiment.model_copy(update={"seed": seed, "seeds": None, "matrix": None}), document


def refused_changes(folder: Path, first: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    """What keeps a trial from being resumed with other values: the keys that change, and may not, with both values.

    Args:
        folder: of the search.
        first: the trial's values, as far as they change.
        last: those that it is to be resumed with.

    Raises:
        ExperimentError: they do not make a valid experiment.
    """
    before, after = (trial_experiment(folder, point, 0)[0] for point in (first, last))
    return records.changes(before, after)


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to resume where no search is, and to start where something is; ``RunFolderError``."""
    if not resume:
        records.check_folder(folder, resume=False)
    elif not records.is_search(folder):
        what = f"Folder {folder} has no search to resume. Start a new one without --resume."
        raise RunFolderError(folder, what)


def _new(folder: Path, experiment: ExperimentFile) -> Search:
    first = experiment.seed
    if experiment.seeds is not None:
        seeds = listed(experiment.seeds, first)
    else:
        seeds = [draw_seed() if first is None else first]
    return Search(folder, uuid.uuid4().hex, seeds, seeds[0] % 2**31)


def _changed(folder: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys that have changed; ``RunFolderError`` where one of them may not."""
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
    path = folder / RESULTS
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        fields.check("", value, _FIELDS)
        search = Search(folder, value["group"]["uuid"], value["seeds"], value["seed"])
        search.points, search.ended, search.failed = value["points"], value["ended"], value["failed"]
        search.batches = [Batch(**one) for one in value["batches"]]
        search.outcomes = {int(trial): TrialOutcome(**found) for trial, found in value["trials"].items()}
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
