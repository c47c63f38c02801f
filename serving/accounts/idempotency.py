"""Idempotent requests of accounts: stored answers for repeated requests. Agents' steps have their own."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, delete, exc, update

from ...core import checks
from ...core.errors import ArgumentError
from .database import Database
from .errors import RefusedError
from .tables import Clock, IdempotencyKey, now

KEPT: Final = dt.timedelta(hours=24)
_LONGEST: Final = 255


class Remembered(NamedTuple):
    """The first answer. ``status`` None: there is none yet, as the request is in progress or a crash interrupted it."""

    status: int | None
    body: bytes


class Idempotency:
    """The keys of all users.

    Args:
        database: an open database.
        clock: returns the time in UTC.
    """

    def __init__(self, database: Database, *, clock: Clock = now) -> None:
        self._database, self._clock = database, clock

    def begin(self, user_id: str, key: str, digest: str) -> Remembered | None:
        """Register a request before it is carried out.

        Args:
            user_id: the user's id.
            key: 1 to 255 printable ASCII characters.
            digest: a hash of the method, the path and the body. Two words may follow: a process, and its own hash of
                more, compared if both come from one process.

        Returns:
            None if it is new, and registered now; else its answer.

        Raises:
            ArgumentError: the key is invalid.
            RefusedError: ``idempotency_key_reused`` for another request; ``database_unavailable``.
        """
        if not (0 < len(key) <= _LONGEST and key.isascii() and key.isprintable()):
            wanted = f"1 to {_LONGEST} printable ASCII characters"
            raise ArgumentError(
                f"Idempotency-Key must be {wanted}, got {checks.shortened(key)}", "Idempotency-Key", key
            )
        time = self._clock()
        row = IdempotencyKey(user_id=user_id, key=key, digest=digest, status=None, body=b"", created_at=time)
        try:
            with self._database.writing() as session:
                old = IdempotencyKey.created_at < time - KEPT
                session.execute(delete(IdempotencyKey).where(IdempotencyKey.user_id == user_id, old))
                session.add(row)
        except exc.IntegrityError:
            return self._remembered(user_id, key, digest)
        return None

    def finish(self, user_id: str, key: str, status: int, body: bytes) -> None:
        """Store the answer. Never store a body with a secret, such as a new token's."""
        values = {"status": status, "body": body}
        with self._database.writing() as session:
            session.execute(update(IdempotencyKey).where(*_is(user_id, key)).values(**values))

    def forget(self, user_id: str, key: str) -> None:
        """Forget a refused request, which may be made again."""
        with self._database.writing() as session:
            session.execute(delete(IdempotencyKey).where(*_is(user_id, key)))

    def tidy(self) -> None:
        """Delete entries older than 24 hours. A server does so periodically."""
        with self._database.writing() as session:
            session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < self._clock() - KEPT))

    def _remembered(self, user_id: str, key: str, digest: str) -> Remembered | None:
        with self._database.reading() as session:
            row = session.get(IdempotencyKey, (user_id, key))
        if row is None:  # deleted meanwhile, or the user was removed
            raise RefusedError("unavailable", "The same request has just been refused", retry_after=1)
        if not _is_same(row.digest, digest):
            raise RefusedError("idempotency_key_reused", "This Idempotency-Key was used for another request")
        return Remembered(row.status, row.body)


def _is_same(known: str, given: str) -> bool:
    """Whether these may be digests of the same request."""
    (plain, *process), (other, *own) = known.split(), given.split()
    return plain == other and (process == own or process[:1] != own[:1])


def _is(user_id: str, key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return IdempotencyKey.user_id == user_id, IdempotencyKey.key == key
