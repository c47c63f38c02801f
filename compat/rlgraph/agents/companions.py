"""Companions of an agent, which never change its behaviour: the saver and the TensorBoard summarizer."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core.errors import NonFiniteError
from ....run_dir.files import make_folders
from ...common.events import Events, scalar
from ..utils.rlgraph_errors import RLGraphWarning, refuse

_TAGS: Final = ("loss", "epsilon", "episode_reward")
_FLUSH: Final = 10.0
"""Seconds."""


class Companion:
    """Observer of an agent's events; each method does nothing unless it is overridden.

    Args:
        agent: the observed agent.
        spec: ``save_steps``, timesteps between writes, or if that is None ``save_secs``, seconds between them; neither:
            never.
        at_once: with ``save_secs``, is the first write due at once?
    """

    def __init__(self, agent: Any, spec: Mapping[str, Any], *, at_once: bool = False) -> None:
        self.agent, self._seconds, self._steps = agent, spec["save_secs"], spec["save_steps"]
        self._step = agent.timesteps
        self._time = float("-inf") if at_once else time.monotonic()

    def is_due(self) -> bool:
        """Is a write due? A positive answer restarts the interval."""
        timestep = self.agent.timesteps
        if self._steps is not None:
            if timestep // self._steps == self._step // self._steps:
                return False
        elif self._seconds is None or time.monotonic() - self._time < self._seconds:
            return False
        self._step, self._time = timestep, time.monotonic()
        return True

    def observed(self, env_id: str, reward: float, terminal: bool) -> None:
        """A record of an environment was observed."""

    def cut(self, env_id: str | None) -> None:
        """The episode of an environment (None: of all) was cut by a time limit."""

    def updated(self, loss: float | None) -> None:
        """Weights or memory changed: by an update, or, with ``loss`` None, also by set weights or imported records."""

    def reset(self, env_id: str | None) -> None:
        """An episode begins in an environment (None: in all); an unfinished one is dropped."""

    def close(self) -> None:
        """The agent ends."""


class Saver(Companion):
    """Calls ``store_model`` periodically, and at the end.

    Args:
        where: the agent's class, for messages.
        spec: ``saver_spec`` in normal form, with a ``directory``.
        agent: the agent to save.
    """

    def __init__(self, where: str, spec: Mapping[str, Any], agent: Any) -> None:
        super().__init__(agent, spec)
        self._saved: int | None = agent.timesteps
        """Timestep of the last write, or of the beginning; None if anything but acting has happened since."""

    def observed(self, env_id: str, reward: float, terminal: bool) -> None:
        """Write, if it is time."""
        self.updated(None)

    def updated(self, loss: float | None) -> None:
        """Write, if it is time."""
        self._saved = None
        if self.is_due():
            self._write()

    def close(self) -> None:
        """Write, unless nothing has happened since the last time or, as ``update`` has raised, the weights are NaN."""
        if self._saved != self.agent.timesteps:
            with contextlib.suppress(NonFiniteError):
                self._write()

    def _write(self) -> None:
        self.agent.store_model()
        self._saved = self.agent.timesteps


class Summarizer(Companion):
    """Writes the newest ``loss``, ``episode_reward`` and ``epsilon`` periodically; steps are timesteps.

    An episode's reward is the sum over all records since its environment's last terminal, cut or reset.

    Args:
        where: the agent's class, for messages.
        spec: ``summary_spec`` in normal form, with a ``directory``; only tags that match ``summary_regexp`` are
            written.
        agent: the agent to summarize.

    Raises:
        RLGraphError: the directory cannot be written to.
    """

    def __init__(self, where: str, spec: Mapping[str, Any], agent: Any) -> None:
        super().__init__(agent, spec, at_once=True)
        pattern = spec["summary_regexp"]
        self._tags = [tag for tag in _TAGS if pattern is None or re.search(pattern, tag)]
        if not self._tags:
            text = f"{where}: summary_spec['summary_regexp'] {pattern!r} matches none of {', '.join(_TAGS)}"
            warnings.warn(f"{text}: nothing is written", RLGraphWarning, stacklevel=4)
        self._rewards: dict[str, float] = {}
        self._values: dict[str, float] = {}
        """The newest values that are not written yet."""
        directory = Path(spec["directory"])
        try:
            make_folders(directory)
            self._events = Events(directory, _FLUSH)
        except OSError as error:
            problem = f"cannot be written to: {directory}: {error.strerror or error}"
            refuse(f"{where}: summary_spec['directory']", problem, spec["directory"])

    def observed(self, env_id: str, reward: float, terminal: bool) -> None:
        """See ``Companion.observed``."""
        self._rewards[env_id] = self._rewards.get(env_id, 0.0) + reward
        if terminal:
            self.cut(env_id)
        else:
            self._look()

    def cut(self, env_id: str | None) -> None:
        """See ``Companion.cut``."""
        for name in list(self._rewards) if env_id is None else [env_id]:
            if name in self._rewards:
                self._values["episode_reward"] = self._rewards.pop(name)
        self._look()

    def updated(self, loss: float | None) -> None:
        """See ``Companion.updated``."""
        if loss is not None:
            self._values["loss"] = float(loss)
        self._look()

    def reset(self, env_id: str | None) -> None:
        """See ``Companion.reset``."""
        self._rewards = {} if env_id is None else {k: one for k, one in self._rewards.items() if k != env_id}

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._values:
            self._write()
        self._events.close()

    def _look(self) -> None:
        if self._values and self.is_due():
            self._write()

    def _write(self) -> None:
        epsilon = self.agent.core.epsilon(self.agent.timesteps)
        values = self._values if epsilon is None else {**self._values, "epsilon": epsilon}
        self._values = {}
        if summaries := [scalar(tag, values[tag]) for tag in self._tags if tag in values]:
            self._events.add(self.agent.timesteps, summaries)
