"""Token buckets."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Final

from .problems import ProblemError

_FULL_AFTER: Final = 3600.0
"""Seconds after which a bucket that was not used is full, whatever its rate here, and forgotten."""


class Bucket:
    """Tokens that come at a rate, up to a burst. The rate is given with each use: a quota may change meanwhile."""

    __slots__ = ("at", "level")

    def __init__(self, burst: float, now: float) -> None:
        self.level, self.at = burst, now

    def take(self, rate: float, burst: float, now: float) -> float:
        """Take one token.

        Returns:
            0 when there was one; else the seconds until there is one.
        """
        level = self.level + (now - self.at) * rate
        self.at = now
        if level >= 1.0:
            self.level = level - 1.0 if level <= burst else burst - 1.0
            return 0.0
        self.level = level
        return (1.0 - level) / rate

    def owe(self, count: float) -> None:
        """Take what was used already; the level may become negative."""
        self.level -= count


class Buckets:
    """Buckets by key. A rate of 0 switches them off.

    Args:
        what: what is limited, for the message.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._buckets: dict[Hashable, Bucket] = {}
        self._swept = time.monotonic()

    def take(self, key: Hashable, rate: float, burst: float, now: float) -> None:
        """Take one token.

        Args:
            key: whose.
            rate: tokens a second; 0: no limit.
            burst: tokens at most.
            now: ``time.monotonic()``.

        Raises:
            ProblemError: there is none; it says when there will be.
        """
        if not rate:
            return
        bucket = self._buckets.get(key)
        if bucket is None:
            self._sweep(now)
            bucket = self._buckets[key] = Bucket(max(burst, 1.0), now)
        wait = bucket.take(rate, max(burst, 1.0), now)
        if wait:
            raise ProblemError("rate_limited", f"too many {self._what}", retry_after=int(wait) + 1)

    def owe(self, key: Hashable, count: float) -> None:
        """Take what was used already, where there is a bucket."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.owe(count)

    def _sweep(self, now: float) -> None:
        if now - self._swept > _FULL_AFTER:
            self._swept = now
            self._buckets = {key: one for key, one in self._buckets.items() if now - one.at < _FULL_AFTER}
