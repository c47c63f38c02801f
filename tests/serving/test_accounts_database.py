import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import Connection, text

from axonrl.serving.accounts import (
    Accounts,
    AgentRows,
    Audit,
    Database,
    RefusedError,
    UnusableError,
    database,
    folder,
    open_service,
    schema,
)
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, at_once, on_both, with_alice
from .postgresql import PostgreSQL

Migrations = list[Callable[[Connection], None]]
pytestmark = pytest.mark.usefixtures("quick_hashes")


def coloured(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE users ADD COLUMN colour TEXT"))


@pytest.fixture
def newer() -> Migrations:
    """Migrations of a version that has one more."""
    return [*schema.MIGRATIONS, coloured]


def columns(opened: Database) -> set[str]:
    with opened.reading() as session:
        return set(session.execute(text("SELECT * FROM users")).keys())


def test_sqlite_is_set_to_lose_nothing(tmp_path: Path) -> None:
    opened = Database.open(tmp_path / "service.db")
    with opened.writing() as session:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = {name: session.execute(text(f"PRAGMA {name}")).scalar() for name in names}
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    assert modes == dict.fromkeys(["service.db", "service.db-wal", "service.db-shm"], 0o600)
    opened.close()


def test_an_older_sqlite_is_copied_and_migrated(tmp_path: Path, newer: Migrations) -> None:
    path = tmp_path / "service.db"
    first = Database.open(path)
    with_alice(first)
    first.close()
    with mock.patch.object(schema, "MIGRATIONS", newer):
        raised(UnusableError, Database.open, path, migrate=False, match="service migrate")
        assert not list(tmp_path.glob("*before*"))
        second = Database.open(path)
    assert "colour" in columns(second)
    second.close()
    copy = tmp_path / "service.db.before-migration-from-0001"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    restored = Database.open(copy)
    assert Accounts(restored).user("alice").name == "alice"
    assert "colour" not in columns(restored)
    restored.close()


def test_an_older_postgresql_is_migrated_when_told_so(postgresql: PostgreSQL, newer: Migrations) -> None:
    url = postgresql.new()
    Database.open(url).close()
    with mock.patch.object(schema, "MIGRATIONS", newer):
        raised(UnusableError, Database.open, url, match="--migrate")
        opened = Database.open(url, migrate=True)
    assert "colour" in columns(opened)
    opened.close()


@on_both
def test_of_two_versions_that_start_at_once_the_newer_one_migrates(url: str, newer: Migrations) -> None:
    """The older one has seen an older database, then has waited for the newer one."""
    Database.open(url).close()
    with mock.patch.object(schema, "MIGRATIONS", newer):
        Database.open(url, migrate=True).close()
    with mock.patch.object(schema, "is_older", return_value=True):
        raised(UnusableError, Database.open, url, migrate=True, match="newer version")
    with mock.patch.object(schema, "MIGRATIONS", newer):
        opened = Database.open(url, migrate=False)
    assert "colour" in columns(opened)
    opened.close()


@on_both
def test_a_migration_that_fails_changes_nothing(url: str, newer: Migrations) -> None:
    Database.open(url).close()

    def failing(connection: Connection) -> None:
        coloured(connection)
        connection.execute(text("SELECT * FROM nosuch"))

    newer[-1] = failing
    with mock.patch.object(schema, "MIGRATIONS", newer):
        raised(UnusableError, Database.open, url, migrate=True, match="nosuch")
    opened = Database.open(url)
    assert "colour" not in columns(opened)
    opened.close()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("mysql://me:sesame@host/name", "mysql"),
        ("postgresql://me@127.0.0.1:1/name?password=sesame", "postgresql"),
        ("/nosuch/folder/service.db", "No such file"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(where: str, said: str) -> None:
    error = raised(UnusableError, Database.open, where)
    assert said in str(error)
    assert "sesame" not in str(error)


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    path.write_bytes(b"no database" * 100)
    raised(UnusableError, Database.open, path)
    assert path.read_bytes() == b"no database" * 100


def test_a_locked_sqlite_is_read_and_mends_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_WAIT", 0.05)
    opened = Database.open(tmp_path / "service.db")
    accounts = with_alice(opened)
    accounts.create_token("alice", "game")
    other = sqlite3.connect(tmp_path / "service.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert len(accounts.active_tokens()) == 1
    error = raised(RefusedError, accounts.create_token, "alice", "second")
    assert (error.code, error.retry_after) == ("database_unavailable", 1)
    for _ in range(6):  # they are no failures of hers
        assert raised(RefusedError, accounts.login, "alice", PASSWORD, "10.0.0.1").code == "database_unavailable"
    other.execute("ROLLBACK")
    other.close()
    accounts.create_token("alice", "third")
    assert sorted(token.name for token in accounts.tokens()) == ["game", "third"]
    assert accounts.login("alice", PASSWORD, "10.0.0.1")
    opened.close()


def test_a_new_folder_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    opened = open_service(path)
    with_alice(opened, folder=path)
    opened.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()}
    assert files == dict.fromkeys(["service.db", "identity.json", "audit.jsonl"], 0o600)


@on_both
def test_a_database_of_another_folder_is_refused(url: str, tmp_path: Path) -> None:
    open_service(tmp_path / "a", url).close()
    raised(UnusableError, open_service, tmp_path / "b", url, match=str(tmp_path / "a"))
    open_service(tmp_path / "c").close()
    raised(UnusableError, open_service, tmp_path / "c", url, match=str(tmp_path / "a"))
    with folder.holding(tmp_path / "a"), pytest.raises(UnusableError, match=f"process {os.getpid()}"):
        open_service(tmp_path / "b", url)
    open_service(tmp_path / "a", url).close()


def test_an_empty_database_is_refused_for_a_folder_with_agents(tmp_path: Path) -> None:
    open_service(tmp_path / "a").close()
    (tmp_path / "a" / "agents" / "0123").mkdir(parents=True)
    with pytest.raises(UnusableError, match="is empty"):
        open_service(tmp_path / "a", str(tmp_path / "other.db"))


def test_an_identity_outlives_a_move_and_a_crash_before_the_database_had_it(tmp_path: Path) -> None:
    path = folder.prepare(tmp_path / "a")
    folder.write_identity(path, "0123")
    open_service(path).close()
    moved = path.rename(tmp_path / "b")
    open_service(moved).close()
    assert folder.identity(moved) == "0123"


def test_a_damaged_identity_is_refused(tmp_path: Path) -> None:
    open_service(tmp_path / "a").close()
    (tmp_path / "a" / "identity.json").write_text("{")
    raised(UnusableError, open_service, tmp_path / "a", match="backup")


def test_a_copied_folder_is_refused_while_the_first_is_in_use(postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = postgresql.new()
    open_service(tmp_path / "a", url).close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with folder.holding(folder.prepare(tmp_path / "a"), database=database.without_password(database.address(url))):
        open_service(tmp_path / "a", url, serving=True).close()
        raised(UnusableError, open_service, tmp_path / "b", url, match=f"process {os.getpid()}")
    open_service(tmp_path / "b", url, serving=True).close()


def test_many_first_commands_at_once(tmp_path: Path) -> None:
    path, made = tmp_path / "a", []

    def add(number: int) -> None:
        opened = open_service(path)
        made.append(Accounts(opened).add_user(f"user{number}", PASSWORD).name)
        opened.close()

    at_once(add, 8)
    opened = open_service(path)
    assert [user.name for user in Accounts(opened).users()] == sorted(made)
    assert len(made) == 8
    opened.close()


def test_asking_who_has_a_folder_keeps_nobody_out(tmp_path: Path) -> None:
    path = folder.prepare(tmp_path)
    with folder.holding(path):
        pass

    def ask_or_hold(number: int) -> None:
        for _ in range(50):
            if number:
                folder.holder(path)
            else:
                with folder.holding(path):
                    pass

    at_once(ask_or_hold, 4)


def test_an_older_database_is_not_migrated_under_a_running_server(tmp_path: Path, newer: Migrations) -> None:
    open_service(tmp_path / "a").close()
    with folder.holding(tmp_path / "a"), mock.patch.object(schema, "MIGRATIONS", newer):
        raised(UnusableError, open_service, tmp_path / "a", match="stop all servers")
        open_service(tmp_path / "a", serving=True).close()


@on_both
def test_creations_at_once_keep_to_the_quota(database: Database, owner: str) -> None:
    agents, results = AgentRows(database, audit=Audit(database)), []

    def add(number: int) -> None:
        try:
            results.append(agents.add(owner, f"agent{number}", "dqn", "", {}, most=3).name)
        except RefusedError as error:
            results.append(error.code)

    at_once(add, 8)
    assert results.count("quota_exceeded") == 5
    assert agents.usage(owner)["agents"] == 3
