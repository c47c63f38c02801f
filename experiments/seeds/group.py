"""The folder of an experiment that is run with many seeds: its files, and what is known of each seed.

==========================  ==========================================================================================
in the folder               what it is
==========================  ==========================================================================================
``seeds.yml``               the resolved experiment, with all of its seeds
``seeds.json``              status and results of each seed, written anew whenever a seed ends
``compiled/``               the training program, without which each seed's process would need TensorFlow
``seed-<n>/``               a run folder like any other
``output/seed-<n>.txt``     what the seed's process logged
``learning_curves.png``     all learning curves and their mean; ``.svg`` is beside it
==========================  ==========================================================================================
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...core import fields
from ...run_dir.files import make_folders, replacing, write_file, write_json_atomically
from ..config.schema import ExperimentFile, load
from ..config.seeds import listed
from ..config.yaml_writer import to_yaml
from ..errors import ChangedExperimentError, ExperimentError, RunFolderError
from ..running import folder as records

EXPERIMENT: Final = records.MANY
RESULTS: Final = "seeds.json"
COMPILED: Final = "compiled"
OUTPUT: Final = "output"
FINISHED, STOPPED, FAILED, KILLED, WAITING = "finished", "stopped", "failed", "killed", "waiting"
"""How a seed ended, or that it has not."""
_STATUSES: Final = (FINISHED, STOPPED, FAILED, KILLED, WAITING)
_LIMITS: Final = ("max_steps", "max_episodes", "max_timesteps")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a seed.

    ``episode_return`` is the mean of the final evaluation, where the experiment has one, else that of the last 100
    episodes of training. ``seconds`` are those of training since the seed was started or resumed the last time.
    ``message`` says why it did not finish.
    """

    status: str = WAITING
    episodes: int | None = None
    timesteps: int | None = None
    updates: int | None = None
    seconds: float | None = None
    episode_return: float | None = None
    evaluation: Mapping[str, float] | None = None
    message: str = ""


OUTCOME: Final[Mapping[str, fields.Kind]] = {
    **dict.fromkeys(("episodes", "timesteps", "updates"), fields.optional(fields.whole())),
    **dict.fromkeys(("seconds", "episode_return"), fields.optional(fields.number)),
    "evaluation": fields.optional(fields.each(fields.number)),
    "message": fields.text,
}
"""The fields of an outcome in a file, but for its status."""
IDENTITY: Final = fields.fields({"uuid": fields.text}, {"name": fields.text})
"""Of the group that runs are tracked as."""
_FIELDS: Final = fields.fields(
    {
        "group": IDENTITY,
        "not_compiled": fields.text,
        "seeds": fields.each(fields.fields({"status": fields.one_of(*_STATUSES)}, OUTCOME)),
    }
)
"""What ``RESULTS`` holds."""


class Group:
    """The runs of one experiment.

    Args:
        folder: theirs.
        experiment: resolved, with ``seeds``.
        identity: 32 hexadecimal digits, the same for all of them.
        outcomes: of the seeds that ended before.
        not_compiled: why there is no compiled program; empty if there is one, or may be.
    """

    def __init__(
        self,
        folder: Path,
        experiment: ExperimentFile,
        identity: str,
        outcomes: Mapping[int, Outcome],
        not_compiled: str = "",
    ) -> None:
        self.folder, self.experiment, self.identity = folder, experiment, identity
        self.seeds = listed(experiment.seeds or 1, experiment.seed)
        self.outcomes = {seed: outcomes.get(seed, Outcome()) for seed in self.seeds}
        self.not_compiled = not_compiled

    @property
    def compiled(self) -> Path:
        """Where the compiled program is, if there is one."""
        return self.folder / COMPILED

    def run_folder(self, seed: int) -> Path:
        """The run folder of a seed."""
        return self.folder / f"seed-{seed}"

    def output(self, seed: int) -> Path:
        """What the process of a seed logged."""
        return self.folder / OUTPUT / f"seed-{seed}.txt"

    def unfinished(self) -> list[int]:
        """The seeds that are to be run: not finished, or only up to a limit that has been raised."""
        return [seed for seed in self.seeds if self.outcomes[seed].status != FINISHED or self._goes_on(seed)]

    def _goes_on(self, seed: int) -> bool:
        try:
            before, now = records.read_experiment(self.run_folder(seed)), self.experiment
        except (ExperimentError, OSError):  # the seed's process says what is wrong; a folder that is gone is made anew
            return True
        larger = any(
            old is not None and (new is None or new > old)
            for one, other in ((before.train, now.train), (before.learn, now.learn))
            for old, new in ((getattr(one, name, None), getattr(other, name, None)) for name in _LIMITS)
        )
        trains = before.train is None and now.train is not None
        return larger or trains or before.evaluate != now.evaluate

    def ended(self, seed: int, outcome: Outcome) -> None:
        """Record what became of a seed."""
        self.outcomes[seed] = outcome
        self.write()

    def write(self) -> None:
        """Write ``seeds.json``."""
        found = {str(seed): dataclasses.asdict(outcome) for seed, outcome in self.outcomes.items()}
        value = {"group": {"name": self.experiment.name, "uuid": self.identity}, "not_compiled": self.not_compiled}
        write_json_atomically(self.folder / RESULTS, {**value, "seeds": found})


def is_group(folder: Path) -> bool:
    """Is it the folder of many seeds?"""
    return records.is_of_many(folder)


def prepare(folder: Path, experiment: ExperimentFile, *, resume: bool) -> Group:
    """Create the folder, or check that its runs may be resumed; record the experiment in it.

    Args:
        folder: of the runs.
        experiment: what to run; without ``seeds`` only where it is resumed.
        resume: continue those that have not finished. Seeds that are new are added.

    Raises:
        RunFolderError: a new one and the folder is not empty; or a resumed one, and there is none or a different one.
        OSError: the folder cannot be written.
    """
    identity, outcomes, not_compiled = uuid.uuid4().hex, dict[int, Outcome](), ""
    check_folder(folder, resume=resume)
    seeds = listed(experiment.seeds, experiment.seed) if experiment.seeds is not None else []
    if resume:
        recorded = load(folder / EXPERIMENT)[0]
        if changed := records.changes(_without_seeds(recorded), _without_seeds(experiment)):
            raise ChangedExperimentError(folder, changed)
        before = listed(recorded.seeds or 1, recorded.seed)
        seeds = [*before, *(seed for seed in seeds if seed not in before)]
        identity, outcomes, not_compiled = _read(folder, identity)
    experiment = experiment.model_copy(update={"seeds": seeds})
    make_folders(folder / OUTPUT)
    with replacing(folder / EXPERIMENT) as temporary:
        write_file(temporary, [to_yaml(experiment.model_dump()).encode()])
    group = Group(folder, experiment, identity, outcomes, not_compiled)
    group.write()
    return group


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to resume where no runs are, and to start where something is; ``RunFolderError``."""
    if not resume:
        records.check_folder(folder, resume=False)
    elif not is_group(folder):
        what = f"Folder {folder} has no runs of many seeds to resume. Start new ones without --resume."
        if (folder / records.EXPERIMENT).is_file():
            what = f"Folder {folder} has a single run. Use --resume without seeds to continue it."
        raise RunFolderError(folder, what)


def run_of(experiment: ExperimentFile, seed: int) -> ExperimentFile:
    """The experiment of one seed."""
    return experiment.model_copy(update={"seed": seed, "seeds": None})


def _without_seeds(experiment: ExperimentFile) -> ExperimentFile:
    return experiment.model_copy(update={"seed": None, "seeds": None})


def _read(folder: Path, identity: str) -> tuple[str, dict[int, Outcome], str]:
    """Identity, outcomes and why not compiled, as ``seeds.json`` has them; a start may have been killed before it."""
    path = folder / RESULTS
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        fields.check("", value, _FIELDS)
        outcomes = {int(seed): Outcome(**found) for seed, found in value["seeds"].items()}
    except FileNotFoundError:
        return identity, {}, ""
    except (OSError, ValueError) as error:
        what = f"{path} is damaged: {error}. Remove it: finished seeds are found again."
        raise RunFolderError(folder, what) from None
    return value["group"]["uuid"], outcomes, value["not_compiled"]
