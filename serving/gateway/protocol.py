"""uvicorn's HTTP protocol with deadlines, limits of connections, and errors as problem documents.

uvicorn waits for a request indefinitely, and for a client that does not read its answer. Here headers, bodies, answers
and idle connections have deadlines; a request that arrives at once pays only a comparison. uvicorn also keeps trailers
among the headers, where they would replace those that a proxy has checked: here they are dropped.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..limits import network
from ..refusals import RefusedError
from .gateway import Network
from .http_messages import is_trusted
from .problems import MEDIA_TYPE, document
from .prometheus import Meters
from .settings import Settings

_MIB: Final = 2**20
_COPIED: Final = 65_536
"""Bytes up to which copying costs less than another buffer, and another record of TLS, which wakes the client."""
_AT_ONCE: Final = 8 * _MIB
"""Size up to which a body has `body_seconds`; each further MiB adds a second."""
_PIPELINED: Final = 100
"""Maximum number of requests of a connection that wait for the answer to an earlier one."""


@dataclasses.dataclass
class Guard:
    """Shared state of all connections.

    Args:
        settings: the configuration.
        proxies: addresses without a limit of connections.
        meters: count refused connections.
    """

    settings: Settings
    proxies: Sequence[Network]
    meters: Meters
    connections: int = 0
    by_address: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def admits(self, address: str) -> bool:
        """Count a connection if one more is allowed."""
        http, where = self.settings.http, network(address)
        if http.max_connections and self.connections >= http.max_connections:
            return False
        most = http.connections_per_address
        if most and self.by_address[where] >= most and not is_trusted(address, self.proxies):
            return False
        self.connections += 1
        self.by_address[where] += 1
        return True

    def uncount(self, address: str) -> None:
        """Uncount a closed connection."""
        where = network(address)
        self.connections -= 1
        self.by_address[where] -= 1
        if not self.by_address[where]:
            del self.by_address[where]


class JoiningTransport:
    """A transport that holds a write until another one comes, or until the loop's next iteration.

    uvicorn writes head and body of an answer separately, each a system call that wakes the client.

    Args:
        transport: transport of a connection.
        loop: its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[Any] = []

    def write(self, data: Any) -> None:
        """Hold the data, or write it with what is held."""
        self._held.append(data)
        if len(self._held) > 1:
            self._flush()
        else:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.writelines(held if len(held[-1]) > _COPIED else [b"".join(held)])

    def close(self) -> None:
        """Write what is held, then close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class GuardedConfig(uvicorn.Config):
    """uvicorn's configuration, which gives its protocols the guard."""

    guard: Guard


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    config: GuardedConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counted = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._answer_deadline: asyncio.TimerHandle | None = None
        self._heads = self._head_bytes = 0
        """Heads that are complete; bytes of an incomplete one, or of chunks' extensions and trailers."""
        self._in_body = self._moved = False
        """Whether a body arrives; whether the last data completed a head, or had some of a body, or its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the connection, or wait for its first byte."""
        super().connection_made(JoiningTransport(transport, self.loop))  # type: ignore[arg-type] # a socket's
        guard, address = self.config.guard, self.client[0] if self.client else "local"
        if not guard.admits(address):
            guard.meters.count("refused_connections")
            self.transport.close()
            return
        self._counted = address
        self.transport.set_write_buffer_limits(high=1)  # see pause_writing
        idle = guard.settings.http.idle_seconds
        self.timeout_keep_alive_task = self.loop.call_later(idle, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_deadline()
        self._stop_answer_deadline()
        if self._counted:
            self.config.guard.uncount(self._counted)
            self._counted = ""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data; an incomplete request has a deadline."""
        if self.transport.is_closing():
            return
        heads, self._moved = self._heads, False
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_deadline()
        elif self._heads != heads:
            self._head_bytes = 0
            if self._in_body:
                self._start_deadline(self._body_seconds())
            else:
                self._stop_deadline()
        elif self._moved:
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
            self._within_header_limits()

    def _within_header_limits(self) -> None:
        http, limits = self.config.guard.settings.http, self.config.guard.settings.limits
        is_limited = limits.header_bytes and (limits.url_bytes or self._in_body)  # the URL is a part of the head
        if is_limited and self._head_bytes > limits.header_bytes + limits.url_bytes:
            self._refuse(RefusedError("body_too_large", f"the headers may have {limits.header_bytes} bytes"))
        elif self._deadline is None:
            self._start_deadline(http.header_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, but not a trailer."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise ValueError(f"HTTP/{version} is not served")
        if len(self.pipeline) >= _PIPELINED:
            raise ValueError(f"more than {_PIPELINED} requests wait for the answer to an earlier one")
        self._heads += 1
        self._in_body = self._moved = True
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: uvicorn advises to install what would change nothing, and anyone could fill the log with it."""

    def on_body(self, body: bytes) -> None:
        """Add to the body of a request."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body of a request."""
        self._in_body, self._moved = False, True
        self._stop_deadline()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not a request."""
        self._refuse(RefusedError("invalid_request", "this is not a valid HTTP/1.1 request"))

    def _refuse(self, problem: RefusedError) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # an answer is in progress
            return
        request_id = secrets.token_hex(8)
        body = document(problem, request_id)
        head = [
            STATUS_LINE[problem.status],
            f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nx-request-id: {request_id}\r\n".encode(),
            b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        ]
        self.transport.write(b"".join([*head, body]))
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait until the client has taken its answer, of which a part could not be sent; it has a deadline."""
        super().pause_writing()
        self._stop_answer_deadline()
        seconds = self._seconds_for(self.transport.get_write_buffer_size())
        self._answer_deadline = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has taken its answer."""
        self._stop_answer_deadline()
        super().resume_writing()

    def _stop_answer_deadline(self) -> None:
        if self._answer_deadline is not None:
            self._answer_deadline.cancel()
            self._answer_deadline = None

    def _body_seconds(self) -> float:
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        return self._seconds_for(int(length) if length.isdigit() else 0)

    def _seconds_for(self, size: int) -> float:
        """Seconds in which so many bytes must be transferred."""
        return self.config.guard.settings.http.body_seconds + max(0, size - _AT_ONCE) / _MIB

    def _start_deadline(self, seconds: float) -> None:
        self._stop_deadline()
        self._deadline = self.loop.call_later(seconds, self._too_late)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        """Close a connection whose request does not arrive, but not while it waits for an answer."""
        self._deadline = None
        if not self._in_body and self.cycle is not None and not self.cycle.response_complete:
            self._start_deadline(self.config.guard.settings.http.header_seconds)
            return
        self.transport.close()
