"""Looking again and again for what comes soon, before sleeping until it is there.

A process that sleeps takes 30 to 50 microseconds to wake, and whoever wakes it pays for a part of that: an act crosses
from the gateway to a worker and back, and takes only 30 itself. So both look for a moment; but only where the last wait
was that short, so that slow environments and large networks cost nothing more. Each look lets others have the processor
who want it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

LOOK_SECONDS: Final = 0.0003
"""A client that acts in a loop asks again within this; a small network answers within it."""
Found = TypeVar("Found")


def look(found: Callable[[], Found]) -> Found:
    """What is found first, or at last nothing (what ``found`` says then)."""
    end = time.monotonic() + LOOK_SECONDS
    while not (there := found()) and time.monotonic() < end:
        os.sched_yield()
    return there


class LoopLooks:
    """Keeps an event loop from sleeping for a moment.

    Args:
        wanted: shall it go on?
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._end = 0.0
        self._runs = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on; a moment that has begun starts anew."""
        self._end = time.monotonic() + LOOK_SECONDS
        if not self._runs:
            self._runs = True
            loop.call_soon(self._again, loop)

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._runs = self._wanted() and time.monotonic() < self._end
        if self._runs:
            os.sched_yield()
            loop.call_soon(self._again, loop)
