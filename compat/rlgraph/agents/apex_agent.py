"""ApexAgent."""

from __future__ import annotations

from typing import ClassVar

from .dqn_agent import DQNAgent


class ApexAgent(DQNAgent):
    """DQNAgent with the Huber loss and a prioritized memory; ``sync_interval`` counts the records it has learnt from.

    It takes the arguments of :class:`DQNAgent`.
    """

    kind: ClassVar[str] = "apex"

    @property
    def num_updates(self) -> int:
        """Updates so far."""
        return self.updates
