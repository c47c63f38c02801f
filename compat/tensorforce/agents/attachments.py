"""What goes along with an agent and never changes what it does: recorder, summarizer and saver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .parallel import Timestep

if TYPE_CHECKING:
    from .protocol import ActObserve


class Companion:
    """Is told what happens; each method does nothing unless it is overridden."""

    def begin(self, agent: ActObserve) -> None:
        """The agent is initialized."""

    def acted(self, agent: ActObserve) -> None:
        """An act that an observe follows has been counted."""

    def observed(self, agent: ActObserve, index: int, timestep: Timestep, terminal: int) -> None:
        """A timestep of a parallel index is complete; its episode goes on (0), ended (1) or was aborted (2)."""

    def finished(self, agent: ActObserve, episode_reward: float) -> None:
        """An episode has been counted, whose rewards sum up to this."""

    def updated(self, agent: ActObserve) -> None:
        """An update has been counted."""

    def timestep_done(self, agent: ActObserve) -> None:
        """An observe of one index is done, with its update."""

    def drop(self, index: int) -> None:
        """The unfinished episode of this index is forgotten."""

    def close(self, agent: ActObserve) -> None:
        """The agent is closed."""
