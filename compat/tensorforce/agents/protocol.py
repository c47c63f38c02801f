"""Act and observe: what an agent does in a loop that its caller owns."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..spaces import readers
from ..spaces.errors import refuse
from .act_calls import Acts
from .parallel import Timestep

if TYPE_CHECKING:
    from .learner import Learner

logger = logging.getLogger("axonrl")


class ActObserve(Acts):
    """The part of an agent that acts, observes and runs the updates that are due."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_skipped = False

    @exclusive
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
        lane, learning = self._lanes[index], self.learning
        timestep = lane.pending
        if timestep is None:  # checked before
            return False
        lane.pending = None
        lane.steps += 1
        lane.episode_reward += reward
        timestep.raw_reward = reward
        timestep.reward = self.preprocessed_reward(index, reward)
        for one in self.companions:
            one.observed(self, index, timestep, terminal)
        if learning is not None:
            self._store(learning, index, timestep, terminal, following)
        if terminal:
            self.episodes += 1
            for one in self.companions:
                one.finished(self, lane.episode_reward)
            lane.reset()
            self.preprocessing.reset(index)
        updated = False
        if learning is not None and (terminal or not learning.by_episodes):
            updated = self._update_if_due(learning, overrides)
        for one in self.companions:
            one.timestep_done(self)
        return updated

    def _store(
        self, learning: Learner, index: int, timestep: Timestep, terminal: int, following: dict[str, Array] | None
    ) -> None:
        """Put a timestep into the memory: at once, or with its whole episode where updates go by episodes."""
        lane, memory = self._lanes[index], learning.memory
        if not learning.by_episodes:
            memory.append(timestep.features, timestep.action, timestep.internals, timestep.reward)
        else:
            lane.timesteps.append(timestep)
            if terminal:
                memory.extend(*lane.columns())
        if terminal:
            seen = None if following is None else self.preprocessed_next(index, following)
            learning.end(terminal, seen, {name: array[0] for name, array in lane.internals.items()})

    def _update_if_due(self, learning: Learner, overrides: Mapping[str, float]) -> bool:
        counts = self._counts()
        if not learning.due(counts, overrides):
            return False
        if not learning.prepare(counts, overrides):
            if not self._has_skipped:  # said once
                self._has_skipped = True
                size, available = learning.memory.batch_size, learning.memory.available()
                skipped = f"An update was due at timestep {self.timesteps} and skipped"
                logger.warning("%s: a batch needs %s, and %s are stored that could be used.", skipped, size, available)
            return False
        self._learn(learning)
        return True

    def _learn(self, learning: Learner) -> None:
        learning.learn()
        self.updates += 1
        for one in self.companions:
            one.updated(self)
