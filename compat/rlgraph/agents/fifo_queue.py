"""Unrolls, as :class:`IMPALAAgent` documents them, and the queue between actors and a learner in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ....core.protocols import State
from ..spaces import Space
from ..utils.rlgraph_errors import refuse
from .rows import stack_rows

Unroll: TypeAlias = "dict[str, Any]"
"""Arrays by name; states nested as their space, internals as a tuple."""
STATES: Final = "states"
INTERNALS: Final = "initial_internal_states"


class FIFOQueue:
    """First-in, first-out queue of unrolls. Agents fill and empty it; it never blocks.

    Args:
        capacity: most unrolls it can hold.
        states: the space of their states.
        layout: description of the unrolls of its agents.

    Attributes:
        unrolls: its unrolls, oldest first.
    """

    def __init__(self, capacity: int, states: Space, layout: Mapping[str, Any]) -> None:
        self.capacity = capacity
        self.unrolls: list[Unroll] = []
        self.states, self._layout = states, layout

    def __len__(self) -> int:
        return len(self.unrolls)

    def check(self, where: str, layout: Mapping[str, Any]) -> None:
        """Refuse an agent whose unrolls differ from those of the queue's other agents.

        Args:
            where: the agent's argument, for messages.
            layout: description of the agent's unrolls.

        Raises:
            RLGraphError: they differ; the message names the first difference.
        """
        for name, own in layout.items():
            if self._layout[name] != own:
                problem = f"holds unrolls whose {name} is {self._layout[name]!r}; this agent's is {own!r}"
                refuse(where, problem, own)

    def check_room(self, where: str, count: int) -> None:
        """Raise RLGraphError unless there is room for this many more unrolls."""
        if len(self) + count > self.capacity:
            problem = (
                f"is full: it holds {len(self)} of at most {self.capacity} unrolls and cannot take {count} more:"
                " let a learner update, or give fifo_queue_spec a larger capacity"
            )
            refuse(f"{where}: fifo_queue", problem, len(self))

    def take(self, count: int) -> Unroll:
        """Remove the oldest unrolls; returns them as one dictionary of arrays [B, ...]. The queue must hold enough."""
        taken, self.unrolls = self.unrolls[:count], self.unrolls[count:]
        return self._nest(stack_rows([self._flat(unroll) for unroll in taken]))

    def state_dict(self) -> State:
        """The unrolls by position in the queue."""
        return {str(index): self._flat(unroll) for index, unroll in enumerate(self.unrolls)}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.unrolls = [self._nest(state[str(index)]) for index in range(len(state))]

    def _flat(self, unroll: Unroll) -> Unroll:
        """Nested mappings of arrays."""
        internals = {str(number): part for number, part in enumerate(unroll[INTERNALS])}
        return {**unroll, STATES: self.states.flatten(unroll[STATES]), INTERNALS: internals}

    def _nest(self, flat: Mapping[str, Any]) -> Unroll:
        internals = tuple(flat[INTERNALS][number] for number in sorted(flat[INTERNALS]))
        return {**flat, STATES: self.states.unflatten(flat[STATES]), INTERNALS: internals}
