"""A real server on a free port: deadlines, limits of connections, what is no HTTP, the first line, signals."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from axonrl.serving import ServiceUnavailable
from axonrl.serving.accounts import Accounts, AgentRows, Database
from axonrl.serving.gateway.server import listening, serve
from axonrl.serving.gateway.settings import SettingsError, load
from axonrl.tests.experiments.sharing import free_port
from axonrl.tests.raising import raised

from .faked import ACT, SECONDS, Faked, answer, exchange, read
from .gateway_fakes import FakePool, fake_gateway
from .live import agent, running

SHORT = ("http.header_seconds=0.4", "http.body_seconds=0.6", "http.idle_seconds=0.8", "http.connections_per_address=0")
FEW = "http.connections_per_address=5"
METRICS = free_port()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faked]:
    with running(Faked(tmp_path_factory.mktemp("gateway"), *SHORT, f"metrics.port={METRICS}")) as server:
        yield server


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faked]:
    with running(Faked(tmp_path_factory.mktemp("gateway"), FEW)) as server:
        yield server


@pytest.mark.parametrize(("first", "byte"), [(b"GET /", b"x"), (b"", b"\r\n")])
def test_headers_have_a_deadline(server: Faked, first: bytes, byte: bytes) -> None:
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


def test_bodies_have_a_deadline(server: Faked) -> None:
    begun = time.monotonic()
    with server.connect() as connection:
        connection.sendall(server.request()[:-1])
        assert read(connection) == b""
        assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize("first", [b"", b"used"])
def test_idle_connections_are_closed(server: Faked, first: bytes) -> None:
    begun = time.monotonic()
    with server.connect() as connection:
        if first:
            connection.sendall(server.request())
            assert answer(connection)[0] == 200
        assert read(connection) == b""
        assert time.monotonic() - begun > 0.7


def sends(one: socket.socket) -> bool:
    """Send another byte; False if the server has closed the connection."""
    try:
        one.send(b"x")
        return one.recv(1000) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_500_connections_that_never_finish_are_closed_while_others_act(server: Faked) -> None:
    """Half of them send a byte of a header now and then, half of a body."""
    request = server.request(body=b"[" * 500)
    starts, begun = (request[:100], request[:-500]), time.monotonic()
    slow = [server.connect() for _ in range(500)]
    try:
        for number, one in enumerate(slow):
            one.sendall(starts[number % 2])
            one.setblocking(False)
        left = set(slow)
        while left:
            assert time.monotonic() < begun + SECONDS
            assert exchange(server, server.request()) == (200, {"action": [1]})
            left = {one for one in left if sends(one)}
        assert time.monotonic() - begun > 0.3  # they were let in
    finally:
        for one in slow:
            one.close()


def test_connections_of_an_address_are_limited(patient: Faked) -> None:
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
def test_what_is_no_request_is_refused(patient: Faked, sent: bytes) -> None:
    with patient.connect() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = read(connection)
    if got:
        assert got[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 405"), got
        problem = json.loads(got.split(b"\r\n\r\n", 1)[1])
        assert problem["code"] in ("invalid_request", "method_not_allowed")
        assert f"x-request-id: {problem['request_id']}".encode() in got


@pytest.mark.parametrize(("name", "status"), [(b"a%00b", 404), ("😀".encode(), 400), (b"x" * 10_000, 422)])
def test_a_name_that_is_none_is_refused_by_a_server(patient: Faked, name: bytes, status: int) -> None:
    head = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {patient.token}\r\nConnection: close\r\n".encode()
    targets = [b"GET /api/v1/agents/%s ", b"DELETE /api/v1/agents/%s ", b"GET /api/v1/agents/%s/state ", b"GET /%s "]
    for target in (*targets, b"POST /api/v1/agents/%s/act "):
        found, problem = exchange(patient, target % name + head + b"Content-Length: 0\r\n\r\n")
        assert (found, problem["status"]) == (status, status), target
    assert exchange(patient, b"GET /api/v1/agents?after=%s " % name + head + b"\r\n")[0] == (
        400 if status == 400 else 422
    )
    assert exchange(patient, patient.request()) == (200, {"action": [1]})


def test_what_comes_behind_a_body_is_no_request(patient: Faked) -> None:
    """Where ``Content-Length`` says less than what is sent."""
    with patient.connect() as connection:
        connection.sendall(patient.request() + b'{"step_data": 1}\r\n\r\n')
        found = [line.split()[1] for line in read(connection).splitlines() if line.startswith(b"HTTP/1.1 ")]
    assert found in ([b"200", b"400"], [b"400"], [])  # it may be closed without an answer


def test_headers_without_end_are_refused(patient: Faked) -> None:
    with patient.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        for _ in range(3):
            time.sleep(0.01)  # so that it comes in pieces
            connection.sendall(b"x" * 8000)
        assert read(connection)[:12] == b"HTTP/1.1 413"


def test_a_body_that_is_too_large_is_answered_before_it_is_read_and_to_who_has_sent_it(patient: Faked) -> None:
    step = f"POST {ACT.replace('act', 'step')}"
    assert exchange(patient, patient.request(step, b"x" * (2**23 + 1)))[1]["code"] == "body_too_large"
    with patient.connect() as connection:
        connection.sendall(patient.request(step, b"").replace(b"th: 0", b"th: 100000000"))
        assert answer(connection)[1]["code"] == "body_too_large"
        assert read(connection) == b""


def test_several_requests_of_one_connection_are_answered_in_turn(patient: Faked) -> None:
    with patient.connect() as connection:
        connection.sendall(patient.request(f"POST {ACT}?noise=1") + patient.request("GET /livez", b"") * 2)
        got = b""
        while got.count(b"HTTP/1.1 200") < 3 or not got.endswith(b"}"):
            got += connection.recv(65536)
        assert got.index(b"action") < got.index(b"alive")


def test_a_client_may_ask_before_it_sends_its_body(patient: Faked) -> None:
    with patient.connect() as connection:
        request = patient.request(more="Expect: 100-continue\r\n")
        connection.sendall(request[:-3])
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(request[-3:])
        assert answer(connection) == (200, {"action": [1]})


def test_a_second_signal_ends_it_at_once(patient: Faked) -> None:
    with patient.connect() as busy:
        busy.sendall(patient.request()[:-1])  # a request that does not end
        os.kill(patient.pid, signal.SIGTERM)
        while _is_listening(patient):  # until the first one has come
            pass
        assert patient.stop() == 143
    assert "workers stopped" not in patient.log.read_text()  # as at the end of all requests


def _is_listening(server: Faked) -> bool:
    try:
        server.connect().close()
    except OSError:
        return False
    return True


def test_what_was_used_since_it_was_last_stored_is_stored_at_the_end(tmp_path: Path) -> None:
    with running(Faked(tmp_path / "gateway")) as server:
        with server.connect() as connection:
            connection.sendall(server.request())
            assert answer(connection)[0] == 200
        assert server.stop() == 143
        with contextlib.closing(Database.open(server.data / "service.db")) as database:
            ((_, row),) = AgentRows(database).all()
            assert (row.last_active is None, row.bytes) == (False, 7)
            assert [one.last_used is None for one in Accounts(database).tokens("alice")] == [False]


def test_over_tls_a_client_knows_the_server_by_its_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain, key, known = (tmp_path / name for name in ("chain.pem", "key.pem", "authority.pem"))
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(key)
    for pem in made.cert_chain_pems:
        pem.write_to_path(chain, append=True)
    authority.cert_pem.write_to_path(known)
    key.chmod(0o600)
    facts: dict[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn"}
    with running(Faked(tmp_path / "data", f"listen.tls_cert={chain}", f"listen.tls_key={key}")) as server:
        assert server.scheme == "https"
        with agent(server, server.token, verify=known, **facts) as client:
            assert client.act([0.0] * 4) == 1
        with agent(server, server.token, retry_deadline=0.0, **facts) as stranger:
            assert "certificate" in str(raised(ServiceUnavailable, stranger.act, [0.0] * 4))
        context = ssl.create_default_context(cafile=known)
        with context.wrap_socket(server.connect(), server_hostname="127.0.0.1") as secure:
            secure.sendall(server.request("GET /livez", b""))
            head, _, body = secure.recv(65536).partition(b"\r\n\r\n")
        assert (b"strict-transport-security: max-age=" in head.lower(), body) == (True, b'{"status":"alive"}')
        with server.connect() as plain:
            plain.sendall(server.request("GET /livez", b""))
            assert not read(plain).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("key", ["listen.port", "metrics.port"])
def test_a_port_in_use_says_so(tmp_path: Path, key: str) -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        settings = load(None, {"listen.port": "0", key: str(port)})
        gateway, database, _ = fake_gateway(tmp_path, settings, FakePool())
        error = raised(SettingsError, serve, gateway)
        database.close()
    assert error.key == key
    assert f"port {port}: Address already in use; choose another {key}" in str(error)


def test_a_host_that_is_no_name_is_refused() -> None:
    refused = raised(SettingsError, listening, "agents..example.org", 0)
    assert (str(refused), refused.key) == (
        "cannot listen at agents..example.org: a part of the name is empty or too long",
        "listen.host",
    )


def test_metrics_have_a_port_of_their_own(server: Faked) -> None:
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


def test_at_sigterm_requests_under_way_are_answered(server: Faked) -> None:
    """The last test: it ends the server of the others."""
    with server.connect() as busy, server.connect() as idle:
        for _ in range(12):
            idle.sendall(b"GET /api/v1/agents HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer(idle)[0] == 401
        idle.sendall(server.request())
        assert answer(idle)[0] == 200
        busy.sendall(server.request(f"POST {ACT}?noise=1") + b"\r\n")  # as old clients end a body; and it takes long
        idle.sendall(server.request())  # answered after the other has arrived
        assert answer(idle)[0] == 200
        os.kill(server.pid, signal.SIGTERM)
        assert answer(busy) == (200, {"action": [1]})
        assert read(idle) == b""
    assert (server.ended(), server.log.read_text().splitlines()[-1]) == (143, "workers stopped")
    lines = [json.loads(line) for line in (server.data / "audit.jsonl").read_text().splitlines()]
    assert [line["outcome"] for line in lines if line["what"] == "request"] == ["missing_token"] * 10
    assert [line["detail"] for line in lines if line["what"] == "requests"] == [{"refused": 2, "addresses": 1}]
    raised(OSError, server.connect, match="refused")
