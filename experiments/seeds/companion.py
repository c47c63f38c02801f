"""The process beside those of the seeds: it draws their pictures and keeps their trackers up to date.

One process does so for all seeds, while they train: what it loads for that costs as much as a small agent's whole
training, and each file has one writer. It reads lines of JSON from its standard input: ``{"seed": 3}`` when the seed
has begun to train, ``{"seed": 3, "status": "finished", "evaluation": {...}}`` when its process has ended, and
``{"finished": [0, 3]}`` when these are to be drawn in one picture. What it has to say are lines as well:
``{"seed": 3, "type": "warning", "text": "..."}``, without a seed where it is about all of them.

Trackers with a server are told how a seed goes while it trains; where there is none, a seed's files are written when it
has ended. When standard input closes, it ends as soon as the seeds' processes have, which end then too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, Protocol, TextIO, TypeAlias, cast

from ...core.errors import message_of
from ...run_dir.learning_curve import CURVE, learning_curve
from ..config.schema import ExperimentFile, load
from ..console import say
from ..tracking.journal import ENDED, JOURNAL, TrackedRun
from ..tracking.messages import Message
from . import group as groups
from .group import FINISHED, Outcome
from .pictures import draw_all

TROUBLE: Final = "trouble"
"""The type of a message: a picture, or a file in the run folder, could not be made."""
DRAWN: Final = "drawn"
"""The type of a message: the picture of all seeds is there."""
WAIT_SECS: Final = 60.0
"""For processes of seeds to end by themselves, and for one that still tracks a run of an earlier start."""
Listener: TypeAlias = Callable[[int, Message], None]


class Runs(Protocol):
    """Numbered runs in one folder."""

    folder: Path
    outcomes: dict[int, Outcome]

    def run_folder(self, seed: int, /) -> Path:
        """The run folder of one of them."""


class Companion:
    """The process, seen from the one that starts the seeds. It starts when it is first told something.

    Args:
        group: whose seeds; or the trials of a search.
        file: the experiment's, in the folder.
        what: how each of the runs is called.
        draws: draw the learning curve of each that finishes; a picture costs as much as a short run.
    """

    def __init__(self, group: Runs, file: str = groups.EXPERIMENT, what: str = "seed", *, draws: bool = True) -> None:
        self._group, self._file, self._what, self._draws = group, file, what, draws
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._ended: set[int] = set()
        self.failed = False
        """Has anything not been done?"""
        self.drawn = False
        """Has the picture of all seeds been drawn?"""
        self.listener: Listener = lambda seed, message: say(f"{what} {seed}: {message.text}")
        """Gets the messages but for troubles, in another thread."""

    def began(self, seed: int) -> None:
        """A seed has begun to train."""
        self._write(seed=seed)

    def ended(self, seed: int, outcome: Outcome) -> None:
        """The process of a seed has ended."""
        self._ended.add(seed)
        self._write(seed=seed, status=outcome.status, evaluation=outcome.evaluation, draws=self._draws)

    def draw(self, seed: int) -> None:
        """Draw the learning curve of one that has ended."""
        self._write(draw=seed, evaluation=self._group.outcomes[seed].evaluation)

    def draw_all(self) -> None:
        """Draw those that finished in one picture, and first what an earlier start that was killed did not draw."""
        finished = [seed for seed, outcome in self._group.outcomes.items() if outcome.status == FINISHED]
        for seed in finished:
            if seed not in self._ended and not (self._group.run_folder(seed) / CURVE).is_file():
                self.ended(seed, self._group.outcomes[seed])
        if finished:
            self._write(finished=finished)

    def wait(self) -> None:
        """Wait until everything is done."""
        if self._process is None or self._reader is None:
            return
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self._process.stdin).close()
        self._reader.join()
        if code := self._process.wait():
            self.failed = True
            what = "the process that draws pictures and keeps trackers up to date"
            say(f"warning: {what} ended with exit code {code}. axonrl sync {self._group.folder} does the latter.")

    def _write(self, **values: Any) -> None:
        if self._process is None:
            self._process = self._started()
            self._reader = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
            self._reader.start()
        stdin = cast("IO[bytes]", self._process.stdin)
        with contextlib.suppress(OSError):  # that it has ended is said in the end
            stdin.write(json.dumps(values).encode() + b"\n")
            stdin.flush()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for value in map(json.loads, output):
                message = Message(value["type"], value["text"])
                if message.type == DRAWN:
                    self.drawn = True
                elif message.type == TROUBLE:
                    self.failed = True
                    about = f"all {self._what}s" if value["seed"] is None else f"{self._what} {value['seed']}"
                    say(f"warning: {about}: {message.text}")
                else:
                    self.listener(value["seed"], message)

    def _started(self) -> subprocess.Popen[bytes]:
        # What can be imported here can be imported there: a tracker may be the user's own.
        code = f"import sys; sys.path[:] = {sys.path}; from {main.__module__} import main; main(sys.argv[1:])"
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self._group.folder.absolute()), self._file, self._what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # Ctrl-C comes to the process that started it
        )


def main(arguments: Sequence[str]) -> None:
    """Accompany the seeds of a group; the arguments are its folder, the file there, and what a run is called."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no message
    folder, what = Path(arguments[0]), arguments[2]
    runs = _Runs(folder, load(folder / arguments[1])[0], what, functools.partial(_tell, out, threading.Lock()))
    for line in sys.stdin:
        value = json.loads(line)
        if "finished" in value:
            runs.draw_all(value["finished"])
        elif "draw" in value:
            runs.draw(value["draw"], value["evaluation"])
        elif "status" in value:
            runs.ended(**value)
        else:
            runs.began(value["seed"])
    runs.finish()
    os._exit(0)  # without waiting for the thread of a tracker that hangs


def _tell(out: TextIO, lock: threading.Lock, seed: int | None, message: Message) -> None:
    with lock, contextlib.suppress(OSError):
        print(json.dumps({"seed": seed, **message._asdict()}), file=out, flush=True)


class _Runs:
    """The runs of the seeds.

    Args:
        folder: the group's.
        experiment: theirs.
        what: how each of them is called.
        tell: gets what there is to say of a seed.
    """

    def __init__(
        self, folder: Path, experiment: ExperimentFile, what: str, tell: Callable[[int | None, Message], None]
    ) -> None:
        from ..tracking.trackers import choices, disabled_by, pushes

        self._folder, self._experiment, self._what, self._tell = folder, experiment, what, tell
        self._disabled = bool(disabled_by())
        self._chosen = [] if self._disabled else choices(experiment)
        self._has_server = pushes(self._chosen)
        self._followed: dict[int, tuple[threading.Thread, threading.Event]] = {}
        """The threads of seeds that train, and what ends them."""
        self._ending: list[threading.Thread] = []

    def began(self, seed: int) -> None:
        if self._has_server:
            self._follow(seed)

    def ended(self, seed: int, status: str, evaluation: dict[str, float] | None, draws: bool) -> None:
        if status == FINISHED and draws:
            self.draw(seed, evaluation)
        if self._disabled or not (self._run(seed) / JOURNAL).is_file():
            return
        if seed not in self._followed:
            self._follow(seed)
        thread, event = self._followed.pop(seed)
        event.set()
        if self._has_server:
            self._ending.append(thread)
        else:
            thread.join()

    def draw(self, seed: int, evaluation: dict[str, float] | None) -> None:
        wanted = self._experiment.evaluate
        with self._troubles(seed):
            learning_curve(self._run(seed), evaluation, "last" if wanted is None else wanted.policy)

    def draw_all(self, finished: list[int]) -> None:
        with self._troubles(None):
            draw_all(self._folder, self._experiment.name, finished)
            self._tell(None, Message(DRAWN, ""))

    def finish(self) -> None:
        """Wait for the seeds that train, of a killed process that had started them; and for what trackers still get."""
        until = time.monotonic() + WAIT_SECS
        while self._followed:
            for seed in [seed for seed in self._followed if self._has_ended(seed) or time.monotonic() > until]:
                thread, event = self._followed.pop(seed)
                event.set()
                self._ending.append(thread)
            time.sleep(0.1)
        for thread in self._ending:
            thread.join()

    def _has_ended(self, seed: int) -> bool:
        run = TrackedRun(self._run(seed))
        with contextlib.suppress(OSError):
            run.read()
        return run.status in ENDED

    def _run(self, seed: int) -> Path:
        return self._folder / f"{self._what}-{seed}"

    def _follow(self, seed: int) -> None:
        event = threading.Event()
        thread = threading.Thread(target=self._track, args=(seed, event), daemon=True)
        thread.start()
        self._followed[seed] = thread, event

    def _track(self, seed: int, event: threading.Event) -> None:
        from filelock import FileLock

        from ..tracking.follower import LOCK, follow

        run = self._run(seed)
        with self._troubles(seed), FileLock(run / LOCK, WAIT_SECS):
            follow(run, self._chosen, event, functools.partial(self._tell, seed))

    @contextlib.contextmanager
    def _troubles(self, seed: int | None) -> Iterator[None]:
        """Whatever is wrong with one seed, the others go on."""
        try:
            yield
        except Exception as error:
            self._tell(seed, Message(TROUBLE, message_of(error)))
