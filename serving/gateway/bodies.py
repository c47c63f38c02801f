"""Read request bodies within limits of bytes, of values, and of memory held at once."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Final, NamedTuple

from starlette.types import Message, Receive

from ..catalogue.sizes import depth_of
from ..hosting.requests import parsed, values_in
from ..refusals import RefusedError, invalid
from .http_messages import DisconnectedError, Head
from .settings import Limits

FEW: Final = 10_000
"""JSON values that any body may have: they are read in less than a millisecond."""
_SMALL: Final = 2**14
"""Largest body that is not counted if it arrives at once, as it is released immediately."""
_PIECE: Final = 2**20
"""Bytes of a state collected in memory before a write to its file."""
_OF_ALL: Final = 4
"""Maximum total of bodies held at once, in bodies of the largest size."""
_OF_ONE: Final = 2
"""The same per account, and per address."""
_LIST: Final = re.compile(rb"\s*\[")
_HAS_FILES: Final = sys.platform == "linux"
"""Whether another process can open a file without a name."""


class Bodies:
    """Reads bodies, and bounds the memory held for requests in flight, until they are answered.

    Args:
        limits: section of the configuration.
    """

    def __init__(self, limits: Limits) -> None:
        largest = max(limits.batch_bytes, limits.body_bytes) if limits.batch_bytes and limits.body_bytes else 0
        self._memory = _Held(largest, "limits.batch_bytes")
        self._files = _Held(limits.state_bytes, "limits.state_bytes")

    async def read(
        self,
        receive: Receive,
        head: Head,
        most: int,
        values: int,
        clients: Callable[[], Sequence[str]],
        in_list: int = 0,
    ) -> bytes:
        """Read a body into memory.

        Args:
            receive: ASGI.
            head: headers of the request. Memory held for it is released when it is answered.
            most: maximum of bytes; 0: no limit, here and below.
            values: maximum of JSON values.
            clients: returns the account and the address that it counts for.
            in_list: maximum of JSON values of a list; 0: the same.

        Raises:
            RefusedError: the body is too large, or too much is held already.
            DisconnectedError: the client went away.
        """
        message = await _first(receive, head, most)
        body: bytes = message.get("body", b"")
        more = message.get("more_body")
        if in_list and (more or len(body) > in_list) and _LIST.match(body):
            values = in_list
        if not more:
            if most and len(body) > most:
                raise _too_large(most)
            if values and len(body) > values and values_in(body) > values:
                raise _too_many(values)
            if len(body) > _SMALL:
                head.holds = _Share(self._memory, clients())
                head.holds.add(len(body))
            return body
        share = head.holds = _Share(self._memory, clients())
        content = bytearray()  # parts may have one byte each
        async for part in _parts(receive, message, most, values):
            share.add(len(part))
            content += part
        return bytes(content)

    async def keep(
        self, receive: Receive, head: Head, most: int, values: int, clients: Callable[[], Sequence[str]]
    ) -> tuple[bytes, Upload | None]:
        """Read a body of any size; a large one goes to a file instead of memory. Arguments as for :meth:`read`.

        Raises:
            RefusedError: as for :meth:`read`, or the file cannot be written.
        """
        message = await _first(receive, head, most)
        share = head.holds = _Share(self._files, clients())
        digest, content = hashlib.sha256(), bytearray()
        async for part in _parts(receive, message, most, values):
            share.add(len(part))
            digest.update(part)
            content += part
            if len(content) > _PIECE and _HAS_FILES:
                await share.write(content)
                content = bytearray()
        if share.file is None:
            return bytes(content), None
        await share.write(content)
        return b"", Upload(f"/proc/{os.getpid()}/fd/{share.file.fileno()}", digest.digest())


class Upload(NamedTuple):
    """A body in a file that exists until the request is answered.

    Args:
        path: path for the workers.
        digest: SHA-256 of the content.
    """

    path: str
    digest: bytes


class _Held:
    """Bytes held by all requests, per account and per address.

    Args:
        largest: bytes of the largest body; 0: no limit.
        setting: the setting that says so.
    """

    def __init__(self, largest: int, setting: str) -> None:
        self._largest, self._setting = largest, setting
        self._total = 0
        self._of: collections.Counter[str] = collections.Counter()

    def take(self, clients: Sequence[str], size: int) -> None:
        """Hold more; raises RefusedError."""
        if self._largest:
            for client in clients:
                if self._of[client] + size > _OF_ONE * self._largest:
                    raise self._full("rate_limited", f"this {client.partition(' ')[0]}", _OF_ONE)
            if self._total + size > _OF_ALL * self._largest:
                raise self._full("unavailable", "all requests", _OF_ALL)
        self._total += size
        self._of.update(dict.fromkeys(clients, size))

    def give_back(self, clients: Sequence[str], size: int) -> None:
        """Hold less."""
        self._total -= size
        for client in clients:
            self._of[client] -= size
            if not self._of[client]:
                del self._of[client]

    def _full(self, code: str, whose: str, times: int) -> RefusedError:
        what = f"bodies of {whose} that are not answered yet may have {times * self._largest:,} bytes in sum"
        how = f"wait for their answers, or send less at once (that is {times} times {self._setting})"
        return RefusedError(code, f"{what}: {how}").closing()


class _Share:
    """Bytes held by one request.

    Args:
        held: the totals.
        clients: the request's account and address.
    """

    def __init__(self, held: _Held, clients: Sequence[str]) -> None:
        self._held, self._clients, self._size = held, clients, 0
        self.file: IO[bytes] | None = None

    def add(self, size: int) -> None:
        """Hold more; raises RefusedError."""
        self._held.take(self._clients, size)
        self._size += size

    async def write(self, content: bytearray) -> None:
        """Append to the file, which has no name, so that nothing of it remains; raises RefusedError."""
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile()  # noqa: SIM115 # until the request is done
            await asyncio.to_thread(_write, self.file, content)
        except OSError as error:
            what = f"the body cannot be kept in {tempfile.gettempdir()}: {error.strerror}"
            raise RefusedError("storage_full", what).closing() from None

    def end(self) -> None:
        """Give all of it back."""
        self._held.give_back(self._clients, self._size)
        if self.file is not None:
            self.file.close()


def _write(file: IO[bytes], content: bytearray) -> None:
    file.write(content)
    file.flush()


async def _first(receive: Receive, head: Head, most: int) -> Message:
    """The first message; a body that is too large by ``Content-Length`` is not requested."""
    head.is_read = True
    if most and head.length and int(head.length) > most:
        raise _too_large(most)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise DisconnectedError
    return message


async def _parts(receive: Receive, message: Message, most: int, values: int) -> AsyncIterator[bytes]:
    """The parts of a body; refuses it as soon as it is too large."""
    total = found = 0
    while True:
        part: bytes = message.get("body", b"")
        total += len(part)
        if most and total > most:
            raise _too_large(most)
        found += values_in(part) if values else 0
        if values and found > values:
            raise _too_many(values)
        yield part
        if not message.get("more_body"):
            return
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError


def checked_json(body: bytes, depth: int) -> None:
    """Refuse a body that is not JSON (NaN and infinity are not), or is nested too deeply; 0: no limit."""
    value = parsed(body)
    if depth and depth_of(value, depth) > depth:
        raise invalid("body", f"may be nested {depth} levels deep")


def _too_large(most: int) -> RefusedError:
    return RefusedError("body_too_large", f"the body may have {most} bytes").closing()


def _too_many(values: int) -> RefusedError:
    what = f"the body may have {values:,} values, by its commas and brackets; this request cannot mean more"
    return RefusedError("body_too_large", f"{what}: send less at once").closing()
