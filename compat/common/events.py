"""TensorBoard event files: named summaries at a step."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...hooks.event_files import EventFile


class Events:
    """A new event file in an existing folder.

    Args:
        folder: the existing folder.
        seconds: least time between two flushes to the operating system.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self._file: EventFile | None = EventFile(folder)
        self._seconds, self._flushed = seconds, time.monotonic()

    def add(self, step: int, summaries: Iterable[Any], at_once: bool = False) -> None:
        """Add an event with these summaries; ``at_once`` flushes it now."""
        if self._file is None:
            return
        whole = empty()
        for summary in summaries:
            whole.MergeFrom(summary)
        self._file.add(step, whole)
        if at_once or time.monotonic() - self._flushed >= self._seconds:
            self._file.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def scalar(tag: str, value: float) -> Any:
    """A number as a summary."""
    summary = empty()
    summary.value.add(tag=tag, simple_value=value)
    return summary


def empty() -> Any:
    """A summary without a value."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary()
