"""The schema of a database: creation, and migration from older versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, select, text

from ..refusals import UnusableError
from .tables import Base

MIGRATIONS: Final[list[Callable[[Connection], None]]] = []
"""Changes of the tables, the first from version 0001 to 0002. An empty database gets those of this version at once."""
_VERSION: Final = Table("axonrl_service_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Table of the one version: a number of four digits."""
_ADVISORY_LOCK: Final = 0x61786F6E726C  # "axonrl"


def revision(engine: Engine) -> str | None:
    """The version of the database's schema; None if it is empty."""
    with engine.connect() as connection:
        return _revision(connection)


def head() -> str:
    """The version of the schema that this version of axonrl has."""
    return f"{len(MIGRATIONS) + 1:04}"


def is_older(engine: Engine) -> bool:
    """Whether an existing schema must be migrated.

    Raises:
        UnusableError: it was written by a newer version of axonrl.
    """
    return _is_older(engine, revision(engine))


def _is_older(engine: Engine, current: str | None) -> bool:
    if current is not None and current > head():
        shown = engine.url.render_as_string(hide_password=True)
        raise UnusableError(
            f"Database {shown} has schema {current}, from a newer version of axonrl; this one knows schemas up to"
            f" {head()}. Install that version, or restore the copy from before its migration"
        )
    return current not in (None, head())


def upgrade(engine: Engine) -> None:
    """Create the tables, or migrate them to this version, atomically.

    Raises:
        UnusableError: a newer version of axonrl has just migrated them.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        current = _revision(connection)
        if current is None:
            Base.metadata.create_all(connection)
            _VERSION.create(connection)
            connection.execute(_VERSION.insert().values(version_num=head()))
        elif _is_older(engine, current):  # no other process has migrated them meanwhile
            for migrate in MIGRATIONS[int(current) - 1 :]:
                migrate(connection)
            connection.execute(_VERSION.update().values(version_num=head()))


def _revision(connection: Connection) -> str | None:
    there = inspect(connection).has_table(_VERSION.name)
    return connection.execute(select(_VERSION.c.version_num)).scalar() if there else None
