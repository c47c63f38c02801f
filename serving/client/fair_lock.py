"""A first-come, first-served lock."""

from __future__ import annotations

import collections
import threading
from types import TracebackType


class Turns:
    """A fair lock: ``threading.Lock`` guarantees no order. Not reentrant."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: collections.deque[threading.Lock] = collections.deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            mine.acquire()  # released by the previous holder
        except BaseException:  # interrupted while waiting
            with self._guard:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    raise
            self._next()  # it was handed over meanwhile
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._next()

    def _next(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
