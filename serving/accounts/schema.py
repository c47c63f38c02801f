"""The schema of a database: creation, and migration from older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from ..refusals import UnusableError
from .tables import Base

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE: Final = "axonrl_service_version"
"""Table of the revision. Not Alembic's default, which another program may use in the same PostgreSQL database."""
_ADVISORY_LOCK: Final = 0x61786F6E726C  # "axonrl"


def revision(engine: Engine) -> str | None:
    """The revision of the database; None if it is empty."""
    with engine.connect() as connection:
        return _context(connection).get_current_revision()


def head() -> str:
    """The revision of this version of axonrl."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def is_older(engine: Engine) -> bool:
    """Whether an existing schema must be migrated.

    Raises:
        UnusableError: it was written by a newer version of axonrl.
    """
    current = revision(engine)
    script = ScriptDirectory.from_config(_config())
    if current is not None and current not in {one.revision for one in script.walk_revisions()}:
        shown = engine.url.render_as_string(hide_password=True)
        raise UnusableError(
            f"Database {shown} has schema {current}, from a newer version of axonrl; this one knows schemas up to"
            f" {script.get_current_head()}. Install that version, or restore the copy from before its migration"
        )
    return current not in (None, script.get_current_head())


def upgrade(engine: Engine) -> None:
    """Create the tables, or migrate them to this version, atomically."""
    config = _config()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        config.attributes["options"] = {
            "connection": connection,
            "version_table": _VERSION_TABLE,
            "transactional_ddl": True,
            "render_as_batch": True,
        }
        if _context(connection).get_current_revision() is None:
            Base.metadata.create_all(connection)
            command.stamp(config, "head")
        else:
            command.upgrade(config, "head")


def _context(connection: Connection) -> MigrationContext:
    options: dict[str, Any] = {"version_table": _VERSION_TABLE}
    return MigrationContext.configure(connection, opts=options)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
