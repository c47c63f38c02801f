"""Companions of an agent, which never change what it does: recorder, summarizer and saver."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ....core.protocols import Array
from ....run_dir.files import make_folders
from ..spaces.errors import TensorforceError, known, mapping, refuse
from .parallel import Parallel, Timestep

if TYPE_CHECKING:
    from ..processing.parameters import Counts
    from ..processing.preprocessors import Preprocessing
    from ..spaces.readers import Converter, StateReader
    from ..spaces.specs import Values
    from .acting import Acting
    from .learner import Learner
    from .queries import Queries


class Agent(Protocol):
    """Interface of an agent for its parts; :class:`.agent.Agent` documents it."""

    kind: ClassVar[str]
    arguments: dict[str, Any]
    states_values: Values
    actions_values: Values
    parallel_interactions: int
    max_episode_timesteps: int | None
    name: str
    timesteps: int
    episodes: int
    updates: int
    acting: Acting
    learning: Learner | None
    preprocessing: Preprocessing
    independent_preprocessing: Preprocessing
    sees_states: bool
    companions: list[Companion]
    queries: Queries
    read_states: StateReader
    actions_out: Converter
    internals: dict[str, Array]
    lanes: list[Parallel]
    fed: Parallel

    @property
    def counts(self) -> Counts:
        """Counts for schedules."""

    @property
    def executor(self) -> Any:
        """The model's executor."""

    def check_open(self, method: str) -> None:
        """Refuse a call of an agent that is closed or not initialized."""


class Companion:
    """Is told what happens; each method does nothing unless it is overridden."""

    def begin(self, agent: Agent) -> None:
        """The agent is initialized."""

    def acted(self, agent: Agent) -> None:
        """An act that an observe follows has been counted."""

    def observed(self, agent: Agent, index: int, timestep: Timestep, terminal: int) -> None:
        """A timestep of a parallel index is complete; its episode goes on (0), ended (1) or was aborted (2)."""

    def finished(self, agent: Agent, episode_reward: float) -> None:
        """An episode has been counted, whose rewards sum up to this."""

    def updated(self, agent: Agent) -> None:
        """An update has been counted."""

    def timestep_done(self, agent: Agent) -> None:
        """An observe of one index is done, with its update."""

    def drop(self, index: int) -> None:
        """The unfinished episode of this index is forgotten."""

    def close(self, agent: Agent) -> None:
        """The agent is closed."""


def read_keys(place: str, spec: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """A dictionary with some of these keys, whose hyphens may be written as underscores, and with a ``directory``.

    Raises:
        TensorforceError: another key, or no directory.
    """
    given = {key.replace("_", "-"): value for key, value in mapping(place, spec).items()}
    known(place, given, keys, what="key")
    return {**given, "directory": read_path(f"{place}['directory']", given.get("directory"))}


def read_path(place: str, given: Any) -> str:
    """A path as a string, as it was given; TensorforceError if it is none."""
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        refuse(place, f"must be a path, got {given!r}", given)
    return os.fspath(given)


def make_directory(place: str, given: Mapping[str, Any]) -> Path:
    """Create the directory of a specification, if it does not exist.

    Raises:
        TensorforceError: it cannot be created.
    """
    path = Path(given["directory"])
    try:
        make_folders(path)
    except OSError as error:
        problem = f"cannot be created: {path}: {error.strerror or error}"
        raise TensorforceError(f"{place}['directory'] {problem}", f"{place}['directory']", str(path)) from None
    return path


def not_writable(place: str, directory: Any, error: Exception) -> TensorforceError:
    """The error of a specification whose directory cannot be written to."""
    problem = getattr(error, "strerror", None) or error
    return TensorforceError(
        f"{place}: {directory} cannot be written to: {problem}", f"{place}['directory']", str(directory)
    )


def stamps() -> Iterator[str]:
    """The time, ``YYYYmmdd-HHMMSS``, then that of each following second: the first that makes a new name is taken."""
    now = datetime.datetime.now()
    for seconds in itertools.count():
        yield f"{now + datetime.timedelta(seconds=seconds):%Y%m%d-%H%M%S}"
