"""Frames between a gateway and its processes, as bytes, and their reading from sockets.

A frame is a u32, the length of what follows; a u16, the length of the head; the head, JSON in UTF-8; and the body, raw
bytes. Numbers are little-endian. Both ends are of one version, and trust each other.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from ..refusals import RefusedError

Head: TypeAlias = dict[str, Any]

MAX_BODY: Final = 2**30
"""Maximum bytes of a body: an agent's memory of 512 MiB takes a third more in base64."""
_PREFIX: Final = struct.Struct("<IH")
_LENGTH_BYTES: Final = 4

BEAT: Final = 0
"""The ``id`` of a heartbeat, which answers nothing."""
SPIN_SECONDS: Final = 0.0003
"""Maximum time for which gateway and worker stay awake for each other's next frame, where the last came within it. To
wake takes 50 to 100 microseconds, and a small network acts in 30: awake, the p50 of ``act`` is 0.27 ms, asleep 0.38."""


class Frame(NamedTuple):
    """One message."""

    head: Head
    body: bytes


def encode(head: Mapping[str, Any], body: bytes | bytearray | memoryview = b"") -> bytes:
    """Encode a frame."""
    encoded = to_json(head, inf_nan_mode="null")
    return b"".join(
        (_PREFIX.pack(_PREFIX.size - _LENGTH_BYTES + len(encoded) + len(body), len(encoded)), encoded, body)
    )


def answer(request: Head, status: int, body: bytes, **more: Any) -> bytes:
    """The frame that answers a request."""
    return encode({"id": request["id"], "status": status, **more}, body)


def refusal(request: Head, error: RefusedError, **more: Any) -> bytes:
    """The frame that refuses a request."""
    if error.retry_after is not None:
        more["retry_after"] = error.retry_after
    return answer(request, error.status, to_json(error.to_json()), **more)


def cut(buffer: bytearray) -> list[Frame]:
    """Take the complete frames from the front of a buffer; an incomplete one stays."""
    frames, start = list[Frame](), 0
    with memoryview(buffer) as view:
        while len(view) - start >= _PREFIX.size:
            size, head = _PREFIX.unpack_from(view, start)
            begin, end = start + _PREFIX.size, start + _LENGTH_BYTES + size
            if end > len(view):
                break
            frames.append(Frame(from_json(bytes(view[begin : begin + head])), bytes(view[begin + head : end])))
            start = end
    del buffer[:start]
    return frames


def read(connection: socket.socket) -> Frame | None:
    """The next frame of a blocking socket; None at its end."""
    buffer = bytearray()
    wanted = _PREFIX.size
    while len(buffer) < wanted:
        part = connection.recv(min(wanted - len(buffer), 1 << 20))
        if not part:
            return None
        buffer += part
        if len(buffer) == _PREFIX.size:
            wanted = _LENGTH_BYTES + _PREFIX.unpack(buffer)[0]
    return cut(buffer)[0]


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
