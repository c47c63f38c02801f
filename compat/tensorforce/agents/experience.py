"""Learning without acting: from given experience, and from recorded traces."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ....core.checks import shortened
from ...common.exclusion import exclusive
from ..spaces import readers
from ..spaces.errors import TensorforceError, as_array, integer, refuse
from ..spaces.specs import MASK
from . import interaction
from .agent import Agent
from .companions import AgentCore
from .files import read_arrays, read_path
from .parallel import Timestep

Row: TypeAlias = "tuple[Timestep, int]"
"""A timestep with its terminal."""
_WHERE = "Agent.experience"


class TensorforceAgent(Agent):
    """The generic agent, whose arguments are its parts; base class of all learning agents."""

    kind = "tensorforce"

    @exclusive
    def experience(
        self,
        states: Any,
        actions: Any,
        terminal: Any,
        reward: Any,
        internals: Any = None,
        query: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Store timesteps collected elsewhere. Counters do not change, and no update runs.

        An episode is stored once it has an end, which may come in a later call.

        Args:
            states: arrays [T, ...], or the values of one timestep; including masks.
            actions: arrays [T, ...], or the values of one timestep.
            terminal: bool or 0, 1, 2; [T] or one value.
            reward: [T] or one value.
            internals: internals when acting, [T, ...] by name; for agents with internals.
            query: name or list of names of values to return.
            **kwargs: values of parameters, for the query.

        Returns:
            None, or the values of ``query``.

        Raises:
            TensorforceError: an argument is invalid, or an episode is running.
        """
        self._check_idle("experience")
        asked = self.queries.check("experience", query)
        overrides = self.queries.overrides("Agent.experience", kwargs)
        self._feed(_read(self, states, actions, terminal, reward, internals))
        return None if asked is None else self.queries.observe(asked, self.counts, overrides)

    @exclusive
    def update(self, query: Any = None, **kwargs: Any) -> Any:
        """Run one update, regardless of the schedule; it is counted.

        Args:
            query: name or list of names of values to return.
            **kwargs: values of parameters, such as ``learning_rate``, for this update.

        Returns:
            None, or the values of ``query``.

        Raises:
            TensorforceError: too little is stored; random parameters are unchanged then.
            NonFiniteError: its loss or a metric is NaN or infinite.
        """
        self.check_open("update")
        asked = self.queries.check("update", query)
        overrides = self.queries.overrides("Agent.update", kwargs)
        learning: Any = self.learning
        with contextlib.ExitStack() as refused:
            refused.enter_context(learning.undone())
            if not learning.prepare(self.counts, overrides):
                unit, memory = "episodes" if learning.by_episodes else "timesteps", learning.memory
                problem = f"needs {memory.batch_size} {unit}, but only {memory.available()} usable ones are stored"
                raise TensorforceError(f"Agent.update {problem}", "update", memory.available())
            refused.pop_all()
        interaction.learn(self, learning)
        return None if asked is None else self.queries.observe(asked, self.counts, overrides)

    @exclusive
    def pretrain(self, directory: str, num_iterations: int, num_traces: int | None = 1, num_updates: int = 1) -> None:
        """Learn from recorded traces, which are all read first.

        Args:
            directory: directory of files ``trace-*.npz``.
            num_iterations: how often traces are drawn.
            num_traces: number of traces per draw; None: all.
            num_updates: number of updates after each draw.

        Raises:
            TensorforceError: there are no traces, they do not fit, or the agent has internal states, which traces lack.
        """
        self._check_idle("pretrain")
        where = "Agent.pretrain"
        iterations = integer(f"{where}: num_iterations", num_iterations, at_least=1)
        updates = integer(f"{where}: num_updates", num_updates, at_least=1)
        wanted = None if num_traces is None else integer(f"{where}: num_traces", num_traces, at_least=1)
        if self.internals:
            problem = f"{where}: the agent has internal states, which traces do not hold"
            raise TensorforceError(problem, "directory", directory)
        folder = Path(read_path(f"{where}: directory", directory))
        if not folder.is_dir():
            refuse(f"{where}: directory", f"is not a folder: {directory}", directory)
        traces = [_read_trace(where, path, self) for path in sorted(folder.glob("trace-*.npz"))]
        if not traces:
            refuse(f"{where}: directory", f"holds no file trace-*.npz: {directory}", directory)
        number = len(traces) if wanted is None else min(wanted, len(traces))
        for _ in range(iterations):
            for k in self.acting.rng.choice(len(traces), number, replace=False):
                self._feed(traces[k])
            for _ in range(updates):
                self.update()

    def _check_idle(self, method: str) -> None:
        """Refuse a call while an episode is running; for ``pretrain`` also one begun by ``experience``."""
        self.check_open(method)
        for index, lane in enumerate(self.lanes):
            if lane.pending is not None or lane.steps:
                problem = f"an episode of parallel index {index} is running: finish it, or call reset()"
                raise TensorforceError(f"Agent.{method}: {problem}", "parallel", index)
        if method == "pretrain" and self.fed.steps:
            problem = "the episode that experience began has not ended: finish it, or call reset()"
            raise TensorforceError(f"Agent.{method}: {problem}", "terminal")

    def _feed(self, rows: Iterable[Row]) -> None:
        """Store timesteps; an unfinished episode waits for its end."""
        fed, index, learning = self.fed, self.parallel_interactions, self.learning
        assert learning is not None
        for timestep, end in rows:
            stored = timestep
            if not self.sees_states:
                seen = interaction.seen_by(self, self.preprocessing.apply)(index, timestep.states)
                reward = self.preprocessing.reward(timestep.reward, index)
                stored = dataclasses.replace(timestep, features=seen, reward=reward)
            fed.steps += 1
            learning.store(fed, stored, end, whole=True)
            if end:
                fed.reset()
                self.preprocessing.reset(index)


def _read(
    agent: AgentCore, states: Any, actions: Any, terminal: Any, reward: Any, internals: Any, where: str = _WHERE
) -> list[Row]:
    """Checked timesteps from the arguments of ``experience``; nothing is stored."""
    terminals = as_array(f"{where}: terminal", terminal)
    if terminals.ndim > 1:
        refuse(f"{where}: terminal", f"must be one value or [T], got the shape {terminals.shape}", terminal)
    each = {"states": states, "actions": actions, "terminal": terminal, "reward": reward, "internals": internals}
    if terminals.ndim == 0:
        readers.read_terminal(where, terminal)  # first, because it tells whether there is a time axis
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
    """Entries of nested arrays [T, ...], nested likewise."""
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
    return _read(agent, seen, taken, terminal, arrays["reward"], None, f"{where}: {path}")
