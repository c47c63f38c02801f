"""What goes along with an agent and never changes what it does: the summarizer and the saver."""

from __future__ import annotations

import time
from typing import Any, Protocol

from .core import Core


class Accompanied(Protocol):
    """What companions see of an agent."""

    timesteps: int
    updates: int

    @property
    def core(self) -> Core:
        """What is special to its kind."""
        ...

    def store_model(self) -> Any:
        """Write it."""
        ...


class Companion:
    """Is told what happens; each method does nothing unless it is overridden."""

    def observed(self, agent: Accompanied, env_id: str, reward: float, terminal: bool) -> None:
        """A record of an environment was observed."""

    def cut(self, agent: Accompanied, env_id: str | None) -> None:
        """The episode of an environment, of all for None, was cut by a time limit."""

    def updated(self, agent: Accompanied, loss: float | None) -> None:
        """An update was done."""

    def reset(self, env_id: str | None) -> None:
        """An episode begins in an environment, or in all: one that was not finished is forgotten."""

    def close(self, agent: Accompanied) -> None:
        """The agent ends."""


class Rhythm:
    """When something is due again: after ``steps`` timesteps, or after ``seconds`` where there are no ``steps``.

    Args:
        seconds: None: never by the clock.
        steps: at each multiple of it; None: by the clock.
        timestep: from which on.
        at_once: by the clock it is due at first.
    """

    def __init__(self, seconds: float | None, steps: int | None, timestep: int, *, at_once: bool = False) -> None:
        self._seconds, self._steps = seconds, steps
        self._step = timestep
        self._time = float("-inf") if at_once else time.monotonic()

    def is_due(self, timestep: int) -> bool:
        """Is it due? Then it is not until the next time."""
        if self._steps is not None:
            if timestep // self._steps == self._step // self._steps:
                return False
        elif self._seconds is None or time.monotonic() - self._time < self._seconds:
            return False
        self._step, self._time = timestep, time.monotonic()
        return True
