"""Requests and replies in terms of ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

from ..accounts import By
from ..limits import network
from ..refusals import RefusedError
from .gateway import ANONYMOUS, Gateway, Network
from .problems import MEDIA_TYPE, document

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

JSON_TYPE: Final = b"application/json"
FORM_TYPE: Final = b"application/x-www-form-urlencoded"
STATE_TYPES: Final = (b"application/octet-stream", b"application/vnd.safetensors")
REPLAYED: Final = ((b"idempotent-replayed", b"true"),)
"""Headers of an earlier answer to a request with the same ``Idempotency-Key``."""
CLOSING: Final = (b"connection", b"close")
_SMALL: Final = 2**16
"""Largest answer that is not counted while the client takes it."""

_DRAINED, _DRAIN_SECONDS = 8 * 2**20, 1.0
"""Bytes and seconds for which a refused body is read and dropped, so that the client gets to read the answer."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class DisconnectedError(Exception):
    """The client went away before its request was complete."""


class Upload(NamedTuple):
    """A body in a file that exists until the request is answered.

    Args:
        path: path for the workers.
        digest: SHA-256 of the content.
    """

    path: str
    digest: bytes


class Request:
    """A request, as far as it is known.

    Args:
        gateway: shared by all routes.
        scope: ASGI.
        receive: ASGI.
        request_id: its number, in logs, answers and the audit log.
    """

    def __init__(self, gateway: Gateway, scope: Scope, receive: Receive, request_id: str) -> None:
        self.gateway, self.scope, self.receive, self.id = gateway, scope, receive, request_id
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        """The last one of each name."""
        self.route = "(none)"
        """Its route's path, with placeholders for names."""
        self.names: Mapping[str, str] = {}
        """Placeholders of the route's path, and what the request has there."""
        self.grant = ANONYMOUS
        self.body = b""
        self.upload: Upload | None = None
        self.is_read = False
        """Whether its body was requested."""
        self.ends: list[Callable[[], object]] = []
        """Release what is held until it is answered."""

    @property
    def name(self) -> str:
        """``{name}`` of its path; empty without one."""
        return self.names.get("name", "")

    @property
    def address(self) -> str:
        """The client's address: the peer's, or the one that a trusted proxy reports."""
        proxies, address = self.gateway.proxies, self.peer
        if not proxies or not is_trusted(address, proxies):
            return address
        forwarded = b",".join(value for name, value in self.scope["headers"] if name == b"x-forwarded-for")
        for given in reversed(forwarded.decode("latin-1").split(",")):
            try:
                address = str(ipaddress.ip_address(given.strip()))
            except ValueError:
                return address
            if not is_trusted(address, proxies):
                return address
        return address

    @property
    def peer(self) -> str:
        """Address of the other end of the connection."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def is_secure(self) -> bool:
        """Whether it came over TLS, to the service or to its proxy."""
        if self.scope["scheme"] == "https":
            return True
        return self.headers.get(b"x-forwarded-proto") == b"https" and is_trusted(self.peer, self.gateway.proxies)

    @property
    def by(self) -> By:
        """The caller, for the audit log."""
        return By(self.grant.user, self.address, self.id)

    @property
    def clients(self) -> list[str]:
        """Account and address that its body counts for."""
        address = f"address {network(self.address)}"
        return [address] if self.grant is ANONYMOUS else [f"account {self.grant.user_id}", address]

    @property
    def has_lost_body(self) -> bool:
        """Whether it asks for another protocol, so that what follows its headers is not parsed, and has a body."""
        if b"upgrade" not in self.headers:
            return False
        connection = {one.strip().lower() for one in self.headers.get(b"connection", b"").split(b",")}
        has_body = self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers
        return has_body and b"upgrade" in connection

    async def call(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call a function of the database, in a thread; raises RefusedError."""
        return await self.gateway.threads.call(function, *args, **kwargs)

    async def record(self, what: str, target: str = "", outcome: str = "ok", **detail: Any) -> None:
        """Append to the audit log."""
        await self.gateway.record(what, self.by, target, outcome, **detail)

    def check_type(self, allowed: Sequence[bytes]) -> None:
        """Refuse a body of another type. No type means the first.

        Raises:
            RefusedError: 415.
        """
        encoding, kind = self.headers.get(b"content-encoding", b""), self.headers.get(b"content-type", b"")
        if encoding and encoding.lower() != b"identity":
            what = f"Content-Encoding must be identity, got {encoding[:80].decode('latin-1')}"
            raise RefusedError("unsupported_media_type", what)
        if not kind or kind == allowed[0]:
            return
        given = kind.partition(b";")[0].strip().lower()
        if given not in allowed:
            names, got = " or ".join(one.decode() for one in allowed), given[:80].decode("latin-1")
            raise RefusedError("unsupported_media_type", f"Content-Type must be {names}, got {got}")

    async def drain(self) -> None:
        """Read the rest of a refused request for a while, and drop it."""
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self._drain(), _DRAIN_SECONDS)

    async def _drain(self) -> None:
        dropped, message = 0, await self.receive()
        while message.get("more_body") and dropped < _DRAINED:
            dropped += len(message.get("body", b""))
            message = await self.receive()


class Reply(NamedTuple):
    """A reply in one message; without a type it has no body."""

    status: int
    body: bytes = b""
    type: bytes = b""
    headers: Headers = ()

    @classmethod
    def refusing(cls, problem: RefusedError, request: Request) -> Reply:
        """The problem document of a refusal."""
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
        return cls(problem.status, document(problem, request.id), MEDIA_TYPE.encode(), headers)

    @property
    def is_large(self) -> bool:
        """Whether it is counted until the client has taken it."""
        return len(self.body) > _SMALL

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed after it."""
        return CLOSING in self.headers

    async def send(self, send: Send, request: Request, more: Headers) -> None:
        """Send it with more headers; a large one is sent when this returns.

        If the connection is to be closed, the rest of the request is read for a while.
        """
        kind = [(b"content-type", self.type), (b"content-length", b"%d" % len(self.body))] if self.type else []
        headers = [*kind, *self.headers, *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        more_body = self.is_closing or self.is_large
        await send({"type": "http.response.body", "body": self.body, "more_body": more_body})
        if self.is_closing:
            await request.drain()
        if more_body:
            await send({"type": "http.response.body", "body": b""})


def is_trusted(address: str, proxies: Sequence[Network]) -> bool:
    """Whether an address is a trusted proxy's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)  # as a server that listens at :: sees it
    return any(one in network for network in proxies for one in (parsed, mapped) if one is not None)
