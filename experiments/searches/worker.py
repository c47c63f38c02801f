"""A process that runs trials, one after another: what it has loaded, TensorFlow above all, is loaded once.

It reads lines of JSON from its standard input: ``{"trial": 3, "point": {...}, "seed": 0, "programs": {...}}``, where
``programs`` has the fields of :class:`.programs.Keys`; ``{"stop": "why", "trial": 3}``; ``{"end": true}``.
What it tells is what the process of a seed tells, with the trial's outcome at its end. When its standard input closes,
the process that started it has ended: the trial is saved and stops.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from ...core.errors import ArgumentError, NotCompilableError
from ...core.tensorflow_import import load_tensorflow
from ...policies import compiled
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..running import folder as records
from ..running import runner
from ..running.components import Member
from ..running.signals import StopOnSignal
from ..seeds.group import FINISHED, STOPPED
from ..seeds.process import StopOnRequest, Teller, attempted, final_return, telling, wait_for_writer
from ..tracking.journal import Group
from .folder import OUTPUT, PROGRAMS, TRIAL, TrialOutcome, trial_experiment
from .metrics import measured
from .programs import Keys


@dataclasses.dataclass(frozen=True)
class Task:
    """What all trials of a worker have in common.

    Args:
        folder: of the search.
        name: of the experiment.
        identity: the search's.
        metric: what is compared.
        seeds: all of the search's, with which shared programs are compiled.
        files: the experiment file of the user and those that it includes, for the record.
        command: the command line, for the record.
    """

    folder: str
    name: str
    identity: str
    metric: str
    seeds: Sequence[int]
    files: Sequence[str]
    command: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Trial:
    """What is asked for in one line."""

    trial: int
    point: Mapping[str, Any]
    seed: int
    programs: Mapping[str, str]


def main(arguments: Sequence[str]) -> None:
    """Run trials; the argument is a :class:`Task` as JSON."""
    task = Task(**json.loads(arguments[0]))
    teller = telling()
    with StopOnSignal() as signals, contextlib.suppress(KeyboardInterrupt):
        inbox = Inbox(signals)
        threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
        is_first = True
        while (given := inbox.next()) is not None:
            trial, asked = given
            _redirect(Path(task.folder, OUTPUT, f"{TRIAL}-{trial.trial}.txt"))
            attempt = functools.partial(run, task, trial, teller, signals, asked)
            outcome = attempted(attempt, TrialOutcome, signals)
            teller.tell(outcome=dataclasses.asdict(outcome))
            gc.collect()  # a memory of transitions may be in a circle
            if is_first:  # what is loaded by now stays: to look through all of it took 40 ms after each trial
                gc.freeze()
                is_first = False
            if signals.received is not None:
                break


class Inbox:
    """What is asked of this process, read in a thread: trials, each with what can stop it."""

    def __init__(self, signals: StopOnSignal) -> None:
        self._signals = signals
        self._trials: queue.Queue[tuple[Trial, StopOnRequest] | None] = queue.Queue()

    def next(self) -> tuple[Trial, StopOnRequest] | None:
        """The next trial; None at the end."""
        while True:
            with contextlib.suppress(queue.Empty):  # a wait without a limit would hold back signals
                return self._trials.get(timeout=0.2)
            if self._signals.received is not None:
                return None

    def take(self, lines: Iterable[bytes]) -> None:
        """Take lines up to the one that says that there are no more; at the end of the input, stop as by a signal.

        A request to stop is one about the trial that it names: it may come when that has ended, and another one runs.
        """
        asked: dict[int, StopOnRequest] = {}
        with contextlib.suppress(OSError, ValueError):
            for line in lines:
                value = json.loads(line)
                if "end" in value:
                    self._trials.put(None)
                    return
                if "stop" not in value:
                    asked = {value["trial"]: StopOnRequest()}
                    self._trials.put((Trial(**value), asked[value["trial"]]))
                elif value["trial"] in asked:
                    asked[value["trial"]].request_stop(value["stop"])
        if self._signals.received is None:
            os.kill(os.getpid(), signal.SIGTERM)


def _listen(inbox: Inbox) -> None:
    """In a thread."""
    with open(0, "rb", buffering=0, closefd=False) as lines:
        inbox.take(lines)


def _redirect(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        sys.stdout.flush()
        sys.stderr.flush()
        for number in (1, 2):
            os.dup2(file.fileno(), number)


def run(task: Task, trial: Trial, teller: Teller, signals: StopOnSignal, asked: StopOnRequest) -> TrialOutcome:
    """Run a trial, or continue it; errors as for :func:`axonrl.experiments.running.runner.run`."""
    experiment, document = trial_experiment(Path(task.folder), trial.point, trial.seed)
    document = Document(task.files[0], document.values, document.places, tuple(task.files[1:]))
    folder = Path(task.folder, f"{TRIAL}-{trial.trial}")
    resume = (folder / records.EXPERIMENT).is_file()
    if resume:
        wait_for_writer(folder)
    program = _program(task, Keys(**trial.programs), experiment, document)
    if program is None:
        load_tensorflow()
    result = runner.run(
        experiment,
        document,
        folder,
        resume=resume,
        command=task.command,
        hooks=[signals, asked, teller.hook],
        stopped=lambda: asked.reason if signals.received is None else f"{signals.name} received",
        member=Member(program, Group(task.name, task.identity), f"{task.name}-{TRIAL}-{trial.trial}"),
    )
    evaluation = result.evaluation
    outcome = TrialOutcome(
        STOPPED if result.stopped else FINISHED,
        result.episodes,
        result.timesteps,
        result.updates,
        result.seconds,
        final_return(folder) if evaluation is None else evaluation["episode_return_mean"],
        evaluation,
        result.stopped,
    )
    return dataclasses.replace(outcome, metric=measured(task.metric, outcome, folder))


def _program(task: Task, keys: Keys, experiment: ExperimentFile, document: Document) -> Path | None:
    """Where the program is that the trial shares with others; None where there is none for it."""
    for name in dict.fromkeys(filter(None, (keys.family, keys.own))):
        place = _compiled(task, name, experiment, document)
        if place is None:
            break
        with contextlib.suppress(ArgumentError):  # it was compiled with other params, which it does not leave open
            compiled.read(place).with_params(experiment.agent.params)
            return place
    return None


def _compiled(task: Task, name: str, experiment: ExperimentFile, document: Document) -> Path | None:
    """A program, compiled by the first trial that needs it; None where it cannot be compiled."""
    place = Path(task.folder, PROGRAMS, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    refused = place.with_suffix(".txt")
    with FileLock(place.with_suffix(".lock")):
        if (place / compiled.FILE).is_file():
            return place
        if refused.is_file():
            return None
        load_tensorflow()
        try:
            return runner.compile_experiment(experiment, document, place, task.seeds)
        except NotCompilableError as error:
            refused.write_text(f"{error}\n", encoding="utf-8")
            return None
