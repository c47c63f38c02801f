"""Act and observe: what an agent does in a loop that its caller owns."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ....contracts import Array
from ..forms.arguments import bind, checked
from ..processing.parameters import Counts
from ..values import readers
from ..values.errors import TensorforceError, refuse
from ..values.specs import Values, check_together, read_values
from .acting import Acting
from .lanes import Lane, Timestep
from .queries import Queries

logger = logging.getLogger("axonrl")


class ActObserve:
    """The part of an agent that acts, observes and runs the updates that are due.

    Attributes:
        timesteps: acts so far.
        episodes: finished ones.
        updates: runs of the optimizer.
    """

    kind: ClassVar[str] = "tensorforce"
    """Key of the agent, as ``Agent.create`` takes it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._where = type(self).__name__
        self.arguments = bind(self.kind, args, kwargs)
        given = checked(self.kind, self.arguments)
        self.states_values: Values = read_values(self._where, given["states"], "states")
        self.actions_values: Values = read_values(self._where, given["actions"], "actions")
        check_together(self._where, self.states_values, self.actions_values)
        self.parallel_interactions: int = given.get("parallel_interactions", 1)
        self.max_episode_timesteps: int | None = given.get("max_episode_timesteps")
        self.name: str = given.get("name") or "agent"
        self.timesteps = self.episodes = self.updates = 0
        self.is_initialized = False
        self._closed = False
        self._said: set[str] = set()

    # -- life ---------------------------------------------------------------------------------------------------------

    def _put_together(self, core: Acting, learning: Any, preprocessing: Any, companions: list[Any]) -> None:
        """Take the parts that it consists of."""
        self._core = core
        self._learning = learning
        self._preprocessing = preprocessing
        self._companions = companions
        """Recorder, summarizer and saver, as far as they are asked for."""
        self._queries = Queries(core, learning)
        self._read = readers.StateReader(self.states_values, self.actions_values)
        self._out = readers.action_out(self.actions_values)
        self._initial = core.initial_internals()
        self._lanes = [Lane(self._initial) for _ in range(self.parallel_interactions)]
        self.fed = Lane(self._initial)
        """The unfinished episode of ``experience``."""
        self.is_initialized = True
        for one in companions:
            one.begin(self)

    def close(self) -> None:
        """Save, if there is a ``saver``; the agent cannot be used afterwards. A second call does nothing."""
        if self._closed:
            return
        if self.is_initialized:
            for one in self._companions:
                one.close(self)
        self._closed = True

    def reset(self) -> None:
        """Forget the unfinished episodes of all parallel indices; counters and what was learnt stay."""
        self._check("reset")
        if self._learning is not None:
            self._learning.memory.drop_open()
        for index, lane in enumerate(self._lanes):
            lane.reset()
            self._preprocessing.reset(index)
            for one in self._companions:
                one.drop(index)
        self.fed.reset()
        self._preprocessing.reset(self.parallel_interactions)

    def initial_internals(self) -> dict[str, Array]:
        """What internal states are at the beginning of an episode, by name; empty without internal layers."""
        self._check("initial_internals")
        return {name: array[0].copy() for name, array in self._initial.items()}

    # -- act ----------------------------------------------------------------------------------------------------------

    def act(
        self,
        states: Any,
        internals: Any = None,
        parallel: Any = 0,
        independent: bool = False,
        deterministic: bool = False,
        evaluation: bool = False,
        query: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Actions for states.

        Args:
            states: the value of a single state, or a dictionary; masks of int actions under ``<action>_mask``. With
                several parallel indices a list of them.
            internals: of independent acts, as the last one returned them.
            parallel: index, or several, 0 .. ``parallel_interactions - 1``.
            independent: no observe follows, and nothing is stored or counted.
            deterministic: of independent acts: neither sampling nor exploration.
            evaluation: independent and deterministic.
            query: name of a value to return too, or a list of names.
            **kwargs: ``exploration``, ``temperature``, ``variable-noise``: for this call only.

        Returns:
            Actions, nested as they are declared; with ``internals`` the next ones too, with ``query`` what it asks for.

        Raises:
            TensorforceError: an argument is wrong, or an act of this index waits for its observe.
        """
        self._check("act")
        independent = independent or evaluation
        if not independent and (deterministic or internals is not None):
            name = "deterministic" if deterministic else "internals"
            refuse(f"Agent.act: {name}", "is for independent acts: pass independent=True or evaluation=True too", name)
        chosen, single = readers.read_parallel("Agent.act", parallel, self.parallel_interactions)
        given = [states] if single else readers.each_of("Agent.act", "states", states, len(chosen))
        rows = [self._read("Agent.act", one) for one in given]
        settings = self._core.settings("Agent.act", kwargs)
        asked = self._queries.checked("act", query)
        if independent:
            return self._independent(chosen, single, rows, internals, deterministic or evaluation, settings, asked)
        for index in chosen:
            if self._lanes[index].pending is not None:
                refuse(
                    "Agent.act: parallel", f"{index} has acted already, and observe has not been called for it", index
                )
        actions = self._act(chosen, rows, settings)
        found = [self._out(row) for row in actions]
        result: Any = found[0] if single else self._many(found)
        return result if asked is None else (result, self._queries.act(asked, self._counts(), single))

    def _act(
        self, chosen: list[int], rows: list[dict[str, Array]], settings: Mapping[str, float]
    ) -> list[dict[str, Array]]:
        """Act for lanes, whose observes follow."""
        lanes = [self._lanes[index] for index in chosen]
        seen = rows
        if not self._preprocessing.idle:
            seen = [self.preprocessed(index, row) for index, row in zip(chosen, rows, strict=True)]
        internals = readers.stacked([lane.internals for lane in lanes]) if self._initial else None
        if internals is not None:
            internals = {name: array[:, 0] for name, array in internals.items()}
        actions, following = self._core.act(readers.stacked(seen), internals, self._counts(), settings)
        taken = []
        for k, lane in enumerate(lanes):
            action = {name: array[k] for name, array in actions.items()}
            held = {} if internals is None else {name: array[k] for name, array in internals.items()}
            lane.pending = Timestep(seen[k], rows[k], action, held)
            if following is not None:
                lane.internals = {name: array[k : k + 1] for name, array in following.items()}
            taken.append(action)
        self.timesteps += len(chosen)
        for one in self._companions:
            one.acted(self)
        return taken

    def preprocessed(self, index: int, row: dict[str, Array], *, independent: bool = False) -> dict[str, Array]:
        """What the model sees; masks stay as they are."""
        states = {name: row[name] for name in self.states_values.flat}
        apply = self._preprocessing.apply_independent if independent else self._preprocessing.apply
        return {**row, **apply(index, states)}

    def read_states(self, where: str, states: Any) -> dict[str, Array]:
        """States as a caller gives them, as arrays by flat name, with masks; TensorforceError if they are invalid."""
        return self._read(where, states)

    def read_internals(self, where: str, internals: Any) -> dict[str, Array]:
        """Internal states of one row; TensorforceError if they are missing or invalid, or there are none to give."""
        if not self._initial:
            if internals:
                refuse(f"{where}: internals", "must be {} or None: the agent has no internal layers", internals)
            return {}
        return self._one_internals(where, internals)

    def preprocessed_reward(self, index: int, reward: float) -> float:
        """What is learnt from in the place of a reward."""
        return reward if self._preprocessing.idle else self._preprocessing.reward(reward, index)

    def preprocessed_reset(self, index: int) -> None:
        """The preprocessing's history of an index is over."""
        self._preprocessing.reset(index)

    @property
    def executor(self) -> Any:
        """What has the weights; None for an agent without a model."""
        return None if self._learning is None else self._learning.stepper.executor

    @property
    def generator(self) -> np.random.Generator:
        """What training draws from."""
        return self._core.rng

    def _many(self, found: list[Any]) -> Any:
        return np.stack(found) if self.actions_values.single else found

    def _independent(
        self,
        chosen: list[int],
        single: bool,
        rows: list[dict[str, Array]],
        internals: Any,
        deterministic: bool,
        settings: Mapping[str, float],
        asked: Any,
    ) -> Any:
        """Act without an observe."""
        given = self._given_internals(internals, len(chosen), single)
        seen = rows
        if not self._preprocessing.idle:
            seen = [self.preprocessed(i, row, independent=True) for i, row in zip(chosen, rows, strict=True)]
        actions, following = self._core.act_independently(
            readers.stacked(seen), given, self._counts(), settings, deterministic
        )
        found = [self._out({name: array[k] for name, array in actions.items()}) for k in range(len(chosen))]
        results: list[Any] = [found[0] if single else self._many(found)]
        if internals is not None:
            each = [{name: array[k] for name, array in (following or {}).items()} for k in range(len(chosen))]
            results.append(each[0] if single else each)
        if asked is not None:
            results.append(self._queries.act(asked, self._counts(), single))
        return results[0] if len(results) == 1 else tuple(results)

    def _given_internals(self, internals: Any, number: int, single: bool) -> dict[str, Array] | None:
        """Internals [K, ...] by name; None for a model without."""
        if not self._initial:
            if internals:
                for one in [internals] if single else readers.each_of("Agent.act", "internals", internals, number):
                    self.read_internals("Agent.act", one)
            return None
        if internals is None:
            refuse(
                "Agent.act: internals", "is missing: pass initial_internals(), then what the last act returned", None
            )
        each = [internals] if single else readers.each_of("Agent.act", "internals", internals, number)
        rows = [self._one_internals("Agent.act", one) for one in each]
        return {name: np.stack([row[name] for row in rows]) for name in self._initial}

    def _one_internals(self, where: str, given: Any) -> dict[str, Array]:
        if not isinstance(given, Mapping) or set(given) != set(self._initial):
            refuse(f"{where}: internals", f"must be a dictionary with {', '.join(self._initial)}, got {given!r}", given)
        found = {}
        for name, initial in self._initial.items():
            array = readers.as_array(f"{where}: internals[{name!r}]", given[name])
            if array.dtype.kind not in "fiu" or array.shape != initial.shape[1:] or not np.isfinite(array).all():
                refuse(
                    f"{where}: internals[{name!r}]", f"must be finite floats of shape {initial.shape[1:]}", given[name]
                )
            found[name] = array.astype(np.float32)
        return found

    # -- observe ------------------------------------------------------------------------------------------------------

    def observe(
        self,
        reward: Any,
        terminal: Any = False,
        parallel: Any = 0,
        query: Any = None,
        *,
        next_states: Any = None,
        **kwargs: Any,
    ) -> Any:
        """What came of the last act; runs an update if one is due.

        Args:
            reward: a number; with several parallel indices a list of them, as ``terminal``.
            terminal: False or 0: the episode goes on; True or 1: it ended; 2: it was aborted, by a time limit.
            parallel: as for :meth:`act`.
            query: name of a value to return too, or a list of names; of one parallel index.
            next_states: the states after an abort, so that nothing is lost there.
            **kwargs: values of parameters for an update that this call runs, such as ``discount``.

        Returns:
            Was there an update? With several parallel indices how many; with ``query`` also what it asks for.

        Raises:
            TensorforceError: an argument is wrong, or no act of this index waits for an observe.
        """
        self._check("observe")
        where = "Agent.observe"
        chosen, single = readers.read_parallel(where, parallel, self.parallel_interactions)
        asked = self._queries.checked("observe", query)
        if asked is not None and not single:
            refuse(f"{where}: query", "is for one parallel index", query)
        overrides = self._queries.overrides(where, kwargs)
        number = len(chosen)
        rewards = [
            readers.read_reward(where, x) for x in ([reward] if single else self._each("reward", reward, number))
        ]
        same = single or terminal is False  # the default holds for all
        ends = [terminal] * number if same else self._each("terminal", terminal, number)
        terminals = [readers.read_terminal(where, x) for x in ends]
        following = self._following(next_states, terminals, single)
        for index, end in zip(chosen, terminals, strict=True):
            self._check_observe(index, end)
        updates = 0
        for k, index in enumerate(chosen):
            updates += self._observe(index, rewards[k], terminals[k], following[k], overrides)
        result: Any = bool(updates) if single else updates
        return result if asked is None else (result, self._queries.observe(asked, self._counts(), overrides))

    def _each(self, what: str, given: Any, number: int) -> list[Any]:
        return readers.each_of("Agent.observe", what, given, number)

    def _following(self, next_states: Any, terminals: Sequence[int], single: bool) -> list[dict[str, Array] | None]:
        """The states after each index's timestep, where they are given and of use."""
        if next_states is None:
            return [None] * len(terminals)
        given = [next_states] if single else self._each("next_states", next_states, len(terminals))
        return [None if one is None else self._read("Agent.observe: next_states", one) for one in given]

    def _check_observe(self, index: int, terminal: int) -> None:
        lane = self._lanes[index]
        if lane.pending is None:
            refuse("Agent.observe: parallel", f"{index} has not acted: act comes before observe", index)
        longest = self.max_episode_timesteps
        if longest is not None and lane.steps >= longest:
            refuse(
                "Agent.observe: terminal",
                f"must have been 1 or 2 by timestep {longest} of the episode, which is max_episode_timesteps; this"
                f" would be timestep {lane.steps + 1}: call reset() to begin another episode",
                terminal,
            )

    def _observe(
        self,
        index: int,
        reward: float,
        terminal: int,
        following: dict[str, Array] | None,
        overrides: Mapping[str, float],
    ) -> bool:
        lane, learning = self._lanes[index], self._learning
        timestep = lane.pending
        if timestep is None:  # checked before
            return False
        lane.pending = None
        lane.steps += 1
        lane.episode_reward += reward
        timestep.raw_reward = reward
        timestep.reward = self.preprocessed_reward(index, reward)
        for one in self._companions:
            one.observed(self, index, timestep, terminal)
        if learning is not None:
            self._store(lane, index, timestep, terminal, following)
        if terminal:
            self.episodes += 1
            for one in self._companions:
                one.finished(self, lane.episode_reward)
            lane.reset()
            self._preprocessing.reset(index)
        updated = learning is not None and (terminal > 0 or not learning.by_episodes) and self._update_if_due(overrides)
        for one in self._companions:
            one.timestep_done(self)
        return updated

    def _store(
        self, lane: Lane, index: int, timestep: Timestep, terminal: int, following: dict[str, Array] | None
    ) -> None:
        """Put a timestep into the memory: at once, or with its whole episode where updates go by episodes."""
        learning = self._learning
        memory = learning.memory
        if not learning.by_episodes:
            memory.append(timestep.features, timestep.action, timestep.internals, timestep.reward)
        else:
            lane.timesteps.append(timestep)
            if terminal:
                memory.extend(*lane.columns())
        if terminal:
            seen = following
            if seen is not None and not self._preprocessing.idle:
                seen = self.preprocessed(index, seen, independent=True)
            learning.end(terminal, seen, {name: array[0] for name, array in lane.internals.items()})

    def _update_if_due(self, overrides: Mapping[str, float]) -> bool:
        learning, counts = self._learning, self._counts()
        if not learning.due(counts, overrides):
            return False
        if not learning.prepare(counts, overrides):
            self._say_once(
                f"An update was due at timestep {self.timesteps} and skipped: a batch needs"
                f" {learning.memory.batch_size}, and {learning.memory.available()} are stored that could be used."
            )
            return False
        self._learn()
        return True

    def _learn(self) -> None:
        self._learning.learn()
        self.updates += 1
        self._core.learned()
        for one in self._companions:
            one.updated(self)

    def _counts(self) -> Counts:
        return Counts(self.timesteps, self.episodes, self.updates)

    def _say_once(self, message: str) -> None:
        if message[:24] not in self._said:
            self._said.add(message[:24])
            logger.warning("%s", message)

    def _check(self, method: str) -> None:
        if self._closed:
            raise TensorforceError(f"Agent.{method}: the agent is closed", method)
        if not self.is_initialized:
            raise TensorforceError(f"Agent.{method}: call initialize() first; Agent.create does it", method)
