"""``Agent.save``: an agent as files. Nothing of the agent changes."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from ....core.errors import CheckpointError
from ....run_dir.files import make_folders, write_json_atomically
from ...common.state_files import write_state
from ..spaces.errors import TensorforceError, choice
from ..specs.arguments import to_json_or_none
from . import actonly, variables
from .agent_state import place_of, state_of
from .companions import Agent, read_path
from .saved_files import ACT_ONLY, SAVED, SUFFIXES, TENSORFLOW, saved_names, write_arrays
from .variables import COUNTERS

_WHERE = "Agent.save"


def save(agent: Agent, directory: Any, filename: Any, format: Any, append: Any) -> str:
    """See :meth:`.agent.Agent.save`.

    Raises:
        TensorforceError: an argument is wrong, or a file cannot be written.
    """
    choice(f"{_WHERE}: format", format, [one for one in SUFFIXES if one != ACT_ONLY])
    if append is not None:
        choice(f"{_WHERE}: append", append, list(COUNTERS.values()))
    directory, filename = place_of(agent, directory, filename)
    parts = (read_path(f"{_WHERE}: {name}", x) for name, x in (("directory", directory), ("filename", filename)))
    base = os.path.join(*parts)  # noqa: PTH118 (as given, and not as Path writes it)
    path = base if append is None else f"{base}-{getattr(agent, append)}"
    try:
        named = Path(base)
        make_folders(named.parent)
        name, order = Path(path).name, saved_names(named.parent, named.name)
        if format == TENSORFLOW:
            order = [*(one for one in order if one != name), name]
        described = _described(agent)
        write_json_atomically(Path(f"{base}.json"), {**described, SAVED: order} if order else described)
        if format == TENSORFLOW:
            _write_everything(agent, path)
            return path
        path += SUFFIXES[format][0]
        write_arrays(Path(path), variables.values(agent))
    except OSError as error:
        problem = f"{directory} cannot be written to: {error.strerror or error}"
        raise TensorforceError(f"{_WHERE}: {problem}", "directory", str(directory)) from error
    except CheckpointError as error:
        raise TensorforceError(f"{_WHERE}: {error}", "directory", str(directory)) from error
    return path


def _write_everything(agent: Agent, path: str) -> None:
    """Write the act-only agent if possible, then everything, with the reason if not."""
    why = actonly.write(agent, Path(f"{path}{SUFFIXES[ACT_ONLY][0]}"))
    write_state(Path(f"{path}{SUFFIXES[TENSORFLOW][0]}"), {**state_of(agent), actonly.WHY: why})


def _described(agent: Any) -> dict[str, Any]:
    """The JSON file's contents."""
    spec = to_json_or_none(agent.spec)
    internals = {name: {"type": "float", "shape": list(one["shape"])} for name, one in agent.internals_spec.items()}
    if spec is None:
        warnings.warn(
            f"{_WHERE}: the agent's arguments hold functions or classes, which no JSON file can: the file has states,"
            " actions and internals only, and Agent.load needs the other arguments again",
            UserWarning,
            stacklevel=4,
        )
        return {"states": agent.states_spec, "actions": agent.actions_spec, "internals": internals}
    initial = {name: array.tolist() for name, array in agent.internals.items()}
    return {**spec, "internals": internals, "initial_internals": initial}
