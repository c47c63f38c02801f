"""Frames between a gateway and its processes, as bytes, and their reading from sockets.

A frame is a u32, the length of what follows; a u16, the length of the head; the head, JSON in UTF-8; and the body, raw
bytes. Numbers are little-endian.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

Head: TypeAlias = dict[str, Any]

MAX_HEAD: Final = 2**16 - 1
MAX_BODY: Final = 2**30
"""Maximum bytes of a body: an agent's memory of 512 MiB takes a third more in base64."""
_LENGTH: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<H")
_PREFIX: Final = struct.Struct("<IH")

BEAT: Final = 0
"""The ``id`` of a heartbeat, which answers nothing."""
SPIN_SECONDS: Final = 0.0003
"""Maximum time for which gateway and worker stay awake for each other's next frame, where the last came within it. To
wake takes 50 to 100 microseconds, and a small network acts in 30: awake, the p50 of ``act`` is 0.27 ms, asleep 0.38."""


class Frame(NamedTuple):
    """One message."""

    head: Head
    body: bytes


class FrameError(ValueError):
    """The data received is not a frame: the connection is unusable."""


def encode(head: Mapping[str, Any], body: bytes | bytearray | memoryview = b"") -> bytes:
    """Encode a frame.

    Raises:
        ValueError: the head is not JSON, or head or body is too long.
    """
    encoded = to_json(head, inf_nan_mode="null")
    if len(encoded) > MAX_HEAD or len(body) > MAX_BODY:
        raise ValueError(
            f"a frame may have a head of {MAX_HEAD:,} and a body of {MAX_BODY:,} bytes, got {len(encoded):,} and"
            f" {len(body):,}"
        )
    return b"".join((_PREFIX.pack(_HEAD.size + len(encoded) + len(body), len(encoded)), encoded, body))


def _decode(view: memoryview, start: int, end: int) -> Frame:
    if end - start < _HEAD.size:
        raise FrameError(f"a frame has at least {_HEAD.size} bytes, got {end - start}")
    (size,) = _HEAD.unpack_from(view, start)
    begins = start + _HEAD.size
    ends = begins + size
    if ends > end:
        raise FrameError(f"a frame of {end - start:,} bytes cannot have a head of {size:,}")
    try:
        head = from_json(bytes(view[begins:ends]), allow_inf_nan=False)
    except ValueError as error:  # UTF-8's, too
        raise FrameError(f"the head of a frame is no JSON: {error}") from error
    if not isinstance(head, dict):
        raise FrameError(f"the head of a frame must be an object, got {type(head).__name__}")
    return Frame(head, bytes(view[ends:end]))


def cut(buffer: bytearray) -> list[Frame]:
    """Take the complete frames from the front of a buffer; an incomplete one stays.

    Raises:
        FrameError: the data is not a frame. Frames before it are already removed.
    """
    frames, start = list[Frame](), 0
    try:
        with memoryview(buffer) as view:
            while len(view) - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(view, start)
                _check_size(size)
                end = start + _LENGTH.size + size
                if end > len(view):
                    break
                frames.append(_decode(view, start + _LENGTH.size, end))
                start = end
    finally:
        if start == len(buffer):
            buffer.clear()
        else:
            del buffer[:start]
    return frames


def read(connection: socket.socket) -> Frame | None:
    """The next frame of a blocking socket; None at its end, between two frames.

    Raises:
        FrameError: it ends within a frame, or the data is not a frame.
        OSError: the socket's errors.
    """
    length = _received(connection, _LENGTH.size)
    if length is None:
        return None
    (size,) = _LENGTH.unpack(length)
    _check_size(size)
    content = _received(connection, size)
    if content is None:
        raise FrameError("the connection ended within a frame")
    with memoryview(content) as view:
        return _decode(view, 0, size)


def wait_for(
    reads: Sequence[socket.socket], seconds: float, writes: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """Wait until a socket is readable (or writable, for ``writes``); returns the readable ones.

    ``select.select`` takes no descriptor above 1,023, which a gateway with many connections may pass on.
    """
    poll = select.poll()
    for one in reads:
        poll.register(one, select.POLLIN | (select.POLLOUT if one in writes else 0))
    ready = {descriptor for descriptor, events in poll.poll(max(seconds, 0.0) * 1000) if events & ~select.POLLOUT}
    return [one for one in reads if one.fileno() in ready]


def _check_size(size: int) -> None:
    if not _HEAD.size <= size <= _HEAD.size + MAX_HEAD + MAX_BODY:
        raise FrameError(f"a frame cannot have {size:,} bytes")


def _received(connection: socket.socket, size: int) -> bytes | None:
    """Read ``size`` bytes; None if the connection ends before the first."""
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(size - len(received), 1 << 20))
        if not part:
            if received:
                raise FrameError("the connection ended within a frame")
            return None
        received += part
    return bytes(received)
