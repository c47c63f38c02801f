"""The database is away for a while: agents act and learn on, the rest says so, and all is well afterwards."""

import contextlib
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from axonrl.serving import RemoteAgent, ServiceUnavailable
from axonrl.tests.experiments.sharing import wait

from .for_accounts import PASSWORD
from .hosted import DQN, Built
from .live import running
from .postgresql import PostgreSQL
from .service import SMALL, Service

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("quick_hashes")]

SECONDS = 120.0
"""At most, for what takes 5 to 12 s on an idle machine."""


@contextlib.contextmanager
def stopped(server: PostgreSQL) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def playing(client: RemoteAgent) -> Iterator[Callable[[], None]]:
    """Acts and steps all the time, and nothing is ever sent twice; a call waits for ten more rounds."""
    stop, rounds = threading.Event(), list[int]()

    def play() -> None:
        while not stop.is_set():
            state = [len(rounds) % 7 / 7, 0.0, 0.0, 0.0]
            client.step(state, client.act(state), 1.0, state, len(rounds) % 10 == 9)
            rounds.append(len(rounds))

    def goes_on() -> None:
        wanted = len(rounds) + 10
        wait(lambda: len(rounds) > wanted or played.done(), SECONDS)
        assert not played.done(), played.exception()

    with ThreadPoolExecutor(1) as one:
        played = one.submit(play)
        try:
            yield goes_on
        finally:
            stop.set()
        played.result()
    assert client.info()["counters"]["global_timestep"] == len(rounds)


def login(service: Service) -> tuple[int, str]:
    """Status, and the code of a problem."""
    form = urllib.parse.urlencode({"username": "alice", "password": PASSWORD}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = service.ask("POST", "/api/v1/login/access-token", form, **kind)
    return status, body.get("code", "")


def test_agents_go_on_while_the_database_is_away(
    postgresql: PostgreSQL, built: Built, programs: Path, tmp_path: Path
) -> None:
    built("dqn", DQN)
    with running(Service(tmp_path / "data", programs, database=postgresql.new())) as server:
        cart = server.agent("cart", retry_deadline=0, **SMALL)
        cart.create_agent(4, 2, "dqn")
        second = server.agent("second", retry_deadline=0, **SMALL)
        with playing(cart) as goes_on:
            goes_on()
            processes = sorted(server.children())
            with stopped(postgresql):
                goes_on()
                with ThreadPoolExecutor(2) as others:
                    logged_in = others.submit(login, server)
                    created = others.submit(second.create_agent, 4, 2, "dqn")
                    wait(lambda: server.ready() == 503, SECONDS)  # now tokens cannot be looked up any more
                    goes_on()
                assert logged_in.result() == (503, "database_unavailable")
                error = created.exception()
                assert isinstance(error, ServiceUnavailable)
                assert (error.status, error.code) == (503, "database_unavailable")
            wait(lambda: server.ready() == 200, SECONDS)
            assert login(server) == (200, "")
            second.create_agent(4, 2, "dqn")
            goes_on()
            assert sorted(server.children()) == processes  # nothing was started again
