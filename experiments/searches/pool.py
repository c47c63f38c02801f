"""A pool of processes that run seeds or trials side by side, with their messages shown and recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...run_dir.provenance import processors
from ..child_process import STOP, Child, Message
from . import worker
from .companion import Companion
from .display import RunsView
from .metrics import Watch
from .runs import EARLY, FAILED, FAILING, KILLED, OUTPUT, STOPPED, Outcome, Runs

TICK_SECS: Final = 0.2
"""Seconds between checks of silent processes."""
GRACE_SECS: Final = 10.0
"""Seconds in which a process must end after being asked, before it is killed."""
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Pool:
    """Runs seeds or trials; ``request_stop`` ends all of them.

    Args:
        runs: the runs.
        task: what all runs have in common, for the processes.
        jobs: the number that run at a time.
        watch: stops some of them early.
        view: shows them.
        companion: notified when they begin and end.
        variables: environment variables of the processes.
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
        """Running trials that a rule has stopped, with the reasons."""
        self._messages: queue.SimpleQueue[tuple[_Worker, dict[str, Any]]] = queue.SimpleQueue()
        self.trained = 0.0
        """Seconds that runs of this start have spent in training."""
        self.stopping = False
        """Whether a stop was requested."""
        self._signalled = False

    def request_stop(self, reason: str) -> None:
        """Start no further runs; save and stop running ones."""
        self.stopping = True

    def run(self, numbers: Sequence[int], programs: Mapping[int, Sequence[str]]) -> None:
        """Run these runs, and record the outcome of each.

        Args:
            numbers: their numbers.
            programs: the compiled programs that each may use.

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
            self._take_messages(TICK_SECS)
            for one in [one for one in self._workers if one.process.poll() is not None]:
                self._remove(one)
            self._judge()
            self._view.refresh()

    def close(self) -> None:
        """End all processes; running ones stop at once."""
        if self._busy():
            self._signal(signal.SIGTERM)
            if not self._signalled:  # the first signal asks to stop, the second one ends
                time.sleep(0.05)
                self._signal(signal.SIGTERM)
        for one in self._workers:
            one.tell(end=True)
        until = time.monotonic() + GRACE_SECS
        for one in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.end(max(0.0, until - time.monotonic()), TICK_SECS)
                continue
            one.process.kill()
            one.end(reading=TICK_SECS)
        self._workers.clear()

    def _ends(self) -> bool:
        return self.stopping or bool(self._runs.ended)

    def _busy(self) -> dict[int, _Worker]:
        return {one.number: one for one in self._workers if one.number is not None}

    def _give(self, number: int, programs: Sequence[str]) -> None:
        runs = self._runs
        alive = (one for one in self._workers if one.process.poll() is None)
        idle = next((one for one in alive if one.number is None), None)
        if idle is None:
            idle = _Worker(runs.folder / OUTPUT, self._task, self._variables, self._messages)
            self._workers.append(idle)
        idle.number = number
        idle.tell(run=number, point=runs.point(number), seed=runs.seed_of(number), programs=list(programs))
        self.watch.began(number)
        self._view.started(number)

    def _take_messages(self, seconds: float) -> None:
        """Take the messages of processes, waiting for at most this time."""
        with contextlib.suppress(queue.Empty):
            self._take(*self._messages.get(timeout=seconds))
            while True:
                self._take(*self._messages.get_nowait())

    def _take(self, one: _Worker, value: Mapping[str, Any]) -> None:
        number = one.number
        if number is None:
            return
        if "outcome" in value:
            one.number = None
            self._note_end(number, Outcome(**value["outcome"]))
        elif "began" in value:
            self._companion.began(number)
        elif "line" in value:
            self._view.status(number, value["line"], value["share"])
        else:
            self._view.warning(number, value["text"])

    def _remove(self, one: _Worker) -> None:
        code = one.end(reading=TICK_SECS)
        self._take_messages(0.0)
        self._workers.remove(one)
        if one.number is not None:
            self._note_end(one.number, self._without_outcome(code))

    def _without_outcome(self, code: int) -> Outcome:
        if code >= 0:
            return Outcome(FAILED, message=f"its process ended with exit code {code}")
        name = signal.Signals(-code).name
        return Outcome(STOPPED if self.stopping else KILLED, message=f"its process was ended by {name}")

    def _note_end(self, number: int, outcome: Outcome) -> None:
        early = self._early.pop(number, "")
        if outcome.status == STOPPED and early:
            outcome = dataclasses.replace(outcome, status=EARLY, message=early)
        self.trained += outcome.seconds or 0.0
        self._runs.done(number, outcome)
        self.watch.ended(number)
        if self.watch.unknown is not None:  # the search would learn nothing: running trials are saved
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
        """End the search: stop running trials, and start no further ones."""
        if self._runs.ended:
            return
        self._runs.ended, self._runs.failed = why, failed
        self._runs.write()
        for number in self._busy():
            self._stop(number, why)

    def _stop(self, number: int, reason: str) -> None:
        """Stop a running trial because of a rule; the first reason counts."""
        if number not in self._early:
            self._early[number] = reason
            self._ask_to_stop(number, reason)

    def _ask_to_stop(self, number: int, reason: str) -> None:
        if (one := self._busy().get(number)) is not None:
            one.tell(stop=reason, run=number)  # with its number, as its process may already run the next one

    def _take_message(self, number: int, message: Message) -> None:
        """Take a message of the companion, in its thread."""
        if message.type == STOP:
            self._ask_to_stop(number, message.text)
        else:
            self._view.warning(number, message.text)

    def _signal(self, number: int) -> None:
        for one in self._busy().values():
            with contextlib.suppress(ProcessLookupError):
                one.process.send_signal(number)


def shared_machine(own: Mapping[str, str], jobs: int, *, tensorflow: bool) -> dict[str, str]:
    """Environment variables of a process that shares the machine: each process gets its part of the processors.

    The user's own settings for TensorFlow take precedence. ``run.json`` records the number of threads: if a search is
    resumed with another number of jobs, its resumed trials are no longer exact.

    Args:
        own: the environment of this process.
        jobs: number of processes.
        tensorflow: whether to limit TensorFlow's threads, too; not for runs that must equal those started alone.
    """
    if jobs == 1:
        return dict(own)
    threads = str(max(1, processors() // jobs))
    limits = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads} if tensorflow else {}
    return {**limits, **own, **ONE_THREAD}


class _Worker(Child):
    """A worker, as seen by the process that started it; ``number`` is its current run."""

    def __init__(self, output: Path, task: str, variables: Mapping[str, str], messages: queue.SimpleQueue[Any]) -> None:
        self.number: int | None = None
        with (output / "workers.txt").open("ab") as file:
            options = {"stderr": file, "env": dict(variables)}
            super().__init__(worker.main, [task], lambda values: messages.put((self, values)), **options)
