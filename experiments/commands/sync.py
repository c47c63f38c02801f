"""Bringing runs to their trackers after they have ended: those that ran without a server, or with one that was down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import ExperimentError
from ..polyaxon.client import given, project_name, server_address
from ..running.folder import read_experiment
from ..tracking.follower import LOCK, complete, explained
from ..tracking.journal import JOURNAL, TrackedRun
from ..tracking.trackers import IS_OFFLINE, StopRequestedError, Tracker, is_offline, make_trackers
from .work import DONE, FAILED, USAGE, importable_for, say


def sync_all(folders: Sequence[Path], host: str | None = None, project: str | None = None) -> int:
    """Sync runs, one after the other, and say what became of each. One that cannot be synced stops no other.

    Args:
        folders: the run folders.
        host: the Polyaxon server's address; None for the one that the run's experiment or the environment names.
        project: the project there, in the same way.

    Returns:
        An exit code: 2 if a folder is not one that can be synced, else 1 if a tracker does not hold everything now.

    Raises:
        ExperimentError: host or project cannot be one.
    """
    host = host if host is None else given("--host", server_address, host)
    project = project if project is None else given("--project", project_name, project)
    return max(_sync_and_tell(folder, host, project) for folder in folders)


def _sync_and_tell(folder: Path, host: str | None, project: str | None) -> int:
    """Sync a run, and say what became of it; an exit code."""
    code = DONE
    try:
        for name, trouble in sync(folder, host, project):
            if trouble:
                code = FAILED
                say(f"{folder}: {trouble}")
            else:
                print(f"{folder}: all of it is in {name}")
    except ExperimentError as error:
        code = USAGE
        say(f"error: {error}")
    except OSError as error:
        code = FAILED
        say(f"error: {error.filename or folder}: {error.strerror or error}")
    except Exception as error:  # whatever is wrong with one run, the others are synced
        code = FAILED
        say(f"error: {folder}: {type(error).__name__}: {error}")
    return code


def sync(folder: Path, host: str | None = None, project: str | None = None) -> list[tuple[str, str]]:
    """Have the trackers of a run hold what its journal holds.

    Args:
        folder: the run folder.
        host: as :func:`sync_all` takes it, checked.
        project: likewise.

    Returns:
        The name of each tracker and what went wrong with it, if anything.

    Raises:
        ExperimentError: the folder is not one of a tracked run, it is being tracked, or there is no tracker.
        OSError: the Polyaxon run in the folder cannot be written.
    """
    experiment = read_experiment(folder)
    if not (folder / JOURNAL).is_file():
        raise ExperimentError(str(folder), f"the run was not tracked: there is no {JOURNAL}")
    importable_for(folder)  # a tracker may be the user's own
    run = TrackedRun(folder)
    try:
        with FileLock((folder / LOCK).absolute(), timeout=0):
            complete(run)
            try:
                trackers = make_trackers(experiment, host, project)
            except ExperimentError:
                raise
            except Exception as error:
                return [("", f"a tracker cannot be made: {error}")]
            if not trackers:
                raise ExperimentError(str(folder), _none_there())
            return [(name, _pushed(name, tracker, run)) for name, tracker in trackers]
    except Timeout:
        raise ExperimentError(str(folder), "the run is going on, and tracked as it does; sync it afterwards") from None


def _none_there() -> str:
    if is_offline():
        return f"no tracker to sync it with, for {IS_OFFLINE} is set: give --host to name a Polyaxon server"
    return "no tracker to sync it with: give --host, or set POLYAXON_HOST, to name a Polyaxon server"


def _pushed(name: str, tracker: Tracker, run: TrackedRun) -> str:
    """What went wrong with a tracker when it was told of a run, if anything."""
    try:
        tracker.push(run)
    except StopRequestedError:
        pass
    except Exception as error:
        return explained(name, error)
    return ""
