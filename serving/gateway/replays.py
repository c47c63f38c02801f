"""`Idempotency-Key` for an account: the first answer again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from .gateway import Gateway
from .incoming import send_answer
from .problems import ProblemError

_SECRETS: Final = ("password", "current", "new", "token")
"""Fields that are kept in no form: not in digests of requests, for a fast hash of a password invites guessing, and not
in answers that are kept."""
_MARK: Final = (b"idempotent-replayed", b"true")

Answered = tuple[int, bytes, list[tuple[bytes, bytes]]]
"""Status, body, headers."""


class Replays:
    """Remembers answers to requests that carried a key.

    Args:
        gateway: what all routes share.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._busy: dict[tuple[str, str], asyncio.Lock] = {}

    async def answer(self, user: str, key: str, request: bytes, body: bytes, run: Callable[[], Awaitable[Answered]]) -> Any:
        """The first answer to a request, which is done if it is the first.

        Args:
            user: the account's id.
            key: of the request.
            request: its method and path.
            body: its body.
            run: does it.

        Returns:
            Status, body, headers.

        Raises:
            ProblemError: another request had this key.
        """
        digest = hashlib.sha256(request + b"\0" + _without_secrets(body)).hexdigest()
        lock = self._busy.setdefault((user, key), asyncio.Lock())
        try:
            async with lock:
                return await self._answer(user, key, digest, run)
        finally:
            if not lock.locked() and not getattr(lock, "_waiters", None):
                self._busy.pop((user, key), None)
