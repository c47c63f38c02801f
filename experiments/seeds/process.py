"""The process of one seed: an ordinary run, which tells the process that started it how it goes.

What it tells are lines of JSON on its standard output: ``{"line": ..., "share": ...}``, the status and the finished
share of the run (null where that is unknown), ``{"began": true}``, ``{"warning": ...}``, and at the end ``{"outcome":
{...}}``. Everything else that is printed goes to its standard error. When its standard input closes, the process that
started it has ended: the run is saved and stops, as with SIGTERM. A line there, ``{"stop": "why"}``, stops it as a
tracker would.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ...core.errors import message_of
from ...hooks import Hook
from ...hooks.events import BeginFacts, EndFacts, Session
from ...hooks.progress import ProgressHook
from ...hooks.status import StatusHook
from ..config.files import Document
from ..config.schema import load
from ..errors import ExperimentError, RunFolderError
from ..running import folder as records
from ..running import runner
from ..running.components import Member
from ..running.report import last_returns
from ..running.signals import StopOnSignal
from ..tracking.journal import Group as TrackedGroup
from . import group as groups
from .group import FAILED, FINISHED, STOPPED, Outcome

STATUS_SECS: Final = 0.5
"""Seconds between two status lines."""
WAIT_SECS: Final = 60.0
"""How long to wait for the process of an earlier start, which may be saving."""

_Outcome = TypeVar("_Outcome")


@dataclasses.dataclass(frozen=True)
class Task:
    """What a process is told.

    Args:
        folder: of the group.
        seed: which of them.
        identity: the group's.
        compiled: is there a compiled program?
        files: the experiment file of the user and those that it includes, for the record.
        command: the command line, for the record.
    """

    folder: str
    seed: int
    identity: str
    compiled: bool
    files: Sequence[str]
    command: Sequence[str]


def main(arguments: Sequence[str]) -> None:
    """Run a seed; the argument is a :class:`Task` as JSON."""
    task = Task(**json.loads(arguments[0]))
    teller = telling()
    with StopOnSignal() as signals:
        asked = StopOnRequest()
        threading.Thread(target=_listen, args=(signals, asked), daemon=True).start()
        outcome = attempted(lambda: run(task, teller, signals, asked), Outcome, signals)
        teller.tell(outcome=dataclasses.asdict(outcome))


def telling() -> Teller:
    """Tell lines on what was the standard output; all else, what a user's code prints too, goes to standard error."""
    teller = Teller(os.dup(1))
    os.dup2(2, 1)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    logging.getLogger("axonrl").setLevel(logging.INFO)
    logging.getLogger("axonrl").addHandler(Warnings(teller))
    return teller


def attempted(attempt: Callable[[], _Outcome], made: Callable[..., _Outcome], signals: StopOnSignal) -> _Outcome:
    """What came of a run, whatever it raised; ``made`` makes an outcome of a status and a ``message``."""
    try:
        return attempt()
    except KeyboardInterrupt:
        return made(STOPPED, message=f"stopped at once by {signals.name}")
    except Exception as error:
        if isinstance(error, ExperimentError):  # what a user can mend needs no traceback
            print(error, file=sys.stderr)
        else:
            traceback.print_exception(error)
        return made(FAILED, message=message_of(error))


def run(task: Task, teller: Teller, signals: StopOnSignal, asked: StopOnRequest) -> Outcome:
    """Run a seed, or continue it; errors as for :func:`axonrl.experiments.running.runner.run`."""
    recorded = Path(task.folder, groups.EXPERIMENT)
    experiment, document = load(recorded)
    folder = Path(task.folder, f"seed-{task.seed}")
    resume = (folder / records.EXPERIMENT).is_file()
    if resume:
        wait_for_writer(folder)
    result = runner.run(
        groups.run_of(experiment, task.seed),
        Document(task.files[0], document.values, document.places, tuple(task.files[1:])),
        folder,
        resume=resume,
        command=task.command,
        hooks=[signals, asked, teller.hook],
        stopped=lambda: asked.reason if signals.received is None else f"{signals.name} received",
        member=Member(
            Path(task.folder, groups.COMPILED) if task.compiled else None,
            TrackedGroup(experiment.name, task.identity),
        ),
    )
    evaluation = result.evaluation
    return Outcome(
        STOPPED if result.stopped else FINISHED,
        result.episodes,
        result.timesteps,
        result.updates,
        result.seconds,
        final_return(folder) if evaluation is None else evaluation["episode_return_mean"],
        evaluation,
        result.stopped,
    )


def final_return(folder: Path) -> float | None:
    """The mean return of the last 100 episodes of training."""
    returns = last_returns(folder)
    return sum(returns) / len(returns) if returns else None


class Teller:
    """Writes the lines to the process that started this one.

    Args:
        file: descriptor of a file to write to.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self.hook = _Telling(self)

    def tell(self, **values: Any) -> None:
        """Write a line; a reader that has ended is no error."""
        with contextlib.suppress(OSError):
            data = json.dumps(values, default=str).encode() + b"\n"
            while data:
                data = data[os.write(self._file, data) :]


class Warnings(logging.Handler):
    """Tells warnings, which would be seen by nobody in the log of a seed."""

    def __init__(self, teller: Teller) -> None:
        super().__init__(logging.WARNING)
        self._teller = teller

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it."""
        self._teller.tell(warning=self.format(record))


class _Telling(ProgressHook):
    """Tells the status; takes the place of the hook that shows it on a terminal."""

    def __init__(self, teller: Teller) -> None:
        super().__init__(STATUS_SECS)
        self._teller = teller

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Start measuring."""
        StatusHook.begin(self, session, facts)
        self._teller.tell(began=True)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Tell the final status."""
        self._report_last(session)

    def _show(self, session: Session, line: str) -> None:
        self._teller.tell(line=line, share=self._done(session))


class StopOnRequest(Hook):
    """Stops the run when the process that started this one asks for it."""

    def __init__(self) -> None:
        self.reason = ""
        self._session: Session | None = None

    def request_stop(self, reason: str) -> None:
        """Stop, once it trains. Called from another thread."""
        self.reason = reason
        if self._session is not None:
            self._session.request_stop(reason)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Now there is something to stop."""
        self._session = session
        if self.reason:
            session.request_stop(self.reason)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Now there is not."""
        self._session = None


def _listen(signals: StopOnSignal, asked: StopOnRequest) -> None:
    """In a thread: when the parent has ended without a word, stop as if it had sent the signal."""
    with contextlib.suppress(OSError, ValueError), open(0, "rb", buffering=0, closefd=False) as lines:
        for line in lines:
            asked.request_stop(json.loads(line)["stop"])
    if signals.received is None:
        os.kill(os.getpid(), signal.SIGTERM)


def wait_for_writer(folder: Path) -> None:
    """Wait, not for ever, while another process writes to a run."""
    until = time.monotonic() + WAIT_SECS
    while time.monotonic() < until:
        with contextlib.suppress(RunFolderError), records.only_writer(folder, ""):
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
