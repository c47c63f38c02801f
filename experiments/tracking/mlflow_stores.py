"""MLflow's SQLite stores: created completely or not at all.

MLflow creates a store's tables in place, in about seventy steps without a common transaction. If its process ends in
between, MLflow can never open the store again. So a new store is created elsewhere, and copied to its place in one
transaction.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

QUIET_SECS: Final = 10.0
"""Seconds without a change after which a store that cannot be opened is no longer being created by another process."""
INCOMPLETE: Final = ".incomplete"
"""The suffix of the copy of an unfinished store."""
_OWN: Final = {"alembic_version": "false", "workspaces": "name != 'default'", "experiments": "experiment_id != 0"}
"""Tables to which MLflow itself adds rows."""
_log = logging.getLogger("axonrl")


def path_of(uri: str) -> Path | None:
    """The file of a store; None if its address names no file."""
    from sqlalchemy.engine import make_url

    if not uri.startswith("sqlite"):
        return None
    database = make_url(uri).database
    return None if not database or database == ":memory:" or database.startswith("file:") else Path(database)


def open_store(path: Path, uri: str, connect: Callable[[str], Any]) -> Any:
    """Connect to a store. A missing one is created; an unfinished one is copied aside and created again.

    Args:
        path: the store's file.
        uri: its address.
        connect: connects to the store of an address, and creates its tables if it has none.

    Raises:
        Exception: that of ``connect``, for a store that holds more than empty tables.
    """
    if _tables(path):
        try:
            return connect(uri)
        except Exception:
            if not is_empty(path):
                raise
    path.parent.mkdir(parents=True, exist_ok=True)
    with _only_maker(path):
        while path.exists() and (left := QUIET_SECS - (time.time() - _time_of_change(path))) > 0:
            time.sleep(left)
        if _tables(path):
            try:
                return connect(uri)  # another process has created it meanwhile
            except Exception:
                if not is_empty(path):
                    raise
            _log.warning(
                "%s is incomplete and holds no runs: it is created again, and the old file kept as %s",
                path,
                _backup(path),
            )
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            made = Path(folder) / "store.db"
            connect(f"sqlite:///{made.as_posix()}")
            _copy(made, path)
    return connect(uri)


@contextlib.contextmanager
def _only_maker(path: Path) -> Iterator[None]:
    """Be the only process that creates a store. Later processes find it when the lock is removed."""
    lock = path.with_name(f".{path.name}.lock")
    with FileLock(lock):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows does not remove open files
                lock.unlink()


def _backup(path: Path) -> Path:
    copy, number = path.with_name(path.name + INCOMPLETE), 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}{INCOMPLETE}-{number}")
    _copy(path, copy)
    return copy


def _copy(source: Path, target: Path) -> None:
    """Copy a store in one transaction: a reader of the target sees either the old store or the new one."""
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _time_of_change(path: Path) -> float:
    """When a store was last changed, in seconds since 1970."""
    files = (path, *(path.with_name(path.name + end) for end in ("-journal", "-wal")))
    return max(file.stat().st_mtime for file in files if file.exists())


def _tables(path: Path) -> list[str]:
    """The names of a store's tables; empty if it is missing."""
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as store:
        return [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def is_empty(path: Path) -> bool:
    """Is a store missing, or does it hold only what MLflow itself writes when it creates the tables?"""
    if not path.exists():
        return True
    try:
        with contextlib.closing(sqlite3.connect(path)) as store:
            found = (
                store.execute(f'SELECT 1 FROM "{name}" WHERE {_OWN.get(name, "true")} LIMIT 1').fetchone()
                for name in _tables(path)
            )
            return not any(found)
    except sqlite3.Error:
        return False
