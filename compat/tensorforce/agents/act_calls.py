"""Acting: what an agent does for a caller that owns the loop, with or without an observe that follows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ....core.protocols import Array, ArraySpec
from ...common.exclusion import exclusive
from ..processing.parameters import Counts
from ..spaces import readers
from ..spaces.errors import TensorforceError, refuse
from ..spaces.specs import Values, check_together, read_values
from ..specs.arguments import bind, checked
from .actors import Actor
from .parallel import Parallel, Timestep
from .queries import Queries

if TYPE_CHECKING:
    from ..processing.preprocessors import Preprocessing
    from .learner import Learner


class Acts:
    """The part of an agent that acts. Its calls wait for each other, so that several threads may share it.

    Attributes:
        timesteps: acts so far.
        episodes: finished ones.
        updates: runs of the optimizer.
        core: what chooses actions.
        learning: what learns; None for agents that do not.
        preprocessing: of states and rewards.
        companions: recorder, summarizer and saver, as far as they are asked for.
        fed: the unfinished episode of ``experience``.
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
        self.lock = threading.RLock()

    # -- life ---------------------------------------------------------------------------------------------------------

    def _put_together(
        self, core: Actor, learning: Learner | None, preprocessing: Preprocessing, companions: list[Any]
    ) -> None:
        """Take the parts that it consists of."""
        self.core = core
        self.learning = learning
        self.preprocessing = preprocessing
        self._independent_preprocessing = preprocessing.independent()
        self.companions = companions
        self._queries = Queries(core, learning)
        self._read = readers.StateReader(self.states_values, self.actions_values)
        self._out = readers.action_out(self.actions_values)
        self._initial = core.initial_internals()
        self._internals = {name: ArraySpec(array.shape[1:], array.dtype) for name, array in self._initial.items()}
        self._lanes = [Parallel(self._initial) for _ in range(self.parallel_interactions)]
        self.fed = Parallel(self._initial)
        self.is_initialized = True
        for one in companions:
            one.begin(self)

    @exclusive
    def close(self) -> None:
        """Save, if there is a ``saver``; the agent cannot be used afterwards. A second call does nothing."""
        if self._closed:
            return
        if self.is_initialized:
            for one in self.companions:
                one.close(self)
        self._closed = True

    @exclusive
    def reset(self) -> None:
        """Forget the unfinished episodes of all parallel indices; counters and what was learnt stay."""
        self._check("reset")
        if self.learning is not None:
            self.learning.memory.drop_open()
        for index, lane in enumerate(self._lanes):
            lane.reset()
            for one in self.companions:
                one.drop(index)
        self.fed.reset()
        self.preprocessing.reset()
        self._independent_preprocessing.reset()

    @exclusive
    def initial_internals(self, parallel: int | None = None) -> dict[str, Array]:
        """Begin an episode of independent acts, of one index or of all (None): forget what preprocessing has of it.

        Returns:
            Internal states by name; empty without internal layers.
        """
        self._check("initial_internals")
        self._independent_preprocessing.reset(parallel)
        return self.copied_internals()

    def copied_internals(self) -> dict[str, Array]:
        """Internal states at the beginning of an episode, by name."""
        return {name: array[0].copy() for name, array in self._initial.items()}

    # -- act ----------------------------------------------------------------------------------------------------------

    @exclusive
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
            parallel: index, or several, 0 .. ``parallel_interactions - 1``; of independent acts any, as each index has
                a preprocessing history of independent acts, from :meth:`initial_internals` or :meth:`reset` on.
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
        lanes = sys.maxsize if independent else self.parallel_interactions
        chosen, single = readers.read_parallel("Agent.act", parallel, lanes)
        given = [states] if single else readers.each_of("Agent.act", "states", states, len(chosen))
        rows = [self._read("Agent.act", one) for one in given]
        settings = self.core.settings("Agent.act", kwargs)
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
        seen = [self.preprocessed(index, row) for index, row in zip(chosen, rows, strict=True)]
        internals = readers.stacked([lane.internals for lane in lanes]) if self._initial else None
        if internals is not None:
            internals = {name: array[:, 0] for name, array in internals.items()}
        actions, following = self.core.act(readers.stacked(seen), internals, self._counts(), settings)
        taken = []
        for k, lane in enumerate(lanes):
            action = {name: array[k] for name, array in actions.items()}
            held = {} if internals is None else {name: array[k] for name, array in internals.items()}
            lane.pending = Timestep(seen[k], rows[k], action, held)
            if following is not None:
                lane.internals = {name: array[k : k + 1] for name, array in following.items()}
            taken.append(action)
        self.timesteps += len(chosen)
        for one in self.companions:
            one.acted(self)
        return taken

    def preprocessed(self, lane: int, row: dict[str, Array]) -> dict[str, Array]:
        """What the model sees of a lane's timestep, which is remembered; masks stay as they are."""
        return self._seen(self.preprocessing.apply, lane, row)

    def preprocessed_next(self, lane: int, row: dict[str, Array]) -> dict[str, Array]:
        """What the model would see if this were the lane's next timestep."""
        return self._seen(self.preprocessing.peek, lane, row)

    def _seen(
        self, apply: Callable[[int, Mapping[str, Array]], dict[str, Array]], lane: int, row: dict[str, Array]
    ) -> dict[str, Array]:
        if self.preprocessing.idle:
            return row
        return {**row, **apply(lane, {name: row[name] for name in self.states_values.flat})}

    def read_states(self, where: str, states: Any) -> dict[str, Array]:
        """States as a caller gives them, as arrays by flat name, with masks; TensorforceError if they are invalid."""
        return self._read(where, states)

    def read_internals(self, where: str, internals: Any) -> dict[str, Array]:
        """Internal states of one row, by name; TensorforceError if they are invalid, or there are none to give."""
        return readers.read_internals(where, internals, self._internals)

    def preprocessed_reward(self, index: int, reward: float) -> float:
        """What is learnt from in the place of a reward."""
        return reward if self.preprocessing.idle else self.preprocessing.reward(reward, index)

    @property
    def executor(self) -> Any:
        """What has the weights; None for an agent without a model."""
        return None if self.learning is None else self.learning.stepper.executor

    @property
    def generator(self) -> np.random.Generator:
        """What training draws from."""
        return self.core.rng

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
        given = readers.read_batch_of_internals("Agent.act", internals, self._internals, len(chosen), single)
        apply = self._independent_preprocessing.apply
        seen = [self._seen(apply, index, row) for index, row in zip(chosen, rows, strict=True)]
        actions, following = self.core.act_independently(
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

    def _counts(self) -> Counts:
        return Counts(self.timesteps, self.episodes, self.updates)

    def _check(self, method: str) -> None:
        if self._closed:
            raise TensorforceError(f"Agent.{method}: the agent is closed", method)
        if not self.is_initialized:
            raise TensorforceError(f"Agent.{method}: call initialize() first; Agent.create does it", method)
