"""Limits of recent events, in the memory of one server: of login attempts, and of the gateway's transfers."""

from __future__ import annotations

import collections
import ipaddress
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from ..refusals import RefusedError


class Limit(NamedTuple):
    """A maximum within some seconds, with the name of what it counts."""

    most: int
    seconds: float
    what: str = "logins"


PER_NAME_AND_ADDRESS: Final = Limit(5, 15 * 60, "wrong passwords for this name from this address")
PER_ADDRESS: Final = Limit(20, 60, "wrong passwords from this address")
PER_ACCOUNT: Final = Limit(
    60, 60, "logins of this account: a process needs one, and a program that starts often a token that was made"
)
_MOST_KEYS: Final = 100_000
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
                raise _limited(wait, limit)
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
                raise _limited(wait, PER_ACCOUNT)
            self.count(account, now)


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


def _limited(wait: float, limit: Limit) -> RefusedError:
    seconds, span = max(math.ceil(wait), 1), "a minute" if limit.seconds == 60 else f"{limit.seconds / 60:g} minutes"
    message = f"{limit.most} within {span} are the most {limit.what}. Try again in {seconds} seconds"
    return RefusedError("rate_limited", message, retry_after=seconds)
