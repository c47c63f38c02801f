"""Errors in experiment files and run folders, and errors of trackers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

MAX_SHOWN: Final = 20
"""Maximum number of errors of a file that are shown at once."""


class ExperimentError(ValueError):
    """An experiment file, or an option that replaces one of its values, is invalid.

    Args:
        file: the file, or the option (``--set a.b=1``) that the value came from.
        message: what is wrong, with the value received.
        line: line in the file, from 1, if there is one.
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

    @property
    def errors(self) -> Sequence[ExperimentError]:
        """All errors that were found together: only this one."""
        return (self,)


class InvalidExperimentError(ExperimentError):
    """Several errors found at once. The fields are those of the first error; the text has a line for each.

    Args:
        errors: at least two.
    """

    def __init__(self, errors: Sequence[ExperimentError]) -> None:
        first = errors[0]
        super().__init__(first.file, first.message, line=first.line, key=first.key, nearest=first.nearest)
        self._errors = tuple(errors)

    @property
    def errors(self) -> Sequence[ExperimentError]:
        """All of them."""
        return self._errors

    def __str__(self) -> str:
        return "\n".join(map(str, self._errors))


class Findings:
    """Collects the errors of checks, so that all are shown at once.

    A key that is known to be wrong is not judged again: further errors at it, or within it, are dropped.
    """

    def __init__(self, errors: Iterable[ExperimentError] = ()) -> None:
        self._errors: list[ExperimentError] = []
        self._known: set[str] = set()
        for error in errors:
            self.add(error)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect an error that is raised within the context, and continue."""
        try:
            yield
        except ExperimentError as error:
            self.add(error)

    def add(self, error: ExperimentError) -> None:
        """Collect an error, or several that were found together."""
        new = [one for one in error.errors if not self.has(one.key)]
        self._errors += new
        self._known.update(one.key for one in new)

    def __bool__(self) -> bool:
        return bool(self._errors)

    def skip(self, key: str) -> None:
        """Ignore errors at this key, as they result from another one."""
        self._known.add(key)

    def has(self, key: str) -> bool:
        """Is something wrong at this key, or at one that contains it?"""
        parts = key.split(".")
        return any(".".join(parts[:length]) in self._known for length in range(1, len(parts) + 1))

    def has_within(self, key: str) -> bool:
        """Is something wrong at this key, or within it?"""
        return self.has(key) or any(known.startswith(f"{key}.") for known in self._known)

    def raise_all(self) -> None:
        """Raise the errors, if there are any, in the order of their lines."""
        files = list(dict.fromkeys(error.file for error in self._errors))
        found = sorted(self._errors, key=lambda error: (files.index(error.file), error.line or 0))[:MAX_SHOWN]
        if len(found) == 1:
            raise found[0]
        if found:
            raise InvalidExperimentError(found)


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
            " learn.max_steps, distributed, evaluate, tracker and submit may change. Use --model-dir for a new run.",
        )
        self.changes = list(changes)


class TrackerError(RuntimeError):
    """A tracker could not be reached, or refused a request. The text is for the user, and names the tracker."""
