"""A companion process to those of the runs, which draws pictures and keeps trackers up to date.

A single process does this for all runs while they train: loading the libraries takes as long as training a small agent,
and each file has one writer. It reads lines of JSON from its standard input: ``{"run": 3}`` when a run has begun to
train, ``{"run": 3, "status": "finished", "evaluation": {...}, "draws": true}`` when it has ended, ``{"draw": 3,
"evaluation": {...}}`` to draw its learning curve, ``{"finished": [0, 3]}`` to draw these runs in one picture, and
``{"front": {...}}`` to draw a Pareto front. It also writes lines, ``{"run": 3, "type": "warning", "text": "..."}``,
where null means all runs.

Trackers with a server are updated while a run trains; without a server, the tracker's files are written when the run
has ended. When standard input closes, the processes of the runs end, and this process ends after them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...core.errors import message_of
from ...run_dir.learning_curve import CURVE, caption
from ...run_dir.learning_curves import CURVES, learning_curves
from ..child_process import Child, Message, Parent
from ..config.schema import ExperimentFile, load
from ..config.seeds import seed_ranges
from ..console import say
from ..running.report import draw
from ..tracking.journal import ENDED, JOURNAL, TrackedRun
from .report import Front, draw_front
from .runs import FINISHED, Outcome, Runs

TROUBLE: Final = "trouble"
"""The type of a message: a picture, or a file in the run folder, could not be made."""
DRAWN: Final = "drawn"
"""The type of a message: the picture of all runs has been drawn."""
WAIT_SECS: Final = 60.0
"""Seconds to wait for processes of runs to end, and for a process that still tracks a run of an earlier start."""
Listener: TypeAlias = Callable[[int, Message], None]


class Companion:
    """The companion process, as seen by the process that starts the runs. It starts with the first message.

    Args:
        runs: the runs.
        draws: whether to draw the learning curve of each run that finishes; drawing takes as long as a short run.
    """

    def __init__(self, runs: Runs, *, draws: bool) -> None:
        self._runs, self._draws = runs, draws
        self._child: Child | None = None
        self._ended: set[int] = set()
        self.failed = False
        """Whether a picture or a tracker failed."""
        self.drawn = False
        """Whether the picture of all runs has been drawn."""
        self.listener: Listener = lambda number, message: say(f"{runs.label(number)}: {message.text}")
        """Called with all messages except troubles, in another thread."""

    def began(self, number: int) -> None:
        """Report that a run has begun to train."""
        self._write(run=number)

    def ended(self, number: int, outcome: Outcome) -> None:
        """Report that a run has ended."""
        self._ended.add(number)
        self._write(run=number, status=outcome.status, evaluation=outcome.evaluation, draws=self._draws)

    def draw(self, number: int) -> None:
        """Draw the learning curve of a run that has ended."""
        self._write(draw=number, evaluation=self._runs.outcomes[number].evaluation)

    def draw_all(self) -> None:
        """Draw all finished runs in one picture, after the pictures that a killed start did not draw."""
        finished = self._runs.with_status(FINISHED)
        for number in finished:
            if number not in self._ended and not (self._runs.run_folder(number) / CURVE).is_file():
                self.ended(number, self._runs.outcomes[number])
        if finished:
            self._write(finished=finished)

    def draw_front(self, front: Front) -> None:
        """Draw the points of several objectives."""
        if front.values:
            self._write(front=dataclasses.asdict(front), name=self._runs.name)

    def wait(self) -> None:
        """Wait until everything is done."""
        if self._child is not None and (code := self._child.end()):
            self.failed = True
            what = "the process that draws pictures and keeps trackers up to date"
            say(f"warning: {what} ended with exit code {code}. axonrl sync {self._runs.folder} updates the trackers.")

    def _write(self, **values: Any) -> None:
        if self._child is None:
            self._child = Child(main, [str(self._runs.folder.absolute()), self._runs.file, self._runs.noun], self._take)
        self._child.tell(**values)  # its end is reported later

    def _take(self, values: Mapping[str, Any]) -> None:
        message, run = Message(values["type"], values["text"]), values.get("run")
        if message.type == DRAWN:
            self.drawn = True
        elif message.type == TROUBLE or run is None:
            self.failed = True
            about = f"all {self._runs.noun}s" if run is None else self._runs.label(run)
            say(f"warning: {about}: {message.text}")
        else:
            self.listener(run, message)


def main(arguments: Sequence[str]) -> None:
    """Accompany runs. The arguments are their folder, the name of its experiment file, and what a run is called."""
    parent, folder, noun = Parent(), Path(arguments[0]), arguments[2]

    def tell(run: int | None, message: Message) -> None:
        parent.tell(run=run, **message._asdict())

    runs = _Followed(folder, load(folder / arguments[1])[0], noun, tell)
    for line in sys.stdin:
        value = json.loads(line)
        if "front" in value:
            runs.draw_front(value["front"], value["name"])
        elif "finished" in value:
            runs.draw_all(value["finished"])
        elif "draw" in value:
            runs.draw(value["draw"], value["evaluation"])
        elif "status" in value:
            runs.ended(**value)
        else:
            runs.began(value["run"])
    runs.finish()
    os._exit(0)  # without waiting for the thread of a tracker that hangs


class _Followed:
    """The runs, as seen by the companion. Their folders' names begin with ``noun``; ``tell`` gets messages."""

    def __init__(
        self, folder: Path, experiment: ExperimentFile, noun: str, tell: Callable[[int | None, Message], None]
    ) -> None:
        from ..tracking.trackers import choices, disabled_by, pushes

        self._folder, self._experiment, self._noun, self._tell = folder, experiment, noun, tell
        self._disabled = bool(disabled_by())
        self._chosen = [] if self._disabled else choices(experiment)
        self._has_server = pushes(self._chosen)
        self._followed: dict[int, tuple[threading.Thread, threading.Event]] = {}
        """The threads of runs that train, and the events that end them."""
        self._ending: list[threading.Thread] = []

    def began(self, run: int) -> None:
        if self._has_server:
            self._follow(run)

    def ended(self, run: int, status: str, evaluation: dict[str, float] | None, draws: bool) -> None:
        if status == FINISHED and draws:
            self.draw(run, evaluation)
        if self._disabled or not (self._folder_of_run(run) / JOURNAL).is_file():
            return
        if run not in self._followed:
            self._follow(run)
        thread, event = self._followed.pop(run)
        event.set()
        if self._has_server:
            self._ending.append(thread)
        else:
            thread.join()

    def draw(self, run: int, evaluation: dict[str, float] | None) -> None:
        with self._troubles(run):
            draw(self._folder_of_run(run), self._experiment, evaluation)

    def draw_all(self, finished: list[int]) -> None:
        """Draw the learning curves of seeds that finished in one picture."""
        with self._troubles(None):
            folders = [self._folder_of_run(run) for run in finished]
            seeds = f"{len(finished)} seeds, {seed_ranges(finished)}" if len(finished) > 1 else f"seed {finished[0]}"
            learning_curves(folders, self._folder / CURVES, caption(folders[0], self._experiment.name, seeds))
            self._tell(None, Message(DRAWN, ""))

    def draw_front(self, front: dict[str, Any], name: str) -> None:
        """Draw the points of several objectives."""
        with self._troubles(None):
            values = {int(point): found for point, found in front["values"].items()}
            draw_front(self._folder, name, Front(**{**front, "values": values}))

    def finish(self) -> None:
        """Wait for trackers, and for runs that still train after their parent was killed."""
        until = time.monotonic() + WAIT_SECS
        while self._followed:
            for run in [run for run in self._followed if self._has_ended(run) or time.monotonic() > until]:
                thread, event = self._followed.pop(run)
                event.set()
                self._ending.append(thread)
            time.sleep(0.1)
        for thread in self._ending:
            thread.join()

    def _has_ended(self, run: int) -> bool:
        tracked = TrackedRun(self._folder_of_run(run))
        with contextlib.suppress(OSError):
            tracked.read()
        return tracked.status in ENDED

    def _folder_of_run(self, run: int) -> Path:
        return self._folder / f"{self._noun}-{run}"

    def _follow(self, run: int) -> None:
        event = threading.Event()
        thread = threading.Thread(target=self._track, args=(run, event), daemon=True)
        thread.start()
        self._followed[run] = thread, event

    def _track(self, run: int, event: threading.Event) -> None:
        from filelock import FileLock

        from ..tracking.follower import LOCK, follow

        folder = self._folder_of_run(run)
        with self._troubles(run), FileLock(folder / LOCK, WAIT_SECS):
            follow(folder, self._chosen, event, functools.partial(self._tell, run))

    @contextlib.contextmanager
    def _troubles(self, run: int | None) -> Iterator[None]:
        """Report errors of a run raised within the context; the others continue."""
        try:
            yield
        except Exception as error:
            self._tell(run, Message(TROUBLE, message_of(error)))
