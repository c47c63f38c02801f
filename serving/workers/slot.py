"""A slot of a worker: an agent's requests, the agent itself, and its work in other threads."""

from __future__ import annotations

import collections
import dataclasses
from concurrent.futures import Future
from typing import Final

from ..hosting.agent import HostedAgent
from .messages import Head

ACT: Final = "act"
KEEPS_ORDER: Final = ("step", "steps", "end_episode")
"""Requests that need not wait until accepted records are applied."""


@dataclasses.dataclass
class Slot:
    """An agent's requests, and the agent itself while it is in memory."""

    name: str
    queue: collections.deque[tuple[Head, bytes]] = dataclasses.field(default_factory=collections.deque)
    agent: HostedAgent | None = None
    used: float = 0.0
    is_ready: bool = False
    update: Future[None] | None = None
    """An update in the other thread. Meanwhile nothing uses the agent, except that a relaxed one continues to act."""
    sync: Future[None] | None = None
    """A sync in a separate thread. Meanwhile the agent acts and accepts, but is neither saved nor closed."""
    syncing: list[bytes] = dataclasses.field(default_factory=list)
    """Answers that wait for this sync."""
    waiting: list[bytes] = dataclasses.field(default_factory=list)
    """Answers that wait for the next sync."""

    @property
    def next(self) -> str:
        """The next request; empty: none."""
        return str(self.queue[0][0]["do"]) if self.queue else ""

    @property
    def rests(self) -> bool:
        """Whether nothing is in progress."""
        return not self.queue and not self.waiting and self.update is None and self.sync is None

    @property
    def may_answer(self) -> bool:
        """Whether its next request may be answered, considering updates, and a sync in another thread."""
        if self.next not in (ACT, *KEEPS_ORDER):
            return bool(self.queue) and self.update is None and self.sync is None and not self.waiting
        if self.agent is not None and self.next != ACT and self.agent.is_behind:
            return False
        return self.update is None or (self.agent is not None and self.agent.relaxed)

    @property
    def may_work(self) -> bool:
        """Whether there is something to apply, and no thread is applying it."""
        return self.update is None and self.agent is not None and self.agent.has_work

    @property
    def may_act(self) -> bool:
        """Whether it can act at once, without longer work."""
        if self.agent is None or self.next != ACT:
            return False
        return self.agent.relaxed or not self.agent.has_work
