"""The recording side of tracking: a run writes its journal, which another process follows."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.errors import message_of
from ...core.protocols import RunConfig
from ...core.yaml_text import flat
from ...hooks import Hook
from ..child_process import STOP, WAIT, Child, StopOnRequest
from ..config.schema import ExperimentFile
from .follower import EXIT_SECS, PREPARE_SECS, main
from .journal import (
    CREATED,
    ENDED,
    FAILED,
    KILLED,
    RESUMING,
    STOPPED,
    SUCCEEDED,
    Journal,
    JournalHandler,
    JournalHook,
    RunGroup,
    TrackedRun,
)
from .trackers import Choice, choices, disabled_by, run_id

MARGIN_SECS: Final = 1.5
"""Seconds for the follower to end, in addition to those of its trackers."""
_log = logging.getLogger("axonrl")


class Tracking:
    """A run that is being tracked, or not.

    Args:
        journal: the journal that records it; None if tracking is disabled.
        hooks: record the training in the journal.
    """

    def __init__(self, journal: Journal | None = None, hooks: Sequence[Hook] = ()) -> None:
        self._journal, self._stop = journal, StopOnRequest()
        self.hooks = [] if journal is None else [*hooks, self._stop]
        """Hooks for ``Agent.train``."""
        self.request_stop = self._stop.request_stop
        self.stopped = False
        """Whether the run was stopped from outside; if not, it has succeeded, unless it raises."""

    @property
    def stop_reason(self) -> str:
        """Why a tracker stopped the run; empty if none did."""
        return self._stop.reason

    def outputs(self, values: Mapping[str, Any]) -> None:
        """Record the run's results."""
        if self._journal is not None:
            self._journal.write(outputs=dict(values))


@contextlib.contextmanager
def tracked(
    folder: Path, experiment: ExperimentFile, group: RunGroup | None = None, name: str = ""
) -> Iterator[Tracking]:
    """Track a run while it trains: from the status created or resuming to succeeded, failed or stopped.

    Args:
        folder: the run folder, which exists.
        experiment: the experiment, with its seed.
        group: the group to which the run belongs; None for a single run. The process that starts a group's runs follows
            their journals.
        name: the run's name within the group; empty for the recorded one.

    Raises:
        ExperimentError: a tracker's setting in the environment is invalid.
    """
    if disabled_by():
        yield Tracking()
        return
    chosen = choices(experiment)  # finds errors before anything starts
    journal = Journal(folder)
    before = _before(folder)
    alone, group = group is None, group or before.group  # a run of a group may be resumed alone
    given = run_id(chosen) if group is None else None  # a run of a group is never the one that a scheduler has started
    identity = before.uuid or given or uuid.uuid4().hex
    if before.uuid and before.status not in ENDED:
        journal.status(FAILED, KILLED)
    run: dict[str, Any] = {"uuid": identity, "name": experiment.name, "description": experiment.description}
    if group is not None:
        run |= {"name": name or before.name, "group": group._asdict()}
    journal.write(run={**run, "inputs": inputs(experiment)})
    journal.status(RESUMING if before.uuid else CREATED)
    del before  # after a long run it takes hundreds of megabytes
    handler = JournalHandler(journal)
    logger = logging.getLogger("axonrl")
    logger.addHandler(handler)
    tracking = Tracking(journal, [JournalHook(journal, RunConfig(**experiment.config).save_summary_steps)])
    follower = _Follower(folder, chosen, tracking.request_stop) if alone else None
    try:
        yield tracking
        journal.status(STOPPED if tracking.stopped else SUCCEEDED)
    except KeyboardInterrupt:
        journal.status(STOPPED, "stopped at once")
        raise
    except BaseException as error:
        journal.status(FAILED, message_of(error))
        raise
    finally:
        logger.removeHandler(handler)
        journal.close()
        if follower is not None:
            follower.finish()


def inputs(experiment: ExperimentFile) -> dict[str, Any]:
    """The inputs of a run as one flat mapping: declared params by name, everything else by path."""
    values = experiment.model_dump(
        exclude={"params", "tracker", "submit", "name", "description", "seeds", "matrix"}, exclude_none=True
    )
    params = {name: param.default for name, param in experiment.params.items()}
    return {**dict(flat(values)), **params}


def _before(folder: Path) -> TrackedRun:
    """The run as recorded in the folder so far; it has no uuid if there is no journal."""
    run = TrackedRun(folder)
    with contextlib.suppress(OSError):  # it could not be created, which was already reported
        run.read()
    return run


class _Follower:
    """The process that follows the journal, as seen by the process that trains.

    ``stop`` is called in another thread, with the reason, when a tracker asks to stop the run.
    """

    def __init__(self, folder: Path, chosen: Sequence[Choice], stop: Callable[[str], None]) -> None:
        self._folder, self._stop = folder, stop
        self._late = threading.Event()
        self._child: Child | None = None
        try:
            self._child = Child(main, [str(folder.absolute()), str(EXIT_SECS), json.dumps(chosen)], self._take)
        except OSError as error:
            self._complain(f"its process could not be started: {error}")

    def finish(self) -> None:
        """Tell it that the run has ended, and wait briefly; on a busy machine it finishes on its own."""
        if self._child is None:
            return
        self._child.tell(ended=True)  # closing is not enough, as a child of this process may also hold it open
        try:
            code = self._end(self._child)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # nothing that was sent is lost
            self._complain("it has not finished yet")
            return
        if code:
            self._complain(f"its process ended with exit code {code}")

    def _end(self, child: Child) -> int:
        """Wait for its exit code; ``TimeoutExpired`` if it is late without having announced that."""
        try:
            return child.end(EXIT_SECS + MARGIN_SECS, MARGIN_SECS)
        except subprocess.TimeoutExpired:
            if not self._late.is_set():
                raise
        return child.end(PREPARE_SECS + EXIT_SECS, MARGIN_SECS)

    def _take(self, values: Mapping[str, Any]) -> None:
        if values["type"] == STOP:
            self._stop(values["text"])
            return
        if values["type"] == WAIT:
            self._late.set()
        _log.warning("%s", values["text"])

    def _complain(self, why: str) -> None:
        _log.warning("Tracking is behind: %s. axonrl sync %s sends the rest.", why, self._folder)
