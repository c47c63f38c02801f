"""An HTTP server that misbehaves on command; the runs that are tracked there must not suffer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

from axonrl.tests.polyaxon_fake import FakePolyaxon

REFUSES, HANGS, GARBAGE, BREAKS_OFF, SLOW = "refuses", "hangs", "garbage", "breaks off", "slow"
PASSES_ON = "passes on"
"""What it can do besides answering every request with one status: refuse connections; read and never answer; answer
something that is not HTTP; half of the bytes that it announced; one byte per second; what the fake Polyaxon behind it
answers."""


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class MisbehavingServer:
    """Listens on a free port while it is open. Its behaviour is one of this module's names, or an HTTP status."""

    def __init__(self, behaviour: str | int = PASSES_ON) -> None:
        self.behind: Any = FakePolyaxon()
        self.requests: list[Request] = []
        self.cuts: Callable[[Request], bool] = lambda request: False
        """Which requests are passed on without an answer: the client cannot know that they arrived."""
        self._behaviour = behaviour
        self._changed = threading.Event()
        self._address = ("127.0.0.1", 0)
        self._server: ThreadingHTTPServer | None = None

    @property
    def host(self) -> str:
        """What ``POLYAXON_HOST`` is set to."""
        return f"http://127.0.0.1:{self._address[1]}"

    @property
    def behaviour(self) -> str | int:
        """What it does now; to be assigned. Requests without an answer are dropped by that."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: str | int) -> None:
        self._behaviour = behaviour
        self._changed.set()
        self._changed = threading.Event()
        if behaviour == REFUSES:
            self._stop()
        else:
            self._start()

    def __enter__(self) -> MisbehavingServer:
        self._start()  # also where it refuses: then the port is known to be free
        self.behaviour = self._behaviour
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.behaviour = REFUSES

    def _start(self) -> None:
        if self._server is None:
            self._server = _Server(self._address, self._handler())
            self._address = ("127.0.0.1", self._server.server_port)
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.close_connection = True  # one request for each connection, so that a change counts at once
                self.raw_requestline = self.rfile.readline()
                if self.raw_requestline and self.parse_request():
                    body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                    server._answer(self, Request(self.command, self.path, dict(self.headers), body))

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        changed, behaviour = self._changed, self._behaviour
        self.requests.append(request)
        out = handler.wfile
        if behaviour == HANGS:
            changed.wait()
        elif behaviour == GARBAGE:
            out.write(b"\x00\xff 220 smtp.example.com ESMTP\r\n\r\n")
        elif behaviour == BREAKS_OFF:
            out.write(_head(200, 1000) + b'{"uuid": "a')
        elif behaviour == SLOW:
            for byte in _head(200, 1000) + b" " * 1000:
                out.write(bytes([byte]))
                if changed.wait(1.0):
                    return
        elif behaviour == PASSES_ON:
            answer = self.behind.answer(*request)
            if not self.cuts(request):
                out.write(answer)
        else:
            out.write(_head(int(behaviour), 2) + b"{}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_close(self) -> None:
        """Also where a process that is just being started has the socket, too: it would go on listening until then."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has gone, say: that is no concern of the tests."""


def _head(status: int, length: int) -> bytes:
    line = f"HTTP/1.0 {status} {http.client.responses[status]}\r\n"
    return f"{line}Content-Length: {length}\r\nContent-Type: application/json\r\n\r\n".encode()
