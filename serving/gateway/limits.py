"""Limits: token buckets, and counts of the last minute."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import Final

from ..accounts.limits import Limit, RecentEvents
from ..refusals import RefusedError

_FULL_AFTER: Final = 3600.0
"""Seconds after which an unused bucket is full at any rate, and forgotten."""
_MINUTE: Final = 60.0


def beyond(quota: str, what: str) -> str:
    """Message for a request beyond a quota: names it, and says how to raise it."""
    raised = f"axonrl service set-quota USER {quota}=NUMBER"
    return f"too many {what}: the account's quota is {quota}, which an administrator raises by {raised}"


class Bucket:
    """A token bucket. The rate is an argument of each use, as a quota may change meanwhile."""

    __slots__ = ("at", "level")

    def __init__(self, burst: float, now: float) -> None:
        self.level, self.at = burst, now

    def take(self, rate: float, burst: float, now: float) -> float:
        """Take one token.

        Returns:
            0 if there was one; else the seconds until there is one.
        """
        level = self.level + (now - self.at) * rate
        self.at = now
        if level >= 1.0:
            self.level = level - 1.0 if level <= burst else burst - 1.0
            return 0.0
        self.level = level
        return (1.0 - level) / rate

    def owe(self, count: float) -> None:
        """Take tokens for past use; the level may become negative."""
        self.level -= count


class Buckets:
    """Buckets by key. A rate of 0 disables them.

    Args:
        refusal: message where there is no token.
    """

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self._buckets: dict[Hashable, Bucket] = {}
        self._swept = time.monotonic()

    def take(self, key: Hashable, rate: float, burst: float, now: float) -> None:
        """Take one token.

        Args:
            key: key of the bucket.
            rate: tokens per second; 0: no limit.
            burst: maximum of tokens.
            now: ``time.monotonic()``.

        Raises:
            RefusedError: there is none; says when there will be.
        """
        if not rate:
            return
        bucket = self._buckets.get(key)
        if bucket is None:
            self._sweep(now)
            bucket = self._buckets[key] = Bucket(max(burst, 1.0), now)
        wait = bucket.take(rate, max(burst, 1.0), now)
        if wait:
            raise RefusedError("rate_limited", self._refusal, retry_after=int(wait) + 1)

    def owe(self, key: Hashable, count: float) -> None:
        """Take tokens for past use, if there is a bucket."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.owe(count)

    def _sweep(self, now: float) -> None:
        if now - self._swept > _FULL_AFTER:
            self._swept = now
            self._buckets = {key: one for key, one in self._buckets.items() if now - one.at < _FULL_AFTER}


class PerMinute:
    """A maximum of events within any minute, by key.

    Args:
        refusal: message for one too many.
    """

    def __init__(self, refusal: str) -> None:
        self._refusal, self._events = refusal, RecentEvents(_MINUTE, _MINUTE)

    def take(self, key: Hashable, most: int, now: float) -> None:
        """Count one.

        Args:
            key: key of the events.
            most: maximum within a minute; 0: no limit.
            now: ``time.monotonic()``.

        Raises:
            RefusedError: the maximum was reached in the last minute; says when one more is allowed.
        """
        if not most:
            return
        wait = self._events.wait(key, Limit(most, _MINUTE), now)
        if wait:
            raise RefusedError("rate_limited", self._refusal, retry_after=math.ceil(wait))
        self._events.count(key, now)
