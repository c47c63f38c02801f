"""What all agents have: arguments, spaces, counters, and what they remember of each environment."""

from __future__ import annotations

import inspect
import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..processing.preprocessors import Preprocessor
from ..spaces import Space, space_of
from ..spaces.readers import Record, RecordsReader, StatesReader, actions_out
from ..spaces.rebuilt import rebuilt
from ..specs.agents import bind, signature
from ..specs.normal import normal_form
from ..utils.rlgraph_errors import RLGraphError, refuse, unknown_at_once
from .attachments import Companion
from .buffers import Buffer
from .core import Acted, Core
from .saver import Saver
from .summaries import Summarizer

FIRST_ID: Final = "env_0"
"""The environment of records and states that name none."""


class Base:
    """The part of an agent that everything else works with.

    Attributes:
        preprocessor: of states.
        optimizer: its specification with all defaults; None of RandomAgent.
        lock: held by each public method: threads may share an agent, one environment each.
        arguments: all of them, as they were given or with their defaults.
        form: what they mean: every spec with all its defaults.
        state_space: of what :meth:`get_action` takes.
        preprocessed_state_space: of what the model sees.
        action_space: of what it chooses.
        discount: of future rewards.
        timesteps: actions so far.
        updates: so far.
        seed: of all that the agent draws.
        core: what is special to this kind of agent; None before :meth:`build`.
    """

    kind: ClassVar[str] = ""
    """The key of the agent; empty of what is no agent by itself."""
    kinds: ClassVar[dict[str, type[Base]]] = {}
    """Agents by key."""
    __signature__: ClassVar[inspect.Signature] = signature("")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("kind") and cls.__module__.startswith(__name__.rpartition(".")[0]):
            Base.kinds[cls.kind] = cls
            cls.__signature__ = signature(cls.kind)
        elif "__init__" in cls.__dict__:
            own = inspect.signature(cls.__init__)
            cls.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lock = threading.RLock()
        where = type(self).__name__
        if not self.kind:
            agents = ", ".join(one.__name__ for one in Base.kinds.values())
            raise RLGraphError(f"{where} is not an agent by itself: use one of {agents}", where)
        with unknown_at_once():
            self.arguments = bind(self.kind, where, args, kwargs)
            self._complete_arguments(where)
            self.state_space: Space = space_of(f"{where}: state_space", self.arguments["state_space"])
            self.action_space: Space = space_of(f"{where}: action_space", self.arguments["action_space"])
            self.preprocessor = Preprocessor(
                f"{where}: preprocessing_spec", self.arguments["preprocessing_spec"], self.state_space.flat()
            )
            self.preprocessed_state_space: Space = rebuilt(self.state_space, self.preprocessor.outputs)
            self.form = normal_form(self.kind, where, self.arguments, self.preprocessed_state_space, self.action_space)
        self.discount: float = self.form["discount"]
        self.name: str = self.form["name"]
        self.observe_spec: Mapping[str, Any] = self.form["observe_spec"]
        self.update_spec: Mapping[str, Any] = self.form["update_spec"]
        self.execution_spec: Mapping[str, Any] = self.form["execution_spec"]
        self.optimizer: Mapping[str, Any] | None = self.form.get("optimizer_spec")
        seed = self.form["execution_spec"]["seed"]
        self.seed: int = secrets.randbits(32) if seed is None else seed
        self.timesteps = self.updates = 0
        self._core: Core | None = None
        self._companions: list[Companion] = []
        self._terminated = False
        self._read = StatesReader(where, self.state_space)
        self._read_preprocessed = StatesReader(where, self.preprocessed_state_space)
        self._read_records = RecordsReader(where, self.preprocessed_state_space, self.action_space)
        self._out = actions_out(self.action_space)
        self._seen = self.preprocessed_state_space.flat()
        self._lanes: dict[str, int] = {}
        self._own_internals: dict[int, dict[str, Array]] = {}
        self._buffers: dict[str, Buffer] = {}
        self._acts: dict[str, Any] = {}
        if self.form["auto_build"]:
            self.build()

    # -- life ---------------------------------------------------------------------------------------------------------

    @exclusive
    def build(self, build_options: Any = None) -> None:
        """Build the model. It is only needed after ``auto_build=False``.

        Args:
            build_options: has no effect.

        Raises:
            RLGraphError: the agent is built, or its parts do not fit each other.
        """
        del build_options
        if self._terminated:
            raise RLGraphError(f"{type(self).__name__}.build: the agent is terminated", "build")
        if self._core is not None:
            raise RLGraphError(f"{type(self).__name__}.build: the agent is built already", "build")
        self._core = self._make_core()
        try:
            self._companions = self._make_companions()
        except RLGraphError:
            self._core = None
            raise

    @property
    def graph_built(self) -> bool:
        """Is the model there?"""
        return self._core is not None

    @property
    def core(self) -> Core:
        """What is special to this kind of agent."""
        if self._core is None:
            raise RLGraphError(f"{type(self).__name__}: the agent is not built: call build() first", "build")
        return self._core

    @exclusive
    def terminate(self) -> None:
        """End the agent: every call but this one is an error afterwards."""
        companions, self._companions = self._companions, []
        try:
            for one in companions:
                one.close(self)
        finally:
            self._terminated = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def _complete_arguments(self, where: str) -> None:
        """What subclasses do whose spaces follow from other arguments."""

    def _make_core(self) -> Core:
        """What subclasses define."""
        raise NotImplementedError

    def _make_companions(self) -> list[Companion]:
        summary, saver = self.form["summary_spec"], self.form["saver_spec"]
        found: list[Companion] = []
        if summary["directory"] is not None:
            found.append(Summarizer(type(self).__name__, summary, self))
        if saver["directory"] is not None:
            found.append(Saver(saver, self))
        return found

    def store_model(self) -> Any:
        """What subclasses define."""
        raise NotImplementedError

    def _begin(self, method: str) -> str:
        """The place of a call, for messages; RLGraphError if the agent cannot do it now."""
        where = f"{type(self).__name__}.{method}"
        if self._terminated:
            raise RLGraphError(f"{where}: the agent is terminated", method)
        if self._core is None:
            raise RLGraphError(f"{where}: the agent is not built: call build() first", method)
        return where

    # -- environments -------------------------------------------------------------------------------------------------

    def _id(self, where: str, given: Any) -> str:
        if not isinstance(given, str) or not given:
            refuse(f"{where}: env_id", f"must be a name, got {given!r}", given)
        return given

    def _ids(self, where: str, given: Any, rows: int) -> list[str]:
        """The environment of each state."""
        if given is None:
            return [FIRST_ID] if rows == 1 else [f"env_{row}" for row in range(rows)]
        names = [given] if isinstance(given, str) else list(given)
        if len(names) != rows or len(set(names)) != rows:
            refuse(f"{where}: env_ids", f"must be {rows} different names, one for each state; got {given!r}", given)
        return [self._id(where, name) for name in names]

    def _lane(self, env_id: str) -> int:
        """The number under which stateful steps remember an environment."""
        return self._lanes.setdefault(env_id, len(self._lanes))

    def _preprocessed(self, arrays: dict[str, Array], lanes: list[int]) -> dict[str, Array]:
        if not self.preprocessor.has_steps:
            return arrays
        found = self.preprocessor(arrays, lanes)
        return {name: found[name].astype(box.dtype, copy=False) for name, box in self._seen.items()}

    def _note(self, ids: list[str], seen: Mapping[str, Array], acted: Acted) -> None:
        """Remember what was known when the agent acted, until the records are observed."""
        for row, name in enumerate(ids):
            extras = {key: part[row] for key, part in (acted.extras or {}).items()}
            action = {key: part[row] for key, part in acted.actions.items()}
            self._acts[name] = ({key: part[row] for key, part in seen.items()}, action, extras)

    def _noted(self, name: str, record: Record) -> dict[str, Array] | None:
        """What was noted of this very record; None if the agent did not act so."""
        if name not in self._acts:
            return None
        state, action, extras = self._acts.pop(name)
        return extras if _equal(state, record.state) and _equal(action, record.action) else None

    # -- buffers ------------------------------------------------------------------------------------------------------

    @property
    def states_buffer(self) -> dict[str, list[Any]]:
        """Preprocessed states that are not in the memory yet, by environment."""
        space = self.preprocessed_state_space
        return self._buffered(lambda record: space.unflatten(record.state))

    @property
    def actions_buffer(self) -> dict[str, list[Any]]:
        """Their actions."""
        return self._buffered(lambda record: self.action_space.unflatten(record.action))

    @property
    def internals_buffer(self) -> dict[str, list[Any]]:
        """Nothing: recurrent states are not learnt from."""
        return self._buffered(lambda record: [])

    @property
    def rewards_buffer(self) -> dict[str, list[float]]:
        """Their rewards."""
        return self._buffered(lambda record: record.reward)

    @property
    def next_states_buffer(self) -> dict[str, list[Any]]:
        """What followed."""
        space = self.preprocessed_state_space
        return self._buffered(lambda record: space.unflatten(record.next_state))

    @property
    def terminals_buffer(self) -> dict[str, list[bool]]:
        """Whether the episode ended."""
        return self._buffered(lambda record: record.terminal)

    def _buffered(self, part: Any) -> defaultdict[str, list[Any]]:
        found = {name: [part(record) for record in buffer.records] for name, buffer in self._buffers.items()}
        return defaultdict(list, found)


def _equal(first: Mapping[str, Array], second: Mapping[str, Array]) -> bool:
    return all((first[name] == part).all() for name, part in second.items())
