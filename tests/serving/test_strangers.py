"""Clients that should not be trusted, and servers that should not be: TLS, and connections that say nothing."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from axonrl.serving import ServiceUnavailable
from axonrl.serving.catalogue import Recipe

from .live import Server, agent, prepared, running, served
from .service import SMALL

Built = Callable[..., Recipe]
pytestmark = pytest.mark.server


def test_over_tls_a_client_knows_the_server_by_its_authority(tmp_path: Path, programs: Path, built: Built) -> None:
    recipe = built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    token = prepared(tmp_path / "data", programs, recipe)
    authority = trustme.CA()
    chain, key, known = (tmp_path / name for name in ("chain.pem", "key.pem", "authority.pem"))
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(key)
    for pem in made.cert_chain_pems:
        pem.write_to_path(chain, append=True)
    authority.cert_pem.write_to_path(known)
    key.chmod(0o600)
    options = ("--set", f"listen.tls_cert={chain}", "--set", f"listen.tls_key={key}")
    with served(tmp_path / "data", *options) as server:
        assert server.scheme == "https"
        with agent(server, token, verify=known, **SMALL) as client:
            client.create_agent(4, 2, "dqn")
            assert client.act([0.0] * 4) in (0, 1)
        stranger = agent(server, token, retry_deadline=0.0)
        with stranger, pytest.raises(ServiceUnavailable, match="certificate"):
            stranger.act([0.0] * 4)
        context = ssl.create_default_context(cafile=known)
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        assert answer.read() == b'{"status":"alive"}'
        assert (answer.getheader("Strict-Transport-Security") or "").startswith("max-age=")
        connection.close()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain:
            plain.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert not plain.recv(1000).startswith(b"HTTP/1.1 200")


def test_500_connections_that_never_finish_are_closed_while_others_act(
    tmp_path: Path, programs: Path, built: Built
) -> None:
    """Half of them send a byte of a header now and then, half of a body."""
    recipe = built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    token = prepared(tmp_path / "data", programs, recipe)
    head = f"POST /api/v1/agents/cart/act HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n".encode()
    starts = (head + b"X-Slow: ", head + b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n")
    options = ("--set", "http.header_seconds=2", "--set", "http.body_seconds=2")
    with running(Server(tmp_path / "data", *options)) as server, agent(server, token, **SMALL) as client:
        client.create_agent(4, 2, "dqn")
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(500)]
        try:
            began = time.monotonic()
            for number, one in enumerate(slow):
                one.sendall(starts[number % 2])
                one.setblocking(False)
            left = set(slow)
            assert client.act([0.0] * 4) in (0, 1)
            while left and time.monotonic() < began + 120:
                left = {one for one in left if sends(one)}
                assert client.act([0.0] * 4) in (0, 1)
                time.sleep(0.1)
            assert not left
            assert time.monotonic() - began > 1.9  # they were let in
        finally:
            for one in slow:
                one.close()


def sends(one: socket.socket) -> bool:
    """Send another byte; False if the server has closed the connection."""
    try:
        one.send(b"x")
        return one.recv(1000) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
