"""``Agent.save``, and the saver, which saves an agent periodically and continues from the last file."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core.checks import refuse_non_finite
from ....core.errors import NonFiniteError
from ....run_dir.files import make_folders, remove, write_json_atomically
from ...common.state_files import write_state
from ..spaces.errors import choice, integer, number, refuse
from ..specs.arguments import to_json_or_none
from . import actonly
from .companions import AgentCore, Companion, read_keys
from .files import (
    ACT_ONLY,
    SAVED,
    SUFFIXES,
    TENSORFLOW,
    Saved,
    find,
    numbered_files,
    read_content,
    read_path,
    saved_names,
    write_arrays,
    writing,
)
from .state import COUNTERS, load_state, state_of, variables

_WHERE: Final = "Agent.save"
_KEYS: Final = ("directory", "filename", "frequency", "load", "max-checkpoints")


def place_of(agent: AgentCore, directory: Any, filename: Any) -> tuple[Any, Any]:
    """A directory and a file name; defaults are the saver's, or ``.`` and the agent's name."""
    given = agent.arguments.get("saver")
    saver = given if isinstance(given, Mapping) else {}
    directory = saver.get("directory", ".") if directory is None else directory
    return directory, saver.get("filename", agent.name) if filename is None else filename


def save(agent: AgentCore, directory: Any, filename: Any, format: Any, append: Any) -> str:
    """See :meth:`.agent.Agent.save`. The agent does not change."""
    choice(f"{_WHERE}: format", format, [one for one in SUFFIXES if one != ACT_ONLY])
    if append is not None:
        choice(f"{_WHERE}: append", append, list(COUNTERS.values()))
    if agent.learning is not None:
        refuse_non_finite(agent.learning.stepper.weights(), f"at update {agent.updates}; nothing is saved")
    directory, filename = place_of(agent, directory, filename)
    parts = (read_path(f"{_WHERE}: {name}", x) for name, x in (("directory", directory), ("filename", filename)))
    base = os.path.join(*parts)  # noqa: PTH118 (as given, and not as Path writes it)
    path = base if append is None else f"{base}-{getattr(agent, append)}"
    with writing(_WHERE, "directory", directory):
        named = Path(base)
        make_folders(named.parent)
        name, order = Path(path).name, saved_names(named.parent, named.name)
        if format == TENSORFLOW:
            order = [*(one for one in order if one != name), name]
        described = _to_json(agent)
        write_json_atomically(Path(f"{base}.json"), {**described, SAVED: order} if order else described)
        if format == TENSORFLOW:
            why = actonly.write(agent, Path(f"{path}{SUFFIXES[ACT_ONLY][0]}"))
            write_state(Path(f"{path}{SUFFIXES[TENSORFLOW][0]}"), {**state_of(agent), actonly.WHY: why})
        else:
            path += SUFFIXES[format][0]
            write_arrays(Path(path), variables(agent))
    return path


def _to_json(agent: Any) -> dict[str, Any]:
    """The JSON file's contents."""
    spec = to_json_or_none(agent.spec)
    internals = {name: {"type": "float", "shape": list(one["shape"])} for name, one in agent.internals_spec.items()}
    if spec is None:
        warnings.warn(
            f"{_WHERE}: the agent's arguments contain functions or classes, which JSON cannot hold: the file has only"
            " states, actions and internals; pass the other arguments to Agent.load",
            UserWarning,
            stacklevel=4,
        )
        return {"states": agent.states_spec, "actions": agent.actions_spec, "internals": internals}
    initial = {name: array.tolist() for name, array in agent.internals.items()}
    return {**spec, "internals": internals, "initial_internals": initial}


class Saver(Companion):
    """Writes ``<filename>-<timesteps>`` at creation, periodically and on ``close``, in the format ``tensorflow``.

    Args:
        where: the agent's class, for messages.
        spec: ``directory``; ``filename``, by default the agent's name; ``frequency``, in seconds; ``load``: True to
            continue from the last file written, if any, False, or the name of a file; ``max-checkpoints``, number of
            files to keep.
        agent: the agent to save.

    Raises:
        TensorforceError: the specification is invalid.
    """

    def __init__(self, where: str, spec: Any, agent: AgentCore) -> None:
        self._place = place = f"{where}: saver"
        given = read_keys(place, spec, _KEYS)
        self._named = Path(given["directory"], read_path(f"{place}['filename']", given.get("filename", agent.name)))
        self._given = given["directory"], given.get("filename", agent.name)
        self._frequency = number(f"{place}['frequency']", given.get("frequency", 600), above=0)
        self._most = integer(f"{place}['max-checkpoints']", given.get("max-checkpoints", 5), at_least=1)
        self._load = given.get("load", True)
        if not isinstance(self._load, bool | str):
            refuse(f"{place}['load']", f"must be True, False or the name of a file, got {self._load!r}", self._load)
        self._last = time.monotonic()

    def begin(self, agent: AgentCore) -> None:
        """Continue from a file, if requested, and write one."""
        found = find(self._place, self._given[0], self._load, TENSORFLOW) if isinstance(self._load, str) else None
        if self._load is True:
            exact = self._named.with_name(self._named.name + SUFFIXES[TENSORFLOW][0])
            written = numbered_files(self._named.parent, self._named.name) or [exact] * exact.is_file()
            found = Saved(written[-1], TENSORFLOW, self._named.name) if written else None
        if found is not None:
            load_state(self._place, agent, read_content(self._place, found))
        self.write(agent)

    def timestep_done(self, agent: AgentCore) -> None:
        """Write, if it is time."""
        if time.monotonic() - self._last >= self._frequency:
            self.write(agent)

    def close(self, agent: AgentCore) -> None:
        """Write a last file, unless the weights are NaN, which an update has raised."""
        with contextlib.suppress(NonFiniteError):
            self.write(agent)

    def write(self, agent: AgentCore) -> None:
        """Write a file, and remove the oldest ones if there are too many."""
        save(agent, *self._given, TENSORFLOW, "timesteps")
        self._last = time.monotonic()
        for old in numbered_files(self._named.parent, self._named.name)[: -self._most]:
            for path in (old, old.with_suffix(SUFFIXES[ACT_ONLY][0])):
                if path.exists():
                    remove(path)
