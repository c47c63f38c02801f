"""The database is away for a while: agents act and learn on, the rest says so, and all is well afterwards."""

import contextlib
import json
import sqlite3
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import RemoteAgent, ServiceUnavailable
from axonrl.serving.catalogue import Recipe

from .for_accounts import PASSWORD
from .live import running
from .postgresql import PostgreSQL
from .service import SMALL, Service

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("quick_hashes")]

SECONDS = 120.0
"""At most, for what takes 5 to 12 s on an idle machine."""


@pytest.fixture
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | None, Callable[[], Any]]:
    """The database's URL, and a context in which it cannot be used."""
    if request.param == "sqlite":
        return None, lambda: locked(tmp_path / "data" / "service.db")
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new(), lambda: stopped(server)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def stopped(server: PostgreSQL) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


class Player:
    """Acts and steps all the time; nothing is ever sent twice."""

    def __init__(self, client: RemoteAgent) -> None:
        self._client, self._stop = client, threading.Event()
        self.count, self.errors = 0, list[Exception]()
        self._thread = threading.Thread(target=self._play)

    def _play(self) -> None:
        try:
            while not self._stop.is_set():
                state = [self.count % 7 / 7, 0.0, 0.0, 0.0]
                action = self._client.act(state)
                self._client.step(state, action, 1.0, state, self.count % 10 == 9)
                self.count += 1
        except Exception as error:
            self.errors.append(error)

    def __enter__(self) -> "Player":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def goes_on(self) -> bool:
        """Ten more rounds."""
        before = self.count
        return eventually(lambda: self.count > before + 10 or bool(self.errors)) and not self.errors


def eventually(condition: Callable[[], bool], seconds: float = SECONDS) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def login(service: Service) -> tuple[int, str]:
    """Status, and the code of a problem."""
    form = urllib.parse.urlencode({"username": "alice", "password": PASSWORD}).encode()
    try:
        with urllib.request.urlopen(f"{service.url}/api/v1/login/access-token", form, timeout=SECONDS) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["code"]


@pytest.mark.parametrize("outage", ["sqlite", "postgresql"], indirect=True)
def test_agents_go_on_while_the_database_is_away(
    outage: tuple[str | None, Callable[[], Any]], built: Callable[..., Recipe], programs: Path, tmp_path: Path
) -> None:
    url, away = outage
    data = tmp_path / "data"
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    with running(Service(data, programs, database=url)) as server:
        cart = server.agent("cart", retry_deadline=0, **SMALL)
        cart.create_agent(4, 2, "dqn")
        second = server.agent("second", retry_deadline=0, **SMALL)
        with Player(cart) as player:
            assert player.goes_on()
            processes = sorted(server.children())
            with away():
                assert player.goes_on()
                with ThreadPoolExecutor(2) as others:  # SQLite waits for 5 seconds
                    logged_in = others.submit(login, server)
                    created = others.submit(second.create_agent, 4, 2, "dqn")
                    assert eventually(lambda: server.ready() == 503)  # now tokens cannot be looked up any more
                    assert player.goes_on()
                assert logged_in.result() == (503, "database_unavailable")
                error = created.exception()
                assert isinstance(error, ServiceUnavailable)
                assert (error.status, error.code) == (503, "database_unavailable")
            assert eventually(lambda: server.ready() == 200)
            assert login(server) == (200, "")
            second.create_agent(4, 2, "dqn")
            assert player.goes_on()
            assert sorted(server.children()) == processes  # nothing was started again
        assert player.errors == []
        assert cart.info()["counters"]["global_timestep"] == player.count
