"""Stores that MLflow makes: a file is whole or not there."""

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.tracking import mlflow_stores


class Killed(BaseException):
    """No handler of errors sees it, as none sees a kill."""


class Maker:
    """Makes a store's tables in place, step by step, as MLflow does; and cannot go on where it was ended in between."""

    def __init__(self, ended_after: int = 9) -> None:
        self.ended_after = ended_after

    def __call__(self, uri: str) -> str:
        store = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
        try:
            tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master")}
            for step, name in enumerate(() if "last" in tables else ("alembic_version", "experiments", "runs", "last")):
                if step == self.ended_after:
                    raise Killed
                store.execute(f"CREATE TABLE {name} (experiment_id INTEGER)")
            if not tables:
                store.execute("INSERT INTO experiments VALUES (0)")
        finally:
            store.close()
        return uri


def rows(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as store:
        return store.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("ended_after", range(4))
def test_a_new_store_is_whole_or_not_there(tmp_path: Path, ended_after: int) -> None:
    path = tmp_path / "new" / "store.db"
    with pytest.raises(Killed):
        mlflow_stores.open_store(path, f"sqlite:///{path}", Maker(ended_after))
    assert not path.exists()
    assert mlflow_stores.open_store(path, f"sqlite:///{path}", Maker()) == f"sqlite:///{path}"
    assert rows(path, "experiments") == [(0,)]
    assert [one.name for one in path.parent.iterdir()] == ["store.db"]


def test_a_store_that_was_left_half_made_is_made_anew_unless_there_is_something_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    uri = f"sqlite:///{path}"
    with suppress(Killed):
        Maker(3)(uri)
    monkeypatch.setattr(mlflow_stores, "QUIET_SECS", 0.5)  # it may be that it is still being made
    before = time.time()
    assert mlflow_stores.open_store(path, uri, Maker()) == uri
    assert time.time() - before > 0.3
    assert rows(path, "last") == []
    assert rows(tmp_path / "store.db.incomplete", "runs") == []
    assert caplog.messages == [
        f"{path} is incomplete and holds no runs: it is created again, and the old file kept as {path}.incomplete"
    ]

    with closing(sqlite3.connect(path)) as store:
        store.execute("DROP TABLE last")
        store.execute("INSERT INTO runs VALUES (7)")
        store.commit()
    kept = path.read_bytes()
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        mlflow_stores.open_store(path, uri, Maker())
    assert path.read_bytes() == kept
    path.write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        mlflow_stores.open_store(path, uri, Maker())


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        *(
            ("sqlite:///a/b.db", "a/b.db"),
            ("sqlite:////a/b.db", "/a/b.db"),
            ("sqlite+pysqlite:///b.db?timeout=9", "b.db"),
        ),
        *(
            (uri, None)
            for uri in ("sqlite://", "sqlite:///:memory:", "./mlruns", "file:///a", "https://a/b", "mysql://a/b")
        ),
    ],
)
def test_the_file_of_a_store(uri: str, path: str | None) -> None:
    assert mlflow_stores.path_of(uri) == (path and Path(path))
