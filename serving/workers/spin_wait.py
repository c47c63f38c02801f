"""Spin briefly before a blocking wait.

A sleeping process takes 30 to 50 microseconds to wake, and the waker pays for a part of that: an act crosses from the
gateway to a worker and back, and itself takes only 30. So both spin for a moment, but only if the last wait was that
short: slow environments and large networks pay nothing. Each iteration yields the processor to others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

LOOK_SECONDS: Final = 0.0003
"""Duration of a spin: a client that acts in a loop asks again within it; a small network answers within it."""
Found = TypeVar("Found")


def look(found: Callable[[], Found]) -> Found:
    """Poll until something is found, or time is up; returns the last result."""
    end = time.monotonic() + LOOK_SECONDS
    while not (there := found()) and time.monotonic() < end:
        os.sched_yield()
    return there


class LoopLooks:
    """Keeps an event loop from sleeping for a moment.

    Args:
        wanted: returns whether to continue.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._end = 0.0
        self._runs = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to spin, or restart the duration."""
        self._end = time.monotonic() + LOOK_SECONDS
        if not self._runs:
            self._runs = True
            loop.call_soon(self._again, loop)

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._runs = self._wanted() and time.monotonic() < self._end
        if self._runs:
            os.sched_yield()
            loop.call_soon(self._again, loop)
