"""Costs of an ``act`` in the client, beside ``http.client``: ``python -m axonrl.benchmarks.serving --only client``.

A process answers each request with a constant over connections that stay open. The same bytes are sent by http.client
and by ``RemoteAgent.act``, in turn, several times over; the least of the medians counts, since other work on a machine
only ever adds to them.
"""

from __future__ import annotations

import http.client
import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from axonrl.serving import RemoteAgent

TOKEN = "axp_0123456789012345678901234567890123456789abcdef"
STATE = [0.1, 0.2, 0.3, 0.4]
BODY = b'{"action":[1]}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: 0123456789abcdef\r\n"
    b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


def answer_all(ports: Any) -> None:
    """Answer the requests of all connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports.put(server.getsockname()[1])
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    """Answer each request until the connection ends."""
    received = b""
    while data := connection.recv(65536):
        received += data
        head, end, body = received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            connection.sendall(ANSWER)
            received = b""


def median(call: Callable[[], object], calls: int) -> float:
    """Microseconds of a call."""
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def measure_calls(calls: int, repeats: int) -> dict[str, float]:
    """Microseconds of a call, by name: the least of the medians of several repeats."""
    ports: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    server = multiprocessing.Process(target=answer_all, args=(ports,))
    server.start()
    try:
        port = ports.get()
        plain = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"Accept": "application/json", "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = b'{"observation":[0.1,0.2,0.3,0.4],"environment":"e0123456789ab"}'

        def by_http_client() -> bytes:
            plain.request("POST", "/api/v1/agents/a/act?noise=0", body, headers)
            return plain.getresponse().read()

        known: dict[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn"}
        with RemoteAgent("a", url=f"http://127.0.0.1:{port}", access_token=TOKEN, **known) as agent:
            timed: dict[str, Callable[[], object]] = {
                "http.client": by_http_client,
                "RemoteAgent.act": lambda: agent.act(STATE),
            }
            found: dict[str, list[float]] = {name: [] for name in timed}
            for _ in range(repeats):
                for name, call in timed.items():
                    found[name].append(median(call, calls))
        plain.close()
    finally:
        server.terminate()
        server.join()
    return {name: min(medians) for name, medians in found.items()}
