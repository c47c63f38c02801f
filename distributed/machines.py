"""Virtual time, and machines whose jobs share processors; for the simulation."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Any


class Clock:
    """Runs events in order of virtual time, in seconds; ties in order of creation."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()

    def at(self, when: float, event: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call."""
        heapq.heappush(self._events, (when, next(self._order), event, arguments))

    def run(self, until: float) -> None:
        """Run all events due until ``until``, including those they create."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event, arguments = heapq.heappop(self._events)
            event(*arguments)
        self.now = until


class Machine:
    """Processors shared equally by all running jobs: more jobs than processors slow each other down.

    Args:
        clock: the simulation's clock.
        cores: processors; ``math.inf`` for one per job.
        shared: a processor's relative speed while others are busy, since they share caches.
    """

    def __init__(self, clock: Clock, cores: float = math.inf, shared: float = 1.0) -> None:
        self._clock, self._cores, self._shared = clock, cores, shared
        self._jobs: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._done = 0.0
        """Seconds of work received by a job that has run from the beginning."""
        self._at = 0.0
        self._plan = 0

    def work(self, seconds: float, then: Callable[[], None]) -> None:
        """Start a job of this many processor seconds; call ``then`` when it is done."""
        self._pass()
        heapq.heappush(self._jobs, (self._done + seconds, next(self._order), then))
        self._expect()

    def _rate(self) -> float:
        jobs = len(self._jobs)
        return min(1.0, self._cores / jobs) * (1.0 if jobs == 1 else self._shared)

    def _pass(self) -> None:
        if self._jobs:
            self._done += (self._clock.now - self._at) * self._rate()
        self._at = self._clock.now

    def _expect(self) -> None:
        """Schedule the next end of a job; cancels the previous one."""
        self._plan += 1
        if self._jobs:
            wait = max(self._jobs[0][0] - self._done, 0.0) / self._rate()
            self._clock.at(self._clock.now + wait, self._end, self._plan)

    def _end(self, plan: int) -> None:
        if plan != self._plan:
            return
        self._pass()
        done, _, then = heapq.heappop(self._jobs)
        self._done = max(self._done, done)
        self._expect()
        then()


class Thread:
    """Jobs of a machine, one after the other.

    Args:
        machine: where the jobs run.
        clock: the simulation's clock.
        since: when :attr:`busy` starts to count.
    """

    def __init__(self, machine: Machine, clock: Clock, since: float = 0.0) -> None:
        self._machine, self._clock, self._since = machine, clock, since
        self._waiting: deque[tuple[Callable[[], tuple[float, float]], Callable[[], None]]] = deque()
        self._running = False
        self.busy = 0.0
        """Seconds with a job, waiting for a processor included."""

    def work(self, begin: Callable[[], tuple[float, float]], then: Callable[[], None]) -> None:
        """Queue a job.

        Args:
            begin: is called when the job starts; returns seconds of waiting, without a processor, and of work.
            then: called when it ends.
        """
        self._waiting.append((begin, then))
        if not self._running:
            self._next()

    def _next(self) -> None:
        begin, then = self._waiting.popleft()
        self._running = True
        wait, seconds = begin()
        if wait > 0:
            self._clock.at(self._clock.now + wait, self._start, seconds, then)
        else:
            self._start(seconds, then)

    def _start(self, seconds: float, then: Callable[[], None]) -> None:
        began = self._clock.now

        def done() -> None:
            self.busy += max(self._clock.now - max(began, self._since), 0.0)
            self._running = False
            then()
            if self._waiting and not self._running:
                self._next()

        self._machine.work(seconds, done)
