"""Read request bodies within limits of bytes, of values, and of memory held at once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
import tempfile
import urllib.parse
from typing import IO, Any, Final

from ..catalogue.sizes import depth_of
from ..hosting.requests import parse_body, values_in
from ..limits import Held
from ..refusals import RefusedError, invalid
from .http_messages import DisconnectedError, Request, Upload

_SMALL: Final = 2**14
"""Largest body that is not counted if it arrives at once, as it is released immediately."""
_PIECE: Final = 2**20
"""Bytes of a state collected in memory before a write to its file."""
_LIST: Final = re.compile(rb"\s*\[")
_HAS_FILES: Final = sys.platform == "linux"
"""Whether another process can open a file without a name."""


class Share:
    """Bytes held for one request until it is answered.

    Args:
        request: the request.
        held: the total.
    """

    def __init__(self, request: Request, held: Held) -> None:
        self._clients, self._held, self._size = request.clients, held, 0
        request.ends.append(self._release)

    def add(self, size: int) -> None:
        """Hold more; raises RefusedError."""
        self._held.add(self._clients, size)
        self._size += size

    def _release(self) -> None:
        self._held.release(self._clients, self._size)


async def read(request: Request, most: int, values: int, in_list: int = 0, *, is_state: bool = False) -> None:
    """Read a request's body into memory, or a large state into a file.

    Args:
        request: the request, which gets it.
        most: maximum of bytes; 0: no limit, here and below.
        values: maximum of JSON values.
        in_list: maximum of JSON values of a list; 0: the same.
        is_state: whether it may be large, and the worker reads it.

    Raises:
        RefusedError: the body is too large, or too much is held already, or the file cannot be written.
        DisconnectedError: the client went away.
    """
    request.is_read = True
    length = request.headers.get(b"content-length")
    if most and length and int(length) > most:
        raise _too_large(most, f"{int(length):,}")
    content, share, file, digest = bytearray(), None, None, hashlib.sha256()
    size = found = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        if in_list and not size and (more or len(part) > in_list) and _LIST.match(part):
            values = in_list
        size += len(part)
        if most and size > most:
            raise _too_large(most, f"{size:,} or more")
        if values and (more or size > values):  # every value has a byte
            found += values_in(part)
            if found > values:
                raise _too_many(values)
        if share is None:
            if not more and size <= _SMALL:
                request.body = part
                return
            share = Share(request, request.gateway.files if is_state else request.gateway.bodies)
        share.add(len(part))
        content += part  # parts may have one byte each
        if is_state and _HAS_FILES and (len(content) > _PIECE or (file is not None and not more)):
            digest.update(content)
            file = await _append(request, file, content)
            content = bytearray()
    request.body = bytes(content)
    if file is not None:
        request.upload = Upload(f"/proc/{os.getpid()}/fd/{file.fileno()}", digest.digest())


async def _append(request: Request, file: IO[bytes] | None, content: bytearray) -> IO[bytes]:
    """The file, which has no name, so that nothing of it remains."""
    try:
        if file is None:
            file = tempfile.TemporaryFile()  # noqa: SIM115 # until it is answered
            request.ends.append(file.close)
        await asyncio.to_thread(_write, file, content)
    except OSError as error:
        what = f"the body cannot be kept in {tempfile.gettempdir()}: {error.strerror}"
        raise RefusedError("storage_full", what).closing() from None
    return file


def _write(file: IO[bytes], content: bytearray) -> None:
    file.write(content)
    file.flush()


def json_of(body: bytes, depth: int) -> Any:
    """The value of a body; refuses one that is not JSON (NaN and infinity are not), or is nested too deeply."""
    value = parse_body(body)
    if depth and depth_of(value, depth) > depth:
        raise invalid("body", f"may be nested {depth} levels deep, by limits.json_depth")
    return value


def form_of(body: bytes) -> dict[str, str]:
    """The fields of a form."""
    try:
        pairs = urllib.parse.parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise RefusedError("invalid_request", "the body must be a form") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise invalid("body", "a field is given twice")
    return form


def _too_large(most: int, given: str) -> RefusedError:
    what = f"the body may have {most:,} bytes, got {given}: send less at once, or raise the limit"
    return RefusedError("body_too_large", what).closing()


def _too_many(values: int) -> RefusedError:
    what = f"the body may have {values:,} values (counted by commas and brackets), which suffices for this request"
    return RefusedError("body_too_large", f"{what}: send less at once").closing()
