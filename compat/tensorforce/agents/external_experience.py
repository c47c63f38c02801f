"""Learning from what others did: experience that is handed over, and recorded traces."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..spaces import readers
from ..spaces.errors import TensorforceError, integer, refuse
from ..spaces.specs import MASK, Values
from .parallel import Timestep
from .saved_files import read_arrays

if TYPE_CHECKING:
    from .learner import Learner
    from .protocol import ActObserve

_WHERE = "Agent.experience"


def feed(
    agent: ActObserve, learning: Learner, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any
) -> None:
    """See :meth:`.agent.LearningAgent.experience`. All timesteps are checked before any is stored."""
    terminals = readers.as_array(f"{_WHERE}: terminal", terminal)
    if terminals.ndim > 1:
        refuse(f"{_WHERE}: terminal", f"must be one value or [T], got the shape {terminals.shape}", terminal)
    if terminals.ndim == 0:
        readers.read_terminal(_WHERE, terminal)  # first: whether there is a time axis follows from it
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
    _check_lengths(_WHERE, agent, [end for _, end in timesteps], len(agent.fed.timesteps))
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
    _check_allowed(_WHERE, agent.actions_values, features, action)
    held = agent.read_internals(_WHERE, internals)
    end = readers.read_terminal(_WHERE, terminal)
    return Timestep(features, features, action, held, readers.read_reward(_WHERE, reward)), end


def _check_allowed(where: str, actions: Values, features: Mapping[str, Array], action: Mapping[str, Array]) -> None:
    """Refuse actions that masks forbid."""
    for name, spec in actions.flat.items():
        if spec.type == "int":
            mask = features[f"{name}{MASK}"]
            if not np.take_along_axis(mask, action[name][..., None], -1).all():
                problem = f"is forbidden by its mask: {shortened(action[name])}"
                refuse(f"{where}: actions[{name!r}]", problem, action[name])


def _check_lengths(where: str, agent: ActObserve, ends: Sequence[int], before: int = 0) -> None:
    """Refuse an episode that is longer than the agent's longest; ``before``: timesteps that the first one has had."""
    longest, length = agent.max_episode_timesteps, before
    for end in ends:
        length += 1
        if longest is not None and length > longest:
            refuse(f"{where}: terminal", f"has no end by timestep {longest}, which is max_episode_timesteps", end)
        length = 0 if end else length


def _store(agent: ActObserve, learning: Learner, timestep: Timestep, end: int) -> None:
    fed, index = agent.fed, agent.parallel_interactions
    timestep.features = agent.preprocessed(index, timestep.states)
    timestep.reward = agent.preprocessed_reward(index, timestep.reward)
    fed.timesteps.append(timestep)
    if end:
        learning.memory.extend(*fed.columns())
        learning.end(end, None, None)
        fed.reset()
        agent.preprocessing.reset(index)


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
    if agent.copied_internals():
        raise TensorforceError(f"{where}: the agent has internal states, and traces hold none", "directory", directory)
    if not isinstance(directory, str | os.PathLike):
        refuse(f"{where}: directory", f"must be a path, got {directory!r}", directory)
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
    arrays = read_arrays(where, path)
    states, actions = agent.states_values, agent.actions_values
    masks = [f"{name}{MASK}" for name, spec in actions.flat.items() if spec.type == "int"]
    wanted = [*states.flat, *actions.flat, "terminal", "reward"]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in [*wanted, *masks]]
    if missing or unknown:
        problem = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r}, which the agent does not know"
        raise TensorforceError(f"{where}: {path} {problem}; it holds {', '.join(arrays)}", "directory", str(path))
    seen = {name: arrays[name] for name in states.flat}
    seen |= {name: arrays[name].astype(np.bool_) for name in masks if name in arrays}
    taken = {name: arrays[name] for name in actions.flat}
    trace = {"states": seen, "actions": taken, "terminal": arrays["terminal"], "reward": arrays["reward"]}
    _check_trace(f"{where}: {path}", agent, trace)
    return trace


def _check_trace(where: str, agent: ActObserve, trace: Mapping[str, Any]) -> None:
    """Refuse a trace of other specifications, or one that does not end with its last episode."""
    terminal, reward = trace["terminal"], trace["reward"]
    if terminal.dtype.kind not in "biu" or terminal.ndim != 1 or not terminal.size:
        refuse(f"{where}: terminal", f"must be bool or int [T], got {terminal.dtype} {terminal.shape}", terminal)
    ends = [readers.read_terminal(where, end) for end in terminal]
    if not ends[-1]:
        refuse(f"{where}: terminal", "must be 1 or 2 in the last row: its episode has no end", terminal)
    _check_lengths(where, agent, ends)
    if reward.shape != terminal.shape:
        refuse(f"{where}: reward", f"must have the shape {terminal.shape}, got {reward.shape}", reward)
    for number in reward:
        readers.read_reward(where, number)
    states, actions = (_in_rows(values, len(ends)) for values in (agent.states_values, agent.actions_values))
    for kind, values in (("states", states), ("actions", actions)):
        for name, spec in values.flat.items():
            dtype, wanted = trace[kind][name].dtype, "iu" if spec.type == "int" else spec.type[0]
            if dtype.kind not in wanted:
                refuse(f"{where}: {kind}[{name!r}]", f"must be {spec.type}, got {dtype}", dtype)
    features = readers.StateReader(states, actions)(where, trace["states"])
    _check_allowed(where, actions, features, readers.read_actions(where, trace["actions"], actions))


def _in_rows(values: Values, count: int) -> Values:
    """Specifications of ``count`` rows, by flat name."""
    flat = {name: dataclasses.replace(spec, shape=(count, *spec.shape)) for name, spec in values.flat.items()}
    return Values(values.kind, dict(flat), flat)
