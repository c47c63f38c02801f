"""Attributes that an agent's parts share, and companions, which observe its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ....core.protocols import Array
from ..processing.parameters import Counts
from ..spaces.errors import TensorforceError, mapping, refuse_unknown
from .files import read_path
from .parallel import Parallel, Timestep

if TYPE_CHECKING:
    from ..processing.preprocessors import Preprocessing
    from ..spaces.readers import Converter, StateReader
    from ..spaces.specs import Values
    from .acting import Acting
    from .learner import Learner
    from .queries import Queries


class AgentCore:
    """An agent's attributes, for its parts; documented in :class:`.agent.Agent`."""

    kind: ClassVar[str] = "tensorforce"
    """The agent's key in ``Agent.create``."""
    arguments: dict[str, Any]
    states_values: Values
    actions_values: Values
    parallel_interactions: int
    max_episode_timesteps: int | None
    name: str
    timesteps = episodes = updates = 0
    acting: Acting
    learning: Learner | None
    preprocessing: Preprocessing
    independent_preprocessing: Preprocessing
    sees_states: bool
    """Is there no preprocessing of states and rewards?"""
    companions: list[Companion]
    queries: Queries
    read_states: StateReader
    actions_out: Converter
    internals: dict[str, Array]
    lanes: list[Parallel]
    fed: Parallel
    is_initialized = _closed = False

    @property
    def counts(self) -> Counts:
        """The agent's counts, for schedules."""
        return Counts(self.timesteps, self.episodes, self.updates)

    @property
    def executor(self) -> Any:
        """The model's executor; None for an agent without a model."""
        return None if self.learning is None else self.learning.stepper.executor

    def check_open(self, method: str) -> None:
        """Refuse a call if the agent is closed or not initialized."""
        if self._closed:
            raise TensorforceError(f"Agent.{method}: the agent is closed", method)
        if not self.is_initialized:
            raise TensorforceError(f"Agent.{method}: call initialize() first; Agent.create does it", method)


class Companion:
    """Observer of an agent's events; each method does nothing unless it is overridden."""

    def begin(self, agent: AgentCore) -> None:
        """The agent is initialized."""

    def acted(self, agent: AgentCore) -> None:
        """An act, other than an independent one, was counted."""

    def observed(self, agent: AgentCore, index: int, timestep: Timestep, terminal: int) -> None:
        """A timestep of a parallel index is complete; its episode continues (0), ended (1) or was aborted (2)."""

    def finished(self, agent: AgentCore, episode_reward: float) -> None:
        """An episode was counted; ``episode_reward`` is the sum of its rewards."""

    def updated(self, agent: AgentCore) -> None:
        """An update was counted."""

    def timestep_done(self, agent: AgentCore) -> None:
        """An observe of one index is complete, including its update."""

    def drop(self, index: int) -> None:
        """The unfinished episode of this index was dropped."""

    def close(self, agent: AgentCore) -> None:
        """The agent is closed."""


def read_keys(place: str, spec: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """A dictionary with a ``directory`` and some of these keys; underscores may replace hyphens.

    Raises:
        TensorforceError: it has another key, or no directory.
    """
    given = {key.replace("_", "-"): value for key, value in mapping(place, spec).items()}
    refuse_unknown(place, given, keys, what="key")
    return {**given, "directory": read_path(f"{place}['directory']", given.get("directory"))}
