"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import functools
import itertools
import os
import socket
import struct
import time
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.protocols import Array

_FILES: Final = itertools.count()
_BLOCK: Final = 1024
"""Number of bytes of a checksum's pieces."""


class EventFile:
    """A new event file. TensorBoard's own writer loads TensorFlow if it is installed.

    Args:
        directory: an existing folder.
    """

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        now = time.time()
        # TensorBoard reads files in order of names, so numbers are padded.
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_FILES):06d}"
        self._event = Event
        self._file = (directory / name).open("wb")
        self._close = weakref.finalize(self, self._file.close)  # not every user closes it
        self.add_event(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def add(self, step: int, summary: Any, wall_time: float | None = None) -> None:
        """Add a ``Summary``; the wall time, in seconds since 1970, defaults to now."""
        now = time.time() if wall_time is None else wall_time
        self.add_event(self._event(wall_time=now, step=step, summary=summary))

    def add_event(self, event: Any) -> None:
        """Add an ``Event``."""
        content = event.SerializeToString()
        self._file.write(b"".join((_head(len(content)), content, _checksum(content))))

    def flush(self) -> None:
        """Pass buffered data to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered data and close."""
        self._close()


@functools.lru_cache(1024)
def _head(length: int) -> bytes:
    """What comes before a record of this length."""
    packed = struct.pack("<Q", length)
    return packed + _checksum(packed)


@functools.cache
def _tables() -> tuple[Array, Array]:
    """Effects of bytes on a CRC-32C, uint32 [_BLOCK * 256], the last byte's last; and where each byte's begin."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & np.uint32(1), np.uint32(0x82F63B78), np.uint32(0))
    rows = [table]
    for _ in range(_BLOCK - 1):
        rows.append(table[rows[-1] & np.uint32(0xFF)] ^ (rows[-1] >> np.uint32(8)))
    return np.concatenate(rows[::-1]), np.arange(_BLOCK) * 256


def _checksum(content: bytes) -> bytes:
    """The masked CRC-32C of a record, as TFRecord files have it; TensorBoard's own takes 10 times as long."""
    crc, (effects, places) = 0xFFFFFFFF, _tables()
    for begin in range(0, len(content), _BLOCK):
        block = bytearray(content[begin : begin + _BLOCK])
        carried = min(4, len(block))
        for k in range(carried):
            block[k] ^= crc >> 8 * k & 0xFF
        rest = crc >> 8 * carried
        crc = int(np.bitwise_xor.reduce(effects[places[-len(block) :] + np.frombuffer(block, np.uint8)])) ^ rest
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
