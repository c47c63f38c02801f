"""Processes that run trials side by side; what they tell is shown and recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Final

from ...run_dir.provenance import processors
from ..seeds.children import ONE_THREAD, Child
from ..seeds.companion import Companion
from ..seeds.group import FAILED, KILLED, STOPPED
from ..seeds.pool import GRACE_SECS, TICK_SECS, View
from ..tracking.messages import STOP, Message
from . import worker
from .folder import EARLY, OUTPUT, Search, TrialOutcome
from .programs import Keys
from .trial_metrics import Watch

FAILING: Final = (FAILED, KILLED)


class Pool:
    """Runs trials; ``request_stop`` ends all of them.

    Args:
        search: whose trials.
        task: what the processes are told.
        jobs: how many trials run at a time.
        watch: ends some of them early.
        view: shows them.
        companion: is told how they go.
    """

    def __init__(
        self, search: Search, task: worker.Task, jobs: int, watch: Watch, view: View, companion: Companion
    ) -> None:
        self._search, self._jobs, self._watch, self._view, self._companion = search, jobs, watch, view, companion
        companion.listener = self._take_message
        self._task = json.dumps(dataclasses.asdict(task))
        self._workers: list[_Worker] = []
        self._early: dict[int, str] = {}
        """Trials that run and that a rule has stopped, with the reasons."""
        self._selector = selectors.DefaultSelector()
        self.trained = 0.0
        """Seconds that trials of this start spent in training."""
        self.stopping = False
        """Has a stop been asked for?"""
        self._signalled = False

    def request_stop(self, reason: str) -> None:
        """Start no more trials, and let those that run be saved and stop."""
        self.stopping = True

    def run(self, trials: Sequence[int], programs: Mapping[int, Keys]) -> None:
        """Run trials; what becomes of each is recorded in the search.

        Raises:
            OSError: a process could not be started.
        """
        waiting = list(trials)
        while self._busy() or (waiting and not self._ends()):
            while waiting and len(self._busy()) < self._jobs and not self._ends():
                self._give(waiting.pop(0), programs)
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
        """Leave no process behind; those that run a trial end at once."""
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
        return self.stopping or bool(self._search.ended)

    def _busy(self) -> list[_Worker]:
        return [one for one in self._workers if one.trial is not None]

    def _give(self, trial: int, programs: Mapping[int, Keys]) -> None:
        idle = next((one for one in self._workers if one.trial is None and one.popen.poll() is None), None)
        if idle is None:
            idle = _Worker(self._search, self._task, environment(os.environ, self._jobs))
            self._workers.append(idle)
            self._selector.register(idle.stdout, selectors.EVENT_READ, idle)
        search = self._search
        idle.trial = trial
        point, seed = search.points[search.point_of(trial)], search.seed_of(trial)
        idle.write(trial=trial, point=point, seed=seed, programs=dataclasses.asdict(programs[trial]))
        self._watch.began(trial)
        self._view.started(trial)

    def _take(self, one: _Worker) -> None:
        """Read what a process has told by now."""
        while data := one.read():
            for value in one.values(data):
                trial = one.trial
                if trial is None:
                    continue
                if "outcome" in value:
                    one.trial = None
                    self._ended(trial, TrialOutcome(**value["outcome"]))
                elif "warning" in value:
                    self._view.warning(trial, value["warning"])
                elif "began" in value:
                    self._companion.began(trial)
                else:
                    self._view.status(trial, value["line"], value["share"])
        if data is not None:  # the end of its output; that of the process follows
            with contextlib.suppress(KeyError):
                self._selector.unregister(one.stdout)
            one.wait(TICK_SECS)

    def _remove(self, one: _Worker) -> None:
        self._take(one)
        one.close()
        self._workers.remove(one)
        if one.trial is not None:
            self._ended(one.trial, self._without_outcome(one.popen.returncode))

    def _without_outcome(self, code: int) -> TrialOutcome:
        if code >= 0:
            return TrialOutcome(FAILED, message=f"its process ended with exit code {code}")
        name = signal.Signals(-code).name
        return TrialOutcome(STOPPED if self.stopping else KILLED, message=f"its process was ended by {name}")

    def _ended(self, trial: int, outcome: TrialOutcome) -> None:
        early = self._early.pop(trial, "")
        if outcome.status == STOPPED and early:
            outcome = dataclasses.replace(outcome, status=EARLY, message=early)
        self.trained += outcome.seconds or 0.0
        self._search.done(trial, outcome)
        self._watch.ended(trial)
        if self._watch.unknown is not None:  # the search would learn nothing: what runs is saved
            self.stopping = True
        self._companion.ended(trial, outcome)
        self._view.ended(trial, outcome)
        failed = sum(one.status in FAILING for one in self._search.outcomes.values())
        if why := self._watch.rules.end_by_failures(failed, len(self._search.outcomes)):
            self._end(why, failed=True)

    def _judge(self) -> None:
        running = [one.trial for one in self._busy() if one.trial is not None]
        stopped, why = self._watch.judge(running)
        for trial, reason in stopped.items():
            self._stop(trial, reason)
        if why:
            self._end(why)

    def _end(self, why: str, *, failed: bool = False) -> None:
        """End the search: what runs is stopped, and nothing more is started."""
        if self._search.ended:
            return
        self._search.ended, self._search.failed = why, failed
        self._search.write()
        for one in self._busy():
            if one.trial is not None:
                self._stop(one.trial, why)

    def _stop(self, trial: int, reason: str) -> None:
        """Stop a trial that runs, by a rule; the first reason counts."""
        if trial not in self._early:
            self._early[trial] = reason
            self._ask_to_stop(trial, reason)

    def _ask_to_stop(self, trial: int, reason: str) -> None:
        for one in self._workers:
            if one.trial == trial:
                one.write(stop=reason, trial=trial)  # with its number: its process may run the next one by then

    def _take_message(self, trial: int, message: Message) -> None:
        """What the companion says; in a thread of its own."""
        if message.type != STOP:
            self._view.warning(trial, message.text)
            return
        self._ask_to_stop(trial, message.text)

    def _signal(self, number: int) -> None:
        for one in self._busy():
            with contextlib.suppress(ProcessLookupError):
                one.popen.send_signal(number)


def environment(own: Mapping[str, str], jobs: int) -> dict[str, str]:
    """That of a process that shares the machine with others: each gets its part of the processors.

    What the user has set for TensorFlow counts. ``run.json`` records its threads: a trial that is resumed with others,
    since the search was resumed with other jobs, is not exact from there on.
    """
    if jobs == 1:
        return dict(own)
    threads = str(max(1, processors() // jobs))
    return {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads, **own, **ONE_THREAD}


class _Worker(Child):
    """A process that runs trials; ``trial`` is the one that it runs now."""

    def __init__(self, search: Search, task: str, variables: Mapping[str, str]) -> None:
        super().__init__(worker.main, [task], search.folder / OUTPUT / "workers.txt", variables)
        self.trial: int | None = None
