"""The one kind of error that an experiment file, or what is given in its place, can have; and that of trackers."""

from __future__ import annotations


class ExperimentError(ValueError):
    """Something is wrong with an experiment file, or with a value given on the command line in its place.

    Args:
        file: the file, or the option (``--set a.b=1``) that the value came from.
        message: what is wrong, with the value received.
        line: line in the file, from 1, where there is one.
        key: dotted path of the key, empty for the whole file.
        nearest: the known name most like an unknown one.
    """

    def __init__(
        self, file: str, message: str, *, line: int | None = None, key: str = "", nearest: str | None = None
    ) -> None:
        self.file, self.message, self.line, self.key, self.nearest = file, message, line, key, nearest
        place = file if line is None else f"{file}:{line}"
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(": ".join(part for part in (place, key, message) if part) + hint)


class TrackerError(RuntimeError):
    """A tracker, a server say, could not be reached, or refused. The text is for the user, and names the tracker."""
