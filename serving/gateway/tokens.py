"""Tokens are checked in memory; the database is asked beside the requests."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Final

from .logs import LOGGER
from .ports import Accounts, Grant
from .problems import ProblemError
from .threads import Threads

REFRESH: Final = 5.0
"""Seconds from one refresh to the next."""
SEEN_LATELY: Final = 300.0
"""Seconds for which a token that was used goes on while the database is down."""
SCOPES: Final = ("read", "act", "learn", "manage", "metrics", "admin")


class Held:
    """A token in memory."""

    __slots__ = ("ends", "grant", "seen", "used")

    def __init__(self, grant: Grant, ends: float, seen: float) -> None:
        self.grant, self.ends = grant, ends
        self.seen = seen
        self.used = False


class Tokens:
    """The active tokens.

    Args:
        accounts: where they come from.
        threads: for the database.
    """

    def __init__(self, accounts: Accounts, threads: Threads) -> None:
        self._accounts, self._threads = accounts, threads
        self._held: dict[str, Held] = {}
        self._refreshing = asyncio.Lock()
        self.fresh = False
        """The last refresh succeeded."""

    def held(self, authorization: bytes | None) -> Held:
        """The token of an ``Authorization`` header.

        Raises:
            ProblemError: there is none, or it is not valid.
        """
        if authorization is None:
            raise ProblemError("missing_token", "this needs a token: Authorization: Bearer ...")
        if authorization[:7].lower() != b"bearer ":
            raise ProblemError("invalid_token", "Authorization must be Bearer and a token")
        held = self._held.get(hashlib.sha256(authorization[7:].strip()).hexdigest())
        if held is None:
            if not self.fresh:
                raise ProblemError("database_unavailable", "tokens cannot be checked while the database is down")
            raise ProblemError("invalid_token", "the token is not valid: it may have been revoked")
        now = time.time()
        if now >= held.ends:
            raise ProblemError("token_expired", "the token has expired")
        if not self.fresh and now - held.seen > SEEN_LATELY:
            raise ProblemError("database_unavailable", "the token cannot be checked while the database is down")
        held.seen, held.used = now, True
        return held

    async def refresh(self) -> None:
        """Take over what the database has now. Refreshes follow each other: an older answer never replaces a newer.

        Raises:
            ProblemError: the database is down.
        """
        async with self._refreshing:
            used = [held.grant.token_id for held in self._held.values() if held.used]
            try:
                if used:
                    await self._threads.call(self._accounts.mark_used, used)
                grants = await self._threads.call(self._accounts.active_tokens)
            except Exception:
                self.fresh = False
                raise
            before, self._held = self._held, {}
            for digest, grant in grants.items():
                old = before.get(digest)
                ends = grant.expires_at.timestamp() if grant.expires_at is not None else float("inf")
                self._held[digest] = Held(grant, ends, old.seen if old is not None else 0.0)
            self.fresh = True

    async def keep_fresh(self) -> None:
        """Refresh until cancelled."""
        while True:
            await asyncio.sleep(REFRESH)
            try:
                await self.refresh()
            except ProblemError as problem:
                LOGGER.warning("tokens could not be refreshed: %s", problem.detail)
            except Exception:
                LOGGER.exception("tokens could not be refreshed")

    def drop(self, token_id: str) -> None:
        """Forget a token at once, before the database is asked again."""
        self._held = {digest: held for digest, held in self._held.items() if held.grant.token_id != token_id}
