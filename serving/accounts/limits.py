"""How often logins may be tried. Kept in memory, by one server, and forgotten with it."""

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
    """The most within how many seconds."""

    most: int
    seconds: float


PER_NAME_AND_ADDRESS: Final = Limit(5, 15 * 60)
PER_ADDRESS: Final = Limit(20, 60)
PER_ACCOUNT: Final = Limit(60, 60)
_MOST_KEYS: Final = 100_000
_Key = tuple[str, str, str]


class LoginLimits:
    """Counts failures by name and address, failures by address, and logins by account.

    Only an account's own logins count against it, so nobody can lock another's. A try counts as a failure until it has
    succeeded: many at the same time are no way around.

    Args:
        clock: seconds, which never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: dict[_Key, collections.deque[float]] = {}

    def begin(self, name: str, address: str) -> None:
        """A try begins.

        Raises:
            RefusedError: ``rate_limited``; the try does not count.
        """
        with self._lock:
            keys = self._failures(name, address)
            waits = [self._wait(key, limit) for key, limit in keys.items()]
            if any(waits):
                raise _limited(max(waits))
            for key in keys:
                self._times.setdefault(key, collections.deque()).append(self._clock())

    def undo(self, name: str, address: str) -> None:
        """The try came to nothing: it does not count."""
        with self._lock:
            for key in self._failures(name, address):
                if times := self._times.get(key):
                    times.pop()

    def succeeded(self, name: str, address: str) -> None:
        """It was the right password: the try was no failure, but a login.

        Raises:
            RefusedError: ``rate_limited``: the account has logged in too often.
        """
        self.undo(name, address)
        with self._lock:
            key = ("account", name, "")
            if wait := self._wait(key, PER_ACCOUNT):
                raise _limited(wait)
            self._times.setdefault(key, collections.deque()).append(self._clock())

    def _failures(self, name: str, address: str) -> dict[_Key, Limit]:
        where = network(address)
        return {("name", name, where): PER_NAME_AND_ADDRESS, ("address", "", where): PER_ADDRESS}

    def _wait(self, key: _Key, limit: Limit) -> float:
        """Seconds until one more is allowed; 0 for now."""
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
        """Drop what is too old to matter; if that is not enough, the oldest half."""
        oldest = self._clock() - PER_NAME_AND_ADDRESS.seconds
        kept = {key: times for key, times in self._times.items() if times and times[-1] > oldest}
        if len(kept) > _MOST_KEYS // 2:
            newest = sorted(kept, key=lambda key: kept[key][-1])[-_MOST_KEYS // 2 :]
            kept = {key: kept[key] for key in newest}
        self._times = kept


def network(address: str) -> str:
    """What counts as one address: for IPv6 the /64 that a single customer has."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _limited(wait: float) -> RefusedError:
    seconds = max(math.ceil(wait), 1)
    return RefusedError("rate_limited", f"Too many logins. Try again in {seconds} seconds", retry_after=seconds)
