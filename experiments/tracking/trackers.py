"""The interface of trackers, and the trackers of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from ...core import registry
from ..config.schema import ExperimentFile
from ..config.sections import Section
from ..config.trackers import DEFAULT_TRACKER
from .journal import Line, TrackedRun

_FILES: Final = ("experiment.yml", "starts.json", "learning_curve.png", "best.safetensors", "videos/*.mp4")
"""The files of a run folder that trackers show, as patterns."""


def files_of(folder: Path) -> dict[Path, tuple[int, int]]:
    """The files of a run folder that trackers show, each with its size and the time of its last change."""
    stats = {path: path.stat() for pattern in _FILES for path in sorted(folder.glob(pattern))}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


class Unsent:
    """The files and the log of a run that have not been sent to a tracker; what is returned counts as sent."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[int, int]] = {}
        self._lines = 0

    def files(self, folder: Path) -> Iterator[Path]:
        """Files that are new or have changed."""
        for path, state in files_of(folder).items():
            if self._files.get(path) != state:
                yield path
                self._files[path] = state

    def log(self, run: TrackedRun) -> Iterator[list[Line]]:
        """The whole log, if it has grown."""
        lines = run.lines[:]
        if len(lines) > self._lines:
            yield lines
            self._lines = len(lines)


class Tracker(Protocol):
    """Shows runs to people, such as a server.

    A tracker is created from the keyword arguments in the experiment file, in a separate process, and used there by one
    thread. The runs of many seeds share that process, but each has its own tracker and thread. Before a run starts,
    only the names of the arguments are checked. If the constructor raises, the user is warned, and the run continues
    without trackers. Packages add trackers as entry points of the group ``axonrl.tracker``.
    """

    def push(self, run: TrackedRun) -> None:
        """Bring the tracker up to date with the run.

        Called every few seconds, and a last time when the run has ended. It gets the complete run, not only what is
        new: another process, or a call that failed halfway, may have pushed a part of it.

        Raises:
            StopRequestedError: everything was pushed, and someone has asked in the tracker to stop the run.
            Exception: pushing failed; it will be called again. The text is shown to the user.
        """


class StopRequestedError(Exception):
    """Someone has stopped the run in the tracker. Raised after everything was pushed."""


class Writer(Protocol):
    """Keeps a tracker's files in the run folder, so that nothing is lost without a server."""

    what: ClassVar[str]
    """Name of the files in messages."""

    def write(self, run: TrackedRun) -> None:
        """Write everything that the files still lack. Called as soon as the journal has grown.

        Raises:
            OSError: the files cannot be written.
        """


class TrackerKind:
    """Class-level options of a tracker, used before it is created. Deriving from this class is optional."""

    settings: ClassVar[type[Section] | None] = None
    """A built-in tracker's settings, checked when an experiment file is read. None: its constructor checks them
    later."""
    writer: ClassVar[type[Writer] | None] = None
    """The writer of files in the run folder, if there is one."""

    preparing: bool = False
    """Whether it is creating something that must not be left unfinished, such as the tables of a store, for which the
    run's end waits."""

    @classmethod
    def disabled_by(cls) -> str:
        """The environment variable that disables all tracking, if it is set; only the default tracker decides."""
        return ""

    @classmethod
    def resolved(cls, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Settings combined with the environment; None if there is nothing to push to.

        Raises:
            ExperimentError: a setting in the environment is invalid.
        """
        return dict(settings)

    @classmethod
    def run_id(cls) -> str | None:
        """The identity that the environment assigns to this run, 32 hexadecimal digits; None for a new one."""
        return None


class Choice(NamedTuple):
    """A tracker of a run that is not created yet: its kind and settings; None for only the files in the run folder."""

    kind: str
    settings: dict[str, Any] | None

    @property
    def name(self) -> str:
        """Its name in messages."""
        host = (self.settings or {}).get("host")
        return f"{self.kind} at {host}" if host else self.kind


def disabled_by() -> str:
    """The environment variable that disables all tracking; empty if none does."""
    return _kind(DEFAULT_TRACKER).disabled_by()


def choices(experiment: ExperimentFile, replaced: Mapping[str, dict[str, Any] | None] | None = None) -> list[Choice]:
    """The trackers of an experiment; the last one has the default kind, which every run has.

    Args:
        experiment: what is run.
        replaced: kinds to settings that replace those from file and environment.

    Raises:
        ExperimentError: a setting in the environment is invalid.
    """
    replaced = replaced or {}
    named = [(one.kind, one.kwargs) for one in experiment.tracker]
    if all(kind != DEFAULT_TRACKER for kind, _ in named):
        named.append((DEFAULT_TRACKER, {}))
    named.sort(key=lambda one: one[0] == DEFAULT_TRACKER)
    return [
        Choice(kind, replaced[kind] if kind in replaced else _kind(kind).resolved(settings)) for kind, settings in named
    ]


def pushes(chosen: Iterable[Choice]) -> bool:
    """Does any of them push, rather than only keep files in the run folder?"""
    return any(choice.settings is not None for choice in chosen)


def run_id(chosen: Iterable[Choice]) -> str | None:
    """The identity that the environment assigns to this run, if any."""
    return next(filter(None, (_kind(choice.kind).run_id() for choice in chosen)), None)


def make_trackers(chosen: Iterable[Choice]) -> list[tuple[str, Tracker]]:
    """The trackers to push to, with their names for messages.

    Raises:
        ValueError: a tracker does not exist; also whatever a constructor raises.
    """
    return [
        (choice.name, registry.find("tracker", choice.kind)(**choice.settings))
        for choice in chosen
        if choice.settings is not None
    ]


def make_writers(chosen: Sequence[Choice]) -> list[Writer]:
    """The writers of files in the run folder for these trackers."""
    kinds = {choice.kind: _kind(choice.kind) for choice in chosen}
    return [kind.writer() for kind in kinds.values() if kind.writer is not None]


def _kind(name: str) -> type[TrackerKind]:
    try:
        found = registry.find("tracker", name)
    except ValueError:  # creating the tracker reports the error
        return TrackerKind
    return found if isinstance(found, type) and issubclass(found, TrackerKind) else TrackerKind
