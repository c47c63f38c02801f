"""Check tokens in memory; the database is queried in the background."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import hashlib
import time
from collections.abc import Callable
from typing import Final

from ..accounts import Accounts, Grant
from ..accounts.grants import WEB
from ..refusals import RefusedError
from .threads import Threads

SEEN_LATELY: Final = 300.0
"""Seconds for which a used token stays valid while the database is down."""


@dataclasses.dataclass(slots=True)
class Held:
    """A token in memory: when it ends, when it was last seen, and whether it was used here."""

    grant: Grant
    ends: float
    seen: float
    used: bool = False


class Tokens:
    """The active tokens.

    Args:
        accounts: source of the tokens.
        threads: threads for the database.
    """

    def __init__(self, accounts: Accounts, threads: Threads) -> None:
        self._accounts, self._threads = accounts, threads
        self._held: dict[str, Held] = {}
        self._expired: dict[str, str] = {}
        self._refreshing = asyncio.Lock()
        self.fresh = False
        """Whether the last refresh succeeded."""

    def held(self, authorization: bytes | None) -> Held:
        """The token of an ``Authorization`` header.

        Raises:
            RefusedError: there is none, or it is not valid.
        """
        if authorization is None:
            raise RefusedError("missing_token", "this needs a token: Authorization: Bearer ...")
        if authorization[:7].lower() != b"bearer ":
            raise RefusedError("invalid_token", "Authorization must be Bearer and a token")
        return self._check_token(authorization[7:].strip(), web=False)

    def web(self, cookie: bytes) -> Held:
        """The web page's login of a cookie; raises like :meth:`held`."""
        return self._check_token(cookie, web=True)

    def _check_token(self, text: bytes, *, web: bool) -> Held:
        digest = hashlib.sha256(text).hexdigest()
        held = self._held.get(digest)
        kind = self._expired.get(digest) if held is None else held.grant.kind
        if kind is None or (kind == WEB) is not web:
            if not self.fresh:
                raise RefusedError("database_unavailable", "tokens cannot be checked while the database is down")
            raise RefusedError("invalid_token", "the token is not valid: it may have been revoked")
        now = time.time()
        if held is None or now >= held.ends:
            raise RefusedError("token_expired", "the token has expired")
        if not self.fresh and now - held.seen > SEEN_LATELY:
            raise RefusedError("database_unavailable", "the token cannot be checked while the database is down")
        held.seen, held.used = now, True
        return held

    async def refresh(self) -> None:
        """Load the current tokens from the database, sequentially: an older answer never replaces a newer one.

        Raises:
            RefusedError: the database is down.
        """
        async with self._refreshing:
            times = {digest: held.seen for digest, held in self._held.items() if held.used}
            used = {digest: dt.datetime.fromtimestamp(time, dt.timezone.utc) for digest, time in times.items()}
            try:
                if used:
                    await self._threads.call(self._accounts.used, used)
                grants = await self._threads.call(self._accounts.active_tokens)
                # Read after the valid ones: a token that expires between the two is in at least one.
                self._expired = await self._threads.call(self._accounts.expired_tokens)
            except Exception:
                self.fresh = False
                raise
            before, self._held = self._held, {}
            for digest, grant in grants.items():
                ends = grant.expires_at if grant.idle_until is None else min(grant.expires_at, grant.idle_until)
                held = before.get(digest)
                seen = 0.0 if held is None else held.seen
                again = held is not None and held.used and seen != times.get(digest)  # meanwhile
                self._held[digest] = Held(grant, ends.timestamp(), seen, again)
            self.fresh = True

    async def follow(self, ended: Callable[[Grant], bool] = lambda _: False) -> None:
        """Refresh after a change of tokens or users, which is done: that this fails is not said of the change.

        Args:
            ended: whether the change may have ended a token; if the refresh fails, it is unknown until the next one.
        """
        try:
            await self.refresh()
        except RefusedError:
            self._held = {digest: held for digest, held in self._held.items() if not ended(held.grant)}
