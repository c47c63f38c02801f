"""A pool of processes that run seeds or trials side by side, with their messages shown and recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final, cast

from ...run_dir.provenance import processors
from ..child_process import STOP, Message, send, started
from . import worker
from .companion import Companion
from .display import RunsView
from .metrics import Watch
from .runs import EARLY, FAILED, FAILING, KILLED, OUTPUT, STOPPED, Outcome, Runs

TICK_SECS: Final = 0.2
"""Seconds between two looks at silent processes."""
GRACE_SECS: Final = 10.0
"""Seconds that a process has to end at once before it is killed."""
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Pool:
    """Runs seeds or trials; ``request_stop`` ends all of them.

    Args:
        runs: the runs.
        task: the common part of all runs, for the processes.
        jobs: the number that run at a time.
        watch: ends some of them early.
        view: shows them.
        companion: hears of their beginnings and ends.
        variables: the environment of the processes.
    """

    def __init__(
        self,
        runs: Runs,
        task: worker.Task,
        jobs: int,
        watch: Watch,
        view: RunsView,
        companion: Companion,
        variables: Mapping[str, str],
    ) -> None:
        self._runs, self._jobs, self.watch, self._view, self._companion = runs, jobs, watch, view, companion
        companion.listener = self._take_message
        self._task, self._variables = json.dumps(dataclasses.asdict(task)), variables
        self._workers: list[_Worker] = []
        self._early: dict[int, str] = {}
        """Trials that run and that a rule has stopped, with the reasons."""
        self._selector = selectors.DefaultSelector()
        self.trained = 0.0
        """Seconds that runs of this start spent in training."""
        self.stopping = False
        """Has a stop been asked for?"""
        self._signalled = False

    def request_stop(self, reason: str) -> None:
        """Start nothing more, and let what runs be saved and stop."""
        self.stopping = True

    def run(self, numbers: Sequence[int], programs: Mapping[int, Sequence[str]]) -> None:
        """Run these, and record the outcome of each.

        Args:
            numbers: their numbers.
            programs: the compiled programs that may serve each.

        Raises:
            OSError: a process could not be started.
        """
        waiting = list(numbers)
        while self._busy() or (waiting and not self._ends()):
            while waiting and len(self._busy()) < self._jobs and not self._ends():
                number = waiting.pop(0)
                self._give(number, programs[number])
            if self.stopping and not self._signalled:
                self._signalled = True
                self._signal(signal.SIGTERM)
            for key, _ in self._selector.select(TICK_SECS):
                self._take(key.data)
            for one in [one for one in self._workers if one.popen.poll() is not None]:
                self._remove(one)
            self._judge()
            self._view.refresh()

    def close(self) -> None:
        """Leave no process behind; those that run something end at once."""
        if self._busy():
            self._signal(signal.SIGTERM)
            if not self._signalled:  # the first one asks, the second one ends
                time.sleep(0.05)
                self._signal(signal.SIGTERM)
        for one in self._workers:
            one.write(end=True)
        until = time.monotonic() + GRACE_SECS
        for one in self._workers:
            one.wait(max(0.0, until - time.monotonic()))
            if one.popen.poll() is None:
                one.popen.kill()
                one.popen.wait()
            one.close()
        self._workers.clear()
        self._selector.close()

    def _ends(self) -> bool:
        return self.stopping or bool(self._runs.ended)

    def _busy(self) -> dict[int, _Worker]:
        return {one.number: one for one in self._workers if one.number is not None}

    def _give(self, number: int, programs: Sequence[str]) -> None:
        runs = self._runs
        idle = next((one for one in self._workers if one.number is None and one.popen.poll() is None), None)
        if idle is None:
            idle = _Worker(runs, self._task, self._variables)
            self._workers.append(idle)
            self._selector.register(idle.stdout, selectors.EVENT_READ, idle)
        idle.number = number
        idle.write(run=number, point=runs.point(number), seed=runs.seed_of(number), programs=list(programs))
        self.watch.began(number)
        self._view.started(number)

    def _take(self, one: _Worker) -> None:
        while data := one.read():
            for value in one.values(data):
                number = one.number
                if number is None:
                    continue
                if "outcome" in value:
                    one.number = None
                    self._ended(number, Outcome(**value["outcome"]))
                elif "warning" in value:
                    self._view.warning(number, value["warning"])
                elif "began" in value:
                    self._companion.began(number)
                else:
                    self._view.status(number, value["line"], value["share"])
        if data is not None:  # the end of its output; that of the process follows
            with contextlib.suppress(KeyError):
                self._selector.unregister(one.stdout)
            one.wait(TICK_SECS)

    def _remove(self, one: _Worker) -> None:
        self._take(one)
        one.close()
        self._workers.remove(one)
        if one.number is not None:
            self._ended(one.number, self._without_outcome(one.popen.returncode))

    def _without_outcome(self, code: int) -> Outcome:
        if code >= 0:
            return Outcome(FAILED, message=f"its process ended with exit code {code}")
        name = signal.Signals(-code).name
        return Outcome(STOPPED if self.stopping else KILLED, message=f"its process was ended by {name}")

    def _ended(self, number: int, outcome: Outcome) -> None:
        early = self._early.pop(number, "")
        if outcome.status == STOPPED and early:
            outcome = dataclasses.replace(outcome, status=EARLY, message=early)
        self.trained += outcome.seconds or 0.0
        self._runs.done(number, outcome)
        self.watch.ended(number)
        if self.watch.unknown is not None:  # the search would learn nothing: what runs is saved
            self.stopping = True
        self._companion.ended(number, outcome)
        self._view.ended(number, outcome)
        failed = len(self._runs.with_status(*FAILING))
        if why := self.watch.rules.end_by_failures(failed, len(self._runs.outcomes)):
            self._end(why, failed=True)

    def _judge(self) -> None:
        stopped, why = self.watch.judge(list(self._busy()))
        for number, reason in stopped.items():
            self._stop(number, reason)
        if why:
            self._end(why)

    def _end(self, why: str, *, failed: bool = False) -> None:
        """End the search: stop running trials, and start no more."""
        if self._runs.ended:
            return
        self._runs.ended, self._runs.failed = why, failed
        self._runs.write()
        for number in self._busy():
            self._stop(number, why)

    def _stop(self, number: int, reason: str) -> None:
        """Stop a trial that runs, by a rule; the first reason counts."""
        if number not in self._early:
            self._early[number] = reason
            self._ask_to_stop(number, reason)

    def _ask_to_stop(self, number: int, reason: str) -> None:
        if (one := self._busy().get(number)) is not None:
            one.write(stop=reason, run=number)  # with its number: its process may run the next one by then

    def _take_message(self, number: int, message: Message) -> None:
        """Take a message of the companion, in its thread."""
        if message.type == STOP:
            self._ask_to_stop(number, message.text)
        else:
            self._view.warning(number, message.text)

    def _signal(self, number: int) -> None:
        for one in self._busy().values():
            with contextlib.suppress(ProcessLookupError):
                one.popen.send_signal(number)


def shared_machine(own: Mapping[str, str], jobs: int, *, tensorflow: bool) -> dict[str, str]:
    """The environment of a process that shares the machine with others: each gets its part of the processors.

    What the user has set for TensorFlow counts. ``run.json`` records its threads: a trial that is resumed with others,
    since the search was resumed with other jobs, is not exact from there on.

    Args:
        own: the environment of this process.
        jobs: how many processes there are.
        tensorflow: limit TensorFlow's threads too; not for what is to be the same run as alone.
    """
    if jobs == 1:
        return dict(own)
    threads = str(max(1, processors() // jobs))
    limits = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads} if tensorflow else {}
    return {**limits, **own, **ONE_THREAD}


class _Worker:
    """A worker, seen from the process that started it; ``number`` is its current run."""

    def __init__(self, runs: Runs, task: str, variables: Mapping[str, str]) -> None:
        self.number: int | None = None
        self._rest = b""
        with (runs.folder / OUTPUT / "workers.txt").open("ab") as file:
            self.popen = started(worker.main, [task], stderr=file, env=dict(variables))
        self.stdout = cast("IO[bytes]", self.popen.stdout)
        os.set_blocking(self.stdout.fileno(), False)

    def read(self) -> bytes | None:
        """Read what is there: empty at the end, None if there is nothing now."""
        try:
            return os.read(self.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return None

    def values(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Parse the whole lines of what was read."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return map(json.loads, lines)

    def write(self, **values: Any) -> None:
        """Write a line to it; that it has ended is no error."""
        send(self.popen, **values)

    def wait(self, seconds: float) -> None:
        """Wait a moment for its end, which follows that of its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)

    def close(self) -> None:
        """Close the pipes."""
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
