"""Fixtures: databases of both kinds, and hashing that takes no time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from axonrl.serving.accounts import Database, passwords

from .postgresql import PostgreSQL, running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running() as server:
        yield server


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(passwords.PARAMETERS, "memory_cost", 8)
    monkeypatch.setitem(passwords.PARAMETERS, "time_cost", 1)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "service.db")
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database.open(url)
    yield opened
    opened.close()
