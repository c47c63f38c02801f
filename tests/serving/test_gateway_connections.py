"""What clients may do to a real server over their connections: nothing grows without a limit, nothing waits forever."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from uvicorn.server import ServerState

from axonrl.serving.gateway.prometheus import Meters
from axonrl.serving.gateway.protocol import Guard, GuardedConfig, GuardedProtocol
from axonrl.serving.gateway.settings import load

from .faked import SECONDS, Faked, exchange, read
from .live import running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faked]:
    sets = ("http.body_seconds=0.4", "http.connections_per_address=1")
    with running(Faked(tmp_path_factory.mktemp("gateway"), *sets)) as server:
        yield server


def chunked(server: Faked, end: bytes, *, token: bool = True) -> bytes:
    head, _, _ = server.request(body=b"").partition(b"\r\n\r\n")
    lines = [one for one in head.split(b"\r\n") if token or not one.startswith(b"Authorization")]
    lines[-1] = b"Transfer-Encoding: chunked"
    return b"\r\n".join(lines) + b"\r\n\r\n3\r\n[0]\r\n" + end


def test_trailers_are_no_headers(server: Faked) -> None:
    """A proxy that sets a header does not look into trailers."""
    sent = chunked(server, b"0\r\nAuthorization: Bearer %s\r\n\r\n" % server.token.encode(), token=False)
    status, problem = exchange(server, sent)
    assert (status, problem["code"]) == (401, "missing_token")
    assert exchange(server, chunked(server, b"0\r\nX: y\r\n\r\n")) == (200, {"action": [1]})


class Wire(asyncio.Transport):
    """The end of a connection, without one."""

    closed = False

    def write(self, data: object) -> None:
        pass

    def writelines(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass


@pytest.mark.parametrize(("url_bytes", "closed"), [("0", False), ("4096", True)])
def test_a_url_without_a_limit_may_come_in_pieces(url_bytes: str, closed: bool) -> None:
    async def connected() -> None:
        config = GuardedConfig(lambda *_: None)
        config.guard = Guard(load(None, {"limits.url_bytes": url_bytes}), [], Meters())
        protocol, wire = GuardedProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(b"GET /livez?" + b"x" * 20_480)  # 11 more than 16,384 of headers and 4,096 of a URL
        assert wire.closed is closed
        protocol.connection_lost(None)

    asyncio.run(connected())


@pytest.mark.parametrize("piece", [b"0\r\nX: " + b"x" * 7995, b"0\r\n" + b"X: y\r\n" * 1333, b"1;" + b"x" * 7998])
def test_what_a_chunked_body_has_beside_its_bytes_is_limited_like_headers(piece: bytes) -> None:
    """To 16,384 bytes of headers and 4,096 of a path."""

    async def connected() -> None:
        async def app(scope: object, receive: Callable[[], Awaitable[object]], send: object) -> None:
            await asyncio.Event().wait()

        config = GuardedConfig(app)
        config.guard = Guard(load(), [], Meters())
        protocol, wire = GuardedProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[0]\r\n"
        closed = []
        for data in (head, piece, piece[3:], piece[3:]):
            protocol.data_received(data)
            closed.append(wire.closed)
        assert closed == [False, False, False, True]
        assert protocol.headers == [(b"transfer-encoding", b"chunked")]
        for task in protocol.tasks:
            task.cancel()
        protocol.connection_lost(None)

    asyncio.run(connected())


def test_requests_that_wait_for_an_earlier_answer_are_limited(server: Faked) -> None:
    slow, fast = server.request("POST /api/v1/agents/cart/act?noise=1"), b"GET /livez HTTP/1.1\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(slow + fast * 100)
        got = b""
        while got.count(b"HTTP/1.1 200") < 101 or not got.endswith(b"}"):
            got += connection.recv(65536)
        connection.sendall(slow + fast * 101)
        assert read(connection) == b""


@pytest.mark.parametrize("length", ["Content-Length: 1000000000000000000", "Transfer-Encoding: chunked"])
def test_after_an_answer_a_large_body_that_nobody_has_read_is_not_waited_for(server: Faked, length: str) -> None:
    begun = time.monotonic()
    with server.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n%s\r\n\r\n" % length.encode())
        got = read(connection)
    assert time.monotonic() - begun < SECONDS
    assert got.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in got


def test_an_upgrade_is_not_followed_and_a_body_behind_it_is_refused(server: Faked) -> None:
    """Clients of HTTP/2 ask for it: without a body they are answered."""
    more = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
    assert exchange(server, server.request("GET /livez", b"", more)) == (200, {"status": "alive"})
    status, problem = exchange(server, server.request(more=more))
    assert (status, problem["code"]) == (400, "invalid_request")
    assert "Upgrade" in problem["detail"]
    assert "upgrade" not in server.log.read_text()


def test_an_answer_that_is_not_taken_is_given_up(server: Faked) -> None:
    """An address may have one connection: another is let in once the first one is given up."""
    with socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect(("127.0.0.1", server.port))
        stalled.sendall(server.request("GET /api/v1/agents/cart/episodes", b""))
        begun, got = time.monotonic(), b""
        while not got and time.monotonic() < begun + SECONDS:
            with server.connect() as other:
                try:
                    other.sendall(server.request("GET /livez", b""))
                    got = other.recv(12)
                except ConnectionError:
                    continue
        assert got == b"HTTP/1.1 200"
        assert len(read(stalled)) < 2**23


def test_an_address_of_ipv6_is_its_customer_s_network() -> None:
    guard = Guard(load(None, {"http.connections_per_address": "2"}), [], Meters())
    assert [guard.admits(f"2001:db8::{k}") for k in range(3)] == [True, True, False]
    assert guard.admits("2001:db8:0:1::1")
    guard.uncount("2001:db8::1")
    assert [guard.admits("2001:db8::7"), guard.admits("2001:db8::7")] == [True, False]
