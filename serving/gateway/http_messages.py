"""Requests and answers in terms of ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from starlette.types import Message, Receive, Scope, Send

from ..refusals import RefusedError
from .problems import MEDIA_TYPE, document

JSON_TYPE: Final = b"application/json"
FORM_TYPE: Final = b"application/x-www-form-urlencoded"
STATE_TYPES: Final = (b"application/octet-stream", b"application/vnd.safetensors")

_DRAINED, _DRAIN_SECONDS = 8 * 2**20, 1.0
"""Bytes and seconds for which a refused body is read and dropped, so that the client gets to read the answer."""

_FIELDS: Final = {
    b"authorization": "authorization",
    b"content-type": "type",
    b"content-length": "length",
    b"content-encoding": "encoding",
    b"idempotency-key": "key",
    b"origin": "origin",
    b"x-forwarded-proto": "proto",
}
"""Headers that the gateway reads, and their names in :class:`Head`; of several, the last one counts."""

Headers: TypeAlias = list[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class DisconnectedError(Exception):
    """The client went away before its request was complete."""


class Holds(Protocol):
    """Memory held for a request."""

    def add(self, size: int) -> None:
        """Hold more; raises RefusedError."""

    def end(self) -> None:
        """Give all of it back."""


class Head:
    """The headers that the gateway reads, found in one pass."""

    __slots__ = (
        *("authorization", "encoding", "forwarded", "holds", "is_read", "key", "length", "origin", "proto", "size"),
        "type",
    )

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.authorization: bytes | None = None
        self.type = self.encoding = self.length = b""
        self.key: bytes | None = None
        self.origin = self.forwarded = self.proto = b""
        self.size = 0
        self.is_read = False
        """Whether its body was requested."""
        self.holds: Holds | None = None
        """Memory held for it until it is answered."""
        for name, value in headers:
            self.size += len(name) + len(value) + 4
            field = _FIELDS.get(name)
            if field is not None:
                setattr(self, field, value)
            elif name == b"x-forwarded-for":
                self.forwarded += b"," + value if self.forwarded else value

    def check_type(self, allowed: Sequence[bytes]) -> None:
        """Refuse a body of another type. No type means the first.

        Raises:
            RefusedError: 415.
        """
        if self.encoding and self.encoding.lower() != b"identity":
            what = f"Content-Encoding must be identity, got {self.encoding[:80].decode('latin-1')}"
            raise RefusedError("unsupported_media_type", what)
        if not self.type or self.type == allowed[0]:
            return
        given = self.type.partition(b";")[0].strip().lower()
        if given not in allowed:
            names, got = " or ".join(one.decode() for one in allowed), given[:80].decode("latin-1")
            raise RefusedError("unsupported_media_type", f"Content-Type must be {names}, got {got}")


Page: TypeAlias = Callable[[Scope, Receive, Send, Head, Headers], Awaitable[None]]
"""The web page: an ASGI application that is also given the request's headers and those of every answer."""


def address_of(scope: Scope, head: Head, proxies: Sequence[Network]) -> str:
    """The client's address: the peer's, or the one that a trusted proxy reports."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    if not proxies or not head.forwarded or not trusted(address, proxies):
        return address
    for given in reversed(head.forwarded.decode("latin-1").split(",")):
        try:
            address = str(ipaddress.ip_address(given.strip()))
        except ValueError:
            return address
        if not trusted(address, proxies):
            return address
    return address


def trusted(address: str, proxies: Sequence[Network]) -> bool:
    """Whether an address is a trusted proxy's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in proxies)


async def send_answer(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]], media_type: bytes = JSON_TYPE
) -> None:
    """Send an answer in one message."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", media_type), length, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_problem(
    receive: Receive, send: Send, problem: RefusedError, request_id: str, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Answer with a problem document. If the connection is to be closed, read the rest of the request for a while."""
    body, more = document(problem, request_id), problem.headers
    closing = more.get("Connection") == "close"
    answer_headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode("latin-1")) for name, value in more.items()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": answer_headers})
    await send({"type": "http.response.body", "body": body, "more_body": closing})
    if closing:
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(_drain(receive), _DRAIN_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    dropped, message = 0, await receive()
    while message.get("more_body") and dropped < _DRAINED:
        dropped += len(message.get("body", b""))
        message = await receive()


def replaying(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that returns a body that was already read."""
    pending = [body]

    async def again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return again
