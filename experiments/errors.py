"""Errors in experiment files and run folders, and errors of trackers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class ExperimentError(ValueError):
    """An experiment file, or an option that replaces one of its values, is invalid.

    Args:
        file: the file, or the option (``--set a.b=1``) that the value came from.
        message: what is wrong, with the value received.
        line: line in the file, from 1, where there is one.
        key: dotted path of the key; empty for the whole file.
        nearest: the known name most like an unknown one.
    """

    def __init__(
        self, file: str, message: str, *, line: int | None = None, key: str = "", nearest: str | None = None
    ) -> None:
        self.file, self.message, self.line, self.key, self.nearest = file, message, line, key, nearest
        place = file if line is None else f"{file}:{line}"
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(": ".join(part for part in (place, key, message) if part) + hint)


class RunFolderError(ExperimentError):
    """A run folder cannot be used.

    Args:
        folder: the folder.
        message: a sentence that names it.
    """

    def __init__(self, folder: Path, message: str) -> None:
        super().__init__("", message)
        self.file = str(folder)


class ChangedExperimentError(RunFolderError):
    """A run cannot be resumed with a changed experiment.

    Args:
        folder: the run folder.
        changes: the keys, each with both values: ``"seed (1 -> 2)"``.
    """

    def __init__(self, folder: Path, changes: Sequence[str]) -> None:
        super().__init__(
            folder,
            f"Run folder {folder} cannot be resumed with a changed experiment: {', '.join(changes)}. Only train.max_*,"
            " evaluate, tracker and submit may change. Use --model-dir for a new run.",
        )
        self.changes = list(changes)


class TrackerError(RuntimeError):
    """A tracker could not be reached, or refused. The text is for the user, and names the tracker."""
