"""The recorder: writes an agent's experience to trace files, for ``Agent.pretrain``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from ....core.protocols import Array
from ..spaces.errors import integer
from ..spaces.specs import MASK
from .companions import AgentCore, Companion, read_keys
from .files import make_directory, stamps, write_npz, writing
from .parallel import Timestep

Row: TypeAlias = "tuple[Timestep, int]"
"""A timestep and its terminal."""
_KEYS: Final = ("directory", "frequency", "start", "max-traces")
_NAME: Final = re.compile(r"trace-(\d+)-(\d{8}-\d{6})\.npz")
_DIGITS: Final = 8
"""Digits of the episode in a file name, padded with zeros, so that names sort by episode."""


class Recorder(Companion):
    """Writes files ``trace-<episode>-<YYYYmmdd-HHMMSS>.npz``, each with the episodes since the previous file.

    A file is written at every episode that is a multiple of ``frequency``, and holds whole episodes in the order in
    which they ended: for each state and action an array [T, ...], for each int action ``<action>_mask``, ``terminal``
    int64 [T] (0, 1, 2) and ``reward`` float64 [T]. States and rewards are the caller's, before preprocessing.
    Episodes after the last file are lost when the agent is closed.

    Args:
        where: the agent's class, for messages.
        spec: ``directory``; ``frequency`` in episodes; ``start``: number of episodes to skip; ``max-traces``: number of
            files to keep, None for all.
        agent: the agent to record.

    Raises:
        TensorforceError: the specification is invalid.
    """

    def __init__(self, where: str, spec: Any, agent: AgentCore) -> None:
        self._place = place = f"{where}: recorder"
        self._given = given = read_keys(place, spec, _KEYS)
        self._frequency = integer(f"{place}['frequency']", given.get("frequency", 1), at_least=1)
        self._start = integer(f"{place}['start']", given.get("start", 0), at_least=0)
        most = given.get("max-traces")
        self._most = None if most is None else integer(f"{place}['max-traces']", most, at_least=1)
        self._taken = [*agent.actions_values.flat]
        masks = [f"{name}{MASK}" for name, spec in agent.actions_values.flat.items() if spec.type == "int"]
        self._names = [*agent.states_values.flat, *self._taken, *masks]
        self._running: dict[int, list[Row]] = {}
        """Rows of unfinished episodes, by parallel index."""
        self._ended: list[Row] = []
        """Rows of finished episodes that are not written yet."""
        self._due: int | None = None
        """The episode of the next file, if one is due."""
        self._written: list[Path] = []

    def begin(self, agent: AgentCore) -> None:
        """Create the folder."""
        self._directory = make_directory(self._place, self._given["directory"])

    def observed(self, agent: AgentCore, index: int, timestep: Timestep, terminal: int) -> None:
        """Record the timestep."""
        rows = self._running.setdefault(index, [])
        rows.append((timestep, terminal))
        if terminal:
            del self._running[index]
            if agent.episodes >= self._start:  # the current episode is not counted yet
                self._ended += rows

    def finished(self, agent: AgentCore, episode_reward: float) -> None:
        """Note whether a file is due."""
        if agent.episodes % self._frequency == 0 and self._ended:
            self._due = agent.episodes

    def timestep_done(self, agent: AgentCore) -> None:
        """Write the file that is due, now that nothing else can fail in this timestep."""
        if self._due is not None:
            self._write(self._due)

    def drop(self, index: int) -> None:
        """Drop the rows of an unfinished episode."""
        self._running.pop(index, None)

    def close(self, agent: AgentCore) -> None:
        """Write a file that an error has delayed."""
        self.timestep_done(agent)

    def _write(self, episode: int) -> None:
        timesteps = [timestep for timestep, _ in self._ended]
        arrays = {
            name: np.stack([(one.action if name in self._taken else one.states)[name] for one in timesteps])
            for name in self._names
        }
        arrays["terminal"] = np.array([terminal for _, terminal in self._ended], np.int64)
        arrays["reward"] = np.array([one.raw_reward for one in timesteps], np.float64)
        with writing(self._place, f"{self._place}['directory']", self._directory):
            path = write_trace(self._directory, episode, arrays)
        self._due, self._ended = None, []
        if self._most is not None:
            self._written = [*self._written, path][-self._most :]
            # Other writers' files are deleted first, by ascending episode, regardless of age.
            names = ((_NAME.fullmatch(one.name), one) for one in self._directory.iterdir() if one not in self._written)
            others = [one for *_, one in sorted((int(match[1]), match[2], one) for match, one in names if match)]
            for old in [*others, *self._written][: -self._most]:
                old.unlink(missing_ok=True)


def write_trace(directory: Path, episode: int, arrays: Mapping[str, Array]) -> Path:
    """Write a trace atomically, under a name that no other process uses at the same time.

    Raises:
        OSError: it cannot be written.
    """
    times = stamps()
    while True:
        path = directory / f"trace-{episode:0{_DIGITS}d}-{next(times)}.npz"
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            file = temporary.open("xb")
        except FileExistsError:  # another process is writing a file of this name
            continue
        try:
            with file:
                if path.exists():
                    continue
                write_npz(file, arrays)
            temporary.replace(path)
            return path
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
