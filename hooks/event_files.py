"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import itertools
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any, Final

_FILES: Final = itertools.count()


class EventFile:
    """A new event file. TensorBoard's own writer loads TensorFlow if it is installed.

    Args:
        directory: an existing folder.
    """

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        now = time.time()
        # TensorBoard reads files in order of names, so numbers are padded.
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_FILES):06d}"
        self._event = Event
        self._file = (directory / name).open("wb")
        self._close = weakref.finalize(self, self._file.close)  # not every user closes it
        self._records = RecordWriter(self._file)
        self.add_event(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def add(self, step: int, summary: Any, wall_time: float | None = None) -> None:
        """Add a ``Summary``; the wall time, in seconds since 1970, defaults to now."""
        now = time.time() if wall_time is None else wall_time
        self.add_event(self._event(wall_time=now, step=step, summary=summary))

    def add_event(self, event: Any) -> None:
        """Add an ``Event``."""
        self._records.write(event.SerializeToString())

    def flush(self) -> None:
        """Pass buffered data to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered data and close."""
        self._close()
