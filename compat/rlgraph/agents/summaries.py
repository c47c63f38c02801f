"""The summarizer: TensorBoard's events of what an agent does."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....run_dir.files import make_folders
from ...common.events import Events, scalar
from ..utils.rlgraph_errors import RLGraphWarning, refuse
from .attachments import Accompanied, Companion, Rhythm

_TAGS: Final = ("loss", "epsilon", "episode_reward")
_FLUSH: Final = 10.0
"""Seconds."""


class Summarizer(Companion):
    """Writes the newest ``loss``, ``episode_reward`` and ``epsilon`` from time to time; steps are timesteps.

    An episode's reward is that of all records since its environment's last terminal, cut or reset.

    Args:
        where: the agent's class, for messages.
        spec: ``summary_spec`` in normal form, with a ``directory``: ``save_steps`` or else ``save_secs`` is how long
            events are apart; ``summary_regexp`` is searched for in the tags that are to be written.
        agent: whose it is.

    Raises:
        RLGraphError: the directory cannot be written to.
    """

    def __init__(self, where: str, spec: Mapping[str, Any], agent: Accompanied) -> None:
        pattern = spec["summary_regexp"]
        self._tags = [tag for tag in _TAGS if pattern is None or re.search(pattern, tag)]
        if not self._tags:
            text = f"{where}: summary_spec['summary_regexp'] {pattern!r} matches none of {', '.join(_TAGS)}"
            warnings.warn(f"{text}: nothing is written", RLGraphWarning, stacklevel=5)
        self._rhythm = Rhythm(spec["save_secs"], spec["save_steps"], agent.timesteps, at_once=True)
        self._rewards: dict[str, float] = {}
        self._values: dict[str, float] = {}
        """The newest that were not written yet."""
        directory = Path(spec["directory"])
        try:
            make_folders(directory)
            self._events = Events(directory, _FLUSH)
        except OSError as error:
            problem = f"cannot be written to: {directory}: {error.strerror or error}"
            refuse(f"{where}: summary_spec['directory']", problem, spec["directory"])

    def observed(self, agent: Accompanied, env_id: str, reward: float, terminal: bool) -> None:
        """As :meth:`Companion.observed`."""
        self._rewards[env_id] = self._rewards.get(env_id, 0.0) + reward
        if terminal:
            self._values["episode_reward"] = self._rewards.pop(env_id)
        self._look(agent)

    def cut(self, agent: Accompanied, env_id: str | None) -> None:
        """As :meth:`Companion.cut`."""
        for name in list(self._rewards) if env_id is None else [env_id]:
            if name in self._rewards:
                self._values["episode_reward"] = self._rewards.pop(name)
        self._look(agent)

    def updated(self, agent: Accompanied, loss: float | None) -> None:
        """As :meth:`Companion.updated`."""
        if loss is not None:
            self._values["loss"] = float(loss)
        self._look(agent)

    def reset(self, env_id: str | None) -> None:
        """As :meth:`Companion.reset`."""
        if env_id is None:
            self._rewards.clear()
        else:
            self._rewards.pop(env_id, None)

    def close(self, agent: Accompanied) -> None:
        """Write what is left, and close the file."""
        if self._values:
            self._write(agent)
        self._events.close()

    def _look(self, agent: Accompanied) -> None:
        if self._values and self._rhythm.is_due(agent.timesteps):
            self._write(agent)

    def _write(self, agent: Accompanied) -> None:
        epsilon = agent.core.epsilon(agent.timesteps)
        values = self._values if epsilon is None else {**self._values, "epsilon": epsilon}
        self._values = {}
        if summaries := [scalar(tag, values[tag]) for tag in self._tags if tag in values]:
            self._events.add(agent.timesteps, summaries)
