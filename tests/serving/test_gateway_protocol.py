"""A real server on a free port: deadlines, limits of connections, what is no HTTP, the first line, signals."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving.gateway.reading import SettingsError
from axonrl.serving.gateway.server import listening

from .gateway_fakes import IN_MEMORY

ROOT = Path(__file__).parent.parent.parent
ACT = "/api/v1/agents/cart/act"
SECONDS = 60.0
"""At most, for what takes less than one on an idle machine."""
SHORT = ("http.header_seconds=0.4", "http.body_seconds=0.6", "http.idle_seconds=0.8")
FEW = "http.connections_per_address=5"


def free_port() -> int:
    with listening("127.0.0.1", 0) as bound:
        return int(bound.getsockname()[1])


METRICS = free_port()


class Server:
    """A process that serves."""

    def __init__(self, *sets: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="axonrl-gateway-", dir=IN_MEMORY)
        self.folder = Path(self._folder.name)
        paths = os.pathsep.join([str(ROOT / ".build"), str(ROOT)])
        command = [sys.executable, "-m", "tests.serving.gateway_program", self._folder.name, *sets]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, **pipes)
        self.token = self.line = ""
        self.port = 0

    def ready(self) -> Server:
        """Wait for its first line."""
        if self.line:
            return self
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.token = self.process.stderr.readline().strip()
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[-1])
        return self

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS, source_address=(address, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def request(self, target: str = f"POST {ACT}", body: bytes = b"[0]", more: str = "") -> bytes:
        """A whole request, as bytes."""
        head = f"{target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}{more}\r\n".encode() + body

    def ended(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._folder.cleanup()


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    """Two, started at once: starting one takes a second."""
    servers = [Server(*SHORT, f"metrics.port={METRICS}"), Server(FEW)]
    try:
        yield servers
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def server(servers: list[Server]) -> Server:
    return servers[0].ready()


@pytest.fixture(scope="module")
def patient(servers: list[Server]) -> Server:
    """With the usual deadlines."""
    return servers[1].ready()


def read(connection: socket.socket) -> bytes:
    """All until the server closes; a reset is an end as well."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answer(connection: socket.socket) -> tuple[int, Any]:
    """One answer."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = response.read()
    return response.status, json.loads(body)


def test_the_first_line_says_where_when_it_is_ready(server: Server) -> None:
    assert server.line == f"axonrl serving at http://127.0.0.1:{server.port}\n"
    with server.connect() as connection:
        connection.sendall(server.request("GET /readyz", b""))
        assert answer(connection) == (200, {"status": "ready", "checks": {"server": "ok", "database": "ok"}})
        connection.sendall(server.request())
        assert answer(connection) == (200, {"action": [1]})


@pytest.mark.parametrize(("first", "byte"), [(b"GET /", b"x"), (b"", b"\r\n")])
def test_headers_have_a_deadline(server: Server, first: bytes, byte: bytes) -> None:
    """It comes while bytes go on coming, and not with the first of them."""
    begun = time.monotonic()
    with server.connect() as connection:
        connection.sendall(first)
        connection.settimeout(0.05)
        closed = False
        while not closed:
            assert time.monotonic() - begun < SECONDS
            try:
                connection.sendall(byte)
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
        assert time.monotonic() - begun > 0.3


def test_bodies_have_a_deadline(server: Server) -> None:
    begun = time.monotonic()
    with server.connect() as connection:
        connection.sendall(server.request()[:-1])
        assert read(connection) == b""
        assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize("first", [b"", b"used"])
def test_idle_connections_are_closed(server: Server, first: bytes) -> None:
    begun = time.monotonic()
    with server.connect() as connection:
        if first:
            connection.sendall(server.request())
            assert answer(connection)[0] == 200
        assert read(connection) == b""
        assert time.monotonic() - begun > 0.7


def test_a_slow_answer_is_no_slow_request(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.request(f"POST {ACT}?noise=1") + b"\r\n")  # as old clients end a body
        assert answer(connection)[0] == 200


def test_connections_of_an_address_are_limited(patient: Server) -> None:
    held = [patient.connect("127.0.0.3") for _ in range(5)]
    for connection in held:
        connection.sendall(patient.request("GET /livez", b""))
        assert answer(connection)[0] == 200
    with patient.connect("127.0.0.3") as refused:
        with contextlib.suppress(OSError):
            refused.sendall(patient.request())
        assert read(refused) == b""
    with patient.connect("127.0.0.4") as other:
        other.sendall(patient.request())
        assert answer(other)[0] == 200
    for connection in held:
        connection.close()
    for _ in range(100):
        with patient.connect("127.0.0.3") as again:
            again.sendall(patient.request())
            if again.recv(12) == b"HTTP/1.1 200":
                return
    raise AssertionError("connections that were closed still count")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
        b"CONNECT example.org:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_is_refused(patient: Server, sent: bytes) -> None:
    with patient.connect() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = read(connection)
    if got:
        assert got[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 405"), got
        problem = json.loads(got.split(b"\r\n\r\n", 1)[1])
        assert problem["code"] in ("invalid_request", "method_not_allowed")
        assert f"x-request-id: {problem['request_id']}".encode() in got


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (b"a%00b", 404),
        ("😀".encode(), 400),
        (b"x" * 10_000, 422),
    ],
)
def test_a_name_that_is_none_is_refused_by_a_server(patient: Server, name: bytes, status: int) -> None:
    head = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {patient.token}\r\nConnection: close\r\n".encode()
    targets = [b"GET /api/v1/agents/%s ", b"DELETE /api/v1/agents/%s ", b"GET /api/v1/agents/%s/state ", b"GET /%s "]
    for target in (*targets, b"POST /api/v1/agents/%s/act "):
        with patient.connect() as connection:
            connection.sendall(target % name + head + b"Content-Length: 0\r\n\r\n")
            found, problem = answer(connection)
        assert (found, problem["status"]) == (status, status), target
    with patient.connect() as connection:
        connection.sendall(b"GET /api/v1/agents?after=%s " % name + head + b"\r\n")
        assert answer(connection)[0] == (400 if status == 400 else 422)
    with patient.connect() as connection:
        connection.sendall(patient.request())
        assert answer(connection) == (200, {"action": [1]})


def test_what_comes_behind_a_body_is_no_request(patient: Server) -> None:
    """Where ``Content-Length`` says less than what is sent."""
    with patient.connect() as connection:
        connection.sendall(patient.request() + b'{"step_data": 1}\r\n\r\n')
        found = [line.split()[1] for line in read(connection).splitlines() if line.startswith(b"HTTP/1.1 ")]
    assert found in ([b"200", b"400"], [b"400"], [])  # it may be closed without an answer


def test_headers_without_end_are_refused(patient: Server) -> None:
    with patient.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        for _ in range(3):
            time.sleep(0.01)  # so that it comes in pieces
            connection.sendall(b"x" * 8000)
        assert read(connection)[:12] == b"HTTP/1.1 413"


def test_a_body_that_is_too_large_is_answered_before_it_is_read(patient: Server) -> None:
    with patient.connect() as connection:
        head = patient.request(f"POST {ACT.replace('act', 'step')}", b"").replace(b"th: 0", b"th: 100000000")
        connection.sendall(head)
        assert answer(connection)[1]["code"] == "body_too_large"
        assert read(connection) == b""


def test_a_client_that_sends_too_much_at_once_reads_the_answer(patient: Server) -> None:
    with patient.connect() as connection:
        connection.sendall(patient.request(f"POST {ACT.replace('act', 'step')}", b"x" * (2**20 + 1)))
        assert answer(connection)[1]["code"] == "body_too_large"


def test_a_chunked_body_without_end_is_refused(patient: Server) -> None:
    with patient.connect() as connection:
        head = patient.request(f"POST {ACT.replace('act', 'step')}", b"")
        connection.sendall(head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(400):
                connection.sendall(chunk)
        except OSError:
            pass
        assert b"body_too_large" in read(connection)


def test_several_requests_of_one_connection_are_answered_in_turn(patient: Server) -> None:
    with patient.connect() as connection:
        connection.sendall(patient.request(f"POST {ACT}?noise=1") + patient.request("GET /livez", b"") * 2)
        got = b""
        while got.count(b"HTTP/1.1 200") < 3 or not got.endswith(b"}"):
            got += connection.recv(65536)
        assert got.index(b"action") < got.index(b"alive")


def test_a_client_may_ask_before_it_sends_its_body(patient: Server) -> None:
    with patient.connect() as connection:
        request = patient.request(more="Expect: 100-continue\r\n")
        connection.sendall(request[:-3])
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(request[-3:])
        assert answer(connection) == (200, {"action": [1]})


def test_a_second_signal_ends_it_at_once(patient: Server) -> None:
    server = patient
    with server.connect() as busy:
        busy.sendall(server.request()[:-1])  # a request that does not end
        server.process.send_signal(signal.SIGTERM)
        while _is_listening(server):  # until the first one has come
            pass
        server.process.send_signal(signal.SIGTERM)
        code, errors = server.ended()
        assert code == 143
        assert "workers stopped" not in errors  # as at the end of all requests


def _is_listening(server: Server) -> bool:
    try:
        server.connect().close()
    except OSError:
        return False
    return True


def test_a_port_in_use_says_so() -> None:
    with listening("127.0.0.1", 0) as first, pytest.raises(SettingsError) as refused:
        listening("127.0.0.1", first.getsockname()[1])
    assert refused.value.key == "listen.port"


def test_metrics_have_a_port_of_their_own(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", METRICS)
    connection.request("GET", "/metrics")
    found = connection.getresponse()
    assert (found.status, found.getheader("Content-Type", "").partition(";")[0]) == (200, "text/plain")
    assert b"axonrl_requests_total" in found.read()
    connection.request("GET", "/livez")
    refused = connection.getresponse()
    problem = json.loads(refused.read())
    assert (refused.status, problem["code"], problem["request_id"]) == (404, "not_found", refused.msg["X-Request-Id"])
    assert len({found.msg["X-Request-Id"], refused.msg["X-Request-Id"], None}) == 3
    for one in (found, refused):
        assert (one.getheader("Cache-Control"), one.getheader("Server")) == ("no-store", None)
    connection.close()
    with socket.create_connection(("127.0.0.1", METRICS), timeout=SECONDS) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        head, body = read(raw).split(b"\r\n\r\n", 1)
    assert head[:12] == b"HTTP/1.1 400"
    assert f"x-request-id: {json.loads(body)['request_id']}".encode() in head


def test_at_sigterm_requests_under_way_are_answered(server: Server) -> None:
    """The last test: it ends the server of the others."""
    with server.connect() as busy, server.connect() as idle:
        for _ in range(12):
            idle.sendall(b"GET /api/v1/agents HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer(idle)[0] == 401
        idle.sendall(server.request())
        assert answer(idle)[0] == 200
        busy.sendall(server.request(f"POST {ACT}?noise=1"))
        idle.sendall(server.request())  # answered after the other has arrived
        assert answer(idle)[0] == 200
        server.process.send_signal(signal.SIGTERM)
        assert answer(busy) == (200, {"action": [1]})
        assert read(idle) == b""
    code, errors = server.ended()
    assert (code, errors.splitlines()[-1]) == (143, "workers stopped")
    lines = [json.loads(line) for line in (server.folder / "audit.jsonl").read_text().splitlines()]
    assert [line["outcome"] for line in lines if line["what"] == "request"] == ["missing_token"] * 10
    assert [line["detail"] for line in lines if line["what"] == "requests"] == [{"refused": 2, "addresses": 1}]
    with pytest.raises(OSError, match="refused"):
        server.connect()
