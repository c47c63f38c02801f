"""The run folder's own records: the resolved experiment, and what each session of the run ran on.

The Agent keeps its checkpoints, weights and ``run.json`` in the same folder; nothing here touches those.
"""

from __future__ import annotations

import datetime
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...runs.files import make_folders, replacing, write_file, write_json_atomically
from ...runs.provenance import provenance
from ...runs.seeding import draw_seed
from ..language.files import ExperimentError, show
from ..language.schema import Experiment, load
from ..language.writing import to_yaml

EXPERIMENT: Final = "experiment.yml"
"""The resolved experiment: every param and default in place, with the seed. It can be run again as it is."""
RECORD: Final = "record.json"
"""One entry for each session of the run: when, by which command, on what."""
MAY_CHANGE: Final = (
    "train.max_steps",
    "train.max_episodes",
    "train.max_timesteps",
    "evaluate",
    "tracker",
    "submit",
    "params",
)
"""What may differ when a run is resumed. Params count only where they are used."""


def prepare(folder: Path, experiment: Experiment, *, resume: bool) -> Experiment:
    """Make the folder of a new run, or check that a run may be resumed; record the resolved experiment in it.

    Args:
        folder: the run folder.
        experiment: what is to be run.
        resume: go on with the run that is in the folder, rather than begin one.

    Returns:
        The experiment with its seed: the given one, the one recorded, or one drawn now.

    Raises:
        ExperimentError: the folder is in use and ``resume`` is false; or it holds no run, or another one, and
            ``resume`` is true.
        OSError: the folder cannot be written.
    """
    if resume:
        experiment = _continued(folder, experiment)
    elif is_used(folder):
        run = "the run folder exists: go on with it by --resume, or"
        what = run if (folder / EXPERIMENT).is_file() else "there is something else than a run:"
        raise ExperimentError(str(folder), f"{what} choose another one by --model-dir")
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": draw_seed()})
    make_folders(folder)
    with replacing(folder / EXPERIMENT) as temporary:
        write_file(temporary, [to_yaml(experiment.model_dump()).encode()])
    return experiment


def discard(folder: Path) -> None:
    """Remove the folder of a run that came to nothing; where it is a link to a folder, what is in that."""
    if not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_used(folder: Path) -> bool:
    """Is there anything in the folder? What a killed writer left (``.*.tmp``) does not count."""
    if not folder.is_dir():
        return folder.exists()
    return any(not (path.name.startswith(".") and path.name.endswith(".tmp")) for path in folder.iterdir())


def read_experiment(folder: Path) -> Experiment:
    """The experiment that is recorded in a run folder.

    Raises:
        ExperimentError: there is none, or it is damaged.
    """
    if not (folder / EXPERIMENT).is_file():
        why = "it is a file" if folder.exists() else "it does not exist"
        why = f"it has no {EXPERIMENT}" if folder.is_dir() else why
        raise ExperimentError(str(folder), f"this is no folder of a run: {why}")
    return load(folder / EXPERIMENT)[0]


def add_session(folder: Path, experiment: Experiment, file: Path, command: Sequence[str]) -> None:
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
    write_json_atomically(folder / RECORD, [*read_sessions(folder), entry])


def read_sessions(folder: Path) -> list[dict[str, Any]]:
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
        raise ExperimentError(str(path), f"the record cannot be read: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ExperimentError(str(path), "the record is not a list of sessions")
    return entries


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out where ``folder`` lies, with ``-dirty`` after it if files were changed."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, no repository, no commit
        return None
    return result.stdout.strip() or None


def changes(before: Experiment, after: Experiment) -> list[str]:
    """The keys in which two experiments differ, with both values; without those that may change."""
    old, new = dict(flat(before.model_dump())), dict(flat(after.model_dump()))
    keys = [key for key in {**old, **new} if _typed(old, key) != _typed(new, key)]
    kept = [key for key in keys if not any(key == name or key.startswith(f"{name}.") for name in MAY_CHANGE)]
    # A mapping that is empty on one side is told by what is in it on the other.
    told = [key for key in kept if not any(other.startswith(f"{key}.") for other in kept)]
    return [f"{key} ({_shown(old, key)} -> {_shown(new, key)})" for key in told]


def _typed(values: Mapping[str, Any], key: str) -> tuple[type, Any] | None:
    """A value that differs from others of another type: true is not 1."""
    return (type(values[key]), values[key]) if key in values else None


def _shown(values: Mapping[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and the scalars (and empty collections) that they lead to."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    empty = True
    for key, item in items:
        empty = False
        yield from flat(item, f"{path}.{key}" if path else str(key))
    if empty:
        yield path, value


def _continued(folder: Path, experiment: Experiment) -> Experiment:
    if not (folder / EXPERIMENT).is_file():
        raise ExperimentError(str(folder), "there is no run to resume here; without --resume one begins")
    recorded = read_experiment(folder)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": recorded.seed})
    if changed := changes(recorded, experiment):
        raise ExperimentError(
            str(folder),
            f"the run cannot be resumed with a changed experiment: {', '.join(changed)}; only train.max_*, evaluate,"
            " tracker and submit may change. Choose another folder by --model-dir to begin a new run",
        )
    return experiment
