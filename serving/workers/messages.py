"""Frames between the gateway and the processes behind it: a head of JSON and a body of bytes.

A frame is: the length of what follows (4 bytes, little-endian), the length of the head (2 bytes), the head, the body.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Head: TypeAlias = dict[str, Any]

_LENGTHS: Final = struct.Struct("<IH")
_MOST: Final = 1 << 30
"""Bytes of a frame: a state of 256 MiB has room, what is not a frame is refused."""


def encode(head: Head, body: bytes = b"") -> bytes:
    """A frame; ValueError if the head has more than 65,535 bytes."""
    written = json.dumps(head, separators=(",", ":")).encode()
    if len(written) > 0xFFFF:
        raise ValueError(f"the head of a frame has {len(written)} bytes, at most {0xFFFF} fit")
    return _LENGTHS.pack(2 + len(written) + len(body), len(written)) + written + body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, content: bytes) -> Iterator[tuple[Head, bytes]]:
        """The frames that are whole with these bytes.

        Raises:
            ValueError: what comes is not a frame.
        """
        held = self._held
        held += content
        begin = 0
        while len(held) - begin >= _LENGTHS.size:
            length, head = _LENGTHS.unpack_from(held, begin)
            if not 2 <= length <= _MOST or head + 2 > length:
                raise ValueError(f"not a frame: {length} bytes, {head} of them its head")
            end = begin + 4 + length
            if len(held) < end:
                break
            at = begin + _LENGTHS.size
            yield json.loads(held[at : at + head]), bytes(held[at + head : end])
            begin = end
        del held[:begin]


def receive(connection: socket.socket, frames: Frames) -> Iterator[tuple[Head, bytes]]:
    """All frames until the other side is gone, waiting for each."""
    while content := connection.recv(1 << 16):
        yield from frames.feed(content)
