"""A process that runs seeds or trials one after another, so that TensorFlow is loaded only once.

It reads lines of JSON from its standard input: ``{"run": 3, "point": {...}, "seed": 0, "programs": [...]}``, with the
compiled programs that the run may use; ``{"stop": "why", "run": 3}``, which stops it as a tracker would; and ``{"end":
true}``. If its standard input closes, the process that started it has ended: the run is saved and stopped, as by
SIGTERM.

It writes lines of JSON to its standard output: ``{"line": ..., "share": ...}``, the status and the finished share of
the run (null where that is unknown), ``{"began": true}``, ``{"type": "warning", "text": ...}``, and at the end of a run
``{"outcome": {...}}``. Everything else that is printed goes to the output of the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import json
import logging
import os
import queue
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from ...core.errors import ArgumentError, NotCompilableError, message_of
from ...hooks.events import BeginFacts, EndFacts, Session
from ...hooks.progress import ProgressHook
from ...hooks.status import StatusHook
from ...policies import compiled
from ..child_process import WARNING, Parent, StopOnRequest, WarningRelay
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..errors import ExperimentError, RunFolderError
from ..running import folder as records
from ..running import runner
from ..running.components import Member
from ..running.report import final_return
from ..running.signals import StopOnSignal
from ..tracking.journal import RunGroup
from .metrics import metric_of
from .runs import FAILED, FINISHED, OUTPUT, STOPPED, Outcome, run_experiment

logger = logging.getLogger("axonrl")
STATUS_SECS: Final = 0.5
"""Seconds between status lines."""
WAIT_SECS: Final = 60.0
"""Seconds to wait for the process of an earlier start, which may be saving."""


@dataclasses.dataclass(frozen=True)
class Task:
    """The settings that all runs of a worker share.

    Args:
        folder: the folder of the runs.
        file: name of the experiment file in the folder.
        noun: prefix of the names of run folders.
        name: the name of the experiment.
        identity: the identity of the runs' tracking group.
        metric: the compared metric.
        seeds: all seeds, for compiling shared programs.
        files: the user's experiment file and its includes, for the record.
        command: the command line, for the record.
    """

    folder: str
    file: str
    noun: str
    name: str
    identity: str
    metric: str
    seeds: Sequence[int]
    files: Sequence[str]
    command: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Request:
    """A requested run."""

    run: int
    point: Mapping[str, Any]
    seed: int
    programs: Sequence[str]


def main(arguments: Sequence[str]) -> None:
    """Serve requests; the argument is a :class:`Task` as JSON."""
    task = Task(**json.loads(arguments[0]))
    parent = _parent()
    with StopOnSignal() as signals, contextlib.suppress(KeyboardInterrupt):
        inbox = Inbox(signals)
        threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
        is_first = True
        while (given := inbox.next()) is not None:
            request, asked = given
            _redirect(Path(task.folder, OUTPUT, f"{task.noun}-{request.run}.txt"))
            outcome = outcome_of(functools.partial(run, task, request, parent, signals, asked), signals)
            parent.tell(outcome=dataclasses.asdict(outcome))
            gc.collect()  # a memory of transitions may be in a reference cycle
            if is_first:  # loaded modules stay loaded; scanning them took 40 ms after each run
                gc.freeze()
                is_first = False
            if signals.received is not None:
                break


class Inbox:
    """The requests to this process, read in a thread: runs, each with its stop hook."""

    def __init__(self, signals: StopOnSignal) -> None:
        self._signals = signals
        self._requests: queue.Queue[tuple[Request, StopOnRequest] | None] = queue.Queue()

    def next(self) -> tuple[Request, StopOnRequest] | None:
        """The next run; None at the end."""
        while True:
            with contextlib.suppress(queue.Empty):  # a wait without a timeout would delay signals
                return self._requests.get(timeout=0.2)
            if self._signals.received is not None:
                return None

    def take(self, lines: Iterable[bytes]) -> None:
        """Take lines up to ``end``; at the end of the input, stop as by a signal.

        A stop request names its run, as it may arrive when that run has ended and another one is running.
        """
        asked: dict[int, StopOnRequest] = {}
        with contextlib.suppress(OSError, ValueError):
            for line in lines:
                value = json.loads(line)
                if "end" in value:
                    self._requests.put(None)
                    return
                if "stop" not in value:
                    asked = {value["run"]: StopOnRequest()}
                    self._requests.put((Request(**value), asked[value["run"]]))
                elif value["run"] in asked:
                    asked[value["run"]].request_stop(value["stop"])
        if self._signals.received is None:
            os.kill(os.getpid(), signal.SIGTERM)


def _listen(inbox: Inbox) -> None:
    with open(0, "rb", buffering=0, closefd=False) as lines:
        inbox.take(lines)


def _redirect(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        sys.stdout.flush()
        sys.stderr.flush()
        for number in (1, 2):
            os.dup2(file.fileno(), number)


# -- a run ------------------------------------------------------------------------------------------------------------


def outcome_of(attempt: Callable[[], Outcome], signals: StopOnSignal) -> Outcome:
    """The outcome of a run, whatever it raises."""
    try:
        return attempt()
    except KeyboardInterrupt:
        return Outcome(STOPPED, message=f"stopped at once by {signals.name}")
    except Exception as error:
        if isinstance(error, ExperimentError):  # errors that a user can fix need no traceback
            print(error, file=sys.stderr)
        else:
            traceback.print_exception(error)
        return Outcome(FAILED, message=message_of(error))


def run(task: Task, request: Request, parent: Parent, signals: StopOnSignal, asked: StopOnRequest) -> Outcome:
    """Start a run, or continue it; errors as for :func:`axonrl.experiments.running.runner.run`."""
    experiment, document = run_experiment(Path(task.folder, task.file), request.point, request.seed)
    document = Document(task.files[0], document.values, document.places, tuple(task.files[1:]))
    folder = Path(task.folder, f"{task.noun}-{request.run}")
    resume = (folder / records.EXPERIMENT).is_file()
    if resume:
        _wait_for_writer(folder)
    program = program_for(task, request.programs, experiment, document)
    result = runner.run(
        experiment,
        document,
        folder,
        resume=resume,
        command=task.command,
        hooks=[signals, asked, _Progress(parent)],
        stopped=lambda: asked.reason if signals.received is None else f"{signals.name} received",
        member=Member(program, RunGroup(task.name, task.identity), f"{task.name}-{task.noun}-{request.run}"),
    )
    evaluation = result.evaluation
    outcome = Outcome(
        STOPPED if result.stopped else FINISHED,
        result.episodes,
        result.timesteps,
        result.updates,
        result.seconds,
        final_return(folder) if evaluation is None else evaluation["episode_return_mean"],
        evaluation,
        result.stopped,
    )
    return dataclasses.replace(outcome, metric=metric_of(task.metric, outcome, folder))


def _wait_for_writer(folder: Path) -> None:
    """Wait, for at most a minute, while another process writes to a run."""
    until = time.monotonic() + WAIT_SECS
    while time.monotonic() < until:
        with contextlib.suppress(RunFolderError), records.only_writer(folder, ""):
            return
        time.sleep(0.1)


def program_for(task: Task, names: Iterable[str], experiment: ExperimentFile, document: Document) -> Path | None:
    """The compiled program for a run, shared with others; None if there is none."""
    for name in names:
        place = _compiled_program(task, Path(task.folder, name), experiment, document)
        if place is None:
            break
        with contextlib.suppress(ArgumentError):  # it was compiled with other params, which are not free
            compiled.read(place).with_params(experiment.agent.params)
            return place
    return None


def _compiled_program(task: Task, place: Path, experiment: ExperimentFile, document: Document) -> Path | None:
    """A program, compiled by the first run that needs it, or that cannot use it; None if it cannot be compiled."""
    place.parent.mkdir(parents=True, exist_ok=True)
    refused = place.with_suffix(".txt")
    with FileLock(place.with_suffix(".lock")):
        try:
            compiled.read(place)
            return place
        except ValueError as error:  # it is missing, damaged, or made by other versions before the search was resumed
            why = error
        if refused.is_file():
            return None
        if place.exists():
            logger.warning("%s. Compiling again.", why)
            shutil.rmtree(place)
        try:
            return runner.compile_experiment(experiment, document, place, task.seeds)
        except NotCompilableError as error:
            refused.write_text(f"{error}\n", encoding="utf-8")
            return None


# -- messages ---------------------------------------------------------------------------------------------------------


def _parent() -> Parent:
    """The process that started this one; warnings of the log are sent to it."""
    parent = Parent()
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    logging.getLogger("axonrl").setLevel(logging.INFO)
    logging.getLogger("axonrl").addHandler(WarningRelay(lambda text: parent.tell(type=WARNING, text=text)))
    return parent


class _Progress(ProgressHook):
    """Reports the status to the parent, in place of the hook that shows it on a terminal."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(STATUS_SECS)
        self._parent = parent

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Start measuring."""
        StatusHook.begin(self, session, facts)
        self._parent.tell(began=True)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Report the final status."""
        self._report_last(session)

    def _show(self, session: Session, line: str) -> None:
        self._parent.tell(line=line, share=self._share_done(session))
