"""Open a service's data folder and its database, and check that they belong together."""

from __future__ import annotations

import socket
from pathlib import Path

from sqlalchemy import select

from ..refusals import UnusableError
from . import folder as folders
from .database import Database, address, without_password
from .tables import Installation, now
from .tokens import new_id


def open_service(
    folder: Path,
    database: str | None = None,
    *,
    migrate: bool | None = None,
    serving: bool = False,
) -> Database:
    """Open the database of a data folder; both are created if they are missing.

    Args:
        folder: the data folder.
        database: a URL or a path; None for ``service.db`` in the folder.
        migrate: whether to migrate an older schema; None: SQLite yes, PostgreSQL no. Never while a server runs.
        serving: whether this process holds the folder (:func:`folder.holding`).

    Raises:
        UnusableError: folder or database cannot be used, or they do not belong together.
    """
    prepared = folders.prepare(folder)
    where = database or prepared / folders.DATABASE
    with folders.setting_up(prepared):
        running = None if serving else folders.holder(prepared)
        opened = Database.open(where, migrate=False if running else migrate)
        try:
            _bind(opened, prepared, where, serving)
        except BaseException:
            opened.close()
            raise
    return opened


def _bind(database: Database, folder: Path, where: str | Path, serving: bool) -> None:
    """Compare identity.json with the installation; write new ones, the folder's first."""
    known, inside = folders.identity(folder), _is_inside(folder, where)
    with database.writing() as session:
        row = session.scalars(select(Installation).with_for_update()).one_or_none()
        if row is None:
            if known is not None and any((folder / folders.AGENTS).glob("[!.]*")):
                raise UnusableError(
                    f"Database {database.url} is empty, but data folder {folder} has agents of another one. Restore"
                    " the database from a backup, or name the right one with --database"
                )
            row = Installation(id=known or new_id(), created_at=now(), folder=str(folder), host=socket.gethostname())
            session.add(row)
        elif known != row.id and not (known is None and inside):
            raise UnusableError(
                f"Database {database.url} belongs to another data folder, {row.folder} on {row.host}"
                f"{_holder_text(Path(row.folder), row)}. Use --data {row.folder}, or another database"
            )
        elif not inside and row.folder != str(folder):
            _refuse_a_copy(database, folder, row)
        if serving:
            row.folder, row.host = str(folder), socket.gethostname()
        if known is None:
            folders.write_identity(folder, row.id)


def _refuse_a_copy(database: Database, folder: Path, row: Installation) -> None:
    """Refuse a copied folder while a server hosts the original's agents with the same database."""
    other = Path(row.folder)
    holder = folders.holder(other) if row.host == socket.gethostname() else None
    if holder is not None and holder.database == database.url and folders.identity(other) == row.id:
        raise UnusableError(
            f"Database {database.url} is in use by {holder}, with data folder {other}, of which {folder} is a copy."
            " Stop it first, or use another database"
        )


def _holder_text(folder: Path, row: Installation) -> str:
    """The holder of the other folder, if it is visible from here."""
    try:
        holder = folders.holder(folder) if row.host == socket.gethostname() else None
    except OSError:
        return ""
    return "" if holder is None else f", in use by {holder}"


def _is_inside(folder: Path, where: str | Path) -> bool:
    url = address(where)
    return url.get_backend_name() == "sqlite" and Path(str(url.database)).parent.resolve() == folder.resolve()


def database_address(folder: Path, database: str | None) -> str:
    """The database's address without a password, for the record of a folder's holder."""
    return without_password(address(database or folder.expanduser().absolute() / folders.DATABASE))
