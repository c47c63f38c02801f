"""Base class of agents: creation, acting and termination."""

from __future__ import annotations

import inspect
import secrets
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ...common.exclusion import exclusive
from ..processing.preprocessors import Preprocessor
from ..spaces import Space, space_of
from ..spaces.readers import actions_out
from ..spaces.space_specs import with_boxes
from ..specs.agents import bind, signature
from ..specs.normal import normal_form
from ..utils.rlgraph_errors import RLGraphError, choice, flag, refuse, translate_errors, unknown_at_once
from .acting import Perception, checked_id, is_nothing, read_ids
from .companions import Companion, Saver, Summarizer
from .core import Asked, Core
from .records import RecordReader
from .rows import Row

EXTRAS: Final = ("preprocessed_states", "internal_states", "used_exploration")
"""Values that ``get_action`` can return besides the action, in this order."""


class BaseAgent:
    """The common part of agents: creation, acting and termination.

    Attributes:
        preprocessor: preprocesses states.
        optimizer: the optimizer's specification with all defaults; None for RandomAgent.
        lock: held by each public method: threads may share an agent, with separate environments.
        arguments: all arguments, as given or with their defaults.
        form: the normal form: every specification with all its defaults.
        state_space: space of the states that :meth:`get_action` takes.
        preprocessed_state_space: space of preprocessed states.
        action_space: space of the actions.
        discount: discount factor of rewards.
        timesteps: number of actions so far.
        updates: number of updates so far.
        seed: seed of all random draws.
    """

    kind: ClassVar[str] = ""
    """Key of the agent; empty for an abstract class."""
    kinds: ClassVar[dict[str, type[BaseAgent]]] = {}
    """Agents by key."""
    core_class: ClassVar[type[Core]] = Core
    chains_batches: ClassVar[bool] = False
    """May ``update(batch)`` omit ``next_states``?"""
    may_differ: ClassVar[tuple[str, ...]] = ()
    """Parts of the normal form that may differ from those of a loaded checkpoint."""
    __signature__: ClassVar[inspect.Signature] = signature("")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("kind") and cls.__module__.startswith(__name__.rpartition(".")[0]):
            BaseAgent.kinds[cls.kind] = cls
            cls.__signature__ = signature(cls.kind)
        elif "__init__" in cls.__dict__:
            own = inspect.signature(cls.__init__)
            cls.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lock = threading.RLock()
        where = type(self).__name__
        if not self.kind:
            agents = ", ".join(one.__name__ for one in BaseAgent.kinds.values())
            raise RLGraphError(f"{where} is not an agent by itself: use one of {agents}", where)
        with unknown_at_once():
            self.arguments = given = bind(self.kind, where, args, kwargs)
            self._complete_arguments(where)
            self.state_space: Space = space_of(f"{where}: state_space", given["state_space"])
            self.action_space: Space = space_of(f"{where}: action_space", given["action_space"])
            place = f"{where}: preprocessing_spec"
            self.preprocessor = Preprocessor(place, given["preprocessing_spec"], self.state_space.flat())
            self.preprocessed_state_space: Space = with_boxes(self.state_space, self.preprocessor.outputs)
            self.form = normal_form(self.kind, where, given, self.preprocessed_state_space, self.action_space)
        form, seen = self.form, self.preprocessed_state_space
        self.discount: float = form["discount"]
        self.name: str = form["name"]
        self.observe_spec: Mapping[str, Any] = form["observe_spec"]
        self.update_spec: Mapping[str, Any] = form["update_spec"]
        self.execution_spec: Mapping[str, Any] = form["execution_spec"]
        self.optimizer: Mapping[str, Any] | None = form.get("optimizer_spec")
        seed = form["execution_spec"]["seed"]
        self.seed: int = secrets.randbits(32) if seed is None else seed
        self.timesteps = self.updates = 0
        self.perception = Perception(where, self.state_space, seen, self.preprocessor)
        self._records = RecordReader(where, seen, self.action_space, chained=self.chains_batches)
        self._buffers: dict[str, list[Row]] = {}
        """Consecutive records of each environment that are not in the memory yet."""
        self._out = actions_out(self.action_space)
        self._core: Core | None = None
        self.companions: list[Companion] = []
        """Companions, which observe events and change nothing."""
        self._terminated = False
        if form["auto_build"]:
            self.build()

    # -- life ---------------------------------------------------------------------------------------------------------

    @exclusive
    def build(self, build_options: Any = None) -> None:
        """Build the model; only needed with ``auto_build=False``.

        Args:
            build_options: no effect.

        Raises:
            RLGraphError: the agent is built already, or its parts do not fit each other.
        """
        del build_options
        name = type(self).__name__
        if self._terminated or self._core is not None:
            problem = "terminated" if self._terminated else "built already"
            raise RLGraphError(f"{name}.build: the agent is {problem}", "build")
        core = self._make_core()
        kinds = {"summary_spec": Summarizer, "saver_spec": Saver}
        self.companions = [
            kind(name, self.form[part], self)
            for part, kind in kinds.items()
            if self.form[part]["directory"] is not None
        ]
        self._core = core

    @property
    def graph_built(self) -> bool:
        """Is the model built?"""
        return self._core is not None

    @property
    def core(self) -> Core:
        """Parts specific to this kind of agent: its model, memory and exploration."""
        if self._core is None:
            raise RLGraphError(f"{type(self).__name__}: the agent is not built: call build() first", "build")
        return self._core

    @exclusive
    def terminate(self) -> None:
        """Terminate the agent: every later call except this one is an error."""
        companions, self.companions = self.companions, []
        try:
            for one in companions:
                one.close()
        finally:
            self._terminated = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def _complete_arguments(self, where: str) -> None:
        """Hook of subclasses whose spaces follow from other arguments."""

    def _make_core(self) -> Core:
        name = type(self).__name__
        with translate_errors(name):
            return self.core_class(name, self.form, self.preprocessed_state_space, self.action_space, self.seed)

    def begin(self, method: str) -> str:
        """The place of a call, for messages; RLGraphError if the agent is terminated or not built."""
        where = f"{type(self).__name__}.{method}"
        if self._terminated:
            raise RLGraphError(f"{where}: the agent is terminated", method)
        if self._core is None:
            raise RLGraphError(f"{where}: the agent is not built: call build() first", method)
        return where

    # -- acting -------------------------------------------------------------------------------------------------------

    @exclusive
    def get_action(
        self,
        states: Any,
        internals: Any = None,
        use_exploration: bool = True,
        apply_preprocessing: bool = True,
        extra_returns: Any = None,
        *,
        env_ids: Any = None,
    ) -> Any:
        """An action for a state, or a batch of actions for a batch of states.

        Args:
            states: a state of ``state_space``, or a batch with a leading axis.
            internals: recurrent states of a recurrent agent, [units] or [B, units] each, used but not stored. None:
                those of the previous act, zeros after :meth:`reset`.
            use_exploration: False: the greedy action, without random draws.
            apply_preprocessing: False: states are preprocessed already.
            extra_returns: names of extras to return: ``preprocessed_states``, ``internal_states`` and
                ``used_exploration`` (bool, or bool [B]: was the action a random one?).
            env_ids: the environment of each state of a batch; by default ``env_0``, ``env_1``, ...

        Returns:
            The action, a NumPy scalar of the action space's dtype or an array; or a tuple of it and the extras, always
            in the order above.

        Raises:
            RLGraphError: an argument is invalid. Nothing is changed then.
        """
        return self.act(states, internals, use_exploration, apply_preprocessing, extra_returns, env_ids)

    def act(
        self,
        states: Any,
        internals: Any,
        use_exploration: Any,
        apply_preprocessing: Any,
        extra_returns: Any,
        env_ids: Any = None,
        *,
        time_step: int | None = None,
    ) -> Any:
        """See :meth:`get_action`. With a ``time_step``, exploration uses it and no timesteps are counted."""
        where, look = self.begin("get_action"), self.perception
        extras = () if extra_returns is None else [extra_returns] if isinstance(extra_returns, str) else extra_returns
        if not isinstance(extras, tuple | list | set | frozenset):
            refuse(f"{where}: extra_returns", f"must be a name or a set of names of {', '.join(EXTRAS)}", extras)
        wanted = {choice(f"{where}: extra_returns", name, EXTRAS) for name in extras} if extras else ()
        if not (isinstance(use_exploration, bool) and isinstance(apply_preprocessing, bool)):
            flag(f"{where}: use_exploration", use_exploration)
            flag(f"{where}: apply_preprocessing", apply_preprocessing)
        arrays, single = look.read("get_action", states, apply_preprocessing)
        rows = len(next(iter(arrays.values())))
        ids = read_ids(where, env_ids, rows)
        held = look.internals(where, internals, self.core.zero_internals(rows), ids, single)
        seen = look.see(arrays, ids) if apply_preprocessing else arrays
        if time_step is None:
            self.timesteps += rows
            time_step = self.timesteps
        acted = self.core.act(Asked(seen, held, use_exploration, time_step, ids))
        if acted.internals is not None and is_nothing(internals):
            look.keep(ids, acted.internals)
        action = self._out(acted.actions, single)
        if not wanted:
            return action
        found = {
            "preprocessed_states": look.out(seen, single),
            "internal_states": tuple(part[0] if single else part for part in (acted.internals or {}).values()),
            "used_exploration": bool(acted.explored[0]) if single else acted.explored,
        }
        return (action, *(found[name] for name in EXTRAS if name in wanted))

    @exclusive
    def preprocess_states(self, states: Any, *, env_ids: Any = None) -> Any:
        """Preprocess states as :meth:`get_action` does, advancing stateful steps.

        Args:
            states: as for :meth:`get_action`.
            env_ids: as for :meth:`get_action`.

        Raises:
            RLGraphError: the states are not of ``state_space``.
        """
        where, look = self.begin("preprocess_states"), self.perception
        arrays, single = look.read("preprocess_states", states, True)
        return look.out(look.see(arrays, read_ids(where, env_ids, len(next(iter(arrays.values()))))), single)

    @exclusive
    def reset(self, env_id: str | None = None) -> None:
        """Begin an episode: reset stateful preprocessing and the stored recurrent states.

        Weights, memory, counters and buffers are kept.

        Args:
            env_id: the environment whose episode begins; None: all.
        """
        where = self.begin("reset")
        self.perception.forget(None if env_id is None else checked_id(where, env_id))
        for one in self.companions:
            one.reset(env_id)

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def can_update(self) -> bool:
        """Do memory and buffers hold enough for ``update()``?"""
        return self.core.can_update(self._buffered_count)

    @property
    def _buffered_count(self) -> int:
        return sum(map(len, self._buffers.values()))

    @property
    def memory(self) -> Any:
        """The memory, whose length is the number of records; None for an agent without one."""
        return None if self._core is None else self._core.memory

    @property
    def exploration(self) -> Any:
        """Exploration of actions; None before :meth:`build`, and without ``exploration_spec``."""
        return None if self._core is None else self._core.exploration

    @property
    def policy(self) -> Any:
        """The traced model, which acts; None before :meth:`build`, and for an agent without one."""
        return None if self._core is None else self._core.model

    @property
    def last_memory_batch(self) -> dict[str, Any] | None:
        """The last batch from the memory, under the names that ``update`` takes; with priorities also ``indices``.

        None without ``store_last_memory_batch``, which DQNAgent has, or before an update.
        """
        if self._core is None or (batch := self._core.last_batch) is None:
            return None
        found = {
            "states": self.preprocessed_state_space.unflatten(batch["observation"]),
            "actions": batch["action"],
            "rewards": batch["reward"],
            "terminals": batch["terminated"] > 0,
            "next_states": self.preprocessed_state_space.unflatten(batch["next_observation"]),
        }
        more = {"indices": batch["index"], "importance_weights": batch["weight"]}
        return found | (more if self._core.memory.is_prioritized else {})

    @property
    def last_q_table(self) -> dict[str, Any] | None:
        """``states`` and ``q_values`` [B, actions] of the last update's batch, before the step.

        None without ``store_last_q_table``, which DQNAgent has, or before an update.
        """
        if self._core is None or (table := self._core.last_q_table) is None:
            return None
        return {**table, "states": self.preprocessed_state_space.unflatten(table["states"])}
