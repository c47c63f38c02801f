"""The folder of an experiment's run, and the resolved experiment in it. The Agent keeps everything else there."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.checks import did_you_mean
from ...core.errors import CheckpointError
from ...run_dir import record
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.files import make_folders, replacing, write_file
from ...run_dir.generators import draw_seed
from ...run_dir.starts import began_in
from ..config.files import show
from ..config.schema import AgentSection, Environment, Evaluate, ExperimentFile, load
from ..config.values import flat
from ..config.yaml_writer import to_yaml
from ..errors import ChangedExperimentError, RunFolderError

EXPERIMENT: Final = "experiment.yml"
"""The resolved experiment: with every param, every default and the seed. It can be run again unchanged."""
MANY: Final = "seeds.yml"
"""The same of an experiment with many seeds, in the folder that holds their run folders."""
SEARCH: Final = "search.yml"
"""An experiment with a matrix, in the folder that holds the run folders of its trials."""
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
"""What may change when a run is resumed. Params are compared where they are used."""


def prepare(folder: Path, experiment: ExperimentFile, *, resume: bool) -> ExperimentFile:
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
        write_file(temporary, [to_yaml(experiment.model_dump(exclude={"seeds", "matrix"})).encode()])
    return experiment


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to resume where no run is, and to start a new run where something is; ``RunFolderError``."""
    is_run = (folder / EXPERIMENT).is_file()
    if is_of_python(folder):
        what = (
            f"Folder {folder} has the run of a Python program. Continue it there, or use --model-dir for another one."
        )
        raise RunFolderError(folder, what)
    if resume:
        if not is_run:
            raise RunFolderError(folder, f"Folder {folder} has no run to resume. Start a new one without --resume.")
    elif is_run:
        what = f"Run folder {folder} already exists. Use --resume to continue it, or --model-dir for a new one."
        raise RunFolderError(folder, what)
    elif is_of_many(folder):
        what = f"Folder {folder} has the runs of many seeds. Use --resume to continue them, or another --model-dir."
        raise RunFolderError(folder, what)
    elif is_search(folder):
        what = f"Folder {folder} has a search. Use --resume to continue it, or another --model-dir."
        raise RunFolderError(folder, what)
    elif is_used(folder):
        what = f"Folder {folder} exists and is not a run folder. Use --model-dir for another one."
        raise RunFolderError(folder, what)


@contextlib.contextmanager
def only_writer(folder: Path, refusal: str) -> Iterator[None]:
    """Be the only process that writes to a run; ``RunFolderError``, the refusal and why, where another one does."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(CheckpointStore(folder).lock())
        except CheckpointError as error:
            raise RunFolderError(folder, f"{refusal}: {error}") from error
        yield


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


def newest_folder(runs: Path, name: str, files: Sequence[str] = (EXPERIMENT,)) -> Path:
    """The newest folder of this name that has one of these files; ``runs/name`` if there is none."""
    numbers = [1]
    for path in runs.glob(f"{glob.escape(name)}-*"):
        number = path.name.removeprefix(f"{name}-")
        if number.isdecimal() and int(number) > 1 and any((path / file).is_file() for file in files):
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


def read_experiment(folder: Path) -> ExperimentFile:
    """The experiment that is recorded in a run folder; of a Python program's run, what ``run.json`` says of it.

    Raises:
        ExperimentError: it is missing or damaged, or the environment of a Python program's run cannot be told.
    """
    if not (folder / EXPERIMENT).is_file():
        if folder.is_dir():
            if is_of_python(folder):
                return _of_python(folder)
            if is_of_many(folder):
                which = next((f"Give one of them, such as {path}." for path in runs_of_many(folder)), "None has begun.")
                raise RunFolderError(folder, f"Folder {folder} has the runs of many seeds. {which}")
            if is_search(folder):
                which = next((f"Give one of them, such as {path}." for path in trials_of(folder)), "None has begun.")
                raise RunFolderError(folder, f"Folder {folder} has the trials of a search. {which}")
            raise RunFolderError(folder, f"Folder {folder} is not a run folder: {EXPERIMENT} is missing.")
        what = "is a file, not a run folder" if folder.exists() else missing(folder)
        raise RunFolderError(folder, f"Folder {folder} {what}.")
    return load(folder / EXPERIMENT)[0]


def missing(folder: Path) -> str:
    """What is wrong with a folder that is not there; suggests the nearest beside it."""
    return f"does not exist{did_you_mean(folder, map(str, folder.parent.glob('*')))}"


@contextlib.contextmanager
def where_it_began(folder: Path) -> Iterator[Path]:
    """Work in the folder where a run began, so that relative paths in its experiment mean what they meant there.

    Args:
        folder: of a run, or of many of them.

    Yields:
        The folder as it is called from there.

    Raises:
        RunFolderError: the record of a start is damaged.
    """
    try:
        runs = [folder, *runs_of_many(folder), *trials_of(folder)]
        began = next(filter(None, map(began_in, runs)), None)
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


def is_of_many(folder: Path) -> bool:
    """Is it the folder of an experiment with many seeds?"""
    return (folder / MANY).is_file()


def runs_of_many(folder: Path) -> list[Path]:
    """The run folders of many seeds that have begun, in the order of the seeds."""
    return _numbered_folders(folder, "seed-")


def is_search(folder: Path) -> bool:
    """Is it the folder of a search?"""
    return (folder / SEARCH).is_file()


def trials_of(folder: Path) -> list[Path]:
    """The run folders of a search's trials that have begun, by number."""
    return _numbered_folders(folder, "trial-")


def _numbered_folders(folder: Path, prefix: str) -> list[Path]:
    found = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(prefix)))


def is_of_python(folder: Path) -> bool:
    """Is there the run of a Python program, which has no experiment file?"""
    return (folder / record.FILE).is_file() and not (folder / EXPERIMENT).is_file()


def _of_python(folder: Path) -> ExperimentFile:
    try:
        found = record.read(folder)
    except CheckpointError as error:
        raise RunFolderError(folder, str(error)) from error
    known = None if found is None else found.environment
    if found is None or known is None or "unrecorded" in known:
        what = "" if known is None else f" of {known['id']}, {', '.join(known['unrecorded'])}"
        message = (
            f"The run in {folder} is of a Python program, and its environment cannot be made again: run.json lacks"
            f" arguments or wrappers{what}. Use Agent.load in Python."
        )
        raise RunFolderError(folder, message)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:128] or "run"
    model_fn = found.model_fn or "unnamed"
    return ExperimentFile(
        name=name,
        seed=found.seed,
        environment=Environment.model_validate({"num_envs": found.num_envs, **known}),
        agent=AgentSection.model_validate({"model_fn": model_fn, "params": found.params or {}, "memory": found.memory}),
        evaluate=Evaluate(policy="best" if (folder / "best.safetensors").is_file() else "last"),
    )


def changes(before: ExperimentFile, after: ExperimentFile) -> list[str]:
    """The keys in which two experiments differ, with both values, except those that may change."""
    old, new = dict(flat(before.model_dump())), dict(flat(after.model_dump()))
    keys = [key for key in {**old, **new} if _typed(old, key) != _typed(new, key)]
    may = MAY_CHANGE if before.train is not None else (*MAY_CHANGE, "train")  # it may go on in the environment
    if before.distributed is not None or after.distributed is not None:  # which deals out anew what there is
        may = (*may, "environment.num_envs")
    kept = [key for key in keys if not any(key == name or key.startswith(f"{name}.") for name in may)]
    # Of a mapping that is empty on one side, only the entries on the other side are listed.
    told = [key for key in kept if not any(other.startswith(f"{key}.") for other in kept)]
    return [f"{key} ({_shown(old, key)} -> {_shown(new, key)})" for key in told]


def _typed(values: Mapping[str, Any], key: str) -> tuple[type, Any] | None:
    """A value with its type: true is not 1."""
    return (type(values[key]), values[key]) if key in values else None


def _shown(values: Mapping[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"


def _continued(folder: Path, experiment: ExperimentFile) -> ExperimentFile:
    recorded = read_experiment(folder)
    if experiment.seed is None:
        experiment = experiment.model_copy(update={"seed": recorded.seed})
    if changed := changes(recorded, experiment):
        raise ChangedExperimentError(folder, changed)
    return experiment
