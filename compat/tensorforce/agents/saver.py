"""The saver: writes an agent from time to time, and continues from the last one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from ....run_dir.files import remove
from ..spaces.errors import integer, number, refuse
from .agent_state import load_state
from .companions import Agent, Companion, read_keys, read_path
from .saved_files import ACT_ONLY, SUFFIXES, TENSORFLOW, Saved, find, numbered, read_state
from .writer import save

_KEYS: Final = ("directory", "filename", "frequency", "load", "max-checkpoints")


class Saver(Companion):
    """Writes ``<filename>-<timesteps>`` at creation, periodically and on ``close``, in the format ``tensorflow``.

    Args:
        where: for messages: the agent's class.
        spec: ``directory``; ``filename``, by default the agent's name; ``frequency``, in seconds; ``load``: True to
            continue from the last file written if there is one, False, or the name of a file; ``max-checkpoints``, how
            many are kept.
        agent: whose it is.

    Raises:
        TensorforceError: the specification is invalid.
    """

    def __init__(self, where: str, spec: Any, agent: Agent) -> None:
        place = f"{where}: saver"
        given = read_keys(place, spec, _KEYS)
        filename = given.get("filename", agent.name)
        self._place = place
        self._directory = Path(given["directory"])
        self._filename = read_path(f"{place}['filename']", filename)
        self._frequency = number(f"{place}['frequency']", given.get("frequency", 600), above=0)
        self._most = integer(f"{place}['max-checkpoints']", given.get("max-checkpoints", 5), at_least=1)
        self._load = given.get("load", True)
        if not isinstance(self._load, bool | str):
            refuse(f"{place}['load']", f"must be True, False or the name of a file, got {self._load!r}", self._load)
        self._last = time.monotonic()

    def begin(self, agent: Agent) -> None:
        """Continue from a file, as far as that is asked for, and write one."""
        found = self._found()
        if found is not None:
            load_state(self._place, agent, read_state(self._place, found.path))
        self.write(agent)

    def timestep_done(self, agent: Agent) -> None:
        """Write, if it is time."""
        if time.monotonic() - self._last >= self._frequency:
            self.write(agent)

    def close(self, agent: Agent) -> None:
        """Write what has been reached."""
        self.write(agent)

    def write(self, agent: Agent) -> None:
        """Write a file, and remove those written first where there are too many."""
        save(agent, self._directory, self._filename, TENSORFLOW, "timesteps")
        self._last = time.monotonic()
        named = self._directory / self._filename
        for old in numbered(named.parent, named.name)[: -self._most]:
            remove(old)
            act_only = old.with_suffix(SUFFIXES[ACT_ONLY][0])
            if act_only.exists():
                remove(act_only)

    def _found(self) -> Saved | None:
        """File to continue from."""
        if self._load is False:
            return None
        if isinstance(self._load, str):
            return find(self._place, self._directory, self._load, TENSORFLOW)
        named = self._directory / self._filename
        written = numbered(named.parent, named.name)
        if written:
            return Saved(written[-1], TENSORFLOW, named.name)
        exact = named.with_name(named.name + SUFFIXES[TENSORFLOW][0])
        return Saved(exact, TENSORFLOW, named.name) if exact.is_file() else None
