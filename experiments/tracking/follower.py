"""The process that follows a run's journal and keeps its trackers up to date.

It is started by the process that trains, and ends soon after it: when a line comes on standard input, or its end. What
it has to say to the user it writes to standard output, a line each. A line that begins with ``stop:`` asks to stop the
run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

from ..errors import TrackerError
from ..polyaxon.offline import OfflineRun
from .journal import ENDED, FAILED, KILLED, Journal, TrackedRun
from .trackers import StopRequestedError, Tracker, trackers_of

LOCAL_SECS: Final = 2.0
"""Seconds between two looks at the journal."""
PUSH_SECS: Final = 5.0
"""Seconds between two pushes to a tracker, at least."""
PUSH_PAUSE: Final = 10.0
"""Times as long as a push took is the pause after it, at least."""
RETRY_SECS: Final = 30.0
"""Seconds between two pushes, at most. After a failure they begin with one and double."""
LOCK: Final = "tracking.lock"
"""Held by the one process that tracks a run."""
EXIT_SECS: Final = 7.0
"""Seconds that trackers have when the run has ended."""


class Pusher(threading.Thread):
    """Pushes the run to one tracker, again and again: whatever the tracker does, the others do not wait for it.

    Args:
        name: what the user calls the tracker.
        tracker: told what the run holds.
        run: what it is told; another thread reads on in the journal.
        say: tells the user.
    """

    def __init__(self, name: str, tracker: Tracker, run: TrackedRun, say: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._tracker, self._run, self._say = tracker, run, say
        self._ended, self._woken = threading.Event(), threading.Event()
        self._stopped = False
        self.done = False
        """Does the tracker hold all that the ended run holds?"""

    def wake(self) -> None:
        """Push now: there is something that people wait for."""
        self._woken.set()

    def end(self) -> None:
        """The run has ended: push what is left, and end."""
        self._ended.set()
        self._woken.set()

    def run(self) -> None:
        """Push until the run has ended and everything has been pushed."""
        failures, said = 0, set[str]()
        while not self.done:
            ended, began = self._ended.is_set(), time.monotonic()
            try:
                self._push()
            except Exception as error:  # a tracker may be anybody's: whatever it raises, the run goes on
                failures += 1
                if (text := explained(self.name, error)) not in said:
                    said.add(text)
                    self._say(f"{text}; it is tried again, and training goes on")
            else:
                if failures:
                    self._say(f"tracker {self.name}: it works again")
                    said.clear()
                failures, self.done = 0, ended
            took = time.monotonic() - began
            pause = min(RETRY_SECS, 2.0 ** (failures - 1) if failures else max(PUSH_SECS, PUSH_PAUSE * took))
            if ended:
                time.sleep(1.0 if failures else 0.0)
            else:
                self._woken.wait(pause)
                self._woken.clear()

    def _push(self) -> None:
        try:
            self._tracker.push(self._run)
        except StopRequestedError as error:
            if not self._stopped:
                self._stopped = True
                self._say(f"stop: {error}")


def explained(name: str, error: Exception) -> str:
    """What went wrong with a tracker, in a line; a TrackerError names the tracker itself."""
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, TrackerError) else f"tracker {name}: {type(error).__name__}: {text}"


def follow(folder: Path, ended: threading.Event, say: Callable[[str], None], seconds: float | None = None) -> None:
    """Keep the trackers of a run up to date until it has ended.

    Args:
        folder: the run folder.
        ended: set when the process that trains has written its last line.
        say: tells the user.
        seconds: that trackers have from then on; None for EXIT_SECS.
    """
    run = TrackedRun(folder)
    kept = _Kept(run, say)
    kept.update()
    session = run.sessions
    pushers = [Pusher(name, tracker, run, say) for name, tracker in _trackers(folder, say)]
    for pusher in pushers:
        pusher.start()
    told = len(run.statuses)
    while not ended.wait(LOCAL_SECS):
        kept.update()
        if len(run.statuses) > told:
            told = len(run.statuses)
            for pusher in pushers:
                pusher.wake()
    deadline = time.monotonic() + (EXIT_SECS if seconds is None else seconds)
    kept.end(session)
    for pusher in pushers:
        pusher.end()
    for pusher in pushers:
        pusher.join(max(0.0, deadline - time.monotonic()))
    if kept.failed:
        say(f"the Polyaxon run in {folder} is not whole; axonrl sync {folder} writes the rest")
    if left := [pusher.name for pusher in pushers if not pusher.done]:
        say(f"not everything has reached {', '.join(left)}; axonrl sync {folder} sends the rest")


class _Kept:
    """The Polyaxon run in the run folder, as the user is told of it.

    Args:
        run: what it is to hold.
        say: tells the user.
    """

    def __init__(self, run: TrackedRun, say: Callable[[str], None]) -> None:
        self._run, self._say, self._offline = run, say, OfflineRun()
        self.failed = False
        """Could it not be written the last time?"""

    def update(self) -> None:
        """Bring it up to date, if there is anything new."""
        self._attempt(self._read_and_push)

    def end(self, session: int) -> None:
        """Bring it up to date when the process of a session has ended."""
        self._attempt(lambda: complete(self._run, self._offline, session))

    def _read_and_push(self) -> None:
        if self._run.read() or self.failed:
            self._offline.push(self._run)

    def _attempt(self, write: Callable[[], None]) -> None:
        """That it cannot be written, because the disk is full say, is said once and tried again; whatever it is."""
        place = f"the Polyaxon run in {self._run.folder}"
        try:
            write()
        except Exception as error:
            if not self.failed:
                why = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
                self._say(f"{place} cannot be written ({why}); it is tried again, and training goes on")
            self.failed = True
        else:
            if self.failed:
                self._say(f"{place} is written again")
            self.failed = False


def _trackers(folder: Path, say: Callable[[str], None]) -> list[tuple[str, Tracker]]:
    try:
        return trackers_of(folder)
    except Exception as error:  # a tracker may be anybody's
        say(f"no tracker is told of the run, for one cannot be made: {error}")
        return []


def complete(run: TrackedRun, offline: OfflineRun | None = None, session: int | None = None) -> None:
    """Bring the Polyaxon run in the folder of a run that has ended up to date; also if it was killed.

    Args:
        run: the run, of which no process writes the journal any more.
        offline: what has kept it until now, if anything has.
        session: the one that has ended, of which another may have become; None for the last.

    Raises:
        OSError: it cannot be written.
    """
    run.read()
    if run.status not in ENDED and session in (None, run.sessions):
        journal = Journal(run.folder)
        journal.status(FAILED, KILLED)
        journal.close()
        run.read()
    (offline or OfflineRun()).push(run)


def main(arguments: Sequence[str]) -> None:
    """Follow the run in the folder that the arguments name; and the seconds that trackers have at its end."""
    from filelock import FileLock

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the run's end counts
    if hasattr(os, "nice"):  # not on Windows
        os.nice(5)
    folder = Path(arguments[0])
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr  # which nobody reads: what libraries print is not for the user
    with FileLock(str(folder / LOCK)):  # the follower of a run that was killed just now may have something left to do
        follow(folder, ended, functools.partial(_say, out), float(arguments[1]))
    os._exit(0)  # not waiting for the thread of a tracker that hangs


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.buffer.readline()
    ended.set()


def _say(out: TextIO, text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more
        print(text, file=out, flush=True)
