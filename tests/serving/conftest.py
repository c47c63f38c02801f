"""Fixtures: databases of both kinds, hashing that takes no time, and compiled programs that are built once for all."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from axonrl.serving.accounts import Database, passwords
from axonrl.serving.catalogue import Recipe, recipe
from axonrl.serving.workers import building

from .client_stub import Stub
from .client_stub import running as stub_running
from .hosted import Host
from .postgresql import PostgreSQL, running
from .service import FAULTS, SMALL, Service, serving


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of compiled programs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def built(programs: Path) -> Callable[..., Recipe]:
    """Make the recipe of an agent, and its program with initial weights for its seed."""

    def make(model: str, config: Mapping[str, Any]) -> Recipe:
        made = recipe(model, {"seed": 0, **config})
        with FileLock(programs / f"{made.family}.lock"):
            building.build(made, programs)
        return made

    return make


@pytest.fixture
def host(programs: Path, tmp_path: Path) -> Iterator[Host]:
    host = Host(programs, tmp_path / "agents")
    yield host
    host.close()


@pytest.fixture(scope="session")
def served_once(
    built: Callable[..., Recipe], programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service for all tests that need one, whose disk fails as the file ``faults`` beside its data says."""
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    folder = tmp_path_factory.mktemp("service")
    path = os.pathsep.join(filter(None, (str(FAULTS), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "FAULTS": str(folder / "faults")}
    with serving(folder / "data", programs, environment=environment) as started:
        yield started


@pytest.fixture
def service(served_once: Service) -> Service:
    """It runs at the beginning of each test."""
    if served_once.process is None or served_once.process.poll() is not None:
        served_once.start()
    return served_once


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
def stub() -> Iterator[Stub]:
    """A service that answers what a test tells it to."""
    with stub_running() as stub:
        yield stub
