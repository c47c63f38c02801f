"""Limits of login attempts, in the memory of one server."""

from __future__ import annotations

import collections
import ipaddress
import math
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from .errors import RefusedError


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


class LoginLimits:
    """Counts wrong passwords by name and address, and by address; and logins by account.

    Only an account's own logins count against it, so nobody can lock another's. An attempt counts as wrong until it has
    succeeded, so that concurrent attempts are no way around. Wrong passwords from an address do not count against an
    account that has logged in from there, except those for it. Attempts by holders of its tokens, to change the
    password, are counted separately.

    Args:
        clock: monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: dict[_Key, collections.deque[float]] = {}

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
            waits = [(self._wait(key, limit), limit) for key, limit in keys.items()]
            wait, limit = max(waits)
            if wait:
                raise _limited(wait, limit)
            for key in keys:
                self._count(key)
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
            self._times["known", name, where] = collections.deque([self._clock()])
            if wait := self._wait(account, PER_ACCOUNT):
                raise _limited(wait, PER_ACCOUNT)
            self._count(account)

    def _count(self, key: _Key) -> None:
        self._times.setdefault(key, collections.deque()).append(self._clock())

    def _wait(self, key: _Key, limit: Limit) -> float:
        """Seconds until one more is allowed; 0: now."""
        if len(self._times) > _MOST_KEYS:
            self._forget()
        times, now = self._times.get(key), self._clock()
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        if not times:
            self._times.pop(key, None)
            return 0.0
        return times[0] + limit.seconds - now if len(times) >= limit.most else 0.0

    def _forget(self) -> None:
        """Drop expired entries; if that is not enough, the oldest half."""
        oldest = self._clock() - PER_NAME_AND_ADDRESS.seconds
        kept = {key: times for key, times in self._times.items() if times and times[-1] > oldest}
        if len(kept) > _MOST_KEYS // 2:
            newest = sorted(kept, key=lambda key: kept[key][-1])[-_MOST_KEYS // 2 :]
            kept = {key: kept[key] for key in newest}
        self._times = kept


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
