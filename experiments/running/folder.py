"""The records of an experiment's run: the resolved experiment, and one entry for each start.

The Agent keeps its checkpoints, weights and ``run.json`` in the same folder; this module does not touch them.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import itertools
import json
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...runs.files import make_folders, replacing, write_file, write_json_atomically
from ...runs.provenance import provenance
from ...runs.seeding import draw_seed
from ..errors import ChangedExperimentError, ExperimentError, RunFolderError
from ..language.files import show
from ..language.schema import Experiment, load
from ..language.values import flat
from ..language.writing import to_yaml

EXPERIMENT: Final = "experiment.yml"
"""The resolved experiment: with every param, every default and the seed. It can be run again unchanged."""
RECORD: Final = "record.json"
"""One entry for each start of the run: when, by which command, on which system."""
MAY_CHANGE: Final = (
    "train.max_steps",
    "train.max_episodes",
    "train.max_timesteps",
    "evaluate",
    "tracker",
    "submit",
    "params",
)
"""What may change when a run is resumed. Params are compared where they are used."""


def prepare(folder: Path, experiment: Experiment, *, resume: bool) -> Experiment:
    """Create the folder of a new run, or check that a run may be resumed; record the resolved experiment in it.

    Args:
        folder: the run folder.
        experiment: what to run.
        resume: continue the existing run instead of starting a new one.

    Returns:
        The experiment with its seed: given, recorded, or drawn now.

    Raises:
        RunFolderError: a new run and the folder is not empty; or a resumed run, and there is none or a different one.
        OSError: the folder cannot be written.
    """
    check_folder(folder, resume=resume)
    if resume:
        experiment = _continued(folder, experiment)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": draw_seed()})
    make_folders(folder)
    with replacing(folder / EXPERIMENT) as temporary:
        write_file(temporary, [to_yaml(experiment.model_dump()).encode()])
    return experiment


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to resume where no run is, and to start a new run where something is; ``RunFolderError``."""
    is_run = (folder / EXPERIMENT).is_file()
    if resume:
        if not is_run:
            raise RunFolderError(folder, f"Folder {folder} has no run to resume. Start a new one without --resume.")
    elif is_run:
        what = f"Run folder {folder} already exists. Use --resume to continue it, or --model-dir for a new one."
        raise RunFolderError(folder, what)
    elif is_used(folder):
        what = f"Folder {folder} exists and is not a run folder. Use --model-dir for another one."
        raise RunFolderError(folder, what)


def new_folder(runs: Path, name: str) -> Path:
    """Create the folder of a new run: ``runs/name``, or the first of ``name-2``, ``name-3``, ... that is not used.

    Two processes at the same time get two folders.
    """
    make_folders(runs)
    while True:
        folder = next_folder(runs, name)
        with contextlib.suppress(FileExistsError):  # another process was faster
            folder.mkdir()
            return folder


def next_folder(runs: Path, name: str) -> Path:
    """The folder that :func:`new_folder` would create now."""
    return next(folder for number in itertools.count(1) if not (folder := _numbered(runs, name, number)).exists())


def newest_folder(runs: Path, name: str) -> Path:
    """The folder of the newest run of this name; ``runs/name`` if there is none."""
    numbers = [1]
    for path in runs.glob(f"{glob.escape(name)}-*"):
        number = path.name.removeprefix(f"{name}-")
        if number.isdecimal() and int(number) > 1 and (path / EXPERIMENT).is_file():
            numbers.append(int(number))
    return _numbered(runs, name, max(numbers))


def _numbered(runs: Path, name: str, number: int) -> Path:
    return runs / (name if number == 1 else f"{name}-{number}")


def discard(folder: Path) -> None:
    """Remove the folder of a run that learned nothing; of a link to a folder, the contents."""
    if not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_used(folder: Path) -> bool:
    """Is there anything in the folder? Leftovers of a killed writer (``.*.tmp``) do not count."""
    if not folder.is_dir():
        return folder.exists()
    return any(not (path.name.startswith(".") and path.name.endswith(".tmp")) for path in folder.iterdir())


def read_experiment(folder: Path) -> Experiment:
    """The experiment that is recorded in a run folder.

    Raises:
        ExperimentError: it is missing or damaged.
    """
    if not (folder / EXPERIMENT).is_file():
        if folder.is_dir():
            raise RunFolderError(folder, f"Folder {folder} is not a run folder: {EXPERIMENT} is missing.")
        what = "is a file, not a run folder" if folder.exists() else "does not exist"
        raise RunFolderError(folder, f"Folder {folder} {what}.")
    return load(folder / EXPERIMENT)[0]


def add_start(folder: Path, experiment: Experiment, file: Path, command: Sequence[str]) -> None:
    """Append an entry to the folder's record.

    Args:
        folder: the run folder.
        experiment: with its seed.
        file: the experiment file as given.
        command: the command line, one item for each argument.
    """
    entry = {
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": list(command),
        "file": str(file.absolute()),
        "seed": experiment.seed,
        "git_commit": git_commit(file.absolute().parent),
        "system": platform.platform(),
        "made_with": provenance(),
    }
    write_json_atomically(folder / RECORD, [*read_starts(folder), entry])


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """The entries of the folder's record, oldest first.

    Raises:
        ExperimentError: the record is damaged.
    """
    path = folder / RECORD
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise ExperimentError(str(path), f"cannot be read: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ExperimentError(str(path), "must be a list of mappings")
    return entries


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out where ``folder`` lies, with ``-dirty`` if files are changed."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, no repository, no commit
        return None
    return result.stdout.strip() or None


def changes(before: Experiment, after: Experiment) -> list[str]:
    """The keys in which two experiments differ, with both values, except those that may change."""
    old, new = dict(flat(before.model_dump())), dict(flat(after.model_dump()))
    keys = [key for key in {**old, **new} if _typed(old, key) != _typed(new, key)]
    kept = [key for key in keys if not any(key == name or key.startswith(f"{name}.") for name in MAY_CHANGE)]
    # Of a mapping that is empty on one side, only the entries on the other side are listed.
    told = [key for key in kept if not any(other.startswith(f"{key}.") for other in kept)]
    return [f"{key} ({_shown(old, key)} -> {_shown(new, key)})" for key in told]


def _typed(values: Mapping[str, Any], key: str) -> tuple[type, Any] | None:
    """A value with its type: true is not 1."""
    return (type(values[key]), values[key]) if key in values else None


def _shown(values: Mapping[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"


def _continued(folder: Path, experiment: Experiment) -> Experiment:
    recorded = read_experiment(folder)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": recorded.seed})
    if changed := changes(recorded, experiment):
        raise ChangedExperimentError(folder, changed)
    return experiment
