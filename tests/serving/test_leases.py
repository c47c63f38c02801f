"""Several servers on one data folder and one database: each agent is in one of them at a time."""

import asyncio
import base64
import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from axonrl.errors import CheckpointError
from axonrl.experiments.commands.cli import main
from axonrl.serving import RemoteAgent, ServiceUnavailable
from axonrl.serving.accounts import AgentRows, Database, RefusedError, UnusableError, folder, open_service
from axonrl.serving.gateway.leases import LeasedPool
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.agent_files import check
from axonrl.serving.hosting.fencing import OutdatedError
from axonrl.serving.workers.pool import WorkerResponse
from axonrl.tests.raising import raised

from .experience import step
from .for_accounts import Hands
from .gateway_fakes import FakePool
from .hosted import DQN, Built, Host, body, feed, timesteps, weights
from .live import Server, agent, prepared
from .postgresql import PostgreSQL
from .service import SMALL
from .service import timesteps as accepted

pytestmark = pytest.mark.usefixtures("quick_hashes")


def test_one_home_has_an_agent_until_its_lease_has_run_out(database: Database, owner: str, clock: Hands) -> None:
    rows = AgentRows(database, clock=clock)
    cart = rows.add(owner, "cart", "dqn", "", {}).id
    first = rows.take(cart, "one", 10)
    assert (first.home, first.epoch) == ("one", 1)
    clock.move(seconds=4)
    refused = rows.take(cart, "two", 10)
    assert (refused.home, refused.epoch, refused.seconds) == ("one", 1, 6)
    assert rows.renew("two", 10) == {}
    assert rows.renew("one", 10) == {cart: 1}
    clock.move(seconds=9)
    assert rows.take(cart, "two", 10).home == "one"
    clock.move(seconds=1)
    assert rows.renew("one", 10) == {}  # once it has run out, it must be taken anew
    taken = rows.take(cart, "two", 10)
    assert (taken.home, taken.epoch) == ("two", 2)
    rows.release("one")  # what it has no more
    assert rows.take(cart, "one", 10).home == "two"
    rows.release("two", cart, 1)
    assert rows.take(cart, "one", 10).home == "two"
    rows.release("two", cart, 2)
    assert rows.take(cart, "one", 10).epoch == 3
    raised(RefusedError, rows.take, "nosuch", "one", 10)


def test_an_agent_that_nobody_asks_for_is_given_back(database: Database, owner: str) -> None:
    """A proxy may send its requests elsewhere now, while this server is well."""
    workers = FakePool()

    def asked() -> list[tuple[str, int]]:
        return [(do, head.get("epoch", 0)) for _, do, _, head in workers.asked]

    async def run(cart: str) -> None:
        rows = AgentRows(database)
        one, two = (LeasedPool(workers, rows, 2.0) for _ in range(2))  # type: ignore[arg-type] # what is used of a pool
        await one.start()
        assert (await one.ask(cart, "open", b"{}")).status == 200
        assert asked() == [("open", 1), ("close", 1)]  # who created it may not be asked for it
        answers = await asyncio.gather(*(one.ask(cart, "act") for _ in range(3)))
        assert [answer.status for answer in answers] == [200] * 3
        assert asked()[2:] == [("act", 2)] * 3  # one lease for all
        refused = await two.ask(cart, "act")
        assert (refused.status, refused.retry_after) == (503, 2)
        assert (await two.ask(cart, "info", wake=False)).status == 200  # of a list: takes nothing over
        assert asked()[5:] == [("info", 0)]
        while (await two.ask(cart, "act")).status == 503:
            await asyncio.sleep(0.05)
        assert asked()[6:] == [("close", 2), ("act", 3)]
        await one.stop(1)

    asyncio.run(run(AgentRows(database).add(owner, "cart", "dqn", "", {}).id))


def test_a_request_that_takes_longer_than_a_lease_keeps_its_lease_and_those_of_others(
    database: Database, owner: str
) -> None:
    """While the renewal waited to save its agent, all leases ran out, and it was answered as if this one had."""

    class Slow(FakePool):
        async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
            if do == "get_state" or (do == "close" and may_end.is_set() is False):
                await may_end.wait()
            return await super().ask(agent, do, body, **head)

    may_end = asyncio.Event()

    async def run(*agents: str) -> None:
        workers = Slow()
        workers.steps = dict.fromkeys(agents, 0)
        pool = LeasedPool(workers, AgentRows(database), 1.0)  # type: ignore[arg-type] # what is used of a pool
        await pool.start()
        large, other = agents
        download = asyncio.create_task(pool.ask(large, "get_state"))
        for _ in range(30):
            assert (await pool.ask(other, "act")).status == 200
            await asyncio.sleep(0.1)
        may_end.set()
        assert (await download).status == 200
        assert {head["epoch"] for _, _, _, head in workers.asked} == {1}
        await pool.stop(1)

    rows = AgentRows(database)
    asyncio.run(run(*(rows.add(owner, name, "dqn", "", {}).id for name in ("large", "other"))))


Opened = Callable[[int], HostedAgent]


@pytest.fixture
def opened(built: Built, host: Host) -> Opened:
    """Opens one agent, whose folder several processes see, for an epoch."""

    def at(epoch: int) -> HostedAgent:
        return host.open("agent", None if (host.folder / "agent").exists() else built("dqn", DQN), epoch)

    return at


def test_who_was_taken_over_can_acknowledge_and_save_nothing(opened: Opened, host: Host) -> None:
    old = opened(1)
    feed(old, 0, 30)
    new = opened(2)  # the old one is still there, with its lock and its open journal
    assert timesteps(new) == 30
    old.step(body(30), "late")  # it reaches the file
    raised(OutdatedError, old.sync)
    raised(OutdatedError, old.save)
    feed(new, 100, 120)
    old.step(body(31), "later")
    raised(OutdatedError, old.sync)
    raised(OutdatedError, opened, 1)
    kept = weights(new)
    assert check(host.folder / "agent") == []
    third = opened(3)
    assert (timesteps(third), weights(third)) == (50, kept)
    third.close()
    fourth = opened(4)
    assert (timesteps(fourth), weights(fourth)) == (50, kept)


def test_a_checkpoint_that_an_old_owner_was_just_writing_does_not_count(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped before the very last instruction that makes the checkpoint appear."""
    old = opened(1)
    feed(old, 0, 30)
    old.step(body(30), "never acknowledged")
    replace, taken = Path.rename, list[HostedAgent]()

    def late(self: Path, target: Path) -> Path:
        if not taken:
            taken.append(None)  # type: ignore[arg-type]
            taken[0] = opened(2)
            assert timesteps(taken[0]) in {30, 31}  # that it was not acknowledged does not mean that it is gone
        return replace(self, target)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises((OutdatedError, CheckpointError)):
        old.save()
    monkeypatch.undo()
    assert taken
    feed(taken[0], 100, 120)
    kept, count = weights(taken[0]), timesteps(taken[0])
    third = opened(3)
    assert (timesteps(third), weights(third)) == (count, kept)


def test_one_server_may_come_after_many(opened: Opened, host: Host) -> None:
    feed(opened(5), 0, 20)
    host.agents[-1].close()
    alone = opened(0)
    feed(alone, 20, 40)
    alone.abandon()
    again = opened(0)
    assert timesteps(again) == 40
    again.close()
    assert timesteps(opened(6)) == 40
    assert check(host.folder / "agent") == []


def test_servers_share_a_folder_only_if_all_of_them_say_so(tmp_path: Path) -> None:
    with folder.holding(tmp_path, shared=True):
        held = folder.holder(tmp_path)
        assert held is not None
        assert (held.pid, held.what) == (os.getpid(), "axonrl serve")
        with folder.holding(tmp_path, shared=True):
            pass
        assert folder.holder(tmp_path) is not None
        with pytest.raises(UnusableError), folder.holding(tmp_path):
            pass
    assert folder.holder(tmp_path) is None
    with folder.holding(tmp_path), pytest.raises(UnusableError), folder.holding(tmp_path, shared=True):
        pass


@pytest.mark.parametrize("words", [[], ["--database", "postgresql://x@y/z", "--durability", "process"]])
def test_sqlite_and_shorter_durability_are_for_one_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["serve", "--shared", "--port", "0", "--data", str(tmp_path / "data"), *words]) == 2
    assert "--shared needs" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_folder_has_one_server_and_a_database_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_service(tmp_path / "data").close()
    serve = ["serve", "--port", "0", "--data"]
    with folder.holding(tmp_path / "data"):
        assert main([*serve, str(tmp_path / "data")]) == 2
        assert f"process {os.getpid()} " in capsys.readouterr().err
    assert main([*serve, str(tmp_path / "other"), "--database", str(tmp_path / "data" / "service.db")]) == 2
    assert str(tmp_path / "data") in capsys.readouterr().err


def play(client: RemoteAgent, *numbers: int) -> None:
    for k in numbers:
        assert client.step(*step(k), key=f"key-{k}") is True


def test_an_agent_moves_when_its_server_dies_or_stops(
    built: Built, programs: Path, tmp_path: Path, postgresql: PostgreSQL, opened: Opened
) -> None:
    data, url = tmp_path / "data", postgresql.new()
    token = prepared(data, programs, built("dqn", DQN), database=url)
    options = ("--database", url, "--shared", "--set", "agents.lease_seconds=3")
    one, two, three = (Server(data, *options) for _ in range(3))
    with contextlib.ExitStack() as stack:
        for server in (one, two, three):
            stack.callback(server.end)
        one.start()
        two.start()
        at_one = agent(one, token, **SMALL)
        at_one.create_agent(4, 2, "dqn")
        play(at_one, *range(20))
        # While one has it, two has it not, whatever is asked.
        impatient = agent(two, token, retry_deadline=0)
        for ask in (lambda: impatient.act([0.0] * 4), lambda: play(impatient, 20), impatient.info):
            play(at_one, 19)  # again: it is in use there
            caught = raised(ServiceUnavailable, ask)
            assert (caught.status, caught.code) == (503, "unavailable")
        assert accepted(at_one) == 20
        # One dies: two has it when the lease has run out, with everything that was acknowledged.
        play(at_one, *range(20, 40))
        one.kill(workers=False)
        at_two = agent(two, token, retry_deadline=120.0)
        play(at_two, 39, 40)  # the last one may have been answered, and is known by its key
        assert accepted(at_two) == 41
        # Two is stopped, and does not know: three goes on, and two is fenced when it wakes up.
        three.start()
        at_three = agent(three, token, retry_deadline=120.0)
        stopped = [two.pid, *two.children()]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as one_more:
            late = one_more.submit(play, agent(two, token, retry_deadline=0), 41)
            try:
                play(at_three, *range(50, 70))
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
            assert isinstance(late.exception(60), ServiceUnavailable)
        raised(ServiceUnavailable, play, impatient, 42)
        assert accepted(at_three) == 61
        # A graceful stop gives it back; and all of it is what one server would have learned.
        assert three.stop() == 143
        assert accepted(agent(two, token, retry_deadline=120.0)) == 61
        state = agent(two, token).get_state()
        assert two.stop() == 143
    twin = opened(0)
    feed(twin, 0, 41)
    feed(twin, 50, 70)
    assert base64.b64decode(state.encoded_network) == weights(twin)
