"""A process for each seed, some at a time; what they tell is shown and recorded."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ..tracking.messages import STOP, Message
from . import process as seed_process
from .children import ONE_THREAD, Child
from .companion import Companion
from .group import FAILED, KILLED, STOPPED, Group, Outcome

TICK_SECS: Final = 0.2
"""How often processes that say nothing are looked at."""
GRACE_SECS: Final = 10.0
"""What a process has to end at once, before it is killed."""


class View(Protocol):
    """Shows how the seeds go."""

    def started(self, seed: int) -> None:
        """Its process begins."""

    def status(self, seed: int, line: str, share: float | None) -> None:
        """Its status, and the finished share."""

    def warning(self, seed: int, text: str) -> None:
        """Its process warns of something."""

    def ended(self, seed: int, outcome: Outcome) -> None:
        """Its process has ended."""

    def refresh(self) -> None:
        """Called every now and then."""


class Scheduler:
    """Runs seeds; ``request_stop`` ends all of them.

    Args:
        group: whose seeds.
        files: the experiment file and those that it includes, for their records.
        command: the command line, likewise.
        view: shows them.
        companion: is told how they go.
    """

    def __init__(
        self, group: Group, files: Sequence[str], command: Sequence[str], view: View, companion: Companion
    ) -> None:
        self._group, self._view, self._companion = group, view, companion
        companion.listener = self._take_message
        self._task: dict[str, Any] = {"folder": str(group.folder.absolute()), "identity": group.identity}
        self._task |= {"compiled": not group.not_compiled, "files": list(files), "command": list(command)}
        self._running: dict[int, _Process] = {}
        self._stop_asked = self._stop_sent = False

    def request_stop(self, reason: str) -> None:
        """Start no more seeds, and let those that run be saved and stop."""
        self._stop_asked = True

    def run(self, seeds: Sequence[int], jobs: int) -> None:
        """Run seeds, at most ``jobs`` at a time; what becomes of each is recorded in the group.

        Raises:
            KeyboardInterrupt: a second signal; the processes have ended at once.
            OSError: a process could not be started.
        """
        waiting = list(seeds)
        variables = {**os.environ, **(ONE_THREAD if jobs > 1 else {})}
        with selectors.DefaultSelector() as selector:
            try:
                while self._running or (waiting and not self._stop_asked):
                    while waiting and len(self._running) < jobs and not self._stop_asked:
                        self._start(waiting.pop(0), variables, selector)
                    if self._stop_asked and not self._stop_sent:
                        self._stop_sent = True
                        self._signal(signal.SIGTERM)
                    for key, _ in selector.select(TICK_SECS):
                        if not self._take(key.data):
                            selector.unregister(key.fileobj)
                            key.data.wait(TICK_SECS)
                    for one in [one for one in self._running.values() if one.popen.poll() is not None]:
                        self._finish(one, selector)
                    self._view.refresh()
            finally:
                self._end_at_once()

    def _start(self, seed: int, variables: Mapping[str, str], selector: selectors.BaseSelector) -> None:
        one = _Process(self._group, seed, {**self._task, "seed": seed}, variables)
        self._running[seed] = one
        selector.register(one.stdout, selectors.EVENT_READ, one)
        self._view.started(seed)

    def _take(self, one: _Process) -> bool:
        """Read what a process has told by now; False at the end of its output."""
        while data := one.read():
            for value in one.values(data):
                if "outcome" in value:
                    one.outcome = Outcome(**value["outcome"])
                elif "warning" in value:
                    self._view.warning(one.seed, value["warning"])
                elif "began" in value:
                    self._companion.began(one.seed)
                else:
                    self._view.status(one.seed, value["line"], value["share"])
        return data is None

    def _take_message(self, seed: int, message: Message) -> None:
        """What the companion says; in a thread of its own."""
        if message.type != STOP:
            self._view.warning(seed, message.text)
        elif (one := self._running.get(seed)) is not None:
            one.stop(message.text)

    def _finish(self, one: _Process, selector: selectors.BaseSelector) -> None:
        self._take(one)
        with contextlib.suppress(KeyError):
            selector.unregister(one.stdout)
        one.close()
        del self._running[one.seed]
        outcome = one.outcome or self._without_outcome(one.popen.returncode)
        self._group.ended(one.seed, outcome)
        self._companion.ended(one.seed, outcome)
        self._view.ended(one.seed, outcome)

    def _without_outcome(self, code: int) -> Outcome:
        if code >= 0:
            return Outcome(FAILED, message=f"its process ended with exit code {code}")
        name = signal.Signals(-code).name
        return Outcome(STOPPED if self._stop_asked else KILLED, message=f"its process was ended by {name}")

    def _signal(self, number: int) -> None:
        for one in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                one.popen.send_signal(number)

    def _end_at_once(self) -> None:
        """Leave no process behind."""
        if not self._running:
            return
        self._signal(signal.SIGTERM)
        if not self._stop_sent:  # the first one asks, the second one ends
            time.sleep(0.05)
            self._signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECS
        for one in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.popen.wait(max(0.0, until - time.monotonic()))
        self._signal(signal.SIGKILL)
        for one in self._running.values():
            one.popen.wait()
            one.close()


class _Process(Child):
    """The process of a seed, seen from the one that started it."""

    def __init__(self, group: Group, seed: int, task: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        super().__init__(seed_process.main, [json.dumps(task)], group.output(seed), variables)
        self.seed = seed
        self.outcome: Outcome | None = None

    def stop(self, reason: str) -> None:
        """Have it saved and stopped."""
        self.write(stop=reason)
