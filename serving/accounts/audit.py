"""Audit log: a table, and an append-only file of JSON lines."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ...run_dir.files import replacing, write_file
from ..refusals import UNAVAILABLE, RefusedError
from .database import Database
from .tables import AuditEntry, Clock, now

FILE: Final = "audit.jsonl"
KEPT: Final = dt.timedelta(days=400)
OK: Final = "ok"
_LONGEST: Final = 200
_logger: Final = logging.getLogger("axonrl.serving.audit")


@dataclasses.dataclass(frozen=True)
class By:
    """The caller: name, address and request."""

    who: str = "service"
    address: str = ""
    request_id: str = ""


SERVICE: Final = By()
"""The service itself."""


class Audit:
    """Writes and reads the audit log.

    Args:
        database: database with the table.
        folder: the data folder, for the file; None for the table alone.
        clock: returns the time in UTC.
    """

    def __init__(self, database: Database, folder: Path | None = None, *, clock: Clock = now) -> None:
        self._database, self._clock = database, clock
        self._path = None if folder is None else folder / FILE

    @contextlib.contextmanager
    def recorded(self, what: str, by: By, target: str = "", **detail: Any) -> Iterator[Session]:
        """A writing transaction together with its entry: both are kept or neither. A refusal is also an entry."""
        try:
            with self._database.writing() as session:
                yield session
                entry = self._entry(what, by, target, OK, detail)
                session.add(entry)
        except RefusedError as error:
            if error.code == UNAVAILABLE:  # another attempt would take as long
                self._append(self._entry(what, by, target, error.code, detail))
            else:
                with contextlib.suppress(RefusedError):
                    self.write(what, by, target, error.code, **detail)
            raise
        self._append(entry)

    def write(self, what: str, by: By = SERVICE, target: str = "", outcome: str = OK, **detail: Any) -> None:
        """Write an entry about something outside this database. The file gets it even if the database is down.

        Args:
            what: ``"login"``, ``"state.read"``, ...
            by: the caller.
            target: the user, agent or token concerned.
            outcome: ``"ok"``, or the code of a refusal.
            detail: JSON values; never a secret.

        Raises:
            RefusedError: ``database_unavailable``.
        """
        entry = self._entry(what, by, target, outcome, detail)
        self._append(entry)
        with self._database.writing() as session:
            session.add(entry)

    def entries(self, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """The newest entries, newest first; ``before``: last ``id`` of the previous page."""
        query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
        return self._database.all(query if before is None else query.where(AuditEntry.id < before))

    def prune(self) -> None:
        """Delete entries older than 400 days, here and in the file."""
        oldest = self._clock() - KEPT
        self._database.write(delete(AuditEntry).where(AuditEntry.time < oldest))
        if self._path is None or not self._path.exists():
            return
        with _appending(self._path):
            lines = self._path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not _is_older(line, oldest)]
            if len(kept) < len(lines):
                with replacing(self._path) as temporary:  # writers waiting for the old file's lock open the new one
                    temporary.touch(0o600)
                    write_file(temporary, kept)

    def _entry(self, what: str, by: By, target: str, outcome: str, detail: dict[str, Any]) -> AuditEntry:
        texts = {"who": by.who, "address": by.address, "what": what, "target": target, "request_id": by.request_id}
        kept = {name: value for name, value in detail.items() if value is not None}
        clean = {name: _clean(value) for name, value in texts.items()}
        return AuditEntry(time=self._clock(), outcome=outcome, detail=kept, **clean)

    def _append(self, entry: AuditEntry) -> None:
        """Append to the file. A failure is only logged, as the entry is in the table."""
        if self._path is None:
            return
        try:
            with _appending(self._path) as file:
                file.write(json.dumps(to_json(entry), ensure_ascii=False).encode("utf-8", "replace") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _logger.error("%s cannot be written: %s", self._path, error.strerror)


class Records:
    """Base of what reads and writes tables.

    Args:
        database: an open database; while it is down, every method raises RefusedError ``database_unavailable``.
        audit: records changes; None for the table alone.
        clock: returns the time in UTC.
    """

    def __init__(self, database: Database, *, audit: Audit | None = None, clock: Clock = now) -> None:
        self._database, self._clock = database, clock
        self._audit = audit or Audit(database, clock=clock)


def to_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry as a JSON value. Without its number, which only the table has."""
    names = ("who", "address", "what", "target", "outcome", "request_id", "detail")
    return {"time": entry.time.isoformat(), **{name: getattr(entry, name) for name in names}}


def _clean(text: str) -> str:
    """Text of one line that every database accepts: it may come from a request."""
    printable = "".join(one if one.isprintable() else "?" for one in text[: _LONGEST + 1])
    return printable if len(printable) <= _LONGEST else f"{printable[: _LONGEST - 3]}..."


@contextlib.contextmanager
def _appending(path: Path) -> Iterator[BinaryIO]:
    """Open the file for one writer at a time: a server and commands write into it."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, path):  # otherwise it was replaced meanwhile
                yield file
                return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _is_older(line: bytes, oldest: dt.datetime) -> bool:
    try:
        return dt.datetime.fromisoformat(json.loads(line)["time"]) < oldest
    except (ValueError, KeyError, TypeError):
        return False
