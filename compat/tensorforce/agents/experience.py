"""Learning without acting: experience that is handed over, recorded traces, and updates at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ....core.checks import shortened
from ..spaces import readers
from ..spaces.errors import TensorforceError, as_array, integer, refuse
from ..spaces.specs import MASK
from . import interaction
from .companions import AgentCore, Timestep
from .files import read_arrays, read_path

Row: TypeAlias = "tuple[Timestep, int]"
"""A timestep and its terminal."""
_WHERE = "Agent.experience"


def check_idle(agent: AgentCore, method: str) -> None:
    """Refuse a call while an episode is running, that of ``experience`` among them for ``pretrain``."""
    agent.check_open(method)
    for index, lane in enumerate(agent.lanes):
        if lane.pending is not None or lane.steps:
            problem = f"an episode of parallel index {index} is running: finish it, or call reset()"
            raise TensorforceError(f"Agent.{method}: {problem}", "parallel", index)
    if method == "pretrain" and agent.fed.steps:
        problem = "the episode that experience began has not ended: finish it, or call reset()"
        raise TensorforceError(f"Agent.{method}: {problem}", "terminal")


def read(
    agent: AgentCore, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any, where: str = _WHERE
) -> list[Row]:
    """Timesteps from the arguments of :meth:`.agents.TensorforceAgent.experience`, checked; nothing is stored."""
    terminals = as_array(f"{where}: terminal", terminal)
    if terminals.ndim > 1:
        refuse(f"{where}: terminal", f"must be one value or [T], got the shape {terminals.shape}", terminal)
    each = {"states": states, "actions": actions, "terminal": terminal, "reward": reward, "internals": internals}
    if terminals.ndim == 0:
        readers.read_terminal(where, terminal)  # first: whether there is a time axis follows from it
        columns = [[given] for given in each.values()]
    else:
        count = len(terminals)
        columns = [
            [None] * count if given is None else _each(where, what, given, count)
            for what, given in {**each, "terminal": terminals}.items()
        ]
    rows = [_row(where, agent, *one) for one in zip(*columns, strict=True)]
    length = agent.fed.steps
    for _, end in rows:
        length += 1
        if agent.max_episode_timesteps is not None and length > agent.max_episode_timesteps:
            problem = f"has no end by timestep {agent.max_episode_timesteps}, which is max_episode_timesteps"
            refuse(f"{where}: terminal", problem, end)
        length = 0 if end else length
    return rows


def _each(where: str, what: str, given: Any, count: int) -> list[Any]:
    """The entries of arrays [T, ...], nested as they are."""
    if isinstance(given, Mapping):
        parts = {key: _each(where, f"{what}[{key!r}]", part, count) for key, part in given.items()}
        return [{key: part[t] for key, part in parts.items()} for t in range(count)]
    length = len(given) if hasattr(given, "__len__") and getattr(given, "ndim", True) else None
    if length != count:
        got = "no list" if length is None else length
        refuse(f"{where}: {what}", f"must have as many entries as terminal, {count}; got {got}", given)
    return list(given)


def _row(where: str, agent: AgentCore, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any) -> Row:
    features = agent.read_states(where, states)
    action = readers.read_actions(where, actions, agent.actions_values)
    for name, spec in agent.actions_values.flat.items():
        if spec.type == "int" and not np.take_along_axis(features[f"{name}{MASK}"], action[name][..., None], -1).all():
            refuse(f"{where}: actions[{name!r}]", f"is forbidden by its mask: {shortened(action[name])}", action[name])
    held = readers.read_internals(where, internals, agent.internals)
    end = readers.read_terminal(where, terminal)
    return Timestep(features, features, action, held, readers.read_reward(where, reward)), end


def feed(agent: AgentCore, rows: Iterable[Row]) -> None:
    """Store timesteps; those of an episode that has not ended wait for its end."""
    fed, index, learning = agent.fed, agent.parallel_interactions, agent.learning
    if learning is None:
        return
    for one, end in rows:
        timestep = one
        if not agent.sees_states:
            seen = interaction.seen_by(agent, agent.preprocessing.apply)(index, one.states)
            reward = agent.preprocessing.reward(one.reward, index)
            timestep = Timestep(seen, one.states, one.action, one.internals, reward)
        fed.steps += 1
        learning.store(fed, timestep, end, whole=True)
        if end:
            fed.reset()
            agent.preprocessing.reset(index)


def update(agent: AgentCore, overrides: Mapping[str, float]) -> None:
    """One update, if there is enough for it; else random parameters stay as they are.

    Raises:
        TensorforceError: there is not.
    """
    learning = agent.learning
    if learning is None:
        return
    drawn = learning.drawn()
    if not learning.prepare(agent.counts, overrides):
        learning.undo(drawn)
        unit, memory = "episodes" if learning.by_episodes else "timesteps", learning.memory
        problem = f"needs {memory.batch_size} {unit}, and {memory.available()} are stored that could be used"
        raise TensorforceError(f"Agent.update {problem}", "update", memory.available())
    interaction.learn(agent, learning)


# -- recorded traces --------------------------------------------------------------------------------------------------


def pretrain(agent: AgentCore, directory: Any, num_iterations: Any, num_traces: Any, num_updates: Any) -> None:
    """See :meth:`.agents.TensorforceAgent.pretrain`; all traces are read before any is fed."""
    where = "Agent.pretrain"
    iterations = integer(f"{where}: num_iterations", num_iterations, at_least=1)
    updates = integer(f"{where}: num_updates", num_updates, at_least=1)
    wanted = None if num_traces is None else integer(f"{where}: num_traces", num_traces, at_least=1)
    if agent.internals:
        raise TensorforceError(f"{where}: the agent has internal states, and traces hold none", "directory", directory)
    folder = Path(read_path(f"{where}: directory", directory))
    if not folder.is_dir():
        refuse(f"{where}: directory", f"is not a folder: {directory}", directory)
    files = sorted(folder.glob("trace-*.npz"))
    if not files:
        refuse(f"{where}: directory", f"holds no file trace-*.npz: {directory}", directory)
    traces = [_read_trace(where, path, agent) for path in files]
    number = len(traces) if wanted is None else min(wanted, len(traces))
    for _ in range(iterations):
        for k in agent.acting.rng.choice(len(traces), number, replace=False):
            feed(agent, traces[k])
        for _ in range(updates):
            update(agent, {})


def _read_trace(where: str, path: Path, agent: AgentCore) -> Sequence[Row]:
    arrays = read_arrays(where, path)
    states, actions = agent.states_values.flat, agent.actions_values.flat
    masks = [f"{name}{MASK}" for name, spec in actions.items() if spec.type == "int"]
    wanted = [*states, *actions, "terminal", "reward"]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in [*wanted, *masks]]
    if missing or unknown:
        problem = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r}, which the agent does not know"
        raise TensorforceError(f"{where}: {path} {problem}; it holds {', '.join(arrays)}", "directory", str(path))
    for name, spec in {**states, **actions}.items():
        if arrays[name].dtype.kind not in ("iu" if spec.type == "int" else spec.type[0]):
            refuse(f"{where}: {path}: {name!r}", f"must be {spec.type}, got {arrays[name].dtype}", arrays[name].dtype)
    terminal = arrays["terminal"]
    if terminal.dtype.kind not in "biu" or terminal.ndim != 1 or not terminal.size or not terminal[-1]:
        refuse(f"{where}: {path}: terminal", "must be bool or int [T], and 1 or 2 in its last row", terminal)
    seen = {name: arrays[name] for name in (*states, *masks) if name in arrays}
    taken = {name: arrays[name] for name in actions}
    return read(agent, seen, taken, terminal, arrays["reward"], None, f"{where}: {path}")
