"""Limits in the memory of one server: of requests and steps, creations and transfers, bodies, login attempts."""

from __future__ import annotations

import collections
import ipaddress
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from .refusals import RefusedError


class Limit(NamedTuple):
    """A maximum within some seconds, with the name of what it counts."""

    most: int
    seconds: float
    what: str = "Logins"


PER_NAME_AND_ADDRESS: Final = Limit(5, 15 * 60, "Wrong passwords for this name from this address")
PER_ADDRESS: Final = Limit(20, 60, "Wrong passwords from this address")
PER_ACCOUNT: Final = Limit(
    60, 60, "Logins of this account (one per process suffices; programs that start often should use a created token)"
)
_MOST_KEYS: Final = 100_000
_FULL_AFTER: Final = 3600.0
"""Seconds after which an unused bucket is full at any rate, and forgotten."""
_OF_ALL, _OF_ONE = 4, 2
"""Maximum total of bodies held at once, in bodies of the largest size; and the same per account, and per address."""
_Key = tuple[str, str, str]
Try = tuple[_Key, ...]
"""Keys that an attempt counts for, while its password may be wrong."""


class RecentEvents:
    """The times of recent events by key, for limits that no interval of their length exceeds.

    Args:
        keep: seconds after which an event may be forgotten, at least those of any limit.
        period: seconds after which old events are forgotten; infinite: only when there are too many keys.
    """

    def __init__(self, keep: float, period: float) -> None:
        self._keep, self._period, self._swept = keep, period, 0.0
        self._times: dict[Hashable, collections.deque[float]] = {}

    def wait(self, key: Hashable, limit: Limit, now: float) -> float:
        """Seconds until one more is allowed; 0: now."""
        if len(self._times) > _MOST_KEYS or now - self._swept > self._period:
            self._sweep(now)
        times = self._times.get(key)
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        if not times:
            self._times.pop(key, None)
            return 0.0
        return times[-limit.most] + limit.seconds - now if len(times) >= limit.most else 0.0

    def count(self, key: Hashable, now: float) -> None:
        """Count one."""
        self._times.setdefault(key, collections.deque()).append(now)

    def _sweep(self, now: float) -> None:
        """Drop expired entries; if there are too many, also the oldest half."""
        is_full, self._swept = len(self._times) > _MOST_KEYS, now
        kept = {key: times for key, times in self._times.items() if times and times[-1] > now - self._keep}
        if is_full and len(kept) > _MOST_KEYS // 2:
            newest = sorted(kept, key=lambda key: kept[key][-1])[-_MOST_KEYS // 2 :]
            kept = {key: kept[key] for key in newest}
        self._times = kept


class Buckets:
    """Token buckets by key. The limit is an argument of each use, as a quota may change meanwhile; 0 is none.

    Args:
        refusal: message where there is no token.
        seconds: the time that limits are for.
        full: seconds after which an empty bucket is full.
    """

    def __init__(self, refusal: str, seconds: float, full: float) -> None:
        self._refusal, self._seconds, self._full = refusal, seconds, full
        self._buckets: dict[Hashable, tuple[float, float]] = {}
        """Tokens in each, and the time of its last use."""
        self._swept = time.monotonic()

    def take(self, key: Hashable, limit: int, now: float) -> None:
        """Take one token; raises RefusedError if there is none, with the time when there will be. 0 is no limit."""
        if not limit:
            return
        bucket, rate = self._buckets.get(key), limit / self._seconds
        most = max(rate * self._full, 1.0)
        if bucket is None:
            self._sweep(now)
        level = most if bucket is None else min(bucket[0] + (now - bucket[1]) * rate, most)
        if level < 1.0:
            self._buckets[key] = level, now
            raise RefusedError("rate_limited", self._refusal, retry_after=int((1.0 - level) / rate) + 1)
        self._buckets[key] = level - 1.0, now

    def owe(self, key: Hashable, count: float) -> None:
        """Take tokens for past use, if there is a bucket; its level may become negative."""
        if (bucket := self._buckets.get(key)) is not None:
            self._buckets[key] = bucket[0] - count, bucket[1]

    def _sweep(self, now: float) -> None:
        if now - self._swept > _FULL_AFTER:
            self._swept = now
            self._buckets = {key: one for key, one in self._buckets.items() if now - one[1] < _FULL_AFTER}


class PerMinute(RecentEvents):
    """A maximum of events within any minute, by key.

    Args:
        refusal: message for one too many.
    """

    def __init__(self, refusal: str) -> None:
        super().__init__(60.0, 60.0)
        self._refusal = refusal

    def take(self, key: Hashable, limit: int, now: float) -> None:
        """Count one; raises RefusedError if the limit was reached in the last minute. 0 is no limit."""
        if not limit:
            return
        if wait := self.wait(key, Limit(limit, 60.0), now):
            raise RefusedError("rate_limited", self._refusal, retry_after=math.ceil(wait))
        self.count(key, now)


class Held:
    """Bytes of bodies and answers held at once: of all requests, and of each account and address.

    Args:
        largest: bytes of the largest one; 0: no limit.
        setting: the setting that says so.
    """

    def __init__(self, largest: int, setting: str) -> None:
        self._largest, self._setting = largest, setting
        self._bytes: collections.Counter[str] = collections.Counter()
        """Bytes held by client; the empty client is all."""

    def add(self, clients: Sequence[str], size: int) -> None:
        """Hold more; raises RefusedError. A client's only one is held in any case."""
        for client in (*clients, ""):
            times, held = _OF_ONE if client else _OF_ALL, self._bytes[client]
            if self._largest and held and held + size > times * self._largest:
                whose = f"this {client.partition(' ')[0]}" if client else "all requests"
                what = f"bodies and answers of {whose} in progress may have {times * self._largest:,} bytes in total"
                how = f"wait for their end, or transfer less at once (that is {times} times {self._setting})"
                raise RefusedError("rate_limited" if client else "unavailable", f"{what}: {how}").closing()
        self._bytes.update(dict.fromkeys((*clients, ""), size))

    def release(self, clients: Sequence[str], size: int) -> None:
        """Hold less."""
        self._bytes -= collections.Counter(dict.fromkeys((*clients, ""), size))

    def __bool__(self) -> bool:
        return self._bytes.total() > 0


class LoginLimits(RecentEvents):
    """Counts wrong passwords by name and address, and by address; and logins by account.

    Only an account's own logins count against it, so nobody can lock another's. An attempt counts as wrong until it has
    succeeded, so that concurrent attempts are no way around. Wrong passwords from an address do not count against an
    account that has logged in from there, except those for it. Attempts by holders of its tokens, to change the
    password, are counted separately.

    Args:
        clock: monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(PER_NAME_AND_ADDRESS.seconds, math.inf)  # who has logged in from where stays known
        self._clock, self._lock = clock, threading.Lock()

    def begin(self, name: str, address: str, *, holder: bool = False) -> Try:
        """Begin an attempt.

        Args:
            name: the account's name.
            address: the caller's address.
            holder: whether the caller has one of the account's tokens.

        Raises:
            RefusedError: ``rate_limited``; the attempt does not count.
        """
        where = network(address)
        with self._lock:
            keys: dict[_Key, Limit] = {("holder" if holder else "name", name, where): PER_NAME_AND_ADDRESS}
            if not holder and ("known", name, where) not in self._times:
                keys["address", "", where] = PER_ADDRESS
            now = self._clock()
            wait, limit = max((self.wait(key, limit, now), limit) for key, limit in keys.items())
            if wait:
                raise _rate_refusal(wait, limit)
            for key in keys:
                self.count(key, now)
        return tuple(keys)

    def undo(self, tried: Try) -> None:
        """Uncount an attempt that was not completed."""
        with self._lock:
            for key in tried:
                if times := self._times.get(key):
                    times.pop()

    def succeeded(self, tried: Try) -> None:
        """Count an attempt with the right password as a login.

        Raises:
            RefusedError: ``rate_limited``: the account has logged in too often.
        """
        self.undo(tried)
        _, name, where = tried[0]
        account = "account", name, ""
        with self._lock:
            now = self._clock()
            self._times["known", name, where] = collections.deque([now])
            if wait := self.wait(account, PER_ACCOUNT, now):
                raise _rate_refusal(wait, PER_ACCOUNT)
            self.count(account, now)


def beyond(quota: str, what: str) -> str:
    """Message for a request beyond a quota: names it, and says how to raise it."""
    raised = f"axonrl service set-quota USER {quota}=NUMBER"
    return f"too many {what}: the account's quota is {quota}, which an administrator raises by {raised}"


def network(address: str) -> str:
    """The network that counts as one address: for IPv6 the /64 of a single customer."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _rate_refusal(wait: float, limit: Limit) -> RefusedError:
    seconds, span = max(math.ceil(wait), 1), "a minute" if limit.seconds == 60 else f"{limit.seconds / 60:g} minutes"
    message = f"{limit.what}: at most {limit.most} within {span}. Try again in {seconds} seconds"
    return RefusedError("rate_limited", message, retry_after=seconds)
