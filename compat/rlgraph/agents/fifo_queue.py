"""The queue between actors and a learner of one process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ..utils.rlgraph_errors import refuse
from .unrolls import Unroll


class FIFOQueue:
    """Unrolls in the order in which they came. Agents fill and empty it; it never blocks.

    Args:
        capacity: the most that it holds.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._unrolls: deque[Unroll] = deque()
        self.layout: dict[str, Any] | None = None
        """What the unrolls of its agents are like; None before there is one."""

    def __len__(self) -> int:
        return len(self._unrolls)

    def check(self, where: str, layout: Mapping[str, Any]) -> None:
        """Refuse an agent whose unrolls are other ones than those of the queue's agents before.

        Args:
            where: the agent's argument, for messages.
            layout: what its unrolls are like.

        Raises:
            RLGraphError: they differ; the message has the first difference.
        """
        for name, own in layout.items():
            if self.layout is not None and self.layout[name] != own:
                problem = f"is a queue of unrolls whose {name} is {self.layout[name]!r}; this agent's is {own!r}"
                refuse(where, problem, own)

    def put(self, where: str, unrolls: Sequence[Unroll]) -> None:
        """Add them at the end; RLGraphError if there is no room for all, and none is added then."""
        self.check_room(where, len(unrolls))
        self._unrolls.extend(unrolls)

    def check_room(self, where: str, count: int) -> None:
        """RLGraphError unless there is room for so many unrolls more."""
        if len(self) + count > self.capacity:
            problem = (
                f"is full: it holds {len(self)} of at most {self.capacity} unrolls, and {count} more were to come:"
                " let a learner update, or give fifo_queue_spec a larger capacity"
            )
            refuse(f"{where}: fifo_queue", problem, len(self))

    def take(self, count: int) -> list[Unroll]:
        """The first ones, which leave the queue; there must be so many."""
        return [self._unrolls.popleft() for _ in range(count)]

    @property
    def unrolls(self) -> list[Unroll]:
        """What it holds, the oldest first."""
        return list(self._unrolls)

    @unrolls.setter
    def unrolls(self, unrolls: Sequence[Unroll]) -> None:
        self._unrolls = deque(unrolls)
