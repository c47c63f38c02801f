"""Runs that differ in their seeds: a matrix with one axis, and one compiled program."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core import fields
from ...run_dir.files import make_folders
from ..config.schema import ExperimentFile, load
from ..config.seeds import seed_list
from ..errors import ChangedExperimentError, ExperimentError, RunFolderError
from ..running import folder as records
from .runs import COMPILED, FINISHED, IDENTITY, OUTCOME, OUTPUT, Outcome, Runs, read_results

_LIMITS: Final = ("max_steps", "max_episodes", "max_timesteps")
_FIELDS: Final = fields.fields({"group": IDENTITY, "not_compiled": fields.text, "seeds": fields.each(OUTCOME)})


class Seeds(Runs):
    """The runs of an experiment with many seeds; each run's number is its seed.

    Args:
        folder: the folder of all of them.
        experiment: resolved, with ``seeds``.
        identity: 32 hexadecimal digits, the same for all of them.
        outcomes: the outcomes of the seeds that ended before.
        not_compiled: why there is no compiled program; empty if there is one, or can be.
        wanted: the seeds that this start runs.
    """

    noun, file, results = "seed", records.SEEDS, "seeds.json"

    def __init__(
        self,
        folder: Path,
        experiment: ExperimentFile,
        identity: str,
        outcomes: Mapping[int, Outcome],
        not_compiled: str,
        wanted: Sequence[int],
    ) -> None:
        super().__init__(folder, experiment.name, identity, seed_list(experiment.seeds or 1, experiment.seed))
        self.experiment, self.not_compiled, self.wanted = experiment, not_compiled, wanted
        self.outcomes = {seed: outcomes.get(seed, Outcome()) for seed in self.seeds}

    @property
    def compiled(self) -> Path:
        """The folder of the compiled program, if there is one."""
        return self.folder / COMPILED

    def programs(self) -> dict[int, list[str]]:
        """The program of each seed, relative to the folder."""
        return {seed: [] if self.not_compiled else [COMPILED] for seed in self.seeds}

    def unfinished(self) -> list[int]:
        """The wanted seeds that remain to be run: unfinished, or finished at a limit that has been raised since."""
        return [seed for seed in self.wanted if self.outcomes[seed].status != FINISHED or self._goes_on(seed)]

    def _goes_on(self, seed: int) -> bool:
        try:
            before, now = records.read_experiment(self.run_folder(seed)), self.experiment
        except (ExperimentError, OSError):  # the seed's process reports the error; a missing folder is created again
            return True
        larger = any(
            old is not None and (new is None or new > old)
            for one, other in ((before.train, now.train), (before.learn, now.learn))
            for old, new in ((getattr(one, name, None), getattr(other, name, None)) for name in _LIMITS)
        )
        trains = before.train is None and now.train is not None
        return larger or trains or before.evaluate != now.evaluate

    def record(self) -> Mapping[str, Any]:
        """Outcomes by seed, without a metric, as seeds are not compared."""
        found = {str(seed): dataclasses.asdict(outcome) for seed, outcome in self.outcomes.items()}
        for outcome in found.values():
            del outcome["metric"]
        return {"not_compiled": self.not_compiled, "seeds": found}


def prepare(folder: Path, experiment: ExperimentFile, *, resume: bool, only: bool = False) -> Seeds:
    """Create the folder, or check that its runs can be resumed; record the experiment in it.

    Args:
        folder: the folder of the runs.
        experiment: what to run; ``seeds`` may be missing only on resume.
        resume: continue unfinished runs. New seeds are added.
        only: leave the folder's other seeds as they are.

    Raises:
        RunFolderError: new runs, but the folder is not empty; or resumed ones, but there are none or different ones.
        OSError: the folder cannot be written.
    """
    identity, outcomes, not_compiled = uuid.uuid4().hex, dict[int, Outcome](), ""
    records.check_folder(folder, resume=resume, file=Seeds.file)
    seeds = given = seed_list(experiment.seeds, experiment.seed) if experiment.seeds is not None else []
    if resume:
        recorded = load(folder / Seeds.file)[0]
        if changed := records.changes(_without_seeds(recorded), _without_seeds(experiment)):
            raise ChangedExperimentError(folder, changed)
        before = seed_list(recorded.seeds or 1, recorded.seed)
        seeds = [*before, *(seed for seed in given if seed not in before)]
        identity, outcomes, not_compiled = _read(folder, identity)
    experiment = experiment.model_copy(update={"seeds": seeds})
    make_folders(folder / OUTPUT)
    records.write_experiment(folder / Seeds.file, experiment.model_dump())
    runs = Seeds(folder, experiment, identity, outcomes, not_compiled, given if only else seeds)
    runs.write()
    return runs


def _without_seeds(experiment: ExperimentFile) -> ExperimentFile:
    return experiment.model_copy(update={"seed": None, "seeds": None})


def _read(folder: Path, identity: str) -> tuple[str, dict[int, Outcome], str]:
    """Identity, outcomes and why not compiled, from ``seeds.json``, which is missing if a start was killed early."""
    path = folder / Seeds.results
    try:
        value = read_results(path, _FIELDS)
        outcomes = {int(seed): Outcome(**found) for seed, found in value["seeds"].items()}
    except FileNotFoundError:
        return identity, {}, ""
    except (OSError, ValueError) as error:
        what = f"{path} is damaged: {error}. Remove it: finished seeds are found again."
        raise RunFolderError(folder, what) from None
    return value["group"]["uuid"], outcomes, value["not_compiled"]
