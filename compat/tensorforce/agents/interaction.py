"""Act and observe: choose actions for a caller's states, store their outcomes and run updates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.protocols import Array
from ....hooks.nan_guard import check_finite
from ..spaces import readers
from ..spaces.errors import refuse
from ..spaces.specs import Values
from .parallel import Timestep

if TYPE_CHECKING:
    from .companions import AgentCore
    from .learner import Learner

_UTIL = f"{__name__.rpartition('.agents.')[0]}.util"


def act(
    agent: AgentCore,
    states: Any,
    internals: Any,
    parallel: Any,
    independent: bool,
    greedy: bool,
    query: Any,
    given: Mapping[str, Any],
) -> Any:
    """See :meth:`.agent.Agent.act`; ``greedy`` acts are deterministic."""
    where = "Agent.act"
    if not independent and (greedy or internals is not None):
        name = "deterministic" if greedy else "internals"
        refuse(f"{where}: {name}", "is for independent acts: pass independent=True or evaluation=True too", name)
    lanes = sys.maxsize if independent else agent.parallel_interactions
    chosen, single = readers.read_parallel(where, parallel, lanes)
    each = [states] if single else readers.each_of(where, "states", states, len(chosen))
    rows = [agent.read_states(where, one) for one in each]
    settings = agent.acting.settings(where, given) if given else {}
    asked = None if query is None else agent.queries.check("act", query)
    if independent:
        held = readers.read_batch_of_internals(where, internals, agent.internals, len(chosen), single)
    else:
        busy = next((index for index in chosen if agent.lanes[index].pending is not None), None)
        if busy is not None:
            refuse(f"{where}: parallel", f"{busy} has acted already: call observe for it first", busy)
        held = readers.stack_rows([agent.lanes[index].internals for index in chosen]) if agent.internals else None
    histories = agent.independent_preprocessing if independent else agent.preprocessing
    seen = rows if agent.sees_states else list(map(seen_by(agent, histories.apply), chosen, rows))
    found, following = agent.acting(readers.stack_rows(seen), held, agent.counts, settings, independent, greedy)
    taken, after = (
        [{name: array[k] for name, array in arrays.items()} for k in range(len(chosen))]
        for arrays in (found, following or {})
    )
    if not independent:
        for k, index in enumerate(chosen):
            lane = agent.lanes[index]
            lane.pending = Timestep(seen[k], rows[k], taken[k], lane.internals)
            lane.internals = after[k]
        agent.timesteps += len(chosen)
        for one in agent.companions:
            one.acted(agent)
    actions = [agent.actions_out(one) for one in taken]
    results = [actions[0] if single else np.stack(actions) if agent.actions_values.single else actions]
    if internals is not None:
        results.append(after[0] if single else after)
    if asked is not None:
        results.append(agent.queries.act(asked, agent.counts, single))
    return results[0] if len(results) == 1 else tuple(results)


def initial_internals(agent: AgentCore, parallel: Any) -> dict[str, Array]:
    """See :meth:`.agent.Agent.initial_internals`."""
    indices: Sequence[int | None] = [None]
    if parallel is not None:
        indices = readers.read_parallel("Agent.initial_internals", parallel, sys.maxsize)[0]
    for index in indices:
        agent.independent_preprocessing.reset(index)
    return {name: np.zeros(one.shape, one.dtype) for name, one in agent.internals.items()}


def actions_out(actions: Values) -> readers.Converter:
    """Function that makes the result of ``act``, in the types of ``util.np_dtype_mapping``, which programs may set.

    Agents always compute in float32 and int32.
    """
    util = sys.modules.get(_UTIL)  # not imported here: only a program that has imported it can have set them
    types = {name: spec.dtype if util is None else util.np_dtype(spec.type) for name, spec in actions.flat.items()}
    if all(types[name] == spec.dtype for name, spec in actions.flat.items()):
        return readers.action_out(actions)
    return lambda arrays: actions.nest_values({name: array.astype(types[name])[()] for name, array in arrays.items()})


def seen_by(
    agent: AgentCore, apply: Callable[[int, Mapping[str, Array]], dict[str, Array]]
) -> Callable[[int, dict[str, Array]], dict[str, Array]]:
    """Function of a lane and its row that returns the model's inputs: states preprocessed by ``apply``, and masks."""
    names = agent.states_values.flat
    return lambda lane, row: {**row, **apply(lane, {name: row[name] for name in names})}


def observe(
    agent: AgentCore, reward: Any, terminal: Any, parallel: Any, query: Any, next_states: Any, given: Mapping[str, Any]
) -> Any:
    """See :meth:`.agent.Agent.observe`. All lanes are checked before anything changes."""
    where = "Agent.observe"
    chosen, single = readers.read_parallel(where, parallel, agent.parallel_interactions)
    asked = agent.queries.check("observe", query)
    if asked is not None and not single:
        refuse(f"{where}: query", "is for one parallel index", query)
    overrides = agent.queries.overrides(where, given)

    rows: Iterable[Any] = [(reward, terminal, next_states)]
    if not single:
        count = len(chosen)
        terminals = [False] * count if terminal is False else readers.each_of(where, "terminal", terminal, count)
        after = [None] * count if next_states is None else readers.each_of(where, "next_states", next_states, count)
        rows = zip(readers.each_of(where, "reward", reward, count), terminals, after, strict=True)
    outcomes = [
        (
            readers.read_reward(where, value),
            readers.read_terminal(where, end),
            None if after is None else agent.read_states(f"{where}: next_states", after),
        )
        for value, end, after in rows
    ]
    for index, (_, end, _) in zip(chosen, outcomes, strict=True):
        lane, longest = agent.lanes[index], agent.max_episode_timesteps
        if lane.pending is None:
            refuse(f"{where}: parallel", f"{index} has not acted: act comes before observe", index)
        if longest is not None and lane.steps >= longest:
            problem = (
                f"must have been 1 or 2 by timestep {longest} of the episode, which is max_episode_timesteps; this"
            )
            then = f"would be timestep {lane.steps + 1}: call reset() to begin another episode"
            refuse(f"{where}: terminal", f"{problem} {then}", end)
    updates = 0
    for index, outcome in zip(chosen, outcomes, strict=True):
        updates += _observe(agent, index, *outcome, overrides)
    result: Any = bool(updates) if single else updates
    return result if asked is None else (result, agent.queries.observe(asked, agent.counts, overrides))


def _observe(
    agent: AgentCore,
    index: int,
    reward: float,
    terminal: int,
    following: dict[str, Array] | None,
    overrides: Mapping[str, float],
) -> bool:
    """Complete a lane's timestep; returns whether an update ran."""
    learning, preprocessing, lane = agent.learning, agent.preprocessing, agent.lanes[index]
    timestep, lane.pending = lane.pending, None
    assert timestep is not None  # checked above
    lane.steps += 1
    lane.episode_reward += reward
    timestep.raw_reward = reward
    timestep.reward = reward if agent.sees_states else preprocessing.reward(reward, index)
    for one in agent.companions:
        one.observed(agent, index, timestep, terminal)
    if learning is not None:
        if terminal and following is not None and not agent.sees_states:
            following = seen_by(agent, preprocessing.peek)(index, following)
        learning.store(lane, timestep, terminal, following)
    if terminal:
        agent.episodes += 1
        for one in agent.companions:
            one.finished(agent, lane.episode_reward)
        lane.reset()
        preprocessing.reset(index)
    updated = False
    if learning is not None and (terminal or not learning.by_episodes) and learning.due(agent.counts, overrides):
        updated = learning.prepare(agent.counts, overrides)
        if updated:
            learn(agent, learning)
        else:
            learning.skip(agent.timesteps)
    for one in agent.companions:
        one.timestep_done(agent)
    return updated


def learn(agent: AgentCore, learning: Learner) -> None:
    """Run a prepared update.

    Raises:
        NonFiniteError: its loss or a metric is NaN or infinite.
    """
    facts = learning.learn()
    agent.updates += 1
    check_finite(facts, lambda: f"at update {agent.updates}, timestep {agent.timesteps}")
    for one in agent.companions:
        one.updated(agent)
