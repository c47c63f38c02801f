"""The load generator, a process of its own: ``python -m axonrl.benchmarks.service.load '{"port": ..., ...}'``.

Each connection sends a request, waits for its answer, and sends the next. Requests are made before the clock runs. It
prints JSON: requests per second, the median and the 99th percentile of the latency in milliseconds, how many there
were, and the first answer with another status than 200.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import math
import random
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import uvloop

SIZE = 4
BODIES = 64
WARM_UP = 0.25
"""Share of the seconds, before those that count."""


@dataclasses.dataclass(frozen=True)
class Load:
    """Requests to send.

    Args:
        port: of the server, on this machine.
        token: of an account.
        agent: its name.
        kind: act, act_batch, step or step_batch.
        connections: at once.
        seconds: of the measurement.
        batch: observations or steps of a request.
        requests: stop after so many, however long it takes; 0: after ``seconds``.
    """

    port: int
    token: str
    agent: str
    kind: str
    connections: int = 1
    seconds: float = 2.0
    batch: int = 1
    requests: int = 0

    def heads(self) -> tuple[str, str]:
        """The path, and the name of the call."""
        call = {"act": "act", "act_batch": "act", "step": "step", "step_batch": "steps"}[self.kind]
        query = "?noise=0" if call == "act" else ""
        return f"/api/v1/agents/{self.agent}/{call}{query}", call

    def contents(self, environment: str) -> Iterator[bytes]:
        """Bodies, as the client sends them; again and again."""
        dice = random.Random(environment)
        return itertools.cycle([self.content(environment, dice) for _ in range(BODIES if self.batch == 1 else 4)])

    def content(self, environment: str, dice: random.Random) -> bytes:
        """One body."""
        steps = [step(environment, dice) for _ in range(self.batch)]
        states = [one["state"] for one in steps]
        value: Any = {
            "act": {"observation": states[0], "environment": environment},
            "act_batch": {"observations": states, "environments": [environment] * self.batch},
            "step": {"step_data": steps[0]},
            "step_batch": {"steps": steps},
        }[self.kind]
        return json.dumps(value, separators=(",", ":")).encode()

    def stream(self, connection: int) -> Iterator[bytes]:
        """The requests of a connection, each with an ``Idempotency-Key`` where the client sends one."""
        path, call = self.heads()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
        ).encode()
        run = f"{random.getrandbits(64):016x}"
        for number, body in enumerate(self.contents(f"e{connection}-{run}")):
            key = b"" if call == "act" else b"Idempotency-Key: %s-%d-%d\r\n" % (run.encode(), connection, number)
            yield b"%s%sContent-Length: %d\r\n\r\n%s" % (head, key, len(body), body)


def step(environment: str, dice: random.Random) -> dict[str, Any]:
    """A transition of CartPole's sizes."""
    state, following = ([round(dice.uniform(-1, 1), 6) for _ in range(SIZE)] for _ in range(2))
    done = dice.random() < 0.02
    found = {"state": state, "action": [dice.randrange(2)], "reward": 1.0, "next_state": following, "done": done}
    return {**found, "environment": environment}


class Taken:
    """Latencies of the answers that came while the clock ran."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.begins = time.perf_counter() + (0.0 if load.requests else load.seconds * WARM_UP)
        self.ends = math.inf if load.requests else self.begins + load.seconds
        self.latencies: list[float] = []
        self.sent = 0
        self.wrong = ""
        """The first answer with another status than 200."""
        self.last = self.begins

    def goes_on(self, now: float) -> bool:
        """Shall another request be sent?"""
        self.sent += 1
        return self.sent <= self.load.requests if self.load.requests else now < self.ends or not self.latencies

    def add(self, sent: float, now: float, answer: bytes) -> None:
        """An answer."""
        if sent >= self.begins:
            self.latencies.append(now - sent)
            self.last = now
        if answer[9:12] != b"200":
            self.wrong = self.wrong or answer.decode(errors="replace")

    def results(self) -> dict[str, Any]:
        """Results to print."""
        ordered = sorted(self.latencies)
        rate = len(ordered) / max(self.last - self.begins, 1e-9)
        quantiles = {f"p{q}": 1000 * ordered[min(len(ordered) * q // 100, len(ordered) - 1)] for q in (50, 99)}
        return {"rate": rate, **quantiles, "wrong": self.wrong, "count": len(ordered)}


def run_one_connection(load: Load) -> Taken:
    """One connection, without an event loop: what a client in a loop of its own sees."""
    taken, requests = Taken(load), load.stream(0)
    with socket.create_connection(("127.0.0.1", load.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while taken.goes_on(time.perf_counter()):
            request = next(requests)
            sent = time.perf_counter()
            connection.sendall(request)
            answer = b""
            while not is_complete(answer):
                received = connection.recv(1 << 20)
                if not received:
                    raise ConnectionError("the server has closed the connection")
                answer += received
            taken.add(sent, time.perf_counter(), answer)
    return taken


def is_complete(answer: bytes) -> bool:
    """Is this a complete answer?"""
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


class Connection(asyncio.Protocol):
    """One of several connections."""

    def __init__(self, taken: Taken, requests: Iterator[bytes], ended: asyncio.Future[None]) -> None:
        self._taken, self._requests, self._ended = taken, requests, ended
        self._held = b""
        self._sent = 0.0

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport
        self._next(time.perf_counter())

    def data_received(self, data: bytes) -> None:
        """An answer, or a part of it."""
        self._held += data
        if is_complete(self._held):
            now = time.perf_counter()
            self._taken.add(self._sent, now, self._held)
            self._held = b""
            self._next(now)

    def connection_lost(self, error: Exception | None) -> None:
        """The end, which must not come before ours."""
        if not self._ended.done():
            self._ended.set_exception(ConnectionError("the server has closed a connection"))

    def _next(self, now: float) -> None:
        if self._taken.goes_on(now):
            request = next(self._requests)
            self._sent = time.perf_counter()
            self._transport.write(request)
        else:
            self._ended.set_result(None)
            self._transport.close()


async def run_connections(load: Load) -> Taken:
    """Several connections."""
    loop = asyncio.get_running_loop()
    streams = [load.stream(k) for k in range(load.connections)]
    taken = Taken(load)
    ended: list[asyncio.Future[None]] = [loop.create_future() for _ in streams]
    for future, requests in zip(ended, streams, strict=True):
        protocol = Connection(taken, requests, future)
        await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", load.port)  # type: ignore[misc]
    await asyncio.gather(*ended)
    return taken


def main(arguments: Sequence[str] | None = None) -> None:
    (text,) = sys.argv[1:] if arguments is None else arguments
    load = Load(**json.loads(text))
    taken = run_one_connection(load) if load.connections == 1 else uvloop.run(run_connections(load))
    print(json.dumps(taken.results()), flush=True)


if __name__ == "__main__":
    main()
