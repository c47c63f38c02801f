"""What a tracker is, and which trackers a run has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from ... import registry
from ..language.schema import Experiment
from ..polyaxon.client import given, server_address
from ..running import folder as records
from .journal import TrackedRun


class Tracker(Protocol):
    """Shows runs to people: a server, say, or a service.

    One is made from the keyword arguments that the experiment file gives it, in a process other than the one that
    trains, and used there by one thread. Before a run begins, only the names of its arguments are checked. What its
    constructor raises later is told to the user, and the run goes on without trackers. Packages add trackers as entry
    points of the group ``axonrl.tracker``.
    """

    def push(self, run: TrackedRun) -> None:
        """Have the tracker hold what the run holds now.

        Called every few seconds, and at last when the run has ended. It is not told what is new: another process, or
        an earlier call that failed halfway, may have pushed some of it.

        Raises:
            StopRequestedError: all was pushed, and the tracker's users want the run to stop.
            Exception: it could not; it is called again later. The text is shown to the user.
        """


_TRUE: Final = ("1", "true", "t", "y", "yes", "on")
"""What Polyaxon takes for true in an environment variable, in lower case."""
NO_OP: Final = "POLYAXON_NO_OP"
"""The environment variable by which the Polyaxon client is told to do nothing: then nothing is tracked."""
IS_OFFLINE: Final = "POLYAXON_IS_OFFLINE"
"""The one by which it is told that there is no server: then runs are tracked in their folders, and by others."""


class StopRequestedError(Exception):
    """Somebody asked, at the tracker, that the run stop. All was pushed before."""


def trackers_of(folder: Path) -> list[tuple[str, Tracker]]:
    """The trackers of the run in a folder, beside the Polyaxon run that is kept there, with names for messages.

    Raises:
        ExperimentError: the folder's experiment cannot be read.
        ValueError: a tracker does not exist or refuses its arguments.
    """
    return make_trackers(records.read_experiment(folder))


def make_trackers(
    experiment: Experiment, host: str | None = None, project: str | None = None
) -> list[tuple[str, Tracker]]:
    """The trackers that an experiment names, with names for messages.

    A Polyaxon server is among them where :func:`polyaxon_server`, which takes the same arguments, finds one.
    """
    from ..polyaxon.tracker import PolyaxonServer

    others = [one for one in experiment.tracker if one.kind != "polyaxon"]
    trackers: list[tuple[str, Tracker]] = [
        (one.kind, registry.find("tracker", one.kind)(**one.kwargs)) for one in others
    ]
    if server := polyaxon_server(experiment, host, project):
        trackers.append((f"polyaxon at {server[0]}", PolyaxonServer(*server)))
    return trackers


def polyaxon_server(
    experiment: Experiment, host: str | None = None, project: str | None = None
) -> tuple[str, str | None] | None:
    """The Polyaxon server that shows an experiment's runs, where there is one.

    It is the one of the experiment, else that of ``POLYAXON_HOST``. For a run that was submitted it is the other way
    round: the experiment was written elsewhere, and may name the server as it is called there.

    Args:
        experiment: what is run.
        host: the server's address, in place of all that; then ``POLYAXON_IS_OFFLINE`` does not count either.
        project: the project there, in place of the experiment's.

    Returns:
        The server's address, and the project where it is named.

    Raises:
        ExperimentError: ``POLYAXON_HOST`` is no address, or more than that.
    """
    from ..polyaxon.tracker import submitted_run

    named = experiment.polyaxon
    if host is None and not is_offline():
        environment = os.environ.get("POLYAXON_HOST")
        if environment and (submitted_run() or not named.host):
            host = given("POLYAXON_HOST", server_address, environment)
        else:
            host = named.host
    return (host, project or named.project) if host else None


def tracking_is_off() -> bool:
    """Is nothing to be tracked (``POLYAXON_NO_OP``)?"""
    return _is_true(NO_OP)


def is_offline() -> bool:
    """Is there no Polyaxon server, whatever experiments say (``POLYAXON_IS_OFFLINE``)?"""
    return _is_true(IS_OFFLINE)


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _TRUE
