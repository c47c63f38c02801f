"""The folder of an experiment's run, and the resolved experiment in it. The Agent writes everything else in it."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ...core.checks import did_you_mean
from ...core.errors import CheckpointError
from ...core.yaml_text import flat, show, to_yaml
from ...run_dir import record
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.files import make_folders, replacing, write_file
from ...run_dir.generators import draw_seed
from ...run_dir.starts import began_in
from ..config.schema import AgentSection, Environment, Evaluate, ExperimentFile, load
from ..errors import ChangedExperimentError, RunFolderError

EXPERIMENT: Final = "experiment.yml"
"""The resolved experiment, with all params, defaults and the seed. It can be run again unchanged."""
SEEDS: Final = "seeds.yml"
"""The resolved experiment with many seeds, in the folder that contains their run folders."""
SEARCH: Final = "search.yml"
"""An experiment with a matrix, in the folder that contains the run folders of its trials."""
_MANY: Final = {SEEDS: ("seed", "runs of many seeds", "seeds"), SEARCH: ("trial", "trials of a search", "a matrix")}
"""The prefix of the run folders, what the runs are called, and the option or key that makes them many."""
MAY_CHANGE: Final = (
    "seeds",
    "learn.max_steps",
    "distributed",
    "train.max_steps",
    "train.max_episodes",
    "train.max_timesteps",
    "evaluate",
    "tracker",
    "submit",
    "params",
)
"""Keys that may change when a run is resumed. Params are compared where they are used."""


def prepare(folder: Path, experiment: ExperimentFile, *, resume: bool) -> ExperimentFile:
    """Create the folder of a new run, or check that a run can be resumed; record the resolved experiment in it.

    Args:
        folder: the run folder.
        experiment: what to run.
        resume: continue the existing run instead of starting a new one.

    Returns:
        The experiment with its seed: the given, recorded or newly drawn one.

    Raises:
        RunFolderError: a new run, but the folder is not empty; or a resumed run, but there is none or a different one.
        OSError: the folder cannot be written.
    """
    check_folder(folder, resume=resume)
    if resume:
        experiment = _experiment_to_continue(folder, experiment)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": draw_seed()})
    make_folders(folder)
    write_experiment(folder / EXPERIMENT, experiment.model_dump(exclude={"seeds", "matrix"}))
    return experiment


def write_experiment(path: Path, values: Mapping[str, Any]) -> None:
    """Write an experiment file; an existing one is replaced."""
    with replacing(path) as temporary:
        write_file(temporary, [to_yaml(values).encode()])


def check_folder(folder: Path, *, resume: bool, file: str = EXPERIMENT) -> None:
    """Refuse to resume if there is nothing to resume, and to start if there is something.

    Args:
        folder: the folder of a run, or of many of them.
        resume: continue what is there.
        file: the experiment file that should be there.

    Raises:
        RunFolderError: the folder cannot be used in this way.
    """
    if is_of_python(folder):
        what = "has the run of a Python program. Continue it from that program, or use --model-dir for a new run."
    elif resume and (folder / file).is_file():
        return
    elif resume and (folder / EXPERIMENT).is_file():
        what = f"has a single run. Use --resume without {_MANY[file][2]} to continue it."
    elif resume and file in _MANY:
        what = f"has no {_MANY[file][1]} to resume. Start new ones without --resume."
    elif resume:
        raise RunFolderError(folder, f"Folder {folder} has no run to resume. Start a new one without --resume.")
    elif (folder / EXPERIMENT).is_file():
        message = f"Run folder {folder} already exists. Use --resume to continue it, or --model-dir for a new one."
        raise RunFolderError(folder, message)
    elif (found := _file_of_many(folder)) is not None:
        what = f"has the {_MANY[found][1]}. Use --resume to continue them, or --model-dir for another folder."
    elif is_used(folder):
        what = "exists and is not a run folder. Use --model-dir for another folder."
    else:
        return
    raise RunFolderError(folder, f"Folder {folder} {what}")


@contextlib.contextmanager
def only_writer(folder: Path, refusal: str, *, trains: bool = True) -> Iterator[bool]:
    """Be the only process that writes to a run; arguments and what it yields as for :meth:`CheckpointStore.lock`.

    Raises:
        RunFolderError: another process writes to it; with the refusal and the reason.
    """
    with contextlib.ExitStack() as stack:
        try:
            killed = stack.enter_context(CheckpointStore(folder).lock(trains=trains))
        except CheckpointError as error:
            raise RunFolderError(folder, f"{refusal}: {error}") from error
        yield killed


def new_folder(runs: Path, name: str) -> Path:
    """Create the folder of a new run: ``runs/name``, or the first unused one of ``name-2``, ``name-3``, ....

    Concurrent processes get different folders.
    """
    make_folders(runs)
    while True:
        folder = next_folder(runs, name)
        with contextlib.suppress(FileExistsError):  # another process was faster
            folder.mkdir()
            return folder


def next_folder(runs: Path, name: str) -> Path:
    """The folder that :func:`new_folder` would create now; a link to a missing folder is in its way, too."""
    every = (_folder_of(runs, name, number) for number in itertools.count(1))
    return next(folder for folder in every if not os.path.lexists(folder))


def newest_folder(runs: Path, name: str, files: Sequence[str] = (EXPERIMENT,)) -> Path:
    """The newest folder of this name that has one of these files; ``runs/name`` if there is none."""
    numbers = [1]
    for path in runs.glob(f"{glob.escape(name)}-*"):
        number = path.name.removeprefix(f"{name}-")
        if number.isdecimal() and int(number) > 1 and any((path / file).is_file() for file in files):
            numbers.append(int(number))
    return _folder_of(runs, name, max(numbers))


def _folder_of(runs: Path, name: str, number: int) -> Path:
    return runs / (name if number == 1 else f"{name}-{number}")


def discard(folder: Path) -> None:
    """Remove the folder of a run that learned nothing; for a link to a folder, its contents."""
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


def read_experiment(folder: Path) -> ExperimentFile:
    """The experiment recorded in a run folder; for a Python program's run, as far as ``run.json`` describes it.

    Raises:
        ExperimentError: it is missing or damaged, or the environment of a Python program's run is not recorded.
    """
    if not (folder / EXPERIMENT).is_file():
        if folder.is_dir():
            if is_of_python(folder):
                return _of_python(folder)
            if (file := _file_of_many(folder)) is not None:
                which = next((f"Give one of them, such as {path}." for path in runs_in(folder)), "None has begun.")
                raise RunFolderError(folder, f"Folder {folder} has the {_MANY[file][1]}. {which}")
            raise RunFolderError(folder, f"Folder {folder} is not a run folder: {EXPERIMENT} is missing.")
        what = "is a file, not a run folder" if folder.exists() else missing(folder)
        raise RunFolderError(folder, f"Folder {folder} {what}.")
    return load(folder / EXPERIMENT)[0]


def missing(folder: Path) -> str:
    """The error for a missing folder; suggests the nearest name beside it."""
    return f"does not exist{did_you_mean(folder, map(str, folder.parent.glob('*')))}"


@contextlib.contextmanager
def where_it_began(folder: Path) -> Iterator[Path]:
    """Work in the folder where a run began, so that relative paths in its experiment mean what they meant there.

    Args:
        folder: the folder of a run, or of many of them.

    Yields:
        The path of the run folder from there.

    Raises:
        RunFolderError: the record of a start is damaged.
    """
    try:
        began = next(filter(None, map(began_in, [folder, *runs_in(folder)])), None)
    except CheckpointError as error:
        raise RunFolderError(folder, str(error)) from error
    before = Path.cwd()
    if began is None or began == before:
        yield folder
        return
    folder = folder.resolve()
    os.chdir(began)
    try:
        yield folder
    finally:
        os.chdir(before)


def runs_in(folder: Path) -> list[Path]:
    """The run folders of seeds or trials that have begun, by number; empty for any other folder."""
    file = _file_of_many(folder)
    if file is None:
        return []
    prefix = f"{_MANY[file][0]}-"
    found = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(prefix)))


def is_search(folder: Path) -> bool:
    """Is this the folder of a search?"""
    return (folder / SEARCH).is_file()


def _file_of_many(folder: Path) -> str | None:
    """The experiment file of the many runs in a folder; None if there are none."""
    return next((file for file in _MANY if (folder / file).is_file()), None)


def is_of_python(folder: Path) -> bool:
    """Does the folder hold a run of a Python program, which has no experiment file?"""
    return (folder / record.FILE).is_file() and not (folder / EXPERIMENT).is_file()


def read_record(folder: Path) -> record.RunRecord:
    """The record of the run in a folder.

    Raises:
        RunFolderError: it is missing or damaged.
    """
    try:
        found = record.read(folder)
    except CheckpointError as error:
        raise RunFolderError(folder, str(error)) from error
    if found is None:
        raise RunFolderError(folder, f"Run folder {folder} has no {record.FILE}. {record.REMEDY}")
    return found


def kept_policy(folder: Path) -> Literal["best", "last"]:
    """``"best"`` if an evaluation hook kept a policy, else ``"last"``."""
    return "best" if (folder / "best.safetensors").is_file() else "last"


def _of_python(folder: Path) -> ExperimentFile:
    found = read_record(folder)
    known = found.environment
    if known is None:
        message = f"The run in {folder} has no recorded environment that can be made again. Use Agent.load in Python."
        raise RunFolderError(folder, message)
    if "unrecorded" in known:
        lacking = ", ".join(known["unrecorded"])
        message = (
            f"The run in {folder} was started by a Python program, and its environment cannot be made again: run.json"
            f" lacks arguments or wrappers of {known['id']}, {lacking}. Use Agent.load in Python."
        )
        raise RunFolderError(folder, message)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:128] or "run"
    model_fn = found.model_fn or "unnamed"
    return ExperimentFile(
        name=name,
        seed=found.seed,
        environment=Environment.model_validate({"num_envs": found.num_envs, **known}),
        agent=AgentSection.model_validate({"model_fn": model_fn, "params": found.params or {}, "memory": found.memory}),
        evaluate=Evaluate(policy=kept_policy(folder)),
    )


def changes(before: ExperimentFile, after: ExperimentFile) -> list[str]:
    """The keys in which two experiments differ, with both values, except those that may change."""
    old, new = dict(flat(before.model_dump())), dict(flat(after.model_dump()))
    keys = [key for key in {**old, **new} if _value_with_type(old, key) != _value_with_type(new, key)]
    may = MAY_CHANGE if before.train is not None else (*MAY_CHANGE, "train")  # training in the environment may follow
    if before.distributed is not None or after.distributed is not None:  # a cluster redistributes the memory
        may = (*may, "environment.num_envs")
    kept = [key for key in keys if not any(key == name or key.startswith(f"{name}.") for name in may)]
    # If a mapping is empty on one side, only the entries on the other side are listed.
    told = [key for key in kept if not any(other.startswith(f"{key}.") for other in kept)]
    return [f"{key} ({_value_or_absent(old, key)} -> {_value_or_absent(new, key)})" for key in told]


def _value_with_type(values: Mapping[str, Any], key: str) -> tuple[type, Any] | None:
    """A value with its type: true is not 1."""
    return (type(values[key]), values[key]) if key in values else None


def _value_or_absent(values: Mapping[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"


def _experiment_to_continue(folder: Path, experiment: ExperimentFile) -> ExperimentFile:
    recorded = read_experiment(folder)
    if CheckpointStore(folder).newest() is not None:
        read_record(folder)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": recorded.seed})
    if changed := changes(recorded, experiment):
        raise ChangedExperimentError(folder, changed)
    return experiment
