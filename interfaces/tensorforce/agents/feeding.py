"""Learning from what others did: experience that is handed over, and recorded traces."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....checks import shortened
from ....contracts import Array
from ..values import readers
from ..values.errors import TensorforceError, integer, refuse
from ..values.specs import MASK
from .lanes import Timestep

if TYPE_CHECKING:
    from .learning import Learning
    from .protocol import ActObserve

_WHERE = "Agent.experience"


def feed(
    agent: ActObserve, learning: Learning, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any
) -> None:
    """See :meth:`.agent.LearningAgent.experience`. All timesteps are checked before any is stored."""
    terminals = np.asarray(terminal)
    if terminals.ndim > 1:
        refuse(f"{_WHERE}: terminal", f"must be one value or [T], got the shape {terminals.shape}", terminal)
    if terminals.ndim == 0:
        rows = [(states, actions, terminal, reward, internals)]
    else:
        count = len(terminals)
        each = [
            _rows(what, given, count)
            for what, given in (("states", states), ("actions", actions), ("terminal", terminals), ("reward", reward))
        ]
        held = [None] * count if internals is None else _rows("internals", internals, count)
        rows = list(zip(*each, held, strict=True))
    timesteps = [_timestep(agent, *row) for row in rows]
    for timestep, end in timesteps:
        _store(agent, learning, timestep, end)


def _rows(what: str, given: Any, count: int) -> list[Any]:
    """The entries of arrays [T, ...], nested as they are."""
    if isinstance(given, Mapping):
        parts = {key: _rows(f"{what}[{key!r}]", part, count) for key, part in given.items()}
        return [{key: part[t] for key, part in parts.items()} for t in range(count)]
    try:
        length = len(given)
    except TypeError:
        length = None
    if length != count:
        refuse(
            f"{_WHERE}: {what}",
            f"must have as many entries as terminal, {count}; got {'no list' if length is None else length}",
            given,
        )
    return list(given)


def _timestep(
    agent: ActObserve, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any
) -> tuple[Timestep, int]:
    features = agent.read_states(_WHERE, states)
    action = readers.read_actions(_WHERE, actions, agent.actions_values)
    for name, spec in agent.actions_values.flat.items():
        if spec.type == "int":
            mask = features[f"{name}{MASK}"]
            if not np.take_along_axis(mask, action[name][..., None], -1).all():
                refuse(f"{_WHERE}: actions[{name!r}]", f"is forbidden by its mask: {shortened(action[name])}", actions)
    held = agent.read_internals(_WHERE, internals)
    end = readers.read_terminal(_WHERE, terminal)
    return Timestep(features, features, action, held, readers.read_reward(_WHERE, reward)), end


def _store(agent: ActObserve, learning: Learning, timestep: Timestep, end: int) -> None:
    fed, index = agent.fed, agent.parallel_interactions
    timestep.features = agent.preprocessed(index, timestep.states)
    timestep.reward = agent.preprocessed_reward(index, timestep.reward)
    fed.timesteps.append(timestep)
    if end:
        learning.memory.extend(*fed.columns())
        learning.end(end, None, None)
        fed.reset()
        agent.preprocessed_reset(index)


def pretrain(
    agent: ActObserve, directory: Any, num_iterations: Any, num_traces: Any, num_updates: Any
) -> Iterator[dict[str, Any] | None]:
    """What pretraining does, step by step: arguments of ``experience``, or None for an update.

    Raises:
        TensorforceError: as :meth:`.agent.LearningAgent.pretrain` does, before the first step.
    """
    where = "Agent.pretrain"
    iterations = integer(f"{where}: num_iterations", num_iterations, at_least=1)
    updates = integer(f"{where}: num_updates", num_updates, at_least=1)
    wanted = None if num_traces is None else integer(f"{where}: num_traces", num_traces, at_least=1)
    if agent.initial_internals():
        raise TensorforceError(f"{where}: the agent has internal states, and traces hold none", "directory", directory)
    folder = Path(directory)
    if not folder.is_dir():
        refuse(f"{where}: directory", f"is not a folder: {directory}", directory)
    files = sorted(folder.glob("trace-*.npz"))
    if not files:
        refuse(f"{where}: directory", f"holds no file trace-*.npz: {directory}", directory)
    traces = [_read_trace(where, path, agent) for path in files]
    number = len(traces) if wanted is None else min(wanted, len(traces))
    for _ in range(iterations):
        for k in agent.generator.choice(len(traces), number, replace=False):
            yield traces[k]
        for _ in range(updates):
            yield None


def _read_trace(where: str, path: Path, agent: ActObserve) -> dict[str, Any]:
    """A trace as arguments of ``experience``."""
    try:
        # Given a path, NumPy leaves a file open that it cannot read.
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TensorforceError(f"{where}: {path} cannot be read as a trace: {error}", "directory", str(path)) from None
    states, actions = agent.states_values, agent.actions_values
    masks = [f"{name}{MASK}" for name, spec in actions.flat.items() if spec.type == "int"]
    wanted = [*states.flat, *actions.flat, "terminal", "reward"]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in [*wanted, *masks]]
    if missing or unknown:
        problem = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r}, which the agent does not know"
        raise TensorforceError(f"{where}: {path} {problem}; it holds {', '.join(arrays)}", "directory", str(path))
    seen = {name: _as(arrays[name], states.flat[name].dtype) for name in states.flat}
    seen |= {name: arrays[name].astype(np.bool_) for name in masks if name in arrays}
    taken = {name: _as(arrays[name], actions.flat[name].dtype) for name in actions.flat}
    return {
        "states": seen,
        "actions": taken,
        "terminal": arrays["terminal"].astype(np.int64),
        "reward": arrays["reward"],
    }


def _as(array: Array, dtype: Any) -> Array:
    """Floats and ints of another width become the agent's; other kinds stay, and are refused."""
    same = array.dtype.kind == np.dtype(dtype).kind or (array.dtype.kind in "iu" and np.dtype(dtype).kind == "i")
    return array.astype(dtype) if same else array
