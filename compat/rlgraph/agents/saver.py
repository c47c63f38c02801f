"""The saver: writes an agent from time to time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .attachments import Accompanied, Companion, Rhythm


class Saver(Companion):
    """Calls ``store_model`` after ``save_steps`` timesteps, or else ``save_secs`` seconds, and at the end.

    Args:
        spec: ``saver_spec`` in normal form, with a ``directory``.
        agent: whose it is.
    """

    def __init__(self, spec: Mapping[str, Any], agent: Accompanied) -> None:
        self._rhythm = Rhythm(spec["save_secs"], spec["save_steps"], agent.timesteps)
        self._saved = (agent.timesteps, agent.updates)

    def observed(self, agent: Accompanied, env_id: str, reward: float, terminal: bool) -> None:
        """Write, if it is time."""
        self._look(agent)

    def updated(self, agent: Accompanied, loss: float | None) -> None:
        """Write, if it is time."""
        self._look(agent)

    def close(self, agent: Accompanied) -> None:
        """Write what has been reached since the last time."""
        if (agent.timesteps, agent.updates) != self._saved:
            agent.store_model()

    def _look(self, agent: Accompanied) -> None:
        if self._rhythm.is_due(agent.timesteps):
            agent.store_model()
            self._saved = (agent.timesteps, agent.updates)
