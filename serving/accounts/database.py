"""The database of a service: SQLite in one file, or PostgreSQL by URL. Used in threads, never for an act or a step."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, Select, create_engine, event, exc, make_url
from sqlalchemy.orm import Session

from ...run_dir.files import replacing
from ..refusals import UNAVAILABLE, RefusedError, UnusableError
from . import schema
from .folder import space

Row = TypeVar("Row")
_WAIT: Final = 5
"""Seconds to wait for a lock, a connection or a place in the pool."""
_DRIVER: Final = "postgresql+psycopg"
_OPTIONS: Final[dict[str, Any]] = {
    "pool_timeout": _WAIT,
    "hide_parameters": True,
    "json_serializer": functools.partial(json.dumps, allow_nan=False),
}


class Database:
    """Sessions of one database with this version's schema.

    Args:
        engine: engine from :meth:`open`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")

    @classmethod
    def open(cls, where: str | Path, *, migrate: bool | None = None) -> Database:
        """Connect, and create the tables in an empty database.

        Args:
            where: a path, or ``sqlite:///PATH`` or ``postgresql://USER@HOST/NAME``.
            migrate: whether to migrate an older schema; None: only SQLite, after a copy of the file.

        Raises:
            UnusableError: there is no such database, or its schema is newer, or older and may not be migrated.
        """
        url = address(where)
        is_sqlite = url.get_backend_name() == "sqlite"
        engine = _sqlite(url) if is_sqlite else _postgresql(url)
        try:
            older = schema.is_older(engine)
            if older:
                if migrate is False or (migrate is None and not is_sqlite):
                    raise UnusableError(_how_to_migrate(url, schema.revision(engine), schema.head()))
                if is_sqlite:
                    path = Path(str(url.database))
                    _copy(path, path.with_name(f"{path.name}.before-migration-from-{schema.revision(engine)}"))
            if older or schema.revision(engine) is None:
                schema.upgrade(engine)
        except exc.SQLAlchemyError as error:
            engine.dispose()
            left = space(Path(str(url.database))) if url.get_backend_name() == "sqlite" else ""
            raise UnusableError(f"Database {without_password(url)} cannot be opened: {_reason(error)}{left}") from None
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite."""
        return self._engine.dialect.name == "sqlite"

    @property
    def url(self) -> str:
        """Its address, without a password."""
        return without_password(self._engine.url)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A reading transaction. Objects may be used after it.

        Raises:
            RefusedError: ``database_unavailable``.
        """
        with _translate_errors(), Session(self._engine, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that is committed at the end, and rolled back if the body raises.

        Raises:
            RefusedError: ``database_unavailable``; nothing has changed.
        """
        with _translate_errors(), Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    def first(self, query: Select[Row]) -> Row | None:
        """The only row of a query; None if there is none."""
        with self.reading() as session:
            return session.scalars(query).one_or_none()

    def all(self, query: Select[Row]) -> Sequence[Row]:
        """All rows of a query."""
        with self.reading() as session:
            return session.scalars(query).all()

    def write(self, statement: Executable) -> None:
        """Execute a statement in its own transaction."""
        with self.writing() as session:
            session.execute(statement)

    def check(self) -> list[str]:
        """Damage that SQLite finds in its file; empty for another database."""
        if not self.is_sqlite:
            return []
        try:
            with self.reading() as session:
                found = [str(row[0]) for row in session.connection().exec_driver_sql("PRAGMA quick_check")]
        except exc.DatabaseError as error:
            return [_reason(error)]
        return [what for what in found if what != "ok"]

    def copy(self, target: Path) -> None:
        """Copy a consistent snapshot of a SQLite database while others write to it.

        Args:
            target: a new file.

        Raises:
            UnusableError: it cannot be read, or the copy cannot be written; there is no copy then.
        """
        _copy(Path(str(self._engine.url.database)), target)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def address(where: str | Path) -> URL:
    """The URL of a database, also from a path.

    Raises:
        UnusableError: axonrl does not support this kind of database.
    """
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))
    try:
        url = make_url(where)
    except (exc.ArgumentError, ValueError):
        raise UnusableError("The database's URL cannot be read; it must be like postgresql://USER@HOST/NAME") from None
    if url.drivername in ("postgresql", "postgres", _DRIVER):
        return url.set(drivername=_DRIVER)
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url.set(database=str(Path(str(url.database)).expanduser().absolute()))
    raise UnusableError(
        f"Database {without_password(url)} cannot be used: it must be the path of a SQLite file, or"
        " postgresql://USER@HOST/NAME"
    )


def without_password(url: URL) -> str:
    """A URL without its password."""
    safe = url.difference_update_query([name for name in url.query if "password" in name.lower()])
    return safe.render_as_string(hide_password=True).replace(f"{_DRIVER}://", "postgresql://")


def _sqlite(url: URL) -> Engine:
    path = Path(str(url.database))
    try:  # SQLite would create it readable by all; its side files get the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise UnusableError(f"Database {path} cannot be opened: {error.strerror}") from None
    engine = create_engine(url, connect_args={"timeout": _WAIT}, **_OPTIONS)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun explicitly
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; a writer takes the lock at once, as after a read it would be refused instead of waiting."""
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def _postgresql(url: URL) -> Engine:
    arguments: dict[str, Any] = {"connect_timeout": _WAIT}
    if "options" not in url.query:
        arguments["options"] = f"-c timezone=UTC -c lock_timeout={_WAIT}s -c statement_timeout={2 * _WAIT}s"
    try:
        return create_engine(url, connect_args=arguments, pool_pre_ping=True, **_OPTIONS)
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise UnusableError("PostgreSQL needs psycopg: pip install 'axonrl[postgresql]'") from None


def _copy(path: Path, target: Path) -> None:
    """Copy a SQLite database atomically, replacing a copy of an earlier attempt."""
    try:
        with replacing(target) as temporary:
            temporary.unlink(missing_ok=True)
            temporary.touch(0o600)
            with (
                contextlib.closing(sqlite3.connect(path)) as source,
                contextlib.closing(sqlite3.connect(temporary)) as copy,
            ):
                source.backup(copy)
    except sqlite3.Error as error:
        raise UnusableError(f"Database {path} cannot be copied to {target}: {error}{space(target)}") from None


def _how_to_migrate(url: URL, current: str | None, wanted: str) -> str:
    return (
        f"Database {without_password(url)} has schema {current}, and this version of axonrl needs {wanted}. Make a"
        " backup, stop all servers of the older version, and start with --migrate, or use: axonrl service migrate"
    )


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
        message = f"The database is not available: {_reason(error)}"
        raise RefusedError(UNAVAILABLE, message, retry_after=math.ceil(_WAIT / 5)) from error


def _reason(error: Exception) -> str:
    """The driver's message in one line, without statements and their values."""
    driver = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return " ".join(str(driver).split())[:500]
