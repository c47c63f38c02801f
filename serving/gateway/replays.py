"""`Idempotency-Key` for an account: the first answer again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from .gateway import Gateway
from .problems import ProblemError

_SECRETS: Final = ("password", "current", "new", "token")
"""Fields that are never stored: neither in plain digests of requests, as a fast hash of a password invites guessing,
nor in answers."""
_PROCESS, _KEY = secrets.token_hex(4), secrets.token_bytes(32)
"""Id of this process, and a key that only it has. A digest with the key may include secrets: nobody else can try
passwords against it. Another process, or this one after a restart, cannot compare such a digest, and uses the plain
one."""


class Answered(NamedTuple):
    """A route's answer."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


async def once(
    gateway: Gateway, user: str, key: str, request: bytes, body: bytes, run: Callable[[], Awaitable[Answered]]
) -> Answered:
    """Answer a request once: carry it out if it is the first with its key, else return the first answer.

    Args:
        gateway: shared by all routes.
        user: the account's id.
        key: the request's idempotency key.
        request: its method and path.
        body: its body.
        run: carries it out.

    Raises:
        ProblemError: another request had this key, or the first one is still in progress.
    """
    digest = _digest(request, body)
    idempotency, call = gateway.idempotency, gateway.threads.call
    known = await call(idempotency.begin, user, key, digest)
    if known is not None and known.status is None and (user, key) in gateway.under_way:
        raise ProblemError("unavailable", "the first request with this Idempotency-Key is still under way")
    if known is not None and known.status is not None:
        headers = [(b"content-type", b"application/json"), (b"idempotent-replayed", b"true")]
        return Answered(known.status, known.body, headers)
    gateway.under_way.add((user, key))  # neither answered nor in here: its server has crashed
    try:
        answered = await run()
        if answered.status < 400:
            with contextlib.suppress(ProblemError):  # the request is done in any case
                kept = _bytes_without_secrets(answered.body)
                await call(idempotency.finish, user, key, answered.status, kept)
            return answered
    except BaseException:
        await asyncio.shield(call(idempotency.forget, user, key))
        raise
    finally:
        gateway.under_way.discard((user, key))
    await call(idempotency.forget, user, key)  # refusals are not stored
    return answered


def _digest(request: bytes, body: bytes) -> str:
    """SHA-256 of a request without secrets; with secrets, followed by a keyed digest of the whole."""
    public, head = _bytes_without_secrets(body), request + b"\0"
    plain = hashlib.sha256(head + public).hexdigest()
    return plain if public is body else f"{plain} {_PROCESS} {hmac.digest(_KEY, head + body, 'sha256').hex()}"


def _bytes_without_secrets(body: bytes) -> bytes:
    if not any(f'"{name}"'.encode() in body for name in _SECRETS):
        return body
    try:
        content: Any = json.loads(body)
    except ValueError:
        return body
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name not in _SECRETS}
    return json.dumps(content).encode()
