"""Idempotent requests of accounts: stored answers for repeated requests. Agents' steps have their own."""

from __future__ import annotations

import datetime as dt
import json
import secrets
from typing import Any, Final, NamedTuple

from pydantic_core import from_json
from sqlalchemy import ColumnElement, delete, exc, select, update

from ..idempotency import digest, reused_key
from ..refusals import RefusedError
from .audit import Records
from .tables import IdempotencyKey

KEPT: Final = dt.timedelta(hours=24)
_SECRETS: Final = ("password", "current", "new", "token")
"""Fields that are never stored: neither in plain digests of requests, as a fast hash of a password invites guessing,
nor in answers."""
_PROCESS, _KEY = secrets.token_hex(4), secrets.token_bytes(32)
"""Id of this process, and a key that only it has. Another process, or this one after a restart, cannot compare a digest
with the key, and uses the plain one."""


class Remembered(NamedTuple):
    """The first answer. ``status`` None: there is none yet, as the request is in progress or a crash interrupted it."""

    status: int | None
    body: bytes


class Idempotency(Records):
    """The keys of all users."""

    def begin(self, user_id: str, key: str, digest: str) -> Remembered | None:
        """Register a request before it is carried out.

        Args:
            user_id: the user's id.
            key: the request's key.
            digest: digest of the request, from :func:`request_digest`.

        Returns:
            None if it is new, and registered now; else its answer.

        Raises:
            RefusedError: ``idempotency_key_reused`` for another request.
        """
        time = self._clock()
        row = IdempotencyKey(user_id=user_id, key=key, digest=digest, status=None, body=b"", created_at=time)
        try:
            with self._database.writing() as session:
                old = IdempotencyKey.created_at < time - KEPT
                session.execute(delete(IdempotencyKey).where(IdempotencyKey.user_id == user_id, old))
                session.add(row)
            return None
        except exc.IntegrityError:
            known = self._database.first(select(IdempotencyKey).where(*_is(user_id, key)))
        if known is None:  # deleted meanwhile, or the user was removed
            raise RefusedError("unavailable", "The same request has just been refused", retry_after=1)
        if not _is_same(known.digest, digest):
            raise reused_key()
        return Remembered(known.status, known.body)

    def finish(self, user_id: str, key: str, status: int, body: bytes) -> None:
        """Store the answer. Never store a body with a secret, such as a new token's."""
        self._database.write(update(IdempotencyKey).where(*_is(user_id, key)).values(status=status, body=body))

    def forget(self, user_id: str, key: str) -> None:
        """Forget a refused request, which may be made again."""
        self._database.write(delete(IdempotencyKey).where(*_is(user_id, key)))

    def tidy(self) -> None:
        """Delete entries older than 24 hours. A server does so periodically."""
        self._database.write(delete(IdempotencyKey).where(IdempotencyKey.created_at < self._clock() - KEPT))


def request_digest(request: bytes, body: bytes) -> str:
    """Digest of a request (method and path) without secrets; with secrets, followed by a keyed one of the whole."""
    public, head = without_secrets(body), request + b"\0"
    plain = digest(head + public).hex()
    return plain if public is body else f"{plain} {_PROCESS} {digest(head + body, _KEY).hex()}"


def without_secrets(body: bytes) -> bytes:
    """A JSON body without fields of secrets."""
    if not any(f'"{name}"'.encode() in body for name in _SECRETS):
        return body
    try:
        content: Any = from_json(body)  # which refuses what is nested too deeply
    except ValueError:
        return body
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name not in _SECRETS}
    return json.dumps(content).encode()


def _is_same(known: str, given: str) -> bool:
    """Whether these may be digests of the same request."""
    (plain, *process), (other, *own) = known.split(), given.split()
    return plain == other and (process == own or process[:1] != own[:1])


def _is(user_id: str, key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return IdempotencyKey.user_id == user_id, IdempotencyKey.key == key
