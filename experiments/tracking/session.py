"""The part of tracking that runs where the training runs: it writes the journal and starts the follower."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from ...contracts import RunConfig
from ..language.schema import Experiment
from ..polyaxon.tracker import submitted_run
from ..running.folder import flat
from .follower import EXIT_SECS, main
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
    TrackedRun,
)
from .trackers import polyaxon_server, tracking_is_off

MARGIN_SECS: Final = 1.5
"""Seconds that the follower has beyond those of its trackers."""
_log = logging.getLogger("axonrl")


class Tracking:
    """What a session of a tracked run writes.

    Args:
        journal: where to; None where nothing is tracked.
        hook: tells the journal of the training.
    """

    def __init__(self, journal: Journal | None = None, hook: JournalHook | None = None) -> None:
        self._journal = journal
        self.hooks = [] if hook is None else [hook]
        """To be given to ``Agent.train``."""
        self._hook = hook
        self.stopped = False
        """Was the run stopped from outside? Else it has succeeded, if it does not raise."""

    @property
    def stop_reason(self) -> str:
        """Why a tracker stopped the run; empty if none did."""
        return "" if self._hook is None else self._hook.stop_reason

    def outputs(self, values: Mapping[str, Any]) -> None:
        """Write what the run came to."""
        if self._journal is not None:
            self._journal.write(outputs=dict(values))


@contextlib.contextmanager
def tracked(folder: Path, experiment: Experiment) -> Iterator[Tracking]:
    """Track a session of a run: from created, or resuming, to succeeded, failed or stopped.

    Args:
        folder: the run folder, which exists.
        experiment: what is run, with its seed.

    Raises:
        ExperimentError: ``POLYAXON_HOST`` is no address.
    """
    if tracking_is_off():
        yield Tracking()
        return
    polyaxon_server(experiment)  # a mistake in its address is found before anything begins
    journal = Journal(folder)
    before, submitted = _before(folder), submitted_run()
    identity = before.uuid or (submitted[2] if submitted else uuid.uuid4().hex)
    if before.uuid and before.status not in ENDED:
        journal.status(FAILED, KILLED)
    run = {"uuid": identity, "name": experiment.name, "description": experiment.description}
    journal.write(run={**run, "inputs": inputs(experiment)})
    journal.status(RESUMING if before.uuid else CREATED)
    handler = JournalHandler(journal)
    logger = logging.getLogger("axonrl")
    logger.addHandler(handler)
    hook = JournalHook(journal, RunConfig(**experiment.config).save_summary_steps)
    follower = _Follower(folder, hook.request_stop)
    tracking = Tracking(journal, hook)
    try:
        yield tracking
        journal.status(STOPPED if tracking.stopped else SUCCEEDED)
    except KeyboardInterrupt:
        journal.status(STOPPED, "stopped at once")
        raise
    except BaseException as error:
        journal.status(FAILED, f"{type(error).__name__}: {error}"[:2000])
        raise
    finally:
        logger.removeHandler(handler)
        journal.close()
        follower.finish()


def inputs(experiment: Experiment) -> dict[str, Any]:
    """What the run is given, as one flat mapping: the declared params by their names, everything else by its path."""
    values = experiment.model_dump(exclude={"params", "tracker", "submit", "name", "description"}, exclude_none=True)
    params = {name: param.default for name, param in experiment.params.items()}
    return {**dict(flat(values)), **params}


def _before(folder: Path) -> TrackedRun:
    """The run as earlier sessions left it in the folder; with no uuid if there was none."""
    run = TrackedRun(folder)
    with contextlib.suppress(OSError):  # the journal could not be made, and has said so
        run.read()
    return run


class _Follower:
    """The process that follows the journal, as the one that trains sees it.

    Args:
        folder: the run folder.
        stop: called, from another thread, with the reason, when a tracker wants the run to stop.
    """

    def __init__(self, folder: Path, stop: Callable[[str], None]) -> None:
        self._folder, self._stop = folder, stop
        # What can be imported here can be imported there: a tracker may be the user's own.
        start = f"import sys; sys.path[:] = {sys.path}; from {main.__module__} import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", start, str(folder.absolute()), str(EXIT_SECS)]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._complain(f"no process could be started for it: {error}")
            return
        self._reader = threading.Thread(target=self._listen, args=(self._process, self._process.stdout), daemon=True)
        self._reader.start()

    def finish(self) -> None:
        """Tell it that the run has ended, and wait until it has done what is left to do; not for long.

        A machine may be too busy for it. Then it is left alone: it ends by itself, and may do it all by then.
        """
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(b"the end\n")  # to close it is not enough: a child of this process may hold it open too
            code = process.wait(EXIT_SECS + MARGIN_SECS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # what has been done is done
            self._complain("it is not done yet")
            return
        self._reader.join(MARGIN_SECS)  # a child of the process may hold its output open for longer
        if code:
            self._complain(f"its process ended with {code}")

    def _listen(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        with output:
            for line in (line.decode(errors="replace").strip() for line in output):
                if line.startswith("stop: "):
                    self._stop(line[len("stop: ") :])
                else:
                    _log.warning("%s", line)
        process.wait()  # whoever left it alone does not: this thread keeps it until it has ended

    def _complain(self, why: str) -> None:
        _log.warning("tracking fell behind: %s; axonrl sync %s makes up for it", why, self._folder)
