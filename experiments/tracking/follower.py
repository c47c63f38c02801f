"""The process that follows a run's journal and keeps its trackers up to date.

The training process starts it, and it ends soon after that process: when standard input has a line or ends. Standard
output carries its messages: see child_process.py.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ...core.errors import message_of, place_of
from ..child_process import STOP, WAIT, WARNING, Message, Parent, Tell, WarningRelay
from ..errors import TrackerError
from .journal import ENDED, FAILED, KILLED, Journal, TrackedRun
from .trackers import Choice, StopRequestedError, Tracker, Writer, make_trackers, make_writers

LOCAL_SECS: Final = 2.0
"""Seconds between reads of the journal."""
PUSH_SECS: Final = 5.0
"""Minimum pause between pushes to a tracker, in seconds."""
PUSH_PAUSE: Final = 10.0
"""The pause after a push is at least this many times as long as the push."""
RETRY_SECS: Final = 30.0
"""Maximum pause between pushes, in seconds. After a failure the pause is one second, then doubles."""
LOCK: Final = "tracking.lock"
"""File locked by the process that tracks the run."""
CONTINUES: Final = "retrying, and training continues"
EXIT_SECS: Final = 7.0
"""Seconds for trackers to finish after the end of the run."""
PREPARE_SECS: Final = 120.0
"""Additional seconds for trackers that create something that must not be left unfinished."""
_WRITING: Final = threading.Lock()
"""Makes writers take turns if a process follows several runs."""


class Pusher(threading.Thread):
    """Pushes the run to one tracker repeatedly; other trackers do not wait for it.

    Args:
        name: name of the tracker in messages.
        tracker: the tracker.
        run: the run to push; another thread continues to read its journal.
        tell: called with warnings and with the request to stop the run.
    """

    def __init__(self, name: str, tracker: Tracker, run: TrackedRun, tell: Tell) -> None:
        super().__init__(name=name, daemon=True)
        self._tracker, self._run, self._tell = tracker, run, tell
        self._ended, self._woken = threading.Event(), threading.Event()
        self._stopped = self._left = False
        self.done = False
        """Whether the tracker is up to date with the ended run."""

    @property
    def preparing(self) -> bool:
        """Is the tracker creating something that must not be left unfinished?"""
        return bool(getattr(self._tracker, "preparing", False))

    def wake(self) -> None:
        """Push now."""
        self._woken.set()

    def end(self) -> None:
        """Push the rest of an ended run, and end."""
        self._ended.set()
        self._woken.set()

    def leave(self) -> None:
        """Push no more, as another process, or a start of this run, may push the rest."""
        self._left = True

    def run(self) -> None:
        """Push until the run has ended and everything has been pushed."""
        failures, said = 0, set[str]()
        while not (self.done or self._left):
            ended, began = self._ended.is_set(), time.monotonic()
            try:
                self._push()
            except Exception as error:  # a user's tracker may raise anything; the run continues
                failures += 1
                if (text := explain(self.name, error)) not in said:
                    said.add(text)
                    self._tell(Message(WARNING, f"{text}; {CONTINUES}"))
            else:
                if failures:
                    self._tell(Message(WARNING, f"tracker {self.name}: works again"))
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
                self._tell(Message(STOP, str(error)))


def explain(name: str, error: Exception) -> str:
    """Explain a tracker's error in one line; the text of a TrackerError already names the tracker."""
    text, place = " ".join(str(error).split())[:500], place_of(error)
    if isinstance(error, TrackerError):
        return text
    return f"tracker {name}: {type(error).__name__}: {text}{'' if place is None else f' ({place})'}"


def follow(
    folder: Path, chosen: Sequence[Choice], ended: threading.Event, tell: Tell, seconds: float | None = None
) -> None:
    """Keep the trackers of a run up to date until it has ended.

    Args:
        folder: the run folder.
        chosen: the trackers.
        ended: set when the process that trains has written its last line.
        tell: called with warnings and requests to stop the run.
        seconds: time for trackers to finish after that; None for EXIT_SECS.
    """
    run = TrackedRun(folder)
    files = _Files(run, make_writers(chosen), tell)
    files.update()
    start = run.starts
    pushers = _pushers(chosen, run, tell)
    for pusher in pushers:
        pusher.start()
    told = len(run.statuses)
    while not ended.wait(LOCAL_SECS):
        files.update()
        if len(run.statuses) > told:
            told = len(run.statuses)
            for pusher in pushers:
                pusher.wake()
    seconds = EXIT_SECS if seconds is None else seconds
    deadline = time.monotonic() + seconds
    files.end(start)
    for pusher in pushers:
        pusher.end()
    _wait(pushers, deadline, seconds, tell)
    for pusher in pushers:
        pusher.leave()
    for what in files.incomplete:
        tell(Message(WARNING, f"{what} in {folder} is incomplete; axonrl sync {folder} writes the rest"))
    if left := [pusher.name for pusher in pushers if not pusher.done]:
        tell(Message(WARNING, f"not everything has reached {', '.join(left)}; axonrl sync {folder} sends the rest"))


def _wait(pushers: Sequence[Pusher], deadline: float, seconds: float, tell: Tell) -> None:
    """Wait for pushers to end, until a deadline.

    If one is creating something that must not be left unfinished, say so and wait longer: ``seconds`` after it is done.
    """
    last = 0.0
    while (left := [pusher for pusher in pushers if pusher.is_alive()]) and (now := time.monotonic()) < deadline:
        if making := [pusher.name for pusher in left if pusher.preparing]:
            if not last:
                last = now + PREPARE_SECS
                what = f"{', '.join(making)}: a new store is being created"
                tell(Message(WAIT, f"{what}; the end of the run waits for that, for at most {PREPARE_SECS:g} seconds"))
            deadline = max(deadline, min(now + seconds, last))
        left[0].join(0.05)


class _Files:
    """The files that trackers keep in the run folder. Says when a writer starts to fail, and when it works again."""

    def __init__(self, run: TrackedRun, writers: Sequence[Writer], tell: Tell) -> None:
        self._run, self._writers, self._tell = run, writers, tell
        self._failed: list[Writer] = []

    @property
    def incomplete(self) -> list[str]:
        """Files whose last write failed."""
        return [writer.what for writer in self._failed]

    def update(self) -> None:
        """Update the files if there is anything new."""
        self._write(self._run.read, always=False)

    def end(self, start: int) -> None:
        """Update the files when the process of this start has ended."""
        self._write(lambda: mark_ended(self._run, start), always=True)

    def _write(self, read: Callable[[], bool], always: bool) -> None:
        try:
            new = read()
        except Exception as error:
            for writer in self._writers:
                self._fails(writer, error)
            return
        for writer in self._writers:
            if not (new or always or writer in self._failed):
                continue
            try:
                with _WRITING:
                    writer.write(self._run)
            except Exception as error:
                self._fails(writer, error)
            else:
                self._works(writer)

    def _fails(self, writer: Writer, error: Exception) -> None:
        if writer not in self._failed:
            self._failed.append(writer)
            why = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
            self._tell(Message(WARNING, f"{self._place(writer)} cannot be written ({why}); {CONTINUES}"))

    def _works(self, writer: Writer) -> None:
        if writer in self._failed:
            self._failed.remove(writer)
            self._tell(Message(WARNING, f"{self._place(writer)} is written again"))

    def _place(self, writer: Writer) -> str:
        return f"{writer.what} in {self._run.folder}"


def _pushers(chosen: Sequence[Choice], run: TrackedRun, tell: Tell) -> list[Pusher]:
    try:
        return [Pusher(name, tracker, run, tell) for name, tracker in make_trackers(chosen)]
    except Exception as error:  # a user's tracker may raise anything
        tell(Message(WARNING, f"a tracker cannot be created, and none is used: {message_of(error)}"))
        return []


def complete(run: TrackedRun, writers: Sequence[Writer]) -> None:
    """Update the files in the folder of an ended run, even if it was killed.

    Args:
        run: the run; no process writes its journal any more.
        writers: the writers of the files.

    Raises:
        OSError: one of them cannot be written.
    """
    mark_ended(run)
    for writer in writers:
        writer.write(run)


def mark_ended(run: TrackedRun, start: int | None = None) -> bool:
    """Read the journal to its end; if it has no final status, the run was killed, and that status is added.

    Args:
        run: the run.
        start: the start that has ended, which may no longer be the latest; None for the latest.

    Returns:
        Whether there was anything new.

    Raises:
        OSError: the journal cannot be read.
    """
    new = run.read()
    if run.status not in ENDED and start in (None, run.starts):
        journal = Journal(run.folder)
        journal.status(FAILED, KILLED)
        journal.close()
        new = run.read() or new
    return new


def main(arguments: Sequence[str]) -> None:
    """Follow a run.

    Args:
        arguments: the run folder; the seconds for trackers at the run's end; and the trackers, as JSON.
    """
    from filelock import FileLock

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the run's end counts
    if hasattr(os, "nice"):  # not available on Windows
        os.nice(5)
    folder, seconds = Path(arguments[0]), float(arguments[1])
    chosen = [Choice(*one) for one in json.loads(arguments[2])]
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    parent = Parent()

    def tell(message: Message) -> None:
        parent.tell(**message._asdict())

    logging.getLogger("axonrl").addHandler(WarningRelay(lambda text: tell(Message(WARNING, text))))
    with FileLock(str(folder / LOCK)):  # the follower of a run that was just killed may still be busy
        follow(folder, chosen, ended, tell, seconds)
    os._exit(0)  # without waiting for the thread of a hanging tracker


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.buffer.readline()
    ended.set()
