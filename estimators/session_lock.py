"""The lock that limits an Agent to one session at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class SessionLock:
    """Refuses a second session, and names the thread with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = ""

    def refuse_second(self) -> None:
        """Raise ``ValueError`` while a session is open."""
        if self._lock.locked():
            raise self._error()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the only session within the context; ``ValueError`` if one is open."""
        if not self._lock.acquire(blocking=False):
            raise self._error()
        self._thread = threading.current_thread().name
        try:
            yield
        finally:
            self._lock.release()

    def _error(self) -> ValueError:
        where = f" in thread {self._thread!r}" if self._thread != threading.current_thread().name else ""
        return ValueError(f"this Agent has a session open already{where}: train it in one thread at a time")
