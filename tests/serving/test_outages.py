"""The database is away for a while: agents act and learn on, the rest says so, and all is well afterwards."""

import contextlib
import threading
import urllib.parse
from collections.abc import Iterator
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
        wait(lambda: self.count > before + 10 or bool(self.errors), SECONDS)
        return not self.errors


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
        with Player(cart) as player:
            assert player.goes_on()
            processes = sorted(server.children())
            with stopped(postgresql):
                assert player.goes_on()
                with ThreadPoolExecutor(2) as others:
                    logged_in = others.submit(login, server)
                    created = others.submit(second.create_agent, 4, 2, "dqn")
                    wait(lambda: server.ready() == 503, SECONDS)  # now tokens cannot be looked up any more
                    assert player.goes_on()
                assert logged_in.result() == (503, "database_unavailable")
                error = created.exception()
                assert isinstance(error, ServiceUnavailable)
                assert (error.status, error.code) == (503, "database_unavailable")
            wait(lambda: server.ready() == 200, SECONDS)
            assert login(server) == (200, "")
            second.create_agent(4, 2, "dqn")
            assert player.goes_on()
            assert sorted(server.children()) == processes  # nothing was started again
        assert player.errors == []
        assert cart.info()["counters"]["global_timestep"] == player.count
