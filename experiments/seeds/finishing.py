"""What is left to do when a seed has ended: its picture, and the files that trackers keep in its run folder.

One process does it for all seeds, one after the other, while others train: what it loads for that costs as much as a
small agent's whole training. It reads lines of JSON, ``{"seed": 3, "status": "finished", "evaluation": {...}}``, until
its standard input closes, and answers each that went wrong with ``{"seed": 3, "trouble": "..."}``.

Where trackers have a server, each seed's process tells them how it goes, as that of a single run does, and draws its
own picture; then nothing is left to do here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from ...errors import CheckpointError
from ...runs.learning_curve import CURVE
from ..language.schema import Experiment, load
from ..tracking.journal import JOURNAL
from . import group as groups
from .group import FINISHED, Group, Outcome

WAIT_SECS: Final = 10.0
"""For a process that still tracks a run, of an earlier start that was killed."""


class Finisher:
    """The process, seen from the one that starts the seeds; it is started when a seed has ended.

    Args:
        group: whose seeds.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None
        self._added: set[int] = set()

    def add(self, seed: int, outcome: Outcome) -> None:
        """A seed has ended."""
        self._added.add(seed)
        self._process = self._process or self._started()
        line = {"seed": seed, "status": outcome.status, "evaluation": outcome.evaluation}
        with contextlib.suppress(BrokenPipeError):  # how it ended is said at the end
            stdin = cast("IO[bytes]", self._process.stdin)
            stdin.write(json.dumps(line).encode() + b"\n")
            stdin.flush()

    def add_left_over(self) -> None:
        """Those that finished in an earlier start, which was killed before they had their pictures."""
        for seed, outcome in self._group.outcomes.items():
            drawn = seed in self._added or (self._group.run_folder(seed) / CURVE).is_file()
            if outcome.status == FINISHED and not drawn:
                self.add(seed, outcome)

    def end_at_once(self) -> None:
        """Leave the rest to ``axonrl sync``, or to a later start."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def finish(self) -> list[str]:
        """Wait until everything is done; returns what went wrong, a line each."""
        if self._process is None:
            return []
        output, _ = self._process.communicate()
        troubles = [f"seed {one['seed']}: {one['trouble']}" for one in map(json.loads, output.splitlines())]
        if code := self._process.returncode:
            troubles.append(
                f"the process that draws the seeds' pictures and writes their trackers' files ended with {code};"
                f" axonrl sync {self._group.folder}/seed-* writes the files"
            )
        return troubles

    def _started(self) -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path[:] = {sys.path}; from {main.__module__} import main; main(sys.argv[1:])"
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self._group.folder.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # Ctrl-C comes to the process that started it
        )


def main(arguments: Sequence[str]) -> None:
    """Finish seeds until standard input closes; the argument is the group's folder."""
    folder = Path(arguments[0])
    experiment = load(folder / groups.EXPERIMENT)[0]
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        value = json.loads(line)
        seed, run = value["seed"], folder / f"seed-{value['seed']}"
        for work in (_draw, _complete):
            if trouble := _trouble(work, run, experiment, value):
                with contextlib.suppress(OSError):
                    print(json.dumps({"seed": seed, "trouble": trouble}), file=out, flush=True)


def _trouble(work: Callable[..., None], *given: Any) -> str:
    """What went wrong, if anything: whatever is wrong with one seed, the others are finished."""
    try:
        work(*given)
    except Exception as error:
        expected = isinstance(error, ValueError | OSError | CheckpointError)
        return " ".join((str(error) if expected else f"{type(error).__name__}: {error}").split())
    return ""


def _draw(run: Path, experiment: Experiment, value: dict[str, Any]) -> None:
    from ..running.runner import draw

    if value["status"] == FINISHED:
        draw(run, experiment, value["evaluation"])


def _complete(run: Path, experiment: Experiment, value: dict[str, Any]) -> None:
    from filelock import FileLock

    from ..running.folder import only_writer
    from ..tracking.follower import LOCK, complete
    from ..tracking.journal import TrackedRun
    from ..tracking.trackers import choices, disabled_by, make_writers

    if not disabled_by() and (run / JOURNAL).is_file():
        # None trains it any more: the journal may have to say that it was killed.
        with only_writer(run, f"The tracker's files in {run} are not written"), FileLock(run / LOCK, WAIT_SECS):
            complete(TrackedRun(run), make_writers(choices(experiment)))
