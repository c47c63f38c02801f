"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import functools
import itertools
import math
import os
import socket
import struct
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.protocols import Array

_FILES: Final = itertools.count()
_BLOCK: Final = 1024
"""Bytes per piece of a checksum."""


class EventFile:
    """A new event file. TensorBoard's own writer would load TensorFlow if it is installed.

    Args:
        directory: an existing folder.
    """

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        now = time.time()
        # TensorBoard reads files in the order of their names, so numbers are padded.
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_FILES):06d}"
        self._event = Event
        self._file = (directory / name).open("wb")
        self._close = weakref.finalize(self, self._file.close)  # not every user closes it
        self.add_event(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def add(self, step: int, summary: Any) -> None:
        """Add a ``Summary``."""
        self.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def add_scalars(self, step: int, values: Mapping[str, float], wall_time: float) -> None:
        """Add numbers by tag. TensorBoard's classes take several times as long to encode them, at every episode."""
        summary = b"".join([_scalar(tag) + _float32(value) for tag, value in values.items()])
        # Of Event: wall_time (field 1), step (2), summary (5).
        head = b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + b"\x2a" + _varint(len(summary))
        self._add(head + summary)

    def add_event(self, event: Any) -> None:
        """Add an ``Event``."""
        self._add(event.SerializeToString())

    def _add(self, content: bytes) -> None:
        self._file.write(b"".join((_head(len(content)), content, _checksum(content))))

    def flush(self) -> None:
        """Pass buffered data to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered data and close."""
        self._close()


@functools.lru_cache(1024)
def _scalar(tag: str) -> bytes:
    """The encoded value of a Summary (field 1) up to its number: tag (field 1), simple_value (2)."""
    name = tag.encode()
    content = b"\x0a" + _varint(len(name)) + name + b"\x15"
    return b"\x0a" + _varint(len(content) + 4) + content


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(number: int) -> bytes:
    """An integer of at least 0 in Protocol Buffers' base 128."""
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)


@functools.lru_cache(1024)
def _head(length: int) -> bytes:
    """The bytes before a record of this length."""
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
