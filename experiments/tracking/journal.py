"""The journal of a run: a line for each thing that happened, in order.

``<run folder>/journal.jsonl`` is only ever appended to. Each line is a JSON object with ``time`` (seconds since 1970)
and one of: ``run`` (its identity and inputs, at every start), ``status``, ``metrics`` (with the number of the
``update`` or the ``episode`` that they belong to), ``log``, ``outputs``, and ``cut``, the timestep from which a start
continues (with the updates and episodes before it): later measurements become void, as they are made again.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ...core.protocols import State
from ...hooks import Hook
from ...hooks.events import BeginFacts, EpisodeStats, EvaluationFacts, Session, UpdateFacts
from ...hooks.measures import Scalars, evaluation_values
from ...run_dir import final
from ...run_dir.files import ends_with_a_line

JOURNAL: Final = final.JOURNAL
CREATED, RUNNING, RESUMING = "created", "running", "resuming"
SUCCEEDED, FAILED, STOPPED = final.SUCCEEDED, "failed", "stopped"
ENDED: Final = (SUCCEEDED, FAILED, STOPPED)
KILLED: Final = "the process ended without a status; it was probably killed"
"""The message of a start without a final status."""
_log = logging.getLogger("axonrl")


class RunGroup(NamedTuple):
    """Runs that belong together, such as those of many seeds: their name, and an identity of 32 hexadecimal digits."""

    name: str
    uuid: str

    @property
    def label(self) -> str:
        """The label in trackers: the name, with enough of the identity to distinguish it from others."""
        return f"{self.name}-{self.uuid[:8]}"


class Status(NamedTuple):
    """A status of the run. ``time`` is in seconds since 1970, as everywhere in this module."""

    time: float
    status: str
    message: str


class Point(NamedTuple):
    """One value of one metric; ``step`` is the global timestep, plus updates without timesteps."""

    time: float
    step: int
    name: str
    value: float


class Line(NamedTuple):
    """A line of the run's log."""

    time: float
    text: str


class Journal:
    """Appends to a run's journal. A failure, such as a full disk, never stops the run.

    Each line is passed to the operating system at once. A line that could not be written is kept and retried with the
    next one.

    Args:
        folder: the run folder, which exists.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._waiting = bytearray()
        self._silent = False
        self._lock = threading.Lock()  # the log may come from any thread
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file: int | None = os.open(self._path, flags, 0o666)
            if not ends_with_a_line(self._path):  # the last line was cut short by a kill
                self._waiting += b"\n"
        except OSError as error:
            self._file = None
            self._complain(error)

    def write(self, **entry: Any) -> None:
        """Append an entry, with the time."""
        line = json.dumps({"time": time.time(), **entry}, default=str).encode() + b"\n"
        with self._lock:
            if self._file is None:
                return
            self._waiting += line
            failure = self._write_out(self._file)
        if failure is not None:
            self._complain(failure)  # which may come back here as a log line

    def status(self, status: str, message: str = "") -> None:
        """Append a status."""
        self.write(status=status, message=message)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._write_out(self._file)
                if self._waiting:
                    _log.warning("%s is missing its last lines: the disk was full", self._path)
                os.close(self._file)
                self._file = None

    def _write_out(self, file: int) -> OSError | None:
        try:
            while self._waiting:
                del self._waiting[: os.write(file, self._waiting)]
        except OSError as error:
            return error
        self._silent = False
        return None

    def _complain(self, error: OSError) -> None:
        """Warn once per failure, until writing works again."""
        if not self._silent:
            self._silent = True
            _log.warning("%s cannot be written (%s); training continues", self._path, error.strerror or error)


class Entries(Protocol):
    """Where a hook writes its entries."""

    def write(self, **entry: Any) -> None:
        """Append an entry, with the time."""

    def status(self, status: str, message: str = "") -> None:
        """Append a status."""


class JournalHook(Hook):
    """Records a session in the journal.

    Names are those of :class:`~axonrl.hooks.measures.Scalars`; the step of all of them is the session's ``position``:
    ``global_timestep``, unless there were updates without timesteps.

    Args:
        journal: the target.
        every_steps: updates between two lines on updates; fewer where ten times as many timesteps are taken.
    """

    def __init__(self, journal: Entries, every_steps: int) -> None:
        self._journal = journal
        self._scalars = Scalars(every_steps)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Declare measurements after the point from which the run continues void."""
        self._journal.write(cut=session.position, update=session.global_step, episode=session.global_episode)
        self._journal.status(RUNNING)
        self._scalars.start(session)

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Write the loss, the metrics and the rates, when they are due."""
        if values := self._scalars.of_update(session, facts):
            self._write(session, values, update=session.global_step)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Write the episode."""
        self._write(session, self._scalars.of_episode(facts), episode=session.global_episode)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Write the results, also of an evaluation in the ``end`` of a later hook."""
        self._write(session, evaluation_values(facts))

    def state_dict(self) -> State:
        """The state of the scalars."""
        return self._scalars.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore the state of the scalars."""
        self._scalars.load_state_dict(state)

    def _write(self, session: Session, values: Mapping[str, float], **counter: int) -> None:
        metrics = {name: float(value) for name, value in values.items()}
        self._journal.write(step=session.position, **counter, metrics=metrics)


class JournalHandler(logging.Handler):
    """Writes the log of axonrl into the journal.

    Args:
        journal: the target.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless it is about the journal itself."""
        if getattr(self._inside, "now", False):
            return
        self._inside.now = True
        try:
            self._journal.write(log=self.format(record))
        finally:
            self._inside.now = False


class TrackedRun:
    """A run as its journal records it, for trackers.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uuid = ""
        """The run's identity, the same in every session and for every tracker: 32 hexadecimal digits."""
        self.name = ""
        self.description = ""
        self.group: RunGroup | None = None
        """The group of the run; None for a run of its own."""
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        """Results: the final evaluation and the totals."""
        self.starts = 0
        """The number of starts and resumes."""
        self.statuses: list[Status] = []
        self.points: list[Point] = []
        """Every value of every metric, in order; only appended to while ``cuts`` is unchanged."""
        self.lines: list[Line] = []
        self.cuts = 0
        """How many times points were removed."""
        self.lock = threading.Lock()
        """Lock held while a tracker's files in the run folder are written, or read for a push."""
        self._at = 0
        self._rest = b""
        self._counted: list[tuple[str, int]] = []
        """Counter by which a cut keeps or removes a point, and its value, for each point."""
        self._cut, self._at_cut = -1, frozenset[str]()

    @property
    def status(self) -> str:
        """The latest status; empty before the first."""
        return self.statuses[-1].status if self.statuses else ""

    def read(self) -> bool:
        """Read what was added to the journal since the last time.

        Returns:
            Whether there was anything.

        Raises:
            OSError: it cannot be read.
        """
        with (self.folder / JOURNAL).open("rb") as file:
            file.seek(self._at)
            data = file.read()
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        return bool(lines)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            kind = next(kind for kind in ("metrics", "log", "status", "outputs", "cut", "run") if kind in entry)
            getattr(self, f"_take_{kind}")(float(entry["time"]), entry)
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError):
            pass  # cut short by a kill; its content is written again

    def _take_metrics(self, at: float, entry: Mapping[str, Any]) -> None:
        step, metrics = int(entry["step"]), entry["metrics"].items()
        kind = next((kind for kind in ("update", "episode") if kind in entry), "cut")
        # Measurements at this point exist already, unless the run was killed before they were made.
        known = self._at_cut if kind == "cut" and step <= self._cut else ()
        points = [Point(at, step, sys.intern(name), float(value)) for name, value in metrics if name not in known]
        self._counted += [(kind, int(entry.get(kind, step)))] * len(points)
        self.points += points

    def _take_cut(self, at: float, entry: Mapping[str, Any]) -> None:
        last = {kind: int(entry[kind]) for kind in ("cut", "update", "episode")}
        keep = [count <= last[kind] for kind, count in self._counted]
        self._cut = last["cut"]
        pairs = zip(self.points, self._counted, strict=True)
        self._at_cut = frozenset(p.name for p, counted in pairs if counted == ("cut", self._cut))
        if not all(keep):
            self.points = list(itertools.compress(self.points, keep))
            self._counted = list(itertools.compress(self._counted, keep))
            self.cuts += 1

    def _take_log(self, at: float, entry: Mapping[str, Any]) -> None:
        self.lines.append(Line(at, str(entry["log"])))

    def _take_status(self, at: float, entry: Mapping[str, Any]) -> None:
        self.statuses.append(Status(at, str(entry["status"]), str(entry["message"])))

    def _take_outputs(self, at: float, entry: Mapping[str, Any]) -> None:
        self.outputs = dict(entry["outputs"])

    def _take_run(self, at: float, entry: Mapping[str, Any]) -> None:
        run = entry["run"]
        self.uuid, self.name, self.description = run["uuid"], run["name"], run["description"]
        self.inputs = dict(run["inputs"])
        self.group = RunGroup(**run["group"]) if "group" in run else None
        self.starts += 1
