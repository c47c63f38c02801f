"""``axonrl sync``: upload ended runs whose servers were missing or down."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...core.errors import message_of
from ..config.modules import make_importable_for
from ..console import DONE, FAILED, USAGE, say
from ..errors import ExperimentError, RunFolderError
from ..polyaxon import settings as polyaxon
from ..running.folder import is_of_python, only_writer, read_experiment, runs_in, where_it_began
from ..tracking.follower import LOCK, complete, explain
from ..tracking.history import is_from_history, write_journal
from ..tracking.journal import ENDED, JOURNAL, TrackedRun
from ..tracking.trackers import StopRequestedError, Tracker, choices, make_trackers, make_writers


def sync(arguments: argparse.Namespace) -> int:
    """Upload runs to their servers."""
    return sync_all(arguments.runs, arguments.host, arguments.project)


def sync_all(folders: Sequence[Path], host: str | None = None, project: str | None = None) -> int:
    """Sync runs one after the other, and report on each. A failure does not stop the others.

    Args:
        folders: the run folders; a folder of many seeds or of a search means its run folders.
        host: the Polyaxon server's address; None for that of the run's experiment or of the environment.
        project: the project there; None for that of the run's experiment.

    Returns:
        The exit code: 2 if a folder cannot be synced, else 1 if a tracker is not up to date.

    Raises:
        ExperimentError: host or project is invalid.
    """
    host = host if host is None else polyaxon.checked_option("--host", polyaxon.server_address, host)
    project = project if project is None else polyaxon.checked_option("--project", polyaxon.project_name, project)
    runs = [run for folder in folders for run in runs_in(folder) or [folder]]
    return max(_sync_and_tell(run, host, project) for run in runs)


def _sync_and_tell(folder: Path, host: str | None, project: str | None) -> int:
    code = DONE
    try:
        with where_it_began(folder) as run:
            synced = sync_run(run, host, project)
        for name, trouble in synced:
            if trouble:
                code = FAILED
                say(f"{folder}: {trouble}")
            else:
                print(f"{folder}: {name} is up to date")
    except ExperimentError as error:
        code = USAGE
        for one in error.errors:
            say(f"error: {message_of(one)}")
    except OSError as error:
        code = FAILED
        say(f"error: {error.filename or folder}: {error.strerror or error}")
    except Exception as error:  # whatever is wrong with this run, the others are synced
        code = FAILED
        say(f"error: {folder}: {message_of(error)}")
    return code


def sync_run(folder: Path, host: str | None = None, project: str | None = None) -> list[tuple[str, str]]:
    """Bring a run's trackers up to date with its journal; a Python program's run gets a journal made from its history.

    Args:
        folder: the run folder.
        host: see :func:`sync_all`; checked.
        project: as for :func:`sync_all`; checked.

    Returns:
        The name of each tracker, and what went wrong with it, if anything.

    Raises:
        ExperimentError: the folder has no tracked run, the run is being tracked now, or there is no tracker.
        OSError: the tracker's files in the folder cannot be written.
    """
    experiment = read_experiment(folder)
    if is_of_python(folder) and is_from_history(folder):
        # The journal will say that it has ended.
        with only_writer(folder, f"Run folder {folder} cannot be synced now", trains=False) as killed:
            write_journal(folder, experiment, killed)
    if not (folder / JOURNAL).is_file():
        raise RunFolderError(folder, f"Run folder {folder} was not tracked: {JOURNAL} is missing.")
    make_importable_for(folder)  # a tracker may be the user's own
    run = TrackedRun(folder)
    settings = {"host": host, "project": project}
    given = {name: value for name, value in settings.items() if value is not None}
    in_file = polyaxon.settings_of(experiment).model_dump(exclude_none=True)
    target = {**in_file, **given} if host else polyaxon.resolved(in_file)
    replaced: dict[str, Any] = {polyaxon.KIND: target and {**target, **given}}
    try:
        with FileLock((folder / LOCK).absolute(), timeout=0):
            chosen = choices(experiment, replaced)
            with _without_writer(run):
                complete(run, make_writers(chosen))
            try:
                trackers = make_trackers(chosen)
            except Exception as error:
                return [("", f"a tracker cannot be created: {message_of(error)}")]
            if not trackers:
                raise RunFolderError(folder, f"Run folder {folder} has no tracker to sync with. {_what_to_do()}")
            return [(name, _push(name, tracker, run)) for name, tracker in trackers]
    except Timeout:
        raise RunFolderError(folder, f"Run folder {folder} is in use by a running training. Sync it later.") from None


@contextlib.contextmanager
def _without_writer(run: TrackedRun) -> Iterator[None]:
    """Refuse a run that has not ended while a process trains it, or the runs of its folder; ``RunFolderError``."""
    run.read()
    with contextlib.ExitStack() as stack:
        if run.status not in ENDED:
            above = [run.folder.parent] * (run.folder in runs_in(run.folder.parent))
            for folder in (run.folder, *above):
                stack.enter_context(only_writer(folder, f"Run folder {run.folder} cannot be synced now"))
        yield


def _what_to_do() -> str:
    if polyaxon.is_offline():
        return f"Use --host for a Polyaxon server; {polyaxon.HOST} is ignored while {polyaxon.IS_OFFLINE} is set."
    return f"Use --host, or set {polyaxon.HOST}, for a Polyaxon server."


def _push(name: str, tracker: Tracker, run: TrackedRun) -> str:
    """Push once; returns what went wrong, if anything."""
    try:
        with contextlib.suppress(StopRequestedError):
            tracker.push(run)
    except Exception as error:
        return explain(name, error)
    return ""
