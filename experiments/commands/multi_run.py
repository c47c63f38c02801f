"""The common part of ``axonrl run`` with many seeds and with a matrix: runs side by side, and their report."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from ..config.files import Document
from ..console import DONE, FAILED, TERMINATED, say
from ..polyaxon.metrics import RETURN
from ..running import folder as records
from ..running.signals import StopOnSignal
from ..searches.companion import Companion
from ..searches.display import RunsView
from ..searches.early_stopping import Rules
from ..searches.metrics import Watch
from ..searches.pool import Pool, shared_machine
from ..searches.runs import COUNT, FAILING, Runs
from ..searches.worker import Task
from .arguments import RUNS

_TAIL: Final = 5
"""Lines of a failed run's output that are shown."""
_SHOWN: Final = 10
"""Failed runs whose output is shown."""
_Runs = TypeVar("_Runs", bound=Runs)


def folder_of(name: str, arguments: argparse.Namespace, file: str = records.EXPERIMENT) -> tuple[Path, bool]:
    """Choose the folder, and whether it is resumed. A new folder that was not given is created.

    Args:
        name: the name of the experiment.
        arguments: the command line.
        file: the file that identifies such a folder.

    Raises:
        ExperimentError: a folder cannot be used, or cannot be resumed.
    """
    given: Path | None = arguments.model_dir
    if given is None and not (arguments.resume or arguments.auto_resume):
        return records.new_folder(RUNS, name), False
    folder = given or (records.newest_folder(RUNS, name, (file,)) if arguments.resume else RUNS / name)
    resume = arguments.resume or (arguments.auto_resume and (folder / file).is_file())
    records.check_folder(folder, resume=resume, file=file)
    return folder, resume


@contextlib.contextmanager
def only_writer(folder: Path, resume: bool, prepare: Callable[[], _Runs]) -> Iterator[_Runs]:
    """Lock a folder and prepare it. A new one must be empty, so it is locked afterwards."""
    refusal = f"Folder {folder} cannot be {'resumed' if resume else 'used'} now"
    with contextlib.ExitStack() as stack:
        if resume:
            stack.enter_context(records.only_writer(folder, refusal))
        prepared = prepare()
        if not resume:
            stack.enter_context(records.only_writer(folder, refusal))
        yield prepared


def resume_command(folder: Path, arguments: argparse.Namespace) -> str:
    """The command that continues the runs in a folder."""
    words = list(arguments.command_line)
    if arguments.model_dir is None:
        words += ["--model-dir", str(folder)]
    if not (arguments.resume or arguments.auto_resume):
        words.append("--resume")
    return shlex.join(words)


class Start:
    """A start of many runs.

    Args:
        runs: the runs.
        document: the file.
        arguments: the command line.
        resume: whether they are resumed.
        draws: whether to draw the learning curve of each run that finishes.
    """

    def __init__(
        self, runs: Runs, document: Document, arguments: argparse.Namespace, *, resume: bool, draws: bool
    ) -> None:
        self.runs, self.document, self.arguments, self._is_new = runs, document, arguments, not resume
        self.companion = Companion(runs, draws=draws)
        self.view = RunsView(runs)

    def carry_out(self, train: Callable[[StopOnSignal], int], draw: Callable[[], None]) -> int | None:
        """Train, have pictures drawn, and report failed runs.

        Args:
            train: returns an exit code.
            draw: asks the companion for pictures.

        Returns:
            An exit code; None if there are results to report.
        """
        with StopOnSignal() as signals:
            try:
                if code := train(signals):
                    self._discard_unused()
                    return code
                if signals.received is None:
                    draw()
                self.companion.wait()
            except KeyboardInterrupt:
                say(f"Stopped at once by {signals.title}. {self._how_to_continue()}")
                return signals.exit_code
            except Exception:
                self._discard_unused()
                raise
            for number in self._failed()[:_SHOWN]:
                self._tell_failure(number)
            if signals.received is not None:
                say(f"Stopped by {signals.title}. {self._how_to_continue()}")
                return signals.exit_code
        return None

    def pool(self, jobs: int, *, metric: str = RETURN, rules: Rules | None = None) -> Pool:
        """Make the pool of processes.

        Args:
            jobs: the number that run at a time.
            metric: the compared metric.
            rules: the rules of early stopping, in a search; None for runs that must equal those started alone.
        """
        runs, files, command = self.runs, self.document.files, self.arguments.command_line
        folder = str(runs.folder.absolute())
        task = Task(folder, runs.file, runs.noun, runs.name, runs.identity, metric, runs.seeds, files, command)
        variables = shared_machine(os.environ, jobs, tensorflow=rules is not None)
        watch = Watch(runs, Rules(None) if rules is None else rules, metric)
        return Pool(runs, task, jobs, watch, self.view, self.companion, variables)

    def exit_code(self) -> int:
        """The exit code of a start that was not stopped; says how to continue unfinished runs."""
        runs = self.runs
        left = [] if runs.ended else runs.unfinished()
        if left:
            say(self._how_to_continue())
        failed = not runs.ended and self._failed()
        if failed or runs.failed or self.companion.failed:
            return FAILED
        return TERMINATED if left else DONE

    def _discard_unused(self) -> None:
        """Remove a new folder in which nothing has run, so that a corrected experiment can start there."""
        if self._is_new and not any(self.runs.run_folder(number).exists() for number in self.runs.outcomes):
            records.discard(self.runs.folder)

    def _failed(self) -> list[int]:
        """The runs of this start that failed or were killed."""
        return [number for number in self.runs.unfinished() if self.runs.outcomes[number].status in FAILING]

    def _tell_failure(self, number: int) -> None:
        """Say how a run failed, and show the end of what it printed."""
        runs, outcome = self.runs, self.runs.outcomes[number]
        output = runs.output(number)
        say(f"{runs.label(number).capitalize()} {outcome.status}: {outcome.message}. The last lines of {output}:")
        with contextlib.suppress(OSError):
            for line in output.read_text("utf-8", "replace").splitlines()[-_TAIL:]:
                say(f"  {line}")

    def _how_to_continue(self) -> str:
        """Say how many have finished, and which command continues the others."""
        done, total = len(self.runs.with_status(*COUNT)), len(self.runs.outcomes)
        command = resume_command(self.runs.folder, self.arguments)
        return f"{done} of {total} {self.runs.noun}s have finished. Continue with: {command}"
