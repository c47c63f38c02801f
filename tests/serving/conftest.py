"""Fixtures: databases of both kinds, hashing that takes no time, and compiled programs that are built once for all."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from axonrl.serving import RemoteAgent, catalogue
from axonrl.serving.accounts import Accounts, Database, passwords
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.workers.builder import build

from .client_stub import Stub, agent_of
from .client_stub import running as stub_running
from .commands import Commands
from .for_accounts import Hands, with_alice
from .gateway_fakes import Service as Gateway
from .gateway_fakes import gateway
from .hosted import DQN, Host, feed
from .postgresql import PostgreSQL, running
from .service import Service, quiet, serving


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def built(programs: Path) -> Callable[..., Recipe]:
    """Make the recipe of an agent, and its program with initial weights for its seed."""

    def make(model: str, config: Mapping[str, Any]) -> Recipe:
        made = catalogue.recipe(model, {"seed": 0, **config})
        with FileLock(programs / f"{made.family}.lock"):
            build(made, programs)
        return made

    return make


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """On the folder ``data``, which is not there yet."""
    return Commands(tmp_path / "data", capsys, monkeypatch)


@pytest.fixture
def recipe(built: Callable[..., Recipe]) -> bytes:
    """A small DQN's, as a worker is told it."""
    return json.dumps(built("dqn", DQN).to_json()).encode()


@pytest.fixture
def host(programs: Path, tmp_path: Path) -> Iterator[Host]:
    host = Host(programs, tmp_path / "agents")
    yield host
    host.close()


@pytest.fixture(scope="module")
def learned(
    built: Callable[..., Recipe], programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Host, HostedAgent]]:
    """A DQN that has had 30 steps, and its host; the tests do not change it."""
    with contextlib.closing(Host(programs, tmp_path_factory.mktemp("learned"))) as host:
        agent = host.open("a", built("dqn", DQN))
        feed(agent, 0, 30)
        yield host, agent


@pytest.fixture
def untouched(learned: tuple[Host, HostedAgent]) -> HostedAgent:
    return learned[1]


@pytest.fixture(scope="session")
def served_once(
    built: Callable[..., Recipe], programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service for all tests that need one."""
    built("dqn", DQN)
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        yield started


@pytest.fixture
def server(served_once: Service) -> Iterator[Service]:
    """It runs at the beginning of each test, and says of nothing that it was unexpected."""
    if served_once.process is None or served_once.process.poll() is not None:
        served_once.start()
    with quiet(served_once):
        yield served_once


@pytest.fixture
def service() -> Iterator[Gateway]:
    with gateway() as made:
        yield made


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running() as server:
        yield server


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(passwords.PARAMETERS, "memory_cost", 8)
    monkeypatch.setitem(passwords.PARAMETERS, "time_cost", 1)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database; of SQLite, unless a test says ``on_both``."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return str(tmp_path / "service.db")
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database.open(url)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def accounts(quick_hashes: None, database: Database, clock: Hands) -> Accounts:
    return with_alice(database, clock)


@pytest.fixture
def owner(accounts: Accounts) -> str:
    return accounts.user("alice").id


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A service that answers what a test tells it to."""
    with stub_running() as stub:
        yield stub


@pytest.fixture
def agent(stub: Stub) -> RemoteAgent:
    """A client of it that knows its agent."""
    return agent_of(stub)
