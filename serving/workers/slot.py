"""A slot of a worker: an agent's requests, the agent itself, and what runs of it in other threads."""

from __future__ import annotations

import collections
import dataclasses
from concurrent.futures import Future
from typing import Final

from ..hosting.agent import HostedAgent
from .messages import Head

ACT: Final = "act"
KEEPS_ORDER: Final = ("step", "steps", "end_episode")
"""Requests that need not wait until what was accepted before is applied."""


@dataclasses.dataclass
class Slot:
    """An agent's requests, and the agent itself while it is in memory."""

    name: str
    queue: collections.deque[tuple[Head, bytes]] = dataclasses.field(default_factory=collections.deque)
    agent: HostedAgent | None = None
    used: float = 0.0
    is_ready: bool = False
    update: Future[None] | None = None
    """An update that runs in the other thread. Nobody touches the agent meanwhile, but a relaxed one goes on acting."""
    sync: Future[None] | None = None
    """A sync that runs in a thread of its own. Meanwhile the agent acts and accepts; it is neither saved nor closed."""
    syncing: list[bytes] = dataclasses.field(default_factory=list)
    """Answers that wait for it."""
    waiting: list[bytes] = dataclasses.field(default_factory=list)
    """Answers that wait for the one after it."""

    @property
    def next(self) -> str:
        """What it is asked next; empty: nothing."""
        return str(self.queue[0][0]["do"]) if self.queue else ""

    @property
    def rests(self) -> bool:
        """Is nothing of it under way?"""
        return not self.queue and not self.waiting and self.update is None and self.sync is None

    @property
    def may_answer(self) -> bool:
        """May its next request be answered, although an update or a sync may run in another thread?"""
        if self.next not in (ACT, *KEEPS_ORDER):
            return bool(self.queue) and self.update is None and self.sync is None and not self.waiting
        return self.update is None or (self.agent is not None and self.agent.relaxed)

    @property
    def may_work(self) -> bool:
        """Is there something to be applied, and nobody at it?"""
        return self.update is None and self.agent is not None and self.agent.has_work

    @property
    def may_act(self) -> bool:
        """Could it act, without anything that takes longer?"""
        if self.agent is None or self.next != ACT:
            return False
        return self.agent.relaxed or not self.agent.has_work
