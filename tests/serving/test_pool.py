"""The gateway's side of the workers: how many requests may wait, and what is given up. The worker is in a thread."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import catalogue
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.workers import pool as pools
from axonrl.serving.workers.child import Child
from axonrl.serving.workers.pool import Pool
from axonrl.serving.workers.settings import WorkerSettings

from .asked import ACT, STEP, working
from .gateway_fakes import AGENTS, Service
from .hosted import DQN

CONFIG = {**DQN, "seed": 0}


@pytest.fixture
def pool(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool of one worker, which runs in a thread rather than in a process of its own."""
    with working(tmp_path, programs) as asked:

        async def start(name: str, module: str, arguments: Iterable[str], number: int | None = None) -> Child:
            child = Child(name, number)
            asked.connection.setblocking(False)
            await asyncio.get_running_loop().create_connection(lambda: child, sock=asked.connection)
            return child

        monkeypatch.setattr(pools, "start", start)
        yield Pool(tmp_path, 1, WorkerSettings(str(tmp_path)), 60.0, 3600.0, 1 << 30)


class Held:
    """Calls of a method of hosted agents, which wait until they may go on; the bodies that they were given."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.begun, self.go, self.bodies = threading.Event(), threading.Event(), list[bytes]()
        method = getattr(HostedAgent, name)

        def held(agent: HostedAgent, *what: Any) -> Any:
            self.bodies += what[:1]
            self.begun.set()
            assert self.go.wait(60)
            return method(agent, *what)

        patch.setattr(HostedAgent, name, held)


def test_more_than_1000_requests_do_not_wait_for_one_agent(
    pool: Pool, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, "act")

    async def asking() -> None:
        await pool.start()
        assert [(await pool.ask(name, "open", recipe)).status for name in "ab"] == [200, 200]
        waiting = [asyncio.create_task(pool.ask("a", "act", ACT)) for _ in range(1_000)]
        others = [asyncio.create_task(pool.ask("b", "act", ACT)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await pool.ask("a", "act", ACT)
        assert (refused.status, refused.retry_after) == (503, 1)
        assert json.loads(refused.body)["code"] == "agent_busy"
        assert not any(task.done() for task in (*waiting, *others))
        held.go.set()
        assert {answer.status for answer in await asyncio.gather(*waiting, *others)} == {200}
        assert (await pool.ask("a", "act", ACT)).status == 200
        await pool.stop(60)

    asyncio.run(asking())


def test_a_request_waits_behind_one_large_body_at_most(
    pool: Pool, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, "act")

    async def asking() -> None:
        await pool.start()
        assert [(await pool.ask(name, "open", recipe)).status for name in "ab"] == [200, 200]
        large = [asyncio.create_task(pool.ask("a", "act", b" " * 2**16 + ACT)) for _ in range(3)]
        assert await asyncio.to_thread(held.begun.wait, 60)
        small = asyncio.create_task(pool.ask("b", "act", ACT))
        await asyncio.sleep(0)
        held.go.set()
        assert {answer.status for answer in await asyncio.gather(*large, small)} == {200}
        await pool.stop(60)

    asyncio.run(asking())
    assert [len(body) > len(ACT) for body in held.bodies] == [True, False, True, True]


def test_a_step_that_was_given_up_is_applied_once_when_it_is_repeated(
    pool: Pool, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, "sync")
    with contextlib.closing(Service()) as service:
        service.gateway.pool, service.gateway.catalogue = pool, catalogue
        service.run(pool.start)
        assert service("POST", AGENTS, {"name": "cart", "model": "dqn", "config": CONFIG}).status == 201
        keyed = {"Idempotency-Key": "k"}
        with monkeypatch.context() as patch:
            patch.setattr(pools, "_ASK_SECONDS", 1.0)
            given_up = service("POST", f"{AGENTS}/cart/step", STEP, headers=keyed)
        assert (given_up.status, given_up.code, given_up.headers["retry-after"]) == (503, "unavailable", "1")
        assert "within 1 seconds" in given_up.json["detail"]
        held.go.set()
        again = [service("POST", f"{AGENTS}/cart/step", STEP, headers=keyed) for _ in range(2)]
        assert [(one.status, one.json) for one in again] == [(200, {"accepted": 1, "seq": 1})] * 2
        assert [one.headers.get("idempotent-replayed") for one in again] == ["true", "true"]
        assert service("GET", f"{AGENTS}/cart").json["counters"]["global_timestep"] == 1
        service.run(lambda: pool.stop(60))
